"""`lhb webhooks`, and `lhb keys limit` through a server and beside it."""

import json
from pathlib import Path

import pytest

from lhb import Client
from tests.faults.server_process import served
from tests.forked_process import lhb_text

HOOK = "https://example.com/hook"


def lhb(database: Path, *arguments: str) -> str:
    done = lhb_text(*arguments, LHB_DATABASE_URL=f"sqlite:///{database}")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_webhooks_and_limits(tmp_path: Path) -> None:
    database = tmp_path / "lhb.db"
    lhb(database, "keys", "limit", "--tenant", "north", "--max-sessions", "3")
    with served(database) as url, Client(url) as client:
        where = ("--url", url)
        made = lhb(database, "webhooks", "create", HOOK, "--event", "alarm", *where)
        assert made.startswith("whsec_")
        [hook] = json.loads(lhb(database, "webhooks", "list", "--json", *where))["webhooks"]
        assert [hook] == client.webhooks()
        assert (hook["url"], hook["events"]) == (HOOK, ["alarm"])
        lhb(database, "webhooks", "test", hook["id"], *where)
        assert hook["id"] in lhb(database, "webhooks", "list", *where)
        lhb(database, "webhooks", "remove", hook["id"], *where)
        assert client.webhooks() == []
        limit = ("keys", "limit", "--tenant", "north", *where)
        lhb(database, *limit, "--requests-per-second", "5")
        [row] = json.loads(lhb(database, "keys", "limits", "--json"))["limits"]
        assert row == {
            **{"tenant": "north", "key_id": "", "requests_per_second": 5.0},
            **{"max_sessions": 3, "max_tenant_mb": None},
        }
        lhb(database, *limit, "--reset", "--max-sessions", "0")
        assert lhb(database, "keys", "limits", *where).splitlines()[1].split() == [
            *("north", "-", "-", "0", "-"),
        ]
