"""`lhb bench serve`, `start`, `soak`, `neighbours`, `overload`: servers, and how they are used."""

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from benchmarks.commands.options import Database
from clients.cli.output import AsJson, show


def serve(
    database: Annotated[
        str | None,
        typer.Option(help="URL of a migrated PostgreSQL database. Default: a new SQLite file."),
    ] = None,
    seconds: Annotated[int, typer.Option(help="Seconds per run.", min=1)] = 5,
    pairs: Annotated[int, typer.Option(help="Runs of each variant, which take turns.", min=1)] = 5,
    fit_pairs: Annotated[
        int, typer.Option(help="Pairs of runs with and without a fit.", min=1)
    ] = 10,
    processes: Annotated[
        int, typer.Option(help="Number of API processes, on PostgreSQL.", min=1)
    ] = 2,
    everything_on: Annotated[
        bool,
        typer.Option(
            "--everything-on",
            help="Measure instead what keys, limits, metrics, log lines and traces add, on SQLite.",
        ),
    ] = False,
    instructions: Annotated[
        bool,
        typer.Option(help="With --everything-on: count instructions by valgrind, and not CPU."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure durable decisions over HTTP: against floors, in batches, on a slow disk, beside fits.

    With --database, on that PostgreSQL against the same handler without storage.

    Example: lhb bench serve
    """
    from benchmarks.server import features, serving

    if everything_on:
        if database is not None:
            raise typer.BadParameter("--everything-on is measured on SQLite")
        measured = features.run(seconds, pairs, is_counted=instructions)
        show(measured, as_json, _features_table(measured["features"]))
    elif database is None:
        measured = serving.run_on_sqlite(seconds, pairs, fit_pairs)
        show(measured, as_json, _serving_lines(measured))
    else:
        measured = serving.run_on_postgres(database, seconds, pairs, processes)
        show(measured, as_json, _postgres_table(measured))


def _features_table(features: dict[str, Any]) -> Iterator[str]:
    is_counted = all("instructions" in found for found in features.values())
    head, key = ("1000 user instructions", "instructions") if is_counted else ("CPU us", "cpu_us")
    yield f"| feature | {head} | of off | standard error |"
    yield "|-|-|-|-|"
    for name, found in features.items():
        shown = f"{found[key]:.0f} | {found['ratio']:.3f} | {found['standard_error']:.3f}"
        yield f"| {name} | {shown} |"


def instructions(
    checkout: Annotated[
        list[Path],
        typer.Argument(help="Folders of the program; the first one is what others compare with."),
    ],
    case: Annotated[list[str] | None, typer.Option(help="By name; default: all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Count the instructions of a server for a decision, by valgrind, on SQLite.

    Example: lhb bench instructions ../old .
    """
    from benchmarks.server import checkouts

    for name in case or ():
        if name not in checkouts.CASES:
            raise typer.BadParameter(f"no case {name!r}: {'; '.join(checkouts.CASES)}")
    measured = checkouts.run(checkout, case or ())
    show(measured, as_json, _instructions_table(measured))


def _instructions_table(measured: dict[str, Any]) -> Iterator[str]:
    yield "| 1000 user instructions of a decision | by checkout | ratios |"
    yield "|-|-|-|"
    for name, found in measured.items():
        counts = ", ".join(f"{count:.1f}" for count in found["instructions"].values())
        yield f"| {name} | {counts} | {', '.join(f'{ratio:.3f}' for ratio in found['ratios'])} |"


def _serving_lines(measured: dict[str, Any]) -> Iterator[str]:
    for part in ("variants", "batches", "fits", "ratios"):
        yield f"{part}:"
        yield from (f"  {name}: {value}" for name, value in measured[part].items())


def _postgres_table(measured: dict[str, Any]) -> Iterator[str]:
    names = list(measured["variants"]["no storage"])
    yield f"| variant | {' | '.join(names)} | throughput / no storage |"
    yield "|-" * (len(names) + 2) + "|"
    for name, found in measured["variants"].items():
        ratio = measured["of_no_storage"][name]["requests_per_second"]
        yield f"| {name} | {' | '.join(f'{found[n]:.1f}' for n in names)} | {ratio:.2f} |"


def start(
    runs: Annotated[int, typer.Option(help="Number of starts of a server.", min=1)] = 5,
    sessions: Annotated[int, typer.Option(help="Number of sessions in the database.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure a start: time to the first durable decision, memory, latency of one client.

    Example: lhb bench start
    """
    from benchmarks.server import starting

    measured = starting.run(runs, sessions)
    show(measured, as_json, _fields(measured))


def soak(
    minutes: Annotated[float, typer.Option(help="Duration in minutes.", min=0.1)] = 10.0,
    rate: Annotated[float, typer.Option(help="Rounds per second.", min=1)] = 200.0,
    as_json: AsJson = False,
) -> None:
    """Measure the memory of a server under sustained load: decisions, rewards, fits.

    Example: lhb bench soak
    """
    from benchmarks.server import soaking

    measured = soaking.run(minutes, rate)
    show(measured, as_json, _fields(measured))


def _fields(measured: dict[str, Any]) -> Iterator[str]:
    return (f"{name}: {value}" for name, value in measured.items())


def neighbours(
    flood: Annotated[
        list[str] | None,
        typer.Option(
            help="fits, reads, pages, imports, histories, deletions, collisions, strangers, "
            "agents, batches, personalizer, ranks or named; default: all."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Seconds per measurement.", min=1)] = 10.0,
    rounds: Annotated[int, typer.Option(help="Rounds of a large session.", min=10_000)] = 40_000,
    checkout: Annotated[
        Path | None, typer.Option(help="Measure the server of this checkout, not of this program.")
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            help="URL of a migrated PostgreSQL database for this alone: it needs keys from then "
            "on. Default: new SQLite files."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a tenant's decisions, fits and exports beside a tenant that floods.

    The floods are long fits, unread exports, long pages, imports, logs, deletions, refused logs,
    large agents, and large batches, rankings and decisions.

    Example: lhb bench neighbours
    """
    from benchmarks.server import neighbours as beside
    from benchmarks.server.floods import FLOODS

    names = flood or list(FLOODS)
    for name in names:
        if name not in FLOODS:
            raise typer.BadParameter(f"no flood {name!r}: {', '.join(FLOODS)}")
    measured = beside.run(names, seconds, rounds, checkout, database)
    show(measured, as_json, _neighbours_tables(measured["floods"]))


def _neighbours_tables(floods: dict[str, Any]) -> Iterator[str]:
    """Yield a table of what the quiet tenant sees, and one of what the server itself held."""
    yield "| flood, and alone | p50 ms | p99 | longest | a second | share | fits | fit p50 ms |" + (
        " longest | exports | export p50 ms | refused | MB | requests |"
    )
    yield "|-" * 14 + "|"
    for name, found in floods.items():
        for when in ("beside", "alone"):
            row = found[when]
            shown = [f"{row[key]:.1f}" for key in ("p50_ms", "p99_ms", "longest_ms")]
            shown += [f"{row['throughput']:.0f}"]
            shown += [f"{found['share_of_throughput']:.2f}" if when == "beside" else ""]
            shown += [f"{row[f'fit{key}']:.0f}" for key in ("s", "_p50_ms", "_longest_ms")]
            shown += [f"{row[f'export{key}']:.0f}" for key in ("s", "_p50_ms")]
            shown += [
                f"{row['fits_refused'] + row['exports_refused']}",
                f"{row['resident_mb']:.0f}",
            ]
            shown += [f"{found['flood_requests']}" if when == "beside" else ""]
            yield f"| {name if when == 'beside' else ''} | {' | '.join(shown)} |"
    yield ""
    yield "| flood | longest transaction ms, of it on a processor | longest stall of the loop, " + (
        "of it on a processor | waited for a processor |"
    )
    yield "|-|-|-|-|"
    for name, found in floods.items():
        row = found["beside"]
        shown = [
            f"{row[f'{kind}_longest_ms']:.1f}, {row[f'{kind}_longest_on_cpu_ms']:.1f}"
            for kind in ("transaction", "loop")
        ]
        yield f"| {name} | {' | '.join(shown)} | {row['waited_for_processor']:.0%} |"


def overload(
    factor: Annotated[
        list[float] | None,
        typer.Option(help="Offered load over the load that is carried; default: 0.5, 1, 2, 3."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Seconds per load.", min=1)] = 5.0,
    arms: Annotated[int, typer.Option(help="Arms of a decision.", min=1)] = 20,
    dim: Annotated[int, typer.Option(help="Numbers in a context.", min=1)] = 10,
    max_wait: Annotated[
        float, typer.Option(help="The server's LHB_MAX_WAIT_SECONDS.", min=0)
    ] = 0.25,
    as_json: AsJson = False,
) -> None:
    """Measure what a server serves when more is asked than it can carry.

    Example: lhb bench overload --factor 1 --factor 3
    """
    from benchmarks.server import overload as over

    measured = over.run(factor or [0.5, 1.0, 2.0, 3.0], seconds, arms, dim, max_wait)
    show(measured, as_json, _overload_table(measured))


def _overload_table(measured: dict[str, Any]) -> Iterator[str]:
    yield f"carried: {measured['carried']:.0f} a second, {measured['carried_cpu_us']:.0f} us each"
    yield "| load | offered a second | served | of the peak | CPU us | p50 ms | p99 | longest |"
    yield "|-|-|-|-|-|-|-|-|"
    for name, row in measured["loads"].items():
        shown = [f"{row[key]:.0f}" for key in ("offered", "served")]
        shown += [f"{row['served_of_peak']:.2f}", f"{row['cpu_us']:.0f}"]
        shown += [f"{row[key]:.0f}" for key in ("p50_ms", "p99_ms", "longest_ms")]
        yield f"| {name} ({row['offered_of_carried']:.1f}) | {' | '.join(shown)} |"


def users(
    trajectories: Annotated[
        list[int] | None,
        typer.Option(help="Numbers of trajectories; beyond 2000 multiples of 1000. Default: 1000."),
    ] = None,
    database: Database = None,
    seconds: Annotated[
        float, typer.Option(help="Single decisions, and then batches, in a turn.", min=0.1)
    ] = 2.0,
    turns: Annotated[int, typer.Option(help="Turns of each session.", min=1)] = 5,
    processes: Annotated[
        int, typer.Option(help="Number of API processes, on PostgreSQL.", min=1)
    ] = 2,
    as_json: AsJson = False,
) -> None:
    """Measure one session of many trajectories with 10 rounds each, beside one of one trajectory.

    Beyond 2000 trajectories, the database copies most rounds from those of the first 1000 users.

    Example: lhb bench users --trajectories 100000
    """
    from benchmarks.server import users as of_users

    def on_size(n: int, found: dict[str, Any]) -> None:
        typer.echo(f"{n}: {found}", err=True)  # a large one takes long

    sizes = trajectories or [1000]
    if any(n > 2 * of_users.FIRST and n % of_users.FIRST for n in sizes):
        raise typer.BadParameter(f"beyond {2 * of_users.FIRST}: multiples of {of_users.FIRST}")
    measured = of_users.run(database, sizes, seconds, processes, turns, on_size)
    show(measured, as_json, _users_table(measured["trajectories"]))


def _users_table(measured: dict[int, dict[str, dict[str, Any]]]) -> Iterator[str]:
    for n, found in measured.items():
        yield f"| trajectories | 1 | {n} | ratio |"
        yield "|-|-|-|-|"
        for name in found["many"]:
            yield "| " + " | ".join([name, *(_said(found[k].get(name)) for k in found)]) + " |"


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_said(one)}" for name, one in value.items())
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def fleet(
    trajectories: Annotated[int, typer.Option(help="Trajectories.", min=10)] = 50_000,
    rounds: Annotated[int, typer.Option(help="Rounds of each.", min=1)] = 12,
    as_json: AsJson = False,
) -> None:
    """Measure how old what decides is, where many trajectories play in step and the sixth lag pays.

    Example: lhb bench fleet --trajectories 50000 --rounds 12
    """
    from benchmarks.server import fleet as of_fleet

    measured = of_fleet.run(trajectories, rounds)
    show(measured, as_json, _fleet_table(measured))


def _fleet_table(measured: dict[str, Any]) -> Iterator[str]:
    yield f"{measured['rounds_a_second']:.0f} rounds a second; {measured['fits']} fits decided"
    took, age = measured["fit_seconds"], measured["fit_age_seconds"]
    cpu = 60.0 * measured["fit_cpu_seconds"] / measured["seconds"]
    yield f"a fit takes {took:.1f} s; from due to its estimate {age:.1f} s (means)"
    yield f"{measured['skipped']:.0f} windows were skipped; fits take {cpu:.0f} s of CPU a minute"
    batch, slow = measured["batch_ms"]
    yield f"a batch of decisions takes {batch:.0f} ms in the median, {slow:.0f} at p99"
    yield f"share of best arms by round: {', '.join(f'{x:.2f}' for x in measured['best_arms'])}"
    yield "| the newest reward read | median | 90% | oldest |"
    yield "|-|-|-|-|"
    for name, shown in (("seconds", ".1f"), ("rounds", ",")):
        ages = " | ".join(f"{x:{shown}}" for x in measured[f"age_{name}"])
        yield f"| {name} ago | {ages} |"


def dashboard(
    sessions: Annotated[int, typer.Option(help="Sessions in the list.", min=2)] = 1000,
    rounds: Annotated[int, typer.Option(help="Rounds of the long session.", min=200)] = 100_000,
    visits: Annotated[int, typer.Option(help="Visits to each page.", min=1)] = 5,
    as_json: AsJson = False,
) -> None:
    """Measure how long Chromium takes to open the list of sessions, and a long session.

    Example: lhb bench dashboard
    """
    from benchmarks.server import dashboard as pages

    measured = pages.run(sessions, rounds, visits)
    show(measured, as_json, _pages_table(measured["visits"]))


def _pages_table(visits: dict[str, list[dict[str, float]]]) -> Iterator[str]:
    yield "| page | shown: median s | longest | whole: median s | longest |"
    yield "|-|-|-|-|-|"
    for name, of in visits.items():
        columns = [[one[key] for one in of] for key in ("shown_seconds", "whole_seconds")]
        shown = [f"{figure(column):.2f}" for column in columns for figure in (median, max)]
        yield f"| {name} | {' | '.join(shown)} |"
