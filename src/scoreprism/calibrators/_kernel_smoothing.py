"""Kernel regression of the outcome on the score (paper, appendix E.2)."""

from __future__ import annotations

import numpy as np

from scoreprism._core.checks import parse_choice, parse_number
from scoreprism._core.numerics import least_distance
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.kernel_regression import (
    KERNELS,
    Kernel,
    choose_bandwidth,
    kernel_estimate,
    linear_bins,
    rule_of_thumb,
)
from scoreprism._maps.binary_map import BinaryMap, BrokenLine, MapCurve
from scoreprism._maps.parts import Map
from scoreprism._maps.spline_basis import natural_spline
from scoreprism._sample.batch import Batch
from scoreprism._sample.fit_rows import FitRows
from scoreprism.calibrators._calibrator import (
    Calibrator,
    one_of,
    parse_distance,
    resolve_distance,
    rules,
    with_parameters,
)

#: Points of the estimate that the map is drawn through, at most (twice where rows ask for more).
_NODES = 4096
#: Points per bandwidth, and in all, of the coarse curve.
_COARSE, _COARSE_MOST = 16, 1 << 15
#: Its points within a bandwidth of one of them, in bandwidths.
_COARSE_WINDOW = np.arange(-_COARSE, _COARSE + 1) / _COARSE


def parse_bandwidth(value: object, name: str) -> str | float:
    """A given bandwidth, or how it is chosen."""
    if isinstance(value, str):
        return parse_choice(value, ("cv", "rule", "under"), name)
    return parse_number(value, name, "'cv', 'rule', 'under' or a positive number", lambda v: v > 0.0)


@with_parameters
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

    bandwidth: str | float = "cv"
    kernel: str = "triweight"
    clip: str | float = "auto"
    kind: str = "probability"

    name = "kernel"
    _kept = ("bandwidth_",)
    _rules = rules(kernel=one_of(*KERNELS), clip=parse_distance, bandwidth=parse_bandwidth)

    def _fit(self, data: FitRows) -> Map:
        kernel, chart = KERNELS[self.kernel], data.chart("probability")
        x = chart(data.score)
        self.bandwidth_ = choose_bandwidth(self.bandwidth, x, data.y, data.weight, kernel)
        draw = _draw_coarse_curve if self.bandwidth == "under" else _draw_curve
        curve = draw(x, data, self.bandwidth_, kernel)
        return BinaryMap(chart, curve, "identity", resolve_distance(self.clip, data))

    def _fit_many(self, batch: Batch) -> FloatArray:
        kernel, whole = KERNELS[self.kernel], batch.everything
        rule = rule_of_thumb(whole.score, whole.weight, kernel)
        if self.bandwidth != "under" or self.clip != "auto" or rule <= 1e-12:
            return super()._fit_many(batch)
        share = float(batch.total.mean()) / whole.total  # a training set has fewer rows, and so a wider window
        return _evaluate_coarse_curves(batch, 0.5 * rule * share**-0.2, kernel)


def _draw_curve(x: FloatArray, data: FitRows, bandwidth: float, kernel: Kernel) -> MapCurve:
    """The estimate at many points, joined by a natural spline; across gaps without rows, by a straight line."""
    low, high = float(x.min()), float(x.max())
    steps = np.ceil(32.0 * (high - low) / bandwidth)
    points = np.linspace(low, high, int(min(max(steps, 8), _NODES)) + 1)
    if steps > _NODES:  # rows show where to look more closely
        points = np.concatenate([points, np.quantile(x, np.linspace(0.0, 1.0, _NODES))])
    points = np.unique(points)
    points = points[np.concatenate([[True], np.diff(points) > 1e-9 * (high - low)])]
    reached, rate = kernel_estimate(x, data.y, data.weight, points, bandwidth, kernel)[:2]
    if points.size < 4:
        return BrokenLine(reached, rate)
    return natural_spline(points, np.interp(points, reached, rate), tails="constant")


def _draw_coarse_curve(x: FloatArray, data: FitRows, bandwidth: float, kernel: Kernel) -> MapCurve:
    """The estimate at points h/16 apart that rows are shared between, joined by straight lines: one convolution."""
    low = float(x.min())
    step, count = _choose_coarse_grid(low, float(x.max()), bandwidth)
    row = kernel(_COARSE_WINDOW)
    shared = linear_bins(x, data.y, data.weight, low, step, max(count, row.size))  # room for a whole window
    mass, events = (np.convolve(line, row, "same")[:count] for line in shared)
    reached = mass > 1e-9 * mass.max()
    return BrokenLine((low + step * np.arange(count))[reached], np.clip(events[reached] / mass[reached], 0.0, 1.0))


def _choose_coarse_grid(low: float, high: float, bandwidth: float) -> tuple[float, int]:
    """Step and number of the points of a coarse curve."""
    step = max(bandwidth / _COARSE, (high - low) / _COARSE_MOST)
    return step, int((high - low) / step) + 2


def _evaluate_coarse_curves(batch: Batch, bandwidth: float, kernel: Kernel) -> FloatArray:
    """`_draw_coarse_curve` of many training sets on one grid, at the centers of their cells."""
    from scipy.ndimage import convolve1d

    low = float(batch.center[0])
    step, count = _choose_coarse_grid(low, float(batch.center[-1]), bandwidth)
    place = (batch.center - low) / step
    index = np.minimum(place.astype(np.intp), count - 2)
    up = place - index
    row = kernel(_COARSE_WINDOW)
    sums = []
    for part in (batch.weight, batch.events):
        lines = np.zeros((part.shape[0], count))
        starts = np.flatnonzero(np.diff(index, prepend=-1))
        lines[:, index[starts]] += np.add.reduceat(part * (1.0 - up), starts, axis=1)
        lines[:, index[starts] + 1] += np.add.reduceat(part * up, starts, axis=1)
        sums.append(convolve1d(lines, row, axis=1, mode="constant"))
    mass, events = sums
    laws = np.empty(batch.weight.shape)
    grid = low + step * np.arange(count)
    for weight, happened, total, law in zip(mass, events, batch.total, laws, strict=True):
        reached = weight > 1e-9 * weight.max()
        rate = np.clip(happened[reached] / weight[reached], 0.0, 1.0)
        distance = least_distance(total)
        law[:] = np.clip(np.interp(batch.center, grid[reached], rate), distance, 1.0 - distance)
    return laws
