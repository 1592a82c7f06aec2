"""Products of two features, and squares, as further columns of contexts (docs/model.md (12.3))."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lhb_engine.history import Floats, History, Parts

Products = tuple[tuple[int, int], ...]  # pairs of features; of a square both are the same
MOST_PRODUCTS = 10  # that count beside the features
LARGEST = 1e100  # of a product that counts: its square has to be a number


def widened(contexts: Floats, products: Products) -> Floats:
    """Return contexts with the products after their features, (..., dim) -> (..., dim + n)."""
    if not products:
        return contexts
    one, other = np.array(products).T
    with np.errstate(over="ignore", invalid="ignore"):
        columns = contexts[..., one] * contexts[..., other]
    return np.concatenate([contexts, np.where(np.abs(columns) < LARGEST, columns, 0.0)], axis=-1)


def resized(columns: Any, at: int, n: int) -> Floats:
    """Return columns, (..., k), with n more at a place that are 0, or without -n from there."""
    if n < 0:
        return np.delete(columns, slice(at, at - n), axis=-1)
    return np.insert(columns, [at] * n, 0.0, axis=-1)


def with_products(history: History, products: Products) -> History:
    """Return a history whose contexts are `widened`."""
    if not products:
        return history
    parts = Parts.of(history.trajectories)
    before = parts.before_voids
    if before is not None:
        before = before._replace(contexts=widened(before.contexts[:, : history.dim], products))
    contexts = widened(parts.contexts[:, : history.dim], products)
    parts = replace(parts, contexts=contexts, before_voids=before)
    return replace(history, dim=history.dim + len(products), trajectories=parts)


def products_of(pairs: Sequence[Sequence[int]] | None) -> Products:
    """Return products from JSON, which may know of none."""
    return tuple((int(one), int(other)) for one, other in pairs or ())
