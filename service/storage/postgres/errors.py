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
        raise Unavailable(
            ProblemCode.STORAGE_FULL, f"the disk is full ({_line(error)}); nothing was written"
        ) from error
    except errors.ReadOnlySqlTransaction as error:
        reason = f"the database cannot be written ({_line(error)})"
        raise Unavailable(ProblemCode.STORAGE_READONLY, f"{reason}; nothing was written") from error
    except errors.QueryCanceled as error:
        raise Unavailable(
            ProblemCode.STORAGE_BUSY, "the database did not answer in time; nothing was written"
        ) from error
    except psycopg.OperationalError as error:
        reason = f"the database does not answer ({_line(error)})"
        if is_commit:
            raise outcome_unknown(reason) from error
        detail = f"{reason}; nothing was written"
        raise Unavailable(ProblemCode.STORAGE_UNREACHABLE, detail) from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
