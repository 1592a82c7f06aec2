"""Keep which decisions were never shown."""

from service.storage.migrate import run_script

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
