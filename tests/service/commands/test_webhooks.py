"""Messages to webhooks: what makes one, who has it, how often it is tried; on both databases."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from lhb_engine.estimate import Estimate
from lhb_engine.findings.finding import Finding
from service.commands import webhooks
from service.commands.webhooks import make_webhook, note_attempt, remove_webhook, take_message
from service.session.records import COMMAND_LINE, Message
from service.storage.postgres.store import PostgresStore
from service.writer import notices
from service.writer.command import command
from service.writer.unit_of_work import UnitOfWork
from tests.service.service_harness import OK, ServiceHarness
from tests.service.test_guard import HOLDOUT, visit
from tests.service.test_lift import sum_up

URL = "https://example.com/"
ALL = ("finding", "alarm", "fit_failed", "guard_tripped")


def make(harness: ServiceHarness, events: Any = ALL, tenant: str = "") -> str:
    return str(harness.run(make_webhook(tenant, URL, events, COMMAND_LINE)).id)


def told(harness: ServiceHarness, webhook: str) -> list[tuple[str, Any]]:
    """Take all that is due: types and data."""
    found = []
    while taken := harness.run(take_message("", webhook, 60.0)):
        body = json.loads(taken[1].body)
        found.append((body["type"], body["data"]))
        harness.run(note_attempt(taken[1], None, 5.0))
    return found


def taken(harness: ServiceHarness, webhook: str) -> Message | None:
    found = harness.run(take_message("", webhook, 60.0))
    return None if found is None else found[1]


def found(*codes: Any, alarm: bool = False) -> Estimate:
    """An estimate with these findings of feature 1."""
    findings = [asdict(Finding(code, "Feature 1 is odd.", features=(1,))) for code in codes]
    return replace(OK, findings=findings, diagnostics={"alarm": alarm})


def fits(harness: ServiceHarness, *estimates: Estimate | None) -> None:
    """So many fits, each with its outcome; ad_lasso with horizon 4 is due after 4, 12, 28, 60."""
    for estimate in estimates:
        while harness.session.fit_due is None:
            harness.rounds(1)
        harness.finish(harness.session.fit_due, estimate)
        while harness.session.fit_due is None and harness.session.wake_at:
            harness.now = harness.session.wake_at
            harness.tick()


def test_findings_and_alarms_are_told_when_they_begin(both: ServiceHarness) -> None:
    webhook = make(both)
    deaf, other = make(both, ["guard_tripped"]), make(both, tenant="another")
    session = both.create(features=["price", "size"])
    fits(both, found("trend"), found("trend", "season", alarm=True), found(alarm=True))
    fits(both, found("trend"))
    heard = sorted(told(both, webhook), key=lambda one: (one[1]["estimate"], one[0] == "alarm"))
    assert [(kind, data["estimate"]) for kind, data in heard] == [
        ("finding", 1),
        ("finding", 2),
        ("alarm", 2),
        ("finding", 4),
    ]
    assert [data["finding"]["code"] for kind, data in heard if kind == "finding"] == [
        *("trend", "season", "trend"),
    ]
    assert heard[0][1]["session_id"] == session.id
    assert heard[0][1]["finding"]["message"] == 'Feature "size" is odd.'
    assert told(both, deaf) == []
    assert both.run(take_message("another", other, 60.0)) is None


def test_fits_that_fail_in_a_row_are_told_once(both: ServiceHarness) -> None:
    webhook = make(both)
    both.create()
    fits(both, None, None, OK)
    assert [kind for kind, _ in told(both, webhook)] == ["fit_failed"]
    fits(both, None)
    [(kind, data)] = told(both, webhook)
    assert (kind, data["reason"]) == ("fit_failed", "broken")


def test_a_tripped_guard_is_told(both: ServiceHarness) -> None:
    webhook = make(both)
    both.create(holdout=HOLDOUT, name="shop")
    visit(both, -0.5, 1)
    sum_up(both)
    [(kind, data)] = told(both, webhook)
    assert (kind, data["name"]) == ("guard_tripped", "shop")
    assert data["low"] < data["difference"] < data["high"] < 0


def test_a_message_is_one_senders_until_its_attempt_is_noted_or_its_claim_over(
    both: ServiceHarness,
) -> None:
    webhook = make(both)
    both.run(webhooks.try_webhook("", webhook))
    first = taken(both, webhook)
    assert first is not None
    assert taken(both, webhook) is None
    both.now += 59.0
    assert taken(both, webhook) is None
    both.now += 2.0  # its sender is dead
    second = taken(both, webhook)
    assert second is not None
    assert (second.id, second.body) == (first.id, first.body)
    assert both.run(note_attempt(second, "no", 5.0)) == "failed"
    both.now += 3.9
    assert taken(both, webhook) is None
    both.now += 2.2  # 5 s, a fifth more at most
    third = taken(both, webhook)
    assert third is not None
    assert third.attempts == 1
    assert both.run(note_attempt(third, None, 5.0)) == "delivered"
    with both.store.reader() as reader:
        assert reader.waiting_messages(None) == {}
        assert reader.due_webhooks(both.now + 1e6, 9) == []
        [row] = reader.webhooks("")
        assert (row.last_error, row.n_given_up) == (None, 0)
        assert (row.failed_at, row.delivered_at) == pytest.approx((both.now - 6.1, both.now))


def test_it_is_given_up_after_days_of_rarer_attempts(both: ServiceHarness) -> None:
    webhook = make(both)
    both.run(webhooks.try_webhook("", webhook))
    began, at = both.now, []
    outcome = "failed"
    while outcome == "failed":
        with both.store.reader() as reader:
            both.now = reader.waiting_messages("")["", webhook][1] + 1e-3
        message = taken(both, webhook)
        assert message is not None
        at.append(both.now - began)
        outcome = both.run(note_attempt(message, "no", 5.0))
    assert outcome == "given_up"
    assert 15 <= len(at) <= 25
    assert 2.5 * 86_400 < at[-1] < 3 * 86_400
    with both.store.reader() as reader:
        assert reader.waiting_messages("") == {}
        assert reader.webhooks("")[0].n_given_up == 1
        assert reader.messages_given_up() == [("", 1)]


@command
def write_messages(uow: UnitOfWork, n: int) -> None:
    """Write some at once."""
    [webhook] = uow.stored.webhooks("")
    for _ in range(n):
        notices.write_message(uow, webhook, "test", {})


def test_of_a_receiver_that_is_away_no_more_wait_than_a_limit(both: ServiceHarness) -> None:
    webhook = make(both)
    both.run(write_messages(notices.MOST_WAITING - 1))
    for _ in range(2):
        both.run(webhooks.try_webhook("", webhook))
    with both.store.reader() as reader:
        assert reader.waiting_messages("")["", webhook][0] == notices.MOST_WAITING
        assert reader.webhooks("")[0].n_given_up == 1


def test_a_removed_webhooks_messages_go_with_it(both: ServiceHarness) -> None:
    webhook = make(both)
    both.run(webhooks.try_webhook("", webhook))
    message = taken(both, webhook)
    assert message is not None
    both.run(remove_webhook("", webhook, COMMAND_LINE))
    both.run(note_attempt(message, "no", 5.0))  # it was being sent
    both.now += 100.0
    assert taken(both, webhook) is None
    with both.store.reader() as reader:
        assert reader.waiting_messages(None) == {}


def test_what_one_process_holds_another_passes_over(postgres_url: str) -> None:
    stores = PostgresStore(postgres_url), PostgresStore(postgres_url)
    harness = ServiceHarness(None, stores[0])  # type: ignore[arg-type]
    webhook = make(harness)
    harness.run(webhooks.try_webhook("", webhook))
    first, second = (store.begin() for store in stores)
    assert first.due_message("", webhook, harness.now) is not None
    assert second.due_message("", webhook, harness.now) is None
    for transaction in (first, second):
        transaction.rollback()
    for store in stores:
        store.close()
