"""Standard errors, intervals and bounds against the formulas of docs/statistics.md, and their coverage."""

from __future__ import annotations

import numpy as np
import pytest

from scoreprism import Chain, FiniteModel, Level, resolution_decomposition
from scoreprism._kernels import term_intervals
from scoreprism.exceptions import InputError, UnavailableError
from tests.decompose.test_chain import sample

Z2, Z1 = 1.959963984540054, 1.6448536269514722  # normal quantiles, scipy.stats.norm.ppf(.975) and (.95), scipy 1.17


def parts(weight=None):
    y, (s, c, q), _ = sample(5)
    folds_q = np.clip(q.law + np.random.default_rng(6).normal(0, 0.02, (5, len(y))), 1e-6, 1 - 1e-6)
    levels = [s, c, Level("Q", q.law, folds_q)]
    d = Chain(y, levels, sample_weight=weight).decompose("brier")
    ls, lc, lq = d.level_losses.T
    _, vc, vq = d.level_spreads.T
    return d, ls, lc, lq, vc, vq


def error(rows, weight=None):
    """se² = Σw²(r−r̄)²/(Σw)² (docs/statistics.md)."""
    w = np.ones(len(rows)) if weight is None else weight
    mean = np.average(rows, weights=w)
    return np.sqrt(np.sum(w**2 * (rows - mean) ** 2)) / w.sum()


def by_the_law(weight):
    """se_m and the skewness of the mean of the rows, outcomes drawn from C (docs/statistics.md)."""
    _, (s, c, _), _ = sample(5)
    w = np.ones(s.law.size) if weight is None else weight
    a = np.stack([(s.law - k) ** 2 - (c.law - k) ** 2 for k in (0, 1)])
    share = np.stack([1 - c.law, c.law])
    mean = np.average((share * a).sum(axis=0), weights=w)
    second, third = ((share * (a - mean) ** power).sum(axis=0) for power in (2, 3))
    variance = np.sum(w**2 * second)
    return np.sqrt(variance) / w.sum(), np.sum(w**3 * third) / variance**1.5


@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_and_bounds_are_the_documented_formulas(weighted):
    weight = np.random.default_rng(7).random(300) if weighted else None
    d, ls, lc, lq, vc, vq = parts(weight)

    def mean(rows):
        return np.average(rows, weights=weight)

    rel, grp = ls - lc, lc - lq
    assert d.std_error["grouping"] == pytest.approx(error(grp - vc + vq, weight), rel=1e-10)
    interval = d.interval("reliability")
    assert interval.low == pytest.approx(max(0, mean(rel) - Z2 * error(rel, weight)), abs=1e-14)
    assert interval.high == pytest.approx(max(0, mean(rel) + 2 * mean(vc) + Z2 * error(rel, weight)), abs=1e-14)
    assert (interval.confidence_level, interval.method) == (
        0.95,
        "bracket",
    )  # laws that were given have no end for any shape
    model, skew = by_the_law(weight)
    s, kappa = max(error(rel, weight), model), Z2 + np.clip(skew, 0, 1) * (2 * Z2**2 + 1) / 6
    smooth = d.interval("reliability", method="smooth")
    assert smooth.low == pytest.approx(max(0, mean(rel) - Z2 * s), abs=1e-14)
    assert smooth.high == pytest.approx(max(0, mean(rel) + 2 * mean(vc) + kappa * s), abs=1e-14)
    interval = d.interval("grouping", confidence_level=0.9)
    z = 1.6448536269514722
    assert interval.low == pytest.approx(mean(grp) - 2 * mean(vc) - z * error(grp, weight), abs=1e-14)
    assert interval.high == pytest.approx(mean(grp) + 2 * mean(vq) + z * error(grp, weight), abs=1e-14)
    assert interval.method == "bracket, conditional on the reference class"
    assert d.lower_bound("reliability").value == pytest.approx(max(0, mean(rel) - Z1 * s), abs=1e-14)
    assert d.lower_bound("grouping").value == pytest.approx(mean(grp) - mean(vc) - Z1 * error(grp, weight), abs=1e-14)
    assert d.upper_bound("irreducible").value == pytest.approx(mean(lq) + Z1 * error(lq, weight), abs=1e-14)
    assert d.upper_bound("irreducible", confidence_level=0.99).value > d.upper_bound("irreducible").value
    assert d.lower_bound("grouping").confidence_level == 0.95
    clt = d.interval("reliability", method="clt")
    assert clt.low == pytest.approx(d.terms["reliability"] - Z2 * d.std_error["reliability"], abs=1e-14)
    assert clt.method == "clt"


def test_residual_of_the_plugin_form():
    """Its interval and bounds are those of its own rows."""
    y, levels, _ = sample(5)
    d = Chain(y, levels).decompose("brier", "plugin")
    rows = d.rows[:, -1]
    assert d.interval("residual").low == pytest.approx(rows.mean() - Z2 * error(rows), abs=1e-14)
    assert d.lower_bound("residual").value == pytest.approx(rows.mean() - Z1 * error(rows), abs=1e-14)
    assert d.upper_bound("residual").value == pytest.approx(rows.mean() + Z1 * error(rows), abs=1e-14)


def test_what_no_data_can_bound_is_refused_with_the_reason():
    d = parts()[0]
    with pytest.raises(UnavailableError, match=r"'irreducible' has no lower bound: .* \(Lee & Barber 2021\)"):
        d.lower_bound("irreducible")
    with pytest.raises(UnavailableError, match=r"'grouping' has no upper bound: .* or lower_bound\('grouping'\)"):
        d.upper_bound("grouping")
    with pytest.raises(
        InputError,
        match="term must be one of reliability, grouping, irreducible; got 'groupin'. Did you mean 'grouping'?",
    ):
        d.interval("groupin")
    with pytest.raises(InputError, match="confidence_level must be a confidence level between 0 and 1; got 95"):
        d.interval("grouping", confidence_level=95)
    with pytest.raises(InputError, match="method must be one of auto, any-shape, smooth, bracket, envelope, clt, bca"):
        d.interval("grouping", method="bootstrap")


def test_reliability_interval_is_cut_at_zero():
    rng = np.random.default_rng(8)
    q = rng.random(200)
    y = rng.random(200) < q
    worse = Chain(y, [Level("S", q), Level("C", np.full(200, 0.5))]).decompose("brier")  # recalibration made it worse
    assert worse.terms["reliability"] < 0  # shown as it is
    assert worse.interval("reliability").low == worse.interval("reliability").high == 0.0
    assert worse.lower_bound("reliability").value == 0.0


def test_clusters():
    """Cluster sums by hand; singletons change nothing; duplicated rows in one cluster do not shrink the error."""
    y, levels, _ = sample(9)
    n = len(y)
    plain = Chain(y, levels).decompose("log")
    alone = Chain(y, levels, groups=np.arange(n)).decompose("log")
    assert alone.std_error == pytest.approx(plain.std_error, rel=1e-12)
    groups = np.arange(n) // 4
    d = Chain(y, levels, groups=groups).decompose("log")
    rows = d.rows[:, 1] - d.terms["grouping"]
    by_hand = np.sqrt(sum(rows[groups == g].sum() ** 2 for g in range(n // 4))) / n
    assert d.std_error["grouping"] == pytest.approx(by_hand, rel=1e-12)
    twice = np.repeat(np.arange(n), 2)
    doubled = Chain(
        y[twice],
        [Level(v.name, v.law[twice], None if v.folds is None else v.folds[:, twice]) for v in levels],
        groups=twice,
    ).decompose("log")
    assert doubled.std_error == pytest.approx(plain.std_error, rel=1e-12)


def test_one_row_has_no_standard_error():
    d = Chain([1], [Level("S", [0.4]), Level("C", [0.6])]).decompose("brier")
    assert np.isnan(d.std_error["reliability"])
    assert np.isnan(d.interval("reliability").low)
    together = Chain([1, 0], [Level("S", [0.4, 0.2]), Level("C", [0.6, 0.1])], groups=[7, 7]).decompose("brier")
    assert np.isnan(together.std_error["reliability"])


def test_a_population_has_no_sampling_error():
    d = FiniteModel([0.5, 0.5], [0.9, 0.2]).decompose([0.5, 0.5], [[0, 0], [0, 1]], "brier")
    interval = d.interval("grouping")
    assert interval.low == interval.high == pytest.approx(d.terms["grouping"])
    assert d.to_frame().columns == ["term", "estimate", "share"]
    assert "exact, on a finite population" in repr(d)


def test_resolution_intervals():
    """Resolution gains from a better Ĉ as reliability does: its spread widens the upper end only."""
    y, (s, c, _), _ = sample(10)
    d = resolution_decomposition(y, s.law, c, loss="brier")
    ls, lc, lm = d.level_losses.T
    v = d.level_spreads[:, 1].mean()
    gain = lm - lc
    assert d.terms["resolution"] == pytest.approx(gain.mean() + v, abs=1e-14)
    assert d.terms["reliability"] == pytest.approx((ls - lc).mean() + v, abs=1e-14)
    interval = d.interval("resolution")
    assert interval.low == pytest.approx(gain.mean() - Z2 * error(gain), abs=1e-14)
    assert interval.high == pytest.approx(gain.mean() + 2 * v + Z2 * error(gain), abs=1e-14)
    assert d.lower_bound("resolution").value == pytest.approx(gain.mean() - Z1 * error(gain), abs=1e-14)
    total = d.terms["uncertainty"] - d.terms["resolution"] + d.terms["reliability"]
    assert total == pytest.approx(d.risk, abs=1e-14)


def test_coverage_of_given_laws():
    """With laws that were given, the interval of the loss difference is the central limit theorem: 95 % ± 3 sd of 400 draws."""
    from scipy.special import expit

    from scoreprism.datasets import CopulaLaw

    law = CopulaLaw()
    truth = law.population(lambda x1, x2: expit(6 * x1 - 3), "brier")
    grid = law.score_law(lambda x1, x2: expit(6 * x1 - 3))
    covered = 0
    for seed in range(400):
        x, y, q = law.sample(500, random_state=seed)
        s = expit(6 * x[:, 0] - 3)
        c = np.interp(s, grid.score, grid.calibrated)
        d = Chain(y, [Level("S", s), Level("C", c), Level("Q", q)]).decompose("brier")
        interval = d.interval("reliability")
        covered += interval.low <= truth.reliability <= interval.high
    assert 0.95 - 3 * np.sqrt(0.95 * 0.05 / 400) < covered / 400 < 0.95 + 3 * np.sqrt(0.95 * 0.05 / 400)


@pytest.mark.parametrize(
    ("units", "size", "documented"),
    [
        (5, 1, 0.77),
        (10, 8, 0.90),
        *(
            pytest.param(*row, marks=pytest.mark.slow)
            for row in ((10, 1, 0.86), (30, 1, 0.92), (5, 8, 0.84), (30, 8, 0.93))
        ),
    ],
)
def test_coverage_with_few_units(units, size, documented):
    """
    The figures of docs/statistics.md: normal intervals are too short with few independent rows or clusters.

    The truth is E[q(1−q)] = 1/6 for q uniform (Brier entropy). The documented figures were measured with this code and
    other seeds; 4000 draws have a Monte-Carlo error of at most 0.0066, of which four are allowed, and half a last digit.
    """
    rng = np.random.default_rng(1000 * units + size)
    groups = np.repeat(np.arange(units), size)
    covered = 0
    for _ in range(4000):
        q = rng.random(units * size)
        y = (rng.random(q.size) < q).astype(int)
        d = Chain(y, [Level("S", q), Level("C", q)], groups=groups, classes=[0, 1]).decompose("brier")
        interval = d.interval("refinement")
        covered += interval.low <= 1 / 6 <= interval.high
    error_of_share = np.sqrt(documented * (1 - documented) / 4000)
    assert covered / 4000 == pytest.approx(documented, abs=4 * error_of_share + 0.005)


def test_bca_counts_half_of_the_replicates_that_equal_the_estimate():
    """
    scipy.stats.bootstrap(method="BCa") of a mean of zeros and ones, which a sixth of the replicates equal.

    scipy 1.17 takes the mean of the shares below and not above the estimate, which is half of the ties.
    """
    from scipy.stats import bootstrap

    x = np.repeat([0.0, 1.0], [13, 7])
    theirs = bootstrap((x,), np.mean, n_resamples=999, method="BCa", random_state=np.random.default_rng(1))
    replicates = theirs.bootstrap_distribution
    assert np.mean(replicates == x.mean()) > 0.1
    ours = term_intervals.bca(float(x.mean()), replicates, x, 0.95)
    assert (ours.low, ours.high) == pytest.approx(theirs.confidence_interval, abs=1e-12)


@pytest.mark.parametrize(
    "replicates", [[1.0, 2.0, np.inf, -1.0], [1.0, np.nan, -1.0, 2.0], [1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]]
)
def test_bca_of_replicates_on_one_side_or_not_finite_is_undefined(replicates):
    """Efron (1987): the bias is the normal quantile of the share of replicates below, ±∞ where that is 0 or 1."""
    interval = term_intervals.bca(0.0, np.array(replicates), np.array([-1.0, 0.0, 1.0]), 0.9)
    assert np.isnan([interval.low, interval.high]).all()
    assert (interval.confidence_level, interval.method) == (0.9, "bca")


def test_bca_by_hand():
    """
    Efron (1987), equation 2.3, on 999 replicates that are 1, …, 999 and an estimate of 400.5.

    z₀ = Φ⁻¹(.4004), a = Σu³/(6(Σu²)^1.5) of u = (−1, −1, 2): 6/(6·6^1.5) = .06804; ends at Φ(z₀ + (z₀ ± z)/(1 − a(z₀ ± z))).
    """
    from scipy.stats import norm

    replicates = np.arange(1.0, 1000.0)
    interval = term_intervals.bca(400.5, replicates, np.array([1.0, 1.0, 4.0]), 0.9)
    z0, a, z = norm.ppf(400 / 999), 6.0 ** (-1.5), norm.ppf(0.95)
    low, high = (norm.cdf(z0 + (z0 + side) / (1.0 - a * (z0 + side))) for side in (-z, z))
    assert (interval.low, interval.high) == pytest.approx((1 + 998 * low, 1 + 998 * high), abs=1e-9)


def test_bca_is_scipys():
    """scipy.stats.bootstrap(method="BCa") on the same replicates of a mean."""
    from scipy.stats import bootstrap

    x = np.random.default_rng(0).exponential(size=40)
    theirs = bootstrap((x,), np.mean, n_resamples=999, method="BCa", random_state=np.random.default_rng(1))
    ours = term_intervals.bca(float(x.mean()), theirs.bootstrap_distribution, x, 0.95)
    assert (ours.low, ours.high) == pytest.approx(theirs.confidence_interval, abs=1e-12)
