"""Calibrators against scikit-learn, pygam, betacal, venn-abers and the direct kernel sum."""

from __future__ import annotations

import importlib.util
import warnings

import numpy as np

from benchmarks.runner import Case
from scoreprism._kernels.isotonic import isotonic_ladder
from scoreprism._kernels.kernel_regression import KERNELS, kernel_sums
from scoreprism.calibrators import (
    BetaCalibrator,
    IsotonicCalibrator,
    MonotoneSplineCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
    VennAbersCalibrator,
)

warnings.filterwarnings("ignore", module="pygam|betacal|venn_abers|sklearn")
TEXTBOOK = {"interpolation": "step", "shrink": False, "clip": 0}


def sample(n, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.random(n)
    return s, (rng.random(n) < s**1.3).astype(int)


def cases() -> list[Case]:
    return [*isotonic(), *parametric(), *splines(), *venn_abers(), *kernels()]


def have(package, what):
    found = importlib.util.find_spec(package) is not None
    if not found:
        print(f"{what:10} skipped: {package} is missing; python -m pip install --group peers")
    return found


def isotonic():
    from sklearn.isotonic import IsotonicRegression

    s, y = sample(10**6)
    outcome, weight = y.astype(float), np.random.default_rng(1).random(10**6) + 0.5

    def peer(w=None):
        return IsotonicRegression(out_of_bounds="clip").fit(s, y, w).predict(s)

    name = "scikit-learn fit + predict"
    return [
        Case("isotonic", "blocks, n=10⁶", lambda: isotonic_ladder(s, outcome), peer, name, 1 / 8, 5),
        Case("isotonic", "fit + predict, n=10⁶", lambda: IsotonicCalibrator(**TEXTBOOK).fit(s, y).calibrate(s), peer, name, 1 / 3, 5),
        Case("isotonic", "weighted blocks, n=10⁶", lambda: isotonic_ladder(s, outcome, weight), lambda: peer(weight), name, 1 / 2, 5),
        Case("isotonic", "weighted fit + predict, n=10⁶", lambda: IsotonicCalibrator(**TEXTBOOK).fit(s, y, weight).calibrate(s), lambda: peer(weight), name, 1 / 2, 5),
    ]  # fmt: skip


def parametric():
    from sklearn.calibration import _SigmoidCalibration, _TemperatureScaling

    s, y = sample(10**5)
    x = np.log(s / (1 - s))
    logits = np.column_stack([-x / 2, x / 2])
    found = [
        Case("platt", "n=10⁵", lambda: PlattCalibrator(smooth_targets=True).fit(s, y), lambda: _SigmoidCalibration().fit(x, y), "scikit-learn", 1 / 4),
        Case("temperature", "n=10⁵", lambda: TemperatureCalibrator().fit(s, y), lambda: _TemperatureScaling().fit(logits, y), "scikit-learn", 1 / 8),
    ]  # fmt: skip
    if have("betacal", "beta"):
        from betacal import BetaCalibration

        found.append(
            Case(
                "beta",
                "n=10⁵",
                lambda: BetaCalibrator().fit(s, y),
                lambda: BetaCalibration("abm").fit(s[:, None], y),
                "betacal",
                1 / 3,
            )
        )
    return found


def splines():
    if not have("pygam", "spline"):
        return []
    from pygam import LogisticGAM
    from pygam import s as term

    found = []
    for n, bar in ((10**3, 1 / 5), (10**4, 1 / 12), (10**5, 1 / 100)):
        s, y = sample(n)
        found.append(
            Case(
                "monotone",
                f"spline with λ by REML, n={n}",
                lambda s=s, y=y: MonotoneSplineCalibrator().fit(s, y),
                lambda s=s, y=y: LogisticGAM(term(0, constraints="monotonic_inc")).fit(s[:, None], y),
                "pygam, λ given",
                bar,
                5,
            )
        )
    return found


def venn_abers():
    if not have("venn_abers", "venn"):
        return []
    from venn_abers import VennAbers

    s, y = sample(10**4)
    new = sample(10**4, seed=1)[0]
    law, law_new = np.column_stack([1 - s, s]), np.column_stack([1 - new, new])

    def theirs():
        peer = VennAbers()
        peer.fit(law, y)
        return peer

    return [
        Case("venn-abers", "fit, n=10⁴", lambda: VennAbersCalibrator().fit(s, y), theirs, "venn-abers", 1 / 30),
        Case("venn-abers", "fit + predict, n=10⁴", lambda: VennAbersCalibrator().fit(s, y).calibrate(new), lambda: theirs().predict_proba(law_new), "venn-abers", 1 / 3),
    ]  # fmt: skip


def kernels():
    s, y = sample(10**6)
    outcome, kernel = y.astype(float), KERNELS["triweight"]
    found = []
    for points, bar in ((100, 1 / 15), (1000, 1 / 100)):
        grid = np.linspace(0, 1, points)

        def direct(grid=grid):
            """The direct sum as one would write it, a grid point at a time so that memory is no excuse."""
            out = np.empty((2, grid.size))
            for i, t in enumerate(grid):
                u = (t - s) / 0.1
                k = np.maximum(1.0 - u * u, 0.0)
                k = k * k * k
                out[:, i] = k.sum(), k @ outcome
            return out

        found.append(
            Case(
                "kernel",
                f"binned, n=10⁶, {points} points",
                lambda g=grid: kernel_sums(s, outcome, None, g, 0.1, kernel, method="binned"),
                direct,
                "direct sum",
                bar,
                3 if points == 100 else 1,
            )
        )
        found.append(
            Case(
                "kernel",
                f"exact, n=10⁶, {points} points",
                lambda g=grid: kernel_sums(s, outcome, None, g, 0.1, kernel, method="exact"),
                direct,
                "direct sum",
                None,
                3 if points == 100 else 1,
            )
        )
    return found
