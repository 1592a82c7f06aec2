"""A `ServiceHarness` whose doors are HTTP: the whole application, no fitting process."""

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx

from service.api.decisions import decision_answer
from service.api.runtime import Service
from service.base.problems import Problem, ProblemCode
from service.base.server_settings import Settings
from service.commands.rewards import Accepted
from service.fits.fits_in_server import FitPool
from service.operation.app import create_app
from service.session.records import DecisionRow, SessionRow
from tests.service.service_harness import CONTEXTS, ServiceHarness


class HttpHarness(ServiceHarness):
    """A `ServiceHarness` asked over ASGI, in a loop that runs while something is asked."""

    def __init__(self, path: Path) -> None:
        self._runner = asyncio.Runner()
        app = create_app(Settings(database_url=f"sqlite:///{path / 'lhb.db'}", log_level="error"))
        self._lifespan = app.router.lifespan_context(app)
        # fits become due, and the test says what comes of them; `patch` knows if a name is gone
        with patch.object(FitPool, "_run_waiting", lambda pool: None):
            self._runner.run(self._lifespan.__aenter__())
        self.service: Service = app.state.service
        patch.object(self.service.fits, "_run_waiting", lambda: None).start()
        self.store, self.agents = self.service.store, self.service.agents
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://lhb"
        )
        self.key = ("", "")

    def close(self) -> None:
        """Shut the application down."""
        self._runner.run(self._client.aclose())
        self._runner.run(self._lifespan.__aexit__(None, None, None))
        self._runner.close()

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """The parsed answer; a problem is raised as the `Problem` it describes."""
        made = self._client.request(method, path, json=body, params=query)
        answer: httpx.Response = self._runner.run(made)  # type: ignore[arg-type]
        if answer.status_code >= 400:
            said = answer.json()
            code = ProblemCode(said["code"])
            assert said["status"] == answer.status_code == code.status
            raise Problem(code, said["detail"], said["field"])
        return answer.json()

    def run(self, command: Any) -> Any:
        """What no route does: the result of a fit."""
        return self._runner.run(self.service.writer.submit(command))

    def create(self, **body: Any) -> SessionRow:
        """A new session, which the other methods then mean."""
        asked = {"algorithm": "ad_lasso", "dim": 2, "horizon": 4, "seed": 1, **body}
        self.key = ("", self.ask("POST", "/v1/sessions", asked)["id"])
        return self.session

    @property
    def path(self) -> str:
        """The session's."""
        return f"/v1/sessions/{self.key[1]}"

    def decide(self, trajectory: str = "", **more: Any) -> DecisionRow:
        """A decision, found again by GET and in the database as it was answered."""
        body = {"contexts": CONTEXTS.tolist(), "trajectory": trajectory}
        if "event_id" in more:
            body["event_id"] = more["event_id"]
            if more["digest"] != b"1":  # another body
                body["contexts"] = CONTEXTS[::-1].tolist()
        answer = self.ask("POST", f"{self.path}/decisions", body)
        page = f"{self.path}/decisions/{answer['event_id']}"
        assert self.ask("GET", page, trajectory=trajectory) == answer
        with self.store.reader() as reader:
            found = reader.decision((*self.key, trajectory), answer["event_id"])
        assert found is not None
        assert decision_answer(found) == answer
        return found._replace(digest=more.get("digest"))  # the caller's word for the body

    def reward(self, value: float, trajectory: str = "", **when: Any) -> Accepted:
        """One reward."""
        body = {"value": value, "trajectory": trajectory, **when}
        return Accepted(**self.ask("POST", f"{self.path}/rewards", body))
