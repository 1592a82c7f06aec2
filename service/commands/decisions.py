"""Taking decisions: rewards that ride along first, then a choice, then its row."""

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from lhb_engine.history import Floats
from lhb_engine.randomness import Draw
from service.agent_cache import Agents
from service.commands.rewards import Planned, Reward, apply_rewards, are_few, plan_rewards
from service.commands.sessions import find_session, refuse_archived, refuse_width
from service.fits.schedule import after_decision, is_between_boundaries, is_blocked
from service.problems import Problem, ProblemCode
from service.records import DecisionRow, SessionKey, SessionRow
from service.storage.ports import Keys
from service.writer.command import Command
from service.writer.unit_of_work import UnitOfWork


class Taken(NamedTuple):
    """A decision, and whether it was taken just now or before."""

    decision: DecisionRow
    is_new: bool


@dataclass(frozen=True, slots=True)
class Blocked:
    """The decision has to wait for the fit that is due after this round; rewards are in."""

    due: int


@dataclass(slots=True)
class Decide(Command[Taken | Blocked]):
    """Command: one decision.

    Attributes
    ----------
    contexts : (K, dim) array, or None for a round without action
    forced_arm : what was shown where something else decided
    digest : of the request's parsed values; present whenever `event_id` is
    """

    key: SessionKey
    trajectory: str
    contexts: Floats | None
    agents: Agents
    event_id: str | None = None
    arm_ids: list[str] | None = None
    forced_arm: int | None = None
    rewards: list[Reward] = field(default_factory=list)
    digest: bytes | None = None

    def keys(self, keys: Keys) -> None:
        """Add what this command reads."""
        trajectory = (*self.key, self.trajectory)
        keys.sessions.add(self.key)
        keys.trajectories.add(trajectory)
        if self.event_id is not None:
            keys.events.add((trajectory, self.event_id))
        for reward in self.rewards:
            reward.keys(self.key, keys)

    def is_brief(self, uow: UnitOfWork) -> bool:
        """Whether a few rows are all that this reads and writes."""
        session = uow.session(self.key)
        if session is None:
            return True
        return (
            is_between_boundaries(session)
            and (not self.rewards or are_few(uow, session, self.rewards))
            and (uow.can_read or self.agents.has(session))
        )

    def __call__(self, uow: UnitOfWork) -> Taken | Blocked:
        """Checks come first: a Problem leaves nothing written."""
        session = find_session(uow, self.key)
        key = (*self.key, self.trajectory)
        if self.event_id is not None:
            known = uow.decision_by_event(key, self.event_id)
            if known is not None:
                return self._again(known)
        if session.archived_at is not None:
            refuse_archived(session)
        if self.contexts is not None:
            refuse_width(session, self.contexts)
        if self.rewards:
            planned: list[Planned] = plan_rewards(uow, session, self.rewards, "rewards")
            apply_rewards(uow, session, planned, self.agents)
        if is_blocked(session):
            assert session.schedule.current is not None
            return Blocked(session.schedule.current.key)
        return Taken(self.take(uow, session), True)

    def _again(self, known: DecisionRow) -> Taken:
        if known.digest != self.digest:
            detail = f"event {self.event_id!r} was decided already, with another body"
            raise Problem(ProblemCode.EVENT_CONFLICT, detail, "event_id")
        return Taken(known, False)

    def take(self, uow: UnitOfWork, session: SessionRow) -> DecisionRow:
        """Begin a round: choose and write. Everything has been checked."""
        trajectory = uow.trajectory((*self.key, self.trajectory))
        if trajectory.n_decisions == 0:
            session.n_trajectories += 1
        trajectory.n_decisions += 1
        trajectory.n_rounds += 1
        session.n_rounds += 1
        at = trajectory.last_at = max(uow.now, trajectory.last_at)
        round = trajectory.n_rounds
        agent = self.agents.get(uow, session)
        arm, scores, propensity, explored, context = None, b"", None, False, b""
        if self.contexts is not None:
            draw = Draw(session.seed, self.trajectory, round, session.n_rounds)
            chosen, values, propensity, explored = agent.choose(self.contexts, draw)
            if self.forced_arm is not None:
                chosen, propensity, explored = self.forced_arm, None, False
            arm, scores, context = chosen, values.tobytes(), self.contexts[chosen].tobytes()
        windows = session.schedule.open
        window = windows[-1].window if windows else None
        ahead = window is not None and window.due >= session.n_rounds
        decision = DecisionRow(
            *self.key,
            self.trajectory,
            round,
            trajectory.n_decisions,
            session.n_rounds,
            self.event_id,
            self.digest,
            arm,
            None if arm is None or self.arm_ids is None else self.arm_ids[arm],
            context,
            scores,
            propensity,
            explored,
            self.forced_arm is not None,
            window.epoch if window is not None and ahead else _last_epoch(window),
            session.model_version,
            window.due if window is not None and ahead else None,
            at,
        )
        uow.add_decision(decision)
        uow.count(session)
        uow.save_trajectory(trajectory)
        after_decision(uow, session, agent, at)
        return decision


def _last_epoch(window: Any) -> int:
    """The epoch that no fit will end."""
    return 1 if window is None else int(window.epoch) + 1


def request_digest(
    contexts: Floats | None,
    arm_ids: list[str] | None,
    forced_arm: int | None,
    rewards: list[Reward],
) -> bytes:
    """A digest of a decision's body as parsed: equal values, equal digest."""
    return body_digest(contexts, arm_ids, forced_arm, [reward.asked() for reward in rewards])


def body_digest(contexts: Floats | None, *parts: object) -> bytes:
    """A digest of contexts and of everything else that a body says."""
    digest = blake2b(repr(parts).encode(), digest_size=16)
    if contexts is not None:
        digest.update(repr(contexts.shape).encode())
        digest.update((contexts + 0.0).tobytes())  # -0.0 equals 0.0
    return digest.digest()
