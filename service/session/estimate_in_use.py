"""The estimate in use, as a session's fits follow one another: a fit begins from it, or anew.

A fit begins anew where rows were erased that the estimate in use may have learned from, and where
options mean another model. Then its result depends on the rows that are left and on nothing else,
and it replaces that estimate even if it finds no direction. The manifests say it: each has the
number of rows that had been erased, and the revision of the options.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lhb_engine.agents import make_options
from service.session.records import SessionRow


def model_of(session: SessionRow, revision: int | None = None) -> tuple[Any, ...]:
    """Return what the options at a revision, by default the last one, say of the model."""
    then = session if revision is None else session.at_revision(revision)
    return make_options(session.algorithm, then.options).model


@dataclass(frozen=True, slots=True)
class EstimateInUse:
    """The estimate that a session decides by, if there is one."""

    number: int = 0  # of the fit that gave it; 0: there is none
    model_version: int = 0  # how often there has been another one, or none again
    measured: int | None = None  # how many measurements its fit could use; None without one
    n_erased: int = 0  # `n_erased` of the session of which it knows nothing
    model: tuple[Any, ...] = ()  # `model_of` its fit

    def is_left(self, session: SessionRow, manifest: Mapping[str, Any]) -> bool:
        """Return whether a fit with this manifest begins anew."""
        known = manifest.get("n_erased", 0), model_of(session, manifest.get("revision", 0))
        return self.number > 0 and known != (self.n_erased, self.model)

    def after(
        self, session: SessionRow, number: int, manifest: Mapping[str, Any], *, has_direction: bool
    ) -> "EstimateInUse":
        """Return the estimate in use after a fit with this number that has given an answer."""
        version = self.model_version + 1
        if has_direction:
            known = manifest.get("n_erased", 0), model_of(session, manifest.get("revision", 0))
            return EstimateInUse(number, version, manifest["measured"], *known)
        return EstimateInUse(0, version) if self.is_left(session, manifest) else self
