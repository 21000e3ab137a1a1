"""Section 2: how far predictions and outcomes agree, in pictures, numbers, tests and grades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.simplex import FloatArray, IntArray, as_vector
from scoreprism._kernels.binomial import rate_interval
from scoreprism.curves import ReliabilityCurve, reliability_curve
from scoreprism.displays import ReliabilityDisplay, ScoreDistributionDisplay
from scoreprism.inference import calibration_test
from scoreprism.report._evidence import FULL as MANY
from scoreprism.report._evidence import SOME, alpha_of
from scoreprism.report._model import Block, Figure, Notice, Range, Section, Table
from scoreprism.report._pieces import ends, figure, pvalue, span, table, thinned
from scoreprism.report._report import SECTIONS
from scoreprism.report._subject import EDGE, FEW_DRAWS, FEWER, AnyCase, RowCase, RowSubject, Subject

#: Metrics in words: heading, and the value of a calibrated model.
METRIC_WORDS = {
    "observed_expected_ratio": ("observed : expected events", "1"),
    "calibration_in_the_large": ("calibration in the large (log-odds)", "0"),
    "calibration_intercept": ("calibration intercept", "0"),
    "calibration_slope": ("calibration slope", "1"),
    "ici": ("ICI, mean |C − S|", "0"),
    "e50": ("E50, median |C − S|", "0"),
    "e90": ("E90, 90 % quantile of |C − S|", "0"),
    "emax": ("Emax, largest |C − S|", "0"),
    "ece": ("ECE, 15 bins (biased up)", "0"),
    "auc": ("AUC (discrimination)", ""),
    "global_balance": ("global balance", "0"),
    "classwise_ici": ("class-wise ICI", "0"),
    "classwise_ece": ("class-wise ECE (biased up)", "0"),
    "confidence_ece": ("confidence ECE (biased up)", "0"),
    "top_label_ece": ("top-label ECE (biased up)", "0"),
}
#: What is done otherwise with many rows.
_MANY = (
    f"With more than {MANY:,} rows: the test of calibration draws 199 times, and beyond {SOME:,} goes by large-sample "
    f"laws; bands come from {FEW_DRAWS[1][1]} redraws ({FEW_DRAWS[0][1]}), intervals of summaries from "
    f"{FEWER[1][1]} resamples ({FEWER[0][1]})."
)
#: Classes whose curves are drawn.
_CLASSES = 4
#: Where half of the grades are below this, their ends have more decimals.
_FINE = 0.02
#: Below this, scores are shown by significant digits.
_RARE = 0.002
#: Bins are called equal if the largest has at most so many times the rows of the smallest.
_EVEN = 1.5
#: Distinct scores up to this many are grades of their own; otherwise up to ten bins of so many rows at least.
GRADES, _DECILES, _ROWS = 20, 10, 30


def calibration(case: RowCase) -> Section:
    """The second section."""
    first, *others = enumerate(case.models.values(), start=1)
    picture = _diagram(first[1], 1) if case.binary else _classes(case)
    blocks: list[Block] = [picture, metrics_table(case), tests_table(case), grade_table(first[1], 1, case.level)]
    for number, model in others:
        blocks += [_diagram(model, number)] if case.binary else []
        blocks.append(grade_table(model, number, case.level))
    for model in case.models.values():
        if model.certain:
            words = (
                f"{model.name} gives {model.certain} rows a score of 0 or 1; intercept, slope and "
                f"calibration in the large keep them {EDGE:g} away."
            )
            blocks.append(Notice("note", words))
    notes = [note for model in case.models.values() for note in (*model.metrics.notes, model.untested) if note]
    notes += [_MANY] if case.first.n > MANY else []
    blocks += [Notice("note", note) for note in dict.fromkeys(notes)]
    return Section("calibration", SECTIONS["calibration"], meaning(case), tuple(blocks))


def meaning(case: AnyCase) -> str:
    model = case.first
    test, found = model.calibration, model.metrics
    if model.refuted:
        verdict = f"is shown not to be calibrated ({pvalue(test.pvalue)})"
    elif model.miscalibrated:
        verdict = (
            f"loses by miscalibration, as the bound of its term shows (the test alone does not: {pvalue(test.pvalue)})"
        )
    else:
        verdict = f"is not shown to be miscalibrated ({pvalue(test.pvalue)})"
    words = [f"{model.name} {verdict}"]
    if case.binary:
        shown = model.refuted or model.miscalibrated
        words += [word for word in (_overall(found), _slope(found, shown=shown)) if word]
    return "; ".join(words) + "."


def _overall(found: Any) -> str:
    if "observed_expected_ratio" not in found.intervals:
        return ""
    value, interval = float(found.estimates["observed_expected_ratio"]), found.intervals["observed_expected_ratio"]
    if interval.low > 1.0:
        side = "it predicts too few events"
    elif interval.high < 1.0:
        side = "it predicts too many events"
    else:
        side = "its number of events is not shown to differ from what was observed"
    return f"{side} (observed : expected {value:.2f}, {span(interval.low, interval.high, 2)})"


def _slope(found: Any, *, shown: bool) -> str:
    if "calibration_slope" not in found.intervals:
        return ""
    value, interval = float(found.estimates["calibration_slope"]), found.intervals["calibration_slope"]
    words = f"(slope {value:.2f}, {span(interval.low, interval.high, 2)})"
    side = "too extreme" if interval.high < 1.0 else "too timid" if interval.low > 1.0 else ""
    if not side:
        return ""
    return f"its predictions are {side} {words}" if shown else f"the slope alone suggests predictions {side} {words}"


def _diagram(model: RowSubject, number: int) -> Block:
    curve = model.reliability
    rows = [(float(curve.x[i]), float(curve.y[i])) for i in thinned(curve.x.size)]
    columns = [("score", "predicted", "short"), ("rate", "observed (isotonic)", "short")]
    data = table(f"reliability-data-{number}", "Observed rate against predicted probability", columns, rows)
    outside = _outside(curve)
    described = (
        "Observed event rate against predicted probability, by isotonic regression, with the "
        f"{100 * curve.level:g} % band that a "
        f"calibrated score would stay in{outside}; above it the scores of events and of other rows."
    )

    return diagram(curve, model.name, number, described, data)


def diagram(curve: ReliabilityCurve, name: str, number: int, described: str, data: Table) -> Figure:
    """The reliability diagram, below the scores of events and of others."""

    def draw(axes: Any) -> None:
        scores, below = axes
        ReliabilityDisplay(curve).plot(below, histogram=False)
        ScoreDistributionDisplay(_by_class(curve)).plot(scores, zoom=below.get_xlim())
        below.set_box_aspect(None)
        scores.set(xlabel="", ylabel="", title="")
        scores.tick_params(labelbottom=False)

    title = f"Reliability diagram of {name}, and the scores of events and of others"
    return figure(f"reliability-{number}", title, described, draw, data, size=(4.4, 5.2), panels=(1.3, 4.2))


def _by_class(curve: ReliabilityCurve) -> Any:
    """Scores of events and of others, each as shares of their own: rare events are seen too."""
    shares = {name: part / max(part.sum(), 1e-300) for name, part in
              (("events", curve.distribution.events), ("others", curve.distribution.others))}  # fmt: skip
    return replace(curve.distribution, name=None, **shares)


def _outside(curve: ReliabilityCurve) -> str:
    if curve.low is None or curve.high is None or curve.band_x is None:
        return ""
    at = np.interp(curve.band_x, curve.x, curve.y)
    share = float(np.mean((at < curve.low - 1e-12) | (at > curve.high + 1e-12)))
    left = f", which {curve.name or 'the curve'} leaves on {100 * share:.0f} % of its range"
    return f"{left} (about {100 - 100 * curve.level:g} % is to be expected of a calibrated one: the band is pointwise)"


def _classes(case: RowCase) -> Block:
    """More than two classes: frequency and mean probability of each."""
    rows = []
    for model in case.models.values():
        mean = np.average(model.law, axis=0, weights=model.weight)
        weight = np.ones(model.n) if model.weight is None else model.weight
        share = np.bincount(model.y, weight, model.k) / weight.sum()
        rows += [(model.name, label, float(o), float(e)) for label, o, e in zip(model.labels, share, mean, strict=True)]
    columns = [
        ("model", "model", "text"),
        ("class", "class", "text"),
        ("observed", "observed", "share"),
        ("expected", "expected", "share"),
    ]
    data = table("classes", "Classes: observed share and mean probability", columns, rows)
    model = case.first
    most = np.argsort(-np.bincount(model.y, minlength=model.k), kind="stable")[:_CLASSES]
    curves = [
        reliability_curve(model.sample.one_vs_rest(k), random_state=case.seed, band=None, name=model.labels[k])
        for k in most
    ]

    def draw(ax: Any) -> None:
        ReliabilityDisplay(curves).plot(ax, histogram=False)

    which = "each class" if model.k <= _CLASSES else f"the {_CLASSES} most frequent of {model.k} classes"
    described = f"Observed frequency against predicted probability of {which} of {model.name}, one against the rest."
    return figure("reliability", f"Reliability of {which} of {model.name}", described, draw, data, size=(4.4, 4.8))


def metrics_table(case: AnyCase) -> Table:
    """Summaries of calibration, one row per metric, one pair of columns per model."""
    present = [name for name in METRIC_WORDS if any(name in model.metrics.names for model in case.models.values())]
    rows = []
    for name in present:
        words, ideal = METRIC_WORDS[name]
        rows.append((words, *(_measured(model, name) for model in case.models.values()), ideal))
    models = [(f"model_{i}", model, "short") for i, model in enumerate(case.models, start=1)]
    columns = [("metric", "metric", "text"), *models, ("ideal", "if calibrated", "text")]
    return table(
        "metrics",
        "Summaries of calibration",
        columns,
        rows,
        f"In brackets {case.percent} intervals{'; C is the calibrated score' if 'ici' in present else ''}.",
    )


def _measured(model: Subject, name: str) -> Any:
    if name not in model.metrics.names:
        return None
    interval = model.metrics.intervals[name]
    return ends(interval.low, interval.high, float(model.metrics.estimates[name]))


def tests_table(case: RowCase) -> Table:
    """Tests of calibration, and of what features add."""
    rows = []
    for model in case.models.values():
        found = [model.calibration]
        if case.binary and not model.clustered and model.n <= SOME:  # beyond, the test has it among its parts
            classical = ("spiegelhalter", "hosmer-lemeshow") if model.n <= MANY else ("spiegelhalter",)
            found += [calibration_test(model.sample, method=name) for name in classical]
        if model.grouping is not None:
            found.append(model.grouping)
        rows += [(model.name, test.about.lower(), test.method, test.statistic, test.pvalue) for test in found]
    columns = [
        ("model", "model", "text"), ("about", "of", "text"), ("method", "test", "text"),
        ("statistic", "statistic", "short"), ("pvalue", "p-value", "pvalue"),
    ]  # fmt: skip
    hypotheses = (
        "Hypotheses: outcomes are drawn from the scores (calibration); features add nothing to the score (grouping). "
    )
    note = hypotheses + (
        "A large p-value does not prove calibration, and with many rows a small one says nothing of "
        "its size: see the terms."
    )
    return table("tests", "Tests", columns, rows, note)


def grade_table(model: RowSubject, number: int, level: float = 0.95) -> Table:
    """Grades of the score: predicted and observed rates with Jeffreys intervals."""
    sample = model.sample if model.k == 2 else model.sample.top_label()
    score, event = as_vector(sample.prediction), sample.y.astype(np.float64)
    weight = np.ones(score.size) if sample.weight is None else sample.weight
    grade, count = grades(score)
    total = np.bincount(grade, weight, count)
    rate = np.bincount(grade, weight * event, count) / total
    effective = total**2 / np.bincount(grade, weight**2, count)
    low, high = rate_interval(rate * effective, effective, level, "jeffreys")
    rows = []
    for g in range(count):
        inside = score[grade == g]
        mean = float(np.average(inside, weights=weight[grade == g]))
        rows.append(Grade(float(inside.min()), float(inside.max()), inside.size, mean, float(rate[g]), low[g], high[g]))
    what = "score" if model.k == 2 else "largest probability"
    return graded(rows, what, model.name, number, level)


class Grade(NamedTuple):
    """A grade of a score: where it is, how many rows it has, what was predicted and what was seen."""

    least: float
    most: float
    rows: int
    mean: float
    rate: float
    low: float
    high: float


def graded(found: Sequence[Grade], what: str, name: str, number: int, level: float) -> Table:
    """A table of grades."""
    rows: list[tuple[Any, ...]] = []
    for g in found:
        agrees = "not refuted" if g.low <= g.mean <= g.high else "too low" if g.mean < g.low else "too high"
        where = Range(None, None, g.least) if g.least == g.most else Range(g.least, g.most)
        rows.append((where, g.rows, g.mean, g.rate, ends(g.low, g.high), agrees))
    middle = found[len(found) // 2].most
    rare = middle < _RARE  # scores of many magnitudes: decimals that fit the largest leave nothing of the others
    fine, kind = "digits" if rare else "number" if middle < _FINE else "short", "digits" if rare else "short"
    columns = [
        ("score", what, fine), ("rows", "rows", "count"), ("predicted", "predicted", kind),
        ("observed", "observed", kind),
        ("interval", f"{100 * level:g} % (Jeffreys)", kind), ("verdict", "prediction", "text"),
    ]  # fmt: skip
    sizes = [g.rows for g in found]
    bins = "Bins of equal size" if max(sizes) <= _EVEN * min(sizes) else "Bins"
    kind = "Grades" if all(row[0].estimate is not None for row in rows) else bins
    return table(f"grades-{number}", f"{kind} of {name}", columns, rows, _chance(len(rows), level))


def _chance(count: int, level: float) -> str:
    expected = count * alpha_of(level)
    return f"Each is judged by itself: of {count} that are right, {expected:.1g} would be refuted by chance."


def grades(score: FloatArray) -> tuple[IntArray, int]:
    """Grades of a score: its values where they are few, else ten of equal size, ties together."""
    distinct, codes, counts = np.unique(score, return_inverse=True, return_counts=True)
    if distinct.size <= GRADES:
        return codes, int(distinct.size)
    middle = np.cumsum(counts) - 0.5 * counts
    bins = int(np.clip(score.size // _ROWS, 2, _DECILES))
    home = np.minimum((middle / score.size * bins).astype(np.intp), bins - 1)
    used, grade = np.unique(home[codes], return_inverse=True)
    return grade, int(used.size)
