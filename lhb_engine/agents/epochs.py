"""The schedules: when an epoch ends, and which rounds its fit uses.

Doubling Lasso's epoch i has 2^(i+1) L rounds and ends at T_i = 4 (2^i - 1) L; its fit uses the
second and fourth quarter. AD-Lasso plays these while T_i <= h; an epoch that round h cuts off
yields nothing and has no number. Then epoch j has 2^j h rounds, ends at (2^(j+1) - 1) h, and is
fitted on its later half. Epochs of both phases share one running number.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from lhb_engine.history import FitWindow


def default_first_epoch(horizon: int) -> int:
    """L = max(1, h // 12)."""
    return max(1, horizon // 12)


def doubling_windows(horizon: int, length: int) -> Iterator[FitWindow]:
    """Doubling Lasso's windows without end; quarters have q = 2^(i-1) L rounds, lags min(q, h)."""
    for epoch in count(1):
        quarter = 2 ** (epoch - 1) * length
        end = 4 * (2**epoch - 1) * length
        yield FitWindow(epoch, end - 3 * quarter + 1, end, min(quarter, horizon), end)


def ad_windows(horizon: int, length: int) -> Iterator[FitWindow]:
    """AD-Lasso's windows without end: Doubling Lasso's up to round h, then the later halves."""
    n_first_phase = 0
    for window in doubling_windows(horizon, length):
        if not in_first_phase(window, horizon):
            break
        n_first_phase = window.epoch
        yield window
    for j in count(1):
        end = (2 ** (j + 1) - 1) * horizon
        n_rows = 2 ** (j - 1) * horizon
        yield FitWindow(n_first_phase + j, end - n_rows + 1, end, horizon, end)


def in_first_phase(window: FitWindow, horizon: int) -> bool:
    """Whether AD-Lasso's window ends within the first h rounds: then it spans three quarters."""
    return window.due <= horizon


def whole_epoch(window: FitWindow, horizon: int) -> FitWindow:
    """AD-Lasso's window, widened to all rounds of its epoch."""
    n_rows = window.last - window.first + 1
    n_rounds = n_rows // 3 * 4 if in_first_phase(window, horizon) else 2 * n_rows
    return replace(window, first=window.last - n_rounds + 1)


def quarter_of(window: FitWindow) -> int:
    """Return q of a doubling window, which spans quarters two to four."""
    return (window.last - window.first + 1) // 3
