"""The row that is stored for every fit, successful or not."""

import json

from service.fits.fit_answer import Fitted
from service.session.records import EstimateRow, SessionRow
from service.session.schedule_records import DueFit
from service.writer.unit_of_work import UnitOfWork


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
