"""Keep the sums that lift is computed from."""

from service.storage.migrate import run_script

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
