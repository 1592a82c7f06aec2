"""Which unit of a comparison a value belongs to: that of its rounds, or of its slots of time."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from service.lift.exact import exact
from service.lift.sums import GROUPS, LiftSums
from service.rounds.timeline import in_rounds, timeline_of
from service.session.records import PlayedRound, SessionRow
from service.session.trial import block_of, block_rounds, is_mixed
from service.storage.reader import MeasuredRow, Reader

PAST = -1  # the block of what a trajectory earned before anybody played for a group
TRAJECTORIES = "trajectories"
MOST_SPAN = 10_000  # rounds of a reward; a longer one is left out
Unit = tuple[str, int]  # trajectory, block


class Counted(NamedTuple):
    """A round that counts: its unit, and the mean score of its arms."""

    unit: Unit
    predicted: int = 0


Span = Callable[[str, int, int], list[Counted | None]]


class Units:
    """A round counts in its trajectory, one of the default trajectory in its block of rounds.

    So does a slot of time; where totals are of all trajectories, these are the default one.
    """

    def __init__(self, session: SessionRow, since: int, sums: LiftSums) -> None:
        self._session, self._since, self._sums = session, since, sums

    def of_round(self, row: PlayedRound) -> Counted | None:
        """Return how a round counts.

        None: it is nobody's, or one in which rewards of the block before are still mixed.
        """
        horizon, past_to = self._session.horizon, self._sums.past_to
        if row.played_by not in GROUPS:
            is_past = bool(row.trajectory) and (past_to is None or row.position <= past_to)
            return Counted((row.trajectory, PAST)) if is_past else None
        block = block_of(row.trajectory, row.round, horizon)
        if row.position <= self._since or (block and is_mixed(row.round, horizon)):
            return None
        # the mean score of the round's arms depends on no choice of this round
        scored = exact(mean_score(row.first_scores)) if row.model_version else 0
        return Counted((row.trajectory, block), scored)

    def spans(self, reader: Reader, rewards: Iterable[MeasuredRow]) -> Span:
        """Return how the rounds of a reward count, each; of long ones nothing is known."""
        ranges = sorted({row[:3] for row in rewards if row[2] - row[1] < MOST_SPAN})
        played = timeline_of(self._session).played(reader, self._session, ranges)
        rounds = {(row.trajectory, row.round): self.of_round(row) for row in played}
        return lambda name, first, last: [
            rounds.get((name, round)) for round in range(first, last + 1)
        ]


def units_in_words(session: SessionRow) -> str:
    """Return what the units of a comparison are."""
    if not timeline_of(session).is_one(session):
        return TRAJECTORIES
    return in_rounds(session, f"blocks of {block_rounds(session.horizon)} rounds")


def mean_score(scores: bytes | None) -> float:
    """Return the mean of stored scores, 0 without any."""
    return float(np.frombuffer(scores).mean()) if scores else 0.0
