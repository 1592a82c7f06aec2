"""A limit of requests, for each key or address; off unless it is asked for."""

from contextlib import nullcontext

import pytest

from service.base.problems import Problem
from service.commands.keys import new_key, save_key
from service.web.rate_limit import N_CALLERS, RateLimit
from tests.examples import on_one_database
from tests.service.conftest import Serve, problem

pytestmark = pytest.mark.anyio


class Counter:
    """RateLimit on a clock that the test turns."""

    def __init__(self, per_second: float, burst: int) -> None:
        self.now = 1000.0
        self.rates = RateLimit(per_second, burst, clock=lambda: self.now)

    def allowed(self, caller: str, asked: int = 1000) -> int:
        """How many of so many requests at once are let through."""
        for n in range(asked):
            try:
                self.rates.count_caller(caller)
            except Problem:
                return n
        return asked


def test_a_burst_then_the_rate() -> None:
    counter = Counter(10.0, 5)
    assert counter.allowed("a") == 5
    assert counter.allowed("b") == 5  # everybody has their own
    counter.now += 0.1
    assert counter.allowed("a") == 1
    counter.now += 0.3
    assert counter.allowed("a") == 3
    counter.now += 1e6
    assert counter.allowed("a") == 5


def test_over_a_long_time_it_is_the_rate() -> None:
    counter, n = Counter(3.0, 2), 0
    for _ in range(1000):
        counter.now += 0.05
        n += counter.allowed("a")
    assert n == pytest.approx(3.0 * 50 + 2, abs=1)


def test_it_says_when_to_come_again_and_that_is_true() -> None:
    counter = Counter(0.25, 1)
    counter.rates.count_caller("a")
    with pytest.raises(Problem) as refused:
        counter.rates.count_caller("a")
    assert (refused.value.status, refused.value.retry_after) == (429, 4)
    counter.now += 4
    counter.rates.count_caller("a")


def test_what_others_let_through_is_counted_and_what_they_let_through_too_much_is_owed() -> None:
    counter = Counter(10.0, 5)
    counter.rates.count_elsewhere("a", 3)
    assert counter.allowed("a") == 2
    assert counter.allowed("b") == 5
    counter.rates.count_elsewhere("a", 7)  # of 12 in all, 7 are too many
    counter.now += 0.7
    assert counter.allowed("a") == 0
    counter.now += 0.1
    assert counter.allowed("a") == 1
    assert counter.rates.to_tell is None


def test_only_what_was_let_through_is_told_and_for_a_bounded_number_of_callers() -> None:
    counter = Counter(10.0, 5)
    counter.rates.to_tell = {}
    assert counter.allowed("a", 9) == 5
    counter.rates.count_elsewhere("a", 3)
    assert counter.rates.to_tell == {"a": 5}
    for i in range(N_CALLERS + 10):
        counter.rates.count_caller(str(i))
    assert len(counter.rates.to_tell) == N_CALLERS


def test_callers_that_come_and_go_are_forgotten() -> None:
    counter = Counter(1.0, 1)
    for i in range(N_CALLERS + 10):
        counter.rates.count_caller(str(i))
    assert len(counter.rates._times) == N_CALLERS
    assert counter.allowed("0") == 1  # forgotten
    assert counter.allowed(str(N_CALLERS)) == 0


@on_one_database
async def test_without_a_setting_there_is_no_limit(serve: Serve) -> None:
    async with serve() as client:
        for _ in range(300):
            assert (await client.get("/v1/sessions")).status_code == 200


async def test_an_address_is_limited_while_there_are_no_keys(serve: Serve) -> None:
    async with serve(requests_per_second=0.01, request_burst=2) as client:
        session = await client.create()
        assert (await client.decide(session))["round"] == 1
        body = {"contexts": [[1.0, 0.0]]}
        for path in (f"/v1/sessions/{session}/decisions", "/v1/batch", "/v1/sessions"):
            answer = await client.post(path, json=body)
            problem(answer, 429, "too_many_requests")
            assert 90 <= int(answer.headers["retry-after"]) <= 100
        client.headers["authorization"] = "Bearer whatever"  # says nothing while there are no keys
        assert (await client.get(f"/v1/sessions/{session}")).status_code == 429
        assert (await client.get("/healthz")).status_code == 200
        assert "lhb_" in (await client.get("/metrics")).text


async def test_keys_are_limited_each_for_itself(serve: Serve) -> None:
    keys = []
    async with serve() as client:
        for _ in range(2):
            key, row = new_key("", "a test", 1000.0)
            await client.service.writer.submit(save_key(row))
            keys.append(key)
    async with serve(requests_per_second=0.01, request_burst=3) as client:
        for key in keys:
            client.headers["authorization"] = f"Bearer {key}"
            answers = [(await client.get("/v1/sessions")).status_code for _ in range(5)]
            assert answers == [200, 200, 200, 429, 429]
        client.headers["authorization"] = f"bEARER   {keys[0]}"  # the same key
        assert (await client.get("/v1/sessions")).status_code == 429
        client.headers["authorization"] = "Bearer wrong"
        problem(await client.get("/v1/sessions"), 401, "unauthorized")


@on_one_database
async def test_every_door_to_data_is_limited(serve: Serve) -> None:
    async with serve(requests_per_second=0.01, request_burst=2) as client:
        rank = {"actions": [{"id": "a", "features": []}]}
        answers = [await client.post("/personalizer/v1.0/rank", json=rank) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [201, 201, 429, 429]
        assert answers[-1].json()["error"]["innerError"] == {"code": "too_many_requests"}
        problem(await client.get("/v1/sessions"), 429, "too_many_requests")
        problem(await client.post("/dashboard/playground", json={}), 429, "too_many_requests")
        for path in ("/healthz", "/readyz", "/metrics", "/", "/openapi.json"):
            assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("10.0.0.1", "10.0.0.2", False),
    ],
)
def test_a_network_of_ipv6_is_one_caller(first: str, second: str, is_one: bool) -> None:
    rates = RateLimit(0.01, 1, lambda: 0.0)
    rates.count_stranger({"client": (first, 1)})
    with pytest.raises(Problem) if is_one else nullcontext():
        rates.count_stranger({"client": (second, 1)})


async def test_requests_without_a_valid_key_are_limited_by_address(serve: Serve) -> None:
    key, row = new_key("", "a test", 1000.0)
    async with serve() as client:
        await client.service.writer.submit(save_key(row))
    async with serve(requests_per_second=0.01, request_burst=3) as client:
        for n in range(5):
            client.headers["authorization"] = f"Bearer guess {n}"
            answer = await client.get("/v1/sessions")
            assert answer.status_code == (401 if n < 3 else 429)
        client.headers["authorization"] = f"Bearer {key}"  # from the same address
        assert (await client.get("/v1/sessions")).status_code == 200
