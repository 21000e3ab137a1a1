"""Metrics of several classes: each class against the rest, or the class that is predicted."""

from __future__ import annotations

import numpy as np

from scoreprism._core.simplex import ArrayLike
from scoreprism.metrics._binned import bin_curve
from scoreprism.metrics._curves import BinCurve, Binning
from scoreprism.metrics._estimate import Estimate
from scoreprism.metrics._gaps import Joined, Norm, PlainMean, gap_estimate, mean_absolute, root_mean_square
from scoreprism.metrics._rows import Rows, one_vs_rest, parse_rows, top_label
from scoreprism.metrics._smoothed import option_key, smooth_curve


def _classwise_bins(name: str, norm: Norm, rows: Rows, n_bins: object, strategy: object) -> Estimate:
    parts = one_vs_rest(rows)
    curves = [bin_curve(part, n_bins, strategy) for part in parts]
    shares, orders = [1.0 / len(parts)] * len(parts), [part.order for part in parts]
    joined = rows.kept(("classwise", curves[0].binning), lambda: Joined(rows, curves, shares, orders))
    return gap_estimate(name, joined, norm, f"{curves[0].binning}; mean over {len(parts)} classes")


def _classwise_smooth(name: str, norm: Norm, rows: Rows, smoother: object, cv: object, power: int = 1) -> Estimate:
    parts = one_vs_rest(rows)
    curves = [smooth_curve(part, smoother, cv) for part in parts]
    shares, orders = [1.0 / len(parts)] * len(parts), [part.order for part in parts]
    key = ("classwise", *option_key(smoother, cv))
    joined = rows.kept(key, lambda: Joined(rows, [curve for curve, _ in curves], shares, orders))
    return gap_estimate(name, joined, norm, f"{curves[0][1]}; mean over {len(parts)} classes", power)


def _top_label(rows: Rows, whole: Binning) -> tuple[Joined, str]:
    """Bins within the rows of each predicted class, which keep their share of the weight."""
    top, best = top_label(rows)
    found = [np.flatnonzero(best == k) for k in np.unique(best)]
    curves, picks, shares = [], [], []
    for held in found:
        part = Rows(top.law[held], top.y[held], None if rows.weight is None else rows.weight[held], pool=False)
        curves.append(BinCurve(part, whole))
        picks.append(held[part.order])
        shares.append(float(rows.share[held].sum()))
    return Joined(rows, curves, shares, picks), f"{whole} within each of {len(found)} predicted classes"


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
    return _classwise_bins("classwise_ece", mean_absolute, rows, n_bins, strategy)


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

    The mean over classes of `ace`: every class counts once, and every bin of a class as much as its others. Bins hide
    what cancels inside them and add the noise of their means: it can lie below and above the truth.

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
    return _classwise_bins("classwise_ace", PlainMean(rows.k), rows, n_bins, strategy)


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
    return _classwise_bins("classwise_rmsce", root_mean_square, rows, n_bins, strategy)


def classwise_lcs(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    smoother: object = "loess",
    cv: object = None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """
    Local calibration score of every class against the rest, averaged over the classes.

    `lcs` of each column of probabilities, with equal shares of the classes.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n, K)
        Predicted probabilities S.
    smoother : str, LocalRegression or Calibrator, default="loess"
        How the curve ĝ is fitted: "loess" (as Austin & Steyerberg), "lowess", a `LocalRegression`, or a calibrator
        or its name.
    cv : int, splitter or iterable, optional
        Fit ĝ out of sample, on the other folds (paper, appendix D); None fits it on the rows it is looked at.
        Random folds are drawn with seed 0.
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
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.dirichlet([1, 2, 3], 500)
    >>> y = (rng.random(500)[:, None] > s.cumsum(axis=1)[:, :-1]).sum(axis=1)
    >>> round(classwise_lcs(y, s), 4)
    0.0011
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _classwise_smooth("classwise_lcs", root_mean_square, rows, smoother, cv, 2)


def classwise_ici(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    smoother: object = "loess",
    cv: object = None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """
    Integrated calibration index of every class against the rest, averaged over the classes.

    `ici` of each column of probabilities, with equal shares of the classes.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n, K)
        Predicted probabilities S.
    smoother : str, LocalRegression or Calibrator, default="loess"
        How the curve ĝ is fitted: "loess" (as Austin & Steyerberg), "lowess", a `LocalRegression`, or a calibrator
        or its name.
    cv : int, splitter or iterable, optional
        Fit ĝ out of sample, on the other folds (paper, appendix D); None fits it on the rows it is looked at.
        Random folds are drawn with seed 0.
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
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.dirichlet([1, 2, 3], 500)
    >>> y = (rng.random(500)[:, None] > s.cumsum(axis=1)[:, :-1]).sum(axis=1)
    >>> round(classwise_ici(y, s), 4)
    0.0282
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _classwise_smooth("classwise_ici", mean_absolute, rows, smoother, cv)


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
    curve = bin_curve(top_label(rows)[0], n_bins, strategy)
    return gap_estimate("confidence_ece", curve, mean_absolute, f"{curve.binning} of the largest probability")


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
        The error; bins without rows do not count.

    Examples
    --------
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> round(top_label_ece(y, s, n_bins=2), 4)
    0.375
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    binning = Binning.of(n_bins, strategy, rows)
    curve, label = rows.kept(("top-label", binning), lambda: _top_label(rows, binning))
    return gap_estimate("top_label_ece", curve, mean_absolute, label)
