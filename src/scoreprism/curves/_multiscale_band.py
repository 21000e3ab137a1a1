"""A uniform confidence band of an increasing curve: its mean over an interval bounds it on either side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.numerics import EDGE, halve
from scoreprism._core.resampling import Rng
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._findings.finding import Finding, announce
from scoreprism.curves._bands import BandRequest, cut_cells, find_upper_end, pull_in, pure_cutoff, redraw_rates

#: Bisection steps to the ends of an interval.
_HALVINGS = 50
#: Added to the threshold because the pilot is noisy; at most a twentieth of it.
_ALLOWANCE = 0.5


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals of 1, 2, 3, 4, 6, 8, 12, 16, … cells, starting at every cell."""

    cells: FloatArray
    first: IntArray  # (m,): first cell
    last: IntArray  # (m,): one past the last

    @classmethod
    def of(cls, cells: FloatArray) -> Intervals:
        """All intervals of these lengths; `cells` holds the (effective) number of rows of each cell."""
        count = cells.shape[0]
        doubled = [2**i * j // 2 for i in range(12) for j in (2, 3)]
        lengths = sorted({1, count, *(length for length in doubled if length <= count)})
        first = np.concatenate([np.arange(count - length + 1) for length in lengths])
        last = first + np.repeat(lengths, [count - length + 1 for length in lengths])
        return cls(cells, first, last)

    @cached_property
    def weight(self) -> FloatArray:
        """Rows of each interval."""
        return self.sums(self.cells)

    @cached_property
    def price(self) -> FloatArray:
        """Penalty of short intervals for being many (Dümbgen and Spokoiny 2001)."""
        price: FloatArray = 2.0 * np.log(self.cells.sum() / self.weight)
        return price

    def sums(self, values: FloatArray) -> FloatArray:
        """Sums of values of cells over each interval."""
        upto = np.concatenate([[0.0], np.cumsum(values)])
        sums: FloatArray = upto[self.last] - upto[self.first]
        return sums


def multiscale_band(
    weight: FloatArray, events: FloatArray, pilot: FloatArray, at: IntArray, request: BandRequest
) -> tuple[FloatArray, FloatArray]:
    """
    The band from bounds on the mean of the curve over intervals, which all hold with the required probability.

    An increasing curve is at most its mean over any interval to the right, and at least that of one to the left. The
    means are bounded where 2·rows·KL(share of events, mean) stays below κ + 2 log(all rows / rows); κ is the quantile
    of the largest excess over all intervals when outcomes are redrawn from the pilot, and at least what one exact
    interval of equal outcomes needs.
    """
    edge = cut_cells(weight)
    mass, happened = np.add.reduceat(weight, edge[:-1]), np.add.reduceat(events, edge[:-1])
    family = Intervals.of(mass)
    mean = pull_in(np.add.reduceat(weight * pilot, edge[:-1]) / mass, mass, request.confidence_level)
    kappa = _find_threshold(family, mean, request)
    low, high = _bound_means(family, family.sums(happened), kappa)
    below, above = _join_bounds(edge, family, low, high, at)
    if (below > above + 1e-9).any():
        announce(Finding("shape_refuted", confidence_level=request.confidence_level))
    return np.minimum(below, above), np.maximum(below, above)


def _measure_excess(rate: FloatArray, mean: FloatArray, weight: FloatArray) -> FloatArray:
    """2·rows·KL(rate, mean)."""
    from scipy.special import rel_entr

    divergence: FloatArray = rel_entr(rate, mean) + rel_entr(1.0 - rate, 1.0 - mean)
    return 2.0 * weight * divergence


def _find_threshold(family: Intervals, mean: FloatArray, request: BandRequest) -> float:
    """κ: the quantile of the largest excess when each cell is a binomial draw."""
    truth = np.clip(family.sums(mean * family.cells) / family.weight, EDGE, 1.0 - EDGE)

    def largest(rng: Rng) -> FloatArray:
        share = redraw_rates(rng, family.cells, mean)
        rate = np.clip(family.sums(share * family.cells) / family.weight, 0.0, 1.0)
        return np.atleast_1d((_measure_excess(rate, truth, family.weight) - family.price).max())

    threshold = float(find_upper_end(request.redraw_curves(largest)[:, 0], request.confidence_level))
    return _ALLOWANCE + max(threshold, pure_cutoff(request.confidence_level))


def _bound_means(family: Intervals, events: FloatArray, kappa: float) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest mean of every interval whose excess stays within the threshold."""
    rate = np.clip(events / family.weight, 0.0, 1.0)
    limit = np.maximum(kappa + family.price, 0.0)

    def fits(mean: FloatArray) -> NDArray[np.bool_]:
        return _measure_excess(rate, mean, family.weight) <= limit

    low, high = (halve(fits, rate, np.full(rate.shape, far), _HALVINGS)[1] for far in (0.0, 1.0))
    return low, high


def _join_bounds(
    edge: IntArray, family: Intervals, low: FloatArray, high: FloatArray, at: IntArray
) -> tuple[FloatArray, FloatArray]:
    """The best bounds at the scores `at`: from means over cells up to the score, and over cells from the score on."""
    count = edge.shape[0] - 1
    upper, lower = np.ones(count + 1), np.zeros(count + 1)
    np.minimum.at(upper, family.first, high)
    np.maximum.at(lower, family.last, low)
    upper, lower = np.minimum.accumulate(upper[::-1])[::-1], np.maximum.accumulate(lower)
    cell = np.searchsorted(edge, at, side="right") - 1
    # only at the first score of a cell are all its rows at or above the score; at or below it, at the last
    above = np.where(at == edge[cell], upper[cell], upper[cell + 1])
    below = np.where(at == edge[cell + 1] - 1, lower[cell + 1], lower[cell])
    return below, above
