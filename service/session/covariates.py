"""The covariates of a session's rounds, as decisions and rewards carry and rows store them.

A row has JSON text of those that were given, in the order of the session's option `covariates`; so
equal ones are equal texts.
"""

import json
from collections.abc import Iterable, Mapping

from service.base.problems import Problem, ProblemCode
from service.session.records import SessionRow


def names_of_covariates(session: SessionRow) -> tuple[str, ...]:
    """Return the names of the session's covariates."""
    return tuple(session.options.get("covariates", ()))


def covariates_text(
    session: SessionRow, by_name: Mapping[str, float] | None, prefix: str = ""
) -> str | None:
    """Return what a row stores of given covariates; None if there are none.

    A 422 unknown_field, whose field begins with `prefix`, names one that the session does not have.
    """
    if not by_name:
        return None
    names = names_of_covariates(session)
    for name in by_name:
        if name not in names:
            which = f"its covariates are {', '.join(names)}" if names else "it has no covariates"
            detail = f"the session has no covariate {name!r}: {which}"
            raise Problem(ProblemCode.UNKNOWN_FIELD, detail, f"{prefix}covariates.{name}")
    # -0.0 equals 0.0
    values = {name: by_name[name] + 0.0 for name in names if name in by_name}
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def in_order(values: Mapping[str, float] | None) -> list[tuple[str, float]] | None:
    """Return given covariates in the order of their names, for comparison with a repeat."""
    return None if values is None else sorted((name, value + 0.0) for name, value in values.items())


def given_covariates(texts: Iterable[str | None]) -> dict[str, float] | None:
    """Return what rows store, of each covariate the last one; None if they store nothing."""
    values: dict[str, float] = {}
    for text in texts:
        if text is not None:
            values |= json.loads(text)
    return values or None
