"""The bootstrap of CORP, 1000 resamples of 10⁵ rows on one thread, against resample-and-refit with scikit-learn."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.runner import Case
from scoreprism._kernels import ranked as _ranked
from scoreprism.inference import corp_bootstrap

N, RESAMPLES = 10**5, 1000
#: Resamples the peer is timed on; its time is scaled up.
FEW = 10


def with_kernel(compiled, *arguments, **options):
    """The bootstrap with one kernel or the other, whatever is installed."""
    installed = _ranked.has_numba
    _ranked.has_numba = lambda: compiled
    try:
        return corp_bootstrap(*arguments, **options)
    finally:
        _ranked.has_numba = installed


def cases() -> list[Case]:
    from sklearn.isotonic import IsotonicRegression

    rng = np.random.default_rng(1)
    s = rng.random(N)
    y = (rng.random(N) < s**1.2).astype(int)
    weight = rng.random(N) + 0.5

    def refit(w=None):
        """As one would write it: draw, fit, predict, and Brier losses of three laws without scikit-learn's checks."""
        for _ in range(FEW):
            rows = rng.integers(0, N, N)
            score, outcome, mass = s[rows], y[rows], None if w is None else w[rows]
            fitted = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(score, outcome, mass).predict(score)
            marginal = np.average(outcome, weights=mass)
            for law in (score, fitted, marginal):
                np.average((law - outcome) ** 2, weights=mass)

    def case(name, bar, compiled, w=None):
        options = {"loss": "brier", "n_resamples": RESAMPLES, "random_state": 0, "sample_weight": w}
        ours = partial(with_kernel, compiled, y, s, **options)
        return Case("bootstrap", name, ours, partial(refit, w), "scikit-learn refits", bar, 3, 1, FEW / RESAMPLES)

    found = [case("numpy", 1 / 10, compiled=False), case("numpy, weights", 1 / 10, compiled=False, w=weight)]
    if _ranked.has_numba():
        found += [case("numba", 1 / 60, compiled=True), case("numba, weights", 1 / 50, compiled=True, w=weight)]
    else:
        print('bootstrap  compiled kernel skipped: numba is missing; python -m pip install -e ".[fast]"')
    return found
