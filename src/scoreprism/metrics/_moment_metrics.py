"""Metrics of means: global balance, O:E ratio and Spiegelhalter's z, with their classical intervals."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from scoreprism._calibration_test.classical_tests import spiegelhalter
from scoreprism._calibration_test.score_lines import ScoreLines
from scoreprism._core.checks import refuse
from scoreprism._core.numerics import TINY, cube
from scoreprism._core.simplex import FloatArray, as_matrix, one_hot
from scoreprism._kernels.estimate_intervals import ONE_SIGMA, Absent, Inference, Wald
from scoreprism._kernels.term_intervals import Interval, quantile
from scoreprism.metrics._estimate import Estimate
from scoreprism.metrics._gap_curves import GapCurve, Profile
from scoreprism.metrics._gap_intervals import ONE_ROW, choose_inference, measure_size
from scoreprism.metrics._gap_norms import mean_absolute
from scoreprism.metrics._metric import ONE_CLASS, metric
from scoreprism.metrics._rows import Rows, Units


class _RateInference(Inference):
    """
    The mean outcome against the mean score: their difference, or their ratio.

    The interval of the event rate alone is that of Jeffreys, which has a length where every outcome is the same (then
    up to the exact bound, Brown, Cai & DasGupta 2001), and that of the mean score is normal. They are combined as
    by Zou & Donner (2008): squared distances of the ends are added, with the correlation of the two means. For many
    rows this is the interval of the central limit theorem.
    """

    has_methods = False

    def __init__(self, rows: Rows, value: float, *, ratio: bool) -> None:
        self.rows, self.value, self.ratio = rows, value, ratio
        y, squares = rows.y.astype(np.float64), rows.share**2
        self.rate, self.mean = rows.mean(y), rows.mean(rows.law)
        away = np.stack([y - self.rate, rows.law - self.mean])
        self.covariance = (away * squares) @ away.T
        outcome = float(self.covariance[0, 0])
        #: Number of rows of equal weight that give the event rate the same variance.
        self.size = self.rate * (1.0 - self.rate) / outcome if outcome > 0.0 else 1.0 / float(squares.sum())

    @property
    def std_error(self) -> float:
        slope = np.array([1.0, -self.value if self.ratio else -1.0])
        error = math.hypot(math.sqrt(max(slope @ self.covariance @ slope, 0.0)), self.rows.bound_unseen(ONE_SIGMA))
        return error / self.mean if self.ratio else error

    def _rate_ends(self, tail: float, unseen: float) -> tuple[float, float]:
        from scipy.special import betaincinv

        if unseen > 0.0:
            return (1.0 - unseen, 1.0) if self.rate > 0.5 else (0.0, unseen)
        events = self.size * self.rate
        low, high = betaincinv(events + 0.5, self.size - events + 0.5, [tail, 1.0 - tail])
        return float(low), float(high)

    def interval(self, confidence_level: float, n_resamples: int, random_state: object, method: str | None) -> Interval:
        unseen = self.rows.bound_unseen(0.5 * (1.0 - confidence_level))
        ends = self._rate_ends(0.5 * (1.0 - confidence_level), unseen)
        spread = quantile(confidence_level, two_sided=True) * math.sqrt(self.covariance[1, 1])
        product = math.sqrt(self.covariance[0, 0] * self.covariance[1, 1])
        alike = float(self.covariance[0, 1]) / product if product > 0.0 and unseen == 0.0 else 0.0
        if self.ratio:
            spread, parts = spread / self.mean, [abs(math.log(end / self.rate)) for end in ends]
        else:
            parts = [abs(end - self.rate) for end in ends]
        below, above = (math.sqrt(max(p**2 + spread**2 - 2.0 * alike * p * spread, 0.0)) for p in parts)
        if self.ratio:
            return Interval(
                self.value * math.exp(-below), self.value * math.exp(above), confidence_level, "Jeffreys, logarithm"
            )
        return Interval(max(self.value - below, -1.0), min(self.value + above, 1.0), confidence_level, "Jeffreys")


class _Imbalance(GapCurve):
    """Gap of each class: its frequency minus its mean probability."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.gaps = one_hot(rows.y, rows.k) - as_matrix(rows.law)

    def exact(self) -> Profile:
        return Profile(self.rows.share @ self.gaps, np.full(self.rows.k, 0.5))

    @property
    def units(self) -> Units:
        return self.rows.unordered_units

    def places(self) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        return np.full(self.rows.k, 0.5), lambda weight: weight @ self.gaps / weight.sum()


@metric("The balance, with ``pvalue``.", ideal=0.0)
def global_balance(rows: Rows) -> Estimate:
    """
    Global balance: whether scores are right on average, E S = P(Y), with its test.

    For two classes the mean outcome minus the mean score. For more, the total variation distance between the
    frequencies of the classes and their mean probabilities. The p-value is that of the mean gaps, chi-squared
    with K − 1 degrees of freedom, with the variance that outcomes have under the scores: for two classes
    z = Σw(y − s) / √Σw²s(1 − s).

    Examples
    --------
    >>> balance = global_balance([0, 1, 1, 1], [0.2, 0.6, 0.7, 0.9])
    >>> round(balance, 4), round(balance.pvalue, 4)
    (0.15, 0.4733)
    """
    curve = rows.remember("balance", lambda: _Imbalance(rows))
    gap = curve.profile.gap
    pvalue = _test_balance(rows, gap)
    if rows.k == 2:
        value = float(gap[1])
        inference = ONE_ROW if rows.n == 1 else _RateInference(rows, value, ratio=False)
        return Estimate(value, "global_balance", "mean outcome minus mean score", inference, pvalue)
    value = measure_size(curve, mean_absolute)
    method = "total variation between class frequencies and mean probabilities"
    return Estimate(value, "global_balance", method, choose_inference(curve, mean_absolute, value), pvalue)


@metric("The ratio; 0 without an event, and then without an interval.", ideal=1.0, if_several=ONE_CLASS)
def observed_expected_ratio(rows: Rows) -> Estimate:
    """
    O:E ratio: events observed over events expected, Σ y / Σ S.

    The interval is made for the logarithm, from that of the event rate (Jeffreys) and that of the mean score; Debray
    et al. (2017) hold the scores fixed.

    Examples
    --------
    >>> round(observed_expected_ratio([0, 1, 1, 1], [0.2, 0.6, 0.7, 0.9]), 4)
    1.25
    """
    observed, expected = rows.mean(rows.y.astype(np.float64)), rows.mean(rows.law)
    if expected < TINY:
        refuse(
            "observed_expected_ratio must have a positive score",
            f"{rows.n} scores of {'0' if expected == 0.0 else f'mean {expected:.3g}, too small to divide by'}",
            "Use global_balance, the difference.",
        )
    value = observed / expected
    inference: Inference = Absent("no event was observed, and the logarithm of 0 is infinite", "Use global_balance.")
    if rows.n == 1:
        inference = ONE_ROW
    elif observed > 0.0:
        inference = _RateInference(rows, value, ratio=True)
    return Estimate(value, "observed_expected_ratio", "sum of outcomes over sum of scores", inference)


@metric(ideal=0.0)
def spiegelhalter_z(rows: Rows) -> Estimate:
    """
    Spiegelhalter's z: excess of the Brier loss over its expectation under the scores, in standard errors.

    Standard normal for a calibrated score (Spiegelhalter 1986). It sees only deviations that have a trend in the
    score, and grows with √n: a test, not a size.

    Returns
    -------
    Estimate
        The statistic, with its two-sided ``pvalue``; infinite where something happened that had probability 0. The
        interval is that of its mean, with the denominator held fixed; where all outcomes are the same it is widened
        for those that did not occur.

    Examples
    --------
    >>> z = spiegelhalter_z([0, 1, 1, 1], [0.2, 0.6, 0.7, 0.9])
    >>> round(z, 4), round(z.pvalue, 4)
    (-1.005, 0.3149)
    """
    law = as_matrix(rows.law)
    happened = law[np.arange(rows.n), rows.y]
    impossible = bool((happened == 0.0).any())
    value, pvalue, _ = spiegelhalter(ScoreLines(rows.law, rows.plain, rows.y, impossible), 0)
    square, third = (law**2).sum(axis=1), cube(law).sum(axis=1)
    below = float(np.sqrt(rows.plain**2 @ np.maximum(third - square**2, 0.0)))
    inference: Inference = Absent(
        "the statistic is infinite or no outcome was uncertain", "Look at the scores of 0 and 1."
    )
    if rows.n == 1:
        inference = ONE_ROW
    elif below > 0.0 and not impossible:
        excess = square - happened
        error = float(np.sqrt(rows.plain**2 @ (excess - rows.mean(excess)) ** 2)) / below
        # one outcome only: the change in the loss of a row if another outcome occurred
        change = float(np.ptp(law, axis=1).max()) * rows.n / below if np.unique(rows.y).size == 1 else 0.0
        inference = Wald(value, error, "clt", beyond=lambda tail: change * rows.bound_unseen(tail))
    return Estimate(value, "spiegelhalter_z", "Brier loss against its expectation under the scores", inference, pvalue)


def _test_balance(rows: Rows, gap: FloatArray) -> float | None:
    """
    Chi-squared of the mean gaps under Y ~ Cat(S), whose covariance is Σw²(diag S − SSᵀ).

    In the directions in which outcomes vary; the sum over classes never does. None for one row.
    """
    from scipy.special import chdtrc

    if rows.n == 1:
        return None
    law, squares = as_matrix(rows.law), rows.share**2
    values, vectors = np.linalg.eigh(np.diag(squares @ law) - (law.T * squares) @ law)
    free = values > 1e-12 * max(float(squares.sum()), TINY)
    along = vectors.T @ gap
    if (np.abs(along[~free]) > 1e-9).any():  # an outcome of probability 0 occurred
        return 0.0
    degrees = int(free.sum())
    return float(chdtrc(degrees, float((along[free] ** 2 / values[free]).sum()))) if degrees else 1.0
