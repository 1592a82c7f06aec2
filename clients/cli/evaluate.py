"""`lhb evaluate`: agents evaluated on a log that another policy made."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import typer

from clients.cli.completions import algorithms
from clients.cli.output import WIDTH, AsJson, show
from clients.cli.simulate import DEFAULT_ALGORITHM

SHOWN = {
    "error": "mean squared error",
    "skill": "skill over the mean",
    "weighted": "value, weighted",
    "replay": "value, by replay",
}


def evaluate(
    log: Annotated[
        Path, typer.Argument(help="Log as .csv, .ndjson or .parquet (docs/evaluate.md).")
    ],
    horizon: Annotated[int, typer.Option(help="h: number of lags", min=1)],
    algorithm: Annotated[
        list[str] | None,
        typer.Option(help="Algorithm; repeatable. Default: anytime.", autocompletion=algorithms),
    ] = None,
    lags: Annotated[
        str | None,
        typer.Option(help="Active lags, like 0,3,7. Default: those that each agent finds."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the agents' random draws.", min=0)] = 0,
    dask: Annotated[
        str | None,
        typer.Option(help="tcp://host:port: LOG is a folder of .parquet, read by this cluster."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay a logged trajectory through agents: prediction error, and value where it is sound.

    Example: lhb evaluate log.csv --horizon 20
    """
    from clients.cli.log_files import LogError

    if dask is not None:
        _evaluate_on_cluster(log, horizon, dask, as_json)
        return
    try:
        given = None if lags is None else tuple(sorted({int(lag) for lag in lags.split(",")}))
    except ValueError:
        raise typer.BadParameter("lags: whole numbers separated by commas") from None
    if given and not 0 <= given[0] <= given[-1] < horizon:
        raise typer.BadParameter(f"lags: from 0 to {horizon - 1}")
    try:
        found = {
            name: evaluate_log(log, name, horizon, given, seed)
            for name in algorithm or [DEFAULT_ALGORITHM]
        }
    except (LogError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    shown = {"log": str(log), "horizon": horizon, "algorithms": found}
    show(shown, as_json, _lines(found))


def _evaluate_on_cluster(log: Path, horizon: int, address: str, as_json: bool) -> None:
    """Fit the model to the moments of a folder of files; see `clients/large_logs.py`."""
    if not log.is_dir():
        raise typer.BadParameter(f"{log}: --dask needs a folder of .parquet files")
    from distributed import Client

    from clients import large_logs

    try:
        with Client(address, timeout=10) as client:  # type: ignore[no-untyped-call]
            found = large_logs.evaluate_log(log, horizon, client)
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    shown = {"log": str(log), "horizon": horizon, **found}
    show(shown, as_json, (f"{name}: {value}" for name, value in shown.items()))


def evaluate_log(
    path: Path, algorithm: str, horizon: int, lags: Sequence[int] | None, seed: int
) -> dict[str, Any]:
    """Evaluate one algorithm; without `lags`, a first pass over the log finds the active ones."""
    if lags is None:
        first = _replay(path, algorithm, horizon, None, seed)
        estimate = first.estimate
        lags = estimate.active_lags if estimate is not None else ()
    result = _replay(path, algorithm, horizon, tuple(lags), seed)
    numbers = ("error", "naive_error", "skill", "replay", "weighted")
    return {
        "n_rounds": result.n_rounds,
        "n_held_out": result.n_held_out,
        "lags": list(result.lags),
        **{name: _number(getattr(result, name)) for name in numbers},
    }


def _replay(
    path: Path, algorithm: str, horizon: int, lags: tuple[int, ...] | None, seed: int
) -> Any:
    from clients.cli.log_files import read_log
    from lhb_engine.agents import ALGORITHMS, make_agent
    from lhb_engine.evaluation.log_replay import LogReplay

    if algorithm not in ALGORITHMS:
        raise typer.BadParameter(f"algorithm: {algorithm!r} is none of {', '.join(ALGORITHMS)}")
    if ALGORITHMS[algorithm].needs_truth:
        raise typer.BadParameter(f"algorithm: {algorithm} needs the truth, which no log holds")
    replay: LogReplay | None = None
    for block in read_log(path):
        if replay is None:
            agent = make_agent(algorithm, dim=block.selected.shape[1], horizon=horizon)
            replay = LogReplay(agent, seed=seed, lags=lags)
        replay.feed(block)
    if replay is None:
        raise typer.BadParameter(f"{path} holds no rounds")
    return replay.result()


def _number(value: Any) -> Any:
    return {"refused": str(value)} if isinstance(value, str) else asdict(value)


def _lines(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield "95% intervals; held-out rounds are predicted before they are learned from."
    for name, row in found.items():
        lags = ", ".join(map(str, row["lags"])) or "none"
        yield ""
        held_out = f"{row['n_held_out']} of {row['n_rounds']} rounds held out"
        yield f"{name}: {held_out}, active lags {lags}"
        for key, meaning in SHOWN.items():
            text = f"  {meaning:<22}{_cell(row[key])}"
            yield from wrap(text, WIDTH, drop_whitespace=False, subsequent_indent=" " * 24)


def _cell(value: dict[str, Any]) -> str:
    if "refused" in value:
        return f"refused: {value['refused']}"
    return (
        f"{value['value']:.4g} [{value['low']:.4g}, {value['high']:.4g}], "
        f"n={value['effective']:.0f}"
    )
