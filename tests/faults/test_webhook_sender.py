"""A sender is killed between sending and noting: the message comes again, and none is lost."""

import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.faults.server_process import Server

IDS = 3
SOON = """
from functools import partial
import service.operation.app as app
app.Intervals = partial(app.Intervals, webhooks=0.05, attempts=0.1, claim=CLAIM)
from service.operation.server import run
run(port=0)
"""


class ServerThatSendsSoon(Server):
    """The server, but a dead sender's message is due after seconds, not after a minute."""

    code = SOON.replace("CLAIM", "5.0")


class Successor(Server):
    """What it sends itself is its own for a minute, however slow the machine is."""

    code = SOON.replace("CLAIM", "60.0")


def test_what_a_killed_sender_had_sent_comes_again_and_nothing_is_lost(tmp_path: Path) -> None:
    """The first message has arrived, and its sender dies before it hears so."""
    came: list[str] = []
    has_come, may_answer, all_came = threading.Event(), threading.Event(), threading.Event()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(self.headers["webhook-id"])
            self.rfile.read(int(self.headers["content-length"]))
            if len(came) == 1:
                has_come.set()
                may_answer.wait(120)
            if len({*came}) == IDS and len(came) > IDS:
                all_came.set()
            with suppress(OSError):  # the sender has died
                self.send_response(200)
                self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    hook = {"url": f"http://127.0.0.1:{receiver.server_port}/", "events": ["alarm"]}
    settings = {"LHB_WEBHOOK_NETWORKS": "127.0.0.0/8"}
    database = tmp_path / "lhb.db"
    with ServerThatSendsSoon(database, **settings) as server, server.client() as client:
        path = f"/v1/webhooks/{client.post('/v1/webhooks', json=hook).json()['id']}"
        for _ in range(IDS):
            assert client.post(f"{path}/test").status_code == 204
        assert has_come.wait(120)
        server.kill()
    may_answer.set()
    with Successor(database, **settings) as again, again.client() as client:
        assert all_came.wait(120)
        while client.get("/v1/webhooks").json()["items"][0]["n_waiting"]:
            time.sleep(0.05)
    receiver.shutdown()
    receiver.server_close()
    assert sorted(map(came.count, {*came})) == [1, 1, 2]
    assert came[1:].count(came[0]) == 1
