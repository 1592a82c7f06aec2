"""What every store promises: the rows of docs/architecture.md, Storage, whole or not at all."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from service.session.fit_schedule import DueFit, OpenWindow, Schedule, Watermark
from service.session.records import ApiKey
from service.storage.transactions import Store
from tests.contracts.sample_rows import (
    S1,
    T1,
    WINDOW,
    begin,
    changes,
    commit,
    decision,
    estimate,
    session,
    trajectory,
)


def test_a_session_comes_back_as_it_went(reopen: Callable[[], Store]) -> None:
    store = reopen()
    made = session(name="shop", default_reward=-0.5)
    commit(store, made)
    for get in (lambda: store, reopen):
        again = get()
        with again.reader() as reader:
            assert reader.session(S1) == made
            assert reader.session(("", "s1")) is None
            assert reader.session(("t", "s2")) is None
        transaction = begin(again)
        assert transaction.session(S1) == made
        assert transaction.session_named("t", "shop") == made
        assert transaction.session_named("", "shop") is None
        transaction.rollback()


def test_counters_and_the_rest_of_a_session_change_apart(reopen: Callable[[], Store]) -> None:
    store = reopen()
    commit(store, session())
    counted = session(n_rounds=5, n_trajectories=2, n_complete=4)
    commit(store, counts={S1: counted})
    with store.reader() as reader:
        assert reader.session(S1) == counted
    due = DueFit(WINDOW, Watermark(9, 12, 1234.25), "complete", 1234.5, 1, 99.5)
    changed = replace(
        counted,
        name="new",
        archived_at=5.5,
        n_estimates=3,
        estimate=2,
        model_version=1,
        schedule=Schedule([OpenWindow(WINDOW, 1, None)], due, [due]),
    )
    commit(store, sessions={S1: changed}, counts={S1: changed})
    with reopen().reader() as reader:
        assert reader.session(S1) == changed
        [(key, fit_due, wake_at)] = reader.unfinished()
        assert (key, fit_due, wake_at) == (S1, 12, 99.5)


def test_unfinished_lists_only_what_waits(store: Store) -> None:
    idle = session("s2", schedule=Schedule([OpenWindow(WINDOW)]))
    commit(store, session("s1"), idle)
    with store.reader() as reader:
        assert reader.unfinished() == [(S1, None, 12.5)]


def test_what_is_not_committed_does_not_exist(store: Store) -> None:
    commit(store, session(), trajectory())
    transaction = begin(store)
    found = transaction.session(S1)
    assert found is not None
    found.n_rounds = 99
    moved = transaction.trajectory(T1)
    assert moved is not None
    moved.n_rounds = 99
    transaction.write(changes(decision(1), counts={S1: found}))
    assert transaction.decision_by_round(T1, 1) == decision(1)
    with store.reader() as reader:
        assert reader.decisions(T1, 0, 10) == []
        assert reader.session(S1) == session()
    transaction.rollback()
    transaction = begin(store)
    assert transaction.session(S1) == session()
    assert transaction.trajectory(T1) == trajectory()
    assert transaction.decision_by_round(T1, 1) is None
    transaction.rollback()


def test_a_failed_write_can_be_rolled_back(store: Store) -> None:
    commit(store, session(), decision(1))
    transaction = begin(store)
    with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
        transaction.write(changes(decision(2), decision(1)))
    transaction.rollback()
    commit(store, decision(2))
    with store.reader() as reader:
        assert [d.round for d in reader.decisions(T1, 0, 10)] == [1, 2]


def test_estimates_and_agent_states(store: Store) -> None:
    rows = [estimate(1), estimate(2, status="failed", reason="why", estimate=None), estimate(3)]
    commit(store, session(), *rows, states={S1: '{"theta": [0.1]}'})
    with store.reader() as reader:
        assert reader.estimates(S1, 0, 2) == rows[:2]
        assert reader.estimates(S1, 2, 9) == rows[2:]
        assert reader.estimate(S1, 2) == rows[1]
        assert reader.estimate(S1, 4) is None
        assert reader.agent_state(S1) == '{"theta": [0.1]}'
        assert reader.agent_state(("t", "s2")) is None
    commit(store, states={S1: "{}"})
    transaction = begin(store)
    assert transaction.agent_state(S1) == "{}"
    transaction.rollback()


def test_sessions_are_listed_by_creation_and_tenant(store: Store) -> None:
    rows = [session(f"s{i}") for i in range(5)]
    rows[3].archived_at = 7.0
    commit(store, *rows, session("s9", tenant="other"))
    with store.reader() as reader:
        assert [s.id for s in reader.sessions("t", "", 2, False)] == ["s0", "s1"]
        assert [s.id for s in reader.sessions("t", "s1", 9, False)] == ["s2", "s4"]
        assert [s.id for s in reader.sessions("t", "s1", 9, True)] == ["s2", "s3", "s4"]
        assert [s.id for s in reader.sessions("other", "", 9, True)] == ["s9"]


def test_what_a_session_was_created_as_outlives_its_name(store: Store) -> None:
    commit(store, session(name="shop", created_as="shop", request="{}"), session("s2", name="x"))
    commit(store, sessions={S1: session(name="new", created_as="shop", request="{}")})
    transaction = begin(store)
    assert transaction.created_as("t", "shop") == [("s1", "{}")]
    assert transaction.created_as("t", "new") == transaction.created_as("", "shop") == []
    transaction.rollback()
    with store.reader() as reader:
        found = reader.session(S1)
    assert found is not None
    assert (found.name, found.created_as) == ("new", "shop")


def test_keys_are_kept_also_when_they_are_revoked(store: Store) -> None:
    keys = [ApiKey("t", "a1", b"\0\xff" * 16, "shop", 5.25), ApiKey("u", "b2", b"x" * 32, "", 6.5)]
    commit(store, api_keys=keys)
    revoked = keys[0]._replace(revoked_at=7.125)
    commit(store, api_keys=[revoked])
    with store.reader() as reader:
        assert reader.api_keys() == [revoked, keys[1]]


def test_the_store_answers(store: Store) -> None:
    with store.reader() as reader:
        reader.check()
