"""Boosting on pairs of columns: it sees interactions that no single column shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._learners.boosting import (
    WIDTH,
    Boosted,
    Grower,
    Growth,
    Leaves,
    Recoding,
    Slopes,
    SortedRows,
    Tree,
    all_slopes,
    leaf_scores,
    leaf_values,
    newton,
    probabilities,
)
from scoreprism._sample.features import Codes, Features

#: Groups of a column, of about equal size, when pairs are looked for.
_GROUPS = 4
#: Codes of a column of a pair: 0 for missing values, then up to 16 bins.
_SIDE = 17


@dataclass(frozen=True)
class Search:
    """Which pairs are kept: how many at most, how many by mere chance; columns and products a search may cost."""

    pairs: int = 8
    chance: float = 0.5
    columns: int = 256
    products: float = 2e9


SEARCH = Search()
#: Least variance of a line of residuals: sums of few outcomes have a heavier tail than chi-squared.
_LEAST = 20.0


def find_pairs(codes: Codes, residual: FloatArray, variance: FloatArray, search: Search) -> list[tuple[int, int]]:
    """
    Pairs of columns whose groups, taken together, tell residuals apart beyond chance; the clearest first.

    `residual` is (lines, n), a line for each tree of a stage, `variance` the variance of their sums. Each column
    becomes orthonormal contrasts of its groups. Sums of residuals times products of the contrasts of two columns are
    about normal where these do not interact, and the sum of their squares is chi-squared.
    """
    n = codes.shape[1]
    chosen = _strongest(codes, residual, search.columns)
    cost = n * ((_GROUPS - 1) * chosen.size) ** 2 * residual.shape[0]
    rows = slice(None, None, int(np.ceil(cost / search.products)) or 1)
    contrasts = [_contrasts(codes[j, rows]) for j in chosen]
    kept = np.array([len(part) > 0 for part in contrasts])
    if kept.sum() < 2:
        return []
    chosen, contrasts = chosen[kept], [part for part in contrasts if len(part)]
    own = np.array([len(part) for part in contrasts])
    first, z = np.cumsum(own) - own, np.concatenate(contrasts)
    statistic = np.zeros((chosen.size, chosen.size))
    for line, scale in zip(residual[:, rows], variance * (z.shape[1] / n), strict=True):
        square = np.square((z * line) @ z.T) / max(scale, _LEAST)
        statistic += np.add.reduceat(np.add.reduceat(square, first, axis=0), first, axis=1)
    freedom = np.outer(own, own) * max(1.0, residual.shape[0] - 1.0)
    upper = np.triu_indices(chosen.size, 1)
    found, expected = statistic[upper], freedom[upper]
    clear = np.flatnonzero(chdtrc(expected, found) * found.size < search.chance)
    best = clear[np.argsort((expected - found)[clear], kind="stable")[: search.pairs]]
    return [(int(chosen[upper[0][i]]), int(chosen[upper[1][i]])) for i in best]


def _strongest(codes: Codes, residual: FloatArray, most: int) -> IntArray:
    """All columns; of many those that tell residuals apart best on their own."""
    if codes.shape[0] <= most:
        return np.arange(codes.shape[0])
    strength = np.zeros(codes.shape[0])
    for j, column in enumerate(codes):
        count = np.maximum(np.bincount(column, minlength=WIDTH), 1)
        strength[j] = sum((np.bincount(column, line, WIDTH) ** 2 / count).sum() for line in residual)
    return np.sort(np.argsort(-strength, kind="stable")[:most])


def _contrasts(column: NDArray[np.uint8]) -> FloatArray:
    """Orthonormal contrasts of the groups of a column: each group against those below it; (groups − 1, n)."""
    count = np.bincount(column, minlength=WIDTH).astype(np.float64)
    total = column.size
    group = np.minimum(_GROUPS * (np.cumsum(count) - 0.5 * count) / total, _GROUPS - 1).astype(np.intp)
    _, group = np.unique(np.where(count > 0, group, -1), return_inverse=True)
    group -= int((count == 0).any())
    share = np.bincount(group[count > 0], count[count > 0]) / total
    below = np.cumsum(share) - share
    table = np.zeros((share.size - 1, WIDTH))
    for t in range(1, share.size):
        size = np.sqrt(1.0 / share[t] + 1.0 / below[t])
        table[t - 1, group == t] = 1.0 / (share[t] * size)
        table[t - 1, group < t] = -1.0 / (below[t] * size)
    return table[:, column]


def _recode_pairs(features: Features, pairs: list[tuple[int, int]], slopes: Slopes) -> Recoding:
    """Both columns of every pair in few codes: bins in order, categories as the other column turns their effect."""
    columns, tables = [], []
    for pair in pairs:
        for j, other in (pair, pair[::-1]):
            columns.append(j)
            if features.categorical[j]:
                tables.append(_order_categories(features.codes[j], features.codes[other], slopes))
            else:
                tables.append(_merge_bins(features.codes[j]))
    return Recoding(np.array(columns, dtype=np.intp), np.stack(tables))


def _merge_bins(column: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A table that numbers the codes that occur, two to a number where there are more than 16; 0 stays 0."""
    present = np.bincount(column, minlength=WIDTH) > 0
    present[0] = False
    return _number(np.cumsum(present))


def _number(rank: IntArray) -> NDArray[np.uint8]:
    """Ranks, two to a number where there are more than 16."""
    return np.asarray((rank + 1) // 2 if rank.max() >= _SIDE else rank, dtype=np.uint8)


def _order_categories(category: NDArray[np.uint8], other: NDArray[np.uint8], slopes: Slopes) -> NDArray[np.uint8]:
    """Categories in the order in which the other column changes their effect: the leading direction of their table."""
    cell = category.astype(np.intp) * WIDTH + other
    left, _, _ = np.linalg.svd(np.concatenate([_interaction(cell, line) for line in slopes], axis=1))
    count = np.bincount(category, minlength=WIDTH)
    found = np.flatnonzero(count)
    rank = np.zeros(WIDTH, dtype=np.intp)
    rank[found[np.argsort(left[found, 0] / np.sqrt(count[found]), kind="stable")]] = np.arange(1, found.size + 1)
    return _number(rank)


def _interaction(cell: IntArray, slopes: Slopes) -> FloatArray:
    """What the cells of two columns say beyond each column alone, in standard errors."""
    top, bottom = (np.bincount(cell, part, WIDTH**2).reshape(WIDTH, WIDTH) for part in (slopes.real, slopes.imag))
    rows, columns = (top.sum(axis=a, keepdims=True) / (bottom.sum(axis=a, keepdims=True) + 1.0) for a in (1, 0))
    alone = rows + columns - top.sum() / (bottom.sum() + 1.0)
    return np.asarray((top - bottom * alone) / np.sqrt(bottom + 1.0))


def boost_pairs(
    features: Features,
    start: FloatArray,
    hit: FloatArray,
    weight: FloatArray,
    growth: Growth,
    search: Search = SEARCH,
) -> Boosted:
    """Boosting with quadrants of pairs of columns; no trees where no pair is clearer than chance."""
    slopes, law = all_slopes(start, hit, weight), probabilities(start)
    recoding = Recoding.fitted(features, slopes[-1], growth.ridge)
    variance = weight**2 @ (law * (1.0 - law) if law.ndim == 1 else law)
    pairs = find_pairs(recoding(features.codes), slopes.real, np.atleast_1d(variance), search)
    if not pairs:
        return Boosted(recoding, ())
    recoding = _recode_pairs(features, pairs, slopes)
    grower = _quadrants(recoding(features.codes), growth)
    return Boosted(recoding, newton(start, hit, weight, [grower] * growth.stages))


def _quadrants(codes: Codes, growth: Growth) -> Grower:
    """Trees that cut both columns of a pair at once, where it gains most: greedy cuts would not see the first one."""
    joint = codes[::2].astype(np.int16) * _SIDE + codes[1::2]
    cells = SortedRows.of(joint, _SIDE**2)

    def grown(slopes: Slopes) -> tuple[Tree, FloatArray]:
        below = cells.sums(slopes).reshape(-1, _SIDE, _SIDE).cumsum(axis=1).cumsum(axis=2)
        low, left, under, whole = below[:, :-1, :-1], below[:, :-1, -1:], below[:, -1:, :-1], below[:, -1:, -1:]
        leaves = np.stack([low, left - low, under - low, whole - left - under + low])
        gain = leaf_scores(leaves, growth).sum(axis=0) - leaf_scores(whole, growth)
        gain[(leaves.imag < growth.leaf).any(axis=0)] = 0.0
        best = int(gain.argmax())
        pair, first, second = np.unravel_index(best, gain.shape)
        if gain.ravel()[best] <= 0.0:
            first = second = np.intp(_SIDE)  # no gain: everything goes left
        node: Leaves = 2 * (codes[2 * pair] > first).astype(np.uint8) + (codes[2 * pair + 1] > second)
        values = leaf_values(slopes, node, 4, growth)
        columns = (np.array([2 * pair]), np.full(2, 2 * pair + 1))
        return Tree(columns, (np.array([first]), np.full(2, second)), values), values[node]

    return grown
