"""Documents and comments refer only to files, sections and equations that exist."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from os.path import normpath, relpath
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# made by people or by commands where they run; a bare name with another ending is a user's file
NOT_KEPT = {
    f"deploy/secrets/{name}"
    for name in (
        *("postgres_password", "grafana_password", "metrics_key"),
        *("tls_certificate", "tls_key"),
    )
} | {"loop.py"}

LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"(?<![\w/.~$*}-])([\w.-]+(?:/[\w.-]+)*\.(?:py|md|sql|toml|yml|conf))(?![\w/(])")
FOLDER = re.compile(r"(?<![\w/.~$*}-])([\w.-]+(?:/[\w.-]+)+/?)(?![\w/{*<])")
MODULE = re.compile(r"(?<![\w/.])((?:lhb_engine|service|clients|tests)(?:\.[a-z_]\w*)+)")
COMMENT = re.compile(r"#[# ]*(.*)")
SHOUTED = re.compile(r"\b([A-Z]{5,}(?:\.md)? \d+(?:\.\d+)?)\b(?! ?[a-z%])")
NUMBER = r"\(\d+\.\d+\)|\d+(?:\.\d+)?(?![\w%])"
CITED = re.compile(rf"docs/model\.md,? ((?:{NUMBER})(?:(?:, | and | to )(?:{NUMBER}))*)")
SECTION_CITED = re.compile(r"docs/architecture\.md[,:]? [\"'(]*([A-Z][a-z]*(?: [a-z]+)*)")


@cache
def tracked() -> frozenset[str]:
    """Files of the repository, those about to be added included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return frozenset(name for name in done.stdout.split("\n") if (ROOT / name).is_file())


@cache
def folders() -> frozenset[str]:
    return frozenset(str(parent) for name in tracked() for parent in Path(name).parents)


def prose(name: str) -> str:
    """What a file says to people: of Python docstrings and comments, of all others everything.

    A comment is all after the first # of a line. Some of these are in strings, but to tell them
    apart takes longer than all the rest.
    """
    text = (ROOT / name).read_text("utf-8")
    if not name.endswith(".py"):
        return text
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    said = [
        ast.get_docstring(node) or ""
        for node in statements(ast.parse(text))
        if isinstance(node, documented)
    ]
    return "\n".join([*said, *COMMENT.findall(text)])


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """A node and the statements within it: expressions, which are most nodes, document nothing."""
    yield node
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        inside = getattr(node, part, None)
        for one in inside if isinstance(inside, list) else ():
            yield from statements(one)


def written() -> list[str]:
    kinds = (".py", ".md", ".yml", ".toml", ".sql", ".conf", "Makefile", "Dockerfile", ".ci/run")
    return sorted(name for name in tracked() if name.endswith(kinds))


def documents() -> list[str]:
    """Markdown where it is read; a template of a document lies elsewhere."""
    return [n for n in written() if n.endswith(".md") and (n.startswith("docs/") or "/" not in n)]


def test_a_program_that_a_page_includes_is_linked_above_it() -> None:
    """Where Markdown is read as it stands, the include is all that a reader sees."""
    for name in documents():
        text = (ROOT / name).read_text("utf-8")
        for program in re.findall(r'^--8<-- "(.+)"$', text, re.M):
            shown = f"]({relpath(Path('docs', program), Path(name).parent)}).\n\n``` {{ .python }}"
            assert f'{shown}\n--8<-- "{program}"' in text, f"{name}: {program}"


@pytest.mark.parametrize(("names", "most"), [("*.md", 50_000), ("architecture.md", 1200)])
def test_the_docs_stay_short(names: str, most: int) -> None:
    """Words as `wc -w` counts them, bars and numbers too: who adds takes away."""
    pages = [page.read_text("utf-8") for page in (ROOT / "docs").rglob(names)]
    assert pages
    assert sum(len(page.split()) for page in pages) <= most


@cache
def headings(document: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", (ROOT / document).read_text("utf-8"), re.M)


def anchors(document: str) -> set[str]:
    """As GitHub makes them of headings."""
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings(document)}


@cache
def equations() -> list[str]:
    """Numbers at the ends of the indented lines of docs/model.md."""
    text = (ROOT / "docs/model.md").read_text("utf-8")
    return re.findall(r"^ {4}.*\((\d+\.\d+)\)$", text, re.M)


def missing_files(name: str, said: str) -> list[str]:
    """Files and folders that `said` names and the repository does not hold."""
    here = Path(name).parent
    missing = []
    for found in {*FILE.findall(said), *FOLDER.findall(said)}:
        path = found.rstrip("./")
        is_file = FILE.fullmatch(path) is not None
        if not is_file and path.split("/")[0] not in folders():
            continue  # "decisions/s", a media type, a route
        known = tracked(), folders()
        if path in NOT_KEPT or any({path, normpath(here / path)} & some for some in known):
            continue
        if not any(have.endswith("/" + path) for some in known for have in some):
            missing.append(found)
    return missing


def missing_modules(said: str) -> list[str]:
    """Dotted names that are neither modules nor said in the last package's `__init__`."""
    missing = []
    for dotted in set(MODULE.findall(said)):
        path, *rest = dotted.split(".")
        while rest and f"{path}/{rest[0]}" in folders():
            path, *rest = f"{path}/{rest[0]}", *rest[1:]
        if not rest or f"{path}/{rest[0]}.py" in tracked():
            continue
        package = ROOT / path / "__init__.py"
        if not package.is_file() or not re.search(rf"\b{rest[0]}\b", package.read_text("utf-8")):
            missing.append(dotted)
    return missing


def missing_citations(said: str) -> list[str]:
    """Sections and equations of docs/model.md and docs/architecture.md that are not there."""
    flat = re.sub(r"\s+", " ", said)
    sections = {h.split()[0] for h in headings("docs/model.md") if h[0].isdigit()}
    missing = []
    for group in CITED.findall(flat):
        for number in re.findall(NUMBER, group):
            known = equations() if "." in number else sections
            if number.strip("()") not in known:
                missing.append(f"docs/model.md {number}")
    rooms = headings("docs/architecture.md")
    missing += [
        f"docs/architecture.md, {title}"
        for title in SECTION_CITED.findall(flat)
        if not any(title == h or title.startswith(h + " ") for h in rooms)
    ]
    return missing


@pytest.mark.parametrize("folder", sorted({name.partition("/")[0] for name in written()}))
def test_what_a_file_refers_to_exists(folder: str) -> None:
    for name in (name for name in written() if name.partition("/")[0] == folder):
        said = prose(name)
        assert missing_files(name, said) == [], name
        assert missing_modules(said) == [], name
        assert missing_citations(said) == [], name
        if name.endswith((".py", ".md")):
            assert SHOUTED.findall(said) == [], f"{name}: documents are cited by their path"


@pytest.mark.parametrize("name", documents())
def test_links_lead_somewhere(name: str) -> None:
    for target in LINK.findall((ROOT / name).read_text("utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(str(file.relative_to(ROOT))), target


def test_every_room_is_described() -> None:
    """Packages two folders deep are in the list of rooms; below that their room says it."""
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    rooms = {str(Path(name).parent) for name in tracked() if name.endswith("/__init__.py")}
    ours = {
        room
        for room in rooms
        if not room.startswith(("tests", "benchmarks/")) and room.count("/") < 2
    }
    missing = {room for room in ours if f"\n- `{room}/`: " not in text}
    assert missing == {"clients"}  # its rooms are there


def faults() -> list[tuple[str, str, str]]:
    """The fault, the promise and the tests of each entry of docs/faults.md."""
    text = re.sub(r"\n +", " ", (ROOT / "docs/faults.md").read_text("utf-8"))
    entries = re.findall(r"^- (.*)$", text, re.M)
    form = re.compile(r"\*\*(.+?)\*\*: (.+) \((tests/[^()]+)\)")
    return [(m[1], m[2], m[3]) if (m := form.fullmatch(e)) else (e, "", "") for e in entries]


@cache
def functions_of(name: str) -> frozenset[str]:
    defined = ast.walk(ast.parse((ROOT / name).read_text("utf-8")))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in defined if isinstance(node, kinds))


@pytest.mark.parametrize("row", faults(), ids=lambda row: row[0][:40])
def test_every_fault_names_a_test_that_exists(row: tuple[str, str, str]) -> None:
    fault, promise, shown = row
    assert fault
    assert promise
    for test in shown.split(", "):
        name, separator, function = test.partition("::")
        assert separator, test
        assert function in functions_of(name), test


def test_equations_are_numbered_one_after_the_other_within_their_section() -> None:
    text = (ROOT / "docs/model.md").read_text("utf-8")
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        number = section.split()[0]
        found = re.findall(r"^ {4}.*\((\d+\.\d+)\)$", section, re.M)
        assert found == [f"{number}.{i + 1}" for i in range(len(found))]
    named = set(re.findall(r"\((\d+\.\d+)\)", text))
    assert named == set(equations())


@pytest.mark.parametrize(
    "said",
    [
        "see `lhb_engine/units.py`",
        "as in gone.md",
        "as `tests/gone` does",
        "lhb_engine.gone finds it",
        "docs/model.md (99.1)",
        "docs/model.md (1.1) and (1.99)",
        "docs/model.md 99",
        "docs/architecture.md, A dream",
    ],
)
def test_what_is_not_there_is_found(said: str) -> None:
    assert missing_files("README.md", said) or missing_modules(said) or missing_citations(said)


@pytest.mark.parametrize(
    "said",
    [
        "see `lhb_engine/agents/base.py`, or `base.py`, or `agents/base.py`",
        "2000 decisions/s as application/json from /v1/sessions",
        "lhb_engine.agents.base and lhb_engine.agents",
        "docs/model.md (1.1), (1.2) and (3.2)",
        "docs/model.md 5, and docs/architecture.md, A fit",
    ],
)
def test_what_is_there_is_left_alone(said: str) -> None:
    assert not missing_files("README.md", said)
    assert not missing_modules(said)
    assert not missing_citations(said)
