"""What CONTRIBUTING, the hooks and the hosted CI tell people to run is there."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
DOCUMENTS = ("CONTRIBUTING.md", "README.md")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_make_targets_exist(document: str) -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / document).read_text(), re.M))
    assert named
    assert named <= set(re.findall(r"^([a-z-]+):", MAKEFILE, re.M))


def test_hooks_are_local_and_need_nothing_from_elsewhere() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    for hook in config["repos"][0]["hooks"]:
        program, *arguments = hook["entry"].split()
        assert hook["language"] == "system"
        assert program in {f".venv/bin/{name}" for name in ("ruff", "mypy", "pytest")}
        assert all((ROOT / name).exists() for name in arguments if name.endswith(".py"))


def test_hosted_ci_runs_what_we_run() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    steps = workflow["jobs"]["test"]["steps"]
    assert steps[-1]["run"] == ".ci/run"
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_the_changelog_is_by_version_and_kind() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    versions = [line for line in lines if line.startswith("## ")]
    assert versions[0] == "## Unreleased"
    assert all(re.fullmatch(r"## \d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", v) for v in versions[1:])
    kinds = {line for line in lines if line.startswith("### ")}
    assert kinds <= {f"### {kind}" for kind in ("Added", "Changed", "Fixed", "Removed")}
