"""`lhb settings`: what the environment can set, and what it sets now."""

import os
import re
from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from clients.cli.output import WIDTH, AsJson, show


def settings(as_json: AsJson = False) -> None:
    """List every setting: its variable, its value, its default and what it means.

    A password in a URL is not shown. A variable that is no setting is named on standard error.

    Example: LHB_FIT_WORKERS=2 lhb settings
    """
    rows = list(_settings())
    show({"settings": rows}, as_json, _lines(rows))


def _settings() -> Iterator[dict[str, Any]]:
    from service.base.settings import Settings, read_settings, variable_of

    values = read_settings().model_dump(mode="json")
    variables = {name.upper(): value for name, value in os.environ.items()}
    for name, field in Settings.model_fields.items():
        variable = variable_of(name)
        value = values[name]
        if value is None:  # the password's file, which is read into the URL
            value = variables.get(variable)
        yield {
            "variable": variable,
            "value": _without_password(value),
            "default": field.default,
            "is_set": variable in variables,
            "meaning": field.description,
        }


def _without_password(value: Any) -> Any:
    return re.sub(r"(://[^:/@]*):.*@", r"\1:***@", value) if isinstance(value, str) else value


def _lines(found: list[dict[str, Any]]) -> Iterator[str]:
    yield "Environment variables; those that are set show their default in brackets."
    for one in found:
        default = f"  (default: {_text(one['default'])})" if one["is_set"] else ""
        yield ""
        yield f"{one['variable']} = {_text(one['value'])}{default}"
        yield from wrap(one["meaning"], WIDTH, initial_indent="    ", subsequent_indent="    ")


def _text(value: Any) -> str:
    if value is None or value == "":
        return "(none)"
    return str(value).lower() if isinstance(value, bool) else str(value)
