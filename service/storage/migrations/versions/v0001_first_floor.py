"""Create sessions, agent states, trajectories, decisions, measurements and estimates."""

from service.storage.migrate import run_script

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
