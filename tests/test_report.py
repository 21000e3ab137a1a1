"""What a report says: its numbers are those of the library, its sentences follow from them, nothing is missing."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import scoreprism
from scoreprism import Sample, scale
from scoreprism._fitting.crossfit import make_partitions
from scoreprism._kernels.binomial import rate_interval
from scoreprism._sample.fit_rows import FitRows
from scoreprism.calibrators import get_calibrator
from scoreprism.datasets import CopulaLaw
from scoreprism.displays._decomposition_bars import drawn_lengths
from scoreprism.exceptions import InputError
from scoreprism.losses import get_loss
from scoreprism.metrics import evaluate
from scoreprism.report import SECTIONS, Figure, Notice, Range, Table, make_report, summarize, summarize_sums
from scoreprism.report._calibration_section import grades
from scoreprism.report._decision_section import longest_run
from scoreprism.report._model import KINDS, show
from scoreprism.report._regions import readable, rules_of
from scoreprism.report._segment_section import periods


def _law(n=1500, seed=0):
    X, y, q = CopulaLaw(rho=0.0).sample(n, random_state=seed)
    return X, y, q, 1.0 / (1.0 + np.exp(3.0 - 6.0 * X[:, 0]))


@pytest.fixture(scope="module")
def law():
    return _law()


@pytest.fixture(scope="module")
def full(law):
    """A report with everything in it: two models, features, segments, time."""
    X, y, _q, p = law
    frame = pl.DataFrame({"seen": X[:, 0], "unseen": X[:, 1], "kind": np.where(X[:, 1] > 0.5, "a", "b")})
    time = np.datetime64("2024-01-01") + np.arange(y.size) // 5
    calm = 0.2 + 0.6 * p
    return summarize(y, {"bold": p, "calm": calm}, frame, segments={"kind": frame["kind"]}, time=time)


def _table(report, section, key):
    return next(table for table in report[section].tables if table.key == key)


def _column(table, key):
    place = [column.key for column in table.columns].index(key)
    return [row[place] for row in table.rows]


def _texts(report, kind):
    return [notice.text for section in report.sections for notice in section.notices if notice.kind == kind]


# ── numbers are those of the library ────────────────────────────────────────────────────────────────


def test_decompositions_are_those_of_decompose_to_the_last_bit(law, full):
    X, y, _, p = law
    frame = pl.DataFrame({"seen": X[:, 0], "unseen": X[:, 1], "kind": np.where(X[:, 1] > 0.5, "a", "b")})
    direct = scoreprism.decompose(y, p, frame, loss=("log", "brier"), random_state=0)
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
    assert full.models["bold"].tests["calibration"].pvalue == scoreprism.calibration_test(y, p, random_state=0).pvalue


def test_losses_after_recalibration_are_those_of_cross_fitted_laws(law):
    y, p = law[1][:900], law[3][:900]  # few enough for every score to be a cell of its own
    gains = _table(summarize(y, {"bold": p}, sections=["recalibration"]), "recalibration", "recalibration")
    for map_ in ("platt", "isotonic"):
        expected = _out_of_fold(y, p, map_)
        place = [(row[0], row[1]) for row in gains.rows].index(("bold", map_))
        assert gains.rows[place][2] == pytest.approx(expected, rel=1e-6)  # three Newton steps
        assert gains.rows[place][3].estimate == pytest.approx(_log_loss(y, p) - expected, abs=1e-6)
    before = next(row for row in gains.rows if row[:2] == ("bold", "as it is"))
    assert before[2] == pytest.approx(_log_loss(y, p), rel=1e-12)


def _log_loss(y, p):
    return float(-np.mean(np.log(np.where(y == 1, p, 1 - p))))


def _out_of_fold(y, p, name):
    """Maps fitted row by row, without each fold of the first four partitions that a seed of 0 draws."""
    seed = int(np.random.default_rng(0).integers(2**62))
    _, partitions = make_partitions(5, FitRows(p, y.astype(np.intp), None, 2, "probability"), None, seed, 4)
    losses = []
    for home in partitions.home:
        law = np.empty(y.size)
        for k in range(5):
            map_ = get_calibrator(name).fit(p[home != k], y[home != k])
            law[home == k] = map_.calibrate(p[home == k])
        losses.append(_log_loss(y, law))
    return float(np.mean(losses))


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
    direct = scoreprism.decompose_by(frame["kind"], y, p, frame, random_state=0)
    table = _table(full, "segments", "segments-1")
    assert _column(table, "segment") == ["a", "b"]
    assert _column(table, "reliability") == [direct[name].terms["reliability"] for name in "ab"]
    alone = summarize(y, p, frame, segments={"kind": frame["kind"]}, sections=["segments"])
    assert _column(_table(alone, "segments", "segments-1"), "pvalue") == list(direct.pvalues("reliability").values())
    assert all(a >= b for a, b in zip(_column(table, "pvalue"), direct.pvalues("reliability").values(), strict=True))


def test_jeffreys_intervals_are_quantiles_of_the_beta_law():
    events, size = np.array([0.0, 3.0, 10.0]), np.array([10.0, 10.0, 10.0])
    low, high = rate_interval(events, size, 0.95, "jeffreys")
    law = stats.beta(3.5, 7.5)  # scipy: Beta(½ + 3, ½ + 7)
    assert (low[1], high[1]) == pytest.approx((law.ppf(0.025), law.ppf(0.975)), rel=1e-12)
    assert (low[0], high[2]) == (0.0, 1.0)
    assert high[0] == pytest.approx(stats.beta(0.5, 10.5).ppf(0.975), rel=1e-12)


def test_grades_count_every_row_once(law, full):
    _, y, _, _p = law
    table = _table(full, "calibration", "grades-1")
    assert sum(_column(table, "rows")) == y.size
    rates, counts = _column(table, "observed"), _column(table, "rows")
    assert sum(r * c for r, c in zip(rates, counts, strict=True)) == pytest.approx(y.sum())
    grade, count = grades(np.array([0.3, 0.1, 0.3, 0.2]))
    assert grade.tolist() == [2, 0, 2, 1]
    assert count == 3


def test_rows_of_weight_zero_are_absent():
    X, y, _, p = _law(600)
    weight = np.where(np.arange(600) % 3 == 0, 0.0, 1.5)
    held = weight > 0
    frame = pd.DataFrame(X, columns=["a", "b"])
    some = summarize(y, p, frame, sample_weight=weight, segments={"g": X[:, 1] > 0.5}, time=np.arange(600) // 300)
    few = summarize(y[held], p[held], frame[held].reset_index(drop=True), sample_weight=weight[held],
                    segments={"g": X[held, 1] > 0.5}, time=np.arange(600)[held] // 300)  # fmt: skip
    assert some.models["model"].decompositions["log"].terms == few.models["model"].decompositions["log"].terms
    assert [t.rows for s in some.sections[:-1] for t in s.tables] == [
        t.rows for s in few.sections[:-1] for t in s.tables
    ]
    assert any("200 rows of weight 0 were left out" in text for text in _texts(some, "note"))


def test_weights_that_count_rows_are_rows_that_are_repeated():
    _X, y, _, p = _law(400)
    times = np.random.default_rng(1).integers(1, 4, y.size)
    some = summarize(y, np.round(p, 1) * 0.9 + 0.05, sample_weight=times, sections=["calibration"])
    more = summarize(np.repeat(y, times), np.repeat(np.round(p, 1) * 0.9 + 0.05, times), sections=["calibration"])
    for key in ("predicted", "observed"):
        assert _column(_table(some, "calibration", "grades-1"), key) == pytest.approx(
            _column(_table(more, "calibration", "grades-1"), key), rel=1e-12
        )


# ── sections ────────────────────────────────────────────────────────────────────────────────────────


def test_all_eight_sections_in_order_each_with_a_sentence(full):
    assert [section.key for section in full.sections] == list(SECTIONS)
    for section in full.sections:
        assert section.meaning.endswith(".")
        assert "nan" not in section.meaning.lower().split()


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
    for section in full.sections:
        for table in section.tables:
            assert all(column.kind == "text" or column.kind in KINDS for column in table.columns)
            assert all(len(row) == len(table.columns) for row in table.rows)
            table.shown()


def test_what_was_not_given_is_not_there():
    _, y, _, p = _law(600)
    assert [s.key for s in summarize(y, p).sections] == [
        "verdict",
        "calibration",
        "recalibration",
        "decisions",
        "method",
    ]
    only = summarize(y, p, sections=["method", "verdict"])
    assert [s.key for s in only.sections] == ["verdict", "method"]
    assert only.models["model"].map is None


def test_reference_law_and_latent_law_without_features(law):
    _, y, q, p = law
    report = summarize(y, p, q=q, latent=q, sections=["verdict", "grouping"])
    assert "heterogeneity" not in report.headline  # nothing that is known here removes it
    assert report.models["model"].decompositions["log"].names == ("reliability", "grouping", "heterogeneity", "noise")
    assert any(isinstance(block, Figure) for block in report["grouping"].blocks)


# ── sentences follow from bounds and tests ──────────────────────────────────────────────────────────


def test_headline_names_what_is_shown(law):
    X, y, _, p = law
    report = summarize(y, p, X, sections=["verdict"])
    result = report.models["model"].decompositions["log"]
    least = {name: result.lower_bound(name).value for name in ("reliability", "grouping")}
    shares = {name: f"{value:.3g} ({100 * value / result.risk:.2g} %)" for name, value in least.items()}
    assert report.headline == (
        f"Of the log loss of model, {result.risk:.4f}, recalibration removes at least {shares['reliability']} and "
        f"a better model of the same features removes at least {shares['grouping']}, at 95 % confidence."
    )


def test_headline_of_several_models_says_which_to_use_and_which_to_recalibrate(full):
    risk = {name: model.decompositions["log"].risk for name, model in full.models.items()}
    assert risk["calm"] < risk["bold"]
    assert full.models["calm"].decompositions["log"].lower_bound("reliability").value == 0.0
    assert full.models["bold"].decompositions["log"].lower_bound("reliability").value > 0.0
    assert full.headline == (
        f"calm has the smallest log loss, {risk['calm']:.4f}. Recalibrate bold. calm is not calibrated, but that "
        "recalibration gains anything is not shown."
    )
    glance = _table(full, "verdict", "glance")
    assert _column(glance, "model") == ["calm", "bold"]
    gap = full.models["bold"].decompositions["log"].minus(full.models["calm"].decompositions["log"])
    assert _column(glance, "behind")[1].low == pytest.approx(gap.risk - stats.norm.ppf(0.975) * gap.risk_std_error)


def test_a_calibrated_score_is_not_accused(law):
    _, y, q, _ = law
    report = summarize(y, q, sections=["verdict", "calibration"])
    assert "is not shown to be miscalibrated" in report["calibration"].meaning
    assert report.headline.startswith("No part of the log loss of model")
    assert not _texts(report, "action")


def test_the_test_speaks_where_the_bound_is_silent():
    """Miscalibration that the test sees, of a size that the interval of the term leaves open."""
    rng = np.random.default_rng(3)
    p = rng.random(500)
    y = rng.random(500) < 1 / (1 + ((1 - p) / p) ** 0.72)
    report = summarize(y, p, sections=["verdict"])
    result = report.models["model"].decompositions["log"]
    assert report.models["model"].tests["calibration"].pvalue < 0.05
    assert result.lower_bound("reliability").value <= 0.0
    most = f"{result.interval('reliability', method='any-shape').high:.3g} ("
    assert re.fullmatch(
        r"model is not calibrated \(p = 0\.\d+\), but that recalibration lowers its log loss, 0\.\d+, is not shown: it "
        r"removes between 0 and .* \(95 % confidence\)\.",
        report.headline,
    )
    assert f"between 0 and {most}" in report.headline
    (action,) = _texts(report, "action")
    assert action.startswith("The scores are not calibrated (p = 0.")
    assert f"but that recalibration lowers the loss is not shown: it gains between 0 and {most}" in action
    for text in (report.headline, *_texts(report, "action"), *_texts(report, "note")):
        assert "No miscalibration is shown" not in text


def test_a_muted_estimate_is_not_told():
    """Few rows, many features: what grouping is at least is said, what it is estimated at is not, anywhere."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 12))
    y = (rng.random(500) < 1 / (1 + np.exp(-1.5 * X[:, 0] - 0.35 * X[:, 1]))).astype(int)
    p = 1 / (1 + np.exp(-1.7 * X[:, 0]))
    region = rng.choice(["north", "south"], 500)
    report = summarize(y, {"m": p}, X, segments={"region": region}, sections=["verdict", "segments"])
    found = report.models["m"].decompositions["log"]
    assert found.muted == ("grouping", "irreducible")
    share = 100 * (found.terms["grouping"] + found.terms["irreducible"]) / found.risk
    said = f"; grouping and irreducible, {share:.1f} % together, cannot be told apart."
    assert report["verdict"].meaning.endswith(said)
    terms = _table(report, "verdict", "terms")
    row = next(row for row in terms.rows if row[1] == "log")
    assert row[4] == Range(max(found.lower_bound("grouping").value, 0.0), None)
    assert row[5] == Range(None, found.upper_bound("irreducible").value)
    assert terms.note.endswith("has a bound and no estimate, the estimate would be mostly noise.")
    text = report.to_text(width=160)
    for value in (found.terms["grouping"], found.terms["irreducible"]):
        assert f"{value:.5f}" not in text
        assert f"{value:.4f}" not in text
    lengths = drawn_lengths(found, 0.95)
    assert sum(lengths.values()) == pytest.approx(found.risk, abs=1e-12)  # the waterfall still ends at 0
    assert lengths["grouping"] == row[4].low
    assert lengths["irreducible"] != found.terms["irreducible"]


def test_sums_say_what_rows_say():
    """A saw of tied scores, which smooth maps do not follow: headline, actions and notes, from rows and from sums."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, 3000).round(2)
    y = (rng.random(3000) < p + 0.04 * np.where(np.round(100 * p) % 2 == 0, 1.0, -1.0)).astype(int)
    rows = summarize(y, {"s": p}, loss="brier", sections=["verdict"])
    partial = scale.summarize(pl.DataFrame({"y": y, "s": p}), target="y", score="s", loss="brier")
    sums = summarize_sums(partial, sections=["verdict"])

    def words(text):
        return re.sub(r"\d[\d.,]*( %)?", "#", text)

    assert words(sums.headline) == words(rows.headline)
    for kind in ("action", "note"):
        ours, theirs = ([words(text) for text in _texts(one, kind)] for one in (sums, rows))
        assert [text for text in ours if text.startswith(("The scores", "No misc"))] == [
            text for text in theirs if text.startswith(("The scores", "No misc"))
        ]
    one, two = (found.models["s"].decompositions["brier"] for found in (sums, rows))
    assert one.interval("reliability").method == two.interval("reliability").method == "any shape"


def test_infinite_losses_are_said_with_their_rows_and_everything_else_goes_on():
    X, y, _, p = _law(800)
    wrong = p.copy()
    wrong[np.flatnonzero(y == 1)[:3]] = 0.0
    report = summarize(y, {"bad": wrong, "good": p}, X, segments={"g": X[:, 1] > 0.5})
    assert "That of bad is infinite (" in report.headline
    assert summarize(y, wrong, sections=["verdict"]).headline.startswith("The log loss of model is infinite")
    assert any("3 rows have an infinite log loss" in text for text in _texts(report, "warning"))
    assert report["models"].meaning.startswith(
        "The log loss of bad is infinite. good has the smallest log loss; bad is "
    )
    assert {b.key for s in report.sections for b in s.blocks if isinstance(b, Figure)} >= {
        "reliability-1",
        "murphy",
        "waterfall",
        "plane",
        "segments-figure-1",
    }


def test_double_use_hard_labels_and_few_rows_are_warned_of():
    from sklearn.neighbors import KNeighborsClassifier

    X, y, _, p = _law(300)
    seen = summarize(y, KNeighborsClassifier(5).fit(X, y), X, sections=["verdict"])
    assert "it was judged on rows that it has seen before" in seen.headline
    assert any("Do not act" in text and "trained on these rows" in text for text in _texts(seen, "action"))
    hard = summarize(y, (p > 0.5).astype(float), loss="brier")
    assert any("are these predicted labels" in text for text in _texts(hard, "warning"))
    few = summarize(y[:60], p[:60], X[:60])
    assert any(text.startswith("Few data: 60 rows") for text in _texts(few, "warning"))


def test_metrics_that_cannot_be_computed_are_named_with_the_reason():
    X, y, _, _ = _law(400)
    report = summarize(y, np.full(400, 0.5), X)
    assert "calibration_slope" not in report.models["model"].metrics.names
    assert any("calibration_slope is not given" in text for text in _texts(report, "note"))


def test_warnings_of_others_pass_and_ours_are_in_the_report(law):
    _, y, _, p = law

    class Classifier:
        classes_ = np.array([0, 1])

        def predict_proba(self, X):
            warnings.warn("theirs", FutureWarning, stacklevel=2)
            return np.column_stack([1 - p, p])

    with pytest.warns(FutureWarning, match="theirs"):
        report = summarize(y, Classifier(), np.zeros((y.size, 1)), loss="brier", sections=["verdict"])
    assert not _texts(report, "warning")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # ours do not get out
        report = summarize(y, np.round(p), loss="brier", sections=["verdict", "calibration"])
    assert any("are these predicted labels" in text for text in _texts(report, "warning"))


# ── grouping: features and regions ──────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def planted():
    """Outcomes that follow the score, but for one region: chances are higher for 'rent' under 30."""
    rng = np.random.default_rng(0)
    n = 4000
    frame = pd.DataFrame(
        {"age": rng.integers(18, 75, n), "housing": rng.choice(["own", "rent", "free"], n), "noise": rng.normal(size=n)}
    )
    p = rng.uniform(0.1, 0.6, n)
    young = (frame["age"] < 30) & (frame["housing"] == "rent")
    y = rng.random(n) < np.where(young, np.minimum(p + 0.35, 1.0), p)
    return frame, p, y.astype(int), young.to_numpy()


def test_a_planted_region_is_found_in_words_and_judged_on_other_rows(planted):
    frame, p, y, young = planted
    report = summarize(y, p, frame, sections=["grouping"], loss="log")
    region = _table(report, "grouping", "regions").rows[0]
    assert region[0] in ("age ≤ 29.5 and housing is rent", "housing is rent and age ≤ 29.5")
    assert region[6] < 1e-6
    assert region[4] == pytest.approx(0.35, abs=0.1)  # the planted difference
    assert region[1] < young.sum()  # half of the rows found it
    features = _table(report, "grouping", "features")
    assert set(_column(features, "feature")[:2]) == {"age", "housing"}
    assert _column(features, "pvalue")[2] > 0.05


def test_features_and_regions_say_nothing_where_there_is_nothing():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.1, 0.9, 3000)
    y = rng.random(3000) < p
    report = summarize(y, p, pd.DataFrame(rng.normal(size=(3000, 4))), sections=["grouping"])
    assert min(_column(_table(report, "grouping", "features"), "pvalue")) > 0.05
    assert min(_column(_table(report, "grouping", "regions"), "pvalue")) > 0.05
    assert "is not shown" in report["grouping"].meaning


def test_rules_put_the_steps_of_a_feature_together():
    from sklearn.tree import DecisionTreeRegressor

    rng = np.random.default_rng(0)
    age, kind = rng.uniform(0, 10, 2000), rng.choice(["a", "b", "c"], 2000)
    age[::10] = np.nan
    table, conditions = readable([age, kind], ["age", "kind"])
    target = np.where((age > 3) & (age <= 7), 1.0, 0.0) + np.where(kind == "c", 3.0, 0.0) + np.isnan(age) * 9.0
    tree = DecisionTreeRegressor(max_leaf_nodes=9, random_state=0).fit(table, target)
    rules = set(rules_of(tree.tree_, conditions).values())
    assert any("< age ≤" in rule for rule in rules)
    assert any("age is missing" in rule for rule in rules)
    assert any("kind is not c" in rule for rule in rules)


@pytest.mark.statistical
def test_regions_are_shown_no_more_often_than_they_should():
    """Size: under a calibrated score and features that say nothing, a region is shown in at most 5 % of reports."""
    from scoreprism.report._build import fit_case
    from scoreprism.report._regions import find_regions

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
        report = summarize(y, p, X, groups=groups, sections=["verdict", "grouping"], loss="log")
        accused += "Recalibrat" in report.headline or "miscalibrated" in report.headline
        tables = [table for table in report["grouping"].tables if table.key == "regions"]
        regions += any(row[6] <= 0.05 for table in tables for row in table.rows)
        assert report.models["model"].tests["calibration"].method == "cluster-robust bound"
        assert any("Rows come in clusters" in text for text in _texts(report, "warning"))
    assert accused <= 2  # 5 % of 8 reports, with room for chance: P(more than 2) = .006
    assert regions <= 2


def test_splits_of_ones_own_are_not_those_of_segments_and_rows_are_counted_once(law):
    from sklearn.model_selection import TimeSeriesSplit

    X, y, _, p = law
    report = summarize(
        y, p, cv=TimeSeriesSplit(2), segments={"g": X[:, 1] > 0.5}, sections=["verdict", "segments", "method"]
    )
    assert report["method"].meaning.startswith("Every number here was computed from 1,000 rows")
    assert sum(_column(_table(report, "segments", "segments-1"), "rows")) == 1000
    assert any("five random folds" in text for text in _texts(report, "note"))


def test_many_rows_are_tested_by_fewer_draws_and_by_bounds(monkeypatch, law):
    """The switches are at 50 000 and 200 000 rows; here they are moved to where a test can wait for them."""
    from scoreprism.report import _evidence

    X, y, q, p = law
    monkeypatch.setattr(_evidence, "FULL", 1000)
    found = summarize(y, p, sections=["verdict"]).models["model"].tests["calibration"]
    assert (found.method, found.n_resamples) == ("min-p", 199)
    monkeypatch.setattr(_evidence, "SOME", 1200)
    for score, refuted in ((p, True), (q, False)):
        report = summarize(y, score, sections=["verdict", "calibration"])
        test = report.models["model"].tests["calibration"]
        assert (test.method, test.n_resamples) == ("min-p of cells", 399)
        cells, others = test.components["min-p of cells"]["pvalue"], ("bound", "spiegelhalter")
        assert cells == report.models["model"].decompositions["log"].calibration_pvalue
        least = 2 * min(test.components[name]["pvalue"] for name in others)
        assert test.pvalue == (min(cells, least) if cells <= 1 / 400 else cells)
        assert (test.pvalue <= 0.05) is refuted
        assert ("is shown not to be calibrated" in report["calibration"].meaning) is refuted
    assert summarize(y, p, X, sections=["calibration"]).models["model"].tests["grouping"].method == "bound"


def test_many_features_are_chosen_and_all_of_them_count():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1500, 30)), columns=[f"f{j}" for j in range(30)])
    X["constant"] = 1.0
    p = rng.uniform(0.2, 0.8, 1500)
    y = rng.random(1500) < np.clip(p + 0.15 * np.sign(X["f7"]), 0, 1)
    report = summarize(y, p, X, sections=["grouping"], loss="log")
    table = _table(report, "grouping", "features")
    assert _column(table, "feature")[0] == "f7"
    assert "features were weighed" in table.note
    assert "Alone, f7 adds to it." in report["grouping"].meaning


def test_a_feature_that_cannot_be_weighed_is_named():
    X, y, _, p = _law(400)
    report = summarize(y, p, pd.DataFrame({"a": X[:, 1], "same": 1.0}), sections=["grouping"], loss="log")
    assert any(text.startswith("same was not weighed") for text in _texts(report, "note"))


def test_the_test_of_grouping_speaks_where_the_bound_is_silent():
    """Six features, one of which adds a little: a test sees it before the bound does."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, p = rng.normal(size=(700, 6)), rng.uniform(0.2, 0.8, 700)
        y = rng.random(700) < np.clip(p + 0.07 * np.sign(X[:, 0]), 0, 1)
        report = summarize(y, p, X, sections=["verdict", "grouping"], loss="log")
        found = report.models["model"]
        test, result = found.tests["grouping"], found.decompositions["log"]
        if test.pvalue <= 0.01 and result.lower_bound("grouping").value <= 0.0 and not result._doubts:
            break
    else:
        pytest.fail("no such sample")
    assert report["grouping"].meaning.startswith("The features know more than model")
    assert any("The features know more than the score" in text for text in _texts(report, "action"))


@pytest.mark.statistical
def test_calibrated_scores_are_accused_no_more_often_than_they_should():
    """Size of the headline: of 400 calibrated scores, the test or the bound accuses at most 10 %, 5 % for each."""
    accused = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        p = rng.beta(1, 3, 500)
        report = summarize(rng.random(500) < p, p, loss="log", sections=["verdict"], random_state=seed)
        accused += not report.headline.startswith("No part")
    assert accused <= stats.binom(400, 0.1).ppf(0.99)


# ── groups and time ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("days", "rows", "what", "first"),
    [
        (10, 300, "days", "2024-01-01"),
        (100, 60, "weeks", "week of 2024-01-01"),
        (600, 9, "months", "2024-01"),
        (1500, 3, "quarters", "2024-Q1"),
        (6000, 1, "years", "2024"),
    ],
)
def test_periods_leave_enough_rows(days, rows, what, first):
    time = np.repeat(np.datetime64("2024-01-01") + np.arange(days), rows)
    found, labels = periods(time)
    assert found == what
    assert min(labels) == first
    assert np.array_equal(np.sort(np.unique(labels)), list(dict.fromkeys(labels.tolist())))  # they sort as time does


def test_dates_as_objects_or_text_are_dates():
    from datetime import date, timedelta

    _, y, _, p = _law(1200)
    days = [date(2024, 1, 1) + timedelta(days=i // 10) for i in range(1200)]
    for time in (days, [str(day) for day in days], [f"{day} 10:30:00" for day in days]):
        report = summarize(y, p, time=time, sections=["segments"])
        assert [table.title for table in report["segments"].tables] == ["By time, in months"]


def test_periods_that_are_given_stay_and_numbers_sort_as_numbers():
    assert periods(np.array(["2024H1", "2024H2"]))[1].tolist() == ["2024H1", "2024H2"]
    labels = periods(np.array([9, 10, 11]))[1]
    assert sorted(labels.tolist()) == [" 9", "10", "11"]
    what, labels = periods(np.arange(1000))
    assert what == "ranges of equal size"
    assert len(set(labels.tolist())) == 10


def test_small_segments_are_left_out_and_named():
    _, y, _, p = _law(700)
    group = np.array(["large"] * 600 + ["small"] * 100)
    y = y.copy()
    y[600:] = 0
    y[600:605] = 1
    report = summarize(y, p, segments={"g": group}, sections=["segments"])
    assert any("small (100)" in text for text in _texts(report, "note"))
    assert _column(_table(report, "segments", "segments-1"), "segment") == ["large"]


def test_no_segment_large_enough_is_said():
    _, y, _, p = _law(300)
    report = summarize(y, p, segments=np.arange(300) // 20, sections=["segments"])
    assert report["segments"].meaning.startswith("No group or period has the 100 rows")


# ── more than two classes ───────────────────────────────────────────────────────────────────────────


def test_three_classes():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(3, 2.0), 600)
    y = np.array(["x", "y", "z"])[(P.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)]
    sections = ["verdict", "calibration", "recalibration", "decisions", "method"]
    report = summarize(y, pl.DataFrame(P, schema=["x", "y", "z"]), sections=sections)
    classes = _table(report, "calibration", "classes")
    assert _column(classes, "class") == ["x", "y", "z"]
    assert _column(classes, "observed") == pytest.approx([np.mean(y == label) for label in "xyz"])
    assert [section.key for section in report.sections] == ["verdict", "calibration", "recalibration", "method"]
    assert list(report.models["model"].map.classes_) == ["x", "y", "z"]


# ── the same again, and input that will not do ──────────────────────────────────────────────────────


def test_two_reports_are_identical_whatever_the_number_of_processes():
    X, y, _, p = _law(300)
    one, other = (summarize(y, p, X, n_jobs=jobs, sections=["verdict"]) for jobs in (None, 2))
    assert one.to_json() == other.to_json()
    assert summarize(y, p, X, random_state=1, sections=["verdict"]).to_json() != one.to_json()


def test_maps_that_tie_stand_in_the_order_they_were_tried(monkeypatch):
    """The order of a set of names would follow the hash seed of the process: two runs were not byte-identical."""
    from scoreprism.report import _map_trials

    _, y, _, p = _law(300)
    tied = [name for name in reversed(_map_trials.TRIED[True]) if name != "selected"]
    judge = _map_trials.judge_candidate
    monkeypatch.setattr(_map_trials, "judge_candidate", lambda *given: replace(judge(*given), loss=0.5, difference=0.1))
    table = _table(summarize(y, p, calibrators=tied, sections=["recalibration"]), "recalibration", "recalibration")
    assert _column(table, "map")[1:] == tied


def test_a_sample_says_what_its_arrays_say(law):
    X, y, q, p = law
    rows = {"X": X, "segments": {"g": X[:, 1] > 0.5}, "sample_weight": np.where(X[:, 0] > 0.9, 0.0, 1.0)}
    sections = ["verdict", "segments", "method"]
    plain = summarize(y, {"p": p, "q": q}, sections=sections, **rows)
    assert summarize(Sample.of(y, {"p": p, "q": q}, **rows), sections=sections).to_json() == plain.to_json()
    absent = f"{int((X[:, 0] > 0.9).sum()):,} rows of weight 0 were left out."
    assert absent in _texts(plain, "note")


def test_frames_of_every_kind_say_the_same(law):
    X, y, _, p = law
    plain = summarize(y, {"m": p}, X, sections=["verdict"]).headline
    for kind, frame, column in (
        ("pandas", pd.DataFrame(X), pd.Series),
        ("polars", pl.DataFrame(X, schema=["0", "1"]), pl.Series),
    ):
        report = summarize(column(y), {"m": column(p)}, frame, sections=["verdict"])
        assert report.headline == plain, kind


def test_labels_of_every_kind_say_the_same_and_the_map_keeps_its_direction(law):
    _, y, _, p = law
    words = summarize(np.where(y == 1, "bad", "good"), p, pos_label="bad", sections=["verdict", "recalibration"])
    plain = summarize(y, p, sections=["verdict", "recalibration"])
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
        ({"level": 1.0}, "level must be"),
        ({"time": [1, 2]}, "time and y_true must have the same number of rows; got 2 and 200"),
        ({"segments": {"g": ["a", "b"]}}, "segments['g'] and y_true must have the same number of rows; got 2 and 200"),
        ({"sample_weight": np.zeros(200)}, "sample_weight must"),
    ],
)
def test_bad_input_is_refused_in_words(arguments, words):
    _, y, _, p = _law(200)
    with pytest.raises(InputError) as caught:
        summarize(y, p, **arguments)
    assert words in str(caught.value)


def test_no_model_no_rows_one_class():
    with pytest.raises(InputError, match="y_proba must hold at least one model"):
        summarize([0, 1], {})
    with pytest.raises(InputError, match="must not be empty"):
        summarize([], [])
    with pytest.raises(InputError, match="must hold at least two classes"):
        summarize(np.zeros(50, int), np.linspace(0.1, 0.9, 50))


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


def test_cells_are_shown_as_people_read_them():
    assert show(-0.00001, "number") == "−0.00001"
    assert show(-0.000001, "number") == "0.00000"
    assert show(Range(None, 0.5, 0.4), "short") == "0.400 (≤ 0.500)"
    assert show(Range(math.nan, math.nan), "short") == "–"
    assert show(0.0004, "pvalue") == "< 0.001"


def test_longest_run():
    assert longest_run(np.array([True])) == (0, 0)
    assert longest_run(np.array([True, True, False, True])) == (0, 1)


def test_notices_have_known_kinds(full):
    kinds = {block.kind for section in full.sections for block in section.blocks if isinstance(block, Notice)}
    assert kinds <= {"action", "warning", "note"}
