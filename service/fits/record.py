"""The row that is stored for every fit, successful or not."""

import json
from dataclasses import dataclass
from typing import Any, Self

from service.rounds.sums import FitAnswer, FitSums, SettledSlots
from service.session.due_fits import DueFit
from service.session.records import EstimateRow, SessionRow
from service.writer.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitting process's result: an estimate with its fingerprint, or the reason of its failure.

    `estimate` is the JSON form of an `Estimate`. It is None if the fit failed, and in a part of a
    fit, whose `settled` slots are to be kept before the fit goes on. `is_final` says of a failure
    that another attempt would end like it. `n_erased` is that of the session as the fit read it.
    """

    estimate: dict[str, Any] | None
    fingerprint: dict[str, Any] | None = None
    reason: str | None = None
    is_final: bool = False
    session_name: str | None = None
    n_erased: int | None = None
    sums: FitSums | None = None
    settled: SettledSlots | None = None

    @classmethod
    def of(cls, answer: FitAnswer) -> Self:
        """Return what a fitting process says."""
        said = {"estimate": None, **json.loads(answer.text)}
        return cls(**said, sums=answer.sums, settled=answer.settled)

    @property
    def is_part(self) -> bool:
        """Whether the fit goes on once its slots are kept."""
        return self.estimate is None and self.reason is None

    def summary(self) -> dict[str, Any]:
        """Return what a log says of it."""
        if self.estimate is None:
            return {"name": self.session_name, "reason": self.reason}
        return {
            "name": self.session_name,
            "rows": self.estimate["n_rows"],
            "reason": self.estimate["message"],
            "alarm": bool((self.estimate["diagnostics"] or {}).get("alarm")),
        }


def record_fit(
    uow: UnitOfWork,
    session: SessionRow,
    due: DueFit,
    status: str,
    reason: str | None,
    parent: int | None = None,
    fitted: Fitted | None = None,
    said: dict[str, int] | None = None,
) -> None:
    """Add the row of a fit, with the manifest from which it can be recomputed.

    `status` is that of the estimate, or "failed" or "skipped" for a `reason`; `parent` the number
    of the estimate that was in use before, by default the session's present one; `said` what the
    manifest says besides. The session's number of estimates is raised.
    """
    session.n_estimates += 1
    live = uow.agents.get(session.key)
    if live is not None:
        live.n_estimates = session.n_estimates
    row = EstimateRow(
        *session.key,
        number=session.n_estimates,
        epoch=due.window.epoch,
        due=due.key,
        status=status,
        reason=reason or None,
        manifest=json.dumps(due.manifest() | (said or {})),
        parent=session.estimate if parent is None else parent,
        model_version=session.model_version,
        fingerprint=None if fitted is None else json.dumps(fitted.fingerprint),
        estimate=None if fitted is None else json.dumps(fitted.estimate),
        at=uow.now,
    )
    uow.add_estimate(row)
    uow.effects.fits.append(row)
