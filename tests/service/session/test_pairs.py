"""Creation, PATCH, copy and import take the same pairs of settings."""

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.agents import ALGORITHMS, Agent
from lhb_engine.agents.anytime_options import AnytimeOptions
from lhb_engine.agents.fit_cost import FitCost
from lhb_engine.estimate import Estimate
from service.api.body_parsing import COPY, PATCH, SESSION
from service.base.problems import Problem, ProblemCode
from service.commands.out_of_turn import ask_fit
from service.commands.sessions import change_session, create_session
from service.session.records import UNCHANGED, SessionKey, SessionRow
from service.session.spec import SETTINGS as DECLARED
from service.session.trial import AGENT_ALONE
from service.transfer.copy_session import copied_session, copy_session
from service.writer.agent_cache import build_agent
from service.writer.command import session_command
from service.writer.unit_of_work import UnitOfWork
from tests.service.service_harness import ServiceHarness
from tests.service.transfer.test_import_forgeries import checked, exported, resealed

Body = dict[str, Any]
LARGE = FitCost(1e9, 1e9)
PLAIN: Body = {"dim": 2, "horizon": 4, "seed": 1}
CLOCK = {"slot_seconds": 60, "start": "1970-01-01T00:00:00Z"}
FEATURE = {"features": ["price"]}
SAMPLES: dict[str, list[Body]] = {  # of each setting, with what it needs
    "algorithm": [{"algorithm": name} for name in ("ad_lasso", "uniform", "lin_ucb")],
    "dim": [{"dim": 129}],
    "horizon": [{"horizon": 600}],
    "seed": [{"seed": 7}],
    "reward_mode": [{"reward_mode": "sum"}],
    "reward_wait_seconds": [{"reward_wait_seconds": 5.0}],
    "default_reward": [{"default_reward": 0.0}],
    "reward_unit": [{"reward_unit": "EUR"}],
    "refit": [{"refit": "blocking"}],
    "keep_contexts": [{"keep_contexts": True}],
    "keep_rounds": [{"keep_rounds": 40_000}],
    "keep_days": [{"keep_days": 30.0}],
    "features": [FEATURE, {"features": ["price", "stock"]}],
    "products": [{**FEATURE, "products": [["price", "price"]]}],
    "repetition": [{**FEATURE, "repetition": 3}],
    "categories": [{"categories": "hashed"}],
    "arms": [{"arms": ["left", "right"]}],
    "mode": [{"mode": "live"}, {"mode": "shadow"}],
    "holdout": [{"holdout": {"share": 0.1, "policy": "uniform"}}],
    "guard": [{"guard": "armed"}],
    "clock": [{"clock": CLOCK}, {"clock": {**CLOCK, "totals": "trajectory"}}],
}
OPTIONS: dict[str, list[Body]] = {  # of each option of `anytime`, with what it needs
    "epsilon": [{"epsilon": 0.1}],
    "memory": [{"memory": 100}],
    "most_stale": [{"most_stale": 0.5}],
    "signed": [{"signed": True}],
    "seasonality": [{"seasonality": [{"period": 7.0}]}],
    "trend": [{"trend": True}],
    "adopts": [{"adopts": False}],
    "covariates": [{"covariates": ["rain"]}],
    "levels": [{"levels": True}],
    "own": [{"own": True}, {"own": [0]}],
    "groups": [{"groups": ":", "own": True}],
    "zero_start": [{"zero_start": False}],
    "profiles": [{"profiles": "each"}, {"profiles": [[0, 1]]}],
}
SAMPLES["options"] = [{"options": one} for several in OPTIONS.values() for one in several]
SETTINGS = [body for bodies in SAMPLES.values() for body in bodies]
PATCHED, COPIED = (parser.adapter.json_schema()["properties"].keys() for parser in (PATCH, COPY))
CHANGEABLE = {one.name for one in fields(AnytimeOptions) if one.metadata.get("changeable")}
LEARNERS = {name for name, kind in ALGORITHMS.items() if kind.learns_within_epoch}


def test_every_setting_has_samples() -> None:
    """A new setting, or option, is tried with all others."""
    assert SAMPLES.keys() == {one.name for one in DECLARED}
    assert OPTIONS.keys() == {one.name for one in fields(AnytimeOptions)}
    for samples in (SAMPLES, OPTIONS):
        assert all(name in body for name, bodies in samples.items() for body in bodies)


def both(state: Body, more: Body) -> Body:
    """The settings of `state` with `more` in their place; options are one by one."""
    options = {**state.get("options", {}), **more.get("options", {})}
    return {**state, **more, **({"options": options} if options else {})}


class Doors:
    """The ways to a session, all of which end in a row."""

    def __init__(self, path: Path) -> None:
        self.harness = ServiceHarness(path)
        self.known: dict[str, bool] = {}
        self.headers: dict[str, Body | None] = {}
        self.imported: set[str] = set()  # headers of files without rounds

    def create(self, body: Body) -> None:
        """Make a session, which the other methods then mean."""
        self.harness.now += 1.0
        if "guard" in body and "holdout" in body:  # creation takes it as a member of the holdout
            others = {name: value for name, value in body.items() if name != "guard"}
            body = {**others, "holdout": {**body["holdout"], "guard": body["guard"] == "armed"}}
        asked = SESSION.read(json.dumps({**PLAIN, **body}).encode())
        session, _ = self.harness.run(create_session("", asked, False))
        self.harness.key = session.key

    def takes(self, body: Body) -> bool:
        """Whether creation takes a body."""
        text = json.dumps(body, sort_keys=True)
        if text not in self.known:
            self.known[text] = taken(self.create, body)
        return self.known[text]

    def live(self, body: Body, dropped: bool) -> None:
        """Make a session of three rounds, with their rewards; the first one's may be dropped."""
        self.create(body)
        harness = self.harness
        harness.now += 60.0  # a slot
        n_features = len(body.get("features", "12"))
        more: Body = {"contexts": np.ones((2, n_features))}
        more |= {"forced_arm": 0} if "mode" in body else {}
        for n in range(1, 4):
            round = harness.decide(**more).round
            harness.now += 60.0
            when: Body = {"round": round, "reward_id": f"{n}"}
            if "clock" in body:
                ends = harness.now // 60 * 60 - 60, harness.now // 60 * 60
                when = dict(zip(("since", "until"), map(time_of, ends), strict=True))
            harness.reward(1.0, **when)
        if dropped:
            harness.run(drop(harness.key, 1))

    def fit(self, findings: list[Body]) -> None:
        """Make a fit that finds something."""
        harness = self.harness
        if harness.session.fit_due is None:
            harness.run(ask_fit(harness.key, harness.agents))
        due = harness.session.fit_due
        assert due is not None
        groups = build_agent(harness.session, None).covariates.groups
        none = [0.0] * len(groups)
        effects = {"values": [0.0] * sum(groups), "included": none, "share": none}
        theta = np.ones(harness.session.dim)
        estimate = Estimate(status="ok", lag_weights=np.ones(1), theta=theta, effects=effects)
        harness.finish(due, replace(estimate, findings=findings))

    def created(self, body: Body) -> Body | None:
        """The header of a new session's export, or None if creation refuses the body."""
        text = json.dumps(body, sort_keys=True)
        if text not in self.headers:
            self.headers[text] = self.header() if taken(self.create, body) else None
        return self.headers[text]

    def patch(self, body: Body) -> None:
        """Change the session."""
        self.harness.now += 1.0
        changes = dict(PATCH.read(json.dumps(body).encode()))
        self.harness.run(change_session(self.harness.key, changes))

    def undo(self, more: Body, before: SessionRow, anew: Callable[[], None]) -> SessionRow:
        """Have the session without a change: made anew if that wrote more than its row."""
        of_fits = {"options"} if before.n_rounds else set()
        if {*more} & (RETENTION | of_fits):
            anew()
        else:
            self.harness.key = before.key
            self.harness.run(put(before.key, before))
        return replace(self.harness.session)

    def copied(self, body: Body) -> tuple[SessionRow, SessionRow, Agent]:
        """Copy the session's row with other settings."""
        asked = dict(COPY.read(json.dumps(body).encode()))
        source = self.harness.session
        return source, *copied_session(source, asked, False, LARGE, self.harness.now)

    def copy(self, body: Body) -> None:
        """Copy the session with other settings, as far as a file that can be imported."""
        source, copy, agent = self.copied(body)
        with self.harness.store.reader() as reader:
            content = b"".join(copy_session(reader, source, copy, agent))
        assert taken(self.read, content), (source, body)

    def header(self) -> Body:
        """What an export of the session says of it. The export can be imported."""
        content = exported(self.harness)
        header: Body = json.loads(content.splitlines()[0])["session"]
        header = {name: value for name, value in header.items() if name not in OWN}
        text = json.dumps(header, sort_keys=True)
        if self.harness.session.n_rounds or text not in self.imported:
            assert taken(self.read, content), content
            self.imported.add(text)
        return header

    def read_header(self, header: Body) -> None:
        """Check a file with other settings."""
        record = json.loads(exported(self.harness).splitlines()[0])
        own = {name: value for name, value in record["session"].items() if name in OWN}
        self.read(resealed([{**record, "session": {**header, **own}}]))

    def read(self, content: bytes) -> None:
        """Check a file as an import does."""
        checked(content)


def time_of(seconds: float) -> datetime:
    """The time so many seconds after 1970."""
    return datetime.fromtimestamp(seconds, UTC)


@session_command
def drop(uow: UnitOfWork, key: SessionKey, to: int) -> None:
    """Give rounds up, whose rows are there still."""
    session = uow.session(key)
    assert session is not None
    session.dropped_to = to
    uow.save(session)


RETENTION = {"keep_rounds", "keep_days", "reward_wait_seconds"}  # what is dropped or open is rows


@session_command
def put(uow: UnitOfWork, key: SessionKey, session: SessionRow) -> None:
    """Store a session's row as it was."""
    uow.save(replace(session))


FINDINGS: list[Body] = [
    {"code": code, "message": "", "period": 7.0, "harmonics": 1, "features": [], "lags": []}
    for code in ("season", "trend", "levels_differ")
]


def taken(way: Callable[[Any], object], asked: Any) -> bool:
    """Whether a way is open; it is closed by a 422 alone, or by rounds that are gone."""
    try:
        way(asked)
    except Problem as problem:
        if problem.code.status != 422 and problem.code != ProblemCode.ROUND_DROPPED:
            raise
        return False
    return True


CHANGED = {"changes": UNCHANGED, "trial": AGENT_ALONE}  # they know what was before
OWN = ("id", "created_at", "request")


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    doors = Doors(tmp_path_factory.mktemp("doors"))
    yield doors
    doors.harness.close()


def of_copy(state: Body, more: Body) -> Body:
    """What a copy is asked for that has all options of the pair."""
    return {**more, **({"options": both(state, more)["options"]} if "options" in more else {})}


def test_a_change_is_taken_where_creation_takes_the_pair(doors: Doors) -> None:
    """A PATCH, or a copy, of a session leads where creation leads, or is refused as creation is."""
    wrong = []
    for state in filter(doors.takes, SETTINGS):
        doors.create(state)
        before = replace(doors.harness.session)
        for n, more in enumerate(SETTINGS):
            whole, key = both(state, more), doors.harness.key
            expected, doors.harness.key = doors.takes(whole), key
            if {*more} <= COPIED:
                copies = doors.copy if n % 4 == 0 else doors.copied
                learns = whole.get("algorithm") in LEARNERS  # from no past
                if taken(copies, of_copy(state, more)) != (expected and not learns):
                    wrong.append(("copy", state, more))
            if {*more} <= PATCHED and {*more.get("options", {})} <= CHANGEABLE:
                is_taken = taken(doors.patch, more)
                if is_taken != expected:
                    wrong.append(("PATCH", state, more))
                elif is_taken:
                    header = doors.header()
                    if {**(doors.created(whole) or {}), **CHANGED} != {**header, **CHANGED}:
                        wrong.append(("another session", state, more))
                if is_taken:
                    before = doors.undo(more, before, partial(doors.create, state))
    assert not wrong, "\n".join(map(str, wrong))


def test_a_file_is_imported_where_creation_takes_the_pair(doors: Doors) -> None:
    """A header with the settings of two sessions is one that creation can make, or is refused."""
    plain, wrong = doors.created({}), []
    assert plain is not None
    headers = [(one, doors.created(one)) for one in SETTINGS]
    for (one, first), (other, second) in combinations(headers, 2):
        if first is None or second is None or {*one} & {*other} - {"options"}:
            continue
        whole = {**first, **{n: v for n, v in second.items() if v != plain.get(n)}}
        for part in {"options", "names", "trial"} & first.keys() & second.keys():
            whole[part] = merged(first[part], second[part])
        if taken(doors.read_header, whole) != doors.takes(both(one, other)):
            wrong.append((one, other))
    assert not wrong, "\n".join(map(str, wrong))


def merged(first: Any, second: Any) -> Any:
    """A part of a header, an object or its text, with what either has that is not as usual."""
    if isinstance(first, dict):
        return {**first, **second}
    if None in (first, second):
        return first or second
    usual = {"columns": [], "categories": "one_hot", "arms": None, "mode": "live", "share": 0.0}
    usual |= {"guard": "off", "policy": "default_arm", "until_slot": None}
    told = {n: v for n, v in json.loads(second).items() if v != usual.get(n)}
    return json.dumps({**json.loads(first), **told})


PASTS: list[Body] = [
    {},
    *({"algorithm": "ad_lasso"}, {"algorithm": "lin_ucb"}),
    *({"clock": CLOCK}, {"clock": {**CLOCK, "totals": "trajectory"}}),
    *({"reward_mode": "sum"}, {"default_reward": 0.0}, {"keep_rounds": 40_000}),
    *({"mode": "shadow"}, {"holdout": {"share": 0.1, "policy": "uniform"}}),
    *({"options": one} for one in ({"memory": 100}, {"own": True}, {"covariates": ["rain"]})),
    *({"options": one} for one in ({"levels": True}, {"trend": True}, {"profiles": "each"})),
    {**FEATURE, "products": [["price", "price"]]},
]
OF_ROWS = {"products", "repetition", "algorithm", "horizon"}  # which numbers of a round fits read
ANEW = {one.name for one in fields(AnytimeOptions) if one.metadata.get("changeable") == "anew"}


def forbidden(state: Body, more: Body, dropped: bool, copies: bool) -> bool:
    """Whether a session with rounds, some of them dropped, cannot become what creation makes."""
    old, new = state.get("options", {}), both(state, more).get("options", {})
    changed = {name for name in new if new[name] != old.get(name)}
    if copies and "covariates" in changed:
        return True
    if not dropped or "clock" in state:
        return copies and dropped and bool(OF_ROWS & {*more})
    by_sums = state.get("algorithm") is None and not {"memory", "own"} & {*old}
    waits = by_sums and {"reward_mode", "default_reward"} & {*state}
    waits = waits and more.get("reward_wait_seconds", 0.0) > state.get("reward_wait_seconds", 0.0)
    return copies or bool(waits) or bool(changed & (ANEW | {"memory"}))


@pytest.mark.parametrize("dropped", [False, True])
def test_a_session_with_a_past_is_refused_what_needs_it(doors: Doors, dropped: bool) -> None:
    """Where creation takes the pair, a past alone forbids it; a file of what came of it is read."""
    wrong = []
    for state in PASTS:
        doors.live(state, dropped)
        before = replace(doors.harness.session)
        for more in SETTINGS:
            whole, key = both(state, more), doors.harness.key
            expected, doors.harness.key = doors.takes(whole), key
            may = [expected and not forbidden(state, more, dropped, copies) for copies in (0, 1)]
            if {*more} <= COPIED:
                learns = whole.get("algorithm") in LEARNERS
                if taken(doors.copied, of_copy(state, more)) != (may[1] and not learns):
                    wrong.append(("copy", state, more))
            if {*more} <= PATCHED and {*more.get("options", {})} <= CHANGEABLE:
                if taken(doors.patch, more) != may[0]:
                    wrong.append(("PATCH", state, more))
                elif may[0]:
                    assert dropped or doors.header()  # a file has no rows of dropped rounds
                    before = doors.undo(more, before, partial(doors.live, state, dropped))
    assert not wrong, "\n".join(map(str, wrong))


def test_what_fits_find_leads_where_a_change_leads(doors: Doors) -> None:
    """A season, a trend and levels that are found are as those that a PATCH tells, or not taken."""
    found = {"seasonality": [{"period": 7.0, "harmonics": 1}], "trend": True, "levels": True}
    for state in PASTS:
        if "algorithm" in state:
            continue
        for dropped in (False, True):
            doors.live(state, dropped)
            doors.fit(FINDINGS)
            adopted = doors.harness.session.options
            assert dropped or doors.header()
            doors.live(state, dropped)
            for name, value in found.items():
                taken(doors.patch, {"options": {name: value}})
            assert adopted == doors.harness.session.options, (state, dropped)
            is_taken = bool(adopted.keys() & (found.keys() - state.get("options", {}).keys()))
            assert is_taken != (dropped and "clock" not in state), (state, dropped)


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
            doors.create(first)
            for change in changes:
                taken(doors.patch, change)
                doors.header()
                assert taken(doors.patch, {"archived": False}), (first, changes)


def test_a_mode_that_is_there_already_changes_nothing(doors: Doors) -> None:
    """To stay live leaves a plain session without a trial, with a clock and with retention too."""
    for body in ({}, {"keep_rounds": 40_000}, {"clock": {"slot_seconds": 60}}):
        doors.create(body)
        before = doors.header()
        assert taken(doors.patch, {"mode": "live"})
        assert doors.header() == before
    doors.create({})
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
