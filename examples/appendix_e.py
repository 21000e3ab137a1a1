"""Appendix E of the paper: three recalibration maps, and how far they are from the truth as a function of h.

Draws docs/figures/appendix_e.png. Because the law is known, C = P(Y=1 | S) is exact (by quadrature), and the
integrated calibration index E|g(S) − C| and the local calibration score E(g(S) − C)² of a recalibrated score are
measured against it, for maps fitted on four folds and applied to the fifth.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from scoreprism.calibrators import IsotonicCalibrator, MonotoneSplineCalibrator, SplineCalibrator
from scoreprism.datasets import AppendixELaw

LAW = AppendixELaw()
BANDWIDTHS = np.array([0.015, 0.02, 0.03, 0.04, 0.055, 0.075, 0.1, 0.14, 0.19, 0.26, 0.36, 0.5])
SIZES = (10, 20, 40)
GREEN, RED, BLUE, GREY = "#1b5e20", "#b3261e", "#1f4e9c", "#5f6368"


def scored(n: int, seed: int):
    """A sample, the scores of a plain logistic regression fitted to it, and the true probability of each score."""
    X, y, _ = LAW.sample(n, random_state=seed)
    model = LogisticRegression(C=np.inf).fit(X, y)
    (b1, b2), a = model.coef_[0], model.intercept_[0]

    def score(x1, x2):
        return 1 / (1 + np.exp(-(a + b1 * x1 + b2 * x2)))

    nodes = LAW.score_law(score)
    s = score(*X.T)
    return X, y, s, np.interp(s, nodes.score, nodes.calibrated), score, nodes


def distances(seed: int, n: int = 1000) -> np.ndarray:
    """ICI and LCS of the cross-fitted monotone map for every k and h: shape (k, h, 2)."""
    _, y, s, c, _, _ = scored(n, seed)
    out = np.empty((len(SIZES), len(BANDWIDTHS), 2))
    for i, k in enumerate(SIZES):
        for j, h in enumerate(BANDWIDTHS):
            g = np.empty(n)
            for train, test in KFold(5, shuffle=True, random_state=seed).split(s):
                spline = MonotoneSplineCalibrator(link="identity", n_basis=k, bandwidth=h, penalty=1e-3)
                g[test] = spline.fit(s[train], y[train]).calibrate(s[test])
            out[i, j] = np.abs(g - c).mean(), ((g - c) ** 2).mean()
    return out


def mean_distances(samples: int = 40) -> np.ndarray:
    """The mean over samples."""
    return np.mean(Parallel(n_jobs=2)(delayed(distances)(seed) for seed in range(samples)), axis=0)


def draw_data(ax, X, y, score) -> None:
    """Outcomes over the square, and level lines of the fitted score."""
    for outcome, mark in ((0, "o"), (1, "+")):
        ax.plot(*X[y == outcome].T, mark, ms=3, color=GREY, alpha=0.6, mfc="none", mew=0.6)
    x1, x2 = np.meshgrid(np.linspace(0, 1, 101), np.linspace(0, 1, 101))
    lines = ax.contour(x1, x2, score(x1, x2), levels=[0.5, 0.6, 0.7, 0.8], colors=BLUE, linewidths=1.2)
    ax.clabel(lines, fontsize=8)
    ax.set(xlabel="$x_1$", ylabel="$x_2$", title="Logistic regression $\\hat\\pi$, n = 500", aspect="equal")


def draw_maps(ax, y, s, nodes) -> None:
    """Isotonic, C² and monotone C² maps of one sample, beside the truth."""
    grid = np.linspace(s.min(), s.max(), 600)
    maps = [
        ("isotonic", IsotonicCalibrator(interpolation="step", shrink=False), GREEN),
        ("$C^2$ spline", SplineCalibrator(link="identity", penalty=0.05), RED),
        ("monotone $C^2$ spline", MonotoneSplineCalibrator(link="identity", bandwidth=0.1, penalty=1e-3), BLUE),
    ]
    ax.plot(grid, grid, color="#bdc1c6", lw=1, zorder=0)
    ax.plot(nodes.score, nodes.calibrated, "--", color="black", lw=1.2, label="truth, $P(Y=1\\mid S)$")
    for name, calibrator, color in maps:
        ax.plot(grid, calibrator.fit(s, y).calibrate(grid), color=color, lw=1.8, label=name)
    ax.set(xlabel="score $s$", ylabel="recalibrated score $\\hat g(s)$", title="Three maps", xlim=(grid[0], grid[-1]))
    ax.legend(frameon=False, fontsize=8, loc="upper left")


def draw_distance(ax, values, title) -> None:
    """A distance against h, a line for each k."""
    for row, k, color in zip(values, SIZES, ("#9ec5fe", "#4a86d8", BLUE), strict=True):
        ax.plot(BANDWIDTHS, row, "o-", ms=3, color=color, label=f"k = {k}")
        ax.plot(BANDWIDTHS[row.argmin()], row.min(), "o", ms=8, mfc="none", color=color)
    ax.set(xscale="log", xlabel="bandwidth $h$", title=title, ylim=(0, None))
    ax.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize=8)


def main() -> None:
    X, y, s, _, score, nodes = scored(500, seed=1)
    values = mean_distances()
    with plt.rc_context(
        {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9.5, "axes.titlesize": 10.5}
    ):
        figure, axes = plt.subplots(1, 4, figsize=(14, 3.5), layout="constrained")
        draw_data(axes[0], X, y, score)
        draw_maps(axes[1], y, s, nodes)
        draw_distance(axes[2], values[..., 0], "Integrated calibration index, cross-fitted")
        draw_distance(axes[3], values[..., 1], "Local calibration score, cross-fitted")
        figure.savefig(Path(__file__).parents[1] / "docs" / "figures" / "appendix_e.png", dpi=150)
    best = BANDWIDTHS[values.argmin(axis=1)]
    for k, (ici, lcs) in zip(SIZES, best, strict=True):
        print(f"k = {k}: smallest ICI at h = {ici:g}, smallest LCS at h = {lcs:g}")


if __name__ == "__main__":
    main()
