"""Store decisions in order of arrival (SQLite)."""

from service.storage.migrate import run_script

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
