"""What a command cannot do is one line and exit code 1; a traceback means a defect."""

import sys
from collections.abc import Iterator
from typing import Any

from typer.core import TyperGroup

# A command loads what it needs, so an error can only be of a class that is loaded already.
EXPECTED = (
    "clients.sdk.errors.ApiError",
    "service.base.problems.Problem",
    "service.operation.server.BindRefused",
    "service.storage.ports.Refused",
)
UNREACHABLE = ("httpx.HTTPError", "httpx.InvalidURL")


class CommandGroup(TyperGroup):
    """CommandGroup whose refusals are printed in a line."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            reason = _reason(error)
            if reason is None:
                raise
            command = f"{ctx.command_path} {ctx.invoked_subcommand}"
            raise SystemExit(f"{command}: {reason}") from None


def _reason(error: Exception) -> str | None:
    """Say what is wrong with a file, an address, a setting or an answer; None for a defect."""
    if isinstance(error, (OSError, *_loaded(EXPECTED))):
        return str(error)
    if isinstance(error, tuple(_loaded(UNREACHABLE))):
        return f"there is no server to talk to at that --url: {error}"
    if getattr(error, "title", None) == "Settings":  # pydantic's ValidationError of that model
        errors: list[Any] = error.errors(include_url=False)  # type: ignore[attr-defined]
        return "; ".join(f"{'LHB_' + str(e['loc'][0]).upper()}: {e['msg']}" for e in errors)
    return None


def _loaded(names: tuple[str, ...]) -> Iterator[type[Exception]]:
    for name in names:
        module, _, kind = name.rpartition(".")
        if module in sys.modules:
            yield getattr(sys.modules[module], kind)
