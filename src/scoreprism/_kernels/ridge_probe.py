"""Logistic and softmax regressions of many columns beside an offset, with a ridge that the data choose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.numerics import TINY
from scoreprism._core.simplex import FloatArray, IntArray

Columns = NDArray[np.float32]

#: Rows of a block: what products of matrices are fast at.
_ROWS = 2048
#: Prior variances of a weight that are tried.
_VARIANCES = np.geomspace(1e-8, 1e2, 61)
#: Times that the variance is estimated, and change by which it is worth a new fit.
_ROUNDS, _CHANGED = 3, 1.5
#: Prior variance of the constants: they are open.
_OPEN = 1e4
#: From this many classes on weights have a low rank, and which.
LOW_RANK_CLASSES, RANK = 100, 64


@dataclass(frozen=True)
class RidgeProblem:
    """
    The sum of ``−w log softmax(design · W + offset)_y`` over rows and ½ Σ W² / variance.

    Two classes are one column of W, and an offset of one dimension. The last row of the design is a constant.
    """

    design: Columns
    offset: FloatArray
    codes: IntArray
    mass: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Weights: columns of the design by classes, one for two."""
        return self.design.shape[1], 1 if self.offset.ndim == 1 else self.offset.shape[1]

    def _visit(self, weights: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray, float]]:
        """Block by block: rows, weighted errors p − y, weighted curvatures p(1 − p), and the summed loss."""
        single = weights.astype(np.float32)
        for first in range(0, self.codes.size, _ROWS):
            rows = slice(first, first + _ROWS)
            eta = self.design[rows] @ single + self.offset[rows].reshape(-1, self.shape[1])
            codes, mass = self.codes[rows], self.mass[rows]
            if self.shape[1] == 1:
                signed = np.where(codes == 1, 1.0, -1.0) * eta[:, 0]
                loss = float(mass @ np.logaddexp(0.0, -signed))
                law = 1.0 / (1.0 + np.exp(-np.clip(eta, -700.0, 700.0)))
                error = law - codes[:, None]
            else:
                eta -= eta.max(axis=1, keepdims=True)
                observed = eta[np.arange(codes.size), codes]
                law = np.exp(eta, out=eta)
                total = law.sum(axis=1)
                law /= total[:, None]
                loss = float(mass @ (np.log(total) - observed))
                error = law.copy()
                error[np.arange(codes.size), codes] -= 1.0
            yield rows, error * mass[:, None], law, loss

    def evaluate(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """The loss and its slope, without the ridge."""
        value, slope = 0.0, np.zeros(self.shape)
        for rows, error, _, loss in self._visit(weights):
            value += loss
            slope += self.design[rows].T @ error.astype(np.float32)
        return value, slope

    def expand(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The slope, and the diagonal of the curvature: Σ w·p(1 − p)·x²."""
        slope, curvature = np.zeros(self.shape), np.zeros(self.shape)
        for rows, error, law, _ in self._visit(weights):
            x = self.design[rows]
            spread = (law * (1.0 - law) * self.mass[rows][:, None]).astype(np.float32)
            slope += x.T @ error.astype(np.float32)
            curvature += (x * x).T @ spread
        return slope, curvature


def fit_probe(design: Columns, offset: FloatArray, codes: IntArray, mass: FloatArray) -> FloatArray:
    """
    Weights of a ridge regression beside an offset: (columns + 1, K), one column for two classes; constants last.

    The weights have one prior variance, which is estimated by their evidence. Of many classes they have a low rank: its
    directions are those of the first step, whose cost does not depend on the rank.
    """
    whole = np.empty((design.shape[0], design.shape[1] + 1), dtype=np.float32)
    whole[:, :-1], whole[:, -1] = design, 1.0
    problem = RidgeProblem(whole, offset, codes, mass)
    if problem.shape[1] < LOW_RANK_CLASSES or design.shape[1] <= 2 * RANK:
        return _fit(problem)
    slope, curvature = problem.expand(np.zeros(problem.shape))
    variance = _estimate_variance(-slope[:-1], curvature[:-1])
    step = slope[:-1] / (curvature[:-1] + 1.0 / variance)
    directions = np.linalg.svd(step, full_matrices=False)[0][:, :RANK]
    narrow = np.concatenate([design @ directions.astype(np.float32), whole[:, -1:]], axis=1)
    found = _fit(RidgeProblem(narrow, offset, codes, mass), variance)
    return np.concatenate([directions @ found[:-1], found[-1:]])


def _fit(problem: RidgeProblem, variance: float | None = None) -> FloatArray:
    """The weights, at a known variance or at one that is estimated where the last fit ended."""
    weights = np.zeros(problem.shape)
    used = variance
    for _ in range(_ROUNDS):
        slope, curvature = problem.expand(weights)
        if variance is None:
            found = _estimate_variance((curvature * weights - slope)[:-1], curvature[:-1])
            if used is not None and max(found / used, used / found) < _CHANGED:
                break
            used = found
        assert used is not None  # noqa: S101 - known or just estimated
        weights = _descend(problem, weights, curvature, used)
        if variance is not None:
            break
    return weights


def _estimate_variance(score: FloatArray, curvature: FloatArray) -> float:
    """
    The variance τ² of the weights that explains the score of a model linear in them.

    A score whose curvature is a has the variance a(1 + τ²a).
    """
    a = np.maximum(curvature, TINY)
    evidence = [0.5 * float((v * score**2 / (1.0 + v * a) - np.log1p(v * a)).sum()) for v in _VARIANCES]
    return float(_VARIANCES[int(np.argmax(evidence))])


def _descend(problem: RidgeProblem, start: FloatArray, curvature: FloatArray, variance: float) -> FloatArray:
    """L-BFGS in coordinates whose own curvature is one."""
    from scipy.optimize import minimize

    ridge = np.full(problem.shape, 1.0 / variance)
    ridge[-1] = 1.0 / _OPEN
    scale = 1.0 / np.sqrt(curvature + ridge)
    total = float(problem.mass.sum())

    def evaluate(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = start + scale * flat.reshape(problem.shape)
        value, slope = problem.evaluate(weights)
        value += 0.5 * float((ridge * weights**2).sum())
        return value / total, ((slope + ridge * weights) * scale / total).ravel()

    options = {"maxiter": 60, "ftol": 1e-6, "gtol": 1e-6, "maxcor": 10}
    found = minimize(evaluate, np.zeros(start.size), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(start + scale * found.x.reshape(problem.shape))
