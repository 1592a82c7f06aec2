"""A real server for the clients, as a process of its own on a database of its own."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.faults.server_process import served


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("server")
    with served(folder / "test.db") as address:
        yield address


@pytest.fixture
def lossy_url(url: str) -> Iterator[str]:
    """Forwards every request, and drops every other answer to a write after it was carried out."""
    n_writes = 0

    class Lossy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            nonlocal n_writes
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {"content-type": self.headers.get("Content-Type", "")}
            answer = forwarding.request(
                self.command, url + self.path, content=body, headers=headers
            )
            n_writes += self.command != "GET"
            if self.command != "GET" and n_writes % 2:
                self.close_connection = True
                return
            self.send_response(answer.status_code)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_DELETE = forward

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    forwarding = httpx.Client(timeout=60, verify=False)
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Lossy)
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{proxy.server_port}"
    proxy.shutdown()
    thread.join()
    proxy.server_close()
    forwarding.close()
