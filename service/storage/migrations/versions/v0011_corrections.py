"""Let a measurement replace an earlier one."""

from service.storage.migrate import run_script

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
