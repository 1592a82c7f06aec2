"""Keep summed slots without empty ones."""

from service.storage.migrate import run_script

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
