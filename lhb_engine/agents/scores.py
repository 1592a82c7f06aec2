"""Scores of arms, and the best of them."""

from collections.abc import Sequence
from math import isfinite

import numpy as np

from lhb_engine.history import Floats


def scores_of(contexts: Floats, theta: Floats) -> Floats:
    """Return <x, theta> of every arm, (..., K, dim) -> (..., K).

    The order of additions depends on `dim` alone, so that equal arms get equal scores in a batch of
    any shape and memory layout. BLAS and einsum do not promise that; numpy's pairwise sum along a
    C-ordered array does.
    """
    return np.asarray(np.add.reduce(np.multiply(contexts, theta, order="C"), axis=-1))


def best_arms(scores: Floats) -> Sequence[int]:
    """Return the arms of the highest of (K,) scores, in ascending order.

    It works on a list, which is faster than numpy for few arms.
    """
    values: list[float] = scores.tolist()
    highest = max(values)
    n_best = values.count(highest)
    if n_best == 1:
        return (values.index(highest),)
    if n_best == len(values):
        return range(n_best)
    return [arm for arm, score in enumerate(values) if score == highest]


def is_finite(x: Floats) -> bool:
    """Whether all numbers are finite; a finite sum of squares shows it in a single pass."""
    flat = x.ravel()
    return isfinite(flat.dot(flat)) or bool(np.isfinite(x).all())
