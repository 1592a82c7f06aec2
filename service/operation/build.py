"""What a process runs: version, schema and settings, in its first log line and as a metric."""

import platform
from collections.abc import Iterator
from importlib.metadata import version

import structlog
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from service.base.server_settings import DISTRIBUTION, Settings
from service.storage.database_url import without_password
from service.storage.schema import SCHEMA

log = structlog.get_logger()


def log_start(program: str, settings: Settings) -> None:
    """Write the line of a program ("server" or "worker") that starts.

    The line has version, schema, database, and settings that differ from their default; of the
    database's URL, no user, password or parameter.
    """
    left_out = {"database_url", "database_password_file"}
    chosen = settings.model_dump(mode="json", exclude_defaults=True, exclude=left_out)
    log.info(
        "start",
        program=program,
        version=version(DISTRIBUTION),
        schema=SCHEMA.head,
        database=without_password(settings.database_url),
        settings=chosen,
    )


def build_info() -> Iterator[Metric]:
    """Yield what this process runs, as labels."""
    labels = {"version": version(DISTRIBUTION), "schema": SCHEMA.head}
    labels |= {"python": platform.python_version()}
    build = GaugeMetricFamily("lhb_build_info", "1, with the version", labels=[*labels])
    build.add_metric([*labels.values()], 1)
    yield build
