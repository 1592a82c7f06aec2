"""`lhb sessions` says the same through a server and beside it."""

import json
from pathlib import Path

from clients.cli.demo import server
from lhb import Client
from tests.forked_process import lhb_text


def lhb(database: Path, *arguments: str) -> str:
    done = lhb_text("sessions", *arguments, LHB_DATABASE_URL=f"sqlite:///{database}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sessions_are_listed_here_and_through_a_server(tmp_path: Path) -> None:
    database = tmp_path / "lhb.db"
    with server(database) as url, Client(url) as client:
        shop = client.create_session("shop", dim=2, horizon=5)
        shop.decide([[1.0, 0.0], [0.0, 1.0]])
        farm = client.create_session("farm", algorithm="uniform", dim=1, horizon=1)
        client.request("PATCH", f"/v1/sessions/{farm.id}", json={"archived": True})
        for where in ((), ("--url", url)):
            [listed] = json.loads(lhb(database, "--json", *where))["sessions"]
            if not where:
                assert listed.pop("tenant") == ""
            assert listed == client.request("GET", f"/v1/sessions/{shop.id}")
            head, first, second = lhb(database, "--archived", *where).splitlines()
            tenants = (["tenant"], ["-"]) if not where else ([], [])
            heads = ["id", "algorithm", "rounds", "model", "decides", *tenants[0], "name"]
            assert head.split() == heads
            assert first.split() == [shop.id, "anytime", "1", "0", "exploring", *tenants[1], "shop"]
            assert second.split() == [farm.id, "uniform", "0", "0", "archived", *tenants[1], "farm"]
            assert first.index("shop") == second.index("farm") == head.index("name")
