"""Kernel regression on one variable: weighted sums under a kernel, exact or binned, and bandwidths."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.numerics import TINY
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.isotonic import locate


class Kernel(NamedTuple):
    """A kernel (1 − u²)^power on [−1, 1], its norm, and its bandwidth beside a Gaussian one of equal smoothing."""

    power: int
    norm: float
    factor: float

    def __call__(self, u: FloatArray) -> FloatArray:
        bell = np.maximum(1.0 - u * u, 0.0)
        shape = bell if self.power == 1 else bell * bell if self.power == 2 else bell * bell * bell
        return self.norm * shape

    def pieces(self, a: FloatArray) -> list[FloatArray]:
        """Coefficients in v of (1 − (a − v)²)^power, lowest first: the kernel around a cell."""
        one = [1.0 - a * a, 2.0 * a, np.full_like(a, -1.0)]
        polynomial = [np.ones_like(a)]
        for _ in range(self.power):
            longer = [np.zeros_like(a) for _ in range(len(polynomial) + 2)]
            for i, left in enumerate(polynomial):
                for j, right in enumerate(one):
                    longer[i + j] += left * right
            polynomial = longer
        return [self.norm * coefficient for coefficient in polynomial]


#: Kernels by name; `factor` is the ratio of canonical bandwidths, (∫K²/(∫u²K)²)^(1/5), to that of a Gaussian kernel.
KERNELS = {
    "triweight": Kernel(3, 35.0 / 32.0, 2.978),
    "biweight": Kernel(2, 15.0 / 16.0, 2.623),
    "epanechnikov": Kernel(1, 0.75, 2.214),
}
#: Binned data: cells per bandwidth. Linear binning then errs by less than 1e-6 (see `kernel_sums`).
_PER_BANDWIDTH = 2048
#: Points at most; where a bandwidth would need more, sums are exact.
_MOST = 1 << 22


class KernelSums(NamedTuple):
    """Kernel mass Σ K and kernel events Σ K y at each point of a grid."""

    mass: FloatArray
    events: FloatArray

    @property
    def rate(self) -> FloatArray:
        """The Nadaraya–Watson estimate; NaN where no row is in reach."""
        reached = self.mass > 0.0
        rate = np.full(self.mass.shape, np.nan)
        rate[reached] = np.clip(self.events[reached] / self.mass[reached], 0.0, 1.0)
        return rate


def kernel_sums(
    x: FloatArray,
    y: FloatArray,
    weight: FloatArray | None,
    grid: FloatArray,
    bandwidth: float,
    kernel: Kernel,
    *,
    method: str = "auto",
) -> KernelSums:
    """
    Σ_i w_i K((t − x_i)/h) and Σ_i w_i K((t − x_i)/h) y_i for every t of the grid (paper, eq. pseudo and mass).

    ``method="exact"`` sums moments of the rows between the ends of all windows, in which every kernel here is a
    polynomial; "binned" first shares each row between the two nearest of h/2048 spaced points, which changes
    a kernel by at most (1/2048)²·max|K''|/8, 2e-7 of its peak, and the rate by less than 1e-6 except in windows that
    rows only touch at the edge. "auto" bins where rows outnumber the points. The Epanechnikov kernel, which has a kink
    at its ends, is always summed exactly.
    """
    reach = (x >= grid.min() - bandwidth) & (x <= grid.max() + bandwidth)
    if not reach.all():
        x, y, weight = x[reach], y[reach], None if weight is None else weight[reach]
    if x.size == 0:
        return KernelSums(np.zeros(grid.size), np.zeros(grid.size))
    points = (float(x.max()) - float(x.min())) / bandwidth * _PER_BANDWIDTH
    if method == "exact" or kernel.power == 1 or points > _MOST or (method == "auto" and x.size < max(points, 1 << 15)):
        return _sum_exactly(x, y, weight, grid, bandwidth, kernel)
    return _sum_binned(x, y, weight, grid, bandwidth, kernel)


def _sum_exactly(
    x: FloatArray, y: FloatArray, weight: FloatArray | None, grid: FloatArray, bandwidth: float, kernel: Kernel
) -> KernelSums:
    """Moments about the middle of each cell between window ends, then a polynomial per cell and grid point."""
    ends = np.unique(np.concatenate([grid - bandwidth, grid + bandwidth]))
    cell = locate(ends, x)
    occupied = np.unique(cell)
    occupied = occupied[(occupied > 0) & (occupied < ends.size)]
    middle = 0.5 * (ends[occupied - 1] + ends[occupied])
    centers = np.zeros(ends.size + 1)
    centers[occupied] = middle
    v = (x - centers[cell]) / bandwidth
    power = np.ones(x.size) if weight is None else weight.copy()
    moments = []
    for _ in range(2 * kernel.power + 1):
        sums = [np.bincount(cell, column, ends.size + 1)[occupied] for column in (power, power * y)]
        moments.append(np.stack(sums))
        power = power * v
    out = np.zeros((2, grid.size))
    for start in range(0, grid.size, 256):
        rows = slice(start, start + 256)
        a = (grid[rows, None] - middle) / bandwidth
        inside = np.abs(a) < 1.0
        a = np.where(inside, a, 0.0)
        for coefficient, moment in zip(kernel.pieces(a), moments, strict=True):
            out[:, rows] += moment @ np.where(inside, coefficient, 0.0).T
    mass, events = np.where(out > 1e-14 * kernel.norm * out[0].max(initial=0.0), out, 0.0)
    return KernelSums(mass, np.minimum(events, mass))


def _sum_binned(
    x: FloatArray,
    y: FloatArray,
    weight: FloatArray | None,
    grid: FloatArray,
    bandwidth: float,
    kernel: Kernel,
    per: int = _PER_BANDWIDTH,
) -> KernelSums:
    """Rows shared between the two nearest of closely spaced points, then one small sum per grid point."""
    low, step = float(x.min()), bandwidth / per
    gaps = np.diff(grid)
    even = grid.size > 2 and gaps[0] > 0.0 and bool(np.ptp(gaps) <= 1e-9 * gaps[0])
    if even:  # points that meet the grid: one row of kernel values serves all of it
        step = float(gaps.mean()) / np.ceil(float(gaps.mean()) / step)
        low = float(grid[0]) - step * np.ceil((float(grid[0]) - low) / step)
    reach = bandwidth / step
    mass, events = linear_bins(x, y, weight, low, step, int((float(x.max()) - low) / step) + 2)
    row = kernel(np.arange(-int(reach), int(reach) + 1) / reach)
    out = np.zeros((2, grid.size))
    for i, t in enumerate((grid - low) / step):
        start = round(t) - int(reach) if even else max(int(t - reach), 0)
        stop = start + row.size if even else min(int(t + reach) + 2, mass.size)
        first, last = max(start, 0), min(stop, mass.size)
        if first < last:
            k = row[first - start : last - start] if even else kernel((t - np.arange(first, last)) * (1.0 / reach))
            out[:, i] = k @ mass[first:last], k @ events[first:last]
    return KernelSums(*out)


def linear_bins(
    x: FloatArray, y: FloatArray | IntArray, weight: FloatArray | None, low: float, step: float, count: int
) -> FloatArray:
    """Weight and events at `count` points from `low` on, each row shared between its two neighbours: means are kept."""
    place = (x - low) * (1.0 / step)
    index = place.astype(np.intp)
    np.clip(index, 0, count - 2, out=index)
    share = place - index
    out = np.zeros((2, count))
    if weight is None:
        events = y.astype(np.intp, copy=False)
        if y is events or (events == y).all():  # one pass for both outcomes
            code = 2 * index + events
            all_ = np.bincount(code, minlength=2 * count).reshape(count, 2).astype(np.float64)
            up = np.bincount(code, share, 2 * count).reshape(count, 2)
            rows = np.stack([all_.sum(axis=1), all_[:, 1], up.sum(axis=1), up[:, 1]])
            out[:] = rows[:2] - rows[2:]
            out[:, 1:] += rows[2:, :-1]
            return out
    mass = np.ones(x.size) if weight is None else weight
    for row, column in enumerate((mass, mass * y)):
        whole, up = np.bincount(index, column, count), np.bincount(index, column * share, count)
        out[row] = whole - up
        out[row, 1:] += up[:-1]
    return out


def rule_of_thumb(x: FloatArray, weight: FloatArray | None, kernel: Kernel) -> float:
    """Silverman's rule, 0.9·min(sd, IQR/1.34)·n^(−1/5), brought to the kernel."""
    total = float(x.size if weight is None else weight.sum())
    order = np.argsort(x)
    upto = np.cumsum(np.ones(x.size) if weight is None else weight[order])
    quartiles = x[order][np.searchsorted(upto, np.array([0.25, 0.75]) * upto[-1])]
    center = float(np.average(x, weights=weight))
    spread = float(np.sqrt(np.average((x - center) ** 2, weights=weight)))
    range_ = float(quartiles[1] - quartiles[0]) / 1.34
    scale = max(min(spread, range_), 0.05 * spread) if range_ > 0.0 else spread  # many ties must not make h vanish
    return float(0.9 * kernel.factor * scale * max(total, 1.0) ** -0.2)


def choose_bandwidth(
    choice: str | float, x: FloatArray, y: FloatArray, weight: FloatArray | None, kernel: Kernel
) -> float:
    """The number passed as `choice`, or a bandwidth chosen from the data by "cv", "rule" or "under"; never 0."""
    if not isinstance(choice, str):
        return choice
    rule = rule_of_thumb(x, weight, kernel)
    if not rule > 1e-12:  # (nearly) constant scores
        return 1.0
    if choice == "cv":
        return _leave_one_out(x, y, weight, rule, kernel)
    return rule if choice == "rule" else 0.5 * rule


def _leave_one_out(x: FloatArray, y: FloatArray, weight: FloatArray | None, rule: float, kernel: Kernel) -> float:
    """The bandwidth around the rule whose estimate without a row comes closest to the row, in squared error."""
    mass_of_row = np.ones(x.size) if weight is None else weight
    share = float(mass_of_row @ y) / float(mass_of_row.sum())
    low, high = float(x.min()), float(x.max())
    best = (np.inf, rule)
    for bandwidth in rule * 2.0 ** np.arange(-2.0, 3.01, 0.5):
        grid = np.linspace(low, high, int(min(max(16 * (high - low) / bandwidth, 64), 2048)) + 1)
        many = 128 * (high - low) / bandwidth > _MOST
        sums = (
            _sum_exactly(x, y, weight, grid, bandwidth, kernel)
            if many
            else _sum_binned(x, y, weight, grid, bandwidth, kernel, per=128)
        )
        own = kernel.norm * np.minimum(mass_of_row, 1.0)  # a weight of 3 is three rows, of which one is left out
        mass = np.interp(x, grid, sums.mass) - own
        events = np.interp(x, grid, sums.events) - own * y
        rate = np.where(mass > 1e-9 * own, np.clip(events / np.maximum(mass, TINY), 0.0, 1.0), share)
        best = min(best, (float(np.average((y - rate) ** 2, weights=mass_of_row)), float(bandwidth)))
    return best[1]


def kernel_estimate(
    x: FloatArray, y: FloatArray, weight: FloatArray | None, grid: FloatArray, bandwidth: float, kernel: Kernel
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Grid points with rows in reach, the estimate there, and the kernel mass; an error if there are none."""
    sums = kernel_sums(x, y, weight, grid, bandwidth, kernel)
    reached = sums.mass > 0.0
    if not reached.any():
        refuse(
            "at least one window of the kernel must hold a score",
            f"{grid.size} windows of half-width {bandwidth:.3g}, all empty",
            "Use a larger bandwidth, or more grid points.",
        )
    return grid[reached], sums.rate[reached], sums.mass[reached]
