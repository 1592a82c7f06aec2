"""The official SDK of Azure Personalizer, as it is on PyPI, against a real server."""

import warnings
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the SDK's own imports
    from azure.cognitiveservices.personalizer import PersonalizerClient
    from azure.cognitiveservices.personalizer.models import (
        ErrorResponseException,
        RankableAction,
        RankRequest,
    )
    from msrest.authentication import CognitiveServicesCredentials
    from msrest.exceptions import HttpOperationError

MEALS = [
    RankableAction(id="pasta", features=[{"taste": "salty", "price": 5}, {"cuisine": "italian"}]),
    RankableAction(id="ice cream", features=[{"taste": "sweet", "price": 3}]),
    RankableAction(id="juice/ä", features=[{"taste": "sweet", "drink": True}]),
    RankableAction(id="salad", features=[{"taste": "salty", "nutrition": {"calories": 300}}]),
]
CONTEXT = [{"timeOfDay": "morning"}, {"device": {"kind": "mobile", "width": 0.4}}]


@pytest.fixture
def client(url: str) -> Iterator[PersonalizerClient]:
    with PersonalizerClient(url, CognitiveServicesCredentials("no key is needed here")) as client:
        yield client


def rank(client: PersonalizerClient, **more: Any) -> Any:
    request = RankRequest(actions=MEALS, context_features=CONTEXT, **more)
    return client.rank(rank_request=request)


def rounds(url: str) -> int:
    answer = httpx.get(f"{url}/v1/sessions/personalizer", timeout=60).json()
    return int(answer["n_rounds"])


def test_rank_and_reward(client: PersonalizerClient, url: str) -> None:
    answer = rank(client)
    ids = [ranked.id for ranked in answer.ranking]
    assert sorted(ids) == sorted(meal.id for meal in MEALS)
    assert ids[0] == answer.reward_action_id
    assert sum(ranked.probability for ranked in answer.ranking) == pytest.approx(1.0)
    client.events.reward(event_id=answer.event_id, value=0.5)
    found = httpx.get(
        f"{url}/v1/sessions/personalizer/rounds", params={"limit": 1000}, timeout=60
    ).json()
    last = found["items"][-1]
    assert (last["event_id"], last["arm_id"]) == (answer.event_id, answer.reward_action_id)
    assert last["reward"] == 0.5


def test_an_event_id_is_answered_once(client: PersonalizerClient, url: str) -> None:
    event = f"visit/{uuid4()} ?ü"
    first = rank(client, event_id=event)
    before = rounds(url)
    again = rank(client, event_id=event)
    assert first.event_id == again.event_id == event
    assert first.reward_action_id == again.reward_action_id
    assert [r.as_dict() for r in first.ranking] == [r.as_dict() for r in again.ranking]
    assert rounds(url) == before
    client.events.reward(event, 1.0)
    client.events.reward(event, 0.25)  # the earliest one stands
    client.events.activate(event)


def test_excluded_actions_keep_their_place(client: PersonalizerClient) -> None:
    for _ in range(5):
        answer = rank(client, excluded_actions=["pasta", "juice/ä", "not there"])
        ranking = [(ranked.id, ranked.probability) for ranked in answer.ranking]
        assert ranking[0] == ("pasta", 0.0)
        assert ranking[2] == ("juice/ä", 0.0)
        assert answer.reward_action_id == ranking[1][0] in ("ice cream", "salad")


def test_a_deferred_event_begins_when_it_is_activated(client: PersonalizerClient, url: str) -> None:
    rank(client)  # the session is there
    before = rounds(url)
    event = str(uuid4())
    first = rank(client, event_id=event, defer_activation=True)
    client.events.reward(event, 1.0)  # of what nobody has seen: no effect
    assert rounds(url) == before
    assert rank(client, event_id=event, defer_activation=True).as_dict() == first.as_dict()
    client.events.activate(event)
    client.events.activate(event)
    assert rounds(url) == before + 1
    client.events.reward(event, 0.75)
    found = httpx.get(
        f"{url}/v1/sessions/personalizer/rounds", params={"limit": 1000}, timeout=60
    ).json()
    last = found["items"][-1]
    assert (last["event_id"], last["arm_id"]) == (event, first.reward_action_id)
    assert (last["reward"], last["forced"]) == (0.75, True)


def test_errors_have_the_shape_that_the_sdk_reads(client: PersonalizerClient) -> None:
    with pytest.raises(ErrorResponseException) as refused:
        client.rank(RankRequest(actions=[]))
    assert refused.value.response.status_code == 400
    error = refused.value.error.error
    assert (error.code, error.target, error.inner_error.code) == (
        "BadRequest",
        "actions",
        "invalid",
    )
    with pytest.raises(HttpOperationError) as unknown:
        client.events.activate("nowhere")
    assert unknown.value.response.status_code == 404
    client.events.reward("nowhere", 1.0)  # as there: taken, and without effect
