"""Imports point one way (docs/architecture.md, Imports): no circle, nothing against the arrows."""

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
OURS = ("lhb_engine", "service", "clients", "benchmarks")

# module prefix -> the prefixes of ours that it may import; the longest matching prefix rules
ALLOWED: dict[str, tuple[str, ...]] = {
    "lhb_engine": ("lhb_engine",),
    "service": ("service", "lhb_engine"),
    # what is answered is described once, where clients without a server have it
    "service.api": ("service", "lhb_engine", "clients.sdk.answers"),
    # adapters know the records, the problems and their cache, never a use case
    "service.storage": (
        *("service.storage", "service.session.records"),
        *("service.base", "lhb_engine"),
    ),
    "lhb": ("clients", "lhb_engine"),
    "clients.__init__": ("clients.sdk",),
    # the codes of findings, which need nothing to be installed
    "clients.sdk": ("clients.sdk", "lhb_engine.findings.finding"),
    "clients.progress": (),
    "clients.simulation_options": ("lhb_engine.simulation.environment",),
    "clients.simulator": (
        "clients.sdk",
        "clients.simulation_options",
        "clients.progress",
        "lhb_engine",
    ),
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
    "clients.cli": ("lhb_engine", "service", "clients"),
}
# the rooms of service/, each above those that it may import
ROOMS = (
    *("base", "session", "storage", "writer", "rounds", "fits", "lift", "commands", "transfer"),
    *("api", "personalizer", "dashboard", "web", "operation"),
)
# modules that import each other, the import back inside a function
CIRCLES: list[set[str]] = []
# what each package may take from outside, beyond the standard library; None: anything declared
OUTSIDE: dict[str, set[str] | None] = {
    "lhb_engine": {"numpy", "scipy", "sklearn", "threadpoolctl"},
    "lhb": set(),
    "clients.__init__": set(),
    "clients.sdk": {"httpx"},
}


# in the wheel these are below lhb.clients, and import each other by their place beside each other
RELATIVE, MOVED = ("clients.__init__", "clients.sdk"), ("clients", "service")


def modules() -> Iterator[tuple[str, Path]]:
    yield "lhb", ROOT / "lhb.py"
    for package in OURS:
        for path in (ROOT / package).rglob("*.py"):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path


def import_statements(
    tree: ast.AST, for_types: bool = True
) -> Iterator[ast.Import | ast.ImportFrom]:
    """All imports of a module; `for_types`: also those that only type checkers see."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case) and (
            for_types or not isinstance(node, ast.If) or ast.unparse(node.test) != "TYPE_CHECKING"
        ):
            yield from import_statements(node, for_types)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imports_of(name: str, path: Path) -> Iterator[str]:
    for node in import_statements(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            is_ours = node.level > 0 or module.split(".")[0] in MOVED
            wanted = int(is_ours and name.startswith(RELATIVE))
            assert node.level == wanted, f"{name}: {wanted} dots before {module}"
            yield f"{name.rpartition('.')[0]}.{module}" if node.level else module


def rule_for(name: str, rules: dict[str, Any]) -> Any:
    matching = [p for p in rules if name == p or name.startswith(p + ".")]
    return rules[max(matching, key=len)] if matching else None


def wrong_imports(name: str, path: Path) -> Iterator[str]:
    """What a module imports against the rules."""
    allowed = rule_for(name, ALLOWED)
    outside = rule_for(name, OUTSIDE)
    for imported in imports_of(name, path):
        top = imported.split(".")[0]
        if top in OURS:
            if allowed is not None and not any(
                imported == p or imported.startswith(p + ".") for p in allowed
            ):
                yield f"{name} imports {imported}"
        elif outside is not None and top not in sys.stdlib_module_names and top not in outside:
            yield f"{name} imports {imported}"


def test_imports_point_one_way() -> None:
    assert [wrong for name, path in modules() for wrong in wrong_imports(name, path)] == []


def test_rooms_import_the_rooms_below_them() -> None:
    upward = [
        f"{name} imports {imported}"
        for name, path in modules()
        if name.startswith("service.") and not path.parent.samefile(ROOT / "service")
        for imported in imports_of(name, path)
        if imported.startswith("service.")
        and ROOMS.index(imported.split(".")[1]) > ROOMS.index(name.split(".")[1])
    ]
    assert upward == []


def imported_modules(name: str, tree: ast.AST, known: Collection[str]) -> set[str]:
    """Our modules that a module imports, also inside functions."""
    found = set()
    for node in import_statements(tree, for_types=False):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            continue
        above = name.split(".")[: -node.level] if node.level else []
        module = ".".join([*above, *filter(None, [node.module])])
        named = {f"{module}.{alias.name}" for alias in node.names}
        found |= named & set(known) or {module}
    return found & set(known) - {name}


def circles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """The largest sets of modules of which each reaches each other."""
    reached = {name: set(to) for name, to in arrows.items()}
    for via in arrows:
        for to in reached.values():
            if via in to:
                to |= reached[via]
    around = {frozenset(m for m in to if n in reached[m]) for n, to in reached.items() if n in to}
    return sorted(map(set, around), key=min)


def test_modules_import_in_no_circle() -> None:
    ours = dict(modules())
    known = {name.removesuffix(".__init__") for name in ours}
    arrows = {
        name.removesuffix(".__init__"): imported_modules(name, tree_of(path), known)
        for name, path in ours.items()
    }
    assert circles(arrows) == CIRCLES


@pytest.mark.parametrize(
    ("arrows", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, [{"a", "b", "c"}]),
        ({"c": {"d"}, "d": {"c"}, "a": {"b", "c"}, "b": {"a"}}, [{"a", "b"}, {"c", "d"}]),
    ],
)
def test_circles_are_found(arrows: dict[str, set[str]], expected: list[set[str]]) -> None:
    assert circles(arrows) == expected


def test_the_rules_catch_a_wrong_arrow(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from service.commands.sessions import decide\n")
    expected = ["lhb_engine.wrong imports service.commands.sessions"]
    assert list(wrong_imports("lhb_engine.wrong", wrong)) == expected
    assert list(wrong_imports("service.api.right", wrong)) == []


@pytest.mark.parametrize(
    ("loaded", "heavy"),
    [
        (
            "service.operation.server",
            "scipy.sparse scipy.linalg scipy.fft scipy.special sklearn matplotlib",
        ),
        (
            "service.fits.job, service.fits.prepared_fit, lhb_engine.agents.anytime_fit",
            "scipy.signal scipy.stats sklearn matplotlib",
        ),
    ],
    ids=["server", "fit"],
)
def test_nothing_is_loaded_that_few_need(loaded: str, heavy: str) -> None:
    """What only fits need, in a server; 45 MB and a second of CPU in each process that fits."""
    code = f"import sys, {loaded}; print(*sys.modules.keys() & set({heavy.split()!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
