"""Regions of the features in words: a small tree on one half of the rows, judged on the other half."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.frames import column_names
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.holm import holm
from scoreprism._kernels.term_intervals import quantile
from scoreprism._sample.features import Categorical
from scoreprism._sample.level import FeatureBlock
from scoreprism._sample.wide_columns import WideColumns
from scoreprism.report._subject import RowSubject

#: Leaves of the tree, rows of a leaf at least, rows in all below which there is no point, and rows or clusters that can
#: judge a region.
LEAVES, LEAST, FEW, UNITS = 8, 25, 200, 8
#: Categories named in a rule before it says "and n more".
_NAMED = 4


@dataclass(frozen=True)
class Region:
    """A part of the feature space, and how outcomes there differ from the recalibrated score."""

    words: str  # the rule
    rows: int  # rows in it that were not used to find it
    calibrated: float  # mean recalibrated score
    observed: float  # event rate
    std_error: float  # standard error of their difference
    pvalue: float  # two-sided, adjusted by Holm's method over the regions

    @property
    def difference(self) -> float:
        """Observed minus expected."""
        return self.observed - self.calibrated

    def interval(self, level: float) -> tuple[float, float]:
        """Normal interval of the difference."""
        reach = quantile(level, two_sided=True) * self.std_error
        return self.difference - reach, self.difference + reach


@dataclass(frozen=True)
class Condition:
    """A column of the tree's table: a number to be compared, or a category that holds or does not."""

    feature: str
    category: str | None = None
    missing: bool = False


def find_regions(model: RowSubject, features: FeatureBlock, seed: int) -> list[Region]:
    """Where a model is wrong at equal scores."""
    from sklearn.tree import DecisionTreeRegressor

    n, groups = model.n, model.sample.groups
    if n < FEW:
        return []
    table, conditions = make_readable(features.columns, name_features(features.table))
    residual = model.sample.y - model.calibrated
    weight = np.ones(n) if model.sample.weight is None else model.sample.weight
    found = _draw_half(n, groups, seed)
    least = max(LEAST, n // 40)
    tree = DecisionTreeRegressor(max_leaf_nodes=LEAVES, min_samples_leaf=least, random_state=0)
    tree.fit(table[found], residual[found], sample_weight=weight[found])
    if tree.tree_.node_count == 1:
        return []
    judged = np.flatnonzero(~found)
    leaf = tree.apply(table[judged])
    rules = list_rules(tree.tree_, conditions)
    inside = {words: judged[leaf == node] for node, words in rules.items()}
    regions = [
        _judge_region(model, rows, weight, words)
        for words, rows in inside.items()
        if _count_units(model, rows) >= UNITS
    ]
    adjusted = holm([region.pvalue for region in regions])
    settled = [replace(region, pvalue=p) for region, p in zip(regions, adjusted, strict=True)]
    return sorted(settled, key=lambda region: (region.pvalue, -abs(region.difference)))


def _draw_half(n: int, groups: NDArray[Any] | None, seed: int) -> NDArray[np.bool_]:
    """Half of the rows, or of the clusters."""
    rng = np.random.default_rng(seed)
    if groups is None:
        return np.asarray(rng.permutation(n) % 2 == 0)
    return np.asarray((rng.permutation(int(groups.max()) + 1) % 2 == 0)[groups])


def _judge_region(model: RowSubject, rows: NDArray[Any], weight: FloatArray, words: str) -> Region:
    """Observed against expected, with the larger of the error that C foresees and that of the residuals."""
    from scipy.special import stdtr

    share = weight[rows] / weight[rows].sum()
    y, c = model.sample.y[rows].astype(np.float64), model.calibrated[rows]
    difference = float(share @ (y - c))
    off = share * (y - c - difference)
    if model.sample.groups is not None:
        off = np.bincount(np.unique(model.sample.groups[rows], return_inverse=True)[1], off)
    spread = float(off @ off) * off.size / max(off.size - 1, 1)
    error = math.sqrt(max(float(share**2 @ (c * (1.0 - c))), spread))
    z = abs(difference) / error if error > 0 else 0.0
    p = 2.0 * float(stdtr(max(off.size - 1, 1), -z))  # t: clusters may be few
    return Region(words, rows.size, float(share @ c), float(share @ y), error, p)


def _count_units(model: RowSubject, rows: NDArray[Any]) -> int:
    """Rows, or clusters of them."""
    return int(rows.size if model.sample.groups is None else np.unique(model.sample.groups[rows]).size)


def make_readable(columns: Sequence[NDArray[Any]], names: Sequence[str]) -> tuple[FloatArray, list[Condition]]:
    """A table that a tree can split and people can read: numbers as they are, one column per category."""
    parts: list[FloatArray] = []
    conditions: list[Condition] = []
    for values, name in zip(columns, names, strict=True):
        if values.dtype.kind == "f":
            gone = np.isnan(values)
            middle = float(np.median(values[~gone])) if (~gone).any() else 0.0
            parts.append(np.where(gone, middle, values))
            conditions.append(Condition(name))
            if gone.any():
                parts.append(gone.astype(np.float64))
                conditions.append(Condition(name, missing=True))
            continue
        kind = Categorical.fit(values)
        for level in kind.levels[:1] if kind.contrast else kind.levels:
            parts.append((values == level).astype(np.float64))
            conditions.append(Condition(name, category=str(level)))
    return np.column_stack(parts), conditions


def list_rules(tree: Any, conditions: Sequence[Condition]) -> dict[int, str]:
    """The leaves of a tree, in words."""
    rules: dict[int, str] = {}
    paths: list[tuple[int, list[tuple[int, float, bool]]]] = [(0, [])]
    while paths:
        node, path = paths.pop()
        if tree.children_left[node] < 0:
            rules[node] = _write_path(path, conditions)
            continue
        step = (int(tree.feature[node]), float(tree.threshold[node]))
        paths.append((int(tree.children_left[node]), [*path, (*step, True)]))
        paths.append((int(tree.children_right[node]), [*path, (*step, False)]))
    return rules


def _write_path(path: Sequence[tuple[int, float, bool]], conditions: Sequence[Condition]) -> str:
    """All steps of a path, those of one feature together."""
    by_feature: dict[str, list[tuple[Condition, float, bool]]] = {}
    for column, threshold, below in path:
        condition = conditions[column]
        by_feature.setdefault(condition.feature, []).append((condition, threshold, below))
    return " and ".join(part for name, steps in by_feature.items() for part in _write_feature(name, steps))


def _write_feature(name: str, steps: Sequence[tuple[Condition, float, bool]]) -> list[str]:
    parts = []
    gone = [not below for condition, _, below in steps if condition.missing]
    if gone:
        parts.append(f"{name} is {'missing' if gone[0] else 'known'}")
    numbers = [(t, below) for condition, t, below in steps if condition.category is None and not condition.missing]
    low = max((t for t, below in numbers if not below), default=None)
    high = min((t for t, below in numbers if below), default=None)
    if low is not None and high is not None:
        parts.append(f"{_write_number(low)} < {name} ≤ {_write_number(high)}")
    elif high is not None:
        parts.append(f"{name} ≤ {_write_number(high)}")
    elif low is not None:
        parts.append(f"{name} > {_write_number(low)}")
    chosen = [condition.category for condition, _, below in steps if condition.category is not None and not below]
    others = [condition.category for condition, _, below in steps if condition.category is not None and below]
    if chosen:
        parts.append(f"{name} is {chosen[0]}")
    elif others:
        named = ", ".join(str(word) for word in others[:_NAMED])
        parts.append(f"{name} is not {named}" + (f" or {len(others) - _NAMED} more" if len(others) > _NAMED else ""))
    return parts


def _write_number(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def name_features(X: Any) -> list[str]:
    """Names of the columns of a frame; numbers for those of an array."""
    names = column_names(X)
    if names is not None:
        return [str(name) for name in names]
    shape = np.shape(X)
    return [f"x{j}" for j in range(shape[1] if len(shape) > 1 else 1)]


def is_unnamed(features: FeatureBlock) -> bool:
    """Whether these are embeddings whose columns have no names: alone they mean nothing to a reader."""
    return isinstance(features.columns, WideColumns) and column_names(features.table) is None
