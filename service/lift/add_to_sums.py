"""One step of summing a comparison: read the next rounds and rewards, and add them to the sums.

What a step reads is bounded, whatever the session has stored: the rounds after those that are in
the sums, the rewards after those, the rounds that these rewards name, and the totals of the units
that change.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from service.lift.exact import ONE, dumps, exact, loads, nearest
from service.lift.sums import GROUPS, NO_ROW, NOTHING, LiftSums, Totals, row_of
from service.lift.units import MOST_SPAN, PAST, Counted, Unit, Units, mean_score
from service.rounds.closing import closing_of
from service.rounds.timeline import timeline_of
from service.session.records import LiftSumsRow, LiftUnitRow, PlayedRound, SessionRow, TrajectoryRow
from service.session.trial import Group, block_of, block_rounds
from service.storage.reader import MeasuredRow, Reader


@dataclass(frozen=True, slots=True)
class Step:
    """What one step found."""

    before: LiftSumsRow  # the sums that it goes on from
    sums: LiftSums  # the new sums
    # decided, measured: positions of the last round and the last reward in them
    decided: int
    measured: int
    units: list[LiftUnitRow]  # the units that changed
    n_erased: int  # of the session's rounds, when they were read


def sums_so_far(reader: Reader, session: SessionRow) -> LiftSumsRow:
    """Return the stored sums of the session's comparison; if there are none, new ones."""
    row = sums_in_force(reader, session)
    if row is None:  # of dropped rows nobody knows who played them
        sums = LiftSums(past_to=0 if session.dropped_to else None)
        done = session.trial.summed(session.n_rounds, session.n_measurements)
        row = LiftSumsRow(*session.key, session.trial.since, *done, sums.dumps())
    return row


def sums_in_force(reader: Reader, session: SessionRow) -> LiftSumsRow | None:
    """Return the stored sums of the session's comparison, or None.

    A new comparison goes on where the one before was, for its units have the same past.
    """
    row, since = reader.lift_sums(session.key), session.trial.since
    if row is None or row.since == since:
        return row
    sums = LiftSums(past_to=LiftSums.loads(row.sums).past_to)
    return row._replace(since=since, sums=sums.dumps())


def lift_sums_without(
    reader: Reader, session: SessionRow, trajectory: TrajectoryRow
) -> list[LiftSumsRow]:
    """Return the stored sums of the session's comparison without a trajectory's units, if any."""
    row = sums_in_force(reader, session)
    if row is None:
        return []
    sums, past = LiftSums.loads(row.sums), NOTHING
    units = units_of(reader, session, trajectory)
    for unit in units:
        if unit.block == PAST:
            past = totals_of(unit)
        else:
            sums.move(group_of(session, unit), row_of(totals_of(unit), past), NO_ROW)
    return [row._replace(sums=sums.dumps())] if units else []


def units_of(reader: Reader, session: SessionRow, trajectory: TrajectoryRow) -> list[LiftUnitRow]:
    """Return the units of a trajectory that the session's comparison has summed, its past first."""
    name, n = trajectory.key, timeline_of(session).n_begun_of(session, trajectory.n_rounds)
    places = [(name, block) for block in range(block_of(name, n, session.horizon) + 1)]
    past = reader.lift_units(session.key, 0, [(name, PAST)]) if name else {}
    return [*past.values(), *reader.lift_units(session.key, session.trial.since, places).values()]


def group_of(session: SessionRow, unit: LiftUnitRow) -> Group:
    """Return the group that a unit falls to."""
    first = max(0, unit.block - 1) * block_rounds(session.horizon) + 1
    return session.trial.group(session.seed, unit.trajectory, first, session.horizon)


def next_step(
    reader: Reader, session: SessionRow, n_rounds: int = 2000, n_rewards: int = 1000
) -> Step | None:
    """Read so much, at most, of what came after the stored sums; None if nothing did.

    The session is as the reader sees it; no trajectory of it is being erased.
    """
    before = sums_so_far(reader, session)
    decided = min(session.n_rounds, before.decided + n_rounds)
    measured = min(session.n_measurements, before.measured + n_rewards)
    if (decided, measured) == (before.decided, before.measured):
        return None
    adding = _Adding(session, before.since, LiftSums.loads(before.sums))
    if decided > before.decided:
        adding.add_rounds(reader.played(session.key, before.decided + 1, decided))
    if adding.sums.past_to is None and decided < session.n_rounds:
        measured = before.measured  # where the past ends decides in which unit a round counts
    if measured > before.measured:
        measured = _add_rewards(reader, session, adding, before.measured, measured)
    units = _move(reader, session, adding, before.since)
    return Step(before, adding.sums, decided, measured, units, session.n_erased_rounds)


def _add_rewards(
    reader: Reader, session: SessionRow, adding: "_Adding", after: int, until: int
) -> int:
    """Add the rewards at positions after..until, and return the position of the last one."""
    rows = sorted(reader.measurements_after(session.key, after, until), key=lambda row: row[4])
    taken, n_rounds = list[MeasuredRow](), 0
    for row in rows:
        length = min(row[2] - row[1] + 1, MOST_SPAN)
        if taken and n_rounds + length > MOST_SPAN:
            break
        n_rounds += length
        taken.append(row)
    until = taken[-1][4] if len(taken) < len(rows) else until
    earlier = _replaced(reader, session, taken, until)
    span_of = adding.units.spans(reader, taken)
    for trajectory, first, last, value, position, replaces, _ in taken:
        if last - first >= MOST_SPAN:
            adding.sums.n_left_out += replaces is None
            continue
        span = span_of(trajectory, first, last)
        if position in earlier:
            adding.correct(exact(value) - exact(earlier[position]), span)
        else:
            adding.add_reward(value, span)
    return until


def _replaced(
    reader: Reader, session: SessionRow, rows: list[MeasuredRow], until: int
) -> dict[int, float]:
    """Return the value that each correction among these rows replaces, by its position.

    A value that is added to its round's replaces 0: the first one has taken the default's place.
    """
    closing, begun = closing_of(session), set[Unit]()
    adds_up = closing.adds_up and closing.default
    ranges = sorted({(row[0], row[1], row[1]) for row in rows if adds_up or row[5] is not None})
    if not ranges:
        return {}
    measured = sorted(reader.measurements_in(session.key, ranges, until), key=lambda row: row[4])
    in_force, replaced = dict[int, float](), dict[int, float]()
    for name, round, _, value, position, replaces, _ in measured:
        if replaces is not None:
            replaced[position] = in_force[replaces]
        elif adds_up and (name, round) in begun:
            replaced[position] = 0.0
        begun.add((name, round))
        in_force[position if replaces is None else replaces] = value
    return replaced


class _Adding:
    """The changes of a step.

    In a session where a round counts with or without a reward, it counts from its decision on, as
    the default reward; a reward then adds what it is beyond that. Elsewhere a round counts when it
    is measured.
    """

    def __init__(self, session: SessionRow, since: int, sums: LiftSums) -> None:
        self.sums = sums
        self.units = Units(session, since, sums)
        self.changes: defaultdict[Unit, Totals] = defaultdict(lambda: NOTHING)
        self._since = since
        closing = closing_of(session)
        self._counts_all = closing.is_by_time
        self._default = exact(closing.default or 0.0)

    def add_rounds(self, rows: Iterable[PlayedRound]) -> None:
        """Add decisions."""
        for row in rows:
            if self.sums.past_to is None and row.played_by in GROUPS:
                self.sums.past_to = row.position - 1
            if self._counts_all:
                self._add_round(self.units.of_round(row), 1)
            if row.position <= self._since or row.played_by != "caller" or row.n_bytes < 16:
                continue  # no choice of several arms by a caller
            shadow = self.sums.shadow
            shadow.n_rounds += 1
            shadow.n_agree += bool(row.agrees)
            if row.model_version:
                shadow.n_scored += 1
                shadow.score += mean_score(row.score)
                shadow.agent_score += mean_score(row.agent_score)

    def add_reward(self, value: float, span: list[Counted | None]) -> None:
        """Add a reward over some rounds; it needs one unit to belong to."""
        units = {None if one is None else one.unit for one in span}
        unit = units.pop()
        if not units and unit is not None:
            reward = exact(value)
            for one in span:
                assert one is not None
                if self._counts_all:
                    reward -= self._default
                else:
                    self._add(unit, (ONE, 0, one.predicted))
            self._add(unit, (0, reward, 0))
        elif units:
            self.sums.n_left_out += any(one is not None and one.unit[1] != PAST for one in span)
            for one in span if self._counts_all else ():
                self._add_round(one, -1)

    def correct(self, more: int, span: list[Counted | None]) -> None:
        """Add what a correction changes of a reward that was added before."""
        units = {None if one is None else one.unit for one in span}
        unit = units.pop()
        if not units and unit is not None:
            self._add(unit, (0, more, 0))

    def _add_round(self, one: Counted | None, times: int) -> None:
        if one is not None:
            self._add(one.unit, (times * ONE, times * self._default, times * one.predicted))

    def _add(self, unit: Unit, more: Totals) -> None:
        self.changes[unit] = _sum(self.changes[unit], more)


def _sum(one: Totals, other: Totals) -> Totals:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def totals_of(row: LiftUnitRow | None) -> Totals:
    """Return the totals of a stored unit; nothing of one that is not stored."""
    return NOTHING if row is None else (exact(row.rounds), loads(row.reward), loads(row.predicted))


def _move(reader: Reader, session: SessionRow, adding: _Adding, since: int) -> list[LiftUnitRow]:
    """Add the changes to the totals of their units, and return the units' rows.

    What changes of a trajectory's past changes the row of its unit.
    """
    changes, sums = adding.changes, adding.sums
    # a change of the past changes the whole trajectory's row
    changed = sorted({(name, max(block, 0)) for name, block in changes})
    named = [name for name, _ in changed if name]
    pasts = [(name, PAST) for name in named] if sums.past_to != 0 else []
    stored = reader.lift_units(session.key, since, changed) if changed else {}
    if pasts:  # a past is the same in every comparison
        stored |= reader.lift_units(session.key, 0, pasts)
    old = {unit: totals_of(stored.get(unit)) for unit in (*changed, *pasts)}
    new = {unit: _sum(old[unit], changes.get(unit, NOTHING)) for unit in old}
    rows = []
    for unit in new:
        rounds, reward, predicted = new[unit]
        place = (*session.key, 0 if unit[1] == PAST else since, *unit)
        row = LiftUnitRow(*place, nearest(rounds), dumps(reward), dumps(predicted))
        if unit in changes:
            rows.append(row)
        if unit[1] != PAST:
            past = (unit[0], PAST)
            before, after = (row_of(one[unit], one.get(past, NOTHING)) for one in (old, new))
            sums.move(group_of(session, row), before, after)
    return rows
