"""Lines that are sums: cells, outcomes and folds in the place of rows, with the moments of what varies inside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import FloatArray
from scoreprism.scale._partial import Partial


@dataclass(frozen=True)
class Lines:
    """
    Groups of a partial, each as one line or, where a cell holds several scores, as four.

    A group whose scores have mean m and variance σ² between lo and hi stands at two pairs of scores,
    {lo, m + σ²/(m − lo)} and {m − σ²/(hi − m), hi}, each with weights that keep m and σ². The mean over the group of
    any function whose third derivative keeps its sign lies between the means of the pairs (Chebyshev and Markov), so
    half of their difference bounds the error of taking the middle.
    """

    score: FloatArray
    group: NDArray[np.intp]
    share: FloatArray
    side: FloatArray  # +1 and −1 for the two pairs, 0 for a line that is a whole group


def beyond(partial: Partial, floor: float) -> NDArray[np.bool_]:
    """Groups of a partial with scores closer to 0 or 1 than a floor."""
    table = partial.table
    low, high = (table["key"], table["key"]) if partial.exact else (table["lo"], table["hi"])
    return np.asarray((low < floor) | (high > 1.0 - floor))


def lines_of(partial: Partial) -> Lines:
    """Where the groups of a partial stand."""
    table = partial.table
    if partial.exact:
        size = table["n"].size
        return Lines(table["key"], np.arange(size), np.ones(size), np.zeros(size))
    low, high, w = table["lo"], table["hi"], table["w"]
    mean = np.clip(table["s"] / w, low, high)
    below, above = mean - low, high - mean
    variance = np.clip(table["s2"] / w - mean**2, 0.0, below * above)
    wide = (below > 0.0) & (above > 0.0) & (variance > 0.0)
    single, several = np.flatnonzero(~wide), np.flatnonzero(wide)
    m, v, lo, hi = mean[several], variance[several], low[several], high[several]
    at_low, at_high = v / (v + (m - lo) ** 2), v / (v + (hi - m) ** 2)
    nodes = [(lo, at_low, 1.0), (np.minimum(m + v / (m - lo), hi), 1.0 - at_low, 1.0)]
    nodes += [(hi, at_high, -1.0), (np.maximum(m - v / (hi - m), lo), 1.0 - at_high, -1.0)]
    return Lines(
        np.concatenate([mean[single], *(score for score, _, _ in nodes)]),
        np.concatenate([single, *([several] * 4)]),
        np.concatenate([np.ones(single.size), *(0.5 * share for _, share, _ in nodes)]),
        np.concatenate([np.zeros(single.size), *(np.full(several.size, side) for _, _, side in nodes)]),
    )
