"""The least-squares side of a fit: a design and values, any baseline projected out of both."""

import numpy as np

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats, Ints

LARGEST = 1e60  # products of four such numbers are still within a float's range


class LeastSquares:
    """1/(2n) |X phi + c b - y|^2 with b at its best: X and y without their part along c.

    Attributes
    ----------
    y : (n,) array, centred
    square : |y|^2 / n, centred
    given_square : |y|^2 / n, not centred
    baseline : (n,) unit vector along the intercept column, or None where none is fitted

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
        if entries == 0:  # none, or squares below a float's range
            entries = float(np.abs(design.contexts).max(initial=0.0))
        if entries > 0 and not 1 / LARGEST <= entries <= LARGEST:
            raise ValueError("contexts are too large or small: give them in other units")
        self.design = design
        self.n = design.n_rows
        self.baseline: Floats | None = None
        if fit_intercept:
            self._norm = float(np.sqrt(design.intercept @ design.intercept))
            # differenced rows hold no baseline, up to rounding
            if self._norm > 1e-9 * np.sqrt(self.n):
                self.baseline = design.intercept / self._norm
        self._given = y
        self.y = self.centre(y)
        self.square = float(self.y @ self.y) / self.n
        self.given_square = float(y @ y) / self.n

    def centre(self, v: Floats) -> Floats:
        """`v` (n,) less its part along the baseline."""
        return v if self.baseline is None else v - (self.baseline @ v) * self.baseline

    def columns(self, lags: Ints, out: Floats) -> None:
        """Write the centred columns of some lags, a row each, into (len(lags) * dim, n)."""
        self.design.columns(lags, out)
        if self.baseline is not None:
            out -= np.multiply.outer(out @ self.baseline, self.baseline)

    def predict(self, phi: Floats) -> Floats:
        """X phi, centred, (n_lags, dim) -> (n,)."""
        return self.centre(self.design.matvec(phi))

    def correlate(self, residual: Floats) -> Floats:
        """X' residual / n, (n,) -> (n_lags, dim); `residual` is centred."""
        return self.design.rmatvec(residual) / self.n

    @property
    def steepest(self) -> float:
        """|X|^2 / n: no direction has more curvature."""
        return self.design.square_sum / self.n

    def uphill(self, fitted: Floats) -> Floats:
        """X' r / n of the residual r = y - `fitted`."""
        return self.correlate(self.y - fitted)

    def residual(self, phi: Floats, fitted: Floats) -> tuple[float, float]:
        """|r|^2 / n and y'r / n of r = y - X phi, given X phi."""
        r = self.y - fitted
        return float(r @ r) / self.n, float(self.y @ r) / self.n

    def curvature_along(self, moved: Floats, fitted: Floats) -> float:
        """|X moved|^2 / n, given X moved."""
        return float(fitted @ fitted) / self.n

    def intercept(self, phi: Floats) -> float:
        """The baseline a round that fits best, given phi."""
        if self.baseline is None:
            return 0.0
        return float(self.baseline @ (self._given - self.design.matvec(phi))) / self._norm
