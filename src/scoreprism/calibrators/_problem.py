"""What the spline calibrators fit: a chart, a basis, the data on points, bounds, and a choice of λ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_count, parse_number
from scoreprism._core.numerics import EDGE
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.bins import weighted_quantiles
from scoreprism._kernels.kernel_regression import KERNELS, Kernel, linear_bins
from scoreprism._kernels.logistic import separated
from scoreprism._maps.binary_map import BinaryMap, Chart, parse_distance
from scoreprism._maps.splines import Basis, Cells, Constraint, SplineFit, fit_penalised, rising_line
from scoreprism._sample.fit_rows import Data
from scoreprism._sample.folds import make_folds
from scoreprism.calibrators._kernel import kernel_estimate, parse_bandwidth

#: From this many rows on they are shared among this many even points (see `linear_bins`).
_MANY, _POINTS = 4096, 2048
#: Quantiles between which the knots of a spline in the logit stand; its tails are straight.
_OUTER = (0.005, 0.995)


def _outer(x: FloatArray, weight: FloatArray | None) -> tuple[float, float]:
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


@dataclass(frozen=True)
class SplineOptions:
    """Parameters of a spline calibrator, checked."""

    link: str
    k: int
    smoothing: str | float
    space: str
    clip: float
    hard: bool
    cv: Any
    random_state: object
    bandwidth: float | None
    kernel: Kernel
    grid: FloatArray

    @staticmethod
    def of(parameters: dict[str, Any], data: Data) -> SplineOptions:
        """From the parameters of an estimator; those of Step A may be missing."""
        link = parse_choice(parameters["link"], ("logit", "identity"), "link")
        k = parse_count(parameters["n_basis"], "n_basis", 4)
        space = parse_choice(parameters["chart"], ("auto", "logit", "probability"), "chart")
        given, size = parameters.get("bandwidth"), parameters.get("grid_size")
        kernel = KERNELS[parse_choice(parameters.get("kernel", "triweight"), KERNELS, "kernel")]
        if given is not None:
            given = parse_bandwidth(given, data.chart("probability")(data.score), data, kernel)
        if space == "auto":
            space = "logit" if link == "logit" and given is None else "probability"
        return SplineOptions(
            link=link,
            k=k,
            smoothing=_parse_penalty(parameters["penalty"]),
            space=space,
            clip=max(parse_distance(parameters["clip"], data.total), EDGE),
            hard=not isinstance(parameters["clip"], str),
            cv=parameters["cv"],
            random_state=parameters["random_state"],
            bandwidth=given,
            kernel=kernel,
            grid=np.linspace(0.0, 1.0, k if size is None else parse_count(size, "grid_size", 2)),
        )


def _parse_penalty(value: object) -> str | float:
    if isinstance(value, str):
        return parse_choice(value, ("reml", "gcv", "cv"), "penalty")
    return parse_number(value, "penalty", "'reml', 'gcv', 'cv' or a number of at least 0", lambda v: v >= 0.0)


@dataclass(frozen=True)
class SplineProblem:
    """A penalised spline for the data at hand; `shape` gives the constraint from the basis and two bounds."""

    options: SplineOptions
    data: Data
    shape: Callable[[Basis, float, float], Constraint]

    @cached_property
    def chart(self) -> Chart:
        """The coordinate of the spline."""
        return self.data.chart(self.options.space)

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
        if self.options.space == "probability":
            return Basis(0.0, 1.0, self.options.k)
        left, right = _outer(self.x, self.data.weight)
        if not right - left > 1e-3 * np.ptp(self.x):
            left, right = float(self.x.min()), float(self.x.max())
        return Basis(left, right, self.options.k)

    @cached_property
    def cells(self) -> Cells:
        """All rows."""
        return self._cells(self.data, self.x)

    @cached_property
    def line(self) -> FloatArray:
        """Coefficients of the best straight line that does not fall (the base rate if there is none)."""
        cells, clip = self.cells, self.options.clip
        if self.options.link == "identity":
            mean = float(cells.events.sum() / cells.weight.sum())
            return np.full(self.options.k, min(max(mean, clip), 1.0 - clip))
        return rising_line(self.basis, cells, clip, flat=separated(self.x, self.data.y) != 0)

    @cached_property
    def constraint(self) -> Constraint:
        """
        The shape, between bounds: `clip` from 0 and 1 or, with the logit link, as far as the straight line goes.

        A bound that the straight line could not keep would bend it, and with it all smooth maps.
        """
        low, high = self.options.clip, 1.0 - self.options.clip
        if self.options.link == "logit":
            farthest = float(np.log(high / low))
            low, high = min(-farthest, float(self.line.min())), max(farthest, float(self.line.max()))
        return self.shape(self.basis, low, high)

    def fit(self) -> SplineFit:
        """The penalised fit, with λ by cross-validation if that was asked for."""
        o = self.options
        smoothing = self._cross_validated() if o.smoothing == "cv" else o.smoothing
        return fit_penalised(self.cells, self.basis.penalty, smoothing, o.link, self.constraint, self.line)

    def map(self, beta: FloatArray) -> BinaryMap:
        """The map with these coefficients."""
        o = self.options
        curve = self.basis.curve(beta, tails=o.space == "logit")
        if o.link == "identity":
            return BinaryMap(self.chart, curve, o.link, clip=o.clip)
        if o.hard:  # a distance that was asked for is kept
            return BinaryMap(self.chart, curve, o.link, clip=o.clip)
        return BinaryMap(self.chart, curve, o.link).floored(self.data.score, o.clip)

    # ── data on points ──────────────────────────────────────────────────────────────────────────────

    def _cells(self, data: Data, x: FloatArray) -> Cells:
        """Rows, points they are shared among, or the kernel estimates of Step A, with the basis there."""
        o = self.options
        if o.bandwidth is not None:
            p = data.chart("probability")(data.score)
            grid, rate, mass = kernel_estimate(p, data, o.grid, o.bandwidth, o.kernel)
            at = grid if o.space == "probability" else Chart("probability", "logit", 1e-9, 1e-9)(grid)
            return Cells(self.basis.design(at), mass, mass * rate, float(mass @ rate**2), float(grid.size))
        weight = np.ones(x.size) if data.weight is None else data.weight
        points, mass, events = (x, weight, weight * data.y) if x.size <= _MANY else self._shared(data, x, weight)
        return Cells(self.basis.design(points), mass, events, data.rate * data.total, data.total)

    def _shared(self, data: Data, x: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
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

    def _cross_validated(self) -> float:
        """The λ with the smallest pooled out-of-fold loss: log loss for the logit link, squared error otherwise."""
        o, penalty = self.options, self.basis.penalty
        unit = float((self.cells.weight @ (self.cells.design**2).sum(axis=1)) / np.trace(penalty))
        tries = unit * 10.0 ** np.arange(-4.0, 5.01, 1.0)
        loss = np.zeros(tries.size)
        for train, test in make_folds(o.cv, self.data, o.random_state):
            cells, held = self._cells(self.data.part(train), self.x[train]), self.data.part(test)
            design = self.basis.design(self.x[test])
            weight = np.ones(held.y.size) if held.weight is None else held.weight
            for i, smoothing in enumerate(tries):
                eta = design @ fit_penalised(cells, penalty, float(smoothing), o.link, self.constraint, self.line).beta
                rows = np.logaddexp(0.0, eta) - held.y * eta if o.link == "logit" else (held.y - eta) ** 2
                loss[i] += float(weight @ rows)
        return float(tries[int(np.argmin(loss))])
