"""`lhb evaluate` on files: three formats, one result; bad rows are named."""

import csv
import json
from pathlib import Path

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from clients.cli.log_files import LogError, read_log
from clients.cli.main import app
from clients.cli.simulate import DEFAULT_ALGORITHM
from clients.simulator import SimulationSettings, play_session
from lhb import Client
from lhb_engine.evaluation.log_replay import NO_ARM, Chunk
from lhb_engine.simulation.environment import LongHorizonEnvironment
from service.session.spec import DEFAULTS
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401

N, K, DIM = 400, 3, 2


@pytest.fixture(scope="module")
def rounds() -> list[dict]:
    env = LongHorizonEnvironment.draw(dim=DIM, horizon=12, n_arms=K, pattern="single", seed=5)
    contexts = env.contexts(1, N)
    arms = np.random.default_rng(0).integers(K, size=N)
    rewards = env.rewards(env.signals(contexts[np.arange(N), arms]))
    return [
        {"contexts": c.tolist(), "arm": int(a), "reward": float(r) if i % 9 else None,
         "propensity": 1 / K}
        for i, (c, a, r) in enumerate(zip(contexts, arms, rewards, strict=True))
    ]  # fmt: skip


def write(path: Path, rounds: list[dict]) -> Path:
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rounds[0]))
            writer.writeheader()
            writer.writerows(row | {"contexts": json.dumps(row["contexts"])} for row in rounds)
    elif path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rounds), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rounds))
    return path


def whole(path: Path, chunk_rounds: int = 4096) -> Chunk:
    chunks = list(read_log(path, chunk_rounds))
    names = ("selected", "rewards", "contexts", "arms", "propensities", "trajectories")
    columns = [[getattr(chunk, name) for chunk in chunks] for name in names]
    return Chunk(*(None if c[0] is None else np.concatenate(c) for c in columns))


@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".parquet"])
def test_every_format_holds_the_same_log(suffix: str, rounds: list[dict], tmp_path: Path) -> None:
    log = whole(write(tmp_path / f"log{suffix}", rounds), chunk_rounds=70)
    contexts = np.array([row["contexts"] for row in rounds])
    arms = np.array([row["arm"] for row in rounds])
    np.testing.assert_array_equal(log.contexts, contexts)
    np.testing.assert_array_equal(log.selected, contexts[np.arange(N), arms])
    np.testing.assert_array_equal(log.rewards[1:9], [row["reward"] for row in rounds[1:9]])
    assert np.isnan(log.rewards[::9]).all()
    np.testing.assert_array_equal(log.propensities, 1 / K)


def test_selected_contexts_alone_will_do(rounds: list[dict], tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x0", "x1", "reward"])
        for row in rounds:
            writer.writerow([*row["contexts"][row["arm"]], row["reward"]])
    log = whole(path)
    assert log.contexts is None
    assert log.selected.tolist() == [row["contexts"][row["arm"]] for row in rounds]


@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".parquet"])
def test_the_case_of_a_name_does_not_matter(
    suffix: str, rounds: list[dict], tmp_path: Path
) -> None:
    loud = [{name.title(): value for name, value in row.items()} for row in rounds]
    path = tmp_path / f"loud{suffix}"
    write(path, [{**row, "contexts": row.pop("Contexts")} for row in loud])
    log, plain = whole(path), whole(write(tmp_path / f"log{suffix}", rounds))
    np.testing.assert_array_equal(log.rewards, plain.rewards)
    np.testing.assert_array_equal(log.propensities, plain.propensities)
    named = [{"earned" if n == "reward" else n: v for n, v in row.items()} for row in rounds]
    with pytest.raises(LogError, match=r"no reward; there are .*earned"):
        list(read_log(write(tmp_path / f"named{suffix}", named)))


@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".parquet"])
def test_covariates_are_columns_of_the_log(suffix: str, rounds: list[dict], tmp_path: Path) -> None:
    told = [row | {"rain": i / 7 if i % 3 else None, "sun": -i} for i, row in enumerate(rounds)]
    path = write(tmp_path / f"log{suffix}", told)
    chunks = list(read_log(path, 70, ("sun", "rain")))
    found = np.concatenate([chunk.covariates for chunk in chunks])
    expected = [[row["sun"], row["rain"] or 0.0] for row in told]
    np.testing.assert_array_equal(found, expected)
    if suffix == ".csv":
        with pytest.raises(LogError, match="no column snow"):
            next(read_log(path, 70, ("snow",)))
    if suffix == ".ndjson":
        told[5]["rain"] = "wet"
        with pytest.raises(LogError, match="row 6, rain"):
            next(read_log(write(path, told), 70, ("rain",)))


def evaluate(path: Path, *more: str) -> dict:
    answer = CliRunner().invoke(app, ["evaluate", str(path), "--horizon", "12", "--json", *more])
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)["algorithms"]


def test_an_evaluation_from_the_command_line(rounds: list[dict], tmp_path: Path) -> None:
    path = write(tmp_path / "log.ndjson", rounds)
    found = evaluate(path, "--algorithm", "ad_lasso", "--algorithm", "uniform")
    assert found["ad_lasso"]["skill"]["low"] > 0.5
    assert found["ad_lasso"]["lags"]  # those that it has found
    assert found["ad_lasso"]["weighted"]["effective"] > 30
    assert "no estimate" in found["uniform"]["skill"]["refused"]
    table = CliRunner().invoke(app, ["evaluate", str(path), "--horizon", "12"])
    assert table.exit_code == 0
    assert DEFAULTS["algorithm"] == DEFAULT_ALGORITHM  # the service's
    assert DEFAULT_ALGORITHM in table.output


def test_what_the_service_writes_reads_straight_in(url: str, tmp_path: Path) -> None:
    settings = SimulationSettings(algorithms=(), rounds=150, horizon=12, dim=3, arms=4, sparsity=2)
    world = settings.world(1)
    with Client(url) as client:
        session = client.create_session(
            algorithm="uniform", dim=3, horizon=12, seed=0, refit="blocking"
        )
        arms, rewards, _ = play_session(session, world, 150, lambda n: None)
        for value in (0.5, 0.25):
            session.correct(value, round=3)
        rewards[2] = 0.25
        rounds, events = tmp_path / "rounds.ndjson", tmp_path / "events.ndjson"
        rounds.write_text("".join(json.dumps(item) + "\n" for item in session.rounds()))
        events.write_bytes(httpx.get(f"{url}/v1/sessions/{session.id}/events", timeout=60).content)
    for path in (rounds, events):
        log = whole(path, 64)
        np.testing.assert_array_equal(log.rewards, rewards)
        np.testing.assert_array_equal(log.arms, arms)
        np.testing.assert_array_equal(log.selected, world.contexts(1, 150)[np.arange(150), arms])
        assert log.propensities is not None
    assert evaluate(rounds) == evaluate(events)
    assert evaluate(events)[DEFAULT_ALGORITHM]["n_rounds"] == 150


def test_trajectories_are_read_in_the_order_of_their_rounds(url: str, tmp_path: Path) -> None:
    """An export has them one after the other; what was decided first is learned from first."""
    played = ["ann", "bob", "bob", "ann", "bob"]
    with Client(url) as client:
        session = client.create_session(algorithm="uniform", dim=1, horizon=3)
        for value, trajectory in enumerate(played):
            session.decide([[float(value)]], trajectory=trajectory)
        session.reward(7.0, round=2, trajectory="bob")
        session.skip(trajectory="ann")
        path = tmp_path / "two.ndjson"
        path.write_bytes(httpx.get(f"{url}/v1/sessions/{session.id}/events", timeout=60).content)
    [log] = list(read_log(path))
    assert log.trajectories is not None
    assert log.trajectories.tolist() == [*played, "ann"]
    assert log.selected.ravel().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 0.0]
    assert np.flatnonzero(log.rewards == 7.0).tolist() == [2]
    assert log.arms is not None
    assert log.arms.tolist() == [0, 0, 0, 0, 0, NO_ARM]


def test_users_of_any_format(rounds: list[dict], tmp_path: Path) -> None:
    keys = [f"user {i % 7}" for i in range(N)]
    named = [row | {"trajectory": key} for row, key in zip(rounds, keys, strict=True)]
    logs = [whole(write(tmp_path / f"log{s}", named), 70) for s in (".csv", ".ndjson", ".parquet")]
    for log in logs:
        assert log.trajectories is not None
        assert log.trajectories.tolist() == keys
    found = evaluate(tmp_path / "log.csv", "--algorithm", "ad_lasso", "--lags", "0")
    assert (
        found["ad_lasso"]
        == evaluate(tmp_path / "log.ndjson", "--algorithm", "ad_lasso", "--lags", "0")["ad_lasso"]
    )
    bad = write(tmp_path / "bad.ndjson", [named[0] | {"trajectory": 3}])
    with pytest.raises(LogError, match="row 1, trajectory"):
        list(read_log(bad))


def test_rounds_may_have_different_numbers_of_arms(rounds: list[dict], tmp_path: Path) -> None:
    mixed = [
        row if i % 3 else row | {"contexts": row["contexts"][: row["arm"] + 1]}
        for i, row in enumerate(rounds)
    ]
    chunks = list(read_log(write(tmp_path / "log.ndjson", mixed)))
    assert sum(map(len, chunks)) == N
    selected = np.concatenate([chunk.selected for chunk in chunks])
    assert selected.tolist() == [row["contexts"][row["arm"]] for row in rounds]
    found = evaluate(tmp_path / "log.ndjson", "--algorithm", "ad_lasso", "--lags", "0")
    assert found["ad_lasso"]["n_rounds"] == N


def test_agents_are_compared_and_may_explore(rounds: list[dict], tmp_path: Path) -> None:
    path = write(tmp_path / "log.ndjson", rounds)
    names = ["--algorithm", "anytime", "--algorithm", "uniform"]
    how = [*names, "--lags", "0,1", "--option", "anytime.epsilon=1"]
    answer = CliRunner().invoke(app, ["evaluate", str(path), "--horizon", "12", "--json", *how])
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    [difference] = found["differences"]
    assert (difference["first"], difference["second"]) == ("anytime", "uniform")
    # with epsilon 1 both play uniformly: every weight is 1, and the value is that of the log
    assert found["algorithms"]["anytime"]["weighted"]["effective"] == pytest.approx(N - 45)
    for name in ("anytime", "uniform"):
        row = found["algorithms"][name]
        assert row["robust_lags"] == [0, 1]
        assert row["weighted"]["value"] == pytest.approx(row["logged"]["value"])
    assert abs(difference["value"]) < 0.02
    table = CliRunner().invoke(app, ["evaluate", str(path), "--horizon", "12", *how])
    assert "anytime, uniform" in table.output
    for option in ("anytime.epsilon=2", "surprise=1"):
        bad = ["evaluate", str(path), "--horizon", "12", "--option", option]
        assert CliRunner().invoke(app, bad).exit_code == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arm": 3}, "row 5, arm"),
        ({"reward": "much"}, "row 5, reward"),
        ({"contexts": [[1.0, 2.0], [1.0], [1.0, 2.0]]}, "contexts"),
        ({"contexts": [[1.0, float("nan")]] * K}, "contexts"),
        ({"contexts": None}, "neither contexts nor context"),
    ],
)
def test_bad_rows_are_named(change: dict, message: str, rounds: list[dict], tmp_path: Path) -> None:
    bad = [*rounds[:4], rounds[4] | change]
    if change == {"contexts": None}:
        bad = [row | change for row in bad]
    path = write(tmp_path / "log.ndjson", bad)
    with pytest.raises(LogError, match=message):
        list(read_log(path))
    answer = CliRunner().invoke(app, ["evaluate", str(path), "--horizon", "12"])
    assert answer.exit_code == 2


def test_what_cannot_be_evaluated_is_refused(rounds: list[dict], tmp_path: Path) -> None:
    path = write(tmp_path / "log.ndjson", rounds)
    for more in (["--algorithm", "oracle"], ["--algorithm", "none"], ["--lags", "12"]):
        answer = CliRunner().invoke(app, ["evaluate", str(path), "--horizon", "12", *more])
        assert answer.exit_code == 2, more
    with pytest.raises(LogError, match="must end in"):
        list(read_log(tmp_path / "log.txt"))


def test_covariates_of_a_session_are_read(url: str, tmp_path: Path) -> None:
    """What came with a reward counts, as in a fit."""
    with Client(url) as client:
        session = client.create_session(dim=1, horizon=2, options={"covariates": ["rain", "sun"]})
        for round in range(1, 4):
            session.decide([[1.0]], covariates={"rain": round, "sun": -round})
        session.reward(1.0, round=2, covariates={"rain": 7.0})
        session.reward(1.0, first_round=3, last_round=3, covariates={"sun": 8.0})
        session.correct(2.0, round=3)
        rounds, events = tmp_path / "rounds.ndjson", tmp_path / "events.ndjson"
        rounds.write_text("".join(json.dumps(item) + "\n" for item in session.rounds()))
        events.write_bytes(httpx.get(f"{url}/v1/sessions/{session.id}/events", timeout=60).content)
    for path in (rounds, events):
        [chunk] = read_log(path, covariates=("sun", "rain"))
        assert chunk.covariates is not None
        assert chunk.covariates.tolist() == [[-1.0, 1.0], [-2.0, 7.0], [8.0, 3.0]]
