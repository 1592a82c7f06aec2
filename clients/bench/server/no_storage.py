"""A store that keeps nothing but counters in memory: what a request costs without storage."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from service.records import SessionKey, SessionRow, TrajectoryKey, TrajectoryRow
from service.server import run
from service.settings import Settings
from service.storage.ports import Changes, InThread, Keys, Known, Steps


class NothingStored:
    """A reader that finds nothing."""

    def unfinished(self) -> list[Any]:
        """No fit is due."""
        return []

    def api_keys(self) -> list[Any]:
        """Nobody needs one."""
        return []

    def __getattr__(self, name: str) -> Any:
        """Any other read finds nothing."""
        return lambda *arguments: None


class ForgetfulTransaction:
    """Counters stay in memory; rows are forgotten."""

    def __init__(self) -> None:
        self.reader: Any = NothingStored()
        self.sessions: dict[SessionKey, SessionRow] = {}
        self.trajectories: dict[TrajectoryKey, TrajectoryRow] = {}

    def run(self, steps: Steps) -> None:
        """Nothing waits."""
        for step in steps:
            step(None)

    async def run_async(self, steps: Steps, in_thread: InThread) -> None:
        """The thread is asked all the same, as if there were a disk."""
        for step in steps:
            await in_thread(step, None)

    def fetch(self, keys: Keys, known: Known) -> Steps:
        """Counters are known, and no row is."""
        known.expect(keys)
        for key in keys.sessions:
            known.sessions[key] = self.sessions.get(key)
        for place in keys.trajectories:
            known.trajectories[place] = self.trajectories.get(place)
        yield from ()

    def write(self, changes: Changes) -> Steps:
        """Keep the counters."""
        for session in changes.new_sessions:
            self.sessions[session.key] = session
        for key in changes.deleted:
            self.sessions.pop(key, None)
        self.trajectories.update(changes.trajectories)
        yield from ()

    def commit(self, changes: Changes) -> Steps:
        """Nothing is durable."""
        yield from self.write(changes)
        yield lambda _: None

    def rollback(self) -> None:
        """Nothing to take back."""


class ForgetfulStore:
    """Everything runs as ever (queue, thread, checks, choice), and no row is written."""

    is_local = True

    def __init__(self) -> None:
        self._transaction = ForgetfulTransaction()

    def begin(self, *, wait: bool = True) -> ForgetfulTransaction:
        """Return the one endless transaction."""
        return self._transaction

    @contextmanager
    def reader(self) -> Iterator[Any]:
        """Know the sessions and nothing else."""
        reader = self._transaction.reader
        reader.session = self._transaction.sessions.get
        yield reader

    def close(self) -> None:
        """Nothing to close."""


if __name__ == "__main__":
    run(port=0, settings=Settings(), store=ForgetfulStore())
