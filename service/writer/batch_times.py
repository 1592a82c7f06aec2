"""How long transactions take, and how long what is queued now waits for its own to begin."""

from collections.abc import Callable
from time import monotonic

SHARE = 1 / 16  # of the newest transaction in the mean
MOST = 2.0  # times the mean: what takes longer counts as that, since a stall is one transaction's


class BatchTimes:
    """The seconds from one transaction to the next, while others wait.

    The wait for n full batches is n times the mean, and not n times the last, whose chance would
    count n times. The one under way takes as long again as it has taken: seen at any moment, age
    and rest of what is under way have one distribution.

    Parameters
    ----------
    max_batch : int
        Number of commands that fill a batch.
    clock : callable
        Seconds.
    """

    def __init__(self, max_batch: int, clock: Callable[[], float] = monotonic) -> None:
        self._max_batch, self._clock = max_batch, clock
        self._began: float | None = None
        self._mean = 0.0

    def begin(self) -> None:
        """Note that a transaction begins; what went by since the one before was that one's."""
        now = self._clock()
        if self._began is not None:
            seconds = now - self._began
            if self._mean:
                seconds = self._mean + SHARE * (min(seconds, MOST * self._mean) - self._mean)
            self._mean = seconds
        self._began = now

    def rest(self) -> None:
        """Note that nothing waits."""
        self._began = None

    @property
    def seconds_under_way(self) -> float:
        """How long the present transaction takes already; 0 if there is none."""
        began = self._began
        return 0.0 if began is None else self._clock() - began

    def wait_behind(self, n_submissions: int, n_commands: int) -> float:
        """Return the seconds that full batches of what waits take; 0 if it fills none.

        Parameters
        ----------
        n_submissions, n_commands : int
            What waits: a batch takes submissions, or parts of them, until it is full.
        """
        n_full = min(n_submissions, n_commands // self._max_batch)
        return self.seconds_under_way + n_full * self._mean if n_full else 0.0
