"""The summed contexts of slots of time (docs/model.md (9.1)), each slot summed once.

A slot is settled when it takes no decision any more. Settled slots are summed in stretches of equal
length, which are kept. They follow from the decisions, to the bit, whoever adds these up and
whenever: a slot's decisions are added in order of trajectories and rounds.
"""

from array import array
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from lhb_engine.history import Floats, Ints
from lhb_engine.slots import slot_sums
from service.due_fits import DueFit
from service.records import SessionRow
from service.slot_clock import STRETCH, SlotClock
from service.slot_records import SlotSumsRow
from service.storage.reader import FOR_EVER, Reader

MOST_KEPT = 2**24  # bytes that one fit adds to what is kept


@dataclass(frozen=True)
class SlotSums:
    """The contexts of slots 1 to n of a session, by what rewards are totals of.

    Attributes
    ----------
    contexts : dict
        (n, dim) arrays by trajectory; "" where rewards are totals over all.
    settled : int
        The last slot whose context stays as it is.
    new : list of SlotSumsRow
        Stretches that were not kept yet.
    """

    contexts: dict[str, Floats]
    settled: int
    new: list[SlotSumsRow]


def read_slot_sums(
    reader: Reader, session: SessionRow, clock: SlotClock, n: int, due: DueFit | None, *, kept: bool
) -> SlotSums:
    """Sum the contexts of slots 1 to n.

    Parameters
    ----------
    reader, session, clock
    n : int
        At most the slots that had begun when the fit was due.
    due : DueFit or None
        The fit's manifest. Later decisions are left out. Without it all count.
    kept : bool
        Whether to take stretches that are kept, and to return new ones. Where decisions were voided
        since the fit was due, what is kept may be without them, and is not taken.
    """
    measured, decided = (FOR_EVER, FOR_EVER) if due is None else (due.measured, due.decided)
    settled = 0 if due is None else clock.settled(n)
    kept = kept and not reader.voids(session.key, measured, FOR_EVER)
    found: defaultdict[str, Floats] = defaultdict(lambda: np.zeros((n, session.dim)))
    n_kept = after = 0
    for row in reader.slot_sums(session.key, settled // STRETCH) if kept else ():
        start = row.stretch * STRETCH
        sums = np.frombuffer(row.sums).reshape(STRETCH, session.dim)
        found[row.trajectory][start : start + STRETCH] = sums
        if not row.trajectory:
            n_kept, after = row.stretch + 1, row.decided
    first, later = n_kept * STRETCH + 1, []
    taken = _decisions(reader, session, clock, (after, decided), measured)
    for name, (slots, positions, contexts) in taken.items():
        later.append((slots, positions))
        if (slots >= first).any():
            found[name][first - 1 :] = slot_sums(slots, contexts, first, n)
    new: list[SlotSumsRow] = []
    if kept:
        found.setdefault("", np.zeros((n, session.dim)))
        most = max(1, MOST_KEPT // (8 * STRETCH * session.dim * len(found)))
        for stretch in range(n_kept, min(settled // STRETCH, n_kept + most)):
            new += _stretch(session, found, stretch, _last_before(stretch, later, decided))
    return SlotSums(dict(found), settled, new)


def _decisions(
    reader: Reader, session: SessionRow, clock: SlotClock, span: tuple[int, int], measured: int
) -> dict[str, tuple[Ints, Ints, Floats]]:
    """Return slots, positions and contexts of decisions, by what rewards are totals of.

    Parameters
    ----------
    reader, session, clock
    span : (int, int)
        The position before the first decision, and that of the last one.
    measured : int
        Position of the last void that counts.
    """
    void: defaultdict[str, set[int]] = defaultdict(set)
    for one in reader.voids(session.key, 0, measured):
        void[one.trajectory].add(one.round)
    unnamed = reader.trajectory((*session.key, ""))
    n_named = session.n_rounds - (0 if unnamed is None else unnamed.n_rounds)
    parts: defaultdict[str, tuple[array[float], array[int], bytearray]] = defaultdict(
        lambda: (array("d"), array("q"), bytearray())
    )
    rows = reader.timed_decisions(session.key, *span, n_named)
    for name, round, position, at, context in rows:
        if context and name != session.erasing and round not in void.get(name, ()):
            times, positions, contexts = parts["" if clock.totals == "all" else name]
            times.append(at)
            positions.append(position)
            contexts += context
    return {
        name: (
            clock.slots.at_each(np.array(times)),
            np.array(positions, np.int64),
            np.frombuffer(contexts).reshape(-1, session.dim),
        )
        for name, (times, positions, contexts) in parts.items()
    }


def _last_before(stretch: int, later: list[tuple[Ints, Ints]], decided: int) -> int:
    """Return a position after which all decisions of slots beyond a stretch come."""
    end = (stretch + 1) * STRETCH
    beyond = [positions[slots > end] for slots, positions in later]
    return min((int(one.min()) - 1 for one in beyond if len(one)), default=decided)


def _stretch(
    session: SessionRow, found: dict[str, Floats], stretch: int, decided: int
) -> list[SlotSumsRow]:
    """Return the rows of a stretch: the default trajectory's, and of others with any context."""
    here = slice(stretch * STRETCH, (stretch + 1) * STRETCH)
    return [
        SlotSumsRow(*session.key, name, stretch, decided, contexts[here].tobytes())
        for name, contexts in sorted(found.items())
        if not name or contexts[here].any()
    ]
