"""What a fit's process returns, as the server takes it."""

from dataclasses import dataclass
from typing import Any

from service.rounds.slot_sums import SettledSlots
from service.session.records import KeptSumsRow, SessionRow


@dataclass(frozen=True, slots=True)
class FitSums:
    """What a fit's process returns of its sums."""

    row: KeptSumsRow  # of nobody yet, and with the estimate that the fit began from
    total: bytes | None  # moments of all rows, the next fit's `seen`; None where rows may change

    def kept(self, session: SessionRow, installed: dict[str, Any] | None) -> KeptSumsRow | None:
        """Return the row to be kept after the fit, or None if the next one has no use for it.

        `installed` are the diagnostics of the fit's estimate if it was installed.
        """
        tenant, id = session.key
        row = self.row._replace(tenant=tenant, session_id=id, estimate=session.estimate)
        if installed is None:
            return row if session.estimate == self.row.estimate else None
        is_useful = installed.get("since_round", 1) == row.first_round
        return row._replace(seen=self.total) if is_useful else None


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitting process's result: an estimate with its fingerprint, or the reason of its failure.

    `estimate` is the JSON form of an `Estimate`: None if the fit failed, and in a part of a fit,
    whose `settled` slots are to be kept before the fit goes on. `is_final` says of a failure that
    another attempt would end alike. `n_erased` is the session's as the fit read it.
    """

    estimate: dict[str, Any] | None = None
    fingerprint: dict[str, Any] | None = None
    reason: str | None = None
    is_final: bool = False
    session_name: str | None = None
    n_erased: int | None = None
    sums: FitSums | None = None
    settled: SettledSlots | None = None

    @property
    def is_part(self) -> bool:
        """Whether the fit goes on once its slots are kept."""
        return self.estimate is None and self.reason is None

    def summary(self) -> dict[str, Any]:
        """Return what a log says of it."""
        if self.estimate is None:
            return {"name": self.session_name, "reason": self.reason}
        return {
            "name": self.session_name,
            "rows": self.estimate["n_rows"],
            "reason": self.estimate["message"],
            "alarm": bool((self.estimate["diagnostics"] or {}).get("alarm")),
        }
