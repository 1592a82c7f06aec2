"""The site builds without a warning, loads nothing from elsewhere, and its examples learn."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.faults.server_process import served

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
PAGES_ALONE = {"index", "personalizer"}  # of the guide, without an example of their own


@pytest.mark.slow
def test_it_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loads = (
        r"<(?:(?:script|img|iframe)[^>]* src|link[^>]*stylesheet[^>]* href)=\"?(https?:[^\" >]+)"
    )
    for page in tmp_path.rglob("*.html"):
        assert not re.findall(loads, page.read_text()), page.name


def test_every_example_has_a_page_and_a_figure() -> None:
    examples = {path.stem for path in EXAMPLES.glob("*.py")} - {"lag_plot"}
    assert examples == {path.stem for path in (ROOT / "docs" / "guide").glob("*.md")} - PAGES_ALONE
    assert examples == {path.stem for path in EXAMPLES.glob("*.png")}


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# what the last tenth of the time has to bring above chance, half of what it was seen to
GAINS = {"news": 0.2, "shop": 2.0, "course": 0.3, "notifications": 0.65, "catalogue": 0.25}
# half of the people, or of the time, of the page
FEWER = {
    "news": ("READERS", 30),
    "shop": ("HOURS", 200),
    "course": ("LEARNERS", 30),
    "notifications": ("PEOPLE", 25),
    "catalogue": ("ROUNDS", 500),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GAINS)
def test_it_learns(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    example = load(name, monkeypatch)
    monkeypatch.setattr(example, *FEWER[name])
    with served(tmp_path / "test.db") as url:
        learned, estimate = example.play(url, name, "anytime")
        by_chance, _ = example.play(url, "by chance", "uniform")
    last = len(learned) // 10
    assert np.mean(learned[-last:]) - np.mean(by_chance[-last:]) > GAINS[name]
    theta = example.WORTH if name == "catalogue" else example.THETA
    if name != "catalogue":  # one feature an arm: theta is known up to a constant
        cosine = np.dot(estimate["theta"], theta) / np.linalg.norm(theta)
        assert cosine > 0.95
    example.say(range(len(theta)), estimate)
    assert capsys.readouterr().out.startswith(f"lag profiles decide as: {estimate['form']}\n")
    example.draw(
        tmp_path / "lags.png",
        {"learned": learned},
        estimate["lag_weights"],
        example.WEIGHTS,
        time="",
        number="",
        lag="",
    )
    assert (tmp_path / "lags.png").stat().st_size > 10_000


@pytest.mark.slow
def test_clickbait_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = load("clickbait", monkeypatch)
    with served(tmp_path / "test.db") as url:
        worths, estimate, credit = example.play(url, "clickbait", "anytime")
        ordinary, *_ = example.play(url, "ordinary", "lin_ucb")
    assert np.mean(worths) > 0.45
    assert np.mean(ordinary) < 0
    assert estimate["form"] != "shared"
    profiles = np.array(estimate["lag_profiles"])
    np.testing.assert_allclose(profiles, example.PAYS, atol=0.2)
    _, clickbait = credit["items"]
    assert clickbait["first_lags"] == 1
    # little clickbait is shown, and what it loses at once comes back later
    assert clickbait["at_once"] < 0 < -clickbait["at_once"] < clickbait["later"]
    for part in ("at_once", "later"):
        low, high = clickbait["intervals"][part]
        assert low - 5 < clickbait[part] < high + 5
    assert "pays_now_costs_later" in {finding["code"] for finding in estimate["findings"]}
    example.draw(tmp_path / "clickbait.png", {"anytime": worths, "lin_ucb": ordinary}, profiles)
    assert (tmp_path / "clickbait.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_shop_sees_lift_and_the_guard_acts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = load("lift", monkeypatch)
    with served(tmp_path / "test.db") as url:
        days = example.play(url, "lift")
    before, after = days[example.BROKEN - 2], days[-1]
    assert before["lift"]["low"] > 0.1
    assert before["by"] == {"agent", "control"}
    assert before["form"] in ("shared", "sparse", "smooth")
    assert after["lift"]["high"] < 0
    assert after["by"] == {"guard"}
    guarded = [one["day"] for one in days if one["by"] == {"guard"}]
    assert example.BROKEN < guarded[0] <= example.BROKEN + 4
    example.draw(tmp_path / "lift.png", days)
    assert (tmp_path / "lift.png").stat().st_size > 10_000
