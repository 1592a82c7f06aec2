"""Sessions may have a clock."""

from service.storage.migrate import run_script

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
