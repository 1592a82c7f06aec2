"""The least-squares part of a fit through the operator, with the baseline projected out."""

import numpy as np

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats, Ints

LARGEST = 1e60  # products of four such numbers are within a float's range


class LeastSquares:
    """min_b 1/(2n) |X phi + c b - y|^2: X and y are projected orthogonally to c ("centred").

    Parameters
    ----------
    design : LaggedDesign
    y : (n,) array
    fit_intercept : bool

    Attributes
    ----------
    y : (n,) array
        Centred values.
    square, given_square : float
        |y|^2 / n of the centred values, and of the values as given.
    baseline : (n,) array or None
        Unit vector along the intercept column c; None where no baseline is fitted.

    Raises
    ------
    ValueError
        `y` of the wrong shape, empty, or not finite; `y` or the design of a size whose squares
        leave a float's range (beyond 1e60, or all below 1e-60 and not zero).
    """

    def __init__(self, design: LaggedDesign, y: Floats, fit_intercept: bool) -> None:
        y = np.array(y, dtype=np.float64)
        if y.shape != (design.n_rows,) or design.n_rows == 0:
            raise ValueError(f"y must be ({design.n_rows},) and not empty")
        if not np.isfinite(y).all():
            raise ValueError("y must be finite")
        largest = float(np.abs(y).max())
        if largest > 0 and not 1 / LARGEST <= largest <= LARGEST:
            raise ValueError(f"y must not be of size {largest:.1e}: give it in other units")
        with np.errstate(over="ignore", under="ignore"):
            entries = float(np.sqrt(design.square_bound))
        if entries == 0:  # all are zero, or their squares underflow
            entries = float(np.abs(design.contexts).max(initial=0.0))
        if entries > 0 and not 1 / LARGEST <= entries <= LARGEST:
            raise ValueError("contexts are too large or small: give them in other units")
        self.design = design
        self.n = design.n_rows
        self.baseline: Floats | None = None
        if fit_intercept:
            self._norm = float(np.sqrt(design.intercept @ design.intercept))
            # the intercept column of differenced rows is zero up to rounding
            if self._norm > 1e-9 * np.sqrt(self.n):
                self.baseline = design.intercept / self._norm
        self._given = y
        self.y = self.centre(y)
        self.square = float(self.y @ self.y) / self.n
        self.given_square = float(y @ y) / self.n

    def centre(self, v: Floats) -> Floats:
        """Subtract from `v`, (n,), its part along the baseline."""
        return v if self.baseline is None else v - (self.baseline @ v) * self.baseline

    def columns(self, lags: Ints, out: Floats) -> None:
        """Write the centred columns of some lags into the rows of (len(lags) * dim, n) `out`."""
        self.design.columns(lags, out)
        if self.baseline is not None:
            out -= np.multiply.outer(out @ self.baseline, self.baseline)

    def predict(self, phi: Floats) -> Floats:
        """Compute the centred X phi, (n_lags, dim) -> (n,)."""
        return self.centre(self.design.matvec(phi))

    def correlate(self, residual: Floats) -> Floats:
        """Compute X' residual / n of a centred residual, (n,) -> (n_lags, dim)."""
        return self.design.rmatvec(residual) / self.n

    @property
    def steepest(self) -> float:
        """|X|^2 / n (Frobenius), an upper bound of the curvature along any direction."""
        return self.design.square_sum / self.n

    def descent(self, fitted: Floats) -> Floats:
        """Negative gradient X' r / n of the residual r = y - `fitted`."""
        return self.correlate(self.y - fitted)

    def residual(self, phi: Floats, fitted: Floats) -> tuple[float, float]:
        """|r|^2 / n and y'r / n of r = y - X phi, given X phi."""
        r = self.y - fitted
        return float(r @ r) / self.n, float(self.y @ r) / self.n

    def curvature_along(self, moved: Floats, fitted: Floats) -> float:
        """|X moved|^2 / n, given X moved."""
        return float(fitted @ fitted) / self.n

    def intercept(self, phi: Floats) -> float:
        """Return the baseline per round that fits best, given phi."""
        if self.baseline is None:
            return 0.0
        return float(self.baseline @ (self._given - self.design.matvec(phi))) / self._norm
