"""Errors of PostgreSQL that are no defects: contention, and a database that cannot serve."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from service.base.problems import ProblemCode, Unavailable, outcome_unknown
from service.storage.ports import Contended


@contextmanager
def translated(*, is_commit: bool = False) -> Iterator[None]:
    """Turn the driver's errors that are no defects into `Contended` or `Unavailable`.

    Parameters
    ----------
    is_commit : bool
        Whether a lost connection leaves it unknown what became of the work. Where the server
        answers with such an error, nothing was written.

    Raises
    ------
    Contended
        Another process holds or changed the same rows; the batch must run again.
    Unavailable
        The database is unreachable, full, read-only or too slow; or ``outcome_unknown``.
    """
    try:
        yield
    except (
        errors.DeadlockDetected,
        errors.SerializationFailure,
        errors.UniqueViolation,
        errors.LockNotAvailable,
    ) as error:
        raise Contended(str(error)) from error
    except errors.DiskFull as error:
        detail = "the disk is full; nothing was written"
        raise Unavailable(ProblemCode.STORAGE_FULL, detail, _line(error)) from error
    except errors.ReadOnlySqlTransaction as error:
        detail = "the database cannot be written; nothing was written"
        raise Unavailable(ProblemCode.STORAGE_READONLY, detail, _line(error)) from error
    except errors.QueryCanceled as error:
        raise Unavailable(
            ProblemCode.STORAGE_BUSY, "the database did not answer in time; nothing was written"
        ) from error
    except psycopg.OperationalError as error:
        reason = "the database does not answer"
        if is_commit:
            raise outcome_unknown(reason, _line(error)) from error
        detail = f"{reason}; nothing was written"
        raise Unavailable(ProblemCode.STORAGE_UNREACHABLE, detail, _line(error)) from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
