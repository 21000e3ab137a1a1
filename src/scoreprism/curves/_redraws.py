"""Isotonic fits of outcomes redrawn from many calibrated scores: a cell of rows is redrawn by its sum of outcomes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.resampling import Rng
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.isotonic import isotonic_blocks

#: Variance of the number of events in a cell: enough for a normal law, and far less than in a block of the fit.
_VARIANCE = 12.0
#: Variance of the events at either end that are redrawn score by score: blocks are small there.
_ENDS = 48.0
#: Cells are worth their error from this total variance on: a fit then has blocks of hundreds of cells.
_WORTHWHILE = 10_000.0


@dataclass(frozen=True, eq=False)
class Redraws:
    """
    Cells of neighbouring scores, in order, that are redrawn and fitted as one.

    The ends are left score by score. In between, cells are as wide as it takes for the number of events in them to have
    a variance of 12: its law (Poisson-binomial) is then nearly normal, with mean Σs and variance Σs(1 − s). A block of
    the isotonic fit holds hundreds of such cells.
    """

    rows: FloatArray  # (m,): number of rows in each cell
    mean: FloatArray  # (m,): mean and standard deviation of the number of events
    spread: FloatArray  # (m,): mean and standard deviation of the number of events
    single: NDArray[np.bool_]  # (m,): cells of one row; of rows of one score; of more
    several: NDArray[np.bool_]  # (m,): cells of one row; of rows of one score; of more
    pooled: NDArray[np.bool_]  # (m,): cells of one row; of rows of one score; of more
    home: IntArray  # the cell of every score at which the fit is wanted

    @classmethod
    def of(cls, score: FloatArray, count: IntArray, at: IntArray) -> Redraws:
        """Make cells."""
        start = _starts(count * score * (1.0 - score))
        rows = np.add.reduceat(count, start)
        mean = np.add.reduceat(count * score, start)
        variance = np.add.reduceat(count * score * (1.0 - score), start)
        scores = np.diff(start, append=score.shape[0])
        single, pooled = rows == 1, scores > 1
        home = np.searchsorted(start, at, side="right") - 1
        spread = np.sqrt(variance)
        return cls(rows.astype(np.float64), mean, spread, single, ~single & ~pooled, pooled, home)

    def __call__(self, rng: Rng) -> FloatArray:
        """The isotonic fit of outcomes that one stream draws, at the scores where it is wanted."""
        events = np.empty(self.rows.shape[0])
        one, some, many = self.single, self.several, self.pooled
        events[one] = rng.random(int(one.sum())) < self.mean[one]
        if some.any():
            rate = np.clip(self.mean[some] / self.rows[some], 0.0, 1.0)
            events[some] = rng.binomial(self.rows[some].astype(np.int64), rate)
        normal = np.rint(self.mean[many] + self.spread[many] * rng.standard_normal(int(many.sum())))
        events[many] = np.clip(normal, 0.0, self.rows[many])
        blocks = isotonic_blocks(self.rows, events)
        return np.asarray(np.repeat(blocks.value, blocks.stop - blocks.start)[self.home])


def worthwhile(score: FloatArray) -> bool:
    """Whether rows are so many that cells save time and change nothing."""
    return float((score * (1.0 - score)).sum()) >= _WORTHWHILE


def _starts(variance: FloatArray) -> IntArray:
    """First score of every cell: score by score at both ends, then as many as have the variance of a cell."""
    reached = np.cumsum(variance)
    total = float(reached[-1])
    inside = (reached > _ENDS) & (reached - variance < total - _ENDS)
    cell = np.floor((reached - 0.5 * variance) / _VARIANCE).astype(np.int64)
    fresh = np.concatenate([[True], cell[1:] != cell[:-1]])
    return np.flatnonzero(fresh | ~inside | np.concatenate([[True], inside[1:] != inside[:-1]]))
