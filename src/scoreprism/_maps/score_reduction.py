"""Scores of another width than the number of classes, brought to logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.logistic import fit_logistic
from scoreprism._kernels.softmax import SoftmaxProblem, fit_softmax
from scoreprism._maps.parts import Part


@dataclass(frozen=True)
class Reduction(Part):
    """Scores of another width than 1 or K, brought to K logits (one log-odds for two classes) by a ridge regression."""

    tag = "reduction"

    weights: FloatArray

    def __call__(self, table: FloatArray) -> FloatArray:
        eta = np.tile(self.weights[-1], (table.shape[0], 1))
        # column by column, so that the result of a row does not depend on the other rows
        for column, weights in zip(table.T, self.weights[:-1], strict=True):
            eta += column[:, None] * weights
        return eta[:, 0] if eta.shape[1] == 1 else eta

    @staticmethod
    def fit(table: FloatArray, codes: IntArray, weight: FloatArray | None, k: int) -> Reduction:
        """Regress the classes on all columns."""
        center = np.average(table, axis=0, weights=weight)
        spread = np.sqrt(np.average((table - center) ** 2, axis=0, weights=weight))
        spread = np.where(spread > 0.0, spread, 1.0)
        design = np.column_stack([(table - center) / spread, np.ones(table.shape[0])])
        ridge = np.r_[np.full(table.shape[1], 1e-2), 0.0]
        if k == 2:
            fit = fit_logistic(design.T, codes.astype(np.float64), weight, penalty=np.diag(ridge))
            beta = fit.coefficients[:, None]
        else:
            full = np.broadcast_to(np.maximum(ridge, 1e-9)[:, None], (design.shape[1], k))
            beta = fit_softmax(SoftmaxProblem(design, codes, weight, np.zeros(full.shape), full)).theta
        slopes = beta[:-1] / spread[:, None]
        return Reduction(np.vstack([slopes, beta[-1:] - center @ slopes]))
