"""What users import, and what that loads."""

import subprocess
import sys
from pathlib import Path

import pytest

import clients
import lhb
import lhb_engine
from clients.sdk.errors import ApiError, error_of
from service.base.problems import ProblemCode

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("package", [lhb, clients, lhb_engine])
def test_every_public_name_is_there(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        package.nothing_of_this_name  # type: ignore[attr-defined] # noqa: B018


def test_lhb_has_the_names_of_both() -> None:
    assert {*clients.__all__, *lhb_engine.__all__, "__version__"} == set(lhb.__all__)
    assert lhb.Client is clients.Client
    assert f'version = "{lhb.__version__}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("asked", "loaded"),
    [("__version__", set()), ("Client", {"httpx"}), ("History", {"numpy"})],
)
def test_a_name_loads_what_it_needs(asked: str, loaded: set[str]) -> None:
    modules = {"httpx", "numpy", "scipy", "sklearn", "fastapi", "typer"}
    code = f"import sys, lhb; lhb.{asked}; print(*{modules!r} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == loaded


def test_a_problem_code_has_an_exception() -> None:
    kinds = {
        401: lhb.Unauthorized,
        404: lhb.NotFound,
        409: lhb.Conflict,
        429: lhb.TooManyRequests,
        500: ApiError,
        503: lhb.Unavailable,
    }
    for code in ProblemCode:
        error = error_of(code.status, {"code": code.value, "detail": code.meaning})
        assert type(error) is kinds.get(code.status, lhb.Invalid), code
        assert error.code == code
