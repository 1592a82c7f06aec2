"""The page of results, docs/results/worlds.md: what is reached in worlds that nobody here wrote."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.other_worlds import media_mix, satisfaction, step_count, temperature

Rows = list[tuple[str, list[float]]]


@dataclass(frozen=True)
class OtherWorld:
    """A world, whose it is, and how it is played."""

    name: str
    package: str
    licence: str
    install: str
    run: Callable[[range], Rows]
    says: str


OTHERS = (
    OtherWorld(
        "Steps after messages",
        "StepCountJITAI",
        "MIT",
        "pip install '.[worlds]'",
        step_count.run,
        "Steps an episode, the last 20 of 80; the context is uncertain (sigma 0.4). An arm says "
        "whom a message is for and how surely it fits. Whoever keeps a cadence knows the rule "
        "and the likelier context; the best theta of 150 is chosen on six episodes of another "
        "world. What a message costs depends on the messages that follow, so no linear model "
        "holds. `anytime` **loses** to the cadences of 2 and 3, unless both settings are told: "
        "a memory of 2 rounds, chosen on seeds 0 to 3.",
    ),
    OtherWorld(
        "Choc and kale",
        "RecSim",
        "Apache 2.0",
        "pip install --no-deps recsim==0.2.4, and pip install '.[worlds]'",
        satisfaction.run,
        "Sum of log seconds watched, the last 30 rounds of the last 20 of 40 users, sensitivity "
        "0.1, ten items a round; `anytime` has one feature, how much of a clickbait an item is.",
    ),
    OtherWorld(
        "Advertising channels",
        "mmm-param-recovery",
        "Apache 2.0",
        "the repository pymc-labs/mmm-param-recovery on PYTHONPATH",
        media_mix.run,
        "Error of all channels' contributions over their sum, without saturation, by "
        "`LaggedGroupLasso` with the seasons of each region as controls. PyMC-Marketing reaches "
        "5 to 6% with saturation, which is another task.",
    ),
    OtherWorld(
        "Deaths by temperature",
        "dlnm",
        "GPL 2 or later, run and not copied",
        "pip install '.[worlds]'",
        temperature.run,
        "5114 days of Chicago: the rate of deaths at 10 degrees more of cold (below 15) and of "
        "heat (above 25), all lags together, and how many of dlnm's 22 points lie in the 95% "
        "bands of `LaggedGroupLasso`. dlnm's curves are steps of three heights, which the days "
        "refuse (F 2.4 of 16 numbers, p 0.001): its own quasi-Poisson regression of all lags "
        "has 0.86, too.",
    ),
)


def page(
    seeds: range,
    names: list[str],
    say: Callable[[str], None],
    worlds: tuple[OtherWorld, ...] = OTHERS,
) -> str:
    """Play the worlds that are installed, and return the page."""
    lines = [
        "# Worlds that nobody here wrote",
        "",
        f"By `lhb bench worlds --seeds {len(seeds)} --first-seed {seeds.start}`: means "
        "and their standard errors. No choice was made on these seeds.",
    ]
    for world in worlds:
        if not names or world.package in names:
            lines += ["", *_section(world, seeds, say)]
    return "\n".join(lines) + "\n"


def _section(world: OtherWorld, seeds: range, say: Callable[[str], None]) -> Iterator[str]:
    yield f"## {world.name}"
    yield ""
    yield f"{world.package} ({world.licence}; {world.install}). {world.says}"
    yield ""
    try:
        rows = world.run(seeds)
    except ModuleNotFoundError as error:
        say(f"SKIPPED {world.package}: {error}. Install it: {world.install}")
        yield f"**Skipped**: {error}."
        return
    for name, values in rows:
        mean = float(np.mean(values))
        digits = 0 if mean >= 300 else 1 if mean >= 10 else 2
        line = f"- {name}: {mean:.{digits}f}"
        if len(values) > 1:
            line += f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.{digits}f}"
        say(f"{world.package}: {line.removeprefix('- ')}")
        yield line
