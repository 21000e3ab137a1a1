"""What a map does to the order of the scores: whether it keeps it, and its values put in that order."""

from __future__ import annotations

import numpy as np

from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.isotonic import isotonic_fit
from scoreprism._maps.parts import Map


def judge_order(fitted: Map, score: FloatArray) -> tuple[bool, bool]:
    """Whether a map keeps the order of the scores it was fitted on, and whether it makes different ones equal."""
    if score.ndim == 1:
        steps = np.diff(fitted(np.unique(score)))
        return bool((steps >= 0.0).all()), bool((steps == 0.0).any())
    law = fitted(score)
    order = np.argsort(score, axis=1, kind="stable")
    steps, before = (np.diff(np.take_along_axis(table, order, axis=1), axis=1) for table in (law, score))
    return bool((steps >= 0.0).all()), bool(((steps == 0.0) & (before > 0.0)).any())


def put_in_order(law: FloatArray, score: FloatArray, weight: FloatArray | None) -> FloatArray:
    """The nearest values that do not fall with the score; of several classes, the same values in the score's order."""
    if law.ndim == 1:
        return isotonic_fit(score, law, weight)
    rank = np.argsort(np.argsort(score, axis=1, kind="stable"), axis=1)
    return np.take_along_axis(np.sort(law, axis=1), rank, axis=1)
