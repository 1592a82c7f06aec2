"""Rewards on this machine's disk, from before they are sent until the service has answered.

A file of SQLite, synced before a reward counts as kept. Threads and processes may share it.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from .answers import ProblemAnswer
from .errors import BufferFull

SCHEMA = """
create table if not exists kept (
    number integer primary key autoincrement,
    session text not null,
    body text not null,
    n_rewards integer not null,
    problem text -- why the service refused it; null: not sent yet
)
"""
WAIT_SECONDS = 30.0  # for another process that writes the file


@dataclass(frozen=True, slots=True)
class Kept:
    """A body of one reward, or of several that are stored all or nothing."""

    number: int
    session: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RefusedReward:
    """What the service refused of what was kept, and why."""

    session: str
    body: dict[str, Any]
    problem: ProblemAnswer


class RewardBuffer:
    """The file.

    Parameters
    ----------
    path : Path
        Made if it is not there. A file a service: session names and ids say nothing of the server.
    limit : int
        Rewards that it holds, refused ones too.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        # autocommit, except between begin and commit
        self._file = sqlite3.connect(
            path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._file.execute("pragma journal_mode = wal")
        self._file.execute("pragma synchronous = full")
        self._file.execute(SCHEMA)

    def keep(self, session: str, body: dict[str, Any]) -> int:
        """Keep a body; on return it is on the disk.

        Returns
        -------
        int
            Its number.

        Raises
        ------
        BufferFull
            There is no room. Nothing that is kept is given up for it.
        """
        n = len(body["rewards"]) if "rewards" in body else 1
        with self._lock:
            self._file.execute("begin immediate")
            try:
                held = self._file.execute("select coalesce(sum(n_rewards), 0) from kept")
                if held.fetchone()[0] + n > self._limit:
                    raise BufferFull(self._limit)
                row = self._file.execute(
                    "insert into kept (session, body, n_rewards) values (?, ?, ?)",
                    (session, json.dumps(body), n),
                )
                self._file.execute("commit")
            except BaseException:
                self._file.execute("rollback")
                raise
        assert row.lastrowid is not None
        return row.lastrowid

    def after(self, number: int, limit: int) -> list[Kept]:
        """Return what is not sent yet, in the order of its coming, after a number."""
        with self._lock:
            rows = self._file.execute(
                "select number, session, body from kept where number > ? and problem is null"
                " order by number limit ?",
                (number, limit),
            ).fetchall()
        return [Kept(number, session, json.loads(body)) for number, session, body in rows]

    def settle(self, sent: Iterable[int], refused: Mapping[int, ProblemAnswer]) -> None:
        """Forget what the service has stored; note what it refused."""
        with self._lock:
            self._file.execute("begin immediate")
            self._file.executemany("delete from kept where number = ?", [(n,) for n in sent])
            self._file.executemany(
                "update kept set problem = ? where number = ?",
                [(json.dumps(problem), number) for number, problem in refused.items()],
            )
            self._file.execute("commit")

    def n_waiting(self) -> int:
        """Return how many rewards are not sent yet."""
        with self._lock:
            rows = self._file.execute(
                "select coalesce(sum(n_rewards), 0) from kept where problem is null"
            )
            n: int = rows.fetchone()[0]
        return n

    def refused(self, *, forget: bool = False) -> list[RefusedReward]:
        """Return what the service refused, oldest first; `forget` deletes them."""
        with self._lock:
            self._file.execute("begin immediate")
            rows = self._file.execute(
                "select number, session, body, problem from kept where problem is not null"
                " order by number"
            ).fetchall()
            if forget:
                numbers = [(row[0],) for row in rows]
                self._file.executemany("delete from kept where number = ?", numbers)
            self._file.execute("commit")
        return [
            RefusedReward(session, json.loads(body), json.loads(problem))
            for _, session, body, problem in rows
        ]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()
