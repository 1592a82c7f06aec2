"""Keep the covariates that decisions and rewards carry."""

from service.storage.migrate import run_script

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
