"""A long log is appended in slices: hidden until it is whole, and then as if in one step."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.commands import append_history
from service.commands.append_history import AppendSlice, Log
from service.commands.append_history import append_history as appended
from service.commands.sessions import ChangeSession, DeleteSession
from service.commands.sweep import EraseSlice, sweep
from service.problems import Problem
from service.storage.database_url import open_store
from service.storage.sql import erasing
from service.transfer.file_format import export_session
from tests.contracts.test_store_hidden import n_rows
from tests.service.commands.test_append_history import log
from tests.service.service_harness import ServiceHarness

CASES: list[dict[str, Any]] = [
    {"algorithm": "anytime", "horizon": 160},
    {"algorithm": "ad_lasso"},
    {"algorithm": "ad_lasso", "default_reward": 5.0},
    {"algorithm": "ad_lasso", "reward_mode": "sum"},
    {"algorithm": "ad_lasso", "reward_wait_seconds": 60},
    {"algorithm": "lin_ucb"},
    {"algorithm": "ucb_mp"},
]


@pytest.fixture(params=["sqlite", "postgres"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A harness on each database."""
    url = f"sqlite:///{tmp_path / 'lhb.db'}"
    if request.param == "postgres":
        url = str(request.getfixturevalue("postgres_url"))
    harness = ServiceHarness(tmp_path, open_store(url))
    yield harness
    harness.close()


def records(harness: ServiceHarness) -> list[bytes]:
    """The session's file, without its id and name."""
    with harness.store.reader() as reader:
        session = reader.session(harness.key)
        assert session is not None
        session.id, session.name, id = "", None, session.id
        lines = list(export_session(reader, session))[:1]
        session.id = id
        return lines + list(export_session(reader, session))[1:-1]


def slices_of(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_history, "SLICE_ROUNDS", n)
    monkeypatch.setattr(append_history, "SLICE_SECONDS", 60.0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values())))
def test_slices_come_to_the_same_as_one_step(
    both: ServiceHarness, monkeypatch: pytest.MonkeyPatch, case: dict[str, Any]
) -> None:
    contexts, rewards = log(60)
    rewards[7] = rewards[31] = None
    found = []
    for n in (1000, 7, 1):
        slices_of(n, monkeypatch)
        both.create(**case)
        rewarded = "reward_mode" not in case  # in sum mode a reward needs a name
        both.rounds(3, rewarded=rewarded)
        both.rounds(2, rewarded=rewarded, trajectory="b")
        for trajectory, id in (("", "x"), ("b", None), ("new", None)):
            body = Log(both.key, trajectory, np.array(contexts), rewards, id, id and bytes(16))
            answer = both.run_large(appended(body, both.agents, lambda *left: None))
            effects = dict(both.effects.due), dict(both.effects.timed)
            both.decide(trajectory)
            found.append((answer, [*effects[0].values()], [*effects[1].values()]))
        again = Log(both.key, "", np.array(contexts), rewards, "x", bytes(16))
        answer = both.run_large(appended(again, both.agents, lambda *left: None))
        assert (answer.first_round, answer.last_round, answer.is_new) == (4, 63, False)
        found.append(records(both))  # type: ignore[arg-type]
        assert n_rows(both.store)["hidden_rows"] == 0
        assert both.session.append_token is None
    one, seven, single = found[:4], found[4:8], found[8:]
    assert one[0][0].n_rewards == 58
    assert seven == one
    assert single == one


def begun(harness: ServiceHarness, n: int, abandoned: list[Any], **more: Any) -> Any:
    """A log of 20 rounds of which n slices are written; the write, and its next command."""
    contexts, rewards = log(20)
    body = Log(harness.key, "", np.array(contexts), rewards, "x", bytes(16))
    write = appended(body, harness.agents, lambda *left: abandoned.append(left))
    command = write.send(None)
    for _ in range(n):
        command = write.send(harness.run(command))
    return write, command


def seen(harness: ServiceHarness, trajectory: str = "") -> Any:
    """All that a reader sees."""
    with harness.store.reader() as reader:
        key = (*harness.key, trajectory)
        session = harness.session
        session.append_token = None
        return (
            session,
            reader.decisions(key, 0, 100),
            reader.measurements(key, 1, 100),
            list(reader.measurement_log(key)),
            [reader.decision(key, event) for event in ("x/1", "x/9", "~4")],
        )


def test_a_log_is_hidden_until_it_is_whole(
    both: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices_of(6, monkeypatch)
    both.create()
    both.rounds(3)
    before = seen(both)
    write, command = begun(both, 2, [])
    assert n_rows(both.store)["decisions"] == 15
    assert seen(both) == before
    session, content = both.session, []
    with both.store.reader() as reader:
        content = list(export_session(reader, session))
    assert sum(b'"record":"decision"' in line for line in content) == 3
    both.run(command)
    assert seen(both) == before
    write.close()


def test_the_session_takes_nothing_else_meanwhile(
    both: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices_of(6, monkeypatch)
    both.create(algorithm="ad_lasso")
    both.rounds(5)
    due = both.session.fit_due
    assert due is not None
    abandoned: list[Any] = []
    write, command = begun(both, 2, abandoned)
    refused = [
        lambda: both.decide(),
        lambda: both.decide("b"),
        lambda: both.reward(1.0, round=5),
        lambda: both.run(ChangeSession(both.key, {"archived": True})),
        lambda: both.tick(),
        lambda: both.finish(due),
        lambda: both.run(AppendSlice(command.log, both.agents, "other")),
    ]
    for ask in refused:
        with pytest.raises(Problem) as problem:
            ask()
        assert problem.value.code == "history_pending"
        assert problem.value.retry_after == 1
    write.close()
    [(key, writer)] = abandoned
    assert key == both.key
    both.run_large(sweep(key, abandoned_by="another"))
    assert n_rows(both.store)["hidden_rows"] == 1
    both.run_large(sweep(key, abandoned_by=writer))
    both.finish(due)
    assert both.decide().round == 6


@pytest.mark.parametrize("trajectory", ["", "new"])
def test_what_a_dead_writer_left_is_erased(
    both: ServiceHarness, monkeypatch: pytest.MonkeyPatch, trajectory: str
) -> None:
    slices_of(6, monkeypatch)
    both.create()
    both.rounds(3)
    before, rows = seen(both), n_rows(both.store)
    contexts, rewards = log(20)
    body = Log(both.key, trajectory, np.array(contexts), rewards, "x", bytes(16))
    write = appended(body, both.agents, lambda *left: None)
    result: Any = None
    for _ in range(3):
        result = both.run(write.send(result))
    both.run_large(sweep(both.key))  # it lives
    assert n_rows(both.store)["decisions"] == 3 + 18
    both.now += 16
    both.run_large(sweep(both.key))
    assert n_rows(both.store) == rows
    assert seen(both) == before
    with pytest.raises(Problem, match="paused"):
        both.run(write.send(result))
    write.close()
    answer = both.run_large(appended(body, both.agents, lambda *left: None))
    assert (answer.last_round - answer.first_round, answer.is_new) == (19, True)
    assert len(seen(both, trajectory)[1]) == 20 + (3 if trajectory == "" else 0)


def test_a_session_may_be_deleted_meanwhile(
    both: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices_of(6, monkeypatch)
    both.create()
    write, command = begun(both, 2, [])
    both.run(DeleteSession(both.key))
    with pytest.raises(Problem) as problem:
        both.run(command)
    assert problem.value.code == "unknown_session"
    write.close()
    both.run_large(sweep(both.key))
    assert not any(n_rows(both.store).values())


@pytest.mark.parametrize("then", ["deleted", "another log"])
def test_a_sweep_that_is_overtaken_erases_what_is_due_and_no_more(
    both: ServiceHarness, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """Between two of its slices, the session is deleted, or another sweep ends and a log begins."""
    slices_of(6, monkeypatch)
    monkeypatch.setattr(erasing, "MAX_ROWS", 4)
    both.create()
    both.rounds(3)
    before = n_rows(both.store)
    abandoned: list[Any] = []
    begun(both, 3, abandoned)[0].close()
    [(key, writer)] = abandoned
    done: Any = None
    while done is None or done.cursor[0] != "measurements":
        done = both.run(EraseSlice(key, done, writer))
    if then == "deleted":
        both.run(DeleteSession(key))
        while done is not None:
            done = both.run(EraseSlice(key, done, writer))
        assert not any(n_rows(both.store).values())
        return
    both.run_large(sweep(key))
    both.now += 1
    write, command = begun(both, 2, abandoned)
    rows = n_rows(both.store)
    assert both.run(EraseSlice(key, done, writer)) is None
    assert n_rows(both.store) == rows
    both.now += 16  # now the second writer counts as dead: all of its rows are due
    while done is not None:
        done = both.run(EraseSlice(key, done, writer))
    assert n_rows(both.store) == before
    with pytest.raises(Problem, match="paused"):
        both.run(command)
    write.close()


@pytest.mark.parametrize("taken", ["event", "reward"])
def test_an_id_taken_beyond_the_first_slice_undoes_the_log_alone(
    both: ServiceHarness, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    slices_of(6, monkeypatch)
    both.create()
    if taken == "event":
        both.decide(event_id="x/9", digest=bytes(16))
    else:
        both.decide()
        both.reward(1.0, round=1, reward_id="x/9")
    abandoned: list[Any] = []
    write, command = begun(both, 1, abandoned)
    with pytest.raises(Problem) as problem:
        both.run(command)
    assert problem.value.status == 409
    write.close()
    [(key, writer)] = abandoned
    both.run_large(sweep(key, abandoned_by=writer))
    assert both.decide().round == 2


def test_a_log_that_fails_is_erased_before_its_error_is_raised(
    both: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices_of(6, monkeypatch)
    both.create()
    both.rounds(3)
    abandoned: list[Any] = []
    before, rows = seen(both), n_rows(both.store)
    write, _ = begun(both, 2, abandoned)
    command = write.throw(RuntimeError("the slice failed"))
    raised: list[str] = []
    while not raised:
        result = both.run(command)
        try:
            command = write.send(result)
        except RuntimeError as error:
            raised.append(str(error))
    assert raised == ["the slice failed"]
    assert (n_rows(both.store), seen(both), abandoned) == (rows, before, [])
    assert both.decide().round == 4
    write, _ = begun(both, 2, abandoned)
    write.throw(RuntimeError("the slice failed"))
    with pytest.raises(RuntimeError, match="nor can it be erased"):
        write.throw(RuntimeError("nor can it be erased"))
    assert [key for key, _ in abandoned] == [both.key]


def test_a_slice_may_run_twice(both: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that fails for another command's fault runs its commands again."""
    slices_of(6, monkeypatch)
    both.create(algorithm="lin_ucb")

    def broken(uow: Any) -> None:
        uow.save(both.session)
        raise RuntimeError("after a write")

    broken.keys = lambda keys: None  # type: ignore[attr-defined]
    contexts, rewards = log(20)
    body = Log(both.key, "", np.array(contexts), rewards)
    write, result = appended(body, both.agents, lambda *left: None), None
    while True:
        try:
            command = write.send(result)
        except StopIteration as done:
            answer = done.value
            break
        [(result, error), _], _ = both.commit.run_in_thread([command, broken])
        assert error is None
    assert (answer.first_round, answer.last_round) == (1, 20)
    twice, one = seen(both)[1:3], both.key
    slices_of(1000, monkeypatch)
    both.create(algorithm="lin_ucb")
    both.run_large(appended(Log(both.key, "", np.array(contexts), rewards), both.agents, print))
    assert [[row[2:] for row in rows] for rows in seen(both)[1:3]] == [
        [row[2:] for row in rows] for rows in twice
    ]
    with both.store.reader() as reader:
        assert reader.agent_state(both.key) == reader.agent_state(one)
