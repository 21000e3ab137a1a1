"""decompose_by, compare, summaries and advice."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from scoreprism import Chain, FiniteModel, Level, compare, corp_decomposition, decompose, decompose_by
from scoreprism.datasets import CopulaLaw
from scoreprism.exceptions import InfiniteLossWarning, InputError, OverfitWarning
from tests.findings import amount, select


def example(n=600, seed=0):
    X, y, q = CopulaLaw(rho=0.0).sample(n, seed)
    return X, y, expit(1.25 * (-1.5436 + 3.1505 * X[:, 0]) + 0.1), q


# ── segments ────────────────────────────────────────────────────────────────────────────────────────────


def test_laws_are_fitted_inside_segments():
    X, y, s, _ = example()
    segment = np.where(X[:, 1] > 0.5, "high", "low")
    found = decompose_by(y, s, X, segments=segment, loss="brier", random_state=0, reference="logistic")
    for name in ("high", "low"):
        rows = segment == name
        alone = decompose(y[rows], s[rows], X[rows], loss="brier", random_state=0, reference="logistic")
        assert found[name].terms == pytest.approx(alone.terms, abs=1e-15)
    weights = [np.mean(segment == name) for name in ("high", "low")]
    mean = np.average([found[name].terms["reliability"] for name in ("high", "low")], weights=weights)
    assert found.terms["reliability"] == pytest.approx(mean, abs=1e-15)


def test_a_contribution_is_no_decomposition():
    """STATISTICS section 7: S = .4, Q = (.4, .8), C = .6: segment A contributes −.04 to reliability, having none."""
    y = np.repeat([0, 1, 0, 1], [6000, 4000, 2000, 8000])
    segment = np.repeat(["A", "A", "B", "B"], [6000, 4000, 2000, 8000])
    s, q = np.full(y.size, 0.4), np.where(segment == "A", 0.4, 0.8)
    whole = Chain(y, [Level("S", s), Level("C", np.full(y.size, 0.6)), Level("Q", q)]).decompose("brier", "difference")
    assert whole.contributions(segment).mean[0, 0] == pytest.approx(-0.04, abs=1e-12)
    own = decompose_by(y, s, segments=segment, loss="brier", calibrator="platt", random_state=0)
    assert own["A"].terms["reliability"] == pytest.approx(0.0, abs=1e-4)
    assert own["B"].terms["reliability"] == pytest.approx(0.16, abs=1e-2)


def holm(p):
    """R's p.adjust(p, "holm"): sorted p times how many are left, never falling, at most 1."""
    order = np.argsort(p)
    adjusted = np.minimum(np.maximum.accumulate(np.array(p)[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted[np.argsort(order)].tolist()


def test_evidence_by_hand():
    """One-sided p of LD/s over segments, Holm-adjusted; joint bounds by Bonferroni. s is that of the lower bound."""
    from scipy.stats import norm

    X, y, s, _ = example()
    found = decompose_by(y, s, segments=X[:, 1] > 0.5, loss="brier", random_state=0)
    raw = []
    for d in found.decompositions.values():
        rows = d.level_losses[:, 0] - d.level_losses[:, 1]
        error = max(rows.std() / np.sqrt(rows.size), d._ends.model_error)
        raw.append(norm.sf(rows.mean() / error))
        assert d.lower_bound("reliability").value == pytest.approx(
            max(rows.mean() - 1.6448536269514722 * error, 0.0), abs=1e-12
        )
    assert list(found.pvalues().values()) == pytest.approx(holm(raw), abs=1e-12)
    bounds = found.lower_bounds("reliability", 0.95)
    assert bounds[True] == pytest.approx(found[True].lower_bound("reliability", 0.975).value, abs=1e-15)
    with pytest.raises(InputError, match="got 'refinement'"):
        found.pvalues("refinement")  # information could always explain more: there is no test that it does not


def test_segments_that_cannot_be_decomposed_are_named():
    _, y, s, _ = example(60)
    segment = np.array(["big"] * 57 + ["tiny"] * 3)
    found = decompose_by(y, s, segments=segment, loss="brier", random_state=0)
    assert list(found.decompositions) == ["big"]
    assert found.skipped["tiny"].startswith("cross-fitting with 5 folds must have at least 5 rows; got 3.")
    assert "segment tiny was left out: cross-fitting" in repr(found)
    with pytest.raises(InputError, match="no segment could be decomposed; the first, 0: "):
        decompose_by(y, s, segments=np.arange(60))


def test_rows_of_every_argument_are_cut():
    _X, y, s, q = example(400)
    segment, weight = np.arange(400) % 2, np.random.default_rng(0).random(400) + 0.5
    frame = decompose_by(
        pl.Series(y),
        pl.Series(s),
        segments=pl.Series(segment),
        q=pl.Series(q),
        sample_weight=list(weight),
        random_state=0,
    )
    rows = segment == 1
    alone = decompose(y[rows], s[rows], q=q[rows], sample_weight=weight[rows], random_state=0)
    assert frame[1].terms == pytest.approx(alone.terms, abs=1e-15)
    assert frame.to_frame().columns[:3] == ["segment", "rows", "loss"]
    assert set(frame.to_dict()["segments"]) == {"0", "1"}


def test_labels_are_those_of_all_rows():
    """A segment in which the positive label never occurs is named, not read the other way round."""
    _, y, s, _ = example(200)
    label = np.where(y == 1, "bad", "good")
    segment = np.where(np.arange(200) < 150, "a", "b")
    label[150:] = "good"
    found = decompose_by(label, s, segments=segment, pos_label="bad", loss="brier", random_state=0)
    assert found.skipped["b"].startswith("y_true must hold at least two classes")
    rng = np.random.default_rng(0)
    law = rng.dirichlet([2, 2, 2], 200)
    three = (rng.random(200)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    three[150:] = np.minimum(three[150:], 1)
    both = decompose_by(three, law, segments=segment, loss="brier", random_state=0)
    assert both["b"].n_classes == 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"levels": {"g": np.zeros(60)}}, "decompose_by takes scores and X; got levels or a model."),
        ({"calibration": ([0.5], [1])}, "decompose_by fits C and Q inside each segment; got calibration=."),
        ({"sample_weight": np.ones(61)}, "sample_weight and y_true must have the same number of rows; got 61 and 60."),
        ({"X": np.ones((10, 1))}, "X and y_true must have the same number of rows; got 10 and 60."),
        ({"cv": [([0], [1])]}, "cv must be a number of folds; got list. Splits of all rows do not fit a segment."),
        (
            {"loss": ("log", "brier")},
            "loss must be one loss; got a tuple of 2. Pass one, and decompose the next by the same fit: d.chain.decompose('brier').",
        ),
    ],
)
def test_what_segments_cannot_take(options, text):
    _, y, s, _ = example(60)
    with pytest.raises(InputError, match=re.escape(text)):
        decompose_by(y, s, segments=np.arange(60) % 2, **options)


# ── models ──────────────────────────────────────────────────────────────────────────────────────────────


def test_models_share_rows_and_folds():
    _X, y, s, q = example()
    found = compare(y, {"score": s, "oracle": q}, loss="brier", random_state=0)
    turned = compare(y, {"oracle": q, "score": s}, loss="brier", random_state=0)
    assert [turned[name].terms for name in ("score", "oracle")] == [found[name].terms for name in ("score", "oracle")]
    alone = decompose(y, s, loss="brier", random_state=0)  # in folds of its own
    assert found["score"].terms["reliability"] == pytest.approx(
        alone.terms["reliability"], abs=alone.std_error["reliability"]
    )
    gap = found.difference("score", "oracle")
    assert gap.risk == pytest.approx(np.mean((s - y) ** 2 - (q - y) ** 2), abs=1e-14)
    rows = (s - y) ** 2 - (q - y) ** 2
    assert gap.risk_std_error == pytest.approx(rows.std() / np.sqrt(rows.size), rel=1e-9)
    assert gap.terms["reliability"] + gap.terms["refinement"] == pytest.approx(gap.risk, abs=1e-14)
    assert found.ranking() == ("oracle", "score")
    assert found.to_dict()["oracle"]["risk"] == found["oracle"].risk


def test_a_frame_of_models():
    _, y, s, q = example(300)
    scores = pd.DataFrame({"score": s, "oracle": q})
    found = compare(pd.Series(y), scores, loss="brier", random_state=0)
    assert found["score"].terms == compare(y, {"score": s, "oracle": q}, loss="brier", random_state=0)["score"].terms
    table = found.to_frame()
    assert list(table["model"]) == ["oracle", "score"]
    assert list(table.columns) == ["model", "loss", "reliability", "refinement", "behind", "behind_std_error"]
    assert table["behind"][0] == 0.0


def test_a_generator_seeds_the_folds_of_all_models():
    """As an integer does: the same state gives the same folds, another state others."""
    _, y, s, q = example(300)
    models = {"score": s, "oracle": q}
    found = [
        compare(y, models, loss="brier", calibrator="platt", random_state=state)["score"].terms
        for state in (np.random.default_rng(1), np.random.default_rng(1), np.random.default_rng(2))
    ]
    assert found[0] == found[1] != found[2]
    unseeded = compare(y, models, loss="brier", calibrator="platt", random_state=None)
    assert unseeded["score"].risk == pytest.approx(np.mean((s - y) ** 2), abs=1e-14)


def test_tables_come_back_in_the_library_of_the_models():
    """A frame of models, or series by name: the table of the comparison is a frame of the same library."""
    _, y, s, q = example(200)
    for library in (pd, pl):
        frame = library.DataFrame({"score": s, "oracle": q})
        for models in (frame, {name: frame[name] for name in ("score", "oracle")}):
            table = compare(y, models, loss="brier", calibrator="platt").to_frame()
            assert isinstance(table, library.DataFrame)
    mixed = compare(pd.Series(y), pl.DataFrame({"score": s, "oracle": q}), loss="brier", calibrator="platt")
    assert isinstance(mixed.to_frame(), pl.DataFrame)


def test_fitted_estimators_with_features():
    X, y, _, _ = example(600)
    models = {"one": LogisticRegression().fit(X[:200, :1], y[:200])}
    pair = {
        "both": LogisticRegression().fit(X[:200], y[:200]),
        "again": LogisticRegression(C=0.01).fit(X[:200], y[:200]),
    }
    found = compare(y[200:], pair, X[200:], loss="brier", random_state=0, reference="logistic")
    law = pair["both"].predict_proba(X[200:])[:, 1]
    assert found["both"].risk == pytest.approx(np.mean((law - y[200:]) ** 2), abs=1e-14)
    assert found.names == ("reliability", "grouping", "irreducible")
    assert compare(y[200:], models, X[200:, :1], random_state=0)["one"].n == 400


def test_results_are_collections():
    _, y, s, q = example(200)
    found = compare(y, {"a": s, "b": q}, loss="brier", random_state=0)
    assert list(found) == ["a", "b"]
    assert len(found) == 2
    with pytest.raises(InputError, match="model must be one of a, b; got 'c'"):
        found["c"]
    by = decompose_by(y, s, segments=np.arange(200) % 2, loss="brier", random_state=0)
    assert list(by) == [0, 1]
    with pytest.raises(InputError, match="the segment must be one of 0, 1; got 7"):
        by[7]
    with pytest.raises(InputError, match="columns of a frame of models must have different names"):
        compare(y, pd.DataFrame(np.column_stack([s, q]), columns=["a", "a"]))


@pytest.mark.parametrize("scores", [[0.1, 0.2], {}, {1: [0.5]}])
def test_models_must_have_names(scores):
    with pytest.raises(InputError, match="y_proba must"):
        compare([0, 1], scores)


# ── what it means ───────────────────────────────────────────────────────────────────────────────────────


def test_advice_follows_bounds():
    X, y, s, _ = example(4000)
    bold = expit(2.5 * np.log(s / (1 - s)))
    d = decompose(y, bold, X, loss="brier", random_state=0)
    first, second, third = d.summary().findings
    assert (first.kind, first.term, first.low) == ("recalibrate", "reliability", d.lower_bound("reliability").value)
    share = amount(100 * first.low / d.risk, 2)
    assert first.text == f"Recalibrate: this gains at least {amount(first.low)} ({share} %) of the loss."
    assert (second.kind, second.term, second.low) == ("information_gain", "grouping", d.lower_bound("grouping").value)
    assert second.text.startswith(f"A better model of these features gains at least {amount(second.low)} (")
    assert (third.kind, third.term) == ("rest_unknowable", "irreducible")  # what is gained at least was said above


def test_a_loss_that_can_be_reached_is_the_best_upper_bound_of_all_levels():
    """Where no gain is large enough to act on: the least of the upper bounds of C and Q, below the loss of the score."""
    X, y, s, _ = example(4000)
    d = decompose(y, expit(2.5 * np.log(s / (1 - s))), X, loss="brier", random_state=0)
    (reached,) = select(d.summary(min_gain=0.99).findings, "reachable_loss")
    assert reached.high == d.upper_bound("irreducible").value < d.risk
    assert reached.text.startswith(f"A loss of {amount(reached.high)} or less is achievable with the information")


def test_a_loss_that_is_reached_already_is_no_promise():
    """The best of the upper bounds of all levels, and only where it is below the loss of the score."""
    X, y, _, q = example(300)
    last = decompose(y, q, X, loss="brier", random_state=0, reference="logistic").summary().findings[-2:]
    assert "no_lower_loss" in [one.kind for one in last]


def test_nothing_to_conclude():
    rng = np.random.default_rng(3)
    p = rng.random(60)
    y = (rng.random(60) < p).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverfitWarning)  # as 60 rows may
        d = decompose(y, p, rng.random((60, 2)), loss="brier", random_state=0, reference="logistic")
    findings = d.summary().findings
    (found,) = select(findings, "inconclusive")
    assert found.text == "Inconclusive with 60 rows: no part of the loss is shown to be reducible."
    assert findings[0].kind == "no_miscalibration"
    assert not select(findings, "recalibrate", "recalibrate_size_open", "information_gain", "information_size_open")


def test_rows_needed():
    """n·((1.645 + 0.842)·se/value)² rows would show the value at 95 % with power 0.8."""
    _, y, s, _ = example(600, seed=4)
    d = decompose(y, s, loss="brier", random_state=0)
    needed = 600 * ((1.6448536 + 0.8416212) * d.std_error["reliability"] / d.terms["reliability"]) ** 2
    first = d.summary().findings[0]
    assert first.kind == "no_miscalibration"
    assert first.n == pytest.approx(needed, rel=0.1)
    assert f" It would take about {first.n:,} rows to establish the estimated gain." in first.text


def test_summary_shows_the_bound_that_holds():
    X, y, s, _ = example(400)
    d = decompose(y, s, X, loss="brier", random_state=0)
    table = d.summary(0.9).to_dict()
    lower, upper = d.lower_bound("grouping", 0.9).value, d.upper_bound("irreducible", 0.9).value
    assert table["terms"]["grouping"]["low"] == max(lower, 0.0)
    assert table["terms"]["irreducible"]["high"] == upper
    assert np.isnan([table["terms"]["grouping"]["high"], table["terms"]["irreducible"]["low"]]).all()
    assert [one["kind"] for one in table["findings"]] == [one.kind for one in d.summary(0.9).findings]
    text = repr(d.summary(0.9))
    assert "known at 90 %" in text
    assert f" ≥ {max(lower, 0.0):.5f} " in text
    assert f" ≤ {upper:.5f} " in text
    assert "recalibration on held-out data" in text
    said = " ".join(text.split())
    assert all(line in said for line in d.summary(0.9).advice)
    assert "<table" in d.summary()._repr_html_()


def test_summaries_without_advice():
    exact = FiniteModel([0.5, 0.5], [0.2, 0.6]).decompose([0.3, 0.5], {"Q": ["a", "b"]})
    assert exact.summary().findings == ()
    assert np.isnan([exact.summary().to_dict()["terms"]["reliability"][end] for end in ("low", "high")]).all()
    assert "known at" not in repr(exact.summary())  # a population is known exactly
    corp = corp_decomposition([0, 1, 0, 1], [0.2, 0.8, 0.8, 0.8], loss="brier").summary()
    assert corp.findings == ()
    assert np.isnan([corp.to_dict()["terms"]["reliability"][end] for end in ("low", "high")]).all()


def test_plug_in_has_a_summary():
    X, y, s, _ = example(300)
    text = repr(decompose(y, s, X, loss="brier", form="plugin", reference="logistic", random_state=0).summary())
    assert "residual" in text


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "sample_weight",
            np.nan,
            (
                "sample_weight must be finite; got nan in row 7 (1 of 60 rows with NaN or infinities). "
                "Drop or impute these rows first."
            ),
        ),
        (
            "sample_weight",
            np.inf,
            (
                "sample_weight must be finite; got inf in row 7 (1 of 60 rows with NaN or infinities). "
                "Drop or impute these rows first."
            ),
        ),
        (
            "sample_weight",
            -1.0,
            "sample_weight must be nonnegative; got -1 in row 7 (1 of 60 rows). Use 0 to leave a row out.",
        ),
        (
            "q",
            np.nan,
            "q must be finite; got nan in row 7 (1 of 60 rows with NaN or infinities). Drop or impute these rows first.",
        ),
        (
            "q",
            1.5,
            (
                "q must hold probabilities between 0 and 1; got 1.5 in row 7 (1 of 60 rows outside). "
                "If these are logits, declare them with scoreprism.Logits."
            ),
        ),
        (
            "groups",
            np.nan,
            "groups must have no missing values; got 1 of 60 rows missing or NaN (row 7). Drop or impute these rows first.",
        ),
    ],
)
def test_what_is_wrong_in_one_segment_is_refused_not_skipped(name, value, message):
    rng = np.random.default_rng(0)
    s = rng.uniform(0.1, 0.9, 60)
    y = (rng.random(60) < s).astype(int)
    column = np.full(60, 0.5)
    column[7] = value
    with pytest.raises(InputError) as caught:
        decompose_by(y, s, segments=np.arange(60) % 2, calibrator="platt", random_state=0, **{name: column})
    assert str(caught.value) == message


def test_a_segment_without_a_p_value_does_not_count():
    """An outcome that was given probability 0 has an infinite loss, and no test: Holm adjusts the other two."""
    rng = np.random.default_rng(0)
    p, segment = rng.uniform(0.05, 0.95, 900), np.repeat(["a", "b", "c"], 300)
    y = rng.random(900) < np.where(segment == "a", p**1.5, p)
    p[-1], y[-1] = 0.0, True
    with pytest.warns(InfiniteLossWarning):
        by = decompose_by(y, p, segments=segment, random_state=0).pvalues()
    without = decompose_by(y[:600], p[:600], segments=segment[:600], random_state=0).pvalues()
    assert np.isnan(by.pop("c"))
    assert by == without
