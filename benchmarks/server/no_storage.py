"""The server on a store that keeps counters in memory: a request's cost without storage."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

from service.base.server_settings import Settings
from service.operation.server import run
from service.session.records import SessionKey, SessionRow, TrajectoryKey, TrajectoryRow
from service.storage.ports import Changes, Keys, KnownRows
from service.storage.transactions import InThread, Slices, Steps, Transaction


class NothingStored:
    """A reader that finds nothing."""

    def unfinished(self) -> list[Any]:
        """Return no due fits."""
        return []

    def hidden(self) -> list[Any]:
        """Return no hidden rows."""
        return []

    def with_retention(self, *arguments: Any) -> list[Any]:
        """Return no session that drops rounds."""
        return []

    def api_keys(self) -> list[Any]:
        """Return no keys, so that requests need none."""
        return []

    def unsummed(self, *arguments: Any) -> list[Any]:
        """Return no session with a trial."""
        return []

    webhooks = due_webhooks = limits = messages_given_up = unsummed

    def waiting_messages(self, *arguments: Any) -> dict[Any, Any]:
        """Return no webhook with messages."""
        return {}

    def guards_tripped(self) -> list[Any]:
        """Return no tenant with a trial."""
        return []

    def due_by_tenant(self) -> list[Any]:
        """Return no tenant with a due fit."""
        return []

    def n_bytes(self) -> int:
        """Return 0."""
        return 0

    def __getattr__(self, name: str) -> Any:
        """Answer any other read with None."""
        return lambda *arguments: None


class ForgetfulTransaction(Transaction):
    """A transaction that keeps counters in memory and drops the rows."""

    slices = Slices()

    def __init__(self) -> None:
        self.reader: Any = NothingStored()
        self.sessions: dict[SessionKey, SessionRow] = {}
        self.trajectories: dict[TrajectoryKey, TrajectoryRow] = {}

    def run(self, steps: Steps) -> None:
        """Run the steps."""
        for step in steps:
            step(None)

    async def run_async(self, steps: Steps, in_thread: InThread) -> None:
        """Run each step in the thread, as a store on a disk does."""
        for step in steps:
            await in_thread(step, None)

    def fetch(self, keys: Keys, known: KnownRows) -> Steps:
        """Fill in the counters; other rows are not found."""
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
        """Keep what `write` keeps."""
        yield from self.write(changes)
        yield lambda _: None

    def _execute(self, name: str, *values: Any) -> Any:
        """Run nothing: no row is found, or deleted."""
        return Mock(**{"fetchone.return_value": None, "fetchall.return_value": []})

    def rollback(self) -> None:
        """Do nothing."""


class ForgetfulStore:
    """A store that writes no row. Queue, thread, checks and choice run as usual."""

    is_local, slices = True, Slices()
    transaction_seconds = 0.0015

    def __init__(self) -> None:
        self._transaction = ForgetfulTransaction()

    def begin(self, *, wait: bool = True) -> ForgetfulTransaction:
        """Return the only transaction, which never ends."""
        return self._transaction

    async def take_turn(self) -> None:
        """Return at once."""

    @contextmanager
    def reader(self) -> Iterator[Any]:
        """Yield a reader that finds sessions and nothing else."""
        reader = self._transaction.reader
        reader.session = self._transaction.sessions.get
        yield reader

    def close(self) -> None:
        """Do nothing."""


if __name__ == "__main__":
    run(port=0, settings=Settings(), store=ForgetfulStore())
