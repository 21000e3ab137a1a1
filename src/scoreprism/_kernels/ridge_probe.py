"""Logistic and softmax regressions of many columns beside an offset, with a ridge that the data choose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.numerics import TINY
from scoreprism._core.simplex import FloatArray, IntArray

Columns = NDArray[np.float32]

#: Rows of a block: what products of matrices are fast at.
_ROWS = 2048
#: Prior variances of a weight that are tried.
_VARIANCES = np.geomspace(1e-8, 1e2, 61)
#: Powers of the variance of a column that the prior variance of its weights may be proportional to.
_POWERS = (0.0, 0.5, 1.0, 2.0)
#: Times that the variance is estimated, and change by which it is worth a new fit.
_ROUNDS, _CHANGED = 3, 1.5
#: Prior variance of the constants: they are open.
_OPEN = 1e4
#: From this many classes on weights have a low rank, and which.
LOW_RANK_CLASSES, RANK = 100, 96


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

    How far weights may go, and how much farther those of columns that vary more, is estimated by their evidence. Of
    many classes the weights have a low rank, in the directions of a first step, which is as cheap for all ranks.
    """
    problem = RidgeProblem(np.concatenate([design, np.ones((len(design), 1), np.float32)], axis=1), offset, codes, mass)
    slope, curvature = (part[:-1] for part in problem.expand(np.zeros(problem.shape)))
    stretch, variance = _choose_prior(slope, curvature, np.einsum("ij,ij->j", design, design) / max(len(design), 1))
    problem.design[:, :-1] *= stretch.astype(np.float32)
    turn = np.diag(stretch)
    if problem.shape[1] >= LOW_RANK_CLASSES and design.shape[1] > 2 * RANK:
        step = slope * stretch[:, None] / (curvature * stretch[:, None] ** 2 + 1.0 / variance)
        axes = np.linalg.svd(step, full_matrices=False)[0][:, :RANK]
        turn = turn @ axes
        narrow = [problem.design[:, :-1] @ axes.astype(np.float32), problem.design[:, -1:]]
        problem = replace(problem, design=np.concatenate(narrow, axis=1))
        weights = _fit(problem, variance, rounds=1)  # directions that were chosen would feign a larger variance
    else:
        weights = _fit(problem, variance)
    return np.concatenate([turn @ weights[:-1], weights[-1:]])


def _choose_prior(slope: FloatArray, curvature: FloatArray, spread: FloatArray) -> tuple[FloatArray, float]:
    """What columns are multiplied by, and the variance of the weights then."""
    best = (-np.inf, np.ones(spread.size), 1.0)
    for power in _POWERS:
        stretch = (np.maximum(spread, TINY) / max(float(spread.max(initial=0.0)), TINY)) ** (0.5 * power)
        evidence, variance = _estimate_variance(slope * stretch[:, None], curvature * stretch[:, None] ** 2)
        if evidence > best[0]:
            best = evidence, stretch, variance
    return best[1], best[2]


def _fit(problem: RidgeProblem, variance: float, rounds: int = _ROUNDS) -> FloatArray:
    """The weights; their variance is estimated again where the last fit ended."""
    weights = np.zeros(problem.shape)
    for number in range(rounds):
        slope, curvature = problem.expand(weights)
        if number > 0:
            found = _estimate_variance((curvature * weights - slope)[:-1], curvature[:-1])[1]
            if max(found / variance, variance / found) < _CHANGED:
                break
            variance = found
        weights = _descend(problem, weights, curvature, variance)
    return weights


def _estimate_variance(score: FloatArray, curvature: FloatArray) -> tuple[float, float]:
    """
    The log-evidence of the variance τ² of the weights that explains best the score of a model linear in them, and it.

    A score whose curvature is a has the variance a(1 + τ²a).
    """
    a = np.maximum(curvature, TINY)
    evidence = [0.5 * float((v * score**2 / (1.0 + v * a) - np.log1p(v * a)).sum()) for v in _VARIANCES]
    best = int(np.argmax(evidence))
    return evidence[best], float(_VARIANCES[best])


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
