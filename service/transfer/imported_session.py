"""The session that the records of a file describe."""

from typing import NamedTuple

from lhb_engine.agents import Agent
from service.session.records import SessionRow, TrajectoryRow
from service.transfer.import_dropped import Dropped
from service.transfer.import_schedule import Windows


class ImportedSession(NamedTuple):
    """The session that the records of a file describe, before it has an owner and an id.

    Attributes
    ----------
    session : SessionRow
        The session, with derived counters and schedule.
    trajectories : list of TrajectoryRow
        Its trajectories.
    windows : Windows
        The agent's windows, up to the first that is not due yet.
    agent : Agent or None
        The agent; None if there is no state to store.
    dropped : Dropped
        What dropped rows no longer tell.
    """

    session: SessionRow
    trajectories: list[TrajectoryRow]
    windows: Windows
    agent: Agent | None
    dropped: Dropped
