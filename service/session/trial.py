"""Who plays the rounds of a session: its agent, a control group, the caller, or the guard."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NotRequired, Required

from pydantic import Discriminator, Field, Tag, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from lhb_engine.agents import Choice
from lhb_engine.randomness import Draw
from service.base.field_types import STRICT, Count, Key, Ordinal
from service.base.problems import Problem, ProblemCode

Mode = Literal["live", "shadow"]
Policy = Literal["default_arm", "uniform"]
PlayedBy = Literal["agent", "control", "caller", "guard"]
Group = Literal["agent", "control"]
Guard = Literal["off", "armed", "tripped"]
HOLDOUT_DEFAULTS: dict[str, Any] = {
    "policy": "default_arm",
    "planned_rounds": 100_000,
    "guard": True,
}


@with_config(STRICT)
class ControlSession(TypedDict):
    """The session whose agent control plays, and the name that it had when it was chosen."""

    session: Key
    name: NotRequired[Key | None]


Share = Annotated[float, Field(gt=0, lt=1, description="of trajectories that are in control")]
PlannedRounds = Annotated[
    Ordinal, Field(description="measured rounds at which the interval of lift is to be narrowest")
]


@with_config(STRICT)
class ControlBody(TypedDict):
    """The session whose agent control plays."""

    session: Annotated[Key, Field(description="name or id of a session with the same dim")]


WORD_TAG, CONTROL_TAG = POLICY_TAGS = ("<word>", "<control>")


@with_config(STRICT)
class HoldoutBody(TypedDict, total=False):
    """A share of trajectories that a control policy plays, to measure what the agent adds."""

    share: Required[Share]
    policy: Annotated[
        Annotated[Policy, Tag(WORD_TAG)] | Annotated[ControlBody, Tag(CONTROL_TAG)],
        Discriminator(lambda given: CONTROL_TAG if isinstance(given, dict) else WORD_TAG),
        Field(
            description="what control plays: the request's default_arm, any arm uniformly, or the "
            "arm that another session's estimate scores best"
        ),
    ]
    planned_rounds: PlannedRounds
    guard: Annotated[
        bool,
        Field(description="default true: where lift lies below zero, control's policy plays alone"),
    ]


class Begun(NamedTuple):
    """How much of a session has begun: rounds, rewards and, with a clock, slots."""

    rounds: int
    rewards: int
    slots: int = 0
    over: int | None = None  # the last slot that is over; None without a clock
    # a change to these modes begins a new comparison, or ends it with the last slot that is over
    anew_in: tuple[Mode, ...] = ()
    over_in: tuple[Mode, ...] = ()


class Shown(NamedTuple):
    """What a decision's row says of who chose the arm, and how."""

    played_by: PlayedBy | None
    agent_arm: int | None = None
    arm: int | None = None
    propensity: float | None = None
    explored: bool = False
    forced: bool = False


class Play(NamedTuple):
    """How a round is played."""

    by: PlayedBy | None  # who chooses the arm; None in a session without a trial
    arm: int | None = None  # the arm; None: the agent's, or none in a round without action
    propensity: float | None = None  # probability of `arm` where it was drawn

    def shown(self, choice: Choice | None) -> Shown:
        """Return what is shown, given the agent's choice; None in a round without action."""
        if choice is None:
            return Shown(self.by)
        agent_arm = None if self.by is None else choice.arm
        if self.arm is not None:
            return Shown(self.by, agent_arm, self.arm, self.propensity, forced=True)
        return Shown(self.by, agent_arm, choice.arm, choice.propensity, choice.explored)


@with_config(STRICT)
@dataclass(frozen=True, slots=True)
class Trial:
    """What a session compares its agent with.

    A named trajectory falls to one group as a whole, by a hash of its key. The default trajectory
    is mostly alone: blocks of its rounds fall to the groups, by a hash of their number. With a
    clock, blocks are of slots, and everybody's where totals are of all (a switchback). The hashes
    are salted by the session's seed, and never change.
    """

    is_on: ClassVar[bool] = True  # decisions say who played them
    mode: Mode = "live"  # "shadow": the caller plays its own arm
    share: Annotated[float, Field(ge=0, lt=1)] = (
        0.0  # of trajectories, or blocks, that fall to control; 0: there is no holdout
    )
    # what control plays; a dict names the session whose agent it plays
    policy: Policy | ControlSession = "default_arm"
    planned_rounds: PlannedRounds = 100_000
    guard: Guard = "off"  # "tripped": lift lies below zero, and both groups play what control plays
    # positions of the session's last round, and last reward, before this comparison began
    since: Count = 0
    since_reward: Count = 0
    # with a clock: slots after `since_slot` count, up to `until_slot` where somebody else plays now
    since_slot: Count = 0
    until_slot: Count | None = None

    @property
    def text(self) -> str | None:
        """The stored JSON text; None for a session without a trial."""
        return json.dumps(asdict(self), separators=(",", ":")) if self.is_on else None

    def changed(self, mode: Mode | None, guard: Guard | None, begun: Begun) -> "Trial":
        """Return the trial after a change of mode or guard, once so much has begun.

        Arming the guard begins a new comparison: what came before neither trips it nor hides harm.
        With a clock, so does the end of a shadow: totals name no decision, so slots must tell.
        """
        changes: dict[str, Any] = {}
        if mode not in (None, self.mode):
            changes["mode"] = mode
        if guard is not None and not guard == self.guard == "off":
            changes["guard"] = guard
        changed = Trial(**{**asdict(self), **changes}) if changes else self
        if guard == "armed" or changes.get("mode") in begun.anew_in:
            return changed.anew(begun)
        if changes.get("mode") in begun.over_in:
            return replace(changed, until_slot=begun.over)
        return changed

    def anew(self, begun: Begun) -> "Trial":
        """Return the trial with a comparison that begins now."""
        rounds, rewards, slots, over, *_ = begun
        until = None if self.mode == "live" else over
        return replace(self, since=rounds, since_reward=rewards, since_slot=slots, until_slot=until)

    def tripped(self, begun: Begun) -> "Trial":
        """Return the trial once lift lies below zero, when so much has begun."""
        return replace(self, guard="tripped", until_slot=begun.over)

    def summed(self, n_rounds: int, n_rewards: int) -> tuple[int, int]:
        """Return how many rounds and rewards need no sums: all, where nothing is compared."""
        return (0, 0) if self.is_on else (n_rounds, n_rewards)

    def counts(self, slot: int, horizon: int) -> bool:
        """Return whether groups played a slot, and all those whose actions it may still pay for."""
        begun = self.since_slot + horizon if self.since_slot else 0
        return begun <= slot and (self.until_slot is None or slot <= self.until_slot)

    def holdout(self) -> dict[str, Any] | None:
        """Return the session's setting `holdout`, or None."""
        if not self.share:
            return None
        policy = self.policy if self.control is None else {"session": self.control["session"]}
        return {"share": self.share, "policy": policy, "planned_rounds": self.planned_rounds}

    @property
    def control(self) -> ControlSession | None:
        """The session whose agent control plays, or None."""
        return self.policy if isinstance(self.policy, dict) else None

    def group(self, seed: int, trajectory: str, round: int, horizon: int) -> Group:
        """Return the group that a round falls to.

        `seed` and `horizon`: of the session; `round`: of the trajectory, from 1.
        """
        draw = Draw(seed, trajectory, block_of(trajectory, round, horizon))
        return "control" if draw.uniform("holdout") < self.share else "agent"

    def refuse_missing(self, forced: int | None, default_arm: int | None) -> None:
        """Raise a 422 if a request lacks the arm that somebody else than the agent may play."""
        if forced is not None:
            return
        if self.mode == "shadow":
            detail = 'in mode "shadow" the caller plays: forced_arm says which arm'
            raise Problem(ProblemCode.MISSING, detail, "forced_arm")
        if self.share and self.policy == "default_arm" and default_arm is None:
            detail = "control plays default_arm, which every decision of this session names"
            raise Problem(ProblemCode.MISSING, detail, "default_arm")

    def play(
        self, draw: Draw, horizon: int, n_arms: int, forced: int | None, default_arm: int | None
    ) -> Play:
        """Return how a round is played: the arm `forced` by the request, if there is one.

        A round without action has no arms. Control plays `default_arm` unless it draws an arm.
        """
        if forced is not None or self.mode == "shadow":
            return Play("caller", forced)
        if not self.share:
            return Play("agent")
        by: PlayedBy = "guard"  # in both groups: one alone would drift away with the season
        if self.guard != "tripped":
            # with a clock a block is of slots; where totals are of all, it is everybody's
            place = draw.trajectory, draw.turn or draw.round, horizon
            if self.group(draw.seed, *place) == "agent":
                return Play("agent")
            by = "control"
        if not n_arms or self.policy != "uniform":
            return Play(by, default_arm)
        return Play(by, draw.below(n_arms, "control"), 1.0 / n_arms)


class AgentAlone(Trial):
    """No trial: the session's agent plays every round, unless a request forces an arm."""

    __slots__ = ()
    is_on = False

    def play(
        self, draw: Draw, horizon: int, n_arms: int, forced: int | None, default_arm: int | None
    ) -> Play:
        """Return the arm that is forced, if there is one."""
        return BY_AGENT if forced is None else Play(None, forced)


AGENT_ALONE: Trial = AgentAlone()
BY_AGENT = Play(None)


def shown_again(
    trial: Trial, draw: Draw, horizon: int, n_arms: int, said: Shown, choice: Choice | None
) -> Shown:
    """Return what was shown, as groups and draws say it, and the agent's choice.

    Only what is `said` tells what a caller forced, whether there was a trial, whether the guard had
    tripped, and an arm that control does not draw.
    """
    by, then = said.played_by, AGENT_ALONE
    forced = said.arm if by == "caller" or (by is None and said.forced) else None
    if by is not None:
        guard: Guard = "tripped" if by == "guard" else "off"
        then = replace(trial, mode="shadow" if by == "caller" else "live", guard=guard)
    return then.play(draw, horizon, n_arms, forced, said.arm).shown(choice)


def block_of(trajectory: str, round: int, horizon: int) -> int:
    """Return the block of a round, from 1; 0: the trajectory falls to a group as a whole."""
    return 0 if trajectory else (round - 1) // block_rounds(horizon) + 1


def block_rounds(horizon: int) -> int:
    """Return the number of rounds in a block: the first half sees what was chosen before it."""
    return 2 * horizon


def is_mixed(round: int, horizon: int) -> bool:
    """Return whether a round of a block may still pay for what was chosen before the block."""
    return (round - 1) % block_rounds(horizon) < horizon - 1


@lru_cache(2**12)
def trial_of(text: str | None) -> Trial:
    """Return the trial from its stored text."""
    return AGENT_ALONE if text is None else Trial(**json.loads(text))


def new_trial(mode: Mode, holdout: dict[str, Any] | None) -> Trial:
    """Return the trial of a new session."""
    if mode == "live" and holdout is None:
        return AGENT_ALONE
    until = 0 if mode == "shadow" else None
    if holdout is None:
        return Trial(mode=mode, until_slot=until)
    guard: Guard = "armed" if holdout["guard"] else "off"
    return Trial(**{**holdout, "guard": guard, "mode": mode, "until_slot": until})


STORED = TypeAdapter(Trial)


def imported_trial(text: str | None) -> Trial:
    """Return the trial of an imported file; 422, naming "trial", for a text that nobody stores."""
    try:
        return AGENT_ALONE if text is None else STORED.validate_json(text)
    except ValidationError:
        detail = "not a trial as a session stores it"
        raise Problem(ProblemCode.INVALID, detail, "trial") from None


def arm_index(arm: int | str | None, arm_ids: Sequence[str] | None, field: str) -> int | None:
    """Return the index of an arm that is named by index or id.

    Raises 422: no arm has this id.
    """
    if not isinstance(arm, str):
        return arm
    if arm_ids is None:
        detail = f"{field} is an id, and the request has no arm_ids"
        raise Problem(ProblemCode.INVALID, detail, field)
    if arm not in arm_ids:
        raise Problem(ProblemCode.OUT_OF_RANGE, f"no arm has the id {arm!r}", field)
    return arm_ids.index(arm)
