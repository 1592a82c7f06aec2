"""Creation, PATCH, copy and import take the same pairs of settings."""

import json
from collections.abc import Callable, Iterator
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import pytest

from lhb_engine.agents.fit_cost import FitCost
from service.api.body_parsing import COPY, PATCH, SESSION
from service.base.problems import Problem
from service.commands.sessions import change_session, create_session
from service.session.records import UNCHANGED
from service.session.trial import AGENT_ALONE
from service.transfer.copy_session import copied_session, copy_session
from service.transfer.file_format import read_lines
from tests.service.service_harness import ServiceHarness
from tests.service.transfer.test_import_forgeries import checked, exported, resealed

Body = dict[str, Any]
LARGE = FitCost(1e9, 1e9)
PLAIN: Body = {"dim": 2, "horizon": 4, "seed": 1}
SETTINGS: list[Body] = [
    {"algorithm": "ad_lasso"},
    {"algorithm": "uniform"},
    {"algorithm": "lin_ucb"},
    {"dim": 129},
    {"horizon": 600},
    {"reward_mode": "sum"},
    {"reward_wait_seconds": 5.0},
    {"default_reward": 0.0},
    {"refit": "blocking"},
    {"categories": "hashed"},
    {"mode": "live"},
    {"mode": "shadow"},
    {"holdout": {"share": 0.1, "policy": "uniform"}},
    {"keep_contexts": True},
    {"clock": {"slot_seconds": 60, "start": "1970-01-01T00:00:00Z"}},
    {"clock": {"slot_seconds": 50, "start": "1970-01-01T00:00:00Z", "totals": "trajectory"}},
    {"keep_rounds": 40_000},
    {"keep_days": 30.0},
    {"options": {"memory": 100}},
    {"options": {"levels": True}},
    {"options": {"own": True}},
    {"options": {"covariates": ["rain"]}},
    {"options": {"epsilon": 0.1}},
]
PATCHED, COPIED = (parser.adapter.json_schema()["properties"].keys() for parser in (PATCH, COPY))
CHANGEABLE = {"epsilon", "memory"}  # of the options above


def both(state: Body, more: Body) -> Body:
    """The settings of `state` with `more` in their place; options are one by one."""
    options = {**state.get("options", {}), **more.get("options", {})}
    return {**state, **more, **({"options": options} if options else {})}


class Doors:
    """The ways to a session, all of which end in a row."""

    def __init__(self, path: Path) -> None:
        self.harness = ServiceHarness(path)

    def create(self, body: Body) -> None:
        """Make a session, which the other methods then mean."""
        self.harness.now += 1.0
        asked = SESSION.read(json.dumps({**PLAIN, **body}).encode())
        session, _ = self.harness.run(create_session("", asked, False))
        self.harness.key = session.key

    def created(self, body: Body) -> Body | None:
        """Make a session; the header of its export, or None if it is refused."""
        return self.header() if taken(self.create, body) else None

    def patch(self, body: Body) -> None:
        """Change the session."""
        self.harness.now += 1.0
        changes = dict(PATCH.read(json.dumps(body).encode()))
        self.harness.run(change_session(self.harness.key, changes))

    def copy(self, body: Body) -> None:
        """Copy the session with other settings, as far as a file that can be imported."""
        asked = dict(COPY.read(json.dumps(body).encode()))
        source = self.harness.session
        copy, agent = copied_session(source, asked, False, LARGE, self.harness.now)
        with self.harness.store.reader() as reader:
            content = b"".join(copy_session(reader, source, copy, agent))
        assert taken(self.read, content), (source, body)

    def header(self) -> Body:
        """What an export of the session says of it. The export can be imported."""
        content = exported(self.harness)
        assert taken(self.read, content), content
        header: Body = next(iter(read_lines(content.splitlines(keepends=True))))[1]["session"]
        return {name: value for name, value in header.items() if name not in OWN}

    def read_header(self, header: Body) -> None:
        """Check a file with other settings."""
        [(_, record)] = read_lines(exported(self.harness).splitlines(keepends=True))
        own = {name: value for name, value in record["session"].items() if name in OWN}
        self.read(resealed([{**record, "session": {**header, **own}}]))

    def read(self, content: bytes) -> None:
        """Check a file as an import does."""
        checked(content)


def taken(way: Callable[[Any], None], asked: Any) -> bool:
    """Whether a way is open; it is closed by a 422 alone."""
    try:
        way(asked)
    except Problem as problem:
        if problem.code.status != 422:
            raise
        return False
    return True


CHANGED = {"changes": UNCHANGED, "trial": AGENT_ALONE}  # they know what was before
OWN = ("id", "created_at", "request")


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    doors = Doors(tmp_path)
    yield doors
    doors.harness.close()


def test_a_change_is_taken_where_creation_takes_the_pair(doors: Doors) -> None:
    """A PATCH, or a copy, of a session leads where creation leads, or is refused as creation is."""
    known: dict[str, Body | None] = {}
    wrong = []

    def header(body: Body) -> Body | None:
        text = json.dumps(body, sort_keys=True)
        if text not in known:
            known[text] = doors.created(body)
        return known[text]

    for state in SETTINGS:
        if header(state) is None:
            continue
        doors.create(state)
        for more in SETTINGS:
            whole = both(state, more)
            key, expected = doors.harness.key, header(whole)
            doors.harness.key = key
            if {*more} <= COPIED and whole.get("algorithm") != "lin_ucb":
                copy = {**more, **({"options": whole["options"]} if "options" in more else {})}
                if taken(doors.copy, copy) != (expected is not None):
                    wrong.append(("copy", state, more))
            if {*more} <= PATCHED and {*more.get("options", {})} <= CHANGEABLE:
                is_taken = taken(doors.patch, more)
                if is_taken != (expected is not None):
                    wrong.append(("PATCH", state, more))
                elif is_taken and {**(expected or {}), **CHANGED} != {**doors.header(), **CHANGED}:
                    wrong.append(("another session", state, more))
                if is_taken:
                    doors.create(state)
    assert not wrong, "\n".join(map(str, wrong))


def test_a_file_is_imported_where_creation_takes_the_pair(doors: Doors) -> None:
    """A header with the settings of two sessions is one that creation can make, or is refused."""
    plain, wrong = doors.created({}), []
    assert plain is not None
    headers = [(one, doors.created(one)) for one in SETTINGS]
    for (one, first), (other, second) in combinations(headers, 2):
        if first is None or second is None:
            continue
        other_only = {n: v for n, v in second.items() if v != plain.get(n)}
        whole = {**first, **other_only}
        if {*one} & {*other} - {"options"}:
            continue
        if "options" in one and "options" in other:
            whole["options"] = {**first["options"], **second["options"]}
        is_created = doors.created(both(one, other)) is not None
        if taken(doors.read_header, whole) != is_created:
            wrong.append((one, other, is_created))
    assert not wrong, "\n".join(map(str, wrong))


def test_a_session_goes_back_to_what_it_was(doors: Doors) -> None:
    """Whatever mode and retention follow one another, its export is imported and it can change."""
    steps: list[Body] = [
        {"mode": "shadow"},
        {"mode": "live"},
        {"keep_rounds": 40_000},
        {"keep_rounds": None},
        {"options": {"memory": 100}},
        {"options": {"memory": None}},
    ]
    for first in ({}, {"keep_rounds": 40_000}, {"clock": {"slot_seconds": 60}}, {"mode": "shadow"}):
        for changes in permutations(steps, 2):
            doors.created(first)
            for change in changes:
                taken(doors.patch, change)
                doors.header()
                assert taken(doors.patch, {"archived": False}), (first, changes)


def test_a_mode_that_is_there_already_changes_nothing(doors: Doors) -> None:
    """To stay live leaves a plain session without a trial, with a clock and with retention too."""
    for body in ({}, {"keep_rounds": 40_000}, {"clock": {"slot_seconds": 60}}):
        before = doors.created(body)
        assert taken(doors.patch, {"mode": "live"})
        assert doors.header() == before
    doors.created({})
    assert taken(doors.patch, {"mode": "live"})
    assert taken(doors.patch, {"keep_rounds": 40_000})


def test_a_refusal_says_what_to_do(harness: ServiceHarness) -> None:
    harness.create()
    with pytest.raises(Problem) as refused:
        harness.run(change_session(harness.key, {"guard": "armed"}))
    assert refused.value.detail == (
        "guard is not possible with an absent holdout: nothing says whether its agent does harm: "
        "set holdout, or leave guard out"
    )
