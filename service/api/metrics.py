"""Metrics for Prometheus. Counts are kept as plain numbers and rendered when they are scraped.

What is read from elsewhere at a scrape is in `scraped_metrics`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

from service.base.problems import ProblemCode
from service.writer.after_commit import Effects

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
AGES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)  # seconds
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # commands of a commit
MOST_TENANTS = 1000  # with series of their own
OTHERS = "(others)"
Labels = tuple[Any, ...]
# what is counted of each tenant, from 0 on
COUNTED = {
    "lhb_requests_total": "Requests answered, refused ones too",
    "lhb_decisions_total": "New decisions committed, of logs and imports none",
    "lhb_rewards_total": "New rewards committed, of logs and imports none",
    "lhb_late_rewards_total": "Rewards that came after their trajectory's next round had begun",
    "lhb_rounds_dropped_total": "Rounds whose rows went, by keep_rounds or keep_days",
    "lhb_alarms_total": "Fits whose estimate predicts later rounds badly",
    "lhb_findings_total": "Findings of fits: what checks of the model see, again at every fit",
    "lhb_missing_rewards_total": "Rounds without a reward among those that fits have read",
}
# every series: what it says, its labels, and the bounds of a histogram
SERIES: dict[str, tuple[str, Labels, Sequence[float]]] = {
    "lhb_request_seconds": ("Time to answer", ("method", "route", "status"), BOUNDS),
    "lhb_batch_items_total": ("Items of batches", ("kind", "status"), ()),
    "lhb_refusals_total": ("Problems answered", ("tenant", "code"), ()),
    **{name: (text, ("tenant",), ()) for name, text in COUNTED.items()},
    "lhb_fits_total": ("Fits recorded by this process", ("tenant", "status"), ()),
    "lhb_webhook_attempts_total": (
        "Attempts to reach webhooks: delivered, failed, or given_up for good",
        ("tenant", "outcome"),
        (),
    ),
    "lhb_fit_seconds": ("Time from a fit's beginning to recorded", ("status",), BOUNDS),
    "lhb_fit_age_seconds": (
        "Time from due, when what a fit reads is fixed, to its estimate",
        (),
        AGES,
    ),
    "lhb_commit_seconds": ("Time of a transaction", (), BOUNDS),
    "lhb_commit_commands": ("Commands of a transaction", (), SIZES),
}


class Metrics:
    """The metrics of one process.

    `registry` renders them; each of `scraped` yields further metrics, at every scrape.
    """

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}  # of each series, by its labels
        for name, (_, labels, bounds) in SERIES.items():
            self._values[name] = {} if bounds else Counter()
            if bounds and not labels:
                self._values[name][()] = [0.0] * (len(bounds) + 2)
        self._tenants: set[str] = set()
        self.scraped: list[Callable[[], Iterator[Metric]]] = []
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def text(self, tenant: str = "") -> bytes:
        """Return Prometheus' text; with a tenant, only its series of those that name one."""

        def collect() -> Iterator[Metric]:
            for metric in self.registry.collect():
                if tenant:
                    whose = [(one.labels.get("tenant", tenant), one) for one in metric.samples]
                    metric.samples = [one for owner, one in whose if owner == tenant]
                yield metric

        return generate_latest(SimpleNamespace(collect=collect))

    def observe_request(self, scope: Any, status: int, seconds: float) -> None:
        """Count a request under its route's template: ids would make a series each."""
        where = scope["method"], scope.get("lhb.route") or route_of(scope), status
        self._observe("lhb_request_seconds", where, seconds)
        tenant = scope.get("lhb.tenant")
        if tenant is not None:  # else nobody knows who asked
            self._values["lhb_requests_total"][self._shown(tenant),] += 1
        if status >= 400:
            problem = scope.get("lhb.problem")
            code = ProblemCode.INTERNAL if problem is None else problem.code
            self._refuse(scope.get("lhb.tenant", ""), code.value)

    def observe_items(self, answers: list[Any], tenant: str = "") -> None:
        """Count the items of a batch by kind (decision, reward or refused) and status."""
        for answer in answers:
            kind = next((name for name in ("decision", "reward") if name in answer), "refused")
            self._values["lhb_batch_items_total"][kind, str(answer["status"])] += 1
            if kind == "refused":
                self._refuse(tenant, str(answer["problem"]["code"]))

    def count_message(self, tenant: str, outcome: str) -> None:
        """Count an attempt to reach a webhook."""
        self._values["lhb_webhook_attempts_total"][self._shown(tenant), outcome] += 1

    def observe_fit(self, status: str, seconds: float) -> None:
        """Count a fit by its recorded status; `seconds` are from its beginning to recorded."""
        self._observe("lhb_fit_seconds", (status,), seconds)

    def observe_commit(self, seconds: float, n_commands: int) -> None:
        """Count a transaction, also one that failed."""
        self._observe("lhb_commit_seconds", (), seconds)
        self._observe("lhb_commit_commands", (), n_commands)

    def after_commit(self, effects: Effects) -> None:
        """Count what a committed batch has written."""
        for (kind, tenant), n in effects.counts.items():
            self._values[f"lhb_{kind}_total"][self._shown(tenant),] += n
        for fit in effects.fits:
            tenant, estimate = self._shown(fit.tenant), fit.values
            self._values["lhb_fits_total"][tenant, fit.status] += 1
            if estimate:
                self._observe("lhb_fit_age_seconds", (), fit.at - fit.inputs["due_at"])
            has_alarm = bool((estimate.get("diagnostics") or {}).get("alarm"))
            self._values["lhb_alarms_total"][tenant,] += has_alarm
            findings = estimate.get("findings") or ()
            self._values["lhb_findings_total"][tenant,] += len(findings)
            n_missing = estimate.get("n_missing") or 0
            self._values["lhb_missing_rewards_total"][tenant,] += n_missing

    def _refuse(self, tenant: str, code: str) -> None:
        self._values["lhb_refusals_total"][self._shown(tenant), code] += 1

    def _observe(self, name: str, key: Labels, value: float) -> None:
        """Add a value to a histogram: counts by bucket, then the sum."""
        rows, bounds = self._values[name], SERIES[name][2]
        row = rows.get(key)
        if row is None:
            row = rows[key] = [0.0] * (len(bounds) + 2)
        row[bisect_left(bounds, value)] += 1
        row[-1] += value

    def _shown(self, tenant: str) -> str:
        """Return the label of a tenant; its counts begin at 0, so that the first increase shows."""
        if tenant not in self._tenants:
            if len(self._tenants) >= MOST_TENANTS:
                return OTHERS
            self._tenants.add(tenant)
            for name in COUNTED:
                self._values[name][tenant,] = 0
            self._values["lhb_fits_total"][tenant, "failed"] = 0
            self._values["lhb_webhook_attempts_total"][tenant, "given_up"] = 0
        return tenant

    def describe(self) -> list[Metric]:
        """Return no families: the registry need not check names at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, as prometheus_client's registry asks for them."""
        for name, (text, labels, bounds) in SERIES.items():
            family = (HistogramMetricFamily if bounds else CounterMetricFamily)(
                name, text, labels=labels
            )
            for key, value in list(self._values[name].items()):
                shown = [value]
                if bounds:  # each bucket counts all that is below its bound
                    names, counts = (*map(str, bounds), "+Inf"), accumulate(value[:-1])
                    shown = [[*zip(names, counts, strict=True)], value[-1]]
                family.add_metric([*map(str, key)], *shown)
            yield family
        for scrape in self.scraped:
            yield from scrape()


def route_of(scope: Any) -> str:
    """Return the path template of the route that has served a request; "other": there is none."""
    path = scope.get("lhb.route")  # of a hot route
    return str(path or getattr(scope.get("route"), "path", None) or "other")
