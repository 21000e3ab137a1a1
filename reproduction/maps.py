"""Appendix E: three recalibration maps of a plain logistic regression, and how the bandwidth h moves ICI and LCS."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from reproduction.checks import Check, judge, tabulate_checks
from reproduction.pieces import INK, MARKERS, colour, figure, scientific, share_legend, table, thin
from reproduction.population import Logistic
from reproduction.synthetic import draw_square
from reproduction.work import Outcome, Work
from scoreprism.calibrators import IsotonicCalibrator, MonotoneSplineCalibrator, SplineCalibrator
from scoreprism.datasets import AppendixELaw, ScoreLaw
from scoreprism.report import Figure, Paragraph, Section

LAW = AppendixELaw()
#: Bandwidths h and basis sizes k of the figure; penalty of Step B.
BANDWIDTHS = (0.015, 0.02, 0.03, 0.04, 0.055, 0.075, 0.1, 0.14, 0.19, 0.26, 0.36, 0.5)
SIZES = (10, 20, 40)
PENALTY = 1e-3
#: Penalties whose maps are compared with a straight line.
PENALTIES = (1e-3, 1e-1, 1e1, 1e3, 1e5, 1e6, 1e7)
_ROWS, _SHOWN = 1000, 500
#: A step down of a map by less than this is rounding.
_LEVEL = 1e-9
METRICS = {"ici": "Integrated calibration index", "lcs": "Local calibration score"}
#: What each reading of the index measures, and what its horizontal line is.
READINGS = {
    "formula": ("distance of the score from its own map (fig:simulation:logistic, right)", "exact, of the score"),
    "truth": ("distance of the recalibrated score from the exact C", "the raw score's distance"),
}


def run(work: Work) -> Outcome:
    """Run the simulation of appendix E, with the exact calibrated law beside what is estimated."""
    found, exact = measure_curves(work)
    shapes = work.run("shapes", measure_shapes, _make_tasks(work), "maps of appendix E")
    checks = judge_shapes(shapes)
    bends = np.mean([one["bends"] for one in shapes], axis=0)
    straight = [
        {"λ": scientific(penalty), "largest distance from a straight line": bend}
        for penalty, bend in zip(PENALTIES, bends, strict=True)
    ]
    blocks = (
        draw_example(),
        *(draw_distances(found, exact, reading) for reading in READINGS),
        tabulate_checks("map-claims", "Properties of the maps", checks),
        table("penalty", "Monotone spline, penalty λ", straight, "Mean over samples."),
    )
    numbers = {f"maps/exact/{metric}": exact[m] for m, metric in enumerate(METRICS)}
    for i, k in enumerate(SIZES):
        for j, h in enumerate(BANDWIDTHS):
            for (reading, metric), value in zip(product(READINGS, METRICS), found[i, j], strict=True):
                numbers[f"maps/{reading}/{metric}/k={k}/h={h:g}"] = value
    numbers |= {f"maps/falls/{name}": count for name, (count, _) in count_falls(shapes).items()}
    numbers |= {f"maps/bend/{penalty:g}": float(bend) for penalty, bend in zip(PENALTIES, bends, strict=True)}
    lead = (
        "The paper's formula is the mean distance of the score from its own smoothed map: a small h leaves noise in the "
        "map, which counts as miscalibration, a large one flattens it. Where the score looks best need not be where the "
        "map is best."
    )
    return Outcome(Section("maps", "Recalibration maps", (), (Paragraph(lead), *blocks)), checks, numbers)


def _make_tasks(work: Work) -> list[dict[str, int]]:
    return [{"seed": seed, "rows": _ROWS} for seed in range(work.plan.samples)]


# ── the simulation ──────────────────────────────────────────────────────────────────────────────────


class Scored(NamedTuple):
    """A sample with the scores of a logistic regression fitted to it, the exact C of each, and the law of the score."""

    X: np.ndarray
    y: np.ndarray
    s: np.ndarray
    c: np.ndarray
    score: Logistic
    nodes: ScoreLaw


def draw_sample(rows: int, seed: int) -> Scored:
    """Draw a sample, and score it by a plain logistic regression."""
    from sklearn.linear_model import LogisticRegression

    X, y, _ = LAW.sample(rows, random_state=seed)
    model = LogisticRegression(C=np.inf).fit(X, y)
    score = Logistic(model.intercept_[0], tuple(model.coef_[0]))
    nodes, s = LAW.score_law(score), score(X[:, 0], X[:, 1])
    return Scored(X, y, s, np.interp(s, nodes.score, nodes.calibrated), score, nodes)


def make_splines() -> dict[str, Any]:
    """Make the two smooth maps of the figure, without and with the constraint."""
    return {
        "C² spline": SplineCalibrator(link="identity", penalty=0.05),
        "monotone C² spline": MonotoneSplineCalibrator(link="identity", bandwidth=0.1, penalty=PENALTY),
    }


def fit_maps(sample: Scored) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Fit isotonic, C² and monotone C² maps to a sample; the truth stands beside them."""
    grid = np.linspace(sample.s.min(), sample.s.max(), 400)
    maps = {"isotonic": IsotonicCalibrator(interpolation="step", shrink=False, clip=0), **make_splines()}
    found = {name: (grid, one.fit(sample.s, sample.y).calibrate(grid)) for name, one in maps.items()}
    inside = (sample.nodes.score >= grid[0]) & (sample.nodes.score <= grid[-1])
    return {"truth": (sample.nodes.score[inside], sample.nodes.calibrated[inside]), **found}


def measure_sample(task: dict[str, Any]) -> dict[str, Any]:
    """
    Measure ICI and LCS of the cross-fitted monotone map for every k and h, in both readings, and those of the score.

    ``curves`` (k, h, 4): mean |s − g(s)| and its square, the paper's formulas; then mean |g(s) − C(s)| and its square.
    ``exact``: E|S − C| and E(S − C)² by quadrature.
    """
    from sklearn.model_selection import KFold

    sample = draw_sample(task["rows"], task["seed"])
    s, y, nodes = sample.s, sample.y, sample.nodes
    folds = list(KFold(5, shuffle=True, random_state=task["seed"]).split(s))
    curves = np.empty((len(SIZES), len(BANDWIDTHS), 4))
    for i, k in enumerate(SIZES):
        for j, h in enumerate(BANDWIDTHS):
            g = np.empty_like(s)
            for train, test in folds:
                spline = MonotoneSplineCalibrator(link="identity", n_basis=k, bandwidth=h, penalty=PENALTY)
                g[test] = spline.fit(s[train], y[train]).calibrate(s[test])
            curves[i, j] = [power for gap in (s - g, g - sample.c) for power in (np.abs(gap).mean(), (gap**2).mean())]
    gap = nodes.score - nodes.calibrated
    return {"curves": curves, "exact": [nodes.mass @ np.abs(gap), nodes.mass @ gap**2]}


def measure_curves(work: Work) -> tuple[np.ndarray, np.ndarray]:
    """Measure ICI and LCS against h, and those of the scores: means over samples of what `measure_sample` gives."""
    found = work.run("bandwidths", measure_sample, _make_tasks(work), "samples of appendix E")
    return np.mean([one["curves"] for one in found], axis=0), np.mean([one["exact"] for one in found], axis=0)


def measure_shapes(task: dict[str, Any]) -> dict[str, Any]:
    """Measure how far splines fall anywhere, and how far monotone ones of each penalty are from a straight line."""
    sample = draw_sample(task["rows"], task["seed"])
    grid = np.linspace(sample.s.min(), sample.s.max(), 1001)
    values = {name: one.fit(sample.s, sample.y).calibrate(grid) for name, one in make_splines().items()}
    falls = {name: float((np.maximum.accumulate(g) - g).max()) for name, g in values.items()}
    bends = []
    for penalty in PENALTIES:
        spline = MonotoneSplineCalibrator(link="identity", bandwidth=0.1, penalty=penalty)
        g = spline.fit(sample.s, sample.y).calibrate(grid)
        line = np.polynomial.Polynomial.fit(grid, g, 1)
        bends.append(float(np.abs(g - line(grid)).max()))
    return {"falls": falls, "bends": bends}


# ── properties of the maps ──────────────────────────────────────────────────────────────────────────


def count_falls(shapes: list[dict[str, Any]]) -> dict[str, tuple[int, float]]:
    """Count the samples in which each spline falls somewhere, and find by how much at most."""
    falls = {name: np.array([one["falls"][name] for one in shapes]) for name in shapes[0]["falls"]}
    return {name: (int((values > _LEVEL).sum()), float(values.max())) for name, values in falls.items()}


def judge_shapes(shapes: list[dict[str, Any]]) -> list[Check]:
    """
    Judge whether constrained splines never fall, and whether in every sample a large penalty gives a straight line.

    A limit is about large λ only: where λ is small, the distance may go either way. λ goes as far as 10⁷ so that the
    verdict does not hang on the 0.001, which is ours: at 10⁵ one sample of 40 was still at 0.00105.
    """
    (free, most), (bound, least) = count_falls(shapes).values()
    fallen = f"{bound}, by up to {least:.3g}" if bound else "none"
    each = np.array([one["bends"] for one in shapes])
    shrunk, last = each[:, -3:-1] / each[:, -2:], each[:, -1]
    facts = {"first": each[:, 0].mean(), "last": scientific(last.mean()), "most": scientific(last.max())}
    facts |= {"least": scientific(PENALTIES[0]), "largest": scientific(PENALTIES[-1])}
    facts |= {"slow": shrunk.min(), "quick": shrunk.max(), "samples": len(shapes)}
    straight = bool((shrunk >= 2.0).all() and (last < 1e-3).all())
    return [
        judge("maps-monotone", bound == 0 and free > 0, free=free, samples=len(shapes), most=most, bound=fallen),
        judge("large-penalty", straight, **facts),
    ]


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────


def draw_example() -> Figure:
    """Draw outcomes with level lines of the fitted score, and three maps beside the exact C."""
    sample = draw_sample(_SHOWN, seed=1)
    maps = fit_maps(sample)
    grid = maps["isotonic"][0]
    rows = [
        {"score": grid[i]} | {name: np.interp(grid[i], *line) for name, line in maps.items()} for i in thin(grid.size)
    ]

    def draw(axes: Any) -> None:
        left, right = axes
        draw_square(left, f"Logistic regression, n = {_SHOWN}", sample.score, X=sample.X, y=sample.y)
        left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
        right.plot(grid, grid, color=INK.faint, linewidth=1)
        looks = {"isotonic": 2, "C² spline": 1, "monotone C² spline": 0}  # green, red and blue, as in the paper
        for name, number in looks.items():
            right.plot(*maps[name], color=colour(number), label=name)
        right.plot(*maps["truth"], color=INK.ink, linestyle=(0, (4, 2)), linewidth=1.3, label="exact C")
        right.set(xlabel="score", ylabel="recalibrated score", title="Three maps", xlim=(grid[0], grid[-1]))
        right.legend(loc="upper left")

    title = "A plain logistic regression, and three recalibration maps of it (fig:simulation:logistic, left)"
    description = f"{_SHOWN} outcomes and level lines of the fitted score; the maps over its range, beside the exact C."
    return figure("maps-three", title, description, draw, rows, size=(7.4, 3.7), shape=(1, 2))


def draw_distances(found: np.ndarray, exact: np.ndarray, reading: str) -> Figure:
    """Draw ICI and LCS against h in one reading, a line for each k with its smallest value ringed."""
    start, (what, line) = 2 * list(READINGS).index(reading), READINGS[reading]
    values = found[..., start : start + 2]
    rows = [
        {"h": f"{h:g}"}
        | {
            f"{metric.upper()}, k = {k}": values[i, j, m]
            for m, metric in enumerate(METRICS)
            for i, k in enumerate(SIZES)
        }
        for j, h in enumerate(BANDWIDTHS)
    ]

    def draw(axes: Any) -> None:
        for m, (ax, title) in enumerate(zip(axes, METRICS.values(), strict=True)):
            for i, k in enumerate(SIZES):
                row, low = values[i, :, m], int(values[i, :, m].argmin())
                look = {"marker": MARKERS[i], "markersize": 3.5, "linewidth": 1.3}
                ax.plot(BANDWIDTHS, row, color=colour(i), label=f"k = {k}", **look)
                ax.plot(BANDWIDTHS[low], row[low], "o", markersize=9, markerfacecolor="none", color=colour(i))
            ax.axhline(exact[m], color=INK.ink, linestyle=(0, (4, 2)), linewidth=1.2, label=line)
            ax.set(xscale="log", xlabel="bandwidth h", title=title, ylim=(0, None))
            ax.set_xticks((ticks := (0.02, 0.05, 0.1, 0.2, 0.5)), [f"{h:g}" for h in ticks])
            ax.minorticks_off()
        share_legend(axes)

    description = (
        f"Against the bandwidth h, for three basis sizes k; dashed: {line}, {exact[0]:.5f} and {exact[1]:.5f}."
    )
    title = f"ICI and LCS: {what}"
    return figure(f"bandwidth-{reading}", title, description, draw, rows, size=(7.4, 3.1), shape=(1, 2))
