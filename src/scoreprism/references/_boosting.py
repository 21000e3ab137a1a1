"""Small gradient boosting on bins that starts from a given law: what scikit-learn's boosting cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from scoreprism.references._features import BINS, Codes, Features
from scoreprism.simplex import FloatArray, IntArray

#: Codes 0 … BINS + 1.
_WIDTH = BINS + 2


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


@dataclass(frozen=True)
class Tree:
    """A tree of full depth: per level the feature and the largest code that goes left at each node; leaf values."""

    features: tuple[IntArray, ...]
    cuts: tuple[IntArray, ...]
    values: FloatArray

    def __call__(self, codes: Codes) -> FloatArray:
        return self.values[_route(codes, self.features, self.cuts)]


def _route(codes: Codes, features: tuple[IntArray, ...], cuts: tuple[IntArray, ...]) -> IntArray:
    """The leaf of every row."""
    node = np.zeros(codes.shape[1], dtype=np.intp)
    rows = np.arange(codes.shape[1])
    for feature, cut in zip(features, cuts, strict=True):
        right = codes[feature[node], rows] > cut[node]
        node = 2 * node + right
    return node


def _histograms(codes: Codes, node: IntArray, count: int, weights: FloatArray) -> FloatArray:
    """Sums of `weights` by node, feature and code: (count, p, width)."""
    out = np.empty((codes.shape[0], count, _WIDTH))
    start = node * _WIDTH
    for j, line in enumerate(codes):
        out[j] = np.bincount(start + line, weights, count * _WIDTH).reshape(count, _WIDTH)
    return out.transpose(1, 0, 2)


def _split(g: FloatArray, h: FloatArray, growth: Growth) -> tuple[IntArray, IntArray]:
    """The best feature and cut of every node, from histograms of gradient and curvature."""
    left_g, left_h = g.cumsum(axis=2)[:, :, :-1], h.cumsum(axis=2)[:, :, :-1]
    all_g, all_h = g.sum(axis=2, keepdims=True), h.sum(axis=2, keepdims=True)
    right_g, right_h = all_g - left_g, all_h - left_h
    gain = left_g**2 / (left_h + growth.ridge) + right_g**2 / (right_h + growth.ridge)
    gain -= all_g**2 / (all_h + growth.ridge)
    gain[(left_h < growth.leaf) | (right_h < growth.leaf)] = 0.0
    flat = gain.reshape(gain.shape[0], -1)
    best = flat.argmax(axis=1)
    feature, cut = np.divmod(best, _WIDTH - 1)
    none = flat[np.arange(flat.shape[0]), best] <= 0.0
    return feature, np.where(none, _WIDTH, cut)  # no gain: everything goes left


def grow(codes: Codes, g: FloatArray, h: FloatArray, growth: Growth) -> tuple[Tree, IntArray]:
    """A tree that lowers the loss with gradient −g and curvature h, and the leaf of every row."""
    features: tuple[IntArray, ...] = ()
    cuts: tuple[IntArray, ...] = ()
    node = np.zeros(g.shape[0], dtype=np.intp)
    rows = np.arange(g.shape[0])
    for level in range(growth.depth):
        sums = partial(_histograms, codes, node, 1 << level)
        feature, cut = _split(sums(g), sums(h), growth)
        node = 2 * node + (codes[feature[node], rows] > cut[node])
        features, cuts = (*features, feature), (*cuts, cut)
    size = 1 << growth.depth
    top, bottom = np.bincount(node, g, size), np.bincount(node, h, size) + growth.ridge
    return Tree(features, cuts, growth.rate * top / bottom), node


@dataclass(frozen=True)
class Recoding:
    """Categories in the order of their mean gradient: then one cut separates the high from the low."""

    tables: NDArray[np.uint8]

    @staticmethod
    def fitted(features: Features, g: FloatArray, h: FloatArray, ridge: float) -> Recoding:
        tables = np.tile(np.arange(_WIDTH, dtype=np.uint8), (features.codes.shape[0], 1))
        for j, categorical in enumerate(features.categorical):
            if categorical:
                top = np.bincount(features.codes[j], g, _WIDTH)
                mean = top / (np.bincount(features.codes[j], h, _WIDTH) + ridge)
                tables[j, np.argsort(mean, kind="stable")] = np.arange(_WIDTH)
        return Recoding(tables)

    def __call__(self, features: Features) -> Codes:
        if not any(features.categorical):
            return features.codes
        return np.stack([table[line] for table, line in zip(self.tables, features.codes, strict=True)])


@dataclass(frozen=True)
class Boosted:
    """Trees on top of a start: η after each asked-for number of stages."""

    recoding: Recoding
    trees: tuple[tuple[Tree, ...], ...]  # stage by stage, one tree per class (one for two classes)
    columns: tuple[IntArray, ...]

    def staged(self, features: Features, start: FloatArray, stages: tuple[int, ...]) -> Iterator[FloatArray]:
        """η of the rows after each of `stages`."""
        codes = self.recoding(features)
        eta = start.copy()
        for stage, (trees, columns) in enumerate(zip(self.trees, self.columns, strict=True), start=1):
            seen = codes[columns]
            if eta.ndim == 1:
                eta += trees[0](seen)
            else:
                eta += np.stack([tree(seen) for tree in trees], axis=1)
            if stage in stages:
                yield eta.copy()


def _gradients(eta: FloatArray, hit: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Minus the gradient and the curvature of the log loss, in the shape of η."""
    if eta.ndim == 1:
        p = 1.0 / (1.0 + np.exp(-np.clip(eta, -30.0, 30.0)))
        return weight * (hit - p), weight * np.maximum(p * (1.0 - p), 1e-6)
    e = np.exp(eta - eta.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return weight[:, None] * (hit - p), weight[:, None] * np.maximum(p * (1.0 - p), 1e-6)


def boost(
    features: Features,
    start: FloatArray,
    hit: FloatArray,
    weight: FloatArray,
    growth: Growth,
    rng: np.random.Generator,
) -> Boosted:
    """
    Newton boosting of the log loss from `start`.

    `start` is η, (n,) for two classes and (n, K) for more; `hit` the outcomes in the same shape.
    """
    g, h = _gradients(start, hit, weight)
    first_g, first_h = (g, h) if start.ndim == 1 else (g[:, -1], h[:, -1])
    recoding = Recoding.fitted(features, first_g, first_h, growth.ridge)
    codes = recoding(features)
    eta, p, n = start.copy(), codes.shape[0], codes.shape[1]
    stages, used = [], []
    for _ in range(growth.stages):
        columns = np.sort(rng.permutation(p)[: growth.columns]) if p > growth.columns else np.arange(p)
        rows = rng.integers(0, n, growth.rows) if n > 2 * growth.rows else slice(None)
        seen = codes[columns][:, rows]
        trees = []
        for k in range(1 if eta.ndim == 1 else eta.shape[1]):
            g_k, h_k = (v if v.ndim == 1 else np.ascontiguousarray(v[:, k]) for v in (g, h))
            tree, leaf = grow(seen, g_k[rows], h_k[rows], growth)
            step = tree.values[leaf] if isinstance(rows, slice) else tree(codes[columns])
            if eta.ndim == 1:
                eta += step
            else:
                eta[:, k] += step
            trees.append(tree)
        stages.append(tuple(trees))
        used.append(columns)
        g, h = _gradients(eta, hit, weight)
    return Boosted(recoding, tuple(stages), tuple(used))
