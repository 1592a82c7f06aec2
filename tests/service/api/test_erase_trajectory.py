"""A person's trajectory is erased: nothing of it is seen, the session goes on and moves house."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from service.base.logs import shown_path
from service.commands.decisions import void_decision
from service.commands.erase_trajectory import erase_slice, erase_trajectory, hide_trajectory
from service.storage.transactions import Slices
from service.transfer.replay import replay_session
from tests.contracts.test_store_hidden import n_rows
from tests.service.conftest import Client, Serve, problem, until
from tests.service.service_harness import ServiceHarness

pytestmark = pytest.mark.anyio
ARMS = [[1.0, 0.25], [-0.5, 1.0], [0.25, -1.0]]
SECRETS = (b"ann", b"e-ann", b"r-ann", b"0.12345678")


async def lived(client: Client, **settings: Any) -> str:
    """A session of three people, fitted; one has a name, ids and values that nobody else has."""
    session = await client.create(algorithm="anytime", name="shop", **settings)
    for round in range(1, 31):
        for name in ("", "ann", "b/b"):
            given = {"event_id": f"e-{name}-{round}"} if name else {}
            answer = await client.decide(session, ARMS, trajectory=name, **given)
            value = ARMS[answer["arm"]][0] + (0.12345678 if name == "ann" else 0.01 * round)
            named = {"reward_id": f"r-{name}-{round}"} if name else {}
            when = {"trajectory": name, "round": answer["round"]}
            assert (await client.reward(session, value=value, **when, **named)).status_code == 200
    answer = await client.post(f"/v1/sessions/{session}/decisions/e-ann-2/void?trajectory=ann")
    assert answer.is_success, answer.text
    await until(lambda: is_fitted(client, session))
    return session


async def is_fitted(client: Client, session: str) -> bool:
    return not (await client.read(f"/v1/sessions/{session}"))["fit_due"]


async def erase(client: Client, session: str, key: str) -> None:
    answer = await client.delete(f"/v1/sessions/{session}/trajectories/{key}")
    assert answer.status_code == 204, answer.text


def replayed(client: Client, session: str) -> Any:
    with client.service.store.reader() as reader:
        found = reader.session(("", session))
        assert found is not None
        return replay_session(reader, found)


@pytest.mark.slow
async def test_nothing_of_a_person_is_left(serve: Serve) -> None:
    async with serve() as client:
        session = await lived(client)
        path = f"/v1/sessions/{session}"
        n = replayed(client, session).estimates
        assert n >= 1
        for _ in range(2):  # a retry does nothing
            await erase(client, session, "ann")
        await until(lambda: is_fitted(client, session))  # once more, without ann
        rows = n_rows(client.service.store)
        assert (rows["decisions"], rows["measurements"], rows["trajectories"]) == (60, 60, 2)
        assert rows["hidden_rows"] == 0
        listed = await client.read(f"{path}/trajectories")
        assert [item["trajectory"] for item in listed["items"]] == ["", "b/b"]
        assert (await client.read(f"{path}/rounds?trajectory=ann"))["items"] == []
        answer = await client.get(f"{path}/decisions/e-ann-3?trajectory=ann")
        problem(answer, 404, "unknown_event", "event_id")
        late = {"value": 0.5, "trajectory": "ann"}
        problem(await client.reward(session, **late, event_id="e-ann-3"), 404, "unknown_event")
        answer = await client.reward(session, **late, round=3)
        problem(answer, 422, "future_round", "round")
        assert "erased" in answer.json()["detail"]
        file = (await client.get(f"{path}/events")).content
        assert not [secret for secret in SECRETS if secret in file]
        told = await client.read(path)
        assert (told["n_rounds"], told["n_trajectories"], told["n_erased_rounds"]) == (90, 2, 30)
        replay = replayed(client, session)
        assert replay.differences == []
        assert (replay.decisions, replay.estimates) == (60, n + 1)
        assert 0 < replay.estimates_erased <= n
        entries = (await client.read("/v1/audit"))["items"]
        about = [item["detail"] for item in entries if item["action"] == "trajectory_erased"]
        assert about == [{"rounds": 30, "measurements": 30}]  # and one void


async def open_windows(client: Client, session: str) -> list[tuple[int, int]]:
    """Of each window whose fit is not due yet: when it is, and how many rounds it lacks."""
    epochs = (await client.read(f"/v1/sessions/{session}/epochs"))["items"]
    waiting = [item for item in epochs if item["status"] in ("open", "waiting_for_rewards")]
    return [(item["window"]["due"], item["n_missing"]) for item in waiting]


async def test_no_window_waits_for_erased_rounds(serve: Serve) -> None:
    """Nor one of a copy: its fit is due with the last reward, not by time."""
    async with serve() as client:
        session = await client.create(algorithm="anytime", reward_wait_seconds=3600)
        for name in ("stays", "goes", "without rewards"):
            for round in range(1, 11):
                await client.decide(session, ARMS, trajectory=name)
                if name != "without rewards":
                    await client.reward(session, value=round % 3, trajectory=name, round=round)
        for name in ("goes", "without rewards"):
            await erase(client, session, name)
        await until(lambda: is_fitted(client, session))
        answer = await client.post(f"/v1/sessions/{session}/copy", json={"name": "copied"})
        found = [await open_windows(client, name) for name in (session, answer.json()["id"])]
        assert found[0] == found[1]
        [(due, missing)] = found[0]
        assert missing == due - 30
        for name in (session, answer.json()["id"]):
            for round in range(11, 11 + due - 30):
                await client.decide(name, ARMS, trajectory="stays")
                await client.reward(name, value=round % 3, trajectory="stays", round=round)
            epochs = (await client.read(f"/v1/sessions/{name}/epochs"))["items"]
            assert "waiting_for_rewards" not in {epoch["status"] for epoch in epochs}, epochs


@pytest.mark.slow
@pytest.mark.parametrize("refit", ["background", "blocking"])
async def test_the_key_begins_anew_and_the_session_moves(serve: Serve, refit: str) -> None:
    async with serve() as client:
        session = await lived(client, refit=refit)
        await erase(client, session, "ann")
        again = await client.decide(session, ARMS, trajectory="ann", event_id="e-ann-1")
        assert again["round"] == 1
        assert (await client.reward(session, value=1, trajectory="ann", round=1)).is_success
        await until(lambda: is_fitted(client, session))  # or the copy makes that fit anew
        file = (await client.get(f"/v1/sessions/{session}/events")).content
        typed = {"content-type": "application/x-ndjson"}
        made = await client.post("/v1/sessions/import?name=moved", content=file, headers=typed)
        assert made.status_code == 201, made.text
        moved = made.json()["id"]
        answers = []
        for name in (session, moved):
            for _ in range(40):  # through a boundary
                answer = await client.decide(name, ARMS, trajectory="ann")
                when = {"trajectory": "ann", "round": answer["round"]}
                await client.reward(name, value=ARMS[answer["arm"]][1], **when)
                await until(lambda name=name: is_fitted(client, name))
            assert answer["round"] == 41
            told = await client.read(f"/v1/sessions/{name}/estimate")
            answers.append([told[part] for part in ("theta", "n_rows")])
            assert replayed(client, name).differences == []
        assert answers[0] == answers[1]


@pytest.mark.parametrize("key", ["", "b/b", "ü%"])
async def test_any_key_can_be_erased(serve: Serve, key: str) -> None:
    async with serve() as client:
        session = await client.create()
        await client.decide(session, trajectory=key)
        await client.decide(session, trajectory="stays")
        await erase(client, session, key.replace("%", "%25"))
        listed = await client.read(f"/v1/sessions/{session}/trajectories")
        assert [item["trajectory"] for item in listed["items"]] == ["stays"]
        problem(await client.delete("/v1/sessions/none/trajectories/x"), 404, "unknown_session")


@pytest.mark.parametrize("step", [".", ".."])
async def test_nothing_is_called_like_a_step_of_a_path(serve: Serve, step: str) -> None:
    """Clients and proxies take it out of a path, which is then another one."""
    async with serve() as client:
        session = await client.create(name="shop")
        await client.decide(session, trajectory="bob")
        path, arms = f"/v1/sessions/{session}", [[1.0, 0.25]]
        for route, body, field in (
            ("", {"name": step, "dim": 2, "horizon": 4}, "name"),
            (f"/{session}/copy", {"name": step}, "name"),
            (f"/{session}/decisions", {"contexts": arms, "trajectory": step}, "trajectory"),
            (f"/{session}/decisions", {"contexts": arms, "event_id": step}, "event_id"),
            (f"/{session}/rewards", {"value": 1, "round": 1, "trajectory": step}, "trajectory"),
            (f"/{session}/history", {"contexts": arms, "trajectory": step}, "trajectory"),
            (f"/{session}/rank", {"contexts": arms, "trajectory": step}, "trajectory"),
        ):
            problem(await client.post(f"/v1/sessions{route}", json=body), 422, "invalid", field)
        problem(await client.patch(path, json={"name": step}), 422, "invalid", "name")
        file = (await client.get(f"{path}/events")).content
        typed = {"content-type": "application/x-ndjson"}
        for query, content, field in (
            (f"?name={step}", file, "name"),
            ("", file.replace(b'"bob"', b'"%b"' % step.encode()), None),
            ("", file.replace(b'"shop"', b'"%b"' % step.encode()), None),
        ):
            sent = {"content": content, "headers": typed}
            answer = await client.post(f"/v1/sessions/import{query}", **sent)
            assert answer.status_code == 422, answer.text
            assert field is None or answer.json()["field"] == field
        rank = {"actions": [{"id": "a", "features": [{"f": 1.0}]}]}
        for head, more in (({"lhb-trajectory": step}, {}), ({}, {"eventId": step})):
            asked = {**rank, **more}
            answer = await client.post("/personalizer/v1.0/rank", json=asked, headers=head)
            assert answer.status_code == 400, answer.text


async def test_the_only_trajectory_of_a_session_begins_anew(serve: Serve) -> None:
    """Its rounds are no longer the session's positions, which windows are counted by."""
    async with serve() as client:
        session = await client.create(algorithm="ad_lasso")  # fits rounds 9 to 12, then 21 to 28
        for i in range(1, 6):
            await client.decide(session, ARMS)
            await client.reward(session, round=i, value=9.0)
        await erase(client, session, "")
        for i in range(1, 8):
            answer = await client.decide(session, ARMS)
            await client.reward(session, round=i, value=float(i) + ARMS[answer["arm"]][0])
        await until(lambda: is_fitted(client, session))
        fits = (await client.read(f"/v1/sessions/{session}/estimates"))["items"]
        found = [fit for fit in fits if fit["window"]["first"] == 9]
        assert [fit["n_missing"] for fit in found] == [0], fits
        assert replayed(client, session).differences == []


def test_while_a_trajectory_is_being_erased(harness: ServiceHarness) -> None:
    """It takes nothing, and nobody sees it; others go on; its slices are small."""
    harness.store.slices = Slices(rows=3)
    harness.create(algorithm="anytime")
    for name in ("a", "b"):
        harness.rounds(6, trajectory=name)
    harness.decide("a", event_id="e", digest=b"d")
    slices = erase_trajectory(harness.key, "a")
    done = harness.run(next(slices))
    done = harness.run(slices.send(done))
    assert n_rows(harness.store)["decisions"] == 10
    assert harness.run(hide_trajectory(harness.key, "a"))  # another request for the same
    for refused in (
        lambda: harness.decide("a"),
        lambda: harness.decide("a", event_id="e", digest=b"d"),
        lambda: harness.reward(1.0, "a", round=6),
        lambda: harness.run(void_decision(harness.key, "a", "~6", harness.agents)),
        lambda: harness.run(hide_trajectory(harness.key, "b")),
    ):
        with pytest.raises(Exception, match="being erased"):
            refused()
    harness.decide("b")
    with harness.store.reader() as reader:
        assert [row.key for row in reader.trajectories(harness.key)] == ["b"]
        assert reader.decisions((*harness.key, "a"), 0, 9) == []
        assert replay_session(reader, harness.session).differences == []
    while done is not None:
        done = harness.run(slices.send(done))
    assert harness.session.erasing is None
    assert harness.decide("a", event_id="e", digest=b"d").round == 1
    assert harness.run(erase_slice(harness.key)) is None
    assert n_rows(harness.store)["decisions"] == 8


def test_the_file_of_a_stopped_server_has_no_byte_of_them(tmp_path: Path) -> None:
    """But for unused space of index pages, until a vacuum."""
    for n, is_vacuumed in ((5, False), (60, True)):
        path = tmp_path / str(n)
        path.mkdir()
        harness = ServiceHarness(path)
        harness.create()
        for i in range(n):
            for name in ("a", "ann-of-bath", "b"):
                decision = harness.decide(name, event_id=f"e-{name}-{i}", digest=b"d")
                harness.reward(1.0, name, round=decision.round, reward_id=f"r-{name}-{i}")
        harness.run_large(erase_trajectory(harness.key, "ann-of-bath"))
        harness.close()
        if is_vacuumed:
            with closing(sqlite3.connect(path / "lhb.db")) as connection:
                connection.execute("vacuum")
        files = [file.read_bytes() for file in path.iterdir()]
        assert any(b"e-a-4" in file for file in files)
        assert not any(b"ann-of-bath" in file for file in files)


def test_a_log_shows_no_key() -> None:
    assert shown_path("/v1/sessions/s/trajectories/ann/1") == "/v1/sessions/s/trajectories/..."
    assert shown_path("/v1/sessions/s/trajectories/\nann") == "/v1/sessions/s/trajectories/..."
    assert shown_path("/v1/sessions/s\n/trajectories/ann") == "/v1/sessions/s\n/trajectories/..."
    assert shown_path("/v1/sessions/s/decisions/e-ann") == "/v1/sessions/s/decisions/..."
    assert shown_path("/v1/sessions/s/features/user=bob") == "/v1/sessions/s/features/..."
    assert shown_path("/v1/sessions/s/trajectories") == "/v1/sessions/s/trajectories"
    assert shown_path("/v1/sessions/a/b/decisions/e-ann/void") == "/v1/sessions/a/b/decisions/..."
    assert shown_path("/personalizer/v1.0/events/ann/reward") == "/personalizer/v1.0/events/..."
    slots = "/personalizer/v1.1-preview.3/multislot/events/"
    assert shown_path(f"{slots}ann/activate") == f"{slots}..."
