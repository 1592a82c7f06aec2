"""Floor A: plain FastAPI that parses a body, chooses at random, and stores nothing."""

import random
import uuid
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI, Response
from pydantic import BaseModel

from service.operation.server import AnnouncingServer

app = FastAPI()


class FloorBody(BaseModel):
    """The body of a decision."""

    contexts: list[list[float]]


@app.post("/v1/sessions", status_code=201)
async def create() -> dict[str, str]:
    """Answer with an id; nothing is stored."""
    return {"id": uuid.uuid4().hex}


@app.delete("/v1/sessions/{session_id}", status_code=204)
async def delete(session_id: str) -> None:
    """Do nothing."""


@app.post("/v1/sessions/{session_id}/decisions", status_code=201)
async def decide(session_id: str, decision: FloorBody) -> dict[str, Any]:
    """Choose an arm at random, and answer with the fields of a decision."""
    contexts = np.array(decision.contexts)
    arm = random.randrange(len(contexts))
    return {
        "event_id": "~1",
        "round": 1,
        "arm": arm,
        "arm_id": None,
        "scores": np.zeros(len(contexts)).tolist(),
        "propensity": 1 / len(contexts),
        "epoch": 1,
        "model_version": 0,
        "next_fit_round": None,
        "explored": True,
    }


@app.get("/metrics")
async def metrics() -> Response:
    """Answer with the counters that the measurement reads from every server."""
    return Response("lhb_commands_total 0\nlhb_commits_total 0\n")


if __name__ == "__main__":
    AnnouncingServer(
        uvicorn.Config(
            app,
            port=0,
            access_log=False,
            log_level="warning",
            server_header=False,
            date_header=False,
        )
    ).run()
