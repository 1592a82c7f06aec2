"""The estimate in use, as a session's fits follow one another: a fit begins from it, or anew.

A fit begins anew where rows were erased that the estimate in use may have learned from. Then its
result depends on the rows that are left and on nothing else, and it replaces that estimate even if
it finds no direction. The manifests say it: each has the number of rows that had been erased.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EstimateInUse:
    """The estimate that a session decides by, if there is one."""

    number: int = 0  # of the fit that gave it; 0: there is none
    model_version: int = 0  # how often there has been another one, or none again
    measured: int | None = None  # how many measurements its fit could use; None without one
    n_erased: int = 0  # `n_erased` of the session of which it knows nothing

    def is_left(self, n_erased: int) -> bool:
        """Return whether a fit that knows nothing of so many erased rows begins anew."""
        return self.number > 0 and n_erased != self.n_erased

    def after(
        self, number: int, manifest: Mapping[str, Any], *, has_direction: bool
    ) -> "EstimateInUse":
        """Return the estimate in use after a fit with this number that has given an answer."""
        n_erased, version = manifest.get("n_erased", 0), self.model_version + 1
        if has_direction:
            return EstimateInUse(number, version, manifest["measured"], n_erased)
        return EstimateInUse(0, version) if self.is_left(n_erased) else self
