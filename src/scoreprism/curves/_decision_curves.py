"""Net benefit at every threshold, the ROC curve, and the distribution of scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoreprism._core.checks import parse_confidence, parse_count, refuse
from scoreprism._core.simplex import ArrayLike, FloatArray, freeze
from scoreprism._kernels.isotonic import isotonic_blocks, pool_ties
from scoreprism._kernels.term_intervals import quantile
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample
from scoreprism.curves._curve import BinaryRows, Curve, parse_binary
from scoreprism.curves._murphy_curve import parse_thresholds, sum_sides_and_squares

#: Thresholds of curves by default.
PERCENTS = np.arange(1, 100) / 100


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScoreDistribution(Curve):
    """
    Histogram of scores, split by outcome.

    Made by `score_distribution`.

    Attributes
    ----------
    edges : array of shape (bins + 1,)
        Edges of bins, from 0 to 1; a score on an edge belongs to the bin above it.
    events, others : array of shape (bins,)
        Share of all weight that lies in the bin and is, or is not, an event; they add up to 1.

    Examples
    --------
    >>> score_distribution([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9], n_bins=2).events
    array([0. , 0.5])
    """

    edges: FloatArray
    events: FloatArray
    others: FloatArray

    @property
    def mass(self) -> FloatArray:
        """Share of the weight in each bin."""
        return self.events + self.others

    def _points(self) -> dict[str, FloatArray]:
        return {"low": self.edges[:-1], "high": self.edges[1:], "events": self.events, "others": self.others}

    def _describe(self) -> str:
        return f"histogram in {self.events.shape[0]} bins"


@described(of_two=True)
def score_distribution(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    *,
    n_bins: int = 50,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    name: str | None = None,
) -> ScoreDistribution:
    """
    Histogram of the scores of events and of non-events.

    Parameters
    ----------
    n_bins : int, default=50
        Number of bins of equal width.

    Returns
    -------
    ScoreDistribution
        Shares of the weight.

    Examples
    --------
    >>> score_distribution([0, 0, 1, 1], [0.1, 0.3, 0.6, 1.0], n_bins=4).mass
    array([0.25, 0.25, 0.25, 0.25])
    """
    rows = parse_binary(y_true, y_proba, sample_weight, pos_label, classes)
    return histogram(rows, parse_count(n_bins, "n_bins", 1), name)


def histogram(rows: BinaryRows, count: int, name: str | None = None) -> ScoreDistribution:
    """Histogram of parsed rows."""
    edges = np.linspace(0.0, 1.0, count + 1)
    cell = np.minimum((rows.score * count).astype(np.intp), count - 1)
    # the product is rounded: 0.58 · 50 is below 29, although 0.58 is the edge itself
    cell += (rows.score >= edges[cell + 1]) & (cell < count - 1)
    cell -= rows.score < edges[cell]
    share = rows.weights / rows.total
    events = np.bincount(cell, share * rows.y, count).astype(np.float64)
    others = np.bincount(cell, share * (1.0 - rows.y), count).astype(np.float64)
    return ScoreDistribution(
        name=name, n=rows.n, _backend=rows.backend, edges=freeze(edges), events=freeze(events), others=freeze(others)
    )


# ── net benefit ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NetBenefit(Curve):
    """
    Net benefit of a model over decision thresholds, beside acting on everyone and on no one.

    Made by `net_benefit`. The unit is one event that was acted upon: a net benefit of 0.05 is worth as much as finding
    5 events per 100 rows without a single false alarm.

    Attributes
    ----------
    thresholds : array of shape (m,)
        Probabilities above which one acts.
    benefit : array of shape (m,)
        TP/n − FP/n · θ/(1 − θ); acting on no one has 0.
    act_on_all : array of shape (m,)
        The same for acting on everyone.
    low, high : array of shape (m,)
        Ends of the pointwise interval of the benefit; NaN for a single row.
    confidence_level : float
        Confidence level.
    rate : float
        Share of events.

    Examples
    --------
    >>> net_benefit([0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9], thresholds=[0.5]).benefit
    array([0.])
    """

    thresholds: FloatArray
    benefit: FloatArray
    act_on_all: FloatArray
    low: FloatArray
    high: FloatArray
    confidence_level: float
    rate: float

    def _points(self) -> dict[str, FloatArray]:
        ends = {"low": self.low, "high": self.high}
        return {"threshold": self.thresholds, "benefit": self.benefit, **ends, "act_on_all": self.act_on_all}

    def _describe(self) -> str:
        return f"net benefit, event rate {self.rate:.4f}"


@described(of_two=True)
def net_benefit(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    *,
    thresholds: ArrayLike | None = None,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    name: str | None = None,
) -> NetBenefit:
    r"""
    Decision curve: net benefit of acting when the predicted probability exceeds θ (Vickers & Elkin 2006).

    It is the Murphy curve in other units: :math:`\mathrm{NB}(\theta) = \pi - \ell_\theta/(1-\theta)` with the event
    rate :math:`\pi`. A prediction equal to θ is not acted on.

    Parameters
    ----------
    thresholds : array-like of shape (m,), optional
        Thresholds from 0 to below 1; 0.01, …, 0.99 by default, and steps of a twentieth of the event rate where
        that is below 5 %.
    confidence_level : float, default=0.95
        Confidence level of the interval at each threshold.

    Returns
    -------
    NetBenefit
        The curve, its intervals, and what acting on everyone gives.

    Examples
    --------
    >>> curve = net_benefit([0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9], thresholds=[0.2, 0.75])
    >>> curve.benefit, curve.act_on_all
    (array([0.4375, 0.25  ]), array([ 0.375, -1.   ]))
    """
    confidence = parse_confidence(confidence_level)
    rows = parse_binary(y_true, y_proba, sample_weight, pos_label, classes)
    theta = choose_thresholds(rows.rate) if thresholds is None else np.unique(parse_thresholds(thresholds))
    if theta[-1] == 1.0:
        refuse("thresholds of net benefit must be below 1", "1", "There a false alarm would weigh infinitely.")
    odds = theta / (1.0 - theta)
    true, false, error = _measure_actions(rows, theta, odds)
    benefit = true - odds * false
    reach = quantile(confidence, two_sided=True) * error
    if rows.n == 1:
        reach[:] = np.nan
    return NetBenefit(
        name=name, n=rows.n, _backend=rows.backend, thresholds=freeze(theta), benefit=freeze(benefit),
        act_on_all=freeze(rows.rate - odds * (1.0 - rows.rate)), low=freeze(benefit - reach),
        high=freeze(benefit + reach), confidence_level=confidence, rate=rows.rate,
    )  # fmt: skip


def choose_thresholds(rate: float) -> FloatArray:
    """Every percent; for rare events also fine steps around their rate, where decisions about them are made."""
    return PERCENTS if rate >= 0.05 else np.union1d(PERCENTS, np.linspace(0.0, 5.0 * rate, 101)[1:])


def _measure_actions(
    rows: BinaryRows, theta: FloatArray, odds: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Share of events and of non-events above each threshold, and the standard error of the net benefit."""
    mass, squares = sum_sides_and_squares(rows, theta)
    share = rows.weights / rows.total
    true, false = np.maximum(rows.rate - mass[0], 0.0), mass[1]
    hits, alarms = np.maximum(float(share**2 @ rows.y) - squares[0], 0.0), squares[1]
    rest = np.maximum(float(share @ share) - hits - alarms, 0.0)
    benefit = true - odds * false
    variance = hits * (1.0 - benefit) ** 2 + alarms * (odds + benefit) ** 2 + rest * benefit**2
    return true, false, np.sqrt(variance)


# ── ROC ───────────────────────────────────────────────────────────────────────────────────────────


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

    def _points(self) -> dict[str, FloatArray]:
        return {"fpr": self.fpr, "tpr": self.tpr, "threshold": self.thresholds}

    def _describe(self) -> str:
        return f"area {self.auc:.4f}, under the convex hull {self.hull_auc:.4f}"


def _climb(others: FloatArray, events: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Cumulative rates from the highest score down."""
    false = np.append(0.0, np.cumsum(others[::-1]))
    true = np.append(0.0, np.cumsum(events[::-1]))
    return false / false[-1], true / true[-1]


def _find_corners(x: FloatArray, y: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether the path turns at each point; points between two steps in the same direction are redundant."""
    dx, dy = np.diff(x), np.diff(y)
    straight = ((dx[:-1] == 0) & (dx[1:] == 0)) | ((dy[:-1] == 0) & (dy[1:] == 0))
    return np.concatenate([[True], ~straight, [True]])


@described(of_two=True)
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
    corners = _find_corners(fpr, tpr)
    blocks = isotonic_blocks(pooled.weight, pooled.events)
    hull_fpr, hull_tpr = _climb(blocks.weight - blocks.events, blocks.events)
    return RocCurve(
        name=name, n=rows.n, _backend=rows.backend, fpr=freeze(fpr[corners]), tpr=freeze(tpr[corners]),
        thresholds=freeze(np.append(np.inf, pooled.score[::-1])[corners]), auc=float(np.trapezoid(tpr, fpr)),
        hull_fpr=freeze(hull_fpr), hull_tpr=freeze(hull_tpr), hull_auc=float(np.trapezoid(hull_tpr, hull_fpr)),
    )  # fmt: skip
