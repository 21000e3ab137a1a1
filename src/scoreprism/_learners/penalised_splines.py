"""Penalised splines of rows: a chart, a basis, the data on points, a shape between bounds, and a choice of λ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.numerics import weighted_quantiles
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.kernel_regression import Kernel, kernel_estimate, linear_bins
from scoreprism._kernels.logistic import find_separation
from scoreprism._maps.binary_map import BinaryMap, Chart
from scoreprism._maps.spline_basis import Basis, Constraint, FitPoints, SplineFit, fit_penalised, rising_line
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.folds import make_folds

#: From this many rows on they are shared among this many even points (see `linear_bins`).
_MANY, _POINTS = 4096, 2048
#: Quantiles between which the knots of a spline in the logit stand; its tails are straight.
_OUTER = (0.005, 0.995)


def _find_outer_quantiles(x: FloatArray, weight: FloatArray | None) -> tuple[float, float]:
    """The outer quantiles; of many rows to a 4096th of their range, where that is fine enough."""
    if x.size > _MANY:
        low, bins = float(x.min()), 4096
        width = (float(x.max()) - low) / bins
        cells = np.minimum(((x - low) * (1.0 / width)).astype(np.intp), bins - 1)
        upto = np.cumsum(np.bincount(cells, weight, bins))
        first, last = np.searchsorted(upto, np.array(_OUTER) * upto[-1])
        if last - first >= 64:
            return low + width * float(first), low + width * float(last + 1)
    left, right = weighted_quantiles(x, weight, _OUTER)
    return float(left), float(right)


#: The constraint on a spline, from its basis and two bounds.
Shape = Callable[[Basis, float, float], Constraint]


class KernelStep(NamedTuple):
    """Step A of the paper: rows become kernel estimates on a grid of probabilities."""

    bandwidth: float
    kernel: Kernel
    grid: FloatArray


@dataclass(frozen=True)
class SplineProblem:
    """A penalised spline for the data at hand; the defaults are those of `MonotoneSplineCalibrator`."""

    data: FitRows
    shape: Shape
    clip: float  # how far the curve stays from 0 and 1
    hard: bool = False  # whether the user set that distance
    link: str = "logit"
    k: int = 20  # number of B-splines
    smoothing: str | float = "reml"  # λ, or how it is chosen
    space: str = "logit"
    cv: Any = 5
    random_state: object = 0
    kernel_step: KernelStep | None = None

    @cached_property
    def chart(self) -> Chart:
        """The coordinate of the spline."""
        return self.data.chart(self.space)

    @cached_property
    def x(self) -> FloatArray:
        """Scores in that coordinate."""
        return self.chart(self.data.score)

    @property
    def constant(self) -> bool:
        """Whether there is only one score, and nothing to fit."""
        return not float(np.ptp(self.x)) > 1e-12 * (1.0 + float(np.abs(self.x).max()))

    @cached_property
    def basis(self) -> Basis:
        """Even knots on [0, 1], or between outer quantiles of the logit."""
        if self.space == "probability":
            return Basis(0.0, 1.0, self.k)
        left, right = _find_outer_quantiles(self.x, self.data.weight)
        if not right - left > 1e-3 * np.ptp(self.x):
            left, right = float(self.x.min()), float(self.x.max())
        return Basis(left, right, self.k)

    @cached_property
    def cells(self) -> FitPoints:
        """All rows."""
        return self._cells(self.data, self.x)

    @cached_property
    def line(self) -> FloatArray:
        """Coefficients of the best straight line that does not fall (the base rate if there is none)."""
        cells, clip = self.cells, self.clip
        if self.link == "identity":
            mean = float(cells.events.sum() / cells.weight.sum())
            return np.full(self.k, min(max(mean, clip), 1.0 - clip))
        return rising_line(self.basis, cells, clip, flat=find_separation(self.x, self.data.y) != 0)

    @cached_property
    def constraint(self) -> Constraint:
        """
        The shape, between bounds: `clip` from 0 and 1 or, with the logit link, as far as the straight line goes.

        A bound that the straight line could not keep would bend it, and with it all smooth maps.
        """
        low, high = self.clip, 1.0 - self.clip
        if self.link == "logit":
            farthest = float(np.log(high / low))
            low, high = min(-farthest, float(self.line.min())), max(farthest, float(self.line.max()))
        return self.shape(self.basis, low, high)

    def fit(self) -> SplineFit:
        """The penalised fit, with λ by cross-validation if that was asked for."""
        return self._fit_points(self.cells, self._cross_validate() if self.smoothing == "cv" else self.smoothing)

    def _fit_points(self, points: FitPoints, smoothing: str | float) -> SplineFit:
        return fit_penalised(points, self.basis.penalty, smoothing, self.link, self.constraint, self.line)

    def map(self, beta: FloatArray) -> BinaryMap:
        """The map with these coefficients."""
        curve = self.basis.curve(beta, tails=self.space == "logit")
        if self.link == "identity" or self.hard:  # a distance set by the user is exact
            return BinaryMap(self.chart, curve, self.link, clip=self.clip)
        return BinaryMap(self.chart, curve, self.link).with_floor(self.data.score, self.clip)

    # ── data on points ──────────────────────────────────────────────────────────────────────────────

    def _cells(self, data: FitRows, x: FloatArray) -> FitPoints:
        """Rows, points they are shared among, or the kernel estimates of Step A, with the basis there."""
        if self.kernel_step is not None:
            p, step = data.chart("probability")(data.score), self.kernel_step
            grid, rate, mass = kernel_estimate(p, data.y, data.weight, step.grid, step.bandwidth, step.kernel)
            at = grid if self.space == "probability" else Chart("probability", "logit", 1e-9, 1e-9)(grid)
            return FitPoints(self.basis.design(at), mass, mass * rate, float(mass @ rate**2), float(grid.size))
        weight = np.ones(x.size) if data.weight is None else data.weight
        points, mass, events = (x, weight, weight * data.y) if x.size <= _MANY else self._spread(data, x, weight)
        return FitPoints(self.basis.design(points), mass, events, data.rate * data.total, data.total)

    def _spread(self, data: FitRows, x: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rows shared among even points over the knots and a margin; the few beyond stay what they are."""
        margin = 3.0 * self.basis.width
        low, high = float(x.min()), float(x.max())
        near = max(low, self.basis.left - margin), min(high, self.basis.right + margin)
        inside = None
        if high - low > 2.0 * (near[1] - near[0]):
            low, high = near
            inside = (x >= low) & (x <= high)
        part = data if inside is None else data.part(inside)
        outcome = part.codes if part.weight is None else part.y
        step = (high - low) / _POINTS
        mass, events = linear_bins(x if inside is None else x[inside], outcome, part.weight, low, step, _POINTS + 1)
        points: FloatArray = low + step * np.arange(_POINTS + 1.0)
        if inside is None:
            return points, mass, events
        rest = x[~inside], weight[~inside], (weight * data.y)[~inside]
        joined = [np.concatenate(pair) for pair in zip((points, mass, events), rest, strict=True)]
        return joined[0], joined[1], joined[2]

    def _cross_validate(self) -> float:
        """The λ with the smallest pooled out-of-fold loss: log loss for the logit link, squared error otherwise."""
        unit = float(self.cells.weight @ (self.cells.design**2).sum(axis=1)) / float(np.trace(self.basis.penalty))
        tries = unit * 10.0 ** np.arange(-4.0, 5.01, 1.0)
        loss = np.zeros(tries.size)
        for train, test in make_folds(self.cv, self.data, self.random_state):
            cells, test_rows = self._cells(self.data.part(train), self.x[train]), self.data.part(test)
            design = self.basis.design(self.x[test])
            weight = np.ones(test_rows.y.size) if test_rows.weight is None else test_rows.weight
            for i, smoothing in enumerate(tries):
                eta = design @ self._fit_points(cells, float(smoothing)).beta
                rows = np.logaddexp(0.0, eta) - test_rows.y * eta if self.link == "logit" else (test_rows.y - eta) ** 2
                loss[i] += float(weight @ rows)
        return float(tries[int(np.argmin(loss))])


def monotone_problem(data: FitRows) -> SplineProblem:
    """What `MonotoneSplineCalibrator` fits with its default choices."""
    return SplineProblem(data, rising, data.distance)


# ── shapes ──────────────────────────────────────────────────────────────────────────────────────────


def unconstrained(basis: Basis, _low: float, _high: float) -> Constraint:
    """No constraint; the map cuts what leaves its bounds."""
    return Constraint(np.zeros((0, basis.k)), np.zeros(0))


def boxed(basis: Basis, low: float, high: float) -> Constraint:
    """Coefficients between two bounds, which the curve then keeps."""
    one = np.eye(basis.k)
    return Constraint(np.vstack([one, -one]), np.repeat([low, -high], basis.k))


def rising(basis: Basis, low: float, high: float, gap: float = 0.0) -> Constraint:
    """Coefficients that do not fall (or rise by a gap), with the values at the outer knots between two bounds."""
    first, last = basis.design(np.array([basis.left, basis.right]))
    rows = np.vstack([np.diff(np.eye(basis.k), axis=0), first, -last])
    return Constraint(rows, np.concatenate([np.full(basis.k - 1, gap), [low, -high]]))
