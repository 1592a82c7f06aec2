"""GET /v1/sessions/{id}/series: rewards over time, beside what the estimate expects of them."""

import json
from typing import Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from lhb_engine.evaluation.expected_rewards import expected_rewards
from lhb_engine.history import FitWindow, Floats, Ints
from service.agent_cache import deciding
from service.api.documentation import documented
from service.api.round_types import SeriesAnswer
from service.api.sessions import read_session
from service.fits.history import read_history
from service.records import SessionRow
from service.storage.reader import Reader

router = APIRouter(tags=["estimates"])


@router.get(
    "/v1/sessions/{session_id}/series",
    summary="Rewards over time, beside what was expected",
    responses=documented({200: SeriesAnswer}, 404),
)
async def get_series(
    session_id: str,
    request: Request,
    rounds: int = Query(2000, ge=1, le=100_000, description="of the session, the last ones"),
    bins: int = Query(100, ge=1, le=1000, description="items, of equally many rounds"),
) -> Response:
    """Summarise the session's last rounds, all trajectories together, in bins of rounds.

    `reward` is the mean reward of a measured round, `expected` what the estimate in use expects of
    the same rounds, `explored` the share of decisions that were not greedy. A value over a span
    counts in the bin of its last round.
    """

    def answer(reader: Reader, session: SessionRow) -> dict[str, Any]:
        last = session.n_rounds
        first = max(1, last - rounds + 1)
        if last == 0:
            return {"first_round": 1, "last_round": 0, "alarm": None, "items": []}
        edges = np.unique(np.linspace(first, last + 1, bins + 1).astype(np.int64))
        estimate = _estimate_in_use(reader, session)
        position, n_rounds, value, expected = _measured(reader, session, first, last, estimate)
        taken = np.array(reader.explored(session.key, first, last), dtype=np.int64).reshape(-1, 2)
        n = np.histogram(position, edges, weights=n_rounds)[0]
        decided = np.histogram(taken[:, 0], edges)[0]
        items = zip(
            edges[:-1].tolist(),
            (edges[1:] - 1).tolist(),
            n.astype(int).tolist(),
            _mean(np.histogram(position, edges, weights=value)[0], n),
            [None] * len(n)
            if estimate is None
            else _mean(np.histogram(position, edges, weights=expected)[0], n),
            _mean(np.histogram(taken[:, 0], edges, weights=taken[:, 1])[0], decided),
            strict=True,
        )
        names = ("first_round", "last_round", "n_measured", "reward", "expected", "explored")
        return {
            "first_round": first,
            "last_round": last,
            "alarm": None if estimate is None else (estimate["diagnostics"] or {}).get("alarm"),
            "items": [dict(zip(names, item, strict=True)) for item in items],
        }

    return await read_session(request, session_id, answer)


def _estimate_in_use(reader: Reader, session: SessionRow) -> dict[str, Any] | None:
    if session.estimate == 0 or deciding(reader, session) != "in_use":
        return None
    record = reader.estimate(session.key, session.estimate)
    if record is None or record.estimate is None:
        return None
    found: dict[str, Any] = json.loads(record.estimate)
    return found


def _measured(
    reader: Reader, session: SessionRow, first: int, last: int, estimate: dict[str, Any] | None
) -> tuple[Ints, Ints, Floats, Floats]:
    """Return of each measurement: position of its last round, its rounds, value, expectation."""
    n_lags = 1 if estimate is None else len(estimate["lag_weights"])
    history = read_history(reader, session, FitWindow(1, first, last, n_lags, last))
    positions, lengths, values, expectations = [], [], [], []
    for part in history.trajectories.values():
        measured = part.measurements
        positions.append(part.numbering[measured.last - part.first_round])
        lengths.append(measured.last - measured.first + 1)
        values.append(measured.value)
        if estimate is None:
            expectations.append(np.zeros(len(measured)))
        else:
            theta, weights = np.array(estimate["theta"]), np.array(estimate["lag_weights"])
            expectations.append(
                expected_rewards(part, theta, weights, estimate["intercept"] or 0.0)
            )
    return (
        np.concatenate([np.zeros(0, np.int64), *positions]),
        np.concatenate([np.zeros(0, np.int64), *lengths]),
        np.concatenate([np.zeros(0), *values]),
        np.concatenate([np.zeros(0), *expectations]),
    )


def _mean(sums: Floats, counts: Ints) -> list[float | None]:
    return [float(s) / int(n) if n else None for s, n in zip(sums, counts, strict=True)]
