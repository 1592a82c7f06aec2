"""Decisions in order of arrival (SQLite)."""

from service.storage.migrate import run_script

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Run this revision's script for the database at hand."""
    run_script(revision)
