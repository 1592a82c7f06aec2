"""Roles, expiry and last use of keys; the audit log."""

from service.storage.migrate import run_script

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Run the script of this revision for the connected database."""
    run_script(revision)
