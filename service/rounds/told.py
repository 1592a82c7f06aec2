"""The covariates of a fit's history, read beside its rounds and measurements."""

import json
from array import array
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from lhb_engine.history import Floats, History, Ints, Measurements, Trajectory
from service.session.covariates import names_of_covariates
from service.session.records import SessionRow
from service.storage.reader import Reader

Said = tuple[Ints, Ints, Floats]  # rounds, positions, and (n, n_covariates) values, NaN: not said


def with_covariates(
    reader: Reader,
    session: SessionRow,
    history: History,
    known: int,
    *,
    of_decisions: bool = True,
) -> History:
    """Return a history with the covariates of its rounds, and those that came with its rewards.

    The session's option names the covariates; without any, nothing is read. `known` is the position
    of the last measurement that counts. Not `of_decisions`: decisions have none, where a round has
    many of them.
    """
    names = names_of_covariates(session)
    if not names:
        return history
    owners = {key: key.partition("\0")[0] for key in history.trajectories}
    ranges = [
        (owners[key], part.first_round, part.last_round)
        for key, part in history.trajectories.items()
    ]
    given = reader.covariates_in(session.key, ranges) if of_decisions else ()
    of_rounds = _read(((name, round, 0, text) for name, round, text in given), names)
    measured = _read(reader.measured_covariates_in(session.key, ranges, known), names)
    parts = {
        key: _told(part, of_rounds.get(owners[key]), measured.get(owners[key]), len(names))
        for key, part in history.trajectories.items()
    }
    return replace(history, trajectories=parts, groups=(1,) * len(names))


def _read(rows: Iterable[tuple[str, int, int, str]], names: tuple[str, ...]) -> dict[str, Said]:
    """Return what is said in each trajectory, in the order of the rows."""
    rounds: dict[str, array[int]] = {}
    positions: dict[str, array[int]] = {}
    values: dict[str, array[float]] = {}
    nothing = float("nan")
    for name, round, position, text in rows:
        if name not in rounds:
            rounds[name], positions[name], values[name] = array("q"), array("q"), array("d")
        said = json.loads(text)
        rounds[name].append(round)
        positions[name].append(position)
        values[name].extend(said.get(one, nothing) for one in names)
    return {
        name: (
            np.array(rounds[name], np.int64),
            np.array(positions[name], np.int64),
            np.array(values[name]).reshape(-1, len(names)),
        )
        for name in rounds
    }


def _told(
    part: Trajectory, of_rounds: Said | None, measured: Said | None, n_covariates: int
) -> Trajectory:
    told = np.zeros((len(part.contexts), n_covariates))
    if of_rounds is not None:
        rounds, _, values = of_rounds
        here = slice(*np.searchsorted(rounds, (part.first_round, part.last_round + 1)))
        told[rounds[here] - part.first_round] = np.nan_to_num(values[here])
    measurements = part.measurements
    if measured is not None and len(measurements):
        measurements = replace(measurements, covariates=_measured(measurements, *measured))
    return replace(part, covariates=told, measurements=measurements)


def _measured(rows: Measurements, rounds: Ints, positions: Ints, values: Floats) -> Floats:
    """Return what was measured with the rows, (n, n_covariates), NaN where nothing was.

    Where positions are not known, several values may have made a row: of each covariate the last
    one counts.
    """
    found = np.full((len(rows), values.shape[1]), np.nan)
    if rows.position is not None:
        at = np.minimum(np.searchsorted(positions, rows.position), len(positions) - 1)
        is_said = positions[at] == rows.position
        found[is_said] = values[at[is_said]]
        return found
    at = np.minimum(np.searchsorted(rows.first, rounds), len(rows) - 1)
    for i in np.flatnonzero(rows.first[at] == rounds).tolist():
        found[at[i]] = np.where(np.isnan(values[i]), found[at[i]], values[i])
    return found
