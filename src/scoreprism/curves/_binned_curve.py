"""Event rates in bins of scores, with binomial intervals that also hold in small and pure bins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.resampling import Rng, draw_events
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.binomial import rate_interval, sum_interval
from scoreprism._kernels.bins import equal_mass_cuts, even_codes
from scoreprism._kernels.isotonic import run_starts
from scoreprism.curves._bands import Ask, Band, pointwise_band
from scoreprism.curves._curve import BinaryRows, RowCells

#: How scores are binned.
STRATEGIES = ("quantile", "uniform")


def bin_rows(rows: BinaryRows, n_bins: int, strategy: str) -> RowCells:
    """Bins of equal mass (equal scores stay together) or equal width, (a, b]; those without rows are left out."""
    if n_bins > rows.n:
        refuse("`n_bins` must be at most the number of rows", f"{n_bins} bins for {rows.n} rows", "Use fewer bins.")
    if strategy == "uniform":
        index = even_codes(rows.score, n_bins)
    else:
        index = np.searchsorted(equal_mass_cuts(rows.score, rows.weight, n_bins), rows.score, side="right")
    order = np.argsort(index, kind="stable")
    return RowCells(rows.take(order), run_starts(index[order]))


def bin_points(bins: RowCells) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean score, event rate and share of mass of each bin."""
    return bins.mean(bins.rows.score), bins.mean(bins.rows.y), bins.weight / bins.weight.sum()


def bin_band(bins: RowCells, ask: Ask) -> Band:
    """Intervals of the bins; at once, of level^(1/b) each (Šidák), as bins are independent given the scores."""
    x, rate, _ = bin_points(bins)
    level = ask.level ** (1.0 / x.size) if ask.uniform else ask.level
    if ask.kind == "confidence":
        return Band(x, *rate_interval(rate * bins.size, bins.size, level, ask.interval))
    if bins.rows.weight is None:
        laws = np.split(bins.rows.score, bins.first[1:])
        ends = np.array([sum_interval(law, level, ask.interval) for law in laws])
        return Band(x, *(ends / bins.size[:, None]).T)

    def redrawn(rng: Rng) -> FloatArray:
        return bins.mean(draw_events(rng, bins.rows.score).astype(np.float64))

    return Band(x, *pointwise_band(replace(ask, level=level).draws(redrawn), level))
