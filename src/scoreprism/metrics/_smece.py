"""Smooth ECE (Błasiok & Nakkiran 2023): gaps smoothed with a bandwidth that is their own mean size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scoreprism._core.checks import parse_number
from scoreprism._core.simplex import ArrayLike, FloatArray
from scoreprism.metrics._estimate import Estimate
from scoreprism.metrics._gaps import ONE_ROW, Curve, GapInference, Profile, mean_absolute
from scoreprism.metrics._rows import Rows, parse_rows, top_label, two_classes

#: Steps of the grid of [0, 1] on which an estimate is computed, and the fewest for resamples.
_STEPS, _FEWEST = 4096, 128
#: Steps of a resample's grid in one bandwidth.
_FINE = 16.0
_RULE = "a number above 0 and at most 1"
_SEVERAL = "Use confidence_smece for several classes."


class Residuals:
    r"""
    Sums of y − s over the rows, as cosine coefficients :math:`c_k = \sum_i r_i\cos(\pi k s_i)`.

    A Gaussian kernel that is reflected at 0 and 1 multiplies them with :math:`e^{-(\pi k\sigma)^2/2}`. Rows are shared
    by the two points of the grid beside them, so that one transform serves every bandwidth.
    """

    def __init__(self, score: FloatArray, steps: int) -> None:
        self.steps = steps
        place = score * steps
        self.left = np.minimum(place.astype(np.intp), steps - 1)
        self.right = place - self.left

    def coefficients(self, residual: FloatArray) -> FloatArray:
        """Of residuals, row by row times their share of the weight."""
        up = residual * self.right
        sums = np.bincount(self.left, residual - up, self.steps + 1) + np.bincount(self.left + 1, up, self.steps + 1)
        inside = np.full(self.steps + 1, 0.5)
        inside[[0, -1]] = 1.0
        return _cosines(inside * sums)


def _cosines(values: FloatArray) -> FloatArray:
    """Σ_j of values_j·cos(πjk/m), values inside counted twice: its own inverse but for a factor."""
    from scipy.fft import dct

    return np.asarray(dct(values, type=1))


def smooth(coefficients: FloatArray, bandwidth: float) -> FloatArray:
    """The smoothed residuals at the points of the grid."""
    frequency = math.pi * bandwidth * np.arange(coefficients.size)
    return _cosines(coefficients * np.exp(-0.5 * frequency**2))


def _masses(steps: int) -> FloatArray:
    """Shares of the points of a grid in its mean, those at the ends a half."""
    mass = np.full(steps + 1, 1.0 / steps)
    mass[[0, -1]] *= 0.5
    return mass


def fixed_point(coefficients: FloatArray) -> float:
    """The bandwidth that is the mean absolute size of the residuals smoothed with it; there is one, as they shrink."""
    mass = _masses(coefficients.size - 1)

    def excess(width: float) -> float:
        return float(np.abs(smooth(coefficients, width)) @ mass) - width

    (low, above), (high, below) = ((width, excess(width)) for width in (0.0, 1.0))
    kept = 0
    for _ in range(100):
        middle = low + (high - low) * above / (above - below) if above > 0.0 else 0.0
        found = excess(middle)
        if abs(found) <= 1e-13:  # the excess falls at least as fast as the width grows: so near is the fixed point
            break
        if found > 0.0:  # false position; the height of an end that stays twice is halved (Illinois)
            low, above, below, kept = middle, found, 0.5 * below if kept > 0 else below, 1
        else:
            high, below, above, kept = middle, found, 0.5 * above if kept < 0 else above, -1
    return middle


@dataclass(eq=False)
class SmoothedGaps(Curve):
    """Smoothed residuals of the rows on a grid, at one bandwidth."""

    rows: Rows
    bandwidth: float | None = None

    @cached_property
    def whole(self) -> FloatArray:
        """Coefficients of all rows."""
        rows = self.rows
        return Residuals(rows.law, _STEPS).coefficients(rows.share * (rows.y - rows.law))

    @cached_property
    def value(self) -> float:
        """The metric; without a bandwidth given also the bandwidth."""
        if self.bandwidth is None:
            return fixed_point(self.whole)
        return float(np.abs(smooth(self.whole, self.bandwidth)) @ _masses(_STEPS))

    @property
    def width(self) -> float:
        """The bandwidth."""
        return self.value if self.bandwidth is None else self.bandwidth

    def exact(self) -> Profile:
        return Profile(smooth(self.whole, self.width), _masses(_STEPS))

    def places(self) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        units = self.units
        needed = _FINE / max(self.width, _FINE / _STEPS)
        steps = min(max(2 ** math.ceil(math.log2(needed)), _FEWEST), _STEPS)
        grid, residual = Residuals(units.score, steps), units.y - units.score

        def gaps(weight: FloatArray) -> FloatArray:
            return smooth(grid.coefficients(residual * (weight / weight.sum())), self.width)

        return _masses(steps), gaps


class SmoothInference(GapInference):
    """
    Intervals of a smooth ECE.

    The fixed point of a resample is at most c if its residuals smoothed with the bandwidth c have a mean size of at
    most c. So "scaled" asks its question at the bandwidth of the estimate alone; then an end is the fixed point of the
    gaps that are t times as large. Resamples of the other methods keep the bandwidth of the estimate.
    """

    curve: SmoothedGaps

    def _scaled(
        self, gap: FloatArray, mass: FloatArray, noise: FloatArray, centre: float, tail: float
    ) -> tuple[float, float]:
        low, high = super()._scaled(gap, mass, noise, centre, tail)
        if self.curve.bandwidth is not None or self.estimate <= 0.0 or centre <= 1e-12:
            return low, high
        whole = self.curve.whole / self.estimate
        return fixed_point(low * whole) if low > 0.0 else 0.0, fixed_point(high * whole)


def _smece(name: str, rows: Rows, bandwidth: object, of: str) -> Estimate:
    width = None if bandwidth is None else parse_number(bandwidth, "bandwidth", _RULE, lambda value: 0.0 < value <= 1.0)
    curve = rows.kept(("smece", width), lambda: SmoothedGaps(rows, width))
    inference = ONE_ROW if rows.n == 1 else SmoothInference(curve, mean_absolute, curve.value, default="hull")
    how = f"bandwidth {curve.width:.4g}" + ("" if width is not None else ", its own value")
    return Estimate(curve.value, name, f"Gaussian kernel reflected at 0 and 1, {how}{of}", inference)


def smece(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    r"""
    Smooth ECE (Błasiok & Nakkiran 2023): the ECE of residuals smoothed with a Gaussian kernel, without bins.

    :math:`\int_0^1 |E[(Y - S)K_\sigma(t, S)]|\,dt` with a kernel that is reflected at 0 and 1, at the bandwidth σ that
    is equal to it. It is continuous in the scores, and within constants of the distance to the nearest calibrated
    prediction. The noise of the rows makes it positive for a calibrated score.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Two-class outcomes.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities S.
    bandwidth : float, optional
        A bandwidth of your own, above 0 and at most 1.
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
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(1000)
    >>> round(smece(rng.random(1000) < s**2, s), 3)
    0.15
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _smece("smece", two_classes(rows, "smece", _SEVERAL), bandwidth, "")


def confidence_smece(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    bandwidth: float | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Estimate:
    """
    Smooth ECE of the largest probability as a prediction that its class is right (Błasiok & Nakkiran 2023).

    `smece` as their package has it for several classes. It says nothing about the other probabilities.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n, K)
        Predicted probabilities S.
    bandwidth : float, optional
        A bandwidth of your own, above 0 and at most 1.
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
    >>> round(confidence_smece(y, s), 3)
    0.152
    """
    rows = parse_rows(y_true, y_proba, sample_weight, pos_label, classes)
    return _smece("confidence_smece", top_label(rows)[0], bandwidth, "; of the largest probability")
