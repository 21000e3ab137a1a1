"""Bands around reliability curves: redrawn curves, pointwise by order statistics, for all scores by one factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.numerics import REACHED, WITHIN
from scoreprism._core.resampling import Rng, Streams, replicate
from scoreprism._core.simplex import FloatArray, IntArray

#: Share of redrawn curves beyond the curve that sets the scale of a uniform band, per (1 − level).
_SHARE = 0.1
#: Cells of adjacent scores in which outcomes are redrawn under a pilot.
_CELLS = 250


@dataclass(frozen=True)
class Band:
    """A band and where it is given."""

    x: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class Ask:
    """What is wanted of a band, parsed."""

    kind: str
    confidence_level: float
    uniform: bool
    n_resamples: int
    streams: Streams
    n_jobs: int | None
    interval: str = "mid-p"

    def draws(self, curve: Callable[[Rng], FloatArray]) -> FloatArray:
        """
        Redrawn curves, one a row; each has a stream of its own, so their number and `n_jobs` change none.

        Refused where they are so few that not one is expected beyond either end of the band.
        """
        least = int(np.ceil(2.0 / (1.0 - self.confidence_level) * REACHED)) - 1
        if self.n_resamples < least:
            rule = f"`n_resamples` must be at least {least} for intervals of level {self.confidence_level:.6g}"
            refuse(rule, f"{self.n_resamples}", f"Pass `n_resamples`={least} or more, or a lower level.")
        return replicate(lambda some: np.array([curve(self.streams(b)) for b in some]), self.n_resamples, self.n_jobs)

    def around(self, curves: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The band that holds a further such curve: at each score, or at all of them, and then at each as well."""
        low, high = pointwise_band(curves, self.confidence_level)
        if not self.uniform:
            return low, high
        below, above = uniform_band(curves, self.confidence_level)
        return np.minimum(below, low), np.maximum(above, high)


def pointwise_band(curves: FloatArray, confidence_level: float) -> tuple[FloatArray, FloatArray]:
    """
    At every score the order statistics that hold one further curve with probability `level`.

    Of B + 1 exchangeable numbers each is as likely the k-th smallest, so k = ⌊(B + 1)(1 − level)/2⌋ on either side
    keeps the level exactly, whatever B, up to rounding and ties (which only add).
    """
    count = curves.shape[0]
    k = max(int((count + 1) * (1.0 - confidence_level) / 2.0 * WITHIN), 1)
    ranked = np.partition(curves, (k - 1, count - k), axis=0)
    return ranked[k - 1], ranked[count - k]


def upper_end(ranked: FloatArray, confidence_level: float) -> Any:
    """The order statistic that a further draw exceeds with probability 1 − `level` at most, where draws are enough."""
    return ranked[min(int(np.ceil((ranked.shape[0] + 1) * confidence_level)), ranked.shape[0]) - 1]


def uniform_band(curves: FloatArray, confidence_level: float) -> tuple[FloatArray, FloatArray]:
    """
    A band that holds a further curve at all scores with probability `level`.

    Deviations from the median are measured in units of a far quantile, above and below apart, and the band is the
    median plus and minus c units, with c the `level` quantile of the largest deviation of a curve. Ranks would do
    without units, but a thousand curves have no ranks as far out as fifty nearly independent scores ask for.
    """
    halves = curves[::2], curves[1::2]
    # a curve that helped to set the units keeps within them too often, so each half is measured in those of the other
    units = [_Units.of(half, confidence_level) for half in halves]
    ranked = np.sort(np.concatenate([_largest(halves[0], units[1]), _largest(halves[1], units[0])]))
    c = upper_end(ranked, confidence_level)
    c = c if np.isfinite(c) else np.max(ranked[np.isfinite(ranked)], initial=1.0)
    middle, down, up = (0.5 * (a + b) for a, b in zip(units[0], units[1], strict=True))
    return np.maximum(middle - c * down, 0.0), np.minimum(middle + c * up, 1.0)


class _Units(NamedTuple):
    """The median of curves, and how far a far quantile is below and above it."""

    middle: FloatArray
    down: FloatArray
    up: FloatArray

    @classmethod
    def of(cls, curves: FloatArray, confidence_level: float) -> _Units:
        middle = np.median(curves, axis=0)
        low, high = pointwise_band(curves, 1.0 - 2.0 * _SHARE * (1.0 - confidence_level))
        least, most = curves.min(axis=0), curves.max(axis=0)
        # where the quantile is the median still, the farthest of all
        return cls(middle, middle - np.where(low < middle, low, least), np.where(high > middle, high, most) - middle)


def _largest(curves: FloatArray, units: _Units) -> FloatArray:
    """The largest deviation of every curve, in units; infinite where there was none to measure it by."""
    apart = curves - units.middle
    unit = np.where(apart > 0.0, units.up, units.down)
    size = np.abs(apart)
    ratio = np.divide(size, unit, out=np.where(size > 1e-9, np.inf, 0.0), where=unit > 0.0)
    largest: FloatArray = ratio.max(axis=1)
    return largest


def mass_cells(weight: FloatArray, most: int = _CELLS) -> IntArray:
    """Where cells of adjacent scores with about equal mass begin, and the end of the last."""
    count = weight.shape[0]
    if count <= most:
        return np.arange(count + 1)
    upto = np.cumsum(weight)
    inner = np.searchsorted(upto, upto[-1] * np.arange(1, most) / most, side="right")
    return np.unique(np.concatenate([[0], inner, [count]]))


def pure_cutoff(confidence_level: float) -> float:
    """
    Twice the log-likelihood that n outcomes of one kind lose at the end of their mid-P interval, whatever n.

    It ends where (1 − θ)ⁿ is 1 − level.
    """
    return -2.0 * float(np.log1p(-confidence_level))


def pull_in(rate: FloatArray, size: FloatArray, confidence_level: float) -> FloatArray:
    """
    Rates to redraw from, kept from 0 and 1 by as many events and non-events as may have been missed.

    Where nothing happened among n rows the estimate is about 0, every redraw is like the data, and their spread is
    none; but −log(1 − level) events may have been expected.
    """
    total, missed = float(size.sum()), 0.5 * pure_cutoff(confidence_level)
    return (rate * total + missed) / (total + 2.0 * missed)


def redraw_rates(rng: Rng, size: FloatArray, rate: FloatArray) -> FloatArray:
    """Shares of events in binomial draws."""
    whole = np.maximum(np.rint(size), 1.0).astype(np.int64)
    return rng.binomial(whole, rate) / whole
