"""When fits are due and which rounds each of them uses, for every algorithm that fits.

Epochs end at docs/model.md (3.1) and (4.1); those of both phases of AD-Lasso are numbered
consecutively, without one that round h cuts off. The fits of `anytime` are due by (7.1), and its
option `memory` bounds how many rounds they use.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from math import ceil

from lhb_engine.history import FitWindow
from lhb_engine.posterior.anytime_settings import AnytimeSettings

FIRST_FIT = 8  # round of the first fit of `anytime`


def default_first_quarter(horizon: int) -> int:
    """Return L = max(1, h // 12), the default; the first epoch has 4 L rounds."""
    return max(1, horizon // 12)


def doubling_windows(horizon: int, length: int | None) -> Iterator[FitWindow]:
    """Yield Doubling Lasso's windows, endlessly.

    The quarters of epoch i have q = 2^(i-1) L rounds, L the `length`; min(q, h) lags are fitted.
    """
    length = length or default_first_quarter(horizon)
    for epoch in count(1):
        quarter = 2 ** (epoch - 1) * length
        end = 4 * (2**epoch - 1) * length
        yield FitWindow(epoch, end - 3 * quarter + 1, end, min(quarter, horizon), end)


def ad_windows(horizon: int, length: int | None) -> Iterator[FitWindow]:
    """Yield AD-Lasso's windows, endlessly: Doubling Lasso's to round h, then later halves."""
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
    """Whether AD-Lasso's window ends within the first h rounds; if so it spans three quarters."""
    return window.due <= horizon


def whole_epoch(window: FitWindow, horizon: int) -> FitWindow:
    """Return AD-Lasso's window, widened to all rounds of its epoch."""
    n_rows = window.last - window.first + 1
    n_rounds = n_rows // 3 * 4 if in_first_phase(window, horizon) else 2 * n_rows
    return replace(window, first=window.last - n_rounds + 1)


def quarter_of(window: FitWindow) -> int:
    """Return q, the length of a quarter, of a window that spans quarters two to four."""
    return (window.last - window.first + 1) // 3


def growing_windows(horizon: int) -> Iterator[FitWindow]:
    """Yield windows of all rows so far, at rounds ceil(8 * 1.2^k), endlessly."""
    for k in count():
        due = ceil(8 * 1.2**k)
        yield FitWindow(k + 1, 1, due, horizon, due)


def anytime_windows(
    horizon: int, memory: int | None, after: int = 0, settings: AnytimeSettings | None = None
) -> Iterator[FitWindow]:
    """Yield the windows of fits due after round `after`, endlessly, by docs/model.md (7.1).

    A fit uses `memory` rounds, or all; with a memory no step exceeds a fifth of it.
    """
    settings = settings or AnytimeSettings()
    most = None if memory is None else ceil(memory * 0.2)
    due, epoch = FIRST_FIT, 1
    while True:
        if due > after:
            first = 1 if memory is None else max(1, due - memory + 1)
            yield FitWindow(epoch, first, due, min(horizon, due), due)
        growth, end = settings.growth(due, horizon)
        step, times = max(settings.least_step, ceil(due * (growth - 1.0))), 1
        if most is not None and step >= most:
            step, times = most, max(1, int((min(after, end) - due) // most))
        due, epoch = due + step * times, epoch + times
