"""The real server on a disk whose sync takes 2 ms longer."""

import time

from service.server import run
from service.storage.sqlite.transaction import SqliteTransaction

SECONDS = 0.002


class SlowTransaction(SqliteTransaction):
    """Commits as ever, and then waits."""

    def _sync(self) -> None:
        """Durable, but late; nobody else's work stops meanwhile."""
        super()._sync()
        time.sleep(SECONDS)


if __name__ == "__main__":
    import service.storage.sqlite.store as sqlite

    setattr(sqlite, "SqliteTransaction", SlowTransaction)  # noqa: B010
    run(port=0)
