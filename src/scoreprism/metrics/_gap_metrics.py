"""Metrics that are norms of gaps: one function each, which chooses the rows, the curve and the norm."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.special import erf

from scoreprism._core.checks import parse_choice, parse_number, refuse
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.estimate_intervals import Inference
from scoreprism.metrics._estimate import Estimate
from scoreprism.metrics._gap_curves import (
    BinCurve,
    ResidualCurve,
    join_classes,
    join_predicted_classes,
    make_bin_curve,
    make_smooth_curve,
)
from scoreprism.metrics._gap_intervals import (
    ONE_ROW,
    ResidualInference,
    ShapeInference,
    choose_bounds,
    choose_inference,
    estimate_norm,
    measure_size,
)
from scoreprism.metrics._gap_norms import (
    Norm,
    largest,
    mean_absolute,
    plain_mean,
    quantile_norm,
    root_mean_square,
)
from scoreprism.metrics._metric import metric
from scoreprism.metrics._rows import Rows, pick_top_label

#: Where the local calibration score is averaged.
OVER = ("sample", "density")
_CLASSWISE = "Use classwise_ece, top_label_ece or confidence_ece for several classes."
_CLASSWISE_CURVE = "Use classwise_lcs or classwise_ici for several classes."


def _estimate_smooth(
    name: str,
    rows: Rows,
    norm: Norm,
    smoother: object,
    cv: object,
    *,
    power: int = 1,
    default: str = "scaled",
    on_grid: bool = False,
) -> Estimate:
    """A norm of a smoothed curve; the published form (loess, in sample) gets an interval based on C itself."""
    curve = make_smooth_curve(rows, smoother, cv, on_grid=on_grid)
    estimate = estimate_norm(name, curve, norm, power=power, default=default)
    if on_grid or cv is not None or not (isinstance(smoother, str) and smoother == "loess"):
        return estimate  # intervals of other smoothers resample the smoother
    inference = ShapeInference(rows, estimate._inference, float(estimate), choose_bounds(norm))
    return Estimate(float(estimate), name, estimate.method, inference)


def _estimate_smece(name: str, rows: Rows, bandwidth: object, of: str = "") -> Estimate:
    """Smooth ECE."""
    rule = "a number above 0 and at most 1"
    width = None if bandwidth is None else parse_number(bandwidth, "bandwidth", rule, lambda value: 0.0 < value <= 1.0)
    curve = rows.remember(("smece", width), lambda: ResidualCurve(rows, width))
    inference: Inference = ONE_ROW
    if rows.n > 1:
        inference = ResidualInference(curve, mean_absolute, curve.value, default="hull")
    return Estimate(curve.value, name, curve.label + of, inference)


def _debias_square(curve: BinCurve) -> float:
    """√max(Σ m(g² − v), 0); bins of one row add nothing."""
    gap, mass = curve.profile.gap, curve.profile.mass
    excess = gap**2 - curve.variances(1)
    return math.sqrt(max(float(mass @ np.nan_to_num(excess, nan=0.0)), 0.0))


def _debias_absolute(curve: BinCurve) -> float:
    """max(2 Σ m|g| − Σ m E|N(g, v)|, 0): the estimate minus what noise of its size adds to it."""
    gap, mass = curve.profile.gap, curve.profile.mass
    spread: FloatArray = np.sqrt(np.nan_to_num(curve.variances(0), nan=0.0))
    safe = np.where(spread > 0.0, spread, 1.0)
    folded = spread * math.sqrt(2.0 / math.pi) * np.exp(-0.5 * (gap / safe) ** 2)
    folded += np.where(spread > 0.0, gap * erf(gap / (safe * math.sqrt(2.0))), np.abs(gap))
    return max(float(mass @ (2.0 * np.abs(gap) - folded)), 0.0)


#: A metric of gaps between scores and outcomes: 0 is calibrated.
gap_metric = partial(metric, ideal=0.0, is_gap=True)


@gap_metric("The score; its square root is a distance.", if_several=_CLASSWISE_CURVE)
def lcs(rows: Rows, *, smoother: object = "loess", over: str = "sample", cv: object = None) -> Estimate:
    """
    Local calibration score: mean of (S − ĝ(S))².

    The paper's definition, with ĝ a local regression as Austin & Steyerberg (2019). It is biased upwards by the noise
    of ĝ: it is positive even for a calibrated score.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(1000)
    >>> round(lcs(rng.random(1000) < s**2, s), 4)
    0.0282
    """
    on_grid = parse_choice(over, OVER, "over") == "density"
    if on_grid and cv is not None:
        refuse('`over`="density" must have one curve, fitted on all rows', f"cv={cv}", 'Use `over`="sample" with cv.')
    return _estimate_smooth("lcs", rows, root_mean_square, smoother, cv, power=2, on_grid=on_grid)


@gap_metric("The index.", if_several=_CLASSWISE_CURVE)
def ici(rows: Rows, *, smoother: object = "loess", cv: object = None) -> Estimate:
    """
    Integrated calibration index: mean of ``|S − ĝ(S)|`` (Austin & Steyerberg 2019).

    Also called Eavg. It is biased upwards by the noise of ĝ: it is positive even for a calibrated score.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(1000)
    >>> round(ici(rng.random(1000) < s**2, s), 3)
    0.153
    """
    return _estimate_smooth("ici", rows, mean_absolute, smoother, cv)


@gap_metric(if_several=_CLASSWISE_CURVE)
def e50(rows: Rows, *, smoother: object = "loess", cv: object = None) -> Estimate:
    """
    E50: median of ``|S − ĝ(S)|`` (Austin & Steyerberg 2019).

    It is biased upwards by the noise of ĝ.

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
    return _estimate_smooth("e50", rows, quantile_norm(0.5), smoother, cv, default="hull")


@gap_metric(if_several=_CLASSWISE_CURVE)
def e90(rows: Rows, *, smoother: object = "loess", cv: object = None) -> Estimate:
    """
    E90: 90th percentile of ``|S − ĝ(S)|`` (Austin & Steyerberg 2019).

    It is biased upwards by the noise of ĝ.

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
    return _estimate_smooth("e90", rows, quantile_norm(0.9), smoother, cv, default="hull")


@gap_metric("The largest gap.", if_several=_CLASSWISE_CURVE)
def emax(rows: Rows, *, smoother: object = "loess", cv: object = None) -> Estimate:
    """
    Emax: largest ``|S − ĝ(S)|`` (Austin & Steyerberg 2019).

    The noisiest of these metrics, and the most biased: it is reached where ĝ has the fewest neighbours.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(1000)
    >>> round(emax(rng.random(1000) < s**2, s), 3)
    0.226
    """
    return _estimate_smooth("emax", rows, largest, smoother, cv, default="hull")


@gap_metric("The error.", if_several=_CLASSWISE)
def ece(rows: Rows, *, n_bins: int = 15, strategy: str = "uniform") -> Estimate:
    """
    Expected calibration error: Σ over bins of their share times ``|mean outcome − mean score|``.

    Gaps that cancel within a bin are hidden, and the noise of bin means is added: it may be too low or too high.

    Examples
    --------
    >>> ece([0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.8, 0.9], n_bins=2)
    <ece 0.1: 2 bins of equal width>
    """
    return estimate_norm("ece", make_bin_curve(rows, n_bins, strategy), mean_absolute)


@gap_metric("The error; empty bins do not count.", if_several=_CLASSWISE)
def ace(rows: Rows, *, n_bins: int = 15, strategy: str = "quantile") -> Estimate:
    """
    Adaptive calibration error: mean over bins of ``|mean outcome − mean score|``, each bin counted once.

    With bins of equal mass (Nixon et al. 2019). With ``strategy="uniform"`` it is the average calibration error, which
    netcal calls ACE. Gaps that cancel within a bin are hidden, and the noise of bin means is added: it may be too low
    or too high.

    Examples
    --------
    >>> ace([0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.8, 0.9], n_bins=2)
    <ace 0.108333: 2 bins of equal mass>
    """
    return estimate_norm("ace", make_bin_curve(rows, n_bins, strategy), plain_mean())


@gap_metric("The error.", if_several=_CLASSWISE)
def mce(rows: Rows, *, n_bins: int = 15, strategy: str = "uniform") -> Estimate:
    """
    Maximum calibration error: largest ``|mean outcome − mean score|`` of a bin.

    It mostly measures the noise of the bin with the fewest rows.

    Examples
    --------
    >>> mce([0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.8, 0.9], n_bins=2)
    <mce 0.15: 2 bins of equal width>
    """
    return estimate_norm("mce", make_bin_curve(rows, n_bins, strategy), largest)


@gap_metric("The error.", if_several=_CLASSWISE)
def rmsce(rows: Rows, *, n_bins: int = 15, strategy: str = "uniform") -> Estimate:
    """
    Root mean square calibration error: √Σ share·(mean outcome − mean score)² over bins.

    Gaps that cancel within a bin are hidden, and the noise of bin means is added: it may be too low or too high.

    Examples
    --------
    >>> rmsce([0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.8, 0.9], n_bins=2)
    <rmsce 0.108012: 2 bins of equal width>
    """
    return estimate_norm("rmsce", make_bin_curve(rows, n_bins, strategy), root_mean_square)


@gap_metric("The error; its interval is that of `ece`, which estimates the same thing.", if_several=_CLASSWISE)
def debiased_ece(rows: Rows, *, n_bins: int = 15, strategy: str = "uniform") -> Estimate:
    """
    Expected calibration error (L1) less the bias that the noise of the bins adds.

    Twice the error less its expectation were the bin means normal around those observed, cut at 0. Kumar, Liang & Ma
    (2019) take that expectation by simulation (uncertainty-calibration, ``get_ece(debias=True)``), which is exact here.
    Gaps that cancel within a bin stay hidden.

    Examples
    --------
    >>> debiased_ece([0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.8, 0.9], n_bins=2)
    <debiased_ece 0.0058166: 2 bins of equal width>
    """
    curve = make_bin_curve(rows, n_bins, strategy)
    inference = choose_inference(curve, mean_absolute, measure_size(curve, mean_absolute))
    return Estimate(_debias_absolute(curve), "debiased_ece", curve.label, inference)


@gap_metric("The error; its interval is that of `rmsce`, which estimates the same thing.", if_several=_CLASSWISE)
def debiased_rmsce(rows: Rows, *, n_bins: int = 15, strategy: str = "uniform") -> Estimate:
    """
    Root mean square calibration error (L2) less the bias that the noise of the bins adds.

    √max(Σ share·(gap² − r(1 − r)/(n − 1)), 0) with r the event rate and n the rows of a bin (Kumar, Liang & Ma 2019;
    uncertainty-calibration). A bin with one row adds nothing. Gaps that cancel within a bin stay hidden.

    Examples
    --------
    >>> debiased_rmsce([0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.8, 0.9], n_bins=2)
    <debiased_rmsce 0: 2 bins of equal width>
    """
    curve = make_bin_curve(rows, n_bins, strategy)
    inference = choose_inference(curve, root_mean_square, measure_size(curve, root_mean_square))
    return Estimate(_debias_square(curve), "debiased_rmsce", curve.label, inference)


@gap_metric("The error.", if_several="Use confidence_smece for several classes.")
def smece(rows: Rows, *, bandwidth: float | None = None) -> Estimate:
    r"""
    Smooth ECE (Błasiok & Nakkiran 2023): the ECE of residuals smoothed with a Gaussian kernel, without bins.

    :math:`\int_0^1 |E[(Y - S)K_\sigma(t, S)]|\,dt` with a kernel that is reflected at 0 and 1, at the bandwidth σ that
    equals its value. It is continuous in the scores, and within constants of the distance to the nearest calibrated
    prediction. The noise of the rows makes it positive for a calibrated score.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(1000)
    >>> round(smece(rng.random(1000) < s**2, s), 3)
    0.15
    """
    return _estimate_smece("smece", rows, bandwidth)


@gap_metric()
def classwise_lcs(rows: Rows, *, smoother: object = "loess", cv: object = None) -> Estimate:
    """
    Local calibration score of every class against the rest, averaged over the classes.

    `lcs` of each column of probabilities, with equal shares of the classes.

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
    curve = join_classes(rows, lambda part: make_smooth_curve(part, smoother, cv))
    return estimate_norm("classwise_lcs", curve, root_mean_square, power=2)


@gap_metric("The mean.")
def classwise_ici(rows: Rows, *, smoother: object = "loess", cv: object = None) -> Estimate:
    """
    Integrated calibration index of every class against the rest, averaged over the classes.

    `ici` of each column of probabilities, with equal shares of the classes.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.dirichlet([1, 2, 3], 500)
    >>> y = (rng.random(500)[:, None] > s.cumsum(axis=1)[:, :-1]).sum(axis=1)
    >>> round(classwise_ici(y, s), 4)
    0.0282
    """
    curve = join_classes(rows, lambda part: make_smooth_curve(part, smoother, cv))
    return estimate_norm("classwise_ici", curve, mean_absolute)


@gap_metric("The mean.")
def classwise_ece(rows: Rows, *, n_bins: int = 15, strategy: str = "uniform") -> Estimate:
    """
    Classwise ECE: `ece` of every class against the rest, averaged over the classes (Kull et al. 2019).

    Gaps that cancel within a bin are hidden, and the noise of bin means is added: it may be too low or too high.

    Examples
    --------
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> round(classwise_ece(y, s, n_bins=2), 4)
    0.1833
    """
    curve = join_classes(rows, lambda part: make_bin_curve(part, n_bins, strategy))
    return estimate_norm("classwise_ece", curve, mean_absolute)


@gap_metric("The mean.")
def classwise_ace(rows: Rows, *, n_bins: int = 15, strategy: str = "quantile") -> Estimate:
    """
    Adaptive calibration error of every class against the rest, averaged (Nixon et al. 2019).

    The mean over classes of `ace`: every class counts once, and every bin of a class as much as its others. Gaps that
    cancel within a bin are hidden, and the noise of bin means is added: it may be too low or too high.

    Examples
    --------
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> round(classwise_ace(y, s, n_bins=2), 4)
    0.225
    """
    curve = join_classes(rows, lambda part: make_bin_curve(part, n_bins, strategy))
    return estimate_norm("classwise_ace", curve, plain_mean(rows.k))


@gap_metric("The error.")
def classwise_rmsce(rows: Rows, *, n_bins: int = 15, strategy: str = "uniform") -> Estimate:
    """
    Root mean square calibration error over bins and classes: the root of the mean over classes of squared `rmsce`.

    The marginal calibration error of Kumar, Liang & Ma (2019) with the classes equally weighted. Gaps that
    cancel within a bin are hidden, and the noise of bin means is added: it may be too low or too high.

    Examples
    --------
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> round(classwise_rmsce(y, s, n_bins=2), 4)
    0.2248
    """
    curve = join_classes(rows, lambda part: make_bin_curve(part, n_bins, strategy))
    return estimate_norm("classwise_rmsce", curve, root_mean_square)


@gap_metric("The error.")
def confidence_ece(rows: Rows, *, n_bins: int = 15, strategy: str = "uniform") -> Estimate:
    """
    Confidence ECE: `ece` of the largest probability as a prediction that its class is right (Guo et al. 2017).

    Most papers on several classes call this ECE. The other probabilities do not enter. Gaps that
    cancel within a bin are hidden, and the noise of bin means is added: it may be too low or too high.

    Examples
    --------
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> round(confidence_ece(y, s, n_bins=2), 4)
    0.375
    """
    curve = make_bin_curve(pick_top_label(rows)[0], n_bins, strategy)
    return estimate_norm("confidence_ece", curve, mean_absolute, label=f"{curve.label} of the largest probability")


@gap_metric("The error.")
def confidence_smece(rows: Rows, *, bandwidth: float | None = None) -> Estimate:
    """
    Smooth ECE of the largest probability as a prediction that its class is right (Błasiok & Nakkiran 2023).

    `smece` as their package defines it for several classes. The other probabilities do not enter.

    Examples
    --------
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> round(confidence_smece(y, s), 3)
    0.152
    """
    return _estimate_smece("confidence_smece", pick_top_label(rows)[0], bandwidth, "; of the largest probability")


@gap_metric("The error; bins without rows do not count.")
def top_label_ece(rows: Rows, *, n_bins: int = 15, strategy: str = "uniform") -> Estimate:
    """
    Top-label ECE: `confidence_ece` within the rows of each predicted class (Gupta & Ramdas 2022).

    Confidence may be right on average and wrong for every class: this metric detects that. Gaps that cancel within
    a bin are hidden, and the noise of bin means is added: it may be too low or too high.

    Examples
    --------
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> round(top_label_ece(y, s, n_bins=2), 4)
    0.375
    """
    return estimate_norm("top_label_ece", join_predicted_classes(rows, n_bins, strategy), mean_absolute)
