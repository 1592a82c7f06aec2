"""`lhb history` appends the rounds of a table, by named columns, once."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clients.cli.main import app
from lhb import Client

ROWS = """day,who,arm,price,revenue,heat,due
2026-01-03,ann,kitchen,2.5,7,20,2026-01-03
2026-01-01,ann,garden,1,5,18,2222-01-01
2026-01-02,ann,,,6,19,2026-01-02
2026-01-01,bob,kitchen,2,,18,2026-01-01
"""
NAMED = ("--reward", "revenue", "--arm", "arm", "--feature", "price", "--trajectory", "who")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["history", *arguments])


@pytest.fixture
def log(tmp_path: Path) -> str:
    (tmp_path / "log.csv").write_text(ROWS)
    return str(tmp_path / "log.csv")


def test_rounds_are_appended_in_order_and_once(url: str, log: str, tmp_path: Path) -> None:
    with Client(url) as client:
        options = {"covariates": ["heat"]}
        session = client.create_session("mail", dim=3, horizon=5, options=options)
        more = ("--covariate", "heat", "--time", "day", "--url", url)
        said = [run("mail", log, *NAMED, *more) for _ in range(2)]
        assert [one.exit_code for one in said] == [0, 0]
        end = "4 rounds of 2 trajectories, 1 without a reward"
        heads = [one.stdout.splitlines()[0] for one in said]
        assert heads == [end, f"{end}; the session has them already"]
        rounds = list(session.rounds(trajectory="ann"))
        assert [one["reward"] for one in rounds] == [5.0, 6.0, 7.0]
        assert [one["covariates"] for one in rounds] == [{"heat": h} for h in (18.0, 19.0, 20.0)]
        assert [one["at"][:10] for one in rounds] == [f"2026-01-0{day}" for day in (1, 2, 3)]
        assert [one["arm_id"] for one in rounds] == ["garden", None, "kitchen"]
        features = session.read()["features"]
        assert features is not None
        assert set(features) == {"arm=garden", "arm=kitchen", "price"}
        contexts = [dict(zip(features, one["context"] or (), strict=True)) for one in rounds]
        assert contexts[0] == {"arm=garden": 1.0, "arm=kitchen": 0.0, "price": 1.0}
        assert not any(contexts[1].values())
        assert contexts[2] == {"arm=garden": 0.0, "arm=kitchen": 1.0, "price": 2.5}
        assert session.read()["n_rounds"] == 4


def test_all_rounds_are_fitted_and_the_output_says_so(url: str, tmp_path: Path) -> None:
    """The schedule alone would leave the rounds after its last window, here some fifth of them."""
    file = tmp_path / "long.csv"
    rows = [f"{'ab'[i % 3 == 0]},{i % 3 == 0:d}.{i % 7}" for i in range(150)]
    file.write_text("\n".join(["arm,reward", *rows]))
    asked = ("fitted", str(file), "--reward", "reward", "--arm", "arm", "--url", url)
    ran = run(*asked, "--create", "--horizon", "2")
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.splitlines()[1] == "The estimate in use knows rounds 1 to 150 of 150."
    with Client(url) as client:
        client.create_session("epochs", dim=2, horizon=2, algorithm="ad_lasso")
    said = run("epochs", *asked[1:]).stdout.splitlines()[1]
    assert said == "ad_lasso fits at the ends of its epochs, and at no other time."


def test_a_dry_run_says_what_it_understood(url: str, log: str) -> None:
    asked = ("dry", log, *NAMED, "--time", "day", "--url", url, "--dry-run")
    made = ("--create", "--horizon", "5")
    ran = run(*asked)
    assert ran.exit_code == 1
    assert "there is no session 'dry'; add --create" in ran.output
    assert "dim=3, horizon=30, features=['price'], arms=['garden', 'kitchen'])" in ran.output
    ran = run(*asked, *made)
    lines = ran.stdout.splitlines()
    assert lines[0] == "4 rounds of 2 trajectories, 1 without a reward; nothing was sent"
    assert lines[1] == "categories: arm"
    assert lines[3].split() == ["1", "2026-01-01", "arm", "garden,", "price", "1.0", "5"]
    assert lines[4].split() == ["2", "2026-01-02", "no", "action", "6"]
    ran = run("dry", log, *NAMED, "--dry-run", "--json", "--url", url, *made)
    assert json.loads(ran.stdout)["first"][0]["context"] == {"arm": "kitchen", "price": 2.5}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ("--reward", "sales", "--arm", "arm"),
            "there is no column sales; there are day, who",
        ),
        (("--reward", "revenue"), "name the column of the --arm, or of a --feature"),
        (("--reward", "arm", "--arm", "arm"), "row 2, arm: 'kitchen' is no number"),
        (("--reward", "revenue", "--arm", "arm", "--time", "who"), "row 2, who: 'ann' is no time"),
        (("--reward", "revenue", "--arm", "arm", "--time", "due"), "row 3, due: 2222-01-01 is to"),
    ],
)
def test_what_does_not_fit_is_named(log: str, arguments: tuple[str, ...], reason: str) -> None:
    """Before a server is asked."""
    ran = run("mail", log, *arguments, "--dry-run")
    assert ran.exit_code == 1
    assert reason in ran.output


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"dim": 2}, "dim 2, and there would be 3 columns: arm=kitchen, price, arm=garden"),
        ({"dim": 3}, "has no covariate heat; it has none"),
        ({"dim": 3, "clock": {"slot_seconds": 60}}, "has a clock"),
    ],
)
def test_what_a_session_does_not_take_is_said_by_a_dry_run(
    url: str, log: str, settings: Any, reason: str
) -> None:
    with Client(url) as client:
        session = client.create_session(horizon=5, **settings)
        covariate = ("--covariate", "heat") if "covariate" in reason else ()
        arguments = (session.id, log, *NAMED, *covariate, "--url", url)
        ran = run(*arguments, "--dry-run")
        assert ran.exit_code == 1
        assert reason in ran.output
        session.delete()


def test_the_decision_that_goes_with_a_file_is_said(url: str, log: str) -> None:
    """The session is made from the columns, and both calls that are printed run as they are."""
    arguments = ("made for it", log, *NAMED, "--time", "day", "--covariate", "heat", "--url", url)
    made = ("--create", "--horizon", "5", "--option", "levels=true")
    assert run(*arguments, *made).exit_code == 0
    python, curl = run(*arguments).stdout.splitlines()[-2:]
    with Client(url) as client:
        session = client.session("made for it")
        assert (session.info["dim"], session.info["arms"]) == (3, ["garden", "kitchen"])
        assert session.info["options"] == {"levels": True, "covariates": ["heat"]}
        decision = eval(python, {"client": client})
        assert [*session.rounds(trajectory="ann")][-1]["covariates"] == {"heat": 20.0}
        assert decision.arm_id in ("garden", "kitchen")
        said = subprocess.run(shlex.split(curl), capture_output=True, text=True, check=True)
        assert json.loads(said.stdout)["round"] == decision.round + 1
        session.delete()


def test_the_decision_has_eight_arms_and_says_how_many_are_left_out(
    url: str, tmp_path: Path
) -> None:
    (tmp_path / "many.csv").write_text("arm,sold\n" + "".join(f"arm {i},1\n" for i in range(10)))
    made = (
        "--create",
        "--horizon",
        "2",
        "--dry-run",
        "--url",
        url,
        "--arm",
        "arm",
        "--reward",
        "sold",
    )
    said = run("many", str(tmp_path / "many.csv"), *made).stdout
    assert "with the latest 8 arms; 2 more are left out:" in said
    assert [f'"arm {i}"' in said for i in range(10)] == [False] * 2 + [True] * 8


def test_trajectories_go_on_in_step(url: str, tmp_path: Path) -> None:
    """Many of them, over some days: positions are in the order of times, not of users."""
    days = [f"2026-01-0{day},user {user},1,{day}\n" for user in range(3) for day in (1, 2, 3)]
    (tmp_path / "users.csv").write_text("day,who,x,reward\n" + "".join(days))
    named = ("--reward", "reward", "--feature", "x", "--trajectory", "who", "--time", "day")
    made = ("--create", "--horizon", "2", "--url", url)
    assert run("in step", str(tmp_path / "users.csv"), *named, *made).exit_code == 0
    with Client(url) as client:
        session = client.session("in step")
        items = session.series(by="time")["items"]
        assert [one["reward"] for one in items] == [1.0, 2.0, 3.0]
        session.delete()


def test_a_parquet_file_is_read(tmp_path: Path, url: str) -> None:
    import pandas as pd

    pd.DataFrame({"arm": [0, 1], "revenue": [1.5, None]}).to_parquet(tmp_path / "log.parquet")
    file = str(tmp_path / "log.parquet")
    assert "No such file" in run("none", f"{file}.parquet", "--reward", "revenue").output
    made = ("--create", "--horizon", "5", "--url", url)
    ran = run("none", file, "--reward", "revenue", "--arm", "arm", "--dry-run", "--json", *made)
    answer = json.loads(ran.stdout)
    assert [one["context"] for one in answer["first"]] == [{"arm": "0"}, {"arm": "1"}]
    assert (answer["missing"], answer["categories"]) == (1, ["arm"])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_session_is_exported_as_tables(url: str, tmp_path: Path, kind: str) -> None:
    import pandas as pd

    with Client(url) as client:
        session = client.create_session(f"as {kind}", dim=2, horizon=5)
        session.decide([[1.0, 0.0]], trajectory="001", event_id="7")
        session.reward(0.5, round=1, trajectory="001")
    out = tmp_path / "tables"
    arguments = ["export", f"as {kind}", "--url", url, "--format", kind, "--out", str(out)]
    failed = CliRunner().invoke(app, [*arguments[:3], "http://127.0.0.1:9", *arguments[4:]])
    assert failed.exit_code == 1
    assert CliRunner().invoke(app, arguments).exit_code == 0  # into the folder that is still new
    files = sorted(path.name for path in out.iterdir())
    assert files == [f"decisions.{kind}", f"rewards.{kind}"]
    read = pd.read_parquet if kind == "parquet" else lambda file: pd.read_csv(file, dtype=str)
    [decision] = read(out / f"decisions.{kind}").to_dict("records")
    assert (decision["trajectory"], decision["client_event_id"]) == ("001", "7")
    assert json.loads(decision["context"]) == [1.0, 0.0]
    [reward] = read(out / f"rewards.{kind}").to_dict("records")
    assert float(reward["value"]) == 0.5
    assert CliRunner().invoke(app, arguments).exit_code == 2  # the folder is not new
