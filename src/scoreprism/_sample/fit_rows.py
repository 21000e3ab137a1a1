"""What a map is fitted on: scores, classes and weights, parsed; and the charts of several classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import plain
from scoreprism._core.numerics import FINEST_EDGE, SMALLEST_SCORE, TINY, clipped_sigmoid
from scoreprism._core.simplex import FloatArray, IntArray, as_matrix
from scoreprism._findings.finding import Finding, announce
from scoreprism._kernels.logistic import fit_logistic
from scoreprism._kernels.softmax import fit_softmax
from scoreprism._maps.binary_map import Chart, least_distance, logit_chart
from scoreprism._maps.parts import Part


class GivenRows(NamedTuple):
    """The rows that came, where some had no weight: positions of those kept, and all labels."""

    rows: IntArray
    labels: NDArray[Any]
    groups: IntArray | None = None


@dataclass(frozen=True)
class FitRows:
    """What a map is fitted on, parsed: the score, the class codes, the weights (None for equal ones)."""

    score: FloatArray
    codes: IntArray
    weight: FloatArray | None
    k: int
    kind: str
    origin: GivenRows | None = None

    @cached_property
    def y(self) -> FloatArray:
        """Outcomes 0 and 1 of two classes."""
        return self.codes.astype(np.float64)

    @cached_property
    def total(self) -> float:
        """Number of rows, or the sum of the weights: calibrators take Σw as their n."""
        return float(self.codes.shape[0] if self.weight is None else self.weight.sum())

    @property
    def distance(self) -> float:
        """1/(2n): how near to 0 or 1 a law fitted on these rows may come."""
        return least_distance(self.total)

    @cached_property
    def rate(self) -> float:
        """Share of events, inside (0, 1) whatever the weights."""
        share = float(self.y.sum() if self.weight is None else self.weight @ self.y) / self.total
        return min(max(share, FINEST_EDGE), 1.0 - FINEST_EDGE)

    @cached_property
    def logit(self) -> Chart:
        """The chart of logits."""
        return logit_chart(self.score, self.kind, self.distance)

    def chart(self, space: str) -> Chart:
        """The chart of another coordinate."""
        return self.logit if space == "logit" else Chart(self.kind, space)

    def part(self, rows: NDArray[Any]) -> FitRows:
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        return FitRows(self.score[rows], self.codes[rows], weight, self.k, self.kind)


@dataclass(frozen=True)
class Reduction(Part):
    """Scores of another width than 1 or K, brought to K logits (one log-odds for two classes) by a ridge regression."""

    tag = "reduction"

    weights: FloatArray

    def __call__(self, table: FloatArray) -> FloatArray:
        eta = np.tile(self.weights[-1], (table.shape[0], 1))
        for column, weights in zip(table.T, self.weights[:-1], strict=True):  # the same bits in any company
            eta += column[:, None] * weights
        return eta[:, 0] if eta.shape[1] == 1 else eta

    @staticmethod
    def fitted(table: FloatArray, codes: IntArray, weight: FloatArray | None, k: int) -> Reduction:
        """Regress the classes on all columns."""
        center = np.average(table, axis=0, weights=weight)
        spread = np.sqrt(np.average((table - center) ** 2, axis=0, weights=weight))
        spread = np.where(spread > 0.0, spread, 1.0)
        design = np.column_stack([(table - center) / spread, np.ones(table.shape[0])])
        ridge = np.r_[np.full(table.shape[1], 1e-2), 0.0]
        if k == 2:
            beta = fit_logistic(design.T, codes.astype(np.float64), weight, penalty=np.diag(ridge)).coefficients[
                :, None
            ]
        else:
            full = np.broadcast_to(np.maximum(ridge, 1e-9)[:, None], (design.shape[1], k))
            beta = fit_softmax(design, codes, weight, np.zeros(full.shape), full)
        slopes = beta[:-1] / spread[:, None]
        return Reduction(np.vstack([slopes, beta[-1:] - center @ slopes]))


def smallest(data: FitRows) -> float:
    """Below which probabilities are not told apart: half the smallest where zeros occur, else it or 1/(2n) if less."""
    if data.kind == "logit":
        return SMALLEST_SCORE
    law = as_matrix(data.score)
    positive = float(law[law > 0.0].min())
    return max(0.5 * positive if law.min() == 0.0 else min(positive, data.distance), SMALLEST_SCORE)


def fitting_weights(weight: FloatArray | None) -> FloatArray | None:
    """Weights as learners should see them: scaled so that their sum is the effective number of rows."""
    if weight is None:
        return None
    scaled = weight / weight.max()
    ranked = np.sort(scaled)  # sums that round differently for rows in another order would move splits of trees
    return np.asarray(scaled * (ranked.sum() / (ranked @ ranked)))


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
        return _data(self.center, self.whole)

    def part(self, m: int) -> FitRows:
        """One training set, as weighted cells."""
        return _data(self.center, self.mass[:, m])

    def once(self, name: str, fit: Callable[[], FloatArray]) -> FloatArray:
        """Laws that several maps start from, fitted the first time they are asked for."""
        if name not in self._memo:
            self._memo[name] = fit()
        return self._memo[name]

    def kept_inside(self, law: FloatArray) -> FloatArray:
        """Laws at least 1/(2n)² away from 0 and 1."""
        low = (np.minimum(0.5 / self.total, 0.25) ** 2)[:, None]
        return np.clip(law, low, 1.0 - low)


def _data(center: FloatArray, mass: FloatArray) -> FitRows:
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
        if not np.isfinite(scaled).all() or np.linalg.cond(scaled).max() > 1e12:
            return None
        step = np.linalg.solve(scaled, (gradient / scale)[:, :, None])[:, :, 0] / scale
        beta = beta + step
        if float((gradient * step).sum(axis=1).max()) < _DECREMENT:
            return beta
        curvature.fill(0.0)
    return None


def warn_of_reversed_scores(data: FitRows, classes: NDArray[Any], rows: float | None = None) -> None:
    """A score that clearly ranks the wrong way round is nearly always that of the other class; `rows` for sums."""
    if data.k > 2:
        return
    w = data.y if data.weight is None else data.weight * data.y
    s, total, events = data.score, data.total, float(w.sum())
    mean = float(s.mean() if data.weight is None else data.weight @ s / total)
    square = float(s @ s if data.weight is None else data.weight @ (s * s)) / total
    spread = max(square - mean * mean, 0.0) ** 0.5
    if rows is None:
        rows = total if data.weight is None else total**2 / float(data.weight @ data.weight)
    share = events / total
    noise = spread * float(np.sqrt((1.0 - share) / (share * rows)))
    # the mean score of events against that of all, in standard errors
    if float(w @ s) / events - mean < -5.0 * noise < 0.0:
        announce(Finding("reversed_scores", facts={"event": plain(classes[1]), "other": plain(classes[0])}))
