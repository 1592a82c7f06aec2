"""The request bodies of Personalizer's routes, with the names of its contract."""

from datetime import timedelta
from typing import Annotated, Any, Literal, Required

from pydantic import FailFast, Field, with_config
from typing_extensions import TypeAliasType, TypedDict

from service.api.body_parsing import BodyParser
from service.api.request_bodies import MAX_ARMS
from service.base.field_types import STRICT, ArmIds, ClientId, Dim, Horizon, Key, Number

Features = TypeAliasType("Features", Annotated[list[dict[str, Any]], FailFast()])


@with_config(STRICT)
class RankableAction(TypedDict):
    """An action that may be chosen."""

    id: Key
    features: Features


@with_config(STRICT)
class RankRequest(TypedDict, total=False):
    """Actions to choose one of, and the context in which."""

    actions: Required[
        Annotated[list[RankableAction], Field(min_length=1, max_length=MAX_ARMS), FailFast()]
    ]
    contextFeatures: Features | None
    excludedActions: ArmIds | None
    eventId: Annotated[ClientId, Field(min_length=1)] | None
    deferActivation: bool | None


@with_config(STRICT)
class RewardRequest(TypedDict):
    """The reward of an event."""

    value: Number


@with_config(STRICT)
class ServiceConfiguration(TypedDict, total=False):
    """Settings of Personalizer's configuration; `dim`, `horizon` and `algorithm` are ours."""

    rewardWaitTime: Required[Annotated[timedelta, Field(strict=False, ge=timedelta(0))]]
    defaultReward: Required[Number]
    rewardAggregation: Required[Literal["earliest", "sum"]]
    explorationPercentage: Required[Annotated[float, Field(ge=0, le=1)]]
    learningMode: Literal["Online", "Apprentice", "LoggingOnly"]
    dim: Dim
    horizon: Horizon
    # what has no meaning here is taken as it is sent
    modelExportFrequency: Any
    logRetentionDays: Any
    lastConfigurationEditDate: Any
    logMirrorEnabled: Literal[False] | None
    logMirrorSasUri: Literal[""] | None
    isAutoOptimizationEnabled: Literal[False] | None
    autoOptimizationFrequency: Any
    autoOptimizationStartDate: Any


RANK = BodyParser(RankRequest)
REWARD = BodyParser(RewardRequest)
CONFIGURATION = BodyParser(ServiceConfiguration)
