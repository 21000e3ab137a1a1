"""Two classical tests with a textbook reference law: Spiegelhalter's z and Hosmer–Lemeshow's chi-squared."""

from __future__ import annotations

import math

import numpy as np

from scoreprism._calibration_test.score_lines import ScoreLines
from scoreprism._core.numerics import REACHED, cube
from scoreprism._core.simplex import FloatArray, as_matrix, pick
from scoreprism._kernels.isotonic import run_starts

Parts = dict[str, dict[str, float]]


def spiegelhalter(data: ScoreLines, n_groups: int) -> tuple[float, float, Parts]:  # noqa: ARG001
    """
    Spiegelhalter's z = Σ w(ℓ − E ℓ) / √Σ w² Var ℓ of the Brier loss under Y ~ Cat(S), and its two-sided p-value.

    With ℓ(S, y) = 1 − 2S_y + ΣS², half of ℓ − Eℓ is ΣS² − S_y and half of its standard deviation √(ΣS³ − (ΣS²)²). For
    two classes that is Σ(y − s)(1 − 2s) / √Σ(1 − 2s)² s(1 − s) (Spiegelhalter 1986).
    """
    if data.impossible:
        return math.inf, 0.0, {}
    law = as_matrix(data.law)
    square, third = (law**2).sum(axis=1), cube(law).sum(axis=1)
    above = float(data.weight @ (square - pick(law, data.y)))
    below = float(data.weight**2 @ np.maximum(third - square**2, 0.0))
    z = above / math.sqrt(below) if below > 1e-14 * data.n else 0.0  # otherwise every loss is known in advance
    return z, math.erfc(abs(z) / math.sqrt(2.0)), {}


def _sum_groups(data: ScoreLines, n_groups: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Observed and expected events, and their variance, in groups of equal mass; ties stay together."""
    weight, s = data.weight, data.law
    ends = np.append(run_starts(s)[1:], s.size)
    reached = np.cumsum(weight)[ends - 1]
    targets = reached[-1] * np.arange(1, n_groups + 1) / n_groups
    last = np.unique(np.searchsorted(reached, targets * REACHED))
    start = np.concatenate([[0], ends[last[:-1]]])
    mass, observed, expected, squares = (
        np.add.reduceat(column, start) for column in (weight, weight * data.y, weight * s, weight**2)
    )
    share = expected / mass
    return observed, expected, squares * share * (1.0 - share)


def hosmer_lemeshow(data: ScoreLines, n_groups: int) -> tuple[float, float, Parts]:
    """
    Σ (O − E)² / (n_g π(1 − π)) over groups, its chi-squared p-value and degrees of freedom.

    As many degrees as groups: nothing was fitted to these outcomes. (g − 2 is for the rows a model was fitted on; here
    it has size .11.)
    """
    from scipy.special import chdtrc

    observed, expected, variance = _sum_groups(data, n_groups)
    free = variance > 1e-14  # in a group of certainties nothing can deviate
    df = int(free.sum())
    parts = {"groups": {"df": float(df)}}
    if data.impossible:
        return math.inf, 0.0, parts
    value = float(np.sum((observed - expected)[free] ** 2 / variance[free]))
    return value, float(chdtrc(df, value)) if df else 1.0, parts
