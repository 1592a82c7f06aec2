"""What each record of an exported session may hold: the bodies' own rules, and nothing besides."""

from typing import Annotated, Any, Literal, Required

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from service.field_types import (
    NO_ZERO_BYTE,
    STRICT,
    Dim,
    EventId,
    Horizon,
    Key,
    Name,
    Number,
    Refit,
    RewardMode,
    Seed,
    WaitSeconds,
    field_name,
)
from service.problems import Problem, ProblemCode
from service.transfer.import_states import AgentState, Count, Wide

LATEST = 1e11  # seconds since 1970: the year 5138, which a timestamp can still show

Ordinal = Annotated[int, Field(ge=1, le=2**53)]
Time = Annotated[float, Field(ge=0, le=LATEST)]
Later = Annotated[float, Field(ge=0, le=2 * LATEST)]  # a time and a wait
ClientId = Annotated[
    str, Field(max_length=256, pattern="^[^~\\x00][^\\x00]*$")
]  # "~": the server's
Text = Annotated[str, Field(pattern=NO_ZERO_BYTE)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
# how a fit went may be infinite or no number; nothing is computed from it
Told = Annotated[float, Field(allow_inf_nan=True)] | None
Diagnostic = Told | int | str | bool | list[Told]
LAX = ConfigDict(extra="forbid", strict=True, allow_inf_nan=True)


@with_config(STRICT)
class WindowRecord(TypedDict):
    """As `FitWindow`."""

    epoch: Ordinal
    first: Ordinal
    last: Ordinal
    n_lags: Ordinal
    due: Ordinal


@with_config(STRICT)
class ManifestRecord(TypedDict):
    """What a fit was to read."""

    window: WindowRecord
    measured: dict[Key, Count]
    closed: dict[Key, Count]
    reason: Literal["complete", "overdue", "never"]
    due_at: Time
    attempts: Annotated[int, Field(ge=0, le=10**6)]


@with_config(STRICT)
class DueRecord(ManifestRecord):
    """As `DueFit`."""

    retry_at: Time | None


OpenFile = Annotated[tuple[WindowRecord, Count, Later | None], Field(strict=False)]  # JSON: a list


@with_config(STRICT)
class ScheduleRecord(TypedDict):
    """As `Schedule`."""

    open: Annotated[list[OpenFile], Field(max_length=10_000)]
    current: DueRecord | None
    waiting: Annotated[list[DueRecord], Field(max_length=10_000)]


@with_config(STRICT)
class SessionRecord(TypedDict):
    """As `Session`, under the rules of `SessionBody`."""

    id: str
    name: Name | None
    algorithm: str
    dim: Dim
    horizon: Horizon
    seed: Seed
    options: dict[str, Any]  # building the agent checks them
    reward_mode: RewardMode
    reward_wait_seconds: WaitSeconds
    default_reward: Number | None
    refit: Refit
    request: Text
    created_at: Time
    archived_at: Time | None
    n_rounds: Count
    n_trajectories: Count
    n_complete: Count
    n_estimates: Count
    estimate: Count
    model_version: Count
    schedule: ScheduleRecord


@with_config(STRICT)
class HeaderRecord(TypedDict):
    """The first line."""

    record: Literal["header"]
    format: str
    version: int
    session: SessionRecord


@with_config(STRICT)
class TrajectoryRecord(TypedDict):
    """As `Trajectory`."""

    record: Literal["trajectory"]
    key: Key
    n_decisions: Count
    n_rounds: Count
    n_measurements: Count
    measured_through: Count
    last_at: Time


@with_config(STRICT)
class DecisionRecord(TypedDict):
    """As `Decision`."""

    record: Literal["decision"]
    trajectory: Key
    round: Ordinal
    number: Ordinal
    position: Ordinal
    client_event_id: ClientId | None
    digest: Digest | None
    arm: Count | None
    arm_id: Key | None
    context: list[Number]
    scores: list[float]
    propensity: Annotated[float, Field(gt=0, le=1 + 1e-9)] | None
    explored: bool
    forced: bool
    epoch: Ordinal
    model_version: Count
    next_fit_round: Ordinal | None
    at: Time


@with_config(STRICT)
class MeasurementRecord(TypedDict):
    """As `Measurement`."""

    record: Literal["measurement"]
    trajectory: Key
    first_round: Ordinal
    last_round: Ordinal
    number: Ordinal
    value: Number
    reward_id: EventId | None
    at: Time


@with_config(LAX)
class EstimateJson(TypedDict, total=False):
    """As `Estimate.to_json`."""

    status: Required[Literal["ok", "zero", "insufficient_data"]]
    lag_weights: Required[list[Wide]]
    theta: Required[list[Number] | None]
    active_lags: list[Count]
    design: Text
    intercept: Told
    lam: Told
    lambda_max: Told
    sigma_hat: Told
    duality_gap: Told
    n_iterations: Count
    converged: bool
    singular_ratio: Told
    sign_margin: Told
    n_rows: Count
    n_missing: int
    first_round: Count
    last_round: Count
    seconds: float
    message: Text
    diagnostics: dict[str, Diagnostic | dict[str, Diagnostic]]


@with_config(STRICT)
class EstimateRecord(TypedDict):
    """As `EstimateRow`."""

    record: Literal["estimate"]
    number: Ordinal
    epoch: Ordinal
    due: Ordinal
    status: Literal["ok", "zero", "insufficient_data", "failed", "skipped"]
    reason: Text | None
    manifest: ManifestRecord
    parent: Count
    model_version: Count
    fingerprint: dict[str, Text | list[Text]] | None
    estimate: EstimateJson | None
    at: Time


@with_config(STRICT)
class AgentRecord(TypedDict):
    """What the agent has learned."""

    record: Literal["agent"]
    state: AgentState


ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "header": TypeAdapter(HeaderRecord),
    "trajectory": TypeAdapter(TrajectoryRecord),
    "decision": TypeAdapter(DecisionRecord),
    "measurement": TypeAdapter(MeasurementRecord),
    "estimate": TypeAdapter(EstimateRecord),
    "agent": TypeAdapter(AgentRecord),
}


class InvalidRecord(ValueError):
    """Something in a record that cannot be; `field` of it is to blame."""

    def __init__(self, field: str, what: str) -> None:
        super().__init__(what)
        self.field = field
        self.what = what


def check_record(record: dict[str, Any]) -> None:
    """Each value of the right type and within its range, no field missing, none besides.

    Raises
    ------
    Misfit
        Names the first field that is wrong.
    """
    kind = record["record"]
    if not isinstance(kind, str) or kind not in ADAPTERS:
        raise InvalidRecord("record", "there is no such record")
    try:
        ADAPTERS[kind].validate_python(record)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise InvalidRecord(field_name(first["loc"]), first["msg"]) from None


def require(holds: bool, field: str, what: str) -> None:
    """`InvalidRecord` unless it holds."""
    if not holds:
        raise InvalidRecord(field, f"it does not fit together: {what}")


def bad_import(line: int, kind: str, misfit: InvalidRecord) -> Problem:
    """422, naming line, record and field."""
    field = f"{kind}.{misfit.field}"
    return Problem(ProblemCode.BAD_IMPORT, f"line {line}: {field}: {misfit.what}", field)
