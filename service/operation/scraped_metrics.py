"""Metrics that are read at a scrape: queue, due fits, database, backup."""

import os
import time
from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily as Counter
from prometheus_client.core import GaugeMetricFamily as Gauge

from service.api.runtime import Service
from service.base.problems import Unavailable
from service.operation.build import build_info
from service.storage.database_url import is_sqlite, sqlite_path
from service.storage.sqlite.database_file import log_bytes


class ScrapedMetrics:
    """The metrics that a server reads at every scrape."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __call__(self) -> Iterator[Metric]:
        """Yield the metrics; of a database that is down, only that it is."""
        writer, settings = self._service.writer, self._service.settings
        yield from build_info()
        yield Gauge("lhb_commands_waiting", "Commands that wait for a commit", writer.n_waiting)
        most = "Commands that may wait; further ones are answered 503 overloaded"
        yield Gauge("lhb_commands_waiting_limit", most, settings.max_queue)
        yield Counter("lhb_commits_total", "Transactions committed", writer.n_batches)
        yield Counter("lhb_commands_total", "Commands committed", writer.n_commands)
        yield from self._backup()
        try:
            metrics = [*self._fits(), *self._guards(), *self._webhooks(), *self._database()]
        except (Unavailable, OSError):
            metrics = []
        yield Gauge("lhb_database_up", "1: the database answers", float(bool(metrics)))
        yield from metrics

    def _fits(self) -> Iterator[Metric]:
        queue = self._service.fits.queue()
        age = 0.0 if queue.oldest_at is None else max(0.0, time.time() - queue.oldest_at)
        yield Gauge("lhb_fits_due", "Fits due and not yet recorded", queue.n_due)
        yield Gauge("lhb_oldest_due_fit_seconds", "Age of the oldest of them", age)
        yield Gauge("lhb_workers", "Workers connected", queue.n_workers)
        late = "Rounds that the session furthest behind has decided since its fit was due"
        rounds = Gauge("lhb_staleness_rounds", late, labels=["tenant"])
        since = "Age of the tenant's oldest due fit"
        seconds = Gauge("lhb_staleness_seconds", since, labels=["tenant"])
        due = Gauge("lhb_tenant_fits_due", "Sessions with a due fit", labels=["tenant"])
        with self._service.store.reader() as reader:
            for tenant, n, n_rounds, due_at in reader.due_by_tenant():
                rounds.add_metric([tenant], n_rounds)
                seconds.add_metric([tenant], max(0.0, time.time() - due_at))
                due.add_metric([tenant], n)
        yield from (rounds, seconds, due)

    def _guards(self) -> Iterator[Metric]:
        text = "Sessions whose guard has tripped: lift lay below zero, and control's policy plays"
        tripped = Gauge("lhb_guards_tripped", text, labels=["tenant"])
        with self._service.store.reader() as reader:
            counts = {"": 0, **dict(reader.guards_tripped())}  # a series before there is any trial
        for tenant, n in counts.items():
            tripped.add_metric([tenant], n)
        yield tripped

    def _webhooks(self) -> Iterator[Metric]:
        text = "Messages to webhooks that are not received yet"
        waiting, counts = Gauge("lhb_webhook_messages_waiting", text, labels=["tenant"]), {"": 0}
        with self._service.store.reader() as reader:
            for (tenant, _), (n, _) in reader.waiting_messages(None).items():
                counts[tenant] = counts.get(tenant, 0) + n
            lost = {"": 0, **dict(reader.messages_given_up())}
        for tenant, n in counts.items():
            waiting.add_metric([tenant], n)
        yield waiting
        text = "Messages to webhooks that will not be sent any more, by all servers"
        given_up = Counter("lhb_webhook_messages_given_up", text, labels=["tenant"])
        for tenant, n in lost.items():
            given_up.add_metric([tenant], n)
        yield given_up

    def _database(self) -> Iterator[Metric]:
        url = self._service.settings.database_url
        with self._service.store.reader() as reader:
            size = reader.n_bytes()
        yield Gauge("lhb_database_bytes", "Size of the database", size)
        if is_sqlite(url):
            path = sqlite_path(url)
            disk = os.statvfs(path)
            free = "Free space of the disk that holds the database"
            yield Gauge("lhb_disk_free_bytes", free, disk.f_bavail * disk.f_frsize)
            log = "Size of SQLite's write-ahead log"
            yield Gauge("lhb_write_ahead_log_bytes", log, log_bytes(path))

    def _backup(self) -> Iterator[Metric]:
        """Yield when the newest file of the folder of backups was written; 0: there is none."""
        folder = self._service.settings.backup_folder
        if folder is None:
            return
        newest = 0.0
        try:
            with os.scandir(folder) as files:
                newest = max((one.stat().st_mtime for one in files if one.is_file()), default=0.0)
        except OSError:
            pass  # a folder that cannot be read holds no backup that anybody could vouch for
        text = "When the newest file in LHB_BACKUP_FOLDER was written, in Unix seconds; 0: never"
        yield Gauge("lhb_backup_timestamp_seconds", text, newest)
