"""Types with limits: of request bodies, and of stored fields that an imported file fills."""

import re
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BeforeValidator, ConfigDict, FailFast, Field
from typing_extensions import TypeAliasType

from lhb_engine.history import LATEST
from lhb_engine.randomness import SEED_LIMIT

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
LARGEST = 1e12
NO_ZERO_BYTE = "^[^\\x00]*$"  # PostgreSQL cannot store a zero byte in a text
# all but "." and "..": in a path they are steps, which clients and proxies take before they ask
# (RFC 3986, 5.2.4): DELETE .../trajectories/.. would be that of the session
NO_STEP = "(?:[^.\\x00][^\\x00]*|[.][^.\\x00][^\\x00]*|[.][.][^\\x00]+)"

Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Ordinal = Annotated[int, Field(ge=1, le=2**53)]
Probability = Annotated[float, Field(gt=0, le=1 + 1e-9)]
MOST_SECONDS = 1e11
Time = Annotated[float, Field(ge=0, le=MOST_SECONDS)]  # until the year 5138, which fits a timestamp
Text = Annotated[str, Field(pattern=NO_ZERO_BYTE)]
Name = Annotated[str, Field(min_length=1, max_length=256, pattern=f"^{NO_STEP}$")]
Key = Annotated[str, Field(max_length=256, pattern=NO_ZERO_BYTE)]
KeyInPath = Annotated[str, Field(max_length=256, pattern=f"^{NO_STEP}?$")]
EventId = Name
# "~" begins the event ids of the server
NO_TILDE = f"^{NO_STEP.replace('.', '.~', 1)}$"
ClientId = Annotated[str, Field(max_length=256, pattern=NO_TILDE)]
MOST_LETTERS = 256  # of the name of a feature, and of a category
FEATURE = re.compile(f"[^=\\x00]{{1,{MOST_LETTERS}}}")  # "=" is between a feature and its category
Feature = Annotated[str, Field(pattern=f"^{FEATURE.pattern}$")]

MOST_COVARIATES = 32
GivenCovariates = Annotated[dict[Key, Number], Field(max_length=MOST_COVARIATES)]

Dim = Annotated[int, Field(ge=1, le=100_000, description="number of features of a context")]
Horizon = Annotated[int, Field(ge=1, le=1_000_000, description="number of lags")]
Seed = Annotated[int, Field(ge=0, lt=SEED_LIMIT)]
TRIMMED = r"^[^\s\x00]([^\x00]*[^\s\x00])?$"
STEP = 'must not be "." or "..", steps of a path, and hold no zero byte'
PATTERNS = {  # what a text has to be
    NO_ZERO_BYTE: "must hold no zero byte",
    **dict.fromkeys((f"^{NO_STEP}$", f"^{NO_STEP}?$"), STEP),
    NO_TILDE: f'{STEP}, nor begin with "~"',
    f"^{FEATURE.pattern}$": 'must have 1 to 256 letters, without "=" and zero bytes',
    TRIMMED: "must not begin or end with a space, and hold no zero byte",
}
RewardMode = Annotated[
    Literal["single", "sum"],
    Field(description="single: a round has one reward; sum: the rewards of a round add up"),
]
RewardUnit = Annotated[
    str,
    Field(
        max_length=16,
        pattern=TRIMMED,
        description="what rewards are counted in, such as EUR: sentences say it",
    ),
]
Refit = Annotated[
    Literal["background", "blocking"],
    Field(description="blocking: a decision waits for a fit that is due"),
]
WaitSeconds = Annotated[
    float, Field(ge=0, le=1e9, description="how long a fit waits for missing rewards, in seconds")
]

KeepRounds = Annotated[
    int,
    Field(
        ge=LATEST,
        le=2**53,
        description="rows of earlier rounds go, once no coming fit needs them; null: all stay",
    ),
]
KeepDays = Annotated[
    float,
    Field(ge=1 / 24, le=36_500, description="the same of rounds that began longer ago than this"),
]


# FailFast: without it, pydantic makes an error object for every bad element, gigabytes of them
ArmIds = TypeAliasType("ArmIds", Annotated[list[Key], FailFast()])
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def _rfc_3339(value: Any) -> Any:
    if isinstance(value, str) and RFC_3339.fullmatch(value):
        return value
    raise ValueError("a time is RFC 3339 with an offset, like 2026-01-31T12:00:00+01:00")


Timestamp = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_rfc_3339)]


def in_words(message: str) -> str:
    """Return what pydantic says of a value, without the pattern of a text."""
    message = message.removeprefix("Value error, ")
    pattern = message.removeprefix("String should match pattern ")[1:-1]
    return PATTERNS.get(pattern, message)


def field_name(location: tuple[int | str, ...]) -> str:
    """Format the path of a field: ``("rewards", 0, "round")`` becomes ``rewards[0].round``."""
    out = ""
    for part in location:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            out += f".{part}" if out else part
    return out
