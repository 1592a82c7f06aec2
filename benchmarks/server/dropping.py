"""`lhb bench dropping`: how long the transactions are in which retention drops old rounds.

A session's rows are written straight to a store; then the commands of one pass run on it, as the
sweeper runs them. A sync of a small file beside each transaction says how slow the disk is.
"""

import os
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from lhb_engine.history import LATEST
from service.commands.drop_rounds import drop_rounds
from service.commands.erase_trajectory import sweep
from service.commands.sessions import create_session, remove_session
from service.session.records import (
    DecisionRow,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
)
from service.storage.database_url import open_store
from service.storage.ports import Changes, Keys, KnownRows
from service.storage.transactions import Store
from service.writer.group_commit import GroupCommit
from service.writer.large_writes import LargeWrite

DIM, HORIZON, N_ARMS = 10, 20, 20
FILL = 2000  # rounds of a transaction while the session is filled
BODY: dict[str, Any] = {"algorithm": "anytime", "name": None, "seed": 1}
BODY |= {"dim": DIM, "horizon": HORIZON}
BODY |= {"options": {}, "reward_mode": "single", "reward_wait_seconds": 0.0}
BODY |= {"default_reward": None, "refit": "background", "keep_rounds": LATEST}


def run(
    database: str | None,
    n_rounds: int,
    n_trajectories: int,
    *,
    latest: int = LATEST,
    fill: int = FILL,
) -> dict[str, Any]:
    """Fill a session, drop all but its latest rounds, and measure each transaction.

    Parameters
    ----------
    database : str or None
        URL of a migrated PostgreSQL database; None: a new SQLite file.
    n_rounds : int
    n_trajectories : int
        One after the other has its rounds.
    latest, fill : int
        Rounds that stay, and rounds of a transaction while the session is filled.

    Returns
    -------
    dict
        Number of transactions, their median and longest time in milliseconds and how many took more
        than 50, the same of the disk's syncs beside them, the seconds of all transactions, and how
        many rounds went.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_store(database or f"sqlite:///{folder}/lhb.db")) as store,
    ):
        commit = GroupCommit(store, after_commit=_nothing, on_rollback=lambda: None)
        [(made, error)], _ = commit.run_in_thread([create_session("", BODY, False)])
        if error is not None:
            raise error
        session = made[0]
        _fill(store, session, n_rounds, n_trajectories, latest, fill)
        with tempfile.NamedTemporaryFile(dir=folder) as probe:
            write = drop_rounds(session.key, n_rounds - latest)
            taken, syncs = _timed_of(commit, write, probe.fileno())
        with store.reader() as reader:
            after = reader.session(session.key)
        assert after is not None
        commit.run_in_thread([remove_session(session.key)])
        if database is not None:
            _timed_of(commit, sweep(session.key), None)
    return {
        "rounds": n_rounds,
        "trajectories": n_trajectories,
        "dropped": after.n_dropped_rounds,
        "transactions": len(taken),
        "median_ms": round(float(np.median(taken)) * 1e3, 4),
        "longest_ms": round(max(taken) * 1e3, 4),
        "above_50_ms": sum(seconds > 0.05 for seconds in taken),
        "sync_median_ms": round(float(np.median(syncs)) * 1e3, 4),
        "sync_longest_ms": round(max(syncs) * 1e3, 4),
        "seconds": round(sum(taken), 1),
    }


def _nothing(done: object) -> None:
    """Nobody waits for it."""


def _timed_of(
    commit: GroupCommit, write: LargeWrite[Any], probe: int | None
) -> tuple[list[float], list[float]]:
    """Return the seconds of each transaction, and of a sync of 4 kB after it."""
    taken, syncs = [], []
    command = next(write)
    while True:
        began = time.perf_counter()
        [(cursor, error)], _ = commit.run_in_thread([command])
        taken.append(time.perf_counter() - began)
        if error is not None:
            raise error
        if probe is not None:
            began = time.perf_counter()
            os.pwrite(probe, os.urandom(4096), 0)
            os.fsync(probe)
            syncs.append(time.perf_counter() - began)
        try:
            command = write.send(cursor)
        except StopIteration:
            return taken, syncs


def _fill(
    store: Store, session: SessionRow, n_rounds: int, n_trajectories: int, latest: int, fill: int
) -> None:
    """Write rounds, each with a reward."""
    owner, rng = session.key, np.random.default_rng(1)
    n_each = -(-n_rounds // n_trajectories)
    names = [f"t{i:07}" for i in range(n_trajectories)] if n_trajectories > 1 else [""]
    for first in range(1, n_rounds + 1, fill):
        changes = Changes()
        for position in range(first, min(first + fill, n_rounds + 1)):
            i, round = divmod(position - 1, n_each)
            changes.decisions.append(_decision((*owner, names[i]), round + 1, position, rng))
            value = *owner, names[i], round + 1, round + 1, round + 1, position
            changes.measurements.append(MeasurementRow(*value, 0.5, None, 1e9 + position))
        _write(store, changes)
    rows = Changes()
    for i, name in enumerate(names):
        n = max(0, min(n_each, n_rounds - i * n_each))
        rows.trajectories[(*owner, name)] = TrajectoryRow(*owner, name, n, n, n, n, 2e9)
    rows.sessions[owner] = replace(
        session,
        n_rounds=n_rounds,
        n_measurements=n_rounds,
        n_trajectories=len(names),
        dropped_to=n_rounds - latest,
    )
    _write(store, rows, owner)


def _decision(
    key: TrajectoryKey, round: int, position: int, rng: np.random.Generator
) -> DecisionRow:
    return DecisionRow(
        *key,
        round=round,
        number=round,
        position=position,
        client_event_id=None,
        digest=None,
        arm=0,
        arm_id=None,
        context=rng.bytes(8 * DIM),
        scores=rng.bytes(8 * N_ARMS),
        propensity=1.0,
        explored=False,
        forced=False,
        epoch=1,
        model_version=0,
        next_fit_round=None,
        at=1e9 + position,
    )


def _write(store: Store, changes: Changes, locked: SessionKey | None = None) -> None:
    transaction = store.begin()
    if locked is not None:
        transaction.run(transaction.fetch(Keys(sessions={locked}), KnownRows()))
    transaction.run(transaction.commit(changes))
    if locked is not None:
        transaction.rollback()  # what is cached of the session is from before
