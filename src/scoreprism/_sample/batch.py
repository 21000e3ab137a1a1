"""Many training sets of one score at once: what each holds in the same cells, and logistic regressions of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from scoreprism._core.numerics import TINY, clipped_sigmoid
from scoreprism._core.simplex import FloatArray
from scoreprism._sample.fit_rows import FitRows

#: Newton steps from the fit to everything; three are enough unless a training set is odd.
_STEPS = 12
#: A fit has converged when a step gains less than this share of a row's worth of log-likelihood.
_DECREMENT = 1e-8


@dataclass(frozen=True)
class Batch:
    """M training sets of a binary score, pooled into the same G cells."""

    center: FloatArray  # (G,): score of each cell, increasing
    mass: FloatArray  # (2, M, G): weight of the non-events and of the events that a training set has in a cell
    whole: FloatArray  # (2, G): the same of all rows
    single: bool = True  # whether every cell holds one distinct score
    _memo: dict[str, FloatArray] = field(default_factory=dict)

    @cached_property
    def weight(self) -> FloatArray:
        """Weight in each cell, (M, G)."""
        return np.asarray(self.mass[0] + self.mass[1])

    @property
    def events(self) -> FloatArray:
        """Weight of the events in each cell, (M, G)."""
        return np.asarray(self.mass[1])

    @cached_property
    def total(self) -> FloatArray:
        """Weight of each training set."""
        return np.asarray(self.weight.sum(axis=1))

    @cached_property
    def everything(self) -> FitRows:
        """All rows, as weighted cells."""
        return _gather_cells(self.center, self.whole)

    def part(self, m: int) -> FitRows:
        """One training set, as weighted cells."""
        return _gather_cells(self.center, self.mass[:, m])

    def once(self, name: str, fit: Callable[[], FloatArray]) -> FloatArray:
        """Laws that several maps start from, fitted on first use."""
        if name not in self._memo:
            self._memo[name] = fit()
        return self._memo[name]

    def keep_inside(self, law: FloatArray) -> FloatArray:
        """Laws at least 1/(2n)² away from 0 and 1."""
        low = (np.minimum(0.5 / self.total, 0.25) ** 2)[:, None]
        return np.clip(law, low, 1.0 - low)


def _gather_cells(center: FloatArray, mass: FloatArray) -> FitRows:
    outcome, cell = np.nonzero(mass)
    return FitRows(center[cell], outcome, mass[outcome, cell], 2, "probability")


def fit_lines(batch: Batch, design: FloatArray, start: FloatArray, penalty: FloatArray | None) -> FloatArray | None:
    """Logistic regressions of all training sets, from the coefficients of all rows."""
    p = design.shape[0]
    curb = np.zeros((p, p)) if penalty is None else penalty
    upper = np.triu_indices(p)
    products = design[upper[0]] * design[upper[1]]  # (p(p+1)/2, G)
    beta = np.tile(start, (batch.total.size, 1))
    curvature = np.empty((beta.shape[0], p, p))
    for _ in range(_STEPS):
        law = clipped_sigmoid(beta @ design)
        residual = batch.events - batch.weight * law
        gradient = residual @ design.T - beta @ curb
        law *= 1.0 - law
        law *= batch.weight
        flat = law @ products.T
        curvature[:, upper[0], upper[1]] = curvature[:, upper[1], upper[0]] = flat
        curvature += curb
        scale = np.sqrt(np.maximum(curvature[:, np.arange(p), np.arange(p)], TINY))
        scaled = curvature / (scale[:, :, None] * scale[:, None, :])
        if not np.isfinite(scaled).all():
            return None
        spread = np.linalg.eigvalsh(scaled)
        if (spread[:, 0] <= 1e-12 * spread[:, -1]).any():
            return None
        step = np.linalg.solve(scaled, (gradient / scale)[:, :, None])[:, :, 0] / scale
        beta = beta + step
        if float((gradient * step).sum(axis=1).max()) < _DECREMENT:
            return beta
        curvature.fill(0.0)
    return None
