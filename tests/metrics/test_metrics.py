"""Laws that every metric obeys, what each refuses, and the machinery behind the numbers; peers are in test_metric_peers.py."""

import copy
import inspect
import json
import math
import pickle
import re

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import scoreprism
from scoreprism import Interval, Sample, decompose
from scoreprism.calibrators import IsotonicCalibrator, PlattCalibrator
from scoreprism.curves import reliability_curve
from scoreprism.exceptions import HardLabelsWarning, InputError, ScoreOrderWarning, ScoreprismError, UnavailableError
from scoreprism.metrics import (
    METRICS,
    Estimate,
    LocalRegression,
    accuracy,
    ace,
    auc,
    brier_score,
    calibration_in_the_large,
    calibration_slope,
    confidence_ece,
    debiased_ece,
    debiased_rmsce,
    e50,
    e90,
    ece,
    emax,
    evaluate,
    global_balance,
    ici,
    lcs,
    log_loss,
    macro_auc,
    mce,
    observed_expected_ratio,
    rmsce,
    smece,
    spiegelhalter_z,
    top_k_accuracy,
    top_label_ece,
)

#: Metrics of any number of classes, and those made for three or more.
ANY_CLASSES = ("global_balance", "spiegelhalter_z", "accuracy", "log_loss", "brier_score")
SEVERAL_CLASSES = tuple(name for name in METRICS if name.startswith(("classwise", "confidence", "top_", "macro")))
#: Variances in them are those of weighted rows, not of repeated ones.
NOT_REPETITION = ("debiased_ece", "debiased_rmsce", "spiegelhalter_z")


def binary(n=240, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.random(n)
    return (rng.random(n) < s**1.4).astype(int), s


def three(n=240, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.dirichlet([1.0, 1.5, 2.0], n)
    return (rng.random(n)[:, None] >= s.cumsum(axis=1)[:, :-1]).sum(axis=1), s


def seven(n=240, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.dirichlet(np.arange(1.0, 8.0), n)
    return (rng.random(n)[:, None] >= s.cumsum(axis=1)[:, :-1]).sum(axis=1), s


def data_for(name, **options):
    if name == "top_k_accuracy":  # the first five of fewer classes are all of them
        return seven(**options)
    return three(**options) if name in SEVERAL_CLASSES else binary(**options)


every = pytest.mark.parametrize("name", METRICS)
#: Intervals without resamples.
ANALYTIC = {name for name in METRICS if not METRICS[name](*data_for(name))._inference.has_methods}


# ── laws ────────────────────────────────────────────────────────────────────────────────────────────────


@every
def test_is_a_float_with_a_name_a_method_and_an_interval(name):
    y, s = data_for(name)
    value = METRICS[name](y, s)
    assert isinstance(value, float)
    assert value.name == name
    assert value.method
    assert json.loads(json.dumps(value)) == float(value)
    assert type(value + 0.0) is float
    assert repr(value) == f"<{name} {float(value):.6g}: {value.method}>"
    assert f"{value}" == str(float(value))
    interval = value.interval(0.9, n_resamples=60, random_state=0)
    assert isinstance(interval, Interval)
    assert interval.low <= interval.high
    assert interval.confidence_level == 0.9
    assert value.std_error > 0.0
    wide = value.interval(0.99, n_resamples=60, random_state=0)
    assert wide.low <= interval.low
    assert wide.high >= interval.high
    if not METRICS[name].is_gap:  # which are biased upwards, so that intervals may lie below them
        assert interval.low <= value <= interval.high


@every
def test_a_sample_takes_the_place_of_the_arrays(name):
    y, s = data_for(name)
    assert METRICS[name](Sample.of(y, s)) == METRICS[name](y, s)


@every
def test_every_argument_is_described_with_its_default(name):
    parameters = inspect.signature(METRICS[name]).parameters
    described = dict(
        re.findall(r"^(\w+) : .*, (optional|default=.*|or Sample)$", inspect.getdoc(METRICS[name]), re.MULTILINE)
    )
    assert list(described) == list(parameters)
    for option in METRICS[name].options:
        default = parameters[option].default
        words = "optional" if default is None else f"default={json.dumps(default)}"
        assert described[option] == words


@every
def test_order_of_rows_does_not_matter(name):
    y, s = data_for(name)
    order = np.random.default_rng(1).permutation(y.size)
    assert METRICS[name](y[order], s[order]) == pytest.approx(METRICS[name](y, s), rel=1e-9)


@every
def test_weights_are_repeated_rows_on_any_scale(name):
    y, s = data_for(name)
    w = np.random.default_rng(2).integers(0, 4, y.size)
    weighted = METRICS[name](y, s, sample_weight=w)
    assert METRICS[name](y, s, sample_weight=w * 7.3) == pytest.approx(weighted, rel=1e-9)
    kept = w > 0
    assert METRICS[name](y[kept], s[kept], sample_weight=w[kept]) == pytest.approx(weighted, rel=1e-9)
    if name not in NOT_REPETITION:
        repeated = METRICS[name](np.repeat(y, w), np.repeat(s, w, axis=0))
        assert weighted == pytest.approx(repeated, rel=1e-9)


@every
def test_equal_weights_are_none(name):
    y, s = data_for(name)
    plain = METRICS[name](y, s)
    equal, held = METRICS[name](y, s, sample_weight=np.full(y.size, 0.3)), np.append(np.ones(y.size), 0.0)
    padded = METRICS[name](np.append(y, 0), np.concatenate([s, s[:1]]), sample_weight=held)
    for other in (equal, padded):
        assert float(other) == float(plain)
        assert other.std_error == plain.std_error
        assert other.interval(n_resamples=30, random_state=0) == plain.interval(n_resamples=30, random_state=0)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("name", [name for name in METRICS if "strategy" in METRICS[name].options])
def test_weights_are_repeated_rows_for_both_kinds_of_bins(name, strategy):
    y, s = three(n=40) if name in SEVERAL_CLASSES else binary(n=40)
    w = np.random.default_rng(5).integers(1, 9, 40)
    weighted = METRICS[name](y, s, sample_weight=w, strategy=strategy)
    if name not in NOT_REPETITION:
        repeated = METRICS[name](np.repeat(y, w), np.repeat(s, w, axis=0), strategy=strategy)
        assert weighted == pytest.approx(repeated, rel=1e-9)


@pytest.mark.parametrize(
    "smoother", ["loess", "lowess", LocalRegression(0, 0.3, "uniform"), "platt", "beta", "temperature"]
)
@pytest.mark.parametrize("name", ["lcs", "ici", "e50", "e90", "emax"])
def test_weights_are_repeated_rows_for_smoothers_without_a_choice_by_rows(name, smoother):
    y, s = binary()
    w = np.random.default_rng(5).integers(1, 4, y.size)
    repeated = METRICS[name](np.repeat(y, w), np.repeat(s, w), smoother=smoother)
    # fits by iteration stop within 1e-8
    assert METRICS[name](y, s, sample_weight=w, smoother=smoother) == pytest.approx(repeated, rel=1e-6)


@every
def test_weighted_intervals_exist(name):
    y, s = data_for(name)
    w = np.random.default_rng(2).random(y.size)
    interval = METRICS[name](y, s, sample_weight=w).interval(n_resamples=40, random_state=0)
    assert np.isfinite([interval.low, interval.high]).all()


@every
def test_labels_of_any_kind(name):
    y, s = data_for(name)
    names = np.array(["no", "yes"] if s.ndim == 1 else list("abcdefg"[: s.shape[1]]))
    positive = {"pos_label": "yes"} if s.ndim == 1 else {}
    assert METRICS[name](names[y], s, **positive) == METRICS[name](y, s)
    if s.ndim == 1:
        assert METRICS[name](y, np.column_stack([1 - s, s])) == pytest.approx(METRICS[name](y, s), rel=1e-12)


@pytest.mark.parametrize("name", [name for name in METRICS if name not in SEVERAL_CLASSES])
def test_columns_of_any_library(name, as_column):
    y, s = data_for(name)
    weight = np.random.default_rng(0).random(y.size)
    found = METRICS[name](as_column(y), as_column(s), sample_weight=as_column(weight))
    assert found == METRICS[name](y, s, sample_weight=weight)


def test_a_table_comes_back_in_the_library_of_the_data(library):
    y, s = binary()
    table = evaluate(library.column(y), library.column(s), metrics=["ece", "auc"], n_resamples=20)
    assert isinstance(table.to_frame(), library.kind)
    assert library.as_lists(table.to_frame())["metric"] == ["ece", "auc"]


@pytest.mark.parametrize("name", [name for name in METRICS if name not in ANALYTIC])
def test_replicate_b_does_not_depend_on_the_number_of_replicates(name):
    y, s = data_for(name, n=100)
    inference = METRICS[name](y, s)._inference

    def streams(replicate):
        return np.random.default_rng([5, 6, replicate])

    curve = getattr(inference, "inner", inference).curve
    assert np.array_equal(curve.noise(30, streams)[:10], curve.noise(10, streams))


def wave(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The wave of STATISTICS.md, 8.9: C = S + .07 sin(12πS), tapered at the ends."""
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.05, 0.95, n)
    c = s + 0.07 * np.sin(12 * np.pi * s) * np.minimum(1, np.minimum(s / 0.07, (1 - s) / 0.07))
    return (rng.random(n) < c).astype(int), s


def test_intervals_of_smoothed_metrics_hold_where_no_smoother_can_follow():
    """True values by 10⁷ scores: LCS .002368, ICI .0438. Those of the smoother's resamples miss them by far."""
    y, s = wave(2000, 0)
    for metric, truth in ((lcs, 0.002368), (ici, 0.0438)):
        found = metric(y, s)
        own, smooth = found.interval(), found.interval(method="scaled", random_state=0)
        assert own.low <= truth <= own.high
        assert own.method == "any shape"
        assert not smooth.low <= truth <= smooth.high
    reliability = decompose(y, s, loss="brier").interval("reliability")
    assert (lcs(y, s).interval().low, lcs(y, s).interval().high) == pytest.approx(
        (min(reliability.low, float(lcs(y, s))), reliability.high)
    )
    assert ici(y, s).interval().high == pytest.approx(np.sqrt(reliability.high))
    assert ici(y, s, smoother="lowess").interval(n_resamples=20, random_state=0).method == "bootstrap, scaled"


@every
def test_a_pickle_is_a_number_and_a_copy_is_the_estimate(name):
    y, s = data_for(name)
    value = METRICS[name](y, s)
    assert copy.copy(value) is value
    assert copy.deepcopy(value) is value
    again = pickle.loads(pickle.dumps(value))  # noqa: S301
    assert (float(again), again.name, again.method, again.pvalue) == (float(value), name, value.method, value.pvalue)
    with pytest.raises(UnavailableError) as error:
        again.interval()
    assert str(error.value) == (
        "this estimate has no interval: it was pickled, and pickles do not carry the rows. "
        "Ask for the interval before pickling."
    )


def test_scikit_learn_takes_metrics_as_scorers():
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import cross_val_score

    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    y = (rng.random(200) < 1 / (1 + np.exp(-x[:, 0]))).astype(int)
    scorer = make_scorer(ece, response_method="predict_proba", greater_is_better=False, n_bins=5)
    assert (cross_val_score(LogisticRegression(), x, y, scoring=scorer, cv=3) < 0).all()


# ── definitions ─────────────────────────────────────────────────────────────────────────────────────────


def test_bins_by_hand():
    y, s = [0, 1, 0, 1, 1], [0.1, 0.3, 0.4, 0.8, 0.9]
    # bins (0, ½] and (½, 1]: gaps 1/3 − 0.8/3 = 1/15 of 3 rows and 1 − 0.85 = 3/20 of 2 rows
    assert ece(y, s, n_bins=2) == pytest.approx(3 / 5 * 1 / 15 + 2 / 5 * 3 / 20, rel=1e-14)
    assert ace(y, s, n_bins=2) == pytest.approx((1 / 15 + 3 / 20) / 2, rel=1e-14)
    assert mce(y, s, n_bins=2) == pytest.approx(3 / 20, rel=1e-14)
    assert rmsce(y, s, n_bins=2) == pytest.approx(math.sqrt(3 / 5 / 225 + 2 / 5 * 9 / 400), rel=1e-14)
    # r(1 − r)/(n − 1) is (1/3)(2/3)/2 = 1/9 and 0
    less = max(3 / 5 * (1 / 225 - 1 / 9) + 2 / 5 * 9 / 400, 0.0)
    assert debiased_rmsce(y, s, n_bins=2) == pytest.approx(math.sqrt(less), abs=1e-15)


def test_the_bias_that_is_taken_off_the_ece_is_that_of_normal_bins():
    # one bin: gap g = 1/2 − 0.4, spread √(1/4 / 4); E|N(g, spread)| by 10⁶ draws
    draws = np.abs(np.random.default_rng(0).normal(0.1, 0.25, 10**6)).mean()
    # 0.15 / √10⁶ is the error of the mean; five of them
    assert debiased_ece([0, 1, 0, 1], [0.4] * 4, n_bins=1) == pytest.approx(max(0.2 - draws, 0.0), abs=8e-4)
    assert debiased_ece([1] * 90 + [0] * 10, [0.4] * 100, n_bins=1) == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("m", [1, 3, 7, 10, 15, 49, 100, 997])
def test_edges_belong_to_the_bin_below(m):
    edges = np.arange(m + 1) / m
    around = np.concatenate([edges, np.nextafter(edges[1:], 0), np.nextafter(edges[:-1], 1)])
    curve = reliability_curve(
        np.arange(around.size) % 2, around, method="bins", n_bins=m, strategy="uniform", band=None
    )
    # the definition: the number of inner edges below the score
    rows = np.bincount(np.searchsorted(edges[1:-1], around), minlength=m)
    np.testing.assert_allclose(curve.weight, rows / around.size, rtol=1e-12)


def test_quantile_bins_keep_ties_together():
    s = np.array([0.2] * 6 + [0.5] * 2 + [0.9] * 2)
    y = np.array([0, 0, 0, 1, 0, 0, 1, 0, 1, 1])
    # halves of ten rows: the tie at 0.2 passes 5 and ends the first bin
    assert ace(y, s, n_bins=2) == pytest.approx((abs(1 / 6 - 0.2) + abs(3 / 4 - 0.7)) / 2, rel=1e-12)


def test_global_balance_of_two_classes_is_a_z_test():
    y, s = binary()
    balance = global_balance(y, s)
    # under the scores the sum of outcomes has the variance Σs(1 − s)
    z = (y - s).sum() / math.sqrt((s * (1 - s)).sum())
    assert balance == pytest.approx((y - s).mean(), rel=1e-12)
    assert balance.std_error == pytest.approx((y - s).std() / math.sqrt(y.size), rel=1e-9)
    assert balance.pvalue == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), rel=1e-9)


def test_global_balance_of_three_classes_is_a_chi_squared_test():
    y, s = three()
    balance = global_balance(y, s)
    gaps = np.eye(3)[y] - s
    mean = gaps.mean(axis=0)
    # any two of the three columns, whose sum is zero, give the same statistic; two degrees: p = exp(−χ²/2)
    null = sum(np.diag(row) - np.outer(row, row) for row in s)[:2, :2] / y.size**2  # of outcomes drawn from the scores
    inverse = np.linalg.inv(null)
    assert balance == pytest.approx(0.5 * np.abs(mean).sum(), rel=1e-12)
    assert balance.pvalue == pytest.approx(math.exp(-0.5 * mean[:2] @ inverse @ mean[:2]), rel=1e-9)


def test_three_classes_are_balanced_by_their_frequencies():
    y, _ = three()
    frequencies = np.bincount(y) / y.size
    assert global_balance(y, np.tile(frequencies, (y.size, 1))) == pytest.approx(0.0, abs=1e-15)


def test_smooth_ece_of_one_score_is_its_gap():
    """All rows at one score: residuals of one sign, of which a kernel of mass 1 loses nothing."""
    y, s = np.repeat([0, 1], [30, 70]), np.full(100, 0.4)
    assert smece(y, s) == pytest.approx(0.3, rel=1e-12)
    assert smece([0, 1] * 50, np.full(100, 0.5)) == 0.0
    # two scores half a unit apart, wrong by .1 each way: at a bandwidth of .1 they are told apart, at 1 hardly
    y, s = np.concatenate([np.repeat([0, 1], [35, 65]), np.repeat([0, 1], [35, 65])]), np.repeat([0.25, 0.75], 100)
    assert smece(y, s, bandwidth=0.05) == pytest.approx(0.25, abs=1e-6)  # ½·|.65 − .25| + ½·|.65 − .75|
    assert smece(y, s, bandwidth=1.0) == pytest.approx(0.5 * (0.4 - 0.1), abs=1e-2)  # they cancel


def test_smooth_ece_is_at_most_c_where_its_residuals_at_the_bandwidth_c_are():
    """So the interval may ask its question at one bandwidth."""
    rng = np.random.default_rng(4)
    below = []
    for _ in range(200):
        s, c = rng.random(60), 0.2 * rng.random()
        y = (rng.random(60) < s).astype(int)
        below.append((smece(y, s) <= c, smece(y, s, bandwidth=c) <= c))
    assert all(a == b for a, b in below)
    assert {a for a, _ in below} == {True, False}
    s = rng.random(400)
    y = (rng.random(400) < s + 0.2 * np.sin(6 * np.pi * s)).astype(int)
    value = smece(y, s)
    options = {"n_resamples": 200, "random_state": 0, "method": "scaled"}
    interval, fixed = value.interval(**options), smece(y, s, bandwidth=float(value)).interval(**options)
    assert fixed.low < interval.low < value < interval.high < fixed.high  # longer gaps are smoothed more


def test_auc_and_its_variance_by_pairs():
    y, s = binary(60)
    s = s.round(1)  # ties
    wins = (s[y == 1][:, None] > s[y == 0]) + 0.5 * (s[y == 1][:, None] == s[y == 0])
    area = auc(y, s)
    variance = sum(line.var(ddof=1) / line.size for line in (wins.mean(axis=1), wins.mean(axis=0)))
    assert area == pytest.approx(wins.mean(), rel=1e-12)
    assert area.std_error == pytest.approx(math.sqrt(variance), rel=1e-9)


def test_top_label_sees_what_confidence_does_not():
    # two predicted classes, each with confidence 0.7: one right in all rows, the other in 40 %
    s = np.array([[0.7, 0.3, 0.0]] * 10 + [[0.0, 0.7, 0.3]] * 10)
    y = np.array([0] * 10 + [1] * 4 + [2] * 6)
    assert confidence_ece(y, s, n_bins=10) == pytest.approx(0.0, abs=1e-12)
    assert top_label_ece(y, s, n_bins=10) == pytest.approx(0.3, rel=1e-12)


def test_smoothers_agree_with_the_calibrators_they_name():
    y, s = binary()
    fitted = IsotonicCalibrator().fit(s, y).calibrate(s)
    assert ici(y, s, smoother="isotonic") == pytest.approx(np.abs(fitted - s).mean(), rel=1e-12)
    assert lcs(y, s, smoother=IsotonicCalibrator()) == pytest.approx(((fitted - s) ** 2).mean(), rel=1e-12)


def test_cross_fitting_takes_curves_from_the_other_folds():
    y, s = binary()
    fold = np.arange(y.size) % 3
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    law = np.empty(y.size)
    for train, test in splits:
        law[test] = PlattCalibrator().fit(s[train], y[train]).calibrate(s[test])
    value = lcs(y, s, smoother="platt", cv=splits)
    assert value == pytest.approx(((law - s) ** 2).mean(), rel=1e-12)
    assert value.interval(n_resamples=20, random_state=0).high > 0.0
    assert lcs(y, s, cv=5).method == ("loess: local regression of degree 2, span 0.75, tricube, cross-fitted (cv=5)")


def test_resamples_without_an_event_have_a_curve_too():
    rng = np.random.default_rng(0)
    s = rng.random(40) * 0.1
    y = np.zeros(40, dtype=int)
    y[[3, 11]] = 1  # absent from one resample in eight
    for name in ("platt", "isotonic", "beta"):
        interval = ici(y, s, smoother=name).interval(n_resamples=60, random_state=0)
        assert 0.0 <= interval.low <= interval.high


def test_a_smoother_warns_once_of_the_rows_and_not_of_every_resample():
    y, s = binary()
    with pytest.warns(ScoreOrderWarning) as caught:
        value = ici(y, 1 - s, smoother="isotonic")
    assert len(caught) == 1
    assert value.interval(n_resamples=10, random_state=0).high > 0.2


def test_local_regression_by_least_squares():
    y, s = binary(80)
    local = LocalRegression(degree=2, span=0.4)
    w = np.random.default_rng(3).random(80)
    for point in (0.0, 0.31, 0.97):
        order = np.argsort(np.abs(s - point))
        reach = np.abs(s - point)[order][np.searchsorted(np.cumsum(w[order]), 0.4 * w.sum())]
        kernel = np.clip(1 - (np.abs(s - point) / reach) ** 3, 0, None) ** 3
        root = np.sqrt(w * kernel)
        design = np.vander(s - point, 3, increasing=True)
        expected = np.linalg.lstsq(design * root[:, None], y * root, rcond=None)[0][0]
        assert local.fit_at(s, y.astype(float), w, np.array([point]))[0] == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("law", ["uniform", "skewed"])
def test_pooling_many_scores_moves_the_curve_little(law):
    rng = np.random.default_rng(0)
    s = np.sort(rng.random(4000) if law == "uniform" else rng.beta(0.3, 6.0, 4000))
    y = (rng.random(4000) < s**1.2).astype(float)
    local, at = LocalRegression(), s[::40]
    exact = local.fit_sums(s, np.ones(4000), y, at)
    # measured 3e-5; the noise of the curve is a hundred times that
    assert np.abs(local.fit_at(s, y, np.ones(4000), at) - exact).max() < 1e-4


def test_many_rows_are_resampled_as_neighbourhoods():
    rng = np.random.default_rng(0)
    s = rng.random(30_000)
    y = (rng.random(30_000) < s**1.2).astype(int)
    value = ece(y, s)
    assert value._inference.curve.units.score.size < 5000
    pooled = value.interval(n_resamples=200, random_state=0)
    rows = ece(y, s, sample_weight=np.where(np.arange(s.size) < 1, 1.0 + 1e-9, 1.0)).interval(
        n_resamples=200, random_state=0
    )
    # two sets of 200 resamples: ends scatter by some 7 % of the width
    width = rows.high - rows.low
    assert abs(pooled.low - rows.low) < 0.25 * width
    assert abs(pooled.high - rows.high) < 0.25 * width


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("make", [binary, three])
def test_a_table_holds_what_the_functions_return(make):
    y, s = make()
    table = evaluate(y, s, n_resamples=50, random_state=4)
    several = {*ANY_CLASSES, *SEVERAL_CLASSES}
    several -= {"top_k_accuracy"}  # of three classes
    assert set(table.names) == (several if s.ndim == 2 else set(METRICS) - set(SEVERAL_CLASSES))
    for name in table.names:
        alone = METRICS[name](y, s)
        interval = alone.interval(n_resamples=50, random_state=4)
        assert table.terms[name] == alone
        assert (table.intervals[name].low, table.intervals[name].high) == (interval.low, interval.high)
    frame = table.to_frame()
    assert frame.columns == ["metric", "estimate", "std_error", "low", "high", "pvalue", "method"]
    for name, pvalue, method in frame.select("metric", "pvalue", "method").iter_rows():
        known = table.estimates[name].pvalue
        assert math.isnan(pvalue) if known is None else pvalue == known
        assert method == table.estimates[name].method
    assert json.loads(json.dumps(table.to_dict()))["n"] == y.size
    assert "<table" in table._repr_html_()
    assert "95 % intervals" in repr(table)


def test_a_table_takes_options_and_leaves_out_what_cannot_be():
    y, s = binary()
    table = evaluate(y, s, metrics={"ece": {"n_bins": 5}, "ici": {"smoother": "platt"}}, n_resamples=20, random_state=0)
    assert table.terms == {"ece": float(ece(y, s, n_bins=5)), "ici": float(ici(y, s, smoother="platt"))}
    left = evaluate(np.zeros(40, dtype=int), s[:40], n_resamples=10, random_state=0)
    assert "auc" not in left.names
    (found,) = (one for one in left.findings if one.subject == "auc")
    assert found.kind == "unavailable"
    assert found.facts["reason"].startswith("auc must have events and non-events")
    assert found.text.startswith("auc is not available: auc must have events and non-events")
    with pytest.raises(InputError, match="auc must have events"):
        evaluate(np.zeros(40, dtype=int), s[:40], metrics=["auc"])
    with pytest.raises(InputError) as error:
        evaluate(y, s, metrics={"ece": {"bins": 5}})
    assert str(error.value) == "ece takes the options n_bins, strategy; got bins. Correct their names."


def test_a_table_speaks_the_library_of_its_data():
    pandas = pytest.importorskip("pandas")
    y, s = binary()
    table = evaluate(pandas.Series(y), pandas.Series(s), metrics="auc")
    assert isinstance(table.to_frame(), pandas.DataFrame)


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────────

Y, S = [0, 1, 0, 1, 1, 0], [0.2, 0.6, 0.7, 0.4, 0.9, 0.1]
REFUSED = {
    "several classes, bins": (
        lambda: ece([0, 1, 2], np.eye(3), n_bins=1),
        "ece must have two classes; got 3. Use classwise_ece, top_label_ece or confidence_ece for several classes.",
    ),
    "several classes, curve": (
        lambda: ici([0, 1, 2], np.eye(3)),
        "ici must have two classes; got 3. Use classwise_lcs or classwise_ici for several classes.",
    ),
    "several classes, smooth": (
        lambda: smece([0, 1, 2], np.eye(3)),
        "smece must have two classes; got 3. Use confidence_smece for several classes.",
    ),
    "bandwidth": (
        lambda: smece(Y, S, bandwidth=0),
        "bandwidth must be a number above 0 and at most 1; got 0. Pass a number in that range.",
    ),
    "more bins than rows": (
        lambda: ece(Y, S),
        (
            "there must be at least as many rows as bins; got 6 rows and 15 bins. "
            "Pass n_bins of at most 6, better a tenth of it."
        ),
    ),
    "scores of 0": (
        lambda: calibration_slope(Y, [0.0, 0.6, 0.7, 0.4, 1.0, 0.1]),
        (
            "calibration_slope must have scores strictly between 0 and 1, because it is computed from log-odds; "
            "got 2 of 6 rows at 0 or 1 (row 0, 4). Pass clip=1e-6, for example, to keep scores that far from 0 and 1."
        ),
    ),
    "one class": (
        lambda: calibration_in_the_large([1, 1], [0.3, 0.6]),
        (
            "calibration_in_the_large must have events and non-events, because it is infinite otherwise; "
            "got 2 events in 2 rows. Pass rows of both classes, or use global_balance."
        ),
    ),
    "separable": (
        lambda: calibration_slope([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4]),
        (
            "calibration_slope must have scores of events and non-events that overlap, because it is infinite otherwise; "
            "got a score that separates the 2 events from the 2 others. Pass more rows."
        ),
    ),
    "constant scores": (
        lambda: calibration_slope([0, 1, 1], [0.3] * 3),
        "calibration_slope must have scores that differ; got 3 rows with the score 0.3. Use calibration_in_the_large.",
    ),
    "auc of one class": (
        lambda: auc([0, 0], [0.1, 0.2]),
        "auc must have events and non-events; got 0 events in 2 rows. Pass rows of both classes.",
    ),
    "macro_auc of one class": (
        lambda: macro_auc([2, 2], [[0.2, 0.5, 0.3], [0.3, 0.4, 0.3]], classes=[0, 1, 2]),
        "macro_auc must have rows of two classes; got 2 rows of one. Pass rows of other classes too.",
    ),
    "as many classes as are counted": (
        lambda: top_k_accuracy([0, 1, 2], np.full((3, 3), 1 / 3), k=3),
        (
            "top_k_accuracy must have more than k classes, or every row is right; got 3 classes and k=3. "
            "Pass a smaller k."
        ),
    ),
    "nothing expected": (
        lambda: observed_expected_ratio([0, 1], [0.0, 0.0]),
        "observed_expected_ratio must have a positive score; got 2 scores of 0. Use global_balance, the difference.",
    ),
    "nothing to speak of expected": (
        lambda: observed_expected_ratio([0, 1], [1e-310, 2e-310]),
        "observed_expected_ratio must have a positive score; got 2 scores of mean 1.5e-310, too small to divide by.",
    ),
    "several models": (
        lambda: evaluate(Y, {"a": S, "b": S}),
        (
            "y_proba must be the probabilities of one model; got a mapping of 2. "
            "Pass one of its values, and call once for each model."
        ),
    ),
    "unknown smoother": (lambda: ici(Y, S, smoother="loes"), "smoother must be one of loess, lowess, identity"),
    "strategy": (lambda: ece(Y, S, strategy="equal"), "strategy must be one of uniform, quantile; got 'equal'."),
    "a grid that misses all scores": (
        lambda: lcs(Y, np.array(S) * 1e-4 + 0.003, over="density"),
        (
            'over="density" must have scores on both sides of a point of the grid 0, 1/99, …, 1; '
            'got scores from 0.00301 to 0.00309. Use over="sample".'
        ),
    ),
    "cross-fitted density": (
        lambda: lcs(Y, S, over="density", cv=2),
        'over="density" must have one curve, fitted on all rows; got cv=2. Use over="sample" with cv.',
    ),
    "degree": (lambda: LocalRegression(degree=3), "degree must be 0, 1 or 2; got 3. Pass one of these."),
    "weights": (
        lambda: ece(Y, S, sample_weight=[0.0] * 6),
        "sample_weight must not be all zero; got 6 zeros. Give at least one row a positive weight.",
    ),
    "method of an interval without resamples": (
        lambda: auc(Y, S).interval(method="basic"),
        "method must be left out for an interval without resamples; got 'basic'. Leave it out.",
    ),
    "seed": (
        lambda: evaluate(Y, S, metrics="auc", random_state=-1),
        "random_state must be a nonnegative integer, a numpy Generator or None; got -1. For example 0.",
    ),
    "interval method": (
        lambda: ece(Y, S, n_bins=2).interval(method="bca"),
        "method must be one of scaled, hull, basic, percentile; got 'bca'.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_what_came_and_what_to_do(case):
    call, text = REFUSED[case]
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value).startswith(text)


HARD = {
    "one class": ([0] * 30, np.linspace(0.05, 0.9, 30)),
    "constant": ([0, 1] * 15, np.full(30, 0.3)),
    "two values": ([0, 1, 1] * 10, np.repeat([0.2, 0.7], 15)),
    "certain": ([0, 1] * 15, np.repeat([0.0, 1.0], 15)),
    "one row": ([1], [0.3]),
    "nearly constant": ([0, 1] * 15, 0.3 + 1e-13 * np.arange(30)),
    "tiny": ([0, 1] * 15, 1e-300 * np.arange(1, 31)),
}


@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.HardLabelsWarning")  # that one is meant
@every
@pytest.mark.parametrize("case", HARD)
def test_hard_cases_give_a_number_or_a_refusal_never_a_warning(name, case):
    y, s = HARD[case]
    options = {"n_bins": 1 if len(y) == 1 else 5} if "n_bins" in METRICS[name].options else {}
    for weight in (None, np.linspace(0, 1e6, len(y)) + (len(y) == 1)):
        try:
            value = METRICS[name](y, s, sample_weight=weight, **options)
            interval = value.interval(n_resamples=20, random_state=0)
        except ScoreprismError:
            continue
        assert math.isfinite(value)
        assert interval.low <= interval.high


GAP_METRICS = [name for name in METRICS if name not in ANALYTIC]


@pytest.mark.parametrize("name", [*GAP_METRICS, "global_balance", "spiegelhalter_z", "observed_expected_ratio"])
def test_one_row_has_no_interval(name):
    options = {"n_bins": 1} if "n_bins" in METRICS[name].options else {}
    value = METRICS[name]([1], [0.3], **options)
    with pytest.raises(UnavailableError) as error:
        value.interval()
    assert str(error.value) == "this estimate has no interval: one row has no variation. Pass more rows."
    assert name == "spiegelhalter_z" or value.pvalue is None
    table = evaluate([1], [0.3], metrics={name: options})
    assert math.isnan(table.intervals[name].low)
    assert table.intervals[name].method == f"none: {error.value}"


# 20 rows without an event of probability u have probability (1 − u)²⁰, 2.5 % at the bound
BOUND = 1 - 0.025 ** (1 / 20)


def test_twenty_events_in_twenty_rows():
    y, s = np.ones(20, dtype=int), np.full(20, 0.9)
    balance = global_balance(y, s)
    # z = 0.1 / √(0.09/20); the exact probability of twenty events is 0.9²⁰ = 0.12
    assert balance.pvalue == pytest.approx(math.erfc(0.1 / math.sqrt(0.09 / 20) / math.sqrt(2)), rel=1e-9)
    assert balance.interval().low == pytest.approx(0.1 - BOUND, rel=1e-9)
    assert balance.interval().high == pytest.approx(0.1, rel=1e-9)
    ratio = observed_expected_ratio(y, s).interval()
    assert (ratio.low, ratio.high) == (pytest.approx((1 - BOUND) / 0.9), pytest.approx(1 / 0.9))
    # Σ(y − s)(1 − 2s) changes by 20·u·0.8 at most, over √(20·0.8²·0.09)
    z = spiegelhalter_z(y, s)
    assert z.interval().high - z == pytest.approx(20 * BOUND * 0.8 / math.sqrt(20 * 0.64 * 0.09), rel=1e-9)
    assert z.std_error > 0.5
    for metric in (ece, ace, ici):
        interval = metric(y, s).interval(random_state=0)
        assert (interval.low, interval.high) == (0.0, pytest.approx(0.1 + BOUND, rel=1e-6))
        assert metric(y, s).std_error > 0.05
    # Σ m(change)² is at most Σ m|change|
    assert rmsce(y, s).interval(random_state=0).high == pytest.approx(0.1 + math.sqrt(BOUND), rel=1e-6)
    for metric in (mce, e50, e90, emax):
        with pytest.raises(UnavailableError, match="one outcome only"):
            metric(y, s).interval()


def test_the_median_gap_needs_five_rows_of_each_outcome():
    s = np.linspace(0.9, 0.99, 60)
    for absent in (4, 5):
        y = np.append(np.zeros(absent, dtype=int), np.ones(60 - absent, dtype=int))
        if absent == 5:
            assert e50(y, s).interval(n_resamples=20, random_state=0).high > 0.0
            continue
        assert e90(y, s).interval(n_resamples=20, random_state=0).high > 0.0
        with pytest.raises(UnavailableError, match="4 rows of the rarer outcome tell little"):
            e50(y, s).interval()


def test_one_class_of_three():
    y, s = np.zeros(20, dtype=int), np.tile([0.9, 0.05, 0.05], (20, 1))
    balance = global_balance(y, s, classes=[0, 1, 2])
    # (0.1, −0.05, −0.05) against the covariance (diag s − ssᵀ)/20: χ² = 20 Σ gap²/s = 20(1/90 + 1/20 + 1/20) = 20/9
    assert balance.pvalue == pytest.approx(math.exp(-10 / 9), rel=1e-9)
    assert balance.interval(random_state=0).high == pytest.approx(0.1 + BOUND, rel=1e-6)
    for name in set(SEVERAL_CLASSES) & set(GAP_METRICS):
        interval = METRICS[name](y, s, classes=[0, 1, 2]).interval(random_state=0)
        assert interval.low == 0.0
        chosen = "hull" if name == "confidence_smece" else "scaled"
        assert interval.method == f"bootstrap, {chosen}, widened for the outcome that did not occur"


# ── accuracy, losses, areas of several classes ──────────────────────────────────────────────────────────


def test_ties_of_the_most_likely_classes_are_shared():
    # row 0: two classes tie for the first place, the observed one among them; row 1: three tie for the second
    y, s = [0, 2, 3], [[0.4, 0.4, 0.1, 0.1], [0.4, 0.2, 0.2, 0.2], [0.1, 0.2, 0.3, 0.4]]
    assert accuracy(y, s) == pytest.approx((1 / 2 + 0 + 1) / 3, rel=1e-15)
    assert top_k_accuracy(y, s, k=2) == pytest.approx((1 + 1 / 3 + 1) / 3, rel=1e-15)
    assert top_k_accuracy(y, s, k=3) == pytest.approx((1 + 2 / 3 + 1) / 3, rel=1e-15)
    swapped = np.array(s)[:, ::-1]
    assert accuracy(3 - np.array(y), swapped) == accuracy(y, s)


def test_accuracy_has_the_interval_of_a_rate():
    from scipy.stats import beta

    y = np.repeat([1, 0], [47, 3])
    interval = accuracy(y, np.full(50, 0.9)).interval()
    assert (interval.low, interval.high) == pytest.approx(tuple(beta.ppf([0.025, 0.975], 47.5, 3.5)), rel=1e-9)
    # all right: the exact bound, the rate at which 50 right rows have probability 2.5 %
    perfect = accuracy(np.ones(50, dtype=int), np.full(50, 0.9))
    assert (perfect.interval().low, perfect.interval().high) == (pytest.approx(0.025 ** (1 / 50)), 1.0)
    assert perfect.std_error > 0.0
    guess = accuracy([0, 1, 2, 0], np.full((4, 3), 1 / 3))  # right in one of three whatever happens
    assert (guess.interval().low, float(guess), guess.interval().high) == pytest.approx((1 / 3,) * 3)


def test_losses_are_widened_where_one_outcome_occurs():
    y, p = np.ones(20, dtype=int), np.full(20, 0.9)
    # the other outcome costs −log .1 instead of −log .9, and has at most the probability BOUND
    assert log_loss(y, p).interval().high == pytest.approx(-math.log(0.9) + BOUND * math.log(9))
    assert brier_score(y, p).interval().high == pytest.approx(0.01 + BOUND * 0.8)
    infinite = log_loss([0, 1], [1.0, 0.5])
    assert infinite == math.inf
    with pytest.raises(UnavailableError, match="the loss is infinite"):
        infinite.interval()


def test_macro_auc_of_two_classes_is_the_auc():
    y, s = binary()
    w = np.random.default_rng(0).random(y.size)
    for weight in (None, w):
        one, other = auc(y, s, sample_weight=weight), macro_auc(y, s, sample_weight=weight)
        assert (float(one), one.std_error) == (float(other), other.std_error)


def test_macro_auc_leaves_out_absent_classes_and_says_so():
    y, s = binary()
    law = np.column_stack([0.9 * (1 - s), 0.9 * s, np.full(s.size, 0.1)])
    found = macro_auc(y, law, classes=[0, 1, 2])
    # the areas of the two classes are the same, as are their influences
    assert float(found) == pytest.approx(auc(y, s), rel=1e-12)
    assert found.std_error == pytest.approx(auc(y, s).std_error, rel=1e-12)
    assert found.method == "mean area of one class against the rest, 2 of 3 classes; 1 without rows"


def test_the_error_of_macro_auc_is_that_of_rows_left_out():
    """The jackknife over rows estimates the same variance, to O(1/n)."""
    y, s = three(n=300)
    kept = [np.delete(np.arange(300), i) for i in range(300)]
    values = np.array([float(macro_auc(y[rows], s[rows])) for rows in kept])
    jackknife = math.sqrt(299 / 300 * ((values - values.mean()) ** 2).sum())
    assert macro_auc(y, s).std_error == pytest.approx(jackknife, rel=0.02)


def test_macro_auc_of_separated_and_of_single_rows():
    y = np.repeat([0, 1, 2], [30, 20, 10])
    perfect = macro_auc(y, 0.1 + 0.7 * np.eye(3)[y])
    # ten pairs without a common row in the smallest class
    assert (perfect.interval().low, perfect.interval().high) == (pytest.approx(0.025 ** (1 / 10)), 1.0)
    y, s = three()
    single = np.append(y, 3), np.column_stack([0.9 * np.vstack([s, s[:1]]), np.full(y.size + 1, 0.1)])
    assert macro_auc(*single).std_error > 0.75 * macro_auc(y, s).std_error
    with pytest.raises(UnavailableError, match="every class has a single row"):
        macro_auc([0, 1, 2], [[0.5, 0.2, 0.3], [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]]).interval()


def test_many_classes_are_smoothed_only_on_demand():
    rng = np.random.default_rng(0)
    s = rng.dirichlet(np.ones(51), 300)
    y = (rng.random(300)[:, None] >= s.cumsum(axis=1)[:, :-1]).sum(axis=1)
    table = evaluate(y, s, classes=range(51), n_resamples=5)
    assert "classwise_ici" not in table.names
    assert [one.subject for one in table.findings if one.kind == "unavailable"] == ["classwise_lcs", "classwise_ici"]


def test_scores_without_spread_leave_the_interval_of_the_rate():
    y = np.repeat([0, 1], [97, 3])
    from scipy.stats import beta

    low, high = beta.ppf([0.025, 0.975], 3.5, 97.5)  # Jeffreys
    interval = global_balance(y, np.full(100, 0.05)).interval()
    assert (interval.low, interval.high) == (pytest.approx(low - 0.05), pytest.approx(high - 0.05))


def test_many_rows_have_the_interval_of_the_central_limit_theorem():
    y, s = binary(40_000)
    balance, ratio = global_balance(y, s), observed_expected_ratio(y, s)
    interval = balance.interval()
    # Jeffreys' ends are off by O(1/n)
    assert (interval.high - interval.low) / (2 * 1.959964 * balance.std_error) == pytest.approx(1.0, abs=1e-3)
    interval = ratio.interval()
    error = np.sqrt(((y - ratio * s) ** 2).mean() / y.size) / s.mean()
    assert math.log(interval.high / interval.low) / (2 * 1.959964 * error / ratio) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("weight", [None, np.linspace(1, 2, 40)])
@pytest.mark.filterwarnings("ignore::scoreprism.exceptions.ScoreOrderWarning")  # reversed scores are meant
def test_auc_of_separated_classes_has_an_interval(weight):
    y, s = np.repeat([0, 1], 20), np.linspace(0.1, 0.9, 40)
    for law, value in ((s, 1.0), (1 - s, 0.0), (np.full(40, 0.3), 0.5)):
        area = auc(y, law, sample_weight=weight)
        interval = area.interval()
        assert area == pytest.approx(value, abs=1e-12)
        assert area <= 1.0
        assert area.std_error > 0.0
        assert 0.0 <= interval.low <= area <= interval.high <= 1.0
        if weight is None:
            # twenty pairs without a common row, all alike
            assert interval.high - interval.low == pytest.approx(BOUND, rel=1e-9)


@pytest.mark.parametrize("name", GAP_METRICS)
def test_ends_are_possible_values(name):
    rng = np.random.default_rng(3)
    y, s = data_for(name, n=20)
    y = rng.permutation(y)  # far from what the scores say
    value = METRICS[name](y, s)
    for method in ("scaled", "hull", "basic", "percentile"):
        interval = value.interval(0.999, n_resamples=100, random_state=0, method=method)
        assert 0.0 <= interval.low <= interval.high <= 1.0


def test_classwise_ace_is_the_mean_over_classes_where_bins_are_empty():
    rng = np.random.default_rng(0)
    s = rng.dirichlet([0.3, 3.0, 9.0], 60)  # the first class has few bins of equal width, the last has most
    y = (rng.random(60)[:, None] >= s.cumsum(axis=1)[:, :-1]).sum(axis=1)
    options = {"strategy": "uniform", "n_bins": 10}
    alone = [ace((y == k).astype(int), s[:, k], classes=[0, 1], **options) for k in range(3)]
    together = METRICS["classwise_ace"](y, s, classes=[0, 1, 2], **options)
    assert together == pytest.approx(np.mean(alone), rel=1e-12)


def test_few_rows_of_a_predicted_class_have_the_same_bins():
    # two rows whose best class is the third, confidence 0.5 and 0.9: bins (0.4, 0.5] and (0.8, 0.9] of ten
    s = np.array([[0.7, 0.2, 0.1]] * 10 + [[0.25, 0.25, 0.5], [0.05, 0.05, 0.9]])
    y = np.array([0] * 7 + [1] * 3 + [0, 2])
    assert top_label_ece(y, s, n_bins=10) == pytest.approx((0.5 + 0.1) / 12, rel=1e-12)


def test_no_event_has_a_ratio_but_no_interval():
    ratio = observed_expected_ratio([0, 0], [0.1, 0.2])
    assert ratio == 0.0
    with pytest.raises(UnavailableError) as error:
        ratio.interval()
    assert str(error.value) == (
        "this estimate has no interval: no event was observed, and the logarithm of 0 is infinite. Use global_balance."
    )


def test_what_had_probability_zero_makes_spiegelhalter_infinite():
    z = spiegelhalter_z([1, 0, 1], [0.0, 0.4, 0.6])
    assert (float(z), z.pvalue) == (math.inf, 0.0)


def test_clip_lets_log_odds_be_finite():
    y, s = binary()
    s[0], s[1] = 0.0, 1.0
    assert math.isfinite(calibration_slope(y, s, clip=1e-3))
    assert calibration_slope(y, s, clip=1e-3) == calibration_slope(y, np.clip(s, 1e-3, 1 - 1e-3))


def test_an_estimate_of_nothing_has_no_interval():
    with pytest.raises(UnavailableError):
        _ = Estimate(0.5, "hand-made").std_error


# ── intervals ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_interval_of_a_calibrated_score_reaches_zero_where_the_others_do_not():
    rng = np.random.default_rng(1)  # one data set in twenty or so would miss, as it should
    s = rng.random(500)
    y = (rng.random(500) < s).astype(int)
    for metric in (ece, ici, emax, e90, lcs, mce):
        value = metric(y, s)
        scaled, percentile, hull = (
            value.interval(n_resamples=200, random_state=0, method=m) for m in ("scaled", "percentile", "hull")
        )
        assert scaled.low == 0.0 < value
        assert percentile.low > 0.0
        assert (hull.low, hull.high) == (0.0, max(scaled.high, percentile.high))


@pytest.mark.statistical
@pytest.mark.parametrize("law", ["calibrated", "mild", "strong"])
def test_coverage(law):
    from benchmarks.metric_coverage import DEFAULT, GAPS, LAWS, WALD, one, truths

    known = truths(LAWS[law])
    draws = [one(LAWS[law], 200, seed) for seed in range(200)]
    for name in (*GAPS, *WALD):
        low, high, _ = np.array([d[name, DEFAULT.get(name, "scaled") if name in GAPS else "analytic"] for d in draws]).T
        covered = ((low <= known[name] + 1e-12) & (known[name] - 1e-12 <= high)).mean()
        # docs/metrics.md: 0.90 at least with 300 data sets; three standard errors of 200 below
        assert covered > 0.90 - 3 * math.sqrt(0.09 / 200), name


@pytest.mark.statistical
def test_coverage_where_one_outcome_is_often_absent():
    from benchmarks.metric_coverage import SPARSE, sparse_hits

    for label, (n, law) in list(SPARSE.items())[:4]:
        names = ("global_balance", "observed_expected_ratio", "ece", "ici", "lcs")
        for name, found in sparse_hits(n, law, names, 100).items():
            # three standard errors of 100 data sets below 95 %
            assert np.mean(found) > 0.95 - 3 * math.sqrt(0.05 * 0.95 / 100), (label, name)


def test_predicted_labels_in_place_of_probabilities_are_noticed():
    with pytest.warns(HardLabelsWarning, match="predict_proba"):
        scoreprism.metrics.ece([0, 1] * 20, [0, 1] * 20)


def _plain_loess(s, y):
    """Local quadratics by numpy's least squares, one point after the other."""
    out = np.empty(s.size)
    for i, a in enumerate(s):
        distance = np.abs(s - a)
        reach = np.sort(distance)[math.ceil(0.75 * s.size) - 1]
        if reach == 0.0:
            out[i] = y[distance == 0.0].mean()
            continue
        near = distance <= reach
        u = (s[near] - a) / reach
        root = np.sqrt(np.clip(1 - np.abs(u) ** 3, 0, None) ** 3)
        design = np.stack([np.ones(u.size), u, u * u], axis=1) * root[:, None]
        out[i] = np.linalg.lstsq(design, y[near] * root, rcond=1e-7)[0][0]
    return out


@pytest.mark.filterwarnings("error")
def test_classwise_ici_of_a_naive_bayes():
    """Scores of a naive Bayes are 1e-300 and 1 in the same class: neighbourhoods as narrow as that divide by it."""
    X, y = load_digits(return_X_y=True)
    X, fresh, y, outcome = train_test_split(X, y, random_state=0)
    law = GaussianNB().fit(X, y).predict_proba(fresh)
    table = evaluate(outcome, law, metrics=["classwise_ici", "classwise_lcs"], n_resamples=50, random_state=0)
    gaps = [np.abs(_plain_loess(law[:, k], (outcome == k).astype(float)) - law[:, k]).mean() for k in range(10)]
    assert table.terms["classwise_ici"] == pytest.approx(np.mean(gaps), abs=1e-9)
    for name, found in table.intervals.items():
        assert 0.0 <= found.low <= table.terms[name] <= found.high < 0.1
        assert 0.0 < table.std_error[name] < 0.05


@pytest.mark.filterwarnings("error")
def test_a_far_score_does_not_change_a_narrow_neighbourhood():
    """Eighty subnormal scores beside 0.5: what lies beyond the reach has no weight, however far it is."""
    y = np.random.default_rng(0).random(81).round()
    wide, narrow = (np.append(np.arange(1.0, 81.0) * 2.0**power, 0.5) for power in (-60, -1060))
    at_wide, at_narrow = (LocalRegression().fit_at(s, y, np.ones(81), s[:80]) for s in (wide, narrow))
    np.testing.assert_allclose(at_narrow, at_wide, atol=1e-12)


def test_a_kernel_is_named_in_any_case():
    """By definition: the same kernel, and not the other one."""
    y, s = data_for("ici")
    values = [
        float(METRICS["ici"](y, s, smoother=LocalRegression(kernel=name))) for name in ("tricube", "Tricube", "uniform")
    ]
    assert values[0] == values[1] != values[2]
