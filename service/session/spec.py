"""What a session is asked to be: one declaration of each setting.

A field is a member of a body. From its declaration follow the bodies of creation, PATCH and copy
with their documentation, the defaults, the canonical request, the session's answer, its row, its
file and the arguments of the Python client (`make answers`). A default never changes: requests,
rows and files leave out what is as by default. `rules.py` says which settings exclude each other.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from dataclasses import field as dataclass_field
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import FailFast
from pydantic import Field as Limits

from service.base.field_types import (
    ArmIds,
    Dim,
    Feature,
    Horizon,
    KeepDays,
    KeepRounds,
    Number,
    Refit,
    RewardMode,
    RewardUnit,
    Seed,
    WaitSeconds,
)
from service.session.names import MOST_COLUMNS, ONE_HOT, Categories, Pair, Repetition
from service.session.slot_clock import ClockBody, asked_clock
from service.session.trial import HOLDOUT_DEFAULTS, HoldoutBody, Mode

Options = Annotated[dict[str, Any], Limits(max_length=100)]


def setting(
    default: Any = MISSING,
    description: str | None = None,
    *,
    changeable: bool | str = False,
    copyable: bool | str = False,
    at_creation: bool = True,
    since: str = "1.0",
) -> Any:
    """Declare a setting.

    A session that is not told has the `default`; without one, creation must say it. `description`
    is for the documentation; None: the type has one. `at_creation`, `changeable` and `copyable` say
    whether creation, PATCH and a copy take it; a text describes it there. `since`: first version.
    """
    about = {
        "description": description,
        "at_creation": at_creation,
        "changeable": changeable,
        "copyable": copyable,
        "since": since,
    }
    if isinstance(default, dict):
        return dataclass_field(default_factory=dict, metadata=about)
    return dataclass_field(default=default, metadata=about)


@dataclass(kw_only=True)
class Settings:
    """The settings that a session's row has as they are asked for."""

    algorithm: str = setting(
        "anytime",
        'name of an algorithm, see GET /v1/algorithms; default "anytime"',
        copyable="name of an algorithm, see GET /v1/algorithms",
    )
    dim: Dim = setting()
    horizon: Horizon = setting(copyable=True)
    seed: Seed | None = setting(
        None,
        "seed of the session's random draws; default: drawn at random",
        copyable="seed of the session's random draws",
    )
    options: Options = setting(
        {},
        "options of the algorithm",
        changeable="options that are `changeable` in /v1/algorithms; others stay as they are",
        copyable="options of the algorithm, all of them",
    )
    reward_mode: RewardMode = setting("single")
    reward_wait_seconds: WaitSeconds = setting(0.0, changeable=True, copyable=True)
    default_reward: Number | None = setting(
        None, "reward of a round that has none after the wait", copyable=True
    )
    reward_unit: RewardUnit | None = setting(None, changeable=True, copyable=True)
    refit: Refit = setting("background", copyable=True)
    keep_contexts: bool = setting(
        False,
        "keep the contexts of all arms, so that other agents can be evaluated on an export; "
        "default false",
    )
    keep_rounds: KeepRounds | None = setting(None, changeable=True, copyable=True)
    keep_days: KeepDays | None = setting(None, changeable=True, copyable=True)


@dataclass(kw_only=True)
class SessionSpec(Settings):
    """The settings of a session, but for its name."""

    features: Annotated[
        list[Feature] | None, Limits(min_length=1, max_length=MOST_COLUMNS), FailFast()
    ] = setting(
        None,
        "names of the first columns of a context; by default they are named by the first contexts "
        "with names",
    )
    products: Annotated[list[Pair] | None, Limits(min_length=1, max_length=MOST_COLUMNS)] = setting(
        None,
        "pairs of these names, whose products the session works out: columns after `features`, "
        "which no context gives; a name twice is its square",
        copyable=True,
    )
    repetition: Repetition | None = setting(
        None,
        "how many rounds a trajectory remembers what was chosen: a column after `products`, which "
        "no context gives, says how much of an arm's context that was",
        copyable=True,
    )
    categories: Categories = setting(
        ONE_HOT,
        "where the categories of a feature go: each into a free column, or into columns that they "
        "share",
    )
    arms: Annotated[ArmIds | None, Limits(min_length=1, max_length=MOST_COLUMNS)] = setting(
        None, "arm_ids of a decision without"
    )
    mode: Mode = setting(
        "live",
        "shadow: the caller plays forced_arm, and the agent's choice is logged",
        changeable=True,
    )
    holdout: HoldoutBody | None = setting(None)
    guard: Literal["armed", "off"] = setting(
        "off",
        "armed: the agent plays again, and a new comparison begins",
        at_creation=False,
        changeable=True,
    )
    clock: ClockBody | None = setting(
        None, "rounds by the clock: any number of decisions a slot of time"
    )

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "SessionSpec":
        """Return what a body asks for; of a clock and a holdout all members are there."""
        parts = {
            name: whole(body[name]) for name, whole in PARTS.items() if body.get(name) is not None
        }
        return cls(**{**body, **parts})

    @property
    def plain(self) -> dict[str, Any]:
        """The settings that a row has as they are asked; none is a negative zero."""
        settings = {name: getattr(self, name) for name in PLAIN}
        return settings | {n: settings[n] + 0.0 for n in FLOATS if settings[n] is not None}

    @property
    def given(self) -> dict[str, Any]:
        """The settings that are not as by default, in the order of their declaration."""
        settings = {one.name: getattr(self, one.name) for one in SETTINGS}
        return {name: value for name, value in settings.items() if value != DEFAULTS[name]}


SETTINGS: tuple[Field[Any], ...] = fields(SessionSpec)
TYPES: dict[str, Any] = get_type_hints(SessionSpec, include_extras=True)
REQUIRED = object()  # equal to no value


def defaults(kind: Any) -> dict[str, Any]:
    """Return the default of each field of a dataclass; `REQUIRED` where there is none."""
    values = {f.name: f.default for f in fields(kind)}
    values |= {f.name: f.default_factory() for f in fields(kind) if callable(f.default_factory)}
    return {name: REQUIRED if value is MISSING else value for name, value in values.items()}


DEFAULTS = defaults(SessionSpec)


PARTS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "holdout": lambda given: {**HOLDOUT_DEFAULTS, **given},
    "clock": asked_clock,
}
"""The settings that have members: each with what makes it whole."""

FLOATS = ("reward_wait_seconds", "default_reward")

PLAIN = tuple(one.name for one in fields(Settings))
"""The settings that a row has as they are asked; what is asked of the others is in its parts."""


def members(where: Literal["at_creation", "changeable", "copyable"]) -> Iterator[tuple[str, Any]]:
    """Yield name and type, with description, of each setting that a body takes."""
    for one in SETTINGS:
        declared = one.metadata[where]
        if declared:
            text = declared if isinstance(declared, str) else one.metadata["description"]
            kind = TYPES[one.name]
            # no seed of a copy is null: it has its source's
            kind = Seed if kind == Seed | None and where == "copyable" else kind
            description: dict[str, Any] = {} if text is None else {"description": text}
            since: Any = {"x-since": one.metadata["since"]}
            yield one.name, Annotated[kind, Limits(json_schema_extra=since, **description)]


def canonical(request: Any) -> str:
    """Return a request as text: equal ones are equal, whatever their order and their numbers."""
    return json.dumps(_plain(request), sort_keys=True)


def _plain(value: Any) -> Any:
    """Give equal numbers one form: 1.0 becomes 1, and -0.0 becomes 0."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
