"""The TypeScript package, generated from the schema of a live server, plays against it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

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
    environment = os.environ | {"LHB_URL": url}
    for command in (
        "npm install --no-package-lock --ignore-scripts --no-audit --no-fund",
        "npm test",
        "node dist/how_to.js",
    ):
        done = subprocess.run(
            command.split(), cwd=package, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
