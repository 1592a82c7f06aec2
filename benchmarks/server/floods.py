"""What floods a server in `lhb bench neighbours`: one function for each kind of flood.

A flood runs in a process of its own, niced, so that it takes no time from the load generator. Its
function prepares what it needs, and returns the work that threads do over and over.
"""

import base64
import json
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from benchmarks.server.large_session import session_file
from benchmarks.server.load import DIM, N_ARMS

N_DELETED = 3  # large sessions
N_IMPORTS = 4  # at once
COLLISIONS = 40.0  # a second
N_LARGE = 3  # sessions with long fits
N_UNREAD, N_READERS = 8, 4
N_TRAJECTORIES = 50  # of the session whose trajectories are listed, a short log each
LEARNER_DIM = 128  # of an agent with 0.5 MB
N_FLOODING = 4  # connections
BATCH, N_ACTIONS, MANY_ARMS, NAMED_ARMS = 1000, 400, 70_000, 9000
NICENESS = 10
JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}
Work = Callable[[], object]


@dataclass
class Flooded:
    """A server, and what a flood sends it.

    Attributes
    ----------
    client : httpx.Client
        Of the tenant that floods.
    rounds : int
        Of a large session.
    log_rounds, short_rounds : int
        Of a log that is appended, and of a short one.
    fit_size : int
        Rounds and features of a session whose fit takes about 10 s of CPU.
    n_learners : int
        Sessions of large agents.
    end : threading.Event
        Set when the flood has to stop.
    """

    client: httpx.Client
    rounds: int
    log_rounds: int = 10_000
    short_rounds: int = 1000
    fit_size: int = 600
    n_learners: int = 400
    end: threading.Event = field(default_factory=threading.Event)

    def create(self, **settings: Any) -> str:
        """Make a session."""
        body = {"algorithm": "uniform", "dim": DIM, "horizon": 100, **settings}
        return str(self.client.post("/v1/sessions", json=body).json()["id"])

    def post(self, path: str, body: bytes, headers: dict[str, str] = JSON) -> int:
        """Send a request of the flood; return its status."""
        return self.client.post(path, content=body, headers=headers).status_code

    def large(self) -> str:
        """Make a session with `rounds` rounds."""
        answer = self.client.post("/v1/sessions/import", content=self.file(), headers=NDJSON)
        return str(answer.raise_for_status().json()["id"])

    def file(self) -> bytes:
        """Return the file of a session with `rounds` rounds."""
        session = self.create()
        assert self.post(f"/v1/sessions/{session}/history", log(self.short_rounds)) == 201
        short = self.client.get(f"/v1/sessions/{session}/events").content
        self.client.delete(f"/v1/sessions/{session}")
        return session_file(short, self.rounds)


def log(n: int, dim: int = DIM, **more: Any) -> bytes:
    """Return the body of a log of n rounds."""
    contexts = np.random.default_rng(1).uniform(-1, 1, (n, dim))
    data = base64.b64encode(contexts.tobytes()).decode()
    given = contexts.tolist()
    if dim != DIM:
        given = {"dtype": "float64", "shape": [n, dim], "data": data}
    rewards = np.random.default_rng(2).normal(size=n).tolist()  # of equal ones no fit learns
    return json.dumps({"contexts": given, "rewards": rewards, **more}).encode()


def imports(flooded: Flooded) -> list[Work]:
    """Import large files, several at once."""
    file = flooded.file()
    return [lambda: flooded.post("/v1/sessions/import", file, NDJSON)] * N_IMPORTS


def histories(flooded: Flooded) -> list[Work]:
    """Append logs of 10 000 rounds."""
    body = log(flooded.log_rounds)
    return [lambda: flooded.post(f"/v1/sessions/{flooded.create()}/history", body)]


def deletions(flooded: Flooded) -> list[Work]:
    """Delete large sessions, which are in the database or are imported before."""
    page = flooded.client.get("/v1/sessions?limit=1000").json()["items"]
    sessions = [one["id"] for one in page if one["n_rounds"] == flooded.rounds]
    while len(sessions) < N_DELETED:
        sessions.append(flooded.large())

    def delete() -> None:
        if sessions:
            flooded.client.delete(f"/v1/sessions/{sessions.pop()}")
        time.sleep(1.0)

    return [delete]


def collisions(flooded: Flooded) -> list[Work]:
    """Append logs whose reward ids are taken, COLLISIONS a second."""
    session = flooded.create()
    decided = json.dumps({"contexts": [[0.0] * DIM]}).encode()
    flooded.post(f"/v1/sessions/{session}/decisions", decided)
    reward = json.dumps({"round": 1, "value": 1.0, "reward_id": "h/20"}).encode()
    flooded.post(f"/v1/sessions/{session}/rewards", reward)
    body = log(20, import_id="h")

    def collide() -> None:
        assert flooded.post(f"/v1/sessions/{session}/history", body) == 409
        time.sleep(1 / COLLISIONS)

    return [collide]


def strangers(flooded: Flooded) -> list[Work]:
    """Append the same logs to a session that does not exist: what any such refusal costs."""
    path, body = f"/v1/sessions/{flooded.create()}/history", log(20, import_id="h")
    flooded.client.delete(path.removesuffix("/history"))

    def ask() -> None:
        assert flooded.post(path, body) == 404
        time.sleep(1 / COLLISIONS)

    return [ask]


def fits(flooded: Flooded) -> list[Work]:
    """Keep long fits due: sessions of a large dim, each deleted when its fit is done."""
    size = flooded.fit_size
    body = log(size, size)

    def fit() -> None:
        path = f"/v1/sessions/{flooded.create(algorithm='anytime', dim=size, horizon=4)}"
        flooded.post(f"{path}/history", body)
        while not flooded.end.is_set() and flooded.client.get(path).json().get("fit_due"):
            time.sleep(0.2)
        flooded.client.delete(path)

    return [fit] * N_LARGE


def reads(flooded: Flooded) -> list[Work]:
    """Ask for exports that are not read, and for long pages."""
    session = flooded.large()
    url, key = urlsplit(str(flooded.client.base_url)), flooded.client.headers.get("authorization")
    head = f"GET /v1/sessions/{session}/events HTTP/1.1\r\nhost: localhost\r\n"
    head += f"authorization: {key}\r\n\r\n" if key else "\r\n"

    def leave_unread() -> object:
        with socket.create_connection((url.hostname, url.port)) as connection:
            connection.sendall(head.encode())
            connection.recv(1000)
            return flooded.end.wait(5)

    def read() -> object:
        return flooded.client.get(f"/v1/sessions/{session}/rounds?limit=1000")

    work: list[Work] = [leave_unread] * N_UNREAD
    return work + [read] * N_READERS


def pages(flooded: Flooded) -> list[Work]:
    """Read all that is large, whole: exports, and the longest pages of each listing."""
    session = flooded.large()
    many = flooded.create()
    body = log(flooded.short_rounds)
    for i in range(N_TRAJECTORIES):
        flooded.post(
            f"/v1/sessions/{many}/history", body.replace(b"{", b'{"trajectory": "%d", ' % i, 1)
        )
    asked = [
        f"/v1/sessions/{session}/events",
        f"/v1/sessions/{session}/rounds?limit=1000&cursor={flooded.rounds // 2}",
        f"/v1/sessions/{session}/credit?limit=1000",
        f"/v1/sessions/{session}/series?rounds=100000&bins=1000",
        f"/v1/sessions/{many}/trajectories?limit=1000",
    ]

    def read(path: str) -> Work:
        return lambda: flooded.client.get(path).raise_for_status()

    return [read(path) for path in asked] * 2


def agents(flooded: Flooded) -> list[Work]:
    """Ask for decisions of many sessions in turn whose agents are large."""
    settings = {"algorithm": "lin_ucb", "dim": LEARNER_DIM}
    body = json.dumps({"contexts": [[0.1] * LEARNER_DIM]}).encode()
    paths = [f"/v1/sessions/{flooded.create(**settings)}" for _ in range(flooded.n_learners)]
    for path in paths:  # an agent that has learned nothing is small
        flooded.post(f"{path}/decisions", body)
        flooded.post(f"{path}/rewards", b'{"round": 1, "value": 1.0}')
    n = 0

    def decide() -> None:
        nonlocal n
        n += 1
        flooded.post(f"{paths[n % len(paths)]}/decisions", body)

    return [decide]


def batches(flooded: Flooded) -> list[Work]:
    """Send batches of 1000 decisions of one session, on several connections."""
    contexts = np.random.default_rng(1).uniform(-1, 1, (N_ARMS, DIM)).tolist()
    item = {"session_id": flooded.create(), "decision": {"contexts": contexts}}
    body = json.dumps({"items": [item] * BATCH}).encode()
    return [lambda: flooded.post("/v1/batch", body)] * N_FLOODING


def personalizer(flooded: Flooded) -> list[Work]:
    """Ask Personalizer's route for the choice of one of many actions with many features."""
    features = [{f"f{i}": i / 100 for i in range(20)}]
    actions = [{"id": str(i), "features": features} for i in range(N_ACTIONS)]
    asked = {"actions": actions, "contextFeatures": [{"hour": 3, "tags": ["a", "b", "c"]}]}
    body = json.dumps(asked).encode()
    return [lambda: flooded.post("/personalizer/v1.0/rank", body)] * N_FLOODING


def ranks(flooded: Flooded) -> list[Work]:
    """Rank 70 000 arms."""
    path = f"/v1/sessions/{flooded.create()}/rank"
    body = json.dumps({"contexts": np.zeros((MANY_ARMS, DIM)).tolist()}).encode()
    return [lambda: flooded.post(path, body)] * N_FLOODING


def named(flooded: Flooded) -> list[Work]:
    """Take decisions whose contexts with names are 13 MB."""
    path = f"/v1/sessions/{flooded.create(dim=64, categories='hashed')}/decisions"
    context = {f"feature{i}": f"category {i}" for i in range(40)}
    body = json.dumps({"contexts": [context] * NAMED_ARMS}).encode()
    return [lambda: flooded.post(path, body)] * N_FLOODING


FLOODS: dict[str, Callable[[Flooded], list[Work]]] = {
    flood.__name__: flood
    for flood in (
        *(fits, reads, pages, imports, histories, deletions, collisions, strangers, agents),
        *(batches, personalizer, ranks, named),
    )
}


class Flood:
    """A flood in a process of its own; it is prepared and has not begun.

    Attributes
    ----------
    begin, end : multiprocessing.Event
        Set them to begin and to end the flood.
    """

    def __init__(self, name: str, url: str, headers: dict[str, str], rounds: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._done = context.Value("i", 0)
        self._is_ready, self.begin, self.end = (context.Event() for _ in range(3))
        events = (self._is_ready, self.begin, self.end)
        self._process = context.Process(
            target=_run, args=(name, url, headers, rounds, self._done, events), daemon=True
        )
        self._process.start()
        while not self._is_ready.wait(0.1):
            if not self._process.is_alive():
                raise SystemExit(f"the flood {name} could not be prepared")

    @property
    def n_done(self) -> int:
        """How many of its requests, or of its rounds of requests, were answered."""
        return int(self._done.value)

    def close(self) -> None:
        """End the process."""
        self.end.set()
        self._process.join(5)
        self._process.kill()


@contextmanager
def prepared(name: str, url: str, headers: dict[str, str], rounds: int) -> Iterator[Flood]:
    """Prepare a flood; end it at the end."""
    flood = Flood(name, url, headers, rounds)
    try:
        yield flood
    finally:
        flood.close()


def _run(name: str, url: str, headers: dict[str, str], rounds: int, done: Any, events: Any) -> None:
    """Prepare the flood, wait until it may begin, and run its work in threads until its end."""
    is_ready, begin, end = events
    os.nice(NICENESS)
    limits = httpx.Limits(max_connections=64)
    with httpx.Client(base_url=url, timeout=600, headers=headers, limits=limits) as client:
        flooded = Flooded(client, rounds)
        work = FLOODS[name](flooded)
        is_ready.set()
        begin.wait()

        def again(one: Work) -> None:
            with suppress(httpx.HTTPError, OSError):  # the server has ended
                while not flooded.end.is_set():
                    one()
                    with done.get_lock():
                        done.value += 1

        for one in work:
            threading.Thread(target=again, args=(one,), daemon=True).start()
        end.wait()
        flooded.end.set()
        os._exit(0)  # threads may wait for a slow answer
