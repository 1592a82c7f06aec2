"""The schema's scripts: one a revision and database, and what the revision of a database means.

Alembic runs them on a database that exists; an embedded database that is new gets them all at
once, without loading alembic.
"""

from functools import cache
from importlib.resources import files

from service.storage.ports import Refused

VERSION_TABLE = """
create table alembic_version (
    version_num varchar(32) not null,
    constraint alembic_version_pkc primary key (version_num)
);
"""


class WrongSchema(Refused):
    """The database has another schema than this program needs; the message says what to do."""


def script(revision: str, dialect: str) -> str:
    """What `revision` does to a database ("sqlite" or "postgres")."""
    path = files(__package__).joinpath("migrations", "sql", f"{revision}.{dialect}.sql")
    return path.read_text()


@cache
def revisions() -> tuple[str, ...]:
    """All revisions, oldest first."""
    folder = files(__package__).joinpath("migrations", "sql")
    return tuple(sorted({path.name.split(".")[0] for path in folder.iterdir()}))


def head() -> str:
    """The revision that this program needs."""
    return revisions()[-1]


def whole_schema(dialect: str) -> str:
    """All revisions in one script, with alembic's note that they have been run."""
    scripts = [script(revision, dialect) for revision in revisions()]
    note = f"insert into alembic_version values ('{head()}');"
    return "\n".join([*scripts, VERSION_TABLE, note])


def check_revision(found: str | None) -> None:
    """Refuse any other schema than ours.

    Raises
    ------
    WrongSchema
        Older, newer or none.
    """
    if found == head():
        return
    if found is None:
        raise WrongSchema("the database has no schema yet: run `lhb migrate`")
    if found in revisions():
        raise WrongSchema(
            f"the database has schema {found}, this program needs {head()}: run `lhb migrate`"
        )
    raise WrongSchema(
        f"the database has schema {found}, which is newer than this program's {head()}: "
        "run a newer release"
    )
