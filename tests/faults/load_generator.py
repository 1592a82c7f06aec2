"""Players that keep a server busy, and write down what it has acknowledged."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.faults.server_process import RawConnection, Server

N_ARMS, DIM = 4, 3


@dataclass
class Player:
    """One trajectory of one session: decides, and reports the last round's reward."""

    session: str
    trajectory: str
    rng: random.Random
    decided: dict[str, Any] = field(default_factory=dict)
    rewarded: dict[int, float] = field(default_factory=dict)
    n_sent: int = 0
    pending: dict[str, Any] | None = None

    def next_body(self) -> dict[str, Any]:
        """The body that went unanswered, or a new one."""
        if self.pending is None:
            self.n_sent += 1
            contexts = [[self.rng.uniform(-1, 1) for _ in range(DIM)] for _ in range(N_ARMS)]
            self.pending = {
                "contexts": contexts,
                "trajectory": self.trajectory,
                "event_id": f"{self.trajectory}-{self.n_sent}",
                "rewards": self.rewards(),
            }
        return self.pending

    def rewards(self) -> list[dict[str, Any]]:
        """A reward of the last round, mostly."""
        last = len(self.decided)
        if last == 0 or last in self.rewarded or self.rng.random() < 0.1:
            return []
        return [{"round": last, "value": self.rng.gauss(0, 1)}]

    async def play(self, server: Server, count: "Count") -> None:
        """Until the server goes away, or enough is acknowledged."""
        path = f"/v1/sessions/{self.session}/decisions"
        try:
            connection = await RawConnection(server.url).open()
        except ConnectionError:
            return
        try:
            while not count.is_enough:
                body = self.next_body()
                status, answer = await connection.post(path, body)
                if status == 503 and count.is_patient:
                    count.n_refused += 1
                    await asyncio.sleep(0.02)
                    continue
                assert status in (200, 201), answer
                self.decided[body["event_id"]] = answer
                for reward in body["rewards"]:
                    self.rewarded[reward["round"]] = reward["value"]
                self.pending = None
                count.n += 1
        except ConnectionError:
            pass
        finally:
            connection.close()


@dataclass
class Count:
    """Acknowledgements so far, and how many are enough; who is patient asks again after a 503."""

    enough: int
    n: int = 0
    is_patient: bool = False
    n_refused: int = 0

    @property
    def is_enough(self) -> bool:
        return self.n >= self.enough


def make_players(server: Server, seed: int, n_sessions: int = 3, each: int = 4) -> list[Player]:
    """Sessions that fit often, with several trajectories each."""
    players = []
    with server.client() as client:
        for s in range(n_sessions):
            body = {
                "algorithm": "ad_lasso",
                "dim": DIM,
                "horizon": 16,
                "seed": seed + s,
                "name": f"load-{seed}-{s}",
            }
            session = client.post("/v1/sessions", json=body).json()["id"]
            players += [
                Player(session, f"t{i}", random.Random(seed * 1000 + s * 10 + i))
                for i in range(each)
            ]
    return players


async def play_all(server: Server, players: list[Player], enough: int) -> int:
    """How many acknowledgements there were before the server went away or it was enough."""
    count = Count(enough)
    await asyncio.gather(*(player.play(server, count) for player in players))
    return count.n


def check_all(client: httpx.Client, players: list[Player]) -> None:
    """Nothing acknowledged is lost, nothing stands twice, rounds are contiguous."""
    for player in players:
        rounds = log_of(client, player)
        assert [item["round"] for item in rounds] == list(range(1, len(rounds) + 1))
        assert len({item["event_id"] for item in rounds}) == len(rounds)
        stored = {item["event_id"]: item for item in rounds}
        assert len(stored) - len(player.decided) in (0, 1)  # one may have gone unanswered
        for event_id, answer in player.decided.items():
            item = stored[event_id]
            assert (item["round"], item["arm"]) == (answer["round"], answer["arm"])
        for round, value in player.rewarded.items():
            assert rounds[round - 1]["reward"] == value
        extra = {item["round"] for item in rounds if item["reward"] is not None}
        sent = {r["round"] for r in (player.pending or {}).get("rewards", [])}
        assert extra - set(player.rewarded) <= sent
    for session in {player.session for player in players}:
        total = client.get(f"/v1/sessions/{session}").json()["n_rounds"]
        mine = [player for player in players if player.session == session]
        assert total == sum(len(log_of(client, player)) for player in mine)


def log_of(client: httpx.Client, player: Player) -> list[dict[str, Any]]:
    """All rounds of the player's trajectory."""
    items: list[dict[str, Any]] = []
    cursor: str | None = "0"
    while cursor is not None:
        page = client.get(
            f"/v1/sessions/{player.session}/rounds",
            params={"trajectory": player.trajectory, "cursor": cursor, "limit": 1000},
        ).json()
        items += page["items"]
        cursor = page["next"]
    return items
