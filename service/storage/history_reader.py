"""The reads of a fit and of what shows a window of rounds, the same for every SQL database."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from service.session.records import (
    KeptSumsRow,
    SessionKey,
    TrajectoryKey,
    TrajectoryRow,
    VoidRow,
)
from service.session.slot_records import SlotSumsRow
from service.session.trial_records import LiftSumsRow, LiftUnitRow, PlayedRound

Range = tuple[str, int, int]  # a trajectory, and its first and last round
# trajectory, first and last round, value, position, and of a correction the first value's position
MeasuredRow = tuple[str, int, int, float, int, int | None]


class SumsPlace(NamedTuple):
    """What kept sums are of: see `KeptSumsRow`."""

    estimate: int
    first_round: int
    last_round: int
    n_settled: int
    measured: int


class HistoryReader(ABC):
    """The part of a `Reader` that reads many rounds at once."""

    @abstractmethod
    def _all(self, name: str, *values: Any) -> list[Any]:
        """Return all rows of a named statement."""

    @abstractmethod
    def _each(self, name: str, *values: Any) -> Iterator[Any]:
        """Iterate over the rows of a named statement without holding them all in memory."""

    def _one(self, name: str, *values: Any) -> Any:
        rows = self._all(name, *values)
        return rows[0] if rows else None

    def trajectories_from(self, key: SessionKey, first: str, limit: int) -> list[TrajectoryRow]:
        """Return at most `limit` trajectories, in key order, from the key `first` on."""
        return [TrajectoryRow(*row) for row in self._all("trajectories_from", *key, first, limit)]

    def _window(self, name: str, key: SessionKey, first: int, last: int, *more: Any) -> Any:
        """Return a statement of a window with its values: that for one trajectory, or for many."""
        trajectories = self._all("alone", *key)
        if len(trajectories) == 1:
            return f"alone_{name}", *key, first, last, *more, trajectories[0][0]
        return f"window_{name}", *key, first, last, *more

    def window_rounds(
        self, key: SessionKey, first: int, last: int, n_before: int
    ) -> Iterator[tuple[str, int, int, bytes]]:
        """Iterate over the decisions at positions first..last, with `n_before` rounds before them.

        Yields
        ------
        trajectory, round, position, selected context (bytes)
            In order of trajectory and round.
        """
        if first <= 1:
            return self._each("rounds_until", *key, last)
        return self._each(*self._window("rounds", key, first, last, n_before))

    def timed_decisions(
        self, key: SessionKey, after: int, decided: int, unnamed_after: int
    ) -> Iterator[tuple[str, int, int, float, bytes]]:
        """Iterate over the decisions with positions `after` + 1 to `decided`.

        Those of the default trajectory are in rounds after one, `unnamed_after` says which.

        Yields
        ------
        trajectory, round, position, time, selected context (bytes)
            In order of trajectory and round.
        """
        return self._each("timed_decisions", *key, after, decided, unnamed_after)

    def unnamed_after(self, key: SessionKey, position: int, n_named: int) -> int:
        """Return a round of the default trajectory after which all later ones are.

        They are those with positions after one. `n_named` rounds are of trajectories with a key, or
        erased.
        """
        row = self._one("unnamed_after", *key, position, n_named)
        return position if row is None else int(row[0]) - 1

    def last_slot_sums(self, key: SessionKey, until: int) -> SlotSumsRow | None:
        """Return the default trajectory's last summed slots up to a slot; None: there are none."""
        row = self._one("last_slot_sums", *key, until)
        return None if row is None else SlotSumsRow(*row)

    def slot_sums_in(
        self, key: SessionKey, ranges: list[Range], until: int
    ) -> Iterator[SlotSumsRow]:
        """Iterate over summed slots whose last one is in ranges, and not after a slot."""
        rows = self._each("slot_sums_in", *key, json.dumps(ranges), until)
        return (SlotSumsRow(*row) for row in rows)

    def window_measurements(
        self, key: SessionKey, first: int, last: int, n_before: int, known: int
    ) -> Iterator[MeasuredRow]:
        """Iterate over the measurements that begin in the rounds of `window_rounds`.

        Those with positions beyond `known` are left out. There may be others around these rounds:
        of each trajectory the measurement before, which may reach into them, and those after a
        window that begins with the session.

        Yields
        ------
        MeasuredRow
            In order of trajectory and round; a row, and those that replace it, have one round.
        """
        if first <= 1:
            return self._each("measurements_until", *key, known)
        return self._each(*self._window("measurements", key, first, last, n_before, known))

    def window_spans(self, key: SessionKey, first: int, last: int) -> list[Range]:
        """Return the first and the last round of each trajectory at positions first..last."""
        return [tuple(row) for row in self._all(*self._window("spans", key, first, last))]

    def measurements_after(
        self, key: SessionKey, position: int, known: int
    ) -> Iterator[MeasuredRow]:
        """Iterate over the measurements with positions from `position` + 1 to `known`.

        What is yielded, and its order, are those of `window_measurements`.
        """
        return self._each("measurements_after", *key, position, known)

    def first_replaced(self, key: SessionKey, position: int, known: int) -> int | None:
        """Return the least position that corrections at `position` + 1 to `known` replace."""
        found: int | None = self._one("replaced", *key, position, known)[0]
        return found

    def measurements_in(
        self, key: SessionKey, ranges: list[Range], known: int
    ) -> Iterator[MeasuredRow]:
        """Iterate over the measurements up to position `known` that begin in ranges of rounds."""
        return self._each("measurements_in", *key, json.dumps(ranges), known)

    def rounds_in(
        self, key: SessionKey, ranges: list[Range], until: int
    ) -> Iterator[tuple[str, int, int, bytes]]:
        """Iterate over the decisions of ranges of rounds, up to position `until`.

        What is yielded, and its order, are those of `window_rounds`.
        """
        return self._each("rounds_in", *key, json.dumps(ranges), until)

    def covariates_in(self, key: SessionKey, ranges: list[Range]) -> Iterator[tuple[str, int, str]]:
        """Iterate over trajectory, round and covariates of decisions that have any.

        They are in ranges of rounds, in order of trajectory and round.
        """
        return self._each("covariates_in", *key, json.dumps(ranges))

    def measured_covariates_in(
        self, key: SessionKey, ranges: list[Range], known: int
    ) -> Iterator[tuple[str, int, int, str]]:
        """Iterate over the measurements up to position `known` that have covariates.

        They begin in ranges of rounds.

        Yields
        ------
        trajectory, first round, position, covariates
            In order of trajectory and position.
        """
        return self._each("measured_covariates_in", *key, json.dumps(ranges), known)

    def voids(self, key: SessionKey, after: int, until: int) -> list[VoidRow]:
        """Return the session's voided decisions at positions `after` + 1 to `until`, in order."""
        return [VoidRow(*row) for row in self._all("voids", *key, after, until)]

    def voids_of(self, key: TrajectoryKey, first: int, last: int) -> list[VoidRow]:
        """Return the voided decisions of rounds first..last of a trajectory."""
        return [VoidRow(*row) for row in self._all("voids_of", *key, first, last)]

    def kept_sums(self, key: SessionKey) -> KeptSumsRow | None:
        """Return the moments of a session's past, or None if none have been stored."""
        row = self._one("kept_sums", *key)
        return None if row is None else KeptSumsRow(*row)

    def sums_place(self, key: SessionKey) -> SumsPlace | None:
        """Return what the kept sums of a session are of, if they go on from an estimate."""
        row = self._one("sums_place", *key)
        return None if row is None else SumsPlace(*row)

    def oldest_measured(self, key: SessionKey, after: int, until: int) -> int | None:
        """Return the least position of a first round of measurements `after` + 1 to `until`."""
        found: int | None = self._one("oldest_measured", *key, after, until)[0]
        return found

    def began_from(self, key: SessionKey, position: int, n_named: int) -> float | None:
        """Return when the first round from a position on began.

        `n_named` rounds are of trajectories with a key, or erased.
        """
        row = self._one("began_from", *key, position, n_named)
        return None if row is None else float(row[0])

    def time_of_round(self, key: TrajectoryKey, round: int) -> float | None:
        """Return when a round of a trajectory began; None if its row is not there."""
        row = self._one("time_of_round", *key, round)
        return None if row is None else float(row[0])

    def first_left(self, key: TrajectoryKey) -> int | None:
        """Return the first round of a trajectory whose row is there, or None."""
        found: int | None = self._one("first_left", *key)[0]
        return found

    def played(self, key: SessionKey, first: int, last: int) -> list[PlayedRound]:
        """Return the rounds of a trial at positions first..last, in order of position."""
        return [PlayedRound(*row) for row in self._all(*self._window("played", key, first, last))]

    def played_in(self, key: SessionKey, ranges: list[Range], until: int) -> Iterator[PlayedRound]:
        """Iterate over the rounds of a trial in ranges of rounds, up to position `until`."""
        rows = self._each("played_in", *key, json.dumps(ranges), until)
        return (PlayedRound(*row) for row in rows)

    def lift_sums(self, key: SessionKey) -> LiftSumsRow | None:
        """Return what is summed so far of a session with a trial, or None."""
        row = self._one("lift_sums", *key)
        return None if row is None else LiftSumsRow(*row)

    def lift_units(
        self, key: SessionKey, since: int, units: list[tuple[str, int]]
    ) -> dict[tuple[str, int], LiftUnitRow]:
        """Return the totals of those of these units (trajectory, block) that have any."""
        asked = json.dumps([(trajectory, block, 0) for trajectory, block in units])
        rows = self._all("lift_units", *key, asked, since)
        found = (LiftUnitRow(*key, since, *row) for row in rows)
        return {(one.trajectory, one.block): one for one in found}

    def unsummed(self, after: SessionKey, limit: int) -> list[SessionKey]:
        """Return sessions with a trial whose latest rounds or rewards are in no sums yet.

        They are in order of their keys, from the one after `after` on.
        """
        return [(tenant, id) for tenant, id in self._all("unsummed", *after, limit)]

    def window_closed(
        self, key: SessionKey, first: int, last: int, decided: int, closed_at: float
    ) -> dict[str, int]:
        """Return the last closed round of each trajectory with a position in first..last.

        A round is closed if the next decision of its trajectory has a position up to `decided` and
        was taken by `closed_at`.
        """
        return dict(self._all(*self._window("closed", key, first, last, decided, closed_at)))

    def explored(self, key: SessionKey, first: int, last: int) -> list[tuple[int, bool]]:
        """Return position, and whether it explored, of each choice at positions first..last."""
        return self._all(*self._window("explored", key, first, last))

    def arrivals(self, key: SessionKey, first: int, last: int) -> list[tuple[float, bool]]:
        """Return of each measurement at positions first..last how long it took, and if it was late.

        Seconds are from the decision of its last round; it is late if the next round had begun.
        """
        return self._all(*self._window("arrivals", key, first, last))
