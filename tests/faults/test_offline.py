"""`lhb replay`, `export` and `import` beside a server that owns the file, and without one."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.faults.server_process import Server
from tests.faults.test_kill import wait_for_fits
from tests.forked_process import run_lhb

ARMS = [[1.0, 0.25], [-0.5, 1.0], [0.25, -1.0]]


def lhb(
    database: Path, *arguments: str, stdin: bytes = b"", **settings: str
) -> subprocess.CompletedProcess[bytes]:
    settings = {"LHB_DATABASE_URL": f"sqlite:///{database}", **settings}
    return run_lhb(*arguments, stdin=stdin, **settings)


@pytest.mark.slow
def test_beside_a_server_reading_works_and_writing_says_what_to_do(tmp_path: Path) -> None:
    database = tmp_path / "lhb.db"
    with Server(database) as server, server.client() as client:
        body = {"algorithm": "ad_lasso", "dim": 2, "horizon": 4, "seed": 3, "name": "shop"}
        session = client.post("/v1/sessions", json=body).json()["id"]
        path = f"/v1/sessions/{session}"
        for round in range(1, 31):
            answer = client.post(f"{path}/decisions", json={"contexts": ARMS}).json()
            value = ARMS[answer["arm"]][0]
            client.post(f"{path}/rewards", json={"round": round, "value": value})
        wait_for_fits(client, session)

        replayed = lhb(database, "replay", "--json")
        assert replayed.returncode == 0, replayed.stderr
        [report] = json.loads(replayed.stdout)["sessions"]
        assert (report["equal"], report["decisions"]) == (True, 30)

        here, through = (
            lhb(database, "export", "shop"),
            lhb(database, "export", session, "--url", server.url),
        )
        assert here.returncode == through.returncode == 0, here.stderr + through.stderr
        assert here.stdout == through.stdout

        refused = lhb(database, "import", "--name", "copy", stdin=here.stdout)
        assert refused.returncode != 0
        assert b"--url" in refused.stderr
        moved = lhb(database, "export", session, "--move", "--out", str(tmp_path / "x"))
        assert b"--url" in moved.stderr
        taken = lhb(database, "import", "--url", server.url, stdin=here.stdout)
        assert b"taken" in taken.stderr
        moved = lhb(database, "export", session, "--move", "--url", server.url)
        assert client.get(path).json()["archived"]
    copied = lhb(tmp_path / "other.db", "import", stdin=moved.stdout)
    assert copied.returncode == 0, copied.stderr
    with Server(tmp_path / "other.db") as elsewhere, elsewhere.client() as client:
        path = f"/v1/sessions/{copied.stdout.decode().strip()}"
        assert not client.get(path).json()["archived"]
        answer = client.post(f"{path}/decisions", json={"contexts": ARMS}).json()
        assert answer["round"] == 31
    assert lhb(database, "replay", "nobody").returncode != 0
