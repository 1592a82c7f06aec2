"""Appending a log: rounds decided and measured elsewhere become rounds of a session."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import thread_time

from lhb_engine.history import Floats
from service.base.problems import Problem, ProblemCode
from service.commands.contexts import numbers_of
from service.commands.decisions import Decide
from service.commands.erase_trajectory import sweep
from service.commands.limits import NO_LIMITS, Limits
from service.commands.out_of_turn import fit_log
from service.commands.rewards import apply_rewards, plan_rewards
from service.commands.sessions import find_session, refuse_archived, unknown_session
from service.rounds.reward import Reward
from service.rounds.timeline import timeline_of
from service.session.covariates import covariates_text
from service.session.names import NamedContexts
from service.session.records import SessionKey, TrajectoryKey
from service.storage.ports import Keys
from service.writer.after_commit import LiveAgent
from service.writer.agent_cache import Agents, build_agent
from service.writer.command import Command
from service.writer.large_writes import (
    HiddenWork,
    LargeWrite,
    WorkState,
    copied_session,
    hide_for,
    own,
    refuse_erasing,
)
from service.writer.unit_of_work import UnitOfWork

SLICE_BYTES = 2**18  # of a slice's contexts


@dataclass(frozen=True, slots=True)
class Appended:
    """The rounds that the log became, and whether this call appended them."""

    first_round: int
    last_round: int
    n_rewards: int
    is_new: bool


@dataclass(slots=True)
class Log:
    """Rounds to append to a trajectory."""

    key: SessionKey
    trajectory: str
    # (n_rounds, dim): selected contexts; with names, the session's names make numbers of them
    contexts: Floats | NamedContexts
    rewards: list[float | None]  # one a round; None where none is known
    import_id: str | None = None  # idempotency key of the whole body
    digest: bytes | None = None  # digest of the body, compared when `import_id` comes again
    # by name, a number or None a round
    covariates: dict[str, list[float | None]] = field(default_factory=dict)
    limits: Limits = NO_LIMITS
    arm_ids: list[str | None] | None = None  # one a round; None where none is known
    times: list[float] | None = None  # one a round, in Unix seconds; None: now
    slice_rounds: int = 128  # at most
    slice_seconds: float = 0.005  # of CPU: agents that learn within an epoch take ms a round

    @property
    def trajectory_key(self) -> TrajectoryKey:
        """The key of the trajectory."""
        return (*self.key, self.trajectory)

    def name(self, i: int) -> str:
        """Name the i-th round and its reward, from 0."""
        return f"{self.import_id}/{i + 1}"

    def reward(self, i: int, first: int) -> Reward | None:
        """Return the i-th round's reward; in sum mode every reward needs a name."""
        value = self.rewards[i]
        name = f"history-{first}/{i + 1}" if self.import_id is None else self.name(i)
        if value is None:
            return None
        return Reward(value, self.trajectory, round=first + i, reward_id=name)

    def covariates_of(self, i: int) -> dict[str, float]:
        """Return the i-th round's covariates."""
        values_of_round = {name: values[i] for name, values in self.covariates.items()}
        return {name: value for name, value in values_of_round.items() if value is not None}

    def refuse_times(self, last_at: float, now: float) -> None:
        """Raise a 422 where times go back behind a trajectory's last decision, or are to come."""
        if self.times is not None and self.times[0] < last_at:
            detail = "the trajectory has a later round already, and times do not go back"
            raise Problem(ProblemCode.OUT_OF_RANGE, detail, "at[0]")
        if self.times is not None and self.times[-1] > now:
            detail = "it is ahead of the server's clock"
            raise Problem(ProblemCode.OUT_OF_RANGE, detail, f"at[{len(self.times) - 1}]")

    def slice_from(self, n: int) -> range:
        """Return the rounds that the slice after n rounds may take."""
        most, contexts = self.slice_rounds, self.contexts
        if not isinstance(contexts, NamedContexts):
            most = max(1, min(most, SLICE_BYTES // (contexts.shape[1] * contexts.itemsize)))
        return range(n, min(n + most, len(contexts)))


@dataclass(frozen=True, slots=True)
class Appending:
    """A log of which some rounds are written, and its session as it will be."""

    first_round: int
    n: int
    state: WorkState
    contexts: Floats  # of the whole log


@dataclass(frozen=True, slots=True)
class AppendSlice(Command[Appended | Appending]):
    """Command: append the next rounds of a log, hidden until its last slice.

    `writer` is the token of this append; `done` what the slice before returned; it is not changed,
    so that the command may run again.
    """

    log: Log
    agents: Agents
    writer: str
    done: Appending | None = None

    def whose(self) -> str:
        """Return the session's tenant."""
        return self.log.key[0]

    def keys(self, keys: Keys) -> None:
        """Add the rows that this slice reads."""
        log = self.log
        keys.sessions.add(log.key)
        keys.trajectories.add(log.trajectory_key)
        if log.import_id is not None:
            named = log.slice_from(self.done.n if self.done else 0)
            names = [(log.trajectory_key, log.name(i)) for i in named]
            keys.events.update(names)
            keys.rewards.update(names)

    def __call__(self, uow: UnitOfWork) -> Appended | Appending:
        """Append the rounds; of the windows that become due, the latest is fitted.

        Each round's reward is written before the next round begins, which may close a window.
        Returns `Appending` if rounds are left. Raises a `Problem`, with nothing written, where the
        session or the log does not take these rounds.
        """
        log, done = self.log, self.done
        if done is None:
            session = find_session(uow, log.key)
            refuse_erasing(session)  # a long log, too, notes its rows as hidden
            timeline_of(session).refuse_log(has_times=log.times is not None)
            log.limits.refuse_trajectory(uow, session, log.trajectory_key)
            earlier = self._known(uow)
            if earlier is not None:
                return earlier
            refuse_archived(session)
            covariates_text(session, dict.fromkeys(log.covariates, 0.0))  # refuses unknown ones
            contexts, names = numbers_of(session, log.contexts)
            assert contexts is not None
            trajectory = uow.trajectory(log.trajectory_key)
            log.refuse_times(trajectory.last_at, uow.now)
            first, n = trajectory.n_rounds + 1, 0
        else:
            contexts = done.contexts
            if uow.session(log.key) is None:
                raise unknown_session(log.key[1])
            first, n = done.first_round, done.n
        rounds = log.slice_from(n)
        self._refuse_known_ids(uow, rounds, first)  # a Problem after a write undoes the whole batch
        if done is None:
            stored = uow.agent_state(session.key)
            agent = LiveAgent(build_agent(session, stored), session.n_estimates, stored)
            state = WorkState(copied_session(session), replace(trajectory), agent, uow.now)
            state.session.names = names
        else:
            own(uow, log.key, self.writer)
            state = done.state.copied()
        n = self._append(HiddenWork(uow, state), contexts, rounds, first, state)
        if n == len(contexts):
            if done is not None:
                uow.pending.swept.append(log.key)
            n_rewards = sum(value is not None for value in log.rewards)
            return Appended(first, first + n - 1, n_rewards, True)
        if done is None:
            session.append_token = self.writer
            uow.save(session)
            hide_for(uow, log.key, self.writer, log.trajectory, first - 1)
        return Appending(first, n, state, contexts)

    def _known(self, uow: UnitOfWork) -> Appended | None:
        """Find the append that the same body made before."""
        log, n = self.log, len(self.log.contexts)
        if log.import_id is None:
            return None
        first_decision = uow.decision_by_event(log.trajectory_key, log.name(0))
        if first_decision is None:
            return None
        if first_decision.digest != log.digest:
            detail = f"import {log.import_id!r} was made already, with another body"
            raise Problem(ProblemCode.EVENT_CONFLICT, detail, "import_id")
        n_rewards = sum(value is not None for value in log.rewards)
        return Appended(first_decision.round, first_decision.round + n - 1, n_rewards, False)

    def _refuse_known_ids(self, uow: UnitOfWork, rounds: range, first: int) -> None:
        log = self.log
        for i in rounds:
            if log.import_id is not None and uow.decision_by_event(log.trajectory_key, log.name(i)):
                detail = f"event {log.name(i)!r} of this import was decided already"
                raise Problem(ProblemCode.EVENT_CONFLICT, detail, "import_id")
            reward = log.reward(i, first)
            name = None if reward is None else reward.reward_id
            measurement = None if name is None else uow.measurement_by_id(log.trajectory_key, name)
            if measurement is not None:
                detail = f"reward {name!r} exists already, for round {measurement.first_round}"
                raise Problem(ProblemCode.REWARD_CONFLICT, detail, f"rewards[{i}].reward_id")

    def _append(
        self, work: HiddenWork, contexts: Floats, rounds: range, first: int, state: WorkState
    ) -> int:
        """Append rounds for `slice_seconds`; return how many of the log are appended."""
        log, session, until = self.log, state.session, thread_time() + self.log.slice_seconds
        timeline = timeline_of(session)
        for i in rounds:
            decide = Decide(log.key, self.agents, NO_LIMITS, log.trajectory, None)
            decide.event_id = None if log.import_id is None else log.name(i)
            decide.digest = log.digest
            told = log.covariates_of(i)
            beside = covariates_text(session, timeline.logged_covariates(told))
            arm = None if log.arm_ids is None else log.arm_ids[i]
            arms = None if arm is None else [arm]
            decide.at = None if log.times is None else log.times[i]
            decision = decide.take(
                work, session, contexts[i : i + 1], arms, forced=0, beside=beside
            )
            reward = log.reward(i, first)
            if reward is not None:
                reward, came = timeline.logged(reward, decision.at, told)
                planned = plan_rewards(work, session, [reward], "rewards", i)
                planned = [(whose, new._replace(at=came)) for whose, new in planned]
                apply_rewards(work, session, planned, self.agents)
            if thread_time() > until:
                break
        is_whole = i + 1 == len(contexts)
        if is_whole:
            fit_log(work, session, self.agents)
        work.end(is_whole=is_whole)
        return i + 1


def append_history(
    log: Log, agents: Agents, abandon: Callable[[SessionKey, str], None]
) -> LargeWrite[Appended]:
    """Yield the commands that append a log; return the rounds that it became.

    A log that fits into a slice is one command. Otherwise the session takes nothing else until the
    log is whole (503 history_pending), but it may be deleted. A log that fails is erased before its
    error is raised, so that the session takes decisions again. `abandon` is called with the
    session's key and this append's token if rounds are left that nobody will show.
    """
    writer = secrets.token_hex(8)
    result = yield AppendSlice(log, agents, writer)
    try:
        while isinstance(result, Appending):
            result = yield AppendSlice(log, agents, writer, result)
    except Exception:
        yield from sweep(log.key, abandoned_by=writer)
        result = None
        raise
    finally:
        if isinstance(result, Appending):
            abandon(log.key, writer)
    done: Appended = result
    return done
