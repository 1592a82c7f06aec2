"""A store that keeps nothing but counters in memory: what a request costs without storage."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from service.records import SessionKey, SessionRow, TrajectoryKey, TrajectoryRow
from service.server import run
from service.settings import Settings
from service.storage.ports import Changes, InThread, Keys, Reader


class ForgetfulStore:
    """Everything runs as ever (queue, thread, checks, choice), and no row is written."""

    is_local = True
    is_here = False

    def __init__(self) -> None:
        self.sessions: dict[SessionKey, SessionRow] = {}
        self.trajectories: dict[TrajectoryKey, TrajectoryRow] = {}

    def begin(self, *, wait: bool = True) -> Any:
        """The one endless transaction."""
        return self

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """Knows nothing."""
        yield self  # type: ignore[misc]

    def close(self) -> None:
        """Nothing to close."""

    def prefetch(self, keys: Keys) -> None:
        """Nothing to read."""

    async def prefetch_here(self, keys: Keys) -> None:
        """Nothing to read."""

    def session(self, key: SessionKey) -> SessionRow | None:
        """From memory."""
        return self.sessions.get(key)

    def trajectory(self, key: TrajectoryKey) -> TrajectoryRow | None:
        """From memory."""
        return self.trajectories.get(key)

    def write(self, changes: Changes) -> None:
        """Counters stay; rows are forgotten."""
        for session in changes.new_sessions:
            self.sessions[session.key] = session
        for key in changes.deleted:
            self.sessions.pop(key, None)
        self.trajectories.update(changes.trajectories)

    def commit(self, changes: Changes | None = None) -> None:
        """Nothing is durable."""
        if changes is not None:
            self.write(changes)

    async def commit_here(self, changes: Changes | None, in_thread: InThread) -> None:
        """The thread is asked all the same, as if there were a disk."""
        await in_thread(self.commit, changes)

    def rollback(self) -> None:
        """Nothing to take back."""

    def unfinished(self) -> list[Any]:
        """No fit is due."""
        return []

    def api_keys(self) -> list[Any]:
        """Nobody needs one."""
        return []

    def __getattr__(self, name: str) -> Any:
        """Any other read finds nothing."""
        return lambda *arguments: None


if __name__ == "__main__":
    run(port=0, settings=Settings(), store=ForgetfulStore())
