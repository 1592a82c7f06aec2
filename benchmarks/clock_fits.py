"""What a fit of a session with a clock costs, however many decisions there have been.

Decisions and totals, of all users together or of each of three, are written straight to the store.
The first fit reads all of them, and keeps sums; its direction is not installed, so that the later
one, some slots after it, is no mere check. The rows are counted that statements return to it.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np

from lhb_engine.history import Floats
from service.commands.sessions import create_session
from service.fits import job
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.fits.when_due import fit_now
from service.rounds.slot_sums import keep_slots
from service.session.records import DecisionRow, MeasurementRow, SessionKey
from service.session.slot_clock import Totals
from service.storage.database_url import open_reader, open_store
from service.storage.ports import Changes
from service.writer.agent_cache import Agents
from service.writer.command import SessionCommand
from service.writer.group_commit import GroupCommit
from service.writer.unit_of_work import UnitOfWork

DIM, HORIZON, SECONDS, LATER, AT_ONCE = 5, 48, 60, 100, 500
USERS = 3  # where rewards are totals of trajectories
HEADER = """| totals | slots | decisions | first fit, CPU s | later | its rows | read | \\|cos\\| |
|-|-|-|-|-|-|-|-|"""


class Writing(SessionCommand[None]):
    """Command: slots with their decisions and totals, and perhaps a fit of all of them."""

    def __init__(self, key: SessionKey, agents: Agents, slots: range, rows: "Rows") -> None:
        self.key, self.agents, self.slots, self.rows = key, agents, slots, rows

    def __call__(self, uow: UnitOfWork) -> None:
        """Write the slots."""
        session = uow.session(self.key)
        assert session is not None
        users = [uow.trajectory((*self.key, name)) for name in self.rows.names]
        changes = Changes()
        for slot in self.slots:
            for user, contexts, total in zip(users, *self.rows.of(slot), strict=True):
                for context in contexts:
                    user.n_rounds += 1
                    session.n_rounds += 1
                    n, at = user.n_rounds, float(SECONDS * slot - 1)
                    chosen: Any = 0, None, context.tobytes(), b"", None, False, True, 1, 0, None, at
                    place: Any = user.key, n, n, session.n_rounds, None, None
                    changes.decisions.append(DecisionRow(*self.key, *place, *chosen))
                user.n_measurements, user.measured_through = user.n_measurements + 1, slot
                session.n_measurements += 1
                numbers = user.n_measurements, session.n_measurements
                of_slot: Any = slot, slot, *numbers, float(total), None, float(SECONDS * (slot + 1))
                changes.measurements.append(MeasurementRow(*self.key, user.key, *of_slot))
        session.n_trajectories, session.schedule.n_slots = len(users), self.slots[-1] + 1
        uow.save(session)
        for user in users:
            user.n_decisions = user.n_rounds
            uow.save_trajectory(user)
        uow.write_rows(changes)


class Ask(SessionCommand[int]):
    """Command: make a fit of all slots due."""

    def __init__(self, key: SessionKey, agents: Agents) -> None:
        self.key, self.agents = key, agents

    def __call__(self, uow: UnitOfWork) -> int:
        """Return the slot after which it is due."""
        session = uow.session(self.key)
        assert session is not None
        session.schedule.open = []
        fit_now(uow, session, self.agents.get(uow, session), "asked", uow.now)
        assert session.fit_due is not None
        return session.fit_due


class Rows:
    """Selected contexts of each user's slots, `a_slot` in each, and the totals that they cause."""

    def __init__(self, n_slots: int, a_slot: int, seed: int, totals: Totals) -> None:
        self.names = [""] if totals == "all" else [f"user {i}" for i in range(USERS)]
        rng = np.random.default_rng(seed)
        self.theta: Floats = rng.standard_normal(DIM)
        self.theta /= np.linalg.norm(self.theta)
        weights = np.zeros(HORIZON)
        weights[rng.choice(HORIZON, 4, replace=False)] = 0.25
        shape = len(self.names), n_slots
        self.contexts: Floats = rng.uniform(-1.0, 1.0, (*shape, a_slot, DIM))
        signal = self.contexts.sum(axis=2) @ self.theta
        self.totals: Floats = 0.1 * np.sqrt(a_slot) * rng.standard_normal(shape)
        for noise, scores in zip(self.totals, signal, strict=True):
            noise += np.convolve(scores, weights)[:n_slots]

    def of(self, slot: int) -> tuple[Floats, Floats]:
        """Return the contexts and the totals of a slot, by user."""
        return self.contexts[:, slot - 1], self.totals[:, slot - 1]


@contextmanager
def counting(rows: list[int]) -> Iterator[None]:
    """Count the rows that statements of fits return."""

    @contextmanager
    def counted(url: str) -> Iterator[Any]:
        with open_reader(url) as reader:
            whole, each = reader._all, reader._each
            n = 0

            def every(name: str, *values: Any) -> Any:
                nonlocal n
                found = whole(name, *values)
                n += len(found)
                return found

            def one_by_one(name: str, *values: Any) -> Any:
                nonlocal n
                for row in each(name, *values):
                    n += 1
                    yield row

            reader._all, reader._each = every, one_by_one  # type: ignore[method-assign]
            yield reader
            rows.append(n)

    with patch.object(job, "open_reader", counted):
        yield


def size(n_slots: int, a_slot: int, seed: int = 0, totals: Totals = "all") -> dict[str, Any]:
    """Time two fits of a session, the second one `LATER` slots after the first."""
    rows, read = Rows(n_slots + LATER, a_slot, seed, totals), [0]
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'bench.db'}"
        store, agents = open_store(url), Agents()
        commit = GroupCommit(
            store,
            after_commit=lambda effects: None,
            on_rollback=agents.forget,
            clock=lambda: float(SECONDS * (n_slots + 2 * LATER)),
        )

        def run(command: Any) -> Any:
            [(result, error)], _ = commit.run_in_thread([command])
            if error is not None:
                raise error
            return result

        clock = {"slot_seconds": SECONDS, "start": 0.0, "totals": totals}
        asked = {"algorithm": "anytime", "dim": DIM, "horizon": HORIZON}
        session, _ = run(create_session("", {**asked, "seed": 1, "clock": clock}, True))

        key: SessionKey = session.key

        def fit() -> tuple[float, dict[str, Any]]:
            due = run(Ask(key, agents))
            spent = 0.0
            while True:
                began = process_time()
                answer = run_fit(url, *key, due, 0.0)
                spent += process_time() - began
                assert answer is not None
                if not answer.is_part:
                    break
                assert answer.settled is not None
                run(keep_slots(key, answer.settled))
            estimate = answer.estimate
            assert estimate is not None
            answer = replace(answer, estimate={**estimate, "theta": None})
            run(FinishFit(key, due, answer, agents))
            return spent, estimate

        for start in range(1, n_slots + 1, AT_ONCE):
            slots = range(start, min(start + AT_ONCE, n_slots + 1))
            run(Writing(key, agents, slots, rows))
        first, _ = fit()
        run(Writing(key, agents, range(n_slots + 1, n_slots + LATER + 1), rows))
        with counting(read):
            later, estimate = fit()
        store.close()
    theta = np.array(estimate["theta"] or np.zeros(DIM))
    return {
        "totals": totals,
        "n_slots": n_slots,
        "n_decisions": n_slots * a_slot * len(rows.names),
        "first": first,
        "later": later,
        "n_rows": estimate["n_rows"],
        "n_read": read[-1],
        "cosine": abs(float(theta @ rows.theta)),
    }


def run(
    sizes: Iterable[tuple[int, int]], seed: int, progress: Callable[[str], None], totals: Totals
) -> list[dict[str, Any]]:
    """Time each size; return a row for each."""
    found = []
    for n_slots, a_slot in sizes:
        row = size(n_slots, a_slot, seed, totals)
        found.append(row)
        progress(
            f"| {totals} | {n_slots} | {row['n_decisions']} | {row['first']:.2f} | "
            f"{row['later']:.2f} | {row['n_rows']} | {row['n_read']} | {row['cosine']:.4f} |"
        )
    return found
