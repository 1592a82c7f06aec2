"""The files that deploy the service say what they should."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.server_process import Server

ROOT = Path(__file__).parent.parent


@cache
def config(*arguments: str) -> dict[str, Any]:
    """What docker-compose makes of a compose file; it is not to be changed."""
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
    check_confined("server", server)
    assert server["ports"] == ["127.0.0.1:8080:8080/tcp"]
    assert server["volumes"][0].endswith("/data:rw")


def test_the_one_line_of_the_readme_is_as_private_and_keeps_its_data() -> None:
    [line] = re.findall(r"`(docker run [^`]+)`", (ROOT / "README.md").read_text())
    embedded = (ROOT / "docker-compose.embedded.yml").read_text()
    image = (ROOT / "Dockerfile").read_text()
    assert "-p 127.0.0.1:8080:8080 " in line
    assert "-v lhb:/data " in line
    assert "VOLUME /data" in image
    assert "-e LHB_INSECURE_BIND=true " in line
    assert 'LHB_INSECURE_BIND: "true"' in embedded
    assert line.endswith(re.findall(r"image: (\S+)", embedded)[0])


def check_confined(name: str, service: dict[str, Any]) -> None:
    """Its files cannot be written, it gains no rights, and takes no more than its share."""
    assert service["read_only"] is True, name
    assert service["cap_drop"] == ["ALL"], name
    assert service["security_opt"] == ["no-new-privileges:true"], name
    assert service["pids_limit"], name
    assert all("size=" in folder for folder in service.get("tmpfs", [])), name
    assert service["mem_limit"], name
    assert service["cpus"], name
    assert service["restart"], name


def test_the_door_for_other_machines_is_tls_and_asks_for_keys() -> None:
    services = config("-f", "docker-compose.yml", "-f", "docker-compose.tls.yml")["services"]
    for name, service in services.items():
        for port in service.get("ports", []):  # docker-compose writes them in either form
            said = port if isinstance(port, str) else f"{port['published']}:{port['target']}/tcp"
            assert said.startswith("127.0.0.1:") or (name, said) == ("proxy", "8443:8443/tcp")
    assert len(services["proxy"]["ports"]) == 2
    assert services["api"]["environment"]["LHB_INSECURE_BIND"] == "false"
    assert set(_secrets(services["proxy"])) == {"tls_certificate", "tls_key"}
    ignored = (ROOT / "deploy/secrets/.gitignore").read_text().split()
    assert ignored == ["*", "!.gitignore"]


def test_the_compose_file_is_valid_confined_and_private() -> None:
    whole = config("--profile", "monitoring")
    services = whole["services"]
    assert set(services) == {
        *("postgres", "migrate", "api", "worker", "proxy", "prometheus", "grafana")
    }
    for name, service in services.items():
        check_confined(name, service)
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


def test_the_board_shows_metrics_that_exist(tmp_path: Path) -> None:
    """Every series of the Grafana board is one that the server exports."""
    board = json.loads((ROOT / "deploy/grafana/boards/lhb.json").read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"lhb_[a-z_]+", target["expr"])
    }
    with Server(tmp_path / "lhb.db") as server:
        assert len(asked) > 5
        assert asked <= exported_by(server)


def exported_by(server: Server) -> set[str]:
    """Names of the metrics of a server that was asked for something."""
    assert server.process is not None
    with server.client() as client:
        body = {"algorithm": "uniform", "dim": 2, "horizon": 4}
        session = client.post("/v1/sessions", json=body).json()["id"]
        for event in ("a", "b"):
            decision = {
                "session_id": session,
                "decision": {"contexts": [[1, 0]], "event_id": event},
            }
            reward = {"session_id": session, "reward": {"round": 1, "value": 1, "reward_id": "r"}}
            client.post("/v1/batch", json={"items": [decision, reward]}).raise_for_status()
        client.get("/v1/sessions/none")
        text = client.get("/metrics").text
    return set(re.findall(r"^([a-z_]+)", text, re.M)) | {"up", "process_resident_memory_bytes"}


def alerts() -> list[dict[str, Any]]:
    """The rules of deploy/alerts.yml."""
    [group] = yaml.safe_load((ROOT / "deploy/alerts.yml").read_text())["groups"]
    return list(group["rules"])


def test_every_alert_has_its_runbook_and_every_runbook_its_alert() -> None:
    text = (ROOT / "docs/operations.md").read_text()
    section = text.partition("## Alerts\n")[2].partition("\n## ")[0]
    assert re.findall(r"^### (\w+)$", section, re.M) == [rule["alert"] for rule in alerts()]
    for entry in section.split("### ")[1:]:
        assert len(entry.split()) > 20, entry
    for rule in alerts():
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("page", "ticket")


def test_alerts_ask_for_metrics_that_a_running_server_has(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    backups.mkdir()
    with Server(tmp_path / "lhb.db", LHB_BACKUP_FOLDER=str(backups)) as server:
        exported = exported_by(server)
    for rule in alerts():
        names = set(re.findall(r"\b(?:lhb|process)_[a-z_]+|\bup\b", rule["expr"]))
        assert names, rule
        assert names <= exported, rule["alert"]


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Prometheus' own tool in the folder deploy."""
    tool = shutil.which("promtool")
    if tool is None:
        assert "CI" not in os.environ, "promtool is missing"
        pytest.skip("promtool is not installed (Debian: prometheus)")
    return subprocess.run([tool, *arguments], cwd=ROOT / "deploy", capture_output=True, text=True)


def test_prometheus_takes_the_rules() -> None:
    """Also as the composition mounts them."""
    loaded = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())["rule_files"]
    mounted = config("--profile", "monitoring")["services"]["prometheus"]["volumes"]
    assert f"{ROOT}/deploy/alerts.yml:{loaded[0]}:ro" in mounted
    for what in (("rules", "alerts.yml"), ("config", "--syntax-only", "prometheus.yml")):
        done = promtool("check", *what)
        assert done.returncode == 0, done.stdout + done.stderr


TESTS_OF_ALERTS = ("alerts_test.yml", "alerts_of_days_test.yml")


@pytest.mark.slow  # promtool plays days
def test_every_alert_fires_when_it_should_and_not_before() -> None:
    done = promtool("test", "rules", *TESTS_OF_ALERTS)
    assert done.returncode == 0, done.stdout + done.stderr
    fires, is_silent = set(), set()
    for name in TESTS_OF_ALERTS:
        for test in yaml.safe_load((ROOT / "deploy" / name).read_text())["tests"]:
            for one in test["alert_rule_test"]:
                (fires if one["exp_alerts"] else is_silent).add(one["alertname"])
    assert fires == is_silent == {rule["alert"] for rule in alerts()}


@pytest.mark.slow
def test_the_tests_of_alerts_notice_a_limit_that_is_ten_times_as_high(tmp_path: Path) -> None:
    """Of each rule that has one; of `== 0` and `> 0`, another sign."""
    files = [yaml.safe_load((ROOT / "deploy" / name).read_text()) for name in TESTS_OF_ALERTS]
    for rule in alerts():
        expression = rule["expr"]
        number = re.search(r"[\d.]+(?:e\d+)?$|(?<=> )[\d.]+(?= \*)", expression)
        if number and float(number[0]):
            factor = 0.1 if "<" in expression else 10
            other = f"{factor * float(number[0]):g}"
            changed = expression[: number.start()] + other + expression[number.end() :]
        else:
            changed = re.sub(r"(==|>) 0$", "< 0", expression)
        assert changed != expression, rule
        only = {"groups": [{"name": "lhb", "rules": [{**rule, "expr": changed}]}]}
        [whole] = [file for file in files if rule["alert"] in str(file["tests"])]
        tests = [t for t in whole["tests"] if rule["alert"] in str(t["alert_rule_test"])]
        (tmp_path / "alerts.yml").write_text(yaml.safe_dump(only))
        (tmp_path / "alerts_test.yml").write_text(yaml.safe_dump({**whole, "tests": tests}))
        done = promtool("test", "rules", tmp_path / "alerts_test.yml")
        assert f"alertname: {rule['alert']}," in done.stdout + done.stderr, rule["alert"]
        assert done.returncode, rule["alert"]


def image_stage() -> list[tuple[str, str]]:
    """Instructions and arguments of the Dockerfile's last stage."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and line[0] != "#"]
    last = max(place for place, step in enumerate(steps) if step[0] == "FROM")
    return [(name, rest) for name, rest in steps[last:]]


def image_user() -> str:
    return next(rest for name, rest in reversed(image_stage()) if name == "USER")


def test_the_image_runs_the_embedded_server_as_nobody_special() -> None:
    stage = image_stage()
    command = next(rest for name, rest in reversed(stage) if name == "CMD")
    assert json.loads(command)[:2] == ["lhb", "serve"]
    user, group = image_user().split(":")
    [made] = [rest for name, rest in stage if name == "RUN"]
    assert f"--gid {group} lhb" in made
    assert f"--uid {user} --gid {group}" in made
    assert int(user) > 0 < int(group)


def test_the_image_owns_its_program_and_the_user_owns_only_the_data() -> None:
    """Copied files belong to root: no step gives the user any, and none runs after USER."""
    stage = image_stage()
    copied = [rest for name, rest in stage if name in ("COPY", "ADD")]
    assert [rest.split() for rest in copied] == [["--from=build", "/opt/lhb", "/opt/lhb"]]
    assert [rest for name, rest in stage if name == "VOLUME"] == ["/data"]
    assert not any(word in rest for _, rest in stage for word in ("chown", "chmod", "setcap"))
    names = [name for name, _ in stage]
    assert max(n for n, name in enumerate(names) if name in ("RUN", "COPY")) < names.index("USER")


def test_the_image_says_its_version() -> None:
    """Also that its base may be another: both stages begin with the argument."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    labels = " ".join(rest for name, rest in image_stage() if name == "LABEL")
    assert f'image.version="{project["version"]}"' in labels
    assert f'image.licenses="{project["license"]}"' in labels
    text = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"^FROM (\S+)", text, re.M) == ["${BASE}"] * 2


def user_of(service: dict[str, Any]) -> str:
    """The user that a container runs as: the composition's word, or our image's."""
    if "build" in service:
        assert "user" not in service
        return image_user()
    return str(service["user"])


def test_no_container_runs_as_root_or_writes_beside_its_volumes() -> None:
    for arguments in (
        ("-f", "docker-compose.embedded.yml"),
        ("-f", "docker-compose.yml", "-f", "docker-compose.tls.yml", "--profile", "monitoring"),
    ):
        whole = config(*arguments)
        for name, service in whole["services"].items():
            assert user_of(service).split(":")[0] not in ("", "0", "root"), name
            assert not service.get("privileged"), name
            assert not service.get("cap_add"), name
            for mounted in service.get("volumes", []):
                source, _, mode = mounted.rpartition(":")
                assert mode == "ro" or source.split(":")[0] in whole["volumes"], mounted


def test_prometheus_has_a_key_to_show() -> None:
    scrapes = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())["scrape_configs"]
    [api] = [job for job in scrapes if job["job_name"] == "lhb"]
    whole = config("--profile", "monitoring")
    mounted = [f"/run/secrets/{name}" for name in _secrets(whole["services"]["prometheus"])]
    assert api["authorization"]["credentials_file"] in mounted
    assert set(_secrets(whole["services"]["prometheus"])) <= set(whole["secrets"])


def _secrets(service: dict[str, Any]) -> list[str]:
    return [one if isinstance(one, str) else one["source"] for one in service["secrets"]]
