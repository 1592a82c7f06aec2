"""Count what erased trajectories took."""

from service.storage.migrate import run_script

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
