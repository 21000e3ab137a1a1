"""The synthetic experiment (section 6.1, appendix D.1): averaging breaks calibration, recalibration keeps grouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from reproduction.checks import Check, judge, tabulate_checks
from reproduction.pieces import INK, MARKERS, colour, figure, list_words, share_legend, thin
from reproduction.population import (
    NAMES,
    Score,
    exceeds,
    fit_isotonic,
    fit_logistic,
    list_correlations,
    make_scores,
    measure_map,
    name_numbers,
    refine,
    round_score,
    seed_run,
    sigmoid,
    signed,
    solve_population,
)
from reproduction.work import Outcome, Work
from scoreprism.calibrators import MonotoneSplineCalibrator
from scoreprism.datasets import CopulaLaw, Draw
from scoreprism.metrics import lcs
from scoreprism.report import Figure, Paragraph, Section

#: Numbers of all runs, by name.
Runs = dict[str, np.ndarray]
#: Scores whose local calibration score is looked at; colours are the paper's: green, blue and red.
POOLED = {"x1": 2, "x2": 0, "average": 1}
#: Scores whose Brier terms are looked at: the paper's three, and x₁ rounded.
SCORES = ("x1", "x12", "x12-rounded", "x1-rounded")
#: Ways in which terms are found: estimated as the paper, with Ĉ of fresh rows, and exactly.
WAYS = {"paper": "as the paper", "fresh": "Ĉ of fresh rows", "exact": "exact"}
_TERMS = ("reliability", "grouping")
#: A score counts as nearly calibrated if the root of its exact LCS is below this: two percentage points.
_NEARLY = 0.02
#: "Far less" and "far more" mean this many times.
_FAR = 3.0
#: A reliability counts as close to zero, and a grouping as unchanged, up to this.
_CLOSE = 0.001
_CONSTRUCTION = (
    "Estimated as the paper does, with Ĉ fitted again on the calibration rows, both statements on recalibration hold by "
    "construction: isotonic regression of an isotonic fit is that fit, so reliability is 0 and grouping is as it was in "
    "every run. The bars after recalibration therefore use Ĉ fitted on a fourth split of the same size."
)


def run(work: Work) -> Outcome:
    """Run section 6.1 and appendix D.1 of the paper."""
    exact, runs, curves, terms = solve_population(work), run_lcs(work), fit_maps(work), run_terms(work)
    checks = [*judge_averaging(exact, runs), *judge_recalibration(terms)]
    blocks = (
        tabulate_checks("synthetic-claims", "Statements of section 6.1", checks),
        _draw_surface(),
        _draw_maps(curves, work),
        _draw_lcs(runs, exact, work),
        _draw_terms(terms, work),
        Paragraph(_CONSTRUCTION),
    )
    lead = "Two features, their logistic models and the average of these, whose exact terms are known by quadrature."
    numbers = {f"synthetic/{key}": float(values.mean()) for key, values in terms.items()}
    for key in POOLED:
        for row, mean in zip(exact, runs[key].mean(axis=1), strict=True):
            numbers[f"synthetic/lcs/{key}/{row['rho']:+.2f}"] = float(mean)
        numbers[f"synthetic/map/{key}"] = float(np.abs(curves[key].fitted - curves[key].exact).max())
    return Outcome(
        Section("synthetic", "Synthetic data", (), (Paragraph(lead), *blocks)), checks, numbers | name_numbers(work)
    )


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────


def fit_scores(train: Draw) -> dict[str, Score]:
    """Fit all scores of the experiment on training rows."""
    return make_scores(lambda features: fit_logistic(train.X, train.y, features))


def run_lcs_once(task: dict[str, Any]) -> dict[str, float]:
    """Estimate, as the paper does, the local calibration scores of the two models and their average in one run."""
    rng, law, rows = seed_run(task["rho"], task["run"]), CopulaLaw(task["rho"]), task["rows"]
    train, test = law.sample(rows, rng), law.sample(rows, rng)
    scores = fit_scores(train)
    return {key: float(lcs(test.y, scores[key](*test.X.T))) for key in POOLED}


def run_lcs(work: Work) -> Runs:
    """Estimate local calibration scores in all runs at all correlations: an array (correlations, runs) each."""
    plan, rhos = work.plan, list_correlations(work.plan)
    tasks = [{"rho": rho, "run": run, "rows": plan.rows} for rho in rhos for run in range(plan.runs)]
    found = work.run("synthetic-lcs", run_lcs_once, tasks, "runs of the synthetic experiment")
    return {key: np.reshape([one[key] for one in found], (len(rhos), plan.runs)) for key in POOLED}


class MapCurve(NamedTuple):
    """A fitted calibration map beside the exact one."""

    score: np.ndarray
    fitted: np.ndarray
    exact: np.ndarray


def fit_maps(work: Work, points: int = 121) -> dict[str, MapCurve]:
    """Fit monotone splines to the two models and their average at ρ = 0, beside the exact C of the same scores."""
    rng, law = seed_run(0.0, 0, 2), CopulaLaw(0.0)
    train, calibration = law.sample(work.plan.rows, rng), law.sample(work.plan.rows, rng)
    scores = fit_scores(train)
    curves = {}
    for key in POOLED:
        spline = MonotoneSplineCalibrator().fit(scores[key](*calibration.X.T), calibration.y)
        nodes = law.score_law(scores[key])
        grid = np.linspace(nodes.score[0], nodes.score[-1], points)
        curves[key] = MapCurve(grid, spline.calibrate(grid), np.interp(grid, *refine(nodes, 16)[:2]))
    return curves


def run_terms_once(task: dict[str, Any]) -> dict[str, float]:
    """
    Find Brier terms of four scores at ρ = 0, before and after isotonic recalibration: ``score/when/way/term``.

    Four splits: the models are fitted on the first, the maps on the second, terms are judged on the third. The fourth
    serves the calibrated version of recalibrated scores: on the second it is the recalibrated score itself.
    """
    rng, law, rows = seed_run(0.0, task["run"], 3), CopulaLaw(0.0), task["rows"]
    train, calibration, test, fresh = (law.sample(rows, rng) for _ in range(4))
    scores = fit_scores(train)
    found: dict[str, float] = {}
    for key in SCORES:
        parts = {"paper": calibration, "fresh": fresh, "test": test}
        before = {name: scores[key](*part.X.T) for name, part in parts.items()}
        g = fit_isotonic(before["paper"], calibration.y)
        after = {name: g.calibrate(values) for name, values in before.items()}
        exact = _solve_terms(law, scores, key, g)
        for when, values in (("before", before), ("after", after)):
            for way in ("paper", "fresh"):
                C = fit_isotonic(values[way], parts[way].y).calibrate(values["test"])
                found[f"{key}/{when}/{way}/reliability"] = float(np.mean((values["test"] - C) ** 2))
                found[f"{key}/{when}/{way}/grouping"] = float(np.mean((C - test.q) ** 2))
            for term, value in zip(_TERMS, exact[when], strict=True):
                found[f"{key}/{when}/exact/{term}"] = value
    return found


def _solve_terms(law: CopulaLaw, scores: dict[str, Score], key: str, g: Any) -> dict[str, tuple[float, float]]:
    """Compute Brier reliability and grouping of a score and of g of it, by quadrature."""
    base = key.removesuffix("-rounded")
    nodes = refine(law.score_law(scores[base]))
    grouping = law.population(scores[base], "brier").grouping
    values = nodes.score if key == base else round_score(nodes.score)
    found = {}
    for when, score in (("before", values), ("after", g.calibrate(values))):
        reliability, more = measure_map(nodes, score)
        found[when] = reliability, grouping + more
    return found


def run_terms(work: Work) -> Runs:
    """Find Brier terms in all runs."""
    tasks = [{"run": run, "rows": work.plan.rows} for run in range(work.plan.runs)]
    found = work.run("synthetic-terms", run_terms_once, tasks, "runs of the recalibration experiment")
    return {key: np.array([one[key] for one in found]) for key in found[0]}


# ── statements ──────────────────────────────────────────────────────────────────────────────────────


def judge_averaging(exact: Sequence[dict[str, float]], runs: Runs) -> list[Check]:
    """Judge the statements on averaging; what a figure shows are the estimates, not the population."""
    zero = next(row for row in exact if row["rho"] == 0.0)
    x1, x2, average = (zero[f"lcs/{key}"] for key in POOLED)
    r1, r2 = float(np.sqrt(x1)), float(np.sqrt(x2))
    rhos, above = [row["rho"] for row in exact], [exceeds(row) for row in exact]
    seen = (runs["average"].mean(axis=1) > np.maximum(runs["x1"].mean(axis=1), runs["x2"].mean(axis=1))).tolist()
    fails = [signed(rho) for rho, holds in zip(rhos, above, strict=True) if not holds]
    wrong, bias = [i for i, holds in enumerate(above) if seen[i] and not holds], ""
    if wrong:
        row, i = exact[wrong[0]], wrong[0]
        worse = max(("x1", "x2"), key=lambda key: row[f"lcs/{key}"])
        gaps = {key: float(runs[key][i].mean()) - row[f"lcs/{key}"] for key in (worse, "average")}
        bias = f": at ρ = {signed(row['rho'])} estimates differ from exact values by {_list_values(gaps, '+.5f')}"
    everywhere = {"above": _say_where(rhos, above), "seen": _say_where(rhos, seen), "far": _FAR, "bias": bias}
    everywhere["fails"] = f", but not at ρ = {list_words(fails)}" if fails else ""
    everywhere["much"] = _say_where(rhos, [exceeds(row, _FAR) for row in exact])
    return [
        judge("members-calibrated", max(r1, r2) < _NEARLY, x1=x1, x2=x2, r1=r1, r2=r2, nearly=_NEARLY),
        judge("average-worse", exceeds(zero, _FAR), average=average, times=average / max(x1, x2), far=_FAR),
        judge("average-worse-every-rho", all(above), **everywhere),
    ]


def _say_where(rhos: Sequence[float], holds: Sequence[bool]) -> str:
    """Say at how many correlations something holds, and from which to which where these are neighbours."""
    places = [i for i, one in enumerate(holds) if one]
    if len(places) in (0, len(rhos)):
        return f"at all {len(rhos)} values of ρ" if places else "at no ρ"
    count = f"at {len(places)} of {len(rhos)} values of ρ"
    if places[-1] - places[0] + 1 > len(places):
        return count
    return f"{count} (from {signed(rhos[places[0]])} to {signed(rhos[places[-1]])})"


def judge_recalibration(terms: Runs) -> list[Check]:
    """Judge the statements on recalibration, by exact terms; those on reliability are of the paper's three scores."""
    before, after = (
        {key: _mean(terms, key, when, "reliability") for key in SCORES[:3]} for when in ("before", "after")
    )
    changes = ", ".join(f"{NAMES[key]} {before[key]:.5f} → {after[key]:.5f}" for key in before)
    already = [NAMES[key] for key in before if before[key] <= _CLOSE]
    so = f" So it was before for {list_words(already)}." if already else ""
    falls, rises = ([NAMES[key] for key in before if (after[key] < before[key]) == fell] for fell in (True, False))
    noise = "there was less to remove before than the noise of the fitted map puts in its place"
    rise = f"; it rises for {list_words(rises)}: {noise}" if rises else ""
    grouping = {key: _mean(terms, key, "before", "grouping") for key in SCORES}
    moved = {key: _mean(terms, key, "after", "grouping") - grouping[key] for key in SCORES}
    share = {key: 100 * moved[key] / grouping[key] for key in SCORES}
    told = {"moved": _list_values(moved, "+.5f"), "share": _list_values(share, ".1f"), "close": _CLOSE}
    poor, rich = grouping["x1"], grouping["x12"]
    coarser = all(grouping[f"{key}-rounded"] > grouping[key] for key in ("x12", "x1"))
    rounded = {key.replace("-", "_"): value for key, value in grouping.items()}
    return [
        judge("reliability-removed", max(after.values()) <= _CLOSE, changes=changes, close=_CLOSE, already=so),
        judge("reliability-eliminated", not rises, falls=list_words(falls) if falls else "no score", rises=rise),
        judge("grouping-unchanged", max(moved.values()) <= _CLOSE, **told),
        judge("richer-score", poor > _FAR * rich, poor=poor, rich=rich, far=_FAR),
        judge("quantising", coarser, goes="rises" if coarser else "goes", **rounded),
    ]


def _mean(terms: Runs, key: str, when: str, term: str, way: str = "exact") -> float:
    return float(terms[f"{key}/{when}/{way}/{term}"].mean())


def _list_values(values: dict[str, float], form: str) -> str:
    return ", ".join(f"{NAMES[key]} {value:{form}}" for key, value in values.items())


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────


def _draw_surface() -> Figure:
    def draw(axes: Any) -> None:
        law = CopulaLaw()
        draw_square(axes[0], "Q(x₁, x₂)", lambda x1, x2: sigmoid(law.logit(x1, x2)), 0.1)
        for ax, rho in zip(axes[1:], (-0.7, 0.0, 0.7), strict=True):
            drawn = CopulaLaw(rho).sample(350, seed_run(rho, 0, 4))
            draw_square(ax, f"ρ = {signed(rho)}", X=drawn.X, y=drawn.y)
        share_legend(axes[1:])

    title = "The true probability and simulated data (fig:true-surface)"
    description = "Contours of Q over the unit square, and scatterplots of simulated rows at ρ = −0.7, 0 and 0.7."
    return figure("true-surface", title, description, draw, size=(6.4, 6.6), shape=(2, 2))


def draw_square(
    ax: Any, title: str, score: Score | None = None, step: float = 0.05, X: Any = None, y: Any = None
) -> None:
    """Draw level lines of a score over the unit square, and outcomes of some rows."""
    if X is not None:
        for label, marker in ((0, "x"), (1, "o")):
            look = {"s": 9, "marker": marker, "color": colour(1 - label), "linewidths": 0.8, "alpha": 0.6}
            ax.scatter(*X[y == label].T, label=f"y = {label}", **look)
    if score is not None:
        grid, levels = np.linspace(0, 1, 101), np.arange(0.05, 1, step)
        values = score(grid[None, :], grid[:, None])
        lines = ax.contour(grid, grid, values, levels, colors=INK.ink, linewidths=0.8)
        # labels stand where lines cross x₂ = ½, away from the frame, which would cut them
        inside = [level for level in levels if values[50, 8] < level < values[50, -8]]
        places = [(float(grid[np.abs(values[50] - level).argmin()]), 0.5) for level in inside]
        for text in ax.clabel(lines, fmt="%.2g", fontsize=8, manual=places):
            text.set_bbox({"facecolor": INK.paper, "alpha": 0.95, "pad": 0.8, "linewidth": 0})
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    ax.set(xlabel="x₁", ylabel="x₂", title=title)


def _draw_maps(curves: dict[str, MapCurve], work: Work) -> Figure:
    rows = [
        {"score": NAMES[key], "S": curve.score[i], "ĝ": curve.fitted[i], "C, exactly": curve.exact[i]}
        for key, curve in curves.items()
        for i in thin(curve.score.size, 7)
    ]

    def draw(axes: Any) -> None:
        (ax,), dashed = axes, {"color": INK.ink, "linewidth": 0.9, "linestyle": (0, (4, 2))}
        ax.plot([0, 1], [0, 1], color=INK.faint, linewidth=1.0, zorder=0)
        for key, curve in curves.items():
            ax.plot(curve.score, curve.fitted, color=colour(POOLED[key]), label=f"ĝ of {NAMES[key]}")
            ax.plot(curve.score, curve.exact, **dashed)
        ax.plot([], [], label="C, exactly", **dashed)
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="score S", ylabel="calibrated probability")
        ax.legend(loc="upper left", bbox_to_anchor=(0.02, 0.99))

    title = "Calibration maps at ρ = 0 (fig:averaging, left)"
    description = (
        f"Monotone splines (logit link, penalty by REML) fitted on {work.plan.rows:,} calibration rows, beside the "
        "exact C."
    )
    return figure("averaging-maps", title, description, draw, rows, size=(4.6, 4.4))


def _draw_lcs(runs: Runs, exact: Sequence[dict[str, float]], work: Work) -> Figure:
    means = {key: find_mean_and_error(runs[key]) for key in POOLED}
    rows = [
        {"ρ": signed(row["rho"])}
        | {f"{NAMES[key]}, estimated": means[key][0][i] for key in POOLED}
        | {f"{NAMES[key]}, exact": row[f"lcs/{key}"] for key in POOLED}
        for i, row in enumerate(exact)
    ]

    def draw(axes: Any) -> None:
        (ax,), rho = axes, np.array([row["rho"] for row in exact])
        half = 0.5 * float(rho[1] - rho[0])
        for i, place in enumerate(row["rho"] for row in exact if not exceeds(row)):
            label = "exactly: average not above both" if i == 0 else None
            ax.axvspan(place - half, place + half, color=INK.faint, alpha=0.35, linewidth=0, zorder=0, label=label)
        for i, (key, number) in enumerate(POOLED.items()):
            mean, error = means[key]
            points = {"color": colour(number), "fmt": MARKERS[i], "markersize": 3.5, "elinewidth": 0.9}
            ax.plot(rho, [row[f"lcs/{key}"] for row in exact], color=colour(number), label=f"{NAMES[key]}, exact")
            ax.errorbar(rho, mean, 2 * error, **points)
        ax.errorbar([], [], [], color=INK.quiet, fmt="o", markersize=3.5, elinewidth=0.9, label="estimated ± 2 se")
        ax.set(xlabel="ρ", ylabel="LCS", ylim=(0, None), xlim=(rho[0] - half, rho[-1] + half))
        ticks = np.linspace(-0.9, 0.9, 7).round(1) + 0.0
        ax.set_xticks(ticks, [signed(tick) for tick in ticks])
        ax.legend(loc="upper right")

    title = "Local calibration score against ρ (fig:averaging, right)"
    description = (
        f"Lines: exact values. Points: local regression on {work.plan.rows:,} test rows, mean of {work.plan.runs} runs "
        "± 2 standard errors."
    )
    return figure("averaging-lcs", title, description, draw, rows, size=(6.6, 3.9))


def find_mean_and_error(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the mean over the last axis and its standard error, which is zero where there is one run."""
    count = runs.shape[-1]
    spread = runs.std(axis=-1, ddof=1) if count > 1 else np.zeros(runs.shape[:-1])
    return runs.mean(axis=-1), spread / np.sqrt(count)


def _draw_terms(terms: Runs, work: Work) -> Figure:
    rows = [
        {"score": NAMES[key], "recalibration": when}
        | {f"{term}, {WAYS[way]}": _mean(terms, key, when, term, way) for term in _TERMS for way in WAYS}
        for key in SCORES
        for when in ("before", "after")
    ]

    def draw(axes: Any) -> None:
        for ax, term in zip(axes, _TERMS, strict=True):
            _draw_bars(ax, term, terms)
        handles = dict(zip(*axes[0].get_legend_handles_labels()[::-1], strict=True))
        order = ("before", "after", "exact")
        axes[0].legend([handles[name] for name in order], order, loc="upper left", bbox_to_anchor=(0.02, 1.0))
        axes[0].set_ylim(0, 1.35 * axes[0].get_ylim()[1])

    title = "Reducible Brier terms before and after recalibration (fig:brier-reducible)"
    description = (
        f"ρ = 0, {work.plan.rows:,} rows in each split, mean of {work.plan.runs} runs. Bars: estimates on test rows "
        "with known Q and an isotonic Ĉ, of the calibration rows before and of fresh rows after; lines: ± 2 standard "
        "errors; diamonds: exact values. Rounded: to the middle of five intervals of equal length."
    )
    return figure("brier-reducible", title, description, draw, rows, size=(7.4, 3.7), shape=(1, 2))


def _draw_bars(ax: Any, term: str, terms: Runs) -> None:
    place = np.arange(len(SCORES))
    for shift, when, way, strength in ((-0.2, "before", "paper", 1.0), (0.2, "after", "fresh", 0.45)):
        height, error = find_mean_and_error(np.stack([terms[f"{key}/{when}/{way}/{term}"] for key in SCORES]))
        exact = [_mean(terms, key, when, term) for key in SCORES]
        ax.bar(place + shift, height, 0.36, color=INK.term(term), alpha=strength, label=when)
        ax.errorbar(place + shift, height, 2 * error, fmt="none", ecolor=INK.quiet, elinewidth=0.9)
        marks = {"marker": "D", "s": 18, "color": INK.ink, "edgecolors": INK.paper, "linewidths": 0.7, "zorder": 3}
        ax.scatter(place + shift, exact, **marks, label="exact" if when == "after" else None)
    ax.set_xticks(place, [NAMES[key].replace(" ", "\n") for key in SCORES])
    ax.set_title(term.capitalize())
    ax.set_ylabel(f"{term} (Brier)")
