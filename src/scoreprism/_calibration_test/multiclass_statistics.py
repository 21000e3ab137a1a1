"""Statistics of miscalibration for three classes or more.

Blocks of outcomes are codes of shape (m, rows), or numbers of each class of shape (m, lines, K) where a line stands for
several rows of one score and weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._calibration_test.binary_statistics import Bins, Walk, scales
from scoreprism._calibration_test.score_lines import Scored
from scoreprism._core.numerics import centered, scaled_axes
from scoreprism._core.simplex import FloatArray, IntArray

#: Features never see a probability below this, nor a log-ratio beyond that.
_LEAST, _FARTHEST = 1e-6, 10.0
#: Up to this many classes the polynomial map has products of log-ratios; beyond, each class sees its own square.
_FEW = 5


def _happened(y: FloatArray | IntArray, k: int) -> NDArray[Any]:
    """How often class k happened in each line."""
    return np.asarray(y == k if y.ndim == 2 else y[..., k])


def _log_ratios(law: FloatArray) -> FloatArray:
    """Log-probabilities minus their mean over classes, kept where squares cannot run away."""
    return np.asarray(np.clip(centered(np.log(np.maximum(law, _LEAST))), -_FARTHEST, _FARTHEST))


@dataclass(frozen=True)
class ScoreTest:
    """
    Rao's score statistic uᵀ Var(u)⁻ u of the identity in a family of softmax maps.

    u is the slope of the log-likelihood at the identity, Var(u) its variance under Y ~ Cat(S); asymptotically the
    likelihood ratio, without a fit. `features[k]` holds what the log-odds of class k may depend on.
    """

    features: list[FloatArray]
    centre: list[FloatArray]
    root: list[FloatArray]

    @classmethod
    def of(cls, data: Scored, features: list[FloatArray], *, tied: bool = False) -> ScoreTest:
        """Prepare features, one table per class and their variance under the hypothesis (`tied`: one slope for all)."""
        expected = data.law * data.size[:, None]
        weighed = [column * data.weight[:, None] for column in features]
        mean = np.concatenate([w * data.law[:, [k]] for k, w in enumerate(weighed)], axis=1)
        mean *= np.sqrt(data.size)[:, None]
        variance = -mean.T @ mean
        start = 0
        for k, w in enumerate(weighed):
            own = slice(start, start + w.shape[1])
            variance[own, own] += (w.T * expected[:, k]) @ w
            start = own.stop
        if tied:
            total = float(variance.sum())
            root = np.full((variance.shape[0], 1), 1.0 / np.sqrt(total) if total > 0.0 else 0.0)
        else:
            root = _inverse_root(variance)
        split = np.cumsum([w.shape[1] for w in weighed])[:-1]
        return cls(weighed, [w.T @ expected[:, k] for k, w in enumerate(weighed)], np.split(root, split, axis=0))

    def __call__(self, y: FloatArray | IntArray) -> FloatArray:
        total = np.zeros((y.shape[0], self.root[0].shape[1]))
        for k, weighed in enumerate(self.features):
            total += (_happened(y, k).astype(np.float64) @ weighed - self.centre[k]) @ self.root[k]
        return np.asarray((total**2).sum(axis=1))


def _inverse_root(variance: FloatArray) -> FloatArray:
    """R with uᵀ Var⁻ u = ‖Rᵀu‖², directions without variance left out."""
    scale, sizes, axes = scaled_axes(variance, 1e-9, 1e-12)
    root: FloatArray = (axes / np.sqrt(sizes)) / scale[:, None]
    return root


def score_vector(data: Scored) -> ScoreTest:
    """Against vector scaling softmax(a_k z_k + b_k)."""
    z = _log_ratios(data.law)
    return ScoreTest.of(data, [np.column_stack([np.ones(data.lines), z[:, k]]) for k in range(data.k)])


def score_temperature(data: Scored) -> ScoreTest:
    """Against temperature scaling softmax(a z): over- and underconfidence alone."""
    z = _log_ratios(data.law)
    return ScoreTest.of(data, [z[:, [k]] for k in range(data.k)], tied=True)


def score_polynomial(data: Scored) -> ScoreTest:
    """Against a quadratic map of log-ratios: all squares and products up to five classes, own squares beyond."""
    z = _log_ratios(data.law)
    ones = np.ones(data.lines)
    if data.k > _FEW:
        return ScoreTest.of(data, [np.column_stack([ones, z[:, k], z[:, k] ** 2]) for k in range(data.k)])
    free = z[:, :-1]
    first, second = np.triu_indices(data.k - 1)
    table = np.column_stack([ones, free, free[:, first] * free[:, second]])
    return ScoreTest.of(data, [table] * data.k)


@dataclass(frozen=True)
class Classwise:
    """One walk per class, in the order of that class's probability."""

    orders: list[IntArray]
    walks: list[Walk]

    @classmethod
    def of(cls, data: Scored) -> Classwise:
        """Sort every column once."""
        orders = [np.lexsort((data.weight, column)) for column in data.law.T]
        columns = zip(orders, data.law.T, strict=True)
        walks = [Walk.of(column[order], data.weight[order], data.size[order]) for order, column in columns]
        return cls(orders, walks)

    def hits(self, y: FloatArray | IntArray, k: int) -> FloatArray:
        """How often class k happened, in the order of its probability."""
        return np.take(_happened(y, k), self.orders[k], axis=1).astype(np.float64)


@dataclass(frozen=True)
class ClasswiseKuiper:
    """The largest Kuiper statistic of one class against the rest."""

    parts: Classwise

    def __call__(self, y: FloatArray | IntArray) -> FloatArray:
        best = np.zeros(y.shape[0])
        for k, walk in enumerate(self.parts.walks):
            best = np.maximum(best, walk.range(self.parts.hits(y, k)))
        return best


@dataclass(frozen=True)
class ClasswiseBins:
    """Debiased squared deviations in bins of each class's probability, added over classes; the largest over scales."""

    parts: Classwise
    scales: list[tuple[int, ...]]

    def __call__(self, y: FloatArray | IntArray) -> FloatArray:
        total = np.zeros((y.shape[0], len(self.scales[0])))
        for k, walk in enumerate(self.parts.walks):
            total += walk.excess(self.parts.hits(y, k), self.scales[k])
        return np.asarray(total.max(axis=1) / np.sqrt(len(self.parts.walks)))


@dataclass(frozen=True)
class TopLabel:
    """The two-class bins of the most probable class: does it happen as often as its probability says?"""

    order: IntArray
    best: IntArray
    bins: Bins

    def __call__(self, y: FloatArray | IntArray) -> FloatArray:
        if y.ndim == 3:
            return self.bins(y[:, self.order, self.best].astype(np.float64))
        return self.bins(np.take(y, self.order, axis=1) == self.best)


def kuiper(data: Scored) -> ClasswiseKuiper:
    """Classwise range of cumulative differences."""
    return ClasswiseKuiper(Classwise.of(data))


def bins(data: Scored) -> ClasswiseBins:
    """Classwise bins of several sizes."""
    return ClasswiseBins(Classwise.of(data), [scales(column, data.size) for column in data.law.T])


def top_label(data: Scored) -> TopLabel:
    """Bins of the most probable class."""
    best, law = data.law.argmax(axis=1), data.law.max(axis=1)
    order = np.lexsort((data.weight, law))
    walk = Walk.of(law[order], data.weight[order], data.size[order])
    return TopLabel(order, best[order], Bins(walk, scales(law, data.size)))
