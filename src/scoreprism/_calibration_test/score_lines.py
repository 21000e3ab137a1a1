"""What a calibration test is computed from: scores, weights and outcomes, sorted, so that the order of rows is lost.

Rows of the same score and weight may share a line. Nothing tells them apart, so a statistic needs only their number
and how often each class happened among them; under the hypothesis that is Binomial(number, S), or multinomial.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoreprism._core.resampling import Rng, draw_classes, draw_counts, draw_events
from scoreprism._core.simplex import FloatArray, IntArray, as_matrix, as_vector, n_classes, pick
from scoreprism._sample.sample import Sample

#: Rows per line from which on counts are drawn: a binomial draw costs a few times what a uniform one does.
_SHARED = 4


@dataclass(frozen=True)
class ScoreLines:
    """Rows that have weight, sorted by score; a line is a row, or several of one score and weight."""

    law: FloatArray  # (lines,): scores; two classes are always one column
    weight: FloatArray  # (lines,): weight of a row; over all rows their mean is 1
    y: IntArray  # (lines,): outcomes of single rows; how often each class happened where lines stand for several
    impossible: bool  # whether something happened to which its score gave probability 0
    count: IntArray | None = None  # (lines,): rows of each line; None for one each

    @staticmethod
    def of(sample: Sample) -> ScoreLines:
        """The rows of the only model of a sample; their order is lost."""
        law, y = sample.prediction, sample.y
        weight = np.ones(sample.n) if sample.weight is None else sample.weight
        impossible = bool((pick(as_matrix(law), y) == 0.0).any())
        if n_classes(law) == 2:
            law = as_vector(law)
        order = np.lexsort((y, weight, *(law.T[::-1] if law.ndim == 2 else (law,))))
        weight = weight[order]
        return ScoreLines(law[order], weight / weight.mean(), y[order], impossible)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.lines if self.count is None else int(self.count.sum())

    @property
    def lines(self) -> int:
        """Number of lines."""
        return int(self.law.shape[0])

    @property
    def size(self) -> FloatArray:
        """Rows of each line."""
        return np.ones(self.lines) if self.count is None else self.count.astype(np.float64)

    @property
    def k(self) -> int:
        """Number of classes."""
        return n_classes(self.law)

    def merge_ties(self) -> ScoreLines:
        """A line for each distinct pair of score and weight, where they are few; else the rows as they are."""
        if self.count is not None:
            return self
        moved = self.law[1:] != self.law[:-1]
        new = (moved if moved.ndim == 1 else moved.any(axis=1)) | (self.weight[1:] != self.weight[:-1])
        start = np.flatnonzero(np.concatenate([[True], new]))
        if _SHARED * start.size > self.n:
            return self
        count = np.diff(start, append=self.n)
        cell = np.repeat(np.arange(start.size) * self.k, count) + self.y
        happened = np.bincount(cell, minlength=start.size * self.k).reshape(start.size, self.k)
        return ScoreLines(self.law[start], self.weight[start], happened, self.impossible, count)

    def draw(self, rng: Rng, m: int) -> FloatArray | IntArray:
        """
        Outcomes Y* ~ Cat(S), m times.

        Of shape (m, lines): zeros and ones, or numbers of events, for two classes; codes for more. Numbers of each of
        several classes have shape (m, lines, K).
        """
        if self.count is not None:
            return draw_counts(rng, self.law, self.count, m)
        if self.law.ndim == 1:
            return draw_events(rng, self.law, m).astype(np.float64)
        return draw_classes(rng, self.law, m)

    @property
    def observed(self) -> FloatArray | IntArray:
        """The outcomes in the shape of one draw."""
        if self.count is not None:
            return (self.y[None, :, 1] if self.law.ndim == 1 else self.y[None]).astype(np.float64)
        return self.y[None].astype(np.float64) if self.law.ndim == 1 else self.y[None]
