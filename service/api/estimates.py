"""GET of a session's estimates, and of its schedule of fits."""

from typing import Any

from clients.sdk.answers import (
    AskedFitAnswer,
    EpochAnswer,
    EstimateAnswer,
    FitAnswer,
    NoEstimateAnswer,
)
from lhb_engine.findings.finding import checked_said
from lhb_engine.posterior.own_responses import spread_in_words
from service.api.answer_models import CURSOR, LIMIT, cut, members_of, page, page_of, timestamp
from service.api.routes import SESSION, Call, Routes
from service.api.sessions import features_of_theta
from service.commands.out_of_turn import ask_fit
from service.fits.fit_row import findings_of, last_estimated, row_in_use
from service.rounds.timeline import timeline_of
from service.session.fit_schedule import DueFit
from service.session.records import EstimateRow, SessionRow
from service.storage.giving_way import giving_way
from service.storage.reader import Reader
from service.writer.agent_cache import build_agent, deciding

router = Routes(SESSION, tags=["estimates"])
NO_WORKER = "no worker runs: the fit begins when one does (lhb worker)"


def estimate_answer(
    reader: Reader, session: SessionRow, record: EstimateRow, is_in_use: bool
) -> dict[str, Any]:
    """Return the members of `FitAnswer`; `is_in_use`: decisions are made by this estimate now."""
    estimate, manifest = record.values, record.inputs
    if estimate.get("effects"):
        then = session.at_revision(manifest["revision"])
        labels = build_agent(then, None).covariates.labels
        estimate["effects"]["groups"] = list(labels[: len(estimate["effects"]["included"])])
    if estimate.get("levels"):  # what rounds of one level have in common lasts no longer than it
        diagnostics = {**estimate["diagnostics"], "autocorrelation": 0.0}
        diagnostics["intraclass_correlation"] = estimate["diagnostics"]["autocorrelation"]
        estimate["diagnostics"] = diagnostics
    if estimate.get("forms"):  # what they predict by is for the next fit
        members = ("excess", "variance")
        forms = {name: {k: form[k] for k in members} for name, form in estimate["forms"].items()}
        estimate["forms"] = forms
    if estimate.get("own"):
        theta = estimate["theta"] or [0.0] * session.dim
        message = spread_in_words(estimate["own"], theta, session.names.columns)
        estimate["own"] = {**estimate["own"], "message": message}
    if estimate.get("findings"):
        estimate["findings"] = findings_of(reader, session, record)
    return {
        **estimate,
        **members_of(FitAnswer, record),
        "window": manifest["window"],
        "attempts": manifest["attempts"],
        "in_use": is_in_use,
    }


# checks of several trajectories, and the option with which there is nothing to look for
OF_SEVERAL = {
    "levels_differ": "levels",
    "responses_differ": "own",
    "trajectories_end": "",
    "rewards_of_others": "",
}


@router.read(
    "/estimate", "The estimate in use: theta and lag weights", EstimateAnswer | NoEstimateAnswer
)
def get_estimate(reader: Reader, session: SessionRow) -> dict[str, Any]:
    """Return the estimate that decisions are made by.

    Status is "none" if there is no estimate yet. `findings` are those of the last fit, whether it
    gave an estimate or not, `unchecked` the checks that it could not make, and `checked` says which
    it made and found nothing; null where there is no such fit, or the algorithm makes no checks.
    `features` says what the numbers of `theta` are: features, then `products` that count.
    """
    checks: dict[str, Any] = {"findings": [], "unchecked": [], "checked": None}
    checks["deciding"] = deciding(reader, session)
    last = last_estimated(reader, session, session.n_estimates)
    if last is not None:
        findings, unchecked = findings_of(reader, session, last), last.values.get("unchecked") or []
        one = session.n_trajectories < 2
        not_made = {code for check in unchecked for code in check["codes"]}
        not_made |= {n for n, option in OF_SEVERAL.items() if one or session.options.get(option)}
        not_made |= {finding["code"] for finding in findings}
        checks |= {"findings": findings, "unchecked": unchecked}
        if session.kind.makes_checks():
            checks["checked"] = checked_said(not_made)
    record = row_in_use(reader, session)
    if record is None:
        return {"status": "none", **checks}
    return {
        **estimate_answer(reader, session, record, is_in_use=True),
        **checks,
        "slot_seconds": timeline_of(session).slot_seconds,
        "features": features_of_theta(session, record.values),
    }


@router.read("/estimates", "List fits", page_of(FitAnswer))
def get_estimates(
    reader: Reader, session: SessionRow, cursor: str = CURSOR, limit: int = LIMIT
) -> dict[str, Any]:
    """List fits in order, including failed and skipped ones and those with estimate zero."""
    records = reader.estimates(session.key, int(cursor), limit + 1)
    shown, following = cut(records, limit, lambda record: record.number)
    in_use = session.estimate
    items = [estimate_answer(reader, session, r, r.number == in_use) for r in giving_way(shown)]
    return page(items, following)


@router.serve("POST /fits", "Ask for a fit now", AskedFitAnswer, 202, 200, 409)
async def post_fit(call: Call, session_id: str) -> tuple[dict[str, Any], int]:
    """Make a fit of all rounds so far due (202), unless one is due or nothing is new (200).

    The fit waits for no reward. A repeat while a fit is due, or runs, begins no other fit.
    """
    await call.refuse_body("asking for a fit")
    service = call.service
    outcome, due = await call.submit(ask_fit((call.tenant, session_id), service.agents))
    answer: dict[str, Any] = {"asked": outcome, "fit": due and _due_answer(due, "due")}
    if due is not None and (await service.read(service.fits.queue)).n_workers == 0:
        answer["reason"] = NO_WORKER
    return answer, 202 if outcome == "begun" else 200


def _due_answer(due: DueFit, status: str) -> dict[str, Any]:
    window = {"epoch": due.window.epoch, "window": vars(due.window)}
    return {**members_of(EpochAnswer, due), **window, "status": status}


@router.read("/epochs", "List the schedule of fits", page_of(EpochAnswer))
def get_epochs(
    reader: Reader, session: SessionRow, cursor: str = CURSOR, limit: int = LIMIT
) -> dict[str, Any]:
    """List the fits that are done, then those that are due, then those to come."""
    records = reader.estimates(session.key, int(cursor), limit + 1)
    shown, following = cut(records, limit, lambda record: record.number)
    items: list[dict[str, Any]] = []
    for record in shown:
        why = {"window": record.inputs["window"], "due_reason": record.inputs["reason"]}
        items.append(members_of(EpochAnswer, record) | why)
    if following is None:
        schedule = session.schedule
        items += [] if schedule.current is None else [_due_answer(schedule.current, "fitting")]
        items += [_due_answer(due, "due") for due in schedule.waiting]
        n_begun = timeline_of(session).n_begun(session)
        for one in schedule.open:
            window, n_complete = one.window, session.n_complete_of(one)
            items.append(
                {
                    "epoch": window.epoch,
                    "status": "waiting_for_rewards" if n_begun >= window.due else "open",
                    "window": vars(window),
                    "n_complete": n_complete,
                    "n_missing": window.last - window.first + 1 - n_complete,
                    "overdue_at": timestamp(one.overdue_at),
                }
            )
    return page(items, following)
