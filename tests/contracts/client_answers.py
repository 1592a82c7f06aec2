"""Write the client's types of answers and of settings from the service's: `make answers`.

A model of `service/api` becomes a dictionary type of the same name, members and docstring in
`clients/sdk/answers.py`, and the settings that bodies take in `clients/sdk/settings.py`. The client
cannot import the service, and reads answers as they are.
"""

import subprocess
import sys
from collections.abc import Iterator, Set
from enum import EnumType
from inspect import getdoc
from pathlib import Path
from textwrap import indent
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import AwareDatetime, BaseModel
from typing_extensions import TypeAliasType

from service.api import fit_types, lift_types, response_types, round_types, session_types
from service.session.slot_clock import ClockBody
from service.session.spec import DEFAULTS, REQUIRED, SessionSpec, members
from service.session.trial import ControlBody, HoldoutBody

FILE = Path(__file__).parents[2] / "clients/sdk/answers.py"
SETTINGS_FILE = FILE.with_name("settings.py")
SERVED = (fit_types, response_types, lift_types, session_types, round_types)
NOT_READ = {"BatchAnswer"}  # the client hands out its items
HEAD = '''"""What the service answers, as types of dictionaries. `make answers` writes this file.

The source is `service/api/*_types.py`; /openapi.json describes the same.
"""

from typing import Any, Literal, NotRequired, TypedDict'''
SETTINGS_HEAD = '''"""A session's settings as dictionaries. `make answers` writes this file.

The source is `service/session/spec.py`; /openapi.json describes the same.
"""

from typing import Any, Literal, Required, TypedDict'''
ASKED: Any = (
    ("SessionSettings", "at_creation", "What a session is created with, beside its name."),
    ("SettingChanges", "changeable", "What may change of a session."),
    ("CopySettings", "copyable", "What a copy may have instead of its source's."),
)


def written() -> str:
    """Return the text of `clients/sdk/answers.py`."""
    named = {
        kind: name
        for module in SERVED
        for name, kind in vars(module).items()
        if get_origin(kind) is Literal or isinstance(kind, EnumType)
    }
    classes = [_class(model, named) for model in _in_order()]
    aliases = [f"{name} = {_text(kind, {})}" for kind, name in named.items()]
    source = "\n\n".join([HEAD, "\n".join(aliases), *classes])
    return _formatted(source, FILE)


def settings_written() -> str:
    """Return the text of `clients/sdk/settings.py`."""
    kinds = get_type_hints(SessionSpec)
    named = {kind: kind.__name__ for kind in (ControlBody, HoldoutBody, ClockBody)}
    sources = [
        _dictionary(name, str(getdoc(kind)), get_type_hints(kind), kind.__required_keys__, named)
        for kind, name in named.items()
    ]
    needed = {name for name, default in DEFAULTS.items() if default is REQUIRED}
    for title, where, meaning in ASKED:
        taken = {name: kinds[name] for name, _ in members(where)}
        required = needed if where == "at_creation" else set()
        sources.append(_dictionary(title, meaning, taken, required, named))
    return _formatted("\n\n".join([SETTINGS_HEAD, *sources]), SETTINGS_FILE)


def _dictionary(
    title: str, meaning: str, hints: dict[str, Any], required: Set[str], named: dict[Any, str]
) -> str:
    """Return the source of a type of dictionaries whose other members may be left out."""
    lines = [f"class {title}(TypedDict, total=False):", f'    """{meaning}"""', ""]
    for name, kind in hints.items():
        text = _text(kind, {k: v for k, v in named.items() if v != title})
        lines.append(f"    {name}: {f'Required[{text}]' if name in required else text}")
    return "\n".join([*lines, ""])


def _formatted(source: str, file: Path) -> str:
    """Return a source as ruff formats it."""
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", file.name, "-"]
    return subprocess.run(ruff, input=source, text=True, capture_output=True, check=True).stdout


def _in_order() -> Iterator[type[BaseModel]]:
    """Yield the models, each after those that its members have."""
    done: set[type[BaseModel]] = set()

    def visit(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
        if model in done or model is BaseModel:
            return
        done.add(model)
        for part in (*model.__bases__, *_parts(model)):
            yield from visit(part)
        yield model

    for module in SERVED:
        for name, model in vars(module).items():
            if name.endswith("Answer") and name not in NOT_READ:
                yield from visit(model)


def _parts(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models among the types of the members."""
    kinds = [field.annotation for field in model.model_fields.values()]
    while kinds:
        kind: Any = kinds.pop()
        kinds += get_args(kind)
        if isinstance(kind, type) and get_origin(kind) is None and issubclass(kind, BaseModel):
            yield kind


def _class(model: type[BaseModel], named: dict[Any, str]) -> str:
    """Return the source of a model's dictionary type."""
    base = next((b for b in model.__bases__ if b is not BaseModel), None)
    lines = [f"class {model.__name__}({'TypedDict' if base is None else base.__name__}):"]
    told = getdoc(model) or ""
    lines += [indent(f'"""{told}' + ("\n" if "\n" in told else "") + '"""', "    ")]
    members = [
        f"{name}: {_member(field, named)}"
        for name, field in model.model_fields.items()
        if base is None or name not in base.model_fields
    ]
    return "\n".join([*lines, "", *(f"    {member}" for member in members), ""])


def _member(field: Any, named: dict[Any, str]) -> str:
    text = _text(field.annotation, named)
    return text if field.is_required() else f"NotRequired[{text}]"


def _text(kind: Any, named: dict[Any, str]) -> str:
    """Return a type as source."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated or isinstance(kind, TypeAliasType):  # what is said besides has no hash
        return _text(parts[0] if parts else kind.__value__, named)
    if kind in named:
        return named[kind]
    if kind is AwareDatetime:
        return "str"  # RFC 3339
    if origin is Literal or isinstance(kind, EnumType):
        values = parts or [member.value for member in kind]
        return f"Literal[{', '.join(map(repr, values))}]"
    if origin in (Union, UnionType):
        return " | ".join(_text(part, named) for part in parts)
    if parts:
        return f"{origin.__name__}[{', '.join(_text(part, named) for part in parts)}]"
    return "None" if kind is NoneType else str(kind.__name__)


if __name__ == "__main__":
    FILE.write_text(written())
    SETTINGS_FILE.write_text(settings_written())
