"""The lines of requests: valid JSON with the time at which each was added."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from service.web.request_log import RequestLog


def test_the_lines_of_a_turn_are_written_together(capsys: pytest.CaptureFixture[str]) -> None:
    before = datetime.now(UTC)

    async def add() -> None:
        log = RequestLog()
        for n in range(3):
            log.add({"path": '/a"\n\u00e9\x00', "status": n})
        assert capsys.readouterr().err == ""
        await asyncio.sleep(0)
        assert capsys.readouterr().err.count("\n") == 3
        log.add({"path": '/a"\n\u00e9\x00', "status": 3, "key": None})
        await asyncio.sleep(0)

    asyncio.run(add())
    text = capsys.readouterr().err
    assert text.endswith("\n")
    [line] = map(json.loads, text.splitlines())
    at = datetime.fromisoformat(line.pop("timestamp"))
    assert line == {"path": '/a"\n\u00e9\x00', "status": 3, "key": None}
    tick = timedelta(milliseconds=20)  # two clocks of one machine
    assert before - tick <= at <= datetime.now(UTC) + tick


def test_the_time_is_that_of_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    times = [1.25, 1.5, 2.0625, 86_400.0]

    async def add() -> None:
        log = RequestLog(iter(times).__next__)
        for _ in times:
            log.add({})
        await asyncio.sleep(0)

    asyncio.run(add())
    assert [json.loads(line)["timestamp"] for line in capsys.readouterr().err.splitlines()] == [
        "1970-01-01T00:00:01.250000Z",
        "1970-01-01T00:00:01.500000Z",
        "1970-01-01T00:00:02.062500Z",
        "1970-01-02T00:00:00.000000Z",
    ]
