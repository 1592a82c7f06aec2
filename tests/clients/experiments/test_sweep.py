"""Sweeps go on where they stopped, and how they are run leaves no trace in the results."""

import json
from pathlib import Path
from typing import Any

import pytest

from clients.experiments import load_experiment
from clients.experiments.framework import sweep
from clients.experiments.framework.experiment import Scale
from clients.experiments.framework.sweep import Workers, csv_path, run_sweep
from clients.experiments.framework.table import Table

TOY = Scale(seeds=2, toy=True)
ALONE = Workers(jobs=1)
NAME = "matrix_rip"


def run(folder: Path, scale: Scale = TOY, workers: Workers = ALONE, **how: bool) -> bytes:
    run_sweep(load_experiment(NAME), scale, folder, workers, **how)
    return csv_path(folder, NAME, scale).read_bytes()


class Spy:
    """Stands before `run_case`: notes the cases, and stops at one of them."""

    def __init__(self, original: Any) -> None:
        self.original = original
        self.cases: list[dict[str, Any]] = []
        self.stop_at = -1

    def __call__(self, name: str, case: dict[str, Any], *rest: Any) -> Any:
        self.cases.append(case)
        if len(self.cases) == self.stop_at:
            raise KeyboardInterrupt
        return self.original(name, case, *rest)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    spy = Spy(sweep.run_case)
    monkeypatch.setattr(sweep, "run_case", spy)
    return spy


def test_a_stopped_sweep_goes_on_where_it_was(tmp_path: Path, spy: Spy) -> None:
    whole = run(tmp_path / "whole")
    n_cases = len(spy.cases)
    spy.cases.clear()
    spy.stop_at = 5
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "stopped")
    assert not csv_path(tmp_path / "stopped", NAME, TOY).exists()
    spy.stop_at = -1
    spy.cases.clear()
    assert run(tmp_path / "stopped") == whole
    assert len(spy.cases) == n_cases - 4
    spy.cases.clear()
    assert run(tmp_path / "stopped") == whole
    assert spy.cases == []


def test_more_seeds_run_only_the_new_ones(tmp_path: Path, spy: Spy) -> None:
    run(tmp_path, Scale(seeds=1, toy=True))
    spy.cases.clear()
    run(tmp_path)
    assert {case["seed"] for case in spy.cases} == {1}


def test_a_torn_line_costs_its_case_only(tmp_path: Path, spy: Spy) -> None:
    whole = run(tmp_path)
    ledger = csv_path(tmp_path, NAME, TOY).with_suffix(".cases.ndjson")
    ledger.write_text(ledger.read_text()[:-9])
    spy.cases.clear()
    assert run(tmp_path) == whole
    assert len(spy.cases) == 1


def test_results_of_other_code_do_not_count(
    tmp_path: Path, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path)
    n_cases = len(spy.cases)
    monkeypatch.setattr(sweep, "code_digest", lambda name: "another")
    run(tmp_path)
    assert len(spy.cases) == 2 * n_cases
    run(tmp_path, fresh=True)
    assert len(spy.cases) == 3 * n_cases


def test_words_about_code_are_no_part_of_its_digest() -> None:
    code = '"""A module."""\n\ndef f(x):\n    """Add one."""\n    return x + 1  # one more\n'
    same = "def f(x):\n\n    return (x + 1)\n"
    assert sweep.code_of(code) == sweep.code_of(same)
    others = [same.replace("1", "2"), same.replace("+", "-"), same + "\ng = f\n"]
    others.append(same.replace("return", "'a value'\n    return"))  # a docstring: the same
    assert [sweep.code_of(other) == sweep.code_of(code) for other in others] == [
        False, False, False, True
    ]  # fmt: skip
    assert sweep.code_of(same + "def draw(table):\n    return 0\n") == sweep.code_of(code)
    assert sweep.code_of("x = 'said'\n'said'\n") != sweep.code_of("x = 'other'\n'said'\n")


@pytest.mark.slow
def test_jobs_leave_no_trace(tmp_path: Path) -> None:
    name = "unknown_delay"  # plays and fits
    for jobs in (1, 2):
        run_sweep(load_experiment(name), TOY, tmp_path / str(jobs), Workers(jobs=jobs))
    one, two = (csv_path(tmp_path / str(jobs), name, TOY).read_bytes() for jobs in (1, 2))
    assert one == two


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_csv(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    alone = run(tmp_path / "alone")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        workers = Workers(backend="dask", scheduler=cluster.scheduler_address)
        assert run(tmp_path / "dask", workers=workers) == alone


def test_a_run_says_what_it_was(tmp_path: Path) -> None:
    run(tmp_path)
    about = json.loads(csv_path(tmp_path, NAME, TOY).with_suffix(".json").read_text())
    assert about["experiment"] == NAME
    assert about["seeds"] == [0, 1]
    assert about["scale"] == {"seeds": 2, "noise": 0.1, "arms": 10, "toy": True}
    assert about["commit"]
    assert about["identity"]["libraries"]["numpy"]


def test_a_table_survives_its_csv(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": 0.1 + 0.2, "c": "x, y"}, {"a": 2, "b": 1e-300, "c": "z"}]
    Table(rows).write(tmp_path / "t.csv")
    assert list(Table.read(tmp_path / "t.csv")) == rows
