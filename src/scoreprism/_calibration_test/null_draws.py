"""The Monte-Carlo null Y* ~ Cat(S): exact p-values, alone and combined by the smallest of several.

Under the hypothesis the observed outcomes and B draws are exchangeable given the scores, so the rank of the observed
statistic among all B + 1 is uniform up to ties: P(p ≤ α) ≤ α for every n, B, number of classes and statistic.
An observed outcome of probability 0 refutes the hypothesis whatever the statistic: p is then 1/(B + 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scoreprism._calibration_test.score_lines import Scored
from scoreprism._core.resampling import Rng, Streams, replicate
from scoreprism._core.simplex import FloatArray, IntArray

Statistic = Callable[..., FloatArray]

#: Numbers per block of draws: a block and its temporaries stay in cache and are not given back to the system each time.
_BLOCK = 1 << 15
#: Statistics closer than this, relative to max(1, |T|), are ties: the same outcomes may be summed in another order.
_TIE = 1e-8


def simulate(
    data: Scored, statistics: Sequence[Statistic], n_resamples: int, rng: Rng, n_jobs: int | None
) -> FloatArray:
    """
    Every statistic of the observed outcomes (line 0) and of each draw, shape (1 + B, statistics).

    Draws come in blocks with a generator each; how many a block has depends on the number of lines alone, so draw b is
    the same for every `n_resamples` and `n_jobs`.
    """
    size = max(1, min(64, _BLOCK // data.lines))
    streams = Streams(int(rng.integers(2**63)))

    def some(block: range) -> FloatArray:
        return _evaluate(statistics, data.draw(streams(block.start // size), len(block)))

    draws = replicate(some, n_resamples, n_jobs, block=size, what="draws")
    observed = _evaluate(statistics, data.observed)
    if data.impossible:  # no draw does what was observed: whatever looks at it, it is more extreme than all of them
        observed = np.full(observed.shape, np.inf)
    return np.concatenate([observed, draws])


def _evaluate(statistics: Sequence[Statistic], y: FloatArray | IntArray) -> FloatArray:
    with np.errstate(over="ignore"):  # a score of 1e-320 may make a statistic infinite
        return np.stack([statistic(y) for statistic in statistics], axis=1)


def tail(values: FloatArray) -> FloatArray:
    """For each of B + 1 values the share of values at least as large, itself included."""
    ranked = np.sort(values)
    finite = np.where(np.isfinite(values), values, 0.0)
    margin = np.where(np.isfinite(values), _TIE * np.maximum(1.0, np.abs(finite)), 0.0)
    return (values.size - np.searchsorted(ranked, values - margin)) / values.size


def smallest_p(values: FloatArray, weights: FloatArray) -> tuple[float, float, FloatArray]:
    """
    The smallest p-value over weight of several statistics, the p-value of that, and the p-values of the parts.

    One layer of draws serves twice (Westfall & Young 1993): the p-values of draw b are its ranks among the same B + 1,
    so their smallest are exchangeable too. Equal ones are ordered by the second smallest, and so on.
    """
    parts = np.stack([tail(column) for column in values.T], axis=1)
    ordered = np.sort(parts / weights, axis=1)
    ahead, level = np.zeros(len(values), dtype=bool), np.ones(len(values), dtype=bool)
    for column in ordered.T:
        ahead |= level & (column < column[0])
        level &= column == column[0]
    if np.isinf(values[0]).all():  # the impossible happened: nothing is as extreme
        ahead, level = np.zeros(len(values), dtype=bool), np.arange(len(values)) == 0
    return float(ordered[0, 0]), float(np.mean(ahead | level)), parts[0]
