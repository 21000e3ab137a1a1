"""Laws fitted in many partitions of the rows, and their row-wise losses, spreads, second-order terms.

Rows of the same cell of the score and the same outcome are exchangeable: which of them was in which fold is an
accident. So a binary law is kept as a table, partitions × folds × cells, and a row is given the mean over the rows of
its cell and outcome; the result does not depend on the order of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import DEVICE_BLOCK, convert, is_foreign, like, multiply, namespace, to_host
from scoreprism._core.lazy_laws import LazyLaw, MeanLaw, read_block, take_rows_of_law
from scoreprism._core.numerics import FINEST_EDGE, clipped_sigmoid, log_odds, row_blocks
from scoreprism._core.simplex import FloatArray, IntArray, as_vector, clip_law
from scoreprism._fitting.crossfit import FittedLaw
from scoreprism._sample.level import spread
from scoreprism.losses import ProperLoss


@dataclass(frozen=True)
class ScoreCells:
    """Rows pooled into cells of the score, ties together: what laws of two classes are fitted and evaluated on."""

    cell: IntArray  # (n,): the cell of each row
    center: FloatArray  # (G,): mean score of each cell, increasing
    count: FloatArray  # (G,): rows that have weight
    alone: NDArray[np.bool_]  # (G,): whether a cell holds one distinct score

    @property
    def single(self) -> bool:
        """Whether every cell holds one distinct score."""
        return bool(self.alone.all())

    @staticmethod
    def of(score: FloatArray, held: NDArray[np.bool_] | None = None) -> ScoreCells:
        """Distinct scores where they are few; else cells of equal mass, cut further where they are wide."""
        ranked = np.sort(score)
        first = np.flatnonzero(np.diff(ranked, prepend=-np.inf))  # where a distinct score begins
        tied = np.diff(first, append=ranked.size)
        distinct = ranked[first]
        if distinct.size <= _FEW or (distinct.size <= _TIED_FEW and 5 * distinct.size <= score.size):
            edges = distinct
        else:
            heavy = distinct[tied > max(5, score.size // (4 * _CELLS))]
            many = score.size >= _MANY
            even = ranked[:: -(-score.size // (_CELLS if many else _FEW))]
            grid = _GRID if many else _GRID[:0]
            edges = np.unique(np.concatenate([even, heavy, np.nextafter(heavy, 2.0), grid, ranked[:1]]))
            edges = edges[(edges >= ranked[0]) & (edges <= ranked[-1])]
        cell = np.searchsorted(edges, score, side="right") - 1
        used, cell = np.unique(cell, return_inverse=True)
        low = ranked[np.searchsorted(ranked, edges[used])]
        high = ranked[np.searchsorted(ranked, np.append(edges[used][1:], np.inf)) - 1]
        alone = low == high
        everyone = np.bincount(cell, minlength=used.size)
        mean = np.bincount(cell, score, used.size) / everyone
        center = np.where(alone, low, np.clip(mean, low, high))
        count = everyone if held is None else np.bincount(cell, held, used.size)
        return ScoreCells(cell, center, count.astype(np.float64), alone)


#: Distinct scores up to which each is a cell; more where rows are tied.
_FEW, _TIED_FEW = 1024, 8192
#: Otherwise cells of equal mass: `_FEW`, or `_CELLS` from `_MANY` rows on, with tails that are cut further, at equal
#: steps of √(2s). This moves estimates by less than .04 standard errors.
_CELLS, _MANY = 2048, 8000
_ROOT = (np.arange(1, 512) / 512.0) ** 2 / 2.0
_GRID = np.concatenate([_ROOT, 1.0 - _ROOT])


def interpolate_laws(center: FloatArray, law: FloatArray, score: FloatArray) -> FloatArray:
    """Laws (…, G) at increasing centers, at other scores: straight lines in log-odds, beyond the ends straight on."""
    if center.size == 1:
        return np.repeat(law, score.size, axis=-1)
    x, at, eta = (log_odds(p, FINEST_EDGE) for p in (center, score, law))
    i = np.clip(np.searchsorted(x, at, side="right") - 1, 0, x.size - 2)
    share = (at - x[i]) / (x[i + 1] - x[i])
    return clipped_sigmoid(eta[..., i] + share * (eta[..., i + 1] - eta[..., i]))


@dataclass(frozen=True)
class CellFits:
    """A law of a binary score, by partition, fold and cell."""

    cells: ScoreCells  # cells of the score
    y: IntArray  # (n,): outcomes
    # (P, K, G): what the model without a fold says in a cell; and the same with shares of its maps drawn towards their
    # mean, whose scatter over the folds is the spread
    law: FloatArray
    damped: FloatArray
    mass: FloatArray  # (P, K, 2, G): Σω of the rows of a fold with each outcome in a cell
    squares: FloatArray  # (P, K, 2, G): Σω² of the same
    home: IntArray | None = None  # (P, n): fold of each row; needed for clusters only, and None where lines are sums
    clip: float | None = None  # distance from 0 and 1 that laws are kept at
    _memo: dict[Any, Any] = field(default_factory=dict)  # what was computed before, by loss

    def clip_at(self, distance: float | None) -> CellFits:
        """The same, kept away from 0 and 1."""
        return self if distance is None else replace(self, clip=distance, _memo={})

    def rows(self, some: IntArray) -> CellFits:
        """The same for some of the rows."""
        cells = replace(self.cells, cell=self.cells.cell[some])
        home = None if self.home is None else self.home[:, some]
        return replace(self, cells=cells, y=self.y[some], home=home, _memo={})

    @property
    def _place(self) -> IntArray:
        return self.y * self.cells.center.size + self.cells.cell

    @cached_property
    def _laws(self) -> tuple[FloatArray, FloatArray]:
        """Laws and those for the spread, clipped."""
        if self.clip is None:
            return self.law, self.damped
        return np.clip(self.law, self.clip, 1.0 - self.clip), np.clip(self.damped, self.clip, 1.0 - self.clip)

    def _mean(self, table: FloatArray) -> FloatArray:
        """Mean of a table (P, K, G) over the rows of each outcome and cell, (2, G); over all models where no row is."""
        base = table[0, 0]  # models that agree to the last bit have this mean, to the last bit
        apart = table - base
        total = np.einsum("pkyg,pkg->yg", self.mass, apart)
        mass = self.mass.sum(axis=(0, 1))
        filled: FloatArray = np.tile(apart.mean(axis=(0, 1)), (2, 1))
        return np.asarray(base + np.divide(total, mass, out=filled, where=mass > 0.0))

    def _mean_loss_if(self, loss: ProperLoss, outcome: int) -> FloatArray:
        """Mean loss had the outcome been this one, by what it was, (2, G)."""
        key = loss, outcome
        if key not in self._memo:
            law = self._laws[0]
            codes = np.full(law.size, outcome, dtype=np.intp)
            self._memo[key] = self._mean(loss.evaluate(law.ravel(), codes).reshape(law.shape))
        values: FloatArray = self._memo[key]
        return values

    def losses(self, loss: ProperLoss, y: IntArray) -> FloatArray:
        """Loss of the law in every row."""
        table = np.stack([self._mean_loss_if(loss, 0)[0], self._mean_loss_if(loss, 1)[1]])
        return table.ravel()[self._place]

    def what_if(self, loss: ProperLoss, outcome: int) -> FloatArray:
        """Loss of the law in every row, had the outcome been this one."""
        return np.asarray(self._mean_loss_if(loss, outcome).ravel()[self._place])

    def at(self, score: FloatArray) -> FloatArray:
        """The mean of all models at other scores: straight lines between cells, in log-odds."""
        return interpolate_laws(self.cells.center, self.law.mean(axis=(0, 1)), score)

    @cached_property
    def mean_law(self) -> FloatArray:
        """Mean of the laws that did not see a row."""
        return self._mean(self._laws[0]).ravel()[self._place]

    def spreads(self, loss: ProperLoss) -> FloatArray:
        """Spread of the law over the folds in every row, averaged over partitions."""
        return self.spread_by_cell(loss)[self.cells.cell]

    def spread_by_cell(self, loss: ProperLoss) -> FloatArray:
        """Spread in each cell."""
        key = loss, "spread"
        if key not in self._memo:
            folds = self._laws[1]
            centre = folds.mean(axis=1)
            total = np.zeros(centre.size)
            for k in range(folds.shape[1]):
                total += loss.evaluate_divergence(folds[:, k].ravel(), centre.ravel())
            self._memo[key] = total.reshape(centre.shape).mean(axis=0)
        spreads: FloatArray = self._memo[key]
        return spreads

    def entropies(self, loss: ProperLoss) -> FloatArray:
        """Entropy of the law in every row."""
        law = self._laws[0]
        return np.asarray(self._mean(loss.evaluate_entropy(law.ravel()).reshape(law.shape)).ravel()[self._place])

    def divergences(self, loss: ProperLoss, coarse: FloatArray, fit: Any) -> FloatArray:
        """Divergence of a given law from this one: linear in it but for the entropy, which is concave."""
        centre = self.mean_law
        return loss.evaluate_divergence(coarse, centre) + np.maximum(
            loss.evaluate_entropy(centre) - self.entropies(loss), 0.0
        )

    def divergences_from(self, loss: ProperLoss, law: FloatArray) -> FloatArray:
        """E ℓ(Ĉ, Y) − ℰ(law), Y drawn from the law: its mean over partitions needs no more than mean losses."""
        share = np.stack([1.0 - law, law]) if law.ndim == 1 else law.T
        loss_of_law = sum(share[outcome] * self.what_if(loss, outcome) for outcome in (0, 1))
        return np.asarray(np.maximum(loss_of_law - loss.evaluate_entropy(law), 0.0))

    def second(
        self, loss: ProperLoss, y: IntArray, weight: FloatArray | None, groups: IntArray | None
    ) -> Second | None:
        """Second-order rows; None for a loss without a continuous weight, or where no row has a neighbour."""
        if not loss.strictly_proper:
            return None
        key = loss, "second"
        if key not in self._memo:
            pairs, law = self._pairs, self._laws[0]
            q = np.stack([residuals(loss, law, outcome, pairs.windows.rows) for outcome in (0.0, 1.0)], axis=2)
            if groups is not None and self.home is not None:
                self._memo[key] = self._exclude_clusters(q, self.home, weight, groups)
            else:
                found = pairs.products(q)
                self._memo[key] = None if found is None else Second(found.rows.ravel()[self._place], found.degenerate)
        second: Second | None = self._memo[key]
        return second

    @cached_property
    def _pairs(self) -> Pairs:
        return Pairs.of(self.mass, self.squares, Windows.of(self.cells.count, self.cells.alone))

    def _exclude_clusters(
        self, q: FloatArray, homes: IntArray, weight: FloatArray | None, groups: IntArray
    ) -> Second | None:
        """The same, but rows of the same cluster, which share a fold, are not neighbours."""
        windows, mass, squares, _ = self._pairs
        cell, n = self.cells.cell, self.cells.cell.size
        w = np.ones(n) if weight is None else weight * (float(self.mass[0].sum()) / float(weight.sum()))
        order = np.lexsort((cell, groups))
        key = groups[order] * (self.cells.center.size + 1) + cell[order]
        base = groups * (self.cells.center.size + 1)
        low = np.searchsorted(key, base + windows.first[cell])
        high = np.searchsorted(key, base + windows.stop[cell])

        def within(values: FloatArray) -> FloatArray:
            """Sums over the rows of the cluster of a row that are its neighbours."""
            upto = np.concatenate([[0.0], np.cumsum(values[order])])
            return np.asarray(upto[high] - upto[low])

        held_own = within(w)
        total, pairs, square = np.zeros(n), np.zeros(n), np.zeros(n)
        for p, home in enumerate(homes):
            v, own = mass[p] * q[p], squares[p] * q[p] ** 2
            near, held, apart = (windows.sums(one.sum(axis=1))[home, cell] for one in (v, mass[p], own))
            mine = q[p][home, self.y, cell]
            total += mine * (near - within(w * mine))
            pairs += held - held_own
            square += mine**2 * (apart - within((w * mine) ** 2))
        return _average(total, pairs, square, w, inflation(*mass.shape[:2]))


class _PartFits:
    """Laws with a part for each partition; everything is a mean over the parts."""

    parts: Sequence[FittedLaw]

    def _mean(self, of: Callable[[FittedLaw], FloatArray]) -> FloatArray:
        return np.asarray(np.mean([of(part) for part in self.parts], axis=0))

    def spreads(self, loss: ProperLoss) -> FloatArray:
        """Spread of the law over the folds in every row."""
        return self._mean(lambda part: spread(loss, part.folds, part.factor))

    def entropies(self, loss: ProperLoss) -> FloatArray:
        """Entropy of the law in every row."""
        return self._mean(lambda part: loss.evaluate_entropy(part.law))

    def divergences_from(self, loss: ProperLoss, law: FloatArray) -> FloatArray:
        """Divergence of this law from another."""
        return self._mean(lambda part: loss.evaluate_divergence(part.law, law))


@dataclass(frozen=True)
class RowFits(_PartFits):
    """Laws fitted in some partitions, row by row: of several classes, or of splits that are no random folds."""

    score: Any  # (n,): the score; an array or `ClassScores`
    parts: Sequence[FittedLaw]  # what each partition gave
    home: IntArray  # (P, n): fold of each row; rows of the same fold were left out of the same model

    def clip_at(self, distance: float | None) -> RowFits:
        """The same, kept away from 0 and 1."""
        if distance is None:
            return self
        return replace(self, parts=[part.clip_at(distance) for part in self.parts])

    def rows(self, some: IntArray) -> RowFits:
        """The same for some of the rows."""
        score = take_rows_of_law(self.score, some)
        return RowFits(score, [part.rows(some) for part in self.parts], self.home[:, some])

    def losses(self, loss: ProperLoss, y: IntArray) -> FloatArray:
        """Loss of the law in every row."""
        return self._mean(lambda part: loss.evaluate(part.law, y))

    def what_if(self, loss: ProperLoss, outcome: int) -> FloatArray:
        """Loss of the law in every row, had the outcome been this one."""
        return self.losses(loss, np.full(self.score.shape[0], outcome, dtype=np.intp))

    @cached_property
    def mean_law(self) -> Any:
        """Mean of the laws that did not see a row."""
        if isinstance(self.parts[0].law, LazyLaw):
            return MeanLaw(tuple(part.law for part in self.parts))
        return self._mean(lambda part: part.law)

    def each(self, loss: ProperLoss, rows: slice) -> Any:
        """Loss of the law on some rows under each possible outcome, where the scores live."""
        tables = [loss.evaluate_each(read_block(part.law, rows)) for part in self.parts]
        return sum(tables[1:], tables[0]) / len(tables)

    def divergences(self, loss: ProperLoss, coarse: FloatArray, fit: Any) -> FloatArray:
        """Divergence of a given law from this one."""
        return self._mean(lambda part: loss.evaluate_divergence(coarse, part.law))

    def second(
        self, loss: ProperLoss, y: IntArray, weight: FloatArray | None, groups: IntArray | None
    ) -> Second | None:
        """Second-order rows; None for a loss whose curvature is not known, or where no row has a neighbour."""
        n = self.score.shape[0]
        w = np.ones(n) if weight is None else weight
        tested = np.flatnonzero((w > 0.0) & (self.home >= 0).all(axis=0))
        score = as_vector(self.score) if self.score.ndim == 1 or self.score.shape[1] == 2 else self.score
        leaf: IntArray | None = None  # rows of the same leaf are neighbours; None: the nearest rows are
        if score.ndim == 1:
            score = score[tested]
            near = 2 * reach(tested.size)
            leaf = _cut_into_blocks(score, near)
            size = np.bincount(leaf)[leaf].astype(np.float64)
        else:
            near = 2 * reach_of_classes(tested.size)
            if tested.size > NEAREST or score.shape[1] > _TREE:
                leaf = leaves(_find_points(score, tested, np.float32), near)
            else:
                points = np.ascontiguousarray(_find_points(score, tested, np.float64).T)
            size = np.full(tested.size, near + 1.0)
        if curved_residuals(loss, self.parts[0].law[tested[:1]], y[tested[:1]], size[:1]) is None:
            return None
        if leaf is None:
            # rows at the same distance are neighbours in an order of their own, not in that in which they came
            order = np.lexsort((w[tested], y[tested], *self.home[:, tested], *points.T))
            tested, points = tested[order], points[order]
        clusters = None if groups is None else groups[tested]
        home, weights = self.home[:, tested], w[tested]

        def curve(part: FittedLaw, some: IntArray) -> FloatArray:
            rows = tested[some]
            return np.asarray(curved_residuals(loss, part.law[rows], y[rows], size[some]))

        if leaf is None:
            curved = np.stack([curve(part, np.arange(tested.size)) for part in self.parts])
            found = nearest_products(curved, home, weights, points, near, clusters)
        else:
            width = 1 if score.ndim == 1 else score.shape[1]
            laws = [part.law for part in self.parts]
            if loss.takes_any_array and all(isinstance(law, LazyLaw) and is_foreign(law.place) for law in laws):
                floor = 0.5 / max(near, 2.0)
                found = leaf_products_in_place(laws, loss, y, floor, tested, home, weights, leaf, clusters)
                return None if found is None else found.spread_out(tested, n)
            found = leaf_products([partial(curve, part) for part in self.parts], home, weights, leaf, clusters, width)
        return None if found is None else found.spread_out(tested, n)


#: Classes by whose probabilities rows are near each other, where there are more; and rows that say which these are.
_NEAR_IN, _LOOKED_AT = 64, 8192


def _find_points(score: FloatArray, rows: IntArray, dtype: Any) -> FloatArray:
    """
    Points whose distances are those of probabilities, a column for each row of the score.

    They are square roots, of the classes that vary most where there are many.
    """
    classes = np.arange(score.shape[1])
    if classes.size > _NEAR_IN:
        some = read_block(score, rows[:: -(-rows.size // _LOOKED_AT)])
        xp = namespace(some)
        spread = to_host(xp.var(xp.sqrt(some), axis=0))
        classes = np.sort(np.argsort(-spread, kind="stable")[:_NEAR_IN])
    points = np.empty((classes.size, rows.size), dtype)
    step = score.step if isinstance(score, LazyLaw) else 4096
    for first in range(0, rows.size, step):
        block = read_block(score, rows[first : first + step])
        xp = namespace(block)
        if classes.size < score.shape[1]:
            block = xp.take(block, like(classes, block), axis=1)
        points[:, first : first + step] = to_host(convert(xp.sqrt(block), getattr(xp, np.dtype(dtype).name))).T
    return points


def _cut_into_blocks(score: FloatArray, size: int) -> IntArray:
    """Blocks of about so many rows in order of the score; `TIED` rows of the same score are a block of their own."""
    values, inverse, count = np.unique(score, return_inverse=True, return_counts=True)
    tied = count >= TIED
    block = np.zeros(values.size, dtype=np.intp)
    upto = np.cumsum(np.where(tied, 0, count))
    block[~tied] = (upto[~tied] - 1) // size
    block[tied] = int(block.max()) + 1 + np.arange(int(tied.sum()))
    return np.unique(block[inverse], return_inverse=True)[1]


def curved_residuals(loss: ProperLoss, law: FloatArray, y: IntArray, rows: FloatArray) -> FloatArray | None:
    """(−½∇²ℰ)^½(e_y − law) by row; None where the curvature of a loss is not known or not continuous."""
    if not loss.strictly_proper:
        return None
    if law.ndim == 1 or law.shape[1] == 2:
        vector = as_vector(law)
        return residuals(loss, vector, (y == 1).astype(np.float64), rows)[:, None]
    return loss.curved(law, y, 0.5 / np.maximum(rows - 1.0, 2.0))


@dataclass(frozen=True)
class LevelFits(_PartFits):
    """A level above C, fitted in some of C's partitions; its rows are C's less what it gains there."""

    base: Any  # the law C, in all partitions
    below: Sequence[FloatArray]  # the law C in each partition of this level
    parts: Sequence[FittedLaw]  # the law of this level in each

    def clip_at(self, distance: float | None) -> LevelFits:
        """The same, kept away from 0 and 1."""
        if distance is None:
            return self
        below = [clip_law(law, distance) for law in self.below]
        return LevelFits(self.base.clip_at(distance), below, [part.clip_at(distance) for part in self.parts])

    def rows(self, some: IntArray) -> LevelFits:
        """The same for some of the rows."""
        below, parts = [law[some] for law in self.below], [part.rows(some) for part in self.parts]
        return LevelFits(self.base.rows(some), below, parts)

    def losses(self, loss: ProperLoss, y: IntArray) -> FloatArray:
        """Loss of the level in every row."""
        gains = [
            loss.evaluate(part.law, y) - loss.evaluate(law, y) for part, law in zip(self.parts, self.below, strict=True)
        ]
        return np.asarray(self.base.losses(loss, y) + np.mean(gains, axis=0))

    def divergences(self, loss: ProperLoss, coarse: FloatArray, fit: Any) -> FloatArray:
        """Divergence of the level below, given or fitted in the same partitions, from this one."""
        if fit is None:
            return self._mean(lambda part: loss.evaluate_divergence(coarse, part.law))
        if not isinstance(fit, LevelFits) and fit is not self.base:  # C of another score
            return self._mean(lambda part: fit.divergences_from(loss, part.law))
        below = [part.law for part in fit.parts] if isinstance(fit, LevelFits) else self.below
        pairs = zip(below, self.parts, strict=True)
        return np.asarray(np.mean([loss.evaluate_divergence(law, part.law) for law, part in pairs], axis=0))


# ── the second-order term B: how far Ĉ is from C, bias included, from products of residuals of neighbours ──
# A row and a neighbour that the same model did not see have independent residuals, so the product of the two estimates
# (C − Ĉ)² there, whatever the shape of C, as long as C hardly changes between neighbours (docs/statistics.md).

#: From this many rows of the same score on, they are neighbours only of each other.
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
    def of(count: FloatArray, alone: NDArray[np.bool_]) -> Windows:
        """Cells within `reach` ranks, or a cell by itself where its rows are tied."""
        upto = np.cumsum(count)
        middle = upto - 0.5 * count
        m = reach(round(float(count.sum()))) + 1e-6
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
    weight = loss.evaluate_weight(inside.ravel()).reshape(inside.shape)
    return np.sqrt(0.5 * weight) * (outcome - law)


class Second(NamedTuple):
    """Rows b, whose mean B is how far Ĉ is from C; and the part D of the variance of B that is there even if Ĉ = C."""

    rows: FloatArray
    degenerate: float

    def spread_out(self, rows: IntArray, n: int) -> Second:
        """The same among all rows, where these are the rows it was computed for."""
        out = np.zeros(n)
        out[rows] = self.rows
        return Second(out, self.degenerate)


class Pairs(NamedTuple):
    """What rows of a fold and their neighbours hold, whatever the loss: sums over partitions and folds."""

    windows: Windows
    mass: FloatArray  # (P, K, 2, G)
    squares: FloatArray
    weight: FloatArray  # (2, G): Σ ω_i ω_j over pairs of a row and a neighbour

    @staticmethod
    def of(mass: FloatArray, squares: FloatArray, windows: Windows) -> Pairs:
        nearby_mass = windows.sums(mass[:, :, 0] + mass[:, :, 1])
        weight = np.einsum("pkyg,pkg->yg", mass, nearby_mass) - squares.sum(axis=(0, 1))
        return Pairs(windows, mass, squares, weight)

    def products(self, q: FloatArray) -> Second | None:
        """Mean product of the residual of a row and of its neighbours in its fold, by outcome and cell."""
        known = self.weight > 1e-9 * float(self.mass.max())
        if not known.any():  # B is unknown, not 0
            return None
        v = self.mass * q
        near = self.windows.sums(v[:, :, 0] + v[:, :, 1])
        own = v * q if self.squares is self.mass else self.squares * q**2
        spread = self.windows.sums(own[:, :, 0] + own[:, :, 1])
        total = np.einsum("pkyg,pkg->yg", v, near) - own.sum(axis=(0, 1))
        line = self.mass[0].sum(axis=0)
        held = float(line[known].sum())  # rows without a neighbour are taken to be as the others
        rows = np.divide(total, self.weight, out=np.zeros(total.shape), where=known) * (float(line.sum()) / held)
        if self.squares is self.mass:
            fourth = np.einsum("pkyg,pkyg->yg", own, q**2)
        else:  # Σω⁴ of rows of about the same weight
            ratio = np.divide(self.squares, self.mass, out=np.zeros(self.mass.shape), where=self.mass > 0.0)
            fourth = np.einsum("pkyg,pkyg->yg", own * ratio**2, q**2)
        square = np.einsum("pkyg,pkg->yg", own, spread) - fourth
        each = np.divide(line**2 * np.maximum(square, 0.0), self.weight**2, out=np.zeros(total.shape), where=known)
        return Second(rows, float(inflation(*self.mass.shape[:2]) * each.sum() / held**2))


def inflation(partitions: int, folds: int) -> float:
    """A pair counts twice, and the same pair meets in about one of `folds` partitions."""
    return 2.0 * (1.0 + (partitions - 1) / folds)


def leaves(points: FloatArray, size: int) -> IntArray:
    """The leaf of each column of a tree that halves the widest direction until a leaf holds at most `size` columns."""
    leaf = np.zeros(points.shape[1], dtype=np.intp)
    todo, count = [(np.arange(points.shape[1]), points)], 0
    while todo:
        rows, part = todo.pop()
        spread = part.max(axis=1) - part.min(axis=1)
        if rows.size <= size or not spread.max() > 0.0:
            leaf[rows] = count
            count += 1
            continue
        column = part[int(spread.argmax())]
        half = rows.size // 2
        cut = np.partition(column, half)[half]
        left = column < cut
        if not left.any():
            left = column <= cut
        todo += [(rows[some], part.take(some, axis=1)) for some in (np.flatnonzero(left), np.flatnonzero(~left))]
    return leaf


#: Rows and classes up to which neighbours are the nearest ones; beyond, those of the same leaf: this is faster, and in
#: many directions no row is near.
NEAREST, _TREE = 20_000, 12
#: Pairs of a row and a neighbour that are computed at a time.
_BLOCK = 1 << 20


def nearest_products(
    q: FloatArray, home: IntArray, weight: FloatArray, points: FloatArray, count: int, groups: IntArray | None
) -> Second | None:
    """Mean inner product of the residuals of a row and of its nearest neighbours in its fold, for each row."""
    from sklearn.neighbors import KDTree

    n = points.shape[0]
    size = min(count + 1, n)
    tree = KDTree(points)
    home = home.astype(np.int16)  # whole tables of folds are compared
    total, pairs, square = np.zeros(n), np.zeros(n), np.zeros(n)
    step = max(1, _BLOCK // size)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        near = tree.query(points[rows], size, return_distance=False, sort_results=False)
        other = near != rows[:, None] if groups is None else groups[near] != groups[rows][:, None]
        for residual, place in zip(q, home, strict=True):
            pair = np.flatnonzero(other & (place[near] == place[rows][:, None]))  # few of a row's neighbours
            row, neighbour = pair // size, near.ravel()[pair]
            product = np.einsum("jc,jc->j", residual[rows[row]], residual[neighbour])
            weighted = weight[neighbour] * product
            total[rows] += np.bincount(row, weighted, rows.size)
            pairs[rows] += np.bincount(row, weight[neighbour], rows.size)
            square[rows] += np.bincount(row, weighted**2, rows.size)
    return _average(total, pairs, square, weight, inflation(len(q), int(home.max()) + 1))


def _average(
    total: FloatArray, pairs: FloatArray, square: FloatArray, weight: FloatArray, factor: float
) -> Second | None:
    """From sums over pairs of a row and a neighbour to means of each row; None where no row has a neighbour."""
    known = pairs > 1e-9 * float(weight.max())
    if not known.any():
        return None
    held = float(weight[known].sum())  # rows without a neighbour are taken to be as the others
    rows = np.divide(total, pairs, out=np.zeros(total.size), where=known) * (float(weight.sum()) / held)
    each = np.divide(weight**2 * np.maximum(square, 0.0), pairs**2, out=np.zeros(total.size), where=known)
    return Second(rows, float(factor * each.sum() / held**2))


def leaf_products(
    parts: Sequence[Callable[[IntArray], FloatArray]],
    home: IntArray,
    weight: FloatArray,
    leaf: IntArray,
    groups: IntArray | None,
    width: int,
) -> Second | None:
    """
    Mean inner product of the residuals of a row and of the others of its leaf and fold, for each row.

    `parts` give the residuals of some rows in each partition, of about this `width`.
    """
    folds = int(home.max()) + 1
    sums = np.zeros((3, leaf.size))
    for curve, place in zip(parts, home, strict=True):
        cell = leaf * folds + place
        order = np.argsort(cell, kind="stable")
        ends = np.append(np.flatnonzero(np.diff(cell[order])) + 1, order.size)
        first = 0
        while first < order.size:  # as many cells at a time as memory holds
            fits = ends[(ends > first) & (ends <= first + _BLOCK // width)]
            last = int(fits[-1] if fits.size else ends[ends > first][0])
            residual, start = curve(order[first:last]), first
            for end in ends[(ends > first) & (ends <= last)].tolist():
                rows = order[start:end]
                near = residual[start - first : end - first]
                sums[:, rows] += _pair_up(near, weight[rows], None if groups is None else groups[rows])
                start = end
            first = last
    total, pairs, square = sums
    return _average(total, pairs, square, weight, inflation(len(home), folds))


def leaf_products_in_place(
    laws: Sequence[LazyLaw],
    loss: ProperLoss,
    y: IntArray,
    floor: float,
    tested: IntArray,
    home: IntArray,
    weight: FloatArray,
    leaf: IntArray,
    groups: IntArray | None,
) -> Second | None:
    """
    The same where the laws live: rows of a leaf and fold side by side, filled up to the same number.

    `home`, `weight`, `leaf` and `groups` are those of the `tested` rows, `floor` what residuals take for the smallest
    probability.
    """
    folds = int(home.max()) + 1
    sums = np.zeros((3, leaf.size))
    for law, place in zip(laws, home, strict=True):
        cell = np.unique(leaf * folds + place, return_inverse=True)[1]
        order, size = np.argsort(cell, kind="stable"), np.bincount(cell)
        rank = np.arange(order.size) - np.repeat(np.cumsum(size) - size, size)
        table = np.full((size.size, int(size.max())), -1)
        table[cell[order], rank] = order
        step = max(1, DEVICE_BLOCK // (table.shape[1] * law.shape[1]))
        for first in range(0, table.shape[0], step):
            part = table[first : first + step]
            there, rows = part >= 0, np.maximum(part, 0)
            some = law.block(tested[rows.ravel()])
            xp = namespace(some)
            codes, floors = like(y[tested[rows.ravel()]], some), like(np.full(rows.size, floor), some, some.dtype)
            residual = xp.reshape(loss.curved(some, codes, floors), (*rows.shape, -1))
            inside, mass = (like(one, some, some.dtype) for one in (1.0 * there, np.where(there, weight[rows], 0.0)))
            key = like((rows if groups is None else groups[rows]).astype(np.int64), some)
            held = inside[:, :, None] * mass[:, None, :]
            held *= xp.astype(key[:, :, None] != key[:, None, :], some.dtype)
            weighted = multiply(residual, xp.matrix_transpose(residual)) * held
            found = [xp.sum(values, axis=2) for values in (weighted, held, weighted**2)]
            sums[:, rows[there]] += to_host(xp.stack(found))[:, there]
    total, pairs, square = sums
    return _average(total, pairs, square, weight, inflation(len(laws), folds))


def _pair_up(residual: FloatArray, weight: FloatArray, group: IntArray | None) -> FloatArray:
    """For each row the sums Σωrᵢrⱼ, Σω and Σ(ωrᵢrⱼ)² over all other rows, or over those of other groups."""
    n, width = residual.shape
    if group is None and n > 4 * width * width:  # many rows in few directions: their second moments say it all
        weighted = weight[:, None] * residual
        square = np.einsum("ij,ij->i", residual, residual)
        total = residual @ weighted.sum(axis=0) - weight * square
        squares = np.einsum("ij,ij->i", residual @ (weighted.T @ weighted), residual) - (weight * square) ** 2
        return np.stack([total, weight.sum() - weight, squares])
    out, key = np.empty((3, n)), np.arange(n) if group is None else group
    for some in row_blocks(n, n):
        apart = weight * (key[some, None] != key)
        weighted = (residual[some] @ residual.T) * apart
        out[:, some] = weighted.sum(axis=1), apart.sum(axis=1), np.square(weighted).sum(axis=1)
    return out
