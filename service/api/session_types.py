"""The types of the answers on sessions, for /openapi.json."""

from typing import Any, get_type_hints

from pydantic import BaseModel, create_model

from lhb_engine.agents.base import Deciding
from service.api.lift_types import HoldoutAnswer
from service.api.response_types import Page
from service.session.slot_clock import Totals
from service.session.spec import SessionSpec
from service.session.trial import Guard


class ClockAnswer(BaseModel):
    """The slots of a session, and how many of them have begun."""

    slot_seconds: int
    start: str
    totals: Totals
    late_slots: int
    n_slots: int


SHOWN: dict[str, Any] = {
    "seed": int,
    "features": list[str] | None,
    "arms": list[str] | None,
    "holdout": HoldoutAnswer | None,
    "guard": Guard,
    "clock": ClockAnswer | None,
}
_types: Any = {n: (SHOWN.get(n, kind), ...) for n, kind in get_type_hints(SessionSpec).items()}
SettingsAnswer = create_model("SettingsAnswer", __doc__="The settings of a session.", **_types)


class SessionAnswer(SettingsAnswer):  # type: ignore[misc, valid-type]
    """A session."""

    id: str
    name: str | None
    created_at: str
    archived: bool
    n_rounds: int
    n_trajectories: int
    n_erased_rounds: int
    n_dropped_rounds: int
    dropped_to: int
    model_version: int
    fit_due: bool
    deciding: Deciding


class SessionPage(Page[SessionAnswer]):
    """A page of sessions."""
