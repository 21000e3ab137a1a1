"""Metrics of a logistic recalibration: its intercept, its slope, and the intercept alone (calibration-in-the-large)."""

from __future__ import annotations

import math

import numpy as np

from scoreprism._core.checks import abbreviate, parse_clip, refuse
from scoreprism._core.numerics import clipped_sigmoid, log_odds
from scoreprism._core.simplex import FloatArray, clip_law
from scoreprism._kernels.estimate_intervals import Absent, Inference, Wald
from scoreprism._kernels.logistic import find_separation, fit_logistic
from scoreprism.metrics._estimate import Estimate
from scoreprism.metrics._metric import ONE_CLASS, metric
from scoreprism.metrics._rows import Rows


def _log_odds(rows: Rows, name: str, clip: float | None) -> FloatArray:
    """log(s/(1 − s)); refused where it is infinite."""
    distance = parse_clip(clip, 2)
    law = rows.law if distance is None else clip_law(rows.law, distance)
    bad = np.flatnonzero((law <= 0.0) | (law >= 1.0))
    if bad.size:
        refuse(
            f"{name} must have scores strictly between 0 and 1, because it is computed from log-odds",
            f"{bad.size} of {rows.n} rows at 0 or 1 (row {abbreviate(bad)})",
            "Pass `clip`=1e-6, for example, to keep scores that far from 0 and 1.",
        )
    return log_odds(law)


def _require_both(rows: Rows, name: str) -> None:
    """Refuse rows of one outcome only."""
    events = int(rows.y.sum())
    if events in (0, rows.n):
        refuse(
            f"{name} must have events and non-events, because it is infinite otherwise",
            f"{events} events in {rows.n} rows",
            "Pass rows of both classes, or use global_balance.",
        )


def _estimate_coefficient(name: str, number: int, rows: Rows, clip: float | None) -> Estimate:
    """The intercept (0) or the slope (1) of y on log-odds; fitted once for both metrics."""
    coefficients, covariance = rows.remember(f"recalibration {clip!r}", lambda: _fit_line(rows, name, clip))
    value = float(coefficients[number])
    inference = _make_inference(value, covariance[number, number])
    return Estimate(value, name, "logistic regression on log-odds", inference)


def _fit_line(rows: Rows, name: str, clip: float | None) -> tuple[FloatArray, FloatArray]:
    """Intercept and slope of y on log-odds, and their sandwich covariance."""
    x, y = _log_odds(rows, name, clip), rows.y.astype(np.float64)
    _require_both(rows, name)
    if np.ptp(x) <= 1e-9 * (1.0 + np.abs(x).max()):
        refuse(
            f"{name} must have scores that differ",
            f"{rows.n} rows with the score {rows.law[0]:.6g}",
            "Use calibration_in_the_large.",
        )
    if find_separation(x, y):
        refuse(
            f"{name} must have scores of events and non-events that overlap, because it is infinite otherwise",
            f"a score that separates the {int(y.sum())} events from the {int((1 - y).sum())} others",
            "Pass more rows.",
        )
    # standardised log-odds make the fit well conditioned; `back` undoes that
    centre, scale = rows.mean(x), float(np.sqrt(rows.mean((x - rows.mean(x)) ** 2)))
    design = np.stack([np.ones(rows.n), (x - centre) / scale])
    fit = fit_logistic(design, y, rows.plain)
    if not fit.converged:
        refuse(
            f"{name} must have a finite fit", f"{rows.n} rows on which none was found", "Pass more rows, or `clip`=."
        )
    back = np.array([[1.0, -centre / scale], [0.0, 1.0 / scale]])
    try:
        covariance = _find_covariance(design, y, rows.plain, clipped_sigmoid(fit.coefficients @ design))
    except np.linalg.LinAlgError:
        refuse(
            f"{name} must have weight on rows whose scores differ",
            f"a largest weight of {100.0 * float(rows.share.max()):.6g} % of all",
            "Look at the weights, or use calibration_in_the_large.",
        )
    return back @ fit.coefficients, back @ covariance @ back.T


def _find_covariance(design: FloatArray, y: FloatArray, weight: FloatArray, p: FloatArray) -> FloatArray:
    """Sandwich covariance, valid for weighted rows and where the logistic model is wrong."""
    bread = np.linalg.inv((design * (weight * p * (1.0 - p))) @ design.T)
    scores = design * (weight * (y - p))
    return np.asarray(bread @ (scores @ scores.T) @ bread)


def _make_inference(value: float, variance: float) -> Inference:
    """A Wald interval, unless the variance is infinite."""
    error = math.sqrt(variance)
    return Wald(value, error, "wald, sandwich") if math.isfinite(error) else Absent("its variance is infinite", "")


@metric("The intercept, 0 if calibrated; Wald interval with a sandwich covariance.", ideal=0.0, if_several=ONE_CLASS)
def calibration_intercept(rows: Rows, *, clip: float | None = None) -> Estimate:
    """
    Calibration intercept: a of the logistic regression of y on log-odds, a + b·logit(S).

    Fitted together with the slope b, as in R's ``rms::val.prob``; the intercept with the slope held at 1 is
    `calibration_in_the_large`. Not the intercept of Van Calster et al. (2016), which is the latter.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(1000)
    >>> round(calibration_intercept(rng.random(1000) < s, s), 3)
    0.034
    """
    return _estimate_coefficient("calibration_intercept", 0, rows, clip)


@metric("The slope, 1 if calibrated; Wald interval with a sandwich covariance.", ideal=1.0, if_several=ONE_CLASS)
def calibration_slope(rows: Rows, *, clip: float | None = None) -> Estimate:
    """
    Calibration slope: b of the logistic regression of y on log-odds, a + b·logit(S) (Cox 1958).

    Below 1 scores are too extreme, above 1 too moderate.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(1000)
    >>> round(calibration_slope(rng.random(1000) < s, s), 3)
    1.055
    """
    return _estimate_coefficient("calibration_slope", 1, rows, clip)


@metric("The intercept, 0 if calibrated; Wald interval with a sandwich covariance.", ideal=0.0, if_several=ONE_CLASS)
def calibration_in_the_large(rows: Rows, *, clip: float | None = None) -> Estimate:
    """
    Calibration-in-the-large: a of the logistic regression a + logit(S), the slope held at 1.

    The calibration intercept of Van Calster et al. (2016) and of R's pmcalibration: by how much log-odds are too low.
    The same question on the scale of probabilities is `global_balance`, as a ratio `observed_expected_ratio`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(1000)
    >>> round(calibration_in_the_large(rng.random(1000) < s, s), 3)
    0.036
    """
    offset = _log_odds(rows, "calibration_in_the_large", clip)
    _require_both(rows, "calibration_in_the_large")
    y, ones = rows.y.astype(np.float64), np.ones((1, rows.n))
    centre = rows.mean(offset)  # Newton starts where scores are right on average
    fit = fit_logistic(ones, y, rows.plain, offset=offset - centre)
    value = float(fit.coefficients[0]) - centre
    covariance = _find_covariance(ones, y, rows.plain, clipped_sigmoid(value + offset))
    method = "logistic regression with log-odds as offset"
    return Estimate(value, "calibration_in_the_large", method, _make_inference(value, covariance[0, 0]))
