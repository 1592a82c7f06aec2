"""A fit gives the same bits in another process: what replay rests on."""

import subprocess
import sys

import pytest

FIT = """
import hashlib, json
import numpy as np
from lhb_engine.lasso.fit import BlockLasso
from lhb_engine.history import FitWindow
from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.design.fit_rows import FitRows

pad = [np.empty(k) for k in range({shift}, 200, 7)]  # other addresses, other alignments
out = []
for dim, n_lags, n, size in (
    (1, 5, 40, 40),
    (5, 100, 100, 100),
    (5, 100, 800, 800),
    (10, 300, 900, 900),
    (10, 40, 3000, 3000),  # many segments
    (3, 20, 900, 9),  # many short trajectories
):
    rng = np.random.default_rng(dim)
    contexts = rng.uniform(-1, 1, (n, dim))
    y = np.convolve(contexts.sum(axis=1), [0, 0.2, 0, 0.1])[:n] + 0.1 * rng.standard_normal(n)
    if {shift}:
        contexts = np.asfortranarray(contexts)
    window = FitWindow(1, 1, n, n_lags, n)
    parts = [contexts[i : i + size] for i in range(0, n, size)]
    rows = FitRows(LaggedDesign(parts, n_lags), y, "full", 0)
    out.append(BlockLasso(None, True, standard_errors=True).estimate(rows, window).to_json())
print(hashlib.sha256(json.dumps(out).encode()).hexdigest())
"""


@pytest.mark.parametrize("threads", ["1"])
def test_the_same_fit_in_three_processes(threads):
    environment = {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
    digests = {
        subprocess.run(
            [sys.executable, "-c", FIT.format(shift=shift)],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        ).stdout
        for shift in (0, 1, 3)
    }
    assert len(digests) == 1
