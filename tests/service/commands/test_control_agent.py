"""Control plays the agent of another session."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.randomness import Draw
from service.api.context_arrays import read_contexts
from service.base.loop_slices import run_at_once
from service.base.problems import Problem, ProblemCode
from service.commands.sessions import change_session, remove_session
from service.session.records import SessionKey
from service.transfer.file_format import export_session
from service.transfer.replay import replay_session
from tests.service.service_harness import ServiceHarness

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
BEST = 1  # of these, by the direction of OK


def champion(harness: ServiceHarness, *, fits: bool = True, **body: Any) -> SessionKey:
    """A session, by default one that has learned."""
    harness.create(name="champion", **body)
    if fits:
        harness.rounds(4)
        harness.finish(4)
    return harness.key


def challenger(harness: ServiceHarness, session: str = "champion", **body: Any) -> None:
    holdout = {"share": 0.5, "policy": {"session": session}, "planned_rounds": 100, "guard": True}
    harness.create(holdout=holdout, **body)


def play(harness: ServiceHarness, n: int = 30, contexts: Any = ARMS) -> list[tuple[Any, ...]]:
    rounds = [harness.decide(f"user-{i}", contexts=contexts) for i in range(n)]
    return [(one.played_by, one.arm, one.forced, one.propensity) for one in rounds]


@pytest.mark.parametrize("by_name", [True, False])
def test_control_plays_what_the_other_estimate_scores_best(
    harness: ServiceHarness, by_name: bool
) -> None:
    id = champion(harness)[1]
    challenger(harness, "champion" if by_name else id)
    found = play(harness)
    assert {one[1:] for one in found if one[0] == "control"} == {(BEST, True, None)}
    assert {one[1] for one in found if one[0] == "agent"} == {0, 1, 2}  # it has learned nothing
    policy = harness.session.trial.policy
    assert policy == {"session": id, "name": "champion"}


def test_control_follows_the_other_session_as_it_learns(harness: ServiceHarness) -> None:
    """Without an estimate it plays any arm, drawn for the round; the log keeps what it played."""
    first = champion(harness, fits=False)
    challenger(harness, seed=7)
    before = [one[1] for one in play(harness) if one[0] == "control"]
    second = harness.key
    assert set(before) == {0, 1, 2}
    drawn = [Draw(7, f"user-{i}", 1).below(3, "control") for i in range(30)]
    names = [i for i in range(30) if Draw(7, f"user-{i}", 0).uniform("holdout") < 0.5]
    assert before == [drawn[i] for i in names]
    harness.key = first
    harness.rounds(4)
    harness.finish(4)
    harness.key = second
    assert {one[1] for one in play(harness) if one[0] == "control"} == {BEST}
    with harness.store.reader() as reader:
        assert replay_session(reader, harness.session).differences == []


def test_names_are_columns_of_the_session_that_knows_them(harness: ServiceHarness) -> None:
    """Each session has given its columns away in its own order."""
    champion(harness, features=["x", "y"])
    challenger(harness, features=["y", "x"])
    named = [{"x": row[0], "y": row[1]} for row in ARMS.tolist()]
    contexts = run_at_once(read_contexts(named))
    assert {one[1] for one in play(harness, contexts=contexts) if one[0] == "control"} == {BEST}
    with pytest.raises(Problem) as caught:
        harness.decide("user-1", contexts=run_at_once(read_contexts([{"z": 1.0}])))
    assert (caught.value.code, caught.value.field) == (ProblemCode.NO_COLUMN, "contexts[0].z")


@pytest.mark.parametrize("session", ["nobody", "0" * 23, "other"])
def test_a_session_that_is_not_there_or_has_other_contexts_is_refused(
    harness: ServiceHarness, session: str
) -> None:
    harness.create(name="other", dim=3)
    with pytest.raises(Problem) as caught:
        challenger(harness, session)
    found = caught.value
    assert (found.code, found.field) == (ProblemCode.BAD_OPTION, "holdout.policy.session")


def test_a_session_that_control_plays_is_deleted_after_the_other(harness: ServiceHarness) -> None:
    first = champion(harness)
    challenger(harness, name="tested")
    second = harness.key
    harness.run(change_session(first, {"archived": True, "name": "renamed"}))
    assert {one[1] for one in play(harness) if one[0] == "control"} == {BEST}
    with pytest.raises(Problem, match="'tested'") as caught:
        harness.run(remove_session(first))
    assert caught.value.code == ProblemCode.IN_USE
    harness.run(remove_session(second))
    harness.run(remove_session(first))
    with harness.store.reader() as reader:
        assert reader.sessions("", "", 9, True) == []


def test_an_import_finds_control_by_its_name_where_ids_are_others(
    harness: ServiceHarness, tmp_path: Path
) -> None:
    champion(harness)
    with harness.store.reader() as reader:
        first = b"".join(export_session(reader, harness.session))
    challenger(harness, name="tested")
    before = play(harness)
    with harness.store.reader() as reader:
        second = b"".join(export_session(reader, harness.session))
    (tmp_path / "elsewhere").mkdir()
    elsewhere = ServiceHarness(tmp_path / "elsewhere")
    with pytest.raises(Problem, match=r"'champion'.*import that session first") as caught:
        elsewhere.import_file(tmp_path, second)
    assert caught.value.field == "header.session.trial"
    moved, _ = elsewhere.import_file(tmp_path, first)
    tested, _ = elsewhere.import_file(tmp_path, second)
    elsewhere.key = tested.key
    assert tested.trial.policy == {"session": moved.id, "name": "champion"}
    control = {one for one in before if one[0] == "control"}
    assert {one for one in play(elsewhere) if one[0] == "control"} == control
    with elsewhere.store.reader() as reader:
        assert replay_session(reader, elsewhere.session).differences == []
    elsewhere.close()
