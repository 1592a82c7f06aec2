"""The row that is stored for every fit, successful or not, and what webhooks are told of it."""

import json
from typing import Any

from lhb_engine.agents import Options, make_options
from lhb_engine.estimate import Estimate
from lhb_engine.findings.finding import Finding, by_names
from lhb_engine.history import FitWindow
from service.fits.fit_answer import Fitted
from service.rounds.offered_arms import feature_names
from service.rounds.timeline import in_rounds
from service.session.fit_schedule import DueFit
from service.session.records import EstimateRow, SessionRow
from service.storage.reader import Reader
from service.writer.notices import announce
from service.writer.unit_of_work import UnitOfWork

MAX_WAITING = 32  # due fits that wait; and also incomplete windows past their boundary
LOOK_BACK = MAX_WAITING + 8  # fits: all that wait may be skipped at once


def record_fit(
    uow: UnitOfWork,
    session: SessionRow,
    due: DueFit,
    status: str,
    reason: str | None,
    fitted: Fitted | None = None,
    notes: dict[str, int] | None = None,
    in_use: int | None = None,
) -> None:
    """Add the row of a fit, with the manifest from which it can be recomputed.

    `status` is that of the estimate, or "failed" or "skipped" for a `reason`; `notes` what the
    manifest says besides; `in_use` the number of the estimate that is in use from now on, by
    default the one before. The session counts the fit.
    """
    row = counted_fit(
        session,
        due.window,
        session.estimate if in_use is None else in_use,
        status=status,
        reason=reason or None,
        manifest=json.dumps(due.manifest() | (notes or {})),
        fingerprint=None if fitted is None else json.dumps(fitted.fingerprint),
        estimate=None if fitted is None else json.dumps(fitted.estimate),
        at=uow.now,
    )
    live = uow.agents.get(session.key)
    if live is not None:
        live.n_estimates = session.n_estimates
    if status != "skipped" and uow.stored.webhooks(session.tenant):
        _announce(uow, session, row)
    uow.add_estimate(row)
    uow.effects.fits.append(row)


def counted_fit(session: SessionRow, window: FitWindow, in_use: int, **members: Any) -> EstimateRow:
    """Count a fit of a window, after which an estimate is `in_use`, and return its row.

    `in_use` is the estimate's number; 0: there is none.
    """
    parent, session.estimate = session.estimate, in_use
    session.n_estimates += 1
    session.model_version += in_use != parent
    place = *session.key, session.n_estimates, window.epoch, window.due
    version = session.model_version
    return EstimateRow(*place, **members, parent=parent, model_version=version)


def _announce(uow: UnitOfWork, session: SessionRow, row: EstimateRow) -> None:
    """Tell webhooks what is new: a failure after no failure, findings and alarms that begin."""
    if row.estimate is None:
        before = uow.stored.estimate(session.key, row.number - 1)
        if before is None or before.status != "failed":
            announce(uow, session, "fit_failed", estimate=row.number, reason=row.reason)
        return
    last = last_estimated(uow.stored, session, row.number - 1)
    codes = {one["code"] for one in (findings_of(uow.stored, session, last) if last else ())}
    for finding in findings_of(uow.stored, session, row):
        if finding["code"] not in codes:
            announce(uow, session, "finding", estimate=row.number, finding=finding)
    if has_alarm(row) and (last is None or not has_alarm(last)):
        announce(uow, session, "alarm", estimate=row.number, reason=row.reason)


def last_estimated(reader: Reader, session: SessionRow, last: int) -> EstimateRow | None:
    """Return the last fit, up to number `last`, that neither failed nor was skipped."""
    for number in range(last, max(0, last - LOOK_BACK), -1):
        record = reader.estimate(session.key, number)
        if record is not None and record.estimate is not None:
            return record
    return None


def row_in_use(reader: Reader, session: SessionRow) -> EstimateRow | None:
    """Return the fit whose estimate is in use, without what the last fit's checks make doubtful."""
    record, last = reader.installed(session), last_estimated(reader, session, session.n_estimates)
    if record is None or last is None or last.number == record.number:
        return record
    checks = [last.values.get(name) or [] for name in ("findings", "unchecked")]
    said = Estimate.from_json(record.values).with_checks(*checks).to_json()
    return record._replace(estimate=json.dumps(record.values | said))


def findings_of(reader: Reader, session: SessionRow, record: EstimateRow) -> list[dict[str, Any]]:
    """Return a fit's findings, which call features, and rounds, by the names of the session."""
    findings = record.values.get("findings") or []
    names = feature_names(reader, session) if any(one["features"] for one in findings) else ()
    options = make_options(session.algorithm, session.options) if findings else Options()

    def message_of(one: dict[str, Any]) -> str:
        message = in_rounds(session, one["message"])
        if options.says(Finding(**one)):
            message = f"{message.partition(': ')[0]}. Later fits are told so: nothing is to do."
        return by_names(message, one["features"], names)

    return [one | {"message": message_of(one)} for one in findings]


def has_alarm(record: EstimateRow) -> bool:
    """Return whether a fit's estimate predicts later rounds badly."""
    return bool((record.values.get("diagnostics") or {}).get("alarm"))
