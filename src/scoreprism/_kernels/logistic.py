"""Logistic regression on a few columns by Newton's method: shared by Platt, beta and spline calibrators."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scoreprism._core.numerics import TINY, clipped_sigmoid, softplus
from scoreprism._core.simplex import FloatArray

#: Newton steps at most; where the likelihood has a maximum, fewer than fifteen suffice.
_STEPS = 60
_DECREMENT = 1e-13
#: Rows per block, and rows of the rough first fit.
_BLOCK, _FEW = 1 << 13, 4096


@dataclass(frozen=True)
class Likelihood:
    """Log loss ``Σ w·[log(1 + e^η) − yη] + ½ βᵀPβ`` of η = β · design + offset; a row of `design` is a variable."""

    design: FloatArray
    y: FloatArray
    weight: FloatArray | None = None
    penalty: FloatArray | None = None
    offset: FloatArray | None = None

    def evaluate(self, beta: FloatArray, *, loss: bool = True) -> tuple[float, FloatArray, FloatArray]:
        """Value (only the penalty without `loss`), gradient and curvature, in one pass over cached blocks."""
        curb = np.zeros((beta.size, beta.size)) if self.penalty is None else self.penalty
        value, gradient, curvature = 0.5 * float(beta @ curb @ beta), curb @ beta, curb.copy()
        for start in range(0, self.y.size, _BLOCK):
            rows = slice(start, start + _BLOCK)
            x, y = self.design[:, rows], self.y[rows]
            eta = beta @ x
            if self.offset is not None:
                eta += self.offset[rows]
            p = clipped_sigmoid(eta)
            residual = p - y
            v = np.subtract(1.0, p)
            v *= p
            w = 1.0 if self.weight is None else self.weight[rows]
            if self.weight is not None:
                v *= w
                residual *= w
            if loss:
                value += float((w * (softplus(eta) - y * eta)).sum())
            gradient += x @ residual
            curvature += (x * v) @ x.T
        return value, gradient, curvature

    @cached_property
    def total(self) -> float:
        """Rows, or the sum of the weights."""
        return float(self.y.size if self.weight is None else self.weight.sum())

    def draw_few(self) -> Likelihood | None:
        """Draw a few rows at random; None if the rows are not many more, or one outcome is rare among those drawn."""
        if self.y.size <= 16 * _FEW:
            return None
        rows = np.random.default_rng(0).integers(0, self.y.size, _FEW)
        y = self.y[rows]
        if not 50 <= int((y > 0.5).sum()) <= _FEW - 50:
            return None
        weight, offset = (None if v is None else v[rows] for v in (self.weight, self.offset))
        return Likelihood(self.design[:, rows], y, weight, self.penalty, offset)


@dataclass(frozen=True)
class LogisticFit:
    """Coefficients, and whether they are a minimum."""

    problem: Likelihood
    coefficients: FloatArray
    converged: bool

    @property
    def loss(self) -> float:
        """The penalised loss."""
        return self.problem.evaluate(self.coefficients)[0]


def fit_logistic(
    design: FloatArray,
    y: FloatArray,
    weight: FloatArray | None = None,
    *,
    penalty: FloatArray | None = None,
    offset: FloatArray | None = None,
) -> LogisticFit:
    """
    Minimise ``Σ w·[log(1 + e^η) − yη] + ½ βᵀPβ`` over β, with η = β · design + offset and targets y in [0, 1].

    Newton steps, halved where they overshoot; directions without curvature stay at zero. Large data start from a fit
    to a few rows.
    """
    problem = Likelihood(design, y, weight, penalty, offset)
    if design.shape[0] == 0:
        return LogisticFit(problem, np.zeros(0), converged=True)
    few = problem.draw_few()
    if few is not None:
        rough = _newton(few, np.zeros(design.shape[0]))
        close = _finish(problem, rough.coefficients) if rough.converged else None
        if close is not None:
            return close
    return _newton(problem, np.zeros(design.shape[0]))


def _is_minimum(problem: Likelihood, gradient: FloatArray, curvature: FloatArray, decrement: float) -> bool:
    """Whether this is a minimum: the Newton decrement is small, and not for lack of curvature."""
    if not decrement <= _DECREMENT * problem.total:
        return False
    return bool((gradient**2 <= 1e-11 * problem.total * np.diag(curvature) + TINY).all())


def _finish(problem: Likelihood, beta: FloatArray) -> LogisticFit | None:
    """Newton from a nearby start without evaluating the loss; None where steps do not shrink fast enough."""
    before = np.inf
    while True:
        _, gradient, curvature = problem.evaluate(beta, loss=False)
        step = -_solve(curvature, gradient)
        decrement = -float(gradient @ step)
        if not decrement < 0.25 * before:
            return None
        beta, before = beta + step, decrement
        if decrement <= _DECREMENT * problem.total:  # quadratic convergence: this step has removed the rest
            done = _is_minimum(problem, gradient, curvature, decrement)
            return LogisticFit(problem, beta, converged=True) if done else None


def _newton(problem: Likelihood, beta: FloatArray) -> LogisticFit:
    """Newton's method with step halving, from any start."""
    value, gradient, curvature = problem.evaluate(beta)
    for _ in range(_STEPS):
        step = -_solve(curvature, gradient)
        decrement = -float(gradient @ step)
        if _is_minimum(problem, gradient, curvature, decrement):
            return LogisticFit(problem, beta + step, converged=True)
        size, after = 1.0, problem.evaluate(beta + step)
        while not after[0] < value and size > 1e-6:
            size *= 0.5
            after = problem.evaluate(beta + size * step)
        if not after[0] < value:  # no further decrease is possible in floating point
            return LogisticFit(problem, beta, converged=decrement <= 1e-9 * problem.total)
        beta = beta + size * step
        value, gradient, curvature = after
    return LogisticFit(problem, beta, converged=False)


def _solve(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    """Solve a symmetric system, leaving out directions without curvature."""
    if vector.size == 2:  # speed: most fits are of a line
        a, b, c = float(matrix[0, 0]), float(matrix[0, 1]), float(matrix[1, 1])
        u, v = float(vector[0]), float(vector[1])
        size = math.sqrt(max(a, 0.0)) * math.sqrt(max(c, 0.0))
        if size - abs(b) > 1e-12 * size:
            free = 1.0 - (b / size) ** 2
            return np.array([(u - b / c * v) / (a * free), (v - b / a * u) / (c * free)])
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale = np.where(scale > 0.0, scale, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    curved = values > 1e-13 * max(values[-1], TINY)
    inverse = np.where(curved, 1.0 / np.where(curved, values, 1.0), 0.0)
    solution: FloatArray = (vectors @ (inverse * (vectors.T @ (vector / scale)))) / scale
    return solution


def shrink_targets(y: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """Platt's targets: (N₁+1)/(N₁+2) for events and 1/(N₀+2) for the others, so that a maximum always exists."""
    events = float(y.sum() if weight is None else weight @ y)
    others = float(y.size if weight is None else weight.sum()) - events
    return np.where(y > 0.5, (events + 1.0) / (events + 2.0), 1.0 / (others + 2.0))


def find_separation(x: FloatArray, y: FloatArray) -> int:
    """1 if no event has a smaller x than a non-event, −1 if none has a larger one, else 0: then a maximum exists."""
    for rows in (slice(0, 1024), slice(None)):  # most scores are decided by the first rows
        event = y[rows] > 0.5
        events, others = x[rows][event], x[rows][~event]
        up = events.size == 0 or others.size == 0 or events.min() >= others.max()
        down = events.size == 0 or others.size == 0 or events.max() <= others.min()
        if not (up or down):
            return 0
    return 1 if up else -1


def fit_or_shrink(
    design: FloatArray, y: FloatArray, weight: FloatArray | None, *, smooth: bool, penalty: FloatArray | None = None
) -> LogisticFit:
    """The maximum-likelihood fit, or with `smooth` the fit to Platt's targets, which has a maximum in any case."""
    return fit_logistic(design, shrink_targets(y, weight) if smooth else y, weight, penalty=penalty)
