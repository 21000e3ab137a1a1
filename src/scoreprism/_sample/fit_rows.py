"""What a map is fitted on: scores, classes and weights, parsed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import write_plain
from scoreprism._core.lazy_laws import ClassScores, take_rows_of_law
from scoreprism._core.numerics import FINEST_EDGE, SMALLEST_SCORE, least_distance
from scoreprism._core.simplex import FloatArray, IntArray, as_matrix
from scoreprism._findings.finding import Finding, announce

if TYPE_CHECKING:
    from scoreprism._maps.binary_map import Chart


class GivenRows(NamedTuple):
    """The rows that came, where some had no weight: positions of those kept, and all labels."""

    rows: IntArray
    labels: NDArray[Any]
    groups: IntArray | None = None


@dataclass(frozen=True)
class FitRows:
    """What a map is fitted on, parsed: the score, the class codes, the weights (None for equal ones)."""

    score: Any  # (n,) or (n, K): numbers, or `ClassScores`, which are read by blocks
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
        from scoreprism._maps.binary_map import logit_chart

        return logit_chart(self.score, self.kind, self.distance)

    def chart(self, space: str) -> Chart:
        """The chart of another coordinate."""
        from scoreprism._maps.binary_map import Chart

        return self.logit if space == "logit" else Chart(self.kind, space)

    def part(self, rows: NDArray[Any]) -> FitRows:
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        return FitRows(take_rows_of_law(self.score, rows), self.codes[rows], weight, self.k, self.kind)


def smallest(data: FitRows) -> float:
    """Below which probabilities are not told apart: half the smallest where zeros occur, else it or 1/(2n) if less."""
    if data.kind == "logit":
        return SMALLEST_SCORE
    if isinstance(data.score, ClassScores):
        positive = float(np.exp(data.score.least_log))
        return max(0.5 * positive if data.score.has_zero else min(positive, data.distance), SMALLEST_SCORE)
    law = as_matrix(data.score)
    least = float(law.min())
    if least > 0.0:
        return max(min(least, data.distance), SMALLEST_SCORE)
    return max(0.5 * float(law[law > 0.0].min()), SMALLEST_SCORE)


def fitting_weights(weight: FloatArray | None) -> FloatArray | None:
    """Weights as learners should see them: scaled so that their sum is the effective number of rows."""
    if weight is None:
        return None
    scaled = weight / weight.max()
    ranked = np.sort(scaled)  # sums that round differently for rows in another order would move splits of trees
    return np.asarray(scaled * (ranked.sum() / (ranked @ ranked)))


def warn_of_reversed_scores(data: FitRows, classes: NDArray[Any], rows: float | None = None) -> None:
    """A score that clearly ranks the wrong way round is nearly always that of the other class; `rows` for sums."""
    if data.k > 2:
        return
    w = data.y if data.weight is None else data.weight * data.y
    s, total, events = data.score, data.total, float(w.sum())
    mean = float(s.mean() if data.weight is None else data.weight @ s / total)
    lead = float(w @ s) / events - mean  # of the mean score of events over that of all
    if lead >= 0.0:
        return
    square = float(s @ s if data.weight is None else data.weight @ (s * s)) / total
    spread = max(square - mean * mean, 0.0) ** 0.5
    if rows is None:
        rows = total if data.weight is None else total**2 / float(data.weight @ data.weight)
    share = events / total
    noise = spread * float(np.sqrt((1.0 - share) / (share * rows)))
    if lead < -5.0 * noise < 0.0:
        announce(Finding("reversed_scores", facts={"event": write_plain(classes[1]), "other": write_plain(classes[0])}))
