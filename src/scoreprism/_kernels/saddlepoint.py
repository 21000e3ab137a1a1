"""Tails of sums of independent weighted events, accurate far out and for few events, where the normal law is not."""

from __future__ import annotations

import math

import numpy as np

from scoreprism._core.simplex import FloatArray

#: Newton steps at most, and the relative step at which they end.
_STEPS, _ENOUGH = 60, 1e-10
#: Standard deviations below which the normal tail is good enough for any decision.
_NEAR = 1.5


def sum_pvalue(size: FloatArray, law: FloatArray, excess: float, *, is_count: bool) -> tuple[float, float]:
    """
    Two-sided p-value of Σ size·(Y − law) = excess with Y ~ Bernoulli(law), and the z of the normal law.

    Twice the smaller tail by Lugannani & Rice (1980), for counts with the correction of Daniels (1987).
    """
    variance = float(size**2 @ (law * (1.0 - law)))
    if variance <= 0.0:
        return 1.0, 0.0
    z = excess / math.sqrt(variance)
    if abs(z) < _NEAR:
        return math.erfc(abs(z) / math.sqrt(2.0)), z
    sign = math.copysign(1.0, excess)  # the lower tail is the upper one of the negative sizes
    tail = _find_tail(sign * size, law, abs(excess), is_count=is_count)
    return min(2.0 * tail, 1.0), z


def _find_tail(size: FloatArray, law: FloatArray, excess: float, *, is_count: bool) -> float:
    """P(Σ size·(Y − law) ≥ excess), for an excess above the mean, which is 0."""
    mean = float(size @ law)
    target = excess + mean
    most = float(np.maximum(size, 0.0).sum())
    if target >= most * (1.0 - 1e-12):  # as large as it can be: every event that adds happened, none that takes away
        return math.exp(float(np.log(np.where(size > 0.0, law, 1.0 - law)[size != 0.0]).sum())) if most > 0.0 else 0.0
    tilt, curvature = _find_tilt(size, law, target)
    log_mgf = float(np.log1p(law * np.expm1(size * tilt)).sum())
    w = math.sqrt(max(2.0 * (tilt * target - log_mgf), 1e-300))
    step = -math.expm1(-tilt) if is_count else tilt
    v = step * math.sqrt(curvature)
    normal = 0.5 * math.erfc(w / math.sqrt(2.0))
    density = math.exp(-0.5 * w * w) / math.sqrt(2.0 * math.pi)
    return min(max(normal + density * (1.0 / v - 1.0 / w), 0.0), 1.0)


def _find_tilt(size: FloatArray, law: FloatArray, target: float) -> tuple[float, float]:
    """The u at which events of probability law·e^(size·u)/(1 − law + law·e^(size·u)) sum to the target on average."""
    odds = np.log(law) - np.log1p(-law)
    tilt, low, high, curvature = 0.0, 0.0, math.inf, 1.0
    for _ in range(_STEPS):
        tilted = 1.0 / (1.0 + np.exp(-np.clip(odds + size * tilt, -700.0, 700.0)))
        short = target - float(size @ tilted)
        curvature = float(size**2 @ (tilted * (1.0 - tilted)))
        low, high = (tilt, high) if short > 0.0 else (low, tilt)
        new = tilt + short / max(curvature, 1e-300)
        if not low <= new <= high:
            new = 0.5 * (low + high) if math.isfinite(high) else 2.0 * tilt + 1e-3
        if abs(new - tilt) <= _ENOUGH * abs(new):
            break
        tilt = new
    return tilt, curvature
