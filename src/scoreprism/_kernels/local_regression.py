"""Local polynomial regression of outcomes on scores: loess and lowess."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoreprism._core.checks import parse_choice, parse_number, refuse
from scoreprism._core.numerics import REACHED, TINY, WITHIN
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.isotonic import pool_ties

#: Kernel weights in memory at a time.
_BLOCK = 1 << 18
#: Distinct scores up to which every one is a point of the fit; more are pooled, which is measured in docs/metrics.md.
DIRECT = 2500
_POOLED, _POINTS = 2048, 384


@dataclass(frozen=True)
class LocalRegression:
    """
    Local polynomial regression of outcomes on scores (Cleveland 1979).

    At each score a polynomial is fitted to the nearest scores that hold a share `span` of the weight, with kernel
    weights that fall with the distance. ``LocalRegression()`` is R's ``loess(y ~ p)``, which Austin & Steyerberg (2019)
    use, and ``LocalRegression(degree=1, span=2/3)`` is ``lowess(p, y, iter=0)``; no robustness steps, and values
    are not cut to [0, 1].

    Parameters
    ----------
    degree : {0, 1, 2}, default=2
        Degree of the polynomial.
    span : float, default=0.75
        Share of the weight in each neighbourhood, in (0, 1].
    kernel : {"tricube", "uniform"}, default="tricube"
        Kernel.

    Notes
    -----
    R rounds the number of neighbours down to a whole one; pass ``span=floor(0.75 * n) / n`` for its number where
    ``0.75 * n`` is not whole. Without rounding, weights on any scale give the same curve, and whole-number weights
    give the curve of repeated rows.
    More than 2500 distinct scores are pooled in some 2000 neighbourhoods, and the curve is computed at some 400 points
    and interpolated by a cubic spline; docs/metrics.md has the error.

    Examples
    --------
    >>> import numpy as np
    >>> s = np.linspace(0, 1, 201)
    >>> curve = LocalRegression().fit_at(s, s**2, np.ones(201), np.array([0.3, 0.6]))
    >>> curve.round(6)
    array([0.09, 0.36])
    """

    degree: int = 2
    span: float = 0.75
    kernel: str = "tricube"

    def __post_init__(self) -> None:
        if self.degree not in (0, 1, 2) or isinstance(self.degree, bool):
            refuse("`degree` must be 0, 1 or 2", repr(self.degree), "Pass one of these.")
        parse_number(self.span, "span", "a share above 0 and at most 1", lambda v: 0.0 < v <= 1.0)
        object.__setattr__(self, "kernel", parse_choice(self.kernel, ("tricube", "uniform"), "kernel"))

    def __str__(self) -> str:
        return f"local regression of degree {self.degree}, span {self.span:.4g}, {self.kernel}"

    def fit_at(self, x: FloatArray, y: FloatArray, weight: FloatArray, at: FloatArray) -> FloatArray:
        """
        The curve at some points.

        Parameters
        ----------
        x, y : array of shape (n,)
            Scores and outcomes.
        weight : array of shape (n,)
            Weights; rows of weight zero are absent.
        at : array of shape (m,)
            Where the curve is wanted.

        Returns
        -------
        array of shape (m,)
            Fitted values.
        """
        weighted = weight > 0.0
        x, mass, events = pool_ties(x[weighted], y[weighted], weight[weighted])
        if x.size > DIRECT:
            return self._interpolate(x, mass, events, at)
        points, back = np.unique(at, return_inverse=True)
        if points.size > DIRECT:
            return self._interpolate(x, mass, events, at)
        return self.fit_sums(x, mass, events, points)[back]

    def _interpolate(self, x: FloatArray, mass: FloatArray, events: FloatArray, at: FloatArray) -> FloatArray:
        """Pooled neighbours, and a cubic spline between points that follow both the scores and their range."""
        from scipy.interpolate import CubicSpline

        if x.size > DIRECT:
            x, mass, events = pool_neighbours(x, mass, events, _POOLED)
        reached = np.cumsum(mass)
        even = np.linspace(min(x[0], at.min()), max(x[-1], at.max()), _POINTS // 2)
        dense = np.interp(np.linspace(reached[0], reached[-1], _POINTS), reached, x)
        points = np.unique(np.concatenate([even, dense]))
        points = points[np.append(True, np.diff(points) > 1e-9 * (points[-1] - points[0]))]
        if points.size < 4:
            return self.fit_sums(x, mass, events, np.asarray(at))
        spline = CubicSpline(points, self.fit_sums(x, mass, events, points))
        return np.asarray(spline(at))

    def fit_sums(self, x: FloatArray, mass: FloatArray, events: FloatArray, at: FloatArray) -> FloatArray:
        """
        The curve from distinct sorted scores, exactly.

        Parameters
        ----------
        x, mass, events : array of shape (m,)
            Distinct sorted scores, their weight, and the weighted sum of their outcomes.
        at : array of shape (g,)
            Where the curve is wanted.

        Returns
        -------
        array of shape (g,)
            Fitted values.
        """
        weighted = mass > 0.0
        if not weighted.all():
            x, mass, events = x[weighted], mass[weighted], events[weighted]
        reach = find_bandwidths(x, mass, self.span, at)
        fitted = np.empty(at.size)
        step = max(1, _BLOCK // x.size)
        for start in range(0, at.size, step):
            rows = slice(start, start + step)
            fitted[rows] = self._fit_block(x, mass, events, at[rows], reach[rows])
        return fitted

    def _fit_block(
        self, x: FloatArray, mass: FloatArray, events: FloatArray, at: FloatArray, reach: FloatArray
    ) -> FloatArray:
        scale = np.where(reach > 0.0, reach, 1.0)[:, None]
        with np.errstate(over="ignore"):  # naive Bayes scores may be 1e-300 apart in one place and 1 in another
            u = (x - at[:, None]) / scale
        np.clip(u, -2.0, 2.0, out=u)  # the kernel is 0 beyond 1, and 0 times infinity would be NaN
        kernel = np.abs(u)
        if self.kernel == "tricube":
            np.minimum(kernel, 1.0, out=kernel)
            kernel *= kernel * kernel
            np.subtract(1.0, kernel, out=kernel)
            kernel *= kernel * kernel
        else:
            kernel = (kernel <= WITHIN).astype(np.float64)
        # neighbourhoods at distance 0, or with all members at the rim, get their unweighted mean
        lone = (kernel @ mass) <= 0.0
        kernel[lone] = np.abs(u[lone]) <= WITHIN
        kernel[reach == 0.0] = u[reach == 0.0] == 0.0
        return _fit_polynomial(u, kernel, mass, events, self.degree)


def _fit_polynomial(u: FloatArray, kernel: FloatArray, mass: FloatArray, events: FloatArray, degree: int) -> FloatArray:
    """
    The value at u = 0 of a weighted least-squares polynomial, by polynomials that are orthogonal in each neighbourhood.

    A neighbourhood with too few distinct scores for a degree is fitted with the next lower one.
    """
    total = kernel @ mass
    fitted = (kernel @ events) / total
    if degree == 0:
        return np.asarray(fitted)
    centre = ((kernel * u) @ mass) / total
    v = u - centre[:, None]
    kv = kernel * v
    second, first = ((kv * v) @ mass) / total, (kv @ events) / total
    sloped = second > 1e-14
    safe = np.where(sloped, second, 1.0)
    slope = np.where(sloped, first / safe, 0.0)
    value = fitted - slope * centre
    if degree == 1:
        return np.asarray(value)
    kv *= v
    third, fourth = ((kv * v) @ mass) / total, ((kv * v * v) @ mass) / total
    skew = third / safe
    square = fourth - third * skew - second**2
    bent = sloped & (square > 1e-10 * safe**2)
    curvature = ((kv @ events) / total - skew * first - second * fitted) / np.where(bent, square, 1.0)
    return np.asarray(value + np.where(bent, curvature * (centre**2 + skew * centre - second), 0.0))


def find_bandwidths(x: FloatArray, mass: FloatArray, span: float, at: FloatArray) -> FloatArray:
    """
    Distance within which a share `span` of the mass lies, of each point.

    A window that starts at x[l] ends at the first x[r] with enough mass. Its reach from a point a is the larger of
    a − x[l] and x[r] − a, of which the first falls with l and the second rises: the best l is where x[l] + x[r]
    passes 2a, or the one before. So one search answers for all points.
    """
    reached = np.cumsum(mass)
    target = span * reached[-1] * REACHED
    before = reached - mass
    last = np.searchsorted(reached, before + target)
    starts = int(np.searchsorted(last, x.size))  # later starts leave too little mass
    left, right = x[:starts], x[np.minimum(last[:starts], x.size - 1)]
    best = np.minimum(np.searchsorted(left + right, 2.0 * at), starts - 1)
    other = np.maximum(best - 1, 0)
    reach = [np.maximum(at - left[l], right[l] - at) for l in (best, other)]  # noqa: E741
    return np.asarray(np.maximum(np.minimum(*reach), 0.0))


def pool_neighbours(
    x: FloatArray, mass: FloatArray, events: FloatArray, cells: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Neighbours pooled at their mean score: at most 1/cells of the mass and 2/cells of the range together."""
    reached = np.cumsum(mass)
    by_mass = np.minimum((reached - 0.5 * mass) * (cells / reached[-1]), cells - 1).astype(np.intp)
    by_place = np.minimum((x - x[0]) * (0.5 * cells / max(x[-1] - x[0], TINY)), cells).astype(np.intp)
    starts = np.flatnonzero(np.append(True, (np.diff(by_mass) > 0) | (np.diff(by_place) > 0)))
    total = np.add.reduceat(mass, starts)
    return np.add.reduceat(mass * x, starts) / total, total, np.add.reduceat(events, starts)
