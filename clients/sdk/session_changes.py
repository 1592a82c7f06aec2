"""What changes a session as a whole: its name and settings, a copy, its end."""

from collections.abc import Mapping
from typing import Any, Literal, Self
from urllib.parse import quote

from .answers import SessionAnswer
from .session_reads import SessionReads
from .steps import Steps, operation
from .wire import given


class SessionChanges(SessionReads):
    """One session, which can be changed."""

    @operation
    def change(
        self,
        *,
        name: str | None = None,
        archived: bool | None = None,
        mode: Literal["live", "shadow"] | None = None,
        guard: Literal["armed", "off"] | None = None,
        options: Mapping[str, Any] | None = None,
        reward_wait_seconds: float | None = None,
        keep_rounds: int | None = None,
        keep_days: float | None = None,
        keep_all: bool = False,
    ) -> Steps[SessionAnswer]:
        """Rename or archive the session, change its mode, options or retention, or arm its guard.

        Options may change that mean no new model, such as `memory`; what was learned stays.
        `keep_rounds` and `keep_days` drop the rows of earlier rounds; after `keep_all` no more go.
        """
        changes = given({"name": name, "archived": archived, "mode": mode, "options": options})
        changes |= given({"reward_wait_seconds": reward_wait_seconds, "guard": guard})
        changes |= given({"keep_rounds": keep_rounds, "keep_days": keep_days})
        if keep_all:
            changes |= {"keep_rounds": None, "keep_days": None}
        info: SessionAnswer
        info = yield from self._connection.call("PATCH", self._path, json=changes)
        self._info = info
        return info

    @operation
    def delete(self) -> Steps[None]:
        """Delete the session and all its data."""
        yield from self._connection.call("DELETE", self._path)

    @operation
    def erase_trajectory(self, key: str) -> Steps[None]:
        """Erase all rounds and rewards of a trajectory. Erasing it again does nothing."""
        path = f"{self._path}/trajectories/{quote(key, safe='')}"
        yield from self._connection.call("DELETE", path)

    @operation
    def copy(self, /, name: str | None = None, **settings: Any) -> Steps[Self]:
        """Make a session with the same rounds and rewards, and other settings.

        A fit of all its rounds is due at once; it has no estimates before.

        Parameters
        ----------
        name : str, optional
            Unique for each tenant; with it, a retry makes no second copy.
        **settings
            `algorithm`, `horizon`, `seed`, `options`, `reward_wait_seconds`, `default_reward` or
            `refit`, where they differ from this session's.
        """
        body = {**settings, **given({"name": name})}
        info: SessionAnswer
        info = yield from self._connection.call("POST", f"{self._path}/copy", json=body)
        return type(self)(self._connection, info["id"], info)
