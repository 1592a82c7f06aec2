"""docs/results.md follows from the records in docs/results, which are replaced one by one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clients.experiments import load_experiment
from clients.experiments.framework.claims import (
    PATH,
    Outcome,
    Rule,
    Rulebook,
    Verdict,
    load_rulebook,
)
from clients.experiments.framework.experiment import Scale
from clients.experiments.framework.intervals import (
    MeanError,
    SeedMean,
    Share,
    Stated,
    from_json,
    to_json,
)
from clients.experiments.framework.record import Measured, Record, record_path
from clients.experiments.framework.report import write_report
from clients.experiments.framework.sweep import Workers, csv_path, run_sweep
from clients.experiments.framework.table import Table

DOCS = PATH.parent
TOY = Scale(seeds=2, toy=True)
RULE = Rule("x.y", "says", "place", "statistic", ("a",), "below", target=1.0, factor=0.9, seeds=3)
RECORD = Record(
    "x",
    "told",
    (0, 2, 3),
    6,
    1.5,
    "abc",
    {"code": "c", "libraries": {"numpy": "2"}, "transport": "in process"},
    (Measured("x.y", "", "statistic", 0.9, 3, {"a": MeanError(0.5, 0.01, 3)}),),
    "| a |\n|-|\n| b |\n",
)
BOOK = Rulebook((RULE,), ())


def run(name: str, folder: Path, scale: Scale = TOY) -> None:
    run_sweep(load_experiment(name), scale, folder, Workers(jobs=1))


def test_the_committed_report_is_what_the_committed_records_give(tmp_path: Path) -> None:
    target = tmp_path / "results.md"
    target.with_suffix("").symlink_to(DOCS / "results")
    write_report(tmp_path / "no runs", target, Scale())
    assert target.read_text() == (DOCS / "results.md").read_text()


def test_records_stay_small() -> None:
    sizes = [path.stat().st_size for path in (DOCS / "results").iterdir()]
    assert len(sizes) >= 18
    assert sum(sizes) < 500_000


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    RECORD.write(tmp_path / "deep" / "x.json")
    assert Record.read(tmp_path / "deep" / "x.json") == RECORD


@pytest.mark.parametrize("level", [0.9, 0.99])
@pytest.mark.parametrize(
    "measured",
    [
        SeedMean(np.array([0.1, 0.3, 0.35])),
        SeedMean(np.array([0.1])),
        Share(3, 40, expected=0.1),
    ],
)
def test_a_stored_statistic_has_the_same_interval(measured: SeedMean | Share, level: float) -> None:
    assert from_json(to_json(measured)).interval(level) == measured.interval(level)


def test_a_stated_interval_is_of_its_level_alone() -> None:
    stated = from_json(to_json(Stated(0.5, 0.4, 0.6, 0.95)))
    assert stated.interval(0.95) == (0.5, 0.4, 0.6)
    with pytest.raises(ValueError, match="run it again"):
        stated.interval(0.99)


def test_a_record_is_judged_by_the_rule_it_was_measured_for() -> None:
    assert [v.outcome for v in RECORD.verdicts(BOOK)] == [Outcome.HOLDS]
    moved = replace(RULE, target=0.5)  # a rule of the same statistic judges the record anew
    assert [v.outcome for v in RECORD.verdicts(Rulebook((moved,), ()))] == [Outcome.UNDECIDED]
    others = [
        replace(RULE, factor=1.0),
        replace(RULE, statistic="another"),
        replace(RULE, id="x.z"),
    ]
    others.append(replace(RULE, agent="another"))
    for other in others:
        (verdict,) = RECORD.verdicts(Rulebook((other,), ()))
        assert verdict.outcome is Outcome.NOT_JUDGED


def test_the_fewest_seeds_of_a_claims_settings_count(tmp_path: Path) -> None:
    experiment = load_experiment("delay")
    few = {"a": SeedMean(np.zeros(5)), "b": SeedMean(np.arange(2.0))}
    odd = replace(experiment, measure=lambda table, rule: few)
    run("delay", tmp_path)

    table = Table.read(csv_path(tmp_path, "delay", TOY))
    verdicts: list[Verdict] = odd.judge(table, load_rulebook())
    assert {v.seeds for v in verdicts} == {2}


@pytest.mark.slow
def test_one_experiment_is_run_again_alone(tmp_path: Path) -> None:
    target = tmp_path / "docs" / "results.md"
    for name in ("delay", "matrix_rip"):
        run(name, tmp_path / "first")
    write_report(tmp_path / "first", target, TOY)
    kept = record_path(target, "matrix_rip", TOY).read_text()
    before = target.read_text()
    more = replace(TOY, seeds=3)
    run("delay", tmp_path / "second", more)
    write_report(tmp_path / "second", target, more)
    assert record_path(target, "matrix_rip", TOY).read_text() == kept
    assert Record.read(record_path(target, "delay", TOY)).seeds == (0, 2, 3)

    def section(text: str, name: str) -> str:
        return text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]

    now = target.read_text()
    assert section(now, "matrix_rip") == section(before, "matrix_rip") != ""
    assert section(now, "delay") != section(before, "delay")


@pytest.mark.slow
def test_fewer_seeds_do_not_replace_a_record(tmp_path: Path) -> None:
    target = tmp_path / "docs" / "results.md"
    run("delay", tmp_path / "two")
    write_report(tmp_path / "two", target, TOY)
    figure = target.parent / "figures" / "delay.png"
    kept = record_path(target, "delay", TOY).read_text(), figure.read_bytes()
    run("delay", tmp_path / "one", replace(TOY, seeds=1))
    warnings = write_report(tmp_path / "one", target, TOY)
    assert any("1 seeds" in w and "has 2: not taken up" in w for w in warnings)
    assert (record_path(target, "delay", TOY).read_text(), figure.read_bytes()) == kept
