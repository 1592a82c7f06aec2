"""Whatever is asked in whatever order, the answers are documented ones and the sessions stay whole.

The sequences are the same at every run. No algorithm here fits, so nothing happens meanwhile.
"""

import random
from typing import Any

import httpx
import pytest

from service.base.problems import ProblemCode
from service.transfer.replay import replay_session
from tests.service.conftest import Client, Serve

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
N_SEQUENCES, N_REQUESTS = 8, 60
NAMES, TRAJECTORIES = ("a", "b", "c"), ("", "ann", "bob/1")
ARMS = [[0.5, -0.25], [1.0, 2.0]]
POLICIES: tuple[Any, ...] = ("default_arm", "uniform", *({"session": name} for name in NAMES))
STATUSES = {code.status for code in ProblemCode} - {500, 503}


class Sequence:
    """Random requests to a few sessions, and how many rounds each must have."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client, self.rng = client, random.Random(seed)
        self.n_rounds: dict[str, int] = {}  # by session id
        self.done: list[str] = []
        self.n_taken = 0

    async def ask(self, method: str, path: str, body: Any = None, **how: Any) -> httpx.Response:
        """An answer, which is what was asked for, or a problem of a documented status."""
        kind = {"content": body} if isinstance(body, bytes) else {"json": body}
        answer = await self.client.request(
            method, path, **(kind if body is not None else {}), **how
        )
        self.done.append(f"{method} {path} {str(body)[:200]} -> {answer.status_code}")
        self.n_taken += answer.is_success
        if not answer.is_success:
            assert answer.status_code in STATUSES, (self.done[-5:], answer.text)
            assert ProblemCode(answer.json()["code"]).status == answer.status_code
        return answer

    async def twice(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """An answer that a retry gets again."""
        first = await self.ask(method, path, body)
        again = await self.ask(method, path, body)
        if first.is_success:
            assert again.is_success, (self.done[-3:], again.text)
        return first

    async def known(self, answer: httpx.Response) -> None:
        """Note a session that was made."""
        if answer.status_code == 201:
            self.n_rounds.setdefault(answer.json()["id"], answer.json()["n_rounds"])

    async def rounds_more(self, name: str, n: int) -> None:
        session = (await self.client.get(f"/v1/sessions/{name}")).json()
        self.n_rounds[session["id"]] += n
        assert session["n_rounds"] == self.n_rounds[session["id"]], self.done[-5:]

    async def step(self) -> None:
        """One request, or one and its retry."""
        rng, name = self.rng, self.rng.choice(NAMES)
        path, trajectory = f"/v1/sessions/{name}", rng.choice(TRAJECTORIES)
        event, round = rng.choice(("e1", "e2", "e3", "e4")), rng.randint(1, 6)
        match rng.randint(0, 15):
            case 0 | 1:
                body: dict[str, Any] = {"name": name, "dim": 2, "horizon": 3, "seed": 1}
                body["algorithm"] = rng.choice(("uniform", "uniform", "lin_ucb"))
                if rng.random() < 0.6:
                    body["holdout"] = {"share": 0.5, "policy": rng.choice(POLICIES)}
                if rng.random() < 0.2:
                    body["mode"] = "shadow"
                await self.known(await self.twice("POST", "/v1/sessions", body))
            case 2 | 3 | 4 | 5:
                body = {"contexts": ARMS, "trajectory": trajectory, "event_id": event}
                body |= rng.choice(({}, {"default_arm": 1}, {"forced_arm": 0, "default_arm": 0}))
                first = await self.ask("POST", f"{path}/decisions", body)
                if first.status_code == 201:
                    await self.rounds_more(name, 1)
                if first.is_success:
                    again = await self.ask("POST", f"{path}/decisions", body)
                    assert (again.status_code, again.json()) == (200, first.json())
            case 6 | 7 | 8:
                body = {"trajectory": trajectory, "value": float(rng.randint(0, 2))}
                body["reward_id"] = f"r{rng.randint(0, 9)}"
                spans = (
                    {"round": round},
                    {"event_id": event},
                    {"first_round": 1, "last_round": round},
                )
                body |= rng.choice(spans)
                if rng.random() < 0.3:
                    body["correct"] = True
                await self.twice("POST", f"{path}/rewards", body)
            case 9:
                where = f"{path}/decisions/{event}/void"
                await self.ask("POST", where, params={"trajectory": trajectory})
            case 10:
                body = {"contexts": ARMS * 2, "rewards": [1.0, None, 0.0, 2.0]}
                body |= {"trajectory": trajectory, "import_id": f"i{rng.randint(0, 3)}"}
                first = await self.ask("POST", f"{path}/history", body)
                if first.status_code == 201:
                    await self.rounds_more(name, 4)
                    again = await self.ask("POST", f"{path}/history", body)
                    assert again.json() == first.json()
            case 11:
                changes = (
                    {"archived": True},
                    {"archived": False},
                    {"mode": "shadow"},
                    {"mode": "live"},
                )
                more = {"guard": "armed"}, {"guard": "off"}, {"name": rng.choice(NAMES)}
                await self.twice("PATCH", path, rng.choice((*changes, *more)))
            case 12:
                await self.known(
                    await self.ask("POST", f"{path}/copy", {"name": rng.choice(NAMES)})
                )
            case 13:
                await self.ask("DELETE", path if rng.random() < 0.5 else "/v1/sessions/none")
            case 14:
                erased = f"{path}/trajectories/{trajectory.replace('/', '%2F')}"
                await self.twice("DELETE", erased)
            case 15:
                for page in ("", "/lift", "/shadow", "/trajectories", "/series", "/estimates"):
                    await self.ask("GET", path + page)
                for page in ("rounds", "credit"):
                    await self.ask("GET", f"{path}/{page}", params={"trajectory": trajectory})

    async def finish(self) -> None:
        """What is left replays, and moves house as it is."""
        listed = (await self.client.read("/v1/sessions?archived=true"))["items"]
        assert {one["id"] for one in listed} <= self.n_rounds.keys()
        for session in listed:
            id = session["id"]
            assert session["n_rounds"] == self.n_rounds[id]
            events = await self.client.get(f"/v1/sessions/{id}/events")
            moved = await self.ask("POST", f"/v1/sessions/import?name=moved-{id}", events.content)
            assert moved.status_code == 201, (moved.text, self.done)
            assert moved.json()["n_rounds"] == session["n_rounds"]
            with self.client.service.store.reader() as reader:
                for key in (id, moved.json()["id"]):
                    found = reader.session(("", key))
                    assert found is not None
                    assert replay_session(reader, found).differences == []


async def test_requests_in_any_order_leave_whole_sessions(serve: Serve) -> None:
    n_taken = 0
    for seed in range(N_SEQUENCES):
        async with serve() as client:
            sequence = Sequence(client, seed)
            for _ in range(N_REQUESTS):
                await sequence.step()
            await sequence.finish()
            for one in (await client.read("/v1/sessions?archived=true"))["items"][::-1]:
                await client.delete(f"/v1/sessions/{one['id']}")
        n_taken += sequence.n_taken
    assert n_taken > N_SEQUENCES * N_REQUESTS / 4
