"""Metrics of bins: ECE, ACE, MCE and RMS calibration error, less their bias too, and those of several classes."""

from __future__ import annotations

import math

import numpy as np

from scoreprism.metrics._curves import BinCurve, Binning
from scoreprism.metrics._estimate import Estimate
from scoreprism.metrics._gaps import (
    Curve,
    GapInference,
    Joined,
    Norm,
    largest,
    mean_absolute,
    plain_mean,
    root_mean_square,
)
from scoreprism.metrics._rows import Rows, one_vs_rest, parse_rows, top_label, two_classes
from scoreprism.simplex import ArrayLike, FloatArray

_SEVERAL = "Use classwise_ece, top_label_ece or confidence_ece for several classes."


def _curve(rows: Rows, n_bins: object, strategy: object) -> BinCurve:
    binning = Binning.of(n_bins, strategy, rows)
    return rows.kept(binning, lambda: BinCurve(rows, binning))


def _estimate(name: str, curve: Curve, norm: Norm, method: str) -> Estimate:
    value = float(norm(curve.profile.gap, curve.profile.mass))
    return Estimate(value, name, method, GapInference(curve, norm, value))


def _of_two(name: str, norm: Norm, rows: Rows, n_bins: object, strategy: object) -> Estimate:
    curve = _curve(two_classes(rows, name, _SEVERAL), n_bins, strategy)
    return _estimate(name, curve, norm, str(curve.binning))


def _classwise(name: str, norm: Norm, rows: Rows, n_bins: object, strategy: object) -> Estimate:
    parts = one_vs_rest(rows)
    curves = [_curve(part, n_bins, strategy) for part in parts]
    shares, orders = [1.0 / len(parts)] * len(parts), [part.order for part in parts]
    joined = rows.kept(("classwise", curves[0].binning), lambda: Joined(rows, curves, shares, orders))
    return _estimate(name, joined, norm, f"{curves[0].binning}; mean over {len(parts)} classes")


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


def _top_label(rows: Rows, n_bins: object, strategy: object) -> tuple[Joined, str]:
    """Bins within the rows of each predicted class, which keep their share of the weight."""
    top, best = top_label(rows)
    found = [np.flatnonzero(best == k) for k in np.unique(best)]
    curves, picks, shares = [], [], []
    whole = Binning.of(n_bins, strategy, rows)
    for held in found:
        part = Rows(top.law[held], top.y[held], None if rows.weight is None else rows.weight[held], pool=False)
        binning = Binning(min(whole.n_bins, part.n), whole.strategy)
        curves.append(BinCurve(part, binning))
        picks.append(held[part.order])
        shares.append(float(rows.share[held].sum()))
    return Joined(rows, curves, shares, picks), f"{whole} within each of {len(found)} predicted classes"


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
    curve = _curve(two_classes(rows, "debiased_ece", _SEVERAL), n_bins, strategy)
    plain = float(mean_absolute(curve.profile.gap, curve.profile.mass))
    inference = GapInference(curve, mean_absolute, plain)
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
    curve = _curve(two_classes(rows, "debiased_rmsce", _SEVERAL), n_bins, strategy)
    plain = float(root_mean_square(curve.profile.gap, curve.profile.mass))
    inference = GapInference(curve, root_mean_square, plain)
    return Estimate(_less_bias_square(curve), "debiased_rmsce", str(curve.binning), inference)


def classwise_ece(
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
    Classwise ECE: `ece` of every class against the rest, averaged over the classes (Kull et al. 2019).

    Bins hide what cancels inside them and add the noise of their means: it can lie below and above the truth.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n, K)
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
        The mean.

    Examples
    --------
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> round(classwise_ece(y, s, n_bins=2), 4)
    0.1833
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _classwise("classwise_ece", mean_absolute, rows, n_bins, strategy)


def classwise_ace(
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
    Adaptive calibration error of every class against the rest, averaged (Nixon et al. 2019).

    Every bin of every class counts once. Bins hide what cancels inside them and add the noise of their means: it can
    lie below and above the truth.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n, K)
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
        The mean.

    Examples
    --------
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> round(classwise_ace(y, s, n_bins=2), 4)
    0.225
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _classwise("classwise_ace", plain_mean, rows, n_bins, strategy)


def classwise_rmsce(
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
    Root mean square calibration error over bins and classes: √ of the mean over classes of `rmsce`².

    The marginal calibration error of Kumar, Liang & Ma (2019) with the classes equally weighted. Bins hide what
    cancels inside them and add the noise of their means: it can lie below and above the truth.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n, K)
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
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> round(classwise_rmsce(y, s, n_bins=2), 4)
    0.2248
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _classwise("classwise_rmsce", root_mean_square, rows, n_bins, strategy)


def confidence_ece(
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
    Confidence ECE: `ece` of the largest probability as a prediction that its class is right (Guo et al. 2017).

    What is called ECE for several classes in most papers. It says nothing about the other probabilities. Bins hide
    what cancels inside them and add the noise of their means: it can lie below and above the truth.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n, K)
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
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> round(confidence_ece(y, s, n_bins=2), 4)
    0.375
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    curve = _curve(top_label(rows)[0], n_bins, strategy)
    return _estimate("confidence_ece", curve, mean_absolute, f"{curve.binning} of the largest probability")


def top_label_ece(
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
    Top-label ECE: `confidence_ece` within the rows of each predicted class (Gupta & Ramdas 2022).

    Confidence may be right on average and wrong for every class: this one sees it. Bins hide what cancels inside them
    and add the noise of their means: it can lie below and above the truth.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n, K)
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
        The error; a predicted class with fewer rows than bins has as many bins as rows.

    Examples
    --------
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> round(top_label_ece(y, s, n_bins=2), 4)
    0.375
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    key = ("top-label", n_bins, strategy)
    curve, label = rows.kept(key, lambda: _top_label(rows, n_bins, strategy))
    return _estimate("top_label_ece", curve, mean_absolute, label)
