"""Smooth reliability curves, a monotone spline and a kernel estimate, with pointwise and uniform bands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scoreprism._core.numerics import rising_sigmoid
from scoreprism._core.resampling import Rng
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.binomial import rate_interval
from scoreprism._kernels.kernel_regression import KERNELS, rule_of_thumb
from scoreprism._learners.penalised_splines import SplineProblem, monotone_problem, rising
from scoreprism._maps.spline_basis import FitPoints, fit_penalised, local_problem, rising_line
from scoreprism._sample.fit_rows import FitRows
from scoreprism.curves._bands import Band, BandRequest, find_upper_end
from scoreprism.curves._curve import BinaryRows, RowCells

#: Points of a smooth curve: half evenly spaced on the axis, half evenly spaced among the rows.
_POINTS = 200
#: At most this many cells of adjacent scores, in which outcomes are redrawn.
_CELLS = 512
#: Share of λ in the covariance of a spline, and of the rule-of-thumb bandwidth in that of a kernel.
_ROUGHER, _UNDER = 0.2, 0.5
#: Uniform bands only. λ in the covariance is at most this many times trace H / trace P: stiffer splines cannot
#: follow curves that bend (s² at 1000 rows: coverage .71 instead of .93). Kernels: the normal approximation fails at
#: the ends of the scores; without the factor, 90 % bands hold in .82 of samples.
_BEND, _WIDER = 1000.0, 1.2


def smooth_grid(score: FloatArray) -> FloatArray:
    """The scores at which smooth curves are evaluated."""
    even = np.linspace(score.min(), score.max(), _POINTS // 2)
    return np.unique(np.concatenate([even, np.quantile(score, np.linspace(0.0, 1.0, _POINTS // 2))]))


def _find_critical(path: Callable[[Rng], FloatArray], request: BandRequest) -> float:
    """Factor of standard errors: normal at each score; if uniform, the quantile of a standardised path's maximum."""
    from scipy.special import ndtri

    each = float(ndtri(0.5 + request.confidence_level / 2.0))
    if not request.uniform:
        return each
    worst = np.abs(request.redraw_curves(path)).max(axis=1)
    return max(each, float(find_upper_end(worst, request.confidence_level)))


# ── spline ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class SplineCurve:
    """The monotone spline of `MonotoneSplineCalibrator` with its default choices."""

    rows: BinaryRows  # weights add up to the effective number of rows
    x: FloatArray

    @cached_property
    def problem(self) -> SplineProblem:
        """The penalised fit to solve."""
        return monotone_problem(
            FitRows(self.rows.score, self.rows.y.astype(np.intp), self.rows.weight, 2, "probability")
        )

    @cached_property
    def fit(self) -> tuple[FloatArray, float]:
        """Coefficients and λ."""
        fit = self.problem.fit()
        return np.maximum.accumulate(fit.beta), fit.penalty

    @cached_property
    def y(self) -> FloatArray:
        """The curve."""
        if self.problem.constant:
            return np.full(self.x.size, self.rows.rate)
        return self.problem.map(self.fit[0])(self.x)

    @cached_property
    def design(self) -> FloatArray:
        """The basis at the points of the curve."""
        return self.problem.basis.design(self.problem.chart(self.x))

    def band(self, request: BandRequest) -> Band:
        """The band."""
        if request.kind == "consistency":
            return Band(self.x, *request.enclose(self._make_redraw()))
        if self.problem.constant:
            size = np.full(self.x.size, self.rows.total)
            return Band(self.x, *rate_interval(size * self.y, size, request.confidence_level))
        return self._find_confidence_band(request)

    def _find_confidence_band(self, request: BandRequest) -> Band:
        """
        Delta method on the logit scale with the Bayesian covariance (H + λP)⁻¹ of the penalised fit.

        It includes the bias of the penalty as well as the noise, and so covers on average over scores (Nychka 1988;
        Marra and Wood 2012). As λ is itself estimated, a fifth of it enters. The calibrator does not resolve rates more
        finely than 1/(2n), so the band is wider by that.
        """
        beta, smoothing = self.fit
        problem = self.problem
        curvature = local_problem(problem.cells, beta, "logit").curvature
        ridge = 1e-10 * float(np.trace(curvature)) / beta.size * np.eye(beta.size)
        if request.uniform:  # bias does not average out over scores: the covariance of a spline that can bend
            smoothing = min(smoothing, _BEND * float(np.trace(curvature)) / float(np.trace(problem.basis.penalty)))
        curb = _ROUGHER * smoothing * problem.basis.penalty
        # the squared norms of its columns are the variances
        root = np.linalg.solve(np.linalg.cholesky(curvature + curb + ridge), self.design.T)
        error = np.sqrt((root**2).sum(axis=0))

        def path(rng: Rng) -> FloatArray:
            values: FloatArray = (rng.standard_normal(beta.size) @ root) / error
            return values

        c = _find_critical(path, request)
        eta = self.design @ beta
        near = 0.5 / self.rows.total
        low, high = rising_sigmoid(eta - c * error) - near, rising_sigmoid(eta + c * error) + near
        return Band(self.x, np.maximum(low, 0.0), np.minimum(high, 1.0))

    def _make_redraw(self) -> Callable[[Rng], FloatArray]:
        """A function that fits the spline, with a new λ, to outcomes drawn from the scores."""
        pools, problem = RowCells.rank(self.rows, _CELLS), self.problem
        if problem.constant:
            return lambda rng: np.full(self.x.size, pools.redraw(rng).sum() / self.rows.total)
        basis = problem.basis
        design = basis.design(pools.mean(problem.chart(pools.rows.score)))

        def curve(rng: Rng) -> FloatArray:
            events = pools.redraw(rng)
            cells = FitPoints(design, pools.weight, events, float(events.sum()), self.rows.total)
            line = rising_line(basis, cells, 0.5 / self.rows.total)
            far = float(np.log(2.0 * self.rows.total - 1.0))
            bounds = rising(basis, min(-far, float(line.min())), max(far, float(line.max())), 0.0)
            beta = fit_penalised(cells, basis.penalty, "reml", "logit", bounds, line).beta
            return rising_sigmoid(self.design @ beta)

        return curve


# ── kernel ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class KernelCurve:
    """
    Nadaraya–Watson over the ranks of scores, with the bandwidth of `KernelCalibrator(bandwidth="under")`.

    Over the scores themselves, windows in a sparse tail would hold at most one row, and the curve would swing from 0 to
    1.
    """

    rows: BinaryRows
    grid: FloatArray

    @cached_property
    def pools(self) -> RowCells:
        """The rows, pooled in cells of adjacent scores."""
        return RowCells.rank(self.rows, 2048)

    @cached_property
    def _smoother(self) -> tuple[FloatArray, FloatArray]:
        """Points with rows within the bandwidth, and the share of each cell in the estimate there."""
        kernel, pools = KERNELS["triweight"], self.pools
        place = (np.cumsum(pools.rows.weights) - 0.5 * pools.rows.weights) / self.rows.total
        rule = rule_of_thumb(place, pools.rows.weight, kernel)
        bandwidth = _UNDER * rule if rule > 1e-12 else 1.0
        at = pools.mean(pools.rows.score)
        rank = (np.cumsum(pools.weight) - 0.5 * pools.weight) / self.rows.total
        mass = kernel((np.interp(self.grid, at, rank)[:, None] - rank) / bandwidth) * pools.weight
        total = mass.sum(axis=1)
        reached = total > 1e-9 * total.max()
        return self.grid[reached], mass[reached] / total[reached, None]

    @property
    def x(self) -> FloatArray:
        """Points."""
        return self._smoother[0]

    @cached_property
    def y(self) -> FloatArray:
        """The curve."""
        return self._estimate(self.pools.sums(self.pools.rows.y))

    def _estimate(self, events: FloatArray) -> FloatArray:
        """The estimate from weighted events of the cells."""
        return np.clip(self._smoother[1] @ (events / self.pools.weight), 0.0, 1.0)

    def band(self, request: BandRequest) -> Band:
        """The band."""
        if request.kind == "consistency":
            return Band(self.x, *request.enclose(lambda rng: self._estimate(self.pools.redraw(rng))))
        return self._find_confidence_band(request)

    def _find_confidence_band(self, request: BandRequest) -> Band:
        """
        Binomial intervals with the effective number of rows in each window, around the estimate less its bias.

        The bias is what the kernel does to a pilot, the monotone spline: Σ share·pilot(row) − pilot(x).
        """
        share, pools = self._smoother[1], self.pools
        spread = 1.0 / pools.size  # of a cell's mean, per unit of variance of an outcome
        size = 1.0 / (share**2 @ spread)
        at = pools.mean(pools.rows.score)
        pilot = SplineCurve(self.rows, np.concatenate([self.x, at])).y
        bias = share @ pilot[self.x.size :] - pilot[: self.x.size]
        rate = np.clip(self.y - bias, 0.0, 1.0)
        noise = share * np.sqrt(spread * np.maximum(pilot[self.x.size :] * (1.0 - pilot[self.x.size :]), 1e-12))
        error = np.sqrt((noise**2).sum(axis=1))

        def path(rng: Rng) -> FloatArray:
            values: FloatArray = (noise @ rng.standard_normal(at.size)) / error
            return values

        from scipy.special import ndtr

        c = _find_critical(path, request)
        # half a count matters far in the tails, so uniform bands use exact intervals
        interval = "clopper-pearson" if request.uniform else "mid-p"
        level = float(2.0 * ndtr(_WIDER * c if request.uniform else c) - 1.0)
        low, high = rate_interval(rate * size, size, level, interval)
        # the band must hold the estimate itself, although that is biased
        return Band(self.x, np.minimum(low, self.y), np.maximum(high, self.y))
