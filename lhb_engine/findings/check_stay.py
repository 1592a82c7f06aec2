"""A check of how long trajectories last: whether they end sooner, or later, after some choices."""

from collections.abc import Iterator, Mapping

import numpy as np
from scipy.special import ndtri

from lhb_engine.findings.finding import Finding, Unchecked, named
from lhb_engine.history import Floats, Ints, Trajectory

CHANCE = 1e-3  # of a finding by chance
LEAST_ENDS = 30
ENDS_A_FEATURE = 5
SILENT = 0.99  # of the gaps between rounds of a trajectory are shorter than half of what ends one
EXACT_AGES = 32  # rounds, beyond which ages count by their octave
TIMES = 8  # equal parts of the session


def check_stay(
    parts: Mapping[str, Trajectory], n_means: int, last: int
) -> Iterator[Finding | Unchecked]:
    """Look for ends of trajectories that go with the last choice, by docs/model.md (12.6).

    The last `n_means` covariates of `parts` are what `with_means` adds; `last` is the session's
    latest round.
    """
    parts = {key: part for key, part in parts.items() if len(part.contexts)}
    if len(parts) < 2:
        return
    chosen, ends, age, at = _rounds(parts, n_means, last)
    dim, n_ends = chosen.shape[1], int(ends.sum())
    if n_ends < max(LEAST_ENDS, ENDS_A_FEATURE * dim):
        yield Unchecked(("trajectories_end",), "rows")
        return
    octave = np.where(age <= EXACT_AGES, age, EXACT_AGES + np.log2(age).astype(np.int64))
    time = np.searchsorted(np.quantile(at, np.arange(1, TIMES) / TIMES), at)
    _, alike = np.unique(octave * TIMES + time, return_inverse=True)
    counts = np.bincount(alike)
    about = [one - (np.bincount(alike, one) / counts)[alike] for one in (ends, *chosen.T)]
    ended, chosen = about[0], np.column_stack(about[1:])
    moved = np.flatnonzero((chosen != 0.0).any(axis=0))
    if not len(moved):
        return
    chosen = chosen[:, moved]
    inverse = np.linalg.pinv(chosen.T @ chosen)
    by = inverse @ (chosen.T @ ended)
    errors = chosen * (ended - chosen @ by)[:, np.newaxis]
    scale = np.sqrt(np.maximum(np.diag(inverse @ (errors.T @ errors) @ inverse), 1e-300))
    clear = by / scale
    shown = np.abs(clear) >= -float(ndtri(CHANCE / (2.0 * len(moved))))
    if shown.any():
        yield _finding(moved[shown], clear[shown])


def _finding(features: Ints, clear: Floats) -> Finding:
    said = []
    for ends, some in (("sooner", features[clear > 0.0]), ("later", features[clear < 0.0])):
        if len(some):
            said.append(f"{ends} after choices with more of {named(some.tolist()).lower()}")
    return Finding(
        "trajectories_end",
        f"Trajectories end {', and '.join(said)}. What an ended trajectory would still "
        "have brought is in no reward, so no gain is said. Report this worth: as a reward when "
        "somebody comes back, or as a cost when somebody leaves.",
        features=tuple(features.tolist()),
    )


def _rounds(
    parts: Mapping[str, Trajectory], n_means: int, last: int
) -> tuple[Floats, Floats, Ints, Ints]:
    """Return what was chosen about its round's mean, ends (1.0 or 0.0), ages and positions."""
    latest: dict[str, str] = {}  # the part that a trajectory ends with
    for key, part in parts.items():
        name = key.split("\0")[0]
        if name not in latest or part.numbering[-1] > parts[latest[name]].numbering[-1]:
            latest[name] = key
    gaps = np.concatenate([np.diff(part.numbering) for part in parts.values()])
    silent = 2.0 * float(np.quantile(gaps, SILENT)) if len(gaps) else np.inf
    chosen, ends, age, at = [], [], [], []
    for key, part in parts.items():
        means, numbering = part.covariates, part.numbering
        ended = np.zeros(len(numbering))
        ended[-1] = key == latest[key.split("\0")[0]]
        # of the last round of a trajectory that may go on nothing is known
        known = (ended == 0.0) | (numbering < last - silent)
        assert means is not None
        known &= (means[:, -n_means] > 0.0) & part.contexts.any(axis=1)
        chosen.append((part.contexts[:, : n_means - 1] - means[:, 1 - n_means :])[known])
        ends.append(ended[known])
        age.append((part.first_round + np.arange(len(numbering)))[known])
        at.append(numbering[known])
    return np.concatenate(chosen), np.concatenate(ends), np.concatenate(age), np.concatenate(at)
