"""The counters of a session in a table of their own (SQLite)."""

from service.storage.migrate import run_script

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Run this revision's script for the database at hand."""
    run_script(revision)
