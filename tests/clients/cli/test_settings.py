"""`lhb settings` says what is set, and every command names what is misspelt."""

import json
from pathlib import Path

from clients.cli.output import WIDTH
from service.base.server_settings import Settings
from tests.forked_process import lhb_text as lhb


def test_every_setting_is_listed_with_its_value_default_and_meaning(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cret:/@\n")
    done = lhb(
        *("settings", "--json"),
        lhb_max_batch="7",  # names are read in any case
        LHB_DATABASE_URL="postgresql://shop@db/lhb",
        LHB_DATABASE_PASSWORD_FILE=str(secret),
    )
    found = {one["variable"]: one for one in json.loads(done.stdout)["settings"]}
    assert [*found] == [f"LHB_{name.upper()}" for name in Settings.model_fields]
    assert all(one["meaning"] for one in found.values())
    batch = found["LHB_MAX_BATCH"]
    assert (batch["value"], batch["default"], batch["is_set"]) == (7, 256, True)
    assert not found["LHB_MAX_QUEUE"]["is_set"]
    assert found["LHB_DATABASE_URL"]["value"] == "postgresql://shop:***@db/lhb"
    assert found["LHB_DATABASE_PASSWORD_FILE"]["value"] == str(secret)
    assert "s3cret" not in done.stdout


def test_the_list_fits_a_terminal() -> None:
    done = lhb("settings", LHB_FIT_WORKERS="2", LHB_ALLOW_ORACLES="TRUE")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "LHB_FIT_WORKERS = 2  (default: 1)" in lines
    assert "LHB_ALLOW_ORACLES = true  (default: false)" in lines
    assert "LHB_ALLOWED_HOSTS = (none)" in lines


def test_a_misspelt_variable_is_named_with_what_was_meant(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'lhb.db'}"
    done = lhb("migrate", LHB_DATABASE_URL=url, LHB_MAX_BACH="3", LHB_ZZZ="1")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "lhb: LHB_MAX_BACH is no setting of this release, and is ignored; "
        "did you mean LHB_MAX_BATCH?",
        "lhb: LHB_ZZZ is no setting of this release, and is ignored",
    ]


def test_where_a_server_listens_is_read_as_other_settings_are() -> None:
    """The variables' names stand in the help of the command."""
    done = lhb("serve", LHB_PORT="eighty")
    assert done.returncode == 2
    assert "LHB_PORT" in done.stderr
    assert lhb("serve", LHB_PORT="70000").returncode == 2
    asked = lhb("session", "show", "tutorial", LHB_URL="http://127.0.0.1:9/")
    assert "http://127.0.0.1:9" in asked.stderr
    assert "LHB_HOST" in lhb("serve", "--help").stdout
