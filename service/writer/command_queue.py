"""Commands that wait for a transaction: whose turn it is, how many it takes, how long all take."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from time import monotonic

from service.base.problems import Problem, ProblemCode
from service.writer.command import CommandOutcome, Commands

Answer = asyncio.Future[list[CommandOutcome]]
SHARE = 1 / 16  # of the newest transaction in the mean
MOST = 2.0  # times the mean: what takes longer counts as that, since a stall is one transaction's
COMMAND_SECONDS = 0.00003  # that a command takes, as long as none has been measured
CHEAPER = 0.8  # times what a command took: the least that it counts with after one transaction


class Waiting:
    """What waits of one tenant."""

    def __init__(self) -> None:
        self.submissions: deque[tuple[Commands, Answer]] = deque()
        self.n_commands = 0

    def take(self, most: int) -> Iterable[tuple[Commands, Answer]]:
        """Take submissions that have `most` commands together; the last one is cut to that."""
        if self.n_commands <= most:
            whole, self.submissions, self.n_commands = self.submissions, deque(), 0
            return whole
        taken = []
        while most > 0:
            commands, answer = self.submissions.popleft()
            self.n_commands -= len(commands)
            taken.append((commands[:most], answer))
            most -= len(commands)
        return taken


class CommandQueue:
    """Submissions by tenant.

    Beyond `most` waiting commands a tenant is refused that has its share of the submissions: as
    many as each tenant that waits could have.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._tenants: dict[str, Waiting] = {}  # in the order of their turns
        self.n_submissions = 0
        self.n_commands = 0

    @property
    def n_tenants(self) -> int:
        """The tenants whose commands wait."""
        return len(self._tenants)

    def refuse_more_than_a_share(self, tenant: str) -> None:
        """Raise a 503 (overloaded) if the queue is full and the tenant has its share of it."""
        waiting = self._tenants.get(tenant)
        n = 0 if waiting is None else len(waiting.submissions)
        n_tenants = len(self._tenants.keys() | {tenant})
        if self.n_commands >= self.most and n * n_tenants >= self.n_submissions:
            detail = "too many requests wait for a transaction"
            raise Problem(ProblemCode.OVERLOADED, detail, retry_after=1)

    def put(self, tenant: str, commands: Commands, answer: Answer) -> None:
        """Add a submission; its answer gets the outcomes of those commands that are taken."""
        waiting = self._tenants.get(tenant)
        if waiting is None:
            waiting = self._tenants[tenant] = Waiting()
        n = len(commands)
        waiting.submissions.append((commands, answer))
        waiting.n_commands += n
        self.n_commands += n
        self.n_submissions += 1

    def take(self, most: int) -> tuple[Commands, list[tuple[Answer, int]]]:
        """Take `most` commands: from each of so many tenants an equal share, or all that it has.

        Returns the commands, and the answers of the submissions, each with its number of commands.
        A submission is cut where the share ends: the rest of its commands leave the queue.
        """
        commands: Commands = []
        answers: list[tuple[Answer, int]] = []
        taking = sorted(islice(self._tenants.items(), most), key=lambda one: one[1].n_commands)
        for i, (tenant, waiting) in enumerate(taking):
            self.n_commands -= waiting.n_commands
            for some, answer in waiting.take((most - len(commands)) // (len(taking) - i)):
                commands += some
                answers.append((answer, len(some)))
            self.n_commands += waiting.n_commands
            del self._tenants[tenant]
            if waiting.submissions:
                self._tenants[tenant] = waiting  # behind the others
        self.n_submissions -= len(answers)
        return commands, answers


class BatchSize:
    """How many commands a transaction takes: as many as keep a processor for `transaction_seconds`.

    What a command costs is told by the last transactions. One that took longer than that is
    believed at once; a cheaper one lets the next have a quarter more.
    """

    def __init__(self, most: int, transaction_seconds: float) -> None:
        self._most, self._seconds, self._each = most, transaction_seconds, COMMAND_SECONDS
        self._part = 1.0  # of these seconds, that the present transaction has
        self.brief_seconds = 0.005  # the longest that a transaction may run in the event loop

    def begin(self, n_tenants: int) -> int:
        """Return how many commands the next transaction takes: half, if several tenants wait.

        A tenant waits for the rest of the commands under way, and then for this transaction.
        """
        self._part = 1.0 if n_tenants < 2 else 0.5
        return max(1, int(self._part * self.n_commands))

    def note(self, n: int, seconds: float) -> None:
        """Note that a transaction of n commands took so many seconds of processor time."""
        each = seconds / n
        if seconds > self._part * self._seconds or each < self._each:
            self._each = max(each, CHEAPER * self._each)

    @property
    def n_commands(self) -> int:
        """The commands of a whole transaction: one at least, and `most` at most."""
        return max(1, min(self._most, int(self._seconds / self._each)))


class BatchTimes:
    """The seconds from one transaction to the next, while others wait, and how many commands fit.

    The wait for n full batches is n times the mean, and not n times the last, whose chance would
    count n times. A full batch has the mean of what `BatchSize` allowed, which after a long command
    is one for some transactions. The transaction under way takes as long again as it has taken:
    seen at any moment, age and rest of what is under way have one distribution.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._began: float | None = None
        self._mean = self._most = 0.0

    def begin(self, most: int) -> None:
        """Note that a transaction of at most `most` commands begins, which ends the one before."""
        now = self._clock()
        self._most += SHARE * (most - self._most) if self._most else most
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

        A batch takes submissions, until it is full.
        """
        n_full = min(n_submissions, int(n_commands / self._most)) if self._most else 0
        return self.seconds_under_way + n_full * self._mean if n_full else 0.0
