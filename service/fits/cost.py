"""What a session's fits cost, and what the server allows.

The engine estimates a cost from sizes alone. Estimates decide who is served first, how much CPU
time a fit may take, and whether a session may be created. The memory limit itself is the fitting
process's.
"""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from lhb_engine.agents import ALGORITHMS
from lhb_engine.agents.fit_cost import FitCost
from service.base.problems import Problem, ProblemCode
from service.base.server_settings import Settings
from service.session.records import SessionRow

SHORT_SECONDS = 2.0  # estimated CPU time up to which a fit is short
SLOWER = 20.0  # a fit may take this many times its estimated CPU time
LEAST_SECONDS = 60.0  # of CPU time that any fit may take


def due_cost(
    algorithm: str, dim: int, horizon: int, options: Mapping[str, Any], due: int
) -> FitCost:
    """Return the cost of a session's fit that is due after round `due`."""
    return ALGORITHMS[algorithm].fit_cost(dim, horizon, dict(options), due)


def session_cost(session: SessionRow, due: int) -> FitCost:
    """Return the cost of the session's fit that is due after round `due`."""
    return due_cost(session.algorithm, session.dim, session.horizon, session.options, due)


def cpu_limit(cost_seconds: float, settings: Settings) -> float:
    """Return the seconds of CPU time that a fit may take, from its estimate."""
    return min(settings.fit_timeout_seconds, max(LEAST_SECONDS, SLOWER * cost_seconds))


def allowed_cost(settings: Settings) -> FitCost:
    """Return the most that a session's fits may be expected to cost."""
    seconds = max(LEAST_SECONDS, settings.fit_timeout_seconds) / SLOWER
    return FitCost(seconds, settings.fit_memory_mb)


def refuse_costly(session: SessionRow, allowed: FitCost) -> None:
    """Raise 422 fit_too_large if the session's fits would need more than is allowed.

    The fit that counts is the first one that sees all lags: after as many rounds as the horizon.
    The problem names dim and horizon, and the largest dim that this horizon allows.
    """
    if not _is_costly(session, session.dim, allowed):
        return
    dims = range(1, session.dim)
    most = bisect_left(dims, True, key=lambda dim: _is_costly(session, dim, allowed))
    cost = _first_whole_fit(session, session.dim)
    remedy = f"with this horizon dim may be up to {most}" if most else "choose a smaller horizon"
    detail = (
        f"dim {session.dim} and horizon {session.horizon}: a fit of {session.horizon} rounds needs "
        f"about {cost.megabytes:.0f} MB and {cost.seconds:.0f} s of CPU time, and this server "
        f"allows {allowed.megabytes:.0f} MB and {allowed.seconds:.0f} s; {remedy}"
    )
    raise Problem(ProblemCode.FIT_TOO_LARGE, detail, "dim" if most else "horizon")


def _is_costly(session: SessionRow, dim: int, allowed: FitCost) -> bool:
    cost = _first_whole_fit(session, dim)
    return cost.seconds > allowed.seconds or cost.megabytes > allowed.megabytes


def _first_whole_fit(session: SessionRow, dim: int) -> FitCost:
    return due_cost(session.algorithm, dim, session.horizon, session.options, session.horizon)
