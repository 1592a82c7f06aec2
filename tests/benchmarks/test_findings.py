"""Worlds of which sessions are told less than what choices earned: the finding says which is so."""

import pytest

from benchmarks.findings import MATTERS, play

pytestmark = pytest.mark.slow
LOST = ("unanswered", "limited", "leave", "tires", "reward known before")


@pytest.mark.parametrize("name", LOST)
def test_what_is_lost_is_found(name: str) -> None:
    [(code, world)] = [one for one in MATTERS if one[1].name == name]
    assert code in play(world, 731001)[0]
