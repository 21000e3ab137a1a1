"""Is the path of fitted laws a martingale? Gains against squared increments, drift and tilt (corollary 5.5)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from scoreprism._core.simplex import FloatArray
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._rows import Sheet
from scoreprism.ensembles._stage_results import Amount


def martingale_checks(
    chain: Decomposition, sheet: Sheet, steps: int, level: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Doob–Pythagoras and the martingale, for the Brier loss: from the laws Q_t and the scatter of fold models."""
    if chain.loss.name != "brier":
        return {}, {}
    mean = partial(
        Amount.of, weight=chain.sample_weight, groups=chain._groups, level=level, population=chain._population
    )
    rows, laws = chain.rows, [_narrow(law, sheet) for law in sheet.laws]
    found: dict[str, list[Amount]] = {"gap": [], "drift": [], "tilt": [], "square": []}
    for t in range(1, steps):
        coarse, delta = laws[t], laws[t + 1] - laws[t]
        noise, cross = _noise(sheet, t)
        square = (delta**2).sum(axis=1) - noise
        centred = coarse - np.average(coarse, axis=0, weights=sheet.weight)
        found["square"].append(mean(square))
        found["gap"].append(mean(rows[:, t] - square))
        found["drift"].append(mean(delta[:, -1]))
        found["tilt"].append(mean((delta * centred).sum(axis=1) - cross))
    return found, {"square": found.pop("square")}


def _narrow(law: FloatArray, sheet: Sheet) -> FloatArray:
    """Classes in the last axis; one column for two, as the Brier loss of two classes counts one."""
    wide = sheet.laws[0].ndim == 2
    return law[..., None] if not wide else law[..., 1:] if law.shape[-1] == 2 else law


def _noise(sheet: Sheet, t: int) -> tuple[FloatArray | float, FloatArray | float]:
    """Noise of Q̂_{t+1} − Q̂_t, squared and against Q̂_t, by the scatter over fold models; 0 for laws that were given."""
    coarse, fine = sheet.folds[t], sheet.folds[t + 1]
    if coarse is None or fine is None:
        return 0.0, 0.0
    factor = sheet.factors[t + 1] if sheet.factors else 1.0
    coarse, delta = _narrow(coarse, sheet), _narrow(fine - coarse, sheet)
    apart, below = delta - delta.mean(axis=0), coarse - coarse.mean(axis=0)
    return factor * (apart**2).sum(axis=(0, 2)), factor * (apart * below).sum(axis=(0, 2))
