"""Small gradient boosting on bins, started from a given law, which scikit-learn's boosting cannot do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from scoreprism._core.numerics import FAR_BOOSTED, clipped_sigmoid, row_blocks, softmax
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._sample.features import BINS, Codes, Features

#: Codes 0 … BINS + 1.
WIDTH = BINS + 2

#: Rows times columns that are summed in one call, and of all fits that grow in step: beyond, calls cost little.
_TOGETHER, _IN_STEP = 1 << 16, 1 << 17

#: Minus the gradient (real part) and the curvature (imaginary part): one sum adds both.
Slopes = NDArray[np.complex128]
#: The node or leaf of every row.
Leaves = NDArray[np.uint8]


@dataclass(frozen=True)
class Growth:
    """How trees are grown: stages, shrinkage, depth, ridge and least curvature of a leaf, columns and rows at most."""

    stages: int = 80
    rate: float = 0.1
    depth: int = 3
    ridge: float = 5.0
    leaf: float = 4.0
    columns: int = 64
    rows: int = 100_000


class Trees(NamedTuple):
    """Trees of full depth: per level the feature and the largest code that goes left, (trees, nodes); leaf values."""

    features: tuple[IntArray, ...]
    cuts: tuple[Codes, ...]
    values: FloatArray

    @staticmethod
    def join(parts: Sequence[Trees]) -> Trees:
        """Trees of the same depth, one after the other."""
        features, cuts, values = zip(*parts, strict=True)
        return Trees(
            tuple(np.concatenate(level) for level in zip(*features, strict=True)),
            tuple(np.concatenate(level) for level in zip(*cuts, strict=True)),
            np.concatenate(values),
        )

    def some(self, rows: slice) -> Trees:
        """Some of the trees."""
        return Trees(
            tuple(level[rows] for level in self.features), tuple(level[rows] for level in self.cuts), self.values[rows]
        )


@dataclass(frozen=True)
class SortedRows:
    """Rows sorted by the cell they are in, column by column: sums over cells are then sums of runs."""

    parts: tuple[tuple[IntArray, IntArray, IntArray], ...]  # of some columns: rows, where runs begin, their cells
    columns: int
    width: int

    @staticmethod
    def of(cells: NDArray[Any], width: int) -> SortedRows:
        """From the cells of all rows, (columns, n)."""
        p, n = cells.shape
        step, parts = max(1, _TOGETHER // n), []
        for first in range(0, p, step):
            some = cells[first : first + step]
            rows = np.argsort(some, axis=1, kind="stable")
            counts = np.stack([np.bincount(column, minlength=width) for column in some]).ravel()
            filled = np.flatnonzero(counts)
            parts.append((rows.ravel(), (np.cumsum(counts) - counts)[filled], filled + first * width))
        return SortedRows(tuple(parts), p, width)

    def sums(self, slopes: Slopes) -> Slopes:
        """Sums by column and cell: (columns, width)."""
        out = np.zeros(self.columns * self.width, dtype=np.complex128)
        for rows, starts, filled in self.parts:
            out[filled] = np.add.reduceat(slopes.take(rows), starts)
        return out.reshape(self.columns, self.width)


def leaf_scores(slopes: Slopes, growth: Growth) -> FloatArray:
    """Twice what a leaf lowers the loss by."""
    return np.asarray(slopes.real**2 / (slopes.imag + growth.ridge))


def _find_splits(sums: Slopes, growth: Growth) -> tuple[IntArray, Codes]:
    """The best column and cut of every node, from sums by node, column and code."""
    left = sums.cumsum(axis=2)
    whole, left = left[:, :, -1:], left[:, :, :-1]
    right = whole - left
    gain = leaf_scores(left, growth)
    gain += leaf_scores(right, growth)
    gain -= leaf_scores(whole, growth)
    gain[(left.imag < growth.leaf) | (right.imag < growth.leaf)] = 0.0
    flat = gain.reshape(gain.shape[0], -1)
    best = flat.argmax(axis=1)
    column, cut = np.divmod(best, WIDTH - 1)
    none = flat[np.arange(flat.shape[0]), best] <= 0.0
    return column, np.where(none, WIDTH, cut).astype(np.uint8)  # no gain: everything goes left


@dataclass(frozen=True)
class GrowthLines:
    """Rows of one fit, or of several side by side (one per fit and class): a tree grows in each of them at once."""

    codes: Codes
    cells: SortedRows
    line: IntArray | None = None  # of every row, where there are several lines
    count: int = 1

    @staticmethod
    def of(parts: Sequence[Codes], classes: int) -> GrowthLines:
        """The rows of several fits, once for each class: class by class, fit by fit."""
        cells = [SortedRows.of(codes, WIDTH) for codes in parts]
        count, p = len(parts) * classes, parts[0].shape[0]
        if count == 1:
            return GrowthLines(parts[0], cells[0])
        codes = np.concatenate(list(parts) * classes, axis=1)
        sizes = np.array([part.shape[1] for part in parts] * classes)
        runs, first, before = [], 0, 0
        for number, (one, n) in enumerate(zip(cells * classes, sizes.tolist(), strict=True)):
            for rows, starts, filled in one.parts:
                runs.append((rows + first, starts + before, filled + number * p * WIDTH))
                before += rows.size
            first += n
        rows, starts, filled = (np.concatenate(part) for part in zip(*runs, strict=True))
        return GrowthLines(codes, SortedRows(((rows, starts, filled),), count * p, WIDTH), _repeat(sizes), count)

    def sums(self, slopes: Slopes) -> Slopes:
        """Sums by line, column and code."""
        return self.cells.sums(slopes).reshape(self.count, -1, WIDTH)

    def number(self, node: Leaves, size: int) -> IntArray | Leaves:
        """Nodes of all lines in one numbering, `size` to a line."""
        return node if self.line is None else self.line * size + node

    def descend(self, node: Leaves, feature: IntArray, cut: Codes) -> Leaves:
        """The child of every row: comparisons of whole columns for one line, lookups for several short ones."""
        if self.line is None:
            return _descend(self.codes, node, feature, cut)
        at = self.number(node, feature.shape[1])
        n = node.size
        right = self.codes.ravel().take(feature.ravel().take(at) * n + np.arange(n)) > cut.ravel().take(at)
        return (2 * node + right).astype(np.uint8, copy=False)

    def sum_children(self, slopes: Slopes, node: Leaves, parents: Slopes) -> Slopes:
        """Sums of the children: left children are summed, right ones are their parents minus these."""
        out = np.empty((self.count, 2 * parents.shape[1], *parents.shape[2:]), dtype=np.complex128)
        for index in range(parents.shape[1]):
            out[:, 2 * index] = self.sums(np.where(node == 2 * index, slopes, 0.0))
            parent = parents[:, index]
            rest = parent - out[:, 2 * index]
            rest[np.abs(rest) <= 1e-12 * np.abs(parent)] = 0.0  # an empty cell must not decide between equal cuts
            out[:, 2 * index + 1] = rest
        return out

    def grow(self, slopes: Slopes, growth: Growth) -> tuple[Trees, FloatArray]:
        """A tree in each line that lowers its loss, and what it adds to each row."""
        features: tuple[IntArray, ...] = ()
        cuts: tuple[Codes, ...] = ()
        node: Leaves = np.zeros(slopes.shape[0], dtype=np.uint8)
        sums = self.sums(slopes)[:, None]
        for level in range(growth.depth):
            if level:
                sums = self.sum_children(slopes, node, sums)
            feature, cut = _find_splits(sums.reshape(-1, *sums.shape[2:]), growth)
            feature, cut = feature.reshape(self.count, -1), cut.reshape(self.count, -1)
            node = self.descend(node, feature, cut)
            features, cuts = (*features, feature), (*cuts, cut)
        size = 1 << growth.depth
        leaf = self.number(node, size)
        values = leaf_values(slopes, leaf, self.count * size, growth)
        return Trees(features, cuts, values.reshape(self.count, size)), values.take(leaf)


def _repeat(sizes: IntArray) -> IntArray:
    return np.repeat(np.arange(sizes.size), sizes)


def _descend(codes: Codes, node: Leaves, feature: IntArray, cut: Codes) -> Leaves:
    """
    The child of every row in each tree: (trees, n) from nodes of that shape, or of (n,) for one tree.

    Comparisons of whole columns, node by node, are faster than a lookup for each row; codes and cuts are bytes.
    """
    right: NDArray[np.bool_] = np.zeros(node.shape, dtype=np.bool_)
    for index in range(feature.shape[1]):
        columns = codes[feature[:, index]] if node.ndim == 2 else codes[feature[0, index]]
        beyond = columns > (cut[:, index, None] if node.ndim == 2 else cut[0, index])
        right |= beyond if feature.shape[1] == 1 else (node == index) & beyond
    return (2 * node + right).astype(np.uint8, copy=False)


def leaf_values(slopes: Slopes, leaf: NDArray[Any], size: int, growth: Growth) -> FloatArray:
    """Newton steps of the leaves, shrunken."""
    top, bottom = np.bincount(leaf, slopes.real, size), np.bincount(leaf, slopes.imag, size)
    return np.asarray(growth.rate * top / (bottom + growth.ridge))


@dataclass(frozen=True)
class Recoding:
    """Columns to look at, each with other codes: categories in the order of their mean gradient, for example."""

    columns: IntArray
    tables: NDArray[np.uint8]

    @staticmethod
    def fit(features: Features, slopes: Slopes, ridge: float) -> Recoding:
        """Categories in the order of their mean gradient: then one cut separates the high from the low."""
        p = features.codes.shape[0]
        tables = np.tile(np.arange(WIDTH, dtype=np.uint8), (p, 1))
        for j in np.flatnonzero(features.categorical):
            top, bottom = (np.bincount(features.codes[j], part, WIDTH) for part in (slopes.real, slopes.imag))
            tables[j, np.argsort(top / (bottom + ridge), kind="stable")] = np.arange(WIDTH)
        return Recoding(np.arange(p), tables)

    def __call__(self, codes: Codes) -> Codes:
        same = np.arange(WIDTH)
        return np.stack(
            [
                codes[j] if np.array_equal(table, same) else table[codes[j]]
                for j, table in zip(self.columns, self.tables, strict=True)
            ]
        )


@dataclass(frozen=True)
class Boosted:
    """Boosted trees, which are added to a start on the logit scale."""

    recoding: Recoding
    stages: tuple[Trees, ...]  # one tree per class each (one for two classes)

    def staged(self, features: Features, start: FloatArray, stages: tuple[int, ...]) -> Iterator[FloatArray]:
        """η of the rows after each of `stages`, or after all trees where there are fewer."""
        eta = np.array(start)
        first = 0
        for last in stages:
            some = self.stages[first:last]
            if some:
                self._add(Trees.join(some), features.codes, eta)
            yield eta.copy()
            first = last

    def _add(self, trees: Trees, codes: Codes, eta: FloatArray) -> None:
        """Add trees to η in their order, all of them at once on a block of rows."""
        size = trees.values.shape[1]
        place = np.arange(trees.values.shape[0])[:, None] * size
        k = 1 if eta.ndim == 1 else eta.shape[1]
        for rows in row_blocks(eta.shape[0], trees.values.shape[0]):
            some = self.recoding(codes[:, rows])
            node: Leaves = np.zeros((trees.values.shape[0], some.shape[1]), dtype=np.uint8)
            for feature, cut in zip(trees.features, trees.cuts, strict=True):
                node = _descend(some, node, feature, cut)
            steps = trees.values.ravel().take(node + place).reshape(-1, k, some.shape[1])
            part = eta[rows].T.copy()
            for step in steps:
                part += step if eta.ndim == 2 else step[0]
            eta[rows] = part.T


def _view_lines(eta: FloatArray) -> list[FloatArray]:
    """Views of η that a tree each is added to: all of it for two classes, its columns for more."""
    return [eta] if eta.ndim == 1 else list(eta.T)


def probabilities(eta: FloatArray) -> FloatArray:
    """The law of η, in its shape."""
    return clipped_sigmoid(eta, FAR_BOOSTED) if eta.ndim == 1 else softmax(eta)


def all_slopes(eta: FloatArray, hit: FloatArray, weight: FloatArray) -> Slopes:
    """Slopes of the log loss, a line for each tree of a stage: (trees, n)."""
    p = probabilities(eta)
    out = np.empty(p.shape[::-1] if p.ndim == 2 else (1, p.size), dtype=np.complex128)
    out.real = weight * (hit - p).T
    out.imag = weight * np.maximum(p * (1.0 - p), 1e-6).T
    return out


#: From slopes to a tree, alone in its line, and what it adds to every row.
Grower = Callable[[Slopes], tuple[Trees, FloatArray]]


def newton(start: FloatArray, hit: FloatArray, weight: FloatArray, growers: Iterable[Grower]) -> tuple[Trees, ...]:
    """
    Newton boosting of the log loss from `start`, a stage for each grower: it gives a tree and what it adds to η.

    `start` is η, (n,) for two classes and (n, K) for more; `hit` the outcomes in the same shape.
    """
    eta, stages = np.array(start), []
    for grower in growers:
        trees = []
        for slopes, line in zip(all_slopes(eta, hit, weight), _view_lines(eta), strict=True):
            tree, step = grower(slopes)
            np.add(line, step, out=line)
            trees.append(tree)
        stages.append(Trees.join(trees))
    return tuple(stages)


class BoostingFit(NamedTuple):
    """What is boosted: features, η to start from, outcomes in its shape, weights."""

    features: Features
    start: FloatArray
    hit: FloatArray
    weight: FloatArray


def boost(fits: Sequence[BoostingFit], growth: Growth, rng: np.random.Generator) -> list[Boosted]:
    """
    Boosting with trees on all columns, or on some that are drawn for each stage where they are many.

    Small fits of the same columns grow in step, which changes nothing but the number of calls.
    """
    recodings = [Recoding.fit(one.features, all_slopes(*one[1:])[-1], growth.ridge) for one in fits]
    all_codes = [recoding(one.features.codes) for recoding, one in zip(recodings, fits, strict=True)]
    if can_grow_in_step([codes.shape for codes in all_codes], 1 if fits[0].start.ndim == 1 else fits[0].start.shape[1]):
        by_fit = _boost_in_step(fits, all_codes, growth)
    else:
        by_fit = [
            newton(*one[1:], _make_growers(codes, growth, rng)) for one, codes in zip(fits, all_codes, strict=True)
        ]
    return [Boosted(recoding, stages) for recoding, stages in zip(recodings, by_fit, strict=True)]


def can_grow_in_step(shapes: Sequence[tuple[int, ...]], classes: int) -> bool:
    """Whether fits of so many columns and rows are small enough; only then is nothing drawn, too."""
    return shapes[0][0] <= Growth.columns and sum(p * n for p, n in shapes) * classes <= _IN_STEP


def _boost_in_step(fits: Sequence[BoostingFit], all_codes: Sequence[Codes], growth: Growth) -> list[tuple[Trees, ...]]:
    """Newton boosting of several fits at once, with the numbers that `newton` gives for each."""
    eta, hit, weight = (np.concatenate(part) for part in zip(*(one[1:] for one in fits), strict=True))
    classes = 1 if eta.ndim == 1 else eta.shape[1]
    lines, stages = GrowthLines.of(all_codes, classes), []
    for _ in range(growth.stages):
        trees, step = lines.grow(all_slopes(eta, hit, weight).ravel(), growth)
        eta += step if classes == 1 else step.reshape(classes, -1).T
        stages.append(trees)
    own = [slice(m, None, len(fits)) for m in range(len(fits))]
    return [tuple(trees.some(rows) for trees in stages) for rows in own]


def _make_growers(codes: Codes, growth: Growth, rng: np.random.Generator) -> Iterator[Grower]:
    p, n = codes.shape
    all_columns, all_rows = p <= growth.columns, n <= 2 * growth.rows
    whole = GrowthLines.of([codes], 1) if all_columns and all_rows else None
    for _ in range(growth.stages):
        if whole is not None:
            yield partial(whole.grow, growth=growth)
            continue
        columns = np.arange(p) if all_columns else np.sort(rng.permutation(p)[: growth.columns])
        rows = slice(None) if all_rows else rng.integers(0, n, growth.rows)
        yield partial(_grow_on, codes, columns, rows, growth)


def _grow_on(codes: Codes, columns: IntArray, rows: Any, growth: Growth, slopes: Slopes) -> tuple[Trees, FloatArray]:
    """A tree grown on some columns of some rows, and what it adds to all rows."""
    sampled = codes[columns][:, rows]
    trees, step = GrowthLines.of([sampled], 1).grow(slopes[rows], growth)
    trees = trees._replace(features=tuple(columns[feature] for feature in trees.features))
    if isinstance(rows, slice):
        return trees, step
    node: Leaves = np.zeros(codes.shape[1], dtype=np.uint8)
    for feature, cut in zip(trees.features, trees.cuts, strict=True):
        node = _descend(codes, node, feature, cut)
    return trees, trees.values[0].take(node)


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
    chosen = _choose_strongest(codes, residual, search.columns)
    cost = n * ((_GROUPS - 1) * chosen.size) ** 2 * residual.shape[0]
    rows = slice(None, None, int(np.ceil(cost / search.products)) or 1)
    contrasts = [_make_contrasts(codes[j, rows]) for j in chosen]
    has_groups = np.array([len(part) > 0 for part in contrasts])
    if has_groups.sum() < 2:
        return []
    chosen, contrasts = chosen[has_groups], [part for part in contrasts if len(part)]
    own = np.array([len(part) for part in contrasts])
    first, z = np.cumsum(own) - own, np.concatenate(contrasts)
    statistic = np.zeros((chosen.size, chosen.size))
    for line, scale in zip(residual[:, rows], variance * (z.shape[1] / n), strict=True):
        square = np.square((z * line) @ z.T) / max(scale, _LEAST)
        statistic += np.add.reduceat(np.add.reduceat(square, first, axis=0), first, axis=1)
    freedom = np.outer(own, own) * max(1.0, residual.shape[0] - 1.0)
    upper = np.triu_indices(chosen.size, 1)
    observed, expected = statistic[upper], freedom[upper]
    clear = np.flatnonzero(chdtrc(expected, observed) * observed.size < search.chance)
    best = clear[np.argsort((expected - observed)[clear], kind="stable")[: search.pairs]]
    return [(int(chosen[upper[0][i]]), int(chosen[upper[1][i]])) for i in best]


def _choose_strongest(codes: Codes, residual: FloatArray, most: int) -> IntArray:
    """All columns; of many those that tell residuals apart best on their own."""
    if codes.shape[0] <= most:
        return np.arange(codes.shape[0])
    strength = np.zeros(codes.shape[0])
    for j, column in enumerate(codes):
        count = np.maximum(np.bincount(column, minlength=WIDTH), 1)
        strength[j] = sum((np.bincount(column, line, WIDTH) ** 2 / count).sum() for line in residual)
    return np.sort(np.argsort(-strength, kind="stable")[:most])


def _make_contrasts(column: NDArray[np.uint8]) -> FloatArray:
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
    left, _, _ = np.linalg.svd(np.concatenate([_measure_interaction(cell, line) for line in slopes], axis=1))
    count = np.bincount(category, minlength=WIDTH)
    used = np.flatnonzero(count)
    rank = np.zeros(WIDTH, dtype=np.intp)
    rank[used[np.argsort(left[used, 0] / np.sqrt(count[used]), kind="stable")]] = np.arange(1, used.size + 1)
    return _number(rank)


def _measure_interaction(cell: IntArray, slopes: Slopes) -> FloatArray:
    """What the cells of two columns say beyond each column alone, in standard errors."""
    top, bottom = (np.bincount(cell, part, WIDTH**2).reshape(WIDTH, WIDTH) for part in (slopes.real, slopes.imag))
    rows, columns = (top.sum(axis=a, keepdims=True) / (bottom.sum(axis=a, keepdims=True) + 1.0) for a in (1, 0))
    alone = rows + columns - top.sum() / (bottom.sum() + 1.0)
    return np.asarray((top - bottom * alone) / np.sqrt(bottom + 1.0))


def boost_pairs(features: Features, start: FloatArray, hit: FloatArray, weight: FloatArray, growth: Growth) -> Boosted:
    """Boosting with quadrants of pairs of columns; no trees where no pair is clearer than chance."""
    slopes, law = all_slopes(start, hit, weight), probabilities(start)
    recoding = Recoding.fit(features, slopes[-1], growth.ridge)
    variance = weight**2 @ (law * (1.0 - law) if law.ndim == 1 else law)
    pairs = find_pairs(recoding(features.codes), slopes.real, np.atleast_1d(variance), Search())
    if not pairs:
        return Boosted(recoding, ())
    recoding = _recode_pairs(features, pairs, slopes)
    grower = _make_quadrants(recoding(features.codes), growth)
    return Boosted(recoding, newton(start, hit, weight, [grower] * growth.stages))


def _make_quadrants(codes: Codes, growth: Growth) -> Grower:
    """Trees that cut both columns of a pair at once, since greedy cuts would find no gain in the first one."""
    joint = codes[::2].astype(np.int16) * _SIDE + codes[1::2]
    cells = SortedRows.of(joint, _SIDE**2)

    def grow(slopes: Slopes) -> tuple[Trees, FloatArray]:
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
        columns = (np.array([[2 * pair]]), np.full((1, 2), 2 * pair + 1))
        cuts = (np.full((1, 1), first, dtype=np.uint8), np.full((1, 2), second, dtype=np.uint8))
        return Trees(columns, cuts, values[None]), values[node]

    return grow
