"""Appendix C: what in-sample estimates are biased by, and how wide intervals are that refit the whole pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from reproduction.checks import Check, claimed, claims_table
from reproduction.members import CLIP
from reproduction.population import recalibrated
from reproduction.printed import LOSSES
from reproduction.synthetic_scores import isotonic
from reproduction.uncertainty_figures import bias_figure, widths_figure
from reproduction.uncertainty_platt import errors_table, parametric, standard_errors
from reproduction.uncertainty_scores import LAW, SAMPLES_PER_RUN, SCORES, nodes_of
from reproduction.work import Outcome, Work
from scoreprism._core.simplex import FloatArray
from scoreprism.exceptions import OverfitWarning
from scoreprism.intervals import quantile
from scoreprism.losses import get_loss
from scoreprism.report import Section, Table
from scoreprism.report._pieces import table

#: Rows of the calibration split, as in the paper's study of German credit, and of the test split.
_ROWS, _TEST = 200, 1000
_AFTER = "reliability, recalibrated"


def uncertainty(work: Work) -> Outcome:
    """
    The statements of appendix C, by simulation from the law of the synthetic data.

    Parameters
    ----------
    work : Work
        Where to run.

    Returns
    -------
    Outcome
        Checks of its statements.
    """
    optimism, widths, errors = _optimism(work), _widths(work), standard_errors(work)
    checks = (_optimistic(optimism), _wider(widths), parametric(errors))
    samples = work.plan.runs * SAMPLES_PER_RUN
    blocks = (
        claims_table("appendix-c", "Statements of appendix C", checks),
        _optimism_table(optimism, samples),
        bias_figure(optimism),
        _widths_table(widths, work.plan.resamples),
        widths_figure(widths),
        errors_table(errors, work.plan.resamples, samples),
    )
    section = Section("uncertainty", "Statistical uncertainty", _meaning(optimism, widths, errors), blocks)
    return Outcome(section, checks, _numbers(optimism, widths, errors))


# ── in sample, on a split, debiased ─────────────────────────────────────────────────────────────────


def one_sample(task: dict[str, Any]) -> dict[str, float]:
    """
    Reliability and recalibrated loss of two scores, estimated from one sample in three ways.

    Parameters
    ----------
    task : dict
        ``run``, ``rows`` and ``test``.

    Returns
    -------
    dict of str to float
        By score, loss, quantity and way.
    """
    from scoreprism.estimation import decompose

    rng = np.random.default_rng([303, task["run"]])
    known, fresh = LAW.sample(task["rows"], rng), LAW.sample(task["test"], rng)
    found: dict[str, float] = {}
    for name, score in SCORES.items():
        s = score(*known.X.T)
        fitted = isotonic(s, known.y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverfitWarning)  # that so few rows are too few is what this shows
            debiased = decompose(known.y, s, calibrator="isotonic", loss=list(LOSSES), random_state=task["run"])
        found |= {f"{name}/brier/after/{way}": value for way, value in _recalibrated(name, fitted, s, known.y).items()}
        for loss in LOSSES:
            found[f"{name}/{loss}/reliability/debiased"] = debiased[loss].terms["reliability"]
            for way, rows in (("in sample", known), ("split", fresh)):
                raw = score(*rows.X.T)
                terms = _plugin(loss, raw, np.clip(fitted.calibrate(raw), CLIP, 1 - CLIP), rows.y)
                found |= {f"{name}/{loss}/{quantity}/{way}": value for quantity, value in terms.items()}
    return found


def _recalibrated(name: str, fitted: Any, s: FloatArray, y: Any) -> dict[str, float]:
    """Brier reliability of the recalibrated score: judged on its own rows with a map fitted again, and exactly."""
    g = fitted.calibrate(s)
    again = type(fitted)(interpolation="linear", shrink=False, clip=0).fit(g, y)
    nodes = nodes_of(name)
    truth, _ = recalibrated(nodes, fitted.calibrate(nodes.score))
    return {"in sample": _plugin("brier", g, again.calibrate(g), y)["reliability"], "truth": truth}


def _plugin(loss: str, s: FloatArray, c: FloatArray, y: Any) -> dict[str, float]:
    chosen = get_loss(loss)
    return {
        "reliability": float(chosen.divergence(s, c).mean()),
        "recalibrated loss": float(chosen.evaluate(c, y).mean()),
    }


def _optimism(work: Work) -> list[dict[str, Any]]:
    """Truth and the mean of each estimate with its standard error, by score, loss and quantity."""
    runs = range(work.plan.runs * SAMPLES_PER_RUN)
    tasks = [{"run": run, "rows": _ROWS, "test": _TEST} for run in runs]
    drawn = work.run("optimism", one_sample, tasks, "samples of appendix C")
    rows = []
    for name, score in SCORES.items():
        for loss in LOSSES:
            exact = LAW.population(score, loss)
            true = {"reliability": exact.reliability, "recalibrated loss": exact.risk - exact.reliability}
            if name == "calibrated":  # up to the interpolation of E[Q | X₁]
                true = {"reliability": 0.0, "recalibrated loss": exact.risk}
            for quantity, value in true.items():
                key = f"{name}/{loss}/{quantity}"
                ways = [way for way in ("in sample", "split", "debiased") if f"{key}/{way}" in drawn[0]]
                means = {way: _mean([one[f"{key}/{way}"] for one in drawn]) for way in ways}
                rows.append({"score": name, "loss": loss, "quantity": quantity, "truth": value, "means": means})
        after = {way: _mean([one[f"{name}/brier/after/{way}"] for one in drawn]) for way in ("truth", "in sample")}
        truth, inside = after["truth"][0], {"in sample": after["in sample"]}
        rows.append({"score": name, "loss": "brier", "quantity": _AFTER, "truth": truth, "means": inside})
    return rows


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    array = np.asarray(values)
    return float(array.mean()), float(array.std(ddof=1) / np.sqrt(array.size))


def _optimism_table(rows: list[dict[str, Any]], samples: int) -> Table:
    columns = [("score", "score", "text"), ("loss", "loss", "text"), ("quantity", "quantity", "text"),
               ("truth", "truth", "loss"), ("in_sample", "same rows", "loss"), ("split", "fresh rows", "loss"),
               ("debiased", "debiased", "loss")]  # fmt: skip
    cells = [
        (row["score"], LOSSES[row["loss"]], row["quantity"], row["truth"],
         *(row["means"].get(way, (None, None))[0] for way in ("in sample", "split", "debiased")))
        for row in rows
    ]  # fmt: skip
    error = max(one for row in rows for _, one in row["means"].values())
    note = (
        f"Means over {samples} samples; standard errors are at most {error:.4f}. The isotonic map is fitted to {_ROWS} "
        f"rows and judged on the same rows or on {_TEST:,} fresh ones, with Ĉ kept {CLIP:.6f} away from 0 and 1 as "
        "in the paper; “debiased” is decompose() on the calibration rows alone. The score “calibrated” is E[Q | X₁], "
        "“too steep” is σ(6 X₁ − 3); the truth is by quadrature."
    )
    return table("in-sample", "Reliability judged on the rows of the calibrator, and on others", columns, cells, note)


def _optimistic(rows: list[dict[str, Any]]) -> Check:
    """Holds if reliability in sample lies below the truth by more than two standard errors for any score and loss."""
    reliability = [row for row in rows if row["quantity"] == "reliability"]
    holds = any(_sign(row, "in sample") < 0 for row in reliability)
    up = sum(_sign(row, "in sample") > 0 for row in reliability)
    log = next(row for row in reliability if row["score"] == "calibrated" and row["loss"] == "log")
    losses = [row for row in rows if row["quantity"] == "recalibrated loss"]
    down = sum(_sign(row, "in sample") < 0 for row in losses)
    inside, fresh = (log["means"][way][0] for way in ("in sample", "split"))
    again = [row for row in rows if row["quantity"] == _AFTER and row["score"] == "calibrated"]
    told = (
        f"The plug-in reliability on the calibrator's own rows lies above the truth in {up} of {len(reliability)} "
        f"cases: for a perfectly calibrated score it is {inside:.4f} (log loss) in sample and {fresh:.4f} on fresh "
        "rows, because it contains the noise of the fitted map. It is the recalibrated loss that is too low in sample, "
        f"in {down} of {len(losses)} cases. Rule: the paper's plug-in of the score is below the truth in any case. Of "
        f"the recalibrated score it does hold: in sample its reliability is {again[0]['means']['in sample'][0]:.4f} by "
        f"construction, in truth {again[0]['truth']:.4f} (Brier)."
    )
    return claimed("in-sample-optimistic", holds, told)


def _sign(row: dict[str, Any], way: str) -> int:
    """Whether a mean is above or below the truth by more than two standard errors."""
    mean, error = row["means"][way]
    gap = mean - row["truth"]
    return 0 if abs(gap) <= 2 * error else int(np.sign(gap))


# ── calibration only and end to end ─────────────────────────────────────────────────────────────────


def bootstrapped(task: dict[str, Any]) -> dict[str, Any]:
    """
    A pipeline under resampling, with the calibrator refitted or everything.

    Parameters
    ----------
    task : dict
        ``sample``, ``resamples``, ``refit``, and the ``rows`` of the three splits.

    Returns
    -------
    dict
        Estimate and standard error of each quantity.
    """
    from sklearn.linear_model import LogisticRegression

    from scoreprism.pipelines import pipeline_bootstrap

    rng = np.random.default_rng([404, task["sample"]])
    parts = [LAW.sample(rows, rng) for rows in task["rows"]]
    given = [(part.X[:, :1], part.y) for part in parts]
    found = pipeline_bootstrap(
        LogisticRegression(C=np.inf), "isotonic", *given, refit=task["refit"], n_resamples=task["resamples"],
        loss="brier", q=parts[2].q, random_state=task["sample"],
    )  # fmt: skip
    return {name: [found.terms[name], found.std_error[name]] for name in _QUANTITIES}


_QUANTITIES = ("reliability", "grouping", "loss")
_REFITS = {"calibrator": "calibrator only", "all": "end to end"}


def _widths(work: Work) -> list[dict[str, Any]]:
    """Estimate and width of the interval, by sample, what is refitted and quantity."""
    samples = max(3, work.plan.runs // 5)
    tasks: list[dict[str, Any]] = [
        {"sample": i, "resamples": work.plan.resamples, "refit": refit, "rows": [_ROWS, _ROWS, _TEST]}
        for i in range(samples)
        for refit in _REFITS
    ]
    done = work.run("bootstraps", bootstrapped, tasks, "bootstraps of pipelines")
    z = quantile(0.95, two_sided=True)
    return [
        {"sample": task["sample"], "refit": _REFITS[task["refit"]], "quantity": name, "estimate": result[name][0],
         "half": z * result[name][1]}
        for task, result in zip(tasks, done, strict=True)
        for name in _QUANTITIES
    ]  # fmt: skip


def _halves(rows: list[dict[str, Any]], quantity: str, refit: str) -> FloatArray:
    return np.array([row["half"] for row in rows if row["quantity"] == quantity and row["refit"] == refit])


def _widths_table(rows: list[dict[str, Any]], resamples: int) -> Table:
    columns = [("quantity", "quantity (Brier)", "text"), ("calibrator", "width, calibrator only", "loss"),
               ("all", "width, end to end", "loss"), ("ratio", "ratio", "short"),
               ("wider", "end to end is wider", "text")]  # fmt: skip
    cells = []
    for name in _QUANTITIES:
        one, both = (2 * _halves(rows, name, refit) for refit in _REFITS.values())
        share = f"in {int((both > one).sum())} of {one.size} samples"
        cells.append((name, float(one.mean()), float(both.mean()), float(both.mean() / one.mean()), share))
    note = (
        f"Widths of 95 % intervals, mean over samples; {resamples} replicates each, the test rows drawn again in both. "
        f"Logistic regression on X₁ trained on {_ROWS} rows, isotonic map on {_ROWS}, {_TEST:,} test rows with known "
        "Q. Widths are of estimate ± 1.96 standard errors, before an interval is cut at 0."
    )
    return table("interval-widths", "Refitting the calibrator, and refitting everything", columns, cells, note)


def _wider(rows: list[dict[str, Any]]) -> Check:
    """
    Holds if the mean width end to end is the larger one for reliability and for the loss.

    Grouping is told and not judged: a logistic regression of one feature that is fitted again is a function of the
    old one, so that it loses the same information.
    """
    ratios = {}
    for name in _QUANTITIES:
        one, both = (_halves(rows, name, refit) for refit in _REFITS.values())
        ratios[name] = float(both.mean() / one.mean())
    told = ", ".join(f"{value:.2f} for {name}" for name, value in ratios.items())
    evidence = (
        f"Widths end to end over widths with the calibrator alone: {told} (mean over {one.size} samples). Rule: above "
        "1 for reliability and loss; refitting a model of one feature leaves grouping as it was."
    )
    return claimed("end-to-end-wider", min(ratios["reliability"], ratios["loss"]) > 1.0, evidence)


# ── the section ─────────────────────────────────────────────────────────────────────────────────────


def _meaning(rows: list[dict[str, Any]], widths: list[dict[str, Any]], errors: dict[str, list[float]]) -> str:
    log = next(row for row in rows if (row["score"], row["loss"]) == ("calibrated", "log"))
    one, both = (_halves(widths, "reliability", refit).mean() for refit in _REFITS.values())
    apart = max(abs(theory / again - 1) for _, theory, again, _ in errors.values())
    inside, debiased = log["means"]["in sample"][0], log["means"]["debiased"][0]
    return (
        f"With {_ROWS} calibration rows a perfectly calibrated score has a plug-in reliability of {inside:.4f} (log "
        f"loss) on the calibrator's own rows, {'above' if inside > 0 else 'at'} the true 0; debiased, {debiased:.4f}. "
        f"Intervals for the reliability are {both / one:.2f} times as wide when the model is refitted too. Standard "
        f"errors of Platt's map by theory and by the bootstrap differ by at most {100 * apart:.0f} %."
    ).replace("-0.", "−0.")


def _numbers(
    rows: list[dict[str, Any]], widths: list[dict[str, Any]], errors: dict[str, list[float]]
) -> dict[str, float]:
    found = {}
    for row in rows:
        key = f"uncertainty/{row['score']}/{row['loss']}/{row['quantity']}"
        found[f"{key}/truth"] = row["truth"]
        found |= {f"{key}/{way}": mean for way, (mean, _) in row["means"].items()}
    for name in _QUANTITIES:
        for refit in _REFITS.values():
            found[f"uncertainty/width/{name}/{refit}"] = float(2 * _halves(widths, name, refit).mean())
    for name, values in errors.items():
        for way, value in zip(("estimate", "theory", "bootstrap", "fresh"), values, strict=True):
            found[f"uncertainty/platt/{name}/{way}"] = value
    return found
