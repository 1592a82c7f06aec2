"""How the rounds of a session close: with their value, with time, or by default.

All kinds of closing answer the same calls. This module alone reads which kind a session has.
"""

from functools import lru_cache

import numpy as np

from lhb_engine.history import Floats, Ints, Measurements
from service.base.problems import Problem, ProblemCode
from service.rounds.reward import Reward
from service.session.records import SessionRow
from service.writer.unit_of_work import Spans


class Closing:
    """A round closes with its one value. Without a value it is no row of a fit."""

    # whether a window is complete when its rounds have their values; else only time closes it
    is_counted = True
    is_by_time = False  # whether time makes or changes rows of a fit, beside values
    completes = False  # whether time completes a window round by round
    adds_up = False  # whether a round has several values, which add up
    n_later = 0  # how many rounds after its own a row with a value stands, where time closes rounds

    def __init__(self, default: float | None = None) -> None:
        self.default = default  # what a closed round counts without a value; None: nothing

    def refuse(self, reward: Reward, prefix: str) -> None:
        """Raise a 422 if rounds take no such reward; the name of its field begins with `prefix`."""
        if reward.at is not None:
            detail = '"at" needs reward_mode "sum"; in "single" a reward names a round or a span'
            raise Problem(ProblemCode.AT_IN_SINGLE_MODE, detail, f"{prefix}at")

    def rows(self, measured: Measurements, first: int, closed: int) -> Measurements:
        """Return the rows of a fit, given the measurements: rounds first..closed are closed."""
        return measured

    def added(self, measured: Measurements) -> Measurements:
        """Return measurements, those of the same round as one."""
        return measured

    def takes(
        self, rounds: tuple[int, int], measured: bytearray, places: slice, totals: Spans[None]
    ) -> bool:
        """Mark the first to the last round as measured; return whether they still took a value.

        `measured` has a byte a round, at `places`; `totals` are of slots.
        """
        is_new = self.adds_up or 1 not in measured[places]
        measured[places] = b"\1" * (places.stop - places.start)
        return is_new


class ByTotal(Closing):
    """Totals may come for slots long past, so that no window is ever complete."""

    is_counted = False

    def refuse(self, reward: Reward, prefix: str) -> None:
        """Take every reward: the timeline refuses those that are no totals."""

    def takes(
        self, rounds: tuple[int, int], measured: bytearray, places: slice, totals: Spans[None]
    ) -> bool:
        """Mark slots, which may be many more than rounds."""
        is_new = totals.over(*rounds) is None
        totals.add(*rounds, None)
        return is_new


class ByDefault(Closing):
    """A round that time has closed without a value counts a default."""

    is_by_time, completes = True, True

    def rows(self, measured: Measurements, first: int, closed: int) -> Measurements:
        """Add a row with the default reward for every closed round that nothing measures.

        Measurements that cross an edge of the window are no rows of the fit, but their rounds are
        measured.
        """
        ends = np.zeros(max(0, closed - first + 1) + 1, int)  # n more are measured from here on
        for rounds, n in ((measured.first, 1), (measured.last + 1, -1)):
            np.add.at(ends, np.clip(rounds - first, 0, len(ends) - 1), n)
        absent = first + np.flatnonzero(np.cumsum(ends[:-1]) == 0)
        default = np.full(len(absent), self.default)
        pairs = (measured.first, absent), (measured.last, absent), (measured.value, default)
        starts, lasts, values = map(np.concatenate, pairs)
        return Measurements(starts, lasts, values).chosen(np.argsort(starts, kind="stable"))


class BySum(Closing):
    """A round counts the sum of its values once time has closed it; without any, its default."""

    is_counted, is_by_time, adds_up, n_later = False, True, True, 1

    def refuse(self, reward: Reward, prefix: str) -> None:
        """Refuse rewards of several rounds, and those that a retry would add twice."""
        if reward.reward_id is None:
            detail = (
                'in reward_mode "sum" a reward needs a reward_id: without '
                "one, a retry would be added twice"
            )
            raise Problem(ProblemCode.MISSING, detail, f"{prefix}reward_id")
        if reward.first_round is not None or reward.since is not None:
            detail = (
                'in reward_mode "sum" a reward belongs to one round; '
                'spans need reward_mode "single"'
            )
            field = "from" if reward.first_round is None else "first_round"
            raise Problem(ProblemCode.SPAN_IN_SUM_MODE, detail, f"{prefix}{field}")

    def rows(self, measured: Measurements, first: int, closed: int) -> Measurements:
        """Return one row for each closed round, with the sum of its values."""
        closed = max(first - 1, closed)
        rounds = np.arange(first, closed + 1)
        measured = measured.between(first, closed)
        sums = _sums(measured.first - first, measured.value, len(rounds), self.default)
        return Measurements.single(rounds, sums)

    def added(self, measured: Measurements) -> Measurements:
        """Return one measurement of each measured round."""
        rounds, places = np.unique(measured.first, return_inverse=True)
        return Measurements.single(rounds, _sums(places, measured.value, len(rounds)))


def _sums(places: Ints, values: Floats, n: int, none: float | None = None) -> Floats:
    """Return the sums of values by place, in their order; where there are none `none`, or 0."""
    return np.where(np.bincount(places, minlength=n), np.bincount(places, values, n), none or 0.0)


def closing_of(session: SessionRow) -> Closing:
    """Return the closing of a session's rounds."""
    return _closing(session.clock is not None, session.reward_mode, session.default_reward)


@lru_cache(maxsize=256)
def _closing(has_totals: bool, reward_mode: str, default: float | None) -> Closing:
    if has_totals:
        return ByTotal()
    if reward_mode == "sum":
        return BySum(default or 0.0)
    return Closing() if default is None else ByDefault(default)
