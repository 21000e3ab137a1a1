"""Appendix C: what in-sample estimates are biased by, how wide intervals are, and standard errors of Platt's map."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
from scipy.stats import norm

from reproduction.checks import Check, judge, tabulate_checks
from reproduction.members import CLIP
from reproduction.pieces import name_numbers, table
from reproduction.population import fit_isotonic, measure_map, refine, sigmoid
from reproduction.statements import LOSSES
from reproduction.work import Outcome, Work
from scoreprism import decompose
from scoreprism.calibrators import PlattCalibrator
from scoreprism.datasets import CopulaLaw, ScoreLaw
from scoreprism.exceptions import OverfitWarning
from scoreprism.inference import map_inference
from scoreprism.losses import get_loss
from scoreprism.pipelines import pipeline_bootstrap
from scoreprism.report import Paragraph, Section

LAW = CopulaLaw(rho=0.0)
#: Samples for each run of the plan.
_SAMPLES_PER_RUN = 25
#: Rows of the calibration split, as in the paper's study of German credit, and of the test split.
_ROWS, _TEST = 200, 1000
AFTER = "reliability, recalibrated"
_QUANTITIES = ("reliability", "grouping", "loss")
_REFITS = {"calibrator": "calibrator only", "all": "end to end"}
#: A standard error is as good as the truth up to this share: it is estimated from one sample of 500 rows.
_NEAR = 0.2

Row = dict[str, Any]


def run(work: Work) -> Outcome:
    """Check the statements of appendix C, by simulation from the law of the synthetic data."""
    samples, resamples = work.plan.runs * _SAMPLES_PER_RUN, work.plan.resamples
    bias, widths = measure_bias(work, samples), measure_widths(work)
    task = {"rows": 500, "resamples": resamples, "samples": samples}
    (errors,) = work.run("platt", estimate_errors, [task], "standard errors of Platt's map")
    checks = [judge_bias(bias), judge_widths(widths), judge_errors(errors)]
    bias_note = (
        f"Means over {samples} samples. The isotonic map is fitted to {_ROWS} rows and judged on the same rows or on "
        f"{_TEST:,} fresh ones, with Ĉ kept {CLIP:.6f} away from 0 and 1 as in the paper; “debiased” is decompose() on "
        "the calibration rows alone. The score “calibrated” is E[Q | X₁], “too steep” is σ(6 X₁ − 3); the truth is by "
        "quadrature."
    )
    widths_note = (
        f"Widths of 95 % intervals, mean over samples; {resamples} replicates each, the test rows drawn again in both. "
        f"Logistic regression on X₁ trained on {_ROWS} rows, isotonic map on {_ROWS}, {_TEST:,} test rows with known "
        "Q. Widths are of estimate ± 1.96 standard errors, before an interval is cut at 0."
    )
    errors_note = (
        "500 rows of the score “too steep”. Standard errors from one sample, by the sandwich formula (the index by "
        f"the delta method) and by {resamples} resamples, beside the standard deviation over {samples} fresh samples."
    )
    title = "Reliability judged on the rows of the calibrator, and on others"
    blocks = (
        tabulate_checks("appendix-c", "Statements of appendix C", checks),
        table("in-sample", title, bias, bias_note),
        table("interval-widths", "Refitting the calibrator, and refitting everything", widths, widths_note),
        table("platt-errors", "Standard errors of a parametric map", errors, errors_note),
    )
    numbers = (
        name_numbers("uncertainty", bias, ("truth", "in sample", "split", "debiased"))
        | name_numbers("uncertainty/width", widths, tuple(_REFITS.values()))
        | name_numbers("uncertainty/platt", errors, ("estimate", "theory", "bootstrap", "fresh"))
    )
    lead = (
        "The bias of plug-in reliability, the widths of intervals that refit everything, and standard errors by theory."
    )
    return Outcome(Section("uncertainty", "Statistical uncertainty", (), (Paragraph(lead), *blocks)), checks, numbers)


# ── scores ──────────────────────────────────────────────────────────────────────────────────────────


def score_steep(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    """Score by the first feature, too sure of itself."""
    return np.broadcast_to(sigmoid(6 * x1 - 3), np.broadcast_shapes(x1.shape, x2.shape))


def score_calibrated(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    """Score by E[Q | X₁], perfectly calibrated."""
    law = solve_score("first feature")
    return np.broadcast_to(np.interp(x1, law.score, law.calibrated), np.broadcast_shapes(x1.shape, x2.shape))


SCORES = {"calibrated": score_calibrated, "too steep": score_steep}


@cache
def solve_score(name: str) -> ScoreLaw:
    """Compute the law of a score; with more nodes for maps that have steps, where it is one of `SCORES`."""
    if name == "first feature":
        return LAW.score_law(lambda x1, x2: x1 + 0.0 * x2)
    return refine(LAW.score_law(SCORES[name]), 16)


# ── in sample, on a split, debiased ─────────────────────────────────────────────────────────────────


def estimate_reliability(task: Row) -> dict[str, float]:
    """Estimate reliability and recalibrated loss of two scores from one sample in three ways: score/loss/quantity/way."""
    rng = np.random.default_rng([303, task["run"]])
    known, fresh = LAW.sample(task["rows"], rng), LAW.sample(task["test"], rng)
    found: dict[str, float] = {}
    for name, score in SCORES.items():
        s, nodes = score(*known.X.T), solve_score(name)
        fitted = fit_isotonic(s, known.y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverfitWarning)  # that so few rows are too few is what this shows
            chain = decompose(known.y, s, calibrator="isotonic", random_state=task["run"]).chain
            debiased = {loss: chain.decompose(loss) for loss in LOSSES}
        g = fitted.calibrate(s)
        again = fit_isotonic(g, known.y).calibrate(g)  # judged on its own rows, with a map fitted again
        found[f"{name}/brier/{AFTER}/in sample"] = float(get_loss("brier").divergence(g, again).mean())
        found[f"{name}/brier/{AFTER}/truth"] = measure_map(nodes, fitted.calibrate(nodes.score))[0]
        for loss in LOSSES:
            key, chosen = f"{name}/{loss}", get_loss(loss)
            found[f"{key}/reliability/debiased"] = debiased[loss].terms["reliability"]
            for way, rows in (("in sample", known), ("split", fresh)):
                raw = score(*rows.X.T)
                c = np.clip(fitted.calibrate(raw), CLIP, 1 - CLIP)
                found[f"{key}/reliability/{way}"] = float(chosen.divergence(raw, c).mean())
                found[f"{key}/recalibrated loss/{way}"] = float(chosen.evaluate(c, rows.y).mean())
    return found


def measure_bias(work: Work, samples: int) -> list[Row]:
    """Find the truth and the mean of each estimate, with the standard error in sample, by score, loss and quantity."""
    tasks = [{"run": i, "rows": _ROWS, "test": _TEST} for i in range(samples)]
    drawn = work.run("optimism", estimate_reliability, tasks, "samples of appendix C")

    def summarize(name: str, loss: str, quantity: str, truth: float) -> Row:
        found = {}
        for way in ("in sample", "split", "debiased"):
            key = f"{name}/{loss}/{quantity}/{way}"
            found[way] = float(np.mean([one[key] for one in drawn])) if key in drawn[0] else None
        inside = [one[f"{name}/{loss}/{quantity}/in sample"] for one in drawn]
        error = float(np.std(inside, ddof=1) / np.sqrt(len(drawn)))
        return {"score": name, "loss": loss, "quantity": quantity, "truth": truth, **found, "error in sample": error}

    rows = []
    for name, score in SCORES.items():
        for loss in LOSSES:
            exact = LAW.population(score, loss)
            # E[Q | X₁] is calibrated up to its interpolation
            reliability = 0.0 if name == "calibrated" else exact.reliability
            rows.append(summarize(name, loss, "reliability", reliability))
            rows.append(summarize(name, loss, "recalibrated loss", exact.risk - reliability))
        truth = float(np.mean([one[f"{name}/brier/{AFTER}/truth"] for one in drawn]))
        rows.append(summarize(name, "brier", AFTER, truth))
    return rows


def judge_bias(rows: list[Row]) -> Check:
    """Holds if reliability in sample lies below the truth by more than two standard errors for any score and loss."""
    found = {(row["score"], row["loss"], row["quantity"]): row for row in rows}
    signs = {
        quantity: [_find_sign(row) for row in rows if row["quantity"] == quantity]
        for quantity in ("reliability", "recalibrated loss")
    }
    log, again = found["calibrated", "log", "reliability"], found["calibrated", "brier", AFTER]
    return judge(
        "in-sample-optimistic",
        -1 in signs["reliability"],
        up=signs["reliability"].count(1),
        down=signs["recalibrated loss"].count(-1),
        cases=len(signs["reliability"]),
        inside=log["in sample"],
        fresh=log["split"],
        again=again["in sample"],
        truth=again["truth"],
    )


def _find_sign(row: Row) -> int:
    """Tell whether the mean in sample is above or below the truth by more than two standard errors."""
    gap = row["in sample"] - row["truth"]
    return 0 if abs(gap) <= 2 * row["error in sample"] else int(np.sign(gap))


# ── calibration only and end to end ─────────────────────────────────────────────────────────────────


def bootstrap_pipeline(task: Row) -> dict[str, Any]:
    """Resample a pipeline, with the calibrator refitted or everything: estimate and standard error of each quantity."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng([404, task["sample"]])
    parts = [LAW.sample(rows, rng) for rows in task["rows"]]
    given = [(part.X[:, :1], part.y) for part in parts]
    options = {"refit": task["refit"], "n_resamples": task["resamples"], "random_state": task["sample"]}
    model = LogisticRegression(C=np.inf)
    found = pipeline_bootstrap(model, *given, calibrator="isotonic", loss="brier", q=parts[2].q, **options)
    return {name: [found.terms[name], found.std_error[name]] for name in _QUANTITIES}


def measure_widths(work: Work) -> list[Row]:
    """Measure the widths of both kinds of intervals, in the mean over samples."""
    samples = max(3, work.plan.runs // 5)
    tasks = [
        {"sample": i, "resamples": work.plan.resamples, "refit": refit, "rows": [_ROWS, _ROWS, _TEST]}
        for i in range(samples)
        for refit in _REFITS
    ]
    done = work.run("bootstraps", bootstrap_pipeline, tasks, "bootstraps of pipelines")
    z = float(norm.ppf(0.975))
    rows = []
    for name in _QUANTITIES:
        one, both = (
            np.array(
                [2 * z * found[name][1] for task, found in zip(tasks, done, strict=True) if task["refit"] == refit]
            )
            for refit in _REFITS
        )
        row = {"quantity": name, "calibrator only": one.mean(), "end to end": both.mean()}
        more = {
            "ratio": both.mean() / one.mean(),
            "samples": samples,
            "end to end is wider in": int((both > one).sum()),
        }
        rows.append(row | more)
    return rows


def judge_widths(rows: list[Row]) -> Check:
    """
    Holds if the mean width end to end is the larger one for reliability and for the loss.

    Grouping is told and not judged: a logistic regression of one feature that is fitted again is a function of the
    old one, so that it loses the same information.
    """
    ratios = {row["quantity"]: row["ratio"] for row in rows}
    told = ", ".join(f"{value:.2f} for {name}" for name, value in ratios.items())
    holds = min(ratios["reliability"], ratios["loss"]) > 1.0
    return judge("end-to-end-wider", holds, ratios=told, samples=rows[0]["samples"])


# ── Platt's map ─────────────────────────────────────────────────────────────────────────────────────


def estimate_errors(task: Row) -> list[Row]:
    """
    Estimate intercept, slope and integrated calibration index of Platt's map, with three standard errors.

    By M-estimation, by the bootstrap, and the standard deviation over fresh samples.
    """
    rng = np.random.default_rng(505)
    n = task["rows"]
    sample = LAW.sample(n, rng)
    s = score_steep(*sample.X.T)
    found = map_inference(sample.y, s, calibrator="platt")
    index = found.summary("ici")
    draws = (rng.integers(n, size=n) for _ in range(task["resamples"]))
    again = np.std([_fit_platt(s[rows], sample.y[rows]) for rows in draws], axis=0, ddof=1)
    fresh = (LAW.sample(n, rng) for _ in range(task["samples"]))
    truth = np.std([_fit_platt(score_steep(*one.X.T), one.y) for one in fresh], axis=0, ddof=1)
    names = (*found.names, "integrated calibration index")
    estimates = [*(found.terms[name] for name in found.names), index.plugin]
    theory = [*(found.std_errors[name] for name in found.names), index.std_error]
    columns = ("quantity", "estimate", "theory", "bootstrap", "fresh")
    rows = zip(names, estimates, theory, again, truth, strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _fit_platt(s: np.ndarray, y: Any) -> tuple[float, float, float]:
    fitted = PlattCalibrator().fit(s, y)
    return float(fitted.intercept_), float(fitted.slope_), float(np.abs(fitted.calibrate(s) - s).mean())


def judge_errors(rows: list[Row]) -> Check:
    """Holds if every standard error by theory is near the standard deviation over fresh samples."""
    apart = {row["quantity"]: row["theory"] / row["fresh"] - 1 for row in rows}
    told = ", ".join(f"{name} {100 * value:+.0f} %" for name, value in apart.items())
    holds = max(abs(value) for value in apart.values()) <= _NEAR
    return judge("parametric-errors", holds, apart=told, near=100 * _NEAR)
