"""Dense algebra, written out: what operator and solver are held against."""

import numpy as np
from celer import GroupLasso
from scipy import sparse

from lhb_engine.design.overlap_save import Bank


def toeplitz(parts, n_lags):
    """T, by its definition: row t holds [xi_t, xi_{t-1}, ...], zero before the first round."""
    rows = []
    for part in parts:
        for t in range(len(part)):
            row = np.zeros((n_lags, part.shape[1]))
            for k in range(min(n_lags, t + 1)):
                row[k] = part[t - k]
            rows.append(row.ravel())
    return np.array(rows).reshape(len(rows), -1)


def span_rows(spans, n_rounds):
    """A row of 1/sqrt(m) a span (first, last), counted from 0."""
    out = np.zeros((len(spans), n_rounds))
    for i, (first, last) in enumerate(spans):
        out[i, first : last + 1] = 1 / np.sqrt(last - first + 1)
    return sparse.csr_array(out)


def objective(X, y, phi, lam, b=0.0, column=None):
    """1/(2n) |X phi + c b - y|^2 + lam sum |phi_k|."""
    fitted = X @ phi.ravel() + (0 if column is None else b * column)
    norms = np.sqrt((phi**2).sum(axis=1)).sum()
    return ((fitted - y) ** 2).sum() / (2 * len(y)) + lam * norms


def celer_solution(X, y, lam, dim, tol=1e-10):
    """Group lasso by another package, (n_lags, dim)."""
    model = GroupLasso(groups=dim, alpha=lam, fit_intercept=False, tol=tol, max_iter=500)
    return model.fit(X, y).coef_.reshape(-1, dim)


def held(design):
    """Numbers a feature that the operator keeps, padding and overlap included."""
    return sum(
        b.spectra.shape[1] * b.n_fft if isinstance(b, Bank) else b.contexts.shape[1]
        for b in design._banks
    )
