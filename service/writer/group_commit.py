"""Many requests, one transaction: everything that waits is committed together, then answered.

A `Problem` that a command raises is its own answer and leaves no write. If a command writes
before it raises one, or anything else goes wrong, the batch is rolled back and its commands run one
by one.

Brief commands run in the event loop; what has to wait otherwise than for a socket, in the writer's
thread: every statement gives the interpreter's lock away, and two busy threads lose more by
fighting for it than the statements take.
"""

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from service.problems import Problem, ProblemCode, Unavailable
from service.storage.ports import Contended, MustWait, Store, Transaction
from service.writer.attempt import Attempt, Commands, Committed, Outcome, Spoiled, announced
from service.writer.clock import Clock
from service.writer.command import Command, Result
from service.writer.thread import WriterThread
from service.writer.unit_of_work import Effects

log = structlog.get_logger()
TRIES = 10  # of a batch that meets other processes at the same rows


class GroupCommit:
    """The writer: one transaction at a time, and a thread for what may take long.

    Parameters
    ----------
    store : Store
        Where to.
    after_commit : callable
        Is given the effects of every committed batch, in the event loop.
    on_rollback : callable
        Is called whenever memory may be ahead of the store.
    clock : callable
        Seconds since 1970; by default a `Clock`.
    """

    def __init__(
        self,
        store: Store,
        *,
        after_commit: Callable[[Effects], None],
        on_rollback: Callable[[], None],
        clock: Callable[[], float] | None = None,
        max_batch: int = 512,
        max_queue: int = 10_000,
    ) -> None:
        self._store = store
        self._after_commit = after_commit
        self._on_rollback = on_rollback
        self.clock = clock or Clock()
        self._max_batch = max_batch
        self._max_queue = max_queue
        self._waiting: deque[tuple[Commands, asyncio.Future[list[Outcome]]]] = deque()
        self._n_waiting = 0
        self._thread = WriterThread()
        self._pump: asyncio.Task[None] | None = None
        self.n_batches = 0
        self.n_commands = 0

    @property
    def n_waiting(self) -> int:
        """Commands that wait for a transaction."""
        return self._n_waiting

    async def submit(self, command: Command[Result]) -> Result:
        """The command's result, once its writes are durable.

        Cancelling does not take the command back.
        """
        result: Result
        [(result, error)] = await self.submit_all([command])
        if error is not None:
            raise error
        return result

    def submit_all(self, commands: Commands) -> "asyncio.Future[list[Outcome]]":
        """Queue commands for one and the same transaction; the future gets their outcomes."""
        loop = asyncio.get_running_loop()
        if self._n_waiting >= self._max_queue:
            raise Problem(
                ProblemCode.OVERLOADED, "too many requests wait for the disk", retry_after=1
            )
        future: asyncio.Future[list[Outcome]] = loop.create_future()
        self._waiting.append((commands, future))
        self._n_waiting += len(commands)
        if self._pump is None:
            self._pump = loop.create_task(self._run())
        return future

    async def close(self) -> None:
        """Commit what waits, then stop."""
        while self._pump is not None:
            await asyncio.wait([self._pump])
        self._thread.close()

    async def _run(self) -> None:
        try:
            while self._waiting:
                commands, futures = self._take()
                try:
                    outcomes, effects = await self._commit(commands)
                except Exception as error:  # no thread, say: they wait for an answer all the same
                    outcomes, effects = [(None, error)] * len(commands), []
                start = 0
                for future, n in futures:
                    if not future.done():
                        future.set_result(outcomes[start : start + n])
                    start += n
                self.n_batches += 1
                self.n_commands += len(commands)
                for one in effects:
                    self._tell(one)
                if self._store.is_local:  # what is begun here: first let these be answered
                    await asyncio.sleep(0)
        finally:
            self._pump = None

    def _tell(self, effects: Effects) -> None:
        """What follows from a commit; should that fail, the commit stands and others wait."""
        try:
            self._after_commit(effects)
        except Exception:
            log.exception("defect", of="after a commit")

    def _take(self) -> tuple[Commands, list[tuple[asyncio.Future[list[Outcome]], int]]]:
        """Everything that waits, up to a full batch."""
        commands: Commands = []
        futures = []
        while self._waiting and len(commands) < self._max_batch:
            more, future = self._waiting.popleft()
            commands += more
            futures.append((future, len(more)))
        self._n_waiting -= len(commands)
        return commands, futures

    async def _commit(self, commands: Commands) -> Committed:
        """One batch: brief commands in the event loop, others in the thread."""
        try:
            transaction = self._store.begin(wait=False)
        except Exception:  # the thread tries too, and answers what goes wrong
            return await self._thread.call(self.run, commands)
        attempt = Attempt(transaction, commands)
        try:
            return await self._commit_async(attempt)
        except Exception:  # there is no thread
            self._undo(transaction)
            raise

    async def _commit_async(self, attempt: Attempt) -> Committed:
        transaction, call = attempt.transaction, self._thread.call
        try:
            await transaction.run_async(attempt.fetch(announced(attempt.commands)), call)
            attempt.begin(self.clock())
            is_done = attempt.run_brief(self._store.is_local)
        except Exception:  # what the event loop could not do, a thread may
            return await call(self._failed, (attempt, MustWait()))
        if not is_done:
            return await call(self._finish, attempt)
        try:
            await transaction.run_async(attempt.commit(), call)
        except Exception as error:
            return await call(self._failed, (attempt, error))
        return attempt.committed

    def _finish(self, attempt: Attempt) -> Committed:
        """The rest of a batch that the event loop has begun, in the writer's thread."""
        try:
            attempt.run_rest()
            attempt.transaction.run(attempt.commit())
        except Exception as error:
            return self._failed((attempt, error))
        return attempt.committed

    def _failed(self, failed: tuple[Attempt, Exception]) -> Committed:
        attempt, error = failed
        self._undo(attempt.transaction)
        if isinstance(error, Contended | MustWait):
            return self.run(attempt.commands)
        return self._apart(attempt.commands, error)

    def run(self, commands: Commands) -> Committed:
        """One batch, in the writer's thread."""
        try:
            return self._transact(commands)
        except Exception as error:
            return self._apart(commands, error)

    def _apart(self, commands: Commands, error: Exception) -> Committed:
        """What becomes of commands that could not be committed together."""
        if isinstance(error, Unavailable):
            return [(None, error)] * len(commands), []
        if len(commands) == 1:
            return [(None, error.__cause__ if isinstance(error, Spoiled) else error)], []
        results = [self.run([command]) for command in commands]
        return [one[0] for one, _ in results], [e for _, effects in results for e in effects]

    def _transact(self, commands: Commands) -> Committed:
        keys = announced(commands)
        for _ in range(TRIES):
            transaction = self._store.begin()
            attempt = Attempt(transaction, commands)
            try:
                transaction.run(attempt.fetch(keys))
                attempt.begin(self.clock())
                attempt.run_rest()
                transaction.run(attempt.commit())
                return attempt.committed
            except Contended as contended:
                self._undo(transaction)
                if contended.session is not None:
                    keys.sessions.add(contended.session)
            except BaseException:
                self._undo(transaction)
                raise
        raise Unavailable(
            ProblemCode.STORAGE_BUSY, "other processes hold these rows; nothing was written"
        )

    def _undo(self, transaction: Transaction) -> None:
        """Roll back. A store that cannot leaves its transaction before it begins another one."""
        self._on_rollback()
        try:
            transaction.rollback()
        except Exception:  # what went wrong before is the answer
            log.exception("defect", of="a rollback")
