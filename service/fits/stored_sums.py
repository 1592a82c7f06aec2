"""The sums that a session's fits keep: when the next fit may go on from them, or makes them anew.

The sums follow from the rows: a fit without them reads all rows. A session that drops rows needs
them.
"""

from lhb_engine.agents import Agent
from lhb_engine.agents.fit_past import kept_sums, sums_from_bytes
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.replaced_rows import NEVER
from lhb_engine.design.session_sums import KeptSums, Seen, SessionSums, lessened
from lhb_engine.history import FitWindow
from service.fits.fit_answer import FitSums
from service.fits.fit_row import last_estimated
from service.fits.warm_start import estimate_in_use
from service.rounds.timeline import Past, timeline_of
from service.session.fit_schedule import Watermark
from service.session.records import KeptSumsRow, SessionRow
from service.session.rules import has_only_sums
from service.storage.reader import FOR_EVER, Reader
from service.writer.agent_cache import build_agent


def usable_sums(agent: Agent, past: Past, mark: Watermark) -> tuple[KeptSums | None, int]:
    """Return the sums from which this fit may go on, and the position where these were made anew.

    Without usable sums the fit reads all rows, and adds them up from the last fit's position: no
    bit differs. Sums of a session that dropped rows may lack products that the agent counts.

    A row that a fit used changes at a position alone, where the sums lose what the row was: by a
    correction, a void, a value that came late (`late_place`). Sums are not usable after a change
    without a position: another late value, a longer wait, with a clock a void in a settled slot.
    """
    if not has_sums(agent, past):
        return None, FOR_EVER
    reader, session, before = past.reader, past.session, agent.prediction
    row = reader.kept_sums(session.key)
    # else it is a fit that others have overtaken
    is_latest = row and row.last_round <= past.window.last and row.measured <= mark.measured
    if row and is_latest and row.estimate == session.estimate and not past.has_changed(row):
        is_whole = row.seen is not None or not past.seen_stays
        if before is None or (row.first_round == before.since_round and is_whole):
            kept = _kept(row, agent)
            if kept.settled.dim == agent.fitted_dim or has_only_sums(session):
                return kept, row.anew
    last = last_estimated(reader, session, session.n_estimates)
    return None, FOR_EVER if last is None else last.inputs.get("anew", FOR_EVER)


def has_sums(agent: Agent, past: Past) -> bool:
    """Whether this fit works from sums, of rows that do not change once they are settled."""
    return agent.keeps_sums and past.n_rows > agent.sizes.latest


def sums_made_anew(agent: Agent, past: Past, measured: int | None) -> KeptSums | None:
    """Add up the rows of a fit that finds no sums to go on from, in bounded memory.

    None where it has so few rounds that all are read at once, where it needs rows and not sums, or
    where rows were dropped.
    """
    least = agent.sizes.n_latest * agent.sizes.latest
    if not has_sums(agent, past) or past.n_rows <= least or has_only_sums(past.session):
        return None
    slices = past.slices(agent.stretches)
    return kept_sums(agent, slices, past.window, measured, past.settled_round)


def sums_without(reader: Reader, session: SessionRow, trajectory: str) -> KeptSumsRow | None:
    """Return the kept sums less what is left of a trajectory, or None where there are none.

    Rows that are dropped, or whose lags are, cannot be added up again: they stay in the sums.
    """
    agent = build_agent(session, reader.agent_state(session.key))
    row = reader.kept_sums(session.key)
    if row is None:
        return row
    window = FitWindow(1, 1, row.last_round, session.horizon, row.last_round)
    mark = Watermark(row.measured, session.n_rounds)
    past = timeline_of(session).past(reader, session, window, mark, takes_kept=True)
    history = past.of(trajectory)
    if not history.trajectories:
        return row
    before = agent.prediction
    seen = None
    if before is not None:
        measured = past.seen_before(agent, estimate_in_use(reader, session).measured)
        seen = Seen(NEVER if measured is None else measured, before.last_round)
    kept = _kept(row, agent)
    rows = align(counting(agent, kept).told(history))
    sums = lessened(kept, rows, seen)
    rest = None if sums.seen is None else sums.seen.to_bytes()
    return row._replace(settled=sums.settled.to_bytes(), seen=rest)


def counting(agent: Agent, kept: KeptSums) -> Agent:
    """Return the agent that counts the products which sums have."""
    n_fewer = agent.fitted_dim - kept.settled.dim
    return agent.counting(agent.products[: len(agent.products) - n_fewer])


def _kept(row: KeptSumsRow, agent: Agent) -> KeptSums:
    """Return stored sums as a fit takes them; one that begins anew has seen nothing before."""
    before = None if agent.prediction is None else row.seen
    seen = None if before is None else sums_from_bytes(agent, before)
    settled = sums_from_bytes(agent, row.settled)
    return KeptSums(row.first_round, row.last_round, row.n_settled, settled, seen)


def sums_to_keep(sums: SessionSums, session: SessionRow, anew: int, *, is_new: bool) -> FitSums:
    """Return what a fit's process returns of its sums.

    The session is as it was before the fit. `is_new` says whether that began from nothing; `anew`
    is that of `PreparedFit`.
    """
    kept = sums.kept
    seen = None if kept.seen is None else kept.seen.to_bytes()
    place = 0 if is_new else session.estimate, kept.first, kept.last, kept.n_settled
    assert session.schedule.current is not None
    measured = session.schedule.current.known.measured
    row = KeptSumsRow("", "", *place, kept.settled.to_bytes(), seen, measured, anew)
    return FitSums(row, sums.total.to_bytes() if sums.total_stays else None)
