"""Metrics of bins: ECE, ACE, MCE and RMS calibration error, and two of them less their bias."""

from __future__ import annotations

import math

import numpy as np

from scoreprism._core.simplex import ArrayLike, FloatArray
from scoreprism.metrics._curves import BinCurve, Binning
from scoreprism.metrics._estimate import Estimate
from scoreprism.metrics._gaps import (
    Norm,
    gap_estimate,
    gap_inference,
    largest,
    mean_absolute,
    plain_mean,
    root_mean_square,
)
from scoreprism.metrics._rows import Rows, parse_rows, two_classes

_SEVERAL = "Use classwise_ece, top_label_ece or confidence_ece for several classes."


def bin_curve(rows: Rows, n_bins: object, strategy: object) -> BinCurve:
    binning = Binning.of(n_bins, strategy, rows)
    return rows.kept(binning, lambda: BinCurve(rows, binning))


def _of_two(name: str, norm: Norm, rows: Rows, n_bins: object, strategy: object) -> Estimate:
    curve = bin_curve(two_classes(rows, name, _SEVERAL), n_bins, strategy)
    return gap_estimate(name, curve, norm, str(curve.binning))


def _less_bias_square(curve: BinCurve) -> float:
    """√max(Σ m(g² − v), 0), with nothing from bins of one row."""
    gap, mass = curve.profile.gap, curve.profile.mass
    excess = gap**2 - curve.variances(1)
    return math.sqrt(max(float(mass @ np.nan_to_num(excess, nan=0.0)), 0.0))


def _less_bias_absolute(curve: BinCurve) -> float:
    """max(2 Σ m|g| − Σ m E|N(g, v)|, 0): the estimate less what noise of its size adds to it."""
    from scipy.special import erf

    gap, mass = curve.profile.gap, curve.profile.mass
    spread: FloatArray = np.sqrt(np.nan_to_num(curve.variances(0), nan=0.0))
    safe = np.where(spread > 0.0, spread, 1.0)
    folded = spread * math.sqrt(2.0 / math.pi) * np.exp(-0.5 * (gap / safe) ** 2)
    folded += np.where(spread > 0.0, gap * erf(gap / (safe * math.sqrt(2.0))), np.abs(gap))
    return max(float(mass @ (2.0 * np.abs(gap) - folded)), 0.0)


def ece(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """
    Expected calibration error: Σ over bins of their share times |mean outcome − mean score|.

    Bins hide what cancels inside them and add the noise of their means: it can lie below and above the truth.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities S.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins (a, b] of equal width, with 0 in the first; or of equal mass, with ties together.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.

    Returns
    -------
    Estimate
        The error.

    Examples
    --------
    >>> ece([0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.8, 0.9], n_bins=2)
    <ece 0.1: 2 bins of equal width>
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _of_two("ece", mean_absolute, rows, n_bins, strategy)


def ace(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: str = "quantile",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """
    Adaptive calibration error: mean over bins of |mean outcome − mean score|, each bin counted once.

    With bins of equal mass (Nixon et al. 2019). With ``strategy="uniform"`` it is the average calibration error, which
    netcal calls ACE. Bins hide what cancels inside them and add the noise of their means: it can lie below and above
    the truth.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities S.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="quantile"
        Bins (a, b] of equal width, with 0 in the first; or of equal mass, with ties together.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.

    Returns
    -------
    Estimate
        The error; empty bins do not count.

    Examples
    --------
    >>> ace([0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.8, 0.9], n_bins=2)
    <ace 0.108333: 2 bins of equal mass>
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _of_two("ace", plain_mean, rows, n_bins, strategy)


def mce(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """
    Maximum calibration error: largest |mean outcome − mean score| of a bin.

    It is mostly the noise of the bin with fewest rows.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities S.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins (a, b] of equal width, with 0 in the first; or of equal mass, with ties together.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.

    Returns
    -------
    Estimate
        The error.

    Examples
    --------
    >>> mce([0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.8, 0.9], n_bins=2)
    <mce 0.15: 2 bins of equal width>
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _of_two("mce", largest, rows, n_bins, strategy)


def rmsce(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """
    Root mean square calibration error: √Σ share·(mean outcome − mean score)² over bins.

    Bins hide what cancels inside them and add the noise of their means: it can lie below and above the truth.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities S.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins (a, b] of equal width, with 0 in the first; or of equal mass, with ties together.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.

    Returns
    -------
    Estimate
        The error.

    Examples
    --------
    >>> rmsce([0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.8, 0.9], n_bins=2)
    <rmsce 0.108012: 2 bins of equal width>
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _of_two("rmsce", root_mean_square, rows, n_bins, strategy)


def debiased_ece(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """
    Expected calibration error (L1) less the bias that the noise of the bins adds.

    Twice the error less its expectation were the bin means normal around those observed, cut at 0. Kumar, Liang & Ma
    (2019) take that expectation by simulation (uncertainty-calibration, ``get_ece(debias=True)``), here it is exact.
    What cancels inside a bin stays hidden.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities S.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins (a, b] of equal width, with 0 in the first; or of equal mass, with ties together.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.

    Returns
    -------
    Estimate
        The error; its interval is that of `ece`, which estimates the same thing.

    Examples
    --------
    >>> debiased_ece([0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.8, 0.9], n_bins=2)
    <debiased_ece 0.0058166: 2 bins of equal width>
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    curve = bin_curve(two_classes(rows, "debiased_ece", _SEVERAL), n_bins, strategy)
    plain = float(mean_absolute(curve.profile.gap, curve.profile.mass))
    inference = gap_inference(curve, mean_absolute, plain)
    return Estimate(_less_bias_absolute(curve), "debiased_ece", str(curve.binning), inference)


def debiased_rmsce(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """
    Root mean square calibration error (L2) less the bias that the noise of the bins adds.

    √max(Σ share·(gap² − r(1 − r)/(n − 1)), 0) with r the event rate and n the rows of a bin (Kumar, Liang & Ma 2019;
    uncertainty-calibration). A bin with one row adds nothing. What cancels inside a bin stays hidden.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities S.
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins (a, b] of equal width, with 0 in the first; or of equal mass, with ties together.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.

    Returns
    -------
    Estimate
        The error; its interval is that of `rmsce`, which estimates the same thing.

    Examples
    --------
    >>> debiased_rmsce([0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.8, 0.9], n_bins=2)
    <debiased_rmsce 0: 2 bins of equal width>
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    curve = bin_curve(two_classes(rows, "debiased_rmsce", _SEVERAL), n_bins, strategy)
    plain = float(root_mean_square(curve.profile.gap, curve.profile.mass))
    inference = gap_inference(curve, root_mean_square, plain)
    return Estimate(_less_bias_square(curve), "debiased_rmsce", str(curve.binning), inference)
