"""Use cases over a real store, with a clock that the test turns and no processes."""

from pathlib import Path
from typing import Any

import numpy as np

from lhb_engine.estimate import Estimate
from service.api.context_arrays import read_contexts
from service.base.loop_slices import run_at_once
from service.commands.decisions import Blocked, Decide, Taken
from service.commands.limits import NO_LIMITS
from service.commands.rewards import ReceiveRewards
from service.commands.sessions import create_session
from service.fits.fit_answer import Fitted
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.fits.when_due import tick
from service.rounds.reward import Reward
from service.rounds.slot_sums import keep_slots
from service.session.records import DecisionRow, EstimateRow, SessionKey, SessionRow
from service.storage.sqlite.store import SqliteStore
from service.storage.transactions import Store
from service.transfer.import_file import import_session, prepare_import
from service.writer.after_commit import Effects
from service.writer.agent_cache import Agents
from service.writer.group_commit import GroupCommit

CONTEXTS = np.array([[1.0, 0.0], [0.0, 1.0]])
OK = Estimate(status="ok", lag_weights=np.ones(4) / 4, theta=np.array([0.6, 0.8]))
ZERO = Estimate(status="zero", lag_weights=np.zeros(4))


class ServiceHarness:
    """One session at a time is enough here. ad_lasso with horizon 4 fits 2..4, 9..12, 21..28."""

    def __init__(self, path: Path, store: Store | None = None) -> None:
        self.now = 1000.0
        self.agents = Agents()
        self.store = store or SqliteStore(path / "lhb.db")
        self.effects = Effects()
        self.commit = GroupCommit(
            self.store,
            after_commit=lambda effects: None,
            on_rollback=self.agents.forget,
            clock=lambda: self.now,
        )
        self.key: SessionKey = ("", "")

    def close(self) -> None:
        """Close the database."""
        self.store.close()

    def run(self, command: Any) -> Any:
        """The command's result; its effects are kept."""
        [(result, error)], effects = self.commit.run_in_thread([command])
        if error is not None:
            raise error
        [self.effects] = effects
        return result

    def run_large(self, write: Any) -> Any:
        """The result of a large write, its commands run one after the other."""
        result = None
        while True:
            try:
                result = self.run(write.send(result))
            except StopIteration as done:
                return done.value

    def import_file(self, path: Path, content: bytes) -> Any:
        """The session that a file makes, and whether it is new; `path` is a folder for it."""
        file = path / "file"
        file.write_bytes(content)
        prepared = prepare_import(file, path / "rows", "", None, False)
        return self.run_large(import_session(prepared, lambda *left: None))

    def create(self, **body: Any) -> SessionRow:
        """A new session, which the other methods then mean."""
        request = {
            "algorithm": "ad_lasso",
            "dim": 2,
            "horizon": 4,
            "seed": 1,
            **body,
        }
        session, _ = self.run(create_session("", request, True))
        self.key = session.key
        return self.session

    @property
    def session(self) -> SessionRow:
        """The session as committed."""
        with self.store.reader() as reader:
            found = reader.session(self.key)
        assert found is not None
        return found

    def decide_or_block(self, trajectory: str = "", **more: Any) -> Taken | Blocked:
        """A decision, or what it has to wait for."""
        contexts = more.pop("contexts", CONTEXTS)
        if isinstance(contexts, list):  # with names
            contexts = run_at_once(read_contexts(contexts))
        result: Taken | Blocked = self.run(
            Decide(self.key, self.agents, NO_LIMITS, trajectory, contexts, **more)
        )
        return result

    def decide(self, trajectory: str = "", **more: Any) -> DecisionRow:
        """A decision that nothing blocks."""
        taken = self.decide_or_block(trajectory, **more)
        assert isinstance(taken, Taken)
        return taken.decision

    def rounds(self, n: int, *, rewarded: bool = True, trajectory: str = "") -> None:
        """So many rounds, each with its reward unless told otherwise."""
        for _ in range(n):
            decision = self.decide(trajectory)
            if rewarded:
                self.reward(1.0, round=decision.round, trajectory=trajectory)

    def reward(self, value: float, trajectory: str = "", **when: Any) -> Any:
        """One reward."""
        return self.run(ReceiveRewards(self.key, [Reward(value, trajectory, **when)], self.agents))

    def tick(self) -> None:
        """What a timer does."""
        self.run(tick(self.key))

    def finish(self, due: int, estimate: Estimate | None = OK, reason: str = "broken") -> Any:
        """What a fitting process hands back."""
        fitted = Fitted(None, reason=reason)
        if estimate is not None:
            fitted = Fitted(estimate.to_json(), {"numpy": "0"})
        return self.run(FinishFit(self.key, due, fitted, self.agents, 3, 10.0))

    def make_fits(self, url: str) -> None:
        """Make the fits that are due, part by part, as a fitting process does."""
        while (due := self.session.fit_due) is not None:
            answer = run_fit(url, *self.key, due, 0.0)
            assert answer is not None
            if answer.is_part:
                assert answer.settled is not None
                self.run(keep_slots(self.key, answer.settled))
                continue
            self.run(FinishFit(self.key, due, answer, self.agents, 1))

    @property
    def estimates(self) -> list[EstimateRow]:
        """All fits so far."""
        with self.store.reader() as reader:
            return reader.estimates(self.key, 0, 1000)

    @property
    def statuses(self) -> list[tuple[int, str]]:
        """Epoch and status of all fits so far."""
        return [(record.epoch, record.status) for record in self.estimates]
