"""Rounds of many users, copied by the database itself from those of the first ones.

The API fills a session at some thousand rounds a second, so ten million would take hours. Here rows
that it wrote for the first trajectories are inserted again under other keys, in the order in which
it would write them. What they hold repeats: contexts, scores, rewards and times.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from service.session.fit_schedule import OpenWindow
from service.session.records import SessionKey
from service.storage.sql.statements import COLUMNS
from service.transfer.without_server import run
from service.writer.agent_cache import build_agent
from service.writer.command import SessionCommand
from service.writer.unit_of_work import UnitOfWork

PREFIX = "user-"
TABLES = {"trajectories": "trajectory", "decisions": "position", "measurements": "position"}


def copy_users(url: str, session: str, n_first: int, n_copies: int) -> None:
    """Copy the users of a session so many times.

    Counters and the schedule become what they are after so many rounds. The last fit stays that of
    the first users, so the next reward makes a fit of all rows due.

    Parameters
    ----------
    url : str
        A database that no server has open.
    session : str
        The session's id. It has trajectories ``user-0`` to ``user-{n_first - 1}``, each of its
        rounds a reward, and no fit is due.
    n_first, n_copies : int
    """
    n_rounds = run(url, Grow(("", session), n_copies + 1))
    with closing(_connection(url)) as connection:
        cursor = connection.cursor()
        for table, order in TABLES.items():
            cursor.execute(
                f"create temporary table first_{table} as select * from {table} "
                f"where session_id = '{session}' order by {order}"
            )
        for copy in range(1, n_copies + 1):
            for table in TABLES:
                cursor.execute(_copying(table, copy * n_first, copy * n_rounds))
            connection.commit()


@dataclass(frozen=True, slots=True)
class Grow(SessionCommand[int]):
    """Command: multiply a session's counters, and open the window that is ahead then."""

    key: SessionKey
    times: int

    def __call__(self, uow: UnitOfWork) -> int:
        """Change the session's row; return its rounds before."""
        session = uow.session(self.key)
        assert session is not None
        if session.fit_due is not None or session.n_measurements < session.n_rounds:
            raise SystemExit("a fit is due, or a round has no reward")
        before = session.n_rounds
        session.n_rounds *= self.times
        session.n_trajectories *= self.times
        session.n_measurements *= self.times
        window = build_agent(session, None).next_fit(session.n_rounds)
        assert window is not None
        session.schedule.open = [OpenWindow(window)]
        session.n_complete = session.n_measurements
        uow.save(session)
        return before


def _copying(table: str, users: int, rounds: int) -> str:
    """Return the statement that inserts the first rows again, so many users and rounds later."""
    number = f"cast(substr(trajectory, {len(PREFIX) + 1}) as int)"
    moved = {
        "trajectory": f"'{PREFIX}' || ({number} + {users})",
        "position": f"position + {rounds}",
    }
    columns = COLUMNS[table]
    taken = ", ".join(moved.get(name, name) for name in columns)
    return f"insert into {table} ({', '.join(columns)}) select {taken} from first_{table}"


def _connection(url: str) -> Any:
    if url.startswith("sqlite:///"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.execute("pragma synchronous = off")
        connection.execute("pragma cache_size = -200000")  # 200 MB
        return connection
    import psycopg

    return psycopg.connect(url)
