"""Settings, read from the environment (prefix LHB_)."""

import os
import sys
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Settings of this process. Every field is read from an environment variable.

    The variable is the field's name in capitals with the prefix, like ``LHB_DATABASE_URL``.
    """

    model_config = SettingsConfigDict(env_prefix="LHB_", extra="ignore")

    database_url: str = Field(
        default="sqlite:///lhb.db", description="sqlite:///path, or postgresql://..."
    )
    database_password_file: Path | None = Field(
        default=None, description="a file with the password of a postgresql:// URL"
    )
    allow_oracles: bool = Field(
        default=False, description="serve algorithms that must be told the truth"
    )
    insecure_bind: bool = Field(
        default=False,
        description="listen beyond loopback without a key: where something else checks access",
    )
    fit_workers: int = Field(default=1, ge=1, description="processes that fit")
    fit_niceness: int = Field(
        default=10, ge=0, le=19, description="how far fits give way to decisions"
    )
    fit_idle_seconds: float = Field(
        default=5.0,
        ge=0,
        description="a fit that no decision waits for takes only time that nobody else wants "
        "(Linux); where that is less than half a processor for so long, it is begun anew with "
        "`fit_niceness` alone, as are the fits of the next minute; 0: all fits are",
    )
    fit_start_seconds: float = Field(
        default=60.0,
        gt=0,
        description="a process that has not begun its fit by then is killed, and another begins it",
    )
    fit_timeout_seconds: float = Field(
        default=3600.0, gt=0, description="a fit that takes longer is killed"
    )
    fit_wait_seconds: float = Field(
        default=30.0, gt=0, description="how long a decision of a blocking session waits for a fit"
    )
    fit_retry_seconds: float = Field(
        default=1.0, gt=0, description="first pause after a failed fit; doubles"
    )
    fit_attempts: int = Field(
        default=5, ge=1, description="after so many failures a fit is given up"
    )
    max_body_bytes: int = Field(default=16 * 2**20, gt=0, description="largest request body")
    max_bodies_bytes: int = Field(
        default=64 * 2**20,
        gt=0,
        description="of all request bodies that a process holds at once, small ones not counted",
    )
    allowed_hosts: str = Field(
        default="",
        description="names that a server without keys may be called by, with commas between; "
        "addresses, localhost and names without a dot it takes anyway; *: any",
    )
    max_import_bytes: int = Field(default=2**30, gt=0, description="largest session to import")
    body_timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        description="time a request body may take, and a client over a megabyte of an export",
    )
    max_header_bytes: int = Field(
        default=65_536, gt=0, description="largest request line with its headers"
    )
    header_timeout_seconds: float = Field(
        default=10.0, gt=0, description="time they may take; and a connection until it says a word"
    )
    max_connections: int = Field(
        default=10_000, gt=0, description="open at once; fewer where the system allows fewer files"
    )
    requests_per_second: float = Field(
        default=0.0,
        ge=0,
        description="for each key, or address while there are no keys, and each server process; "
        "0: as many as they like",
    )
    request_burst: int = Field(
        default=100, ge=1, description="of these, so many at once after a pause"
    )
    max_queue: int = Field(
        default=10_000, gt=0, description="commands that may wait for the writer"
    )
    max_batch: int = Field(default=512, gt=0, description="commands in one transaction")
    metrics_host: str = Field(default="127.0.0.1", description="where a worker shows its metrics")
    metrics_port: int = Field(
        default=0, ge=0, le=65_535, description="of a worker's metrics; 0: it shows none"
    )
    log_level: Literal["debug", "info", "warning", "error", "critical"] = Field(
        default="info", description="the least severe events that are logged"
    )
    log_requests: bool = Field(default=False, description="a log line a request")

    @field_validator("log_level", mode="before")
    @classmethod
    def _in_lower_case(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @model_validator(mode="after")
    def _put_password_into_url(self) -> Self:
        if self.database_password_file is not None:
            password = quote(self.database_password_file.read_text().strip(), safe="")
            scheme, separator, rest = self.database_url.partition("://")
            user, at, place = rest.rpartition("@")
            if not at or ":" in user:
                raise ValueError("with a password file, the URL is postgresql://user@host/name")
            self.database_url = f"{scheme}{separator}{user}:{password}@{place}"
            self.database_password_file = None
        return self


# variables of the clients and of the compose files
OTHERS = {"LHB_API_KEY", "LHB_PORT", "LHB_POSTGRES_PASSWORD_FILE", "LHB_GRAFANA_PASSWORD_FILE"}
OTHERS |= {"LHB_METRICS_KEY_FILE"}


def name_unknown_variables() -> None:
    """Print a warning on stderr for each variable of `unknown_variables`."""
    for name in unknown_variables():
        print(f"lhb: {name} is no setting of this release, and is ignored", file=sys.stderr)


def unknown_variables() -> list[str]:
    """Return the environment's variables that have the prefix LHB_ but name no setting."""
    known = {f"LHB_{name.upper()}" for name in Settings.model_fields} | OTHERS
    return sorted(
        name
        for name in os.environ
        if name.upper().startswith("LHB_")
        and not name.startswith(("LHB_TEST_", "LHB_BENCH_"))
        and name.upper() not in known
    )
