"""The report docs/results.md, made from the records of docs/results and from docs/claims.toml."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from clients.experiments import EXPERIMENTS, load_experiment
from clients.experiments.framework.claims import Outcome, Rulebook, Verdict, load_rulebook
from clients.experiments.framework.experiment import Scale
from clients.experiments.framework.figure import draw_figure
from clients.experiments.framework.record import Record, record_path
from clients.experiments.framework.results_head import HEAD
from clients.experiments.framework.sweep import csv_path
from clients.experiments.framework.table import Table, markdown

NOISES, ARMS = (0.05, 0.1, 0.5, 1.0), (3, 10, 30)
SIGNS = {
    Outcome.HOLDS: "yes",
    Outcome.FAILS: "no",
    Outcome.UNDECIDED: "?",
    Outcome.NOT_JUDGED: "-",
}


def sensitivity_scales(scale: Scale) -> list[Scale]:
    """Return the default worlds, then other noise, then other K: one at a time."""
    others = [replace(scale, noise=noise) for noise in NOISES]
    others += [replace(scale, arms=arms) for arms in ARMS]
    return list(dict.fromkeys([scale, *others]))


def write_report(folder: Path, target: Path, scale: Scale) -> list[str]:
    """Write `target` from the records beside it, after taking up the runs in `folder`.

    Returns
    -------
    list of str
        What a reader should know: experiments without a record, and runs that were not taken up.
    """
    rulebook = load_rulebook()
    records: dict[Scale, dict[str, Record]] = {}
    warnings = []
    for each in sensitivity_scales(scale):
        for name in EXPERIMENTS:
            warning = _take_up(folder, target, each, name, rulebook)
            warnings += [warning] if warning else []
        found = {name: record_path(target, name, each) for name in EXPERIMENTS}
        records[each] = {n: Record.read(path) for n, path in found.items() if path.exists()}
    own = records[scale]
    verdicts = [v for record in own.values() for v in record.verdicts(rulebook)]
    parts = [
        HEAD.format(arms=scale.arms, noise=scale.noise),
        _summary(verdicts),
        _cost(list(own.values())),
        _changed(verdicts),
        _sensitivity(records, rulebook),
        _items(rulebook, verdicts),
        *(_section(name, own.get(name), rulebook) for name in EXPERIMENTS),
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(part for part in parts if part), encoding="utf-8")
    return [*warnings, *(f"no results of {name}" for name in EXPERIMENTS if name not in own)]


def _take_up(folder: Path, target: Path, scale: Scale, name: str, rulebook: Rulebook) -> str:
    """Write the record and the figure of a finished run; return why not, if so.

    Figures are those of the default worlds. A run on fewer seeds than the record has is left.
    """
    csv, kept = csv_path(folder, name, scale), record_path(target, name, scale)
    if not csv.exists():
        return ""
    experiment, table = load_experiment(name), Table.read(csv)
    about = json.loads(csv.with_suffix(".json").read_text(encoding="utf-8"))
    record = Record.of(experiment, table, about, scale, rulebook)
    if kept.exists() and record.seeds[2] < (more := Record.read(kept).seeds[2]):
        return f"{csv} has {record.seeds[2]} seeds, {kept} has {more}: not taken up"
    record.write(kept)
    if (scale.noise, scale.arms) == (Scale.noise, Scale.arms):
        draw_figure(experiment, table, target.parent / "figures" / f"{name}.png", scale)
    return ""


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


def _cost(records: Sequence[Record]) -> str:
    """Return what all runs cost together, as Markdown."""
    known = [record.cpu_seconds for record in records if record.cpu_seconds is not None]
    rest = f" ({len(known)} of {len(records)} records say theirs)"
    told = spent(sum(known)) + (rest if len(known) < len(records) else "")
    return f"`lhb reproduce all` at these seeds: {told}.\n"


def spent(cpu_seconds: float) -> str:
    """Return a processor time in words, and what it comes to on two cores."""
    return f"{cpu_seconds:.0f} s of processor time, {cpu_seconds / 120:.1f} minutes on two cores"


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


def _section(name: str, record: Record | None, rulebook: Rulebook) -> str:
    experiment = load_experiment(name)
    if record is None:
        return f"## {name}\n\nNot run in this edition (`lhb reproduce {name}`).\n"
    rows = []
    for v in record.verdicts(rulebook):
        parts = "; ".join(f"{name}: {i} {v.parts[name]}" for name, i in v.intervals.items())
        rows.append((v.rule.title, f"{v.rule.statistic}; {_asked(v)}", parts, f"**{v}**"))
    versions = ", ".join(f"{k} {v}" for k, v in record.identity["libraries"].items())
    first, last, _ = record.seeds
    spent = record.cpu_seconds
    cost = "time not measured" if spent is None else f"{spent:.0f} s of processor time"
    lines = [
        f"## {name}",
        "",
        f"{experiment.title} ({experiment.source}).",
        "",
        f"![{experiment.title}](figures/{name}.png)",
        "",
        record.caption,
        "",
        markdown(("claim", "statistic", "settings [interval]", "verdict"), rows) if rows else "",
        record.details,
        f"{record.n_cases} runs, seeds {first} to {last}, {cost}, "
        f"{record.identity['transport']}; {versions}; "
        f"code {record.identity['code']}, commit {record.commit[:12]}.",
        "",
    ]
    return "\n".join(lines)


def _sensitivity(records: dict[Scale, dict[str, Record]], rulebook: Rulebook) -> str:
    """Return the verdicts by claim and scale; empty if only the default scale was run."""
    rows = []
    for name in EXPERIMENTS:
        found = [own.get(name) for own in records.values()]
        if not load_experiment(name).varies or sum(each is not None for each in found) < 2:
            continue
        judged = [record.verdicts(rulebook) if record else [] for record in found]
        for i, rule in enumerate(rulebook.of(name)):
            marks = [SIGNS[verdicts[i].outcome] if verdicts else "-" for verdicts in judged]
            rows.append((f"{rule.id}: {rule.title}", *marks))
    if not rows:
        return ""
    heads = ["claim", *(f"noise {each.noise:g}, K={each.arms}" for each in records)]
    about = (
        "## How the verdicts move with noise and K\n\n"
        "yes: holds; no: does not hold; ?: undecided; -: too few seeds for the rule, or not run. "
        "One of noise and K is changed at a time.\n\n"
    )
    return about + markdown(heads, rows)
