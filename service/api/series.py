"""GET /v1/sessions/{id}/series: rewards over time, beside what the estimate expects of them.

What one answer reads is bounded: a constant number of statements, the rounds asked for, and for the
expectation at most `MOST_EARLIER` rounds before them.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from fastapi import Query

from clients.sdk.answers import SeriesAnswer
from lhb_engine.estimate import Estimate
from lhb_engine.evaluation.credit import expected_rewards
from lhb_engine.history import FitWindow, Floats, Ints
from service.api.routes import SESSION, Routes
from service.rounds.closing import closing_of
from service.rounds.timeline import timeline_of
from service.session.records import SessionRow
from service.storage.reader import Reader
from service.writer.agent_cache import build_agent

router = Routes(SESSION, tags=["estimates"])
MOST_EARLIER = (
    50_000  # rounds before the window, over all trajectories, that are read for their lags
)
TOO_MANY = "What is expected is left out: too many earlier rounds would have to be read."
Columns = tuple[Ints, Ints, Floats, Floats]


@router.read("/series", "Rewards over time, beside what was expected", SeriesAnswer)
def get_series(
    reader: Reader,
    session: SessionRow,
    rounds: int = Query(2000, ge=1, le=100_000, description="of the session, the last ones"),
    bins: int = Query(100, ge=1, le=1000, description="items, of equally many rounds"),
    brief: bool = Query(False, description="rewards only: all else is null, and costs nothing"),
) -> dict[str, Any]:
    """Summarise the session's last rounds, all trajectories together, in bins of rounds.

    `reward` is the mean reward of a measured round, `expected` what the estimate in use expects of
    the same rounds, `explored` the share of decisions that were not greedy. A value over a span
    counts in the bin of its last round. `arrivals` says how long the values took to come; one is
    late if it came after its trajectory's next round had begun. Where there is a clock, rounds are
    slots, and `explored` and `arrivals` are null.
    """
    timeline = timeline_of(session)
    last = timeline.n_begun(session)
    first = max(1, last - rounds + 1)
    summary: dict[str, Any] = {"first_round": first, "last_round": last, "items": []}
    summary |= {"alarm": None, "reason": None, "arrivals": None}
    if last == 0:
        return summary
    estimate = None if brief else _estimate_in_use(reader, session)
    if estimate is not None:
        summary["alarm"] = (estimate["diagnostics"] or {}).get("alarm")
        n_lags = len(estimate["lag_weights"])
        if timeline.n_earlier(session, n_lags, last - first + 1) > MOST_EARLIER:
            estimate, summary["reason"] = None, TOO_MANY
    edges = np.unique(np.linspace(first, last + 1, bins + 1).astype(np.int64))
    place = reader, session.key, first, last
    explored = None if brief else timeline.explored(*place)
    columns = _measured(reader, session, first, last, estimate)
    summary["items"] = _items(edges, columns, explored, has_expected=estimate is not None)
    if not brief:
        summary["arrivals"] = _arrivals(timeline.arrivals(*place))
    return summary


def _estimate_in_use(reader: Reader, session: SessionRow) -> dict[str, Any] | None:
    record = reader.installed(session)
    if record is None:
        return None
    estimate = record.values
    weights = Estimate.from_json(estimate).pays
    paying = np.flatnonzero(weights.reshape(len(weights), -1).any(axis=1))  # lags beyond do not
    return {**estimate, "lag_weights": weights[: 1 + max(paying, default=0)]}


def _measured(
    reader: Reader, session: SessionRow, first: int, last: int, estimate: dict[str, Any] | None
) -> Columns:
    """Return of each measurement: position of its last round, its rounds, value, expectation.

    In sum mode, the values of a round are one measurement.
    """
    n_lags = 1 if estimate is None else len(estimate["lag_weights"])
    window = FitWindow(1, first, last, n_lags, last)
    past = timeline_of(session).past(reader, session, window, None, takes_kept=True)
    history = past.measured() if estimate is None else past.whole()
    history = build_agent(session, None).covariates.told(history)
    parts: list[Columns] = [(np.zeros(0, np.int64),) * 2 + (np.zeros(0),) * 2]
    for one in history.trajectories.values():
        part = replace(one, measurements=closing_of(session).added(one.measurements))
        measured = part.measurements
        expected = np.zeros(len(measured))
        if estimate is not None:
            theta, intercept = np.array(estimate["theta"]), estimate["intercept"] or 0.0
            effects = (estimate.get("effects") or {}).get("values")
            model = theta, estimate["lag_weights"], intercept, effects
            expected = expected_rewards(part, *model)
        positions = part.numbering[measured.last - part.first_round]
        parts.append((positions, measured.last - measured.first + 1, measured.value, expected))
    position, n_rounds, value, expectation = map(np.concatenate, zip(*parts, strict=True))
    return position, n_rounds, value, expectation


def _items(
    edges: Ints,
    columns: Columns,
    explored: list[tuple[int, bool]] | None,
    *,
    has_expected: bool,
) -> list[dict[str, Any]]:
    """Return the members of each `BinAnswer`."""
    position, n_rounds, value, expectation = columns
    n_bins = len(edges) - 1
    n = np.histogram(position, edges, weights=n_rounds)[0]
    expected: list[float | None] = [None] * n_bins
    if has_expected:
        expected = _mean(np.histogram(position, edges, weights=expectation)[0], n)
    shares: list[float | None] = [None] * n_bins
    if explored is not None:
        taken = np.array(explored, dtype=np.int64).reshape(-1, 2)
        n_taken = np.histogram(taken[:, 0], edges)[0]
        shares = _mean(np.histogram(taken[:, 0], edges, weights=taken[:, 1])[0], n_taken)
    reward = _mean(np.histogram(position, edges, weights=value)[0], n)
    names = ("first_round", "last_round", "n_measured", "reward", "expected", "explored")
    counts = n.astype(int).tolist()
    columns_of_bins = (edges[:-1].tolist(), (edges[1:] - 1).tolist(), counts, reward)
    rows = zip(*columns_of_bins, expected, shares, strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _mean(sums: Floats, counts: Ints) -> list[float | None]:
    return [float(s) / int(n) if n else None for s, n in zip(sums, counts, strict=True)]


def _arrivals(arrivals: list[tuple[float, bool]]) -> dict[str, Any] | None:
    """Return the members of `ArrivalsAnswer`."""
    if not arrivals:
        return None
    seconds = np.maximum(0.0, np.array([one for one, _ in arrivals]))
    median, nine_tenths = np.quantile(seconds, [0.5, 0.9]).tolist()
    return {
        "n_values": len(arrivals),
        "n_late": sum(bool(is_late) for _, is_late in arrivals),
        "median_seconds": median,
        "nine_tenths_seconds": nine_tenths,
        "longest_seconds": float(seconds.max()),
    }
