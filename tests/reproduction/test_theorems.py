"""The paper's theorems and appendix C through `reproduction`: residuals, examples, and that a wrong identity shows."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from reproduction import PLANS, Work, identities, theorems, uncertainty
from reproduction.checks import EXACT
from reproduction.identities import IDENTITIES, Case
from reproduction.pieces import scientific
from reproduction.statements import select
from reproduction.uncertainty import bootstrap_pipeline, estimate_reliability
from scoreprism import FiniteModel
from scoreprism.losses import Brier, LogLoss, ProperLoss

TINY = replace(PLANS["quick"], runs=1, resamples=12)


@cache
def proven():
    return theorems.run(Work(TINY))


@cache
def simulated():
    return uncertainty.run(Work(TINY))


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
    places = {one.key.removeprefix("theorems/"): one.place for one in select("theorems", "identity")}
    assert listed <= {(place.split(" (")[0], label) for label, place in places.items()}
    assert set(IDENTITIES) == set(places)


def test_all_statements_hold_to_rounding():
    checks = [check for check in proven().checks if check.key.startswith("theorems/")]
    assert len(checks) == len(IDENTITIES) == len({check.key for check in checks})
    for check in checks:
        assert check.verdict == "reproduced", check.key
        assert 0.0 <= check.ours < EXACT
        assert (check.paper, check.tolerance) == (0.0, EXACT)


def test_cases_are_losses_times_classes_times_forms_times_populations():
    """Nine losses, of which three are for two classes only: (9 + 6) × 3 forms × 3 populations."""
    assert len(IDENTITIES["thm:onelevel"][1]) == 135


def worst(label):
    return theorems.measure_identity(label)[1]


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
    cells, right = identities._FILTRATION[f"Q{step + 1}"], FiniteModel.level
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
    assert identities._unseen(case, 0.0, p, q) == pytest.approx(0.2)
    assert identities._unseen(case, 0.01, p, q) == 0.0
    assert identities._unseen(case, 0.0, p, p) == 0.0


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
    values = theorems.compute_examples()
    assert len(values) == 20
    for value, formula in values.values():
        exact = logs[formula] if formula in logs else float(Fraction(formula))
        assert value == pytest.approx(exact, abs=1e-15)
    rows = section_table(proven(), "example-values").rows
    assert ("5.2/average/brier/reliability", 0.03125, "1/32") in rows


def test_numbers_of_the_examples():
    numbers = proven().numbers
    assert numbers["theorems/5.2/average/brier/reliability"] == 1 / 32
    assert numbers["theorems/2.4/constant/log/grouping"] == pytest.approx(0.3680642072, abs=5e-11)  # issue 1's digits


def test_tiny_numbers_in_words():
    assert [scientific(v, 0) for v in (0.0, 1e-12, 4.4e-16, 0.02)] == ["0", "10⁻¹²", "4·10⁻¹⁶", "2·10⁻²"]


# ── appendix C ──────────────────────────────────────────────────────────────────────────────────────


def test_the_calibrated_score_is_calibrated():
    """E[Q | X₁] has reliability 0; with interpolation between nodes, below 1e-8."""
    assert uncertainty.LAW.population(uncertainty.score_calibrated, "brier").reliability < 1e-8


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
    known = uncertainty.LAW.sample(200, rng)
    s = 1 / (1 + np.exp(3 - 6 * known.X[:, 0]))
    c = IsotonicRegression(out_of_bounds="clip").fit(s, known.y).predict(s)
    found = estimate_reliability({"run": 7, "rows": 200, "test": 50})
    assert found["too steep/brier/reliability/in sample"] == pytest.approx(np.mean((s - c) ** 2), abs=1e-6)  # the clip
    assert found["too steep/brier/recalibrated loss/in sample"] == pytest.approx(np.mean((c - known.y) ** 2), abs=1e-6)


def test_the_claim_holds_if_reliability_is_below_the_truth():
    row = {"score": "calibrated", "loss": "log", "quantity": "reliability", "truth": 0.1, "in sample": 0.05,
           "split": 0.1, "debiased": None, "error in sample": 0.01}  # fmt: skip
    loss, after = row | {"quantity": "recalibrated loss"}, row | {"loss": "brier", "quantity": uncertainty.AFTER}
    assert uncertainty.judge_bias([row, loss, after]).verdict == "reproduced"
    assert uncertainty.judge_bias([row | {"in sample": 0.09}, loss, after]).verdict == "not reproduced"


def test_both_bootstraps_share_what_is_not_refitted():
    """The estimate does not depend on what is refitted, and end to end adds the variance of the training rows."""
    tasks = [{"sample": 0, "resamples": 40, "refit": refit, "rows": [200, 200, 500]} for refit in ("calibrator", "all")]
    one, both = (bootstrap_pipeline(task) for task in tasks)
    for name in ("reliability", "grouping", "loss"):
        assert one[name][0] == both[name][0]
    assert both["loss"][1] > one["loss"][1]


def test_the_bootstrapped_pipeline_is_a_logistic_regression_on_one_feature():
    """By hand: its Brier score, and that reliability and grouping are what it has more than the true Q."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng([404, 1])
    train, _, test = (uncertainty.LAW.sample(rows, rng) for rows in (200, 200, 500))
    s = LogisticRegression(C=np.inf).fit(train.X[:, :1], train.y).predict_proba(test.X[:, :1])[:, 1]
    found = bootstrap_pipeline({"sample": 1, "resamples": 2, "refit": "all", "rows": [200, 200, 500]})
    assert found["loss"][0] == pytest.approx(np.mean((s - test.y) ** 2), abs=1e-12)
    more = np.mean((s - test.y) ** 2 - (test.q - test.y) ** 2)
    assert found["reliability"][0] + found["grouping"][0] == pytest.approx(more, abs=1e-12)


def test_in_sample_a_recalibrated_score_looks_perfect():
    """Isotonic regression of an isotonic fit is that fit; the truth is E(g − E[Q | g])² by a million fresh rows."""
    from sklearn.isotonic import IsotonicRegression

    found = estimate_reliability({"run": 7, "rows": 200, "test": 50})
    assert found["too steep/brier/reliability, recalibrated/in sample"] == pytest.approx(0.0, abs=1e-12)
    known = uncertainty.LAW.sample(200, np.random.default_rng([303, 7]))
    fresh = uncertainty.LAW.sample(1_000_000, 1)
    s, new = (1 / (1 + np.exp(3 - 6 * one.X[:, 0])) for one in (known, fresh))
    g = IsotonicRegression(out_of_bounds="clip").fit(s, known.y).predict(new)
    _, cell = np.unique(np.round(g, 2), return_inverse=True)  # ties, and straight pieces in narrow cells
    C = (np.bincount(cell, fresh.q) / np.bincount(cell))[cell]
    assert found["too steep/brier/reliability, recalibrated/truth"] == pytest.approx(np.mean((g - C) ** 2), rel=0.03)


def test_parametric_standard_errors_are_judged_by_fresh_samples():
    row = {"quantity": "slope", "estimate": 0.4, "theory": 0.05, "bootstrap": 0.1, "fresh": 0.06}
    assert uncertainty.judge_errors([row]).verdict == "reproduced"
    assert uncertainty.judge_errors([row | {"fresh": 0.07}]).verdict == "not reproduced"


def test_wider_is_judged_by_mean_widths(monkeypatch):
    halves = {"calibrator": 0.02, "all": 0.03}
    monkeypatch.setattr(
        Work, "run", lambda self, name, function, tasks, what: [dict.fromkeys(("reliability", "grouping", "loss"), (0.1, halves[task["refit"]])) for task in tasks]
    )  # fmt: skip
    rows = uncertainty.measure_widths(Work(TINY))
    found = uncertainty.judge_widths(rows)
    assert found.verdict == "reproduced"
    assert "1.50 for reliability" in found.why
    assert "1.50 for grouping" in found.why
    z = 1.959963984540054
    assert (rows[0]["calibrator only"], rows[0]["end to end"]) == pytest.approx((0.04 * z, 0.06 * z))  # of both halves
    assert (rows[0]["samples"], rows[0]["end to end is wider in"]) == (3, 3)
    rows[-1]["ratio"] = 0.9
    assert uncertainty.judge_widths(rows).verdict == "not reproduced"


def test_standard_errors_of_platt_agree():
    """M-estimation and the spread over fresh samples: the same within a third, with 25 samples."""
    for name in ("intercept", "slope", "integrated calibration index"):
        theory, fresh = (simulated().numbers[f"uncertainty/platt/{name}/{way}"] for way in ("theory", "fresh"))
        assert 0.6 < theory / fresh < 1.6


@pytest.mark.parametrize("outcome", [proven, simulated])
def test_sections_are_written(outcome):
    from scoreprism.report import Origin, Report

    section = outcome().section
    assert section.title in Report("T", "H.", (section,), {}, Origin(), {}, {}).to_html()
    assert all(np.isfinite(value) for value in outcome().numbers.values())
