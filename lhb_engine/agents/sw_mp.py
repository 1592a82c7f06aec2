"""SW-MP: single-weight matching pursuit, docs/model.md (6.2)."""

import numpy as np

from lhb_engine.agents.epoch_agent import EpochOptions, OnEpochs
from lhb_engine.design.fit_rows import FitRows
from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats

CHUNK_NUMBERS = 2**20  # numbers of dense columns held at a time


class SWMP(OnEpochs):
    """Least squares on the one lag that matches the rewards best, by docs/model.md (6.2).

    The effects of all other lags are noise to it.
    """

    name = "sw_mp"
    summary = "Single-weight matching pursuit: finds the largest lag, ignores the others."
    options_type = EpochOptions

    def found(self, rows: FitRows) -> Estimate:
        """Return the best-matching lag, and the direction that least squares on it gives."""
        weights = np.zeros(rows.design.n_lags)
        scores = matching_scores(rows.design, rows.y)
        lag = int(scores.argmax())
        if scores[lag] == 0.0:
            return Estimate("zero", weights, message="No lag matches the rewards.")
        block = rows.design.blocks(np.array([lag]))[:, 0]
        solution = np.linalg.lstsq(block, rows.y)[0]
        length = float(np.linalg.norm(solution))
        weights[lag] = length
        return Estimate("ok", weights, theta=np.asarray(solution / length), active_lags=(lag,))


def matching_scores(design: LaggedDesign, y: Floats) -> Floats:
    """Return |y' Xi^k| / |Xi^k|_op of docs/model.md (6.2) for every lag, (n_lags,)."""
    along = np.linalg.norm(design.rmatvec(y), axis=1)
    norms = np.zeros(design.n_lags)
    chunk = max(1, CHUNK_NUMBERS // (design.n_rows * design.dim))
    for start in range(0, design.n_lags, chunk):
        lags = np.arange(start, min(start + chunk, design.n_lags))
        blocks = design.blocks(lags).transpose(1, 0, 2)
        gram = blocks.transpose(0, 2, 1) @ blocks
        norms[lags] = np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[:, -1], 0.0))
    out = np.zeros(design.n_lags)
    np.divide(along, norms, out=out, where=norms > 0)
    return out
