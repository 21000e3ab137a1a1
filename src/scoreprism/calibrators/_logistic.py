"""Logistic regression on a few columns by Newton's method: what Platt, beta, natural splines and bin effects share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoreprism.simplex import FloatArray

#: Newton needs fewer than fifteen steps where the likelihood has a maximum; beyond this it is taken to have none.
_STEPS = 40
_DECREMENT = 1e-16
#: Rows per block, and rows of the rough first fit.
_BLOCK, _FEW = 1 << 13, 4096
#: Fits whose likelihood keeps rising this far out are separated.
_SEPARATED = 40.0


@dataclass(frozen=True)
class LogisticFit:
    """Coefficients, whether a maximum was reached, and the loss there."""

    coefficients: FloatArray
    converged: bool
    loss: float


def expected_and_loss(eta: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """σ(η) and the log loss of each row at log-odds η."""
    e = np.exp(-np.abs(eta))
    p = 1.0 / (1.0 + e)
    loss = np.maximum(eta, 0.0) - y * eta - np.log(p)
    return np.where(eta >= 0.0, p, e * p), loss


@dataclass(frozen=True)
class Likelihood:
    """Log loss ``Σ w·[log(1 + e^η) − yη] + ½ βᵀPβ`` of η = β · design + offset; a row of `design` is a variable."""

    design: FloatArray
    y: FloatArray
    weight: FloatArray | None = None
    offset: FloatArray | None = None
    penalty: FloatArray | None = None

    def look(self, beta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Value, gradient and curvature, in one pass over blocks that stay in cache."""
        curb = np.zeros((beta.size, beta.size)) if self.penalty is None else self.penalty
        value, gradient, curvature = 0.5 * float(beta @ curb @ beta), curb @ beta, curb.copy()
        for start in range(0, self.y.size, _BLOCK):
            rows = slice(start, start + _BLOCK)
            x, y = self.design[:, rows], self.y[rows]
            eta = beta @ x if self.offset is None else beta @ x + self.offset[rows]
            p, loss = expected_and_loss(eta, y)
            v, residual = p * (1.0 - p), p - y
            if self.weight is not None:
                w = self.weight[rows]
                loss, v, residual = w * loss, w * v, w * residual
            value += float(loss.sum())
            gradient += x @ residual
            curvature += (x * v) @ x.T
        return value, gradient, curvature

    def sample(self, step: int) -> Likelihood:
        """Every `step`-th row."""
        weight = None if self.weight is None else self.weight[::step]
        offset = None if self.offset is None else self.offset[::step]
        return Likelihood(self.design[:, ::step], self.y[::step], weight, offset, self.penalty)

    def runs_away(self, beta: FloatArray) -> bool:
        """Whether rows far out are all on their own side, as under separation, where no maximum exists."""
        eta = beta @ self.design + (0.0 if self.offset is None else self.offset)
        far = np.abs(eta) > _SEPARATED
        return bool(far.any() and ((eta > 0) == (self.y > 0.5))[far].all())


def fit_logistic(
    design: FloatArray,
    y: FloatArray,
    weight: FloatArray | None = None,
    *,
    offset: FloatArray | None = None,
    penalty: FloatArray | None = None,
) -> LogisticFit:
    """
    Minimise ``Σ w·[log(1 + e^η) − yη] + ½ βᵀPβ`` over β, with η = β · design + offset and targets y in [0, 1].

    Newton with halved steps where they overshoot; directions the data do not see are left at zero. Many rows start
    from the fit to a few of them.
    """
    problem = Likelihood(design, y, weight, offset, penalty)
    start = np.zeros(design.shape[0])
    if y.size > 16 * _FEW:
        rough = _newton(problem.sample(y.size // _FEW), start)
        start = rough.coefficients if rough.converged else start
    return _newton(problem, start)


def _newton(problem: Likelihood, beta: FloatArray) -> LogisticFit:
    """Newton's method from a given start."""
    total = float(problem.y.size if problem.weight is None else problem.weight.sum())
    value, gradient, curvature = problem.look(beta)
    for _ in range(_STEPS):
        step = -_solve(curvature, gradient)
        decrement = -float(gradient @ step)
        if decrement <= _DECREMENT * total:  # the last step squares what is left of the error
            return LogisticFit(beta + step, converged=True, loss=value)
        size, after = 1.0, problem.look(beta + step)
        while after[0] > value and size > 1e-6:
            size *= 0.5
            after = problem.look(beta + size * step)
        if after[0] >= value and decrement <= 1e-10 * total:  # as good as rounding allows
            return LogisticFit(beta, converged=True, loss=value)
        beta = beta + size * step
        value, gradient, curvature = after
        if problem.penalty is None and np.abs(beta).sum() > _SEPARATED and problem.runs_away(beta):
            break
    return LogisticFit(beta, converged=False, loss=value)


def _solve(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    """Solve a symmetric system, leaving out directions without curvature."""
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale = np.where(scale > 0.0, scale, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    kept = values > 1e-13 * max(values[-1], 1e-300)
    inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    solution: FloatArray = (vectors @ (inverse * (vectors.T @ (vector / scale)))) / scale
    return solution


def smoothed_targets(y: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """Platt's targets: (N₁+1)/(N₁+2) for events and 1/(N₀+2) for the others, so that a maximum always exists."""
    events = float(y.sum() if weight is None else weight @ y)
    others = float(y.size if weight is None else weight.sum()) - events
    return np.where(y > 0.5, (events + 1.0) / (events + 2.0), 1.0 / (others + 2.0))


def fit_or_smooth(
    design: FloatArray, y: FloatArray, weight: FloatArray | None, penalty: FloatArray | None = None
) -> tuple[LogisticFit, bool]:
    """The maximum-likelihood fit, or, where classes are separated and none exists, the fit to Platt's targets."""
    fit = fit_logistic(design, y, weight, penalty=penalty)
    if fit.converged:
        return fit, False
    return fit_logistic(design, smoothed_targets(y, weight), weight, penalty=penalty), True
