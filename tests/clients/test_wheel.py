"""The wheel in an environment of its own, beside a user's folders `clients` and `service`."""

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("lhb_engine", "service", "clients", "lhb.py", "setup.py", "pyproject.toml")
PROGRAM = """
import clients.billing, service.mail
from lhb import Client, NotFound

with Client({url!r}) as client:
    session = client.create_session(dim=2, horizon=4)
    decision = session.decide([[0.3, -0.1], [0.2, 0.9]])
    try:
        client.request("GET", "/v1/sessions/nobody")
    except NotFound as error:
        print(error.code, decision.round, clients.billing.WHO, service.mail.WHO)
"""
TYPED = (ROOT / "tests/clients/typed_program.py").read_text()


def run(*command: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | more
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def checked(*command: str | Path, cwd: Path, **more: str) -> str:
    done = run(*command, cwd=cwd, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install_wheel(folder: Path) -> None:
    """Build the wheel in a folder, and install it in an environment there, as pip does."""
    source = folder / "source"
    source.mkdir()
    for name in (*SOURCES, "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    checked(*pip, "wheel", "--no-deps", "--wheel-dir", folder, source, cwd=folder)
    [wheel] = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=True)
    install = ("-m", "pip", "--quiet", "--disable-pip-version-check", "install")
    python = folder / "env" / "bin" / "python"
    checked(python, *install, "-c", ROOT / "constraints.txt", wheel, cwd=folder)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The executables of an environment that has the wheel, made once for all processes."""
    mine = tmp_path_factory.getbasetemp()
    folder = (mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine) / "wheel"
    folder.mkdir(exist_ok=True)
    done = folder / "done"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            install_wheel(folder)
            done.touch()
    return folder / "env" / "bin"


@pytest.fixture(params=["packages", "folders"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A user's program with `clients` and `service` of its own; without __init__.py as well."""
    for package, module in (("clients", "billing"), ("service", "mail")):
        (tmp_path / package).mkdir()
        (tmp_path / package / f"{module}.py").write_text(f"WHO = {module!r}\n")
        if request.param == "packages":
            (tmp_path / package / "__init__.py").touch()
    return tmp_path


@pytest.mark.slow
def test_the_client_works_beside_folders_of_the_same_names(
    scripts: Path, home: Path, url: str
) -> None:
    said = checked(scripts / "python", "-c", PROGRAM.format(url=url), cwd=home)
    assert said.split() == ["unknown_session", "1", "billing", "mail"]


@pytest.mark.slow
def test_a_type_checker_sees_the_client(scripts: Path, home: Path) -> None:
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", scripts / "python")
    (home / "typed.py").write_text(TYPED)
    checked(*mypy, "typed.py", cwd=home)
    wrong = TYPED.replace("round=decision.round", "rond=decision.round")
    wrong = wrong.replace('== "unknown_session"', '== "unknown_sesion"')
    (home / "typed.py").write_text(wrong)
    said = run(*mypy, "typed.py", cwd=home).stdout
    assert 'Unexpected keyword argument "rond"' in said
    assert "Non-overlapping equality check" in said


@pytest.mark.slow
def test_it_brings_httpx_only_and_says_which_extra_is_missing(scripts: Path, home: Path) -> None:
    listed = checked(scripts / "python", "-m", "pip", "list", "--format=freeze", cwd=home)
    installed = {line.split("==")[0].lower() for line in listed.split()}
    ours = {"long-horizon-bandits", "httpx", "httpcore", "h11", "anyio", "certifi", "idna"}
    assert installed - {"pip", "setuptools", "typing_extensions"} == ours
    engine = run(scripts / "python", "-c", "from lhb import make_agent", cwd=home)
    assert engine.stderr.splitlines()[-1] == (
        "ImportError: make_agent needs numpy, which is not installed: "
        "pip install 'long-horizon-bandits[engine]'"
    )
    serve = run(scripts / "lhb", "serve", cwd=home)
    assert serve.returncode == 1
    assert serve.stderr == (
        "lhb: this command needs typer, which is not installed: "
        "pip install 'long-horizon-bandits[server]'\n"
    )
    version = checked(scripts / "lhb", "--version", cwd=home).strip()
    assert (
        version
        == checked(scripts / "python", "-c", "import lhb; print(lhb.__version__)", cwd=home).strip()
    )


@pytest.mark.slow
def test_the_command_finds_its_own_packages(scripts: Path, home: Path) -> None:
    """With what the extras bring (taken from this environment), a server serves and fits."""
    dependencies = sysconfig.get_path("purelib")
    path = {"PYTHONPATH": f"{home}:{dependencies}", "LHB_DATABASE_URL": f"sqlite:///{home}/b.db"}
    lhb = scripts / "lhb"
    checked(lhb, "migrate", cwd=home, **path)
    with subprocess.Popen(
        [lhb, "serve", "--port", "0"],
        cwd=home,
        env=os.environ | path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            simulated = ("simulate", "--rounds", "200", "--horizon", "5", "--seeds", "1", "--json")
            through = checked(lhb, *simulated, "--url", url, cwd=home, **path)
            assert httpx.get(f"{url}/readyz", timeout=60).json()["status"] == "ok"
        finally:
            server.terminate()
    assert '"fit_seconds"' in through
    assert " bench " not in checked(lhb, "--help", cwd=home, **path)  # it stays in the repository
