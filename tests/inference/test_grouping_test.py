"""grouping_test: size and power on exact laws, and its borders."""

import re

import numpy as np
import pytest
from scipy.special import expit

from scoreprism import grouping_test
from scoreprism.datasets import CopulaLaw
from scoreprism.exceptions import InputError


def null(n, seed):
    """A score that is a function of the true law: the features add nothing (STATISTICS, scenario q2)."""
    X, y, q = CopulaLaw(rho=0.0).sample(n, seed)
    return y, expit(2 * np.log(q / (1 - q))), X


def lost(n, seed):
    X, y, _ = CopulaLaw(rho=0.0).sample(n, seed)
    return y, expit(2.5 * (X.sum(axis=1) - 1)), X


def test_finds_what_is_lost_and_nothing_else():
    assert grouping_test(*lost(2000, 0), random_state=0).pvalue < 0.01
    result = grouping_test(*null(2000, 0), random_state=0)
    assert result.pvalue > 0.01
    assert result.about == "Grouping"
    assert repr(result).startswith("Grouping test projected-covariance: p = ")
    assert result.hypothesis == "the features add nothing to the score: P(Y | S, X) = P(Y | S)"


def test_same_seed_same_result():
    data = lost(400, 1)
    assert grouping_test(*data, random_state=5) == grouping_test(*data, random_state=5)
    assert grouping_test(*data, random_state=5) != grouping_test(*data, random_state=6)


def test_the_statistic_is_a_normal_score():
    """p is the upper tail of the statistic: scipy.stats.norm.sf."""
    from scipy.stats import norm

    result = grouping_test(*lost(600, 2), random_state=0)
    assert result.pvalue == pytest.approx(norm.sf(result.statistic), rel=1e-12)


def test_bootstrap():
    found = grouping_test(*lost(500, 0), method="bootstrap", n_resamples=39, random_state=0)
    assert found.pvalue == pytest.approx(1 / 40)
    assert found.n_resamples == 39
    again = grouping_test(*lost(500, 0), method="bootstrap", n_resamples=19, random_state=0, n_jobs=2)
    assert again.statistic == found.statistic
    assert grouping_test(*null(500, 3), method="bootstrap", n_resamples=19, random_state=0).pvalue > 0.05


def test_rows_in_another_order_give_the_same_p_value():
    """Halves belong to rows, not to their places; sums alone are rounded differently."""
    y, s, X = null(300, 1)
    s = np.round(s, 2)
    order = np.random.default_rng(0).permutation(300)
    for method in ("projected-covariance", "bootstrap"):
        here, there = (
            grouping_test(y[rows], s[rows], X[rows], method=method, n_resamples=19) for rows in (np.arange(300), order)
        )
        assert there.statistic == pytest.approx(here.statistic, abs=1e-9)
        if method == "projected-covariance":  # outcomes of a bootstrap are drawn row by row
            assert there.pvalue == pytest.approx(here.pvalue, abs=1e-9)


def test_bootstrap_of_several_classes():
    rng = np.random.default_rng(0)
    X = rng.random((300, 2))
    law = np.column_stack([0.1 + 0.5 * X[:, 0], 0.3 - 0.2 * X[:, 0], 0.6 - 0.3 * X[:, 0]])
    y = (rng.random(300)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    coarse = np.tile(law.mean(axis=0), (300, 1)) + 0.01 * (law - law.mean(axis=0))[rng.permutation(300)]
    assert grouping_test(y, coarse, X, method="bootstrap", n_resamples=19).pvalue == pytest.approx(1 / 20)


def test_several_classes_weights_and_discrete_scores():
    rng = np.random.default_rng(0)
    X = rng.random((900, 2))
    law = np.column_stack([0.2 + 0.2 * X[:, 0], 0.3 + 0.2 * X[:, 1], 0.5 - 0.2 * X.sum(axis=1)])
    y = (rng.random(900)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    coarse = np.tile(law.mean(axis=0), (900, 1))
    assert grouping_test(y, law, X, random_state=0).pvalue > 0.01
    assert grouping_test(np.where(X[:, 0] > 0.5, 0, y), coarse, X, random_state=0).pvalue < 0.01
    outcome, s, X = lost(1000, 4)
    assert grouping_test(outcome, np.round(s, 1), X, sample_weight=rng.random(1000), random_state=0).pvalue < 0.05


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"X": None}, "grouping_test must have X; got None. Pass the features; calibration_test needs none."),
        ({"method": "pcm"}, "method must be one of projected-covariance, bootstrap; got 'pcm'."),
    ],
)
def test_refuses(change, text):
    y, s, X = null(100, 0)
    with pytest.raises(InputError, match=re.escape(text)):
        grouping_test(**{"y_true": y, "y_proba": s, "X": X, **change})


def test_few_rows_are_refused():
    y, s, X = null(30, 0)
    with pytest.raises(InputError, match="each half of the rows must hold 20 of them and two classes; got 15 rows of"):
        grouping_test(y, s, X)


def test_many_classes_need_rows():
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.ones(25), 400)
    y = (rng.random(400)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    with pytest.raises(
        InputError, match="each half of the rows must hold ten rows for each class; got 200 rows for 25"
    ):
        grouping_test(y, law, rng.random((400, 2)), classes=range(25), random_state=0)


@pytest.mark.statistical
@pytest.mark.parametrize("bend", ["step", "bump", "wave"])
def test_size_where_the_calibration_map_bends(bend):
    """Nothing but the score matters; 200 draws at 5 % have a standard error of 1.5 %."""
    rejected = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        s = rng.random(600)
        c = {"step": 0.05 + 0.9 * (s > 0.8), "bump": np.where(abs(s - 0.5) < 0.1, 0.9, s)}
        c["wave"] = np.clip(s + 0.06 * np.sin(12 * np.pi * s), 0, 1)
        y = (rng.random(600) < c[bend]).astype(int)
        rejected.append(grouping_test(y, s, np.column_stack([s, rng.random(600)]), random_state=seed).pvalue < 0.05)
    assert np.mean(rejected) < 0.05 + 3 * 0.0154


@pytest.mark.statistical
def test_size_of_projected_covariance():
    """Nominal 5 %; 400 draws have a standard error of 1.1 %: three of them on either side."""
    rate = np.mean([grouping_test(*null(400, seed), random_state=seed).pvalue < 0.05 for seed in range(400)])
    assert 0.017 < rate < 0.083
