"""Commands that wait for a transaction: tenants take turns, and so do a tenant's submissions."""

import asyncio
from collections import deque
from itertools import islice
from typing import Any

from service.base.problems import Problem, ProblemCode
from service.writer.attempt import CommandOutcome, Commands

MOST_AT_ONCE = 128  # commands of one submission in a transaction, a few milliseconds of work


class Submission:
    """Commands that were submitted together, and what became of those that have run.

    They run in their order. Those of a large submission are not all in one transaction.
    """

    def __init__(self, commands: Commands, future: "asyncio.Future[list[CommandOutcome]]") -> None:
        self.commands = commands
        self.future = future
        self.n_taken = 0
        self._outcomes: list[CommandOutcome] = []

    def take(self) -> Commands:
        """Return the commands that run next."""
        part = self.commands[self.n_taken : self.n_taken + MOST_AT_ONCE]
        self.n_taken += len(part)
        return part

    def settle(self, outcomes: list[CommandOutcome]) -> None:
        """Add the outcomes of commands that were taken; with the last ones the caller goes on."""
        self._outcomes += outcomes
        if len(self._outcomes) == len(self.commands) and not self.future.done():
            self.future.set_result(self._outcomes)


class CommandQueue:
    """Submissions by tenant.

    Parameters
    ----------
    most : int
        Commands that may wait. Beyond it a tenant is refused that has more than its share of them:
        as many as each tenant that waits could have.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._tenants: dict[str, deque[Submission]] = {}
        self._n_of: dict[str, int] = {}  # commands of each tenant
        self.n_submissions = 0
        self.n_commands = 0

    def put(self, tenant: str, submission: Submission) -> None:
        """Add a submission.

        Raises
        ------
        Problem
            503 overloaded: the queue is full.
        """
        n = self._n_of.get(tenant, 0)
        n_tenants = len(self._n_of | {tenant: 0})
        if self.n_commands >= self._most and n * n_tenants >= self._most:
            detail = "too many requests wait for a transaction"
            raise Problem(ProblemCode.OVERLOADED, detail, retry_after=1)
        self._tenants.setdefault(tenant, deque()).append(submission)
        self._n_of[tenant] = n + len(submission.commands)
        self.n_commands += len(submission.commands)
        self.n_submissions += 1

    def take(self, most: int) -> list[tuple[Submission, Commands]]:
        """Take about `most` commands: of each tenant in turn what is next of one submission."""
        taken: list[tuple[Submission, Commands]] = []
        n, seen = 0, set[Submission]()
        while n < most:
            tenant = next((one for one in self._tenants if self._next(one) not in seen), None)
            if tenant is None:
                break
            queue = self._tenants.pop(tenant)
            submission = queue.popleft()
            part = submission.take()
            taken.append((submission, part))
            n += len(part)
            self.n_commands -= len(part)
            self._n_of[tenant] -= len(part)
            if submission.n_taken < len(submission.commands):
                seen.add(submission)
                queue.append(submission)
            else:
                self.n_submissions -= 1
            if queue:
                self._tenants[tenant] = queue  # behind the others
            else:
                del self._n_of[tenant]
        return taken

    def _next(self, tenant: str) -> Submission:
        return next(islice(self._tenants[tenant], 1))


def outcomes_of(
    taken: list[tuple[Submission, Commands]], outcomes: list[Any]
) -> list[tuple[Submission, list[Any]]]:
    """Return the outcomes of a batch by submission, in the order in which they were taken."""
    all_of = iter(outcomes)
    return [(one, list(islice(all_of, len(part)))) for one, part in taken]
