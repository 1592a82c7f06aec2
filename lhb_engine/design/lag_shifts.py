"""Convolutions of contexts with lag weights, and correlations of signals with errors.

For a short sequence all its shifts are stored as a dense matrix, and each operation is a matrix
product. For a long one its FFT is stored.
"""

import numpy as np
import scipy

from lhb_engine.history import Floats

_DENSE = 2**17  # numbers in the largest dense matrix (1 MB); beyond it FFTs are faster


class ShiftedContexts:
    """Contexts (n_places, dim) shifted by 0..n_lags-1 rounds, zero before the first round."""

    def __init__(self, contexts: Floats, n_lags: int) -> None:
        self._n, self._dim = contexts.shape
        self._n_lags = n_lags
        self._dense: Floats | None = None
        self._n_fft = int(scipy.fft.next_fast_len(self._n + n_lags, real=True))
        if self._n * self._dim * n_lags <= _DENSE:
            padded = np.concatenate([np.zeros((self._dim, n_lags - 1)), contexts.T], axis=1)
            lags = np.lib.stride_tricks.sliding_window_view(padded, self._n, axis=1)[:, ::-1]
            self._dense = np.ascontiguousarray(lags.transpose(1, 0, 2)).reshape(n_lags, -1)
        else:
            self._transform = np.asarray(scipy.fft.rfft(contexts.T, self._n_fft))

    def filtered(self, w: Floats) -> Floats:
        """Return the filtered contexts g_t = sum_k w_k x_{t-k} of docs/model.md (6.5).

        (n_chains, n_lags) -> (n_chains, dim, n_places).
        """
        if self._dense is not None:
            return np.asarray((w @ self._dense).reshape(len(w), self._dim, self._n))
        product = scipy.fft.rfft(w, self._n_fft)[:, None, :] * self._transform
        return np.asarray(scipy.fft.irfft(product, self._n_fft)[:, :, : self._n])

    def correlated(self, error: Floats, theta: Floats) -> Floats:
        """Return sum_t e_t <x_{t-k}, theta> for every chain and lag k, (n_chains, n_lags).

        `error` is (n_chains, n_places), `theta` (n_chains, dim).
        """
        if self._dense is not None:
            every = self._dense.reshape(-1, self._n) @ error.T
            every = every.reshape(self._n_lags, self._dim, -1) * theta.T
            return np.asarray(every.sum(axis=1).T)
        return self._against(error, theta @ self._transform)

    def squares(self, mask: Floats, signal: Floats) -> Floats:
        """Return sum_t m_t s_{t-k}^2 for every chain and lag k, (n_chains, n_lags).

        `mask` is (n_places,), `signal` (n_chains, n_places).
        """
        return self._against(mask, scipy.fft.rfft(signal**2, self._n_fft))

    def _against(self, values: Floats, transform: np.ndarray) -> Floats:
        """Return the correlations of `values` with the sequence of FFT `transform`, by lag."""
        product = scipy.fft.rfft(values, self._n_fft) * np.conj(transform)
        return np.asarray(scipy.fft.irfft(product, self._n_fft)[..., : self._n_lags])
