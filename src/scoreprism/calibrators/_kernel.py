"""Kernel regression on a grid, exact or from binned data, and the calibrator made of it (paper, appendix E.2)."""

from __future__ import annotations

import numpy as np

from scoreprism._core.checks import parse_choice, parse_number, refuse
from scoreprism._core.numerics import TINY
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.kernel_regression import (
    _MOST,
    KERNELS,
    Kernel,
    _binned_sums,
    _exact_sums,
    kernel_sums,
    linear_bins,
    rule_of_thumb,
)
from scoreprism._maps.binary_map import BinaryMap, BrokenLine, Curve, parse_distance
from scoreprism._maps.parts import Map
from scoreprism._maps.splines import natural_spline
from scoreprism._sample.fit_batch import Batch
from scoreprism._sample.fit_rows import Data
from scoreprism.calibrators._base import Calibrator

#: Points of the estimate that the map is drawn through, at most (twice where rows ask for more).
_NODES = 4096
#: Points per bandwidth, and in all, of the coarse curve.
_COARSE, _COARSE_MOST = 16, 1 << 15


class KernelCalibrator(Calibrator):
    """
    Nadaraya–Watson kernel regression of the outcome on the score (paper, appendix E.2).

    Parameters
    ----------
    bandwidth : "cv", "rule", "under" or float, default="cv"
        Half-width h of the window, on the probability scale: chosen by leave-one-out squared error, by Silverman's
        rule, or given. "under" is half of the rule, on points h/16 apart: for cross-fitting, which sees the variance of
        a map but not its bias.
    kernel : {"triweight", "biweight", "epanechnikov"}, default="triweight"
        Shape of the window.
    clip : "auto" or float, default="auto"
        Smallest distance from 0 and 1; "auto" is 1/(2n).
    kind : {"probability", "logit"}, default="probability"
        What scores are; the kernel works on probabilities in either case.

    Attributes
    ----------
    bandwidth_ : float
        The bandwidth used.

    Notes
    -----
    The estimate is taken at points h/32 apart between the smallest and the largest score and joined by a natural cubic
    spline, which differs from it by about 1e-5 (Epanechnikov, whose estimate has kinks: 1e-3); for h below 1/128 of
    the range, at 4096 even points and at 4096 quantiles. Gaps without a row in reach are crossed in a straight line;
    beyond the outer scores the map is constant. Not monotone; use `MonotoneSplineCalibrator` with a bandwidth for that.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import KernelCalibrator
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(5000)
    >>> kernel = KernelCalibrator(bandwidth=0.1).fit(s, rng.random(5000) < s**2)
    >>> kernel.calibrate([0.3, 0.6]).round(2)
    array([0.09, 0.41])
    """

    name = "kernel"
    _kept = ("bandwidth_",)

    def __init__(
        self,
        *,
        bandwidth: str | float = "cv",
        kernel: str = "triweight",
        clip: str | float = "auto",
        kind: str = "probability",
    ) -> None:
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.clip = clip
        self.kind = kind

    def _fit(self, data: Data) -> Map:
        kernel = KERNELS[parse_choice(self.kernel, KERNELS, "kernel")]
        clip = parse_distance(self.clip, data.total)
        chart = data.chart("probability")
        x = chart(data.score)
        self.bandwidth_ = parse_bandwidth(self.bandwidth, x, data, kernel)
        draw = _coarse_curve if self.bandwidth == "under" else _curve
        return BinaryMap(chart, draw(x, data, self.bandwidth_, kernel), "identity", clip)

    def _fit_many(self, batch: Batch) -> FloatArray:
        kernel = KERNELS[parse_choice(self.kernel, KERNELS, "kernel")]
        whole = batch.everything
        rule = rule_of_thumb(whole.score, whole.weight, kernel)
        if self.bandwidth != "under" or self.clip != "auto" or rule <= 1e-12:
            return super()._fit_many(batch)
        share = float(batch.total.mean()) / whole.total  # a training set has fewer rows, and so a wider window
        bandwidth = 0.5 * rule * share**-0.2
        return _coarse_curves(batch, bandwidth, kernel)


def parse_bandwidth(value: object, x: FloatArray, data: Data, kernel: Kernel) -> float:
    """A given bandwidth, or one chosen from the data; never 0."""
    if not isinstance(value, str):
        return parse_number(value, "bandwidth", "'cv', 'rule', 'under' or a positive number", lambda v: v > 0.0)
    choice = parse_choice(value, ("cv", "rule", "under"), "bandwidth")
    rule = rule_of_thumb(x, data.weight, kernel)
    if not rule > 1e-12:  # (nearly) constant scores
        return 1.0
    if choice == "cv":
        return _leave_one_out(x, data, rule, kernel)
    return rule if choice == "rule" else 0.5 * rule


def _leave_one_out(x: FloatArray, data: Data, rule: float, kernel: Kernel) -> float:
    """The bandwidth around the rule whose estimate without a row comes closest to the row, in squared error."""
    weight = np.ones(x.size) if data.weight is None else data.weight
    low, high = float(x.min()), float(x.max())
    best = (np.inf, rule)
    for bandwidth in rule * 2.0 ** np.arange(-2.0, 3.01, 0.5):
        grid = np.linspace(low, high, int(min(max(16 * (high - low) / bandwidth, 64), 2048)) + 1)
        many = 128 * (high - low) / bandwidth > _MOST
        sums = (
            _exact_sums(x, data.y, data.weight, grid, bandwidth, kernel)
            if many
            else _binned_sums(x, data.y, data.weight, grid, bandwidth, kernel, per=128)
        )
        own = kernel.norm * np.minimum(weight, 1.0)  # a weight of 3 is three rows, of which one is left out
        mass = np.interp(x, grid, sums.mass) - own
        events = np.interp(x, grid, sums.events) - own * data.y
        rate = np.where(mass > 1e-9 * own, np.clip(events / np.maximum(mass, TINY), 0.0, 1.0), data.rate)
        best = min(best, (float(np.average((data.y - rate) ** 2, weights=weight)), float(bandwidth)))
    return best[1]


def _curve(x: FloatArray, data: Data, bandwidth: float, kernel: Kernel) -> Curve:
    """The estimate at many points, joined by a natural spline; across gaps without rows, by a straight line."""
    low, high = float(x.min()), float(x.max())
    wanted = np.ceil(32.0 * (high - low) / bandwidth)
    points = np.linspace(low, high, int(min(max(wanted, 8), _NODES)) + 1)
    if wanted > _NODES:  # rows show where to look more closely
        points = np.concatenate([points, np.quantile(x, np.linspace(0.0, 1.0, _NODES))])
    points = _spaced(np.unique(points), 1e-9 * (high - low))
    reached, rate = kernel_estimate(x, data, points, bandwidth, kernel)[:2]
    if points.size < 4:
        return BrokenLine(reached, rate)
    return natural_spline(points, np.interp(points, reached, rate), tails="constant")


def _coarse_curve(x: FloatArray, data: Data, bandwidth: float, kernel: Kernel) -> Curve:
    """The estimate at points h/16 apart that rows are shared between, joined by straight lines: one convolution."""
    low, high = float(x.min()), float(x.max())
    step = max(bandwidth / _COARSE, (high - low) / _COARSE_MOST)
    count = int((high - low) / step) + 2
    row = kernel(np.arange(-_COARSE, _COARSE + 1) / _COARSE)
    mass, events = (np.convolve(line, row, "same")[:count] for line in _padded(x, data, low, step, count))
    reached = mass > 1e-9 * mass.max()
    return BrokenLine((low + step * np.arange(count))[reached], np.clip(events[reached] / mass[reached], 0.0, 1.0))


def _padded(x: FloatArray, data: Data, low: float, step: float, count: int) -> FloatArray:
    """Rows shared between points, with room for a whole window."""
    return linear_bins(x, data.y, data.weight, low, step, max(count, 2 * _COARSE + 1))


def _coarse_curves(batch: Batch, bandwidth: float, kernel: Kernel) -> FloatArray:
    """`_coarse_curve` of many training sets on one grid, at the centers of their cells."""
    from scipy.ndimage import convolve1d

    low, high = float(batch.center[0]), float(batch.center[-1])
    step = max(bandwidth / _COARSE, (high - low) / _COARSE_MOST)
    count = int((high - low) / step) + 2
    place = (batch.center - low) / step
    index = np.minimum(place.astype(np.intp), count - 2)
    up = place - index
    row = kernel(np.arange(-_COARSE, _COARSE + 1) / _COARSE)
    sums = []
    for part in (batch.weight, batch.events):
        lines = np.zeros((part.shape[0], count))
        starts = np.flatnonzero(np.diff(index, prepend=-1))
        lines[:, index[starts]] += np.add.reduceat(part * (1.0 - up), starts, axis=1)
        lines[:, index[starts] + 1] += np.add.reduceat(part * up, starts, axis=1)
        sums.append(convolve1d(lines, row, axis=1, mode="constant"))
    mass, events = sums
    found = np.empty(batch.weight.shape)
    grid = low + step * np.arange(count)
    for held, happened, total, law in zip(mass, events, batch.total, found, strict=True):
        reached = held > 1e-9 * held.max()
        rate = np.clip(happened[reached] / held[reached], 0.0, 1.0)
        distance = min(0.5 / total, 0.25)
        law[:] = np.clip(np.interp(batch.center, grid[reached], rate), distance, 1.0 - distance)
    return found


def _spaced(points: FloatArray, least: float) -> FloatArray:
    """Increasing points without those closer than `least` to the one before."""
    kept: FloatArray = points[np.concatenate([[True], np.diff(points) > least])]
    return kept


def kernel_estimate(
    x: FloatArray, data: Data, grid: FloatArray, bandwidth: float, kernel: Kernel
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Grid points with rows in reach, the estimate there, and the kernel mass; an error where there are none."""
    sums = kernel_sums(x, data.y, data.weight, grid, bandwidth, kernel)
    reached = sums.mass > 0.0
    if not reached.any():
        refuse(
            "at least one window of the kernel must hold a score",
            f"{grid.size} windows of half-width {bandwidth:.3g}, all empty",
            "Use a larger bandwidth, or more grid points.",
        )
    return grid[reached], sums.rate[reached], sums.mass[reached]
