"""A worker whose connection is lost while it claims a fit."""

from typing import Any, cast
from unittest.mock import Mock

import pytest

from service.base.problems import ProblemCode, Unavailable
from service.base.server_settings import Settings
from service.operation.worker import Worker
from service.storage.postgres.fit_claims import ClaimableFit, Claims
from service.storage.postgres.store import PostgresStore

pytestmark = pytest.mark.anyio


class LostClaims:
    """One fit is due; the connection is lost between the question and the claim."""

    async def due(self) -> list[ClaimableFit]:
        return [ClaimableFit(("tenant", "session"), 5, "anytime", 2, 4, {})]

    async def claim(self, key: Any) -> bool:
        raise Unavailable(ProblemCode.STORAGE_UNREACHABLE, "the connection is lost")


async def test_a_claim_that_is_lost_takes_no_place() -> None:
    """Else every process would be taken for good, and no fit would begin again."""
    settings = Settings(database_url="postgresql://nobody@127.0.0.1/none", fit_workers=1)
    worker = Worker(settings, cast(PostgresStore, Mock(transaction_seconds=1.0)))
    before = worker._places.room
    with pytest.raises(Unavailable):
        await worker._claim(cast(Claims, LostClaims()))
    assert worker._places.room == before > 0
