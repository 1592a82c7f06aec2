"""What a batch of commands reads and writes: the keys of its rows, the rows, and its changes.

Adapters translate the errors of their driver to `Unavailable`, or to `Contended` if running the
batch again can succeed.
"""

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, NamedTuple

from service.session.records import (
    ApiKey,
    AuditRow,
    DecisionRow,
    EstimateRow,
    HiddenRows,
    KeptSumsRow,
    LiftSumsRow,
    LiftUnitRow,
    LimitRow,
    MeasurementRow,
    Message,
    SessionKey,
    SessionRow,
    SlotSumsRow,
    TrajectoryKey,
    TrajectoryRow,
    VoidRow,
    Webhook,
)

EraseCursor = tuple[str, tuple[Any, ...]]  # a table, and the key of the last row erased from it
# a trajectory, the last of its rounds that is done, and a round before which no measurement is left
DropCursor = tuple[str, int, int]
EventKey = tuple[TrajectoryKey, str]  # a trajectory, and a client's event id or reward id
NumberKey = tuple[TrajectoryKey, int]  # a trajectory, and the number or the round of a decision
Attempt = tuple[str, str, str | None, float | None, float | None, int]


class Refused(RuntimeError):
    """The database cannot be used as it is; the message says why, and what to do."""


class Contended(Exception):
    """Another process holds or changed the same rows.

    The caller rolls back and runs the batch again, with `session` among its announced keys.
    """

    def __init__(self, reason: str, session: SessionKey | None = None) -> None:
        super().__init__(reason)
        self.session = session


class MustWait(Exception):
    """A read would block the event loop, so a thread has to run the batch."""


@dataclass(slots=True)
class Keys:
    """Keys of the rows to fetch, by kind.

    A batch announces its keys before it runs. The keys are a hint: commands may read fewer rows, or
    others. Sessions and trajectories are locked and read; `events`, `numbers` and `rounds` are
    decisions by the client's event id, by number, and the first of a round; `rewards` measurements
    by reward id; `measured` rounds whose covering measurement is wanted.
    """

    sessions: set[SessionKey] = field(default_factory=set)
    trajectories: set[TrajectoryKey] = field(default_factory=set)
    events: set[EventKey] = field(default_factory=set)
    numbers: set[NumberKey] = field(default_factory=set)
    rounds: set[NumberKey] = field(default_factory=set)
    rewards: set[EventKey] = field(default_factory=set)
    measured: set[NumberKey] = field(default_factory=set)


_by_kind = attrgetter(*(one.name for one in fields(Keys)))


@dataclass(slots=True)
class KnownRows:
    """Rows that a batch has fetched or added, by the keys of `Keys`. None: there is no such row.

    `measured` are stored measurements by a round that they cover.
    """

    sessions: dict[SessionKey, SessionRow | None] = field(default_factory=dict)
    trajectories: dict[TrajectoryKey, TrajectoryRow | None] = field(default_factory=dict)
    events: dict[EventKey, DecisionRow | None] = field(default_factory=dict)
    numbers: dict[NumberKey, DecisionRow | None] = field(default_factory=dict)
    rounds: dict[NumberKey, DecisionRow | None] = field(default_factory=dict)
    rewards: dict[EventKey, MeasurementRow | None] = field(default_factory=dict)
    measured: dict[NumberKey, MeasurementRow | None] = field(default_factory=dict)

    def expect(self, keys: Keys) -> None:
        """Enter None for each of these keys that is not known yet; rows found later replace it."""
        for rows, wanted in zip(_by_kind(self), _by_kind(keys), strict=True):
            for key in wanted:
                rows.setdefault(key, None)

    def add_decision(self, decision: DecisionRow) -> None:
        """Enter a decision under its event id, its number and its round."""
        key = decision[:3]
        if decision.client_event_id is not None:
            self.events[key, decision.client_event_id] = decision
        self.numbers[key, decision.number] = decision
        if self.rounds.get((key, decision.round)) is None:
            self.rounds[key, decision.round] = decision

    def forget_rounds(self, session: SessionKey) -> None:
        """Remove all rows of the session's rounds: some are gone."""
        for kind in self.__slots__[2:]:
            rows = getattr(self, kind)
            for key in [key for key in rows if key[0][:2] == session]:
                del rows[key]

    def forget(self, session: SessionKey) -> None:
        """Remove all rows of a deleted session."""
        self.forget_rounds(session)
        for key in [key for key in self.trajectories if key[:2] == session]:
            del self.trajectories[key]
        self.sessions[session] = None


def one_by_one(*statements: str) -> Any:
    """Declare rows that are written one after the other, each by these statements in turn."""
    return field(default_factory=list, metadata={"statements": statements})


@dataclass(slots=True)
class Changes:
    """Rows that a batch writes.

    `counts` holds sessions of which only the counters changed (``COUNTERS`` in `sql.statements`);
    `sessions` holds those of which any other column changed. `states` are agents' states as JSON.
    `deleted` sessions lose their own row and state; their other rows are `hidden` until a sweep.
    `swept` are sessions whose note of hidden rows goes, `dropped_sums` those whose kept sums go.
    `dropped_slots` are sessions whose summed slots go, from a slot on, and `erased_slots`
    trajectories whose summed slots do.
    `used_keys` are tenant and id of API keys, with the time of their last use. The audit log loses
    entries up to an id in `audit_gone`. `attempts` to reach webhooks are tenant, webhook, the
    error, when it failed or arrived, and how many messages were given up; messages in `forgotten`
    go, and webhooks in `removed_webhooks` with all of theirs.
    """

    new_sessions: list[SessionRow] = field(default_factory=list)
    counts: dict[SessionKey, SessionRow] = field(default_factory=dict)
    sessions: dict[SessionKey, SessionRow] = field(default_factory=dict)
    trajectories: dict[TrajectoryKey, TrajectoryRow] = field(default_factory=dict)
    decisions: list[DecisionRow] = field(default_factory=list)
    measurements: list[MeasurementRow] = field(default_factory=list)
    estimates: list[EstimateRow] = one_by_one("insert_estimate")
    voids: list[VoidRow] = one_by_one("insert_void")
    kept_sums: list[KeptSumsRow] = one_by_one("keep_sums")
    dropped_slots: list[tuple[SessionKey, int]] = field(default_factory=list)
    erased_slots: list[TrajectoryKey] = one_by_one("erase_slots")
    slot_sums: list[SlotSumsRow] = one_by_one("keep_slots")
    lift_sums: list[LiftSumsRow] = one_by_one("keep_lift_sums")
    lift_units: list[LiftUnitRow] = one_by_one("keep_lift_unit")
    dropped_sums: list[SessionKey] = one_by_one("drop_sums")
    states: dict[SessionKey, str] = field(default_factory=dict)
    deleted: list[SessionKey] = field(default_factory=list)
    hidden: list[HiddenRows] = one_by_one("hide")
    swept: list[SessionKey] = one_by_one("forget_hidden")
    api_keys: list[ApiKey] = one_by_one("save_api_key")
    used_keys: list[tuple[str, str, float]] = one_by_one("use_api_key")
    audit_gone: list[tuple[str]] = one_by_one("forget_audit")
    audit: list[AuditRow] = one_by_one("insert_audit")
    limits: list[LimitRow] = one_by_one("save_limit")
    webhooks: list[Webhook] = one_by_one("save_webhook")
    attempts: list[Attempt] = one_by_one("note_attempt")
    messages: list[Message] = one_by_one("save_message")
    forgotten: list[tuple[str, str, str]] = one_by_one("forget_message")
    removed_webhooks: list[tuple[str, str]] = one_by_one("remove_webhook", "remove_messages")


class Dropped(NamedTuple):
    """What one call of `Transaction.drop` deleted.

    Rounds, measurements together with voids, and how many of the rounds were measured. `cursor`
    says where to go on; None if no row is left to go.
    """

    cursor: DropCursor | None
    n_rounds: int = 0
    n_measurements: int = 0
    n_complete: int = 0
