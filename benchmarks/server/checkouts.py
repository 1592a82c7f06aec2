"""`lhb bench instructions`: user instructions of a server for a decision, of several checkouts.

They are counted by valgrind, for single decisions in waves and for batches of 100. What is compared
has the same packages: servers differ in their checkout alone.
"""

import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np

from benchmarks.server.featured_server import FeaturedServer
from benchmarks.server.instructions import WAVE, counting, send_waves, valgrind
from benchmarks.server.load import DIM, decision_body, request_of
from benchmarks.server.processes import UNHURRIED, servers

# the command of every checkout; the module that serves has not always had the same name
CHECKOUT = "import sys; sys.path[0] = {!r}"
SERVE = "import lhb; sys.argv[1:] = ['serve', '--port', '0']; lhb.main()"
BATCH = 100
WARM, COUNTED = 10, 60  # waves
WARM_BATCHES, COUNTED_BATCHES = 4, 20
DAY = 86400
LOGGED = 60  # rounds of each of the users


class Case(NamedTuple):
    """What is asked for: of how many sessions, as what, and how many of it a request has."""

    n_sessions: int
    session: dict[str, Any]
    request: Callable[[list[str], int], bytes]  # of the sessions' ids and a number
    n_connections: int = WAVE
    n_warm: int = WARM
    n_counted: int = COUNTED
    n_decisions: int = 1
    prepare: Callable[[httpx.Client, str], None] = lambda client, id: None


def _single(ids: list[str], n: int) -> bytes:
    return request_of(f"/v1/sessions/{ids[n % len(ids)]}/decisions", decision_body())


def _rewarded(ids: list[str], n: int) -> bytes:
    """Return a decision with an event id, and with the reward of the round before."""
    body = json.loads(decision_body()) | {"event_id": f"event-{n}"}
    if n >= len(ids):
        body["rewards"] = [{"round": n // len(ids), "value": 0.5}]
    return request_of(f"/v1/sessions/{ids[n % len(ids)]}/decisions", json.dumps(body))


def _log_users(client: httpx.Client, id: str) -> None:
    """Log rounds of users who differ in what works for them, and wait until no fit is due.

    A fit that is installed meanwhile would make every user's theta anew, in some counts alone.
    """
    rng, path = np.random.default_rng(1), f"/v1/sessions/{id}"
    for user in range(WAVE):
        contexts = rng.uniform(-1.0, 1.0, (LOGGED, DIM))
        values = contexts @ (np.eye(DIM)[0] + 0.4 * rng.standard_normal(DIM))
        values += 0.1 * rng.standard_normal(LOGGED)
        body = {"contexts": contexts.tolist(), "rewards": values.tolist()}
        client.post(f"{path}/history", json={**body, "trajectory": f"u{user}"}).raise_for_status()
    while client.get(path).raise_for_status().json()["fit_due"]:
        time.sleep(0.5)


def _of_users(ids: list[str], n: int) -> bytes:
    body = json.loads(decision_body()) | {"trajectory": f"u{n % WAVE}"}
    return request_of(f"/v1/sessions/{ids[0]}/decisions", json.dumps(body))


def _users(own: bool) -> "Case":
    session = {"reward_wait_seconds": DAY, "options": {"own": own, "most_stale": 1}}
    return Case(1, session, _of_users, prepare=_log_users)


def _batch(ids: list[str], _: int) -> bytes:
    decision = json.loads(decision_body())
    items = [{"session_id": ids[i % len(ids)], "decision": decision} for i in range(BATCH)]
    return request_of("/v1/batch", json.dumps({"items": items}))


PLAIN = {"algorithm": "uniform"}
BATCHES = 1, WARM_BATCHES, COUNTED_BATCHES, BATCH
CASES = {
    "single": Case(64, PLAIN, _single),
    "single, of the default algorithm, with a reward": Case(
        64, {"reward_wait_seconds": DAY}, _rewarded
    ),
    "of users, by everybody's theta": _users(False),
    "of users, each by their own theta": _users(True),
    "batch, one session": Case(1, PLAIN, _batch, *BATCHES),
    "batch, 100 sessions": Case(BATCH, PLAIN, _batch, *BATCHES),
}


def run(checkouts: Sequence[Path], names: Sequence[str] = ()) -> dict[str, Any]:
    """Count every case, on every checkout.

    Parameters
    ----------
    checkouts : sequence of Path
        The first one is what the others are compared with.
    names : sequence of str
        Of CASES. Default: all.

    Returns
    -------
    dict
        By case: thousands of instructions for a decision, by checkout, and their ratios.
    """
    found: dict[str, Any] = {}
    for name in names or CASES:
        counts = [round(_counted(path, CASES[name]), 1) for path in checkouts]
        found[name] = {
            "instructions": dict(zip(map(str, checkouts), counts, strict=True)),
            "ratios": [round(count / counts[0], 4) for count in counts],
        }
    return found


def _counted(checkout: Path, case: Case) -> float:
    with tempfile.TemporaryDirectory() as name, _serving(checkout, folder := Path(name)) as server:
        body = {"dim": DIM, "horizon": 100, **case.session}
        with httpx.Client(base_url=server.url, timeout=300) as client:
            made = [client.post("/v1/sessions", json=body) for _ in range(case.n_sessions)]
            ids = [one.raise_for_status().json()["id"] for one in made]
            for id in ids:
                case.prepare(client, id)
        requests = (case.request(ids, n) for n in itertools.count())
        send_waves(server, requests, case.n_warm, case.n_connections)
        with counting(server.pid, folder) as counts:
            n = send_waves(server, requests, case.n_counted, case.n_connections)
        return counts[0] / (n * case.n_decisions) / 1e3


@contextmanager
def _serving(checkout: Path, folder: Path) -> Iterator[FeaturedServer]:
    code = f"{CHECKOUT.format(str(checkout.resolve()))}{UNHURRIED}{SERVE}"
    log = folder / "log"
    environment = {"PYTHONHASHSEED": "0", "LHB_MAX_WAIT_SECONDS": "0"}
    environment["LHB_DATABASE_URL"] = f"sqlite:///{folder / 'bench.db'}"
    with servers(1, code, str(log), valgrind(folder), **environment) as [(url, pid)]:
        yield FeaturedServer(url, pid, {}, [], log)
