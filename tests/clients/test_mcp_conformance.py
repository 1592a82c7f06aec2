"""`/mcp` and the conformance suite of the protocol, as it is on npm.

The other scenarios ask for tools, prompts and resources of a server that was made for the suite.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults.server_process import served

SUITE = "@modelcontextprotocol/conformance@0.1.13"  # the latest that node 20 runs
SCENARIOS = ("server-initialize", "ping", "tools-list", "dns-rebinding-protection")


@pytest.mark.slow
def test_it_conforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    monkeypatch.setenv("LHB_MCP", "true")
    install = ["npm", "install", "--prefix", ".", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run([*install, SUITE], cwd=tmp_path, check=True, capture_output=True)
    with served(tmp_path / "mcp.db") as url:
        for scenario in SCENARIOS:
            asked = ["npx", "conformance", "server", "--url", f"{url}/mcp", "--scenario", scenario]
            done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0, f"{scenario}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            assert "0 failed, 0 warnings" in done.stdout
