"""`lhb evaluate`: agents evaluated on a log that another policy made."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clients.cli.output import WIDTH, AsJson, LogError, show
from clients.cli.simulate import DEFAULT_ALGORITHM, algorithms, read_options

if TYPE_CHECKING:
    from lhb_engine.evaluation.log_replay import LogReplay

SHOWN = {
    "error": "mean squared error",
    "skill": "skill over the mean",
    "logged": "value of the log",
    "robust": "value, doubly robust",
    "gain": "gain over the log",
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
    option: Annotated[
        list[str] | None,
        typer.Option(help="name=value for the algorithms, or algorithm.name=value for one."),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(help="tcp://host:port: LOG is a folder of .parquet, read by this cluster."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay logged trajectories through agents: prediction error, and value where it is sound.

    Example: lhb evaluate log.csv --horizon 20
    """
    if dask is not None:
        _evaluate_on_cluster(log, horizon, dask, as_json)
        return
    try:
        paying = None if lags is None else tuple(sorted({int(lag) for lag in lags.split(",")}))
    except ValueError:
        raise typer.BadParameter("lags: whole numbers separated by commas") from None
    if paying and not 0 <= paying[0] <= paying[-1] < horizon:
        raise typer.BadParameter(f"lags: from 0 to {horizon - 1}")
    names = list(dict.fromkeys(algorithm or [DEFAULT_ALGORITHM]))
    options = read_options(option or [], names)
    try:
        results, differences = evaluate_log(log, horizon, options, paying, seed)
    except (LogError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    shown = {"log": str(log), "horizon": horizon, "algorithms": results, "differences": differences}
    show(shown, as_json, _lines(results, differences))


def _evaluate_on_cluster(log: Path, horizon: int, address: str, as_json: bool) -> None:
    """Fit the model to the moments of a folder of files; see `clients/large_logs.py`."""
    if not log.is_dir():
        raise typer.BadParameter(f"{log}: --dask needs a folder of .parquet files")
    from distributed import Client

    from clients import large_logs

    try:
        with Client(address, timeout=10) as client:  # type: ignore[no-untyped-call]
            result = large_logs.evaluate_log(log, horizon, client)
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    shown = {"log": str(log), "horizon": horizon, **result}
    show(shown, as_json, (f"{name}: {value}" for name, value in shown.items()))


def evaluate_log(
    path: Path,
    horizon: int,
    options: dict[str, dict[str, Any]],
    lags: Sequence[int] | None,
    seed: int,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Evaluate algorithms with their options on one log, and compare them pairwise.

    Without `lags`, a first pass over the log finds the active ones of each; the doubly robust
    values take those of all together, so that they can be compared.
    """
    own: dict[str, tuple[int, ...]] = {}
    for name in options:
        if lags is None:
            estimate = _replay(path, name, horizon, options[name], seed).result().estimate
            own[name] = () if estimate is None else tuple(estimate.active_lags)
        else:
            own[name] = tuple(lags)
    union = tuple(sorted({lag for active in own.values() for lag in active}))
    replays = {
        name: _replay(path, name, horizon, options[name], seed, own[name], union)
        for name in options
    }
    numbers = ("error", "naive_error", "skill", "logged", "robust", "gain", "weighted", "replay")
    results = {}
    for name, replay in replays.items():
        result = replay.result()
        results[name] = {
            "n_rounds": result.n_rounds,
            "n_held_out": result.n_held_out,
            "lags": list(result.lags),
            "robust_lags": list(union),
            **{number: _number(getattr(result, number)) for number in numbers},
        }
    differences = [
        {"first": a, "second": b, **_number(replays[a].robust.over(replays[b].robust))}
        for a, b in combinations(replays, 2)
    ]
    return results, differences


def _replay(
    path: Path,
    algorithm: str,
    horizon: int,
    options: dict[str, Any],
    seed: int,
    lags: tuple[int, ...] | None = None,
    robust_lags: tuple[int, ...] | None = None,
) -> "LogReplay":
    from clients.cli.log_files import read_log
    from lhb_engine.agents import ALGORITHMS, OptionError, make_agent
    from lhb_engine.evaluation.log_replay import LogReplay

    if algorithm not in ALGORITHMS:
        raise typer.BadParameter(f"algorithm: {algorithm!r} is none of {', '.join(ALGORITHMS)}")
    if ALGORITHMS[algorithm].needs_truth:
        raise typer.BadParameter(f"algorithm: {algorithm} needs the truth, which no log holds")
    replay: LogReplay | None = None
    names = options.get("covariates", ())
    for chunk in read_log(path, covariates=names if isinstance(names, list) else ()):
        if replay is None:
            try:
                agent = make_agent(
                    algorithm, dim=chunk.selected.shape[1], horizon=horizon, **options
                )
            except OptionError as error:
                raise typer.BadParameter(f"{algorithm}: {error}") from None
            replay = LogReplay(agent, seed=seed, lags=lags, robust_lags=robust_lags)
        replay.feed(chunk)
    if replay is None:
        raise typer.BadParameter(f"{path} holds no rounds")
    return replay


def _number(value: Any) -> Any:
    return {"refused": str(value)} if isinstance(value, str) else asdict(value)


def _lines(results: dict[str, dict[str, Any]], differences: list[dict[str, Any]]) -> Iterator[str]:
    yield "95% intervals; held-out rounds are predicted before they are learned from."
    for name, row in results.items():
        lags = ", ".join(map(str, row["lags"])) or "none"
        yield ""
        held_out = f"{row['n_held_out']} of {row['n_rounds']} rounds held out"
        yield f"{name}: {held_out}, active lags {lags}"
        for key, meaning in SHOWN.items():
            yield from _row(meaning, row[key])
    if differences:
        yield ""
        yield "By how much the first earns more a round, doubly robust:"
        for one in differences:
            yield from _row(f"{one['first']}, {one['second']}", one)


def _row(name: str, value: dict[str, Any]) -> Iterator[str]:
    text = f"  {name:<22}{_cell(value)}"
    yield from wrap(text, WIDTH, drop_whitespace=False, subsequent_indent=" " * 24)


def _cell(value: dict[str, Any]) -> str:
    if "refused" in value:
        return f"refused: {value['refused']}"
    return (
        f"{value['value']:.4g} [{value['low']:.4g}, {value['high']:.4g}], "
        f"n={value['effective']:.0f}"
    )
