"""The synthetic experiment of the paper: the population by quadrature, estimates against it, statements and figures."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import expit, ndtr, ndtri

from reproduction import PLANS, STATEMENTS, Work, synthetic
from reproduction.population import (
    FEATURES,
    Logistic,
    exceeds,
    fit_isotonic,
    fit_logistic,
    fit_population,
    list_correlations,
    make_population_scores,
    measure_map,
    name_numbers,
    refine,
    round_score,
    seed_run,
    solve_correlation,
    solve_population,
    tabulate_population,
)
from reproduction.synthetic import (
    POOLED,
    SCORES,
    WAYS,
    find_mean_and_error,
    fit_maps,
    judge_averaging,
    judge_recalibration,
    run_lcs,
    run_lcs_once,
    run_terms_once,
)
from scoreprism.datasets import CopulaLaw
from scoreprism.report import Figure, Report, Table

TINY = dataclasses.replace(PLANS["quick"], rows=1500, runs=2, step=0.9)
MINE = {"members-calibrated", "average-worse", "average-worse-every-rho", "reliability-removed", "reliability-eliminated", "grouping-unchanged",
        "richer-score", "quantising"}  # fmt: skip


@pytest.fixture(scope="module")
def work():
    return Work(dataclasses.replace(PLANS["quick"], runs=1))


@pytest.fixture(scope="module")
def outcome():
    return synthetic.run(Work(TINY))


# ── the population ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("rho", [-0.9, 0.0, 0.6])
@pytest.mark.parametrize("features", FEATURES.values())
def test_population_logistic_solves_its_equations(rho, features):
    # E[(Q − σ(a + b·x))(1, x)] = 0 under Gauss–Hermite quadrature, which the fit does not use.
    node, weight = np.polynomial.hermite_e.hermegauss(90)
    share = np.outer(weight, weight).ravel() / weight.sum() ** 2
    z1, noise = (part.ravel() for part in np.meshgrid(node, node, indexing="ij"))
    x = np.stack([ndtr(z1), ndtr(rho * z1 + math.sqrt(1 - rho**2) * noise)])
    model = fit_population(CopulaLaw(rho), features)
    gap = CopulaLaw(rho).q(x.T) - expit(model.intercept + np.dot(model.slopes, x))
    assert abs(share @ gap) < 2e-6
    for i in features:
        assert abs(share @ (gap * x[i])) < 2e-6
    assert all(model.slopes[i] == 0.0 for i in {0, 1} - set(features))


def test_rounded_scores_are_the_middles_of_five_intervals():
    assert round_score(np.array([0.0, 0.55, 1.0])).tolist() == [0.1, 0.5, 0.9]


def test_fitted_logistic_against_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    drawn = CopulaLaw(0.3).sample(800, 0)
    other = sm.Logit(drawn.y, sm.add_constant(drawn.X)).fit(disp=0).params
    ours = fit_logistic(drawn.X, drawn.y, (0, 1))
    np.testing.assert_allclose([ours.intercept, *ours.slopes], other, rtol=1e-5)


@pytest.mark.parametrize("rho", [-0.8, 0.9])
def test_rounding_a_score_of_one_feature_against_the_quadrature_of_discrete_scores(rho):
    # That quadrature locates jumps along x₁ by bisection, so it is exact here.
    law = CopulaLaw(rho)
    exact = law.population(make_population_scores(law)["x1-rounded"], "brier")
    assert exact.method == "discrete"
    assert _rounding(law, "x1") == pytest.approx((exact.reliability, exact.grouping), abs=3e-6)


@pytest.mark.parametrize("rho", [-0.8, 0.9])
def test_rounding_a_score_of_both_features_against_midpoints(rho):
    # The midpoint rule with 10⁶ points of the square, cell by cell of the rounded score: edges of cells are slanted,
    # so points fall on both sides of them evenly. (The quadrature of discrete scores is off by 1.0e-5 at ρ = 0.9.)
    law, w = CopulaLaw(rho), (np.arange(1000) + 0.5) / 1000
    x1, other = (part.ravel() for part in np.meshgrid(w, w, indexing="ij"))
    x2 = ndtr(rho * ndtri(x1) + math.sqrt(1 - rho**2) * ndtri(other))
    q, values = law.q(np.stack([x1, x2], axis=1)), make_population_scores(law)["x12-rounded"](x1, x2)
    _, cell = np.unique(values, return_inverse=True)
    mean = (np.bincount(cell, q) / np.bincount(cell))[cell]
    assert _rounding(law, "x12") == pytest.approx((np.mean((values - mean) ** 2), np.mean((q - mean) ** 2)), abs=4e-6)


def _rounding(law, key):
    """Reliability and grouping of a rounded score, as the experiment finds them."""
    score = make_population_scores(law)[key]
    nodes = refine(law.score_law(score))
    reliability, more = measure_map(nodes, round_score(nodes.score))
    return reliability, law.population(score, "brier").grouping + more


def test_exact_terms_of_an_isotonic_map_against_a_large_sample():
    # E Var(Q | g(S)) and E(g − E[Q | g])² over the level sets of a step map, on 10⁶ rows with known Q.
    law, score = CopulaLaw(0.4), Logistic(-2.0, (2.5, 1.5))
    drawn = law.sample(3000, 1)
    g = fit_isotonic(score(*drawn.X.T), drawn.y)
    many = law.sample(1_000_000, 2)
    values = g.calibrate(score(*many.X.T)).round(3)  # rounded, so that every level set has many rows
    _, tie = np.unique(values, return_inverse=True)
    mean = (np.bincount(tie, many.q) / np.bincount(tie))[tie]
    nodes = refine(law.score_law(score))
    reliability, more = measure_map(nodes, g.calibrate(nodes.score).round(3))
    assert reliability == pytest.approx(np.mean((values - mean) ** 2), abs=2e-5)
    grouping = law.population(score, "brier").grouping + more
    assert grouping == pytest.approx(np.mean((many.q - mean) ** 2), abs=3e-5)


def test_must_show_in_the_population(work):
    rows = solve_population(work)
    assert [row["rho"] for row in rows] == [round(-0.9 + 0.1 * i, 1) + 0.0 for i in range(19)]
    peak = max(rows, key=lambda row: row["lcs/average"])
    assert -0.3 <= peak["rho"] <= 0.1
    assert [row["rho"] for row in rows if not exceeds(row)] == [-0.9, -0.8]
    assert all(row["grouping/x12"] < row["grouping/x1"] for row in rows)
    assert all(0 <= row[f"most/{key}"] < 0.001 for row in rows for key in ("x1", "x12"))
    # a rounded score knows less, whatever the law (theorem 2.2): more grouping
    assert all(row[f"grouping/{key}-rounded"] > row[f"grouping/{key}"] for row in rows for key in ("x1", "x12"))


def test_the_table_of_the_population(work):
    found, numbers = tabulate_population(work), name_numbers(work)
    assert [row[0] for row in found.rows if row[1] == "no"] == ["−0.9", "−0.8"]
    assert numbers["population/+0.00/lcs/average"] == solve_population(work)[9]["lcs/average"]
    assert len(numbers) == 19 * 16


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────


def test_runs_are_their_own_and_repeatable():
    task = {"rho": 0.5, "run": 0, "rows": 600}
    assert run_lcs_once(task) == run_lcs_once(task)
    assert run_lcs_once(task) != run_lcs_once(task | {"run": 1})
    assert set(run_lcs_once(task)) == set(POOLED)


def test_estimated_lcs_is_near_the_exact_one():
    # Exact: 0.01325 at ρ = 0 (quadrature). A run of 10⁴ rows has a standard deviation of about 0.0014.
    found = np.mean([run_lcs_once({"rho": 0.0, "run": run, "rows": 10_000})["average"] for run in range(3)])
    law = CopulaLaw(0.0)
    assert found == pytest.approx(
        law.population(make_population_scores(law)["average"], "brier").reliability, abs=0.003
    )


def test_terms_before_and_after():
    found = run_terms_once({"run": 0, "rows": 10_000})
    assert all(math.isfinite(value) and value >= 0 for value in found.values())
    for key in SCORES:
        # isotonic regression of an isotonic fit is the fit: the paper's estimate after is 0 whatever the data
        assert found[f"{key}/after/paper/reliability"] == pytest.approx(0.0, abs=1e-25)
        assert found[f"{key}/after/paper/grouping"] == pytest.approx(found[f"{key}/before/paper/grouping"], abs=1e-15)
        assert found[f"{key}/after/fresh/reliability"] > 0
        # a map of the score cannot know more than the score (theorem 2.2)
        assert found[f"{key}/after/exact/grouping"] >= found[f"{key}/before/exact/grouping"]
        for when in ("before", "after"):
            estimate, exact = (found[f"{key}/{when}/{way}/grouping"] for way in ("fresh", "exact"))
            assert estimate == pytest.approx(exact, abs=0.0015)


def test_fitted_maps_follow_the_exact_ones(work):
    curves = fit_maps(work)
    assert list(curves) == list(POOLED)
    for curve in curves.values():
        assert (np.diff(curve.fitted) >= 0).all()
        inner = slice(10, -10)  # ends have few rows
        assert np.abs(curve.fitted - curve.exact)[inner].max() < 0.06
    far = {key: np.abs(curve.exact - curve.score).max() for key, curve in curves.items()}
    assert far["average"] > 3 * max(far["x1"], far["x2"])


# ── the section ─────────────────────────────────────────────────────────────────────────────────────


def test_every_statement_is_checked(outcome):
    assert {check.key for check in outcome.checks} == MINE <= set(STATEMENTS)
    verdicts = {check.key: check.verdict for check in outcome.checks}
    assert verdicts["average-worse-every-rho"] == "not reproduced"
    assert {verdicts[key] for key in ("members-calibrated", "average-worse", "richer-score", "quantising")} == {
        "reproduced"
    }
    assert all("Rule" in check.why for check in outcome.checks if check.key != "quantising")


def test_numbers_are_flat_and_finite(outcome):
    assert all(isinstance(value, float) and math.isfinite(value) for value in outcome.numbers.values())
    for key in ("synthetic/lcs/average/+0.00", "synthetic/x12/after/fresh/grouping", "population/-0.90/lcs/x2"):
        assert key in outcome.numbers


def test_figures_and_page(outcome):
    figures = [block for block in outcome.section.blocks if isinstance(block, Figure)]
    assert [len(figure.draw().axes) for figure in figures] == [4, 1, 1, 2]
    assert all(figure.data is None or figure.data.shown() for figure in figures)
    keys = [block.key for block in outcome.section.blocks if isinstance(block, (Figure, Table))]
    keys += [figure.data.key for figure in figures if figure.data is not None]
    assert len(set(keys)) == len(keys)
    page = Report("report", "Title", "Headline.", (outcome.section,)).to_html()
    assert page.count("<svg") >= 4


def test_where():
    rhos = [-0.5, 0.0, 0.5]
    assert synthetic._say_where(rhos, [False] * 3) == "at no ρ"
    assert synthetic._say_where(rhos, [True] * 3) == "at all 3 values of ρ"
    assert synthetic._say_where(rhos, [False, True, True]) == "at 2 of 3 values of ρ (from 0 to 0.5)"
    assert synthetic._say_where(rhos, [True, False, True]) == "at 2 of 3 values of ρ"


def test_estimates_that_contradict_the_population_are_named():
    exact = [{"rho": 0.0, "lcs/x1": 0.1, "lcs/x2": 0.3, "lcs/average": 0.2}]
    runs = {"x1": np.array([[0.1]]), "x2": np.array([[0.15]]), "average": np.array([[0.21]])}
    told = judge_averaging(exact, runs)[2].why
    assert "at no ρ, but not at ρ = 0" in told
    assert "by x₂ −0.15000, average +0.01000" in told


def test_mean_and_error_of_one_run():
    mean, error = find_mean_and_error(np.array([[2.0], [4.0]]))
    assert mean.tolist() == [2.0, 4.0]
    assert error.tolist() == [0.0, 0.0]


# ── statements on invented numbers ──────────────────────────────────────────────────────────────────


def invented(**changes):
    """Terms of two runs: reliability 0.01 before and 0.0005 after, grouping 0.03 for x₁, 0.008 for x₁₂, more if rounded."""
    found = {}
    for key in SCORES:
        grouping = (0.03 if key.startswith("x1-") or key == "x1" else 0.008) + 0.001 * key.endswith("rounded")
        for when, reliability in (("before", 0.01), ("after", 0.0005)):
            for way in WAYS:
                found[f"{key}/{when}/{way}/reliability"] = np.array([0.9, 1.1]) * reliability
                found[f"{key}/{when}/{way}/grouping"] = np.array([0.9, 1.1]) * grouping
    return found | {name: np.full(2, value) for name, value in changes.items()}


def verdicts(**changes):
    return {check.key: check for check in judge_recalibration(invented(**changes))}


def test_statements_on_recalibration_can_fail():
    assert {check.verdict for check in verdicts().values()} == {"reproduced"}
    for key, name, value in (
        ("reliability-removed", "x12/after/exact/reliability", 0.0011),
        ("grouping-unchanged", "x1-rounded/after/exact/grouping", 0.0321),
        ("richer-score", "x12/before/exact/grouping", 0.0101),
        ("quantising", "x1-rounded/before/exact/grouping", 0.0299),
        ("quantising", "x12-rounded/before/exact/grouping", 0.0079),
    ):
        found = verdicts(**{name: value})[key]
        assert found.verdict == "not reproduced", name
        for way in ("paper", "fresh"):  # statements are about the exact terms
            assert verdicts(**{name.replace("exact", way): value})[key].verdict == "reproduced"


@pytest.mark.parametrize(
    ("x1", "x2", "average", "expected"),
    [
        (3e-4, 3.9e-4, 0.0012, ["reproduced", "reproduced", "reproduced"]),
        (3e-4, 4.1e-4, 0.0012, ["not reproduced", "not reproduced", "reproduced"]),  # √x₂ above 0.02, 2.9 times
        (4.1e-4, 3e-4, 4e-4, ["not reproduced", "not reproduced", "not reproduced"]),
    ],
)
def test_statements_on_averaging_can_fail(x1, x2, average, expected):
    zero = {"rho": 0.0, "lcs/x1": x1, "lcs/x2": x2, "lcs/average": average}
    fine = {"rho": 0.1, "lcs/x1": 0.1, "lcs/x2": 0.1, "lcs/average": 0.9}
    runs = {key: np.full((2, 2), 0.1) for key in POOLED}
    assert [check.verdict for check in judge_averaging([zero, fine], runs)] == expected


# ── runs by hand ────────────────────────────────────────────────────────────────────────────────────


def test_a_run_judges_fresh_rows():
    """scikit-learn's logistic regression on the first sample, the library's LCS on the second."""
    from sklearn.linear_model import LogisticRegression

    from scoreprism.metrics import lcs

    rng, law = seed_run(0.5, 1), CopulaLaw(0.5)
    train, test = law.sample(600, rng), law.sample(600, rng)
    s = [
        LogisticRegression(C=np.inf, tol=1e-10).fit(train.X[:, [i]], train.y).predict_proba(test.X[:, [i]])[:, 1]
        for i in (0, 1)
    ]
    found = run_lcs_once({"rho": 0.5, "run": 1, "rows": 600})
    for key, score in (("x1", s[0]), ("x2", s[1]), ("average", (s[0] + s[1]) / 2)):
        assert found[key] == pytest.approx(lcs(test.y, score), rel=1e-4)


def test_runs_stand_at_their_correlation():
    plan = dataclasses.replace(TINY, rows=300)
    found = run_lcs(Work(plan))
    for i, rho in enumerate(list_correlations(plan)):
        for run in range(plan.runs):
            assert found["x2"][i, run] == run_lcs_once({"rho": rho, "run": run, "rows": 300})["x2"]


def test_maps_are_fitted_on_rows_that_the_models_have_not_seen():
    from scoreprism.calibrators import MonotoneSplineCalibrator

    rng, law = seed_run(0.0, 0, 2), CopulaLaw(0.0)
    train, calibration = law.sample(300, rng), law.sample(300, rng)
    score = fit_logistic(train.X, train.y, (0,))
    curve = fit_maps(Work(dataclasses.replace(TINY, rows=300)))["x1"]
    spline = MonotoneSplineCalibrator().fit(score(*calibration.X.T), calibration.y)
    assert curve.fitted == pytest.approx(spline.calibrate(curve.score), abs=1e-12)


def test_changes_of_grouping_are_of_several_maps():
    found = solve_correlation({"rho": 0.0, "rows": 300, "runs": 3})
    assert found["most/x1"] > found["change/x1"] > 0
