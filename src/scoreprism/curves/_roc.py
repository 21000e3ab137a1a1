"""The ROC curve and its convex hull: discrimination as it is, and as it would be after recalibration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.simplex import ArrayLike, FloatArray, frozen
from scoreprism._kernels.isotonic import isotonic_blocks, pool_ties
from scoreprism._sample.sample import Sample
from scoreprism.curves._base import Curve, parse_binary


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RocCurve(Curve):
    """
    True positives against false positives over all thresholds, and the convex hull.

    Made by `roc_curve`. The hull is the curve of the isotonically recalibrated score: what a monotone
    recalibration could make of the ranking.

    Attributes
    ----------
    fpr, tpr : array of shape (m,)
        Rates of false and true positives, from (0, 0) to (1, 1).
    thresholds : array of shape (m,)
        Scores at or above which a row counts as positive; infinite first.
    auc : float
        Area under the curve.
    hull_fpr, hull_tpr : array of shape (h,)
        Corners of the convex hull.
    hull_auc : float
        Area under the hull.

    Examples
    --------
    >>> curve = roc_curve([0, 1, 0, 1], [0.1, 0.3, 0.4, 0.8])
    >>> curve.auc, curve.hull_auc
    (0.75, 0.875)
    """

    fpr: FloatArray
    tpr: FloatArray
    thresholds: FloatArray
    auc: float
    hull_fpr: FloatArray
    hull_tpr: FloatArray
    hull_auc: float

    def _columns(self) -> dict[str, FloatArray]:
        return {"fpr": self.fpr, "tpr": self.tpr, "threshold": self.thresholds}

    def _about(self) -> str:
        return f"area {self.auc:.4f}, under the convex hull {self.hull_auc:.4f}"


def _climb(others: FloatArray, events: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Cumulative rates from the highest score down."""
    false = np.append(0.0, np.cumsum(others[::-1]))
    true = np.append(0.0, np.cumsum(events[::-1]))
    return false / false[-1], true / true[-1]


def _corners(x: FloatArray, y: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Points at which a path turns: those between two steps in the same direction can go without a trace."""
    dx, dy = np.diff(x), np.diff(y)
    straight = ((dx[:-1] == 0) & (dx[1:] == 0)) | ((dy[:-1] == 0) & (dy[1:] == 0))
    return np.concatenate([[True], ~straight, [True]])


def roc_curve(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    name: str | None = None,
) -> RocCurve:
    """
    The ROC curve, its area, and its convex hull.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Two-class outcomes, of which both must occur; or everything at once.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (2,), optional
        Labels in column order.
    name : str, optional
        The model.

    Returns
    -------
    RocCurve
        Corners of the curve and of the hull; points in the middle of a straight step are left out.

    Examples
    --------
    >>> roc_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).tpr
    array([0. , 0.5, 0.5, 1. , 1. ])
    """
    rows = parse_binary(y_true, y_proba, sample_weight, pos_label, classes)
    if not 0.0 < rows.rate < 1.0:
        rule = "a ROC curve must have events and non-events, both with weight"
        refuse(rule, "one of the two only", "Pass rows of both classes.")
    pooled = pool_ties(rows.score, rows.y, rows.weight)
    fpr, tpr = _climb(pooled.weight - pooled.events, pooled.events)
    kept = _corners(fpr, tpr)
    blocks = isotonic_blocks(pooled.weight, pooled.events)
    hull_fpr, hull_tpr = _climb(blocks.weight - blocks.events, blocks.events)
    return RocCurve(
        name=name, n=rows.n, _backend=rows.backend, fpr=frozen(fpr[kept]), tpr=frozen(tpr[kept]),
        thresholds=frozen(np.append(np.inf, pooled.score[::-1])[kept]), auc=float(np.trapezoid(tpr, fpr)),
        hull_fpr=frozen(hull_fpr), hull_tpr=frozen(hull_tpr), hull_auc=float(np.trapezoid(hull_tpr, hull_fpr)),
    )  # fmt: skip
