"""Sessions, trajectories, decisions, measurements, estimates."""

from service.storage.migrate import run_script

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run this revision's script for the database at hand."""
    run_script(revision)
