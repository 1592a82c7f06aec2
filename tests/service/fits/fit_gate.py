"""What tests of fits share: rounds, a gate before the fit, and what was installed."""

from pathlib import Path
from typing import Any

from service.fits.processes import Job
from tests.service.conftest import Client, until
from tests.service.fits.fit_jobs import gate_of

ARMS = [[1.0, 0.25], [-0.5, 1.0], [0.25, -1.0]]


def close_gate(client: Client, job: Job) -> Path:
    """Fits of this service run `job`, whose gate is closed now."""
    client.fits.job = job
    gate = gate_of(client.service.settings.database_url)
    gate.touch()
    return gate


async def process_at(gate: Path) -> int:
    """The process whose fit is held there."""
    written = gate.with_suffix(".pid")

    async def found() -> int:
        return int(written.read_text()) if written.exists() else 0

    return int(await until(found))


async def play(client: Client, session: str, n: int) -> list[Any]:
    """Rounds with rewards, whatever theta is."""
    answers = []
    for _ in range(n):
        answer = await client.decide(session, ARMS)
        answers.append(answer)
        value = ARMS[answer["arm"]][0] + 0.01 * answer["round"]
        await client.reward(session, value=value, round=answer["round"])
    return answers


async def installed(client: Client, session: str) -> list[Any]:
    return [
        item
        for item in (await client.read(f"/v1/sessions/{session}/estimates"))["items"]
        if item["status"] not in ("failed", "skipped")
    ]
