"""Every documented snippet runs as it stands (only the address is the test server's)."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
DEFAULT_URL = "http://127.0.0.1:8080"


def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("snippet", snippets("python"))
def test_python(snippet: str, url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", snippet.replace(DEFAULT_URL, url)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "show arm" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("snippet", snippets("sh"))
def test_curl(snippet: str, url: str) -> None:
    assert shutil.which("curl"), "curl is missing"
    # --fail-with-body turns a 4xx into a failure of the script
    script = "set -euo pipefail\n" + snippet.replace(DEFAULT_URL, url).replace(
        "curl -s", "curl -sS --fail-with-body"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"arm"' in done.stdout


def test_there_are_snippets() -> None:
    assert snippets("python")
    assert snippets("sh")
