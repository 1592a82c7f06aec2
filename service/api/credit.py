"""GET /v1/sessions/{id}/credit: what past decisions earned and will earn, each, and by feature."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import Query

from clients.sdk.answers import (
    By,
    CreditAnswer,
    CreditByArmAnswer,
    CreditByFeatureAnswer,
    Deciding,
    OneChoiceAnswer,
)
from lhb_engine.design.products import products_of, widened
from lhb_engine.estimate import Estimate, first_lags
from lhb_engine.evaluation.credit import (
    credit,
    credit_by_arm,
    credit_by_feature,
    why_no_credit,
    worth_interval,
)
from lhb_engine.history import Floats, Ints
from service.api.answer_models import CURSOR, LIMIT, cut, members_of, page, page_of
from service.api.bins import BY, Bins, bins_of, of_numbers
from service.api.routes import SESSION, Routes
from service.api.trajectories import TRAJECTORY, meant_trajectory
from service.fits.fit_row import row_in_use
from service.rounds.offered_arms import arm_of, offered_arms
from service.rounds.stored_rows import last_decisions
from service.rounds.timeline import timeline_of
from service.session.names import counted_labels
from service.session.records import DecisionRow, SessionRow
from service.storage.giving_way import giving_way
from service.storage.reader import ChosenArm, Reader
from service.writer.agent_cache import deciding

router = Routes(SESSION, tags=["estimates"])
MOST_ARMS = 50  # that are told apart: those chosen most
LAST = Query(2000, ge=1, le=100_000, description="decisions of the session, the last")


@router.read(
    "/credit",
    "List each decision's share in past and future rewards",
    page_of(CreditAnswer, model_version=int, deciding=Deciding),
)
def get_credit(
    reader: Reader,
    session: SessionRow,
    trajectory: str | None = TRAJECTORY,
    cursor: str = CURSOR,
    limit: int = LIMIT,
) -> dict[str, Any]:
    """List each decision's expected share in past and future rewards, by the estimate in use.

    `earned` is the decision's context times theta times the sum of the lag weights up to the
    current round; `to_come` is the same with the sum of the remaining lag weights. Where features
    have lag profiles of their own, these take the place of theta times the lag weights. Both are
    null if no estimate is in use, or if the estimate does not identify the lags that pay; `reason`
    says why.
    """
    key = (*session.key, meant_trajectory(reader, session, trajectory))
    decisions = reader.decisions(key, int(cursor), limit + 1)
    row = reader.trajectory(key)
    n_rounds = 0 if row is None else row.n_rounds
    estimate, reason, pays = _in_use(reader, session)
    shown, following = cut(decisions, limit, lambda decision: decision.round)
    if shown:
        ends = shown[0].round, shown[-1].round
        void = {one.round for one in reader.voids_of(key, *ends)}
        shown = [one._replace(context=b"") if one.round in void else one for one in shown]
    rounds, times = np.array([(one.round, one.at) for one in shown]).reshape(-1, 2).T
    passed = timeline_of(session).lags_passed(session, rounds.astype(int), times, n_rounds)
    earned = to_come = [None] * len(shown)
    if pays is not None:
        theta = np.array(estimate["theta"])
        products = products_of(estimate.get("products"))
        contexts = widened(_contexts(shown, session.dim), products)
        shares = credit(contexts, passed, theta, pays)
        earned, to_come = (one.tolist() for one in shares)
    items = [
        {
            **members_of(CreditAnswer, decision),
            "earned": earned[i],
            "to_come": to_come[i],
            "reason": reason,
            "n_lags_passed": int(passed[i]),
        }
        for i, decision in enumerate(giving_way(shown))
    ]
    return {**page(items, following), **decides(reader, session)}


@router.read(
    "/credit/features", "What each feature earned at once and later", CreditByFeatureAnswer
)
def get_earnings(reader: Reader, session: SessionRow, rounds: int = LAST) -> dict[str, Any]:
    """Say what each feature of the session's last decisions earned, all trajectories together.

    A feature's share is what its values paid beside decisions that have 0 in its place, by the
    estimate in use. `at_once` is paid within its `first_lags`, `later` after them; `earned` so far,
    `to_come` still. The first lags are those up to which what it pays adds up most to the other
    side of its total, at least the decision's own round. `intervals` need lag profiles of features'
    own, and intervals of these. Products that count have items after those of the features.
    """
    estimate, reason, pays = _in_use(reader, session)
    items: list[dict[str, Any]] = []
    if pays is not None:
        timeline, parts = timeline_of(session), [np.zeros((0, session.dim + 1))]
        for numbers, times, contexts in last_decisions(reader, session, rounds):
            passed = timeline.lags_passed(session, numbers, times, int(numbers[-1]))
            parts.append(np.column_stack([contexts, passed]))
        decisions = np.concatenate(parts)
        products = products_of(estimate.get("products"))
        contexts, n_passed = widened(decisions[:, :-1], products), decisions[:, -1].astype(int)
        profiles = _profiles(estimate, pays)
        by_feature, named = credit_by_feature(contexts, n_passed, profiles), session.names.columns
        names = counted_labels(named, session.dim, products)
        unnamed = range(len(named), session.dim)
        bands, total = (estimate.get("intervals") or {}).get("lag_sums"), contexts.sum(axis=0)
        totals, ones = estimate.get("totals"), np.eye(len(names))
        for i, n in enumerate(first_lags(profiles).tolist()):
            item = {"feature": i, "name": None if i in unnamed else names[i], "first_lags": n}
            intervals = None
            if bands is not None:
                shown = np.sort(np.multiply(bands[i], total[i])).tolist()
                intervals = dict(zip(("at_once", "later", "in_all"), shown, strict=True))
                if totals is not None:  # as what an arm pays has them
                    ends = worth_interval(totals, ones[i])
                    intervals["in_all"] = ends and sorted(np.multiply(ends, total[i]).tolist())
            split = {name: float(values[i]) for name, values in by_feature.items()}
            items.append(item | split | {"intervals": intervals})
    return {
        "first_round": max(1, session.n_rounds - rounds + 1),
        "last_round": session.n_rounds,
        "items": items,
        "reason": reason,
        "form": estimate.get("form"),
        **decides(reader, session),
    }


@router.read("/credit/arms", "Which arms were chosen, and what each earned", CreditByArmAnswer)
def get_arms(
    reader: Reader,
    session: SessionRow,
    rounds: int = LAST,
    bins: int = Query(60, ge=1, le=1000, description="of these decisions, at most"),
    by: By = BY,
) -> dict[str, Any]:
    """Say how often each arm was chosen in the session's last decisions, and what it earned.

    Arms are told apart by id, without one by place; the 50 chosen most are listed, and those that
    were offered only. `one` is what one choice pays with the `context` that the arm is offered with
    on average, where arms keep their places, else chosen with; `is_fixed` says whether all are
    alike. `at_once`, `later`, `earned` and `to_come` are sums over an arm's decisions, as in
    `/credit/features`. Sums are null where `reason` says why, and intervals where `no_intervals`
    does. Products that count stand after the features in a `context`. `shares` has the arm's share
    of the decisions of each bin; `players` says what a decision of the agent pays on average, and
    of the others who chose. Voids count nowhere.
    """
    first = max(1, session.n_rounds - rounds + 1)
    pieces = reader.chosen(session.key, first, session.n_rounds) if session.n_rounds else ()
    rows = list(giving_way(pieces))  # in order of trajectories and rounds
    last = {one.trajectory: one.round for one in rows}
    chosen = [one for one in rows if session.has(one.trajectory) and not one.is_void]
    counts = Counter(arm_of(one) for one in chosen)
    offered = offered_arms(reader, session, first, chosen)
    counts.update(dict.fromkeys(offered, 0))
    arms = {arm: i for i, (arm, _) in enumerate(counts.most_common(MOST_ARMS))}
    numbers = np.array([arms.get(arm_of(one), len(arms)) for one in chosen], np.int64)
    estimate, reason, pays = _in_use(reader, session)
    products = products_of(estimate.get("products"))
    own_contexts, width = _contexts(chosen, session.dim), session.dim + len(products)
    contexts = widened(own_contexts, products)
    seen = [
        widened(np.array(offered.get(arm, own_contexts[numbers == i])), products)
        for arm, i in arms.items()
    ]
    means = np.array([some.mean(axis=0) for some in seen]).reshape(-1, width)
    players = Counter(one.by for one in chosen)
    whose = np.array([one.by for one in chosen])
    played = np.array([contexts[whose == name].mean(axis=0) for name in players])
    played = played.reshape(-1, width)
    split: dict[str, Floats] = {}
    ones: list[OneChoiceAnswer] = []
    totals = None
    if pays is not None and chosen:
        profiles = _profiles(estimate, pays)
        since = np.array([one.round - last[one.trajectory] for one in chosen], np.int64)
        times = np.array([one.at for one in chosen])
        passed = timeline_of(session).lags_passed(session, since, times, 0)
        split = credit_by_arm(contexts, passed, profiles, numbers, len(arms))
        totals = estimate.get("totals")
        all_means = np.concatenate([means, played])
        each = np.arange(len(all_means))
        paid = credit_by_arm(all_means, np.ones_like(each), profiles, each, len(each))
        for now, later, one in zip(paid["at_once"], paid["later"], all_means, strict=True):
            in_all = float(now + later)
            ones.append(
                {
                    "at_once": float(now),
                    "later": float(later),
                    "in_all": in_all,
                    "interval": _around(in_all, totals, one),
                }
            )
    cut, shares = _shares(session, by, bins, chosen, numbers, len(arms))
    items: list[dict[str, Any]] = []
    for arm, i in arms.items():
        own = contexts[numbers == i]
        sums = {name: float(split[name][i]) if split else None for name in EARNED}
        in_all = sum(sums[name] or 0.0 for name in ("at_once", "later"))
        item: dict[str, Any] = {"arm_id": arm[0], "arm": arm[1], "n": counts[arm], **sums}
        item["one"] = ones[i] if ones else None
        item["in_all_interval"] = _around(in_all, totals, own.sum(axis=0))
        item["context"] = means[i].tolist()
        item["is_fixed"] = not np.ptp(np.concatenate([own, seen[i]]), axis=0).any()
        items.append(item | {"shares": shares[i].tolist()})
    unknown = estimate.get("no_totals") or (SHARED if totals else NO_BAND)
    return {
        "first_round": first,
        "last_round": session.n_rounds,
        "n_others": len(chosen) - sum(item["n"] for item in items),
        "bins": cut.places(),
        "items": items,
        "players": [
            {"by": name, "n": n, "one": ones[len(arms) + i] if ones else None, "context": context}
            for i, ((name, n), context) in enumerate(
                zip(players.items(), played.tolist(), strict=True)
            )
        ],
        "reason": reason,
        "no_intervals": unknown if any(one["interval"] is None for one in ones) else None,
        **decides(reader, session),
    }


SHARED = "What arms have in common cannot be told from the base: only how they differ is known."
NO_BAND = "The estimate says nothing of how sure it is."
EARNED = ("at_once", "later", "earned", "to_come")


def _around(
    value: float, totals: dict[str, Any] | None, contexts: Floats
) -> tuple[float, float] | None:
    """Return the interval of what contexts pay in all, with the value that is said in it."""
    interval = None if totals is None else worth_interval(totals, contexts)
    return interval and (min(interval[0], value), max(interval[1], value))


def _shares(
    session: SessionRow, by: By, n: int, chosen: list[ChosenArm], numbers: Ints, n_arms: int
) -> tuple[Bins, Floats]:
    """Return bins of decisions, and the share of each arm in each bin, (n_arms, n_bins)."""
    if not chosen:
        return of_numbers(1, 0, n), np.zeros((n_arms, 0))
    place = np.array([one.round if by == "round" else one.position for one in chosen], np.int64)
    ends = int(place.min()), int(place.max())
    taken = sorted((one.position, one.at) for one in chosen)
    cut = bins_of(timeline_of(session), by, n, ends, taken)
    counts = [np.histogram(place[numbers == i], cut.edges)[0] for i in range(n_arms)]
    return cut, np.stack(counts) / np.maximum(np.histogram(place, cut.edges)[0], 1)


def decides(reader: Reader, session: SessionRow) -> dict[str, Any]:
    """Return the members of an answer that say what decides."""
    return {"model_version": session.model_version, "deciding": deciding(reader, session)}


def _contexts(rows: Sequence[DecisionRow | ChosenArm], dim: int) -> Floats:
    """Return the contexts that were chosen, (n, dim); 0 in a round without action."""
    none = bytes(8 * dim)
    chosen = b"".join(one.context[: len(none)] or none for one in rows)
    return np.frombuffer(chosen).reshape(-1, dim)


def _profiles(estimate: dict[str, Any], pays: Floats) -> Floats:
    """Return phi, (n_lags, dim)."""
    return np.outer(pays, estimate["theta"]) if pays.ndim == 1 else pays


def _in_use(
    reader: Reader, session: SessionRow
) -> tuple[dict[str, Any], str | None, Floats | None]:
    """Return the estimate in use, why it gives no credit, and if it does what actions pay."""
    record = row_in_use(reader, session)
    if record is None:
        return {}, "No estimate is in use.", None
    estimate = Estimate.from_json(record.values)
    reason = why_no_credit(estimate, session.horizon)
    return record.values, reason or None, None if reason else estimate.pays
