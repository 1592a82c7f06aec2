"""Costs in counts, not in seconds: what must not grow."""

import numpy as np

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.lasso.group_lasso import GroupLasso
from tests.lhb_engine.dense_algebra import held


def test_no_dense_design_is_formed(monkeypatch):
    """4000 x 10 000 numbers would be 320 MB; the working set takes a few columns."""
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-1, 1, (4000, 5))
    y = np.convolve(contexts[:, 0], [0, 0, 1])[:4000] + 0.1 * rng.standard_normal(4000)
    taken = []
    blocks = LaggedDesign.blocks
    monkeypatch.setattr(
        LaggedDesign, "blocks", lambda self, lags: taken.append(len(lags)) or blocks(self, lags)
    )
    lasso = GroupLasso(LaggedDesign(contexts, 2000), y)
    for fraction in (0.5, 0.02):
        assert lasso.solve(fraction * lasso.lambda_max).converged
    assert sum(taken) * 5 * 4000 <= 4_000_000


def test_a_thousand_short_trajectories_hold_what_their_rounds_need():
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 15, 1000)
    design = LaggedDesign([rng.standard_normal((n, 3)) for n in lengths], 500)
    assert held(design) <= 4 * lengths.sum()


def test_overlap_save_is_shorter_than_one_transform():
    design = LaggedDesign(np.ones((50_000, 2)), 100)
    (bank,) = design._banks
    assert bank.n_fft <= 2000
    assert bank.n_fft * bank.spectra.shape[1] < 1.5 * 50_000
