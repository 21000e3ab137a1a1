"""Random folds: not stratified on the outcome, which would bias loss differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._validation import listed, parse_count, parse_random_state, plain, refuse
from scoreprism.calibrators._data import Data
from scoreprism.simplex import IntArray

#: Draws before giving up on folds whose training parts hold every class.
_DRAWS = 100


Split = tuple[NDArray[Any], NDArray[Any]]


def enough_rows(codes: IntArray, cv: object) -> bool:
    """Whether random folds can leave every class in every training part."""
    return not isinstance(cv, int) or (codes.shape[0] >= cv and int(np.bincount(codes).min()) >= 2)


def make_folds(cv: object, data: Data, random_state: object) -> list[Split]:
    """Random folds for a number; a splitter's or an iterable's own splits, of the rows as they came, otherwise."""
    if cv is None or isinstance(cv, (int, np.integer, str, float)):
        return random_folds(data.codes, parse_count(cv, "cv", 2), parse_random_state(random_state))
    from sklearn.model_selection import check_cv

    labels = data.codes if data.origin is None else data.origin.labels
    splits = list(check_cv(cv).split(np.zeros((len(labels), 1)), labels))
    for number, (train, test) in enumerate(splits):
        both = np.intersect1d(train, test)
        if both.size:
            refuse(
                "folds must not test on rows they train on",
                f"{both.size} rows in both parts of fold {number} (row {listed(both)})",
                "Use splits whose parts do not overlap.",
            )
    if data.origin is None:
        return splits
    position = np.full(len(labels), -1)
    position[data.origin.rows] = np.arange(data.origin.rows.size)
    return [(_kept(position[train]), _kept(position[test])) for train, test in splits]


def _kept(position: NDArray[Any]) -> NDArray[Any]:
    """Positions of rows that are still there."""
    return position[position >= 0]


def random_folds(codes: IntArray, cv: int, rng: np.random.Generator) -> list[Split]:
    """
    Training and test rows of each fold: random, of sizes that differ by at most one, each class in every training part.

    Stratifying on the outcome would make test parts depend on it: in a calibrated sample the difference form is
    then biased by 4e-4 (docs/statistics.md). Only what a fit needs is asked for: every class in training.
    """
    n = codes.shape[0]
    counts = np.bincount(codes)
    if n < cv or counts.min() < 2:
        rare = int(np.argmin(counts))
        refuse(
            f"cross-validation with {cv} folds must have at least {cv} rows and two rows of every class",
            f"{n} rows, {counts[rare]} of class {plain(rare)}",
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
