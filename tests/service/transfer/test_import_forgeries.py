"""A right digest proves nothing: what a file says is checked, or worked out again."""

import io
import json
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.base.problems import Problem
from service.commands.decisions import void_decision
from service.session.records import SessionRow
from service.transfer.file_format import export_session
from service.transfer.import_file import MAX_LINE_BYTES, fold_file
from service.transfer.import_session import ImportFold
from tests.examples import on_one_database
from tests.service.commands.slots import begin, between, taken
from tests.service.conftest import Serve, problem
from tests.service.service_harness import ServiceHarness

Records = list[dict[str, Any]]
Forge = Callable[[Records], Any]


def resealed(records: Records) -> bytes:
    """A file with a right count and digest, whatever is in it."""
    body = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    digest = blake2b(body, digest_size=16).hexdigest()
    end = {"record": "end", "count": len(records), "digest": digest}
    return body + json.dumps(end).encode() + b"\n"


def exported(harness: ServiceHarness) -> bytes:
    with harness.store.reader() as reader:
        session = reader.session(harness.key)
        assert session is not None
        return b"".join(export_session(reader, session))


def lived(path: Path) -> bytes:
    """Two trajectories, a span, a gap, rounds without action and forced, an estimate, a due fit."""
    harness = ServiceHarness(path)
    harness.create(algorithm="ad_lasso", reward_wait_seconds=2.0)
    rng = np.random.default_rng(5)
    for round in range(1, 30):
        harness.now += 1.0
        for name in ("", "b"):
            contexts = rng.standard_normal((3, 2))
            more: dict[str, Any] = {"event_id": f"e{round}", "digest": bytes(16)}
            if round == 7:
                contexts = None
            elif round == 8:
                more["forced_arm"] = 1
            decision = harness.decide(name, contexts=contexts, **more)
            if round % 10 not in (4, 5):
                value = float(np.frombuffer(decision.context).sum())
                harness.reward(value, name, round=round, reward_id=f"r{round}")
        due = harness.session.fit_due
        if due is not None and round < 14:
            harness.finish(due)
    harness.reward(2.0, first_round=4, last_round=5)
    assert harness.session.estimate
    assert harness.session.fit_due == 28
    content = exported(harness)
    harness.store.close()
    return content


@pytest.fixture(scope="module")
def true_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return lived(tmp_path_factory.mktemp("lived"))


def folded(content: bytes) -> ImportFold:
    return fold_file(io.BytesIO(content), io.BytesIO(), False)[0]


def checked(content: bytes) -> SessionRow:
    return folded(content).session


def header(**values: Any) -> Forge:
    return lambda records: records[0]["session"].update(values)


def part(kind: str, n: int = 0, **values: Any) -> Forge:
    return lambda records: [r for r in records if r["record"] == kind][n].update(values)


def deeper(kind: str, *path: Any, value: Any) -> Forge:
    def forge(records: Records) -> None:
        place: Any = next(r for r in records if r["record"] == kind)
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value

    return forge


NAN, INF = float("nan"), float("inf")
SPREAD: dict[str, Any] = {"covariance": [[1.0, 0.0], [0.0, 1.0]], "spread": [1.0, 1.0]}
SPREAD |= {"intervals": [[0.5, 2.0]] * 2, "gain": 0.0}
GROUPS = SPREAD | {"by": "region", "means": {"north": [0.0, 0.0]}, "errors": {}}
FORM = {"profiles": [[0.0, 0.0]], "effects": [0.0], "autocorrelation": 0.0, "excess": 0.0}
FORM |= {"variance": 1.0, "over_none": 0.0, "rests_until": 0}
# of fits that are done, still to come, and never due
WINDOWS = [
    {"epoch": 2, "first": 9, "last": 12, "n_lags": 4, "due": 12},
    {"epoch": 4, "first": 45, "last": 60, "n_lags": 4, "due": 60},
    {"epoch": 3, "first": 21, "last": 29, "n_lags": 4, "due": 29},
]
FORGERIES: list[tuple[str, Forge]] = [
    *(("header.session.seed", header(seed=v)) for v in (-1, 2**80, "x", 2**53, True, None)),
    *(("header.session.created_at", header(created_at=v)) for v in (1e300, -1, "x", NAN, 10**400)),
    *(
        ("header.session.reward_wait_seconds", header(reward_wait_seconds=v))
        for v in (NAN, -5, INF)
    ),
    *(("header.session.default_reward", header(default_reward=v)) for v in (INF, NAN, 1e13)),
    *(("header.session.horizon", header(horizon=v)) for v in (0, "1", 10**7)),
    *(("header.session.dim", header(dim=v)) for v in (0, True, 10**9)),
    *(("header.session.name", header(name=v)) for v in ("a\0", 5, "a" * 5000, "", "\ud800")),
    *(("header.session.request", header(request=v)) for v in ({"a": 1}, None, "\0", "{", "[]")),
    *(("header.session.options", header(options=v)) for v in ([1], {"c": 10**400})),
    ("header.session.options.c", header(options={"c": NAN})),
    ("header.session.options.zz", header(options={"zz": 1})),
    ("header.session.zz", header(zz=1)),
    *(
        (f"header.session.{name}", header(**{name: 2**53}))
        for name in ("n_erased_rounds", "n_erased_measurements")
    ),
    ("header.session.algorithm", header(algorithm="zz")),
    ("header.session.algorithm", header(algorithm="oracle", options={"theta": [1.0, 0.0]})),
    ("header.session.refit", header(refit="now")),
    ("header.session.reward_mode", header(reward_mode="sum", algorithm="lin_ucb")),
    ("header.session.schedule.current", header(schedule={})),
    ("header.session.schedule.waiting", header(schedule={"current": None})),
    *(
        (
            "header.session.schedule.current.window",
            deeper("header", "session", "schedule", "current", "window", value=window),
        )
        for window in WINDOWS
    ),
    (
        "header.session.schedule.current.measured",
        deeper("header", "session", "schedule", "current", "measured", value={"zz": 1}),
    ),
    (
        "header.session.schedule.current.window",
        deeper("header", "session", "schedule", "current", "window", "first", value=1),
    ),
    *(("trajectory.last_at", part("trajectory", last_at=v)) for v in ("x", 1e300)),
    ("trajectory.measured_through", part("trajectory", measured_through=10**30)),
    *(("trajectory.key", part("trajectory", key=v)) for v in ("\0", 5, "k" * 300)),
    ("decision.client_event_id", part("decision", 1, client_event_id="e1")),
    *(
        ("decision.client_event_id", part("decision", 1, client_event_id=v))
        for v in ("~1", "\0", "", 5)
    ),
    *(("decision.digest", part("decision", digest=v)) for v in ("zz", None, 5)),
    *(("decision.at", part("decision", 1, at=v)) for v in (1e300, 0.0, "x", NAN, INF)),
    *(("decision.arm", part("decision", 1, arm=v)) for v in (0.5, "0", 3, -1, True)),
    ("decision.context", part("decision", 1, arm=None)),
    *(("decision.context", part("decision", 6, context=v)) for v in ([1.0, 1.0],)),
    *(("decision.context", part("decision", context=v)) for v in ([], [1.0], "x", None)),
    *(("decision.context[0]", part("decision", context=[v, 1.0])) for v in (NAN, 1e300, "a")),
    *(("decision.scores[0]", part("decision", scores=[v] * 3)) for v in ("a", NAN, 10**400)),
    *(("decision.propensity", part("decision", propensity=v)) for v in ("x", 0.0, 1.5, None)),
    *(("decision.round", part("decision", round=v)) for v in (True, 2, 0)),
    ("decision.position", part("decision", 1, position=1)),
    ("decision.position", part("decision", 57, position=59)),
    ("decision.model_version", part("decision", model_version=9)),
    ("decision.explored", part("decision", explored=1)),
    ("decision.forced", part("decision", 6, forced=True)),
    ("decision.arm_id", part("decision", arm_id="\0")),
    ("decision.arm_id", part("decision", 6, arm_id="a")),
    ("decision.scores", part("decision", 6, scores=[1.0])),
    *((f"decision.{name}", part("decision", 6, **{name: [1.0, 0.0]})) for name in ("own", "mean")),
    ("decision.explored", part("decision", 7, explored=True)),
    ("decision.propensity", part("decision", 7, propensity=0.5)),
    *(("decision.own", part("decision", own=v)) for v in ([], [1.0])),
    ("decision.mean", part("decision", mean=[1.0])),
    ("decision.agent_arm", part("decision", agent_arm=1)),
    *(
        ("decision.played_by", part("decision", played_by=by, agent_arm=0))
        for by in ("agent", "control", "caller", "guard")
    ),
    ("decision.round", part("decision", trajectory="nobody")),
    ("measurement.trajectory", part("measurement", trajectory="nobody")),
    ("decision.trajectory", part("decision", trajectory=["x"])),
    ("measurement.reward_id", part("measurement", 1, reward_id="r1")),
    ("measurement.reward_id", part("measurement", 1, reward_id="\0")),
    ("measurement.first_round", part("measurement", 1, first_round=1, last_round=2)),
    ("measurement.last_round", part("measurement", 1, last_round=1)),
    ("measurement.last_round", part("measurement", 1, last_round=10**12)),
    *(("measurement.value", part("measurement", value=v)) for v in (NAN, INF, "1", None, 10**400)),
    *(("measurement.at", part("measurement", at=v)) for v in (NAN, -1.0, 1e300)),
    *(("estimate.estimate", part("estimate", estimate=v)) for v in ("x", None)),
    *(("estimate.manifest", part("estimate", manifest=v)) for v in (5, None)),
    ("estimate.status", part("estimate", status="fine")),
    *(("estimate.estimate", part("estimate", status=v)) for v in ("zero", "failed")),
    ("estimate.estimate", deeper("estimate", "estimate", "status", value="zero")),
    ("estimate.fingerprint", part("estimate", fingerprint=1)),
    ("estimate.at", part("estimate", at=1e300)),
    ("estimate.estimate.lag_weights", deeper("estimate", "estimate", "lag_weights", value=[0] * 9)),
    ("estimate.estimate.theta[0]", deeper("estimate", "estimate", "theta", value=[NAN])),
    ("estimate.estimate.theta", deeper("estimate", "estimate", "theta", value=[1.0])),
    *(
        ("estimate.estimate.candidates", deeper("estimate", "estimate", "candidates", value=v))
        for v in ([], [[1.0, 2.0], [1.0]], 5)
    ),
    (
        "estimate.estimate.candidates[0][1]",
        deeper("estimate", "estimate", "candidates", value=[[0.0, NAN]]),
    ),
    (
        "estimate.estimate.effects",
        deeper(
            "estimate", "estimate", "effects", value={"values": [1.0], "included": [], "share": []}
        ),
    ),
    (
        "estimate.estimate.own",  # a mean without an error
        deeper("estimate", "estimate", "own", value=SPREAD | {"noise": 1.0, "groups": GROUPS}),
    ),
    ("estimate.estimate.forms", deeper("estimate", "estimate", "forms", value={"smooth": FORM})),
    *(
        ("estimate.estimate.diagnostics", deeper("estimate", "estimate", "diagnostics", value=v))
        for v in ({"a": "\ud800"}, {"\ud800": 1.0}, {"a": {"\ud800": 1.0}})
    ),
    ("estimate.fingerprint", part("estimate", fingerprint={"\ud800": "1"})),
    *(("agent.state", part("agent", state=v)) for v in (5, {})),
    ("agent.state.zz", part("agent", state={"version": 1, "theta": None, "zz": 1})),
    ("agent.record", lambda records: records.append(records[-1])),
    ("header.record", lambda records: records.append(records[0])),
    ("zz.record", lambda records: records.append({"record": "zz"})),
    ("['x'].record", lambda records: records.append({"record": ["x"]})),
]


def forged(true_file: bytes, forge: Forge) -> bytes:
    records = [json.loads(line) for line in true_file.splitlines()[:-1]]
    forge(records)
    return resealed(records)


@pytest.mark.parametrize(("field", "forge"), FORGERIES)
def test_a_forgery_is_refused_by_name(true_file: bytes, field: str, forge: Forge) -> None:
    content = forged(true_file, forge)
    with pytest.raises(Problem) as caught:
        checked(content)
    assert caught.value.status == 422
    named = caught.value.field or ""
    assert named == field or named.startswith((f"{field}[", f"{field}.")), caught.value.detail


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("trajectory", {"trajectory": ""}),  # nothing was decided there
        ("trajectory", {"trajectory": "b"}),
        ("last_round", {"last_round": 2}),  # it was not over then
        ("last_round", {"last_round": 2**31 + 1}),
        ("last_round", {"first_round": 2}),
    ],
)
def test_a_total_is_checked_as_that_of_a_request(
    tmp_path: Path, field: str, said: dict[str, Any]
) -> None:
    harness = ServiceHarness(tmp_path)
    begin(harness, clock={"totals": "trajectory"})
    taken(harness, ("a", 970.0), ("a", 1030.0))
    harness.now = 1070.0
    harness.reward(1.0, "a", **between(960.0, 1020.0))
    content = exported(harness)
    harness.store.close()
    assert checked(content).n_measurements == 1
    with pytest.raises(Problem) as caught:
        checked(forged(content, part("measurement", **said)))
    assert caught.value.field == f"measurement.{field}"


def test_a_void_is_checked_as_that_of_a_request(tmp_path: Path) -> None:
    harness = ServiceHarness(tmp_path)
    harness.create(algorithm="anytime")
    harness.decide(event_id="e1", digest=bytes(16))
    harness.run(void_decision(harness.key, "", "e1", harness.agents))
    content = exported(harness)
    harness.store.close()
    assert checked(content).n_measurements == 1
    forged_by: tuple[tuple[str, Forge], ...] = (
        ("round", part("void", round=2)),
        ("round", lambda records: records.append(records[-1])),
        ("record", header(algorithm="lin_ucb")),
    )
    for field, forge in forged_by:
        with pytest.raises(Problem) as caught:
            checked(forged(content, forge))
        assert caught.value.field == f"void.{field}"


NAMES: dict[str, Any] = {"columns": ["a", "b=x"], "categories": "one_hot", "arms": None}


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("names", "{"),
        *(
            ("names.columns[1]", {"columns": ["a", label]})
            for label in ("=x", "\0", "b" * 257, "b=\0")
        ),
        ("names.categories", {"categories": "x"}),
        ("names.arms", {"arms": []}),
        ("names.zz", {"zz": 1}),
        ("features", {"columns": ["a", "a"]}),
        ("features", {"columns": ["a", "b", "c"]}),
        ("products", {"products": [["a", "b"]]}),
        ("repetition", {"repetition": 5, "columns": ["repetition"]}),
    ],
)
def test_names_that_no_session_has_are_refused(true_file: bytes, field: str, said: Any) -> None:
    assert checked(forged(true_file, header(names=json.dumps(NAMES)))).names.columns == ("a", "b=x")
    text = said if isinstance(said, str) else json.dumps(NAMES | said)
    with pytest.raises(Problem) as caught:
        checked(forged(true_file, header(names=text)))
    assert caught.value.field == f"header.session.{field}", caught.value.detail


def test_the_file_that_is_forged_is_accepted_as_it_is(true_file: bytes) -> None:
    assert checked(true_file).n_rounds == 58
    assert checked(resealed([json.loads(x) for x in true_file.splitlines()[:-1]])).dim == 2


def test_a_line_without_an_end_is_not_read_to_its_end() -> None:
    line = b"[" * (MAX_LINE_BYTES + 1)
    with pytest.raises(Problem, match="line is longer"):
        checked(line)
    with pytest.raises(Problem) as caught:
        checked(line[1:])
    assert "longer" not in caught.value.detail


@pytest.mark.anyio
@on_one_database
async def test_over_http_nothing_is_written(serve: Serve, true_file: bytes) -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n"
    files = [forged(true_file, forge) for _, forge in FORGERIES[::8]]
    async with serve() as client:
        for content in [*files, deep, b"\xff\n", b"[" * 100_000]:
            answer = await client.post("/v1/sessions/import", content=content)
            assert answer.status_code == 422, answer.text
            problem(answer, 422, answer.json()["code"])
            assert answer.json()["field"]
        assert (await client.read("/v1/sessions"))["items"] == []
        answer = await client.post("/v1/sessions/import?name=a%00", content=true_file)
        assert answer.status_code == 422


@pytest.mark.anyio
async def test_a_named_import_is_safe_to_repeat(serve: Serve, true_file: bytes) -> None:
    async with serve() as client:
        first = await client.post("/v1/sessions/import?name=shop", content=true_file)
        again = await client.post("/v1/sessions/import?name=shop", content=true_file)
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json()["id"] == again.json()["id"]
        assert len((await client.read("/v1/sessions"))["items"]) == 1
        other = forged(true_file, header(created_at=5.0))
        answer = await client.post("/v1/sessions/import?name=shop", content=other)
        problem(answer, 409, "session_conflict", "name")
