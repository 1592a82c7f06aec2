"""The request bodies that create, change and copy a session: the settings of `SessionSpec`."""

from typing import Annotated, Any, Required

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from service.base.field_types import STRICT, Name
from service.session.spec import DEFAULTS, REQUIRED, members


def _body(title: str, meaning: str, members: dict[str, Any], *examples: dict[str, Any]) -> Any:
    """Return the type of a body; the members that are required are those of `given`."""
    body: Any = TypedDict(title, members, total=False)  # type: ignore[misc]
    body.__doc__ = meaning

    def describe(schema: dict[str, Any]) -> None:
        schema["examples"] = [*examples]
        if title == "SessionBody":
            for name, member in schema["properties"].items():
                if DEFAULTS.get(name, None) is not REQUIRED:
                    member["default"] = DEFAULTS.get(name)

    return with_config(ConfigDict(**STRICT, json_schema_extra=describe))(body)


def _name(description: str) -> Any:
    return Annotated[Name | None, Field(description=description)]


SessionBody = _body(
    "SessionBody",
    "The settings of a new session.",
    {
        "name": _name("unique name; with it, repeating the request creates no second session"),
        **{
            name: Required[kind] if DEFAULTS[name] is REQUIRED else kind
            for name, kind in members("at_creation")
        },
    },
    {"name": "shop", "dim": 5, "horizon": 100, "seed": 1},
    {"dim": 5, "horizon": 100, "keep_rounds": 100_000, "keep_days": 90},
    {"dim": 5, "horizon": 24, "clock": {"slot_seconds": 3600, "totals": "all"}},
    {"dim": 5, "horizon": 20, "options": {"levels": True, "zero_start": False}},
    {"dim": 5, "horizon": 20, "options": {"covariates": ["rain"], "trend": True}},
)
SessionPatch = _body(
    "SessionPatch",
    "The changes to a session.",
    {"name": Name, "archived": bool, **dict(members("changeable"))},
    {"archived": True},
    {"keep_days": 90, "keep_rounds": None},
)
SessionCopy = _body(
    "SessionCopy",
    "The settings that a copy has instead of its source's.",
    {
        "name": _name("unique name; with it, repeating the request makes no second copy"),
        **dict(members("copyable")),
    },
    {"name": "shop with a season", "options": {"seasonality": [{"period": 24}]}},
)
