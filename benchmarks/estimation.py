"""What decompose() and the calibration test cost: seconds beside their bars, as multiples of a second of sleep."""

from __future__ import annotations

import importlib.util
import time

import numpy as np

import scoreprism
from benchmarks.runner import Case


def _score(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    s = 1.0 / (1.0 + np.exp(-1.5 * rng.normal(size=n)))
    return s, (rng.random(n) < s).astype(int)


def _second(share: float):
    return lambda: time.sleep(share)


def cases() -> list[Case]:
    found = []
    for n, bar, repeats in ((10**4, 0.1, 9), (10**6, 3.0, 3)):
        s, y = _score(n)

        def whole(s=s, y=y):
            return scoreprism.decompose(y, s, random_state=0).interval("reliability")

        name = f"no features, with interval, n={n}"
        found.append(Case("decompose", name, whole, _second(bar), f"the bar, {bar:g} s", 1.0, repeats))
    s, y = _score(2000)

    def test():
        return scoreprism.calibration_test(y, s, n_resamples=199, random_state=0)

    found.append(Case("tests", "min-p, n=2000, 199 resamples", test, _second(1.0), "the bar, 1 s", 1.0, 3))
    few = np.random.default_rng(3).integers(0, 100, 2 * 10**6) / 100 + 0.005
    happened = (np.random.default_rng(4).random(few.size) < few).astype(int)

    def tied():
        return scoreprism.calibration_test(happened, few, n_resamples=999, random_state=0)

    found.append(Case("tests", "min-p, n=2000000, 100 scores, 999", tied, _second(2.0), "the bar, 2 s", 1.0, 3))
    rng = np.random.default_rng(2)
    X = rng.normal(size=(10**4, 10))
    p = 1.0 / (1.0 + np.exp(-X[:, 0]))
    outcome = (rng.random(10**4) < 1.0 / (1.0 + np.exp(-X[:, 0] - 0.5 * X[:, 1] * X[:, 2]))).astype(int)

    def with_features():
        return scoreprism.decompose(outcome, p, X, random_state=0, n_jobs=2)

    found.append(
        Case("decompose", "10 features, n=10000, 2 jobs", with_features, _second(20.0), "the bar, 20 s", 1.0, 1)
    )
    if importlib.util.find_spec("lightgbm") is not None:
        from lightgbm import LGBMClassifier

        def lightgbm():
            return scoreprism.decompose(outcome, p, X, reference=LGBMClassifier(verbose=-1, n_jobs=1), random_state=0)

        found.append(Case("decompose", "the default stack", with_features, lightgbm, "LightGBM as reference", None, 1))
    return found
