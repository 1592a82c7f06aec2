"""The least-squares part of a fit through the operator, with unpenalised columns projected out."""

import numpy as np

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats, Ints

LARGEST = 1e60  # products of four such numbers are within a float's range


class LeastSquares:
    """min_b 1/(2n) |X phi + Z b - y|^2: X and y are projected orthogonally to Z ("centred").

    Z holds the unpenalised columns: the design's intercept column, if asked for, and `controls`
    (n, n_controls); `basis` are orthonormal columns of its span. `square` and `given_square` are
    |y|^2 / n of the centred values, and of the values as given; `curvature` is the inverse of the
    step size of a gradient method, kept between the solves of a path.

    Raises ValueError: `y` or controls of the wrong shape or not finite; `y` or the design of a size
    whose squares leave a float's range (beyond 1e60, or all below 1e-60 and not zero).
    """

    def __init__(
        self, design: LaggedDesign, y: Floats, fit_intercept: bool, controls: Floats | None = None
    ) -> None:
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
        self.curvature = 0.0
        self.n = design.n_rows
        # the intercept column of differenced rows is zero up to rounding
        columns = [(design.intercept, 1e-9 * float(np.sqrt(self.n)))] if fit_intercept else []
        extra = np.zeros((self.n, 0)) if controls is None else np.asarray(controls, np.float64)
        if extra.shape[:1] != y.shape or extra.ndim != 2 or not np.isfinite(extra).all():
            raise ValueError(f"controls must be finite, ({self.n}, n_controls)")
        columns += [(column, 1e-9 * float(np.sqrt(column @ column))) for column in extra.T]
        self._columns = [column for column, _ in columns]
        self._has_intercept = fit_intercept
        self._used: list[tuple[int, float]] = []  # columns that add a direction, and its length
        self.basis: list[Floats] = []
        for i, (column, least) in enumerate(columns):
            rest = self.centre(self.centre(column))  # twice: the first leaves its rounding
            norm = float(np.sqrt(rest @ rest))
            if norm > least:
                self._used.append((i, norm))
                self.basis.append(rest / norm)
        self._given = y
        self.y = self.centre(y)
        self.square = float(self.y @ self.y) / self.n
        self.given_square = float(y @ y) / self.n

    def centre(self, v: Floats) -> Floats:
        """Subtract from `v`, (n,), its part along the unpenalised columns."""
        for direction in self.basis:
            v = v - (direction @ v) * direction
        return v

    def columns(self, lags: Ints, out: Floats) -> None:
        """Write the centred columns of some lags into the rows of (len(lags) * dim, n) `out`."""
        self.design.columns(lags, out)
        for direction in self.basis:
            out -= np.multiply.outer(out @ direction, direction)

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

    def unpenalised(self, phi: Floats) -> tuple[float, Floats]:
        """Return the intercept and the controls' coefficients that fit best, given phi.

        A column that is a combination of the columns before it gets 0.
        """
        out = np.zeros(len(self._columns))
        rest = self._given - self.design.matvec(phi) if self.basis else self._given
        for (i, norm), direction in reversed(list(zip(self._used, self.basis, strict=True))):
            out[i] = float(direction @ rest) / norm
            rest = rest - out[i] * self._columns[i]
        return (float(out[0]), out[1:]) if self._has_intercept else (0.0, out)
