"""Run the cases of an experiment in parallel, resumably.

Finished cases are appended to `NAME.cases.ndjson` (the ledger). A sweep that was stopped, or that
has more seeds than before, runs only the missing cases. The CSV is in the order of the cases, so it
does not depend on the number of jobs, the backend or the order of finishing.
"""

import ast
import hashlib
import json
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib

from clients.experiments.framework.experiment import (
    Case,
    Experiment,
    Scale,
    run_case,
    settings_of,
)
from clients.experiments.framework.table import Row, Table

ROOT = Path(__file__).resolve().parents[3]
READERS = ("draw", "measure", "details")  # functions that read tables alone
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LIBRARIES = ("numpy", "scipy", "joblib", "long-horizon-bandits")


@dataclass(frozen=True)
class Workers:
    """Where cases run.

    Attributes
    ----------
    jobs : int
        Number of processes; -1 for all cores.
    backend : str
        "loky" (processes of this machine) or "dask" (an existing cluster).
    scheduler : str or None
        Address of the cluster, tcp://host:port.
    url : str or None
        A running server to play against; None plays in process.
    """

    jobs: int = -1
    backend: str = "loky"
    scheduler: str | None = None
    url: str | None = None


@dataclass(frozen=True)
class Done:
    """One finished case, and the processor time that it took here."""

    rows: list[Row]
    cpu_seconds: float


def csv_path(folder: Path, name: str, scale: Scale) -> Path:
    """Return the path of an experiment's CSV."""
    return folder / f"{name}{scale.suffix}.csv"


def run_sweep(
    experiment: Experiment,
    scale: Scale,
    folder: Path,
    workers: Workers,
    on_case: Callable[[int, int], None] = lambda done, total: None,
    *,
    fresh: bool = False,
) -> Table:
    """Run the missing cases, write NAME.csv and NAME.json, and return the rows.

    Parameters
    ----------
    on_case : callable
        Called with the number of cases done and their total, at the start and after each case.
    fresh : bool
        Run all cases again, those in the ledger included.
    """
    path = csv_path(folder, experiment.name, scale)
    folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(
        path.with_suffix(".cases.ndjson"), identity(experiment.name, scale, workers), fresh=fresh
    )
    cases = experiment.cases(scale)
    missing = [case for case in cases if case_key(case) not in ledger.done]
    n_before = len(cases) - len(missing)
    on_case(n_before, len(cases))
    started = time.perf_counter()
    for i, (case, done) in enumerate(_run(experiment, scale, workers, missing), 1):
        ledger.add(case, done)
        on_case(n_before + i, len(cases))
    finished = [ledger.done[case_key(case)] for case in cases]
    table = Table(row for done in finished for row in done.rows)
    table.write(path)
    about = settings_of(experiment, scale) | {
        "commit": commit(),
        "identity": ledger.identity,
        "n_cases": len(cases),
        "seeds": sorted({case["seed"] for case in cases}),
        "cpu_seconds": sum(done.cpu_seconds for done in finished),
        "wall_seconds": time.perf_counter() - started,
        "n_run_now": len(missing),
    }
    path.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return table


def _run(
    experiment: Experiment, scale: Scale, workers: Workers, cases: list[Case]
) -> Iterator[tuple[Case, Done]]:
    """Yield the cases as they finish, in any order."""
    if not cases:
        return
    with _backend(workers):
        parallel = joblib.Parallel(n_jobs=workers.jobs, return_as="generator_unordered")
        yield from parallel(
            joblib.delayed(_timed)(experiment.name, case, scale, workers.url) for case in cases
        )


def _timed(name: str, case: Case, scale: Scale, url: str | None) -> tuple[Case, Done]:
    started = time.process_time()
    rows = run_case(name, case, scale, url)
    return case, Done(rows, time.process_time() - started)


@contextmanager
def _backend(workers: Workers) -> Iterator[None]:
    if workers.backend == "dask":
        from distributed import Client

        with (
            Client(workers.scheduler, set_as_default=True),  # type: ignore[no-untyped-call]
            joblib.parallel_config(backend="dask"),
        ):
            yield
    else:
        # one BLAS thread a worker: equal bits on all machines, and no more threads than cores
        with (
            joblib.parallel_config(backend="loky", inner_max_num_threads=1)
            if workers.jobs != 1
            else nullcontext()
        ):
            yield


class Ledger:
    """The finished cases on disk: a line with the `identity`, then a JSON object a line."""

    def __init__(self, path: Path, identity: dict[str, Any], *, fresh: bool = False) -> None:
        self.path = path
        self.identity = identity
        self.done: dict[str, Done] = {}
        if fresh or not self._read():
            self.done = {}
            path.write_text(json.dumps(identity) + "\n", encoding="utf-8")

    def add(self, case: Case, done: Done) -> None:
        """Append one finished case."""
        self.done[case_key(case)] = done
        line = {"case": case_key(case), "rows": done.rows, "cpu_seconds": done.cpu_seconds}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _read(self) -> bool:
        """Read the ledger unless its identity differs; return whether it was read."""
        if not self.path.exists():
            return False
        lines = self.path.read_text(encoding="utf-8").split("\n")
        if lines[0] != json.dumps(self.identity):
            return False
        whole = lines[1:-1]
        for line in whole:
            item = json.loads(line)
            self.done[item["case"]] = Done(item["rows"], item["cpu_seconds"])
        if lines[-1]:  # the last line was not completed
            self.path.write_text("\n".join([*lines[:-1], ""]), encoding="utf-8")
        return True


def case_key(case: Case) -> str:
    """Return a case's key in the ledger."""
    return json.dumps(case, sort_keys=True)


def identity(experiment: str, scale: Scale, workers: Workers) -> dict[str, Any]:
    """Return what must match to reuse finished cases: code, libraries, worlds, transport."""
    return {
        "code": code_digest(experiment),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "noise": scale.noise,
        "arms": scale.arms,
        "toy": scale.toy,
        "transport": "in process" if workers.url is None else "http",
    }


def commit() -> str:
    """Return the commit of the code, or "unknown" outside a clone."""
    run = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return run.stdout.strip() or "unknown"


def code_digest(experiment: str) -> str:
    """Return a digest of the code that the numbers depend on, uncommitted changes included."""
    here = ROOT / "clients" / "experiments"
    shared = ("framework/regret_runs", "framework/worlds", "recovery_methods")
    sources = [ROOT / "clients" / "simulator.py", *(ROOT / "lhb_engine").rglob("*.py")]
    sources += [here / f"{name}.py" for name in (experiment, *shared)]
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(code_of(source.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:16]


@cache
def code_of(source: str) -> str:
    """Return what a module computes as text: its syntax tree without docstrings and readers."""
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if getattr(node, "name", "") not in READERS]
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)
