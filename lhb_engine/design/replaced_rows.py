"""Rows as they were before a correction replaced their value, or a void took their contexts."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lhb_engine.history import NO_INTS, Floats, Ints, Parts

if TYPE_CHECKING:
    from lhb_engine.design.aligned_rounds import AlignedRounds

NEVER = 2**62  # beyond every position


class Replaced(NamedTuple):
    """Rows that were replaced, at the places of those that replaced them.

    `until` is the position of the correction, or of the void; the other members are those of
    `AlignedRounds`.
    """

    place: Ints
    position: Ints
    until: Ints
    y: Floats
    covariates: Floats


NOT_REPLACED = Replaced(NO_INTS, NO_INTS, NO_INTS, np.zeros(0), np.zeros(0))


class VoidedContexts(NamedTuple):
    """What contexts at some places were before the voids at positions `until`, in their order.

    The shapes are (n,), (n,) and (n, dim). A place has as many as voids have changed its contexts.
    """

    place: Ints
    until: Ints
    contexts: Floats

    def at(self, position: int, contexts: Floats) -> Floats:
        """Return the `contexts` of all places as they were at a position."""
        some = np.flatnonzero(self.until > position)[::-1]  # so that the first void counts
        before = contexts.copy()
        before[self.place[some]] = self.contexts[some]
        return before


def moved(rows: Any, to: Ints) -> Any:
    """Return `Replaced` or `VoidedContexts` at new places `to`, (n_places,): -1 goes; or None."""
    here = rows is not None and to[rows.place] >= 0
    if not np.any(here):
        return None
    return type(rows)(to[rows.place[here]], *(values[here] for values in rows[1:]))


class _Version(NamedTuple):
    """What a row was from one position on, up to the position of what replaced the row."""

    position: int
    until: int
    y: float
    covariates: Floats


class _Versions(dict[int, list[_Version]]):
    """All versions of the row at a place, in order; none where there is no row."""

    def __init__(self, rows: "AlignedRounds") -> None:
        self._rows, old = rows, rows.replaced or NOT_REPLACED
        for place, *version in zip(*old, strict=True):
            self.setdefault(int(place), []).append(_Version(*version))
        for place, versions in self.items():
            self[place] = sorted([*versions, *self._last(place)])

    def _last(self, place: int) -> list[_Version]:
        rows = self._rows
        last = int(rows.position[place]), NEVER, rows.y[place], rows.covariates[place]
        return [_Version(*last)] if rows.number[place] else []

    def __missing__(self, place: int) -> list[_Version]:
        self[place] = self._last(place)
        return self[place]

    def split(self, place: int, at: int, changed: Ints, own: Floats | None) -> None:
        """Split the version that a void at a position ends; no earlier void was split at.

        `own` (n_covariates,) are what the row's covariates, those by the numbers `changed`, were up
        to then; None if they stay.
        """
        versions = self[place]
        for i, one in enumerate(versions):
            if one.position < at:
                covariates = one.covariates
                if own is not None:
                    covariates = covariates.copy()
                    covariates[changed] = own[changed]
                old = one._replace(until=min(one.until, at), covariates=covariates)
                versions[i : i + 1] = [old, one._replace(position=at)][: 1 + (at < one.until)]

    def columns(self) -> dict[str, Any]:
        """Return `position` and `replaced` of the rows."""
        position = self._rows.position.copy()
        for place, versions in self.items():
            position[place] = versions[-1].position if versions else 0
        gone = [(place, *one) for place, some in self.items() for one in some if one.until < NEVER]
        if not gone:
            return {"position": position}
        replaced = Replaced(*map(np.array, zip(*gone, strict=True)))
        return {"position": position, "replaced": replaced}


def with_voids(
    rows: "AlignedRounds", rounds: Parts, beside: Floats, sequences: Iterable[tuple[int, int, int]]
) -> "AlignedRounds":
    """Return rows that know what they were before decisions were voided.

    A row that a void changed goes at the void's position, as if its value had been corrected, and
    comes again without what was voided. `beside` are the covariates of `rounds`, (n_rounds, n).
    Sequences are of parts of these: number of the part, rounds of a row, place of the first round.
    """
    if rounds.before_voids is None:
        return rows
    every = np.concatenate([rounds.contexts, beside], axis=1)
    before = np.concatenate(rounds.before_voids[1:], axis=1)
    changed = np.flatnonzero((every[:, rows.dim :] != before[:, rows.dim :]).any(axis=0))
    versions, found = _Versions(rows), list[tuple[Ints, Ints, Floats]]()
    for part, span, start in sequences:
        here = slice(rounds.starts[part], rounds.starts[part] + rounds.lengths[part])
        position, then = rounds.before_voids.position[here], every[here].copy()
        void = np.flatnonzero(position)
        for r in void[np.argsort(-position[void])].tolist():
            at, low, stop = int(position[r]), max(0, r - span + 1), min(r + span, len(then))
            then[r] = before[here][r]
            values = span_sums(then[low:stop], span)[r - low :]
            places = start + np.arange(r, stop)
            found.append((places, np.full(len(places), at), values[:, : rows.dim]))
            for i in range(r, min(r + span - 1 + rows.n_lags, len(then))):
                own = values[i - r, rows.dim :] if i < stop else None
                versions.split(start + i, at, changed, own)
    if not found:
        return rows
    place, until, contexts = map(np.concatenate, zip(*found[::-1], strict=True))
    order = np.argsort(until, kind="stable")
    known = VoidedContexts(place[order], until[order], contexts[order])
    return replace(rows, voided=known, **versions.columns())


def span_sums(values: Floats, span: int) -> Floats:
    """Return the sums over `span` rounds, (n_rounds, n), over sqrt(span).

    Sums are added up from sums over 1, 2, 4, ... rounds. So a sum depends on its own rounds alone,
    to the bit, and not on where the rounds begin.
    """
    out, done = np.zeros_like(values), 0
    part, size = values, 1
    while True:
        if span & size:
            out = _plus_later(part, out, size) if done else part.copy()
            done += size
        if done == span:
            return np.asarray(out * (1.0 / np.sqrt(span)))
        part, size = _plus_later(part, part, size), 2 * size


def _plus_later(values: Floats, earlier: Floats, delay: int) -> Floats:
    """Return values plus `earlier` ones, `delay` rounds later."""
    out = values.copy()
    out[delay:] += earlier[: max(0, len(earlier) - delay)]
    return out
