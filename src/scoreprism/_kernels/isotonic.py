"""Isotonic regression (pool adjacent violators) with ties and weights, for CORP and the calibrators."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import FloatArray, IntArray

#: From this many rows on, sums over cells decide which rows have to be sorted.
_MANY = 1 << 15
#: Most cells: about n / 12 are fastest, as long as their sums stay in cache.
_MOST_CELLS = 1 << 16


class Pooled(NamedTuple):
    """Rows pooled by score: distinct scores in increasing order, their weights and events."""

    score: FloatArray
    weight: FloatArray
    events: FloatArray


class Blocks(NamedTuple):
    """The level sets of an isotonic fit: first and one-past-last distinct score, weight and events of each."""

    start: IntArray
    stop: IntArray
    weight: FloatArray
    events: FloatArray

    @property
    def value(self) -> FloatArray:
        """Fitted value of each block."""
        return self.events / self.weight


def pool_ties(score: FloatArray, y: FloatArray, weight: FloatArray | None = None) -> Pooled:
    """Sum weights and events over equal scores."""
    if weight is None and _is_packable(score, y):
        word = _sort_packed(score, y)
        ranked = _unpack(word)
        first = run_starts(ranked)
        weights = np.diff(np.append(first, ranked.size)).astype(np.float64)
        events = 1.0 - (word & np.uint64(1))
    else:
        order = np.argsort(score)
        ranked = score[order]
        first = run_starts(ranked)
        unpooled = np.ones(ranked.size) if weight is None else weight[order]
        weights, events = np.add.reduceat(unpooled, first), unpooled * y[order]
    return Pooled(ranked[first], weights, np.add.reduceat(events, first))


def run_starts(values: NDArray[Any]) -> IntArray:
    """Where each run of equal values begins."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1]))


def _is_packable(score: FloatArray, y: FloatArray) -> bool:
    """Whether scores are in [0, 1] and outcomes 0 or 1, so that both fit in one 64-bit word."""
    return bool(score.min() >= 0.0 and score.max() <= 1.0 and ((y == 0.0) | (y == 1.0)).all())


def _sort_packed(score: FloatArray, y: FloatArray | NDArray[np.bool_]) -> NDArray[np.uint64]:
    """
    Scores and outcomes in order of score, events first: the bits of the score, shifted by one that marks a non-event.

    The bits of nonnegative floats are ordered as the floats are, and those of [0, 1] need the sign bit only for −0.0,
    which thus becomes 0.0. Sorting these words is faster than an argsort and two gathers. numpy sorts 16-bit keys by
    radix; the merge sort after it has little left to do.
    """
    word = score.view(np.uint64) << np.uint64(1)
    word |= y == 0
    word = word.take((score * 65535.0).astype(np.uint16).argsort(kind="stable"))
    word.sort(kind="stable")
    return word


def _unpack(word: NDArray[np.uint64]) -> FloatArray:
    """The scores in packed words."""
    return (word >> np.uint64(1)).view(np.float64)


def isotonic_blocks(weight: FloatArray, events: FloatArray) -> Blocks:
    """
    Nondecreasing means closest to ``events / weight`` in weighted least squares (paper, appendix E.1).

    Block means are taken again from sums, so that a block in which everything (or nothing) happened is
    exactly 1 (or 0). Entries without weight join their left neighbour.
    """
    from scipy.optimize import isotonic_regression

    if np.logical_and.reduce(weight):
        edge = isotonic_regression(events / weight, weights=weight).blocks
    else:
        weighted = np.flatnonzero(weight)
        cuts = isotonic_regression(events[weighted] / weight[weighted], weights=weight[weighted]).blocks
        edge = np.append(weighted, weight.shape[0])[cuts]
        edge[0] = 0
    edge = _join_ties(edge, np.add.reduceat(events, edge[:-1]) / np.add.reduceat(weight, edge[:-1]))
    start = edge[:-1]
    return Blocks(start, edge[1:], np.add.reduceat(weight, start), np.add.reduceat(events, start))


#: Relative difference up to which two means count as equal.
_TIE = 1e-12


def _join_ties(edge: IntArray, value: FloatArray) -> IntArray:
    """Join blocks of equal mean: otherwise the last bit of a sum would decide where blocks end."""
    apart = np.diff(value) > _TIE * value[1:]
    return edge if apart.all() else edge[np.concatenate([[True], apart, [True]])]


class Ladder(NamedTuple):
    """An isotonic fit on the score axis: of each block its first, last and mean score, its weight and events."""

    first: FloatArray
    last: FloatArray
    center: FloatArray
    weight: FloatArray
    events: FloatArray

    @property
    def value(self) -> FloatArray:
        """Fitted value of each block."""
        return self.events / self.weight


def isotonic_ladder(score: FloatArray, y: FloatArray, weight: FloatArray | None = None) -> Ladder:
    """Isotonic regression of `y` on `score` as a ladder of blocks."""
    if weight is not None and not weight.all():  # rows without weight do not enter the fit
        score, y, weight = (column[weight > 0] for column in (score, y, weight))
    if score.size >= _MANY:
        marked = _mark_cells(score, y, weight)
        ladder = None if marked is None else _ladder_from_cells(score, y, weight, *marked)
        if ladder is not None and np.isfinite(ladder.first + ladder.last).all():
            return ladder
    if weight is None and _is_packable(score, y):
        return _build_packed_ladder(score, y)
    pooled = pool_ties(score, y, weight)
    return _build_ladder(pooled.score, pooled.score, pooled.weight, pooled.events, pooled.weight * pooled.score)


def _build_ladder(
    first: FloatArray, last: FloatArray, weight: FloatArray, events: FloatArray, mass: FloatArray
) -> Ladder:
    """The ladder of items in increasing order, each with its first and last score, weight, events and sum of scores."""
    blocks = isotonic_blocks(weight, events)
    low, high = first[blocks.start], last[blocks.stop - 1]
    center = np.clip(np.add.reduceat(mass, blocks.start) / blocks.weight, low, high)
    return Ladder(low, high, center, blocks.weight, blocks.events)


def _build_packed_ladder(score: FloatArray, y: FloatArray) -> Ladder:
    """The ladder of unweighted 0/1 outcomes from one sort."""
    word = _sort_packed(score, y)
    edge, size, events = _find_runs(word)
    ranked = _unpack(word)
    return _build_ladder(ranked[edge[:-1]], ranked[edge[1:] - 1], size, events, np.add.reduceat(ranked, edge[:-1]))


def _find_runs(word: NDArray[np.uint64]) -> tuple[IntArray, FloatArray, FloatArray]:
    """
    Edges, sizes and events of the runs in packed words: some events, then some non-events.

    Events are sorted before non-events of the same score, so such a run never ends inside a tie, and it is a decreasing
    stretch, which PAV always pools: only runs, not rows, enter it. The first may have no event.
    """
    event = (word & np.uint64(1)) == 0
    (rise,) = (event[1:] > event[:-1]).nonzero()
    edge = np.zeros(rise.size + 2, dtype=np.intp)
    np.add(rise, 1, out=edge[1:-1])
    edge[-1] = word.size
    size = (edge[1:] - edge[:-1]).astype(np.float64)
    return edge, size, np.add.reduceat(event, edge[:-1], dtype=np.float64)


def isotonic_sums(
    score: FloatArray, event: NDArray[np.bool_], weight: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Weight and events of the blocks of `isotonic_ladder`, where their places do not matter."""
    if weight is None and score.size < _MANY:
        blocks = isotonic_blocks(*_find_runs(_sort_packed(score, event))[1:])
        return blocks.weight, blocks.events
    ladder = isotonic_ladder(score, event.astype(np.float64), weight)
    return ladder.weight, ladder.events


class _Cells(NamedTuple):
    """Equal cells of the score axis: the cell of every row, and weight and events of every cell."""

    row: IntArray
    weight: FloatArray
    events: FloatArray


def _mark_cells(score: FloatArray, y: FloatArray, weight: FloatArray | None) -> tuple[_Cells, NDArray[np.bool_]] | None:
    """
    Cells of the score axis, and which of them may hold an end of a block; None where cells do not help.

    An isotonic fit is the slope of the greatest convex minorant of cumulated events over cumulated weight. Inside a
    cell the path of events can fall at most as far as if all its non-events came first; where even that stays above
    the minorant of the cells, the order of its rows does not matter. Only the rest has to be sorted.
    """
    low, high = float(score.min()), float(score.max())
    count = min(_MOST_CELLS, 1 << (score.size // 8).bit_length() - 1)
    if not 1e-300 < high - low < 1e300:
        return None
    index = ((score - low) * (count / (high - low))).astype(np.intp)
    np.minimum(index, count - 1, out=index)
    mass = np.bincount(index, weight, count).astype(np.float64)
    events = np.bincount(index, y if weight is None else weight * y, count).astype(np.float64)
    blocks = isotonic_blocks(mass, events)
    value = np.repeat(blocks.value, blocks.stop - blocks.start)
    path = np.concatenate([[0.0], np.cumsum(events)])
    minorant = np.concatenate([[0.0], np.cumsum(value * mass)])
    slack = path - minorant
    noise = 1e-9 * max(float(path[-1]), float(mass.max()))
    may_dip = slack[:-1] < value * (mass - events) + noise
    touches = slack <= noise
    marked = (mass > 0) & (may_dip | touches[:-1] | touches[1:])
    # mark the next cell with rows on either side of a touching point
    filled = np.flatnonzero(mass > 0)
    marked[filled[np.searchsorted(filled, np.flatnonzero(touches[:-1])).clip(max=filled.size - 1)]] = True
    marked[filled[(np.searchsorted(filled, np.flatnonzero(touches[1:]), side="right") - 1).clip(min=0)]] = True
    return (_Cells(index, mass, events), marked) if marked.mean() < 0.5 else None


def _ladder_from_cells(
    score: FloatArray, y: FloatArray, weight: FloatArray | None, cells: _Cells, marked: NDArray[np.bool_]
) -> Ladder:
    """The exact ladder from rows in the marked cells and the sums of the others."""
    rows = np.flatnonzero(marked[cells.row])
    fine = pool_ties(score[rows], y[rows], None if weight is None else weight[rows])
    low = float(score.min())
    count = marked.size
    at = ((fine.score - low) * (count / (float(score.max()) - low))).astype(np.intp).clip(max=count - 1)
    coarse = np.flatnonzero(~marked & (cells.weight > 0))
    mass = np.bincount(cells.row, score if weight is None else weight * score, count)[coarse]
    order = np.argsort(np.concatenate([at, coarse]), kind="stable")
    nowhere = np.full(coarse.size, np.nan)  # no block begins or ends in a cell that is not marked
    joined = (
        np.concatenate(pair)[order]
        for pair in (
            (fine.score, nowhere),
            (fine.weight, cells.weight[coarse]),
            (fine.events, cells.events[coarse]),
            (fine.weight * fine.score, mass),
        )
    )
    where, masses, events, sums = joined
    return _build_ladder(where, where, masses, events, sums)


def isotonic_fit(score: FloatArray, y: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """In-sample isotonic regression of `y` on `score`; equal scores get equal values."""
    ladder = isotonic_ladder(score, y, weight)
    fitted: FloatArray = ladder.value[locate(ladder.first[1:], score)]
    return fitted


def locate(cuts: FloatArray, x: FloatArray) -> IntArray:
    """``np.searchsorted(cuts, x, side="right")`` for increasing `cuts`, faster for many x."""
    if x.size < 4096 or not 8 <= cuts.size <= x.size // 16:
        return np.searchsorted(cuts, x, side="right")
    low, high = float(cuts[0]), float(cuts[-1])
    cells = 16 * cuts.size
    width = high - low
    scale = (cells - 2) / width if 1e-300 < width < 1e300 else np.inf
    if not np.isfinite(scale):
        return np.searchsorted(cuts, x, side="right")

    def cell(at: FloatArray) -> IntArray:
        return np.clip((at - low) * scale + 1.0, 0.0, cells - 1.0).astype(np.intp)  # nondecreasing in `at`

    # cuts in lower cells are below x, those in higher cells above: only x in a cell with a cut needs a search
    upto = np.cumsum(np.bincount(cell(cuts), minlength=cells))
    mine = cell(x)
    counts = upto.take(mine)
    open_ = np.flatnonzero(np.diff(upto, prepend=0).astype(bool).take(mine))
    counts[open_] = np.searchsorted(cuts, x[open_], side="right")
    return counts
