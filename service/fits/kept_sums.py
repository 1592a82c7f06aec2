"""The sums that a session's fits keep: when a fit may go on from them, and when they are made anew.

They follow from the rows: a fit without them reads all rows. A session that drops rows needs them.
"""

from lhb_engine.agents import Agent
from lhb_engine.agents.summed_past import kept_sums, sums_from_bytes
from lhb_engine.design.aligned_rounds import NEVER, align
from lhb_engine.design.session_sums import KeptSums, Seen, SessionSums, lessened
from lhb_engine.history import LATEST, FitWindow
from service.fits.beginning import estimate_in_use
from service.fits.fit_answer import FitSums
from service.rounds.timeline import Past, timeline_of
from service.session.records import KeptSumsRow, SessionRow
from service.session.schedule_records import Watermark
from service.storage.reader import FOR_EVER, Reader
from service.writer.agent_cache import build_agent

NO_SUMS = None, FOR_EVER
AT_ONCE = 4  # times the latest rounds: a fit without sums of more adds up its rows in slices


def usable_sums(
    reader: Reader,
    session: SessionRow,
    agent: Agent,
    window: FitWindow,
    known: Watermark,
    past: Past,
) -> tuple[KeptSums | None, int]:
    """Return the sums from which this fit may go on, and where these were made anew.

    Or None: it reads all rows.

    A row that a fit used must never change, but for corrections: these take it out of the sums. So
    there are none where a decision was voided since, or where a value came for a settled round that
    time closes. The fit then adds all rows anew.
    """
    row, before = reader.kept_sums(session.key), agent.prediction
    if row is None or not has_sums(session, agent, past) or row.estimate != session.estimate:
        return NO_SUMS
    if row.last_round > window.last or row.measured > known.measured:
        return NO_SUMS  # it is a fit that others have overtaken
    is_whole = row.seen is not None or not past.seen_stays
    if before is not None and not (row.first_round == before.since_round and is_whole):
        return NO_SUMS
    if past.has_changed(row):
        return NO_SUMS
    return _kept(row, agent), row.anew


def has_sums(session: SessionRow, agent: Agent, past: Past) -> bool:
    """Whether this fit works from sums, of rows that do not change once they are settled."""
    has_order = past.has_order(agent.stretches)
    return agent.keeps_sums and has_order and past.n_rows > LATEST


def sums_made_anew(
    session: SessionRow, agent: Agent, window: FitWindow, measured: int | None, past: Past
) -> KeptSums | None:
    """Add up the rows of a fit that finds no sums to go on from, in bounded memory.

    None where it has so few rounds that all are read at once, where it needs rows and not sums, or
    where rows were dropped.
    """
    if not has_sums(session, agent, past):
        return None
    if past.n_rows <= AT_ONCE * LATEST or session.dropped_to:
        return None
    return kept_sums(agent, past.slices(agent.stretches), window, measured, past.settled_round)


def sums_without(reader: Reader, session: SessionRow, trajectory: str) -> KeptSumsRow | None:
    """Return the kept sums less what is left of a trajectory, or None where there are none.

    Rows that are dropped, or whose lags are, cannot be added up again: they stay in the sums.
    """
    agent = build_agent(session, reader.agent_state(session.key))
    row = reader.kept_sums(session.key)
    if row is None:
        return row
    window = FitWindow(1, 1, row.last_round, session.horizon, row.last_round)
    known = Watermark(row.measured, session.n_rounds)
    past = timeline_of(session).past(reader, session, window, known, takes_kept=True)
    history = past.of(trajectory)
    if not history.trajectories:
        return row
    before = agent.prediction
    seen = None
    if before is not None:
        measured = past.seen_before(agent, estimate_in_use(reader, session).measured)
        seen = Seen(NEVER if measured is None else measured, before.last_round)
    found = lessened(_kept(row, agent), align(agent.told(history)), seen)
    rest = None if found.seen is None else found.seen.to_bytes()
    return row._replace(settled=found.settled.to_bytes(), seen=rest)


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
    blobs = kept.settled.to_bytes(), sums.total.to_bytes() if sums.total_stays else None, seen
    place = 0 if is_new else session.estimate, kept.first, kept.last, kept.n_settled
    assert session.schedule.current is not None
    return FitSums(*place, *blobs, session.schedule.current.known.measured, anew)
