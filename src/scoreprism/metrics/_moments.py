"""Metrics of means and ranks: global balance, O:E ratio, Spiegelhalter's z and AUC, with their classical intervals."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from scoreprism._validation import refuse
from scoreprism.inference._classical import spiegelhalter
from scoreprism.inference._scored import Scored
from scoreprism.metrics._estimate import Absent, Estimate, Inference, Wald
from scoreprism.metrics._gaps import Curve, GapInference, Joined, Profile, mean_absolute
from scoreprism.metrics._rows import Rows, Units, parse_rows, two_classes
from scoreprism.simplex import ArrayLike, FloatArray, as_matrix, one_hot

_ONE_ROW = Absent("one row has no variation", "Pass more rows.")


def _clt(rows: Rows, value: float, errors: FloatArray, label: str) -> Inference:
    """Wald interval of a mean whose rows deviate by `errors`."""
    if rows.n == 1:
        return _ONE_ROW
    return Wald(value, float(np.sqrt(rows.share**2 @ errors**2)), label)


class _Imbalance(Curve):
    """Gap of each class: its frequency minus its mean probability."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.gaps = one_hot(rows.y, rows.k) - as_matrix(rows.law)

    def exact(self) -> Profile:
        return Profile(self.rows.share @ self.gaps, np.full(self.rows.k, 0.5))

    @property
    def units(self) -> Units:
        return Joined(self.rows, [], [], []).units

    def places(self) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        return np.full(self.rows.k, 0.5), lambda weight: weight @ self.gaps / weight.sum()


def global_balance(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """
    Global balance: whether scores are right on average, E S = P(Y), with its test.

    For two classes the mean outcome minus the mean score. For more, the total variation distance between the
    frequencies of the classes and their mean probabilities. The p-value is that of Hotelling's chi-squared with K − 1
    degrees of freedom, which for two classes is the square of z = balance / standard error.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n,) or (n, K)
        Predicted probabilities S.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.

    Returns
    -------
    Estimate
        The balance, with ``pvalue``.

    Examples
    --------
    >>> balance = global_balance([0, 1, 1, 1], [0.2, 0.6, 0.7, 0.9])
    >>> round(balance, 4), round(balance.pvalue, 4)
    (0.15, 0.1904)
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    curve = rows.kept("balance", lambda: _Imbalance(rows))
    gap = curve.profile.gap
    pvalue = _balance_pvalue(rows, curve.gaps, gap)
    if rows.k == 2:
        value = float(gap[1])
        inference = _clt(rows, value, curve.gaps[:, 1] - value, "clt")
        return Estimate(value, "global_balance", "mean outcome minus mean score", inference, pvalue)
    value = float(mean_absolute(gap, curve.profile.mass))
    method = "total variation between class frequencies and mean probabilities"
    return Estimate(value, "global_balance", method, GapInference(curve, mean_absolute, value), pvalue)


def observed_expected_ratio(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """
    O:E ratio: events observed over events expected, Σ y / Σ S.

    The interval is normal for the logarithm, with the variation of the scores allowed for; with scores held fixed it
    would be that of Debray et al. (2017).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities S.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.

    Returns
    -------
    Estimate
        The ratio; 0 without an event, and then without an interval.

    Examples
    --------
    >>> round(observed_expected_ratio([0, 1, 1, 1], [0.2, 0.6, 0.7, 0.9]), 4)
    1.25
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    two_classes(rows, "observed_expected_ratio", "Pass the probability of one class and its outcome.")
    observed, expected = rows.mean(rows.y.astype(np.float64)), rows.mean(rows.law)
    if expected <= 0.0:
        refuse(
            "observed_expected_ratio must have a positive score",
            f"{rows.n} scores of 0",
            "Use global_balance, the difference.",
        )
    value = observed / expected
    inference: Inference = Absent("no event was observed, and the logarithm of 0 is infinite", "Use global_balance.")
    if rows.n == 1:
        inference = _ONE_ROW
    elif observed > 0.0:
        error = float(np.sqrt(rows.share**2 @ (rows.y - value * rows.law) ** 2)) / expected
        inference = Wald(value, error, "log-normal", log=True)
    return Estimate(value, "observed_expected_ratio", "sum of outcomes over sum of scores", inference)


def spiegelhalter_z(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """
    Spiegelhalter's z: excess of the Brier loss over what the scores promise, in standard errors.

    Standard normal for a calibrated score (Spiegelhalter 1986). It sees only deviations that have a trend in the
    score, and grows with √n: a test, not a size.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n,) or (n, K)
        Predicted probabilities S.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.

    Returns
    -------
    Estimate
        The statistic, with its two-sided ``pvalue``. The interval is that of its mean, with the denominator held fixed;
        infinite where something happened that had probability 0.

    Examples
    --------
    >>> z = spiegelhalter_z([0, 1, 1, 1], [0.2, 0.6, 0.7, 0.9])
    >>> round(z, 4), round(z.pvalue, 4)
    (-1.005, 0.3149)
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    law = as_matrix(rows.law)
    happened = law[np.arange(rows.n), rows.y]
    impossible = bool((happened == 0.0).any())
    value, pvalue, _ = spiegelhalter(Scored(rows.law, rows.plain, rows.y, impossible), 0)
    square, cube = (law**2).sum(axis=1), (law**3).sum(axis=1)
    below = float(np.sqrt(rows.plain**2 @ np.maximum(cube - square**2, 0.0)))
    inference: Inference = Absent(
        "the statistic is infinite or no outcome was uncertain", "Look at the scores of 0 and 1."
    )
    if rows.n == 1:
        inference = _ONE_ROW
    elif below > 0.0 and not impossible:
        excess = square - happened
        error = float(np.sqrt(rows.plain**2 @ (excess - rows.mean(excess)) ** 2)) / below
        inference = Wald(value, error, "clt")
    return Estimate(value, "spiegelhalter_z", "Brier loss against its expectation under the scores", inference, pvalue)


def auc(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """
    Area under the ROC curve: P(S of an event > S of a non-event), ties counted half.

    It says how scores rank, not whether they are calibrated. The interval is DeLong's (1988), with weights
    Σw²(V − A)²/(Σw)² in each class, cut to [0, 1].

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities S.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.

    Returns
    -------
    Estimate
        The area.

    Examples
    --------
    >>> area = auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> float(area), round(area.std_error, 4)
    (0.75, 0.3536)
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    two_classes(rows, "auc", "Pass the probability of one class and its outcome.")
    events = int(rows.y.sum())
    if events in (0, rows.n):
        refuse("auc must have events and non-events", f"{events} events in {rows.n} rows", "Pass rows of both classes.")
    value, variance = _placements(rows)
    few = min(events, rows.n - events) == 1
    missing = Absent("one class has a single row", "Pass more rows of it.")
    inference = missing if few else Wald(value, math.sqrt(variance), "DeLong", low=0.0, high=1.0)
    return Estimate(value, "auc", "area under the ROC curve, ties counted half", inference)


def _balance_pvalue(rows: Rows, gaps: FloatArray, gap: FloatArray) -> float:
    """Chi-squared of the mean gaps, in the directions in which rows vary; their sum over classes is always zero."""
    from scipy.special import chdtrc

    centred = (gaps - gap) * rows.share[:, None]
    values, vectors = np.linalg.eigh(centred.T @ centred)
    free = values > 1e-12 * max(float((rows.share**2).sum()), 1e-300)
    along = vectors.T @ gap
    if (np.abs(along[~free]) > 1e-9).any():  # off by the same amount in every row
        return 0.0 if rows.n > 1 else math.nan
    degrees = int(free.sum())
    return float(chdtrc(degrees, float((along[free] ** 2 / values[free]).sum()))) if degrees else 1.0


def _placements(rows: Rows) -> tuple[float, float]:
    """The area and its variance from the placements: the share of the other class that each row beats."""
    score, event, share = rows.law[rows.order], rows.y[rows.order] == 1, rows.share[rows.order]
    first = np.append(True, np.diff(score) > 0.0)
    tie = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    placed, means = [], []
    for own in (event, ~event):
        other = np.where(own, 0.0, share)
        held = np.add.reduceat(other, starts)
        before = np.cumsum(held) - held
        placement = (before + 0.5 * held)[tie][own] / other.sum()
        weight = share[own] / share[own].sum()
        mean = float(weight @ placement)
        # with equal weights m/(m − 1) makes this DeLong's; (Σw)²/Σw² stands for m
        size = 1.0 / float((weight**2).sum())
        placed.append(float(weight**2 @ (placement - mean) ** 2) * size / max(size - 1.0, 1e-9))
        means.append(mean)
    return means[0], placed[0] + placed[1]
