"""What a map is fitted on: scores, classes and weights, parsed; and the charts of several classes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.numerics import FINEST_EDGE, SMALLEST_SCORE
from scoreprism._core.simplex import FloatArray, IntArray, as_matrix
from scoreprism._kernels.logistic import fit_logistic
from scoreprism._kernels.softmax import fit_softmax
from scoreprism._maps.binary_map import Chart, least_distance, logit_chart
from scoreprism._maps.parts import Part


class Origin(NamedTuple):
    """The rows that came, where some had no weight: positions of those kept, and all labels."""

    rows: IntArray
    labels: NDArray[Any]
    groups: IntArray | None = None


@dataclass(frozen=True)
class Data:
    """What a map is fitted on, parsed: the score, the class codes, the weights (None for equal ones)."""

    score: FloatArray
    codes: IntArray
    weight: FloatArray | None
    k: int
    kind: str
    origin: Origin | None = None

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

    def part(self, rows: NDArray[Any]) -> Data:
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        return Data(self.score[rows], self.codes[rows], weight, self.k, self.kind)


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


def smallest(data: Data) -> float:
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
