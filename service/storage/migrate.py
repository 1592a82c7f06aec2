"""`lhb migrate`: bring a database to the schema of this program, in one transaction."""

from service.storage.database_url import is_sqlite, sqlite_path
from service.storage.schema import SCHEMA, Schema


def migrate(url: str, schema: Schema = SCHEMA) -> tuple[str | None, str]:
    """Run the missing revisions in one transaction.

    Parameters
    ----------
    url : str
        The database's URL.
    schema : Schema, optional
        By default this program's.

    Returns
    -------
    tuple of (str or None, str)
        The revisions before and after; None before for an empty database.

    Raises
    ------
    OwnedElsewhere
        A server owns the SQLite file and has to be stopped first.
    Refused
        The database holds tables of another program, or its schema is newer, or the file is no
        database.
    Unavailable
        The database does not answer.
    """
    if is_sqlite(url):
        from service.storage.sqlite.migrate import migrate_file

        return migrate_file(sqlite_path(url), schema), schema.head
    from service.storage.postgres.migrate import migrate_database

    return migrate_database(url, schema), schema.head
