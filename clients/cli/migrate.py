"""`lhb migrate`: the schema of the database."""

import typer


def migrate() -> None:
    """Bring the database of LHB_DATABASE_URL to the schema of this release."""
    from service.settings import Settings
    from service.storage.migrate import migrate

    before, after = migrate(Settings().database_url)
    typer.echo(f"schema {after}" + ("" if before == after else f" (was {before or 'empty'})"))
