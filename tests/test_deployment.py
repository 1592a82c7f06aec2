"""The files that deploy the service say what they should."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_compose_file_is_valid_and_private() -> None:
    if shutil.which("docker-compose") is None:
        assert "CI" not in os.environ, "docker-compose is missing"
        pytest.skip("docker-compose is not installed")
    shown = subprocess.run(
        ["docker-compose", "config"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "127.0.0.1:8080:8080" in shown.stdout
    assert "/data" in shown.stdout


def test_the_image_runs_the_embedded_server_as_nobody_special() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    command = next(line for line in reversed(lines) if line.startswith("CMD"))
    assert json.loads(command.removeprefix("CMD"))[:2] == ["lhb", "serve"]
    assert "USER lhb" in lines
