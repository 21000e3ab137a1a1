"""The isotonic reliability curve (CORP) of rows sorted once, and its bands."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.resampling import Rng, draw_events
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.binomial import rate_interval
from scoreprism._kernels.isotonic import isotonic_blocks, isotonic_ladder, run_starts
from scoreprism.curves._bands import Band, BandRequest
from scoreprism.curves._curve import BinaryRows, RowCells
from scoreprism.curves._likelihood_band import likelihood_band
from scoreprism.curves._multiscale_band import multiscale_band
from scoreprism.curves._smooth_curves import SplineCurve

#: Variance of the number of events in a cell: enough for a normal approximation, far less than in a block of the fit.
_VARIANCE = 12.0
#: Variance of the events at either end that are redrawn score by score, because blocks are small there.
_ENDS = 48.0
#: Total variance from which cells are used: the blocks of a fit then span hundreds of cells.
_WORTHWHILE = 10_000.0


def make_cell_redraw(score: FloatArray, count: IntArray, at: IntArray) -> Callable[[Rng], FloatArray]:
    """
    A function that fits outcomes drawn from a stream isotonically, redrawing cells of neighbouring scores as one.

    At the ends every score is redrawn. In between, cells are so wide that the number of events in them has
    a variance of 12: its distribution (Poisson-binomial) is then nearly normal, with mean Σs and variance Σs(1 − s). A
    block of the isotonic fit holds hundreds of such cells.
    """
    start = _starts(count * score * (1.0 - score))
    rows = np.add.reduceat(count, start)
    mean = np.add.reduceat(count * score, start)
    spread = np.sqrt(np.add.reduceat(count * score * (1.0 - score), start))
    one, many = rows == 1, np.diff(start, append=score.shape[0]) > 1
    some = ~one & ~many  # several rows of one score
    home = np.searchsorted(start, at, side="right") - 1

    def redraw(rng: Rng) -> FloatArray:
        events = np.empty(rows.shape[0])
        events[one] = rng.random(int(one.sum())) < mean[one]
        if some.any():
            events[some] = rng.binomial(rows[some], np.clip(mean[some] / rows[some], 0.0, 1.0))
        normal = np.rint(mean[many] + spread[many] * rng.standard_normal(int(many.sum())))
        events[many] = np.clip(normal, 0.0, rows[many])
        blocks = isotonic_blocks(rows.astype(np.float64), events)
        return np.asarray(np.repeat(blocks.value, blocks.stop - blocks.start)[home])

    return redraw


def _starts(variance: FloatArray) -> IntArray:
    """First score of every cell: single scores at both ends, in between as many as have the variance of a cell."""
    reached = np.cumsum(variance)
    total = float(reached[-1])
    inside = (reached > _ENDS) & (reached - variance < total - _ENDS)
    cell = np.floor((reached - 0.5 * variance) / _VARIANCE).astype(np.int64)
    fresh = np.concatenate([[True], cell[1:] != cell[:-1]])
    return np.flatnonzero(fresh | ~inside | np.concatenate([[True], inside[1:] != inside[:-1]]))


# ── the curve and its band ────────────────────────────────────────────────────────────────────────

#: At most this many points of a band: half evenly spaced among the scores, half evenly spaced on the axis.
_POINTS = 500


class RankedRows(RowCells):
    """Rows in order of score; a cell is a distinct score."""

    @cached_property
    def distinct(self) -> FloatArray:
        """Distinct scores, increasing."""
        return self.rows.score[self.first]

    def choose_points(self) -> IntArray:
        """Choose the distinct scores at which the band is computed."""
        count = self.first.shape[0]
        if count <= _POINTS:
            return np.arange(count)
        distinct = self.distinct
        by_rank = np.linspace(0.0, count - 1.0, _POINTS // 2).round().astype(np.intp)
        by_score = np.searchsorted(distinct, np.linspace(distinct[0], distinct[-1], _POINTS // 2 + 2)[1:-1])
        return np.unique(np.concatenate([by_rank, by_score]))

    def find_stretches(self, event: NDArray[np.bool_]) -> tuple[IntArray, FloatArray, FloatArray]:
        """Start, weight and events of stretches without a rise in the share of events, which PAV pools anyway."""
        if self.first.shape[0] < self.rows.n:  # some scores are tied
            events = self.sums(event)
            rate = events / self.weight
            start = np.flatnonzero(np.concatenate([[True], rate[1:] > rate[:-1]]))
            return start, np.add.reduceat(self.weight, start), np.add.reduceat(events, start)
        segment = run_starts(event)
        mass = np.add.reduceat(self.rows.weights, segment)
        lead = int(not event[0])  # the first stretch then has no events
        pairs = np.zeros(((lead + segment.shape[0] + 1) // 2, 2))
        pairs.reshape(-1)[lead : lead + segment.shape[0]] = mass
        start = segment[lead::2]
        return np.concatenate([[0], start]) if lead else start, pairs.sum(axis=1), pairs[:, 0].copy()

    def fit_at(self, event: NDArray[np.bool_], at: IntArray) -> FloatArray:
        """The isotonic fit at the distinct scores numbered `at`."""
        start, weight, events = self.find_stretches(event)
        blocks = isotonic_blocks(weight, events)
        value: FloatArray = blocks.value[np.searchsorted(start[blocks.start], at, side="right") - 1]
        return value

    def redraw_fit(self, at: IntArray, rng: Rng) -> FloatArray:
        """The same fit to outcomes drawn from the scores."""
        return self.fit_at(draw_events(rng, self.rows.score), at)


def isotonic_points(rows: BinaryRows) -> tuple[FloatArray, FloatArray, FloatArray]:
    """First and last score of every block (once if equal), with the block's event rate and share of mass."""
    ladder = isotonic_ladder(rows.score, rows.y, rows.weight)
    ends = np.column_stack([ladder.first, ladder.last]).ravel()
    is_shown = np.column_stack([np.ones(ladder.first.size, dtype=bool), ladder.last > ladder.first]).ravel()
    share = ladder.weight / ladder.weight.sum()
    return ends[is_shown], np.repeat(ladder.value, 2)[is_shown], np.repeat(share, 2)[is_shown]


def isotonic_band(rows: BinaryRows, request: BandRequest) -> Band:
    """The band of the isotonic curve."""
    ranked = RankedRows.rank(rows)
    at = ranked.choose_points()
    x = ranked.distinct[at]
    if request.kind == "consistency":
        many = float((rows.score * (1.0 - rows.score)).sum()) >= _WORTHWHILE  # cells then save time at no visible cost
        if ranked.rows.weight is None and many:
            redraw = make_cell_redraw(ranked.distinct, np.diff(ranked.first, append=rows.n), at)
        else:
            redraw = partial(ranked.redraw_fit, at)
        return Band(x, *request.enclose(redraw))
    weight, events = ranked.weight, ranked.sums(ranked.rows.y)
    if x.size == 1:  # one binomial rate; a uniform band must keep its level at every rate
        interval = "clopper-pearson" if request.uniform else "mid-p"
        return Band(x, *rate_interval(events, weight, request.confidence_level, interval))
    pilot = SplineCurve(rows, ranked.distinct).y
    low, high = likelihood_band(weight, events, pilot, at, request)
    if not request.uniform:
        return Band(x, low, high)
    below, above = multiscale_band(weight, events, pilot, at, request)
    return Band(x, np.minimum(below, low), np.maximum(above, high))
