"""Section 2: how far predictions and outcomes agree, in pictures, numbers, tests and grades; from rows or from sums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scoreprism._document.model import Block, Callout, Figure, Range, Section, Table, make_table
from scoreprism._findings.finding import Finding
from scoreprism._findings.wording import write_count, write_percent
from scoreprism.curves import ReliabilityCurve
from scoreprism.displays import ReliabilityDisplay, ScoreDistributionDisplay
from scoreprism.inference import TestResult
from scoreprism.report._metric_tables import tabulate_metrics
from scoreprism.report._pieces import choose_rate_kind, draw_with, figure, thin
from scoreprism.report._report import SECTIONS
from scoreprism.report._score_sums import EDGE
from scoreprism.report._subject import (
    BINARY_METRICS,
    DRAWS,
    FREE,
    MANY,
    OF_CELLS,
    SEVERAL_METRICS,
    SOME,
    Case,
    Subject,
    count_work,
)

#: Tests as people call them.
_TESTS = {
    "bound": "lower bound of the reliability",
    OF_CELLS: "smallest p of several, by cells",
    "bound or spiegelhalter": "both, adjusted",
    "min-p": "smallest p of several",
    "spiegelhalter": "Spiegelhalter",
    "hosmer-lemeshow": "Hosmer–Lemeshow",
    "projected-covariance": "projected covariance",
}
#: What is done otherwise with many rows.
_MANY_ROWS = Finding(
    "approximated",
    facts={
        "many": MANY, "more": SOME, "redraws": [DRAWS["band"][MANY], DRAWS["band"][SOME]],
        "resamples": [DRAWS["metrics"][MANY], DRAWS["metrics"][SOME]],
        "draws": DRAWS["test"][MANY],
    },
)  # fmt: skip
#: Models whose grades are shown.
_MODELS = 3
#: Bins are called equal if the largest has at most so many times the rows of the smallest.
_EVEN = 1.5


def make_calibration(case: Case) -> Section:
    """The second section."""
    blocks: list[Block] = [_make_picture(case), _tabulate_metrics(case), _tabulate_tests(case)]
    shown = list(case.models.values())[:_MODELS]
    blocks += [_tabulate_grades(case, model, i) for i, model in enumerate(shown, start=1)]
    for name, model in case.models.items():
        found = [*model.metrics.findings, *([] if model.untested is None else [model.untested])]
        if model.certain:
            found.append(Finding("edge_scores", model=name, n=model.certain, value=EDGE))
        blocks += [Callout(one) for one in found]
    if case.has_rows and count_work(case.first.n, case.first.k) > MANY:
        blocks.append(Callout(_MANY_ROWS.with_facts(many_classes=True) if case.first.k > FREE else _MANY_ROWS))
    if not case.has_rows and any(not model.sums.exact for model in case.models.values()):
        blocks.append(Callout(Finding("approximated", facts={"cells": True})))
    return Section("calibration", SECTIONS["calibration"], tuple(_find_lead(case)), tuple(blocks))


def _find_lead(case: Case) -> list[Finding]:
    """Whether models are calibrated; of one, whether it predicts the right number of events, and how extreme it is."""
    model = case.first
    found = [_find_calibration(case, one) for one in case.models.values()]
    if not case.binary or len(case.models) > 1:
        return found
    ratio = _find_measure(model, "observed_expected_ratio", "event_bias")
    slope = _find_measure(model, "calibration_slope", "score_spread")
    found += [] if ratio is None else [ratio.with_facts(sign=_find_side(ratio))]
    if slope is not None and _find_side(slope) and not model.certain:  # scores moved off 0 and 1 would make the slope
        found.append(slope.with_facts(sign=_find_side(slope), shown=case.is_miscalibrated(model)))
    return found


def _find_calibration(case: Case, model: Subject) -> Finding:
    kind = "miscalibrated_by_bound" if case.is_miscalibrated(model) else "calibration_not_refuted"
    kind = "calibration_refuted" if case.is_refuted(model) else kind
    return Finding(kind, model=model.name, pvalue=case.pvalues["calibration"][model.name], confidence_level=model.level)


def _find_measure(model: Subject, metric: str, kind: str) -> Finding | None:
    """A metric as a finding."""
    table = model.metrics
    if metric not in table.intervals:
        return None
    interval = table.intervals[metric]
    ends: dict[str, Any] = {"low": float(interval.low), "high": float(interval.high)}
    return Finding(kind, value=float(table.estimates[metric]), **ends, confidence_level=model.level)


def _find_side(f: Finding) -> int:
    """Whether an interval lies above 1, below it, or holds it."""
    return 1 if (f.low or 0.0) > 1.0 else -1 if (f.high or 0.0) < 1.0 else 0


# ── pictures ────────────────────────────────────────────────────────────────────────────────────────


def _make_picture(case: Case) -> Figure:
    if not case.binary:
        return _make_top_label(case)
    return _make_diagram(case.first) if len(case.models) == 1 else _make_overlay(case)


def _make_diagram(model: Subject) -> Figure:
    """The reliability diagram, below the scores of events and of others."""
    curve = model.reliability

    def draw(axes: Any) -> None:
        scores, below = axes
        ReliabilityDisplay(curve).plot(below, histogram=False)
        ScoreDistributionDisplay(_share_by_class(curve)).plot(scores, zoom=below.get_xlim())
        below.set_box_aspect(None)
        scores.set(xlabel="", ylabel="", title="")
        scores.tick_params(labelbottom=False)

    title = f"Reliability diagram of {model.called}"
    described = f"{_describe_band(curve)} The histograms above it show the scores of events and of other rows."
    return figure("reliability", title, described, draw, _tabulate_curves([curve]), size=(4.4, 5.2), panels=(1.3, 4.2))


def _make_overlay(case: Case) -> Figure:
    """The curves of all models in one large figure."""
    curves = [model.reliability for model in case.models.values()]
    draw = draw_with(ReliabilityDisplay(curves), histogram=False)
    how = "in bins" if curves[0].method == "bins" else "by isotonic regression"
    described = f"Observed event rate against predicted probability, {how}; on the diagonal they agree."
    size = 5.0, 5.2  # the largest that is not scrolled on a phone
    data, title = _tabulate_curves(curves), "Reliability of all models"
    return figure("reliability", title, described, draw, data, size=size, lines=len(curves))


def _tabulate_curves(curves: list[ReliabilityCurve]) -> Table:
    """The numbers behind curves, thinned."""
    rows: list[tuple[Any, ...]] = []
    for curve in curves:
        ends = curve.band == "confidence" and curve.low is not None and curve.high is not None
        for i in thin(curve.x.size):
            band = Range(curve.low[i], curve.high[i]) if ends else None  # type: ignore[index]
            rows.append((curve.name if len(curves) > 1 else None, float(curve.x[i]), float(curve.y[i]), band))
    kind = choose_rate_kind(float(np.median([row[1] for row in rows])))
    columns = [
        ("model", "model", "text"), ("score", "predicted", kind), ("rate", "observed", kind),
        ("interval", f"{write_percent(curves[0].confidence_level)} interval", kind),
    ]  # fmt: skip
    return make_table("reliability-data", "Observed rate against predicted probability", columns, rows)


def _share_by_class(curve: ReliabilityCurve) -> Any:
    """Scores of events and of others, each as shares of their own: rare events are seen too."""
    shares = {name: part / max(part.sum(), 1e-300) for name, part in
              (("events", curve.distribution.events), ("others", curve.distribution.others))}  # fmt: skip
    return replace(curve.distribution, name=None, **shares)


def _describe_band(curve: ReliabilityCurve) -> str:
    level = write_percent(curve.confidence_level)
    if curve.band == "confidence" and curve.low is not None and curve.high is not None:
        off = float(np.mean((curve.x < curve.low) | (curve.x > curve.high)))
        return (
            f"Observed event rate against predicted probability in {curve.x.size} bins, each with its {level} "
            f"interval (Jeffreys). The mean score lies outside it in {100 * off:.0f} % of them."
        )
    text = "Observed event rate against predicted probability (isotonic regression), with the pointwise "
    text += f"{level} band of a calibrated score"
    if curve.low is None or curve.high is None or curve.band_x is None:
        return f"{text}."
    at = np.interp(curve.band_x, curve.x, curve.y)
    share = float(np.mean((at < curve.low - 1e-12) | (at > curve.high + 1e-12)))
    expected = f"{100 - 100 * curve.confidence_level:g} % is expected of a calibrated score"
    return f"{text}. The curve leaves the band on {100 * share:.0f} % of its range ({expected})."


def _make_top_label(case: Case) -> Figure:
    """More than two classes: how often the most likely one is right, against its probability."""
    curves = [model.reliability for model in case.models.values()]
    described = "How often the most likely class was observed, against its probability, by isotonic regression."
    title = f"Reliability of the largest probability of {case.first.called if len(curves) == 1 else 'all models'}"

    def draw(ax: Any) -> None:
        ReliabilityDisplay(curves).plot(ax)
        ax.set(xlabel="largest probability", ylabel="share of rows that are right")

    return figure("reliability", title, described, draw, _tabulate_curves(curves), size=(4.4, 4.8), lines=len(curves))


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────


def _tabulate_metrics(case: Case) -> Table:
    """Summaries of calibration; of more than two classes, how good predictions are is in the verdict."""
    note = "ideal: the value of a calibrated score."
    found = {name: model.metrics for name, model in case.models.items()}
    if any("ici" in table.names for table in found.values()):
        note += " |C − S| is how far the score S is from the calibrated score C."
    names = BINARY_METRICS if case.binary else SEVERAL_METRICS
    return tabulate_metrics("metrics", "Summaries of calibration", found, names, note)


def _tabulate_tests(case: Case) -> Table:
    """Tests of calibration, and of what features add."""
    tested = [(model, test, test.about.lower()) for model in case.models.values() for test in _list_tests(case, model)]
    rows = []
    for model, test, about in tested:
        adjusted = case.pvalues[about][model.name] if len(case.models) > 1 else None
        method, statistic = _TESTS.get(test.method, test.method), _find_statistic(test)
        rows.append((case.label(model), about, method, statistic, test.pvalue, adjusted))
    columns = [
        ("model", "model", "text"), ("about", "of", "text"), ("method", "test", "text"),
        ("statistic", "statistic", "amount"), ("pvalue", "p-value", "pvalue"), ("pvalue_holm", "p (Holm)", "pvalue"),
    ]  # fmt: skip
    has_grouping = any(about == "grouping" for *_, about in tested)
    grouping = ", or whether features add nothing to the score (grouping)" if has_grouping else ""
    note = (
        f"Each tests whether outcomes follow the scores (calibration){grouping}. A large p-value does not prove it; "
        "with many rows, a small one says nothing about the size of the problem: see the terms."
    )
    return make_table("tests", "Tests", columns, rows, note)


def _list_tests(case: Case, model: Subject) -> list[TestResult]:
    """All tests of one model; of several, those that conclusions go by."""
    main = [test for test in (model.calibration, model.grouping) if test is not None]
    return model.tests if len(case.models) == 1 else main


def _find_statistic(test: TestResult) -> float | None:
    """The statistic of a test, unless it is the smallest of several p-values."""
    return None if test.method in ("min-p", OF_CELLS, "bound or spiegelhalter") else test.statistic


def _tabulate_grades(case: Case, model: Subject, number: int) -> Table:
    """Grades of the score: predicted and observed rates with Jeffreys intervals."""
    grades = model.cells.grades(case.level)
    rows: list[tuple[Any, ...]] = []
    for g in grades:
        agrees = "agrees" if g.low <= g.mean <= g.high else "too low" if g.mean < g.low else "too high"
        where = Range(None, None, g.least) if g.least == g.most else Range(g.least, g.most)
        rows.append((where, g.rows, g.mean, g.rate, Range(g.low, g.high), agrees))
    kind = choose_rate_kind(grades[len(grades) // 2].most)
    what = "score" if model.k == 2 else "largest probability"
    columns = [
        ("score", what, kind), ("rows", "rows", "count"), ("predicted", "predicted", kind),
        ("observed", "observed", kind), ("interval", f"{write_percent(case.level)} interval", kind),
        ("verdict", "prediction", "text"),
    ]  # fmt: skip
    sizes = [g.rows for g in grades]
    even = max(sizes) <= _EVEN * min(sizes)
    distinct = all(g.least == g.most for g in grades)
    title = "Distinct scores" if distinct else "Equal bins" if even else "Bins"
    chance = f"about 1 in {write_count(round(1.0 / case.alpha))} well-calibrated bins would be flagged by chance"
    note = f"Jeffreys intervals. Each bin is judged by itself: {chance}."
    return make_table(f"grades-{number}", f"{title} of {model.called}", columns, rows, note)
