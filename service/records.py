"""The rows of the truth, as plain objects. No database, no HTTP, no clock here."""

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lhb_engine.history import FitWindow

SessionKey = tuple[str, str]  # tenant, session id
TrajectoryKey = tuple[str, str, str]  # tenant, session id, trajectory
SERVER_EVENT = "~"  # ids made by the server are this and the decision's number: nothing to store


@dataclass(slots=True)
class OpenWindow:
    """A fit that is to come: its window, and how far its rounds are complete."""

    window: FitWindow
    n_complete: int = 0
    overdue_at: float | None = None


@dataclass(slots=True)
class DueFit:
    """A fit that is due, with its manifest: what it may read, fixed at the commit that made it due.

    Attributes
    ----------
    measured : number of the last measurement of each trajectory that the fit may use
    closed : last round of each trajectory that was closed by time (sum mode, default reward)
    due_at : when it became due; `attempts` failed since, the next one is not before `retry_at`
    """

    window: FitWindow
    measured: dict[str, int]
    closed: dict[str, int]
    reason: str
    due_at: float
    attempts: int = 0
    retry_at: float | None = None

    @property
    def key(self) -> int:
        """The round after which it is due: one fit a round at most."""
        return self.window.due

    def to_json(self) -> dict[str, Any]:
        """Numbers and strings only."""
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
    return {
        "epoch": window.epoch,
        "first": window.first,
        "last": window.last,
        "n_lags": window.n_lags,
        "due": window.due,
    }


@dataclass(slots=True)
class Schedule:
    """Which fits are to come, which is at work, which wait for it.

    `open` is in order of `due`; only its last window may lie ahead of the session's rounds.
    """

    open: list[OpenWindow] = field(default_factory=list)
    current: DueFit | None = None
    waiting: list[DueFit] = field(default_factory=list)

    def dumps(self) -> str:
        """As stored."""
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
        """From parsed JSON."""
        return cls(
            open=[OpenWindow(FitWindow(**w), n, at) for w, n, at in data["open"]],
            current=None if data["current"] is None else DueFit.from_json(data["current"]),
            waiting=[DueFit.from_json(due) for due in data["waiting"]],
        )


@dataclass(slots=True)
class SessionRow:
    """One durable agent: what was asked for, and how far it is.

    `n_complete` counts the complete rounds of the last open window: it changes with every reward,
    while the rest of `schedule` changes at boundaries only. `created_as` is the name it was created
    under: a repeat of that creation is known by it, whatever the session is called since.
    """

    tenant: str
    id: str
    name: str | None
    algorithm: str
    dim: int
    horizon: int
    seed: int
    options: dict[str, Any]
    reward_mode: str
    reward_wait_seconds: float
    default_reward: float | None
    refit: str
    request: str
    created_at: float
    archived_at: float | None = None
    n_rounds: int = 0
    n_trajectories: int = 0
    n_complete: int = 0
    n_estimates: int = 0
    estimate: int = 0
    model_version: int = 0
    schedule: Schedule = field(default_factory=Schedule)
    created_as: str | None = None

    @property
    def key(self) -> SessionKey:
        """Tenant and id."""
        return self.tenant, self.id

    @property
    def fit_due(self) -> int | None:
        """The due round of the fit that is at work, or None."""
        return None if self.schedule.current is None else self.schedule.current.key

    @property
    def fit_due_at(self) -> float | None:
        """Since when the fit that is at work is due, or None."""
        return None if self.schedule.current is None else self.schedule.current.due_at

    @property
    def wake_at(self) -> float | None:
        """When time alone will have something to do here."""
        times = [w.overdue_at for w in self.schedule.open if w.overdue_at is not None]
        fits = [*self.schedule.waiting]
        if self.schedule.current is not None:
            fits.append(self.schedule.current)
        times += [due.retry_at for due in fits if due.retry_at is not None]
        return min(times, default=None)


@dataclass(slots=True)
class TrajectoryRow:
    """How far one sequence of rounds is. `measured_through`: no measurement reaches beyond it."""

    tenant: str
    session_id: str
    key: str
    n_decisions: int = 0
    n_rounds: int = 0
    n_measurements: int = 0
    measured_through: int = 0
    last_at: float = 0.0


class DecisionRow(NamedTuple):
    """One decision as first answered. `arm` is None for a round without action."""

    tenant: str
    session_id: str
    trajectory: str
    round: int
    number: int
    position: int
    client_event_id: str | None
    digest: bytes | None
    arm: int | None
    arm_id: str | None
    context: bytes
    scores: bytes
    propensity: float | None
    explored: bool
    forced: bool
    epoch: int
    model_version: int
    next_fit_round: int | None
    at: float

    @property
    def event_id(self) -> str:
        """The client's id, or the server's."""
        if self.client_event_id is not None:
            return self.client_event_id
        return f"{SERVER_EVENT}{self.number}"


def number_in(event_id: str) -> int | None:
    """Return the decision's number in an id that the server made; None for any other id."""
    number = event_id.removeprefix(SERVER_EVENT)
    if number == event_id or not (number.isascii() and number.isdecimal()) or len(number) > 17:
        return None
    return int(number) if number == str(int(number)) else None


class MeasurementRow(NamedTuple):
    """A value over rounds first_round..last_round; append-only, numbered in its trajectory."""

    tenant: str
    session_id: str
    trajectory: str
    first_round: int
    last_round: int
    number: int
    value: float
    reward_id: str | None
    at: float


class FitQueue(NamedTuple):
    """Fits that are due, since when the oldest of them is, and how many workers there are."""

    n_due: int
    oldest_at: float | None
    n_workers: int


class EstimateRow(NamedTuple):
    """One fit: what it was to read, what came of it. Status adds "failed" and "skipped"."""

    tenant: str
    session_id: str
    number: int
    epoch: int
    due: int
    status: str
    reason: str | None
    manifest: str
    parent: int
    model_version: int
    fingerprint: str | None
    estimate: str | None
    at: float


class ApiKey(NamedTuple):
    """Who presents the key speaks for its tenant. `digest` is the key's SHA-256."""

    tenant: str
    id: str
    digest: bytes
    label: str
    created_at: float
    revoked_at: float | None = None
