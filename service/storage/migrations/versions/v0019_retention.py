"""Let sessions drop the rows of old rounds."""

from service.storage.migrate import run_script

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
