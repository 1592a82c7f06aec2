"""The schema of each record of an export file, with the same field types as request bodies."""

from typing import Annotated, Any, Literal, NotRequired, Required

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

Count = Annotated[int, Field(ge=0, le=2**53)]
Ordinal = Annotated[int, Field(ge=1, le=2**53)]
Time = Annotated[float, Field(ge=0, le=1e11)]  # until the year 5138, which fits a timestamp
Wide = Annotated[float, Field(ge=-1e100, le=1e100)]  # a product of three stays finite
# "~" begins the event ids of the server
ClientId = Annotated[str, Field(max_length=256, pattern="^[^~\\x00][^\\x00]*$")]
Text = Annotated[str, Field(pattern=NO_ZERO_BYTE)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
# a diagnostic may be infinite or NaN: it is only shown
Told = Annotated[float, Field(allow_inf_nan=True)] | None
Diagnostic = Told | int | str | bool | list[Told]
Status = Literal["ok", "zero", "insufficient_data"]

# An export writes these fields for its readers. An import ignores them and derives its own.
DERIVED = {
    "header": "n_rounds n_trajectories n_complete n_estimates estimate model_version",
    "schedule": "open",
    "trajectory": "key n_decisions n_rounds n_measurements measured_through last_at",
    "decision": "number epoch next_fit_round",
    "measurement": "number",
    "estimate": "number epoch due parent model_version",
    "agent": "theta prediction",
}


def _record(kind: str, **given: Any) -> Any:
    """Return a TypedDict with these required fields and the optional derived fields of its kind."""
    derived = dict.fromkeys(DERIVED.get(kind, "").split(), NotRequired[Any])
    return TypedDict(kind, {**given, **derived})  # type: ignore[operator]


WINDOW = _record("window", epoch=Ordinal, first=Ordinal, last=Ordinal, n_lags=Ordinal, due=Ordinal)
READ = {
    "window": WINDOW,
    "measured": dict[Key, Count],
    "closed": dict[Key, Count],
    "reason": Literal["complete", "overdue", "never"],
    "due_at": Time,
    "attempts": Annotated[int, Field(ge=0, le=10**6)],
}
DUE: Any = _record("due", **READ, retry_at=Time | None)
SESSION = _record(
    "header",
    id=str,
    name=Name | None,
    algorithm=str,
    dim=Dim,
    horizon=Horizon,
    seed=Seed,
    options=dict[str, Any],  # checked when the agent is built
    reward_mode=RewardMode,
    reward_wait_seconds=WaitSeconds,
    default_reward=Number | None,
    refit=Refit,
    request=Text,
    created_at=Time,
    archived_at=Time | None,
    schedule=_record(
        "schedule", current=DUE | None, waiting=Annotated[list[DUE], Field(max_length=10_000)]
    ),
)
DECISION = _record(
    "decision",
    record=Literal["decision"],
    trajectory=Key,
    round=Ordinal,
    position=Ordinal,
    client_event_id=ClientId | None,
    digest=Digest | None,
    arm=Count | None,
    arm_id=Key | None,
    context=list[Number],
    scores=list[float],
    propensity=Annotated[float, Field(gt=0, le=1 + 1e-9)] | None,
    explored=bool,
    forced=bool,
    model_version=Count,
    at=Time,
)
MEASUREMENT = _record(
    "measurement",
    record=Literal["measurement"],
    trajectory=Key,
    first_round=Ordinal,
    last_round=Ordinal,
    value=Number,
    reward_id=EventId | None,
    at=Time,
)


@with_config(ConfigDict(extra="forbid", strict=True, allow_inf_nan=True))
class EstimateJson(TypedDict, total=False):
    """The object that `Estimate.to_json` returns."""

    status: Required[Status]
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


ESTIMATE = _record(
    "estimate",
    record=Literal["estimate"],
    status=Status | Literal["failed", "skipped"],
    reason=Text | None,
    manifest=_record("manifest", **READ),
    fingerprint=dict[str, Text | list[Text]] | None,
    estimate=EstimateJson | None,
    at=Time,
)
# only an agent that learns within an epoch has state beyond its estimate
STATE = _record(
    "agent",
    version=int,
    lag=NotRequired[Count | None],
    second_phase=NotRequired[bool],
    ellipsoid=NotRequired[_record("ellipsoid", inverse=list[list[Wide]], moment=list[Wide])],
)
RECORD: Any = (
    _record("file", record=Literal["header"], format=str, version=int, session=SESSION)
    | _record("trajectory", record=Literal["trajectory"])
    | DECISION
    | MEASUREMENT
    | ESTIMATE
    | _record("state", record=Literal["agent"], state=STATE)
)
ADAPTER: TypeAdapter[Any] = TypeAdapter(
    Annotated[RECORD, Field(discriminator="record")], config=STRICT
)


class InvalidRecord(ValueError):
    """A record is invalid.

    Parameters
    ----------
    field : str
        The field of the record.
    what : str
        What is wrong with it.
    """

    def __init__(self, field: str, what: str) -> None:
        super().__init__(what)
        self.field = field
        self.what = what


def check_record(record: dict[str, Any]) -> None:
    """Check types and ranges of all fields, and that none is missing or unknown.

    Raises
    ------
    InvalidRecord
        Names the first invalid field.
    """
    try:
        ADAPTER.validate_python(record)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise InvalidRecord(field_name(first["loc"][1:]) or "record", first["msg"]) from None


def check(holds: bool, field: str, what: str) -> None:
    """Raise `InvalidRecord` about `field` unless `holds` is true."""
    if not holds:
        raise InvalidRecord(field, f"it does not fit together: {what}")
