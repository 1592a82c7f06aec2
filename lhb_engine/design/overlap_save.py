"""Overlap-save convolution: long trajectories are cut into segments, short ones are batched.

A bank holds segments of one FFT length. A segment is `n_fft` consecutive contexts: the first
n_lags - 1 only supply lags, the other `n_fft - n_lags + 1` are rounds whose rows it computes.
phi is transformed once for all segments of a bank, at the segments' length.
"""

from dataclasses import dataclass
from math import ceil, log2

import numpy as np
import scipy
from numpy.typing import NDArray

from lhb_engine.history import Floats, Ints

SHORT = 16  # rounds up to which a trajectory is convolved without an FFT
MATRIX = 128  # numbers per frequency from which matrix products are faster than sums of products
LONG = 256  # rounds from which segments are copied one by one, not by fancy indexing


@dataclass(frozen=True)
class Bank:
    """Segments of one FFT length; `n_lags` can reach a round of them.

    `spectra` is (dim, n_segments, n_fft // 2 + 1); row `rows[i]` is computed at flat position
    `places[i]` of the segments.
    """

    n_fft: int
    n_lags: int
    spectra: NDArray[np.complex128]
    rows: Ints
    places: Ints

    def convolve(self, phi: Floats, out: Floats) -> None:
        """Write T phi for this bank's rows into (n_rows,) `out`."""
        kernel = scipy.fft.rfft(np.ascontiguousarray(phi[: self.n_lags].T), self.n_fft)
        if self._many:
            product = (self._by_frequency @ kernel.T[:, :, None])[:, :, 0].T
        else:
            product = np.add.reduce(self.spectra * kernel[:, None], axis=0)
        out[self.rows] = scipy.fft.irfft(product, self.n_fft).ravel()[self.places]

    def correlate(self, values: Floats, out: Floats) -> None:
        """Add this bank's rows' share of T' values to (n_lags, dim) `out`."""
        signal = np.zeros((self.spectra.shape[1], self.n_fft))
        signal.ravel()[self.places] = values[self.rows]
        conjugate = scipy.fft.rfft(signal).conj()
        if self._many:
            product = (conjugate.T[:, None, :] @ self._by_frequency)[:, 0].T
        else:
            product = np.add.reduce(self.spectra * conjugate, axis=1)
        out[: self.n_lags] += scipy.fft.irfft(product.conj(), self.n_fft)[:, : self.n_lags].T

    @property
    def _many(self) -> bool:
        """Whether one matrix product per frequency is the faster way."""
        return self.spectra[:, :, 0].size >= MATRIX

    @property
    def _by_frequency(self) -> NDArray[np.complex128]:
        """(n_fft // 2 + 1, n_segments, dim) view of the spectra, contiguous where `_many`."""
        return self.spectra.transpose(2, 1, 0)


@dataclass(frozen=True)
class ShortTrajectories:
    """Short trajectories of about one length, with the two operations of a `Bank`.

    One matrix product gives <xi_t, phi_k> for all rounds t and lags k; a row of T phi is the sum of
    one of its diagonals. Up to 16 rounds this is less work than FFTs of twice the length.
    `contexts` (dim, n_places * n_trajectories) are all first rounds, then all second rounds, and so
    on, zero where a trajectory has ended; row `rows[i]` is computed at column `places[i]` of them.
    """

    contexts: Floats
    n_places: int
    n_lags: int
    rows: Ints
    places: Ints

    def convolve(self, phi: Floats, out: Floats) -> None:
        """Write T phi for these rounds' rows into (n_rows,) `out`."""
        each = (phi[: self.n_lags] @ self.contexts).reshape(self.n_lags, self.n_places, -1)
        sums = each[0]
        for lag in range(1, self.n_lags):
            sums[lag:] += each[lag, :-lag]
        out[self.rows] = sums.ravel()[self.places]

    def correlate(self, values: Floats, out: Floats) -> None:
        """Add these rounds' share of T' values to (n_lags, dim) `out`."""
        n = self.contexts.shape[1]
        n_trajectories = n // self.n_places
        signal = np.zeros(n)
        signal[self.places] = values[self.rows]
        for lag in range(self.n_lags):
            later = lag * n_trajectories
            out[lag] += self.contexts[:, : n - later] @ signal[later:]


@dataclass(frozen=True)
class SingleRows:
    """Rows of which none is of the same trajectory as another, with the operations of a `Bank`.

    They share no context, so they are stored, `matrix` (n_rows, n_lags * dim).
    """

    matrix: Floats

    def convolve(self, phi: Floats, out: Floats) -> None:
        """Write T phi for these rows into (n_rows,) `out`."""
        np.dot(self.matrix, phi.ravel(), out=out)

    def correlate(self, values: Floats, out: Floats) -> None:
        """Add T' values to (n_lags, dim) `out`."""
        out += (values @ self.matrix).reshape(out.shape)


def plan_banks(
    contexts: Floats, starts: Ints, lengths: Ints, row_of: Ints, n_lags: int
) -> list[Bank | ShortTrajectories]:
    """Plan banks, and stacks of short trajectories: every row is computed by exactly one of them.

    `contexts` (dim, n_rounds) holds one trajectory after the other; `row_of` (n_rounds,) is the row
    of each round, -1 where it has none.
    """
    measured = np.flatnonzero(row_of >= 0)
    trajectory = np.searchsorted(starts + lengths, measured, side="right")
    begins = np.flatnonzero(np.diff(trajectory, prepend=-1))  # first row of each trajectory
    ends = np.append(begins[1:], len(measured))[: len(begins)] - 1
    firsts = starts[trajectory[begins]]
    classes: dict[tuple[bool, int], list[tuple[int, int, int]]] = {}
    for start, first, stop in zip(
        firsts.tolist(),
        (measured[begins] - firsts).tolist(),
        (measured[ends] - firsts + 1).tolist(),
        strict=True,
    ):
        if stop <= SHORT:
            classes.setdefault((False, (stop - 1).bit_length()), []).append((start, 0, stop))
            continue
        reach = min(n_lags, stop)  # longer lags reach before the trajectory's first round
        size = n_lags if reach == n_lags else min(n_lags, 1 << (reach - 1).bit_length())
        classes.setdefault((True, size), []).append((start, first, stop))
    return [
        _bank(contexts, parts, row_of, size)
        if long
        else stack(contexts, [(start, stop) for start, _, stop in parts], row_of, n_lags)
        for (long, size), parts in sorted(classes.items())
    ]


def _bank(contexts: Floats, parts: list[tuple[int, int, int]], row_of: Ints, n_lags: int) -> Bank:
    dim = len(contexts)
    n_fft = _fft_length([stop - first for _, first, stop in parts], n_lags, dim)
    step = n_fft - n_lags + 1
    first = np.concatenate(
        [np.arange(start + row, start + stop, step) for start, row, stop in parts]
    )
    n_pieces = [ceil((stop - row) / step) for _, row, stop in parts]
    begin, end = np.repeat([[start, start + stop] for start, _, stop in parts], n_pieces, axis=0).T[
        ..., None
    ]
    index = (first - (n_lags - 1))[:, None] + np.arange(n_fft)
    outside = (index < begin) | (index >= end)
    segments = _cut(contexts, index, outside)
    row = row_of.take(index, mode="clip")
    row[outside] = -1
    row[:, : n_lags - 1] = -1  # rounds that only supply lags
    places = np.flatnonzero(row >= 0)
    spectra = scipy.fft.rfft(segments)
    if spectra[:, :, 0].size >= MATRIX:
        spectra = np.ascontiguousarray(spectra.transpose(2, 1, 0)).transpose(2, 1, 0)
    return Bank(n_fft, n_lags, spectra, row.ravel()[places], places)


def _cut(contexts: Floats, index: Ints, outside: NDArray[np.bool_]) -> Floats:
    """Gather (dim, n_segments, n_fft) contexts at `index`, zero where `outside`."""
    if index.shape[1] < LONG:
        segments = contexts.take(index, axis=1, mode="clip")
        segments[:, outside] = 0.0
        return segments
    segments = np.zeros((len(contexts), *index.shape))
    for i, absent in enumerate(outside):
        inside = np.flatnonzero(~absent)
        start, stop = int(inside[0]), int(inside[-1]) + 1
        at = int(index[i, start])
        segments[:, i, start:stop] = contexts[:, at : at + stop - start]
    return segments


def _fft_length(n_rows: list[int], n_lags: int, dim: int) -> int:
    """Choose the FFT length with the least work for a convolution and a correlation."""

    def work(n_fft: int) -> float:
        n_segments = sum(ceil(n / (n_fft - n_lags + 1)) for n in n_rows)
        return n_fft * ((dim + n_segments) * log2(n_fft + 1) + n_segments * dim)

    longest = max(n_rows)
    # segments far shorter than the lags are never the cheapest
    most = max(1, 8 * longest // n_lags)
    pieces = {1, *(2**i for i in range(12)), *(3 * 2**i for i in range(10))}
    lengths = {
        scipy.fft.next_fast_len(n_lags - 1 + ceil(longest / p), real=True)
        for p in pieces
        if p <= most
    }
    return min(sorted(lengths), key=work)


def stack(
    contexts: Floats, parts: list[tuple[int, int]], row_of: Ints, n_lags: int
) -> ShortTrajectories:
    """Stack trajectories, each from its first round to its last row; arguments as `plan_banks`.

    A part is the first round in `contexts`, and the number of rounds.
    """
    start, stop = np.array(parts).T
    place = np.arange(stop.max())[:, None]
    index, inside = start + place, place < stop
    stacked = np.where(inside, contexts.take(index, axis=1, mode="clip"), 0.0)
    row = np.where(inside, row_of.take(index, mode="clip"), -1).ravel()
    places = np.flatnonzero(row >= 0)
    n_places = len(place)
    return ShortTrajectories(
        stacked.reshape(len(contexts), -1), n_places, min(n_lags, n_places), row[places], places
    )
