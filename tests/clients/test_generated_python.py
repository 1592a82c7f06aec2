"""The client that openapi-python-client generates from /openapi.json, against a live server."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import httpx
import pytest

# in an environment of its own: it asks for an older typer than ours
GENERATOR = "openapi-python-client==0.29.1"
PROGRAM = Path(__file__).with_name("generated_program.py")


@pytest.mark.slow
def test_a_generated_client_plays(url: str, tmp_path: Path) -> None:
    venv.create(tmp_path / "env")
    python = tmp_path / "env/bin/python"
    (tmp_path / "openapi.json").write_text(httpx.get(f"{url}/openapi.json", timeout=60).text)

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | {"LHB_URL": url, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    pip = sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check"
    run(*pip, "install", "--no-compile", GENERATOR)
    said = run(
        *(python, "-m", "openapi_python_client", "generate", "--path", "openapi.json"),
        *("--output-path", "generated", "--meta", "none"),
    )
    assert "WARNING" not in said, said  # no operation is left out
    assert run(python, PROGRAM) == "played\n"
