"""The schema: numbered SQL scripts for each database, and the check of a database's revision.

The columns are also the fields of the rows in `service.session.records`. A released script never
changes: what comes later is the next script.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable

from service.storage.ports import Refused

# advisory lock of PostgreSQL that lets one process at a time make tables
ONE_AT_A_TIME = 0x6C6862
REVISION = "select revision from schema_revision"  # the table has one row


@dataclass(frozen=True)
class Schema:
    """The revisions of a schema. Each script takes a database from one revision to the next.

    `folder` holds a script for each revision and dialect ("sqlite" or "postgres"), named like
    ``0001.sqlite.sql``.
    """

    folder: Traversable

    @cached_property
    def revisions(self) -> tuple[str, ...]:
        """All revisions, oldest first."""
        return tuple(sorted({path.name.split(".")[0] for path in self.folder.iterdir()}))

    @property
    def head(self) -> str:
        """The revision that this program needs."""
        return self.revisions[-1]

    def script(self, dialect: str, after: str | None = None, to: str | None = None) -> str:
        """Return one script that takes a database from a revision to another, and records that.

        It begins at `after`, None for an empty database, and ends at `to`, by default the newest.
        """
        to = to or self.head
        missing = [name for name in self.revisions if (after or "") < name <= to]
        scripts = [
            self.folder.joinpath(f"{name}.{dialect}.sql").read_text("utf-8") for name in missing
        ]
        record = f"delete from schema_revision; insert into schema_revision values ('{to}');"
        return "\n".join([*scripts, record] if missing else [])

    def known(self, revision: str | None) -> str:
        """Return a database's revision; raise `Refused` if it is newer, or None: missing."""
        if revision is None:
            raise Refused("the database has no schema yet: run `lhb migrate`")
        if revision not in self.revisions:
            raise Refused(
                f"the database has schema {revision}, which is newer than this program's "
                f"{self.head}: run a newer release"
            )
        return revision

    def check(self, revision: str | None) -> None:
        """Raise `Refused` unless a database's revision is the one that this program needs."""
        if self.known(revision) != self.head:
            raise Refused(
                f"the database has schema {revision}, this program needs {self.head}: "
                "run `lhb migrate`"
            )

    def check_upgrade(self, revision: str | None, tables: set[str]) -> None:
        """Raise `Refused` unless a database is empty, or of a revision that this program knows.

        `revision` is its revision, None if it has no schema, and `tables` are its tables' names.
        """
        if revision is not None:
            self.known(revision)
        elif tables:
            raise Refused(
                f"the database contains {min(tables)!r} but not this program's schema; "
                "it belongs to another program and was not changed"
            )


SCHEMA = Schema(files(__package__).joinpath("migrations"))
