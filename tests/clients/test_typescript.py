"""The TypeScript package, generated from the schema of a live server, plays against it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lhb import Client

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to.md"


@pytest.mark.slow
def test_it_is_generated_and_plays(url: str, tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    package = tmp_path / "typescript"
    made = shutil.ignore_patterns("node_modules", "dist", "schema.ts")
    shutil.copytree(ROOT / "clients" / "typescript", package, ignore=made)
    [snippet] = re.findall(r"```ts\n(.*?)```", HOW_TO.read_text(), flags=re.DOTALL)
    (package / "src" / "how_to.ts").write_text(snippet.replace("http://127.0.0.1:8080", url))
    alone = os.environ | {"LHB_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    alone.pop("LHB_URL", None)

    def run(command: str, **more: str) -> tuple[int, str]:
        done = subprocess.run(
            command.split(), cwd=package, env=alone | more, capture_output=True, text=True
        )
        return done.returncode, f"{command}\n{done.stdout}\n{done.stderr}"

    status, said = run("npm test", LHB_PYTHON="/nowhere/python")
    assert status == 1
    assert "there is no /nowhere/python. Run make serve" in said
    assert "    at " not in said  # a trace
    status, said = run("npm test")  # installs, and starts a server
    assert status == 0, said
    with Client(url) as client:
        before = {session.id for session in client.sessions()}
        status, said = run("node --test dist/client.test.js", LHB_URL=url)
        assert status == 0, said
        assert {session.id for session in client.sessions()} == before
    status, said = run("node dist/how_to.js")
    assert status == 0, said
