"""The schema of each record of an export file, with the same field types as request bodies."""

from typing import Annotated, Any, Literal, NotRequired, get_type_hints

import numpy as np
from pydantic import ConfigDict, Field, Json, Strict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from lhb_engine.estimate import Estimate, LagForm, Status
from lhb_engine.findings.finding import Code, Missing
from service.base.field_types import (
    STRICT,
    Count,
    GivenCovariates,
    KeyInPath,
    Number,
    Ordinal,
    Text,
    Time,
    field_name,
)
from service.lift.sums import MOST_POINTS, ShadowSums
from service.session.fit_schedule import DueReason
from service.session.names import StoredNames
from service.session.records import (
    MOST_CHANGES,
    PARTS,
    DecisionRow,
    EstimateRow,
    KeptSumsRow,
    LiftUnitRow,
    MeasurementRow,
    SessionRow,
    SlotSumsRow,
    VoidRow,
)
from service.session.slot_clock import MOST_SLOTS, StoredClock
from service.session.spec import REQUIRED
from service.session.trial import PlayedBy
from service.transfer.file_format import HEADER, NOT_EXPORTED, ROW_OWNER

WideNumber = Annotated[float, Field(ge=-1e100, le=1e100)]  # a product of three stays finite
Finite = Annotated[float, Field(allow_inf_nan=False)]
Interval = Annotated[list[Finite], Field(min_length=2, max_length=2)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
AnyFloat = Annotated[float, Field(allow_inf_nan=True)] | None
# a sum of floats: see `service.lift.exact`
EXPONENT = "([0-9]{1,4}|-([0-9]{1,3}|10[0-6][0-9]|107[0-4]))"
Exact = Annotated[str, Field(pattern=f"^-?[0-9a-f]{{1,600}}p{EXPONENT}$")]
POINT = Annotated[list[WideNumber], Field(min_length=5, max_length=6)]  # of lift so far
Gone = Annotated[int, Field(ge=0, le=2**50)]  # with what is to come it stays exact in JSON
Diagnostic = AnyFloat | int | Text | bool | list[AnyFloat]

# An export writes these fields for its readers. An import ignores them and derives its own.
DERIVED = {
    "header": (
        "n_rounds n_trajectories n_measurements n_complete n_estimates estimate model_version"
    ),
    "schedule": "seen",
    "trajectory": "n_decisions",
    "decision": "number epoch next_fit_round",
    "measurement": "number",
    "estimate": "number epoch due parent model_version",
    "agent": "theta prediction candidates products",
}


def _record(kind: str, **members: Any) -> Any:
    """Return a TypedDict with these required fields and the optional derived fields of its kind."""
    derived = dict.fromkeys(DERIVED.get(kind, "").split(), NotRequired[Any])
    return TypedDict(kind, {**members, **derived})  # type: ignore[operator]


def _fields(row: type, owner: tuple[str, ...] = ROW_OWNER) -> dict[str, Any]:
    """Return the types of a row's fields, less those that name its owner."""
    hints = get_type_hints(row, include_extras=True)
    return {name: hints[name] for name in hints if name not in owner}


def _record_of(kind: str, row: type, **in_file: Any) -> Any:
    """Return the record of a row; `in_file` holds fields that a file represents otherwise."""
    return _record(kind, record=Literal[kind], **{**_fields(row), **in_file})


SHADOW_TYPES = {
    name: Count if kind is int else WideNumber for name, kind in get_type_hints(ShadowSums).items()
}
WINDOW = _record("window", epoch=Ordinal, first=Ordinal, last=Ordinal, n_lags=Ordinal, due=Ordinal)
MANIFEST_FIELDS = {
    "window": WINDOW,
    "measured": Count,
    "decided": Count,
    "closed_at": Time,
    "reason": DueReason,
    "due_at": Time,
    "revision": Count,
    "attempts": Annotated[int, Field(ge=0, le=10**6)],
}
DUE: Any = _record("due", **MANIFEST_FIELDS, retry_at=Time | None)
# an import reads after which round an open window is due, and when it is overdue
OPEN: Any = Annotated[tuple[dict[str, int], Any, Time | None], Strict(False)]
SCHEDULE = _record(
    "schedule",
    open=NotRequired[Annotated[list[OPEN], Field(max_length=10_000)]],
    current=DUE | None,
    waiting=Annotated[list[DUE], Field(max_length=10_000)],
    n_slots=Annotated[int, Field(ge=0, le=MOST_SLOTS)],
)
CHANGES = Annotated[list[tuple[Count, dict[str, Any]]], Field(max_length=MOST_CHANGES)]
PARTS_IN_FILE = {
    **dict.fromkeys(PARTS, Text | None),
    "request": Json[dict[str, Any]],
    "schedule": SCHEDULE,
    "names": Json[StoredNames] | None,
    "clock": Json[StoredClock] | None,
    "changes": Json[CHANGES] | None,
    **dict.fromkeys(("n_erased_rounds", "n_erased_measurements", "n_dropped_rounds"), Gone),
    "n_dropped_measurements": Gone,
}
_header = {**_fields(SessionRow, NOT_EXPORTED), **PARTS_IN_FILE}
# a file leaves out what is as by default
NEEDED = {"schedule", *(name for name, usual in HEADER.items() if usual is REQUIRED)}
SESSION = _record("header", **{n: k if n in NEEDED else NotRequired[k] for n, k in _header.items()})
DECISION = _record_of(
    "decision",
    DecisionRow,
    digest=Digest | None,
    context=list[WideNumber],  # with products of given numbers
    scores=list[float],
    mean=NotRequired[list[WideNumber]],
    contexts=list[list[WideNumber]] | None,
    played_by=PlayedBy | None,
    own=NotRequired[list[Number]],
    covariates=GivenCovariates | None,
)
LIFT = _record(
    "lift",
    record=Literal["lift"],
    decided=Count,
    measured=Count,
    shadow=_record("shadow", **SHADOW_TYPES),
    n_left_out=Count,
    points=Annotated[list[POINT], Field(max_length=MOST_POINTS)],
    past_to=Count | None,
)


# parts of an estimate, whose meaning `Estimate` says; a fit may find any number
EARNED = _record("earned", value=Finite, low=Finite, high=Finite)
EACH: Any = dict[str, list[Number]]
SPREAD: Any = {"covariance": list[list[Number]], "spread": list[Number]}  # of responses
SPREAD |= {"intervals": list[Interval], "gain": Finite}
FORM: Any = _record(
    "form",
    profiles=list[list[Finite]],
    effects=list[Finite],
    autocorrelation=Annotated[float, Field(ge=0, lt=1)],
    excess=Finite,
    variance=Annotated[Finite, Field(ge=0)],
    over_none=Finite,
    rests_until=Count,
)
PARTS_OF_ESTIMATE = {
    "intervals": _record(
        "intervals",
        theta=list[list[Number]],
        lags=list[Count],
        lag_weights=list[list[Finite] | None],
        drawn=NotRequired[bool],
        effects=NotRequired[list[list[Finite]]],
        lag_profiles=NotRequired[list[list[list[Finite]]]],
        lag_sums=NotRequired[list[Annotated[list[Interval], Field(min_length=3, max_length=3)]]],
        if_shared=NotRequired[bool],  # of earlier fits
    ),
    "gain": _record(
        "gain",
        over_chance=EARNED,
        over_best_arm=EARNED | None,
        still_to_gain=EARNED,
        best_is_right=Annotated[float, Field(ge=0, le=1)],
        if_shared=NotRequired[bool],
    ),
    "totals": _record(
        "totals",
        values=list[Finite],
        squares=list[list[Finite]],
        unknown=list[list[Number]],
        if_shared=NotRequired[bool],
    ),
    "effects": _record("effects", values=list[Finite], included=list[Number], share=list[Number]),
    "own": _record(
        "own",
        noise=Annotated[Finite, Field(ge=0)],
        groups=NotRequired[_record("groups", by=Text, means=EACH, errors=EACH, **SPREAD)],
        **SPREAD,
    ),
    "forms": dict[LagForm, FORM],
    "form": LagForm,
    "lag_profiles": list[list[Finite]],
    "candidates": list[list[Number]],
    **dict.fromkeys(("no_intervals", "no_gain", "no_totals"), Text),
}
UNCHECKED: Any = _record("unchecked", codes=list[Code], missing=Missing, message=Text)
FINDING: Any = _record(
    "finding",
    code=Code,
    message=Text,
    period=Number | None,
    harmonics=Count | None,
    features=list[Count],
    lags=list[Count],
)
# the object that `Estimate.to_json` returns; numbers that are only shown may be infinite or NaN
_SHOWN = {float | None: AnyFloat, int: Count, str: Text}
_estimate = {name: NotRequired[_SHOWN.get(h, h)] for name, h in get_type_hints(Estimate).items()}
ESTIMATE_JSON: Any = with_config(ConfigDict(extra="forbid", strict=True, allow_inf_nan=True))(
    TypedDict(  # type: ignore[operator]
        "EstimateJson",
        {
            **_estimate,
            "status": Status,
            "lag_weights": list[Finite],
            "theta": list[Number] | None,
            "active_lags": NotRequired[list[Count]],
            "products": NotRequired[list[list[Count]]],
            "n_missing": NotRequired[int],
            "diagnostics": NotRequired[dict[Text, Diagnostic | dict[Text, Diagnostic]]],
            **{name: NotRequired[kind | None] for name, kind in PARTS_OF_ESTIMATE.items()},
            "findings": NotRequired[list[FINDING]],
            "unchecked": NotRequired[list[UNCHECKED]],
        },
    )
)
ESTIMATE = _record_of(
    "estimate",
    EstimateRow,
    status=Status | Literal["failed", "skipped"],
    manifest=_record(
        "manifest", **MANIFEST_FIELDS, n_erased=NotRequired[Count], anew=NotRequired[Count]
    ),
    fingerprint=dict[Text, Text | list[Text]] | None,
    estimate=ESTIMATE_JSON | None,
)
# only an agent that learns within an epoch has state beyond its estimate
STATE = _record(
    "agent",
    version=int,
    lag=NotRequired[Count | None],
    second_phase=NotRequired[bool],
    ellipsoid=NotRequired[
        _record("ellipsoid", inverse=list[list[WideNumber]], moment=list[WideNumber])
    ],
)
# its counters are read where rows are dropped: elsewhere the records of its rounds say them
TRAJECTORY = _record(
    "trajectory",
    record=Literal["trajectory"],
    key=KeyInPath,
    **dict.fromkeys(("n_rounds", "n_measurements", "measured_through"), Count),
    last_at=Time,
    lately=NotRequired[list[Number]],
)
RECORD: Any = (
    _record("file", record=Literal["header"], format=str, version=int, session=SESSION)
    | TRAJECTORY
    | DECISION
    | _record_of(
        "measurement", MeasurementRow, covariates=GivenCovariates | None, late=NotRequired[Ordinal]
    )
    | _record_of("void", VoidRow)
    | _record_of("sums", KeptSumsRow, settled=Text, seen=Text | None, anew=NotRequired[Count])
    | _record_of("slots", SlotSumsRow, sums=Text)
    | LIFT
    | _record_of(
        "unit",
        LiftUnitRow,
        rounds=Annotated[float, Field(ge=0, le=2**53)],
        reward=Exact,
        predicted=Exact,
    )
    | ESTIMATE
    | _record("state", record=Literal["agent"], state=STATE)
)
ADAPTER: TypeAdapter[Any] = TypeAdapter(
    Annotated[RECORD, Field(discriminator="record")], config=STRICT
)


class InvalidRecord(ValueError):
    """A record is invalid: its field, and what is wrong with it."""

    def __init__(self, field: str, what: str) -> None:
        super().__init__(what)
        self.field = field
        self.what = what


def check_record(record: dict[str, Any]) -> None:
    """Check types and ranges of all fields, and that none is missing or unknown.

    Raises `InvalidRecord`, which names the first invalid field.
    """
    try:
        ADAPTER.validate_python(record)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise InvalidRecord(field_name(first["loc"][1:]) or "record", first["msg"]) from None


def check_shape(value: Any, field: str, *shapes: tuple[int, ...]) -> None:
    """Check that nested lists are an array of one of these shapes; that of None is ()."""
    try:
        found = str(np.shape(value))
    except ValueError:
        found = "ragged"  # rows of unlike lengths
    check(found in map(str, shapes), field, f"its shape is {found}, not {shapes[-1]}")


def check(holds: bool, field: str, what: str) -> None:
    """Raise `InvalidRecord` about `field` unless `holds` is true."""
    if not holds:
        raise InvalidRecord(field, f"it does not fit together: {what}")
