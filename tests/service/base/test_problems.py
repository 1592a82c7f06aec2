"""Problem codes are one enum: the schema and the page of the docs are written from it."""

import re
from pathlib import Path

from service.base.problems import TITLES, Problem, ProblemCode
from service.base.server_settings import Settings
from service.operation.app import create_app

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/problem-codes.md"
HEAD = (
    "# Problem codes",
    "",
    "A request that is refused is answered with [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)",
    'problem details: `{"type", "title", "status", "code", "detail", "field", "errors"?}`.',
    "Programs go by `code`; `detail` is for people, and `field` names what is to blame. A 429, and",
    "a 503 that says when to come back, carry `Retry-After`.",
)


def written() -> str:
    """Return the text of the page."""
    lines = [*HEAD]
    for status in sorted({code.status for code in ProblemCode}):
        lines += ["", f"## {status}", ""]
        lines += [f"- `{code}`: {code.meaning}" for code in ProblemCode if code.status == status]
    return "\n".join([*lines, ""])


def test_the_page_of_the_docs_is_written_from_the_enum() -> None:
    page = PAGE.read_text("utf-8")
    assert page == written(), "make answers"
    assert page.count("\n- `") == len(ProblemCode)


def test_the_schema_lists_the_codes(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/bandits.db")
    schemas = create_app(settings).openapi()["components"]["schemas"]
    assert schemas["ProblemAnswer"]["properties"]["code"] == {
        "$ref": "#/components/schemas/ProblemCode"
    }
    assert schemas["ProblemCode"]["enum"] == [code.value for code in ProblemCode]


def test_every_code_is_used_and_documented() -> None:
    sources = [p for p in (ROOT / "service").rglob("*.py") if p.name != "problems.py"]
    used = set(re.findall(r"ProblemCode\.([A-Z_]+)", "\n".join(p.read_text() for p in sources)))
    assert {code.name for code in ProblemCode} == used | {"INTERNAL"}  # `defect` makes that one
    for code in ProblemCode:
        assert code.name.lower() == code.value == str(code)
        assert code.status in TITLES
        assert re.fullmatch(r"[A-Z].*\.", code.meaning)


def test_a_code_determines_the_status() -> None:
    problem = Problem(ProblemCode.UNKNOWN_SESSION, "there is no session 'x'", "session_id")
    assert problem.body() == (
        b'{"type":"urn:lhb:problem:unknown_session","title":"Not found","status":404,'
        b'"code":"unknown_session","detail":"there is no session \'x\'","field":"session_id"}'
    )


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
