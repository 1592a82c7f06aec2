"""What the image installs is pinned by digest, and is what pyproject and the constraints say."""

import re
import shlex
import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
# the image's Python, whatever runs this test
IMAGE = {"python_version": "3.11", "python_full_version": "3.11.0", "sys_platform": "linux"}
DIGEST = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def pins(path: Path) -> dict[str, str]:
    """Versions by canonical name."""
    lines = [line for line in path.read_text().splitlines() if "==" in line]
    split = [line.removesuffix("\\").strip().split("==") for line in lines]
    return {canonicalize_name(name): version for name, version in split}


def image_extras() -> list[str]:
    """The extras that the Dockerfile's requirements are made for, as the Makefile names them."""
    [command] = re.findall(r"uv pip compile(.*?)\n\n", (ROOT / "Makefile").read_text(), re.S)
    return re.findall(r"--extra (\w+)", command)


def needed(extras: list[str]) -> set[str]:
    """Names of all that extras of this project install, by the metadata of what is installed."""
    found: set[str] = set()
    todo = [Requirement(text) for text in PROJECT["dependencies"]]
    todo.append(Requirement(f"{PROJECT['name']}[{','.join(extras)}]"))
    seen: set[tuple[str, str]] = set()
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        for one in ("", *wanted.extras):
            if (name, one) in seen:
                continue
            seen.add((name, one))
            if name == PROJECT["name"]:
                texts = PROJECT["optional-dependencies"].get(one, [])
            else:
                found.add(name)
                texts = requires(name) or []
            for text in texts:
                further = Requirement(text)
                if further.marker is None or further.marker.evaluate({**IMAGE, "extra": one}):
                    todo.append(further)
    return found


def test_the_image_installs_what_the_project_needs_and_nothing_else() -> None:
    built = pins(ROOT / "deploy/requirements.txt")
    assert set(built) == needed(image_extras()) | {"setuptools"}  # the last one builds, and goes


def test_the_image_has_the_versions_that_are_tested() -> None:
    tested = pins(ROOT / "constraints.txt")
    for name, version in pins(ROOT / "deploy/requirements.txt").items():
        assert tested[name] == version, name


def test_every_pin_of_the_image_has_digests_and_no_address() -> None:
    text = (ROOT / "deploy/requirements.txt").read_text()
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text
    for block in re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", text, flags=re.M).strip()):
        first, *rest = block.splitlines()
        assert re.fullmatch(r"[a-z0-9-]+==\S+ \\", first), first
        assert rest, first
        assert all(DIGEST.fullmatch(line.strip(" \\")) for line in rest), first


def test_the_image_installs_by_digest_only() -> None:
    """Every call of pip in the Dockerfile either wants digests or downloads nothing."""
    steps = DOCKERFILE.replace("\\\n", " ").splitlines()
    commands = [one for step in steps for one in re.split(r"&&|\bRUN\b", step) if "pip " in one]
    by_digest = 0
    for command in commands:
        words = shlex.split(command)
        if words[1] == "uninstall":
            continue
        if "--require-hashes" in words:
            assert words[-2:] == ["-r", "deploy/requirements.txt"]
            by_digest += 1
        else:
            assert {"--no-deps", "--no-build-isolation", "--no-index"} <= set(words), command
    assert by_digest == 1
