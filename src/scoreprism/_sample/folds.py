"""Random folds: not stratified on the outcome, which would bias loss differences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import abbreviate, parse_count, parse_random_state, refuse
from scoreprism._core.simplex import IntArray
from scoreprism._sample.fit_rows import FitRows

#: Draws before giving up on folds whose training parts hold every class.
_DRAWS = 100


Split = tuple[NDArray[Any], NDArray[Any]]


def has_enough_rows(codes: IntArray, cv: object) -> bool:
    """Whether random folds can leave every class in every training part."""
    return not isinstance(cv, int) or (codes.shape[0] >= cv and int(np.bincount(codes).min()) >= 2)


def is_count(cv: object) -> bool:
    """Whether `cv` is, or should have been, a number of folds; not user-defined splits."""
    return cv is None or isinstance(cv, (int, np.integer, str, float))


def make_folds(cv: object, data: FitRows, random_state: object) -> list[Split]:
    """Random folds for a number; a splitter's or an iterable's own splits, of the rows as they came, otherwise."""
    if is_count(cv):
        return random_folds(data.codes, parse_count(cv, "cv", 2), parse_random_state(random_state))
    splits = parse_splits(cv, data, None, "folds must not test on rows they train on")
    for number, (train, _) in enumerate(splits):
        missing = np.flatnonzero(np.bincount(data.codes[train], minlength=data.k) == 0)
        if missing.size:
            refuse(
                "every class must be in the training part of every fold",
                f"none of class number {missing[0]} in fold {number}",
                "Use other splits.",
            )
    return splits


def parse_splits(cv: Any, data: FitRows, groups: IntArray | None, rule: str) -> list[Split]:
    """User-defined splits of all rows as splits of the rows with weight."""
    from sklearn.model_selection import check_cv

    labels = data.codes if data.origin is None else data.origin.labels
    splits = require_disjoint(check_cv(cv).split(np.zeros((len(labels), 1)), labels, groups), len(labels), rule)
    if data.origin is None:
        return splits
    position = np.full(len(labels), -1)
    position[data.origin.rows] = np.arange(data.origin.rows.size)
    parts = ((position[train], position[test]) for train, test in splits)
    return [(train[train >= 0], test[test >= 0]) for train, test in parts]


def require_disjoint(splits: Iterable[Split], n: int, rule: str) -> list[Split]:
    """Splits as row numbers from 0 on, of which none trains and tests on the same row."""
    rows = np.arange(n)
    pairs = [(rows[train], rows[test]) for train, test in splits]  # also masks and numbers from the end
    for number, (train, test) in enumerate(pairs):
        both = np.intersect1d(train, test)
        if both.size:
            refuse(
                rule,
                f"{both.size} rows in both parts of split {number} (row {abbreviate(both)})",
                "Use splits whose parts do not overlap.",
            )
    return pairs


def random_folds(codes: IntArray, cv: int, rng: np.random.Generator) -> list[Split]:
    """
    Training and test rows of each fold: random, of sizes that differ by at most one, each class in every training part.

    Stratifying on the outcome would make test parts depend on it and bias loss differences. Only what a fit needs is
    asked for: every class in training.
    """
    n = codes.shape[0]
    counts = np.bincount(codes)
    if n < cv or counts.min() < 2:
        rare = int(np.argmin(counts))
        refuse(
            f"cross-validation with {cv} folds must have at least {cv} rows and two rows of every class",
            f"{n} rows, {counts[rare]} of class number {rare}",
            "Use fewer folds, more rows, or a calibrator without cross-validation.",
        )
    splits: list[Split] = []
    for _ in range(_DRAWS):
        fold = rng.permutation(n) * cv // n
        splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(cv)]
        if all(np.bincount(codes[train], minlength=counts.size).min() > 0 for train, _ in splits):
            break
    else:
        refuse(
            "every class must be in the training part of every fold",
            f"{_DRAWS} random draws of {cv} folds without such a split; the rarest class has {counts.min()} rows",
            "Use more folds.",
        )
    return splits
