"""Bins of equal mass and of equal width."""

from __future__ import annotations

import numpy as np

from scoreprism._core.numerics import REACHED
from scoreprism._core.simplex import FloatArray, IntArray


def equal_mass_cuts(x: FloatArray, weight: FloatArray | None, n_bins: int) -> FloatArray:
    """
    Cuts that split the weight of x as evenly as ties allow, each half-way between two different values.

    Rows of weight 2 count as two rows; fewer than `n_bins` − 1 cuts come back where ties leave no room.
    """
    order = np.argsort(x)
    ranked = x[order]
    upto = np.arange(1, x.size + 1, dtype=np.float64) if weight is None else np.cumsum(weight[order])
    goals = upto[-1] * np.arange(1, n_bins) / n_bins
    last = np.searchsorted(upto, goals * REACHED)  # the row at which a bin is full
    below = ranked[last]
    above = np.searchsorted(ranked, below, side="right")
    inside = above < x.size
    cuts = 0.5 * below[inside] + 0.5 * ranked[above[inside]]
    return np.unique(np.where(cuts > below[inside], cuts, ranked[above[inside]]))


def auto_bins(total: float) -> int:
    """⌈2 n^(1/3)⌉ bins, at least one."""
    return max(1, int(np.ceil(2.0 * total ** (1.0 / 3.0) - 1e-9)))


def even_codes(x: FloatArray, n_bins: int) -> IntArray:
    """The bin (i/m, (i+1)/m] of every score, from 0; scores within rounding of an edge are compared with it."""
    scaled = x * n_bins
    upper = np.ceil(scaled)
    codes = upper.astype(np.intp)
    codes -= 1
    np.subtract(upper, scaled, out=scaled)
    scaled -= 0.5
    np.abs(scaled, out=scaled)
    doubtful = np.flatnonzero(scaled > 0.5 - n_bins * 2.0**-51)
    if doubtful.size:
        codes[doubtful] = np.searchsorted(np.arange(1, n_bins) / n_bins, x[doubtful])
    return codes
