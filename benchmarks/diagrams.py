"""Curves and figures of 10⁶ rows: Murphy against model-diagnostics, ROC against scikit-learn, a triptych to its files."""

from __future__ import annotations

import io
import time

import numpy as np

from benchmarks.runner import Case
from scoreprism.curves import murphy_curve, murphy_decomposition, roc_curve

N, THRESHOLDS = 10**6, np.linspace(0.001, 0.999, 500)
#: Thresholds the peer is timed on; each takes it one pass over the rows, so its time is scaled up.
FEW = 5


def _second(share: float):
    return lambda: time.sleep(share)


def _sample(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    s = rng.beta(1.5, 2.5, n)
    return (rng.random(n) < s**1.2).astype(int), s


def murphy(y, s, w) -> list[Case]:
    """The peer is the loop inside `plot_murphy_diagram`, one ElementaryScore for each threshold, without drawing."""
    from model_diagnostics.scoring import ElementaryScore

    def peer(weight=None):
        return [ElementaryScore(eta)(y, s, weights=weight) for eta in THRESHOLDS[:: THRESHOLDS.size // FEW]]

    few, name = FEW / THRESHOLDS.size, "model-diagnostics"
    return [
        Case("murphy", "500 thresholds, n=10^6", lambda: murphy_curve(y, s, thresholds=THRESHOLDS), peer, name, 1 / 100, 5, 1, few),
        Case("murphy", "500 thresholds, weights", lambda: murphy_curve(y, s, thresholds=THRESHOLDS, sample_weight=w), lambda: peer(w), name, 1 / 100, 5, 1, few),
        Case("murphy", "every jump, n=10^6", lambda: murphy_curve(y, s), peer, name + ", 500 thresholds", 1 / 20, 5, 1, few),
    ]  # fmt: skip


def roc(y, s, w) -> list[Case]:
    """Ours has the convex hull as well."""
    from sklearn.metrics import roc_curve as theirs

    return [
        Case("roc", "n=10^6, with the hull", lambda: roc_curve(y, s), lambda: theirs(y, s), "scikit-learn", 1.0, 5),
        Case("roc", "weights", lambda: roc_curve(y, s, sample_weight=w), lambda: theirs(y, s, sample_weight=w), "scikit-learn", 1.0, 5),
    ]  # fmt: skip


def triptych(y, s) -> list[Case]:
    """Curves, figure, PNG and SVG; says how many bytes the files have."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    from scoreprism.displays import TriptychDisplay

    def saved(**options):
        display = TriptychDisplay.from_predictions(y, s, **options)
        files = {kind: io.BytesIO() for kind in ("png", "svg")}
        for kind, file in files.items():
            display.figure_.savefig(file, format=kind)
        plt.close(display.figure_)
        return {kind: file.getbuffer().nbytes for kind, file in files.items()}

    print("triptych   bytes without a band:", *(f"{kind} {size}" for kind, size in saved(band=None).items()))
    return [
        Case(
            "triptych", "n=10^6, no band, PNG and SVG", lambda: saved(band=None), _second(3.0), "the bar, 3 s", 1.0, 3
        ),
        Case("triptych", "n=10^6, default band, PNG and SVG", saved, _second(3.0), "the bar, 3 s", 1.0, 1),
    ]


def decomposition() -> list[Case]:
    """Values and intervals at 99 thresholds, laws included; beside it what fitting the laws alone takes."""
    from scoreprism._fitting.chain_fit import fit_chain

    found = []
    for n, repeats in ((10**4, 5), (10**5, 3)):
        y, s = _sample(n)
        found.append(
            Case(
                "murphy",
                f"decomposition, n={n}",
                lambda y=y, s=s: murphy_decomposition(y, s, random_state=0),
                lambda y=y, s=s: fit_chain(y, s, None, {"random_state": 0}),
                "fitting the laws alone",
                2.0,
                repeats,
            )
        )
    return found


def cases() -> list[Case]:
    y, s = _sample(N)
    w = np.random.default_rng(2).random(N) + 0.5
    return [*murphy(y, s, w), *roc(y, s, w), *decomposition(), *triptych(y, s)]
