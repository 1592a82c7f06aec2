"""GET /v1/sessions/{id}/series: rewards over time, and what the estimate makes them of.

What one answer reads is bounded: a constant number of statements, the rounds asked for, and for the
expectation at most `MOST_EARLIER` rounds before them.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from fastapi import Query

from clients.sdk.answers import By, PartsAnswer, SeriesAnswer
from lhb_engine.design.covariates import Covariates
from lhb_engine.design.products import products_of, with_products
from lhb_engine.estimate import Estimate
from lhb_engine.evaluation.credit import covariates_of, expected_rewards
from lhb_engine.history import FitWindow, Floats, Ints, Trajectory
from service.api.bins import BY, bins_of
from service.api.routes import SESSION, Routes
from service.base.field_types import NO_ZERO_BYTE
from service.rounds.closing import closing_of
from service.rounds.timeline import timeline_of
from service.session.records import SessionRow
from service.storage.reader import Reader
from service.writer.agent_cache import build_agent

router = Routes(SESSION, tags=["estimates"])
MOST_EARLIER = 50_000  # rounds before the window, of all trajectories, read for their lags
TOO_MANY = "What is expected is left out: too many earlier rounds would have to be read."
PARTS = tuple(PartsAnswer.__annotations__)
SPREAD, LEAST_SPREAD = (0.1, 0.9), 5  # quantiles of trajectories, and how many these need
TRAJECTORY = Query(
    None, max_length=256, pattern=NO_ZERO_BYTE, description="of this one alone; default: of all"
)


class Measured(NamedTuple):
    """Each measurement: its last round's position and number, its trajectory, rounds and value.

    `parts` (n, 6) is what the estimate makes it of.
    """

    position: Ints
    round: Ints
    trajectory: Ints
    n_rounds: Ints
    value: Floats
    parts: Floats


@router.read("/series", "Rewards over time, and what they are made of", SeriesAnswer)
def get_series(
    reader: Reader,
    session: SessionRow,
    rounds: int = Query(2000, ge=1, le=100_000, description="of the session, the last ones"),
    bins: int = Query(100, ge=1, le=1000, description="items, at most"),
    by: By = BY,
    trajectory: str | None = TRAJECTORY,
    brief: bool = Query(False, description="rewards only: all else is null, and costs nothing"),
) -> dict[str, Any]:
    """Summarise the session's last rounds, all trajectories together, in bins.

    `reward` is the mean reward of a measured round, `expected` what the estimate in use expects of
    the same rounds, `explored` the share of the agent's own choices that were not greedy. `parts`
    add up to `expected`; `spread` has the quantiles 0.1 and 0.9 of trajectories' means. A value
    over a span counts in the bin of its last round. `arrivals` says how long the values took to
    come; one is late if it came after its trajectory's next round had begun. Where there is a
    clock, rounds are slots, and `explored` and `arrivals` are null.
    """
    timeline = timeline_of(session)
    last = timeline.n_begun(session)
    first = max(1, last - rounds + 1)
    summary: dict[str, Any] = {"first_round": first, "last_round": last, "items": []}
    summary |= {"alarm": None, "reason": None, "arrivals": None, "bin_seconds": None}
    if last == 0:
        return summary
    estimate = None if brief else _estimate_in_use(reader, session)
    if estimate is not None:
        summary["alarm"] = (estimate["diagnostics"] or {}).get("alarm")
        n_lags = len(estimate["lag_weights"])
        if timeline.n_earlier(session, n_lags, last - first + 1) > MOST_EARLIER:
            estimate, summary["reason"] = None, TOO_MANY
    place = reader, session.key, first, last
    taken = [] if brief and by == "position" else timeline.taken(*place)
    measured = _measured(reader, session, first, last, estimate, trajectory)
    numbers = measured.round if by == "round" else measured.position
    ends = first, last
    if by == "round":
        ends = (int(numbers.min()), int(numbers.max())) if len(numbers) else (1, 0)
    cut = bins_of(timeline, by, bins, ends, taken)
    summary["bin_seconds"] = cut.seconds

    def sums(of: Any, places: Any = numbers) -> Any:
        return np.histogram(places, cut.edges, weights=of)[0]

    n, n_bins = sums(measured.n_rounds).astype(np.int64), len(cut.edges) - 1
    expected: list[float | None] = [None] * n_bins
    parts: list[dict[str, float] | None] = [None] * n_bins
    if estimate is not None:
        means = (np.array([sums(one) for one in measured.parts.T]) / np.maximum(n, 1)).T
        named = [dict(zip(PARTS, row, strict=True)) for row in means.tolist()]
        parts = [one if n[i] else None for i, one in enumerate(named)]
        expected = [float(row.sum()) if n[i] else None for i, row in enumerate(means)]
    chosen = () if brief or by == "round" else taken
    choices = np.array([(place, one) for place, _, one in chosen if one is not None], int)
    shares: list[float | None] = [None] * n_bins
    if len(choices):
        shares = _mean(sums(choices[:, 1], choices[:, 0]), sums(None, choices[:, 0]))
    reward, spread = _mean(sums(measured.value), n), _spread(cut.edges, numbers, measured)
    summary["items"] = [
        place
        | {
            "n_measured": int(n[i]),
            "reward": reward[i],
            "expected": expected[i],
            "explored": shares[i],
            "parts": parts[i],
            "spread": spread[i],
        }
        for i, place in enumerate(cut.places())
    ]
    arrivals = [] if brief else timeline.arrivals(*place)
    if arrivals:
        seconds = np.maximum(0.0, np.array([one for one, _ in arrivals]))
        median, nine_tenths = np.quantile(seconds, [0.5, 0.9]).tolist()
        summary["arrivals"] = {
            "n_values": len(arrivals),
            "n_late": sum(bool(is_late) for _, is_late in arrivals),
            "median_seconds": median,
            "nine_tenths_seconds": nine_tenths,
            "longest_seconds": float(seconds.max()),
        }
    return summary


def _estimate_in_use(reader: Reader, session: SessionRow) -> dict[str, Any] | None:
    record = reader.installed(session)
    if record is None:
        return None
    estimate = record.values
    weights = Estimate.from_json(estimate).pays
    paying = np.flatnonzero(weights.reshape(len(weights), -1).any(axis=1))  # lags beyond do not
    then = session.at_revision(record.inputs["revision"])
    paid = {"lag_weights": weights[: 1 + max(paying, default=0)]}
    return {**estimate, **paid, "told": build_agent(then, None).covariates}


def _measured(
    reader: Reader,
    session: SessionRow,
    first: int,
    last: int,
    estimate: dict[str, Any] | None,
    trajectory: str | None,
) -> Measured:
    """Return the measurements; in sum mode, the values of a round are one."""
    n_lags = 1 if estimate is None else len(estimate["lag_weights"])
    window = FitWindow(1, first, last, n_lags, last)
    past = timeline_of(session).past(reader, session, window, None, takes_kept=True)
    history = past.measured() if estimate is None else past.whole()
    told = Covariates() if estimate is None else estimate["told"]
    history = told.told(history)
    if estimate is not None:
        history = with_products(history, products_of(estimate.get("products")))
    none = np.zeros(0, np.int64)
    pieces = [Measured(none, none, none, none, np.zeros(0), np.zeros((0, len(PARTS))))]
    whose: dict[str, int] = {}
    for key, one in history.trajectories.items():
        number = whose.setdefault(key, len(whose))
        if trajectory is not None and key != trajectory:
            continue
        part = replace(one, measurements=closing_of(session).added(one.measurements))
        of = part.measurements
        made = np.zeros((len(of), len(PARTS)))
        if estimate is not None:
            made = _parts(part, estimate, told, session.kind.sizes.stretch(session.horizon))
        positions, n_rounds = part.numbering[of.last - part.first_round], of.last - of.first + 1
        numbers = np.full(len(of), number)
        pieces.append(Measured(positions, of.last, numbers, n_rounds, of.value, made))
    return Measured(*map(np.concatenate, zip(*pieces, strict=True)))


def _parts(
    part: Trajectory, estimate: dict[str, Any], told: Covariates, stretch_rounds: int
) -> Floats:
    """Return what the estimate makes each measurement of, (n, 6): see `PartsAnswer`."""
    measured, base = part.measurements, estimate["intercept"] or 0.0
    n_rounds = measured.last - measured.first + 1
    made: dict[str, Floats] = dict.fromkeys(PARTS, np.zeros(len(measured)))
    made["base"] = base * n_rounds.astype(np.float64)
    theta = np.array(estimate["theta"])
    made["actions"] = expected_rewards(part, theta, estimate["lag_weights"])
    effects = (estimate.get("effects") or {}).get("values")
    if effects is not None and part.covariates is not None:
        beside = covariates_of(part)[:, : len(effects)] * effects
        n, time = len(told.names), np.cumsum([len(told.names), *told.time_groups])
        trend = int(time[len(told.time_groups) - bool(told.trend) - bool(told.means)])
        shared = trend + bool(told.trend)
        for name, columns in (
            ("covariates", np.delete(beside, np.s_[n:shared], axis=1)),
            ("season", beside[:, n:trend]),
            ("trend", beside[:, trend:shared]),
        ):
            made[name] = columns.sum(axis=1)
    spread = (estimate.get("levels") or {"spread": 0.0})["spread"]
    rest = measured.value - np.sum([*made.values()], axis=0)
    stretch = measured.last // stretch_rounds
    # what a random intercept of each stretch is, given these rewards
    within = np.bincount(stretch, n_rounds) * spread**2 + (estimate.get("sigma_hat") or 1.0) ** 2
    intercepts = np.bincount(stretch, rest) * spread**2 / within
    made["levels"] = n_rounds * intercepts[stretch]
    return np.column_stack([made[name] for name in PARTS])


def _spread(edges: Ints, numbers: Ints, measured: Measured) -> list[list[float] | None]:
    """Return quantiles of trajectories' mean rewards in each bin; None where these are too few."""
    ends: list[list[float] | None] = [None] * (len(edges) - 1)
    if len(np.unique(measured.trajectory)) < LEAST_SPREAD:
        return ends
    place = np.searchsorted(edges, numbers, "right") - 1
    width = int(measured.trajectory.max()) + 1
    pairs, whose = np.unique(place * width + measured.trajectory, return_inverse=True)
    means = np.bincount(whose, measured.value) / np.bincount(whose, measured.n_rounds)
    starts = np.searchsorted(pairs // width, np.arange(len(edges)))
    for i, (start, stop) in enumerate(pairwise(starts.tolist())):
        if stop - start >= LEAST_SPREAD:
            ends[i] = np.quantile(means[start:stop], SPREAD).tolist()
    return ends


def _mean(sums: Floats, counts: Ints) -> list[float | None]:
    return [float(s) / int(n) if n else None for s, n in zip(sums, counts, strict=True)]
