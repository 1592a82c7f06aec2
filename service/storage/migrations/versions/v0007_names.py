"""Keep the names of features and arms with their session."""

from service.storage.migrate import run_script

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
