"""Random folds: not stratified on the outcome, which would bias loss differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._validation import plain, refuse
from scoreprism.simplex import IntArray

#: Draws before giving up on folds whose training parts hold every class.
_DRAWS = 100


def random_folds(codes: IntArray, cv: int, rng: np.random.Generator) -> list[tuple[NDArray[Any], NDArray[Any]]]:
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
    for _ in range(_DRAWS):
        fold = rng.permutation(n) * cv // n
        splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(cv)]
        if all(np.bincount(codes[train], minlength=counts.size).min() > 0 for train, _ in splits):
            return splits
    refuse(
        "every class must be in the training part of every fold",
        f"{_DRAWS} random draws of {cv} folds without such a split; the rarest class has {counts.min()} rows",
        "Use more folds.",
    )
