"""A row has the columns of its table; the client has the types of what the service answers."""

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from clients.sdk import answers
from clients.sdk.answers import DecisionAnswer, FitAnswer
from clients.sdk.wire import BatchItem, Decision, DecisionBody, RewardItem
from lhb_engine.agents.base import Deciding
from lhb_engine.estimate import Estimate, LagForm
from service.api import request_bodies
from service.commands.out_of_turn import Asked
from service.session.records import DecisionRow
from service.session.trial import PlayedBy
from service.storage.database_url import is_sqlite, open_store, sqlite_path
from service.storage.sql.statements import COLUMNS, COUNTERS, column_types
from tests.contracts.client_settings import SETTINGS_FILE, settings_written

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
    answered = tuple(DecisionAnswer.__annotations__)
    assert tuple(f.name for f in fields(Decision) if f.name != "extra") == answered
    assert set(answered) <= {*DecisionRow._fields, "event_id"}


def test_an_estimate_is_answered_with_all_its_fields() -> None:
    assert {f.name for f in fields(Estimate)} <= FitAnswer.__annotations__.keys()


def test_the_client_has_the_types_of_settings_that_the_service_answers() -> None:
    assert SETTINGS_FILE.read_text() == settings_written(), "make answers"


@pytest.mark.parametrize("name", ["Deciding", "LagForm", "Asked", "PlayedBy"])
def test_the_client_knows_the_words_of_answers(name: str) -> None:
    spoken = {"Deciding": Deciding, "LagForm": LagForm}
    spoken |= {"Asked": Asked, "PlayedBy": PlayedBy}
    assert getattr(answers, name) == spoken[name]


@pytest.mark.parametrize("body", [RewardItem, DecisionBody, BatchItem])
def test_the_client_writes_what_the_service_reads(body: Any) -> None:
    read = getattr(request_bodies, body.__name__)
    assert get_type_hints(body).keys() == get_type_hints(read).keys()
