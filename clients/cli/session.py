"""`lhb sessions` and `lhb session`: which there are, what was learned, what an agent adds."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, Signature, signature
from itertools import accumulate, starmap
from textwrap import wrap
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from clients.cli.output import (
    SERVER,
    WIDTH,
    AsJson,
    CommandGroup,
    LogError,
    ServerUrl,
    Url,
    counted,
    show,
    table,
)
from clients.cli.simulate import parse, read_option
from clients.sdk.settings import SettingChanges

if TYPE_CHECKING:
    from clients import Client, Session

session = typer.Typer(cls=CommandGroup, help="One session of a server.", no_args_is_help=True)
BAR = 20  # columns of the longest bar
LABEL = 24  # of the longest name of a feature: a line has 80 columns
DRAWN = "95% of posterior draws, widened; whether they hold is not known."
MOST_LAGS = 24  # with more of them, the largest weights alone are drawn
Name = Annotated[str, typer.Argument(help="Its name, or its id.")]
HEADS = ("id", "algorithm", "rounds", "model", "decides", "name")


@contextmanager
def asking(url: str, **how: Any) -> Iterator["Client"]:
    """Yield a client of a server; it is loaded only now, as other commands need none."""
    from clients import Client

    with Client(url, **how) as client:
        yield client


@session.command("show")
def show_session(name: Name, url: Url = SERVER, as_json: AsJson = False) -> None:
    """Show what checks find, theta, and draw the lag weights that decide now.

    Example: lhb session show tutorial
    """
    from clients import NotFound

    with asking(url) as client:
        try:
            handle = client.session(name)
        except NotFound:
            raise SystemExit(f"lhb session show: there is no session {name!r}") from None
        estimate, labels = handle.estimate(), _labels_of(handle)
    lines = _lines(handle.info, estimate, labels)
    show({"session": handle.info, "estimate": estimate}, as_json, lines)


@session.command("trajectory")
def show_trajectory(
    name: Name,
    key: Annotated[str, typer.Argument(help="Of the trajectory.")],
    url: Url = SERVER,
    as_json: AsJson = False,
) -> None:
    """Show a trajectory's own theta and its level, beside everybody's.

    Example: lhb session trajectory tutorial ann
    """
    with asking(url) as client:
        answer = client.session_handle(name).trajectory(key)
    show({**answer}, as_json, _trajectory_lines(answer))


def _trajectory_lines(trajectory: Mapping[str, Any]) -> Iterator[str]:
    deciding = trajectory["deciding"].replace("_", " ")
    n = counted(trajectory["n_rounds"], "round")
    yield f"{trajectory['trajectory'] or '(no key)'}: {n}, {deciding}"
    if trajectory["level"] is not None:
        low, high = trajectory["level"]["interval"]
        yield f"level {trajectory['level']['value']:+.4g} ({low:+.4g} to {high:+.4g})"
    everybody, own = trajectory["everybody"], trajectory["own"]
    if everybody is None:
        yield "No estimate is in use yet."
        return
    if own is None:
        yield "Decided for as everybody is."
    labels = _labels(trajectory["features"], len(everybody["values"]))
    columns = {"theta, by feature": [label[:LABEL] for label in labels]}
    group = f"{trajectory['group']['name']}'s" if trajectory["group"] else ""
    for head, theta in (("everybody's", everybody), (group, trajectory["group"]), ("own", own)):
        if theta is not None:
            columns[head] = [f"{value:+.4f}" for value in theta["values"]]
    if own is not None:
        bands = [f"{low:+.4f} to {high:+.4f}" for low, high in own["intervals"] or ()]
        columns["95% interval"] = bands or ["not known"] * len(labels)
    yield from table([*columns], zip(*columns.values(), strict=True))


def _labels(features: Sequence[str] | None, dim: int) -> list[str]:
    named = [*(features or ())]
    return [*named, *map(str, range(len(named), dim))]


def _labels_of(handle: "Session") -> list[str]:
    """Return what features are called: as the session says, else as the arm that one alone is."""
    labels = _labels(handle.info["features"], handle.info["dim"])
    for arm in () if handle.info["features"] else handle.credit_by_arm(bins=1)["items"]:
        has = [i for i, one in enumerate(arm["context"]) if one]
        if arm["is_fixed"] and len(has) == 1:
            labels[has[0]] = arm["arm_id"] or f"arm {arm['arm']}"
    return labels


@session.command("fit")
def ask_fit(name: Name, url: Url = SERVER, as_json: AsJson = False) -> None:
    """Have all rounds so far fitted now, out of turn.

    Example: lhb session fit tutorial
    """
    with asking(url) as client:
        answer = client.session_handle(name).ask_fit()
    show({**answer}, as_json, [answer.get("reason") or ASKED[answer["asked"]]])


CHANGES = {"name": str, "archived": bool, **get_type_hints(SettingChanges)}
WORDS = {str: "text", bool: "true or false", int: "number", float: "number", NoneType: "null"}


def _change(name: str, kind: Any) -> Parameter:
    """Return the command's parameter that changes a setting of this kind."""
    if name == "options":
        taken: Any = Annotated[list[str] | None, typer.Option(help="name=value; repeatable.")]
    else:
        words = " or ".join(WORDS.get(part, part) for part in get_args(kind) or (kind,))
        taken = Annotated[str | None, typer.Option(help=words)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=taken)


def change_session(session: Name, url: Url = SERVER, as_json: AsJson = False, **flags: Any) -> None:
    """Change a session, and show it.

    Example: lhb session change tutorial --name lesson --options levels=true
    """
    changes = {name: value for name, value in flags.items() if value}
    for name in changes.keys() - {"name"}:
        text = changes[name]
        changes[name] = dict(map(read_option, text)) if name == "options" else parse(text)
    if not changes:
        raise LogError("say what to change, such as --name lesson")
    with asking(url) as client:
        handle = client.session(session)
        info = handle.change(**changes)
        show({**info}, as_json, _lines(info, handle.estimate(), _labels_of(handle)))


*_own, _any = signature(change_session).parameters.values()
vars(change_session)["__signature__"] = Signature([*_own, *starmap(_change, CHANGES.items())])
session.command("change")(change_session)


@session.command("lift")
def show_lift(
    name: Name,
    effect: Annotated[
        float | None, typer.Option(help="A difference a round: how many more rounds show it?")
    ] = None,
    url: Url = SERVER,
    as_json: AsJson = False,
) -> None:
    """Show what the agent earns beside its control group, or beside its caller in a shadow.

    Example: lhb session lift tutorial --effect 0.1
    """
    with asking(url) as client:
        handle = client.session_handle(name)
        lift, shadow = handle.lift(effect=effect), handle.shadow()
    show({"lift": lift, "shadow": shadow}, as_json, _compared(lift, shadow, effect))


def _compared(
    lift: Mapping[str, Any], shadow: Mapping[str, Any], effect: float | None
) -> Iterator[str]:
    for name in ("agent", "control"):
        group = lift[name]
        if group["reward"] is not None:
            earned = f"{group['reward']:.4g} a round"
            n, of = counted(group["n_rounds"], "round"), counted(group["n_units"], "unit")
            yield f"{name:>8}: {earned}, {n}, {of}"
    gain = lift[lift["decides"]]
    for sentence in filter(None, (lift["verdict"], lift["groups_differ"])):
        yield from wrap(sentence, WIDTH)
    if gain is not None and gain["ratio"] is not None:
        low, high = (f"{gain[f'ratio_{end}'] - 1:+.1%}" for end in ("low", "high"))
        yield f"As a share of what control earns {gain['ratio'] - 1:+.1%}, {low} to {high}."
    if effect is not None and gain is not None:
        n = lift["rounds_to_go"]
        shown = "No number of rounds seen so far" if n is None else f"About {n:.0f} more rounds"
        if lift["days_to_go"] is not None:
            shown = f"{shown} ({lift['days_to_go']:.0f} days)"
        yield f"{shown} would show a difference of {effect:g}."
    if shadow["n_rounds"]:
        n_rounds = counted(shadow["n_rounds"], "round")
        yield f"  shadow: agrees in {shadow['agreement']:.1%} of {n_rounds}"
        if shadow["expected_agent"] is not None:
            yield (
                f"          an action pays {shadow['expected_caller']:.4g}, the agent's "
                f"{shadow['expected_agent']:.4g} (by the model, {shadow['n_scored']} rounds)"
            )


ASKED = {
    "begun": "A fit of all rounds so far is due now.",
    "due": "A fit is due already; no other one begins.",
    "nothing_new": "All rewards are in the last fit: nothing to do.",
}


def _lines(
    info: Mapping[str, Any], estimate: Mapping[str, Any], labels: Sequence[str]
) -> Iterator[str]:
    deciding = info["deciding"].replace("_", " ")
    rounds = f"{info['algorithm']}, {counted(info['n_rounds'], 'round')}, {deciding}"
    yield f"{info['name'] or info['id']}: {rounds}"
    for finding in estimate.get("findings") or ():
        yield from wrap(f"! {finding['message']}", WIDTH, subsequent_indent="  ")
    for one in estimate.get("unchecked") or ():
        yield from wrap(one["message"], WIDTH, subsequent_indent="  ")
    if estimate.get("theta") is None:
        yield "No estimate is in use yet."
        return
    if estimate["reason"]:
        yield from wrap(estimate["reason"], WIDTH)
    if estimate.get("own"):
        yield from wrap(estimate["own"]["message"], WIDTH)
    yield from _decides(estimate)
    if bands := estimate["intervals"] or {}:
        what = DRAWN if bands.get("drawn") else "95% intervals."
        yield from wrap(f"In brackets: {what} {estimate['no_intervals'] or ''}", WIDTH)
    yield ""
    yield "theta, by feature"
    labels = [*labels, *(estimate["features"] or ())[len(labels) :]]  # of products
    ends = dict(enumerate(bands.get("theta", ())))
    yield from _bars(range(len(estimate["theta"])), estimate["theta"], set(), ends, labels)
    yield ""
    if profiles := estimate["lag_profiles"]:
        each = zip(labels, zip(*profiles, strict=True), strict=False)
        rows = ((label[:LABEL], *_split(of)) for label, of in each)
        yield from table(("pays, by feature", "at once", "later", "in all"), rows)
        return
    weights = estimate["lag_weights"]
    yield f"lag weights, by rounds ago (* active, of {info['horizon']} lags)"
    largest = sorted(range(len(weights)), key=lambda lag: -abs(weights[lag]))[:MOST_LAGS]
    ends = dict(zip(bands.get("lags", ()), bands.get("lag_weights", ()), strict=True))
    yield from _bars(sorted(largest), weights, set(estimate["active_lags"] or ()), ends)


def _decides(estimate: Mapping[str, Any]) -> Iterator[str]:
    """Say what choices earn, which lag profiles decide, and how much better they predict."""
    for name, one in (estimate["gain"] or {}).items():
        if isinstance(one, dict):
            band = f"({one['low']:+.4g} to {one['high']:+.4g})"
            yield f"{name.replace('_', ' ')}: {one['value']:+.4g} a round {band}"
    yield f"Lag profiles: {estimate['form'] or 'shared'}."
    for name, one in (estimate["forms"] or {}).items():
        if one["variance"]:
            better = -one["excess"] / one["variance"] ** 0.5
            yield f"  {name} ones predict {better:+.1f} standard errors better than shared ones"


def _split(profile: Sequence[float]) -> list[str]:
    """Return what is paid at once, later and in all, split as `credit_by_feature` does."""
    total = sum(profile)
    first = min(accumulate(profile), key=lambda one: one * total)
    return [f"{one:+.4g}" for one in (first, total - first, total)]


def _bars(
    numbers: Sequence[int],
    values: Sequence[float],
    marked: set[int],
    ends: Mapping[int, Sequence[float] | None],
    labels: Sequence[str] | None = None,
) -> Iterator[str]:
    longest = max((abs(value) for value in values), default=0.0) or 1.0
    shown = {number: str(number) if labels is None else labels[number] for number in numbers}
    width = min(LABEL, max(6, *map(len, shown.values()))) if shown else 0
    for number, label in shown.items():
        bar = "█" * round(BAR * abs(values[number]) / longest)
        mark = "*" if number in marked else " "
        band = "({:+.4f} to {:+.4f})".format(*low_high) if (low_high := ends.get(number)) else ""
        yield f"{label[:width]:>{width}} {mark} {values[number]:+9.4f} {band:20} {bar}".rstrip()


def sessions(
    url: ServerUrl = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="Include archived sessions.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List sessions. Without --url, from the database of LHB_DATABASE_URL, beside its server.

    Example: lhb sessions --url http://127.0.0.1:8080
    """
    if url is not None:  # those of the key's tenant
        with asking(url) as client:
            infos = [session.info for session in client.sessions(archived=archived)]
        show({"sessions": infos}, as_json, table(HEADS, map(_row, infos)))
        return
    listed = _from_database(archived)
    rows = ((*_row(one)[:-1], one["tenant"] or "-", one["name"] or "") for one in listed)
    show({"sessions": listed}, as_json, table((*HEADS[:-1], "tenant", HEADS[-1]), rows))


def _from_database(archived: bool) -> list[Mapping[str, Any]]:
    """Read every tenant's sessions, beside a running server."""
    from service.api.sessions import session_answer
    from service.base.server_settings import read_settings
    from service.storage.database_url import open_reader
    from service.transfer.without_server import all_sessions
    from service.writer.agent_cache import deciding

    with open_reader(read_settings().database_url) as reader:
        return [
            {"tenant": one.tenant, **session_answer(one, deciding(reader, one))}
            for one in all_sessions(reader)
            if archived or one.archived_at is None
        ]


def _row(session: Mapping[str, Any]) -> tuple[object, ...]:
    decides = "archived" if session["archived"] else session["deciding"].replace("_", " ")
    counts = session["n_rounds"], session["model_version"]
    return session["id"], session["algorithm"], *counts, decides, session["name"] or ""
