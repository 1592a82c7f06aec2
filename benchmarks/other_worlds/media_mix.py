"""What channels of advertising earned (mmm-param-recovery of PyMC Labs, its generator).

The generator takes two functions of PyMC-Marketing, which are a line each and stand here by their
formulas. Spend is in shares of a region's highest; the truth is without saturation.
"""

import sys
import time
from types import ModuleType
from typing import Any

import numpy as np

from lhb_engine.history import Floats
from lhb_engine.scikit_learn import LaggedGroupLasso

N_LAGS = 9
PRESETS = ("small_business", "medium_business")
WEEKS = 52.18  # of a year


class _Carried(np.ndarray):
    """An array that answers as the package's tensors do."""

    def eval(self) -> Floats:
        return np.asarray(self)


def _adstock(spend: Floats, alpha: float = 0.0, l_max: int = 12) -> Any:
    carried = np.convolve(np.asarray(spend, np.float64), alpha ** np.arange(l_max))
    return carried[: len(spend)].view(_Carried)


def generated(preset: str, seed: int) -> Any:
    """Return the generator's data and truth."""
    transformers: Any = ModuleType("pymc_marketing.mmm.transformers")
    mmm: Any = ModuleType("pymc_marketing.mmm")
    variable: Any = ModuleType("pytensor.tensor.variable")
    transformers.geometric_adstock, mmm.transformers = _adstock, transformers
    variable.TensorVariable = object
    outer = ("pymc_marketing", "pytensor", "pytensor.tensor")
    for module in (mmm, transformers, variable, *map(ModuleType, outer)):
        sys.modules.setdefault(module.__name__, module)
    from mmm_param_recovery.data_generator import generate_mmm_dataset, get_preset_config

    asked: Any = get_preset_config(preset, seed=seed)
    asked.transforms.saturation_fun = "none"
    return generate_mmm_dataset(asked)


def error(preset: str, seed: int) -> tuple[float, float]:
    """Return the error of the channels' contributions over their sum, and the seconds of the fit.

    The rival fits of that repository know seasons of each region, too.
    """
    found = generated(preset, seed)
    data = found["data"].sort_values(["geo", "date"])
    channels = [name for name in data if name.startswith("x")]
    truth = found["ground_truth"]["transformed_spend"].sum().to_numpy()
    controls = [name for name in data if name.startswith("c") and not name.endswith("effect")]
    regions = [part for _, part in data.groupby("geo")]
    spend, beside = [], []
    for number, part in enumerate(regions):
        own = part[channels].to_numpy(np.float64)
        spend.append(own / np.maximum(own.max(axis=0), 1e-9))
        week = np.arange(len(part))
        waves = [wave(2 * np.pi * week * k / WEEKS) for k in (1, 2) for wave in (np.sin, np.cos)]
        of_region = np.zeros((len(part), len(regions), 6))
        of_region[:, number] = np.column_stack([np.ones(len(part)), week / WEEKS, *waves])
        rest = of_region.reshape(len(part), -1)[:, 1:]  # the first region's level is the intercept
        beside.append(np.column_stack([part[controls].to_numpy(np.float64), rest]))
    columns = np.column_stack([np.concatenate(spend), np.concatenate(beside)])
    numbers, sales = list(range(len(channels), columns.shape[1])), data["y"].to_numpy(np.float64)
    started = time.perf_counter()
    model = LaggedGroupLasso(N_LAGS, controls=numbers, zero_start=True)
    model.fit(columns, sales, lengths=[len(part) for part in regions])
    seconds = time.perf_counter() - started
    earned = np.zeros(len(channels))
    for own in spend:
        for lag, phi in enumerate(model.coef_):
            earned += own[: len(own) - lag].sum(axis=0) * phi
    return float(np.abs(earned - truth).sum() / truth.sum()), seconds


def run(seeds: range) -> list[tuple[str, list[float]]]:
    """Return the percentage of each preset by seed, and the seconds of a fit."""
    rows = []
    for preset in PRESETS:
        errors, seconds = zip(*(error(preset, seed) for seed in seeds), strict=True)
        rows.append((f"{preset}, % of contributions", [100 * one for one in errors]))
        rows.append((f"{preset}, seconds", list(seconds)))
    return rows
