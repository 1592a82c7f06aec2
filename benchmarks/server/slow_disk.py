"""The real server, with 2 ms added to every commit, as on a slower disk."""

import time

from service.operation.server import run
from service.storage.sqlite.store import SqliteTransaction

SECONDS = 0.002


class SlowTransaction(SqliteTransaction):
    """A transaction that waits after it has committed."""

    def _sync(self) -> None:
        """Commit, then sleep; other threads run meanwhile."""
        super()._sync()
        time.sleep(SECONDS)


if __name__ == "__main__":
    import service.storage.sqlite.store as sqlite

    setattr(sqlite, "SqliteTransaction", SlowTransaction)  # noqa: B010
    run(port=0)
