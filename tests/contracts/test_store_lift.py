"""What every store promises of the rounds that a comparison reads, and of its sums."""

from collections.abc import Callable
from dataclasses import replace
from struct import pack
from typing import Any

from service.session.records import DecisionRow, LiftSumsRow, LiftUnitRow
from service.session.trial import Trial
from service.storage.transactions import Store
from tests.contracts.sample_rows import S1, commit, decision, session, trajectory

SCORES = [0.25 * i for i in range(70)]


def played(round: int, name: str, position: int, by: str = "agent", **more: Any) -> DecisionRow:
    scores = pack("70d", *SCORES)
    given = {"arm": 69, "agent_arm": 2, "scores": scores, **more}
    return decision(round, name, position=position, played_by=by, **given)


def test_rounds_of_a_trial_are_read_by_position_with_a_bounded_part_of_their_scores(
    store: Store,
) -> None:
    rows = [
        played(1, "", 1),
        played(1, "a", 2, "control", arm=2),
        decision(2, "a", position=3),
        played(2, "", 4, "caller", arm=None, agent_arm=None, scores=b"", context=b""),
        played(3, "a", 5),
    ]
    commit(store, session(), trajectory(), trajectory("a"), *rows)
    with store.reader() as reader:
        found = reader.played(S1, 2, 5)
        assert [(one.trajectory, one.round, one.position, one.played_by) for one in found] == [
            ("a", 1, 2, "control"),
            ("", 2, 4, "caller"),
            ("a", 3, 5, "agent"),
        ]
        agrees, rest, differs = found
        assert (agrees.n_bytes, agrees.first_scores) == (560, pack("64d", *SCORES[:64]))
        assert (agrees.score, agrees.agent_score) == (pack("d", 0.5), pack("d", 0.5))
        assert (differs.score, differs.agent_score) == (pack("d", 17.25), pack("d", 0.5))
        assert (bool(agrees.agrees), bool(differs.agrees)) == (True, False)
        assert (rest.n_bytes, rest.first_scores or b"", rest.score) == (0, b"", None)
        ranges = [("a", 1, 3), ("", 2, 9), ("b", 1, 1)]
        assert [one.position for one in reader.played_in(S1, ranges, 4)] == [4, 2]


def test_a_session_alone_reads_its_rounds_too(store: Store) -> None:
    commit(store, session(), trajectory(), *(played(i, "", i) for i in range(1, 5)))
    with store.reader() as reader:
        assert [one.round for one in reader.played(S1, 2, 3)] == [2, 3]


def test_sums_and_units_are_replaced_and_go_with_their_session(
    reopen: Callable[[], Store],
) -> None:
    store = reopen()
    sums = LiftSumsRow(*S1, 0, 3, 2, "{}")
    units = [
        LiftUnitRow(*S1, 0, "", 2, 3.0, "3p-1", "-1p-2"),
        LiftUnitRow(*S1, 0, "ü", 0, 1.0, "1p1", "0p0"),
        LiftUnitRow(*S1, 7, "ü", 0, 9.0, "9p0", "9p0"),
    ]
    commit(store, session(trial=Trial(), n_rounds=3, n_measurements=2))
    with store.reader() as reader:
        assert reader.lift_sums(S1) is None
        assert reader.unsummed(("", ""), 9) == [S1]
    commit(store, lift_sums=[sums], lift_units=units)
    changed = units[0]._replace(rounds=4.0, reward="5p-1")
    commit(store, lift_sums=[sums._replace(sums="[]")], lift_units=[changed])
    with reopen().reader() as reader:
        assert reader.lift_sums(S1) == sums._replace(sums="[]")
        asked = [("", 2), ("ü", 0), ("none", 0), ("", 1)]
        expected = {("", 2): changed, ("ü", 0): units[1]}
        assert reader.lift_units(S1, 0, asked) == expected
        assert reader.unsummed(("", ""), 9) == []
    store = reopen()
    commit(store, deleted=[S1])
    with store.reader() as reader:
        assert reader.lift_sums(S1) is None


def test_a_comparison_counts_in_what_a_tenant_has_stored(store: Store) -> None:
    """About: by the most units that it can have."""
    rows = session(n_rounds=80, n_trajectories=5), session("s2", n_rounds=80, n_trajectories=5)
    sizes = []
    for row in (rows[0], replace(rows[1], trial=Trial())):
        commit(store, row)
        with store.reader() as reader:
            sizes.append(dict(reader.stored_by_tenant())["t"])
    assert sizes[1] - 2 * sizes[0] == 150 * (5 + 80 / (2 * 4))


def test_sessions_that_are_not_summed_are_found_in_order_and_in_turns(store: Store) -> None:
    rows = [session(f"s{i}", trial=Trial(), n_rounds=1) for i in range(1, 5)]
    commit(store, *rows, session("s5", n_rounds=1), replace(rows[0], id="s0", n_rounds=0))
    commit(store, lift_sums=[LiftSumsRow("t", "s2", 0, 1, 0, "{}")])
    commit(store, lift_sums=[LiftSumsRow("t", "s3", 0, 1, 0, "{}")])
    with store.reader() as reader:
        assert reader.unsummed(("", ""), 1) == [("t", "s1")]
        assert reader.unsummed(("t", "s1"), 9) == [("t", "s4")]
