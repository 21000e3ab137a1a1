"""The second-order term B: how far Ĉ is from C, bias included, from products of residuals of neighbours.

A row and a neighbour that the same model did not see have independent residuals, so the product of the two estimates
(C − Ĉ)² there, whatever the shape of C, as long as C hardly changes between neighbours (docs/statistics.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism.losses import ProperLoss

#: Rows of the same score from which on they are neighbours of each other and of nobody else.
TIED = 5


def reach(n: int) -> int:
    """How many ranks away neighbours are, on either side."""
    return int(np.ceil(max(0.75 * np.sqrt(n), n / 80.0)))


def reach_of_classes(n: int) -> int:
    """Half the number of neighbours of a row of several classes: in several directions rows are soon far away."""
    return int(np.ceil(0.75 * np.sqrt(n)))


@dataclass(frozen=True)
class Windows:
    """For each of L lines in order of the score: the lines of its neighbours, and how many rows these are."""

    first: IntArray
    stop: IntArray
    rows: FloatArray

    @staticmethod
    def of(count: FloatArray, alone: NDArray[np.bool_], n: int) -> Windows:
        """Cells within `reach` ranks, or a cell by itself where its rows are tied."""
        upto = np.cumsum(count)
        middle = upto - 0.5 * count
        m = reach(n) + 1e-6
        first, stop = np.searchsorted(middle, middle - m), np.searchsorted(middle, middle + m, side="right")
        tied = alone & (count >= TIED)
        own = np.arange(count.size)
        first, stop = np.where(tied, own, first), np.where(tied, own + 1, stop)
        before = np.concatenate([[0.0], upto])
        return Windows(first, stop, before[stop] - before[first])

    def sums(self, values: FloatArray) -> FloatArray:
        """Sums over the neighbours of each line, along the last axis."""
        upto = np.concatenate([np.zeros((*values.shape[:-1], 1)), np.cumsum(values, axis=-1)], axis=-1)
        return np.asarray(upto[..., self.stop] - upto[..., self.first])


def residuals(loss: ProperLoss, law: FloatArray, outcome: FloatArray | float, rows: FloatArray) -> FloatArray:
    """√(w(c)/2)·(y − c): residuals whose squares are divergences, to second order; c kept 1/(2·neighbours) inside."""
    floor = 0.5 / np.maximum(rows - 1.0, 2.0)
    inside = np.clip(law, floor, 1.0 - floor)
    weight = loss.weight(inside.ravel()).reshape(inside.shape)
    return np.sqrt(0.5 * weight) * (outcome - law)


class Second(NamedTuple):
    """Rows b, whose mean B is how far Ĉ is from C; and the part D of the variance of B that is there even if Ĉ = C."""

    rows: FloatArray
    degenerate: float


class Pairs(NamedTuple):
    """What rows of a fold and their neighbours hold, whatever the loss: sums over partitions and folds."""

    windows: Windows
    mass: FloatArray  # (P, K, 2, G)
    squares: FloatArray
    weight: FloatArray  # (2, G): Σ ω_i ω_j over pairs of a row and a neighbour

    @staticmethod
    def of(mass: FloatArray, squares: FloatArray, windows: Windows) -> Pairs:
        held = windows.sums(mass[:, :, 0] + mass[:, :, 1])
        weight = np.einsum("pkyg,pkg->yg", mass, held) - squares.sum(axis=(0, 1))
        return Pairs(windows, mass, squares, weight)

    def products(self, q: FloatArray) -> tuple[FloatArray, float]:
        """Mean product of the residual of a row and of its neighbours in its fold, by outcome and cell."""
        v = self.mass * q
        near = self.windows.sums(v[:, :, 0] + v[:, :, 1])
        own = v * q if self.squares is self.mass else self.squares * q**2
        spread = self.windows.sums(own[:, :, 0] + own[:, :, 1])
        total = np.einsum("pkyg,pkg->yg", v, near) - own.sum(axis=(0, 1))
        known = self.weight > 1e-9 * float(self.mass.max())
        rows = np.divide(total, self.weight, out=np.zeros(total.shape), where=known)
        if self.squares is self.mass:
            fourth = np.einsum("pkyg,pkyg->yg", own, q**2)
        else:  # Σω⁴ of rows of about the same weight
            ratio = np.divide(self.squares, self.mass, out=np.zeros(self.mass.shape), where=self.mass > 0.0)
            fourth = np.einsum("pkyg,pkyg->yg", own * ratio**2, q**2)
        square = np.einsum("pkyg,pkg->yg", own, spread) - fourth
        line = self.mass[0].sum(axis=0)
        each = np.divide(line**2 * np.maximum(square, 0.0), self.weight**2, out=np.zeros(total.shape), where=known)
        return rows, float(inflation(*self.mass.shape[:2]) * each.sum() / float(line.sum()) ** 2)


def inflation(partitions: int, folds: int) -> float:
    """A pair counts twice, and the same pair meets in about one of `folds` partitions."""
    return 2.0 * (1.0 + (partitions - 1) / folds)


def leaves(points: FloatArray, size: int) -> IntArray:
    """The leaf of each row of a tree that halves the widest direction until a leaf holds at most `size` rows."""
    leaf = np.zeros(points.shape[0], dtype=np.intp)
    todo, count = [np.arange(points.shape[0])], 0
    while todo:
        rows = todo.pop()
        part = points[rows]
        spread = part.max(axis=0) - part.min(axis=0)
        if rows.size <= size or not spread.max() > 0.0:
            leaf[rows] = count
            count += 1
            continue
        column = part[:, int(spread.argmax())]
        half = rows.size // 2
        cut = np.partition(column, half)[half]
        left = column < cut
        if not left.any():
            left = column <= cut
        todo += [rows[left], rows[~left]]
    return leaf


#: Rows up to which neighbours are the nearest ones; beyond, those of the same leaf, which is faster.
NEAREST = 20_000
#: Pairs of a row and a neighbour that are looked at together.
_BLOCK = 1 << 20


def nearest_products(
    q: FloatArray, home: IntArray, weight: FloatArray, points: FloatArray, count: int, groups: IntArray | None
) -> tuple[FloatArray, float]:
    """Mean inner product of the residuals of a row and of its nearest neighbours in its fold, for each row."""
    from scipy.spatial import cKDTree

    n = points.shape[0]
    size = min(count + 1, n)
    tree = cKDTree(points)
    total, pairs, square = np.zeros(n), np.zeros(n), np.zeros(n)
    step = max(1, _BLOCK // size)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        near = tree.query(points[rows], size)[1].reshape(rows.size, -1)
        other = near != rows[:, None] if groups is None else groups[near] != groups[rows][:, None]
        for residual, place in zip(q, home, strict=True):
            held = np.where(other & (place[near] == place[rows][:, None]), weight[near], 0.0)
            product = np.einsum("ic,ijc->ij", residual[rows], residual[near])
            total[rows] += (held * product).sum(axis=1)
            pairs[rows] += held.sum(axis=1)
            square[rows] += ((held * product) ** 2).sum(axis=1)
    return _means(total, pairs, square, weight, inflation(len(q), int(home.max()) + 1))


def _means(
    total: FloatArray, pairs: FloatArray, square: FloatArray, weight: FloatArray, factor: float
) -> tuple[FloatArray, float]:
    """Rows b, and D."""
    known = pairs > 1e-9 * float(weight.max())
    rows = np.divide(total, pairs, out=np.zeros(total.size), where=known)
    each = np.divide(weight**2 * np.maximum(square, 0.0), pairs**2, out=np.zeros(total.size), where=known)
    return rows, float(factor * each.sum() / weight.sum() ** 2)


def leaf_products(
    q: FloatArray, home: IntArray, weight: FloatArray, leaf: IntArray, groups: IntArray | None
) -> tuple[FloatArray, float]:
    """Mean inner product of the residuals of a row and of the others of its leaf and fold, for each row."""
    folds = int(home.max()) + 1
    own = (
        np.arange(leaf.size)
        if groups is None
        else np.unique(leaf * (int(groups.max()) + 1) + groups, return_inverse=True)[1]
    )
    total, pairs, square = np.zeros(leaf.size), np.zeros(leaf.size), np.zeros(leaf.size)
    for residual, place in zip(q, home, strict=True):
        cell = leaf * folds + place

        def others(values: FloatArray, cell: IntArray = cell) -> FloatArray:
            mine = values if groups is None else np.bincount(own, values)[own]
            return np.asarray(np.bincount(cell, values)[cell] - mine)

        pairs += others(weight)
        columns = residual.T
        for a, first in enumerate(columns):
            total += first * others(weight * first)
            for b, second in enumerate(columns[: a + 1]):
                share = 1.0 if a == b else 2.0
                square += share * first * second * others(weight**2 * first * second)
    return _means(total, pairs, square, weight, inflation(len(q), folds))
