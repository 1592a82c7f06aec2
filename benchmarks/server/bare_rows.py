"""What SQLite alone takes for batches of decisions: those of one trajectory beside those of many.

The server's own statements run in this process, in transactions of 100 decisions, with the server's
settings: counters of trajectories are read that it would not remember, rows are inserted, the
commit is synced, a long log is written back. CPU microseconds a decision, with standard errors.

Example: python -m benchmarks.server.bare_rows 100000
"""

import random
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.server.batches import BATCH
from benchmarks.server.user_traffic import DIM, N_ARMS
from service.session.records import DecisionRow
from service.storage.schema import SCHEMA
from service.storage.sqlite.connection import connect
from service.storage.sqlite.database_file import CUT_BYTES, LogLength, checkpoint, log_bytes
from service.storage.sqlite.maintenance import upgrade
from service.storage.sqlite.store import SQL, execute_rows

ROUNDS, ONE_ROUNDS, TURNS, BATCHES = 10, 10_000, 10, 100
PARTS = ("read", "insert", "commit", "log")
SESSION = "019abcde-0000-7000-8000-{:012}"


class Rows:
    """The rows of a session with `n` trajectories, one of its rounds after the other."""

    def __init__(self, connection: sqlite3.Connection, path: Path, n: int) -> None:
        self.connection, self.path, self.log = connection, path, LogLength()
        self.key = "default", SESSION.format(n)
        self.names = [f"user-{i}" for i in range(n)] if n > 1 else [""]
        self.n_rounds = dict.fromkeys(self.names, 0)
        self.position = 0

    def next(self, name: str) -> DecisionRow:
        """Return the next decision of a trajectory."""
        self.position += 1
        self.n_rounds[name] = round = self.n_rounds[name] + 1
        shown = 1, None, bytes(8 * DIM), bytes(8 * N_ARMS), 0.2, False, False
        place = *self.key, name, round, round, self.position, None, None
        return DecisionRow(*place, *shown, 1, 0, None, float(self.position), *[None] * 5)

    def fill(self, rounds: int) -> None:
        """Insert rounds of all trajectories, and the trajectories as they are after the first."""
        for _ in range(rounds):
            self.connection.execute("begin")
            rows = [self.next(name) for name in self.names]
            execute_rows(self.connection, SQL["insert_decision"], rows)
            if rows[0].round == 1:
                saved = [(*row[:3], 1, 1, 0, 0, row.at, None, None) for row in rows]
                execute_rows(self.connection, SQL["save_trajectory"], saved)
            self.connection.execute("commit")

    def batch(self, rng: random.Random) -> list[float]:
        """Insert a batch; return the CPU seconds of PARTS."""
        execute, names = self.connection.execute, [rng.choice(self.names) for _ in range(BATCH)]
        rows, asked = [self.next(name) for name in names], [(*self.key, name) for name in {*names}]
        times = [time.process_time()]
        execute("begin")
        if len(self.names) > 1:
            execute_rows(self.connection, SQL["trajectories_by_keys"], asked)
        times.append(time.process_time())
        execute_rows(self.connection, SQL["insert_decision"], rows)
        times.append(time.process_time())
        execute("commit")
        times.append(time.process_time())
        if self.log.is_long(n_bytes := log_bytes(self.path)):
            checkpoint(self.connection, cut=n_bytes > CUT_BYTES)
        return list(map(float, np.diff([*times, time.process_time()])))


def run(n: int) -> None:
    """Print what a decision takes in a session of one trajectory, and in one of `n`."""
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.db")
        upgrade(connection := connect(path), SCHEMA)
        sessions = [Rows(connection, path, size) for size in (1, n)]
        for session, rounds in zip(sessions, (ONE_ROUNDS, ROUNDS), strict=True):
            session.fill(rounds)
        checkpoint(connection, cut=True)
        found = np.array(
            [
                [np.mean([one.batch(rng) for _ in range(BATCHES)], axis=0) for one in sessions]
                for _ in range(TURNS)
            ]
        )
        connection.close()
    found = 1e6 / BATCH * np.concatenate([found, found.sum(axis=2, keepdims=True)], axis=2)
    errors = found.std(axis=0, ddof=1) / TURNS**0.5
    for name, means, error in zip(("one", f"{n}"), found.mean(axis=0), errors, strict=True):
        cells = zip((*PARTS, "all"), means, error, strict=True)
        print(name, *(f"{part} {mean:.1f} ± {by:.1f}" for part, mean, by in cells), sep="; ")


if __name__ == "__main__":
    run(int(sys.argv[1]))
