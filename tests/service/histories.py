"""The history of a fit, read anew."""

from lhb_engine.history import FitWindow, History
from service.rounds.timeline import timeline_of
from service.session.fit_schedule import Watermark
from service.session.records import SessionRow
from service.storage.reader import Reader


def read_history(
    reader: Reader, session: SessionRow, window: FitWindow, known: Watermark | None = None
) -> History:
    """Return the history of all rows of a window, up to a watermark.

    Without one there are all measurements, as they came, and kept sums stand for decisions.
    """
    given = reader, session, window, known
    return timeline_of(session).past(*given, takes_kept=known is None).whole()
