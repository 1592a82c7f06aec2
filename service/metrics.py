"""Metrics for Prometheus. Counts are kept as plain numbers and rendered when they are scraped."""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

from service.problems import Unavailable
from service.records import FitQueue

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The metrics of one process.

    Attributes
    ----------
    registry : CollectorRegistry
        Renders these metrics.
    fit_queue : callable or None
        Returns the fits that are due; called at every scrape.
    gauges : dict
        Name -> description and function; the function is called at every scrape.
    """

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str, int], list[float]] = {}
        self._items: dict[tuple[str, str], int] = {}
        self._fits: dict[str, list[float]] = {}
        self.fit_queue: Callable[[], FitQueue] | None = None
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def observe_request(self, scope: Any, status: int, seconds: float) -> None:
        """Count a request under its route's template: ids would make a series each."""
        route = scope.get("route")
        path = getattr(route, "path", None) or scope.get("lhb.route") or "other"
        _observe(self._requests, (scope["method"], path, status), seconds)

    def observe_items(self, answers: list[Any]) -> None:
        """Count the items of a batch by kind (decision, reward or refused) and status."""
        for answer in answers:
            kind = next((name for name in ("decision", "reward") if name in answer), "refused")
            key = (kind, str(answer["status"]))
            self._items[key] = self._items.get(key, 0) + 1

    def observe_fit(self, status: str, seconds: float) -> None:
        """Count a fit by its recorded status; `seconds` are from due to recorded."""
        _observe(self._fits, status, seconds)

    def describe(self) -> list[Metric]:
        """Return no families: the registry need not check names at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, as prometheus_client's registry asks for them."""
        requests = HistogramMetricFamily(
            "lhb_request_seconds", "Time to answer", labels=["method", "route", "status"]
        )
        for (method, path, status), row in list(self._requests.items()):
            buckets, total = _buckets(row)
            requests.add_metric([method, path, str(status)], buckets, total)
        yield requests
        items = CounterMetricFamily(
            "lhb_batch_items_total", "Items of batches", labels=["kind", "status"]
        )
        for labels, n in list(self._items.items()):
            items.add_metric(labels, n)
        yield items
        fits = HistogramMetricFamily(
            "lhb_fit_seconds", "Time from due to recorded", labels=["status"]
        )
        for status_name, row in list(self._fits.items()):
            buckets, total = _buckets(row)
            fits.add_metric([status_name], buckets, total)
        yield fits
        yield from self._fit_gauges()
        for name, (text, read) in self.gauges.items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(name, text)
            family.add_metric([], read())
            yield family

    def _fit_gauges(self) -> Iterator[Metric]:
        """Yield the fit queue's gauges; nothing, rather than zeros, if the database is down."""
        if self.fit_queue is None:
            return
        try:
            queue = self.fit_queue()
        except Unavailable:
            return
        age = 0.0 if queue.oldest_at is None else max(0.0, time.time() - queue.oldest_at)
        yield GaugeMetricFamily("lhb_fits_due", "Fits due and not yet recorded", queue.n_due)
        yield GaugeMetricFamily("lhb_oldest_due_fit_seconds", "Age of the oldest of them", age)
        yield GaugeMetricFamily("lhb_workers", "Workers connected", queue.n_workers)


def _observe(table: dict[Any, list[float]], key: Any, seconds: float) -> None:
    row = table.get(key)
    if row is None:
        row = table[key] = [0.0] * (len(BOUNDS) + 2)
    row[bisect_left(BOUNDS, seconds)] += 1
    row[-1] += seconds


def _buckets(row: list[float]) -> tuple[list[tuple[str, float]], float]:
    counts, seen = [], 0.0
    for bound, n in zip((*map(str, BOUNDS), "+Inf"), row, strict=False):
        seen += n
        counts.append((bound, seen))
    return counts, row[-1]
