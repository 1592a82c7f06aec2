"""A sync of the log that fails: nobody knows whether the commit stands, and the answer says so."""

import shutil
from pathlib import Path

import httpx
import pytest

from tests.faults.server_process import Server
from tests.faults.test_disk import assert_whole, create, decide, log_of
from tests.faults.traced import FailingSync

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


def pid_of(server: Server) -> int:
    assert server.process is not None
    return server.process.pid


def assert_unknown(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["code"]) == (503, "outcome_unknown"), answer.text
    assert "unknown" in answer.json()["detail"]
    assert "nothing was written" not in answer.json()["detail"]
    assert answer.headers["retry-after"]


def test_after_one_failed_sync_the_same_id_tells(tmp_path: Path) -> None:
    with Server(tmp_path / "lhb.db") as server, server.client() as client:
        session = create(client)
        assert decide(client, session, 1).status_code == 201
        with FailingSync(pid_of(server), tmp_path / "trace", first_only=True) as fault:
            assert_unknown(decide(client, session, 2))
            assert fault.n_failed >= 1
        for i in (2, 3):  # the second is asked again with the same id
            answer = decide(client, session, i)
            assert (answer.status_code, answer.json()["round"]) in [(201, i), (200, i)]
        assert_whole(client, session, 3)
        server.kill()
    with Server(tmp_path / "lhb.db") as again, again.client() as client:
        assert_whole(client, session, 3)


def test_while_syncs_fail_nothing_is_promised(tmp_path: Path) -> None:
    """Nor read: what a read would miss may be there after the next start."""
    with Server(tmp_path / "lhb.db") as server, server.client() as client:
        session = create(client)
        assert decide(client, session, 1).status_code == 201
        with FailingSync(pid_of(server), tmp_path / "trace"):
            assert_unknown(decide(client, session, 2))
            for _ in range(2):
                answer = decide(client, session, 3)
                assert (answer.status_code, answer.json()["code"]) == (503, "storage_failing")
                assert "nothing was written" in answer.json()["detail"]
                answer = client.get(f"/v1/sessions/{session}/rounds")
                assert (answer.status_code, answer.json()["code"]) == (503, "storage_failing")
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").json()["code"] == "storage_failing"
        assert decide(client, session, 2).json()["round"] == 2  # by itself
        assert client.get("/readyz").status_code == 200
        assert decide(client, session, 3).json()["round"] == 3
        assert_whole(client, session, 3)
        server.kill()
    with Server(tmp_path / "lhb.db") as again, again.client() as client:
        assert_whole(client, session, 3)


def test_killed_after_a_failed_sync(tmp_path: Path) -> None:
    """The round that nobody knows of is there or is not, and its id tells which."""
    with Server(tmp_path / "lhb.db") as server, server.client() as client:
        session = create(client)
        assert decide(client, session, 1).status_code == 201
        with FailingSync(pid_of(server), tmp_path / "trace"):
            assert_unknown(decide(client, session, 2))
            server.kill()
    with Server(tmp_path / "lhb.db") as again, again.client() as client:
        n = len(log_of(client, session))
        answer = decide(client, session, 2)
        assert (answer.status_code, answer.json()["round"]) == (200 if n == 2 else 201, 2)
        assert_whole(client, session, 2)
