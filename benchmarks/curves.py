"""Bands of reliability curves, 1000 resamples of 10⁵ rows on one thread, against redraw-and-refit with scikit-learn."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.runner import Case
from scoreprism.curves import reliability_curve

N, RESAMPLES = 10**5, 1000
#: Resamples the peer is timed on; its time is scaled up.
FEW = 10


def reliability() -> list[Case]:
    """A fifth of what 1000 refits with scikit-learn take; on an idle machine that is well below 5 s."""
    from sklearn.calibration import calibration_curve
    from sklearn.isotonic import IsotonicRegression

    rng = np.random.default_rng(1)
    s = rng.random(N)
    y = (rng.random(N) < s**1.2).astype(int)
    grid = np.linspace(0.0, 1.0, 200)

    def refit():
        """As one would write it: draw outcomes from the scores, fit, predict on a grid."""
        for _ in range(FEW):
            IsotonicRegression(out_of_bounds="clip").fit(s, rng.random(N) < s).predict(grid)

    def rebin():
        for _ in range(FEW):
            calibration_curve(rng.random(N) < s, s, n_bins=10, strategy="quantile")

    found = []
    for method in ("isotonic", "spline", "kernel", "bins"):
        for band in ("consistency", "confidence"):
            options = {"method": method, "band": band, "n_resamples": RESAMPLES, "random_state": 0}
            peer, name = (rebin, "scikit-learn bins") if method == "bins" else (refit, "scikit-learn isotonic")
            for uniform in (False, True):
                ours = partial(reliability_curve, y, s, uniform=uniform, **options)
                label = f"{method}, {band}{', uniform' * uniform}"
                found.append(Case("curves", label, ours, peer, name, 1 / 5, 3, 1, FEW / RESAMPLES))
    return found


def cases() -> list[Case]:
    return reliability()
