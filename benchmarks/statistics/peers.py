"""What decompositions are compared with: the paper's split-half isotonic plug-in, and glest."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings

import numpy as np
from sklearn.isotonic import IsotonicRegression

from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism.losses import get_loss

#: How far the paper's isotonic map is kept from 0 and 1 under the log loss.
CLIP = 1e-6


def split_half_plugin(y: IntArray, s: FloatArray, loss: str) -> float:
    """
    The paper's reliability: an isotonic map (steps joined by lines) of the first half, mean d(S, Ĉ) on the second.

    Rows are independent draws, so the first half is a random half.
    """
    half = y.shape[0] // 2
    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(s[:half], y[:half])
    c = np.asarray(fitted.predict(s[half:]), dtype=np.float64)
    if loss == "log":
        c = np.clip(c, CLIP, 1 - CLIP)
    return float(get_loss(loss).divergence(s[half:], c).mean())


def has_glest() -> bool:
    return importlib.util.find_spec("glest") is not None


def glest_grouping(X: FloatArray, y: IntArray, s: FloatArray, seed: int) -> float:
    """
    The grouping loss by glest's defaults: a tree of depth 10 in each of 15 bins of equal width, on half of the rows.

    Its Brier score is that of both classes, twice ours. NaN where it cannot split the rows (a bin with a single row).
    """
    from glest import GLEstimator

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            return float(GLEstimator(s, random_state=seed).fit(X, y).GL("brier")) / 2
        except ValueError:
            return float("nan")
