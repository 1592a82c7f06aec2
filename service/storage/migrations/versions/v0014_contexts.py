"""Keep the contexts of all arms, where a session asks for it."""

from service.storage.migrate import run_script

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
