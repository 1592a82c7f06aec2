"""A long log is appended in slices: hidden until it is whole, and then as if in one step."""

from typing import Any

import numpy as np
import pytest

from service.base.problems import Problem
from service.commands.append_history import AppendSlice, Log
from service.commands.append_history import append_history as appended
from service.commands.erase_trajectory import sweep
from service.commands.sessions import change_session
from service.transfer.file_format import export_session
from tests.contracts.test_store_hidden import n_rows
from tests.examples import repeats
from tests.service.commands.sliced_appends import begun, seen, slices_of
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


def records(harness: ServiceHarness) -> list[bytes]:
    """The session's file, without its id and name."""
    with harness.store.reader() as reader:
        session = reader.session(harness.key)
        assert session is not None
        session.id, session.name, id = "", None, session.id
        lines = list(export_session(reader, session))[:1]
        session.id = id
        return lines + list(export_session(reader, session))[1:-1]


@pytest.mark.parametrize(
    ("both", "case"),
    [
        *(("sqlite", case) for case in CASES),
        ("postgres", CASES[0]),
        *repeats(*(("postgres", case) for case in CASES[1:])),
    ],
    indirect=["both"],
)
def test_slices_come_to_the_same_as_one_step(both: ServiceHarness, case: dict[str, Any]) -> None:
    contexts, rewards = log(60)
    rewards[7] = rewards[31] = None
    found = []
    for n in (1000, 7, 1):
        both.create(**case)
        rewarded = "reward_mode" not in case  # in sum mode a reward needs a name
        both.rounds(3, rewarded=rewarded)
        both.rounds(2, rewarded=rewarded, trajectory="b")
        for trajectory, id in (("", "x"), ("b", None), ("new", None)):
            given = (both.key, trajectory, np.array(contexts), rewards, id, id and bytes(16))
            body = Log(*given, **slices_of(n))
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


def test_a_log_is_hidden_until_it_is_whole(both: ServiceHarness) -> None:
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


def test_the_session_takes_nothing_else_meanwhile(both: ServiceHarness) -> None:
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
        lambda: both.run(change_session(both.key, {"archived": True})),
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


def test_a_slice_may_run_twice(both: ServiceHarness) -> None:
    """A batch that fails for another command's fault runs its commands again."""
    both.create(algorithm="lin_ucb")

    def broken(uow: Any) -> None:
        uow.save(both.session)
        raise RuntimeError("after a write")

    broken.keys = lambda keys: None  # type: ignore[attr-defined]
    contexts, rewards = log(20)
    body = Log(both.key, "", np.array(contexts), rewards, **slices_of(6))
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
    both.create(algorithm="lin_ucb")
    whole = Log(both.key, "", np.array(contexts), rewards, **slices_of(1000))
    both.run_large(appended(whole, both.agents, print))
    assert [[row[2:] for row in rows] for rows in seen(both)[1:3]] == [
        [row[2:] for row in rows] for rows in twice
    ]
    with both.store.reader() as reader:
        assert reader.agent_state(both.key) == reader.agent_state(one)
