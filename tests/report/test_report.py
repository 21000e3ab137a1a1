"""What a report says: its numbers are those of the library, its findings follow from them, nothing is missing."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import scoreprism
from scoreprism import Sample, scale
from scoreprism.calibrators import get_calibrator
from scoreprism.datasets import CopulaLaw
from scoreprism.exceptions import InputError
from scoreprism.losses import get_loss
from scoreprism.metrics import evaluate
from scoreprism.report import SECTIONS, Callout, Column, Figure, Range, Table, make_report
from scoreprism.report._build import fit_case
from tests.chains import decompose_losses
from tests.findings import KINDS

pytestmark = pytest.mark.usefixtures("few_draws")


def _law(n=1500, seed=0):
    X, y, q = CopulaLaw(rho=0.0).sample(n, random_state=seed)
    return X, y, q, 1.0 / (1.0 + np.exp(3.0 - 6.0 * X[:, 0]))


@pytest.fixture(scope="module")
def law():
    return _law()


@pytest.fixture(scope="module")
def full(law, few_draws):
    """A report with everything in it: two models, features, segments, time."""
    X, y, _q, p = law
    frame = pl.DataFrame({"seen": X[:, 0], "unseen": X[:, 1], "kind": np.where(X[:, 1] > 0.5, "a", "b")})
    time = np.datetime64("2024-01-01") + np.arange(y.size) // 5
    calm = 0.2 + 0.6 * p
    return make_report(
        y, {"bold": p, "calm": calm}, frame, segments={"kind": frame["kind"]}, time=time, cv=2,
        calibrators=["platt", "beta", "isotonic"],
    )  # fmt: skip


def _table(report, section, key):
    return next(table for table in report[section].tables if table.key == key)


def _column(table, key):
    place = [column.key for column in table.columns].index(key)
    return [row[place] for row in table.rows]


def _found(report, *kinds):
    """Findings of these kinds, in leads and callouts."""
    return [one for one in report.findings if one.kind in kinds]


def _callouts(report, kind):
    """Kinds of the findings that are called out as an action, a warning or a note."""
    return [callout.finding.kind for section in report.sections for callout in section.callouts if callout.kind == kind]


def _concluded(report, model="model"):
    """What is concluded about a model, by kind."""
    return {one.kind: one for one in report.models[model].findings}


# ── numbers are those of the library ────────────────────────────────────────────────────────────────


def test_decompositions_are_those_of_decompose_to_the_last_bit(law, full):
    X, y, _, p = law
    frame = pl.DataFrame({"seen": X[:, 0], "unseen": X[:, 1], "kind": np.where(X[:, 1] > 0.5, "a", "b")})
    direct = decompose_losses(y, p, frame, losses=("log", "brier"), cv=2, random_state=0)
    for loss, result in direct.items():
        found = full.models["bold"].decompositions[loss]
        assert found.terms == result.terms
        assert found.interval("reliability") == result.interval("reliability")
        assert found.lower_bound("grouping") == result.lower_bound("grouping")
    table = _table(full, "verdict", "terms")
    row = next(row for row in table.rows if row[:2] == ("bold", "brier"))
    assert row[2] == direct["brier"].risk
    assert row[4].estimate == direct["brier"].terms["grouping"]
    assert row[4].low == direct["brier"].lower_bound("grouping").value


def test_metrics_and_tests_are_those_of_the_library(law, full):
    _, y, _, p = law
    direct = evaluate(y, p, metrics=["ici", "calibration_slope", "auc"], random_state=0)
    found = full.models["bold"].metrics
    for name in ("ici", "calibration_slope", "auc"):
        assert float(found.estimates[name]) == float(direct.estimates[name])
    assert found.intervals["calibration_slope"] == direct.intervals["calibration_slope"]  # "ici" is resampled in turn
    test = scoreprism.calibration_test(y, p, n_resamples=99, random_state=0)  # "few_draws"; otherwise 999, its default
    assert full.models["bold"].tests["calibration"].pvalue == test.pvalue


def test_losses_after_recalibration_are_those_of_cross_fitted_laws(law):
    y, p = law[1][:900], law[3][:900]  # few enough for every score to be a cell of its own
    home = np.random.default_rng(0).permutation(900) % 5
    splits = [(np.flatnonzero(home != k), np.flatnonzero(home == k)) for k in range(5)]
    report = make_report(y, {"bold": p}, sections=["recalibration"], cv=splits)
    gains = _table(report, "recalibration", "recalibration")
    for map_ in ("platt", "isotonic"):
        expected = _out_of_fold(y, p, map_, splits)
        row = next(row for row in gains.rows if row[0] == map_)
        assert row[1] == pytest.approx(expected, rel=1e-6)  # three Newton steps
        assert row[2].estimate == pytest.approx(_log_loss(y, p) - expected, abs=1e-6)
    assert gains.rows[0][:2] == ("as it is", pytest.approx(_log_loss(y, p), rel=1e-12))


def _log_loss(y, p):
    return float(-np.mean(np.log(np.where(y == 1, p, 1 - p))))


def _out_of_fold(y, p, name, splits):
    """The loss of maps that are fitted row by row, without the fold they are applied to."""
    law = np.empty(y.size)
    for rest, fold in splits:
        law[fold] = get_calibrator(name).fit(p[rest], y[rest]).calibrate(p[fold])
    return _log_loss(y, law)


def test_paired_differences_are_those_of_minus(full):
    one, other = (full.models[name].decompositions["log"] for name in ("bold", "calm"))
    table = _table(full, "models", "differences")
    lines = {row[1]: row for row in table.rows if row[0] == "bold − calm"}
    gap = one.minus(other)
    assert lines["loss"][2] == gap.risk
    assert lines["reliability"][2] == gap.terms["reliability"]
    interval = gap.interval("reliability")
    assert (lines["reliability"][3].low, lines["reliability"][3].high) == (interval.low, interval.high)


def test_segments_are_those_of_decompose_by(law, full):
    X, y, _, p = law
    frame = pl.DataFrame({"seen": X[:, 0], "unseen": X[:, 1], "kind": np.where(X[:, 1] > 0.5, "a", "b")})
    direct = scoreprism.decompose_by(y, p, frame, segments=frame["kind"], cv=2, random_state=0)
    table = _table(full, "segments", "segments-1-1")
    assert _column(table, "segment") == ["a", "b"]
    assert [cell.estimate for cell in _column(table, "reliability")] == [
        direct[name].terms["reliability"] for name in "ab"
    ]
    known = [direct[name].known("reliability", 0.95) for name in "ab"]
    assert [(cell.low, cell.high) for cell in _column(table, "reliability")] == [(k.low, k.high) for k in known]
    alone = make_report(y, p, frame, segments={"kind": frame["kind"]}, cv=2, sections=["segments"])
    assert _column(_table(alone, "segments", "segments-1-1"), "pvalue") == list(direct.pvalues("reliability").values())
    assert all(a >= b for a, b in zip(_column(table, "pvalue"), direct.pvalues("reliability").values(), strict=True))


def test_segments_show_event_rate_mean_score_and_direction(law, full):
    X, y, _, p = law
    table = _table(full, "segments", "segments-1-1")
    for place, inside in enumerate((X[:, 1] > 0.5, X[:, 1] <= 0.5)):
        assert _column(table, "observed")[place] == pytest.approx(y[inside].mean(), rel=1e-12)
        assert _column(table, "expected")[place] == pytest.approx(p[inside].mean(), rel=1e-12)
        ratio = y[inside].sum() / p[inside].sum()
        error = math.sqrt(np.sum((y[inside] - ratio * p[inside]) ** 2)) / p[inside].sum()
        reach = stats.norm.ppf(0.975) * error
        cell = _column(table, "ratio")[place]
        assert (cell.estimate, cell.low, cell.high) == pytest.approx((ratio, ratio - reach, ratio + reach), rel=1e-9)
        off = 1 / ratio - 1
        assert not cell.low <= 1 <= cell.high  # the other feature shifts both segments
        assert _column(table, "direction")[place] == f"too {'high' if off > 0 else 'low'} by {100 * abs(off):.2g} %"


def test_periods_are_compared_with_the_first(full):
    tables = [table for table in full["segments"].tables if table.key.startswith("drift-")]
    assert [table.key for table in tables] == ["drift-1-2", "drift-2-2"]  # both models, after their segments
    names = _column(_table(full, "segments", "segments-1-2"), "segment")
    assert len(names) > 2
    assert _column(tables[0], "period") == names[1:]
    assert set(_column(tables[0], "baseline")) == {names[0]}
    callouts = [block.finding for block in full["segments"].blocks if isinstance(block, Callout)]
    changes = [one for one in callouts if one.kind == "changed"]  # the lead repeats those that are significant
    assert [one.facts["before"] for one in changes] == [names[0]] * 2
    assert all(one.n == len(names) - 1 for one in changes)


def test_grades_have_jeffreys_intervals_which_are_quantiles_of_the_beta_law():
    score = np.repeat([0.3, 0.1, 0.8, 0.9], 10)
    y = np.concatenate([np.arange(10) < 3, np.zeros(10), np.ones(10), np.arange(10) < 5]).astype(int)
    table = _table(make_report(y, score, sections=["calibration"]), "calibration", "grades-1")
    assert _column(table, "rows") == [10, 10, 10, 10]
    assert _column(table, "observed") == [0.0, 0.3, 1.0, 0.5]  # in the order of the score
    ends = _column(table, "interval")
    law = stats.beta(3.5, 7.5)  # scipy: Beta(½ + 3, ½ + 7)
    assert (ends[1].low, ends[1].high) == pytest.approx((law.ppf(0.025), law.ppf(0.975)), rel=1e-12)
    assert (ends[0].low, ends[2].high) == (0.0, 1.0)
    assert ends[0].high == pytest.approx(stats.beta(0.5, 10.5).ppf(0.975), rel=1e-12)


def test_rates_of_rare_events_have_as_many_decimals_as_their_scores():
    score = np.repeat([0.002, 0.004, 0.008], 500)
    report = make_report(np.arange(1500) % 100 == 7, score, sections=["calibration"], loss="brier")
    table = _table(report, "calibration", "grades-1")
    kinds = {column.key: column.kind for column in table.columns}
    assert {kinds[key] for key in ("score", "predicted", "observed", "interval")} == {"number"}
    (curve,) = [block.data for block in report["calibration"].blocks if getattr(block, "key", "") == "reliability"]
    assert {column.kind for column in curve.columns} == {"number"}


def test_headings_of_segments_leave_names_of_models_alone():
    _, y, _, p = _law(400)
    side = np.arange(400) % 2
    report = make_report(
        y, {"GAM": p, "Ridge": 0.5 * p + 0.2}, segments={"Side": side}, sections=["segments"], loss="brier"
    )
    titles = [block.title for block in report["segments"].blocks if isinstance(block, Figure)]
    assert titles == ["What could be removed: GAM by Side", "What could be removed: Ridge by Side"]


def test_grades_count_every_row_once(law, full):
    _, y, _, _p = law
    table = _table(full, "calibration", "grades-1")
    assert sum(_column(table, "rows")) == y.size
    rates, counts = _column(table, "observed"), _column(table, "rows")
    assert sum(r * c for r, c in zip(rates, counts, strict=True)) == pytest.approx(y.sum())


def test_rows_of_weight_zero_are_absent():
    X, y, _, p = _law(450)
    weight = np.where(np.arange(450) % 3 == 0, 0.0, 1.5)
    held = weight > 0
    frame = pd.DataFrame({"b": X[:, 1]})
    few_maps = {"loss": "log", "calibrators": ["platt"], "cv": 2}  # for speed: maps and losses see the same rows
    some = make_report(y, p, frame, sample_weight=weight, segments={"g": X[:, 1] > 0.5}, time=np.arange(450) // 225,
                     **few_maps)  # fmt: skip
    few = make_report(y[held], p[held], frame[held].reset_index(drop=True), sample_weight=weight[held],
                    segments={"g": X[held, 1] > 0.5}, time=np.arange(450)[held] // 225, **few_maps)  # fmt: skip
    assert some.models["model"].decompositions["log"].terms == few.models["model"].decompositions["log"].terms
    assert [t.rows for s in some.sections[:-1] for t in s.tables] == [
        t.rows for s in few.sections[:-1] for t in s.tables
    ]
    assert [one.n for one in _found(some, "zero_weight")] == [150]
    assert not _found(few, "zero_weight")


def test_weights_that_count_rows_are_rows_that_are_repeated():
    _X, y, _, p = _law(400)
    times = np.random.default_rng(1).integers(1, 4, y.size)
    some = make_report(y, np.round(p, 1) * 0.9 + 0.05, sample_weight=times, sections=["calibration"])
    more = make_report(np.repeat(y, times), np.repeat(np.round(p, 1) * 0.9 + 0.05, times), sections=["calibration"])
    for key in ("predicted", "observed"):
        assert _column(_table(some, "calibration", "grades-1"), key) == pytest.approx(
            _column(_table(more, "calibration", "grades-1"), key), rel=1e-12
        )


# ── sections ────────────────────────────────────────────────────────────────────────────────────────


def test_all_sections_in_order_each_with_a_lead(full):
    assert [section.key for section in full.sections] == [key for key in SECTIONS if key != "classes"]  # of two
    assert full.headline.endswith(".")  # the lead of the verdict
    for section in full.sections[1:-1]:
        assert section.lead
        assert section.meaning.endswith(".")
        assert "nan" not in section.meaning.lower().split()
    for one in full.findings:
        assert one.kind in KINDS


def test_names_of_tables_and_figures_are_unique_and_figures_are_described(full):
    blocks = [block for section in full.sections for block in section.blocks]
    keys = [b.key for b in blocks if isinstance(b, (Figure, Table))] + [
        b.data.key for b in blocks if isinstance(b, Figure) and b.data is not None
    ]
    assert len(keys) == len(set(keys))
    for block in blocks:
        if isinstance(block, Figure):
            assert len(block.description) > 30
            assert block.data is None or block.data.rows
            assert block.draw().axes


def test_rows_have_a_cell_for_every_column_and_known_kinds(full):
    known = {"text", "count", "whole", "share", "pvalue", "digits", "amount", "number", "loss", "signed", "short"}
    for section in full.sections:
        for table in section.tables:
            assert all(column.kind in known for column in table.columns)
            assert all(len(row) == len(table.columns) for row in table.rows)
            table.shown()


def test_what_was_not_given_is_not_there():
    _, y, _, p = _law(200)
    assert [s.key for s in make_report(y, p).sections] == [
        "verdict",
        "calibration",
        "recalibration",
        "decisions",
        "method",
    ]
    only = make_report(y, p, sections=["method", "verdict"])
    assert [s.key for s in only.sections] == ["verdict", "method"]
    assert only.models["model"].map is None


def test_reference_law_and_latent_law_without_features(law):
    _, y, q, p = law
    report = make_report(y, p, q=q, latent=q, sections=["verdict", "grouping"])
    assert "heterogeneity" not in report.headline  # nothing that is known here removes it
    assert report.models["model"].decompositions["log"].names == ("reliability", "grouping", "heterogeneity", "noise")
    assert any(isinstance(block, Figure) for block in report["grouping"].blocks)


# ── findings follow from bounds and tests ───────────────────────────────────────────────────────────


def test_conclusions_hold_what_is_shown_and_the_headline_says_it(law):
    X, y, _, p = law
    report = make_report(y, p, X, sections=["verdict"], min_gain=0.005)
    result = report.models["model"].decompositions["log"]
    least = {name: result.lower_bound(name).value for name in ("reliability", "grouping")}
    told = _concluded(report)
    assert (told["recalibrate"].term, told["recalibrate"].low) == ("reliability", least["reliability"])
    assert (told["information_gain"].term, told["information_gain"].low) == ("grouping", least["grouping"])
    assert {told[kind].value for kind in ("recalibrate", "information_gain")} == {result.risk}
    assert _callouts(report, "action") == ["recalibrate", "information_gain"]
    for value in (result.risk, *least.values()):
        assert f"{value:.3g}" in report.headline
    open_ = _concluded(make_report(y, p, X, sections=["verdict"]))["information_size_open"]  # at 1 % of the loss
    assert 0.005 * result.risk < least["grouping"] < 0.01 * result.risk
    assert (open_.low, open_.facts["min_gain"]) == (least["grouping"], pytest.approx(0.01))


def test_headline_of_several_models_says_which_to_use_and_which_to_recalibrate(full):
    risk = {name: model.decompositions["log"].risk for name, model in full.models.items()}
    assert risk["calm"] < risk["bold"]
    assert full.models["calm"].decompositions["log"].lower_bound("reliability").value <= 0.0
    assert full.models["bold"].decompositions["log"].lower_bound("reliability").value > 0.0
    assert "recalibrate" in _concluded(full, "bold")
    assert "recalibrate_size_open" in _concluded(full, "calm")
    assert f"{risk['calm']:.4f}" in full.headline
    assert full.headline.index("calm") < full.headline.index("bold")
    best, late = full["models"].lead
    assert (best.kind, best.model, best.value) == ("best_model", "calm", risk["calm"])
    assert (late.kind, late.model, late.subject) == ("behind", "bold", "calm")
    assert late.value == pytest.approx(risk["bold"] - risk["calm"], rel=1e-9)
    glance = _table(full, "verdict", "glance")
    assert _column(glance, "model") == ["calm", "bold"]
    gap = full.models["bold"].decompositions["log"].minus(full.models["calm"].decompositions["log"])
    assert _column(glance, "behind")[1].low == pytest.approx(gap.risk - stats.norm.ppf(0.975) * gap.risk_std_error)


def test_tests_of_several_models_are_adjusted_everywhere(law):
    """Holm (1979) over the models: in findings, tables, and the gate; the tests themselves keep their own p-value."""
    X, y, p = law[0][:200, :1], law[1][:200], law[3][:200]
    models = {name: np.clip(p + shift, 0.01, 0.99) for name, shift in (("a", 0.0), ("b", 0.02), ("c", 0.05))}
    report = make_report(y, models, X, loss="log", cv=2, sections=["verdict", "calibration", "grouping"])
    for about, section, key in (("calibration", "verdict", "glance"), ("grouping", "grouping", "grouping-models")):
        raw = {name: model.tests[about].pvalue for name, model in report.models.items()}
        order = sorted(raw, key=raw.get)
        stepped = np.minimum(np.maximum.accumulate([raw[name] * (3 - i) for i, name in enumerate(order)]), 1.0)
        expected = dict(zip(order, stepped, strict=True))
        table = _table(report, section, key)
        assert dict(zip(_column(table, "model"), _column(table, "pvalue"), strict=True)) == pytest.approx(expected)
        tests = _table(report, "calibration", "tests")
        lines = zip(*(_column(tests, key) for key in ("model", "about", "pvalue", "pvalue_holm")), strict=True)
        shown = {model: (p, holm) for model, of, p, holm in lines if of == about and holm is not None}
        assert shown == {name: (raw[name], pytest.approx(expected[name])) for name in raw}
        kinds = ("recalibrate_size_open", "no_miscalibration", "calibrated_enough", "not_material",
                 "calibration_refuted", "calibration_not_refuted", "miscalibrated_by_bound") if about == "calibration" else (
                 "no_information_gain", "information_size_open")  # fmt: skip
        for one in _found(report, *kinds):
            assert one.pvalue is None or one.pvalue == pytest.approx(expected[one.model])
    alone = make_report(y, p, loss="log", sections=["calibration"])
    assert "pvalue_holm" not in [column.key for column in _table(alone, "calibration", "tests").columns]


def test_models_that_are_not_worse_are_named_beside_the_best():
    rng = np.random.default_rng(3)
    p = rng.uniform(0.05, 0.95, 800)
    y = (rng.random(800) < p).astype(int)
    models = {"right": p, "nearly": np.clip(p + 0.005, 0, 1), "same": np.clip(p - 0.005, 0, 1), "wrong": 1.0 - 0.5 * p}
    best, alike, late = make_report(y, models, loss="brier", sections=["models"])["models"].lead
    assert (best.kind, alike.kind, late.kind) == ("best_model", "not_worse", "behind")
    assert {best.model, *alike.facts["others"]} == {"right", "nearly", "same"}
    assert (late.model, late.subject) == ("wrong", best.model)
    _, one = make_report(y, {name: models[name] for name in ("right", "same")}, loss="brier", sections=["models"])[
        "models"
    ].lead
    assert one.kind == "not_worse"
    assert one.low < 0.0 < one.high
    assert one.text.endswith(f"not significantly worse ({one.value:.4f} behind, −{-one.low:.4f} to {one.high:.4f}).")


def test_the_lead_on_recalibration_speaks_of_every_model(full):
    lead = full["recalibration"].lead
    assert [(one.kind, one.model) for one in lead] == [("map_gain", "bold"), ("map_gain", "calm")]
    assert all(one.model in one.text for one in lead)


def test_low_and_high_are_ends_of_what_is_known(full):
    """Thresholds, ranges and estimates are facts: `low` and `high` are bounds or ends of intervals."""
    for one in (*full.findings, *(f for model in full.models.values() for f in model.findings)):
        if one.low is not None and one.high is not None:
            assert one.low <= one.high
        if one.kind in ("net_benefit", "rest_unsplit"):
            assert (one.low, one.high) == (None, None)
        if one.kind == "decision_cost":
            assert one.low is None
    (benefit,) = _found(full, "net_benefit")
    assert benefit.facts["thresholds"][0] < benefit.facts["thresholds"][1]


def test_a_calibrated_score_is_not_accused(law):
    _, y, q, _ = law
    report = make_report(y[:500], q[:500], loss="log", sections=["verdict", "calibration"])
    assert report["calibration"].lead[0].kind == "calibration_not_refuted"
    assert not {"recalibrate", "recalibrate_size_open", "not_material"} & set(_concluded(report))
    assert {"no_miscalibration", "calibrated_enough"} & set(_concluded(report))
    assert not _callouts(report, "action")


def test_the_test_speaks_where_the_bound_is_silent():
    """Miscalibration that the test sees, of a size that the interval of the term leaves open."""
    rng = np.random.default_rng(3)
    p = rng.random(500)
    y = rng.random(500) < 1 / (1 + ((1 - p) / p) ** 0.72)
    report = make_report(y, p, sections=["verdict"])
    result = report.models["model"].decompositions["log"]
    assert report.models["model"].tests["calibration"].pvalue < 0.05
    assert result.lower_bound("reliability").value <= 0.0
    told = _concluded(report)["recalibrate_size_open"]
    assert told.pvalue == report.models["model"].tests["calibration"].pvalue
    ends = dict(told.facts["ends"])
    assert ends["any"] == result.interval("reliability", method="any-shape").high
    assert f"{ends['any']:.3g} (" in report.headline
    assert not {"no_miscalibration", "inconclusive", "recalibrate"} & {one.kind for one in report.findings}


@pytest.fixture(scope="module")
def many_features():
    """Few rows, many features: the estimate of grouping is muted."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 12))
    y = (rng.random(500) < 1 / (1 + np.exp(-1.5 * X[:, 0] - 0.35 * X[:, 1]))).astype(int)
    p = 1 / (1 + np.exp(-1.7 * X[:, 0]))
    region = rng.choice(["north", "south"], 500)
    report = make_report(y, {"m": p}, X, segments={"region": region}, sections=["verdict", "segments"])
    return X, y, p, report


def test_a_muted_estimate_is_not_told(many_features):
    """What grouping is at least is said, what it is estimated at is not, anywhere."""
    report = many_features[-1]
    found = report.models["m"].decompositions["log"]
    assert found.muted == ("grouping", "irreducible")
    terms = _table(report, "verdict", "terms")
    row = next(row for row in terms.rows if row[0] == "log")
    assert row[3] == Range(max(found.lower_bound("grouping").value, 0.0), None)
    assert row[4] == Range(None, found.upper_bound("irreducible").value)
    assert "grouping or irreducible" in terms.note
    text = report.to_text(width=160)
    for value in (found.terms["grouping"], found.terms["irreducible"]):
        assert f"{value:.5f}" not in text
        assert f"{value:.4f}" not in text
    whole, *drops = (bar.get_width() for bar in found.plot(kind="waterfall").ax_.patches)
    assert whole == found.risk
    assert sum(drops) == pytest.approx(-whole, abs=1e-12)  # the waterfall still ends at 0
    assert drops[1] == -row[3].low
    assert -drops[2] != found.terms["irreducible"]


def test_what_is_shown_mutes_what_the_summary_mutes(many_features):
    """`repr`, notebooks, comparisons and segments show the bound of a muted term; numbers stay in frames and JSON."""
    X, y, p, report = many_features
    found = report.models["m"].decompositions["log"]
    assert found.muted == ("grouping", "irreducible")
    both = scoreprism.compare(Sample.of(y, {"a": p, "b": p**1.1}, X), cv=2)
    for name in found.muted:
        assert f"{found.terms[name]:.5f}" not in repr(found) + found._repr_html_() + repr(found.summary())
        assert (
            found.to_frame("polars").row(by_predicate=pl.col("term") == name, named=True)["estimate"]
            == found.terms[name]
        )
        assert not any(
            f"{one.terms[name]:.5f}" in repr(both) for one in both.decompositions.values() if name in one.muted
        )
    known = found.known("irreducible")
    assert f"{known.high:.5f}" in repr(found)


def test_sums_say_what_rows_say():
    """A saw of tied scores, which smooth maps do not follow: conclusions and callouts, from rows and from sums."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, 3000).round(2)
    y = (rng.random(3000) < p + 0.04 * np.where(np.round(100 * p) % 2 == 0, 1.0, -1.0)).astype(int)
    rows = make_report(y, {"s": p}, loss="brier", sections=["verdict"])
    partial = scale.aggregate(pl.DataFrame({"y": y, "s": p}), target="y", score="s", loss="brier")
    sums = make_report(partial, sections=["verdict"])

    ours, theirs = ({one.kind: one for one in found.models["s"].findings} for found in (sums, rows))
    assert list(ours) == list(theirs)
    for kind in ("action", "note", "warning"):
        assert [one for one in _callouts(sums, kind) if KINDS[one].severity != "provenance"] == _callouts(rows, kind)
    for kind, one in ours.items():
        assert [end[0] for end in one.facts.get("ends", ())] == [e[0] for e in theirs[kind].facts.get("ends", ())]
    one, two = (found.models["s"].decompositions["brier"] for found in (sums, rows))
    assert one.interval("reliability").method == two.interval("reliability").method == "any shape"


def test_reports_from_sums_keep_segments_and_periods():
    """What `ScaledDecomposition.segments` and `.periods` promise holds in reports, and in their JSON."""
    rng = np.random.default_rng(5)
    n = 6000
    p = rng.uniform(0.1, 0.9, n).round(2)
    rows = pl.DataFrame(
        {"y": (rng.random(n) < p**1.3).astype(int), "s": p, "g": rng.choice(["a", "b"], n), "t": rng.integers(1, 4, n)}
    )
    sums = [
        scale.aggregate(rows, target="y", score="s", segments="g"),
        scale.aggregate(rows, target="y", score="s", time="t"),
    ]
    report = make_report({"s": sums})
    found = report.models["s"].decompositions["log"]
    assert list(found.segments) == ["a", "b"]
    assert list(found.periods) == [1, 2, 3]
    table = _table(report, "segments", "segments-1-1")
    assert _column(table, "loss") == [one.risk for one in found.segments.decompositions.values()]
    assert found.drift("first").pairs == ((2, 1), (3, 1))
    kept = report.to_dict()["models"]["s"]["losses"]["log"]["decomposition"]["scale"]
    assert list(kept["segments"]["segments"]) == ["a", "b"]
    assert list(kept["periods"]["segments"]) == ["1", "2", "3"]


def test_infinite_losses_are_said_with_their_rows_and_everything_else_goes_on():
    X, y, _, p = _law(400)
    wrong = p.copy()
    wrong[np.flatnonzero(y == 1)[:3]] = 0.0
    report = make_report(
        y, {"bad": wrong, "good": p}, X[:, :1], segments={"g": X[:, 1] > 0.5}, calibrators=["platt"], cv=2
    )
    assert "infinite_loss" in _concluded(report, "bad")
    assert "infinite_loss" not in _concluded(report, "good")
    assert _table(report, "verdict", "glance").rows[0][0] == "good"
    alone = make_report(y, wrong, sections=["verdict"])
    assert alone.models["model"].findings[0].kind == "infinite_loss"
    (told,) = {one.n for one in _found(report, "infinite_loss")}
    assert told == 3
    assert set(_found(report, "infinite_loss")[0].facts["rows"]) == set((np.flatnonzero(y == 1)[:3]).tolist())
    assert [one.kind for one in report["models"].lead] == ["best_model", "infinite_loss"]
    assert [one.model for one in report["models"].lead] == ["good", "bad"]
    assert {b.key for s in report.sections for b in s.blocks if isinstance(b, Figure)} >= {
        "reliability",
        "murphy",
        "waterfall",
        "plane",
        "segments-figure-1-1",
    }


def test_double_use_hard_labels_and_few_rows_are_warned_of():
    from sklearn.neighbors import KNeighborsClassifier

    X, y, _, p = _law(300)
    seen = make_report(y, KNeighborsClassifier(5).fit(X, y), X, sections=["verdict"])
    assert _callouts(seen, "action") == ["do_not_act"]
    told = _concluded(seen, "KNeighborsClassifier")
    assert told["do_not_act"].because.kind == "trained_on_rows"
    assert not {"recalibrate", "recalibrate_size_open", "no_miscalibration"} & set(told)
    hard = make_report(y, (p > 0.5).astype(float), loss="brier", sections=["verdict", "calibration"])
    assert "hard_labels" in _callouts(hard, "warning")
    few = make_report(y[:60], p[:60], X[:60], sections=["verdict", "method"])
    assert "few_rows" in _callouts(few, "warning")
    assert _found(few, "few_rows")[0].n == 60


def test_metrics_that_cannot_be_computed_are_named_with_the_reason():
    X, y, _, _ = _law(200)
    report = make_report(y, np.full(200, 0.5), X[:, :1], cv=2)
    assert "calibration_slope" not in report.models["model"].metrics.names
    assert "calibration_slope" in [one.subject for one in _found(report, "unavailable")]
    assert all(one.facts["reason"] for one in _found(report, "unavailable"))


def test_warnings_of_others_pass_and_ours_are_in_the_report(law):
    y, p = law[1][:200], law[3][:200]

    class Classifier:
        classes_ = np.array([0, 1])

        def predict_proba(self, X):
            warnings.warn("theirs", FutureWarning, stacklevel=2)
            return np.column_stack([1 - p, p])

    with pytest.warns(FutureWarning, match="theirs"):
        report = make_report(y, Classifier(), np.zeros((y.size, 1)), loss="brier", sections=["verdict"])
    assert not _callouts(report, "warning")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # ours do not get out
        report = make_report(y, np.round(p), loss="brier", sections=["verdict", "calibration"])
    assert "hard_labels" in _callouts(report, "warning")


# ── grouping: features and regions ──────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def planted():
    """Outcomes that follow the score, but for one region: chances are higher for 'rent' under 30."""
    rng = np.random.default_rng(0)
    n = 2000
    frame = pd.DataFrame(
        {"age": rng.integers(18, 75, n), "housing": rng.choice(["own", "rent", "free"], n), "noise": rng.normal(size=n)}
    )
    p = rng.uniform(0.1, 0.6, n)
    young = (frame["age"] < 30) & (frame["housing"] == "rent")
    y = rng.random(n) < np.where(young, np.minimum(p + 0.35, 1.0), p)
    return frame, p, y.astype(int), young.to_numpy()


def test_a_planted_region_is_found_in_words_and_judged_on_other_rows(planted):
    frame, p, y, young = planted
    report = make_report(y, p, frame, sections=["grouping"], loss="log", cv=2)
    region = _table(report, "grouping", "regions-1").rows[0]
    assert region[0] in ("age ≤ 29.5 and housing is rent", "housing is rent and age ≤ 29.5")
    assert region[6] < 1e-6
    assert region[4] == pytest.approx(0.35, abs=0.1)  # the planted difference
    assert region[1] < young.sum()  # half of the rows found it
    assert [one.n for one in _found(report, "no_feature_adds")] == [3]  # taken alone: it needs both


def test_features_and_regions_say_nothing_where_there_is_nothing():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.1, 0.9, 1000)
    y = rng.random(1000) < p
    report = make_report(y, p, pd.DataFrame(rng.normal(size=(1000, 4))), sections=["grouping"], cv=2)
    assert [one.n for one in _found(report, "no_feature_adds")] == [4]
    assert _found(report, "no_region")
    assert not [table.key for table in report["grouping"].tables if table.key.startswith(("features", "regions"))]
    assert [one.kind for one in report["grouping"].lead] == ["no_information_gain"]


def test_rules_put_the_steps_of_a_feature_together():
    """Outcomes that differ from the score in an interval of age, where it is missing, and by category."""
    rng = np.random.default_rng(0)
    age, kind, p = rng.uniform(0, 10, 3000), rng.choice(["a", "b", "c"], 3000), rng.uniform(0.3, 0.6, 3000)
    age[::5] = np.nan
    shift = np.where((age > 3) & (age <= 7), 0.25, -0.1) - 0.25 * np.isnan(age) + 0.1 * (kind == "c")
    y = (rng.random(3000) < np.clip(p + shift, 0, 1)).astype(int)
    report = make_report(y, p, pd.DataFrame({"age": age, "kind": kind}), sections=["grouping"], loss="log", cv=2)
    rules = _column(_table(report, "grouping", "regions-1"), "region")
    assert any("< age ≤" in rule for rule in rules)
    assert any("age is missing" in rule for rule in rules)
    assert any("kind is not c" in rule for rule in rules)


@pytest.mark.statistical
def test_regions_are_shown_no_more_often_than_they_should():
    """Size: under a calibrated score and features that say nothing, a region is shown in at most 5 % of reports."""
    from scoreprism.report._regions import find_regions  # reports with all of their parts would take five minutes

    shown = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.05, 0.95, 600)
        X = rng.normal(size=(600, 3))
        sample = Sample.of((rng.random(600) < p).astype(int), p, X)
        model = fit_case(sample, {"log": get_loss("log")}, seed=seed, reference="calibrated").first
        shown += min((r.pvalue for r in find_regions(model, model.features, seed)), default=1.0) < 0.05
    assert shown <= stats.binom(400, 0.05).ppf(0.999)


# ── clusters, splits of one's own, many rows ────────────────────────────────────────────────────────


def _clusters(seed):
    """A score that is calibrated for every row, and outcomes that are alike within 60 clusters of 20 rows."""
    rng = np.random.default_rng(seed)
    p = np.repeat(rng.uniform(0.2, 0.8, 60), 20)
    y = np.repeat(rng.random(60), 20) < p  # one draw for all rows of a cluster
    flip = rng.random(1200) < 0.5
    y = np.where(flip, rng.random(1200) < p, y).astype(int)
    return p, y, np.repeat(np.arange(60), 20), np.repeat(rng.normal(size=60), 20)[:, None]


def test_rows_of_clusters_are_not_taken_as_independent():
    """With the row-wise tests 7 of 25 such reports accused the score, and nearly all found regions."""
    accused = regions = 0
    for seed in range(8):
        p, y, groups, X = _clusters(seed)
        report = make_report(y, p, X, groups=groups, sections=["verdict", "grouping"], loss="log", cv=2)
        accused += bool({"recalibrate", "recalibrate_size_open", "not_material"} & set(_concluded(report)))
        tables = [table for table in report["grouping"].tables if table.key == "regions-1"]
        regions += any(row[6] <= 0.05 for table in tables for row in table.rows)
        assert report.models["model"].tests["calibration"].method == "cluster-robust bound"
        assert "dependent_rows" in _callouts(report, "warning")
    assert accused <= 2  # 5 % of 8 reports, with room for chance: P(more than 2) = .006
    assert regions <= 2


def test_splits_of_ones_own_are_not_those_of_segments_and_rows_are_counted_once(law):
    from sklearn.model_selection import TimeSeriesSplit

    X, y, _, p = law
    report = make_report(
        y, p, cv=TimeSeriesSplit(2), segments={"g": X[:, 1] > 0.5}, sections=["verdict", "segments", "method"]
    )
    assert dict(_table(report, "method", "data").rows)["rows"] == "1,000"
    assert sum(_column(_table(report, "segments", "segments-1-1"), "rows")) == 1000
    assert [one.facts["folds"] for one in _found(report, "approximated")] == [5]


def test_many_rows_are_tested_by_fewer_draws_and_by_bounds(monkeypatch, law):
    """The switches are at 50 000 and 200 000 rows; here they are moved to where a test can wait for them."""
    from scoreprism.report import _subject

    X, y, q, p = (column[:300] for column in law)
    draws = list(_subject.DRAWS["test"].values())
    monkeypatch.setattr(_subject, "MANY", 200)
    monkeypatch.setitem(_subject.DRAWS, "test", dict(zip((0, 200), draws, strict=True)))
    found = make_report(y, p, sections=["verdict"]).models["model"].tests["calibration"]
    assert (found.method, found.n_resamples) == ("min-p", 199)
    monkeypatch.setattr(_subject, "SOME", 250)
    for score, refuted in ((p, True), (q, False)):
        report = make_report(y, score, sections=["verdict", "calibration"])
        test = report.models["model"].tests["calibration"]
        assert (test.method, test.n_resamples) == ("min-p of cells", 399)
        cells, others = test.components["min-p of cells"]["pvalue"], ("bound", "spiegelhalter")
        assert cells == report.models["model"].decompositions["log"].calibration_pvalue
        least = 2 * min(test.components[name]["pvalue"] for name in others)
        assert test.pvalue == (min(cells, least) if cells <= 1 / 400 else cells)
        assert (test.pvalue <= 0.05) is refuted
        assert (report["calibration"].lead[0].kind == "calibration_refuted") is refuted
    assert make_report(y, p, X, cv=2, sections=["calibration"]).models["model"].tests["grouping"].method == "bound"


def test_many_features_are_chosen_and_all_of_them_count(monkeypatch):
    """Beyond 25 features; the switch is moved to where a test can wait for it."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 6)), columns=[f"f{j}" for j in range(6)])
    X["constant"] = 1.0
    p = rng.uniform(0.2, 0.8, 300)
    y = rng.random(300) < np.clip(p + 0.3 * np.sign(X["f5"]), 0, 1)
    pvalues = []
    for most in (7, 4):
        monkeypatch.setattr("scoreprism.report._grouping_section.MOST_FEATURES", most)
        report = make_report(y, p, X, sections=["grouping"], loss="log", cv=2)
        table = _table(report, "grouping", "features-1")
        assert _column(table, "feature")[0] == "f5"
        pvalues.append(_column(table, "pvalue")[0])
    # Holm: the smallest p is multiplied by the number of all features, chosen or not, since the choice saw outcomes
    assert pvalues[0] == pvalues[1] < 0.05
    assert "of 7 features" in table.note
    assert _found(report, "feature_adds")[0].facts["features"][0] == "f5"


def test_a_feature_that_cannot_be_weighed_is_named():
    X, y, _, p = _law(400)
    report = make_report(y, p, pd.DataFrame({"a": X[:, 1], "same": 1.0}), sections=["grouping"], loss="log")
    assert [one.subject for one in _found(report, "unavailable")] == ["same"]


def test_the_test_of_grouping_speaks_where_the_bound_is_silent():
    """Six features, one of which adds a little: a test sees it before the bound does."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, p = rng.normal(size=(700, 6)), rng.uniform(0.2, 0.8, 700)
        y = rng.random(700) < np.clip(p + 0.07 * np.sign(X[:, 0]), 0, 1)
        report = make_report(y, p, X, sections=["verdict", "grouping"], loss="log", cv=2)
        found = report.models["model"]
        test, result = found.tests["grouping"], found.decompositions["log"]
        if (
            test.pvalue <= 0.01
            and result.lower_bound("grouping").value <= 0.0
            and not any(one.severity == "doubt" for one in result.findings)
        ):
            break
    else:
        pytest.fail("no such sample")
    (told,) = (one for one in report["grouping"].lead if one.kind == "information_size_open")
    assert (told.term, told.pvalue) == ("grouping", test.pvalue)
    assert "information_size_open" in _concluded(report)
    assert "no_information_gain" not in _concluded(report)


@pytest.mark.statistical
def test_calibrated_scores_are_accused_no_more_often_than_they_should():
    """Size of the headline: of 400 calibrated scores, the test or the bound accuses at most 10 %, 5 % for each."""
    accused = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        p = rng.beta(1, 3, 500)
        report = make_report(rng.random(500) < p, p, loss="log", sections=["verdict"], random_state=seed)
        accused += bool({"recalibrate", "recalibrate_size_open", "not_material"} & set(_concluded(report)))
    assert accused <= stats.binom(400, 0.1).ppf(0.99)


# ── groups and time ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("days", "rows", "what", "first"),
    [
        (10, 300, "days", "2024-01-01"),
        (10, 100, "weeks", "week of 2024-01-01"),  # a day has fewer than 200 rows
        (100, 60, "weeks", "week of 2024-01-01"),
        (600, 9, "months", "2024-01"),
        (1500, 3, "quarters", "2024-Q1"),
        (6000, 1, "years", "2024"),
    ],
)
def test_periods_leave_enough_rows(days, rows, what, first):
    time = np.repeat(np.datetime64("2024-01-01") + np.arange(days), rows)
    title, labels = _periods(time)
    assert title == f"By time, in {what}"
    assert labels[0] == first
    assert labels == sorted(labels)  # they sort as time does


def _periods(time):
    """The title of the table of periods, and what they are called."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 0.8, len(time)).round(2)
    y = (rng.random(len(time)) < p).astype(int)
    table = _table(make_report(y, p, time=time, sections=["segments"], loss="brier", cv=2), "segments", "segments-1-1")
    return table.title, _column(table, "segment")


def test_dates_as_objects_or_text_are_dates():
    from datetime import date, timedelta

    _, y, _, p = _law(1200)
    p = p.round(2)
    days = [date(2024, 1, 1) + timedelta(days=i // 10) for i in range(1200)]
    for time in (days, [str(day) for day in days], [f"{day} 10:30:00" for day in days]):
        report = make_report(y, p, time=time, sections=["segments"])
        assert report["segments"].blocks[0].title == "By time, in months"


def test_periods_that_are_given_stay_and_numbers_sort_as_numbers():
    assert _periods(np.repeat(["2024H1", "2024H2"], 150))[1] == ["2024H1", "2024H2"]
    assert _periods(np.repeat([9, 10, 11], 150))[1] == ["9", "10", "11"]
    title, labels = _periods(np.arange(1500))
    assert title == "By time, in ranges of equal size"
    assert len(labels) == 10


def test_small_segments_are_left_out_and_named():
    _, y, _, p = _law(700)
    group = np.array(["large"] * 600 + ["small"] * 100)
    y = y.copy()
    y[600:] = 0
    y[600:605] = 1
    report = make_report(y, p, segments={"g": group}, sections=["segments"])
    (left_out,) = _found(report, "left_out")
    assert (left_out.facts["reason"], left_out.facts["names"]) == ("small", ["small (100)"])
    assert _column(_table(report, "segments", "segments-1-1"), "segment") == ["large"]


def test_no_segment_large_enough_is_said():
    _, y, _, p = _law(300)
    report = make_report(y, p, segments=np.arange(300) // 20, sections=["segments"])
    assert [(one.kind, one.n) for one in report["segments"].lead] == [("segments_too_small", 100)]


# ── more than two classes ───────────────────────────────────────────────────────────────────────────


def test_three_classes():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(3, 2.0), 300)
    y = np.array(["x", "y", "z"])[(P.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1)]
    sections = ["verdict", "calibration", "recalibration", "decisions", "method"]
    report = make_report(y, pl.DataFrame(P, schema=["x", "y", "z"]), sections=sections)
    assert {"accuracy", "log_loss", "brier_score", "macro_auc"} <= set(report.models["model"].metrics.names)
    assert "top_k_accuracy" not in report.models["model"].metrics.names
    scores = _table(report, "verdict", "scores")
    assert _column(scores, "model_1")[0].estimate == np.mean(y == np.array(["x", "y", "z"])[P.argmax(axis=1)])
    assert [section.key for section in report.sections] == ["verdict", "calibration", "recalibration", "method"]
    assert list(report.models["model"].map.classes_) == ["x", "y", "z"]


# ── the same again, and input that will not do ──────────────────────────────────────────────────────


def test_a_report_is_the_same_again_and_another_with_another_seed():
    """With any number of processes too: `test_runs_are_identical_whatever_the_jobs` of the command line."""
    X, y, _, p = _law(100)
    one, other, third = (
        make_report(y, p, X[:, 1:], loss="log", cv=2, random_state=seed, sections=["verdict"]) for seed in (0, 0, 1)
    )
    assert one.to_json() == other.to_json()
    assert third.to_json() != one.to_json()


def test_maps_that_tie_stand_in_the_order_they_were_tried(monkeypatch):
    """The order of a set of names would follow the hash seed of the process: two runs were not byte-identical."""
    from scoreprism.report import _map_trials

    _, y, _, p = _law(300)
    tied = [name for name in reversed(_map_trials.TRIED[True]) if name != "selected"]
    judge = _map_trials.judge_candidate
    monkeypatch.setattr(_map_trials, "judge_candidate", lambda *given: replace(judge(*given), loss=0.5, difference=0.1))
    table = _table(make_report(y, p, calibrators=tied, sections=["recalibration"]), "recalibration", "recalibration")
    assert _column(table, "map")[1:] == tied


def test_a_sample_says_what_its_arrays_say(law):
    X, y, q, p = (column[:250] for column in law)
    rows = {"X": X[:, 1:], "segments": {"g": X[:, 1] > 0.5}, "sample_weight": np.where(X[:, 0] > 0.9, 0.0, 1.0)}
    how = {"sections": ["verdict", "segments", "method"], "loss": "log", "cv": 2}
    plain = make_report(y, {"p": p, "q": q}, **how, **rows)
    assert make_report(Sample.of(y, {"p": p, "q": q}, **rows), **how).to_json() == plain.to_json()
    assert [one.n for one in _found(plain, "zero_weight")] == [int((X[:, 0] > 0.9).sum())]


@pytest.fixture(scope="module")
def from_arrays(law):
    """What a report on arrays says."""
    X, y, _, p = (column[:300] for column in law)
    return make_report(y, {"m": p}, X, cv=2, sections=["verdict"]).headline


def test_frames_of_every_kind_say_the_same(law, library, from_arrays):
    X, y, _, p = (column[:300] for column in law)
    frame = library.frame({"0": X[:, 0], "1": X[:, 1]})
    report = make_report(library.column(y), {"m": library.column(p)}, frame, cv=2, sections=["verdict"])
    assert report.headline == from_arrays


def test_labels_of_every_kind_say_the_same_and_the_map_keeps_its_direction(law):
    y, p = law[1][:400], law[3][:400]
    how = {"sections": ["verdict", "recalibration"], "calibrators": ["platt", "isotonic"]}
    words = make_report(np.where(y == 1, "bad", "good"), p, pos_label="bad", **how)
    plain = make_report(y, p, **how)
    assert words.headline == plain.headline
    map_ = words.models["model"].map
    assert map_.calibrate([0.2, 0.8])[0] < map_.calibrate([0.2, 0.8])[1]
    assert np.array_equal(map_.calibrate(p), get_calibrator(map_.name).fit(p, y).calibrate(p))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"random_state": None}, "random_state of a report must be a whole number; got None"),
        ({"random_state": True}, "random_state of a report must be a whole number; got True"),
        ({"sections": ["verdikt"]}, "Did you mean 'verdict'"),
        ({"calibrators": ["plat"]}, "Did you mean 'platt'"),
        ({"loss": []}, "loss must name at least one loss"),
        ({"confidence_level": 1.0}, "confidence_level must be"),
        ({"time": [1, 2]}, "time and y_true must have the same number of rows; got 2 and 200"),
        ({"segments": {"g": ["a", "b"]}}, "segments['g'] and y_true must have the same number of rows; got 2 and 200"),
        ({"sample_weight": np.zeros(200)}, "sample_weight must"),
    ],
)
def test_bad_input_is_refused_in_words(arguments, words):
    _, y, _, p = _law(200)
    with pytest.raises(InputError) as caught:
        make_report(y, p, **arguments)
    assert words in str(caught.value)


def test_no_model_no_rows_one_class():
    with pytest.raises(InputError, match="y_proba must hold at least one model"):
        make_report([0, 1], {})
    with pytest.raises(InputError, match="must not be empty"):
        make_report([], [])
    with pytest.raises(InputError, match="must hold at least two classes"):
        make_report(np.zeros(50, int), np.linspace(0.1, 0.9, 50))


def test_make_report_writes_once_and_checks_first(tmp_path, law):
    _, y, _, p = law
    path = tmp_path / "report.md"
    report = make_report(y, p, output=path, sections=["verdict"])
    assert report.headline in path.read_text(encoding="utf-8")
    with pytest.raises(InputError, match="must not exist"):
        make_report(y, [math.nan] * y.size, output=path)  # before anything is computed
    make_report(y, p, output=path, overwrite=True, sections=["verdict"], title="Second")
    assert path.read_text(encoding="utf-8").startswith("# Second")
    with pytest.raises(InputError, match=r"must end in one of \.html"):
        report.save(tmp_path / "report.pdf")


# ── small pieces ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("cell", "kind", "text"),
    [
        (-0.00001, "number", "−0.00001"),
        (-0.000001, "number", "0.00000"),
        (Range(None, 0.5, 0.4), "short", "0.400 (≤ 0.500)"),
        (Range(math.nan, math.nan), "short", "–"),
        (0.0004, "pvalue", "< 0.001"),
        (0.99975, "share", "99.9 %"),
        (1.0, "share", "100.0 %"),
    ],
)
def test_cells_are_shown_as_people_read_them(cell, kind, text):
    """Beside a cell of usual size, which the decimals of the column follow."""
    shown = Table("t", "T", (Column("x", "x", kind),), ((cell,), (0.5,))).shown()
    assert shown[0] == [text]


def test_callouts_have_known_kinds(full):
    kinds = {callout.kind for section in full.sections for callout in section.callouts}
    assert kinds <= {"action", "warning", "note"}
