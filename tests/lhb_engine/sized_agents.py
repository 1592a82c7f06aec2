"""Agents of a kind of their own, as whose fits cut a long past into other sizes."""

from typing import Any

import pytest

from lhb_engine.agents import ALGORITHMS


def have_sizes(patch: pytest.MonkeyPatch, **sizes: Any) -> None:
    """Register agents with other `PastSizes`, one for each algorithm."""
    for name, kind in ALGORITHMS.items():
        register(patch, name, sizes=kind.sizes._replace(**sizes))


def register(patch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """Register an agent with other members."""
    kind = ALGORITHMS[name]
    patch.setitem(ALGORITHMS, name, type(kind.__name__, (kind,), members))
