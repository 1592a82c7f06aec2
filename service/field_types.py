"""Types with limits for values from outside: request bodies and imported files."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from lhb_engine.randomness import SEED_LIMIT

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
LARGEST = 1e12
NO_ZERO_BYTE = "^[^\\x00]*$"  # PostgreSQL cannot store a zero byte in a text

Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Name = Annotated[str, Field(min_length=1, max_length=256, pattern=NO_ZERO_BYTE)]
Key = Annotated[str, Field(max_length=256, pattern=NO_ZERO_BYTE)]
EventId = Annotated[str, Field(min_length=1, max_length=256, pattern=NO_ZERO_BYTE)]

Dim = Annotated[int, Field(ge=1, le=100_000, description="numbers in a context")]
Horizon = Annotated[int, Field(ge=1, le=1_000_000, description="number of lags")]
Seed = Annotated[int, Field(ge=0, lt=SEED_LIMIT)]
RewardMode = Literal["single", "sum"]
Refit = Literal["background", "blocking"]
WaitSeconds = Annotated[float, Field(ge=0, le=1e9)]


def field_name(location: tuple[int | str, ...]) -> str:
    """Format the path of a field: ``("rewards", 0, "round")`` becomes ``rewards[0].round``."""
    out = ""
    for part in location:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            out += f".{part}" if out else part
    return out
