"""Covariates over HTTP: taken by each route that takes rounds, shown with them, refused by name."""

from typing import Any

import numpy as np
import pytest

from service.api.body_parsing import BATCH, DECISION, HISTORY, REWARDS
from tests.service.api.test_kept_contexts import exported
from tests.service.conftest import Serve, problem, until
from tests.service.transfer.test_replay import replayed

pytestmark = pytest.mark.anyio
NAMES = {"algorithm": "anytime", "options": {"covariates": ["rain", "sun"]}}
ARMS = [[1.0, 0.0], [0.0, 1.0]]


async def test_they_are_shown_with_their_rounds(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(**NAMES)
        path = f"/v1/sessions/{session}"
        body = {
            "contexts": ARMS,
            "rewards": [1.0, None],
            "covariates": {"rain": [1.5, None], "sun": [-2, 3]},
        }
        assert (await client.post(f"{path}/history", json=body)).status_code == 201
        items = [
            {"session_id": session, "decision": {"contexts": ARMS, "covariates": {"rain": 4}}},
            {
                "session_id": session,
                "reward": {"round": 3, "value": 1.0, "covariates": {"sun": 0.5}},
            },
            {"session_id": session, "decision": {"skip": True, "covariates": None}},
        ]
        batch = await client.post("/v1/batch", json={"items": items})
        assert [item["status"] for item in batch.json()["items"]] == [201, 200, 201]
        riding = [{"first_round": 4, "last_round": 5, "value": 2.0, "covariates": {"rain": 7}}]
        await client.decide(session, ARMS, covariates={"sun": 1.0})
        await client.decide(session, ARMS, rewards=riding, covariates={})
        rounds = (await client.read(f"{path}/rounds"))["items"]
        told = [{"rain": 1.5, "sun": -2.0}, {"sun": 3.0}, {"rain": 4.0, "sun": 0.5}]
        assert [one["covariates"] for one in rounds] == [*told, None, {"sun": 1.0}, None]
        [span] = rounds[3]["spans"]
        assert span == {**riding[0], "covariates": {"rain": 7.0}}


async def test_the_mean_of_its_arms_goes_with_a_decision_and_its_file(serve: Serve) -> None:
    """Of one arm alone, as in a log, no mean is known."""
    async with serve() as client:
        session = await client.create(algorithm="anytime", features=["rain", "price"])
        ices = [{"rain": 1.0, "price": price} for price in (0.5, 1.5, 4.0)]
        await client.decide(session, ices)
        await client.decide(session, ices[:1])
        rounds = (await client.read(f"/v1/sessions/{session}/rounds"))["items"]
        assert [len(one["context"]) for one in rounds] == [2, 2]
        decisions = [one for one in await exported(client, session) if one["record"] == "decision"]
        assert [one.get("mean") for one in decisions] == [[1.0, 2.0], None]
        assert [len(one["context"]) for one in decisions] == [2, 2]
        assert replayed(client, session).differences == []


def test_a_body_with_covariates_is_parsed_at_once() -> None:
    """By msgspec: pydantic takes twice as long."""
    reward = b'{"round":3,"value":0.5,"covariates":{"rain":1,"sun":0.5}}'
    decision = b'{"skip":true,"covariates":{"sun":2.0},"rewards":[%b]}' % reward
    assert REWARDS.read_quickly(reward) is not None
    assert REWARDS.read_quickly(b'{"rewards":[%b]}' % reward) is not None
    assert DECISION.read_quickly(decision) is not None
    item = b'{"session_id":"a","decision":%b}' % decision
    assert BATCH.read_quickly(b'{"items":[%b]}' % item) is not None
    log = b'{"contexts":[[1.0]],"covariates":{"rain":[1.0]}}'
    assert HISTORY.read_quickly(log) is not None
    twice = b'{"round":3,"value":0.5,"covariates":{"rain":1,"rain":0.5}}'
    assert REWARDS.read_quickly(twice) is None


WRONG = [
    ('{"snow": 1}', "unknown_field", "covariates.snow"),
    ('{"rain": "wet"}', "invalid", "covariates.rain"),
    ('{"rain": null}', "invalid", "covariates.rain"),
    ('{"rain": true}', "invalid", "covariates.rain"),
    ('{"rain": 1e400}', "not_finite", "covariates.rain"),
    ('{"rain": NaN}', "not_finite", "covariates.rain"),
    ('{"rain": 1e13}', "out_of_range", "covariates.rain"),
    ('{"rain": 1, "rain": 1}', "duplicate_key", "rain"),
    ("[1.0]", "invalid", "covariates"),
]


async def test_wrong_ones_are_named_and_nothing_is_written(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(**NAMES)
        await client.decide(session, ARMS)
        path = f"/v1/sessions/{session}"
        for covariates, code, field in WRONG:
            status = 400 if code == "duplicate_key" else 422
            reward = f'{{"round": 1, "value": 1, "covariates": {covariates}}}'
            decision = f'{{"skip": true, "covariates": {covariates}}}'
            riding = f'{{"skip": true, "rewards": [{reward}]}}'
            inside = field if field == "rain" else f"rewards[0].{field}"
            problem(await client.post(f"{path}/decisions", content=decision), status, code, field)
            problem(await client.post(f"{path}/rewards", content=reward), status, code, field)
            problem(await client.post(f"{path}/decisions", content=riding), status, code, inside)
        [one] = (await client.read(f"{path}/rounds"))["items"]
        assert one["n_rewards"] == 0


async def test_a_log_needs_a_number_a_round(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(**NAMES)
        path = f"/v1/sessions/{session}/history"
        for told, code, field in (
            ({"rain": [1.0]}, "wrong_shape", "covariates.rain"),
            ({"snow": [1.0, 2.0]}, "unknown_field", "covariates.snow"),
            ({"rain": [1.0, "wet"]}, "invalid", "covariates.rain[1]"),
            ({"rain": [True, 1.0]}, "invalid", "covariates.rain[0]"),
            ({"rain": [1.0, 1e13]}, "out_of_range", "covariates.rain[1]"),
        ):
            answer = await client.post(path, json={"contexts": ARMS, "covariates": told})
            problem(answer, 422, code, field)
        log: dict[str, Any] = {"contexts": ARMS, "import_id": "a"}
        log["covariates"] = {"sun": [1.0, 2.0], "rain": [None, 0.5]}
        assert (await client.post(path, json=log)).status_code == 201
        again = {**log, "covariates": dict(reversed(log["covariates"].items()))}
        assert (await client.post(path, json=again)).status_code == 200
        log["covariates"]["rain"] = [0.5, 0.5]
        problem(await client.post(path, json=log), 409, "event_conflict", "import_id")


async def test_a_decision_with_others_is_no_repeat(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(**NAMES)
        body: dict[str, Any] = {"event_id": "a", "covariates": {"rain": 1.0, "sun": 2.0}}
        first = await client.decide(session, ARMS, **body)
        same = {**body, "covariates": {"sun": 2, "rain": 1.0}}
        assert await client.decide(session, ARMS, **same) == first
        path = f"/v1/sessions/{session}/decisions"
        for other in ({"rain": 1.0}, None, {"rain": 1.0, "sun": 3.0}):
            answer = await client.post(
                path, json={"contexts": ARMS, "event_id": "a", "covariates": other}
            )
            problem(answer, 409, "event_conflict", "event_id")


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("fully_drawn")
async def test_a_session_learns_what_they_do(serve: Serve) -> None:
    """From decisions and rewards, beside corrections; the same again in a replay and an import."""
    rng = np.random.default_rng(0)
    names = {"covariates": ["wind", "rain"], "trend": True}
    async with serve() as client:
        # each fit before the next decision, so that the same happens on any machine
        made = {"algorithm": "anytime", "horizon": 4, "refit": "blocking", "options": names}
        session = await client.create(**made)
        path = f"/v1/sessions/{session}"
        chosen: list[Any] = []
        for t in range(1, 121):
            arms, (wind, rain) = rng.uniform(-1, 1, (3, 2)), rng.uniform(-1, 1, 2).tolist()
            answer = await client.decide(session, arms.tolist(), covariates={"wind": wind})
            chosen.append(arms[answer["arm"]] @ [0.6, 0.8])
            value = 0.7 * chosen[-1] + (0.3 * chosen[-3] if t > 2 else 0.0)
            value += 3.0 * rain + 0.05 * rng.standard_normal()
            await client.reward(session, value=value, round=t, covariates={"rain": rain})
        asked = await client.post(f"{path}/fits")
        assert asked.is_success, asked.text

        async def learned() -> Any:
            found = await client.read(f"{path}/estimate")
            pending = (await client.read(path))["fit_due"]
            return found if found.get("theta") and not pending else None

        found = await until(learned)
        assert np.array(found["theta"]) @ [0.6, 0.8] > 0.98
        effects = found["effects"]
        assert effects["groups"] == ["wind", "rain", "trend"]
        np.testing.assert_allclose(effects["values"], [0.0, 3.0, 0.0], atol=0.15)
        assert effects["share"][1] > 0.5
        assert len(found["intervals"]["effects"]) == 3
        assert replayed(client, session).differences == []
        exported = await client.get(f"{path}/events")
        made = await client.post("/v1/sessions/import?name=copy", content=exported.content)
        assert made.status_code == 201, made.text
        assert replayed(client, made.json()["id"]).differences == []
