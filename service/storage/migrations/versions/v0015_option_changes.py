"""Keep which options a session had before a change."""

from service.storage.migrate import run_script

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
