"""The shipped proxy holds no bodies, and refuses as the API does."""

import re
import socket
from contextlib import ExitStack
from pathlib import Path

import httpx

from tests.faults.server_process import OURS, Server
from tests.faults.test_clients import ARMS, create
from tests.faults.test_compose import nginx, proxy

MB = 2**20


def proxy_memory(url: str) -> int:
    """Resident bytes of the processes that listen at `url`, and what their folder holds."""
    port, total = url.rpartition(":")[2], 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text()
            if not command.startswith("nginx: ") and "/nginx\0" not in command:
                continue
            parent = command if "nginx.conf" in command else ""
            for path in re.findall(r"/tmp/lhb-nginx-[^/\0 ]+", parent):
                if f":{port};" in Path(path, "nginx.conf").read_text():
                    total += sum(f.stat().st_size for f in Path(path).rglob("*") if f.is_file())
            total += int((process / "statm").read_text().split()[1]) * 4096
        except OSError:
            continue
    return total


def test_the_proxy_passes_bodies_on_and_speaks_problem_json(tmp_path: Path) -> None:
    nginx()
    with ExitStack() as stack:
        server = stack.enter_context(Server(tmp_path / "lhb.db"))
        url = stack.enter_context(proxy([int(server.url.rpartition(":")[2])]))
        client = stack.enter_context(httpx.Client(base_url=url, timeout=120))
        path = f"/v1/sessions/{create(client)}/decisions"
        assert client.post(path, json={"contexts": ARMS}).status_code == 201
        before = proxy_memory(url)
        head = f"POST {path} HTTP/1.1\r\n{OURS}content-length: {15 * MB}\r\n\r\n".encode()
        host, port = url.removeprefix("http://").split(":")
        for _ in range(9):
            slow = stack.enter_context(socket.create_connection((host, int(port)), timeout=5))
            try:
                slow.sendall(head + b" " * (14 * MB))
            except OSError:
                break  # refused by the API: others hold enough
        assert proxy_memory(url) - before < 30 * MB
        json = {"content-type": "application/json"}
        large = client.post(path, content=b" " * 16 * MB + b"{}", headers=json)
        assert large.status_code == 413
        assert large.headers["content-type"] == "application/problem+json"
        assert large.json()["code"] == "body_too_large"
        long = client.get("/healthz", headers={"x-long": "a" * 20_000})
        assert (long.status_code, long.json()["code"]) == (431, "headers_too_large")
        assert client.get("/metrics").json()["status"] == 404
        server.kill()
        away = client.get("/healthz")
        assert (away.status_code, away.json()["code"]) == (503, "overloaded")
        assert away.headers["retry-after"] == "1"
