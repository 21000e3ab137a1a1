"""The isotonic reliability curve (CORP) on rows ranked once, and its consistency band from redrawn outcomes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.resampling import Rng, draw_events
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.binomial import rate_interval
from scoreprism._kernels.isotonic import Blocks, isotonic_blocks, isotonic_ladder, run_starts
from scoreprism.curves._bands import Ask, Band
from scoreprism.curves._base import Binary
from scoreprism.curves._likelihood import likelihood_band
from scoreprism.curves._multiscale import multiscale_band
from scoreprism.curves._redraws import Redraws, worthwhile
from scoreprism.curves._smooth import SplineCurve

#: Scores at most at which a band is given: half of them even among the scores, half even on the axis.
_POINTS = 500


@dataclass(frozen=True, eq=False)
class Sorted:
    """Rows in order of score."""

    score: FloatArray  # (n,): scores, increasing, and outcomes
    y: FloatArray  # (n,): scores, increasing, and outcomes
    weight: FloatArray | None  # (n,): weights
    first: IntArray  # (m,): where each distinct score begins

    @classmethod
    def of(cls, rows: Binary) -> Sorted:
        """Sort the rows."""
        order = np.argsort(rows.score, kind="stable")
        score = rows.score[order]
        first = run_starts(score)
        return cls(score, rows.y[order], None if rows.weight is None else rows.weight[order], first)

    @property
    def tied(self) -> bool:
        """Whether some score occurs twice."""
        return bool(self.first.shape[0] < self.score.shape[0])

    def grid(self) -> IntArray:
        """Which of the distinct scores a band is given at."""
        count = self.first.shape[0]
        if count <= _POINTS:
            return np.arange(count)
        distinct = self.score[self.first]
        by_rank = np.linspace(0.0, count - 1.0, _POINTS // 2).round().astype(np.intp)
        by_score = np.searchsorted(distinct, np.linspace(distinct[0], distinct[-1], _POINTS // 2 + 2)[1:-1])
        return np.unique(np.concatenate([by_rank, by_score]))

    def sums(self, event: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Weight and events of every distinct score."""
        weight = np.ones(event.shape[0]) if self.weight is None else self.weight
        return np.add.reduceat(weight, self.first), np.add.reduceat(weight * event, self.first)

    def tallied(self) -> tuple[FloatArray, IntArray]:
        """Distinct scores, and how many rows have them."""
        return self.score[self.first], np.diff(self.first, append=self.score.shape[0])

    def stretches(self, event: NDArray[np.bool_]) -> tuple[IntArray, FloatArray, FloatArray]:
        """
        First distinct score, weight and events of stretches on which the share of events nowhere rises.

        Isotonic regression pools such a stretch in any case (see `_kernels.ranked.Ranked`), so it is all that PAV
        need see. Without ties a stretch is some events, then some non-events.
        """
        if self.tied:
            weight, events = self.sums(event)
            rate = events / weight
            start = np.flatnonzero(np.concatenate([[True], rate[1:] > rate[:-1]]))
            return start, np.add.reduceat(weight, start), np.add.reduceat(events, start)
        n = event.shape[0]
        segment = run_starts(event)
        held = (
            np.diff(segment, append=n).astype(np.float64)
            if self.weight is None
            else np.add.reduceat(self.weight, segment)
        )
        lead = int(not event[0])  # the first stretch then has no events
        pairs = np.zeros(((lead + segment.shape[0] + 1) // 2, 2))
        pairs.reshape(-1)[lead : lead + segment.shape[0]] = held
        start = segment[lead::2]
        return np.concatenate([[0], start]) if lead else start, pairs.sum(axis=1), pairs[:, 0].copy()

    def fit(self, event: NDArray[np.bool_]) -> Blocks:
        """The isotonic fit, its blocks in terms of distinct scores."""
        start, weight, events = self.stretches(event)
        blocks = isotonic_blocks(weight, events)
        edge = np.append(start, self.first.shape[0])
        return Blocks(edge[blocks.start], edge[blocks.stop], blocks.weight, blocks.events)

    def fitted(self, event: NDArray[np.bool_], at: IntArray) -> FloatArray:
        """The isotonic fit at some distinct scores."""
        blocks = self.fit(event)
        value: FloatArray = blocks.value[np.searchsorted(blocks.start, at, side="right") - 1]
        return value


def isotonic_points(rows: Binary) -> tuple[FloatArray, FloatArray, FloatArray]:
    """First and last score of every block (once where they are the same), the rate and the share of mass there."""
    ladder = isotonic_ladder(rows.score, rows.y, rows.weight)
    ends = np.column_stack([ladder.first, ladder.last]).ravel()
    held = np.column_stack([np.ones(ladder.first.size, dtype=bool), ladder.last > ladder.first]).ravel()
    share = ladder.weight / ladder.weight.sum()
    return ends[held], np.repeat(ladder.value, 2)[held], np.repeat(share, 2)[held]


def isotonic_band(rows: Binary, ask: Ask) -> Band:
    """The band of the isotonic curve."""
    ranked = Sorted.of(rows)
    at = ranked.grid()
    x = ranked.score[ranked.first[at]]
    if ask.kind == "consistency":
        if ranked.weight is None and worthwhile(ranked.score):
            return Band(x, *ask.around(ask.draws(Redraws.of(*ranked.tallied(), at))))

        def redrawn(rng: Rng) -> FloatArray:
            return ranked.fitted(draw_events(rng, ranked.score), at)

        return Band(x, *ask.around(ask.draws(redrawn)))
    event = ranked.y > 0.5
    weight, events = ranked.sums(event)
    if x.size == 1:  # one binomial rate; what holds at once, at all scores, keeps its level at every rate
        return Band(x, *rate_interval(events, weight, ask.level, "clopper-pearson" if ask.uniform else "mid-p"))
    pilot = SplineCurve(rows, ranked.score[ranked.first]).y
    low, high = likelihood_band(weight, events, pilot, at, ask)
    if not ask.uniform:
        return Band(x, low, high)
    below, above = multiscale_band(weight, events, pilot, at, ask)
    return Band(x, np.minimum(below, low), np.maximum(above, high))
