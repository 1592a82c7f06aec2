"""`lhb migrate`: the schema of the database."""

import typer


def migrate() -> None:
    """Bring the database of LHB_DATABASE_URL to the schema of this release.

    Example: lhb migrate
    """
    from service.base.settings import read_settings
    from service.storage.migrate import migrate

    before, after = migrate(read_settings().database_url)
    typer.echo(f"schema {after}" + ("" if before == after else f" (was {before or 'empty'})"))
