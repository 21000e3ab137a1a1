"""Runs of the synthetic experiment: local calibration scores, calibration maps, and Brier terms before and after."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.simplex import FloatArray
from scoreprism.datasets import CopulaLaw, Sample, ScoreLaw
from scoreprism.paper._population import correlations, recalibrated, refined
from scoreprism.paper._synthetic_scores import FEATURES, Score, fitted, generator, isotonic, rounded, scores_of
from scoreprism.paper._work import Work

#: Scores whose local calibration score is looked at.
POOLED = ("x1", "x2", "average")
#: Scores whose Brier terms are looked at: the paper's three, and x₁ rounded.
SCORES = ("x1", "x12", "x12-rounded", "x1-rounded")
#: Ways in which terms are found: estimated as the paper, with Ĉ of fresh rows, and exactly.
WAYS = ("paper", "fresh", "exact")
_COMPONENTS = ("reliability", "grouping")


def fitted_scores(train: Sample) -> dict[str, Score]:
    """
    All scores of the experiment, fitted on training rows.

    Parameters
    ----------
    train : Sample
        Training rows.

    Returns
    -------
    dict of str to callable
        By the keys of `NAMES`.
    """
    return scores_of({key: fitted(train.X, train.y, features) for key, features in FEATURES.items()})


def lcs_run(task: dict[str, Any]) -> dict[str, float]:
    """
    Local calibration scores of the two models and their average in one run, as the paper estimates them.

    Parameters
    ----------
    task : dict
        ``rho``, ``run`` and ``rows`` of each split.

    Returns
    -------
    dict of str to float
        By score, on test rows.
    """
    from scoreprism.metrics import lcs

    rng, law, rows = generator(task["rho"], task["run"]), CopulaLaw(task["rho"]), task["rows"]
    train, test = law.sample(rows, rng), law.sample(rows, rng)
    scores = fitted_scores(train)
    return {key: float(lcs(test.y, scores[key](*test.X.T))) for key in POOLED}


def lcs_runs(work: Work) -> dict[str, FloatArray]:
    """
    Local calibration scores of all runs at all correlations.

    Parameters
    ----------
    work : Work
        Where they are computed.

    Returns
    -------
    dict of str to array of shape (correlations, runs)
        By score.
    """
    plan, rhos = work.plan, correlations(work.plan)
    tasks = [{"rho": rho, "run": run, "rows": plan.rows} for rho in rhos for run in range(plan.runs)]
    found = work.run("synthetic-lcs", lcs_run, tasks, "runs of the synthetic experiment")
    return {key: np.reshape([one[key] for one in found], (len(rhos), plan.runs)) for key in POOLED}


class MapCurve(NamedTuple):
    """A fitted calibration map beside the exact one."""

    score: FloatArray
    fitted: FloatArray
    exact: FloatArray


def map_curves(work: Work, points: int = 121) -> dict[str, MapCurve]:
    """
    Monotone splines of the two models and their average at ρ = 0, beside the exact C of the same scores.

    Parameters
    ----------
    work : Work
        Gives the rows.
    points : int, default=121
        Of each curve.

    Returns
    -------
    dict of str to MapCurve
        By score, over the range of the score.
    """
    from scoreprism.calibrators import MonotoneSplineCalibrator

    rng, law = generator(0.0, 0, 2), CopulaLaw(0.0)
    train, calibration = law.sample(work.plan.rows, rng), law.sample(work.plan.rows, rng)
    scores = fitted_scores(train)
    curves = {}
    for key in POOLED:
        spline = MonotoneSplineCalibrator().fit(scores[key](*calibration.X.T), calibration.y)
        nodes = law.score_law(scores[key])
        grid = np.linspace(nodes.score[0], nodes.score[-1], points)
        curves[key] = MapCurve(grid, spline.calibrate(grid), np.interp(grid, *refined(nodes, 16)[:2]))
    return curves


def terms_run(task: dict[str, Any]) -> dict[str, float]:
    """
    Brier reliability and grouping of four scores at ρ = 0, before and after isotonic recalibration, in one run.

    Four splits: the models are fitted on the first, the maps on the second, terms are judged on the third. The fourth
    serves the calibrated version of recalibrated scores: on the second it is the recalibrated score itself.

    Parameters
    ----------
    task : dict
        ``run``, and ``rows`` of each split.

    Returns
    -------
    dict of str to float
        ``score/before|after/way/term``, the ways being those of `WAYS`.
    """
    rng, law, rows = generator(0.0, task["run"], 3), CopulaLaw(0.0), task["rows"]
    train, calibration, test, fresh = (law.sample(rows, rng) for _ in range(4))
    scores = fitted_scores(train)
    found: dict[str, float] = {}
    for key in SCORES:
        parts = {name: scores[key](*part.X.T) for name, part in _named(calibration, test, fresh)}
        g = isotonic(parts["calibration"], calibration.y)
        after = {name: g.calibrate(part) for name, part in parts.items()}
        for when, values in (("before", parts), ("after", after)):
            for way, rows_of_c in (("paper", ("calibration", calibration.y)), ("fresh", ("fresh", fresh.y))):
                C = isotonic(values[rows_of_c[0]], rows_of_c[1]).calibrate(values["test"])
                found |= _labelled(key, when, way, _judged(values["test"], C, test.q))
        for when, terms in _exact(law, scores, key, g).items():
            found |= _labelled(key, when, "exact", terms)
    return found


def _named(calibration: Sample, test: Sample, fresh: Sample) -> list[tuple[str, Sample]]:
    return [("calibration", calibration), ("test", test), ("fresh", fresh)]


def _labelled(key: str, when: str, way: str, terms: tuple[float, float]) -> dict[str, float]:
    return {f"{key}/{when}/{way}/{name}": value for name, value in zip(_COMPONENTS, terms, strict=True)}


def _judged(S: FloatArray, C: FloatArray, Q: FloatArray) -> tuple[float, float]:
    """Brier reliability and grouping on test rows."""
    return float(np.mean((S - C) ** 2)), float(np.mean((C - Q) ** 2))


def _exact(law: CopulaLaw, scores: dict[str, Score], key: str, g: Any) -> dict[str, tuple[float, float]]:
    """Brier reliability and grouping of a score and of g of it, by quadrature."""
    base = key.removesuffix("-rounded")
    nodes: ScoreLaw = refined(law.score_law(scores[base]))
    grouping = law.population(scores[base], "brier").grouping
    values = nodes.score if key == base else rounded(nodes.score)
    found = {}
    for when, score in (("before", values), ("after", g.calibrate(values))):
        reliability, more = recalibrated(nodes, score)
        found[when] = reliability, grouping + more
    return found


def terms_runs(work: Work) -> dict[str, FloatArray]:
    """
    Brier terms of all runs.

    Parameters
    ----------
    work : Work
        Where they are computed.

    Returns
    -------
    dict of str to array of shape (runs,)
        By the keys of `terms_run`.
    """
    tasks = [{"run": run, "rows": work.plan.rows} for run in range(work.plan.runs)]
    found = work.run("synthetic-terms", terms_run, tasks, "runs of the recalibration experiment")
    return {key: np.array([one[key] for one in found]) for key in found[0]}
