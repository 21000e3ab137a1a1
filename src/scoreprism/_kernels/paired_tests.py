"""Tests of paired differences over splits: signed ranks, and the corrected resampled t-test."""

from __future__ import annotations

import math
import warnings

import numpy as np

from scoreprism._core.simplex import FloatArray

#: Signs of the difference that count as evidence.
ALTERNATIVES = ("less", "greater", "two-sided")


def wilcoxon_p(delta: FloatArray, alternative: str) -> float:
    """Wilcoxon's signed-rank test of paired differences."""
    if not delta.any():
        return 1.0
    from scipy.stats import wilcoxon

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few splits, which n_splits shows
        return float(wilcoxon(delta, zero_method="wilcox", alternative=alternative, correction=True).pvalue)


def corrected_t(
    delta: FloatArray, alternative: str, confidence_level: float, ratio: float
) -> tuple[float, float, float]:
    """The corrected resampled t-test (Nadeau & Bengio 2003), and the interval that belongs to it."""
    if math.isnan(ratio) or delta.size < 2:
        return math.nan, math.nan, math.nan
    from scipy.stats import t as student

    mean, df = float(delta.mean()), delta.size - 1
    error = math.sqrt((1.0 / delta.size + ratio) * float(delta.var(ddof=1)))
    if np.ptp(delta) == 0.0:
        wrong = mean == 0.0 or (alternative == "less" and mean > 0.0) or (alternative == "greater" and mean < 0.0)
        return float(wrong), mean, mean
    law = student(df)
    half = float(law.ppf(0.5 + 0.5 * confidence_level)) * error
    below = float(law.cdf(mean / error))
    p = {"less": below, "greater": float(law.sf(mean / error)), "two-sided": 2.0 * float(law.sf(abs(mean / error)))}
    return p[alternative], mean - half, mean + half
