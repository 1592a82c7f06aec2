"""Write the client's types of settings and problem codes from the service's: `make answers`.

The client cannot import the service. What else it reads and writes is declared in
`clients/sdk/answers.py`, of which the service makes its schema.
"""

import subprocess
import sys
from collections.abc import Set
from enum import EnumType
from inspect import getdoc
from pathlib import Path
from textwrap import fill
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import AwareDatetime
from typing_extensions import TypeAliasType

from clients.sdk.setting_parts import ClockAnswer, HoldoutAnswer
from service.api.sessions import SETTINGS
from service.base.problems import ProblemCode
from service.session.slot_clock import ClockBody
from service.session.spec import DEFAULTS, REQUIRED, SessionSpec, members
from service.session.trial import ControlBody, HoldoutBody

SETTINGS_FILE = Path(__file__).parents[2] / "clients/sdk/settings.py"
SETTINGS_HEAD = '''"""A session's settings, and problem codes. `make answers` writes this file.

Sources: `service/session/spec.py`, `service/base/problems.py`; /openapi.json describes the same.
"""

from typing import Any, Literal, Required, TypedDict

from .setting_parts import ClockAnswer, HoldoutAnswer'''
ASKED: Any = (
    ("SessionSettings", "at_creation", "What a session is created with, beside its name."),
    ("SettingChanges", "changeable", "What may change of a session."),
    ("CopySettings", "copyable", "What a copy may have instead of its source's."),
)


def settings_written() -> str:
    """Return the text of `clients/sdk/settings.py`."""
    kinds = get_type_hints(SessionSpec)
    bodies, answers = (ControlBody, HoldoutBody, ClockBody), (HoldoutAnswer, ClockAnswer)
    named = {kind: kind.__name__ for kind in (*bodies, *answers)}
    sources = [
        _dictionary(
            named[kind], str(getdoc(kind)), get_type_hints(kind), kind.__required_keys__, named
        )
        for kind in bodies
    ]
    needed = {name for name, default in DEFAULTS.items() if default is REQUIRED}
    for title, where, meaning in ASKED:
        taken = {name: kinds[name] for name, _ in members(where)}
        required = needed if where == "at_creation" else set()
        sources.append(_dictionary(title, meaning, taken, required, named))
    answered = _dictionary(
        "SettingsAnswer", "The settings of a session.", SETTINGS, SETTINGS.keys(), named
    )
    return _formatted("\n\n".join([SETTINGS_HEAD, _codes(), *sources, answered]), SETTINGS_FILE)


def _codes() -> str:
    """Return the source of the type of problem codes, the client's own at its end."""
    codes = [*(str(code.value) for code in ProblemCode), "unreachable"]
    lines = fill(", ".join(f'"{code}"' for code in codes), 95)
    indented = "\n".join(f"    {line}" for line in lines.splitlines())
    return f"# fmt: off\nProblemCode = Literal[\n{indented},\n]\n# fmt: on\n"


def _dictionary(
    title: str, meaning: str, hints: dict[str, Any], required: Set[str], named: dict[Any, str]
) -> str:
    """Return the source of a type of dictionaries whose other members may be left out."""
    is_whole = required >= hints.keys()
    lines = [f"class {title}(TypedDict{'' if is_whole else ', total=False'}):"]
    lines += [f'    """{meaning}"""', ""]
    for name, kind in hints.items():
        text = _text(kind, {k: v for k, v in named.items() if v != title})
        is_marked = name in required and not is_whole
        lines.append(f"    {name}: {f'Required[{text}]' if is_marked else text}")
    return "\n".join([*lines, ""])


def _formatted(source: str, file: Path) -> str:
    """Return a source as ruff formats it."""
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", file.name, "-"]
    return subprocess.run(ruff, input=source, text=True, capture_output=True, check=True).stdout


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
    SETTINGS_FILE.write_text(settings_written())
