"""The parts of a fitted model, each with the rows as it would have received them in training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.frames import take_rows
from scoreprism._core.simplex import FloatArray, IntArray

#: How many members of an ensemble, and how many layers of wrappers, are looked at.
MEMBERS, _DEPTH = 3, 6


@dataclass(frozen=True)
class ModelPart:
    """A fitted model inside another, and the rows that it may have been trained on."""

    name: str  # what a user knows it by
    model: Any
    X: Any
    y: IntArray | None  # codes in the order of its classes
    k: int
    weight: FloatArray | None = None  # weights that may have been those of training
    draws: IntArray | None = None  # how often each row was drawn, where that is known
    step: bool = False  # a step of a pipeline, before the model

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0]) if hasattr(self.X, "shape") else len(self.X)

    def some(self, rows: NDArray[Any]) -> ModelPart:
        """The same with some of the rows."""
        y, weight = (None if one is None else one[rows] for one in (self.y, self.weight))
        return replace(self, X=take_rows(self.X, rows), y=y, weight=weight)

    def wrap_inner(self, model: Any, *, named: bool) -> ModelPart:
        """A model inside this one, on the same rows; it has a name of its own, or goes by that of the whole."""
        labels = getattr(model, "classes_", None)
        y = self.y if labels is None or len(labels) == self.k else None
        return replace(self, model=model, y=y, name=type(model).__name__ if named else self.name, draws=None)


def iterate_parts(part: ModelPart, depth: int = 0) -> Iterator[ModelPart]:
    """A model, and the models that it is made of."""
    if depth > _DEPTH:
        return
    yield part
    inner = _iterate_steps if getattr(part.model, "steps", None) else _unwrap
    for one, deeper in (*inner(part), *_iterate_members(part), *_iterate_folds(part), *_find_held_out(part)):
        if deeper:
            yield from iterate_parts(one, depth + 1)
        else:
            yield one


def _unwrap(part: ModelPart) -> Iterator[tuple[ModelPart, bool]]:
    """The models inside searches, thresholds and frozen estimators."""
    for attribute in ("best_estimator_", "estimator_", "base_estimator_"):
        if getattr(part.model, attribute, None) is not None:
            yield part.wrap_inner(getattr(part.model, attribute), named=attribute != "base_estimator_"), True
    if type(part.model).__name__ == "FrozenEstimator":
        yield part.wrap_inner(part.model.estimator, named=True), True


def _iterate_steps(part: ModelPart) -> Iterator[tuple[ModelPart, bool]]:
    """The steps of a pipeline, each on what the steps before make of the rows."""
    *before, (_, last) = part.model.steps
    at = part
    for _, step in before:
        if step is None or isinstance(step, str) or not hasattr(step, "transform"):
            continue
        for scaler, columns in _iterate_columns(step, at.X):
            yield replace(at, model=scaler, X=columns, step=True), False
        at = replace(at, X=step.transform(at.X))
    yield at.wrap_inner(last, named=True), True


def _iterate_columns(step: Any, X: Any) -> Iterator[tuple[Any, Any]]:
    """A transformer, or those of a column transformer with their columns."""
    if not hasattr(step, "transformers_"):
        yield step, X
        return
    from sklearn.utils import _safe_indexing

    for _, one, columns in step.transformers_:
        if hasattr(one, "transform") and not hasattr(one, "steps"):
            yield one, _safe_indexing(X, columns, axis=1)


def _iterate_members(part: ModelPart) -> Iterator[tuple[ModelPart, bool]]:
    """Members of an ensemble: on the rows that were drawn for them, where the draw can be repeated, and on all."""
    model = part.model
    members = getattr(model, "estimators_", None)
    if not isinstance(members, list):  # gradient boosting keeps its trees in an array: `leaves` reads them
        return
    redrawn_samples = _redraw_samples(model, part.rows)
    for number, member in enumerate(members[:MEMBERS]):
        features, rows = redrawn_samples[number] if number < len(redrawn_samples) else (None, None)
        whole = part.wrap_inner(member, named=False)
        if features is not None and len(features) != np.shape(part.X)[1]:
            whole = replace(whole, X=np.asarray(part.X)[:, features])
        if rows is not None and hasattr(member, "tree_"):
            distinct, times = np.unique(rows, return_counts=True)
            yield replace(whole.some(distinct), draws=times), False
        elif rows is not None:
            yield whole.some(rows), True
        yield whole, True


def _redraw_samples(model: Any, rows: int) -> list[tuple[Any, Any]]:
    """Features and rows that were drawn for the first members, if it was from as many rows."""
    if getattr(model, "_n_samples", None) != rows or not hasattr(model, "_get_estimators_indices"):
        return []
    if not getattr(model, "bootstrap", True) and not hasattr(model, "_max_samples"):
        return []
    samples = islice(model._get_estimators_indices(), MEMBERS)
    return [one if isinstance(one, tuple) else (None, one) for one in samples]


def _iterate_folds(part: ModelPart) -> Iterator[tuple[ModelPart, bool]]:
    """Classifiers that were calibrated: one for all rows, or one for each fold of a split that can be repeated."""
    model = part.model
    pairs = getattr(model, "calibrated_classifiers_", None) or getattr(model, "calibrated_", None)
    if not isinstance(pairs, list) or not hasattr(pairs[0], "estimator"):
        return
    members = [part.wrap_inner(pair.estimator, named=False) for pair in pairs[:MEMBERS]]
    if len(pairs) > 1 and part.y is not None:
        from sklearn.model_selection import check_cv

        splits = check_cv(model.cv, part.y, classifier=True).split(np.zeros(part.rows), part.y)
        for member, (train, _) in zip(members, splits, strict=False):
            yield member.some(train), True
    yield from ((member, True) for member in members)


def _find_held_out(part: ModelPart) -> Iterator[tuple[ModelPart, bool]]:
    """Rows that are left to boosting when it holds some out to stop early."""
    model = part.model
    if getattr(model, "do_early_stopping_", False):
        seed = getattr(model, "_random_seed", None)
    elif getattr(model, "n_iter_no_change", None) and isinstance(getattr(model, "estimators_", None), np.ndarray):
        seed = model.random_state
    else:
        return
    if part.y is None or not isinstance(seed, (int, np.integer)) or getattr(model, "validation_fraction", None) is None:
        return
    from sklearn.model_selection import train_test_split

    left, _ = train_test_split(
        np.arange(part.rows), test_size=model.validation_fraction, stratify=part.y, random_state=int(seed)
    )
    yield part.some(left), False
