"""Metrics for Prometheus. Counts are kept as plain numbers and rendered when they are scraped.

What is read from elsewhere at a scrape is in `scraped_metrics`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

from service.base.problems import ProblemCode
from service.writer.effects import Effects

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
AGES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)  # seconds
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # commands of a commit
MOST_TENANTS = 1000  # with series of their own
OTHERS = "(others)"
COUNTED = {  # by tenant
    "lhb_requests_total": "Requests answered, refused ones too",
    "lhb_decisions_total": "New decisions committed, of histories and imports none",
    "lhb_rewards_total": "New rewards committed, of histories and imports none",
    "lhb_late_rewards_total": "Rewards that came after their trajectory's next round had begun",
    "lhb_rounds_dropped_total": "Rounds whose rows went, by keep_rounds or keep_days",
    "lhb_alarms_total": "Fits whose estimate predicts later rounds badly",
    "lhb_findings_total": "Findings of fits: what checks of the model see, again at every fit",
    "lhb_missing_rewards_total": "Rounds without a reward among those that fits have read",
}
Labels = tuple[str, ...]
Row = list[float]  # a histogram: counts by bucket, then the sum


class Metrics:
    """The metrics of one process.

    `registry` renders them; each of `scraped` yields further metrics, at every scrape.
    """

    def __init__(self) -> None:
        self._requests: dict[Labels, Row] = {}
        self._items: Counter[Labels] = Counter()
        self._refusals: Counter[Labels] = Counter()
        self._by_tenant: dict[str, Counter[str]] = {name: Counter() for name in COUNTED}
        self._fits: dict[Labels, Row] = {}
        self._ages: dict[Labels, Row] = {(): _new_row(AGES)}
        self._fits_of: Counter[Labels] = Counter()
        self._messages: Counter[Labels] = Counter()
        self._commits: dict[Labels, Row] = {(): _new_row(BOUNDS)}
        self._sizes: dict[Labels, Row] = {(): _new_row(SIZES)}
        self._tenants: set[str] = set()
        self.scraped: list[Callable[[], Iterator[Metric]]] = []
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def text(self, tenant: str = "") -> bytes:
        """Return Prometheus' text; with a tenant, only its series of those that name one."""
        shown = self.registry if not tenant else _OfTenant(self.registry, tenant)
        return generate_latest(shown)

    def observe_request(self, scope: Any, status: int, seconds: float) -> None:
        """Count a request under its route's template: ids would make a series each."""
        _observe(self._requests, (scope["method"], route_of(scope), status), seconds, BOUNDS)
        tenant = scope.get("lhb.tenant")
        if tenant is not None:  # else nobody knows who asked
            self._by_tenant["lhb_requests_total"][self._shown(tenant)] += 1
        if status >= 400:
            problem = scope.get("lhb.problem")
            code = ProblemCode.INTERNAL if problem is None else problem.code
            self._refuse(scope.get("lhb.tenant", ""), code.value)

    def observe_items(self, answers: list[Any], tenant: str = "") -> None:
        """Count the items of a batch by kind (decision, reward or refused) and status."""
        for answer in answers:
            kind = next((name for name in ("decision", "reward") if name in answer), "refused")
            self._items[kind, str(answer["status"])] += 1
            if kind == "refused":
                self._refuse(tenant, str(answer["problem"]["code"]))

    def count_message(self, tenant: str, outcome: str) -> None:
        """Count an attempt to reach a webhook."""
        self._messages[self._shown(tenant), outcome] += 1

    def observe_fit(self, status: str, seconds: float) -> None:
        """Count a fit by its recorded status; `seconds` are from its beginning to recorded."""
        _observe(self._fits, (status,), seconds, BOUNDS)

    def observe_commit(self, seconds: float, n_commands: int) -> None:
        """Count a transaction, also one that failed."""
        _observe(self._commits, (), seconds, BOUNDS)
        _observe(self._sizes, (), n_commands, SIZES)

    def after_commit(self, effects: Effects) -> None:
        """Count what a committed batch has written."""
        for (kind, tenant), n in effects.counts.items():
            self._by_tenant[f"lhb_{kind}_total"][self._shown(tenant)] += n
        for fit in effects.fits:
            tenant = self._shown(fit.tenant)
            self._fits_of[tenant, fit.status] += 1
            estimate = fit.values
            if estimate:
                _observe(self._ages, (), fit.at - fit.inputs["due_at"], AGES)
            has_alarm = bool((estimate.get("diagnostics") or {}).get("alarm"))
            self._by_tenant["lhb_alarms_total"][tenant] += has_alarm
            findings = estimate.get("findings") or []
            self._by_tenant["lhb_findings_total"][tenant] += len(findings)
            self._by_tenant["lhb_missing_rewards_total"][tenant] += estimate.get("n_missing") or 0

    def _refuse(self, tenant: str, code: str) -> None:
        self._refusals[self._shown(tenant), code] += 1

    def _shown(self, tenant: str) -> str:
        """Return the label of a tenant; its counts begin at 0, so that the first increase shows."""
        if tenant not in self._tenants:
            if len(self._tenants) >= MOST_TENANTS:
                return OTHERS
            self._tenants.add(tenant)
            for counts in self._by_tenant.values():
                counts[tenant] = 0
            self._fits_of[tenant, "failed"] = 0
            self._messages[tenant, "given_up"] = 0
        return tenant

    def describe(self) -> list[Metric]:
        """Return no families: the registry need not check names at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, as prometheus_client's registry asks for them."""
        where = ["method", "route", "status"]
        yield _histogram("lhb_request_seconds", "Time to answer", self._requests, BOUNDS, where)
        what = ["kind", "status"]
        yield _counter("lhb_batch_items_total", "Items of batches", self._items, what)
        why = ["tenant", "code"]
        yield _counter("lhb_refusals_total", "Problems answered", self._refusals, why)
        for name, text in COUNTED.items():
            counts = {(tenant,): n for tenant, n in list(self._by_tenant[name].items())}
            yield _counter(name, text, counts, ["tenant"])
        whose = ["tenant", "status"]
        yield _counter("lhb_fits_total", "Fits recorded by this process", self._fits_of, whose)
        text = "Attempts to reach webhooks: delivered, failed, or given_up for good"
        how = ["tenant", "outcome"]
        yield _counter("lhb_webhook_attempts_total", text, self._messages, how)
        text = "Time from a fit's beginning to recorded"
        yield _histogram("lhb_fit_seconds", text, self._fits, BOUNDS, ["status"])
        text = "Time from due, when what a fit reads is fixed, to its estimate"
        yield _histogram("lhb_fit_age_seconds", text, self._ages, AGES)
        yield _histogram("lhb_commit_seconds", "Time of a transaction", self._commits, BOUNDS)
        yield _histogram("lhb_commit_commands", "Commands of a transaction", self._sizes, SIZES)
        for scrape in self.scraped:
            yield from scrape()


class _OfTenant:
    """A registry without the series of other tenants."""

    def __init__(self, registry: CollectorRegistry, tenant: str) -> None:
        self._registry, self._tenant = registry, tenant

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        for metric in self._registry.collect():
            own = [
                s for s in metric.samples if s.labels.get("tenant", self._tenant) == self._tenant
            ]
            metric.samples = own
            yield metric


def route_of(scope: Any) -> str:
    """Return the path template of the route that has served a request; "other": there is none."""
    path = scope.get("lhb.route")  # of a hot route
    return str(path or getattr(scope.get("route"), "path", None) or "other")


def _new_row(bounds: Sequence[float]) -> Row:
    return [0.0] * (len(bounds) + 2)


def _observe(
    table: dict[Any, Row], key: tuple[Any, ...], value: float, bounds: Sequence[float]
) -> None:
    row = table.get(key)
    if row is None:
        row = table[key] = _new_row(bounds)
    row[bisect_left(bounds, value)] += 1
    row[-1] += value


def _counter(name: str, text: str, counts: dict[Any, Any], labels: list[str]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, n in list(counts.items()):
        family.add_metric(key, n)
    return family


def _histogram(
    name: str, text: str, rows: dict[Any, Row], bounds: Sequence[float], labels: Sequence[str] = ()
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels)
    for key, row in list(rows.items()):
        counts, seen = [], 0.0
        for bound, n in zip((*map(str, bounds), "+Inf"), row, strict=False):
            seen += n
            counts.append((bound, seen))
        family.add_metric([str(label) for label in key], counts, row[-1])
    return family
