"""Every experiment runs at toy size; its figure and its verdicts need the CSV alone."""

import fcntl
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from clients.cli.main import app
from clients.experiments import EXPERIMENTS, load_experiment, sensitivity
from clients.experiments.framework.claims import Outcome, Rule, load_rulebook
from clients.experiments.framework.experiment import Scale, run_case
from clients.experiments.framework.figure import caption
from clients.experiments.framework.regret_results import compare
from clients.experiments.framework.regret_runs import Contender, play
from clients.experiments.framework.report import spent
from clients.experiments.framework.sweep import Workers, csv_path, run_sweep
from clients.experiments.framework.table import Table, mean_of
from clients.simulator import SimulationSettings, play_in_process
from tests.examples import repeats
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401

TOY = Scale(seeds=2, toy=True)
FEW = ("recovery", "rip", "delay")  # the others repeat what three show
EACH = [*FEW, *repeats(*(name for name in EXPERIMENTS if name not in FEW))]
CURVES = ("growth", "two_regrets")  # a case has several rows that count
COLUMNS = ("lower", "upper", "sine", "error", "kappa", "cone", "of_bound", "identity", "per_sum",
           "deviation", "gap", "summed", "mass", "n_ok", "n_zero")  # fmt: skip


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where experiments are run, each once for all of pytest's processes."""
    mine = tmp_path_factory.getbasetemp()
    folder = (mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine) / "reproduce"
    folder.mkdir(exist_ok=True)
    return folder


def run_once(folder: Path, name: str) -> Path:
    """The CSV of an experiment, which another process may be running."""
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run_sweep(load_experiment(name), TOY, folder, Workers(jobs=1))
    return csv_path(folder, name, TOY)


@pytest.mark.parametrize("name", EACH)
def test_it_runs_and_judges(name: str, results: Path) -> None:
    experiment = load_experiment(name)
    assert experiment.name == name
    table = Table.read(run_once(results, name))
    cases = experiment.cases(TOY)
    assert len({str(case) for case in cases}) == len(cases)
    assert len({case["seed"] for case in cases}) == 2
    assert len(table) >= len(cases)
    verdicts = experiment.judge(table, load_rulebook())
    assert bool(verdicts) == (name != "tuning")
    assert all(verdict.outcome is Outcome.NOT_JUDGED for verdict in verdicts)  # two seeds


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "tuning"])
def test_the_settings_of_every_rule_can_be_measured(name: str) -> None:
    """A table of the full size's cases, with made-up rows, gives each setting a statistic."""
    experiment = load_experiment(name)
    rng = np.random.default_rng(0)
    made_up = {c: rng.uniform(0.1, 1) for c in COLUMNS}
    rows = []
    for case in experiment.cases(Scale(seeds=2)):
        for t in (1, 250, 1000, 5000):
            row = made_up | {
                "n": 10,
                "n_above": 5,
                "rows": 100,
                "round": t,
                "regret": t + rng.random(),
            }
            rows.append(row | {"h": 7, "d": 3} | case)
    if name == "rip":  # the size is a column of its own there
        rows = [row | {row["varied"]: row["value"]} for row in rows]
    one_a_seed = name not in CURVES
    table = Table(row for row in rows if not one_a_seed or row["round"] == 5000)
    for rule in load_rulebook().of(name):
        assert set(experiment.measure(table, rule)) == set(rule.settings), rule.id


@pytest.mark.parametrize("name", EACH)
def test_a_case_is_a_function_of_itself(name: str, results: Path) -> None:
    """The last case run alone gives the rows that the sweep wrote."""
    case = load_experiment(name).cases(TOY)[-1]
    rows = run_case(name, case, TOY, None)
    written = list(Table.read(run_once(results, name)))[-len(rows) :]
    assert written == rows


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clients.experiments.framework.experiment.run_case", None)
    monkeypatch.setattr("lhb_engine.simulation.play.simulate", None)


@pytest.mark.usefixtures("nothing_runs")
def test_a_figure_is_drawn_from_the_csv_alone(results: Path, tmp_path: Path) -> None:
    name = FEW[-1]
    source = run_once(results, name)
    copy = csv_path(tmp_path, name, TOY)
    copy.write_bytes(source.read_bytes())  # no ledger, no JSON beside it
    options = ["--toy", "--seeds", "2", "--out", str(tmp_path)]
    answer = CliRunner().invoke(app, ["reproduce", "plot", name, *options])
    assert answer.exit_code == 0, answer.output
    assert copy.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_plotting_what_was_not_run_says_so(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["reproduce", "plot", "delay", "--out", str(tmp_path)])
    assert answer.exit_code == 2
    assert "lhb reproduce delay" in " ".join(answer.output.replace("│", " ").split())


@pytest.mark.slow
def test_the_report_has_a_section_a_figure_and_a_verdict_for_each(
    results: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    page = tmp_path / "docs" / "results.md"
    for name in EXPERIMENTS:
        run_once(results, name)
    request.getfixturevalue("nothing_runs")  # figures are drawn from the CSV alone
    options = ["--toy", "--seeds", "2", "--out", str(results), "--docs", str(page)]
    answer = CliRunner().invoke(app, ["reproduce", "report", *options])
    assert answer.exit_code == 0, answer.output
    text = page.read_text()
    for name in EXPERIMENTS:
        assert f"\n## {name}\n" in text
        assert (page.parent / "figures" / f"{name}.png").exists()
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        for rule in load_rulebook().of(name):
            says = rule.says.replace("|", "\\|")
            assert f"\n- {says}" in section
            assert not rule.agent or f" {rule.agent} **" in section
    for item in load_rulebook().items:
        assert (item.what if item.claims else item.place).replace("|", "\\|") in text
    # nothing is judged on two seeds: no verdict may be printed
    assert not re.search(r"\*\*(holds|does not hold|undecided)", text)


@pytest.mark.slow
def test_sensitivity_runs_other_noise_and_other_k_and_is_reported(tmp_path: Path) -> None:
    options = ["--toy", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path)]
    answer = CliRunner().invoke(app, ["reproduce", "delay", "--sensitivity", *options])
    assert answer.exit_code == 0, answer.output
    names = {path.name for path in tmp_path.glob("*.csv")}
    others = ["noise0.05", "noise0.5", "noise1", "arms3", "arms30"]
    assert names == {"delay-toy.csv", *(f"delay-{other}-toy.csv" for other in others)}
    texts = [(tmp_path / name).read_text() for name in names]
    assert len(set(texts)) == len(texts)  # other worlds, other regret
    about = [json.loads((tmp_path / name).with_suffix(".json").read_text()) for name in names]
    assert all(each["cpu_seconds"] > 0 for each in about)
    assert f"in all: {spent(sum(each['cpu_seconds'] for each in about))}" in answer.output
    page = tmp_path / "results.md"
    answer = CliRunner().invoke(app, ["reproduce", "report", *options, "--docs", str(page)])
    assert "warning: no results of recovery" in answer.output
    assert "| noise 0.5, K=10 |" in page.read_text()


@pytest.mark.slow
def test_over_http_gives_the_same_csv(url: str, results: Path, tmp_path: Path) -> None:
    for name in ("delay", "unknown_delay"):
        experiment = load_experiment(name)
        path = run_once(results, name)
        run_sweep(experiment, TOY, tmp_path, Workers(jobs=1, url=url))
        assert csv_path(tmp_path, name, TOY).read_bytes() == path.read_bytes()


def test_contenders_of_a_case_meet_the_same_world() -> None:
    settings = SimulationSettings(algorithms=(), rounds=60, horizon=12, dim=3, arms=4, sparsity=2)
    rows = [
        play(Contender(name), settings, 7, play_in_process, [60]) for name in ("uniform", "lin_ucb")
    ]
    assert rows[0][0]["regret"] != rows[1][0]["regret"]
    told = Contender("sa_gd", lambda world: {"s": world.sparsity}).told(settings)
    assert told == {"s": 2}
    assert replace(settings, sparsity=3).world(7).theta.tolist() == settings.world(7).theta.tolist()


def rows_of(values: dict[str, list[float]]) -> Table:
    return Table(
        {"panel": "p", "label": label, "seed": seed, "round": 10, "regret": value}
        for label, column in values.items()
        for seed, value in enumerate(column)
    )


RULE = Rule("x.y", "", "", "", ("p / worse", "p / better"), "below", agent="ad_lasso", seeds=20)


def test_differences_are_paired() -> None:
    # the luck of a world is a thousand times the difference between the agents
    rng = np.random.default_rng(0)
    luck = 1000 * rng.standard_normal(20)
    noise = 0.1 * rng.standard_normal(20)
    table = rows_of({"ad_lasso": luck.tolist(), "worse": (luck + 1 + noise).tolist()})
    found = compare(table, RULE)["p / worse"].interval(0.95)
    assert found.value == pytest.approx(-1, abs=0.1)
    assert found.high - found.low < 0.2
    assert mean_of(table.where(label="ad_lasso").column("regret")).error > 100


def test_a_factor_is_a_margin_in_shares_of_the_rivals_regret() -> None:
    table = rows_of({"ad_lasso": [10.0, 12.0], "worse": [20.0, 22.0]})
    found = compare(table, replace(RULE, factor=0.5))
    assert found["p / worse"].values.tolist() == [0.0, 1.0]
    assert "p / better" not in found


def test_a_caption_says_the_settings_the_arms_and_the_noise() -> None:
    delay, scale = load_experiment("delay"), Scale(seeds=2, noise=0.5, arms=3)
    played = Table([{"regret": 1.0, "seed": 0}, {"regret": 2.0, "seed": 1}])
    told = caption(delay, played, scale)
    assert told.startswith(delay.choices)
    assert told.endswith(f"; K=3; noise sd 0.5. 2 seeds; {delay.bands}.")
    assert "K=" not in caption(load_experiment("rip"), Table([{"lower": 1.0, "seed": 0}]), scale)


@pytest.mark.parametrize(
    ("change", "arms", "noise", "options"),
    [
        ("noise 0.5", 10, 0.5, {"reg": "theory", "c": 0.003}),
        ("arms 30", 30, 0.1, {"reg": "theory", "c": 0.003}),
        ("c 0.01", 10, 0.1, {"reg": "theory", "c": 0.01}),
        ("L 16", 10, 0.1, {"reg": "theory", "c": 0.003, "L": 16}),
    ],
)
def test_sensitivity_changes_one_setting(
    change: str, arms: int, noise: float, options: dict[str, object]
) -> None:
    case = {"panel": f"flat s=15, {change}", "label": sensitivity.PAPER, "seed": 0}
    world, agent = sensitivity.setting_of(case, Scale())
    assert (world.sparsity, world.arms, world.noise) == (15, arms, noise)
    assert agent.told(world) == options
