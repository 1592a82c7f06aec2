"""The file of a session, as `export_session` writes its lines; `import_file` reads them.

The file is NDJSON: a header, records, and an end with count and digest.

Floats are written so that they are read back exactly. The digest is BLAKE2b with 128 bits over all
lines before the end, newlines included. A truncated or changed file is refused.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from pydantic_core import to_json

from service.lift.add_to_sums import sums_in_force, units_of
from service.session.kept_contexts import unpack
from service.session.records import SessionRow, TrajectoryRow, VoidRow
from service.session.rules import has_only_sums
from service.session.spec import defaults
from service.storage.giving_way import giving_way
from service.storage.reader import FOR_EVER, Reader
from service.storage.sql.statements import session_values

FORMAT, VERSION = "lhb-session", 1
# of a session; this server's own
NOT_EXPORTED = ("tenant", "created_as", "append_token", "erasing")
HEADER = {name: usual for name, usual in defaults(SessionRow).items() if name not in NOT_EXPORTED}
"""What a header tells of a session, with what is left out: the default of each field."""
FLOATS = "context", "scores", "own"  # of a decision: stored as bytes
ROW_OWNER = ("tenant", "session_id")  # of a row; the importing server sets them
# how fields of rows that are stored as text or bytes, or by SQLite as integers, stand in a file
SHOWN: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("covariates", "manifest", "fingerprint"), json.loads),
    "estimate": lambda stored: stored if isinstance(stored, int) else json.loads(stored),
    **dict.fromkeys((*FLOATS, "lately"), lambda stored: np.frombuffer(stored).tolist()),
    **dict.fromkeys(("sums", "settled", "seen"), lambda stored: b64encode(stored).decode()),
    **dict.fromkeys(("explored", "forced"), bool),
    "digest": bytes.hex,
}
LEFT_OUT = ("own", "lately", "late")  # where a row has none


def export_session(reader: Reader, session: SessionRow) -> Iterator[bytes]:
    """Yield the lines of a session's file, each with its newline.

    The reader is a snapshot of the database, open until the last line.
    """
    return written(records(reader, session, session))


def written(records: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Yield the lines of records, and the end line."""
    digest, count = blake2b(digest_size=16), 0
    for record in giving_way(records):
        line = to_json(record) + b"\n"
        digest.update(line)
        count += 1
        yield line
    yield to_json({"record": "end", "count": count, "digest": digest.hexdigest()}) + b"\n"


def records(reader: Reader, session: SessionRow, about: SessionRow) -> Iterator[dict[str, Any]]:
    """Yield the records of a session's file; the header is about `about`."""
    changed = [name for name, usual in HEADER.items() if getattr(about, name) != usual]
    header = dict(zip(changed, session_values(tuple(changed))(about), strict=True))
    header["schedule"] = json.loads(about.schedule.text)
    yield {"record": "header", "format": FORMAT, "version": VERSION, "session": header}
    for trajectory in reader.trajectories(session.key):
        yield _record("trajectory", replace(trajectory, own=None))
    for trajectory in reader.trajectories(session.key):
        key = (*session.key, trajectory.key)
        for decision in reader.decision_log(key):
            record = _record("decision", decision)
            context, record["context"] = record["context"], record["context"][: session.dim]
            if len(context) > session.dim:
                record["mean"] = context[session.dim + 1 :]
            if decision.contexts is not None:
                record["contexts"] = unpack(decision.contexts, session.dim).tolist()
            yield record
        yield from (_record("measurement", one) for one in reader.measurement_log(key))
    for void in reader.voids(session.key, 0, FOR_EVER):
        yield _record("void", VoidRow._make((*session.key, *void[:4])))
    for estimate in reader.estimate_log(session.key):
        yield _record("estimate", estimate)
    if has_only_sums(session):
        sums = reader.kept_sums(session.key)
        if sums is not None:
            yield _record("sums", sums)
    if session.dropped_to:
        last = reader.summed_for_good(session)  # where stretches end comes first
        names = [one.key for one in reader.trajectories(session.key) if one.key] if last else []
        for name in ["", *names]:
            rows = reader.slot_sums_in(session.key, [(name, 1, last)], last)
            for row in sorted(rows, key=lambda row: row.last_slot):
                yield _record("slots", row)
        lift = sums_in_force(reader, session)
        if lift is not None:  # of a comparison, what follows from no row any more
            kept = json.loads(lift.sums)
            del kept["groups"]
            yield {"record": "lift", "decided": lift.decided, "measured": lift.measured, **kept}
            for trajectory in reader.trajectories(session.key):
                for unit in sorted(units_of(reader, session, trajectory)):
                    yield _record("unit", unit)
    state = reader.agent_state(session.key)
    if state is not None:
        yield {"record": "agent", "state": json.loads(state)}


def _record(kind: str, row: Any) -> dict[str, Any]:
    """Return the record of a row: its fields, but for its owner."""
    fields = asdict(row) if isinstance(row, TrajectoryRow) else row._asdict()
    record: dict[str, Any] = {"record": kind}
    for name, value in fields.items():
        if name not in ROW_OWNER and not (value is None and name in LEFT_OUT):
            shown = SHOWN.get(name) if value is not None else None
            record[name] = value if shown is None else shown(value)
    return record
