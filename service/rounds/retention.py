"""Retention: which old rounds of a session no coming fit needs, so that their rows may go.

A fit of `anytime` goes on from sums, and reads the rows after them. Where it looks back on the last
rounds alone, and by another algorithm, a fit reads the rounds of its window, and no sums. What a
session gives up is one position, `dropped_to`: rounds up to it take no rewards any more. The rows
of a round go when that holds, too, for the round `Timeline.n_before` rounds later in its
trajectory, so that every later row finds its lags and those of its pair, and the rows of its level.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from lhb_engine.history import FitWindow
from service.base.problems import Problem, ProblemCode
from service.rounds.closing import closing_of
from service.rounds.stored_rows import n_named
from service.session.fit_schedule import DueFit, Watermark
from service.session.records import DecisionRow, KeptSumsRow, SessionRow, TrajectoryRow
from service.session.rules import has_only_sums, looks_back
from service.storage.reader import FOR_EVER, Reader, SumsPlace


def rounds_left(reader: Reader, session: SessionRow, trajectory: TrajectoryRow) -> int:
    """Return how many rounds of a trajectory have rows."""
    if not session.dropped_to:
        return trajectory.n_rounds
    first = reader.first_left((*session.key, trajectory.key))
    return 0 if first is None else trajectory.n_rounds - first + 1


def measurements_left(reader: Reader, session: SessionRow, trajectory: TrajectoryRow) -> int:
    """Return how many measurements of a trajectory have rows."""
    if not session.dropped_to:
        return trajectory.n_measurements
    return sum(1 for _ in reader.measurement_log((*session.key, trajectory.key)))


class Plan(NamedTuple):
    """What may be given up, up to position `dropped_to`, and what it was worked out from.

    `measured` is that of the kept sums, 0 where fits need none; rows whose positions are after
    `known` are not looked at yet.
    """

    dropped_to: int
    measured: int
    known: int


def rounds_in_sums(
    reader: Reader, session: SessionRow, to: int, until: float, now: float
) -> Plan | None:
    """Return what may be given up of rounds up to position `to` that were taken by a time."""
    place = None
    if looks_back(session) is None:
        place = reader.sums_place(session.key)
        if place is None or place.estimate != session.estimate:
            return None
    n, latest = session.n_rounds, session.kind.sizes.latest
    at, lift = times_of(reader, session), in_lift(reader, session)
    to = min(to, _before_windows(reader, session) if place is None else place.last_round - latest)
    to = last_before(at, until, session.dropped_to, to)
    n_settled, is_by_time = FOR_EVER, closing_of(session).is_by_time
    if place is not None:
        n_settled = place.n_settled
        if is_by_time:  # a fit looks at the latest closed ones
            closed_at = now - session.reward_wait_seconds
            to = min(to, last_before(at, closed_at, session.dropped_to, n) - latest)
    to = min(to, n_settled, _oldest(reader, session, n_settled, lift) - 1)
    known = n if is_by_time else session.n_measurements
    return Plan(to, 0 if place is None else place.measured, known)


def count_complete(reader: Reader, session: SessionRow, windows: list[FitWindow]) -> list[int]:
    """Return how many rounds of each window are measured, dropped ones included, or erased.

    Windows overlap. Each stretch between two of their edges is counted once, by one statement.
    """
    key, n_measured, n_left = session.key, {}, {}
    edges = sorted({edge for window in windows for edge in (window.first, window.last + 1)})
    for first, following in pairwise(edges):
        n_measured[first] = reader.count_measured(key, first, following - 1)
        if session.n_erased_rounds:
            n_left[first] = reader.count_rounds(key, first, following - 1)
    counts = []
    for window in windows:
        within = [edge for edge in edges if window.first <= edge <= window.last]
        n_gone = session.n_complete_gone(window, sum(n_left.get(edge, 0) for edge in within))
        counts.append(n_gone + sum(n_measured[edge] for edge in within))
    return counts


def _before_windows(reader: Reader, session: SessionRow) -> int:
    """Return the position of the last round that no coming fit uses, where fits have windows.

    Where somebody is erased, the last fit of an epoch is made again.
    """
    schedule, back, last = session.schedule, looks_back(session), None
    windows = [due.window for due in (schedule.current, *schedule.waiting) if due is not None]
    windows += [one.window for one in schedule.open]
    if not back:
        last = reader.installed(session)
    if last is not None:
        windows.append(DueFit.from_json({**last.inputs, "retry_at": None}).window)
    first = session.n_rounds - (back or 0) + 1
    return min([first, *(window.first for window in windows)]) - 1


def is_busy(session: SessionRow) -> bool:
    """Return whether a large write has the session's rows."""
    return session.append_token is not None or session.erasing is not None


def are_in_sums(reader: Reader, session: SessionRow, found: Plan, now: float) -> bool:
    """Return whether the next fit still goes on from the sums, without the rows of a plan."""
    key, known = session.key, FOR_EVER
    if looks_back(session) is not None:
        if found.dropped_to > _before_windows(reader, session):
            return False
    else:
        known, place = found.known, reader.sums_place(key)
        if place is None or (place.estimate, place.measured) != (session.estimate, found.measured):
            return False
        if reader.voids(key, place.measured, FOR_EVER) or _changed(reader, session, place, now):
            return False
    return _oldest(reader, session, known, in_lift(reader, session)) > found.dropped_to


def _changed(reader: Reader, session: SessionRow, place: SumsPlace, now: float) -> bool:
    """Return whether a row changed that the next fit takes from sums, or one that is under way."""
    if closing_of(session).is_by_time:
        if reader.late_rounds(session.key, place.n_settled, FOR_EVER, FOR_EVER):
            return True
        mark = Watermark(FOR_EVER, FOR_EVER, now - session.reward_wait_seconds)
        to = session.n_rounds - session.kind.sizes.latest
        return changed_in_time(reader, session, place, mark, to)
    replaced = reader.first_replaced(session.key, place.n_settled, FOR_EVER)
    return replaced is not None and replaced <= session.schedule.seen


def changed_in_time(
    reader: Reader, session: SessionRow, since: SumsPlace | KeptSumsRow, mark: Watermark, to: int
) -> bool:
    """Return whether rows up to position `to`, of rounds that time closes, changed since a fit.

    By a value that is none of `late_place`, or a longer wait for rewards.
    """
    closed = since.n_settled and times_of(reader, session)(since.n_settled)
    if closed is None or closed > mark.closed_at:
        return True
    place = session.key, since.measured, mark.measured
    oldest = reader.oldest_measured(*place, closing_of(session).n_later, late=False)
    return oldest is not None and oldest <= to


def _oldest(reader: Reader, session: SessionRow, after: int, lift: Watermark) -> int:
    """Return the least position of a round whose row, or value for lift, is after another."""
    positions = []
    if closing_of(session).is_by_time and after < FOR_EVER:
        positions.append(reader.oldest_open(session.key, after + 1, session.n_rounds))
        after = FOR_EVER
    after = min(after, lift.measured)
    if after < FOR_EVER:
        positions.append(reader.oldest_measured(session.key, after, FOR_EVER))
    return min((one for one in positions if one is not None), default=FOR_EVER)


def in_lift(reader: Reader, session: SessionRow) -> Watermark:
    """Return up to where rounds and rewards are in the sums of lift; all, without a comparison."""
    row = reader.lift_sums(session.key)
    if row is None:
        return Watermark(*session.trial.summed(FOR_EVER, FOR_EVER))
    return Watermark(row.measured, row.decided)


def times_of(reader: Reader, session: SessionRow) -> Callable[[int], float | None]:
    """Return a function from a position to the time of a decision at it or soon after."""
    if session.is_one_sequence:
        [alone] = reader.trajectories(session.key)
        key = (*session.key, alone.key)
        return lambda position: reader.time_of_round(key, position)
    n = n_named(reader, session)
    return lambda position: reader.began_from(session.key, position, n)


def last_before(at: Callable[[int], float | None], until: float, low: int, high: int) -> int:
    """Return the last position from `low` to `high` whose decision was taken by a time.

    `low` counts as such. Times do not fall with positions.
    """
    while low < high:
        middle = (low + high + 1) // 2
        time = at(middle)
        low, high = (middle, high) if time is not None and time <= until else (low, middle - 1)
    return low


def refuse_dropped(session: SessionRow, position: int | None, rounds: str, field: str) -> None:
    """Raise a 409 if a round, whose position is None if its row is gone, is given up.

    `rounds` names the round, in a `field`.
    """
    if session.dropped_to and (position is None or position <= session.dropped_to):
        detail = (
            f"{rounds} is dropped: the session keeps rounds after position {session.dropped_to}, "
            "and what was learned from the others"
        )
        raise Problem(ProblemCode.ROUND_DROPPED, detail, field)


def is_latest(session: SessionRow, n_rounds: int, position: int) -> bool:
    """Return whether a position is one of the latest of so many, of which no row is settled."""
    return position > n_rounds - session.kind.sizes.latest


def is_in_sums(session: SessionRow, row: DecisionRow | None, now: float) -> bool:
    """Return whether nothing may change what sums have of the round that stands at a decision.

    That is of rounds that time closes, in a session without the rows of sums.
    """
    closing = closing_of(session)
    if row is None or not closing.is_by_time or not has_only_sums(session):
        return False
    is_closed = row.at <= now - session.reward_wait_seconds
    return is_closed and not is_latest(session, session.n_rounds, row.position)
