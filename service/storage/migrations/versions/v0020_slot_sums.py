"""Keep the summed contexts of old slots of sessions with a clock."""

from service.storage.migrate import run_script

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
