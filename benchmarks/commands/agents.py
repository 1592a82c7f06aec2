"""`lhb bench decide`, `certainty`, `coverage`, `lift`, `responses`: regret and honest doubt."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.commands.options import FirstSeed, Jobs, Seeds, Worlds, numbers
from benchmarks.commands.progress import printing
from clients.cli.output import AsJson, show
from clients.cli.simulate import algorithms

WEAK = ("weak", "weak_power")
BOARDS = ("main", "harder", "life", "told", "dense", "profiles", "poor", *WEAK)


def decide(
    board: Annotated[
        str,
        typer.Option(help=f"Board: {', '.join(BOARDS)} or all."),
    ] = "main",
    algorithm: Annotated[
        list[str] | None, typer.Option(help="Algorithm; repeatable.", autocompletion=algorithms)
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            help="Also play anytime with these changed, like profiles=chosen,acceptance=3."
        ),
    ] = None,
    world: Worlds = None,
    seeds: Annotated[int, typer.Option(help="Number of worlds of each kind.", min=2)] = 20,
    first_seed: FirstSeed = 5000,
    jobs: Jobs = 1,
    as_json: AsJson = False,
) -> None:
    """Measure regret against that of an oracle which knows the lag weights (docs/anytime.md).

    On the boards weak and weak_power the score is the share of the possible gain, beside a ridge's.

    Example: lhb bench decide --board harder --seeds 5
    """
    from benchmarks import regret_scoreboard as scoreboard

    boards = {
        "main": scoreboard.BOARD,
        "harder": scoreboard.HARDER,
        "life": scoreboard.LIFE,
        "told": scoreboard.TOLD,
        "dense": scoreboard.DENSE,
        "profiles": scoreboard.PROFILES,
        "poor": scoreboard.POOR,
    }
    names = algorithm or (["anytime"] if variant or board in WEAK else ["anytime", "ad_lasso"])
    for text in variant or ():
        try:
            scoreboard.variant_of(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        names.append(f"anytime {text}")
    if board in WEAK:
        all_seeds = range(first_seed, first_seed + seeds)
        _decide_weak(names, world, all_seeds, jobs, as_json, power=board == "weak_power")
        return
    worlds = boards.get(board, ()) if board != "all" else sum(boards.values(), ())
    if not worlds:
        raise typer.BadParameter(f"no board {board!r}: {', '.join(BOARDS)} or all")
    if world:
        worlds = tuple(w for w in worlds if w.name in world)
    progress = printing(scoreboard.HEADER, as_json)
    result = scoreboard.run(
        worlds,
        names,
        range(first_seed, first_seed + seeds),
        jobs=jobs,
        progress=progress,
    )
    show(result, as_json, _board_lines(result, names))


def _decide_weak(
    names: list[str],
    histories: list[str] | None,
    seeds: range,
    jobs: int,
    as_json: bool,
    *,
    power: bool,
) -> None:
    """Play the weak worlds; a world's name is how long its history is."""
    from benchmarks import weak_worlds

    played = [name for name in weak_worlds.HISTORIES if not histories or name in histories]
    if not played:
        raise typer.BadParameter(f"no such world; there are {list(weak_worlds.HISTORIES)}")
    progress = printing(weak_worlds.HEADER, as_json)
    rows = weak_worlds.run(played, names, seeds, power=power, jobs=jobs, progress=progress)
    show({"seeds": list(seeds), "weak": rows}, as_json, ())


def _board_lines(result: dict[str, Any], names: list[str]) -> Iterator[str]:
    for name in names:
        mean, most = result["mean_ratio"][name], result["max_ratio"][name]
        yield f"{name}: mean ratio {mean:.2f}, highest {most:.2f}"
    for row in result["board"]:
        for name, found in row["algorithms"].items():
            if "less_anytime" in found:
                less, by = found["less_anytime"]
                yield f"{row['world']}: {name} less anytime {less:+.1f} ± {by:.1f}"


def clock(
    decisions: Annotated[
        list[float] | None, typer.Option(help="Mean number of decisions a slot; repeatable.")
    ] = None,
    slots: Annotated[int, typer.Option(help="Number of slots.", min=10)] = 1000,
    seeds: Seeds = 20,
    first_seed: FirstSeed = 5000,
    fits: Annotated[
        list[str] | None,
        typer.Option(help="slots,decisions a slot: time fits of such a session; repeatable."),
    ] = None,
    by_user: Annotated[
        bool, typer.Option("--by-user", help="With --fits: totals of each of three trajectories.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure what is learned from totals of slots of time, with many decisions a slot.

    Example: lhb bench clock --seeds 2 --slots 200
    """
    from benchmarks import clock as table
    from benchmarks import clock_fits

    if fits:
        sizes = [numbers(text, "slots,decisions a slot") for text in fits]
        say = printing(clock_fits.HEADER, as_json)
        timed = clock_fits.run(sizes, first_seed, say, "trajectory" if by_user else "all")
        show({"seed": first_seed, "fits": timed}, as_json, ())
        return
    progress = printing(table.HEADER, as_json)
    rows = table.run(
        decisions or (1, 10, 50), range(first_seed, first_seed + seeds), progress, slots
    )
    show({"slots": slots, "first_seed": first_seed, "clocks": rows}, as_json, ())


def certainty(
    algorithm: Annotated[
        str, typer.Option(help="anytime, or ad_lasso with standard_errors.")
    ] = "anytime",
    drawn: Annotated[bool, typer.Option(help="Bands of draws instead of intervals.")] = False,
    world: Worlds = None,
    seeds: Seeds = 10,
    first_seed: FirstSeed = 5000,
    jobs: Jobs = 1,
    as_json: AsJson = False,
) -> None:
    """How often the intervals and the angle that an algorithm says hold, and how often it alarms.

    Example: lhb bench certainty --seeds 2
    """
    from benchmarks import certainty as table

    if algorithm not in table.OPTIONS:
        raise typer.BadParameter(f"one of {', '.join(table.OPTIONS)}")
    worlds = [w for w in table.WORLDS if not world or w.name in world]
    if not worlds:
        raise typer.BadParameter(f"no such world; there are {[w.name for w in table.WORLDS]}")
    progress = printing(table.HEADER, as_json)
    numbers = range(first_seed, first_seed + seeds)
    rows = table.run(
        worlds, numbers, algorithm=algorithm, drawn=drawn, jobs=jobs, progress=progress
    )
    show({"algorithm": algorithm, "worlds": rows}, as_json, ())


def findings(
    world: Worlds = None,
    plain: Annotated[bool, typer.Option(help="Also play worlds with nothing to find.")] = True,
    seeds: Seeds = 10,
    first_seed: FirstSeed = 5000,
    jobs: Jobs = 1,
    as_json: AsJson = False,
) -> None:
    """How often checks of the model find what is the matter, and nothing where nothing is.

    Example: lhb bench findings --seeds 2
    """
    from benchmarks import findings as table

    every = [*(w for _, w in table.MATTERS), *(table.PLAIN if plain else ())]
    worlds = [w for w in every if not world or w.name in world]
    if not worlds:
        raise typer.BadParameter(f"no such world; there are {[w.name for w in every]}")
    progress = printing(table.HEADER, as_json)
    rows = table.run(worlds, range(first_seed, first_seed + seeds), jobs=jobs, progress=progress)
    show({"worlds": rows}, as_json, _findings_lines(rows))


def _findings_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    plain = [row for row in rows if row["expected"] is None]
    if plain:
        n, runs = (sum(row[name] for row in plain) for name in ("runs_with_findings", "runs"))
        yield f"nothing to find: {n} of {runs} runs find something"


def gain(
    world: Worlds = None,
    seeds: Seeds = 12,
    first_seed: FirstSeed = 5000,
    jobs: Jobs = 1,
    as_json: AsJson = False,
) -> None:
    """How true it is what sessions say that their choices earn, at fits from round 60 on.

    Example: lhb bench gain --world weak
    """
    from benchmarks import gain as table

    worlds = [name for name in table.WORLDS if not world or name in world]
    if not worlds:
        raise typer.BadParameter(f"no such world; there are {list(table.WORLDS)}")
    progress = printing(table.HEADER, as_json)
    rows = table.run(worlds, range(first_seed, first_seed + seeds), jobs=jobs, progress=progress)
    show({"worlds": rows}, as_json, ())


def coverage(
    logs: Annotated[int, typer.Option(help="Number of logs of each case.", min=1)] = 200,
    rounds: Annotated[int, typer.Option(help="Number of rounds of a log.", min=100)] = 2000,
    case: Annotated[
        list[str] | None, typer.Option(help="Only cases whose name contains this; repeatable.")
    ] = None,
    first_seed: Annotated[int, typer.Option(help="Seed of the first log.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """How often the 95% value intervals of `lhb evaluate` hold the true value.

    Example: lhb bench coverage --logs 20
    """
    from benchmarks.coverage import HEADER, run

    progress = printing(HEADER, as_json)
    rows = run(logs, rounds, case or (), first_seed, progress)
    asked = {"logs": logs, "rounds": rounds, "first_seed": first_seed}
    show({**asked, "cases": rows}, as_json, ())


def lift(
    experiments: Annotated[int, typer.Option(help="Number of experiments a world.", min=1)] = 1000,
    users: Annotated[int, typer.Option(help="Number of users of an experiment.", min=100)] = 400,
    first_seed: Annotated[int, typer.Option(help="Seed of the first experiment.", min=0)] = 0,
    world: Annotated[str | None, typer.Option(help="Only this world; default: all.")] = None,
    as_json: AsJson = False,
) -> None:
    """How often the intervals of lift hold the truth when they are looked at every day.

    Example: lhb bench lift --experiments 100
    """
    from benchmarks.lift import HEADER, WORLDS, run

    worlds = [one for one in WORLDS if world in (None, one.name)]
    if not worlds:
        known = ", ".join(one.name for one in WORLDS)
        raise SystemExit(f"lhb bench lift: there is no world {world!r}; there are {known}")
    progress = printing(HEADER, as_json)
    rows = run(worlds, experiments, users, first_seed, progress)
    show({"experiments": experiments, "first_seed": first_seed, "worlds": rows}, as_json, ())


def oralytics(
    clone: Annotated[
        Path,
        typer.Argument(
            help="A clone of github.com/StatisticalReinforcementLearningLab/"
            "oralytics_algorithm_design, whose code is run.",
        ),
    ],
    seeds: Annotated[int, typer.Option(help="Number of trials of each kind.", min=2)] = 20,
    first_seed: FirstSeed = 2000,
    answers: Annotated[
        list[str] | None,
        typer.Option(help="How users answer after many messages: low, medium, high; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play a trial of messages about brushing teeth beside its designers' Thompson sampling.

    Example: lhb bench oralytics ../oralytics_algorithm_design --seeds 5
    """
    from benchmarks.oralytics import HEADER, SCALES, run

    if not clone.is_dir():
        raise typer.BadParameter(f"there is no folder {clone}")
    progress = printing(HEADER, as_json)
    scales = [scale for scale in SCALES if not answers or scale in answers]
    rows = run(clone, range(first_seed, first_seed + seeds), scales, progress)
    show({"first_seed": first_seed, "seeds": seeds, "rows": rows}, as_json, ())


def responses(
    seeds: Annotated[int, typer.Option(help="Number of draws of each world.", min=2)] = 150,
    first_seed: FirstSeed = 7000,
    as_json: AsJson = False,
) -> None:
    """How often what is said of own responses holds: spreads, users' theta, groups, their means.

    Example: lhb bench responses --seeds 20
    """
    from benchmarks.responses import HEADER, run

    progress = printing(HEADER, as_json)
    rows = run(range(first_seed, first_seed + seeds), progress)
    show({"first_seed": first_seed, "seeds": seeds, "worlds": rows}, as_json, ())
