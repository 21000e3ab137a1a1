"""How likely it is that other rows look like the training rows: bounds for any law of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import FloatArray

#: Log of the chance up to which a trace of training is evidence, and up to which it is worth a caution.
SEEN, SUSPECTED = float(np.log(1e-6)), float(np.log(1e-4))
#: Points of a grid on which a bound is computed: rates of a cell, dense enough for 1e-4, and multipliers, where every
#: one gives a bound and the best is taken.
_RATES, _MULTIPLIERS = 1000, 60


def log_equal(counts: NDArray[Any]) -> float:
    """Log of the chance that as many other rows fill cells exactly like this: the multinomial law at its mode."""
    from scipy.special import gammaln

    filled = np.asarray(counts, dtype=np.float64)
    filled = filled[filled > 0.0]
    total = filled.sum()
    return float(gammaln(total + 1.0) - gammaln(filled + 1.0).sum() + filled @ np.log(filled / total))


def log_bounded(counts: NDArray[Any], rows: int, *, least: bool) -> float:
    """
    Log of the chance that other rows fill every cell at least (or at most) like this, at the law that makes it largest.

    Counts of cells are negatively associated, so the chance is at most the product of binomial tails. Its maximum over
    the probabilities of the cells is bounded by the dual problem, every value of which is a bound.
    """
    from scipy.special import bdtr, bdtrc

    sizes, repeats = np.unique(np.asarray(counts)[np.asarray(counts) > 0], return_counts=True)
    if sizes.size == 0:
        return 0.0
    if least and sizes[-1] > rows:
        return -np.inf
    even = sizes / (repeats @ sizes)  # one law of many: where the counts are likely under it, no bound can help
    with np.errstate(divide="ignore"):
        likely = np.log(bdtrc(sizes - 1, rows, even) if least else bdtr(np.minimum(sizes, rows), rows, even))
    if repeats @ likely > SUSPECTED:
        return 0.0
    p = np.append(np.geomspace(1e-3, rows, _RATES) / rows, 0.0)
    with np.errstate(divide="ignore"):
        tail = bdtrc(sizes[:, None] - 1, rows, p) if least else bdtr(np.minimum(sizes, rows)[:, None], rows, p)
        logs = np.log(tail)
    sign = 1.0 if least else -1.0
    multipliers = sign * np.geomspace(1e-4 * rows, 1e3 * rows, _MULTIPLIERS)
    return min(0.0, *(float(repeats @ (logs - mu * p).max(axis=1) + mu) for mu in multipliers))


def log_near_zero(scores: FloatArray, total: FloatArray, values: FloatArray, rows: int) -> float:
    """Log of the chance that sums over other rows are as near to zero as `total`."""
    from scipy.special import gammainc

    factor = rows / len(scores)
    spread = np.sqrt((scores * scores).sum(axis=0) * factor)
    used = spread > 0.0
    if not used.any():
        return 0.0
    scaled = scores[:, used] * (np.sqrt(factor) / spread[used])
    sizes, axes = np.linalg.eigh(scaled.T @ scaled)
    varying = sizes > 1e-8 * sizes[-1]
    z = (axes.T @ (total[used] / spread[used]))[varying] / np.sqrt(sizes[varying])
    with np.errstate(divide="ignore"):
        normal = float(np.log(gammainc(0.5 * varying.sum(), 0.5 * float(z @ z))))
    if normal > SUSPECTED:
        return normal
    steps = np.array([least_step(column) for column in values[:, used].T])
    pivots = np.diag(np.linalg.qr(scaled, mode="r")) ** 2 * (spread[used] / steps) ** 2
    pivots = pivots[pivots > 1.0]
    lattice = -0.5 * float(np.log(2.0 * np.pi * pivots).sum())
    return float(np.logaddexp(normal, lattice))


def least_step(column: FloatArray) -> float:
    """The least difference between values of a column, but for rounding; 1 for a constant."""
    span = float(np.ptp(column)) if column.size else 0.0
    if span == 0.0 or not np.isfinite(span):
        return 1.0
    levels = np.unique(np.round(column / span, 9))
    return span * float(np.diff(levels).min())


def log_too_close(held: NDArray[Any], kept: NDArray[Any]) -> float:
    """Log of the chance that other rows fill cells in proportions as close to those of training: a left tail of χ²."""
    from scipy.special import gammainc

    expected = kept * (held.sum() / kept.sum())
    large = expected >= 5.0
    if large.sum() < 3:
        return 0.0
    distance = float(((held - expected)[large] ** 2 / expected[large]).sum())
    with np.errstate(divide="ignore"):
        return float(np.log(gammainc(0.5 * (large.sum() - 1.0), 0.5 * distance)))
