"""Keep the moments of a session's past."""

from service.storage.migrate import run_script

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
