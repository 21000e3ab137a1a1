"""Resampling of rows ranked by score once: a replicate is a vector of counts and needs no new sort.

`sums_of_draws` is the definition; `compiled_sums` computes the same numbers faster, with numba (``scoreprism[fast]``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.resampling import Rng, count_rows, draw_words
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
            weighted = weight > 0
            score, y, losses, weight = score[weighted], y[weighted], losses[weighted], weight[weighted]
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


# ── compiled: plain Python until `compiled_sums` compiles it; numba keeps the result on disk ────────

#: How often each row was drawn; 65536 draws of one row do not occur in practice.
Counts = NDArray[np.uint16]
#: Runs per group: few enough that no block ends inside most groups.
_WIDTH = 16
#: From this many draws in all on, loading numba (about a second) pays.
WORTH_LOADING = 1 << 24


def has_numba() -> bool:
    """Whether numba is installed; it is not loaded."""
    return find_spec("numba") is not None


def _tally(words: NDArray[np.uint32], n: int, count: Counts) -> int:
    """Count the rows that 32-bit words stand for, as `draw_rows` does; returns how many words stand for none."""
    size, low = np.uint64(n), np.uint64(0xFFFFFFFF)
    least, refused = (low + np.uint64(1)) % size, 0
    for word in words:
        product = np.uint64(word) * size
        if product & low >= least:
            count[product >> np.uint64(32)] += 1
        else:
            refused += 1
    return refused


def _loss(count: Counts, weight: FloatArray, losses: FloatArray) -> float:
    """The summed loss; `weight` is empty if there are no weights."""
    total = 0.0
    if weight.shape[0] == 0:
        for i in range(count.shape[0]):
            total += count[i] * losses[i]
    else:
        for i in range(count.shape[0]):
            total += count[i] * weight[i] * losses[i]
    return total


def _sum_segments(
    count: Counts, weight: FloatArray, segment: IntArray, last: NDArray[np.uint8], upto: IntArray, sums: FloatArray
) -> None:
    """
    Turn counts into the mass of each segment; `last` marks the rows that end one.

    A loop over rows inside a loop over segments would be slower, because the ends of segments are unpredictable
    branches. Without weights sums are exact as differences of a running count; with them the sum starts again at
    every end, so that small segments lose no digits.
    """
    if weight.shape[0] == 0:
        running = 0
        for i in range(count.shape[0]):
            running += count[i]
            upto[i + 1] = running
        for j in range(sums.shape[0]):
            sums[j] = upto[segment[j + 1]] - upto[segment[j]]
    else:
        j, total = 0, 0.0
        for i in range(count.shape[0]):
            total += count[i] * weight[i]
            sums[j] = total
            total = 0.0 if last[i] else total
            j += last[i]


def _pool(pairs: FloatArray, weights: FloatArray, events: FloatArray, first: IntArray) -> int:
    """
    Pool adjacent violators among items, given events and non-events in turn; returns the number of blocks.

    Weight, events and first item of each block are written to `weights`, `events` and `first`.
    """
    top = 0
    for item in range(pairs.shape[0] // 2):
        happened = pairs[2 * item]
        both = happened + pairs[2 * item + 1]
        if both == 0.0:
            continue
        first[top] = item
        while top > 0 and events[top - 1] * both >= happened * weights[top - 1]:
            top -= 1
            both += weights[top]
            happened += events[top]
        weights[top], events[top] = both, happened
        top += 1
    first[0] = 0
    first[top] = pairs.shape[0] // 2
    return top


def _sum_groups(pairs: FloatArray, groups: FloatArray) -> None:
    """Sum events and non-events over groups of `_WIDTH` runs."""
    for group in range(groups.shape[0] // 2):
        happened, other = 0.0, 0.0
        for run in range(group * _WIDTH, min((group + 1) * _WIDTH, pairs.shape[0] // 2)):
            happened += pairs[2 * run]
            other += pairs[2 * run + 1]
        groups[2 * group], groups[2 * group + 1] = happened, other


def _merge_groups(
    pairs: FloatArray, groups: FloatArray, weights: FloatArray, events: FloatArray, first: IntArray, size: int
) -> int:
    """
    Merge groups of runs in which no block can end into one item, in place; returns the number of items.

    Blocks end at the vertices of the greatest convex minorant of cumulated events over cumulated weight. That of the
    groups alone (`weights`, `events` and `first` of its `size` blocks) lies above it or on it, so a group whose path
    stays above the minorant of the groups has no vertex inside.
    """
    runs, items = pairs.shape[0] // 2, 0
    for block in range(size):
        slope, slack = events[block] / weights[block], 0.0
        for group in range(first[block], first[block + 1]):
            start, stop = group * _WIDTH, min((group + 1) * _WIDTH, runs)
            lowest = 0.0
            for run in range(start, stop):
                slack += (1.0 - slope) * pairs[2 * run] - slope * pairs[2 * run + 1]
                lowest = min(lowest, slack)
            if lowest == 0.0:
                pairs[2 * items], pairs[2 * items + 1] = groups[2 * group], groups[2 * group + 1]
                items += 1
            else:
                for run in range(start, stop):
                    pairs[2 * items], pairs[2 * items + 1] = pairs[2 * run], pairs[2 * run + 1]
                    items += 1
    return items


@cache
def _compiled() -> dict[str, Callable[..., Any]]:
    """The functions above as machine code."""
    from numba import njit

    compiled = partial(njit, cache=True, nogil=True)
    exact = {
        function.__name__: compiled()(function)
        for function in (_tally, _sum_segments, _pool, _sum_groups, _merge_groups)
    }
    # reassociation lets the sum be vectorised; it is still reproducible, because the function writes to no array and
    # so has no second code path for overlapping arrays
    return exact | {"_loss": compiled(fastmath={"reassoc", "nsz", "contract"})(_loss)}


def compiled_sums(ranked: Ranked) -> Kernel:
    """`sums_of_draws` of these rows, compiled; it has its own workspace, so every thread needs one."""
    run = SimpleNamespace(**_compiled())
    n, m, runs = ranked.n, ranked.segment.shape[0], ranked.runs
    weight = np.empty(0) if ranked.weight is None else ranked.weight
    segment, last = np.append(ranked.segment, n), np.zeros(n, dtype=np.uint8)
    last[segment[1:] - 1] = 1
    count, upto = np.zeros(n, dtype=np.uint16), np.zeros(n + 1, dtype=np.intp)
    pairs, groups = np.zeros(2 * runs), np.zeros(2 * -(-runs // _WIDTH))
    weights, events, first = np.empty(runs), np.empty(runs), np.empty(runs + 1, dtype=np.intp)

    def sums(rng: Rng) -> Sums:
        count[:] = 0
        missing = n
        while missing:
            missing = run._tally(draw_words(rng, missing), n, count)
        pairs[:] = 0.0
        loss = run._loss(count, weight, ranked.losses)
        run._sum_segments(count, weight, segment, last, upto, pairs[ranked.lead : ranked.lead + m])
        run._sum_groups(pairs, groups)
        size = run._pool(groups, weights, events, first)
        items = run._merge_groups(pairs, groups, weights, events, first, size)
        size = run._pool(pairs[: 2 * items], weights, events, first)
        return np.inf if count[ranked.infinite].any() else float(loss), weights[:size], events[:size]

    return sums
