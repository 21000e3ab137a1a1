"""Event rates in bins of scores, with binomial intervals that also hold in small and pure bins."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.resampling import Rng, draw_events
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.binomial import rate_interval, sum_interval
from scoreprism._kernels.bins import equal_mass_cuts, even_codes
from scoreprism._kernels.isotonic import run_starts
from scoreprism.curves._bands import Ask, Band, pointwise_band
from scoreprism.curves._curve import BinaryRows

#: How scores are binned.
STRATEGIES = ("quantile", "uniform")


@dataclass(frozen=True, eq=False)
class ScoreBins:
    """Rows sorted into bins."""

    rows: BinaryRows  # the rows, in order of their bin
    first: IntArray  # (b,): first row of each bin

    @classmethod
    def of(cls, rows: BinaryRows, n_bins: int, strategy: str) -> ScoreBins:
        """Bins of equal mass (equal scores stay together) or equal width, (a, b]; those without rows are left out."""
        if n_bins > rows.n:
            refuse("`n_bins` must be at most the number of rows", f"{n_bins} bins for {rows.n} rows", "Use fewer bins.")
        if strategy == "uniform":
            index = even_codes(rows.score, n_bins)
        else:
            index = np.searchsorted(equal_mass_cuts(rows.score, rows.weight, n_bins), rows.score, side="right")
        order = np.argsort(index, kind="stable")
        weight = None if rows.weight is None else rows.weight[order]
        return cls(BinaryRows(rows.score[order], rows.y[order], weight, rows.backend), run_starts(index[order]))

    def sums(self, values: FloatArray) -> FloatArray:
        """Sums over the rows of each bin."""
        return np.add.reduceat(values, self.first)

    @property
    def weight(self) -> FloatArray:
        """Weight of each bin."""
        return self.sums(self.rows.weights)

    def mean(self, values: FloatArray) -> FloatArray:
        """Weighted mean of each bin."""
        return self.sums(self.rows.weights * values) / self.weight

    @property
    def size(self) -> FloatArray:
        """Rows in each bin, (Σw)²/Σw² under weights (Kish)."""
        return self.weight**2 / self.sums(self.rows.weights**2)


def bin_points(bins: ScoreBins) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean score, event rate and share of mass of each bin."""
    return bins.mean(bins.rows.score), bins.mean(bins.rows.y), bins.weight / bins.weight.sum()


def bin_band(bins: ScoreBins, ask: Ask) -> Band:
    """
    Intervals of the bins.

    Bins are independent given the scores, so that b intervals of level^(1/b) hold at once with probability `level`
    (Šidák).
    """
    x, rate, _ = bin_points(bins)
    level = ask.level ** (1.0 / x.size) if ask.uniform else ask.level
    if ask.kind == "confidence":
        size = bins.size
        return Band(x, *rate_interval(rate * size, size, level, ask.interval))
    if bins.rows.weight is None:
        laws = np.split(bins.rows.score, bins.first[1:])
        ends = np.array([sum_interval(law, level, ask.interval) for law in laws])
        return Band(x, *(ends / bins.size[:, None]).T)

    def redrawn(rng: Rng) -> FloatArray:
        return bins.mean(draw_events(rng, bins.rows.score).astype(np.float64))

    return Band(x, *pointwise_band(replace(ask, level=level).draws(redrawn), level))
