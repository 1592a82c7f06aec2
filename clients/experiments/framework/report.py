"""The report docs/results.md, made from the records of docs/results and from docs/claims.toml."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from clients.experiments import EXPERIMENTS, load_experiment
from clients.experiments.framework.claims import (
    NO_RATE,
    Item,
    Outcome,
    Rule,
    Rulebook,
    Verdict,
    load_rulebook,
)
from clients.experiments.framework.experiment import Experiment, Scale
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
        paths = {name: record_path(target, name, each) for name in EXPERIMENTS}
        records[each] = {n: Record.read(path) for n, path in paths.items() if path.exists()}
    own = records[scale]
    verdicts = [v for record in own.values() for v in record.verdicts(rulebook)]
    parts = [
        HEAD.format(arms=scale.arms, noise=scale.noise, seeds=scale.seeds),
        _items(rulebook, verdicts),
        _sensitivity(records, rulebook),
        *(_section(name, own.get(name), rulebook, scale) for name in EXPERIMENTS),
        _runs(own, target, scale),
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


def spent(cpu_seconds: float) -> str:
    """Return a processor time in words, and what it comes to on two cores."""
    return f"{cpu_seconds:.0f} s of processor time, {cpu_seconds / 120:.1f} minutes on two cores"


def _deciding(verdict: Verdict) -> str:
    """Return the setting that decides: the worst one, or the last that agrees."""
    if not verdict.intervals:
        return ""
    order = (Outcome.FAILS, Outcome.UNDECIDED, Outcome.HOLDS)
    name = min(verdict.parts, key=lambda part: order.index(verdict.parts[part]))
    return f"{name}: {verdict.intervals[name]}"


def _required(rule: Rule) -> str:
    if rule.relation == "within":
        return f"{rule.target:g} ± {rule.margin:g}"
    return f"{rule.relation} {rule.target:g}"


def _items(rulebook: Rulebook, verdicts: Sequence[Verdict]) -> str:
    """Return what the paper says and the outcomes of its claims, as a list in Markdown.

    Items without claims are named by their places.
    """
    outcomes: dict[str, list[str]] = {}
    for verdict in verdicts:
        outcomes.setdefault(verdict.rule.id, []).append(str(verdict.outcome))
    judged, others = [], []
    for item in rulebook.items:
        if judgement := _judgement(item, outcomes):
            judged.append(f"- **{item.place}**: {item.what.removesuffix('.')}. {judgement}")
        else:
            others.append(item.place)
    items = "\n".join(judged)
    left = f"Not judged, for the reasons in [claims.toml](claims.toml): {'; '.join(others)}."
    return f"## Every item of the paper\n\n{items}\n\n{left}\n".replace("|", "\\|")


def _judgement(item: Item, outcomes: dict[str, list[str]]) -> str:
    """Return the outcomes of an item's claims by experiment."""
    by_experiment: dict[str, Counter[str]] = {}
    for claim in item.claims:
        counts = by_experiment.setdefault(claim.partition(".")[0], Counter())
        counts.update(outcomes.get(claim, ["not run"]))
    return "; ".join(
        f"[{name}](#{name}): {_counted(counts)}" for name, counts in by_experiment.items()
    )


def _counted(counts: Counter[str]) -> str:
    """Return how many of each outcome there are, or the one that all have."""
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{n} {outcome}" for outcome, n in counts.items())


def _section(name: str, record: Record | None, rulebook: Rulebook, scale: Scale) -> str:
    experiment = load_experiment(name)
    if record is None:
        return f"## {name}\n\nNot run in this edition (`lhb reproduce {name}`).\n"
    verdicts = record.verdicts(rulebook)
    lines = [
        f"## {name}",
        "",
        f"{experiment.title} ({experiment.source}).",
        "",
        f"![{name}](figures/{name}.png)",
        "",
        _caption(record, scale),
        "",
        _claims(verdicts) if verdicts else "No claim is judged here.\n",
    ]
    return "\n".join(lines)


def _caption(record: Record, scale: Scale) -> str:
    """Return the settings of a record, less what the page's opening says of all."""
    caption = record.caption
    usual = (
        f"; {Experiment.bands}",
        f"; K={scale.arms}",
        f"; noise sd {scale.noise:g}",
        f" {scale.seeds} seeds.",
    )
    for words in usual:
        if caption.count(words) == 1 and words + " sum(w)" not in caption:
            caption = caption.replace(words, "")
    return caption


def _claims(verdicts: Sequence[Verdict]) -> str:
    """Return a line for each claim, with the verdicts of all algorithms that it judges."""
    by_claim: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_claim.setdefault(verdict.rule.id, []).append(verdict)
    lines = []
    for judged in by_claim.values():
        rule, required = judged[0].rule, _required(judged[0].rule)
        words = f"{rule.says} ({rule.doubt})" if rule.doubt else rule.says
        words += "" if required == "below 0" else f"; required: {required}"
        lines.append(f"- {words}: {'; '.join(_judged(verdict) for verdict in judged)}")
    return "\n".join(lines).replace("|", "\\|") + "\n"


def _judged(verdict: Verdict) -> str:
    """Return whom a verdict judges, its outcome, its remarks and the setting that decides.

    The page's opening says of all bounds that their rates are not seen.
    """
    of = f"{verdict.rule.agent} " if verdict.rule.agent else ""
    remarks = f" ({'; '.join(verdict.remarks)})" if verdict.remarks else ""
    remarks = remarks.replace(f"; {NO_RATE}", "")
    deciding = _deciding(verdict)
    return f"{of}**{verdict.outcome}**{remarks}{deciding and ', ' + deciding}"


def _runs(records: dict[str, Record], target: Path, scale: Scale) -> str:
    """Return what was run: seeds and processor time of each record, as Markdown."""
    parts = []
    for name, record in records.items():
        first, last, _ = record.seeds
        cost = "time not measured" if record.cpu_seconds is None else f"{record.cpu_seconds:.0f} s"
        seeds = "" if (first, last) == (0, scale.seeds - 1) else f", seeds {first} to {last}"
        link = f"[{name}]({target.stem}/{record_path(target, name, scale).name})"
        parts.append(f"{link} {record.n_cases} ({cost}{seeds})")
    seconds = sum(record.cpu_seconds or 0.0 for record in records.values())
    about = (
        f"Code, commit and versions of libraries are in the records. Runs of each, with the time "
        f"of a processor; seeds are 0 to {scale.seeds - 1} unless said:\n{', '.join(parts)}.\n"
    )
    return f"## Runs\n\nTogether: {spent(seconds)}. {about}"


def _sensitivity(records: dict[Scale, dict[str, Record]], rulebook: Rulebook) -> str:
    """Return the verdicts by claim and scale; empty if only the default scale was run."""
    rows = []
    for name in EXPERIMENTS:
        runs = [own.get(name) for own in records.values()]
        if not load_experiment(name).varies or sum(each is not None for each in runs) < 2:
            continue
        judged = [record.verdicts(rulebook) if record else [] for record in runs]
        for i, rule in enumerate(rulebook.of(name)):
            marks = [SIGNS[verdicts[i].outcome] if verdicts else "-" for verdicts in judged]
            rows.append((f"{rule.id}: {rule.title}", *marks))
    if not rows:
        return ""
    heads = ["claim", *(f"noise {each.noise:g}, K={each.arms}" for each in records)]
    about = (
        "## How the verdicts move with noise and K\n\n"
        "yes: holds; no: does not hold; ?: undecided; -: too few seeds, or not run. Either noise "
        "or K changes.\n\n"
    )
    return about + markdown(heads, rows)
