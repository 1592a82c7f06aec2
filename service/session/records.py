"""The rows of the database, as plain objects. This module uses no database, HTTP or clock.

Times are Unix seconds. Rounds, numbers and positions count from 1. Limits of types like `Ordinal`
bound what an imported file may hold; rows are not checked against them.
"""

import json
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from msgspec.json import encode

from lhb_engine.agents import ALGORITHMS, Agent
from lhb_engine.history import FitWindow, Floats
from service.base.field_types import (
    ClientId,
    Count,
    EventId,
    Key,
    KeyInPath,
    Name,
    Number,
    Ordinal,
    Probability,
    Seed,
    Text,
    Time,
)
from service.session.fit_schedule import OpenWindow, Schedule
from service.session.names import NO_NAMES, Names, names_of
from service.session.slot_clock import SlotClock, clock_of
from service.session.spec import PLAIN, Settings
from service.session.trial import AGENT_ALONE, Trial, trial_of

MOST_CHANGES = 100  # of a session: each is kept in its row


class OptionChange(NamedTuple):
    """A change of options: how many rounds the session had, and its options until then."""

    after: int
    options: dict[str, Any]


@dataclass(frozen=True)
class OptionChanges:
    """All changes of a session's options, in order: it keeps those that it had before each change.

    Decisions have the options of their position, fits those of the revision in their manifest, so
    both are repeated exactly.
    """

    changes: tuple[OptionChange, ...] = ()

    def revision_of(self, position: int) -> int:
        """Return how many changes there were before the decision at a position."""
        return bisect_left(self.changes, position, key=lambda change: change.after)

    def with_one(self, after: int, options: dict[str, Any]) -> "OptionChanges":
        """Return these and one more."""
        return OptionChanges((*self.changes, OptionChange(after, options)))

    @cached_property
    def text(self) -> str | None:
        """The stored JSON text; None without any."""
        return json.dumps(self.changes) if self.changes else None


UNCHANGED = OptionChanges()


@lru_cache(maxsize=256)
def changes_of(text: str | None) -> OptionChanges:
    """Return the changes of a session's options from their stored text."""
    if text is None:
        return UNCHANGED
    return OptionChanges(tuple(OptionChange(*one) for one in json.loads(text)))


SessionKey = tuple[str, str]  # tenant, session id
TrajectoryKey = tuple[str, str, str]  # tenant, session id, trajectory
ROW_BYTES = 4096  # of a session's row without its texts and lists, about
NUMBER_BYTES = 32  # of a number in a list
SERVER_EVENT = "~"  # a server-made event id is this and the decision's number, and is not stored

# of `Settings`: statements read these
WITH_COLUMN = ("dim", "horizon", "keep_contexts", "keep_rounds", "keep_days")
SPEC = tuple(name for name in PLAIN if name not in WITH_COLUMN)
_spec_values = attrgetter(*SPEC)


@dataclass(kw_only=True)
class SessionState:
    """What moves in a session: its counters and its schedule of fits."""

    n_rounds: int = 0
    n_trajectories: int = 0
    n_measurements: int = 0
    n_complete: int = 0  # rounds of the last open window; unlike `schedule`, every reward moves it
    n_estimates: int = 0  # fits recorded, with failed and skipped ones
    estimate: int = 0  # number of the last estimate that was installed; 0: none
    model_version: int = 0  # how often an estimate was installed, or went
    schedule: Schedule = field(default_factory=Schedule)
    append_token: str | None = None  # of the log that is being appended in slices
    n_erased_rounds: Count = 0  # of `n_rounds`: those of erased trajectories
    n_erased_measurements: Count = 0  # of `n_measurements`
    erasing: str | None = None  # the trajectory whose rows are being erased; nobody sees them
    dropped_to: Count = 0  # rounds up to this position take no rewards; rows that none needs go
    swept_to: Count = 0  # `dropped_to` of the last pass over all rows
    n_dropped_rounds: Count = 0  # of `n_rounds`: those whose rows are gone
    n_dropped_measurements: Count = 0  # of `n_measurements`, with voids
    n_dropped_complete: Count = 0  # of the dropped rounds: those that a measurement covered

    def n_complete_of(self, window: OpenWindow) -> int:
        """Return how many rounds of an open window are complete."""
        return self.n_complete if window is self.schedule.open[-1] else window.n_complete

    def has(self, trajectory: str) -> bool:
        """Return whether rows of a trajectory count: they do until somebody erases them."""
        return trajectory != self.erasing

    @property
    def n_gone(self) -> int:
        """How many of its rounds have no rows any more: erased ones, and dropped ones."""
        return self.n_erased_rounds + self.n_dropped_rounds

    @property
    def n_erased_rows(self) -> int:
        """A number that grows whenever a trajectory of the session is erased."""
        return self.n_erased_rounds + self.n_erased_measurements

    def n_complete_gone(self, window: FitWindow, n_left: int) -> int:
        """Return how many rounds of a window are complete and gone; `n_left` of it have rows."""
        is_first = window.first == 1  # where rounds are dropped, a window begins with the session
        n = self.n_dropped_complete if is_first else 0
        if self.n_erased_rounds:
            n_begun = max(0, min(window.last, self.n_rounds) - window.first + 1)
            n += n_begun - n_left - (self.n_dropped_rounds if is_first else 0)
        return n

    @property
    def is_one_sequence(self) -> bool:
        """Whether the session has one trajectory, whose rounds are the session's positions."""
        return self.n_trajectories == 1 and self.n_erased_rounds == 0

    @property
    def fit_due(self) -> int | None:
        """The due round of the fit that is due (`Schedule.current`), or None."""
        return None if self.schedule.current is None else self.schedule.current.key

    @property
    def fit_due_at(self) -> float | None:
        """When that fit became due, or None."""
        return None if self.schedule.current is None else self.schedule.current.due_at

    @property
    def wake_at(self) -> float | None:
        """The next time at which a window is overdue or a fit is retried, or None."""
        times = {w.overdue_at for w in self.schedule.open}
        times |= {due.retry_at for due in (self.schedule.current, *self.schedule.waiting) if due}
        return min((at for at in times if at is not None), default=None)


@dataclass(slots=True)
class SessionRow(SessionState, Settings):
    """One session: its settings, its state, and who it is."""

    tenant: str
    id: str
    name: Name | None
    request: Text  # the body that created the session, as JSON
    created_at: Time
    archived_at: Time | None = None
    created_as: str | None = None  # the name in the creating body: tells a repeat after a rename
    names: Names = NO_NAMES
    changes: OptionChanges = UNCHANGED
    trial: Trial = AGENT_ALONE
    clock: SlotClock | None = None  # None: lags count its decisions
    seed: Seed = field(kw_only=True)  # drawn where none is asked for

    @property
    def spec(self) -> str:
        """The JSON text of the settings that have no column."""
        return encode(dict(zip(SPEC, _spec_values(self), strict=True))).decode()

    @property
    def kind(self) -> type[Agent]:
        """The class of its agent."""
        return ALGORITHMS[self.algorithm]

    @property
    def drops_rows(self) -> bool:
        """Whether rows of old rounds go, or went."""
        return any((self.dropped_to, self.keep_rounds, self.keep_days))

    @property
    def key(self) -> SessionKey:
        """Tenant and id."""
        return self.tenant, self.id

    @property
    def n_bytes(self) -> int:
        """About how many bytes of memory the row takes."""
        lists = sum(len(value) for value in self.options.values() if isinstance(value, list))
        texts = len(self.request) + len(self.changes.text or "")
        return ROW_BYTES + texts + self.names.n_bytes + NUMBER_BYTES * lists

    @property
    def clock_text(self) -> str | None:
        """The stored JSON text of its clock, if it has one."""
        return getattr(self.clock, "text", None)

    @property
    def revision(self) -> int:
        """How often its options changed."""
        return len(self.changes.changes)

    def at_revision(self, revision: int) -> "SessionRow":
        """Return the session with the options that it had after so many changes."""
        if revision >= self.revision:
            return self
        return replace(self, options=self.changes.changes[revision].options)


PARTS: dict[str, Callable[[Any], Any]] = {
    "schedule": lambda text: Schedule.load(json.loads(text)),
    "names": names_of,
    "changes": changes_of,
    "trial": trial_of,
    "clock": clock_of,
}
"""The parts of a session that are stored as JSON text: each with what reads its `text`."""


@dataclass(slots=True)
class TrajectoryRow:
    """The counters of one trajectory: a sequence of rounds within a session."""

    tenant: str
    session_id: str
    key: str
    n_decisions: int = 0
    n_rounds: int = 0
    n_measurements: int = 0
    measured_through: int = 0  # last round of any of its measurements
    last_at: float = 0.0  # time of its last decision
    own: bytes | None = None  # its own theta: see `service.rounds.trajectory_theta`
    lately: bytes | None = None  # what was chosen: see `service.session.names`


class DecisionRow(NamedTuple):
    """One decision as first answered."""

    tenant: str
    session_id: str
    trajectory: KeyInPath
    round: Ordinal  # within the trajectory
    number: Ordinal  # of the decision within the trajectory
    position: Ordinal  # of the decision within the session
    client_event_id: ClientId | None
    digest: bytes | None  # of the request body, to tell a repeat from a conflict
    arm: Count | None  # index of the selected arm, from 0; None: a round without action
    arm_id: Key | None
    # the selected context: float64 (dim,); where the agent takes means, what `with_means` adds
    context: bytes
    scores: bytes  # float64 (K,)
    propensity: Probability | None  # probability of the selected arm; None: unknown, or forced
    explored: bool
    forced: bool
    epoch: Ordinal
    model_version: Count
    next_fit_round: Ordinal | None  # round of the session after which the next fit is due
    at: Time
    played_by: str | None = None  # where there is a trial: see `service.session.trial.PlayedBy`
    agent_arm: Count | None = None  # there, the arm that the agent chose
    # of all arms, where they are kept (`service.session.kept_contexts`)
    contexts: bytes | None = None
    covariates: str | None = None  # of the round: see `service.session.covariates`
    own: bytes | None = None  # float64 (dim,): its trajectory's own theta, where that scored

    def selected(self, dim: int) -> Floats:
        """Return the selected context, (dim,), of a round with action."""
        return np.frombuffer(self.context, count=dim)

    @property
    def event_id(self) -> str:
        """The client's id if it gave one, else the server's."""
        if self.client_event_id is not None:
            return self.client_event_id
        return f"{SERVER_EVENT}{self.number}"


def number_in(event_id: str) -> int | None:
    """Return the decision's number in a server-made id; None for any other id."""
    number = event_id.removeprefix(SERVER_EVENT)
    if number == event_id or not (number.isascii() and number.isdecimal()) or len(number) > 17:
        return None
    return int(number) if number == str(int(number)) else None


class MeasurementRow(NamedTuple):
    """One reward: a value measured over rounds first_round to last_round, both included.

    Where there is a clock, its rounds are slots. Rows are only appended. `number` counts them in
    their trajectory, `position` in their session, in order of commits. A correction `replaces` an
    earlier row of the same rounds, which stays: of those that replace one, the last is in force.
    """

    tenant: str
    session_id: str
    trajectory: KeyInPath
    first_round: Ordinal
    last_round: Ordinal
    number: Ordinal
    position: Ordinal
    value: Number
    reward_id: EventId | None
    at: Time
    replaces: Ordinal | None = None  # position of the first value; None: it is that value
    covariates: str | None = None  # measured with it, over all its rounds
    late: Ordinal | None = None  # where a row takes in what came for it late; see `late_place`

    @property
    def rounds(self) -> tuple[int, int]:
        """The first and the last round that were measured."""
        return self.first_round, self.last_round

    def is_repeated_by(self, new: "MeasurementRow") -> bool:
        """Whether `new` says the same of the same rounds."""
        is_same = (*self.rounds, self.value) == (*new.rounds, new.value)
        is_same = is_same and self.covariates == new.covariates
        return is_same and (new.replaces is None or self.replaces == new.replaces)

    @property
    def root(self) -> int:
        """The position of the first value, which all its corrections replace."""
        return self.position if self.replaces is None else self.replaces


class VoidRow(NamedTuple):
    """A decision that was never shown: its round stays, as one without action."""

    tenant: str
    session_id: str
    trajectory: KeyInPath
    round: Ordinal
    position: Ordinal  # in one order with measurements'; fits that end before know it as taken
    at: Time


class HiddenRows(NamedTuple):
    """Rows of a session that no reader sees: of a write under way, or of a deleted session."""

    tenant: str
    session_id: str
    trajectory: str | None  # None: the rows of all trajectories
    after_round: int  # only rounds after this one
    writer: str | None  # token of the write under way; None: a sweep deletes the rows
    sweep_at: float  # when the rows stop being the writer's; every slice puts it off


class EstimateRow(NamedTuple):
    """One fit, with its manifest and its result."""

    tenant: str
    session_id: str
    number: Ordinal  # of the fit within the session
    epoch: Ordinal
    due: Ordinal  # round after which it was due
    status: str  # of the estimate; or "failed", or "skipped"
    reason: Text | None
    manifest: str  # JSON of what the fit read, like `DueFit`
    parent: Count  # number of the estimate that was in use before; 0: none
    model_version: Count  # of the session after this fit
    fingerprint: str | None  # JSON of the libraries and the CPU that computed it
    estimate: str | None  # JSON; None: the fit failed or was skipped
    at: Time

    @property
    def inputs(self) -> dict[str, Any]:
        """The manifest, parsed."""
        return dict(json.loads(self.manifest))

    @property
    def values(self) -> dict[str, Any]:
        """The estimate, parsed; empty where there is none."""
        return dict(json.loads(self.estimate or "{}"))


class FitQueue(NamedTuple):
    """Number of fits due, since when the oldest of them is due, and number of workers."""

    n_due: int
    oldest_at: float | None
    n_workers: int


class KeptSumsRow(NamedTuple):
    """The moments of a session's past, from which its next fit goes on; see `KeptSums`."""

    tenant: str
    session_id: str
    estimate: int  # number of the installed estimate; 0: none
    first_round: int
    last_round: int
    n_settled: int
    settled: bytes  # like `seen`, what `SquareSums.to_bytes` makes
    seen: bytes | None
    measured: int  # position of the last measurement that the fit which added them could use
    anew: int = 0  # position of the last correction whose old value was never in them


class SlotSumsRow(NamedTuple):
    """The summed contexts of slots that take no decision any more; see `service.rounds.slot_sums`.

    The slots are those of one trajectory from the session's row before to `last_slot`. The default
    trajectory has a row, be it empty, wherever another trajectory has one; where rewards are totals
    over all trajectories, its row has the sums of all.
    """

    tenant: str
    session_id: str
    trajectory: str
    last_slot: int
    decided: int  # decisions of all later slots have positions after this one
    sums: bytes  # float64 (n, 1 + dim): slots that have decisions, each with its context


class PlayedRound(NamedTuple):
    """What a comparison reads of a decision in a session with a trial.

    Scores are float64: of the first 64 arms, of the arm that was played, and of the agent's. They
    are empty or None in a round without action.
    """

    trajectory: str
    round: int
    position: int
    played_by: str
    model_version: int
    n_bytes: int  # of all scores
    first_scores: bytes | None
    score: bytes | None
    agent_score: bytes | None
    agrees: bool | None  # SQLite returns an integer


class LiftSumsRow(NamedTuple):
    """What is summed so far of a session with a trial, from which the next step goes on.

    The rounds up to position `decided` and the rewards up to position `measured` are in the sums.
    Only rounds with positions after `since` count. `sums` is JSON of `service.lift.sums.LiftSums`.
    """

    tenant: str
    session_id: str
    since: int
    decided: int
    measured: int
    sums: str


class LiftUnitRow(NamedTuple):
    """The totals of one unit of a comparison: a trajectory, or a block of the default one.

    Texts are those of `service.lift.exact`.
    """

    tenant: str
    session_id: str
    since: int
    trajectory: KeyInPath
    block: int  # 0: the whole trajectory
    rounds: float
    reward: str
    predicted: str


class ApiKey(NamedTuple):
    """An API key, which gives access to its tenant's data. `digest` is the key's SHA-256."""

    tenant: str
    id: str
    digest: bytes
    label: str
    created_at: float
    revoked_at: float | None = None
    role: str = "writer"
    expires_at: float | None = None
    last_used_at: float | None = None  # some seconds late: see `service.web.api_keys`

    def is_in_use(self, now: float) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class LimitRow(NamedTuple):
    """What a tenant or one of its keys may use, named as the settings are that it stands for.

    None: the setting holds; 0: unlimited.
    """

    tenant: str
    key_id: str  # "": the tenant
    requests_per_second: float | None = None
    max_sessions: int | None = None
    max_tenant_mb: int | None = None


class Actor(NamedTuple):
    """Who asks for a change: the id of a key, and of the request."""

    name: str | None  # None: a request that needed no key
    request_id: str | None


COMMAND_LINE = Actor("command line", None)


class AuditRow(NamedTuple):
    """One change of a key or a session."""

    tenant: str  # whose key or session it is
    id: str
    at: float
    actor: str | None
    request_id: str | None
    action: str
    subject: str  # id of the key or the session
    detail: str  # JSON object


class Webhook(NamedTuple):
    """A URL that is told of what happens to a tenant's sessions; `events` is a JSON list."""

    tenant: str
    id: str
    url: str
    events: str
    secret: str
    created_at: float
    last_error: str | None = None
    failed_at: float | None = None
    delivered_at: float | None = None
    n_given_up: int = 0


class Message(NamedTuple):
    """A message to a webhook, until it is received or given up."""

    tenant: str
    webhook: str
    id: str
    body: str
    at: float
    attempts: int
    next_at: float


ROWS: dict[str, type] = {
    "decisions": DecisionRow,
    "measurements": MeasurementRow,
    "voids": VoidRow,
    "estimates": EstimateRow,
    "api_keys": ApiKey,
    "audit": AuditRow,
    "limits": LimitRow,
    "webhooks": Webhook,
    "webhook_messages": Message,
    "hidden_rows": HiddenRows,
    "kept_sums": KeptSumsRow,
    "slot_sums": SlotSumsRow,
    "lift_sums": LiftSumsRow,
    "lift_units": LiftUnitRow,
    "trajectories": TrajectoryRow,
    "sessions": SessionRow,
}
"""The tables of the database, by name: each with the rows that it has."""
