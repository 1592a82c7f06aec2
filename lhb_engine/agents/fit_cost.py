"""What a fit costs, estimated from its sizes alone before it is made."""

from dataclasses import dataclass
from math import log2

FLOPS = 2e10  # of one slow core, in products of matrices
POINTS = 1e8  # that a slow core transforms and adds up in a second
WORD = 8.0 / 2**20  # MB of a number


@dataclass(frozen=True)
class FitCost:
    """CPU seconds on a slow core, about, and the most MB of memory beyond the process's own."""

    seconds: float
    megabytes: float


def posterior_cost(dim: int, n_lags: int, n_rounds: int) -> FitCost:
    """Return the cost of a fit of `anytime`: 16 sweeps of 8 to 32 chains in the contexts' span."""
    rank = min(dim, n_rounds)
    n_chains = min(32.0, max(8.0, 2000.0 / n_rounds))
    length = n_rounds + n_lags
    algebra = 2.0 * rank**2 * (n_rounds + rank)
    transforms = rank * length * log2(length + 1)
    spans = 4.0 * rank**2 * dim + 20.0 * n_chains * rank * dim if rank < dim else 0.0
    seconds = 0.1 + 16 * n_chains * (algebra / FLOPS + transforms / POINTS) + spans / FLOPS
    contexts = 7.0 * n_rounds * dim
    draws = (3.0 * 8.0 + 5.0) * n_chains * (dim + n_lags)
    filtered = min(n_chains * rank * length, max(2.0**20, float(rank * length)))
    columns = min(2.0**20, n_chains * n_lags * n_rounds)
    chains = 4.0 * filtered + 2.0 * columns + 4.0 * rank**2 + 8.0 * n_chains * length
    return FitCost(seconds, 10.0 + WORD * (contexts + draws + chains))


def lasso_cost(dim: int, n_lags: int, n_rounds: int) -> FitCost:
    """Return the cost of a fit by the block lasso; the parameters are those of `posterior_cost`.

    It takes some hundred products with the design and its transpose, and holds some copies of the
    contexts and of their transforms.
    """
    points = float(dim) * (n_rounds + n_lags)
    seconds = 0.1 + 200.0 * points * log2(n_rounds + n_lags + 1) / POINTS
    return FitCost(seconds, 10.0 + 20.0 * WORD * points)
