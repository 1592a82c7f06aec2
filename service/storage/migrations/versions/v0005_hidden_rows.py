"""Note which rows no reader sees, so that large writes and deletions go in slices."""

from service.storage.migrate import run_script

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
