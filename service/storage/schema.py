"""The SQL scripts of the schema, one for each revision and dialect, and the check of a revision.

The columns are also the fields of the rows in `service.session.records`, in the same order.

Alembic runs the missing scripts on an existing database. A new SQLite database gets all of them at
once, without loading alembic.
"""

from functools import cache
from importlib.resources import files

from service.storage.ports import Refused

# advisory lock of PostgreSQL that lets one process at a time make tables
ONE_AT_A_TIME = 0x6C6862
VERSION_TABLE = """
create table alembic_version (
    version_num varchar(32) not null,
    constraint alembic_version_pkc primary key (version_num)
);
"""


class WrongSchema(Refused):
    """The schema of the database differs from this program's; the message says what to do."""


def script(revision: str, dialect: str) -> str:
    """Return the SQL script of a revision for a dialect, "sqlite" or "postgres"."""
    path = files(__package__).joinpath("migrations", "sql", f"{revision}.{dialect}.sql")
    return path.read_text("utf-8")


@cache
def revisions() -> tuple[str, ...]:
    """Return all revisions, oldest first."""
    folder = files(__package__).joinpath("migrations", "sql")
    return tuple(sorted({path.name.split(".")[0] for path in folder.iterdir()}))


def head() -> str:
    """Return the revision that this program needs."""
    return revisions()[-1]


def whole_schema(dialect: str, last: str | None = None) -> str:
    """Return one script of all revisions to `last` that also records it for alembic.

    Parameters
    ----------
    dialect : str
        "sqlite" or "postgres".
    last : str, optional
        By default the newest.
    """
    last = last or head()
    scripts = [script(revision, dialect) for revision in revisions() if revision <= last]
    note = f"insert into alembic_version values ('{last}');"
    return "\n".join([*scripts, VERSION_TABLE, note])


def known_revision(found: str | None) -> str:
    """Return the revision of a database, if this program knows it.

    Raises
    ------
    WrongSchema
        The schema is newer or missing.
    """
    if found is None:
        raise WrongSchema("the database has no schema yet: run `lhb migrate`")
    if found not in revisions():
        raise WrongSchema(
            f"the database has schema {found}, which is newer than this program's {head()}: "
            "run a newer release"
        )
    return found


def check_revision(found: str | None) -> None:
    """Check that a database is at the revision that this program needs.

    Parameters
    ----------
    found : str or None
        The revision of the database; None if it has no schema.

    Raises
    ------
    WrongSchema
        The schema is older, newer or missing.
    """
    if found == head():
        return
    older = known_revision(found)
    raise WrongSchema(
        f"the database has schema {older}, this program needs {head()}: run `lhb migrate`"
    )
