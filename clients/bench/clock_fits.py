"""What a fit of a session with a clock costs, however many decisions there have been.

Decisions and totals are written straight to the store. The first fit reads all of them, and keeps
sums; its direction is not installed, so that the later one, some slots after it, is no mere check.
"""

import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from lhb_engine.history import Floats
from service.agent_cache import Agents
from service.api.session_bodies import SESSION_DEFAULTS
from service.commands.sessions import CreateSession
from service.fits.install import FinishFit, RetryPolicy
from service.fits.job import run_fit
from service.fits.out_of_turn import fit_now
from service.fits.record import Fitted
from service.records import DecisionRow, MeasurementRow, SessionKey
from service.storage.database_url import open_store
from service.storage.ports import Changes
from service.writer.command import SessionCommand
from service.writer.group_commit import GroupCommit
from service.writer.unit_of_work import UnitOfWork

DIM, HORIZON, SECONDS, LATER, AT_ONCE = 5, 48, 60, 100, 500
HEADER = """| slots | decisions | first fit, CPU s | a later one, CPU s | its rows | \\|cos\\| |
|-|-|-|-|-|-|"""


class Writing(SessionCommand[None]):
    """Command: slots with their decisions and totals, and perhaps a fit of all of them."""

    def __init__(self, key: SessionKey, agents: Agents, slots: range, rows: "Rows") -> None:
        self.key, self.agents, self.slots, self.rows = key, agents, slots, rows

    def __call__(self, uow: UnitOfWork) -> None:
        """Write the slots."""
        session = uow.session(self.key)
        assert session is not None
        trajectory = uow.trajectory((*self.key, ""))
        changes = Changes()
        for slot in self.slots:
            for context in self.rows.contexts[slot - 1]:
                trajectory.n_rounds += 1
                n, at = trajectory.n_rounds, float(SECONDS * slot - 1)
                chosen: Any = (0, None, context.tobytes(), b"", None, False, True, 1, 0, None, at)
                row = DecisionRow(*self.key, "", n, n, n, None, None, *chosen)
                changes.decisions.append(row)
            number = trajectory.n_measurements = trajectory.n_measurements + 1
            value = float(self.rows.totals[slot - 1])
            of_slot: Any = slot, slot, number, number, value, None, float(SECONDS * (slot + 1))
            changes.measurements.append(MeasurementRow(*self.key, "", *of_slot))
        trajectory.n_decisions = trajectory.n_rounds
        session.n_rounds, session.n_measurements = trajectory.n_rounds, trajectory.n_measurements
        session.n_trajectories, session.schedule.n_slots = 1, self.slots[-1] + 1
        uow.save(session)
        uow.save_trajectory(trajectory)
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
    """Selected contexts of slots, `a_slot` in each, and the totals that they cause."""

    def __init__(self, n_slots: int, a_slot: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.theta: Floats = rng.standard_normal(DIM)
        self.theta /= np.linalg.norm(self.theta)
        weights = np.zeros(HORIZON)
        weights[rng.choice(HORIZON, 4, replace=False)] = 0.25
        self.contexts: Floats = rng.uniform(-1.0, 1.0, (n_slots, a_slot, DIM))
        signal = self.contexts.sum(axis=1) @ self.theta
        noise = 0.1 * np.sqrt(a_slot) * rng.standard_normal(n_slots)
        self.totals: Floats = np.convolve(signal, weights)[:n_slots] + noise


def size(n_slots: int, a_slot: int, seed: int = 0) -> dict[str, Any]:
    """Time two fits of a session, the second one `LATER` slots after the first."""
    rows = Rows(n_slots + LATER, a_slot, seed)
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

        clock = {"slot_seconds": SECONDS, "start": 0.0, "totals": "all"}
        asked = {**SESSION_DEFAULTS, "algorithm": "anytime", "dim": DIM, "horizon": HORIZON}
        session, _ = run(CreateSession("", {**asked, "seed": 1, "clock": clock}, True))

        key: SessionKey = session.key

        def fit() -> tuple[float, dict[str, Any]]:
            due = run(Ask(key, agents))
            began = process_time()
            answer = run_fit(url, *key, due, 0.0)
            spent = process_time() - began
            assert answer is not None
            estimate = json.loads(answer.text)["estimate"]
            fitted = replace(Fitted.of(answer), estimate={**estimate, "theta": None})
            run(FinishFit(key, due, fitted, agents, RetryPolicy()))
            return spent, estimate

        for start in range(1, n_slots + 1, AT_ONCE):
            slots = range(start, min(start + AT_ONCE, n_slots + 1))
            run(Writing(key, agents, slots, rows))
        first, _ = fit()
        run(Writing(key, agents, range(n_slots + 1, n_slots + LATER + 1), rows))
        later, estimate = fit()
        store.close()
    theta = np.array(estimate["theta"] or np.zeros(DIM))
    return {
        "n_slots": n_slots,
        "n_decisions": n_slots * a_slot,
        "first": first,
        "later": later,
        "n_rows": estimate["n_rows"],
        "cosine": abs(float(theta @ rows.theta)),
    }


def run(
    sizes: Iterable[tuple[int, int]], seed: int, progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Time each size; return a row for each."""
    found = []
    for n_slots, a_slot in sizes:
        row = size(n_slots, a_slot, seed)
        found.append(row)
        progress(
            f"| {n_slots} | {row['n_decisions']} | {row['first']:.2f} | {row['later']:.2f} | "
            f"{row['n_rows']} | {row['cosine']:.4f} |"
        )
    return found
