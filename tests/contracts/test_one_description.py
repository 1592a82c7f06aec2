"""A row has the columns of its table; the client has the types of what the service answers."""

from dataclasses import fields
from enum import Enum
from types import UnionType
from typing import (
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import pytest
from pydantic import BaseModel

from clients.sdk import answers, fit_answers
from clients.sdk.wire import BatchItem, Decision, DecisionBody, RewardItem
from lhb_engine.estimate import Estimate
from service.api import lift_types, request_bodies, response_types, round_types, session_types
from service.api.response_types import DecisionAnswer, FitAnswer
from service.records import DecisionRow
from service.storage.database_url import is_sqlite, open_store, sqlite_path
from service.storage.sql.columns import COLUMNS, COUNTERS, column_types

DECLARED = {
    **{"text": str, "integer": int, "bigint": int, "real": float, "double precision": float},
    **{"blob": bytes, "bytea": bytes, "boolean": bool},
}
KEPT_BESIDE = {"fit_due", "wake_at", "fit_due_at", "revision"}  # worked out from a session's row


def declared(url: str, table: str) -> dict[str, type]:
    """The columns that the migrations have made, with the types of their values."""
    open_store(url).close()
    if is_sqlite(url):
        import sqlite3

        file = sqlite3.connect(sqlite_path(url))
        rows = file.execute(f"select name, lower(type) from pragma_table_info('{table}')")
        found = {name: DECLARED[kind] for name, kind in rows}
        file.close()
        return found
    import psycopg

    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select column_name, data_type from information_schema.columns"
            " where table_schema = 'public' and table_name = %s",
            [table],
        )
        return {name: DECLARED[kind] for name, kind in rows}


@pytest.mark.parametrize("table", sorted(COLUMNS))
def test_a_table_has_the_columns_of_its_row(database_url: str, table: str) -> None:
    found = declared(database_url, table)
    if table == "sessions":
        found = {k: v for k, v in found.items() if k not in KEPT_BESIDE}
        found |= dict.fromkeys(COUNTERS, int)
    named = dict(zip(COLUMNS[table], column_types(table), strict=True))
    assert found.keys() == named.keys()
    for name, kind in named.items():
        wanted = int if kind is bool and is_sqlite(database_url) else kind
        if wanted in set(DECLARED.values()):
            assert found[name] is wanted, name


def test_the_client_reads_what_is_answered_of_a_decision() -> None:
    answered = tuple(DecisionAnswer.model_fields)
    assert tuple(f.name for f in fields(Decision) if f.name != "extra") == answered
    assert set(answered) <= {*DecisionRow._fields, "event_id"}


def test_an_estimate_is_answered_with_all_its_fields() -> None:
    assert {f.name for f in fields(Estimate)} <= set(FitAnswer.model_fields)


SERVED = (response_types, session_types, round_types, lift_types)
READ = {**vars(answers), **vars(fit_answers)}
ANSWERS = [name for name, kind in READ.items() if is_typeddict(kind)]


def shape(kind: Any, *, may_be_null: bool = True) -> Any:
    """A type as text and tuples, in which a model and the client's dictionary of it are equal."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is NotRequired:
        return shape(parts[0])
    if origin is Literal:
        return ("literal", *sorted(parts))
    if origin in (Union, UnionType):
        kinds = {shape(part) for part in parts if may_be_null or part is not type(None)}
        return frozenset(kinds) if len(kinds) > 1 else kinds.pop()
    if parts:
        return (origin, *map(shape, parts))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ("literal", *sorted(member.value for member in kind))
    is_ours = is_typeddict(kind) or (isinstance(kind, type) and issubclass(kind, BaseModel))
    return kind.__name__ if is_ours else kind


@pytest.mark.parametrize("name", ANSWERS)
def test_the_client_has_the_types_that_the_service_answers(name: str) -> None:
    ours = READ[name]
    model: Any = next(vars(one)[name] for one in SERVED if name in vars(one))
    hints, found = get_type_hints(ours), model.model_fields
    assert list(hints) == list(found)
    for member, field in found.items():
        assert (member in ours.__required_keys__) == field.is_required(), member
        # a member that may be absent need not be null as well
        kinds = {shape(field.annotation, may_be_null=null) for null in (True, field.is_required())}
        assert shape(hints[member]) in kinds, member


def test_every_answer_of_the_service_has_a_type_in_the_client() -> None:
    served = {
        name
        for module in SERVED
        for name, model in vars(module).items()
        if name.endswith("Answer") and issubclass(model, BaseModel)
    }
    # the client does not hand these out
    elsewhere = {"BatchAnswer", "AliveAnswer", "ReadyAnswer"}
    assert served - elsewhere == {name for name in ANSWERS if name.endswith("Answer")}


@pytest.mark.parametrize("body", [RewardItem, DecisionBody, BatchItem])
def test_the_client_writes_what_the_service_reads(body: Any) -> None:
    read = getattr(request_bodies, body.__name__)
    assert get_type_hints(body).keys() == get_type_hints(read).keys()
