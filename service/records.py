"""The rows of the database, as plain objects. This module uses no database, HTTP or clock.

Times are Unix seconds. Rounds, numbers and positions count from 1. Limits of types like `Ordinal`
bound what an imported file may hold; rows are not checked against them.
"""

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lhb_engine.history import FitWindow
from service.field_types import (
    ClientId,
    Count,
    Dim,
    EventId,
    Horizon,
    Key,
    Name,
    Number,
    Ordinal,
    Probability,
    Seed,
    Text,
    Time,
    WaitSeconds,
)

SessionKey = tuple[str, str]  # tenant, session id
TrajectoryKey = tuple[str, str, str]  # tenant, session id, trajectory
SERVER_EVENT = "~"  # a server-made event id is this and the decision's number, and is not stored


@dataclass(slots=True)
class OpenWindow:
    """A fit that is not due yet."""

    window: FitWindow  # the rounds that the fit will read
    n_complete: int = 0  # how many of these rounds have their reward
    overdue_at: float | None = None  # when the fit becomes due although rewards are missing


@dataclass(slots=True)
class DueFit:
    """A fit that is due, with its manifest: what the fit may read.

    The commit that makes the fit due fixes the manifest, so that the fit can be repeated exactly.
    """

    window: FitWindow
    measured: dict[str, int]  # of each trajectory: number of the last measurement to use
    closed: dict[str, int]  # of each trajectory: last round closed by time (sum, default reward)
    reason: str  # "complete"; "overdue": rewards are missing; "never": it was skipped
    due_at: float
    attempts: int = 0  # that failed
    retry_at: float | None = None  # earliest time of the next attempt

    @property
    def key(self) -> int:
        """The round after which it is due. A session has at most one fit per round."""
        return self.window.due

    def to_json(self) -> dict[str, Any]:
        """Return the members as JSON values."""
        return {
            "window": window_to_json(self.window),
            "measured": self.measured,
            "closed": self.closed,
            "reason": self.reason,
            "due_at": self.due_at,
            "attempts": self.attempts,
            "retry_at": self.retry_at,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "DueFit":
        """Invert `to_json`."""
        return cls(**{**data, "window": FitWindow(**data["window"])})


def window_to_json(window: FitWindow) -> dict[str, int]:
    """Return the window's numbers by name."""
    return dict(vars(window))


@dataclass(slots=True)
class Schedule:
    """The fits of a session that are not done.

    `open` holds the fits that are not due yet, in order of due round; only the last one may be due
    after a round that is still to come. `current` is the running fit (the due mark). `waiting`
    holds the due fits that wait for it, or for their next attempt.
    """

    open: list[OpenWindow] = field(default_factory=list)
    current: DueFit | None = None
    waiting: list[DueFit] = field(default_factory=list)

    def dumps(self) -> str:
        """Return the stored JSON text."""
        return json.dumps(
            {
                "open": [[window_to_json(w.window), w.n_complete, w.overdue_at] for w in self.open],
                "current": None if self.current is None else self.current.to_json(),
                "waiting": [due.to_json() for due in self.waiting],
            },
            separators=(",", ":"),
        )

    @classmethod
    def loads(cls, text: str) -> "Schedule":
        """Invert `dumps`."""
        return cls.load(json.loads(text))

    @classmethod
    def load(cls, data: dict[str, Any]) -> "Schedule":
        """Make a schedule from parsed JSON."""
        return cls(
            open=[OpenWindow(FitWindow(**w), n, at) for w, n, at in data["open"]],
            current=None if data["current"] is None else DueFit.from_json(data["current"]),
            waiting=[DueFit.from_json(due) for due in data["waiting"]],
        )


@dataclass(slots=True)
class SessionRow:
    """One session: its settings, its counters and its schedule of fits.

    `n_complete` is the number of complete rounds in the last open window. It has a column of its
    own since it changes with every reward, while `schedule` changes only when a fit becomes due or
    ends. `created_as` is the name in the creating body: it identifies a repeat after a rename.
    """

    tenant: str
    id: str
    name: Name | None
    algorithm: str
    dim: Dim
    horizon: Horizon
    seed: Seed
    options: dict[str, Any]
    reward_mode: str
    reward_wait_seconds: WaitSeconds
    default_reward: Number | None
    refit: str
    request: Text  # the body that created the session, as JSON
    created_at: Time
    archived_at: Time | None = None
    n_rounds: int = 0
    n_trajectories: int = 0
    n_complete: int = 0
    n_estimates: int = 0  # fits recorded, with failed and skipped ones
    estimate: int = 0  # number of the last estimate that was installed; 0: none
    model_version: int = 0  # how many estimates were installed
    schedule: Schedule = field(default_factory=Schedule)
    created_as: str | None = None
    append_token: str | None = None  # of the log that is being appended in slices

    @property
    def key(self) -> SessionKey:
        """Tenant and id."""
        return self.tenant, self.id

    @property
    def fit_due(self) -> int | None:
        """The due round of the running fit, or None."""
        return None if self.schedule.current is None else self.schedule.current.key

    @property
    def fit_due_at(self) -> float | None:
        """When the running fit became due, or None."""
        return None if self.schedule.current is None else self.schedule.current.due_at

    @property
    def wake_at(self) -> float | None:
        """The next time at which a window is overdue or a fit is retried, or None."""
        times = [w.overdue_at for w in self.schedule.open if w.overdue_at is not None]
        fits = [*self.schedule.waiting]
        if self.schedule.current is not None:
            fits.append(self.schedule.current)
        times += [due.retry_at for due in fits if due.retry_at is not None]
        return min(times, default=None)


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


class DecisionRow(NamedTuple):
    """One decision as first answered."""

    tenant: str
    session_id: str
    trajectory: Key
    round: Ordinal  # within the trajectory
    number: Ordinal  # of the decision within the trajectory
    position: Ordinal  # of the decision within the session
    client_event_id: ClientId | None
    digest: bytes | None  # of the request body, to tell a repeat from a conflict
    arm: Count | None  # index of the selected arm, from 0; None: a round without action
    arm_id: Key | None
    context: bytes  # the selected context: float64 (dim,)
    scores: bytes  # float64 (K,)
    propensity: Probability | None  # probability of the selected arm; None: unknown, or forced
    explored: bool
    forced: bool
    epoch: Ordinal
    model_version: Count
    next_fit_round: Ordinal | None  # round of the session after which the next fit is due
    at: Time

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

    Rows are only appended; `number` counts them within their trajectory.
    """

    tenant: str
    session_id: str
    trajectory: Key
    first_round: Ordinal
    last_round: Ordinal
    number: Ordinal
    value: Number
    reward_id: EventId | None
    at: Time


class HiddenRows(NamedTuple):
    """Rows of a session that no reader sees: of a write under way, or of a deleted session."""

    tenant: str
    session_id: str
    trajectory: str | None  # None: the rows of all trajectories
    after_round: int  # only rounds after this one
    writer: str | None  # token of the write under way; None: a sweep deletes the rows
    sweep_at: float  # when the rows stop being the writer's; every slice puts it off


class FitQueue(NamedTuple):
    """Number of fits due, since when the oldest of them is due, and number of workers."""

    n_due: int
    oldest_at: float | None
    n_workers: int


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


class ApiKey(NamedTuple):
    """An API key, which gives access to its tenant's data. `digest` is the key's SHA-256."""

    tenant: str
    id: str
    digest: bytes
    label: str
    created_at: float
    revoked_at: float | None = None
