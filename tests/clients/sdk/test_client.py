"""The client against a real server, and through a proxy that loses answers."""

from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from lhb import ApiError, Client, Invalid, NotFound, Unavailable

CONTEXTS = [[0.3, -0.1], [0.2, 0.9]]


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


def test_a_loop_of_decisions_and_rewards(client: Client) -> None:
    session = client.create_session(algorithm="uniform", dim=2, horizon=5)
    first = session.decide(CONTEXTS, arm_ids=["a", "b"])
    assert (first.round, first.propensity, first.explored) == (1, 0.5, True)
    assert first.arm_id == ["a", "b"][first.arm]
    session.reward(0.5, round=1)
    second = session.decide(CONTEXTS)
    session.reward(0.25, event_id=second.event_id)
    third = session.decide(CONTEXTS)
    session.rewards([{"round": third.round, "value": 1.0}])
    log = list(session.rounds())
    assert [item["reward"] for item in log] == [0.5, 0.25, 1.0]
    assert [item["round"] for item in log] == [1, 2, 3]
    assert session.estimate()["status"] == "none"
    assert list(session.estimates()) == []
    assert client.session(session.id).info["name"] == session.info["name"]


def test_an_array_and_its_lists_are_the_same_contexts(client: Client) -> None:
    contexts = np.random.default_rng(0).uniform(-1, 1, (4, 3))
    answers = []
    for given in (contexts, contexts.tolist(), np.asfortranarray(contexts)):
        session = client.create_session(algorithm="uniform", dim=3, horizon=5, seed=7)
        answers.append(session.decide(given).arm)
        logged = next(iter(session.rounds()))
        assert logged["context"] == contexts[answers[-1]].tolist()
    assert len(set(answers)) == 1


def test_a_name_gives_the_same_session_again(client: Client) -> None:
    first = client.create_session("same name", algorithm="uniform", dim=2, horizon=5)
    again = client.create_session("same name", algorithm="uniform", dim=2, horizon=5)
    assert first.id == again.id
    with pytest.raises(ApiError) as refused:
        client.create_session("same name", algorithm="uniform", dim=3, horizon=5)
    assert refused.value.status == 409


def test_a_lost_answer_is_asked_for_again_and_acts_once(lossy_url: str) -> None:
    with Client(lossy_url) as client:
        session = client.create_session(algorithm="uniform", dim=2, horizon=5)
        rounds = []
        for _ in range(10):
            decision = session.decide(CONTEXTS)
            session.reward(1.0, round=decision.round)
            rounds.append(decision.round)
        assert rounds == list(range(1, 11))
        assert len(list(session.rounds())) == 10


def test_what_a_lost_answer_has_deleted_is_deleted(lossy_url: str, client: Client) -> None:
    with Client(lossy_url) as lossy:
        session = lossy.create_session(algorithm="uniform", dim=2, horizon=5)
        session.delete()  # done by the first attempt, not found by the second
    for gone in (client.session_handle(session.id), client.session_handle("nobody")):
        with pytest.raises(NotFound):  # no attempt of this call has done it
            gone.delete()


def test_an_error_names_the_field(client: Client) -> None:
    session = client.create_session(algorithm="uniform", dim=2, horizon=5)
    with pytest.raises(ApiError) as refused:
        session.decide([[0.1, 0.2, 0.3]])
    assert refused.value.status == 422
    assert "contexts" in str(refused.value.field)
    with pytest.raises(ApiError) as unknown:
        client.session("no-such-session")
    assert unknown.value.status == 404


def test_no_server_is_an_error_after_the_retries() -> None:
    with Client("http://127.0.0.1:9", n_retries=1) as client, pytest.raises(Unavailable) as refused:
        client.algorithms()
    assert (refused.value.status, refused.value.code) == (0, "unreachable")
    assert "no server to talk to at http://127.0.0.1:9" in str(refused.value)


def test_algorithms_tell_their_options(client: Client) -> None:
    listed = {item["name"]: item for item in client.algorithms()}
    assert {"ad_lasso", "uniform"} <= set(listed)
    assert "reg" in listed["ad_lasso"]["options"]["properties"]


def test_a_batch_is_answered_item_by_item_and_acts_once(lossy_url: str) -> None:
    with Client(lossy_url) as client:
        sessions = [
            client.create_session(algorithm="uniform", dim=2, horizon=5, seed=i) for i in range(2)
        ]
        items = [
            {"session_id": session.id, "decision": {"contexts": given, "forced_arm": 0}}
            for session in sessions
            for given in (CONTEXTS, np.array(CONTEXTS))
        ]
        items.append({"session_id": sessions[0].id, "reward": {"value": 0.5, "round": 1}})
        items.append({"session_id": "nobody", "decision": {"contexts": CONTEXTS}})
        for _ in range(2):  # the ids are made in the call: asked again, it is another one
            answers = client.batch(items)
        again = {answer["status"] for answer in answers[:4]}
        assert again == {200}  # the answer that came is the one to a repeat
        assert [answer["status"] for answer in answers[4:]] == [200, 404]
        assert [answer["decision"]["round"] for answer in answers[:4]] == [3, 4, 3, 4]
        assert [answer["decision"]["arm"] for answer in answers[:4]] == [0] * 4
        assert answers[5]["problem"]["code"] == "unknown_session"
        assert [len(list(session.rounds())) for session in sessions] == [4, 4]
        assert "event_id" not in items[0]["decision"]  # what was given is left as it was


def test_a_fit_is_asked_for_once(client: Client) -> None:
    session = client.create_session(dim=2, horizon=4)
    assert session.ask_fit() == {"asked": "nothing_new", "fit": None}
    session.history([[0.1, 0.2], [0.3, -0.2], [0.5, 0.1], [0.2, 0.2]], [0.1, 0.4, 0.2, 0.3])
    asked = session.ask_fit()
    assert asked["asked"] == "begun"
    assert asked["fit"] is not None
    assert asked["fit"]["window"]["last"] == 4


def test_history_is_appended_once_and_earns_credit(lossy_url: str) -> None:
    contexts = np.random.default_rng(1).uniform(-1, 1, (60, 2))
    with Client(lossy_url) as client:
        session = client.create_session(
            algorithm="ad_lasso", dim=2, horizon=4, options={"L": 1}, refit="blocking"
        )
        rewards = [*(2.0 * contexts[:-1, 0]).tolist(), None]
        for _ in range(2):
            done = session.history(contexts, rewards, import_id="the log")
            assert done == {"first_round": 1, "last_round": 60, "rewards": 59}
        assert [item["reward"] for item in session.rounds()] == rewards
        session.decide(CONTEXTS)  # the last epoch waits for this: a reward is missing
        assert session.decide(CONTEXTS).model_version > 0  # waits for the fit of all of it
        earned = list(session.credit())
        assert [item["round"] for item in earned] == list(range(1, 63))
        assert all(item["earned"] is not None for item in earned)


def test_rewards_at_a_time_and_rounds_without_action(client: Client) -> None:
    session = client.create_session(
        algorithm="uniform", dim=2, horizon=5, reward_mode="sum", reward_wait_seconds=60.0
    )
    session.decide(CONTEXTS, trajectory="a")
    now = datetime.now(UTC)
    skipped = session.skip(trajectory="a", event_id="nothing")
    assert (skipped["round"], skipped["arm"]) == (2, None)
    assert session.skip(trajectory="a", event_id="nothing") == skipped
    for i, at in enumerate([now, now.isoformat(), now]):
        session.reward(0.5, at=at, reward_id=f"{i // 2}-{i}", trajectory="a")
    session.reward(0.5, at=now, reward_id="1-2", trajectory="a")  # known already
    [first, second] = session.rounds(trajectory="a")
    assert (first["reward"], first["n_rewards"], second["n_rewards"]) == (1.5, 3, 0)


def test_a_reward_is_corrected_once(lossy_url: str) -> None:
    """By its id, or by its round; a lost answer corrects nothing twice."""
    with Client(lossy_url) as client:
        session = client.create_session(algorithm="uniform", dim=2, horizon=5)
        for _ in range(2):
            session.decide(CONTEXTS)
        session.reward(1.0, round=1, reward_id="order")
        session.reward(2.0, round=2)
        session.correct(0.5, replaces="order")
        session.correct(1.5, round=2)
        voided = session.void(session.decide(CONTEXTS).event_id)
        assert voided["round"] == 3
        [first, second, third] = session.rounds()
        assert [one["void"] for one in (first, second, third)] == [False, False, True]
        assert (first["reward"], first["n_corrected"]) == (0.5, 1)
        assert (second["reward"], second["n_corrected"]) == (1.5, 1)
        with pytest.raises(NotFound) as raised:
            session.correct(0.5, replaces="nobody")
        assert (raised.value.code, raised.value.field) == ("unknown_reward", "replaces")


def test_a_person_and_a_category_are_erased(client: Client) -> None:
    session = client.create_session(dim=3, horizon=5)
    session.decide([{"user": "a/b"}], trajectory="a/b")
    session.decide([{"user": "c"}])
    session.erase_trajectory("a/b")
    session.erase_feature("user=a/b")
    info = session.read()
    assert (info["n_erased_rounds"], info["features"]) == (1, ["user=(erased 0)", "user=c"])
    with pytest.raises(NotFound) as raised:
        session.erase_feature("user=a/b")
    assert raised.value.code == "unknown_feature"


@pytest.mark.parametrize("step", [".", ".."])
def test_a_step_of_a_path_is_nobodys_name(client: Client, step: str) -> None:
    """URLs lose such parts: the session would be deleted in place of a person's trajectory."""
    session = client.create_session(dim=2, horizon=5)
    session.decide(CONTEXTS)
    with pytest.raises(Invalid):
        session.decide(CONTEXTS, trajectory=step)
    session.erase_trajectory(step)
    with pytest.raises(NotFound):
        session.erase_feature(step)
    with pytest.raises(NotFound):
        session.void(step)
    with pytest.raises(NotFound):
        client.session(step)
    assert (session.read()["n_rounds"], session.read()["n_erased_rounds"]) == (1, 0)


def test_options_change_while_a_session_goes_on(client: Client) -> None:
    session = client.create_session(dim=2, horizon=5, options={"epsilon": 1.0})
    assert session.decide(CONTEXTS).propensity == 0.5
    assert session.change(options={"epsilon": 0.0, "memory": 20})["options"]["memory"] == 20
    assert session.decide(CONTEXTS).propensity == 1.0
    assert session.change(reward_wait_seconds=5.0)["reward_wait_seconds"] == 5.0


def test_a_copy_has_the_same_rounds_and_other_settings(lossy_url: str) -> None:
    with Client(lossy_url) as client:
        session = client.create_session(dim=2, horizon=5)
        for round in range(1, 4):
            session.decide(CONTEXTS)
            session.reward(0.5 * round, round=round)
        name = f"copy of {session.id}"
        copy = session.copy(name, options={"trend": True}, horizon=3)
        assert copy.id != session.id
        assert (copy.info["horizon"], copy.info["options"]) == (3, {"trend": True})
        assert [one["reward"] for one in copy.rounds()] == [0.5, 1.0, 1.5]
        assert session.copy(name, options={"trend": True}, horizon=3).id == copy.id


def test_rewards_of_an_interval_of_time(client: Client) -> None:
    session = client.create_session(algorithm="uniform", dim=2, horizon=5)
    began = datetime.now(UTC)
    for _ in range(3):
        session.decide(CONTEXTS)
    interval = (began, datetime.now(UTC).isoformat())
    assert session.reward(1.5, interval=interval)["accepted"] == 1
    assert session.correct(1.0, interval=interval)["accepted"] == 1
    [span] = next(iter(session.rounds()))["spans"]
    assert (span["first_round"], span["last_round"], span["value"]) == (1, 3, 1.0)


def test_covariates_go_with_decisions_rewards_and_logs(lossy_url: str) -> None:
    with Client(lossy_url) as client:
        options = {"covariates": ["rain", "sun"]}
        session = client.create_session(dim=2, horizon=5, options=options)
        session.history(CONTEXTS, [1.0, None], covariates={"rain": [0.5, None], "sun": (1, 2)})
        session.decide(CONTEXTS, covariates={"rain": np.float64(3.0)})
        session.skip(covariates={"sun": 4.0})
        session.reward(1.0, round=3, covariates={"sun": 5.0})
        session.correct(2.0, round=3, covariates={"sun": 6.0})
        riding = {"first_round": 4, "last_round": 5, "value": 1.0, "covariates": {"rain": 7.0}}
        session.decide(CONTEXTS)
        session.decide(CONTEXTS, rewards=[riding])
        rounds = list(session.rounds())
        told = [{"rain": 0.5, "sun": 1.0}, {"sun": 2.0}, {"rain": 3.0, "sun": 6.0}, {"sun": 4.0}]
        assert [one["covariates"] for one in rounds] == [*told, None, None]
        assert rounds[3]["spans"][0]["covariates"] == {"rain": 7.0}
        with pytest.raises(Invalid) as raised:
            session.reward(1.0, round=5, covariates={"snow": 1.0})
        assert raised.value.field == "covariates.snow"


def test_objects_say_what_they_are(client: Client, url: str) -> None:
    session = client.create_session("said", algorithm="uniform", dim=2, horizon=5)
    assert repr(client) == f"Client({url!r})"
    assert repr(session) == "<Session 'said', uniform, 0 rounds>"
    assert repr(client.session_handle("said")) == "<Session 'said'>"


def test_numbers_and_times_of_numpy_and_pandas_are_taken(client: Client) -> None:
    start = datetime(2026, 1, 5, tzinfo=UTC)
    clock = {"slot_seconds": 60, "start": start}
    session = client.create_session(dim=2, horizon=5, clock=clock)
    at = pd.Timestamp("2026-01-05T00:00:10Z")
    first = session.decide(np.float32([[0.5, 1.0], [0.0, 2.0]]), forced_arm=np.int64(1), at=at)
    assert first.arm == 1
    session.skip(at=np.datetime64("2026-01-05T00:02:00", "ns"))
    until = np.datetime64("2026-01-05T00:01:00")
    assert session.reward(np.float32(0.5), interval=(start, until))["accepted"] == 1


def test_frames_are_contexts_and_logs(client: Client) -> None:
    named = client.create_session(dim=4, horizon=5, features=["price"])
    arms = pd.DataFrame({"price": [0.5, 1.0], "topic": ["sport", "news"]})
    named.decide(arms, forced_arm=0)
    assert named.read()["features"] == ["price", "topic=sport", "topic=news"]
    plain = client.create_session(dim=2, horizon=5)
    rewards = pd.Series([1.0, np.nan, 3.0])
    plain.history(pd.DataFrame(np.eye(3)[:, :2]), rewards)
    plain.reward(np.float32(0.5), round=np.int64(2))
    assert pd.DataFrame(plain.rounds())["reward"].tolist() == [1.0, 0.5, 3.0]


def test_what_json_cannot_hold_is_refused_before_it_is_sent(client: Client) -> None:
    session = client.create_session(dim=2, horizon=5)
    with pytest.raises(TypeError, match="set is nothing that JSON has"):
        session.rank([{1.0, 2.0}])  # type: ignore[list-item]
