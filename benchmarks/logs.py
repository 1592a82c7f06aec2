"""What the moments of a log of many files cost: read here, and by clusters of processes."""

import tempfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from clients.large_logs import log_moments

USER_ROUNDS = 1000  # of each trajectory
WEIGHTS = {0: 0.6, 3: 0.4}  # by lag


def run(
    horizon: int,
    dim: int,
    n_rows: int,
    n_files: int,
    workers: Sequence[int],
    on_time: Callable[[dict[str, Any]], None] = lambda found: None,
) -> list[dict[str, Any]]:
    """Time `log_moments` of a log that is drawn for it.

    Parameters
    ----------
    horizon, dim : int
    n_rows, n_files : int
        Files are cut inside trajectories.
    workers : sequence of int
        Numbers of processes; 0 reads the files here. A cluster has started, and has read the log
        once, before its time begins.
    on_time : callable
        Called with each time as soon as it is known.

    Returns
    -------
    list of dict
        `workers`, `seconds`, `rows_per_second`, and `difference`: the largest one of the sums, over
        their largest entry, to the first of the list.
    """
    from distributed import Client, LocalCluster

    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), dim, n_rows, n_files)
        first = None
        for n in workers:
            if n == 0:
                seconds, sums = _timed(folder, horizon, None)
            else:
                with (
                    LocalCluster(  # type: ignore[no-untyped-call]
                        n_workers=n, threads_per_worker=1, processes=True, dashboard_address=None
                    ) as cluster,
                    Client(cluster) as client,  # type: ignore[no-untyped-call]
                ):
                    log_moments(folder, horizon, client)
                    seconds, sums = _timed(folder, horizon, client)
            first = sums if first is None else first
            apart = float(np.abs(sums - first).max() / np.abs(first).max())
            rate = round(n_rows / seconds)
            row = {"workers": n, "seconds": seconds, "rows_per_second": rate, "difference": apart}
            found.append(row)
            on_time(row)
    return found


def _timed(folder: str, horizon: int, client: Any) -> tuple[float, Any]:
    began = perf_counter()
    sums = log_moments(folder, horizon, client).sums
    return perf_counter() - began, sums


def _write(folder: Path, dim: int, n_rows: int, n_files: int) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    edges = np.linspace(0, n_rows, n_files + 1).astype(int)
    for i, (start, stop) in enumerate(pairwise(edges.tolist())):
        contexts = rng.uniform(-1.0, 1.0, (stop - start, dim))
        rewards = 0.1 * rng.standard_normal(len(contexts))
        for lag, weight in WEIGHTS.items():
            rewards[lag:] += weight * contexts[: len(contexts) - lag, 0]
        columns = {
            "trajectory": pa.array((np.arange(start, stop) // USER_ROUNDS).astype(str)),
            "context": pa.FixedSizeListArray.from_arrays(pa.array(contexts.ravel()), dim),
            "reward": pa.array(rewards),
        }
        parquet.write_table(pa.table(columns), folder / f"{i:05}.parquet")
