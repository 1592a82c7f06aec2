"""The row layout of the posterior: each measurement is a row at a place of one padded sequence.

A lag is then a shift of that sequence: column k of the design is the signal shifted by k places.
Zeros between trajectories keep lags from reaching across. A sum over m rounds is an ordinary row of
a sequence whose contexts are sums over m rounds, so each span length has a sequence of its own.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lhb_engine.design.replaced_rows import (
    NEVER,
    NOT_REPLACED,
    Replaced,
    VoidedContexts,
    moved,
    span_sums,
    with_voids,
)
from lhb_engine.history import SIZES, Flags, Floats, History, Ints, Measurements, Parts

# what `AlignedRounds` have at each place, zero where there is no row
NUMBERED, SCALED = ("number", "last", "position", "round"), ("y", "intercept", "covariates")


@dataclass(frozen=True)
class AlignedRounds:
    """The rows of a fit, one place a round, scaled as in docs/model.md (1.5)."""

    # (n_places, dim): selected contexts, zero in the gaps; for a span of m rounds their sum over
    # sqrt(m)
    contexts: Floats
    # (n_places,): measured values over sqrt(m), at the last round of the span; zero where there is
    # no row
    y: Floats
    # (n_places,): the column c of the baseline, sqrt(m); zero where there is no row
    intercept: Floats
    # (n_places,): session number of the first round of the row; zero where there is no row
    number: Ints
    # (n_places,): session number of the last round of the row; zero where there is no row
    last: Ints
    # (n_places,): number of the row's measurement in order of arrival, from 1; zero where there is
    # no row. Where arrivals are not known, rows count in the order of their last rounds
    position: Ints
    # (n_places,): number of the row's last round in its trajectory; zero where there is no row
    round: Ints
    # (n_places,): the place m rounds earlier in the same trajectory; -1 where there is none
    before: Ints
    n_lags: int  # number of lags that at least one row can see
    # n_rows, n_missing: measurements used; rounds of the window that none covers, 0 unless
    # `shares_rounds`
    n_rows: int
    n_missing: int
    # (n_places, n_covariates): what else moves the reward, scaled as contexts are; zero where there
    # is no row
    covariates: Floats
    groups: tuple[int, ...]  # numbers of columns of the groups of covariates
    owner: Ints  # (n_places,): the trajectory of each place, from 0; -1 in the gaps
    levels: int = 0  # for how many rounds a trajectory keeps a level of its own; 0: it has none
    # whether the trajectories share the session's rounds; else each has all of them
    shares_rounds: bool = True
    replaced: Replaced | None = None  # rows that were corrected, or lost what was voided
    voided: VoidedContexts | None = None  # contexts before voids; None where none is known
    keys: tuple[str, ...] = ()  # of the trajectories, by `owner`
    grain: int = SIZES.grain  # measurements in a partial sum

    @property
    def beside(self) -> Floats:
        """Z: the column of the baseline and the covariates, (n_places, 1 + n_covariates)."""
        return np.column_stack([self.intercept, self.covariates])

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.contexts.shape[1])

    @property
    def square(self) -> float:
        """Sum of y^2."""
        return float(self.y @ self.y)

    @property
    def context_sums(self) -> tuple[Floats, Floats, float]:
        """Sums over rows of x^2 and of c x, (dim,), and of c^2, for the contexts x at lag 0."""
        here = self.intercept > 0
        contexts, counts = self.contexts[here], self.intercept[here]
        return (contexts**2).sum(axis=0), counts @ contexts, float(counts @ counts)

    @property
    def covariance(self) -> Floats:
        """The covariance of the contexts at lag 0, (dim, dim)."""
        here = self.intercept > 0
        contexts, (_, sums, count) = self.contexts[here], self.context_sums
        return np.asarray((contexts.T @ contexts - np.outer(sums, sums) / count) / here.sum())

    @property
    def since(self) -> Ints:
        """(n_places,) the row's last round since its trajectory began, or since the first row."""
        before = int(self.number[self.number > 0].min()) - 1
        return np.asarray(np.minimum(self.round, self.number - before))

    def divided(self, contexts: Floats, rewards: float) -> "AlignedRounds":
        """Return the rows with contexts over `contexts`, (dim,), and y over `rewards`."""
        return replace(self, contexts=self.contexts / contexts, y=self.y / rewards)

    def silencing(self, covariates: Ints) -> "AlignedRounds":
        """Return the rows with some covariates at 0, by number."""
        left = self.covariates.copy()
        left[:, covariates] = 0.0
        return replace(self, covariates=left)

    def mixed(self, share: Floats) -> "AlignedRounds":
        """Return the rows with the last feature's `share`, (dim - 1,), added to the others."""
        contexts = self.contexts.copy()
        contexts[:, :-1] += contexts[:, -1:] * share
        return replace(self, contexts=contexts)

    def without(self, covariates: Ints) -> "AlignedRounds":
        """Return the rows without some covariates, by number; none is corrected after."""
        left = np.delete(self.covariates, covariates, axis=1)
        return replace(self, covariates=left, replaced=None)

    @property
    def stretch(self) -> Ints:
        """(n_places,) the stretch of its trajectory in which a row begins, from 0."""
        first = self.round - np.rint(self.intercept**2).astype(np.int64)
        return np.maximum(first, 0) // max(self.levels, 1)

    @property
    def level(self) -> Ints:
        """(n_places,) the level of each row, that of its trajectory and stretch."""
        stretch = self.stretch
        return self.owner * (int(stretch.max(initial=0)) + 1) + stretch

    def rows(self, first: int, last: int) -> "AlignedRounds":
        """Return the rows whose first round is in the session's rounds first..last.

        Contexts of the lags before them are kept. Without such a row all rows are returned.
        """
        kept = (self.number >= max(first, 1)) & (self.number <= last)
        return self.only(kept) if kept.any() else self

    def only(self, kept: np.ndarray) -> "AlignedRounds":
        """Return the rows marked by `kept`, at least one, and the contexts of their lags."""
        places = np.flatnonzero(kept)
        start, stop = max(0, int(places[0]) - self.n_lags + 1), int(places[-1]) + 1
        return self._cut(slice(start, stop))._marked(kept[start:stop])

    def around(self, places: Ints) -> tuple["AlignedRounds", Ints]:
        """Return the rows at some places with their pairs and lags, and the places of all these."""
        span, ends = round(float(self.intercept.max()) ** 2), np.zeros(len(self.y) + 1, int)
        np.add.at(ends, np.maximum(places - span - self.n_lags + 1, 0), 1)
        np.add.at(ends, np.minimum(places + span + 1, len(self.y)), -1)
        here = np.flatnonzero(np.cumsum(ends[:-1]))
        return self._cut(here), here

    def _cut(self, here: Ints | slice) -> "AlignedRounds":
        """Return the rows at some places alone, one after the other."""
        to = np.full(len(self.y) + 1, -1)  # the new places; the last one is that of place -1
        to[:-1][here] = np.arange(len(self.y[here]))
        names = ("contexts", "owner", *NUMBERED, *SCALED)
        return replace(
            self,
            before=to[self.before[here]],
            replaced=moved(self.replaced, to),
            voided=moved(self.voided, to),
            **{name: getattr(self, name)[here] for name in names},
        )

    def _marked(self, kept: Flags) -> "AlignedRounds":
        """Return the rows marked by `kept`, at the same places."""
        every = {name: getattr(self, name) for name in (*NUMBERED, *SCALED)}
        marked: dict[str, Any] = {
            name: np.where(kept if values.ndim == 1 else kept[:, None], values, 0)
            for name, values in every.items()
        }
        replaced = moved(self.replaced, np.where(kept, np.arange(len(kept)), -1))
        n_rows = int(np.count_nonzero(kept))
        return replace(self, n_rows=n_rows, replaced=replaced, **marked)

    def at(self, measured: int, until: int = 0) -> "AlignedRounds":
        """Return the rows as they were when so many measurements had come, at the same places.

        Rows that measurements up to `until` replaced are left out.
        """
        position = np.where(self.position > measured, 0, self.position)
        y, covariates, old = self.y.copy(), self.covariates.copy(), self.replaced
        if old is not None:
            which = (old.position <= measured) & (old.until > max(measured, until))
            place = old.place[which]
            position[place], y[place] = old.position[which], old.y[which]
            covariates[place] = old.covariates[which]
        contexts = self.contexts if self.voided is None else self.voided.at(measured, self.contexts)
        now = replace(self, y=y, position=position, covariates=covariates, contexts=contexts)
        return replace(now, replaced=None, voided=None)._marked(position > 0)

    def arrivals(self) -> tuple[Ints, Ints, Ints]:
        """Return of all rows, those that were corrected too, place, position and what replaces it.

        What replaces a row is the position of its correction; `NEVER`: the row stands.
        """
        place, old = np.flatnonzero(self.number > 0), self.replaced or NOT_REPLACED
        position, until = self.position[place], np.full(len(place), NEVER)
        both = (place, old.place), (position, old.position), (until, old.until)
        return (*map(np.concatenate, both),)  # type: ignore[return-value]

    def in_order(self) -> Ints:
        """Return the places of all rows, in order of arrival."""
        places = np.flatnonzero(self.number > 0)
        return places[np.argsort(self.position[places], kind="stable")]

    def followers(self) -> Ints:
        """Return the places of rows directly after a row of the same trajectory and span length."""
        is_row = self.number > 0
        return np.flatnonzero(is_row & (self.before >= 0) & is_row[self.before])


def align(history: History) -> AlignedRounds:
    """Lay out the measurements inside the history's window.

    Raises ValueError: there is no window or no round in it, numbers are not finite, or a trajectory
    has other covariates than its groups.
    """
    window = history.checked_window()
    rounds = joined_rounds(history)
    n, told = sum(history.groups), rounds.covariates
    covariates = np.zeros((len(rounds.contexts), 0)) if told is None else told
    if covariates.shape[1] != n:
        raise ValueError(f"every round needs {n} covariates")
    if not np.isfinite(covariates).all():
        raise ValueError("covariates must be finite")
    inside = window.marks(rounds.numbering)
    owner, kept = measured_inside(rounds, inside)
    spans, until = kept.last - kept.first + 1, _replaced_at(kept)
    counts = until == NEVER
    n_lags = max(1, min(window.n_lags, int((rounds.first_rounds + rounds.lengths).max()) - 1))
    parts, part_spans, sequence = _sequences(owner, spans, len(rounds.lengths))
    lengths = rounds.lengths[parts]
    starts = np.cumsum(lengths + n_lags - 1) - (lengths + n_lags - 1)
    n_places = int(starts[-1] + lengths[-1])
    shares_rounds = history.latest_after is None
    trajectory, keys = rounds.trajectories
    out = AlignedRounds(
        np.zeros((n_places, history.dim)),
        *(np.zeros(n_places), np.zeros(n_places)),
        *(np.zeros(n_places, np.int64), np.zeros(n_places, np.int64)),
        *(np.zeros(n_places, np.int64), np.zeros(n_places, np.int64)),
        np.full(n_places, -1),
        n_lags,
        int(counts.sum()),
        int(inside.sum()) - int(spans[counts].sum()) if shares_rounds else 0,
        np.zeros((n_places, covariates.shape[1])),
        history.groups,
        np.full(n_places, -1),
        history.levels,
        shares_rounds,
        keys=keys,
        grain=history.grain,
    )
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    places = np.repeat(starts, lengths) + within
    span = np.repeat(part_spans, lengths)
    here, source = _run(places), _run(np.repeat(rounds.starts[parts], lengths) + within)
    out.contexts[here], out.covariates[here] = rounds.contexts[source], covariates[source]
    out.owner[here] = np.repeat(trajectory[parts], lengths)
    for i in np.flatnonzero(part_spans > 1).tolist():
        here = slice(starts[i], starts[i] + lengths[i])
        for values in (out.contexts, out.covariates):
            values[here] = span_sums(values[here], int(part_spans[i]))
    follows = within >= span
    out.before[places[follows]] = places[follows] - span[follows]
    each, every = starts[sequence] + kept.last - rounds.starts[owner], bool(counts.all())
    place = _run(each) if every else each
    y, beside = kept.value * (1.0 / np.sqrt(spans)), out.covariates[place]
    out.intercept[place] = np.sqrt(spans)
    out.number[place] = rounds.numbering[kept.first]
    out.last[place] = rounds.numbering[kept.last]
    out.round[place] = kept.last - rounds.starts[owner] + rounds.first_rounds[owner]
    position = kept.position
    if position is None:  # ranks; of equal values the first comes first
        position = np.argsort(np.argsort(out.last[place], kind="stable")) + 1
    if kept.covariates is not None:
        told = kept.covariates / np.sqrt(spans)[:, None]
        beside = np.where(np.isnan(told), beside, told)
    at, rows = (place, np.s_[:]) if every else (each[counts], counts)
    out.y[at], out.position[at], out.covariates[at] = y[rows], position[rows], beside[rows]
    out.covariates[out.number == 0] = 0.0
    if not every:
        old = (values[~counts] for values in (each, position, until, y, beside))
        out = replace(out, replaced=Replaced(*old))
    return with_voids(out, rounds, covariates, zip(parts, part_spans, starts, strict=True))


def _run(places: Ints) -> Ints | slice:
    """Return places as a slice where each follows the one before: a copy then costs little."""
    if len(places) == 0 or (np.diff(places) != 1).any():
        return places
    return slice(int(places[0]), int(places[-1]) + 1)


def _replaced_at(rows: Measurements) -> Ints:
    """Return the position of the measurement that replaces each, `NEVER` where none does.

    The next measurement of the same rounds, in order of arrival, replaces a measurement.
    """
    until = np.full(len(rows), NEVER)
    if rows.position is None or (np.diff(rows.first) > 0).all():  # else rounds may be the same
        return until
    order = np.lexsort((rows.position, rows.last, rows.first))
    first, last, position = rows.first[order], rows.last[order], rows.position[order]
    same = (np.diff(first) == 0) & (np.diff(last) == 0)
    until[order[:-1][same]] = position[1:][same]
    return until


def joined_rounds(history: History) -> Parts:
    """Return the rounds one after the other; ValueError where contexts are not finite."""
    parts = Parts.of(history.trajectories)
    if not np.isfinite(parts.contexts).all():
        raise ValueError("contexts must be finite")
    return parts


def measured_inside(parts: Parts, inside: Flags) -> tuple[Ints, Measurements]:
    """Return the measurements all of whose rounds are marked by `inside`, (n_rounds,) bool.

    With the part of each; first and last rounds are places of all rounds.
    """
    there, rows = parts.inside()
    before = np.concatenate([[0], np.cumsum(inside)])
    first, last = rows.first[there], rows.last[there]
    there[there] = before[last + 1] - before[first] == last - first + 1
    measurements = rows.chosen(there)
    if measurements.covariates is not None and np.isinf(measurements.covariates).any():
        raise ValueError("covariates must be finite")
    return parts.owner[there], measurements


def _sequences(owner: Ints, spans: Ints, n_parts: int) -> tuple[Ints, Ints, Ints]:
    """Return a sequence for each part and span length in it: these, and that of each measurement.

    A part without measurements has a sequence of single rounds.
    """
    absent = np.flatnonzero(np.bincount(owner, minlength=n_parts) == 0)
    spans = np.append(spans, np.ones_like(absent))
    base = int(spans.max(initial=0)) + 1
    codes = np.append(owner, absent) * base + spans  # in order of owners, then of spans
    unique, sequence = np.unique(codes, return_inverse=True)
    return *divmod(unique, base), sequence[: len(owner)]
