"""Statistics of miscalibration for three classes or more.

Blocks of outcomes are codes of shape (m, rows), or numbers of each class of shape (m, lines, K) where a line stands for
several rows of one score and weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._calibration_test.binary_statistics import Walk, scales
from scoreprism._calibration_test.binary_statistics import bins as binary_bins
from scoreprism._calibration_test.null_draws import Statistic
from scoreprism._calibration_test.score_lines import ScoreLines
from scoreprism._core.numerics import center_logs, scaled_axes
from scoreprism._core.simplex import FloatArray, IntArray

#: Features never see a probability below this, nor a log-ratio beyond that.
_LEAST, _FARTHEST = 1e-6, 10.0
#: Up to this many classes the polynomial map has products of log-ratios; beyond, each class sees its own square.
_FEW = 5


def _count_class(y: FloatArray | IntArray, k: int) -> NDArray[Any]:
    """How often class k happened in each line."""
    return np.asarray(y == k if y.ndim == 2 else y[..., k])


def _log_ratios(law: FloatArray) -> FloatArray:
    """Log-probabilities minus their mean over classes, kept where squares cannot run away."""
    return np.asarray(np.clip(center_logs(np.log(np.maximum(law, _LEAST))), -_FARTHEST, _FARTHEST))


def _score_test(data: ScoreLines, features: list[FloatArray], *, tied: bool = False) -> Statistic:
    """
    Rao's score statistic uᵀ Var(u)⁻ u of the identity in a family of softmax maps.

    u is the slope of the log-likelihood at the identity, Var(u) its variance under Y ~ Cat(S); asymptotically the
    likelihood ratio, without a fit. `features[k]` holds what the log-odds of class k may depend on (`tied`: with one
    slope for all classes).
    """
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
    roots = np.split(root, np.cumsum([w.shape[1] for w in weighed])[:-1], axis=0)
    centres = [w.T @ expected[:, k] for k, w in enumerate(weighed)]

    def statistic(y: FloatArray | IntArray) -> FloatArray:
        total = np.zeros((y.shape[0], root.shape[1]))
        for k, (w, centre, own) in enumerate(zip(weighed, centres, roots, strict=True)):
            total += (_count_class(y, k).astype(np.float64) @ w - centre) @ own
        return np.asarray((total**2).sum(axis=1))

    return statistic


def _inverse_root(variance: FloatArray) -> FloatArray:
    """R with uᵀ Var⁻ u = ‖Rᵀu‖², directions without variance left out."""
    scale, sizes, axes = scaled_axes(variance, 1e-9, 1e-12)
    root: FloatArray = (axes / np.sqrt(sizes)) / scale[:, None]
    return root


def score_vector(data: ScoreLines) -> Statistic:
    """Against vector scaling softmax(a_k z_k + b_k)."""
    z = _log_ratios(data.law)
    return _score_test(data, [np.column_stack([np.ones(data.lines), z[:, k]]) for k in range(data.k)])


def score_temperature(data: ScoreLines) -> Statistic:
    """Against temperature scaling softmax(a z): over- and underconfidence alone."""
    z = _log_ratios(data.law)
    return _score_test(data, [z[:, [k]] for k in range(data.k)], tied=True)


def score_polynomial(data: ScoreLines) -> Statistic:
    """Against a quadratic map of log-ratios: all squares and products up to five classes, own squares beyond."""
    z = _log_ratios(data.law)
    ones = np.ones(data.lines)
    if data.k > _FEW:
        return _score_test(data, [np.column_stack([ones, z[:, k], z[:, k] ** 2]) for k in range(data.k)])
    free = z[:, :-1]
    first, second = np.triu_indices(data.k - 1)
    table = np.column_stack([ones, free, free[:, first] * free[:, second]])
    return _score_test(data, [table] * data.k)


class _Classwise:
    """One walk per class, in the order of that class's probability."""

    def __init__(self, data: ScoreLines) -> None:
        self._orders = [np.lexsort((data.weight, column)) for column in data.law.T]
        columns = zip(self._orders, data.law.T, strict=True)
        self._walks = [Walk.of(column[order], data.weight[order], data.size[order]) for order, column in columns]

    def __call__(self, y: FloatArray | IntArray) -> Iterator[tuple[Walk, FloatArray]]:
        """Of each class its walk, and how often it happened, in the order of its probability."""
        for k, (walk, order) in enumerate(zip(self._walks, self._orders, strict=True)):
            yield walk, np.take(_count_class(y, k), order, axis=1).astype(np.float64)


def kuiper(data: ScoreLines) -> Statistic:
    """The largest Kuiper statistic of one class against the rest."""
    parts = _Classwise(data)
    return lambda y: np.asarray(np.max([walk.range(hits) for walk, hits in parts(y)], axis=0))


def bins(data: ScoreLines) -> Statistic:
    """Debiased squared deviations in bins of each class's probability, added over classes; the largest over scales."""
    parts, sizes = _Classwise(data), [scales(column, data.size) for column in data.law.T]

    def statistic(y: FloatArray | IntArray) -> FloatArray:
        excess = (walk.excess(hits, own) for (walk, hits), own in zip(parts(y), sizes, strict=True))
        return np.asarray(sum(excess, np.zeros(())).max(axis=1) / np.sqrt(data.k))

    return statistic


def top_label(data: ScoreLines) -> Statistic:
    """The two-class bins of the most probable class: does it happen as often as its probability says?"""
    best, law = data.law.argmax(axis=1), data.law.max(axis=1)
    order = np.lexsort((data.weight, law))
    best, count = best[order], None if data.count is None else data.count[order]
    statistic = binary_bins(replace(data, law=law[order], weight=data.weight[order], count=count))

    def of_best(y: FloatArray | IntArray) -> FloatArray:
        if y.ndim == 3:
            return statistic(y[:, order, best].astype(np.float64))
        return statistic(np.take(y, order, axis=1) == best)

    return of_best
