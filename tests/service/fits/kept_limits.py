"""Sizes of kept sums that are small enough for a test."""

from typing import Any

import pytest

from tests.lhb_engine.sized_agents import have_sizes


def keep_sums_from(patch: pytest.MonkeyPatch, latest: int, grain: int = 16, **sizes: Any) -> None:
    """Fits go on from sums where there are more than `latest` rounds or slots."""
    have_sizes(patch, latest=latest, most_read=2, grain=grain, **sizes)
