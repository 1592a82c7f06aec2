"""Move the counters of a session to a table of their own (SQLite)."""

from service.storage.migrate import run_script

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
