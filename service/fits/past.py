"""The moments of a session's past that a fit goes on from.

They follow from the rows: a fit without them reads all rows. A session that drops rows needs them.
"""

import json
from dataclasses import replace

from lhb_engine.agents import Agent
from lhb_engine.agents.summed_fit import kept_sums, sums_from_bytes
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.lessened_sums import lessened
from lhb_engine.design.session_sums import KeptSums, Seen, SessionSums
from lhb_engine.history import LATEST, History
from service.rounds.closing import closing_of
from service.rounds.history import read_history, read_recent, read_slices, read_trajectory
from service.rounds.slot_history import is_by_trajectory, read_slot_slices
from service.rounds.slot_sums import SlotSums
from service.rounds.sums import FitSums, n_erased
from service.session.due_fits import DueFit
from service.session.records import KeptSumsRow, SessionRow
from service.session.slot_clock import clock_of
from service.storage.reader import Reader
from service.writer.agent_cache import build_agent

AT_ONCE = 4  # times the latest rounds: a fit without sums of more adds up its rows in slices


def measured_before(reader: Reader, session: SessionRow) -> int | None:
    """Return how many measurements the installed estimate's fit could use; None without one."""
    record = reader.estimate(session.key, session.estimate) if session.estimate else None
    return None if record is None else int(json.loads(record.manifest)["measured"])


def usable_sums(reader: Reader, session: SessionRow, agent: Agent, due: DueFit) -> KeptSums | None:
    """Return the sums from which this fit may go on, or None: it reads all rows.

    A row that a fit used must never change. So there are none where several values make a reward,
    or a default one stands in for it, or where a correction replaces a row that is in the sums, or
    a decision was voided since. The fit then adds all rows anew.
    """
    if not _has_sums(session, agent, due):
        return None
    row = reader.kept_sums(session.key)
    first = 1 if agent.prediction is None else agent.prediction.since_round
    if row is None or (row.estimate, row.first_round) != (session.estimate, first):
        return None
    if row.last_round > due.window.last or row.measured > due.measured:
        return None  # it is a fit that others have overtaken
    if session.clock is None and (row.seen is None) != (agent.prediction is None):
        return None
    used = max(row.n_settled, measured_before(reader, session) or 0)
    replaced = reader.first_replaced(session.key, row.measured, due.measured)
    if replaced is not None and replaced <= used:
        return None
    if reader.voids(session.key, row.measured, due.measured):
        return None
    return _kept(row, agent)


def _has_sums(session: SessionRow, agent: Agent, due: DueFit) -> bool:
    """Whether this fit works from sums, of rows that do not change once they are settled."""
    clock = clock_of(session.clock)
    return (
        agent.keeps_sums
        and _extent(session, due) > LATEST
        and not closing_of(session).is_by_time
        # else a late decision may change any row
        and (clock is None or clock.late_slots is not None)
        and (clock is None or not agent.stretches.n_rounds)
    )


def _extent(session: SessionRow, due: DueFit) -> int:
    """Return how many rows there may be: rounds, or where each trajectory has all, measurements."""
    return due.measured if is_by_trajectory(session) else due.window.last


def sums_made_anew(
    reader: Reader,
    session: SessionRow,
    agent: Agent,
    due: DueFit,
    measured: int | None,
    slots: SlotSums | None = None,
) -> KeptSums | None:
    """Add up the rows of a fit that finds no sums to go on from, in bounded memory.

    `measured` is how many measurements the installed estimate's fit could use.

    None where it has so few rounds that all are read at once, where it needs rows and not sums, or
    where rows were dropped. Where rounds are slots of time, `slots` has their contexts.
    """
    if not _has_sums(session, agent, due):
        return None
    if _extent(session, due) <= AT_ONCE * LATEST or session.dropped_to:
        return None
    if session.clock is not None and slots is None:  # a replay has all rows
        return None
    if slots is not None:
        parts = read_slot_slices(reader, session, due.window, due, slots)
        return kept_sums(agent, parts, due.window, measured, slots.settled)
    slices = read_slices(reader, session, due.window, due, agent.stretches)
    return kept_sums(agent, slices, due.window, measured)


def read_rows(
    reader: Reader,
    session: SessionRow,
    agent: Agent,
    due: DueFit,
    kept: KeptSums | None,
    measured: int | None,
) -> History:
    """Build the history of a fit: all rows of its window, or those that `kept` lacks.

    `measured` is how many measurements the installed estimate's fit could use.
    """
    if kept is None:
        history = read_history(reader, session, due.window, due)
    else:
        history = read_recent(reader, session, due.window, due, kept.n_settled, agent.stretches)
    return replace(history, measured_before=measured)


def sums_without(reader: Reader, session: SessionRow, trajectory: str) -> KeptSumsRow | None:
    """Return the kept sums less what is left of a trajectory, or None where there are none.

    Rows that are dropped, or whose lags are, cannot be added up again: they stay in the sums.
    """
    agent = build_agent(session, reader.agent_state(session.key))
    row = reader.kept_sums(session.key)
    if row is None:
        return row
    history = read_trajectory(reader, session, trajectory, row.last_round, row.measured)
    if not history.trajectories:
        return row
    known = agent.prediction
    seen = None if known is None else Seen(measured_before(reader, session), known.last_round)
    found = lessened(_kept(row, agent), align(agent.told(history)), seen)
    rest = None if found.seen is None else found.seen.to_bytes()
    return row._replace(settled=found.settled.to_bytes(), seen=rest)


def _kept(row: KeptSumsRow, agent: Agent) -> KeptSums:
    """Return stored sums as a fit takes them."""
    seen = None if row.seen is None else sums_from_bytes(agent, row.seen)
    settled = sums_from_bytes(agent, row.settled)
    return KeptSums(row.first_round, row.last_round, row.n_settled, settled, seen)


def sums_to_keep(sums: SessionSums, session: SessionRow) -> FitSums:
    """Return what a fit's process returns of its sums; the session is as it was before the fit."""
    kept = sums.kept
    seen = kept.seen.to_bytes() if kept.seen is not None and sums.seen_stays else None
    blobs = kept.settled.to_bytes(), sums.total.to_bytes() if sums.total_stays else None, seen
    place = session.estimate, n_erased(session), kept.first, kept.last, kept.n_settled
    assert session.schedule.current is not None
    return FitSums(*place, *blobs, session.schedule.current.measured)
