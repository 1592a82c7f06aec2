"""Appending history: rounds decided and measured elsewhere become rounds of a session."""

from dataclasses import dataclass

import numpy as np

from lhb_engine.history import Floats
from service.agent_cache import Agents
from service.commands.decisions import Decide
from service.commands.rewards import Reward, apply_rewards, plan_rewards
from service.commands.sessions import find_session, refuse_archived, refuse_width
from service.problems import Problem, ProblemCode
from service.records import SessionKey
from service.storage.ports import Keys
from service.writer.command import Command
from service.writer.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Imported:
    """The rounds that the log became, and whether this command appended them."""

    first_round: int
    last_round: int
    n_rewards: int
    is_new: bool


@dataclass(slots=True)
class ImportHistory(Command[Imported]):
    """Command: append logged rounds to a trajectory, all or nothing.

    Attributes
    ----------
    contexts : (n_rounds, dim) array
        Selected contexts.
    rewards : list of float or None
        One a round; None where none is known.
    import_id : str, optional
        Idempotency key of the whole body.
    digest : bytes, optional
        Digest of the body, compared when `import_id` comes again.
    """

    key: SessionKey
    trajectory: str
    contexts: Floats
    rewards: list[float | None]
    agents: Agents
    import_id: str | None = None
    digest: bytes | None = None

    def keys(self, keys: Keys) -> None:
        """Add what this command reads."""
        keys.sessions.add(self.key)
        trajectory = (*self.key, self.trajectory)
        keys.trajectories.add(trajectory)
        if self.import_id is not None:
            names = [self._id(i) for i in range(len(self.contexts))]
            keys.events.update((trajectory, name) for name in names)
            keys.rewards.update((trajectory, name) for name in names)

    def __call__(self, uow: UnitOfWork) -> Imported:
        """Append the rounds in one step: of the windows that become due, the latest is fitted.

        Each round's reward is written before the next round begins, which may close a window.
        """
        session = find_session(uow, self.key)
        key = (*self.key, self.trajectory)
        n = len(self.contexts)
        if self.import_id is not None:
            known = uow.decision_by_event(key, self._id(0))
            if known is not None:
                if known.digest != self.digest:
                    detail = f"import {self.import_id!r} was made already, with another body"
                    raise Problem(ProblemCode.EVENT_CONFLICT, detail, "import_id")
                n_rewards = sum(value is not None for value in self.rewards)
                return Imported(known.round, known.round + n - 1, n_rewards, False)
            for name in map(self._id, range(1, n)):
                if uow.decision_by_event(key, name) is not None:
                    detail = f"event {name!r} of this import was decided already"
                    raise Problem(ProblemCode.EVENT_CONFLICT, detail, "import_id")
        refuse_archived(session)
        refuse_width(session, self.contexts)
        first = uow.trajectory(key).n_rounds + 1
        received = {
            i: Reward(value, self.trajectory, round=first + i, reward_id=self._reward_id(i, first))
            for i, value in enumerate(self.rewards)
            if value is not None
        }
        self._refuse_known_ids(uow, received)  # a Problem after a write would undo the whole batch
        for i, context in enumerate(self.contexts):
            event_id = None if self.import_id is None else self._id(i)
            decide = Decide(self.key, self.trajectory, context[np.newaxis], self.agents)
            decide.event_id, decide.digest, decide.forced_arm = event_id, self.digest, 0
            decide.take(uow, session)
            if i in received:
                planned = plan_rewards(uow, session, [received[i]], "rewards")
                apply_rewards(uow, session, planned, self.agents)
        return Imported(first, first + n - 1, len(received), True)

    def _refuse_known_ids(self, uow: UnitOfWork, received: dict[int, Reward]) -> None:
        for i, reward in received.items():
            name = reward.reward_id
            assert name is not None
            known = uow.measurement_by_id((*self.key, self.trajectory), name)
            if known is not None:
                detail = f"reward {name!r} was received already, for round {known.first_round}"
                raise Problem(ProblemCode.REWARD_CONFLICT, detail, f"rewards[{i}].reward_id")

    def _reward_id(self, i: int, first: int) -> str:
        """Name the i-th reward: in sum mode every reward needs a name."""
        return f"history-{first}/{i + 1}" if self.import_id is None else self._id(i)

    def _id(self, i: int) -> str:
        """Name the i-th round and its reward, from 0."""
        return f"{self.import_id}/{i + 1}"
