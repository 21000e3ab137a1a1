"""Metrics of a smoothed curve: LCS, ICI, E50, E90 and Emax."""

from __future__ import annotations

from collections.abc import Callable

from scoreprism._core.checks import parse_choice, refuse
from scoreprism._core.simplex import ArrayLike, IntArray
from scoreprism._fitting.crossfit import make_crossfit
from scoreprism._sample.fit_rows import Data
from scoreprism.metrics._curves import SmoothCurve, parse_smoother
from scoreprism.metrics._estimate import Estimate
from scoreprism.metrics._gaps import (
    Norm,
    QuantileNorm,
    gap_estimate,
    largest,
    mean_absolute,
    root_mean_square,
)
from scoreprism.metrics._rows import Rows, parse_rows, two_classes
from scoreprism.metrics._shapes import ShapeInference, absolute_ends, quantile_ends, squared_ends

#: Where the local calibration score is averaged.
OVER = ("sample", "density")
_SEVERAL = "Use classwise_lcs or classwise_ici for several classes."


def _folds(rows: Rows, cv: object) -> IntArray | None:
    """The fold of every row; random folds are drawn with seed 0."""
    if cv is None:
        return None
    plan = make_crossfit(cv, Data(rows.law, rows.y, rows.weight, 2, "probability"), None, 0)
    if not plan.whole:
        missing = int((plan.home < 0).sum())
        refuse("`cv` must test every row", f"{missing} rows that no split tests", "Use K folds, for example `cv`=5.")
    return plan.home


def option_key(smoother: object, cv: object) -> tuple[object, object]:
    """What tells options apart while the rows are held: names and numbers by value, anything else by identity."""
    return (
        smoother if isinstance(smoother, str) else id(smoother),
        cv if isinstance(cv, int) or cv is None else id(cv),
    )


def smooth_curve(rows: Rows, smoother: object, cv: object, *, on_grid: bool = False) -> tuple[SmoothCurve, str]:
    """The curve of a smoother, shared by the metrics of a table, and what it is."""
    found, label = parse_smoother(smoother)
    key = ("smooth", *option_key(smoother, cv), on_grid)
    curve = rows.kept(key, lambda: SmoothCurve(rows, found, _folds(rows, cv), on_grid))
    return curve, label + ("" if cv is None else f", cross-fitted (cv={cv})")


def _of_two(name: str, norm: Norm, rows: Rows, smoother: object, cv: object, default: str = "scaled") -> Estimate:
    curve, label = smooth_curve(two_classes(rows, name, _SEVERAL), smoother, cv)
    ends = absolute_ends if norm is mean_absolute else quantile_ends(norm)
    return _for_any_shape(gap_estimate(name, curve, norm, label, 1, default), rows, smoother, cv, ends)


def _for_any_shape(
    found: Estimate, rows: Rows, smoother: object, cv: object, ends: Callable[..., tuple[float, float]]
) -> Estimate:
    """The published definition, with an interval by C itself; a smoother of one's own keeps its resamples."""
    if not (isinstance(smoother, str) and smoother == "loess") or cv is not None:
        return found
    value = float(found)
    return Estimate(value, found.name, found.method, ShapeInference(rows, found._inference, value, ends))


def lcs(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    smoother: object = "loess",
    over: str = "sample",
    cv: object = None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """
    Local calibration score: mean of (S − ĝ(S))².

    The paper's definition, with ĝ a local regression as Austin & Steyerberg (2019). It is biased upwards by the noise
    of ĝ: a calibrated score has a positive one.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities S.
    smoother : str, LocalRegression or Calibrator, default="loess"
        How the curve ĝ is fitted: "loess" (as Austin & Steyerberg), "lowess", a `LocalRegression`, or a calibrator
        or its name.
    over : {"sample", "density"}, default="sample"
        Average over the rows, or over the points of {0, 1/99, …, 1} within the range of the scores weighted with the
        density of the scores, as in the authors' earlier R code (its ĝ:
        ``LocalRegression(degree=0, span=0.15, kernel="uniform")``).
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
        The score; its square root is a distance.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(1000)
    >>> round(lcs(rng.random(1000) < s**2, s), 4)
    0.0282
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    two_classes(rows, "lcs", _SEVERAL)
    on_grid = parse_choice(over, OVER, "over") == "density"
    if on_grid and cv is not None:
        refuse('`over`="density" must have one curve, fitted on all rows', f"cv={cv}", 'Use `over`="sample" with cv.')
    curve, label = smooth_curve(rows, smoother, cv, on_grid=on_grid)
    found = gap_estimate("lcs", curve, root_mean_square, label + ("; density-weighted grid" if on_grid else ""), 2)
    return found if on_grid else _for_any_shape(found, rows, smoother, cv, squared_ends)


def ici(
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
    Integrated calibration index: mean of |S − ĝ(S)| (Austin & Steyerberg 2019).

    Also called Eavg. It is biased upwards by the noise of ĝ: a calibrated score has a positive one.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
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
        The index.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(1000)
    >>> round(ici(rng.random(1000) < s**2, s), 3)
    0.153
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _of_two("ici", mean_absolute, rows, smoother, cv)


def e50(
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
    E50: median of |S − ĝ(S)| (Austin & Steyerberg 2019).

    It is biased upwards by the noise of ĝ.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
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
        The median: where half of the weight has smaller gaps, or the middle of the two rows where exactly half has.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(1000)
    >>> round(e50(rng.random(1000) < s**2, s), 3)
    0.173
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _of_two("e50", QuantileNorm(0.5), rows, smoother, cv, "hull")


def e90(
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
    E90: 90th percentile of |S − ĝ(S)| (Austin & Steyerberg 2019).

    It is biased upwards by the noise of ĝ.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
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
        The percentile: where 90 % of the weight has smaller gaps, or the middle of the two rows where exactly that has;
        R's default interpolates between the same two rows.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(1000)
    >>> round(e90(rng.random(1000) < s**2, s), 3)
    0.224
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _of_two("e90", QuantileNorm(0.9), rows, smoother, cv, "hull")


def emax(
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
    Emax: largest |S − ĝ(S)| (Austin & Steyerberg 2019).

    The noisiest of them: it is where ĝ has fewest neighbours, and biased upwards most.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
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
        The largest gap.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(1000)
    >>> round(emax(rng.random(1000) < s**2, s), 3)
    0.226
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _of_two("emax", largest, rows, smoother, cv, "hull")
