"""One step of summing a comparison: read the next rounds and rewards, and add them to the sums.

What a step reads is bounded, whatever the session has stored: the rounds after those that are in
the sums, the rewards after those, the rounds that these rewards name, and the totals of the units
that change.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from service.lift.exact import ONE, dumps, exact, loads, nearest
from service.lift.sums import GROUPS, NOTHING, LiftSums, Totals
from service.rounds.closing import closing_of
from service.session.records import LiftSumsRow, LiftUnitRow, PlayedRound, SessionRow, TrajectoryRow
from service.session.trial import Group, block_of, block_rounds
from service.storage.reader import MeasuredRow, Reader

STEP_ROUNDS, STEP_REWARDS = 2000, 1000
MOST_SPAN = 10_000  # rounds of a reward; a longer one is left out
Unit = tuple[str, str, int]  # group, trajectory, block


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
    row, trial = sums_in_force(reader, session), session.trial
    if row is not None:
        return row
    began = trial.since, trial.since, trial.since_reward
    return LiftSumsRow(*session.key, *began, LiftSums().dumps())


def sums_in_force(reader: Reader, session: SessionRow) -> LiftSumsRow | None:
    """Return the stored sums of the session's comparison, or None."""
    row = reader.lift_sums(session.key)
    return row if row is not None and row.since == session.trial.since else None


def lift_sums_without(
    reader: Reader, session: SessionRow, trajectory: TrajectoryRow
) -> list[LiftSumsRow]:
    """Return the stored sums of the session's comparison without a trajectory's units, if any."""
    row = sums_in_force(reader, session)
    if row is None:
        return []
    sums, units = LiftSums.loads(row.sums), units_of(reader, session, trajectory)
    for unit in units:
        sums.move(group_of(session, unit), totals_of(unit), NOTHING)
    return [row._replace(sums=sums.dumps())] if units else []


def units_of(reader: Reader, session: SessionRow, trajectory: TrajectoryRow) -> list[LiftUnitRow]:
    """Return the units of a trajectory that the session's comparison has summed."""
    name, n = trajectory.key, trajectory.n_rounds
    places = [(name, block) for block in range(block_of(name, n, session.horizon) + 1)]
    return [*reader.lift_units(session.key, session.trial.since, places).values()]


def group_of(session: SessionRow, unit: LiftUnitRow) -> Group:
    """Return the group that a unit falls to."""
    first = max(0, unit.block - 1) * block_rounds(session.horizon) + 1
    return session.trial.group(session.seed, unit.trajectory, first, session.horizon)


def next_step(reader: Reader, session: SessionRow) -> Step | None:
    """Read what came after the stored sums; None if nothing did.

    The session is as the reader sees it; no trajectory of it is being erased.
    """
    before = sums_so_far(reader, session)
    decided = min(session.n_rounds, before.decided + STEP_ROUNDS)
    measured = min(session.n_measurements, before.measured + STEP_REWARDS)
    if (decided, measured) == (before.decided, before.measured):
        return None
    adding = _Adding(session, before.since, LiftSums.loads(before.sums))
    if decided > before.decided:
        adding.add_rounds(reader.played(session.key, before.decided + 1, decided))
    if measured > before.measured:
        measured = _add_rewards(reader, session, adding, before.measured, measured)
    units = _move(reader, session, adding, before.since)
    return Step(before, adding.sums, decided, measured, units, session.n_erased_rounds)


def _add_rewards(
    reader: Reader, session: SessionRow, adding: "_Adding", after: int, until: int
) -> int:
    """Add the rewards at positions after..until, and return the position of the last one."""
    rows = sorted(reader.measurements_after(session.key, after, until), key=lambda row: row[4])
    taken: list[MeasuredRow] = []
    n_rounds = 0
    for row in rows:
        length = min(row[2] - row[1] + 1, MOST_SPAN)
        if taken and n_rounds + length > MOST_SPAN:
            break
        n_rounds += length
        taken.append(row)
    if len(taken) < len(rows):
        until = taken[-1][4]
    earlier = _replaced(reader, session, taken, until)
    ranges = sorted({row[:3] for row in taken if row[2] - row[1] < MOST_SPAN})
    played = reader.played_in(session.key, ranges, session.n_rounds)
    rounds = {(row.trajectory, row.round): row for row in played}
    for trajectory, first, last, value, position, replaces in taken:
        if last - first >= MOST_SPAN:
            adding.sums.n_left_out += replaces is None
            continue
        span = [rounds.get((trajectory, round)) for round in range(first, last + 1)]
        if replaces is None:
            adding.add_reward(value, span)
        else:
            adding.correct(exact(value) - exact(earlier[position]), span)
    return until


def _replaced(
    reader: Reader, session: SessionRow, rows: list[MeasuredRow], until: int
) -> dict[int, float]:
    """Return the value that each correction among these rows replaces, by its position."""
    ranges = sorted({(row[0], row[1], row[1]) for row in rows if row[5] is not None})
    if not ranges:
        return {}
    measured = sorted(reader.measurements_in(session.key, ranges, until), key=lambda row: row[4])
    in_force: dict[int, float] = {}
    replaced = {}
    for *_, value, position, replaces in measured:
        if replaces is not None:
            replaced[position] = in_force[replaces]
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
        self.changes: defaultdict[Unit, Totals] = defaultdict(lambda: NOTHING)
        self._since, self._horizon = since, session.horizon
        closing = closing_of(session)
        self._counts_all = closing.is_by_time
        self._default = exact(closing.default or 0.0)

    def add_rounds(self, rows: Iterable[PlayedRound]) -> None:
        """Add decisions."""
        for row in rows:
            if row.position <= self._since:
                continue
            self._add_shadow(row)
            if self._counts_all:
                self._add_round(row, 1)

    def add_reward(self, value: float, span: list[PlayedRound | None]) -> None:
        """Add a reward over some rounds; it needs one unit to belong to."""
        units = {None if row is None else self._unit(row) for row in span}
        unit = units.pop()
        if not units and unit is not None:
            reward = exact(value)
            for row in span:
                assert row is not None
                if self._counts_all:
                    reward -= self._default
                else:
                    self._add(unit, (ONE, 0, _predicted(row)))
            self._add(unit, (0, reward, 0))
        elif units:
            self.sums.n_left_out += 1
            for row in span if self._counts_all else ():
                if row is not None:
                    self._add_round(row, -1)

    def correct(self, more: int, span: list[PlayedRound | None]) -> None:
        """Add what a correction changes of a reward that was added before."""
        units = {None if row is None else self._unit(row) for row in span}
        unit = units.pop()
        if not units and unit is not None:
            self._add(unit, (0, more, 0))

    def _unit(self, row: PlayedRound) -> Unit | None:
        """Return the unit that a round counts in.

        None: it is nobody's, or one in which rewards of the block before are still mixed.
        """
        if row.played_by not in GROUPS or row.position <= self._since:
            return None
        block = block_of(row.trajectory, row.round, self._horizon)
        if block and (row.round - 1) % block_rounds(self._horizon) < self._horizon - 1:
            return None
        return row.played_by, row.trajectory, block

    def _add_round(self, row: PlayedRound, times: int) -> None:
        unit = self._unit(row)
        if unit is not None:
            self._add(unit, (times * ONE, times * self._default, times * _predicted(row)))

    def _add(self, unit: Unit, more: Totals) -> None:
        self.changes[unit] = _sum(self.changes[unit], more)

    def _add_shadow(self, row: PlayedRound) -> None:
        if row.played_by != "caller" or row.n_bytes < 16:  # no choice of several arms
            return
        shadow = self.sums.shadow
        shadow.n_rounds += 1
        shadow.n_agree += bool(row.agrees)
        if row.model_version:
            shadow.n_scored += 1
            shadow.score += _mean(row.score)
            shadow.agent_score += _mean(row.agent_score)


def _predicted(row: PlayedRound) -> int:
    """Return the mean score of a round's arms, which depends on no choice of this round."""
    return exact(_mean(row.first_scores)) if row.model_version else 0


def _sum(one: Totals, other: Totals) -> Totals:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def totals_of(row: LiftUnitRow) -> Totals:
    """Return the totals of a stored unit."""
    return exact(row.rounds), loads(row.reward), loads(row.predicted)


def _mean(scores: bytes | None) -> float:
    return float(np.frombuffer(scores).mean()) if scores else 0.0


def _move(reader: Reader, session: SessionRow, adding: _Adding, since: int) -> list[LiftUnitRow]:
    """Add the changes to the totals of their units, and return the units' rows."""
    places = sorted({(trajectory, block) for _, trajectory, block in adding.changes})
    stored = reader.lift_units(session.key, since, places) if places else {}
    rows = []
    for (group, trajectory, block), change in adding.changes.items():
        row = stored.get((trajectory, block))
        before = NOTHING if row is None else totals_of(row)
        after = _sum(before, change)
        adding.sums.move(group, before, after)
        place = (*session.key, since, trajectory, block)
        rounds, reward, predicted = after
        rows.append(LiftUnitRow(*place, nearest(rounds), dumps(reward), dumps(predicted)))
    return rows
