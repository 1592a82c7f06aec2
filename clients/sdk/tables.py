"""Answers as a pandas DataFrame, and as a matplotlib figure. Both are imported when asked for."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

COLUMNS = ("of", "name", "value", "low", "high", "drawn")  # of an estimate's table
UNKNOWN = (None, None)


def to_frame(answer: Iterable[Any]) -> Any:
    """Return an answer, or a listing, as a DataFrame.

    An estimate has a row for each number of `theta`, and for each of its `lag_weights`, with 95%
    intervals, or bands of draws (`drawn`); lift has a row a point, what has items (`series`,
    `credit_by_feature`) one an item, and any other answer is one row.
    """
    pandas = _needed("pandas", "to_frame")
    if not isinstance(answer, Mapping):
        return pandas.DataFrame(list(answer))
    if answer.get("lag_weights") is not None:
        return pandas.DataFrame(_estimated(answer), columns=COLUMNS)
    rows = answer.get("items", answer.get("points"))
    return pandas.DataFrame([answer] if rows is None else rows)


def plot(answer: Mapping[str, Any]) -> Any:
    """Return a figure of an answer: of an estimate, a series, lift, or credit by feature.

    Raises
    ------
    ValueError
        There is nothing to draw: the answer is another one, or says why it is empty.
    """
    pyplot = _needed("matplotlib.pyplot", "plot")
    table = to_frame(answer)
    columns = {*table.columns}
    if table.empty or not columns & {"of", "expected", "difference", "at_once"}:
        raise ValueError(answer.get("reason") or "there is nothing to draw in this answer")
    n_parts = table["of"].nunique() if "of" in columns else 1
    figure, axes = pyplot.subplots(1, n_parts, layout="constrained", squeeze=False)
    first = axes[0, 0]
    if "of" in columns:
        for axis, (of, part) in zip(axes[0], table.groupby("of", sort=False), strict=True):
            bars = part["value"] - part["low"], part["high"] - part["value"]
            axis.bar(part["name"].map(str), part["value"], yerr=bars)
            axis.set(title=f"{of}, bands of draws" if part["drawn"].any() else of)
    elif "expected" in columns:
        table.plot(x="last_round", y=["reward", "expected"], ax=first)
    elif "difference" in columns:
        first.fill_between(table["n_rounds"], table["low"], table["high"], alpha=0.3)
        table.plot(x="n_rounds", y="difference", ax=first)
    else:
        names = table["name"].where(table["name"].notna(), table["feature"]).map(str)
        table.set_axis(names).plot.bar(y=["at_once", "later"], ax=first)
    return figure


def _estimated(estimate: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
    of_estimate = estimate.get("intervals") or {}
    theta, drawn = estimate["theta"], bool(of_estimate.get("drawn"))
    names = estimate.get("features") or range(len(theta))
    intervals = of_estimate.get("theta") or [UNKNOWN] * len(theta)
    for name, value, interval in zip(names, theta, intervals, strict=False):
        yield "theta", name, value, *interval, drawn
    at = dict(zip(of_estimate.get("lags", ()), of_estimate.get("lag_weights", ()), strict=True))
    for lag, value in enumerate(estimate["lag_weights"]):
        yield "lag weight", lag, value, *(at.get(lag) or UNKNOWN), drawn


def _needed(module: str, function: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = module.partition(".")[0]
        raise ImportError(f"{function} needs {name}: pip install {name}") from error
