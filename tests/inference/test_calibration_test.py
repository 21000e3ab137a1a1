"""Tests of calibration: exact p-values, agreement with closed forms and other packages, laws, hard cases, errors."""

from __future__ import annotations

import itertools
import json
import math
import time

import numpy as np
import polars as pl
import pytest
from scipy.interpolate import CubicSpline
from scipy.special import expit, logit
from scipy.stats import binom, chi2, norm

from scoreprism import Finding
from scoreprism.exceptions import InputError, LabelError
from scoreprism.inference import CALIBRATION_TESTS, TestResult, calibration_test
from scoreprism.losses import Brier

TWO = [name for name, test in CALIBRATION_TESTS.items() if test.fits(2)]
THREE = [name for name, test in CALIBRATION_TESTS.items() if test.fits(3)]
SIMULATED = [name for name, test in CALIBRATION_TESTS.items() if test.reference == "Monte Carlo"]


def sample(n, seed=0, k=2):
    """A calibrated score and its outcomes."""
    rng = np.random.default_rng(seed)
    if k == 2:
        s = rng.uniform(0.03, 0.97, n)
        return (rng.random(n) < s).astype(int), s
    law = rng.dirichlet(np.ones(k), n)
    return (rng.random(n)[:, None] >= law.cumsum(axis=1)[:, :-1]).sum(axis=1), law


def statistic(name, y, s, weight=None):
    """The observed statistic of a test."""
    return calibration_test(y, s, method=name, n_resamples=1, sample_weight=weight).statistic


# ── against closed forms and other packages ─────────────────────────────────────────────────────────────


def test_spiegelhalter_closed_form():
    """
    Under Y ~ Bernoulli(s) the Brier loss (y−s)² has mean s(1−s), and (y−s)² − s(1−s) = (y−s)(1−2s), since y² = y.

    s = (.1, .3, .8), y = (0, 1, 1): Σ(y−s)(1−2s) = −.08 + .28 − .12 = .08 and Σ(1−2s)²s(1−s) = .0576 + .0336 + .0576 = .1488.
    """
    result = calibration_test([0, 1, 1], [0.1, 0.3, 0.8], method="spiegelhalter")
    assert result.statistic == pytest.approx(0.08 / math.sqrt(0.1488), rel=1e-12)
    assert result.pvalue == pytest.approx(2 * norm.sf(0.08 / math.sqrt(0.1488)), rel=1e-12)
    assert result.n_resamples == 0


def test_spiegelhalter_of_several_classes_standardises_the_brier_loss():
    """Mean and variance of the loss of each row by enumerating its outcomes; with weights, Σw(ℓ−Eℓ)/√Σw²Var ℓ."""
    y, law = sample(40, 3, k=4)
    weight = np.random.default_rng(1).integers(1, 4, 40)
    losses = np.stack([Brier().loss(law, np.full(40, j)) for j in range(4)], axis=1)
    mean = (law * losses).sum(axis=1)
    variance = (law * losses**2).sum(axis=1) - mean**2
    z = weight @ (Brier().loss(law, y) - mean) / math.sqrt(weight**2 @ variance)
    result = calibration_test(y, law, method="spiegelhalter", sample_weight=weight)
    assert result.statistic == pytest.approx(z, rel=1e-10)


def test_hosmer_lemeshow_by_hand():
    """
    Two groups of four rows.

    Scores .1 .1 .2 .2 | .5 .6 .6 .7, events 1 | 2: expected .6 | 2.4, so Σ(O−E)²/(E(1−E/4)) = .16/.51 + .16/.96 = .480392…,
    with two degrees of freedom because nothing was fitted.
    """
    y, s = [0, 0, 0, 1, 1, 0, 0, 1], [0.1, 0.1, 0.2, 0.2, 0.5, 0.6, 0.6, 0.7]
    result = calibration_test(y, s, method="hosmer-lemeshow", n_groups=2)
    assert result.statistic == pytest.approx(0.16 / 0.51 + 0.16 / 0.96, rel=1e-12)
    assert result.pvalue == pytest.approx(chi2.sf(0.16 / 0.51 + 0.16 / 0.96, 2), rel=1e-12)
    assert result.components == {"groups": {"df": 2.0}}


def test_hosmer_lemeshow_deciles():
    """The textbook formula on ten groups of 100 sorted rows; 10 degrees of freedom."""
    y, s = sample(1000, 4)
    order = np.argsort(s)
    value = 0.0
    for rows in np.split(order, 10):
        o, e = y[rows].sum(), s[rows].sum()
        value += (o - e) ** 2 / (e * (1 - e / 100))
    result = calibration_test(y, s, method="hosmer-lemeshow")
    assert result.statistic == pytest.approx(value, rel=1e-10)
    assert result.pvalue == pytest.approx(chi2.sf(value, 10), rel=1e-10)


def test_kuiper_is_the_largest_sum_over_an_interval_of_scores():
    """O(n²): every interval of distinct scores, |Σw(Y−S)| over √Σw²S(1−S)."""
    rng = np.random.default_rng(5)
    s = rng.integers(1, 20, 60) / 20
    y, weight = (rng.random(60) < s).astype(int), rng.uniform(0.5, 2.0, 60)
    values = np.unique(s)
    best = max(
        abs((weight * (y - s))[(s >= low) & (s <= high)].sum())
        for low, high in itertools.combinations_with_replacement(values, 2)
    )
    expected = best / math.sqrt(weight**2 @ (s * (1 - s)))
    assert statistic("kuiper", y, s, weight) == pytest.approx(expected, rel=1e-10)


def test_kuiper_has_the_range_of_brownian_motion_as_its_limit():
    """Feller (1951): the range of Brownian motion on [0, 1] has mean √(8/π) = 1.5958; discrete steps make it smaller."""
    _, s = sample(4000, 6)
    rng = np.random.default_rng(0)
    draws = [statistic("kuiper", (rng.random(4000) < s).astype(int), s) for _ in range(800)]
    assert 1.50 < np.mean(draws) < 1.62


def test_corp_is_model_diagnostics_miscalibration():
    """model-diagnostics 1.5.0, decompose(..., LogLoss()), column miscalibration; with ties and weights."""
    scoring = pytest.importorskip("model_diagnostics.scoring")
    y, s = sample(300, 7)
    s = np.round(s, 2)
    weight = np.random.default_rng(2).uniform(0.5, 2.0, 300)
    peer = scoring.decompose(y, s, weights=weight, scoring_function=scoring.LogLoss())["miscalibration"][0]
    assert statistic("corp", y, s, weight) == pytest.approx(peer, rel=1e-9)


def natural_basis(x):
    """Cardinal natural splines at Harrell's five quantiles, straight beyond them, from scipy."""
    knots = np.quantile(x, [0.05, 0.275, 0.5, 0.725, 0.95])
    spline = CubicSpline(knots, np.eye(5), bc_type="natural")
    inner = np.clip(x, knots[0], knots[-1])
    ends = spline(knots[[0, -1]], 1)
    return spline(inner) + np.where(x < knots[0], x - knots[0], 0.0)[:, None] * ends[0] + np.where(
        x > knots[-1], x - knots[-1], 0.0
    )[:, None] * ends[1]  # fmt: skip


@pytest.mark.parametrize("power", [1.0, 0.3, 4.0])
def test_likelihood_ratios_are_deviance_differences_of_statsmodels(power):
    """statsmodels GLM(Binomial): deviance of the scores minus that of the fit; also for scores far from calibrated."""
    api = pytest.importorskip("statsmodels.api")
    y, s = sample(500, 8)
    s = expit(power * logit(s) + 0.2)
    x = logit(s)
    weight = np.random.default_rng(3).integers(1, 4, 500).astype(float)
    scaled = weight / weight.mean()
    null = 2.0 * scaled @ (np.logaddexp(0.0, x) - y * x)
    for name, design in (("lr-platt", np.column_stack([np.ones(500), x])), ("lr-spline", natural_basis(x))):
        fit = api.GLM(y, design, family=api.families.Binomial(), freq_weights=scaled).fit(tol=1e-12)
        assert statistic(name, y, s, weight) == pytest.approx(null - fit.deviance, rel=1e-6), name


def test_likelihood_ratio_where_classes_separate():
    """All outcomes are fitted perfectly in the limit: the ratio is the whole deviance of the scores."""
    y, s = np.array([0, 0, 0, 1, 1, 1]), np.array([0.2, 0.3, 0.4, 0.6, 0.7, 0.8])
    whole = -2.0 * np.log(np.where(y == 1, s, 1 - s)).sum()
    assert statistic("lr-platt", y, s) == pytest.approx(whole, abs=1e-4)


def test_score_statistic_of_a_constant_score_is_pearsons():
    """With one law for all rows, every map is an intercept per class: Σ(O−E)²/E, Pearson's chi-squared."""
    y, law = np.repeat([0, 1, 2], [30, 50, 20]), np.tile([0.4, 0.4, 0.2], (100, 1))
    pearson = (30 - 40) ** 2 / 40 + (50 - 40) ** 2 / 40
    for name in ("score-vector", "score-polynomial"):
        assert statistic(name, y, law) == pytest.approx(pearson, rel=1e-9)


def test_score_statistic_is_close_to_the_likelihood_ratio():
    """Against the deviance that vector scaling, fitted by calibrators, takes away: equal to first order."""
    from scoreprism.calibrators import VectorScalingCalibrator

    y, law = sample(4000, 9, k=3)
    fitted = VectorScalingCalibrator(ridge=1e-6).fit(law, y).predict_proba(law)
    rows = np.arange(4000)
    deviance = 2.0 * np.log(fitted[rows, y] / law[rows, y]).sum()
    assert statistic("score-vector", y, law) == pytest.approx(deviance, rel=0.1)


# ── exact p-values ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [name for name in TWO if name in SIMULATED and name != "min-p"])
def test_monte_carlo_agrees_with_enumeration(name):
    """Four rows have sixteen outcomes: P(T ≥ t) is a sum of sixteen probabilities."""
    s = np.array([0.2, 0.35, 0.6, 0.9])
    outcomes = np.array(list(itertools.product([0, 1], repeat=4)))
    chance = np.prod(np.where(outcomes == 1, s, 1 - s), axis=1)
    values = np.array([calibration_test(y, s, method=name, n_resamples=1, classes=[0, 1]).statistic for y in outcomes])
    for y in ([0, 1, 0, 1], [1, 1, 1, 0]):
        own = values[np.flatnonzero((outcomes == y).all(axis=1))[0]]
        exact = chance[values >= own - 1e-8 * max(1.0, abs(own))].sum()
        result = calibration_test(y, s, method=name, n_resamples=4000, random_state=1)
        assert result.pvalue == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 4000) + 1e-3)


@pytest.mark.parametrize("k", [2, 3])
def test_p_values_are_uniform_under_the_hypothesis(k):
    """
    With B = 19 draws P(p ≤ j/20) = j/20 for every statistic without ties, at any n.

    500 data sets of 40 rows: four binomial standard errors are .039 at .05 and .089 at .5.
    """
    found = {}
    for i in range(500):
        y, s = sample(40, [i, k], k)
        result = calibration_test(
            y, s, n_resamples=19, classes=None if k == 2 else range(k), random_state=np.random.default_rng([i, 7])
        )
        found.setdefault("min-p", []).append(result.pvalue)
        for name, part in result.components.items():
            found.setdefault(name, []).append(part["pvalue"])
    for name, values in found.items():
        p = np.array(values)
        assert np.mean(p <= 0.05 + 1e-12) == pytest.approx(0.05, abs=0.039), name
        assert np.mean(p <= 0.5 + 1e-12) == pytest.approx(0.5, abs=0.089), name


def test_min_p_is_made_of_its_parts():
    y, s = sample(300, 11)
    result = calibration_test(y, s, n_resamples=99, random_state=3)
    weights = {name: part["weight"] for name, part in result.components.items()}
    assert weights == CALIBRATION_TESTS["min-p"].two
    assert result.statistic == min(part["pvalue"] / part["weight"] for part in result.components.values())
    for name, part in result.components.items():
        alone = calibration_test(y, s, method=name, n_resamples=99, random_state=3)
        assert (alone.statistic, alone.pvalue) == pytest.approx((part["statistic"], part["pvalue"]))


# ── laws ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("names", "k"), [(TWO, 2), (THREE, 3)])
def test_every_test_in_the_table(names, k):
    """A p-value in (0, 1], small where the score is far off, and the same for any order of rows."""
    y, s = sample(400, 12, k)
    off = s**2 if k == 2 else s**2 / (s**2).sum(axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(400)
    for name in names:
        result = calibration_test(y, s, method=name, n_resamples=99, random_state=0)
        assert 0.0 < result.pvalue <= 1.0
        again = calibration_test(y[order], s[order], method=name, n_resamples=99, random_state=0)
        assert again.pvalue == pytest.approx(result.pvalue, rel=1e-9)
        assert again.statistic == pytest.approx(result.statistic, rel=1e-9)
        assert calibration_test(y, off, method=name, n_resamples=99, random_state=0).pvalue <= 0.01, name
        assert "drawn from the scores" in result.hypothesis
        assert result.n == 400


@pytest.mark.parametrize("name", [name for name in TWO if name not in ("min-p", "bins")])
def test_statistics_do_not_care_which_class_is_called_one(name):
    """Except for the p-values in min-p, because draws differ, and for bins, which are cut from the other end."""
    y, s = sample(200, 13)
    one = calibration_test(y, s, method=name, n_resamples=9, random_state=0).statistic
    other = calibration_test(1 - y, 1 - s, method=name, n_resamples=9, random_state=0).statistic
    assert other == pytest.approx(one, rel=1e-7)


@pytest.mark.parametrize("name", [name for name in THREE if name != "min-p"])
def test_statistics_do_not_care_about_the_order_of_classes(name):
    """Except for the p-values in min-p, because draws differ."""
    y, law = sample(200, 20, k=4)
    order = np.array([2, 0, 3, 1])
    one = calibration_test(y, law, method=name, n_resamples=9, random_state=0).statistic
    other = calibration_test(np.argsort(order)[y], law[:, order], method=name, n_resamples=9, random_state=0).statistic
    assert other == pytest.approx(one, rel=1e-7)


@pytest.mark.parametrize(("names", "k"), [(TWO, 2), (THREE, 3)])
def test_weights(names, k):
    """The scale of weights does not matter, and a row without weight is absent."""
    y, s = sample(120, 14, k)
    weight = np.random.default_rng(0).integers(0, 4, 120).astype(float)
    held = weight > 0
    for name in names:
        options = {"method": name, "n_resamples": 49, "random_state": 0, "classes": None if k == 2 else range(k)}
        one = calibration_test(y, s, sample_weight=weight, **options)
        scaled = calibration_test(y, s, sample_weight=8.0 * weight, **options)
        absent = calibration_test(y[held], s[held], sample_weight=weight[held], **options)
        for other in (scaled, absent):
            assert (other.pvalue, other.n) == (one.pvalue, held.sum())
            assert other.statistic == pytest.approx(one.statistic, rel=1e-9)
        plain = calibration_test(y[held], s[held], **options)
        ones = calibration_test(y[held], s[held], sample_weight=np.full(held.sum(), 3.0), **options)
        assert ones.to_dict() == plain.to_dict()


def test_draws_do_not_depend_on_jobs():
    y, s = sample(3000, 15)
    one = calibration_test(y, s, n_resamples=60, random_state=5)
    assert calibration_test(y, s, n_resamples=60, random_state=5, n_jobs=2) == one
    assert calibration_test(y, s, n_resamples=60, random_state=np.random.default_rng(5)) == one
    assert calibration_test(y, s, n_resamples=60, random_state=6).components != one.components


def test_several_ways_to_say_the_same():
    y, s = sample(100, 16)
    options = {"n_resamples": 49, "random_state": 0}
    one = calibration_test(y, s, **options)
    assert calibration_test(y, np.column_stack([1 - s, s]), **options).pvalue == one.pvalue
    words = np.where(y == 1, "yes", "no")
    assert calibration_test(words, s, pos_label="yes", **options).pvalue == one.pvalue
    frame = pl.DataFrame({"no": 1 - s, "yes": s})
    assert calibration_test(words, frame, **options).pvalue == one.pvalue
    assert calibration_test(y, s, method="Min P", **options) == one


# ── hard cases ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [*TWO, *[name for name in THREE if name not in TWO]])
def test_the_impossible_refutes_whatever_the_statistic(name):
    """One row of probability 0 among 50: 1/(B+1), the smallest there is, and 0 under a large-sample distribution."""
    k = 2 if name in TWO else 3
    y, s = sample(50, 17, k)
    if k == 2:
        s[0], y[0] = 0.0, 1
    else:
        s[0], y[0] = [0.0, 0.5, 0.5], 0
    result = calibration_test(y, s, method=name, n_resamples=49, random_state=0)
    assert result.pvalue == (1 / 50 if name in SIMULATED else 0.0)
    assert math.isinf(result.statistic) or name == "min-p"
    assert [one.kind for one in result.findings] == ["impossible_outcome"]
    assert result.notes == ("An outcome of probability 0 was observed, which alone refutes the hypothesis.",)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize(
    ("y", "s"),
    [
        ([0, 1], [0.5, 0.5]),
        ([0, 1], [0.0, 1.0]),
        ([1, 1], [0.2, 0.9]),
        ([1], [0.3]),
        ([0, 1, 1], [0.3, 0.3, 0.3]),
        ([1, 0, 1, 0], [1.0, 0.0, 0.5, 0.5]),
        ([0, 1, 0, 1], [1e-300, 1 - 1e-16, 1e-12, 0.7]),
        ([1, 0, 0, 1], [1e-300, 0.5, 0.5, 0.5]),
        ([1, 0], [1e-300, 1e-300]),
        ([1, 0, 1], [1e-320, 1e-200, 0.5]),
        ([1, 0, 1, 0], [1e-9, 1e-12, 0.5, 1 - 1e-9]),
        ([0] * 50, [1e-4] * 50),
    ],
)
def test_hard_cases_two_classes(name, y, s):
    result = calibration_test(y, s, method=name, n_resamples=39, random_state=0)
    assert 0.0 <= result.pvalue <= 1.0
    assert not math.isnan(result.statistic)
    assert result.notes == ()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", THREE)
def test_hard_cases_several_classes(name):
    certain = np.eye(3)[[0, 1, 2, 2]]
    result = calibration_test([0, 1, 2, 2], certain, method=name, n_resamples=39, random_state=0)
    assert result.pvalue == 1.0
    for y, law in (
        ([0, 1], np.full((2, 3), 1 / 3)),
        ([2, 1, 1], [[0.0, 0.5, 0.5]] * 3),
        ([2, 0], [[0.1, 0.2, 0.7], [1 - 1e-12, 5e-13, 5e-13]]),
        ([1], [[0.2, 0.3, 0.5]]),
    ):
        result = calibration_test(y, law, method=name, classes=[0, 1, 2], n_resamples=39, random_state=0)
        assert 0.0 <= result.pvalue <= 1.0
        assert not math.isnan(result.statistic)


def test_fifty_classes():
    y, law = sample(400, 18, k=50)
    result = calibration_test(y, law, n_resamples=19, classes=range(50), random_state=0)
    assert result.pvalue > 0.05
    hot = law**3 / (law**3).sum(axis=1, keepdims=True)
    assert calibration_test(y, hot, n_resamples=19, classes=range(50), random_state=0).pvalue == 0.05


def test_rare_events():
    """Ten thousand rows with a score of about 1/1000: nothing explodes."""
    rng = np.random.default_rng(19)
    s = rng.gamma(2.0, 0.0005, 10_000)
    y = (rng.random(10_000) < s).astype(int)
    assert calibration_test(y, s, n_resamples=99, random_state=0).pvalue > 0.01
    assert calibration_test(y, s / 4, n_resamples=99, random_state=0).pvalue == 0.01


# ── the result and errors ───────────────────────────────────────────────────────────────────────────────


def test_result():
    result = TestResult(
        0.02,
        0.04,
        "min-p",
        "P(Y = 1 | S) = S: outcomes are drawn from the scores",
        50,
        99,
        {"kuiper": {"statistic": 2.5, "pvalue": 0.02}, "lr-platt": {"statistic": 1.25, "pvalue": 0.5}},
        (Finding("impossible_outcome"),),
    )
    assert repr(result) == (
        "Calibration test min-p: p = 0.04 (statistic 0.02)\n"
        "  hypothesis: P(Y = 1 | S) = S: outcomes are drawn from the scores\n"
        "  50 rows; 99 draws from the scores\n"
        "  kuiper    statistic 2.5  pvalue 0.02\n"
        "  lr-platt  statistic 1.25  pvalue 0.5\n"
        "  note: An outcome of probability 0 was observed, which alone refutes the hypothesis."
    )
    assert json.loads(json.dumps(result.to_dict()))["components"]["kuiper"]["pvalue"] == 0.02
    assert [one["kind"] for one in result.to_dict()["findings"]] == ["impossible_outcome"]
    assert list(result.to_dict()) == [
        "statistic", "pvalue", "method", "hypothesis", "n", "n_resamples", "components", "findings", "about"
    ]  # fmt: skip
    assert TestResult(math.inf, 0.0, "spiegelhalter", "", 1, 0).to_dict()["statistic"] == "inf"
    assert TestResult.__test__ is False
    with pytest.raises(AttributeError):
        result.pvalue = 1.0


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        (
            {"method": "hosmer"},
            InputError,
            (
                "method must be one of min-p, spiegelhalter, hosmer-lemeshow, kuiper, bins, lr-platt, lr-spline, corp, "
                "score-temperature, score-vector, score-polynomial, top-label; got 'hosmer'. Did you mean 'hosmer-lemeshow'?"
            ),
        ),
        (
            {"method": "top-label"},
            InputError,
            (
                "method must be one for two classes (min-p, spiegelhalter, hosmer-lemeshow, kuiper, bins, lr-platt, lr-spline, "
                "corp); got 'top-label' beside 2 classes. Use 'min-p', the default."
            ),
        ),
        (
            {"method": "corp", "y_proba": np.full((4, 3), 1 / 3), "classes": [0, 1, 2]},
            InputError,
            (
                "method must be one for more than two classes (min-p, spiegelhalter, kuiper, bins, "
                "score-temperature, score-vector, score-polynomial, top-label); got 'corp' beside 3 classes. Use 'min-p', the default."
            ),
        ),
        (
            {"n_resamples": 0},
            InputError,
            "n_resamples must be a whole number of at least 1; got 0. Pass an integer.",
        ),
        ({"n_groups": 1}, InputError, "n_groups must be a whole number of at least 2; got 1. Pass an integer."),
        (
            {"n_jobs": 0},
            InputError,
            "n_jobs must be a number of processes, −1 for all cores, or None; got 0. For example 2.",
        ),
        (
            {"random_state": "x"},
            InputError,
            "random_state must be a nonnegative integer, a numpy Generator or None; got 'x'. For example 0.",
        ),
        (
            {"y_true": ["a", "b", "a", "b"]},
            LabelError,
            (
                "y_true must show which label is the positive class of 1-D probabilities; got the labels ['a', 'b']. "
                "Pass pos_label='b' (or the other one)."
            ),
        ),
        (
            {"sample_weight": [1, 1]},
            InputError,
            "sample_weight and y_true must have the same number of rows; got 2 and 4. Pass one entry per row in both.",
        ),
    ],
)
def test_errors(changes, kind, text):
    arguments = {"y_true": [0, 1, 0, 1], "y_proba": [0.2, 0.7, 0.3, 0.6], "n_resamples": 9} | changes
    y, s = arguments.pop("y_true"), arguments.pop("y_proba")
    with pytest.raises(kind) as caught:
        calibration_test(y, s, **arguments)
    assert str(caught.value) == text


# ── by simulation ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.statistical
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("n", [200, 500, 2000])
def test_size(n, k):
    """STATISTICS.md, section 7, bar 5: size in [.03, .07]."""
    from benchmarks.tests_power import size

    assert 0.03 <= size(n, k, 1000, 1).rate <= 0.07


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("alternative", "bar"), [("slope", 0.60), ("shift", 0.66), ("wave", 0.43), ("step", 0.48), ("b", 0.95)]
)
def test_power(alternative, bar):
    """STATISTICS.md, section 7, bar 5: power at n = 2000."""
    from benchmarks.tests_power import power

    assert power(alternative, 1000, 3).rate >= bar


# ── few distinct scores ─────────────────────────────────────────────────────────────────────────────────


def tied_sample(n, seed=0, k=2, *, certain=False):
    """A calibrated score with few values (0 and 1 among them where `certain`), its outcomes, weights of two sizes."""
    rng = np.random.default_rng([seed, k])
    if k == 2:
        s = rng.integers(0, 11, n) / 10 if certain else rng.integers(1, 10, n) / 10
        return (rng.random(n) < s).astype(int), s, rng.integers(1, 3, n)
    numbers = rng.multinomial(3, np.full(k, 1 / k), n) if k < 5 else rng.multinomial(1, np.full(k, 1 / k), n)
    law = (numbers + (0 if certain else 1)) / (numbers + (0 if certain else 1)).sum(axis=1, keepdims=True)
    codes = (rng.random(n)[:, None] >= law.cumsum(axis=1)[:, :-1] * (1 - 1e-15)).sum(axis=1)
    return codes, law, rng.integers(1, 3, n)


@pytest.mark.parametrize("name", [name for name in TWO if name in SIMULATED and name != "min-p"])
def test_monte_carlo_of_tied_scores_agrees_with_enumeration(name):
    """Five rows of .3 and six of .8 have 6·7 numbers of events: P(T ≥ t) is a sum of products of binomial laws."""
    s = np.repeat([0.3, 0.8], [5, 6])
    for y in ([0, 1, 0, 1, 0, 1, 1, 0, 1, 1, 1], [1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 0]):
        outcomes = np.array(list(itertools.product(range(6), range(7))))
        chance = binom.pmf(outcomes[:, 0], 5, 0.3) * binom.pmf(outcomes[:, 1], 6, 0.8)
        drawn = [np.repeat([1, 0, 1, 0], [a, 5 - a, b, 6 - b]) for a, b in outcomes]
        values = np.array([calibration_test(z, s, method=name, n_resamples=1, classes=[0, 1]).statistic for z in drawn])
        own = statistic(name, y, s)
        exact = chance[values >= own - 1e-8 * max(1.0, abs(own))].sum()
        result = calibration_test(y, s, method=name, n_resamples=4000, random_state=1)
        assert result.pvalue == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 4000) + 1e-3)


def test_draws_of_tied_scores_do_not_depend_on_jobs():
    y, s, _ = tied_sample(3000, 5)
    one = calibration_test(y, s, n_resamples=150, random_state=5)
    assert calibration_test(y, s, n_resamples=150, random_state=5, n_jobs=2) == one


@pytest.mark.slow
def test_two_million_rows_of_a_hundred_scores_in_two_seconds():
    """Issue 19: 999 draws cost what 100 distinct scores cost; row by row they took a quarter of an hour."""
    rng = np.random.default_rng(0)
    s = (rng.integers(0, 100, 2 * 10**6) + 0.5) / 100
    y = (rng.random(s.size) < s).astype(int)
    calibration_test(y[:1000], s[:1000], n_resamples=9)
    start = time.perf_counter()
    calibration_test(y, s, random_state=0)
    assert time.perf_counter() - start < 2.0


@pytest.mark.statistical
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("n", [200, 2000])
def test_size_with_few_scores(n, k):
    """As `test_size`, with scores of 19 values (21 of three classes)."""
    from benchmarks.tests_power import size

    assert 0.03 <= size(n, k, 1000, 1, tied=True).rate <= 0.07
