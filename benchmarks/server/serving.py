"""`lhb bench serve`: single and batched decisions against floors, a slow disk, running fits.

Variants take turns, so that other work on the machine disturbs all of them alike. Ratios are taken
within a turn, and their median is reported. CPU a request is that of the server processes.
"""

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.server.batches import BATCH, BATCHES, send_batches
from benchmarks.server.beside_fits import beside_fits
from benchmarks.server.load import DIM, N_ARMS, N_CONNECTIONS, generator
from benchmarks.server.processes import N_SESSIONS, SERVE, as_json, measure, servers

MODULE = "import runpy; runpy.run_module('benchmarks.server.{}', run_name='__main__')"


class Variant(NamedTuple):
    """The code and the number of server processes, and whether one session gets all decisions."""

    code: str = SERVE
    n_processes: int = 1
    one_session: bool = False
    database: str | None = None  # None: the one that is measured
    settings: Mapping[str, str] = MappingProxyType({})  # of the server


FLOOR_A = "floor A: FastAPI, pydantic body, no storage"
NO_STORAGE = "no storage"
DURABLE = "durable"
SLOW = "durable, sync 2 ms slower"
SINGLE = "one transaction a request, sync 2 ms slower"
# 64 wait for as many transactions: on a slow machine longer than is admitted, and all are measured
ONE_BY_ONE = {"LHB_MAX_BATCH": "1", "LHB_MAX_WAIT_SECONDS": "0"}
ON_SQLITE = {
    FLOOR_A: Variant(MODULE.format("floor")),
    NO_STORAGE: Variant(MODULE.format("no_storage"), database="sqlite:////nowhere"),
    DURABLE: Variant(),
    SLOW: Variant(MODULE.format("slow_disk")),
    SINGLE: Variant(MODULE.format("slow_disk"), settings=ONE_BY_ONE),
}
Found = list[dict[str, Any]]  # what was measured, a turn each


def run_on_sqlite(seconds: int, n_pairs: int, n_fit_pairs: int) -> dict[str, Any]:
    """Measure every variant in `n_pairs` turns on new files, then batches and fits."""
    loads: dict[str, Found] = {name: [] for name in ON_SQLITE}
    batches: dict[str, Found] = {name: [] for name in BATCHES}
    with tempfile.TemporaryDirectory() as folder:
        for i in range(n_pairs):
            for j, (name, variant) in enumerate(ON_SQLITE.items()):
                url = f"sqlite:///{Path(folder, f'{i}-{j}.db')}"
                loads[name].append(_measured(variant, url, seconds))
            url = f"sqlite:///{Path(folder, f'{i}-batch.db')}"
            with servers(1, SERVE, LHB_DATABASE_URL=url) as [(address, pid)]:
                for kind, found in batches.items():
                    found.append(send_batches(address, pid, *BATCHES[kind], seconds))
        fits = beside_fits(Path(folder), min(seconds, 4), n_fit_pairs)
    rate = "requests_per_second"
    return {
        "settings": _settings(seconds, n_pairs) | {"fit_pairs": n_fit_pairs, "batch": BATCH},
        "variants": {name: _medians(found) for name, found in loads.items()},
        "batches": {kind: _medians(found) for kind, found in batches.items()},
        "fits": fits,
        "ratios": {
            "cpu: floor A / durable": _ratio(loads[FLOOR_A], loads[DURABLE], "cpu_us"),
            "cpu: floor A / no storage": _ratio(loads[FLOOR_A], loads[NO_STORAGE], "cpu_us"),
            "throughput: durable / floor A": _ratio(loads[DURABLE], loads[FLOOR_A], rate),
            "throughput: durable / no storage": _ratio(loads[DURABLE], loads[NO_STORAGE], rate),
            "throughput at 2 ms: durable / one transaction a request": _ratio(
                loads[SLOW], loads[SINGLE], rate
            ),
            "p99: with fits / without": fits["p99_ratio"],
        },
    }


def run_on_postgres(url: str, seconds: int, n_pairs: int, n_processes: int) -> dict[str, Any]:
    """Measure one process and several on a PostgreSQL, against the handler without storage."""
    variants = {NO_STORAGE: ON_SQLITE[NO_STORAGE], "one process": Variant()}
    if n_processes > 1:
        several = f"{n_processes} processes"
        variants[several] = Variant(n_processes=n_processes)
        variants["one process, one session"] = Variant(one_session=True)
        variants[f"{several}, one session"] = Variant(n_processes=n_processes, one_session=True)
    loads: dict[str, Found] = {name: [] for name in variants}
    for _ in range(n_pairs):
        for name, variant in variants.items():
            loads[name].append(_measured(variant, url, seconds))
    return {
        "settings": _settings(seconds, n_pairs) | {"database": "postgresql"},
        "variants": {name: _medians(found) for name, found in loads.items()},
        "of_no_storage": {
            name: {
                key: _ratio(found, loads[NO_STORAGE], key)
                for key in ("requests_per_second", "cpu_us")
            }
            for name, found in loads.items()
        },
    }


def _measured(variant: Variant, url: str, seconds: int) -> dict[str, Any]:
    environment = {**variant.settings, "LHB_DATABASE_URL": variant.database or url}
    with servers(variant.n_processes, variant.code, **environment) as started:
        found = as_json(measure(started, seconds, one_session=variant.one_session))
        if variant.database is None and not url.startswith("sqlite"):
            _wait_for_sweep(url)
        return found


def _wait_for_sweep(url: str) -> None:
    """Wait until no row of deleted sessions is left, which the next servers would erase."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute("select 1 from hidden_rows limit 1").fetchone():
            time.sleep(0.1)


def _settings(seconds: int, n_pairs: int) -> dict[str, Any]:
    return {
        "connections": N_CONNECTIONS,
        "sessions": N_SESSIONS,
        "arms": N_ARMS,
        "dim": DIM,
        "seconds": seconds,
        "pairs": n_pairs,
        "load_generator": generator(),
    }


def _medians(found: Found) -> dict[str, Any]:
    return {key: median(one[key] for one in found) for key in found[0]}


def _ratio(above: Found, below: Found, key: str) -> float:
    ratios = (a[key] / b[key] for a, b in zip(above, below, strict=True))
    return round(float(median(ratios)), 3)
