"""Bands around reliability curves from redrawn curves: at each score by order statistics, at all by one factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.numerics import REACHED, WITHIN
from scoreprism._core.resampling import Rng, Streams, replicate
from scoreprism._core.simplex import FloatArray, IntArray

#: Tail quantile that scales a uniform band, as a share of 1 − confidence level.
_SHARE = 0.1
#: At most this many cells of adjacent scores, in which outcomes are redrawn under a pilot.
_CELLS = 250


@dataclass(frozen=True)
class Band:
    """The ends of a band at the scores `x`."""

    x: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class BandRequest:
    """The parsed options of a band."""

    kind: str
    confidence_level: float
    uniform: bool
    n_resamples: int
    streams: Streams
    n_jobs: int | None
    interval: str = "mid-p"

    def redraw_curves(self, curve: Callable[[Rng], FloatArray]) -> FloatArray:
        """
        Redraw curves, one per row; each has its own stream, so none depends on their number or on `n_jobs`.

        Refuses so few that not one is expected beyond either end of the band.
        """
        least = int(np.ceil(2.0 / (1.0 - self.confidence_level) * REACHED)) - 1
        if self.n_resamples < least:
            rule = f"`n_resamples` must be at least {least} for intervals of level {self.confidence_level:.6g}"
            refuse(rule, f"{self.n_resamples}", f"Pass `n_resamples`={least} or more, or a lower level.")
        return replicate(lambda some: np.array([curve(self.streams(b)) for b in some]), self.n_resamples, self.n_jobs)

    def enclose(self, curve: Callable[[Rng], FloatArray]) -> tuple[FloatArray, FloatArray]:
        """The band that holds one more redrawn curve: at each score; if uniform, at all scores and hence at each."""
        curves = self.redraw_curves(curve)
        low, high = find_pointwise_band(curves, self.confidence_level)
        if not self.uniform:
            return low, high
        below, above = find_uniform_band(curves, self.confidence_level)
        return np.minimum(below, low), np.maximum(above, high)


def find_pointwise_band(curves: FloatArray, confidence_level: float) -> tuple[FloatArray, FloatArray]:
    """
    Order statistics that hold one more curve at each score with probability `confidence_level`.

    Each of B + 1 exchangeable numbers is equally likely to be the k-th smallest, so k = ⌊(B + 1)(1 − level)/2⌋ on
    either side keeps the level for every B, up to rounding and ties (which only raise it).
    """
    count = curves.shape[0]
    k = max(int((count + 1) * (1.0 - confidence_level) / 2.0 * WITHIN), 1)
    ranked = np.partition(curves, (k - 1, count - k), axis=0)
    return ranked[k - 1], ranked[count - k]


def find_upper_end(draws: FloatArray, confidence_level: float) -> Any:
    """The order statistic that one more draw exceeds with probability at most 1 − level, given enough draws."""
    count = draws.shape[0]
    return np.sort(draws, axis=0)[min(int(np.ceil((count + 1) * confidence_level)), count) - 1]


def find_uniform_band(curves: FloatArray, confidence_level: float) -> tuple[FloatArray, FloatArray]:
    """
    A band that holds one more curve at all scores with probability `confidence_level`.

    Deviations from the median are measured in units of a tail quantile, separately above and below, and the band is the
    median plus and minus c units, with c the `level` quantile of the largest deviation of a curve. Ranks would need
    no units, but a thousand curves have no ranks as far out as fifty nearly independent scores require.
    """
    halves = curves[::2], curves[1::2]
    # curves that helped to set the units stay within them too often, so each half is measured in the other's units
    units = [_Units.of(half, confidence_level) for half in halves]
    sizes = np.concatenate([_measure_largest(halves[0], units[1]), _measure_largest(halves[1], units[0])])
    c = find_upper_end(sizes, confidence_level)
    c = c if np.isfinite(c) else np.max(sizes[np.isfinite(sizes)], initial=1.0)
    middle, down, up = (0.5 * (a + b) for a, b in zip(units[0], units[1], strict=True))
    return np.maximum(middle - c * down, 0.0), np.minimum(middle + c * up, 1.0)


class _Units(NamedTuple):
    """The median of curves, and the distances of the tail quantiles below and above it."""

    middle: FloatArray
    down: FloatArray
    up: FloatArray

    @classmethod
    def of(cls, curves: FloatArray, confidence_level: float) -> _Units:
        middle = np.median(curves, axis=0)
        low, high = find_pointwise_band(curves, 1.0 - 2.0 * _SHARE * (1.0 - confidence_level))
        least, most = curves.min(axis=0), curves.max(axis=0)
        # where the tail quantile equals the median, use the extreme curve instead
        return cls(middle, middle - np.where(low < middle, low, least), np.where(high > middle, high, most) - middle)


def _measure_largest(curves: FloatArray, units: _Units) -> FloatArray:
    """The largest deviation of every curve, in units; infinite where the unit is zero."""
    apart = curves - units.middle
    unit = np.where(apart > 0.0, units.up, units.down)
    size = np.abs(apart)
    ratio = np.divide(size, unit, out=np.where(size > 1e-9, np.inf, 0.0), where=unit > 0.0)
    largest: FloatArray = ratio.max(axis=1)
    return largest


def cut_cells(weight: FloatArray) -> IntArray:
    """Where cells of adjacent scores with about equal mass begin, and the end of the last."""
    count = weight.shape[0]
    if count <= _CELLS:
        return np.arange(count + 1)
    upto = np.cumsum(weight)
    inner = np.searchsorted(upto, upto[-1] * np.arange(1, _CELLS) / _CELLS, side="right")
    return np.unique(np.concatenate([[0], inner, [count]]))


def pure_cutoff(confidence_level: float) -> float:
    """
    Twice the log-likelihood that n equal outcomes lose at the end of their mid-P interval, which ends where
    (1 − θ)ⁿ = 1 − level, so that the loss does not depend on n.
    """
    return -2.0 * float(np.log1p(-confidence_level))


def pull_in(rate: FloatArray, size: FloatArray, confidence_level: float) -> FloatArray:
    """
    Rates to redraw from, kept away from 0 and 1 by the number of events and non-events that may have been missed.

    Where n rows had no event the estimate is about 0 and every redraw equals the data, so the redraws have no spread;
    yet up to −log(1 − level) events may have been expected.
    """
    total, missed = float(size.sum()), 0.5 * pure_cutoff(confidence_level)
    return (rate * total + missed) / (total + 2.0 * missed)


def redraw_rates(rng: Rng, size: FloatArray, rate: FloatArray) -> FloatArray:
    """Shares of events in binomial draws."""
    whole = np.maximum(np.rint(size), 1.0).astype(np.int64)
    return rng.binomial(whole, rate) / whole
