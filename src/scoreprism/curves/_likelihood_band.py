"""Pointwise confidence intervals of an increasing curve: the likelihood ratio of "the curve is θ here", inverted."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.numerics import TINY
from scoreprism._core.resampling import Rng
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.isotonic import isotonic_blocks
from scoreprism.curves._bands import BandRequest, cut_cells, find_upper_end, pure_cutoff, redraw_rates

#: Values of θ, even in arcsin √θ, between which the ratio is interpolated.
_THETAS = 801
#: Levels and quantiles of the limit 𝔻 of Banerjee & Wellner (2001): 797 316 paths of Brownian motion + t² on [−3, 3]
#: in 6000 steps. Their table has 1.60 and 2.27 at .90 and .95.
_LIMIT = np.array(
    [
        (0.0, 0.0),
        (0.5, 0.2795),
        (0.6, 0.4297),
        (0.7, 0.6460),
        (0.75, 0.7927),
        (0.8, 0.9795),
        (0.85, 1.2307),
        (0.9, 1.6002),
        (0.95, 2.2576),
        (0.975, 2.9278),
        (0.99, 3.8484),
        (0.995, 4.5507),
        (0.999, 6.2958),
    ]
)
#: Factor of the redrawn quantile: the pilot is noisy too, and rises where the curve is flat. Without it, simulated
#: coverage of 90 % bands is .84 to .90; with 1.15, .86 to .95.
_ALLOWANCE = 1.1
#: At most this many scores at which the quantile of the ratio is computed.
_PLACES = 40


def likelihood_band(
    weight: FloatArray, events: FloatArray, pilot: FloatArray, at: IntArray, request: BandRequest
) -> tuple[FloatArray, FloatArray]:
    """
    Intervals for the curve at some scores.

    The fit under "C = θ at score j" is that of the scores before j, cut at θ from above, then θ, then that of the
    scores after j, cut from below. It equals θ between a, where the path of events − θ·rows up to j is lowest, and b,
    where it is lowest beyond j, and is the free fit of [0, a) and of [b, m) on the rest.

    Where the curve rises through many scores the ratio has the limit 𝔻 of Banerjee and Wellner (2001) for every
    curve. Where it is flat, or where all rows have a few scores, the limit differs (χ² with one score). So we redraw it
    under a smooth pilot, which makes the bootstrap of a monotone fit consistent (Sen, Banerjee and Woodroofe 2010).
    Where no events follow, or only events come before, redraws under a rate near 0 or 1 carry no information, and the
    ratio must reach that of the exact (mid-P) interval.
    """
    cut = _find_cuts(weight, events, at)
    paths = Paths.of(np.add.reduceat(weight, cut[:-1]), np.add.reduceat(events, cut[:-1]))
    place = np.searchsorted(cut, at)
    theta = np.sin(np.linspace(0.0, np.pi / 2.0, _THETAS)) ** 2
    middles = [_find_middle(paths.events - value * paths.weight, place) for value in theta]
    ratio = np.array([paths.ratio(value, *middle) for value, middle in zip(theta, middles, strict=True)])
    pure = np.array([paths.is_pure(*middle) for middle in middles])
    blocks = isotonic_blocks(weight, events)
    value = blocks.value[np.searchsorted(blocks.start, at, side="right") - 1]
    cutoff = _find_cutoff(weight, pilot, at, request)
    cutoff = np.where(pure, np.maximum(cutoff, pure_cutoff(request.confidence_level)), cutoff)
    return _invert(theta, ratio, value, cutoff)


@dataclass(frozen=True, eq=False)
class Paths:
    """Sums and likelihoods over items in order."""

    weight: FloatArray  # (m + 1,): rows among the first 0, …, m items
    events: FloatArray  # (m + 1,): events among them
    before: FloatArray  # (m + 1,): log-likelihood of the isotonic fit of the first 0, …, m items
    after: FloatArray  # (m + 1,): the same of those from 0, …, m on

    @classmethod
    def of(cls, weight: FloatArray, events: FloatArray) -> Paths:
        """Sum and fit; in reverse order the share of non-events rises."""
        after = _prefix_likelihood(weight[::-1], (weight - events)[::-1])[::-1]
        total, happened = (np.concatenate([[0.0], np.cumsum(column)]) for column in (weight, events))
        return cls(total, happened, _prefix_likelihood(weight, events), after)

    def ratio(self, theta: FloatArray | float, low: IntArray, high: IntArray) -> FloatArray:
        """Twice the log-likelihood lost when the fit is θ on the items from `low` to `high`."""
        total, happened = (sums[high] - sums[low] for sums in (self.weight, self.events))
        free = self.before[low] + self.after[high]
        lost: FloatArray = 2.0 * (self.before[-1] - free - _likelihood(happened, total, theta))
        return lost

    def is_pure(self, low: IntArray, high: IntArray) -> NDArray[np.bool_]:
        """Whether the items from `low` on have no events, or those up to `high` only events."""
        few = 1e-9 * self.weight[-1]
        none = self.events[-1] - self.events[low] <= few
        return np.asarray(none | (self.weight[high] - self.events[high] <= few))


def _find_cuts(weight: FloatArray, events: FloatArray, at: IntArray) -> IntArray:
    """Ends of stretches without a rise in the share of events, with the chosen scores separate: PAV needs no more."""
    rate = events / weight
    marked = np.concatenate([[True], rate[1:] > rate[:-1], [True]])
    marked[at] = marked[at + 1] = True
    return np.flatnonzero(marked)


def _likelihood(events: FloatArray, weight: FloatArray, rate: FloatArray | float) -> FloatArray:
    """Log-likelihood of events at a rate."""
    from scipy.special import xlog1py, xlogy

    with np.errstate(divide="ignore"):
        # differences of sums may be −1e-17 instead of 0
        likelihood: FloatArray = xlogy(np.maximum(events, 0.0), rate) + xlog1py(np.maximum(weight - events, 0.0), -rate)
    return likelihood


def _prefix_likelihood(weight: FloatArray, events: FloatArray) -> FloatArray:
    """Log-likelihood of the isotonic fit of the first 0, 1, …, m items: one pass of PAV with a running total."""
    held: list[float] = []
    happened: list[float] = []
    total = [0.0]  # log-likelihood of the blocks below
    totals = [0.0]
    for item in zip(weight.tolist(), events.tolist(), strict=True):
        w, e = item
        while held and happened[-1] * w >= e * held[-1]:
            w += held.pop()
            e += happened.pop()
            total.pop()
        held.append(w)
        happened.append(e)
        rest = w - e
        own = (e * log(e / w) if e > 0.0 else 0.0) + (rest * log(rest / w) if rest > 0.0 else 0.0)
        total.append(total[-1] + own)
        totals.append(total[-1])
    return np.array(totals)


def _find_middle(path: FloatArray, place: IntArray) -> tuple[IntArray, IntArray]:
    """Where the path is lowest up to each place, and where it is lowest beyond."""
    index = np.arange(path.size)
    least = np.minimum.accumulate(path)
    low = np.maximum.accumulate(np.where(path == least, index, 0))[place]
    back = path[::-1]
    least = np.minimum.accumulate(back)
    high = path.size - 1 - np.maximum.accumulate(np.where(back == least, index, 0))[path.size - 2 - place]
    return low, high


def _find_cutoff(weight: FloatArray, pilot: FloatArray, at: IntArray, request: BandRequest) -> FloatArray:
    """The quantile of the ratio at each score, from redraws of cells under the pilot; interpolated between places."""
    edge = cut_cells(weight)
    mass = np.add.reduceat(weight, edge[:-1])
    rate = np.add.reduceat(weight * pilot, edge[:-1]) / mass
    count = mass.shape[0]
    place = np.unique(np.linspace(0.0, count - 1.0, min(count, _PLACES)).round().astype(np.intp))
    theta, index = rate[place], np.arange(count + 1)
    early, late = index <= place[:, None], index > place[:, None]

    def redraw(rng: Rng) -> FloatArray:
        paths = Paths.of(mass, mass * redraw_rates(rng, mass, rate))
        path = paths.events - theta[:, None] * paths.weight
        low, high = (np.where(side, path, np.inf).argmin(axis=1) for side in (early, late))
        return paths.ratio(theta, low, high)

    limit = find_upper_end(request.redraw_curves(redraw), request.confidence_level)
    cell = np.searchsorted(edge, at, side="right") - 1
    cutoff: FloatArray = np.maximum(
        _ALLOWANCE * np.interp(cell, place, limit), np.interp(request.confidence_level, *_LIMIT.T)
    )
    return cutoff


def _invert(
    theta: FloatArray, ratio: FloatArray, value: FloatArray, cutoff: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Where the ratio, which is 0 at the fitted value and rises on both sides, crosses the cutoff at each score."""
    chart = np.arcsin(np.sqrt(theta))
    middle = np.arcsin(np.sqrt(value))
    high = _find_crossing(chart, ratio, middle, cutoff)
    low = np.pi / 2.0 - _find_crossing(np.pi / 2.0 - chart[::-1], ratio[::-1], np.pi / 2.0 - middle, cutoff[::-1])
    return np.sin(low) ** 2, np.sin(high) ** 2


def _find_crossing(chart: FloatArray, ratio: FloatArray, middle: FloatArray, cutoff: FloatArray) -> FloatArray:
    """The first point beyond `middle` where the ratio is `cutoff`, interpolated; the last if there is none."""
    beyond = (chart[:, None] > middle) & (ratio > cutoff)
    first = np.where(beyond.any(axis=0), beyond.argmax(axis=0), chart.size - 1)
    columns = np.arange(middle.size)
    inside = np.maximum(first - 1, 0)
    near = chart[inside] > middle  # otherwise the fitted value itself is the last point inside
    left = np.where(near, chart[inside], middle)
    before = np.where(near, ratio[inside, columns], 0.0)
    after, limit = ratio[first, columns], cutoff[first, columns]
    # at θ = 0 or 1 the ratio may be infinite: the interval then ends at the end of the scale
    share = np.where(np.isfinite(after) & (after > limit), (limit - before) / np.maximum(after - before, TINY), 1.0)
    return left + np.clip(share, 0.0, 1.0) * (chart[first] - left)
