"""The files that deploy the service say what they should."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from service.metrics import Metrics
from service.records import FitQueue

ROOT = Path(__file__).parent.parent


def config(*arguments: str) -> dict[str, Any]:
    """What docker-compose makes of a compose file."""
    if shutil.which("docker-compose") is None:
        assert "CI" not in os.environ, "docker-compose is missing"
        pytest.skip("docker-compose is not installed")
    shown = subprocess.run(
        ["docker-compose", *arguments, "config"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(yaml.safe_load(shown.stdout))


def test_the_embedded_compose_file_is_valid_and_private() -> None:
    server = config("-f", "docker-compose.embedded.yml")["services"]["server"]
    assert server["ports"] == ["127.0.0.1:8080:8080/tcp"]
    assert server["volumes"][0].endswith("/data:rw")


def test_the_compose_file_is_valid_confined_and_private() -> None:
    whole = config("--profile", "monitoring")
    services = whole["services"]
    assert set(services) == {
        *("postgres", "migrate", "api", "worker", "proxy", "prometheus", "grafana")
    }
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["mem_limit"], name
        assert service["cpus"], name
        assert service["restart"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert service.get("user") != "root", name
        assert not any(
            "PASSWORD" in key and "FILE" not in key for key in service.get("environment") or ()
        )
    assert "ports" not in services["api"]
    assert "ports" not in services["postgres"]
    for name in ("api", "worker"):
        ready = services[name]["depends_on"]["migrate"]["condition"]
        assert ready == "service_completed_successfully"


def test_the_board_shows_metrics_that_exist() -> None:
    """Every series of the Grafana board is one that the server exports."""
    board = json.loads((ROOT / "deploy/grafana/boards/lhb.json").read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"lhb_[a-z_]+", target["expr"])
    }
    metrics = Metrics()
    metrics.observe_request({"method": "GET"}, 200, 0.1)
    metrics.observe_items([{"status": 404, "problem": {}}])
    metrics.fit_queue = lambda: FitQueue(0, None, 0)  # as service/app.py does
    for name in ("lhb_commands_waiting", "lhb_commits_total", "lhb_commands_total"):
        metrics.gauges[name] = ("as service/app.py registers it", lambda: 0.0)
    exported = set(re.findall(r"^(lhb_[a-z_]+)", generate_latest(metrics.registry).decode(), re.M))
    assert len(asked) > 5
    assert asked <= exported


def test_the_image_runs_the_embedded_server_as_nobody_special() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    command = next(line for line in reversed(lines) if line.startswith("CMD"))
    assert json.loads(command.removeprefix("CMD"))[:2] == ["lhb", "serve"]
    assert "USER lhb" in lines


def test_prometheus_has_a_key_to_show() -> None:
    scrapes = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())["scrape_configs"]
    [api] = [job for job in scrapes if job["job_name"] == "lhb"]
    whole = config("--profile", "monitoring")
    mounted = [f"/run/secrets/{name}" for name in _secrets(whole["services"]["prometheus"])]
    assert api["authorization"]["credentials_file"] in mounted
    assert set(_secrets(whole["services"]["prometheus"])) <= set(whole["secrets"])


def _secrets(service: dict[str, Any]) -> list[str]:
    return [one if isinstance(one, str) else one["source"] for one in service["secrets"]]
