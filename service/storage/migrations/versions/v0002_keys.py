"""Add API keys, and the name that a session was created under."""

from service.storage.migrate import run_script

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
