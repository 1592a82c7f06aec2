"""API keys; the name a session was created under."""

from service.storage.migrate import run_script

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Run this revision's script for the database at hand."""
    run_script(revision)
