"""The moments of a session's past that a fit goes on from.

They follow from the rows: a fit without them reads all rows. A session that drops rows needs them.
"""

import json

from lhb_engine.agents import Agent
from lhb_engine.agents.anytime import Anytime
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.lessened_sums import lessened
from lhb_engine.design.moments import Moments
from lhb_engine.design.session_sums import KeptSums, Seen, SessionSums
from lhb_engine.history import LATEST
from service.agent_cache import build_agent
from service.due_fits import DueFit
from service.fits.history import read_trajectory
from service.fits.sums import FitSums
from service.records import KeptSumsRow, SessionRow
from service.storage.reader import Reader


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
    if not isinstance(agent, Anytime) or not agent.keeps_sums or due.window.last <= LATEST:
        return None
    if session.reward_mode == "sum" or session.default_reward is not None:
        return None
    if session.clock is not None:
        return None  # a late decision changes the rows of its slot
    row = reader.kept_sums(session.key)
    first = 1 if agent.prediction is None else agent.prediction.since_round
    if row is None or (row.estimate, row.first_round) != (session.estimate, first):
        return None
    if row.last_round > due.window.last or row.measured > due.measured:
        return None  # it is a fit that others have overtaken
    if (row.seen is None) != (agent.prediction is None):
        return None
    used = max(row.n_settled, measured_before(reader, session) or 0)
    replaced = reader.first_replaced(session.key, row.measured, due.measured)
    if replaced is not None and replaced <= used:
        return None
    if reader.voids(session.key, row.measured, due.measured):
        return None
    return _kept(row, agent)


def sums_without(reader: Reader, session: SessionRow, trajectory: str) -> KeptSumsRow | None:
    """Return the kept sums less what is left of a trajectory, or None where there are none.

    Rows that are dropped, or whose lags are, cannot be added up again: they stay in the sums.
    """
    agent = build_agent(session, reader.agent_state(session.key))
    row = reader.kept_sums(session.key)
    if row is None or not isinstance(agent, Anytime):
        return row
    history = read_trajectory(reader, session, trajectory, row.last_round, row.measured)
    if not history.trajectories:
        return row
    known = agent.prediction
    seen = None if known is None else Seen(measured_before(reader, session), known.last_round)
    found = lessened(_kept(row, agent), align(agent.covariates.told(history)), seen)
    rest = None if found.seen is None else found.seen.to_bytes()
    return row._replace(settled=found.settled.to_bytes(), seen=rest)


def _kept(row: KeptSumsRow, agent: Anytime) -> KeptSums:
    """Return stored sums as a fit takes them."""
    groups = agent.covariates.groups
    seen = None if row.seen is None else Moments.from_bytes(row.seen, groups)
    settled = Moments.from_bytes(row.settled, groups)
    return KeptSums(row.first_round, row.last_round, row.n_settled, settled, seen)


def sums_to_keep(sums: SessionSums, session: SessionRow) -> FitSums:
    """Return what a fit's process returns of its sums; the session is as it was before the fit."""
    kept = sums.kept
    seen = None if kept.seen is None else kept.seen.to_bytes()
    blobs = kept.settled.to_bytes(), sums.total.to_bytes(), seen
    place = session.estimate, session.n_erased_measurements, kept.first, kept.last, kept.n_settled
    assert session.schedule.current is not None
    return FitSums(*place, *blobs, session.schedule.current.measured)
