"""A copy of a session with other settings, as a file that an import reads.

The copy has the rounds, rewards and void decisions of its source, and none of its estimates: other
settings may mean another model. One fit of all rounds is due at once.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.agents.fit_cost import FitCost
from service.commands.sessions import checked_agent
from service.fits.cost import refuse_costly
from service.rounds.timeline import timeline_of
from service.session.covariates import names_of_covariates
from service.session.fit_schedule import DueFit, DueReason, Schedule, Watermark
from service.session.kept_contexts import may_be_kept
from service.session.names import after_choice, check_names, fill_repetition
from service.session.records import UNCHANGED, SessionRow
from service.session.rules import COPIES
from service.storage.reader import Reader
from service.transfer.file_format import records, written

NOT_COPIED = ("agent", "estimate", "lift", "unit")  # records
WORKED_OUT = ("products", "repetition")  # settings of columns


def copied_session(
    source: SessionRow, body: Mapping[str, Any], allow_oracles: bool, allowed: FitCost, now: float
) -> tuple[SessionRow, Agent]:
    """Return the copy, without an id, and its agent before any fit.

    `body` are settings that the copy has instead of its source's, `allowed` what a fit may cost.
    Raises 422 naming the field.
    """
    settings = {name: value for name, value in body.items() if name != "name"}
    request = {**json.loads(source.request), **settings, "name": body.get("name")}
    plain = {name: value for name, value in settings.items() if name not in WORKED_OUT}
    names, dim = source.names, source.dim
    if settings.keys() & {*WORKED_OUT}:  # other columns to work out
        products = settings.get("products", names.products) or ()
        names = names.working_out(products, settings.get("repetition", names.repetition) or 0)
        dim += len(names.worked_out) - len(source.names.worked_out)
        if names.text is not None:
            check_names(json.loads(names.text), dim)
    plain |= {"name": body.get("name"), "request": json.dumps({**request, "dim": dim})}
    copy = replace(source, **plain, names=names, dim=dim)
    agent = checked_agent(copy, allow_oracles, settings, source, COPIES)
    refuse_costly(copy, allowed)
    if source.dropped_to:  # sums of slots stand for dropped rounds
        copy.trial = copy.trial.anew(timeline_of(copy).begun(copy))
    # its rounds come before its options: no window of theirs is to be fitted one by one
    changes = UNCHANGED.with_one(copy.n_rounds, copy.options) if copy.n_rounds else UNCHANGED
    due = _fit_of_all(copy, agent, now)
    waiting = [] if due is None else [due]
    schedule = Schedule(waiting=waiting, n_slots=source.schedule.n_slots)
    return replace(copy, changes=changes, schedule=schedule, created_at=now), agent


def _fit_of_all(copy: SessionRow, agent: Agent, now: float) -> DueFit | None:
    """Return the fit that is due at once; None if there is nothing to fit."""
    n_begun = timeline_of(copy).n_begun(copy)
    if n_begun == 0 or copy.n_measurements == 0:
        return None
    reason: DueReason = "asked"
    window = agent.fit_now(n_begun)
    if window is None:
        passed = takewhile(lambda one: one.due <= n_begun, agent.windows())
        window, reason = max(passed, key=lambda one: one.due, default=None), "overdue"
    if window is None:
        return None
    closed_at = now - copy.reward_wait_seconds
    mark = Watermark(copy.n_measurements, copy.n_rounds, closed_at, revision=1)
    return DueFit(window, mark, reason, now)


def copy_session(
    reader: Reader, source: SessionRow, copy: SessionRow, agent: Agent
) -> Iterator[bytes]:
    """Yield the lines of the copy's file, each with its newline.

    A decision stays as it was taken, but counts as one that something else made: the copy's agent
    did not choose it. Its score is that agent's.
    """
    return written(_records(reader, source, copy, agent))


def _records(
    reader: Reader, source: SessionRow, copy: SessionRow, agent: Agent
) -> Iterator[dict[str, Any]]:
    names, last, lately = names_of_covariates(copy), None, None
    for record in records(reader, source, copy):
        record.pop("late", None)  # the copy has no sums: a value stands in its round's place
        values = record.get("covariates")
        if values is not None:  # a copy may have others
            kept = {name: value for name, value in values.items() if name in names}
            record["covariates"] = kept or None
        if record["record"] == "decision":
            if copy.names != source.names:
                same, last = last == record["trajectory"], record["trajectory"]
                lately = _work_out(record, source, copy, lately if same else None)
            if record["arm"] is not None:
                place = (record[n] for n in ("trajectory", "round", "position", "at"))
                draw = timeline_of(copy).draw(copy.seed, *place)
                scores = [0.0] * len(record["scores"])
                score = agent.ranking(np.array([record["context"]]), draw)[0]
                scores[record["arm"]] = float(score)
                record |= {"forced": True, "scores": scores}
            record.pop("own", None)
            by_another = {"played_by": None, "agent_arm": None, "propensity": None}
            yield {**record, **by_another, "explored": False, "model_version": 0}
        elif record["record"] not in NOT_COPIED:
            yield record


def _work_out(
    record: dict[str, Any], source: SessionRow, copy: SessionRow, lately: bytes | None
) -> bytes | None:
    """Give a decision the columns that the copy works out.

    `lately` is what its trajectory keeps of the choices before, where there is a column of
    repetition; returned is what the trajectory keeps then.
    """
    names, sets, chosen = copy.names, record["contexts"], record["context"]
    record.pop("mean", None)  # that of a product follows from all arms alone
    if chosen:
        features = np.delete([chosen, *(sets or ())], source.names.worked_out, axis=1)
        contexts = names.whole(features)
        if names.repetition:
            fill_repetition(names, contexts, lately)
        record["context"], arms = contexts[0].tolist(), contexts[1:]
        kept = sets is not None and may_be_kept(copy, len(arms), record["position"])
        record["contexts"] = arms.tolist() if kept else None
        record |= {"mean": arms.mean(axis=0).tolist()} if kept and len(arms) > 1 else {}
    if not names.repetition:
        return None
    return after_choice(names, lately, np.array(record["context"]).tobytes(), copy.dim)
