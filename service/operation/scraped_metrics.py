"""Metrics that are read at a scrape: queue, due fits, database, backup."""

import os
import time
from collections.abc import Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily as Counter
from prometheus_client.core import GaugeMetricFamily as Gauge

from service.api.runtime import Service
from service.base.problems import Unavailable
from service.operation.build import build_info
from service.storage.database_url import is_sqlite, sqlite_path
from service.storage.reader import Reader
from service.storage.sqlite.database_file import log_bytes


def scraped_metrics(service: Service) -> Iterator[Metric]:
    """Yield the metrics that a server reads at a scrape; of a database that is down, only that."""
    writer, settings = service.writer, service.settings
    yield from build_info()
    yield Gauge("lhb_commands_waiting", "Commands that wait for a commit", writer.n_waiting)
    most = "Commands that may wait; further ones are answered 503 overloaded"
    yield Gauge("lhb_commands_waiting_limit", most, settings.max_queue)
    yield Counter("lhb_commits_total", "Transactions committed", writer.n_batches)
    yield Counter("lhb_commands_total", "Commands committed", writer.n_commands)
    if settings.backup_folder is not None:
        newest = 0.0
        try:
            with os.scandir(settings.backup_folder) as files:
                newest = max((one.stat().st_mtime for one in files if one.is_file()), default=0.0)
        except OSError:
            pass  # a folder that cannot be read holds no backup that anybody could vouch for
        text = "When the newest file in LHB_BACKUP_FOLDER was written, in Unix seconds; 0: never"
        yield Gauge("lhb_backup_timestamp_seconds", text, newest)
    try:
        with service.store.reader() as reader:
            metrics = [*_stored(service, reader)]
    except (Unavailable, OSError):
        metrics = []
    yield Gauge("lhb_database_up", "1: the database answers", float(bool(metrics)))
    yield from metrics


def _stored(service: Service, reader: Reader) -> Iterator[Metric]:
    """Yield what the database says; of guards and webhooks a series each before there is any."""
    queue, now, due = service.fits.queue(), time.time(), reader.due_by_tenant()
    age = 0.0 if queue.oldest_at is None else max(0.0, now - queue.oldest_at)
    yield Gauge("lhb_fits_due", "Fits due and not yet recorded", queue.n_due)
    yield Gauge("lhb_oldest_due_fit_seconds", "Age of the oldest of them", age)
    yield Gauge("lhb_workers", "Workers connected", queue.n_workers)
    late = "Rounds that the session furthest behind has decided since its fit was due"
    rounds = {tenant: n_rounds for tenant, _, n_rounds, _ in due}
    yield _labelled(Gauge, "lhb_staleness_rounds", late, rounds)
    seconds = {tenant: max(0.0, now - at) for tenant, _, _, at in due}
    since = "Age of the tenant's oldest due fit"
    yield _labelled(Gauge, "lhb_staleness_seconds", since, seconds)
    sessions = {tenant: n for tenant, n, _, _ in due}
    yield _labelled(Gauge, "lhb_tenant_fits_due", "Sessions with a due fit", sessions)
    text = "Sessions whose guard has tripped: lift lay below zero, and control's policy plays"
    yield _labelled(Gauge, "lhb_guards_tripped", text, {"": 0, **dict(reader.guards_tripped())})
    waiting: dict[str, float] = {"": 0}
    for (tenant, _), (n, _) in reader.waiting_messages(None).items():
        waiting[tenant] = waiting.get(tenant, 0) + n
    text = "Messages to webhooks that are not received yet"
    yield _labelled(Gauge, "lhb_webhook_messages_waiting", text, waiting)
    text = "Messages to webhooks that will not be sent any more, by all servers"
    lost = {"": 0, **dict(reader.messages_given_up())}
    yield _labelled(Counter, "lhb_webhook_messages_given_up", text, lost)
    url = service.settings.database_url
    yield Gauge("lhb_database_bytes", "Size of the database", reader.n_bytes())
    if is_sqlite(url):
        path = sqlite_path(url)
        disk = os.statvfs(path)
        free = "Free space of the disk that holds the database"
        yield Gauge("lhb_disk_free_bytes", free, disk.f_bavail * disk.f_frsize)
        log = "Size of SQLite's write-ahead log"
        yield Gauge("lhb_write_ahead_log_bytes", log, log_bytes(path))


def _labelled(
    kind: type[Gauge] | type[Counter], name: str, text: str, counts: Mapping[str, float]
) -> Metric:
    """Return a metric of tenants."""
    metric = kind(name, text, labels=["tenant"])
    for tenant, n in counts.items():
        metric.add_metric([tenant], n)
    return metric
