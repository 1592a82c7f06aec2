"""Tables of results, with an exact round trip to CSV and the statistics that verdicts need."""

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lhb_engine.history import Floats

Row = dict[str, Any]


class Mean(NamedTuple):
    """A mean over seeds and its standard error (NaN for a single seed)."""

    value: float
    error: float

    def __str__(self) -> str:
        size = self.error if self.error > 0 else abs(self.value) / 100
        digits = min(max(0, 1 - math.floor(math.log10(size))), 4) if size > 0 else 1
        return f"{self.value:.{digits}f} ± {self.error:.{digits}f}"


class Table(Sequence[Row]):
    """An immutable list of rows with the same columns."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def where(self, **equal: Any) -> "Table":
        """Return the rows whose columns have these values."""
        items = equal.items()
        return Table(row for row in self._rows if all(row[name] == value for name, value in items))

    def column(self, name: str) -> Floats:
        """Return a column as numbers, (n_rows,)."""
        return np.array([row[name] for row in self._rows], dtype=np.float64)

    def values(self, name: str) -> list[Any]:
        """Return the distinct values of a column, in order of appearance."""
        return list(dict.fromkeys(row[name] for row in self._rows))

    def by(self, name: str) -> Iterator[tuple[Any, "Table"]]:
        """Yield each distinct value of a column with its rows, in order of appearance."""
        groups: dict[Any, list[Row]] = {}
        for row in self._rows:
            groups.setdefault(row[name], []).append(row)
        for value, rows in groups.items():
            yield value, Table(rows)

    def by_seed(self, name: str) -> dict[int, float]:
        """Return a column by seed.

        Raises
        ------
        ValueError
            A seed has more than one row.
        """
        out = {int(row["seed"]): float(row[name]) for row in self._rows}
        if len(out) != len(self._rows):
            raise ValueError("more than one row a seed")
        return out

    def mean(self, name: str) -> Mean:
        """Return the mean of a column and its standard error, for independent rows."""
        return mean_of(self.column(name))

    @classmethod
    def read(cls, path: Path) -> "Table":
        """Read a CSV that `write` has written."""
        with path.open(newline="", encoding="utf-8") as file:
            return cls({k: _parse(v) for k, v in row.items()} for row in csv.DictReader(file))

    def write(self, path: Path) -> None:
        """Write a CSV, with floats in full precision."""
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = list(dict.fromkeys(name for row in self._rows for name in row))
        partial = path.with_suffix(".tmp")
        with partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self._rows)
        partial.replace(path)


def mean_of(values: Floats) -> Mean:
    """Return the mean and standard error of independent values."""
    n = len(values)
    error = float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Mean(float(values.mean()), error)


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; bars within cells are escaped."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "-|" * len(heads)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _parse(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
