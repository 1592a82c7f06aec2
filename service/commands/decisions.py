"""Taking a decision: first the rewards in its body, then the choice, then the row."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from lhb_engine.design.covariates import KNOWN
from lhb_engine.history import Floats
from lhb_engine.randomness import Draw
from service.base.problems import Problem, ProblemCode
from service.commands.contexts import FEW_VALUES, arms_of, numbers_of
from service.commands.control_agent import control_arm
from service.commands.limits import Limits
from service.commands.rewards import Planned, apply_rewards, are_brief, plan_rewards
from service.commands.sessions import find_session, refuse_archived
from service.fits.when_due import begin_rounds, fit_unread, is_between_boundaries, mark_due
from service.rounds.events import apply
from service.rounds.retention import refuse_dropped
from service.rounds.reward import Reward
from service.rounds.reward_rounds import decision_of
from service.rounds.timeline import timeline_of
from service.rounds.trajectory_theta import own_agent
from service.session.covariates import in_order
from service.session.kept_contexts import FEW_NUMBERS, may_be_kept, pack, refuse_too_many
from service.session.names import NO_NAMES, NamedContexts, fill_repetition
from service.session.records import DecisionRow, SessionKey, SessionRow, VoidRow
from service.session.rules import has_only_sums
from service.session.trial import arm_index
from service.storage.ports import Keys
from service.writer.agent_cache import Agents
from service.writer.command import SessionCommand, session_command
from service.writer.large_writes import refuse_erasing
from service.writer.unit_of_work import UnitOfWork


class Taken(NamedTuple):
    """A decision, and whether this command took it; a repeat gets the first answer again."""

    decision: DecisionRow
    is_new: bool


@dataclass(frozen=True, slots=True)
class Blocked:
    """The decision waits for the fit due after round `due`; its rewards are written."""

    due: int


@dataclass(slots=True)
class Decide(SessionCommand[Taken | Blocked]):
    """Command: one decision."""

    key: SessionKey
    agents: Agents
    limits: Limits
    trajectory: str
    # (K, dim): none for a round without action; objects are turned into numbers by the session's
    # names
    contexts: Floats | NamedContexts | None
    event_id: str | None = None  # the client's idempotency key
    arm_ids: list[str] | None = None
    # index or id of the arm that was shown, where something other than the agent chose it
    forced_arm: int | str | None = None
    rewards: list[Reward] = field(default_factory=list)
    # digest of the request's parsed values; present whenever `event_id` is
    digest: bytes | None = None
    default_arm: int | str | None = None  # index or id of the arm that a control group plays
    covariates: dict[str, float] | None = None  # the round's covariates by name
    # when it was taken, in Unix seconds, in a session with a clock; by default now
    at: float | None = None

    def keys(self, keys: Keys) -> None:
        """Add the rows that this command reads."""
        trajectory = (*self.key, self.trajectory)
        keys.sessions.add(self.key)
        keys.trajectories.add(trajectory)
        if self.event_id is not None:
            keys.events.add((trajectory, self.event_id))
        for reward in self.rewards:
            reward.keys(self.key, keys)

    def is_brief(self, uow: UnitOfWork) -> bool:
        """Return whether the command reads and writes only a few rows."""
        session = uow.session(self.key)
        if session is None:
            return True
        return (
            is_between_boundaries(session, math.inf if self.rewards else uow.now)
            and (type(self.contexts) is not NamedContexts or len(self.contexts.ids) <= FEW_VALUES)
            and not (
                session.keep_contexts
                and self.contexts is not None
                and len(self.contexts) * session.dim > FEW_NUMBERS
            )
            and (not self.rewards or are_brief(uow, session, self.rewards))
            and (uow.can_read or self.agents.has(session))
            and (uow.can_read or session.trial.control is None)
            and (uow.can_read or not self.agents.get(uow, session).has_responses)
        )

    def __call__(self, uow: UnitOfWork) -> Taken | Blocked:
        """Check, write the rewards, then take the decision; a Problem leaves nothing written."""
        session = find_session(uow, self.key)
        refuse_erasing(session, self.trajectory)
        key = (*self.key, self.trajectory)
        if self.event_id is not None:
            earlier = uow.decision_by_event(key, self.event_id)
            if earlier is not None:
                if earlier.digest != self.digest:
                    detail = f"event {self.event_id!r} was used before, with another body"
                    raise Problem(ProblemCode.EVENT_CONFLICT, detail, "event_id")
                return Taken(earlier, False)
        if session.archived_at is not None:
            refuse_archived(session)
        if self.limits.trajectories:
            self.limits.refuse_trajectory(uow, session, key)
        if self.contexts is not None and session.keep_contexts:
            refuse_too_many(session, len(self.contexts))
        contexts, names = numbers_of(session, self.contexts)
        timeline = timeline_of(session)
        beside = timeline.covariates_of_decision(session, self.covariates)
        arm_ids: Sequence[str] | None = self.arm_ids
        if arm_ids is None and session.names is not NO_NAMES and contexts is not None:
            arm_ids = arms_of(session, len(contexts))
        forced, usual = self.forced_arm, self.default_arm
        if isinstance(forced, str):
            forced = arm_index(forced, arm_ids, "forced_arm")
        if isinstance(usual, str):
            usual = arm_index(usual, arm_ids, "default_arm")
        trial = session.trial
        if trial.is_on and self.contexts is not None:
            if trial.control is not None:  # in both groups: else a share alone would be refused
                draw = Draw(session.seed, self.trajectory, uow.trajectory(key).n_rounds + 1)
                other = self.key[0], trial.control["session"]
                usual = control_arm(uow, self.agents, other, self.contexts, draw)
            trial.refuse_missing(forced, usual)
        planned: Planned = []
        if self.rewards:
            planned = plan_rewards(uow, session, self.rewards, "rewards")
        if self.at is not None:
            last = max((new.last_round for _, new in planned), default=0)
            timeline.refuse_time(self.at, uow.now, timeline.begun_with(session, last))
        if planned:
            apply_rewards(uow, session, planned, self.agents)
        if session.refit == "blocking":
            mark_due(uow, session, uow.now)  # the timer may be late
            if session.schedule.current is not None:
                return Blocked(session.schedule.current.key)
        if names is not session.names:
            session.names = names
            uow.save(session)
        return Taken(self.take(uow, session, contexts, arm_ids, forced, usual, beside), True)

    def take(
        self,
        uow: UnitOfWork,
        session: SessionRow,
        contexts: Floats | None,
        arm_ids: Sequence[str] | None = None,
        forced: int | None = None,
        default: int | None = None,
        beside: str | None = None,
    ) -> DecisionRow:
        """Begin a round: choose an arm and write the decision, which the caller has checked."""
        key = (*self.key, self.trajectory)
        trajectory = uow.trajectory(key)
        agent, timeline = self.agents.get(uow, session), timeline_of(session)
        names = session.names
        before = trajectory.own, trajectory.lately
        if names.repetition and contexts is not None:
            fill_repetition(names, contexts, trajectory.lately)
        own_theta, by = None, agent
        if contexts is not None and session.estimate:
            about = session, agent, self.trajectory, trajectory, uow.now
            by, own_theta = own_agent(lambda: uow.stored, *about)
        at = timeline.time_of(self.at, uow.now, timeline.n_begun(session), trajectory.last_at)
        round, position = trajectory.n_rounds + 1, session.n_rounds + 1
        arm_id, context, scores, kept = None, b"", b"", None
        draw = timeline.draw(session.seed, self.trajectory, round, position, at)
        n_arms = 0 if contexts is None else len(contexts)
        play = session.trial.play(draw, session.horizon, n_arms, forced, default)
        choice = None if contexts is None else by.choose(contexts, draw)
        shown = play.shown(choice)
        arm = shown.arm
        if contexts is not None and choice is not None and arm is not None:
            context, scores = contexts[arm].tobytes(), choice.scores.tobytes()
            arm_id = None if arm_ids is None else arm_ids[arm]
            if agent.takes_means and n_arms > 1:
                context += KNOWN + (np.add.reduce(contexts) / n_arms).tobytes()
            keeps = session.keep_contexts or agent.takes_sets
            if keeps and may_be_kept(session, n_arms, position):
                kept = pack(contexts, session.keep_contexts)
        begun = timeline.begun_by(position, at)
        epoch, next_fit_round = timeline.epoch(session, agent, begun)
        place = (*key, round, trajectory.n_decisions + 1, position)
        request, fits = (self.event_id, self.digest), (epoch, session.model_version, next_fit_round)
        how, more = (arm, arm_id, context, scores, *shown[3:]), (kept, beside, own_theta)
        row = (*place, *request, *how, *fits, at, *shown[:2], *more)
        decision = DecisionRow(*row)
        begun = apply(session, trajectory, decision, begun)
        uow.add_decision(decision)
        uow.effects.counts["decisions", session.tenant] += 1
        uow.count(session)
        if round == 1 or (trajectory.own, trajectory.lately, trajectory.last_at) != (*before, at):
            uow.save_trajectory(trajectory)  # else its counters follow from the decision
        if begun:
            begin_rounds(uow, session, timeline, agent, begun, max(uow.now, at))
        return decision


def request_digest(
    contexts: Floats | NamedContexts | None,
    arm_ids: list[str] | None,
    forced_arm: int | str | None,
    rewards: list[Reward],
    default_arm: int | str | None = None,
    covariates: Mapping[str, float] | None = None,
    at: float | None = None,
) -> bytes:
    """Digest a decision's body as parsed: equal values have equal digests."""
    given_rewards = [reward.asked() for reward in rewards]
    beside = default_arm, in_order(covariates), at
    return body_digest(contexts, arm_ids, forced_arm, given_rewards, *beside)


def body_digest(contexts: Floats | NamedContexts | None, *parts: object) -> bytes:
    """Digest contexts and the other parts of a body."""
    digest = blake2b(repr(parts).encode(), digest_size=16)
    if isinstance(contexts, NamedContexts):
        for part in contexts.digest_parts():
            digest.update(part)
    elif contexts is not None:
        digest.update(repr(contexts.shape).encode())
        digest.update((contexts + 0.0).tobytes())  # -0.0 equals 0.0
    return digest.digest()


@session_command
def void_decision(
    uow: UnitOfWork, key: SessionKey, trajectory: str, event_id: str, agents: Agents
) -> tuple[DecisionRow, VoidRow]:
    """From the next fit on, count the decision's round as one without action.

    The decision stays in the log as it was answered. Its round stays, and so do its rewards: they
    are of earlier decisions. Returns the decision, and the note that it is void; a repeat returns
    the first note.

    Raises 404 without such a session or decision; 409 no_corrections if the agent learns from each
    reward at once; 503 erasure_pending.
    """
    session, place = find_session(uow, key), (*key, trajectory)
    refuse_erasing(session, trajectory)  # a sweep is about to take the note away
    decision = decision_of(uow, session, place, event_id, "event_id")
    if voids := uow.stored.voids_of(place, decision.round, decision.round):
        return decision, voids[0]
    refuse_archived(session)
    refuse_voids(session, "event_id")
    refuse_dropped(session, decision.position, f"round {decision.round}", "event_id")
    if has_only_sums(session):
        detail = "the session drops rows: what fits have learned stays as it is"
        raise Problem(ProblemCode.NO_CORRECTIONS, detail, "event_id")
    changes = timeline_of(session).without_decision(uow.stored, session, decision)
    row, position = uow.trajectory(place), session.n_measurements + 1
    void = VoidRow(*place, decision.round, position, uow.now)
    apply(session, row, void)
    uow.count(session)
    fit_unread(uow, session, agents, uow.now)
    uow.save_trajectory(row)
    changes.voids.append(void)
    uow.write_rows(changes)
    return decision, void


def refuse_voids(session: SessionRow, field: str) -> None:
    """Raise a 409 no_corrections, naming a field, if the agent may have learned from decisions."""
    if not session.kind.takes_corrections:
        detail = f"{session.algorithm} may have learned from the decision, and keeps no past"
        raise Problem(ProblemCode.NO_CORRECTIONS, detail, field)
