"""The paper's theorems and appendix C through `reproduction`: residuals, examples, and that a wrong identity shows."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from reproduction import PLANS, Work
from reproduction import identities as _identities
from reproduction import uncertainty as _uncertainty
from reproduction import uncertainty_platt as _uncertainty_platt
from reproduction import uncertainty_scores as _uncertainty_scores
from reproduction.checks import scientific
from reproduction.identities import EXACT, Case
from reproduction.statements import STATEMENTS
from reproduction.theorems import theorems
from reproduction.uncertainty import bootstrapped, one_sample, uncertainty
from scoreprism.finite import FiniteModel
from scoreprism.losses import Brier, LogLoss, ProperLoss

TINY = replace(PLANS["quick"], runs=1, resamples=12)


@cache
def proven():
    return theorems(Work(TINY))


@cache
def simulated():
    return uncertainty(Work(TINY))


def section_table(outcome, key):
    return next(table for table in outcome.section.tables if table.key == key)


# ── statements ──────────────────────────────────────────────────────────────────────────────────────


def test_every_statement_of_the_docs_is_in_the_table():
    """docs/theorems.md lists every labelled theorem, lemma, proposition, corollary and example of the paper."""
    text = (Path(__file__).parents[2] / "docs" / "theorems.md").read_text(encoding="utf-8")
    kinds = ("Theorem", "Lemma", "Proposition", "Corollary", "Example")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    listed = {(number, label.strip("`")) for number, label, *_ in rows if number.split(" ")[0] in kinds}
    assert len(listed) == 18
    assert listed <= {(statement.number, statement.label) for statement in STATEMENTS}


def test_all_statements_hold_to_rounding():
    checks = [check for check in proven().checks if check.key.startswith("theorems/")]
    assert len(checks) == len(STATEMENTS) == len({check.key for check in checks})
    for check in checks:
        assert check.verdict == "reproduced", check.key
        assert 0.0 <= check.ours < EXACT
        assert (check.paper, check.tolerance) == (0.0, EXACT)
    assert "All 24 statements hold" in proven().section.meaning


def test_cases_are_losses_times_classes_times_forms_times_populations():
    """Nine losses, of which three are for two classes only: (9 + 6) × 3 forms × 3 populations."""
    assert len(list(STATEMENTS[0].cases())) == 135


def worst(label):
    return next(one for one in STATEMENTS if one.label == label).largest()[1]


@pytest.mark.parametrize("label", ["thm:onelevel", "thm:chain", "thm:four", "thm:boosting-telescope", "prop:urc"])
def test_a_wrong_divergence_is_seen(label, monkeypatch):
    """The identities are not true by construction: a divergence that is off by 1e-6 breaks them."""
    right = ProperLoss.divergence
    brier, log = Brier.divergence, LogLoss.divergence
    for kind, original in ((ProperLoss, right), (Brier, brier), (LogLoss, log)):
        monkeypatch.setattr(kind, "divergence", lambda self, p, q, f=original: f(self, p, q) + 1e-6)
    assert worst(label) > 1e-7


def test_a_wrong_conditional_law_is_seen(monkeypatch):
    monkeypatch.setattr(FiniteModel, "level", lambda self, cells: np.roll(self.law, 1, axis=0))
    for label in ("prop:pop-opt-recal", "prop:agg-preserve", "lem:vector-QA", "app:condlaw", "sec:boosting"):
        assert worst(label) > 1e-3, label


@pytest.mark.parametrize("label", ["thm:onelevel", "thm:chain", "eq:clf-chain", "thm:four", "thm:boosting-telescope"])
def test_terms_in_the_wrong_place_are_seen(label, monkeypatch):
    """Their sum is as it was: each term is compared with its own sum over states."""
    right = Case.split

    def turned(self, p, partitions):
        found = right(self, p, partitions)
        names = list(found.terms)
        values = [*reversed(list(found.terms.values())[:2]), *list(found.terms.values())[2:]]
        return SimpleNamespace(terms=dict(zip(names, values, strict=True)), risk=found.risk, residual=found.residual)

    monkeypatch.setattr(Case, "split", turned)
    assert worst(label) > 1e-3


@pytest.mark.parametrize("step", range(4))
def test_every_step_of_a_martingale_counts(step, monkeypatch):
    cells, right = _identities._FILTRATION[f"Q{step + 1}"], FiniteModel.level
    monkeypatch.setattr(FiniteModel, "level", lambda self, c: right(self, c) + 0.01 * (c is cells))
    assert worst("sec:boosting") > 1e-3


def test_a_map_that_is_not_monotone_breaks_the_roc_curve(monkeypatch):
    from scoreprism.calibrators import IsotonicCalibrator

    monkeypatch.setattr(IsotonicCalibrator, "calibrate", lambda self, s: np.asarray(4 * s * (1 - s)))
    assert worst("prop:monotone-preserves-roc") > 1e-3


def test_a_loss_that_does_not_see_a_difference_violates_only_if():
    """`_unseen`: the gap itself where a strictly proper term is zero, else how far it is below zero."""
    case = Case(Brier(), 2, "debiased", 0)
    p, q = np.array([0.2, 0.3]), np.array([0.2, 0.5])
    assert _identities._unseen(case, 0.0, p, q) == pytest.approx(0.2)
    assert _identities._unseen(case, 0.01, p, q) == 0.0
    assert _identities._unseen(case, 0.0, p, p) == 0.0


# ── examples ────────────────────────────────────────────────────────────────────────────────────────


def test_examples_are_the_paper_s():
    printed = [check for check in proven().checks if not check.key.startswith("theorems/")]
    assert [(check.paper, check.verdict) for check in printed] == [
        (0.16, "reproduced"), (0.0, "reproduced"), (0.25, "reproduced"), (0.0, "reproduced"),
    ]  # fmt: skip
    assert [check.ours for check in printed] == pytest.approx([0.16, 0.0, 0.25, 0.0], abs=1e-15)


def test_values_are_what_their_formulas_say():
    """Fractions by `fractions`; logarithms written out here."""
    coin = -0.9 * np.log(0.9) - 0.1 * np.log(0.1)
    logs = {
        "log 2 − H(0.9)": np.log(2) - coin,
        "H(0.9)": coin,
        "log(4/3)/2": np.log(4 / 3) / 2,
        "log(2)/2": np.log(2) / 2,
    }
    from reproduction.theorems import _values

    values = _values()
    assert len(values) == 20
    for value, formula in values.values():
        exact = logs[formula] if formula in logs else float(Fraction(formula))
        assert value == pytest.approx(exact, abs=1e-15)
    rows = section_table(proven(), "example-values").rows
    assert len(rows) == 6
    assert ("5.2", "average", "Brier", "0.03125 = 1/32", "0", "0.12500 = 1/8") in rows


def test_numbers_of_the_examples():
    numbers = proven().numbers
    assert numbers["theorems/5.2/average/brier/reliability"] == 1 / 32
    assert numbers["theorems/2.4/constant/log/grouping"] == pytest.approx(0.3680642072, abs=5e-11)  # issue 1's digits


def test_tiny_numbers_in_words():
    assert [scientific(v, 0) for v in (0.0, 1e-12, 4.4e-16, 0.02)] == ["0", "10⁻¹²", "4·10⁻¹⁶", "2·10⁻²"]


# ── appendix C ──────────────────────────────────────────────────────────────────────────────────────


def test_the_calibrated_score_is_calibrated():
    """E[Q | X₁] has reliability 0; with interpolation between nodes, below 1e-8."""
    assert _uncertainty_scores.LAW.population(_uncertainty_scores.calibrated, "brier").reliability < 1e-8


def test_plugin_reliability_is_biased_up_and_the_recalibrated_loss_down_in_sample():
    """25 samples suffice: the bias is some ten standard errors. The truth is 0, and E ℓ(C, Y) by quadrature."""
    numbers = simulated().numbers
    for loss in ("brier", "log"):
        key = f"uncertainty/calibrated/{loss}"
        assert numbers[f"{key}/reliability/truth"] == 0.0
        assert numbers[f"{key}/reliability/in sample"] > 0.004
        assert numbers[f"{key}/reliability/split"] > 0.004
        assert abs(numbers[f"{key}/reliability/debiased"]) < 0.5 * numbers[f"{key}/reliability/in sample"]
        assert numbers[f"{key}/recalibrated loss/in sample"] < numbers[f"{key}/recalibrated loss/truth"] - 0.005
        assert numbers[f"{key}/recalibrated loss/split"] > numbers[f"{key}/recalibrated loss/truth"] + 0.003
    found = {check.key: check for check in simulated().checks}
    assert found["in-sample-optimistic"].verdict == "not reproduced"
    assert "above the truth in" in found["in-sample-optimistic"].why


def test_one_to_one_maps_of_a_score_have_the_same_recalibrated_loss():
    """Both scores are increasing in X₁, so that E ℓ(E[Y | S], Y) is the same; the steep one loses reliability on top."""
    numbers = simulated().numbers
    for loss in ("brier", "log"):
        calibrated, steep = (f"uncertainty/{score}/{loss}" for score in ("calibrated", "too steep"))
        truth = numbers[f"{calibrated}/recalibrated loss/truth"]
        assert numbers[f"{steep}/recalibrated loss/truth"] == pytest.approx(truth, abs=1e-6)
        assert numbers[f"{steep}/reliability/truth"] > 0.005


def test_in_sample_reliability_by_hand():
    """Brier: mean (S − Ĉ)² with scikit-learn's isotonic regression, for the same rows."""
    from sklearn.isotonic import IsotonicRegression

    rng = np.random.default_rng([303, 7])
    known = _uncertainty_scores.LAW.sample(200, rng)
    s = 1 / (1 + np.exp(3 - 6 * known.X[:, 0]))
    c = IsotonicRegression(out_of_bounds="clip").fit(s, known.y).predict(s)
    found = one_sample({"run": 7, "rows": 200, "test": 50})
    assert found["too steep/brier/reliability/in sample"] == pytest.approx(np.mean((s - c) ** 2), abs=1e-6)  # the clip
    assert found["too steep/brier/recalibrated loss/in sample"] == pytest.approx(np.mean((c - known.y) ** 2), abs=1e-6)


def test_the_claim_holds_if_reliability_is_below_the_truth():
    row = {"score": "calibrated", "loss": "log", "quantity": "reliability", "truth": 0.1,
           "means": {"in sample": (0.05, 0.01), "split": (0.1, 0.01)}}  # fmt: skip
    loss, after = row | {"quantity": "recalibrated loss"}, row | {"quantity": _uncertainty._AFTER}
    assert _uncertainty._optimistic([row, loss, after]).verdict == "reproduced"
    near = row | {"means": {"in sample": (0.09, 0.01), "split": (0.1, 0.01)}}
    assert _uncertainty._optimistic([near, loss, after]).verdict == "not reproduced"


def test_both_bootstraps_share_what_is_not_refitted():
    """The estimate does not depend on what is refitted, and end to end adds the variance of the training rows."""
    tasks = [{"sample": 0, "resamples": 40, "refit": refit, "rows": [200, 200, 500]} for refit in ("calibrator", "all")]
    one, both = (bootstrapped(task) for task in tasks)
    for name in ("reliability", "grouping", "loss"):
        assert one[name][0] == both[name][0]
    assert both["loss"][1] > one["loss"][1]


def test_the_bootstrapped_pipeline_is_a_logistic_regression_on_one_feature():
    """By hand: its Brier score, and that reliability and grouping are what it has more than the true Q."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng([404, 1])
    train, _, test = (_uncertainty_scores.LAW.sample(rows, rng) for rows in (200, 200, 500))
    s = LogisticRegression(C=np.inf).fit(train.X[:, :1], train.y).predict_proba(test.X[:, :1])[:, 1]
    found = bootstrapped({"sample": 1, "resamples": 2, "refit": "all", "rows": [200, 200, 500]})
    assert found["loss"][0] == pytest.approx(np.mean((s - test.y) ** 2), abs=1e-12)
    more = np.mean((s - test.y) ** 2 - (test.q - test.y) ** 2)
    assert found["reliability"][0] + found["grouping"][0] == pytest.approx(more, abs=1e-12)


def test_in_sample_a_recalibrated_score_looks_perfect():
    """Isotonic regression of an isotonic fit is that fit; the truth is E(g − E[Q | g])² by a million fresh rows."""
    from sklearn.isotonic import IsotonicRegression

    found = one_sample({"run": 7, "rows": 200, "test": 50})
    assert found["too steep/brier/after/in sample"] == pytest.approx(0.0, abs=1e-12)
    known = _uncertainty_scores.LAW.sample(200, np.random.default_rng([303, 7]))
    fresh = _uncertainty_scores.LAW.sample(1_000_000, 1)
    s, new = (1 / (1 + np.exp(3 - 6 * one.X[:, 0])) for one in (known, fresh))
    g = IsotonicRegression(out_of_bounds="clip").fit(s, known.y).predict(new)
    _, cell = np.unique(np.round(g, 2), return_inverse=True)  # ties, and straight pieces in narrow cells
    C = (np.bincount(cell, fresh.q) / np.bincount(cell))[cell]
    assert found["too steep/brier/after/truth"] == pytest.approx(np.mean((g - C) ** 2), rel=0.03)


def test_parametric_standard_errors_are_judged_by_fresh_samples():
    assert _uncertainty_platt.parametric({"slope": [0.4, 0.05, 0.1, 0.06]}).verdict == "reproduced"
    assert _uncertainty_platt.parametric({"slope": [0.4, 0.05, 0.05, 0.07]}).verdict == "not reproduced"


def test_wider_is_judged_by_mean_widths():
    rows = [
        {"sample": 0, "refit": refit, "quantity": name, "estimate": 0.1, "half": half}
        for name in ("reliability", "grouping", "loss")
        for refit, half in (("calibrator only", 0.02), ("end to end", 0.03))
    ]
    assert _uncertainty._wider(rows).verdict == "reproduced"
    assert "1.50 for reliability" in _uncertainty._wider(rows).why
    assert "1.50 for grouping" in _uncertainty._wider(rows).why
    name, calibrator, everything, ratio, wider = _uncertainty._widths_table(rows, 9).rows[0]
    assert (name, wider) == ("reliability", "in 1 of 1 samples")
    assert (calibrator, everything, ratio) == pytest.approx((0.04, 0.06, 1.5))  # widths are of both halves
    rows[-1]["half"] = 0.01
    assert _uncertainty._wider(rows).verdict == "not reproduced"


def test_standard_errors_of_platt_agree():
    """M-estimation and the spread over fresh samples: the same within a third, with 25 samples."""
    for name in ("intercept", "slope", "integrated calibration index"):
        theory, fresh = (simulated().numbers[f"uncertainty/platt/{name}/{way}"] for way in ("theory", "fresh"))
        assert 0.6 < theory / fresh < 1.6


@pytest.mark.parametrize("outcome", [proven, simulated])
def test_sections_are_drawn_and_written(outcome):
    from scoreprism.report import Figure, Origin, Report

    section = outcome().section
    figures = [block for block in section.blocks if isinstance(block, Figure)]
    assert figures
    for figure in figures:
        assert figure.draw().axes
        assert figure.data is not None
        assert figure.description.endswith(".")
    assert section.title in Report("T", "H.", (section,), {}, Origin(), {}, {}).to_html()
    assert all(np.isfinite(value) for value in outcome().numbers.values())
