"""What /openapi.json says: bodies are parsed by hand, so they are described here.

The answers' classes are documentation; nothing is validated on its way out.
"""

from typing import Any

from pydantic import BaseModel, TypeAdapter

from service.api.body_parsing import Body
from service.problems import ProblemCode


def takes(body: Body[Any]) -> dict[str, Any]:
    """`openapi_extra` of an endpoint that takes this kind of body."""
    schema = _schema(body.adapter)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_definitions: dict[str, Any] = {}


def _schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the schema of a type; what it refers to goes into the components."""
    schema = adapter.json_schema(ref_template="#/components/schemas/{model}")
    _definitions.update(schema.pop("$defs", {}))
    return schema


def add_definitions(openapi: dict[str, Any]) -> dict[str, Any]:
    """The schema with what request bodies refer to, and the key that a server may ask for."""
    components = openapi.setdefault("components", {})
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    openapi["security"] = [{"key": []}, {}]  # without one while the database has none
    schemas = components.setdefault("schemas", {})
    for name, definition in _definitions.items():
        schemas.setdefault(name, definition)
    return openapi


class ProblemAnswer(BaseModel):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    code: ProblemCode
    detail: str
    field: str | None
    errors: list[dict[str, str]] | None = None


class DecisionAnswer(BaseModel):
    """One decision: the fields of `DecisionRow` that are answered, blobs as lists of numbers."""

    event_id: str
    round: int
    arm: int | None
    arm_id: str | None
    scores: list[float]
    propensity: float | None
    epoch: int
    model_version: int
    next_fit_round: int | None
    explored: bool


class AcceptedAnswer(BaseModel):
    """How many rewards were new, and how many had been received before."""

    accepted: int
    repeated: int


class ItemAnswer(BaseModel):
    """One item of a batch: its status, and what it would have been answered alone."""

    status: int
    decision: DecisionAnswer | None = None
    reward: AcceptedAnswer | None = None
    problem: ProblemAnswer | None = None


class BatchAnswer(BaseModel):
    """Answers in the order of the items."""

    items: list[ItemAnswer]


class SessionAnswer(BaseModel):
    """A session."""

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
    created_at: str
    archived: bool
    n_rounds: int
    n_trajectories: int
    model_version: int
    fit_due: bool


class HistoryAnswer(BaseModel):
    """Which rounds the log became."""

    first_round: int
    last_round: int
    rewards: int


class RankAnswer(BaseModel):
    """Scores without a decision: arms from best to worst."""

    scores: list[float]
    ranking: list[int]
    arm_ids: list[str] | None
    model_version: int


class EstimateAnswer(BaseModel):
    """Theta and lag weights in use; `{"status": "none"}` before the first."""

    status: str
    theta: list[float] | None = None
    lag_weights: list[float] | None = None
    active_lags: list[int] | None = None
    epoch: int | None = None
    model_version: int | None = None


class Page(BaseModel):
    """One page; `next` is the cursor of the following one, or null."""

    items: list[dict[str, Any]]
    next: str | None


def documented(answers: dict[int, type[BaseModel]], *problems: int) -> dict[int | str, Any]:
    """`responses` of an endpoint."""
    out: dict[int | str, Any] = {status: {"model": model} for status, model in answers.items()}
    for status in (400, 401, 408, 413, 429, 503, *problems):
        content = {"application/problem+json": {"schema": PROBLEM_REF}}
        out[status] = {"description": "Problem", "content": content}
    return out


PROBLEM_REF = {"$ref": "#/components/schemas/ProblemAnswer"}
_definitions["ProblemAnswer"] = _schema(TypeAdapter(ProblemAnswer))
