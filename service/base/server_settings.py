"""Settings, read from the environment (prefix LHB_)."""

import os
import sys
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

DISTRIBUTION = "long-horizon-bandits"  # the name that pip knows this program by


class Settings(BaseSettings):
    """Settings of this process. Every field is read from an environment variable.

    The variable is the field's name in capitals with the prefix, like ``LHB_DATABASE_URL``. `lhb
    settings` shows the text below a field as its meaning.
    """

    model_config = SettingsConfigDict(
        env_prefix="LHB_", extra="ignore", use_attribute_docstrings=True
    )

    database_url: str = "sqlite:///lhb.db"
    """sqlite:///path, or postgresql://..."""
    database_password_file: Path | None = None
    """file that holds the password for a postgresql:// URL"""
    allow_oracles: bool = False
    """allow algorithms that are given the true parameters (`oracle`, `oracle_w`)"""
    mcp: bool = False
    """serve /mcp, tools of the Model Context Protocol (needs the extra `mcp`)"""
    insecure_bind: bool = False
    """listen on addresses beyond loopback although the database has no API key; for use behind a
    proxy or network that controls access"""
    fit_workers: int = Field(default=1, ge=1)
    """number of processes that run fits"""
    fit_niceness: int = Field(default=10, ge=0, le=19)
    """niceness of the processes that run fits, and of the playground's"""
    fit_idle_seconds: float = Field(default=5.0, ge=0)
    """a fit that no decision waits for takes only time that nobody else wants (Linux); where that
    is less than half a processor for so long, it is begun anew with `fit_niceness` alone, as are
    the fits of the next minute; 0: all fits are"""
    fit_start_seconds: float = Field(default=60.0, gt=0)
    """maximum time until a process begins a fit; then the processes are replaced"""
    fit_late_seconds: float = Field(default=300.0, gt=0)
    """a fit that is due for longer makes readiness say `"fits": "late"`"""
    fit_timeout_seconds: float = Field(default=3600.0, gt=0)
    """maximum duration of a fit; a fit also ends after 20 times the CPU time expected from its
    size, but not before a minute of it"""
    fit_memory_mb: int = Field(default=1024, ge=64)
    """maximum memory of a fit (Linux); a session whose fits are expected to need more, or a
    twentieth of `fit_timeout_seconds` of CPU time, is refused"""
    fit_wait_seconds: float = Field(default=30.0, gt=0)
    """how long a decision of a session with refit "blocking" waits for a fit; then it is 503"""
    fit_retry_seconds: float = Field(default=1.0, gt=0)
    """pause before the second attempt at a failed fit; doubles with every attempt"""
    fit_attempts: int = Field(default=5, ge=1)
    """number of attempts at a fit before it is given up"""
    max_body_bytes: int = Field(default=16 * 2**20, gt=0)
    """maximum size of a request body"""
    max_bodies_bytes: int = Field(default=64 * 2**20, gt=0)
    """maximum size of all request bodies in memory together; bodies up to 8 KB that came in one
    piece are not counted"""
    allowed_hosts: str = ""
    """host names that a server without keys answers to, separated by commas; localhost, and the
    address or name that it listens on, are always accepted; *: any"""
    max_import_bytes: int = Field(default=2**30, gt=0)
    """maximum size of an imported file"""
    spool_folder: Path | None = None
    """folder of the files that imports and copies make on their way, up to twice their size; by
    default beside a SQLite database, with PostgreSQL the system's folder of temporary files"""
    body_timeout_seconds: float = Field(default=30.0, gt=0)
    """maximum time to receive a request body, and for a client to read a megabyte of an export"""
    max_header_bytes: int = Field(default=65_536, gt=0)
    """maximum size of a request line with its headers"""
    header_timeout_seconds: float = Field(default=10.0, gt=0)
    """maximum time to receive the headers, and from opening a connection to its first byte"""
    max_connections: int = Field(default=10_000, gt=0)
    """maximum number of open connections; fewer if the system's limit of open files is lower"""
    requests_per_second: float = Field(default=0.0, ge=0)
    """maximum rate of each key (of each address while there are no keys), of all servers on a
    database together; 0: unlimited"""
    request_burst: int = Field(default=100, ge=1)
    """requests that may come at once after a pause, where requests_per_second is set"""
    trusted_proxies: str = ""
    """addresses and networks of proxies, separated by commas, whose X-Forwarded-For names the
    client"""
    max_arms: int = Field(default=0, ge=0)
    """maximum number of arms; 0: 100 000"""
    max_dim: int = Field(default=0, ge=0)
    """maximum `dim` of a session; 0: 100 000"""
    max_horizon: int = Field(default=0, ge=0)
    """maximum `horizon` of a session; 0: 1 000 000"""
    max_sessions: int = Field(default=0, ge=0)
    """maximum number of sessions of a tenant; 0: unlimited"""
    max_trajectories: int = Field(default=0, ge=0)
    """maximum number of trajectories of a session; 0: unlimited"""
    max_tenant_mb: int = Field(default=0, ge=0)
    """about how much a tenant may store, by the rounds and rewards of its sessions, looked at every
    30 s; 0: unlimited"""
    max_queue: int = Field(default=10_000, gt=0)
    """maximum number of commands that wait for a transaction"""
    max_wait_seconds: float = Field(default=0.25, ge=0)
    """maximum wait that a request may expect when it arrives; beyond it, decisions, rewards and all
    else that is posted to sessions are refused unread (503); 0: unlimited"""
    max_batch: int = Field(default=256, gt=0)
    """most commands of a transaction"""
    playground: bool = False
    """open the dashboard's playground, which simulates small worlds: up to 20 s of one processor at
    a time, for whoever may use the server"""
    webhook_networks: str = ""
    """addresses and networks, separated by commas, to which webhooks may go although they are not
    public, and without TLS"""
    audit_days: float = Field(default=0.0, ge=0)
    """days after which an entry of the audit log is deleted; 0: it is kept for ever"""
    backup_folder: Path | None = None
    """folder of backups; when its newest file was written is a metric"""
    metrics_host: str = "127.0.0.1"
    """address on which a worker serves its metrics"""
    metrics_port: int = Field(default=0, ge=0, le=65_535)
    """port on which a worker serves its metrics; 0: none"""
    log_level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    """minimum severity of logged events"""
    log_requests: bool = False
    """write a log line for every request: its id, trace, key, tenant, client, status and time"""
    traces: bool = False
    """send OpenTelemetry spans of requests, commits and fits by OTLP over HTTP; needs the extra
    `opentelemetry`, whose own variables say where to (OTEL_EXPORTER_OTLP_ENDPOINT)"""

    @field_validator("log_level", mode="before")
    @classmethod
    def _in_lower_case(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @field_validator("trusted_proxies", "webhook_networks")
    @classmethod
    def _are_networks(cls, value: str) -> str:
        for part in filter(None, map(str.strip, value.split(","))):
            ip_network(part)
        return value

    @model_validator(mode="after")
    def _put_password_into_url(self) -> Self:
        if self.database_password_file is not None:
            password = quote(self.database_password_file.read_text("utf-8").strip(), safe="")
            scheme, separator, rest = self.database_url.partition("://")
            user, at, place = rest.rpartition("@")
            if not at or ":" in user:
                raise ValueError("with a password file, the URL is postgresql://user@host/name")
            self.database_url = f"{scheme}{separator}{user}:{password}@{place}"
            self.database_password_file = None
        return self


# variables of the clients, of `lhb serve` and of the compose files
OF_COMMANDS = {"LHB_API_KEY", "LHB_HOST", "LHB_PORT", "LHB_URL"}
NOT_SETTINGS = {*OF_COMMANDS, "LHB_METRICS_KEY_FILE", "LHB_PASSWORD_FILE"}
NOT_SETTINGS |= {"LHB_POSTGRES_PASSWORD_FILE", "LHB_GRAFANA_PASSWORD_FILE"}
NOT_SETTINGS |= {"LHB_TLS_PORT", "LHB_TLS_CERTIFICATE_FILE", "LHB_TLS_KEY_FILE"}


def read_settings() -> Settings:
    """Read the settings; name on stderr each variable of `unknown_variables`."""
    for name in unknown_variables():
        meant = get_close_matches(name.upper(), known_variables(), n=1, cutoff=0.8)
        hint = f"; did you mean {meant[0]}?" if meant else ""
        print(f"lhb: {name} is no setting of this release, and is ignored{hint}", file=sys.stderr)
    return Settings()


def known_variables() -> set[str]:
    """Return the names of the variables that are read."""
    return {variable_of(name) for name in Settings.model_fields} | NOT_SETTINGS


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"LHB_{name.upper()}"


def unknown_variables() -> list[str]:
    """Return the environment's variables that have the prefix LHB_ but name no setting."""
    names = known_variables()
    return sorted(
        name
        for name in os.environ
        if name.upper().startswith("LHB_")
        and not name.startswith(("LHB_TEST_", "LHB_BENCH_"))
        and name.upper() not in names
    )
