"""What changes a session as a whole: its name and settings, a copy, its end."""

from typing import Self, Unpack
from urllib.parse import quote

from .answers import SessionAnswer
from .session_reads import SessionReads
from .settings import CopySettings, SettingChanges
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
        **settings: Unpack[SettingChanges],
    ) -> Steps[SessionAnswer]:
        """Rename or archive the session, change its mode, options or retention, or arm its guard.

        Options may change that mean no new model, such as `memory`; what was learned stays.
        `keep_rounds` and `keep_days` drop the rows of earlier rounds; None: no more go.
        """
        changes = {**given({"name": name, "archived": archived}), **settings}
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
    def copy(self, /, name: str | None = None, **settings: Unpack[CopySettings]) -> Steps[Self]:
        """Make a session with the same rounds and rewards, and other settings.

        A fit of all its rounds is due at once; it has no estimates before.

        Parameters
        ----------
        name : str, optional
            Unique for each tenant; with it, a retry makes no second copy.
        **settings
            Where they differ from this session's.
        """
        body = {**settings, **given({"name": name})}
        info: SessionAnswer
        info = yield from self._connection.call("POST", f"{self._path}/copy", json=body)
        return type(self)(self._connection, info["id"], info)
