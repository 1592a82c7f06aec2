"""The settings that are answered of a session, from their one declaration."""

from typing import Any, TypedDict, get_type_hints

from clients.sdk.answers import SessionAnswer as ClientsSession
from service.api.answer_models import page_of
from service.session.slot_clock import Totals
from service.session.spec import SessionSpec
from service.session.trial import Guard, Policy


class ControlAnswer(TypedDict):
    """The session whose agent control plays, by its id."""

    session: str


class HoldoutAnswer(TypedDict):
    """The share of trajectories in control, and what is played there."""

    share: float
    policy: Policy | ControlAnswer
    planned_rounds: int


class ClockAnswer(TypedDict):
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
SETTINGS = {name: SHOWN.get(name, kind) for name, kind in get_type_hints(SessionSpec).items()}
_members: Any = {**get_type_hints(ClientsSession), **SETTINGS}
SessionAnswer: Any = TypedDict("SessionAnswer", _members)  # type: ignore[misc]
SessionAnswer.__doc__ = ClientsSession.__doc__
SessionPage = page_of(SessionAnswer)
