"""Resampling rows that were ranked by their score once: a replicate is a vector of counts, never a new sort."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scoreprism._core.resampling import Rng, count_rows
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.isotonic import isotonic_blocks, run_starts

#: Loss summed over the drawn rows, then weight and events of each isotonic block.
Sums = tuple[float, FloatArray, FloatArray]
#: From the stream of a replicate to the sums of the rows that it draws.
Kernel = Callable[[Rng], Sums]


@dataclass(frozen=True, eq=False)
class Ranked:
    """
    Rows in order of score, events before non-events of the same score, and the segments of equal outcomes.

    A *run* is a segment of events and the segment of non-events after it. **Isotonic regression is constant on a run
    whatever the weights**, so the sums of the segments are all it needs. Proof: rows of one score are never in two
    runs, because inside a tie no event follows a non-event. So a run consists of whole ties: first those with
    events only, then at most one with both, then those with non-events only. Whatever nonnegative weights the rows
    get, the mean outcomes of these ties are 1, …, 1, m, 0, …, 0 with 0 ≤ m ≤ 1, less those without any weight, which
    are absent from the fit: the means never increase. And where g_j ≥ g_{j+1} the fitted values f_j ≤ f_{j+1} are
    equal: if f_j < f_{j+1}, one of f_j < g_j and g_{j+1} < f_{j+1} holds, and moving that value towards its mean
    keeps the order and lowers the sum of squares.
    """

    losses: FloatArray  # (n,): loss of each row; rows in `infinite` hold 0
    infinite: IntArray  # rows whose loss is infinite
    weight: FloatArray | None  # (n,): weights, all positive; the largest is 1
    segment: IntArray  # (m,): first row of each segment
    lead: int  # 1 if the first segment holds non-events, so that the first run has no events; else 0

    @classmethod
    def of(cls, score: FloatArray, y: IntArray, losses: FloatArray, weight: FloatArray | None = None) -> Ranked:
        """Rank the rows that have weight."""
        if weight is not None:
            held = weight > 0
            score, y, losses, weight = score[held], y[held], losses[held], weight[held]
            weight = weight / weight.max()  # their scale does not matter, and products of them stay above 0
        order = np.lexsort((1 - y, score))
        event, cost = y[order] == 1, losses[order]
        infinite = np.flatnonzero(np.isinf(cost))
        cost[infinite] = 0.0
        segment = run_starts(event)
        return cls(cost, infinite, None if weight is None else weight[order], segment, int(not event[0]))

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.losses.shape[0])

    @property
    def runs(self) -> int:
        """Number of runs."""
        return (self.lead + int(self.segment.shape[0]) + 1) // 2


def sums_of_draws(ranked: Ranked, rng: Rng) -> Sums:
    """What CORP needs of a resample: the definition, in numpy."""
    mass = count_rows(rng, ranked.n)
    if ranked.weight is not None:
        mass *= ranked.weight
    pairs = np.zeros((ranked.runs, 2))  # events and non-events of each run
    pairs.reshape(-1)[ranked.lead : ranked.lead + ranked.segment.shape[0]] = np.add.reduceat(mass, ranked.segment)
    blocks = isotonic_blocks(pairs[:, 0] + pairs[:, 1], pairs[:, 0].copy())
    loss = np.inf if mass[ranked.infinite].any() else float(mass @ ranked.losses)
    return loss, blocks.weight, blocks.events
