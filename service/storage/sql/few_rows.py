"""The statements for kinds of rows of which a transaction has few, the same for both databases."""

from collections.abc import Iterator
from typing import Any

from service.storage.ports import Changes


def write_few(changes: Changes) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the name of a statement and its values, for one row after the other."""
    gone = changes.audit_gone
    for name, rows in (
        ("insert_estimate", changes.estimates),
        ("insert_void", changes.voids),
        ("keep_sums", changes.sums),
        ("drop_slots", [(*key, slot) for key, slot in changes.dropped_slots]),
        ("erase_slots", changes.erased_slots),
        ("keep_slots", changes.slot_sums),
        ("keep_lift_sums", changes.lift_sums),
        ("keep_lift_unit", changes.lift_units),
        ("drop_sums", changes.dropped_sums),
        ("hide", changes.hidden),
        ("forget_hidden", changes.swept),
        ("save_api_key", changes.api_keys),
        ("use_api_key", changes.used_keys),
        ("forget_audit", [] if gone is None else [(gone,)]),
        ("insert_audit", changes.audit),
    ):
        for row in rows:
            yield name, row
