"""The schedule of a session's fits: when each is due, and which rounds and rewards it reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from msgspec.json import encode

from lhb_engine.history import FitWindow

# complete: all rewards are in. overdue: some are missing. never: it was skipped. asked: somebody
# asked for it. stale: so many rewards came since the last fit. erased: somebody was erased of whom
# the estimate in use may know. The last three are out of turn.
DueReason = Literal["complete", "overdue", "never", "asked", "stale", "erased"]
OUT_OF_TURN = ("asked", "stale", "erased")


@dataclass(slots=True)
class OpenWindow:
    """A fit that is not due yet."""

    window: FitWindow  # the rounds that the fit will read
    n_complete: int = 0  # how many of these rounds have their reward, or were erased
    overdue_at: float | None = None  # when the fit becomes due although rewards are missing


class Watermark(NamedTuple):
    """What of a session's log is read: everything up to some positions.

    Its size does not depend on the number of trajectories.
    """

    measured: int  # position of the last measurement or void decision
    decided: int  # position of the last decision
    closed_at: float = 0.0  # rounds whose trajectory's next decision came by then are closed
    revision: int = 0  # of the session's options (`OptionChanges`)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Watermark":
        """Return the members that a manifest has beside others."""
        return cls(*(data[name] for name in cls._fields))


@dataclass(slots=True)
class DueFit:
    """A fit that is due, with its manifest: what the fit may read.

    The commit that makes the fit due fixes the manifest, so that the fit can be repeated exactly.
    """

    window: FitWindow
    known: Watermark
    reason: DueReason
    due_at: float
    attempts: int = 0  # that failed
    retry_at: float | None = None  # earliest time of the next attempt

    @property
    def key(self) -> int:
        """The round after which it is due. A session has at most one fit per round."""
        return self.window.due

    @classmethod
    def never(cls, window: FitWindow, now: float) -> "DueFit":
        """Return a fit that is skipped before it was due."""
        return cls(window, Watermark(0, 0, now), "never", now)

    def manifest(self) -> dict[str, Any]:
        """Return what the row of the fit keeps, as JSON values."""
        return {
            "window": vars(self.window),
            **self.known._asdict(),
            "reason": self.reason,
            "due_at": self.due_at,
            "attempts": self.attempts,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the members as JSON values."""
        return {**self.manifest(), "retry_at": self.retry_at}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "DueFit":
        """Invert `to_json`."""
        own = (data[name] for name in ("reason", "due_at", "attempts", "retry_at"))
        return cls(FitWindow(**data["window"]), Watermark.from_json(data), *own)


@dataclass(slots=True)
class Schedule:
    """The fits of a session that are not done.

    `open` holds the fits that are not due yet, in order of due round; only the last one may be due
    after a round that is still to come. `current` is the fit that is due, running or not (the due
    mark). `waiting` holds due fits that wait for it, or for their next attempt. `seen` counts the
    measurements that the last due fit may use. `n_slots` counts slots that have begun, by a clock.
    """

    open: list[OpenWindow] = field(default_factory=list)
    current: DueFit | None = None
    waiting: list[DueFit] = field(default_factory=list)
    seen: int = 0
    n_slots: int = 0

    @property
    def text(self) -> str:
        """The stored JSON text."""
        kept = {
            "open": [[vars(w.window), w.n_complete, w.overdue_at] for w in self.open],
            "current": None if self.current is None else self.current.to_json(),
            "waiting": [due.to_json() for due in self.waiting],
            "seen": self.seen,
            "n_slots": self.n_slots,
        }
        return encode(kept).decode()

    @classmethod
    def load(cls, data: dict[str, Any]) -> "Schedule":
        """Make a schedule from the parsed text."""
        return cls(
            open=[OpenWindow(FitWindow(**w), n, at) for w, n, at in data["open"]],
            current=None if data["current"] is None else DueFit.from_json(data["current"]),
            waiting=[DueFit.from_json(due) for due in data["waiting"]],
            seen=data["seen"],
            n_slots=data["n_slots"],
        )
