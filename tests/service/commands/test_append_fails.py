"""A log that is not appended to its end leaves nothing, whatever ends it."""

from typing import Any

import numpy as np
import pytest

from service.base.problems import Problem
from service.commands.append_history import Log
from service.commands.append_history import append_history as appended
from service.commands.erase_trajectory import erase_slice, sweep
from service.commands.sessions import remove_session
from service.storage.transactions import Slices
from tests.contracts.test_store_hidden import n_rows
from tests.service.commands.sliced_appends import begun, seen, slices_of
from tests.service.commands.test_append_history import log
from tests.service.service_harness import ServiceHarness


@pytest.mark.parametrize("trajectory", ["", "new"])
def test_what_a_dead_writer_left_is_erased(both: ServiceHarness, trajectory: str) -> None:
    both.create()
    both.rounds(3)
    before, rows = seen(both), n_rows(both.store)
    contexts, rewards = log(20)
    body = Log(both.key, trajectory, np.array(contexts), rewards, "x", bytes(16), **slices_of(6))
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


def test_a_session_may_be_deleted_meanwhile(both: ServiceHarness) -> None:
    both.create()
    write, command = begun(both, 2, [])
    both.run(remove_session(both.key))
    with pytest.raises(Problem) as problem:
        both.run(command)
    assert problem.value.code == "unknown_session"
    write.close()
    both.run_large(sweep(both.key))
    assert not any(n_rows(both.store).values())


@pytest.mark.parametrize("then", ["deleted", "another log"])
def test_a_sweep_that_is_overtaken_erases_what_is_due_and_no_more(
    both: ServiceHarness, then: str
) -> None:
    """Between two of its slices, the session is deleted, or another sweep ends and a log begins."""
    both.store.slices = Slices(rows=4)
    both.create()
    both.rounds(3)
    before = n_rows(both.store)
    abandoned: list[Any] = []
    begun(both, 3, abandoned)[0].close()
    [(key, writer)] = abandoned
    done: Any = None
    while done is None or done.cursor[0] != "measurements":
        done = both.run(erase_slice(key, done, writer))
    if then == "deleted":
        both.run(remove_session(key))
        while done is not None:
            done = both.run(erase_slice(key, done, writer))
        assert not any(n_rows(both.store).values())
        return
    both.run_large(sweep(key))
    both.now += 1
    write, command = begun(both, 2, abandoned)
    rows = n_rows(both.store)
    assert both.run(erase_slice(key, done, writer)) is None
    assert n_rows(both.store) == rows
    both.now += 16  # now the second writer counts as dead: all of its rows are due
    while done is not None:
        done = both.run(erase_slice(key, done, writer))
    assert n_rows(both.store) == before
    with pytest.raises(Problem, match="paused"):
        both.run(command)
    write.close()


@pytest.mark.parametrize("taken", ["event", "reward"])
def test_an_id_taken_beyond_the_first_slice_undoes_the_log_alone(
    both: ServiceHarness, taken: str
) -> None:
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


def test_a_log_that_fails_is_erased_before_its_error_is_raised(both: ServiceHarness) -> None:
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
