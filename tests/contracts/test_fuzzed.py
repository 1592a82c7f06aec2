"""Whatever a client sends that the schema allows or forbids, the answer is one that it documents.

The examples are the same at every run. What comes in as NDJSON has tests of its own (forged files).
"""

from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.storage.database_url import is_sqlite
from service.storage.maintenance import migrate
from tests.faults.server_process import Server

WEBHOOK = {"url": "https://example.com/"}
ARMS = [[0.5, -0.25], [1.0, 2.0]]
NAMED_ARMS = [{"brand": "x"}, {"brand": "y"}]
FEATURE = "brand=x"  # a category of the first of them
NOT_WRITTEN = "/v1/sessions/import"  # schemathesis cannot write NDJSON
ENDLESS = "/v1/sessions/{session_id}/changes"  # each answer streams for 25 s
ITEMS_ANSWER = "/v1/batch"  # 200, and each item its own status
ENOUGH = 40  # requests to a route, for some of them not to be refused
# to a route; of PostgreSQL the adapter is a small part, which nothing malformed reaches
N_REQUESTS = {
    ("sqlite", "positive"): ENOUGH,
    ("sqlite", "negative"): 12,
    ("postgres", "positive"): 12,
}


def create(client: httpx.Client, algorithm: str, arms: list[Any]) -> str:
    """A session with an event, its reward, and a round that has none yet."""
    body = {"algorithm": algorithm, "dim": 2, "horizon": 4}
    session = str(client.post("/v1/sessions", json=body).json()["id"])
    path = f"/v1/sessions/{session}"
    client.post(f"{path}/decisions", json={"contexts": arms, "event_id": "e"}).raise_for_status()
    client.post(f"{path}/rewards", json={"round": 1, "value": 1.0}).raise_for_status()
    client.post(f"{path}/decisions", json={"contexts": arms}).raise_for_status()
    return session


def make_key(client: httpx.Client, role: str = "reader") -> Any:
    """A new API key."""
    answer = client.post("/v1/keys", json={"role": role})
    answer.raise_for_status()
    return answer.json()


def mean(case: Any, client: httpx.Client, session: str) -> None:
    """Let a path name what is there."""
    named = case.path_parameters
    if "session_id" in named:
        named["session_id"] = session
    if "key_id" in named:
        named["key_id"] = make_key(client)["id"]
    if "webhook_id" in named:
        named["webhook_id"] = webhook(client)
    if "key" in named and case.method == "GET":
        named["key"] = "t"
        decision = {"contexts": ARMS, "trajectory": "t"}
        client.post(f"/v1/sessions/{session}/decisions", json=decision).raise_for_status()


def aim(case: Any, session: str) -> None:
    """Let a request fit a session that is there: no schema says its dims, or what has no reward."""
    if "event_id" in case.path_parameters:
        case.path_parameters["event_id"] = "e"
    if case.path.endswith("/features/{name}"):
        case.path_parameters["name"] = FEATURE
    if case.path.endswith("/copy") and isinstance(case.body, dict):
        case.body = {name: v for name, v in case.body.items() if name in ("name", "seed")}
    bodies = [case.body]
    if isinstance(case.body, dict) and isinstance(case.body.get("items"), list):
        for item in case.body["items"]:
            item["session_id"] = session
            bodies.append(item.get("decision"))
    for body in bodies:
        if isinstance(body, dict) and "url" in body:
            body["url"] = WEBHOOK["url"]
        if isinstance(body, dict) and "contexts" in body:
            body["contexts"] = ARMS
        if isinstance(body, dict) and "value" in body:
            for name in set(body) - {"value", "reward_id"}:
                del body[name]
            body["round"] = 2


def webhook(client: httpx.Client) -> str:
    """A webhook that is there."""
    found = client.get("/v1/webhooks").json()["items"]
    return str((found or [client.post("/v1/webhooks", json=WEBHOOK).json()])[0]["id"])


def fuzz(operation: Any, mode: str, client: httpx.Client, n_requests: int) -> set[int]:
    """So many requests to a route, each answer validated; their statuses."""
    import schemathesis  # takes a second
    from hypothesis.errors import Unsatisfiable

    checks = schemathesis.checks
    besides = [checks.positive_data_acceptance]  # a well-formed request may still be wrong
    if operation.path == ITEMS_ANSWER:
        besides.append(checks.negative_data_rejection)
    # `anytime` fits when it is asked to; what `lin_ucb` learned cannot be taken back or copied
    algorithm = "anytime" if operation.path.endswith(("/fits", "/void", "/copy")) else "lin_ucb"
    arms: list[Any] = NAMED_ARMS if operation.path.endswith("/features/{name}") else ARMS
    session = create(client, algorithm, arms)
    statuses = set()

    @settings(
        max_examples=n_requests,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)), st.booleans())
    def answer(case: Any, is_aimed: bool) -> None:
        nonlocal session
        if is_aimed:
            if case.method in ("DELETE", "PATCH"):
                session = create(client, algorithm, arms)
            mean(case, client, session)
            if mode == "positive":
                aim(case, session)
        if operation.path == "/v1/limits" and isinstance(case.body, dict):
            if mode == "positive":
                case.body["tenant"] = "another"
            case.body.setdefault("tenant", "another")  # it would be this client's
        response = case.call(headers={"authorization": client.headers["authorization"]})
        statuses.add(response.status_code)
        case.validate_response(response, excluded_checks=besides)

    try:
        answer()
    except Unsatisfiable:
        assert mode == "negative"  # it takes nothing that could be wrong
    return statuses


@pytest.mark.slow
@pytest.mark.parametrize(("database_url", "mode"), N_REQUESTS, indirect=["database_url"])
def test_every_answer_is_one_that_the_schema_documents(database_url: str, mode: str) -> None:
    import schemathesis

    migrate(database_url)
    n_requests = N_REQUESTS["sqlite" if is_sqlite(database_url) else "postgres", mode]
    with Server(database_url) as server, server.client() as client:
        client.headers["authorization"] = f"Bearer {make_key(client, 'admin')['key']}"
        schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
        found = {}
        for result in schema.exclude(path=[NOT_WRITTEN, ENDLESS]).get_all_operations():
            operation = result.ok()
            found[operation.label] = fuzz(operation, mode, client, n_requests)
    assert not set().union(*found.values()) & {500, 503}
    if mode == "positive" and n_requests >= ENOUGH:  # of each route something was done
        assert [label for label, seen in found.items() if min(seen) > 204] == []
