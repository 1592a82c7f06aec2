"""The types of the request bodies that make and rotate an API key (`request_bodies.py`)."""

from typing import Annotated, Literal

from pydantic import Field, with_config
from typing_extensions import TypedDict

from service.api.unions import strict
from service.base.field_types import Key

MOST_SECONDS = 1e9  # some thirty years
DAY = 86_400.0
Role = Literal["reader", "writer", "admin"]


@with_config(strict({"label": "the shop", "role": "writer", "expires_in_seconds": 7_776_000}))
class KeyBody(TypedDict, total=False):
    """A new API key."""

    label: Annotated[Key, Field(description="note for people")]
    role: Annotated[
        Role,
        Field(
            description="reader: reads; writer: also creates, changes and deletes sessions, "
            "decides and rewards; admin: also manages keys, and reads the audit log; "
            'default "writer"'
        ),
    ]
    tenant: Annotated[
        Key,
        Field(
            description="whose data it opens; default: that of the key which asks, and another one "
            "only for admins of the default tenant"
        ),
    ]
    expires_in_seconds: Annotated[
        float | None, Field(gt=0, le=MOST_SECONDS, description="default: it does not expire")
    ]


@with_config(strict({"overlap_seconds": 3600}))
class RotationBody(TypedDict, total=False):
    """How long the old key stays valid."""

    overlap_seconds: Annotated[
        float, Field(ge=0, le=MOST_SECONDS, description="default: a day, 86400")
    ]
