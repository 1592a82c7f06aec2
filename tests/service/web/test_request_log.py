"""The lines of requests: the JSON of their records, with the time at which each was added."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from service.base.logs import shown_path
from service.web.request_log import NAMES, Asked, RequestLog

ASKED: Asked = ("POST", "/v1/batch", "", None, "127.0.0.1")
HOSTILE = st.text() | st.text('"\\\n\r\0\x7f\u2028{}%é😀a')
MAYBE = st.none() | HOSTILE
PATHS = HOSTILE | HOSTILE.map(lambda text: f"/v1/sessions/s/decisions/{text}")


def test_the_lines_of_a_turn_are_written_together(capsys: pytest.CaptureFixture[str]) -> None:
    before = datetime.now(UTC)

    async def add() -> None:
        log = RequestLog()
        for n in range(3):
            log.add(ASKED, f"mine-{n}", {}, 201, 0.001)
        assert capsys.readouterr().err == ""
        await asyncio.sleep(0)
        assert capsys.readouterr().err.count("\n") == 3
        log.add(ASKED, "mine-3", {}, 503, 0.0125)
        await asyncio.sleep(0)

    asyncio.run(add())
    text = capsys.readouterr().err
    assert text.endswith("\n")
    [line] = map(json.loads, text.splitlines())
    ms = '"ms": 12.500'  # all else in the form of other lines
    assert text == json.dumps(line).replace('"ms": 12.5', ms) + "\n"
    at = datetime.fromisoformat(line.pop("timestamp"))
    assert line == {
        **{"event": "request", "level": "info", "method": "POST", "path": "/v1/batch"},
        **{"tenant": "", "key": None, "client": "127.0.0.1"},
        **{"status": 503, "ms": 12.5, "request_id": "mine-3"},
    }
    tick = timedelta(milliseconds=20)  # two clocks of one machine
    assert before - tick <= at <= datetime.now(UTC) + tick


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    asked=st.tuples(HOSTILE, PATHS, MAYBE, MAYBE, MAYBE),
    request_id=HOSTILE,
    trace=st.dictionaries(st.sampled_from(["traceparent", "trace_id"]), HOSTILE),
    status=st.integers(100, 599),
    seconds=st.floats(0, 1e6),
    at=st.integers(0, 2**32 * 64),
)
@example(ASKED, "\ud800", {}, 200, 0.0, 1)  # no text that UTF-8 can write
def test_a_line_is_the_json_of_its_record(
    capsys: pytest.CaptureFixture[str],
    asked: Asked,
    request_id: str,
    trace: dict[str, str],
    status: int,
    seconds: float,
    at: int,
) -> None:
    """Also the second one, whose beginning is known."""

    async def add() -> None:
        log = RequestLog(lambda: at / 64)
        for n in (0, 1):
            log.add(asked, request_id, trace, status + n, seconds)
        await asyncio.sleep(0)

    asyncio.run(add())
    text = capsys.readouterr().err
    assert text.isascii()
    when = datetime(1970, 1, 1) + timedelta(microseconds=at * 15_625)
    record = {
        **{"event": "request", "level": "info", **dict(zip(NAMES, asked, strict=True))},
        **{"path": shown_path(asked[1]), "status": status, "ms": round(seconds * 1000, 3)},
        **{"request_id": request_id, **trace},
        "timestamp": when.isoformat(timespec="microseconds") + "Z",
    }
    assert [json.loads(line) for line in text.removesuffix("\n").split("\n")] == [
        record,
        record | {"status": status + 1},
    ]


def test_few_beginnings_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """A server of a million sessions has as many paths."""
    long = "a" * 60_000  # that anybody may send; of an event's id a line shows nothing
    paths = [f"/v1/sessions/{n}" for n in (1, 2, 1, 3, 4, 5, 1, long)]
    paths.append(f"/v1/sessions/s/trajectories/{long}")

    async def add() -> None:
        log = RequestLog(most=2)
        for path in paths:
            log.add(("POST", path, *ASKED[2:]), "r", {}, 200, 0.001)
            assert len(log._begins) <= 2
            assert all(len(kept[1]) < 1024 for kept in log._begins)
        await asyncio.sleep(0)

    asyncio.run(add())
    written = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["path"] for line in written] == [*map(shown_path, paths)]


def test_the_time_is_that_of_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    times = [1.25, 1.5, 2.0625, 86_400.0]

    async def add() -> None:
        log = RequestLog(iter(times).__next__)
        for _ in times:
            log.add(ASKED, "r", {}, 200, 0.001)
        await asyncio.sleep(0)

    asyncio.run(add())
    assert [json.loads(line)["timestamp"] for line in capsys.readouterr().err.splitlines()] == [
        "1970-01-01T00:00:01.250000Z",
        "1970-01-01T00:00:01.500000Z",
        "1970-01-01T00:00:02.062500Z",
        "1970-01-02T00:00:00.000000Z",
    ]
