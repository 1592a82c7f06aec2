"""Every documented snippet runs as it stands (only the address is the test server's).

The snippets of one language on one page are one program, in the order of the page.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clients.sdk.client import Client
from service.base.server_settings import Settings
from service.operation.app import create_app
from tests.faults.server_process import served

ROOT = Path(__file__).parents[2]
DEFAULT_URL = "http://127.0.0.1:8080"
PAGES = ("README.md", "docs/tutorial.md", "docs/how-to.md", "docs/api.md")
SNIPPET = r"```{language}\n(.*?)```"


def program(page: str, language: str) -> str:
    text = (ROOT / page).read_text()
    return "\n".join(re.findall(SNIPPET.format(language=language), text, flags=re.DOTALL))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(page: str, tmp_path: Path) -> None:
    """Its Python first, its shell after, as a tutorial's reader would; against a fresh server."""
    assert shutil.which("curl"), "curl is missing"
    # --fail-with-body turns a 4xx into a failure of the script
    shell = "set -euo pipefail\n" + program(page, "sh").replace(
        "curl -s", "curl -sS --fail-with-body"
    )
    commands = [[sys.executable, "-c", program(page, "python")], ["bash", "-c", shell]]
    with served(tmp_path / "server.db") as url:
        for *command, script in commands:
            done = subprocess.run(
                [*command, script.replace(DEFAULT_URL, url)],
                capture_output=True,
                text=True,
                cwd=tmp_path,
            )
            assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_tutorial_ends_with_an_estimate_that_knows_how_sure_it_is(tmp_path: Path) -> None:
    """Of a hundred worlds one has noise that seems to drift, and its reader sees no intervals."""
    with served(tmp_path / "server.db") as url, Client(url) as client:
        script = program("docs/tutorial.md", "python").replace(DEFAULT_URL, url)
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
        estimate = client.session("tutorial").estimate()
    assert not estimate["intervals"].get("drawn"), estimate["no_intervals"]
    assert estimate["active_lags"] == [3, 7]
    assert estimate["findings"] == []


def test_every_page_with_snippets_is_run() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    with_snippets = {
        str(page.relative_to(ROOT))
        for page in pages
        if re.search(r"^```(python|sh)\n(?!--8<--)", page.read_text(), flags=re.M)
    }
    assert with_snippets == set(PAGES)


def test_the_api_page_calls_every_route(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/test.db")
    lines = program("docs/api.md", "sh").replace("\\\n", " ").splitlines()
    called = [line for line in lines if "$api" in line or "$root" in line]
    for path, methods in create_app(settings).openapi()["paths"].items():
        pattern = re.sub(r"/v1", "$api", path) if path.startswith("/v1") else f"$root{path}"
        pattern = re.sub(r"\\\{\w+\\\}", r"[^/\\s\"?]+", re.escape(pattern)) + r"(?=[\s\"?)]|$)"
        lines_of_path = [line for line in called if re.search(pattern, line)]
        for method in methods:
            assert any(method == verb(line) for line in lines_of_path), f"{method} {path}"


def verb(line: str) -> str:
    if said := re.search(r"-X (\w+)", line):
        return said[1].lower()
    return "post" if re.search(r" -d | --data-binary |-d$", line) or "$json" in line else "get"
