"""`lhb bench serve --database`: decisions on PostgreSQL against the same handler without storage.

Variants take turns, as in `serving.py`.
"""

import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from clients.bench.server.load import DIM, N_ARMS, N_CONNECTIONS, generator
from clients.bench.server.processes import (
    N_SESSIONS,
    SERVE,
    LoadResult,
    as_json,
    measure,
    servers,
)

FORGET = "import runpy; runpy.run_module('clients.bench.server.no_storage', run_name='__main__')"


def run(database: str | None, seconds: int, n_pairs: int, n_processes: int) -> dict[str, Any]:
    """Measure every variant in `n_pairs` turns, and the ratios within each turn."""
    variants: dict[str, tuple[int, bool]] = {"one process": (1, False)}
    if database is not None and n_processes > 1:
        variants[f"{n_processes} processes"] = (n_processes, False)
        variants["one process, one session"] = (1, True)
        variants[f"{n_processes} processes, one session"] = (n_processes, True)
    loads: dict[str, list[LoadResult]] = {"no storage": [], **{name: [] for name in variants}}
    with tempfile.TemporaryDirectory() as folder:
        url = database or f"sqlite:///{Path(folder, 'bench.db')}"
        for _ in range(n_pairs):
            with servers(1, FORGET, LHB_DATABASE_URL="sqlite:////nowhere") as started:
                loads["no storage"].append(measure(started, seconds))
            for name, (n, one_session) in variants.items():
                with servers(n, SERVE, LHB_DATABASE_URL=url) as started:
                    loads[name].append(measure(started, seconds, one_session=one_session))
    floor = loads["no storage"]
    return {
        "settings": {
            "database": url.partition(":")[0],
            "connections": N_CONNECTIONS,
            "sessions": N_SESSIONS,
            "arms": N_ARMS,
            "dim": DIM,
            "seconds": seconds,
            "pairs": n_pairs,
            "load_generator": generator(),
        },
        "variants": {
            name: {key: median(as_json(load)[key] for load in found) for key in as_json(found[0])}
            for name, found in loads.items()
        },
        "throughput_of_no_storage": {
            name: _ratio(
                [load.requests_per_second for load in loads[name]],
                [f.requests_per_second for f in floor],
            )
            for name in variants
        },
        "cpu_of_no_storage": {
            name: _ratio([load.cpu_us for load in loads[name]], [f.cpu_us for f in floor])
            for name in variants
        },
    }


def _ratio(ours: list[float], floor: list[float]) -> float:
    return round(median(a / b for a, b in zip(ours, floor, strict=True)), 3)
