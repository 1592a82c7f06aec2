"""Imports point one way (docs/architecture.md, Imports): no circle, nothing against the arrows."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
OURS = ("lhb_engine", "service", "clients", "benchmarks")

# module prefix -> the prefixes of ours that it may import; the longest matching prefix rules
ALLOWED: dict[str, tuple[str, ...]] = {
    "lhb_engine": ("lhb_engine",),
    "service": ("service", "lhb_engine"),
    # adapters know the records, the problems and their cache, never a use case
    "service.storage": (
        *("service.storage", "service.session.records", "service.session.trial_records"),
        *("service.session.slot_records", "service.session.due_fits"),
        *("service.base", "lhb_engine"),
    ),
    "lhb": ("clients", "lhb_engine"),
    "clients.__init__": ("clients.sdk",),
    "clients.sdk": ("clients.sdk",),
    "clients.progress": (),
    "clients.simulator": ("clients.sdk", "clients.progress", "lhb_engine"),
    "clients.simulation_report": ("clients.simulator", "lhb_engine"),
    "clients.cli.demo": ("clients.simulator", "clients.simulation_report"),
    "clients.experiments": (
        "clients.experiments",
        "clients.simulator",
        "clients.simulation_report",
        "clients.progress",
        "lhb_engine",
    ),
    "benchmarks": OURS,
    "clients.cli.main": ("clients.cli", "benchmarks.commands"),
    "clients.cli.output": (),
    "clients.cli.refusals": (),
    "clients.cli": ("lhb_engine", "service", "clients"),
}
# what each package may take from outside, beyond the standard library; None: anything declared
OUTSIDE: dict[str, set[str] | None] = {
    "lhb_engine": {"numpy", "scipy", "sklearn", "threadpoolctl"},
    "lhb": set(),
    "clients.__init__": set(),
    "clients.sdk": {"httpx"},
}


# in the wheel these are below lhb.clients, and import each other by their place beside each other
RELATIVE = ("clients.__init__", "clients.sdk")


def modules() -> Iterator[tuple[str, Path]]:
    yield "lhb", ROOT / "lhb.py"
    for package in OURS:
        for path in (ROOT / package).rglob("*.py"):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path


def imports_of(name: str, path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            is_ours = node.level > 0 or module.split(".")[0] in OURS
            wanted = int(is_ours and name.startswith(RELATIVE))
            assert node.level == wanted, f"{name}: {wanted} dots before {module}"
            yield f"{name.rpartition('.')[0]}.{module}" if node.level else module


def rule_for(name: str, rules: dict[str, Any]) -> Any:
    matching = [p for p in rules if name == p or name.startswith(p + ".")]
    return rules[max(matching, key=len)] if matching else None


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=lambda value: str(value)[-40:])
def test_imports_point_one_way(name: str, path: Path) -> None:
    allowed = rule_for(name, ALLOWED)
    outside = rule_for(name, OUTSIDE)
    for imported in imports_of(name, path):
        top = imported.split(".")[0]
        if top in OURS:
            assert allowed is None or any(
                imported == p or imported.startswith(p + ".") for p in allowed
            ), f"{name} imports {imported}"
        elif outside is not None:
            assert top in sys.stdlib_module_names or top in outside, f"{name} imports {imported}"


def test_the_rules_catch_a_wrong_arrow(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from service.commands.sessions import decide\n")
    assert list(imports_of("lhb_engine.wrong", wrong)) == ["service.commands.sessions"]
    assert "service" not in (rule_for("lhb_engine.wrong", ALLOWED) or ())


def test_a_server_loads_nothing_that_only_fits_or_migrations_need() -> None:
    heavy = (
        "scipy.sparse scipy.linalg scipy.fft scipy.special sklearn matplotlib alembic sqlalchemy"
    )
    code = (
        f"import sys, service.operation.server; print(*sys.modules.keys() & set({heavy.split()!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
