"""A session of many rounds: its file, made from that of a short one, and its rows in a database.

Through the API 400 000 rounds take minutes, because large writes give way to decisions. Rounds
here repeat those of the short session.
"""

import json
import tempfile
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic_core import to_json

COUNTS = ("n_rounds", "n_decisions", "n_measurements", "measured_through")  # of header, trajectory
NUMBERS = ("round", "first_round", "last_round", "number", "position")  # of a row


def session_file(short: bytes, n_rounds: int) -> bytes:
    """Return the file of a session with `n_rounds` rounds.

    Parameters
    ----------
    short : bytes
        File of a session of one trajectory, whose rounds have a reward each and no fit.
    n_rounds : int
        At least as many as the short session has.
    """
    digest, lines = blake2b(digest_size=16), []
    for record in _records([json.loads(line) for line in short.splitlines()], n_rounds):
        line = to_json(record) + b"\n"
        digest.update(line)
        lines.append(line)
    end = {"record": "end", "count": len(lines), "digest": digest.hexdigest()}
    return b"".join([*lines, to_json(end), b"\n"])


def _records(given: list[dict[str, Any]], n_rounds: int) -> Iterator[dict[str, Any]]:
    header, trajectory = given[0], given[1]
    for one in (header["session"], trajectory):
        one |= {name: n_rounds for name in COUNTS if name in one}
    yield header
    yield trajectory
    for kind in ("decision", "measurement"):
        rows = [record for record in given if record["record"] == kind]
        for i in range(n_rounds):
            row, before = rows[i % len(rows)], i - i % len(rows)
            row = row | {name: row[name] + before for name in NUMBERS if name in row}
            if kind == "measurement":
                row["reward_id"] = f"r{i}"
            yield row


def store(url: str, tenant: str, file: bytes, n: int) -> list[str]:
    """Write `n` sessions of a file into a database that no server has open; return their ids."""
    from service.transfer.import_file import import_session, prepare_import
    from service.transfer.without_server import run_large

    with tempfile.TemporaryDirectory() as folder:
        given, rows = Path(folder, "file"), Path(folder, "rows")
        given.write_bytes(file)
        prepared = prepare_import(given, rows, tenant, None, allow_oracles=False)
        writes = (import_session(prepared, lambda key, writer: None) for _ in range(n))
        return [run_large(url, write)[0].id for write in writes]
