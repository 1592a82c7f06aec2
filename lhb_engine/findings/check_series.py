"""Checks of the errors over time: a trend, a season, and correlation that neither explains."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import fft, ndimage

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.findings.finding import Finding
from lhb_engine.history import Floats, Ints

LEAST_ROWS = 100
SURE = 4.5  # standard errors of a slope, or of a correlation
LEAST_TREND = 0.15  # of the errors' variance
LEAST_SEASON = 0.05  # of the errors' variance
LEAST_CORRELATION = 0.25
MOST_RHO = 0.99
LEAST_CYCLES = 4  # of a season
PEAK = 20.0  # of a season's power over that of its neighbours; 1 is the mean of white noise
OVERSAMPLED = 2  # frequencies in each 1 / n
BESIDE = 40  # frequencies, in all, whose median is the power around a peak
MOST_HARMONICS = 6  # of a season that is advised
CHANCE = 1e-3  # of a harmonic by chance


@dataclass(frozen=True)
class Series:
    """Errors of rows of `span` rounds in one trajectory, one after the other.

    `places` (n_rows,) are where the rows are in time, in rounds, in ascending order.
    """

    places: Ints
    errors: Floats
    span: int

    @classmethod
    def of(cls, rows: AlignedRounds, errors: Floats) -> Self | None:
        """Return the errors of the commonest row length of one trajectory; None if too few."""
        places = np.flatnonzero(rows.number > 0)
        spans = np.rint(rows.intercept[places] ** 2).astype(np.int64)
        lengths, counts = np.unique(spans, return_counts=True)
        span = int(lengths[counts.argmax()])
        places = places[spans == span]
        if len(places) < LEAST_ROWS or not errors[places].any():
            return None
        return cls(places - places[0], errors[places], span)

    @property
    def pairs(self) -> Ints:
        """Indices of rows that are directly followed by the next one."""
        return np.flatnonzero(np.diff(self.places) == self.span)

    @property
    def rho(self) -> float:
        """Correlation of errors with those of the row before; 0 with few pairs."""
        pairs = self.pairs
        now, then = self.errors[pairs + 1], self.errors[pairs]
        size = float(now @ now + then @ then) / 2
        return float(now @ then) / size if size > 0 and len(pairs) >= LEAST_ROWS / 2 else 0.0

    def without(self, columns: Floats) -> "Series":
        """Return the series less its least-squares fit by some columns, (n_rows, n)."""
        by, *_ = np.linalg.lstsq(columns, self.errors)
        return replace(self, errors=self.errors - columns @ by)

    def waves(self, period: float, harmonics: int) -> Floats:
        """Return a constant, and sine and cosine of each harmonic, (n_rows, 1 + 2 harmonics)."""
        j = np.arange(1, harmonics + 1)
        angles = 2.0 * np.pi * self.places[:, None] * j / period
        ones = np.ones((len(self.places), 1))
        return np.concatenate([ones, np.sin(angles), np.cos(angles)], axis=1)

    def explained(self, less: "Series") -> float:
        """Return the share of the variance that `less` no longer has."""
        return 1.0 - float(less.errors.var() / self.errors.var())


def check_series(series: Series) -> Iterator[Finding]:
    """Look for a trend, then for a season in the rest, then for correlation in what is left."""
    time = series.places / max(1, int(series.places[-1]))
    line = np.column_stack([np.ones_like(time), time])
    flat = series.without(line)
    if _is_trend(series, flat, time):
        yield Finding(
            "trend", "Rewards grow or fall steadily, whatever is chosen: set the option `trend`."
        )
    rest = flat
    period = _season(flat)
    if period is not None:
        n = _harmonics(flat, period)
        rest = flat.without(flat.waves(period, n))
        told = f'"period": {period:g}' + f', "harmonics": {n}' * (n > 1)
        yield Finding(
            "season",
            f"Rewards repeat every {period:g} rounds, whatever is chosen: "
            f"add {{{told}}} to the option `seasonality`.",
            period=period,
            harmonics=n,
        )
    yield from _correlated(rest.rho, len(rest.pairs))


def check_correlation(rows: AlignedRounds, errors: Floats) -> Iterator[Finding]:
    """Look for correlation of consecutive rows where no trajectory is long."""
    later = rows.followers()
    now, then = errors[later], errors[rows.before[later]]
    size = float(now @ now + then @ then) / 2
    if size > 0 and len(later) >= LEAST_ROWS:
        yield from _correlated(float(now @ then) / size, len(later))


def _correlated(rho: float, n_pairs: int) -> Iterator[Finding]:
    if n_pairs > 0 and rho >= max(LEAST_CORRELATION, SURE / np.sqrt(n_pairs)):
        yield Finding(
            "errors_correlated",
            f"Rewards that follow each other err alike (correlation {rho:.2f}): something that "
            "lasts moves them, or what choices pay has changed. The fit allows for the first: if "
            "you know what it is, report it as a covariate.",
        )


def _is_trend(series: Series, flat: Series, time: Floats) -> bool:
    """Whether a line explains much, and more than errors correlated like these do by chance."""
    if series.explained(flat) < LEAST_TREND:
        return False
    around = time - time.mean()
    slope = float(around @ series.errors) / float(around @ around)
    rho = min(max(flat.rho, 0.0), MOST_RHO)
    # by which the variance of a mean exceeds that of white noise
    longer = (1.0 + rho) / (1.0 - rho)
    error = float(np.sqrt(flat.errors.var() / float(around @ around) * longer))
    return abs(slope) > SURE * error


def _season(flat: Series) -> float | None:
    """Return the period of the clearest season, in rounds; None if there is none.

    The errors are whitened first, so that neighbouring frequencies have like power.
    """
    white, n = _white(flat), int(flat.places[-1]) + 1
    if len(white.places) < LEAST_ROWS or not white.errors.any():
        return None
    n_fft = fft.next_fast_len(OVERSAMPLED * n, real=True)
    signal = np.zeros(n)
    signal[white.places] = white.errors - white.errors.mean()
    power = np.abs(fft.rfft(signal * np.hanning(n), n_fft)) ** 2  # without a peak's side lobes
    lowest = int(np.ceil(LEAST_CYCLES * n_fft / n))
    power = power[lowest : n_fft // (2 * flat.span)]
    if len(power) <= BESIDE:
        return None
    around = ndimage.median_filter(power, BESIDE + 1, mode="mirror") / np.log(2.0)
    ratios = power / np.maximum(around, 1e-300)
    peak = int(ratios.argmax())
    if ratios[peak] < PEAK:
        return None
    period = _refined(white, (lowest + peak) / n_fft, 1.0 / n_fft)
    explained = flat.explained(flat.without(flat.waves(period, _harmonics(flat, period))))
    return period if explained >= LEAST_SEASON else None


def _white(series: Series) -> Series:
    """Return what the row before does not tell of each error."""
    rho, pairs = min(max(series.rho, 0.0), MOST_RHO), series.pairs
    left = series.errors[pairs + 1] - rho * series.errors[pairs]
    return replace(series, places=series.places[pairs + 1], errors=left)


def _harmonics(flat: Series, period: float) -> int:
    """Return the number of harmonics, up to the last that shows beside those before it."""
    most = int(min(MOST_HARMONICS, period // (2 * flat.span)))
    white = _white(flat)
    left = [white.without(white.waves(period, n)).errors for n in range(most + 1)]
    squares = np.array([float(one @ one) for one in left])
    noise = squares[-1] / max(len(white.errors) - 2 * most - 1, 1)
    shown = np.flatnonzero(-np.diff(squares) > -2.0 * np.log(CHANCE) * noise)
    return 1 + int(shown.max(initial=0))


def _refined(white: Series, frequency: float, step: float) -> float:
    """Return the period of the wave that fits best near a frequency, rounded to what shows."""
    near = frequency + step * np.linspace(-1.0, 1.0, 65)
    waves = np.exp(-2j * np.pi * np.outer(near, white.places))
    best = float(1.0 / near[np.abs(waves @ white.errors).argmax()])
    n = int(white.places[-1]) + 1
    whole = round(best)
    return float(whole) if abs(best - whole) <= best * best / (20.0 * n) else round(best, 1)
