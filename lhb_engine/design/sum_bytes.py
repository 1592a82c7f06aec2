"""How kept sums are written: a header that says what follows, and upper triangles of matrices."""

import struct
from dataclasses import dataclass

import numpy as np

from lhb_engine.history import Floats

N_SHAPE = 3  # lags, dim, covariates: the numbers that every header begins with


@dataclass(frozen=True)
class Header:
    """The header of one kind of sums: its sign, a version, and whole numbers.

    Attributes
    ----------
    sign : bytes
        Four bytes, by which the kind is known.
    version : int
    kind : str
        What messages call the sums.
    n_counts : int
        How many numbers follow the lags, dim and covariates.
    """

    sign: bytes
    version: int
    kind: str
    n_counts: int

    @property
    def _layout(self) -> struct.Struct:
        return struct.Struct(f"<4sHxx{N_SHAPE + self.n_counts}q")

    def to_bytes(self, n_lags: int, dim: int, n_covariates: int, *counts: int) -> bytes:
        """Return the header."""
        return self._layout.pack(self.sign, self.version, n_lags, dim, n_covariates, *counts)

    def read(self, data: bytes, groups: tuple[int, ...]) -> tuple[int, int, list[int], bytes]:
        """Return n_lags, dim, the counts, and the bytes that follow.

        Parameters
        ----------
        data : bytes
        groups : tuple of int
            Those of the sums, which the bytes leave out.

        Raises
        ------
        ValueError
            The bytes are no such sums, of another version, of an impossible size or of other
            covariates.
        """
        layout = self._layout
        if len(data) < layout.size or data[:4] != self.sign:
            raise ValueError(f"these bytes are no {self.kind}")
        _, version, n_lags, dim, n_covariates, *counts = layout.unpack_from(data)
        if version != self.version:
            only = f"only of {self.version}"
            raise ValueError(f"{self.kind} of version {version} cannot be read, {only}")
        if min(n_lags, dim) < 1 or min(n_covariates, *counts) < 0:
            raise ValueError(f"{self.kind} of an impossible size")
        if n_covariates != 1 + sum(groups):
            raise ValueError(f"{self.kind} of {n_covariates} covariates, not of {1 + sum(groups)}")
        return n_lags, dim, counts, data[layout.size :]


def to_triangles(sums: Floats) -> bytes:
    """Return the upper triangles of symmetric matrices, (k, p, p), as little-endian float64."""
    upper = np.triu_indices(sums.shape[1])
    return np.ascontiguousarray(sums[:, *upper], dtype="<f8").tobytes()


def from_triangles(data: bytes, k: int, p: int) -> Floats:
    """Return the k matrices that `to_triangles` wrote, (k, p, p).

    Raises
    ------
    ValueError
        There are more bytes, or fewer.
    """
    n = p * (p + 1) // 2
    if len(data) != k * 8 * n:
        raise ValueError(f"moments of {len(data)} bytes: their header says otherwise")
    triangles = np.frombuffer(data, "<f8").reshape(k, n)
    upper, sums = np.triu_indices(p), np.empty((k, p, p))
    sums[:, *upper] = triangles
    sums.transpose(0, 2, 1)[:, *upper] = triangles
    return sums
