"""Keep who played a round, and what a session compares its agent with."""

from service.storage.migrate import run_script

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
