"""Replay: recompute a session's stored decisions and estimates, and compare.

A decision is chosen again from its stored scores and its round's own random numbers, and its
context is scored again by the estimate that was in use. Both must be bit-equal on any machine. An
estimate is fitted again from its manifest. It must be bit-equal under the same fingerprint of
libraries and CPU, else equal within 1e-9 relative to its largest number.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, Ints
from service.fits.job import fingerprint
from service.fits.prepared_fit import answered, read_fit
from service.fits.warm_start import EstimateInUse
from service.rounds.retention import rounds_left
from service.rounds.stored_rows import gaps_of
from service.rounds.timeline import timeline_of
from service.session.fit_schedule import Watermark
from service.session.records import DecisionRow, EstimateRow, SessionRow
from service.session.trial import Shown, shown_again
from service.storage.reader import FOR_EVER, Reader
from service.writer.agent_cache import build_agent

TOLERANCE = 1e-9
NOT_COMPARED = ("seconds",)  # members of an estimate that differ between runs


@dataclass(slots=True)
class SessionReplay:
    """The result of a replay."""

    session_id: str
    name: str | None = None  # of the session
    tenant: str = ""
    # decisions, estimates: how many were recomputed
    decisions: int = 0
    estimates: int = 0
    # estimates with another fingerprint, which are compared within the tolerance
    estimates_from_elsewhere: int = 0
    # estimates that cannot be computed again: rows of theirs were erased, or dropped, since
    estimates_erased: int = 0
    estimates_dropped: int = 0
    dropped_to: int = 0  # the session's rounds up to this position are dropped, or about to be
    # one sentence per difference; empty if everything is equal
    differences: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values, with at most 100 differences."""
        answer = asdict(self)
        shown = answer.pop("differences")[:100]
        return {**answer, "equal": not shown, "differences": shown}


def replay_session(reader: Reader, session: SessionRow) -> SessionReplay:
    """Recompute all decisions and estimates of a session, as a snapshot of the database has it."""
    replay = SessionReplay(session.id, session.name, session.tenant, dropped_to=session.dropped_to)
    agent, gaps = build_agent(session, None), gaps_of(reader, session)
    states = {0: agent.state()}
    in_use = EstimateInUse()
    for record in reader.estimate_log(session.key):
        if record.estimate is None:
            continue
        stored, manifest = Estimate.from_json(record.values), record.inputs
        if in_use.is_left(session, manifest):
            then = session.at_revision(manifest.get("revision", 0))
            agent = in_use.anew(then, agent, manifest.get("n_erased", 0))
            in_use = replace(in_use, measured=None)
        if not agent.learns_within_epoch:
            replay.estimates += 1
            _refit(reader, session, agent, record, in_use.measured, stored, replay, gaps)
        agent.install(stored)
        has_direction = stored.theta is not None
        in_use = in_use.after(session, record.number, manifest, has_direction=has_direction)
        states[record.model_version] = agent.state()

    @cache
    def agent_of(version: int, revision: int) -> Agent | None:
        state = states.get(version)
        return None if state is None else build_agent(session.at_revision(revision), state)

    last = 0
    for trajectory in reader.trajectories(session.key):
        version, n_gone = 0, trajectory.n_rounds - rounds_left(reader, session, trajectory)
        rounds = n_gone
        for decision in reader.decision_log((*session.key, trajectory.key)):
            rounds += 1
            if decision.round != rounds or decision.model_version < version:
                replay.differences.append(f"{_name(decision)}: out of order")
            version = decision.model_version
            took = agent_of(version, session.changes.revision_of(decision.position))
            _decide_again(session, took, decision, replay)
        if rounds != trajectory.n_rounds:
            replay.differences.append(f"trajectory {trajectory.key!r}: rounds are missing")
        last += rounds - n_gone
    if last + session.n_gone != session.n_rounds:
        replay.differences.append("the session's rounds are not those of its trajectories")
    return replay


def _decide_again(
    session: SessionRow, agent: Agent | None, decision: DecisionRow, replay: SessionReplay
) -> None:
    replay.decisions += 1
    if agent is None:
        replay.differences.append(f"{_name(decision)}: no estimate {decision.model_version}")
        return
    scores, arm = np.frombuffer(decision.scores), decision.arm
    place = decision.trajectory, decision.round, decision.position, decision.at
    draw, choice = timeline_of(session).draw(session.seed, *place), None
    if arm is not None:
        if decision.own is not None:
            agent = agent.responding(np.frombuffer(decision.own))
        if not agent.learns_within_epoch:
            context = decision.selected(session.dim)
            score = agent.ranking(context[np.newaxis], draw)[0]
            if score != scores[arm]:
                replay.differences.append(f"{_name(decision)}: scored {score!r} now")
        choice = agent.choose_by(scores, draw)
    said = Shown(*(getattr(decision, name) for name in Shown._fields))
    again = shown_again(session.trial, draw, session.horizon, len(scores), said, choice)
    for name, now, then in zip(Shown._fields, again, said, strict=True):
        if now != then:
            replay.differences.append(f"{_name(decision)}: {name} is {now!r} now")


def _refit(
    reader: Reader,
    session: SessionRow,
    agent: Agent,
    record: EstimateRow,
    measured_before: int | None,
    stored: Estimate,
    replay: SessionReplay,
    gaps: Ints,
) -> None:
    manifest = record.inputs
    window, mark = FitWindow(**manifest["window"]), Watermark.from_json(manifest)
    if session.revision:
        session = session.at_revision(mark.revision)
        agent = build_agent(session, agent.state())
    arguments = reader, session, agent, window, mark, measured_before
    is_since = manifest.get("n_erased", 0) != session.n_erased_rows
    n_gone = timeline_of(session).n_gone(gaps, window) if is_since else 0
    made = answered(partial(read_fit, *arguments, again=manifest.get("anew", FOR_EVER)))
    if made.fit is None or made.answer is None:
        replay.estimates_dropped += 1
        return
    if n_gone and made.fit.kept is None and not made.fit.history.trajectories:
        replay.estimates_erased += 1
        return
    estimate, _ = made.answer
    again = estimate.to_json()
    known_names = record.values.keys()
    before = {name: value for name, value in stored.to_json().items() if name in known_names}
    is_exact = record.fingerprint == json.dumps(fingerprint())
    replay.estimates_from_elsewhere += not is_exact
    where = f"estimate {record.number} (epoch {record.epoch})"
    other = [
        f"{where}: {name} is {again[name]!r} now"
        for name in before
        if name not in NOT_COMPARED
        and not (before[name] == again[name] if is_exact else _is_close(before[name], again[name]))
    ]
    if other and n_gone:  # it was made from rows that were erased since
        replay.estimates_erased += 1
    else:
        replay.differences += other


def _is_close(before: Any, again: Any) -> bool:
    """Return whether values are equal, or numbers equal relative to the largest stored one."""
    try:
        a, b = np.array(before, dtype=np.float64), np.array(again, dtype=np.float64)
    except (TypeError, ValueError):
        return bool(before == again)
    if a.shape != b.shape:
        return False
    size = float(np.abs(a).max(initial=0.0))
    return bool(np.all(np.abs(a - b) <= TOLERANCE * size))


def _name(decision: DecisionRow) -> str:
    return f"decision {decision.event_id!r} of trajectory {decision.trajectory!r}"
