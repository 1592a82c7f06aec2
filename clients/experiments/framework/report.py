"""The report docs/results.md and its figures, made from the CSVs and docs/claims.toml."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

from clients.experiments import EXPERIMENTS, load_experiment
from clients.experiments.framework.claims import Outcome, Rulebook, Verdict, load_rulebook
from clients.experiments.framework.experiment import Experiment, Scale
from clients.experiments.framework.results_head import HEAD
from clients.experiments.framework.sweep import csv_path
from clients.experiments.framework.table import Table, markdown

DPI = 90  # low, since the pictures are committed
NOISES, ARMS = (0.05, 0.1, 0.5, 1.0), (3, 10, 30)
SIGNS = {
    Outcome.HOLDS: "yes",
    Outcome.FAILS: "no",
    Outcome.UNDECIDED: "?",
    Outcome.NOT_JUDGED: "-",
}


def draw_figure(
    experiment: Experiment, table: Table, path: Path, scale: Scale, dpi: int = DPI
) -> None:
    """Draw one experiment's figure as a PNG, with its settings, seeds and bands below it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    with plt.rc_context({"font.size": 8, "axes.grid": True, "grid.alpha": 0.25}):
        width, height = experiment.figure_size
        lines = textwrap.wrap(caption(experiment, table, scale), round(17 * width))
        below = 0.13 * len(lines) + 0.05  # inches
        figure = plt.figure(figsize=(width, height + below))
        bottom = below / (height + below)
        figure.set_layout_engine("constrained", rect=(0, bottom, 1, 1 - bottom))
        experiment.draw(table, figure)
        figure.text(0.5, 0.03 / (height + below), "\n".join(lines), ha="center", fontsize=6.5)
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = BytesIO()
        figure.savefig(picture, dpi=dpi)
        plt.close(figure)
    # a palette looks the same at a third of the size
    Image.open(picture).convert("RGB").quantize(64).save(path, optimize=True)


def caption(experiment: Experiment, table: Table, scale: Scale) -> str:
    """Return the caption of a figure: settings, seeds, and the meaning of its bands."""
    told = experiment.choices
    if "regret" in table[0]:  # played, in worlds with arms and noise
        told += "" if "K=" in told else f"; K={scale.arms}"
        told += "" if "noise" in told else f"; noise sd {scale.noise:g}"
    return f"{told}. {len(table.values('seed'))} seeds; {experiment.bands}."


def sensitivity_scales(scale: Scale) -> list[Scale]:
    """Return the default worlds, then other noise, then other K: one at a time."""
    others = [replace(scale, noise=noise) for noise in NOISES]
    others += [replace(scale, arms=arms) for arms in ARMS]
    return list(dict.fromkeys([scale, *others]))


def write_report(folder: Path, target: Path, scale: Scale) -> list[str]:
    """Write `target` and the figures beside it; return the experiments that have no CSV yet."""
    rulebook = load_rulebook()
    found: list[Verdict] = []
    sections, absent = [], []
    for name in EXPERIMENTS:
        experiment = load_experiment(name)
        path = csv_path(folder, name, scale)
        if not path.exists():
            absent.append(name)
            sections.append(f"## {name}\n\nNot run in this edition (`lhb reproduce {name}`).\n")
            continue
        table = Table.read(path)
        about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        draw_figure(experiment, table, target.parent / "figures" / f"{name}.png", scale)
        verdicts = experiment.judge(table, rulebook)
        found += verdicts
        told = caption(experiment, table, scale)
        sections.append(_section(experiment, table, verdicts, about, told))
    parts = [
        HEAD.format(arms=scale.arms, noise=scale.noise),
        _summary(found),
        _changed(found),
        _sensitivity(folder, scale, rulebook),
        _items(rulebook, found),
        *sections,
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(part for part in parts if part), encoding="utf-8")
    return absent


def _summary(verdicts: Sequence[Verdict]) -> str:
    heads = ("claim", "the paper's place", "verdict", "statistic, deciding setting", "seeds")
    rows = [
        (
            f"[{v.rule.id}](#{v.rule.experiment}): {v.rule.title}",
            v.rule.place,
            f"**{v.outcome}**" + (f" ({v.note})" if v.note else ""),
            _deciding(v),
            str(v.seeds),
        )
        for v in verdicts
    ]
    return "## Verdicts\n\n" + markdown(heads, rows)


def _deciding(verdict: Verdict) -> str:
    """Return the setting that decides: the worst one, or the last that agrees."""
    if not verdict.intervals:
        return ""
    order = (Outcome.FAILS, Outcome.UNDECIDED, Outcome.HOLDS)
    name = min(verdict.parts, key=lambda part: order.index(verdict.parts[part]))
    return f"{name}: {verdict.intervals[name]}; {_asked(verdict)}"


def _asked(verdict: Verdict) -> str:
    rule = verdict.rule
    if rule.relation == "within":
        return f"asked: {rule.target:g} ± {rule.margin:g}"
    return f"asked: {rule.relation} {rule.target:g}"


def _changed(verdicts: Sequence[Verdict]) -> str:
    """Return the changes of verdicts and rules since the last edition, as Markdown."""
    by_id: dict[str, list[Verdict]] = {}
    for v in verdicts:
        by_id.setdefault(v.rule.id, []).append(v)
    rows = []
    for name, found in by_id.items():
        rule, now = found[0].rule, {str(v.outcome) for v in found}
        if rule.last == "new" or now == {rule.last}:
            continue
        told = [f"{v.rule.agent}: {v.outcome}" if v.rule.agent else str(v.outcome) for v in found]
        reasons = "; ".join(f"{reason} ({date})" for date, reason in rule.changes)
        rows.append((name, rule.last, "; ".join(told), reasons))
    if not rows:
        return ""
    about = (
        "## What changed against the last edition\n\n"
        "The last edition judged 10 seeds by two standard errors, and gave rivals the better of "
        "two variants a panel.\n\n"
    )
    return about + markdown(("claim", "last edition", "now", "changes of the rule, and why"), rows)


def _items(rulebook: Rulebook, verdicts: Sequence[Verdict]) -> str:
    outcomes: dict[str, list[str]] = {}
    for v in verdicts:
        outcomes.setdefault(v.rule.id, []).append(str(v.outcome))
    rows = [
        (
            item.place,
            item.what,
            "; ".join(f"{c}: {', '.join(dict.fromkeys(outcomes.get(c, ['not run'])))}"
                      for c in item.claims) or f"none: {item.reason}",
        )
        for item in rulebook.items
    ]  # fmt: skip
    heads = ("place", "what it says", "judged by")
    return "## Every item of the paper\n\n" + markdown(heads, rows)


def _section(
    experiment: Experiment,
    table: Table,
    verdicts: Sequence[Verdict],
    about: dict[str, Any],
    told: str,
) -> str:
    rows = []
    for v in verdicts:
        parts = "; ".join(f"{name}: {i} {v.parts[name]}" for name, i in v.intervals.items())
        rows.append((v.rule.title, f"{v.rule.statistic}; {_asked(v)}", parts, f"**{v}**"))
    versions = ", ".join(f"{k} {v}" for k, v in about["identity"]["libraries"].items())
    seeds = about["seeds"]
    details = experiment.details(table) if experiment.details else ""
    lines = [
        f"## {experiment.name}",
        "",
        f"{experiment.title} ({experiment.source}).",
        "",
        f"![{experiment.title}](figures/{experiment.name}.png)",
        "",
        told,
        "",
        markdown(("claim", "statistic", "settings [interval]", "verdict"), rows) if rows else "",
        details,
        f"{about['n_cases']} runs, seeds {seeds[0]} to {seeds[-1]}, "
        f"{about['case_seconds']:.0f} s of work, {about['identity']['transport']}; {versions}; "
        f"code {about['identity']['code']}, commit {about['commit'][:12]}.",
        "",
    ]
    return "\n".join(lines)


def _sensitivity(folder: Path, scale: Scale, rulebook: Rulebook) -> str:
    """Return the verdicts by claim and scale; empty if only the default scale was run."""
    settings = sensitivity_scales(scale)
    rows = []
    for name in EXPERIMENTS:
        experiment = load_experiment(name)
        paths = [csv_path(folder, name, each) for each in settings]
        if not experiment.varies or sum(path.exists() for path in paths) < 2:
            continue
        judged = [experiment.judge(Table.read(p), rulebook) if p.exists() else [] for p in paths]
        for i, rule in enumerate(rulebook.of(name)):
            marks = [SIGNS[verdicts[i].outcome] if verdicts else "-" for verdicts in judged]
            rows.append((f"{rule.id}: {rule.title}", *marks))
    if not rows:
        return ""
    heads = ["claim", *(f"noise {each.noise:g}, K={each.arms}" for each in settings)]
    about = (
        "## How the verdicts move with noise and K\n\n"
        "yes: holds; no: does not hold; ?: undecided; -: too few seeds for the rule, or not run. "
        "One of noise and K is changed at a time.\n\n"
    )
    return about + markdown(heads, rows)
