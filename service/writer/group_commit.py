"""Group commit: waiting commands are committed in one transaction, then answered.

A `Problem` that a command raises answers that command alone. If a command has written before it
raises one, or raises any other error, the batch is rolled back and its commands run one by one.

Brief commands run in the event loop. Long commands, and waits for anything but a socket, run in the
writer's thread. Every statement releases the GIL, and two busy threads that compete for it lose
more time than the statements of brief commands take.

- All commands brief: `_commit_async`, in the event loop.
- One that is long: `_finish_in_thread` goes on where the event loop stopped.
- Rows that others hold, or that nobody announced: `run_in_thread`, from the beginning.
- An error that is not one command's own: `_commit_singly`, each command by itself.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from time import monotonic, perf_counter, thread_time
from typing import Any

import structlog

from service.base.problems import Problem, ProblemCode, Unavailable
from service.storage.ports import Contended, Keys, KnownRows, MustWait
from service.storage.transactions import Steps, Store, Transaction
from service.writer.after_commit import Effects
from service.writer.command import Command, CommandOutcome, Commands, Result
from service.writer.command_queue import Answer, BatchSize, BatchTimes, CommandQueue
from service.writer.thread import WriterThread
from service.writer.unit_of_work import UnitOfWork

log = structlog.get_logger()
MAX_ATTEMPTS = 10  # attempts at a batch that contends with other processes
CONTENTION_SECONDS = 10.0  # after which no further attempt begins
Committed = tuple[list[CommandOutcome], list[Effects]]


class WroteThenFailed(Exception):
    """A command raised a `Problem` after it had written; the transaction must be rolled back."""


class Attempt:
    """A batch of commands in one open transaction.

    The event loop and the writer's thread take turns on it, never at the same time.
    """

    def __init__(self, transaction: Transaction, commands: Commands, size: BatchSize) -> None:
        self.transaction = transaction
        self.commands = commands
        self._size, self._seconds = size, 0.0  # of processor time that the commands have taken
        self._known = KnownRows()
        self._outcomes: list[CommandOutcome] = []

    def fetch(self, keys: Keys) -> Steps:
        """Return the steps that fetch the rows that the commands announced.

        Rewards name rounds. The decision of a round is fetched only if the session has several
        trajectories, and its covering measurement only if `measured_through` reaches the round.
        """
        rows = self._known
        rounds, keys.rounds = keys.rounds, set()
        yield from self.transaction.fetch(keys, rows)
        keys.rounds = rounds  # for another attempt
        if not rounds and not rows.rounds:
            return
        more = Keys()
        for place in rounds | rows.rounds.keys():
            key, round = place
            rows.measured[place] = None  # replaced if it is fetched
            session, trajectory = rows.sessions.get(key[:2]), rows.trajectories.get(key)
            if session is None or trajectory is None or round > trajectory.n_rounds:
                continue
            if not session.is_one_sequence and place not in rows.rounds:
                more.rounds.add(place)
            if round <= trajectory.measured_through:
                more.measured.add(place)
        if more.rounds or more.measured:
            yield from self.transaction.fetch(more, rows)

    def begin(self, now: float) -> None:
        """Create the unit of work, once the announced rows are fetched; `now` is its time."""
        self._uow = UnitOfWork(self.transaction, self._known, now)

    def run_brief(self, can_read: bool) -> bool:
        """Run commands until one is not brief, or their time has passed; say if all have run.

        `can_read` says whether rows that were not announced can be read without blocking.
        """
        self._uow.can_read = can_read
        began, until = thread_time(), perf_counter() + self._size.brief_seconds
        for command in self.commands:
            if not command.is_brief(self._uow) or perf_counter() > until:
                break
            self._outcomes.append(_outcome(command, self._uow))
        self._seconds = thread_time() - began
        return len(self._outcomes) == len(self.commands)

    def run_rest(self) -> None:
        """Run the remaining commands; called in the writer's thread."""
        self._uow.can_read = True
        began = thread_time()
        for command in self.commands[len(self._outcomes) :]:
            self._outcomes.append(_outcome(command, self._uow))
        self._seconds += thread_time() - began

    def commit(self) -> Steps:
        """Return the steps that commit, once all commands have run."""
        self._size.note(len(self.commands), self._seconds)
        return self._uow.commit()

    @property
    def committed(self) -> Committed:
        """Outcomes and effects of the batch; valid once it is committed."""
        return self._outcomes, [self._uow.effects]


def announced(commands: Commands) -> Keys:
    """Return the keys of all rows that the commands announce."""
    keys = Keys()
    for command in commands:
        command.keys(keys)
    return keys


def _outcome(command: Command[Any], uow: UnitOfWork) -> CommandOutcome:
    before = uow.n_writes
    try:
        return command(uow), None
    except Unavailable:  # concerns the batch, not this command: the transaction may be lost
        raise
    except Problem as problem:
        if uow.n_writes != before:
            raise WroteThenFailed from problem
        return None, problem


class GroupCommit:
    """The writer: one transaction at a time, and a thread for long work.

    `after_commit` is called in the event loop with the effects of every committed batch,
    `on_rollback` at every rollback, when objects in memory may be ahead of the store. `max_batch`
    is that of `BatchSize`, `max_queue` that of `CommandQueue`.
    """

    def __init__(
        self,
        store: Store,
        *,
        after_commit: Callable[[Effects], None],
        on_rollback: Callable[[], None],
        clock: Callable[[], float] | None = None,
        max_batch: int = 256,
        max_queue: int = 10_000,
    ) -> None:
        self._store = store
        self._after_commit = after_commit
        self._on_rollback = on_rollback
        self.clock = clock or Clock()
        self._size = BatchSize(max_batch, store.transaction_seconds)
        self._queue = CommandQueue(max_queue)
        self._thread = WriterThread()
        self._task: asyncio.Task[None] | None = None
        self._times = BatchTimes()
        self._n_being_committed = 0
        self.n_batches = 0
        self.n_commands = 0
        self.on_batch: Callable[[float, int], None] = lambda seconds, n_commands: None
        self.on_submit: Callable[[int], None] | None = None

    @property
    def n_waiting(self) -> int:
        """Number of commands that wait for a transaction."""
        return self._queue.n_commands

    @property
    def seconds_under_way(self) -> float:
        """How long the present transaction takes already; 0 if there is none."""
        return self._times.seconds_under_way

    def committing(self) -> tuple[int, float]:
        """Return how many submissions are not committed, and how long full batches of them take."""
        n, n_commands = self._queue.n_submissions, self._queue.n_commands
        return n + self._n_being_committed, self._times.wait_behind(n, n_commands)

    async def submit(self, command: Command[Result]) -> Result:
        """Run a command and return its result, once its writes are durable.

        Cancelling the call does not cancel the command. Raises the command's `Problem`,
        ``overloaded`` if the queue is full, `Unavailable` if the store failed.
        """
        result: Result
        [(result, error)] = await self.submit_together([command])
        if error is not None:
            raise error
        return result

    async def submit_all(self, commands: Commands) -> list[CommandOutcome]:
        """Run commands of one tenant in this order, in as many transactions as that takes.

        Others' commands slip in between. Returns for each its result and None, or None and its
        error. Raises ``overloaded``, with nothing written, if the queue is full.
        """
        outcomes = await self.submit_together(commands[: self._size.n_commands])
        while (n := len(outcomes)) < len(commands):
            rest = commands[n : n + self._size.n_commands]
            outcomes += await self.submit_together(rest, is_begun=True)
        return outcomes

    def submit_together(self, commands: Commands, *, is_begun: bool = False) -> Answer:
        """Queue commands of one tenant for the same transaction; raises the same.

        Returns the outcomes of as many as it took, of the first at least. Cancelling the answer
        does not cancel the commands. What is begun, in `submit_all`, is not refused.
        """
        tenant, queue = commands[0].whose(), self._queue
        if queue.n_commands >= queue.most and not is_begun:
            queue.refuse_more_than_a_share(tenant)
        loop = asyncio.get_running_loop()
        answer: Answer = loop.create_future()
        queue.put(tenant, commands, answer)
        if self.on_submit is not None:
            self.on_submit(len(commands))
        if self._task is None:
            self._task = loop.create_task(self._serve_queue())
        return answer

    async def close(self) -> None:
        """Commit the waiting commands, then stop the thread."""
        while self._task is not None:
            await asyncio.wait([self._task])
        self._thread.close()

    async def _serve_queue(self) -> None:
        """Commit and answer batch after batch until nothing waits."""
        try:
            while self._queue.n_submissions:
                self._n_being_committed = 0
                await self._store.take_turn()
                most = self._size.begin(self._queue.n_tenants)
                commands, answers = self._queue.take(most)
                self._n_being_committed = len(answers)
                self._times.begin(self._size.n_commands)
                try:
                    outcomes, effects = await self._commit(commands)
                except Exception as error:  # e.g. the thread does not start
                    outcomes, effects = [(None, error)] * len(commands), []
                start = 0
                for answer, n in answers:
                    if not answer.done():
                        answer.set_result(outcomes[start : start + n])
                    start += n
                self.n_batches += 1
                self.n_commands += len(commands)
                self.on_batch(self._times.seconds_under_way, len(commands))
                for one in effects:
                    self._report(one)
                if self._store.is_local:  # answer these before the next batch takes the event loop
                    await asyncio.sleep(0)
        finally:
            self._times.rest()
            self._task, self._n_being_committed = None, 0

    def _report(self, effects: Effects) -> None:
        """Report the effects of a commit; an error is logged, because the commit stands."""
        try:
            self._after_commit(effects)
        except Exception:
            log.exception("defect", of="after a commit")

    async def _commit(self, commands: Commands) -> Committed:
        """Commit one batch: brief commands run in the event loop, others in the thread."""
        try:
            transaction = self._store.begin(wait=False)
        except Exception:  # the thread tries again, and reports the error
            return await self._thread.call(self.run_in_thread, commands)
        attempt = Attempt(transaction, commands, self._size)
        try:
            return await self._commit_async(attempt)
        except Exception:  # the thread cannot be started
            self._roll_back(transaction)
            raise

    async def _commit_async(self, attempt: Attempt) -> Committed:
        transaction, call = attempt.transaction, self._thread.call
        try:
            await transaction.run_async(attempt.fetch(announced(attempt.commands)), call)
            attempt.begin(self.clock())
            is_done = attempt.run_brief(self._store.is_local)
        except Exception:  # the thread runs the batch again
            return await call(self._recover, (attempt, MustWait()))
        if not is_done:
            return await call(self._finish_in_thread, attempt)
        try:
            await transaction.run_async(attempt.commit(), call)
        except Exception as error:
            return await call(self._recover, (attempt, error))
        return attempt.committed

    def _finish_in_thread(self, attempt: Attempt) -> Committed:
        """Finish, in the writer's thread, a batch that the event loop has begun."""
        try:
            attempt.run_rest()
            attempt.transaction.run(attempt.commit())
        except Exception as error:
            return self._recover((attempt, error))
        return attempt.committed

    def _recover(self, failed: tuple[Attempt, Exception]) -> Committed:
        attempt, error = failed
        self._roll_back(attempt.transaction)
        if isinstance(error, Contended | MustWait):
            return self.run_in_thread(attempt.commands)
        return self._commit_singly(attempt.commands, error)

    def run_in_thread(self, commands: Commands) -> Committed:
        """Run and commit a batch; called in the writer's thread."""
        try:
            return self._commit_in_thread(commands)
        except Exception as error:
            return self._commit_singly(commands, error)

    def _commit_singly(self, commands: Commands, error: Exception) -> Committed:
        """Answer commands that failed as a batch: run them one by one, unless the store failed."""
        if isinstance(error, Unavailable):
            return [(None, error)] * len(commands), []
        if len(commands) == 1:
            return [(None, error.__cause__ if isinstance(error, WroteThenFailed) else error)], []
        results = [self.run_in_thread([command]) for command in commands]
        return [one[0] for one, _ in results], [e for _, effects in results for e in effects]

    def _commit_in_thread(self, commands: Commands) -> Committed:
        keys = announced(commands)
        until = monotonic() + CONTENTION_SECONDS
        for _ in range(MAX_ATTEMPTS):
            transaction = self._store.begin()
            attempt = Attempt(transaction, commands, self._size)
            try:
                transaction.run(attempt.fetch(keys))
                attempt.begin(self.clock())
                attempt.run_rest()
                transaction.run(attempt.commit())
                return attempt.committed
            except Contended as contended:
                self._roll_back(transaction)
                if contended.session is not None:
                    keys.sessions.add(contended.session)
                if monotonic() > until:
                    break
            except BaseException:
                self._roll_back(transaction)
                raise
        raise Unavailable(
            ProblemCode.STORAGE_BUSY, "other processes have locked these rows; nothing was written"
        )

    def _roll_back(self, transaction: Transaction) -> None:
        """Roll back; if that fails, the store ends the transaction before it begins another."""
        self._on_rollback()
        try:
            transaction.rollback()
        except Exception:  # the command is answered with the error before it
            log.exception("defect", of="a rollback")


class Clock:
    """Seconds since 1970, never decreasing.

    If the system's clock is set back, this one runs at half speed until the system's has caught
    up. The order of times stays, and a wait takes at most twice its length. `steady` is monotonic.
    """

    def __init__(
        self, system: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._system, self._steady = system, steady
        self._lock = threading.Lock()
        self._at, self._now = steady(), system()

    def __call__(self) -> float:
        """Return the time now, in seconds since 1970."""
        with self._lock:
            at = self._steady()
            self._now = max(self._system(), self._now + 0.5 * (at - self._at))
            self._at = at
            return self._now
