"""Standard errors of parametric maps: other packages, closed forms, derivatives of refits, coverage."""

import json
import math
import pickle

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import chdtrc, expit, logit
from sklearn.base import clone

from scoreprism.calibrators import (
    BetaCalibrator,
    DirichletCalibrator,
    MatrixScalingCalibrator,
    PlattCalibrator,
    PolynomialCalibrator,
    TemperatureCalibrator,
    VectorScalingCalibrator,
    get_calibrator,
)
from scoreprism.exceptions import HardLabelsWarning, InputError
from scoreprism.inference import MAP_SUMMARIES, map_inference


def binary(n=300, seed=0, a=0.4, b=0.6):
    rng = np.random.default_rng(seed)
    x = 1.2 * rng.normal(size=n)
    return (rng.random(n) < expit(a + b * x)).astype(int), expit(x)


def three(n=300, seed=1, power=1.7):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet([2, 2, 2], n)
    y = (rng.random(n)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    sharp = law**power
    return y, sharp / sharp.sum(axis=1, keepdims=True)


# ── other packages ──────────────────────────────────────────────────────────────────────────────────


def columns(name, s):
    return {
        "platt": np.column_stack([np.ones(s.size), logit(s)]),
        "temperature": logit(s)[:, None],
        "beta": np.column_stack([np.log(s), -np.log1p(-s), np.ones(s.size)]),
    }[name]


@pytest.mark.parametrize("name", ["platt", "temperature", "beta"])
def test_statsmodels(name):
    # statsmodels 0.14: GLM(Binomial).fit(cov_type="HC0" | "cluster" | "nonrobust")
    sm = pytest.importorskip("statsmodels.api")
    y, s = binary(a=0.1, b=0.9)
    groups = np.arange(y.size) // 5
    model = sm.GLM(y, columns(name, s), family=sm.families.Binomial())
    fits = {
        "robust": model.fit(tol=1e-13, cov_type="HC0"),
        "model": model.fit(tol=1e-13),
        "cluster": model.fit(tol=1e-13, cov_type="cluster", cov_kwds={"groups": groups}),
    }
    plain = map_inference(y, s, calibrator=name, small_sample=False)
    cluster = map_inference(y, s, calibrator=name, groups=groups)
    found = {"robust": plain.covariance, "model": plain.model_covariance, "cluster": cluster.covariance}
    for key, fit in fits.items():
        theta, cov = fit.params, np.asarray(fit.cov_params())
        if name == "temperature":  # −log T = log β: the delta method by hand
            np.testing.assert_allclose(plain.terms["temperature"], 1 / theta[0], rtol=1e-6)
            np.testing.assert_allclose(found[key], cov / theta**2, rtol=1e-6)
            continue
        np.testing.assert_allclose(list(plain.terms.values()), theta, atol=1e-6)
        np.testing.assert_allclose(found[key], cov, atol=1e-6, rtol=1e-6)
    assert cluster.factor == pytest.approx(60 / 59 * 299 / (300 - len(plain.names)))


def test_identity_test_is_statsmodels_wald_test():
    sm = pytest.importorskip("statsmodels.api")
    y, s = binary(a=0.1, b=0.9)
    fit = sm.GLM(y, columns("platt", s), family=sm.families.Binomial()).fit(tol=1e-13, cov_type="HC0")
    peer = fit.wald_test((np.eye(2), [0, 1]), scalar=True, use_f=False)
    test = map_inference(y, s, calibrator="platt", small_sample=False).test
    assert test.statistic == pytest.approx(float(peer.statistic), rel=1e-5)
    assert test.pvalue == pytest.approx(float(peer.pvalue), rel=1e-5)
    assert test.pvalue == pytest.approx(chdtrc(2, test.statistic), rel=1e-12)
    assert test.hypothesis == "the map is the identity: intercept = 0, slope = 1"


def test_weights_are_clusters_of_copies():
    # a row of weight w is w copies that move together
    sm = pytest.importorskip("statsmodels.api")
    y, s = binary()
    w = np.random.default_rng(0).integers(0, 4, y.size)
    rows = np.repeat(np.arange(y.size), w)
    peer = sm.GLM(y[rows], columns("platt", s[rows]), family=sm.families.Binomial()).fit(
        tol=1e-13, cov_type="cluster", cov_kwds={"groups": rows, "use_correction": False}
    )
    found = map_inference(y, s, calibrator="platt", sample_weight=w, small_sample=False)
    np.testing.assert_allclose(found.covariance, peer.cov_params(), rtol=1e-6)
    assert found.n == (w > 0).sum()
    scaled = map_inference(y, s, calibrator="platt", sample_weight=7.0 * w, small_sample=False)
    np.testing.assert_allclose(scaled.covariance, found.covariance, rtol=1e-9)
    np.testing.assert_allclose(scaled.model_covariance, found.model_covariance, rtol=1e-9)


# ── closed forms ────────────────────────────────────────────────────────────────────────────────────


def saturated():
    """Two scores, ¼ and ¾, with 30 of 80 and 60 of 120 events: Platt's map fits both rates."""
    s = np.repeat([0.25, 0.75], [80, 120])
    return np.concatenate([np.arange(80) < 30, np.arange(120) < 60]).astype(int), s


def test_saturated_map_in_closed_form():
    y, s = saturated()
    found = map_inference(y, s, calibrator="platt", small_sample=False)
    rates, counts = np.array([30 / 80, 60 / 120]), np.array([80, 120])
    odds, var, end = logit(rates), 1 / (counts * rates * (1 - rates)), math.log(3)
    assert found.terms["intercept"] == pytest.approx(odds.mean(), abs=1e-8)
    assert found.terms["slope"] == pytest.approx((odds[1] - odds[0]) / (2 * end), abs=1e-8)
    assert found.std_errors["intercept"] == pytest.approx(math.sqrt(var.sum()) / 2, rel=1e-7)
    assert found.std_errors["slope"] == pytest.approx(math.sqrt(var.sum()) / (2 * end), rel=1e-7)
    band = found.calibrate([0.25, 0.75])
    z = 1.959963984540054
    np.testing.assert_allclose(band.calibrated, rates, atol=1e-9)
    np.testing.assert_allclose(band.low, expit(odds - z * np.sqrt(var)), atol=1e-7)
    np.testing.assert_allclose(band.high, expit(odds + z * np.sqrt(var)), atol=1e-7)
    # ICI = Σ share |rate − s|: binomial noise of the rates, and multinomial noise of the shares
    share, gap = counts / 200, np.abs(rates - [0.25, 0.75])
    ici = share @ gap
    summary = found.summary("ici", method="delta")
    assert summary.plugin == pytest.approx(ici, abs=1e-9)
    noise = share**2 @ (rates * (1 - rates) / counts) + (share @ (gap - ici) ** 2) / 200
    assert summary.std_error == pytest.approx(math.sqrt(noise), rel=1e-7)
    assert summary.interval.high == pytest.approx(ici + z * math.sqrt(noise), rel=1e-7)


def test_summaries_are_what_they_say():
    y, s = binary()
    found = map_inference(y, s, calibrator="platt")
    g = found.calibrate(s).calibrated
    np.testing.assert_allclose(g, found.calibrator.calibrate(s), atol=1e-12)
    expected = {"ici": np.abs(g - s).mean(), "lcs": ((g - s) ** 2).mean(), "rms": math.sqrt(((g - s) ** 2).mean())}
    for kind, value in expected.items():
        assert found.summary(kind).plugin == pytest.approx(value, rel=1e-12)
    kl = (g * np.log(g / s) + (1 - g) * np.log((1 - g) / (1 - s))).mean()
    assert found.summary("reliability").plugin == pytest.approx(kl, rel=1e-10)
    for y_, s_ in (binary(), three()):
        one = map_inference(y_, s_, calibrator="temperature")
        brier, lcs = one.summary("reliability", loss="brier"), one.summary("lcs")
        assert brier.plugin == pytest.approx(lcs.plugin, rel=1e-12)
        assert brier.std_error == pytest.approx(lcs.std_error, rel=1e-9)


def test_bias_of_squares_is_the_mean_variance_of_the_map():
    # second order: E(ĝ − s)² = (g − s)² + Var ĝ + (g − s) · curvature; at the identity only the variance counts
    y, s = binary(4000, 3, 0.0, 1.0)
    found = map_inference(y, s, calibrator="platt")
    p = found.calibrate(s).calibrated
    x = np.column_stack([np.ones(s.size), logit(s)])
    var = np.einsum("np,pq,nq->n", x, found.covariance, x) * (p * (1 - p)) ** 2
    assert found.summary("lcs").bias == pytest.approx(var.mean(), rel=0.05)


# ── derivatives of refits ───────────────────────────────────────────────────────────────────────────

MAPS = [
    (PlattCalibrator(), 2),
    (PlattCalibrator(smooth_targets=True), 2),
    (TemperatureCalibrator(), 2),
    (TemperatureCalibrator(), 3),
    (BetaCalibrator(), 2),
    (BetaCalibrator(parameters="ab"), 2),
    (BetaCalibrator(parameters="am"), 2),
    (VectorScalingCalibrator(), 2),
    (VectorScalingCalibrator(), 3),
    (MatrixScalingCalibrator(), 3),
    (DirichletCalibrator(), 3),
    (PolynomialCalibrator(), 2),
]


def parameters(found):
    theta = np.array(list(found.terms.values()))
    return -np.log(theta) if "temperature" in found.names else theta


@pytest.mark.parametrize(("calibrator", "k"), MAPS, ids=str)
def test_influence_is_the_derivative_of_the_refit_by_a_weight(calibrator, k):
    # dθ̂/dw_i = A⁻¹ψ_i holds for whatever equation is solved: with a ridge, or with Platt's targets
    y, s = (binary if k == 2 else three)(60)
    found = map_inference(y, s, calibrator=clone(calibrator))
    step = 1e-3
    for i in (0, 7, 31):
        ends = []
        for sign in (1.0, -1.0):
            w = np.ones(y.size)
            w[i] += sign * step
            if getattr(calibrator, "smooth_targets", False):
                w *= y.size / w.sum()  # the targets know how many rows there are
            ends.append(parameters(map_inference(y, s, calibrator=clone(calibrator), sample_weight=w)))
        slope = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(
            found._sandwich.influence[i], slope, rtol=5e-3, atol=1e-4
        )  # flat directions are fitted to few digits


@pytest.mark.parametrize(("name", "k"), [("platt", 2), ("temperature", 3), ("vector-scaling", 3)])
def test_standard_error_is_that_of_the_infinitesimal_jackknife(name, k):
    y, s = (binary if k == 2 else three)(40)
    step, influence = 1e-3, []
    for i in range(y.size):
        ends = []
        for sign in (1.0, -1.0):
            w = np.ones(y.size)
            w[i] += sign * step
            moved = map_inference(y, s, calibrator=name, sample_weight=w)
            ends.append([moved.summary(kind, method="delta").plugin for kind in MAP_SUMMARIES])
        influence.append(np.subtract(*ends) / (2 * step))
    found = map_inference(y, s, calibrator=name, small_sample=False)
    errors = [found.summary(kind, method="delta").std_error for kind in MAP_SUMMARIES]
    np.testing.assert_allclose(errors, np.sqrt(np.sum(np.square(influence), axis=0)), rtol=5e-3)


@pytest.mark.parametrize(
    "name", ["platt", "temperature", "beta", "vector-scaling", "matrix-scaling", "dirichlet", "polynomial"]
)
def test_groups_of_single_rows_are_rows(name):
    y, s = three(200) if name not in ("platt", "beta") else binary(200)
    alone = map_inference(y, s, calibrator=name, small_sample=False)
    single = map_inference(y, s, calibrator=name, groups=np.arange(y.size)[::-1], small_sample=False)
    np.testing.assert_allclose(alone.covariance, single.covariance, atol=1e-12)
    assert single.interval(alone.names[0]).high > alone.interval(alone.names[0]).high  # Student's quantile
    for kind in MAP_SUMMARIES:
        assert single.summary(kind).std_error == pytest.approx(alone.summary(kind).std_error, rel=1e-9)


# ── near the identity ───────────────────────────────────────────────────────────────────────────────


def test_identity_not_rejected_is_said():
    y, s = binary(300, 4, 0.0, 1.0)
    found = map_inference(y, s, calibrator="platt")
    assert found.test.pvalue > 0.05
    profile, delta = found.summary("ici"), found.summary("ici", method="delta")
    assert profile.degenerate
    assert profile.interval.low == 0.0
    assert [(one.kind, one.facts["of"]) for one in profile.findings] == [("assumption", "near_profile")]
    assert profile.notes == (
        "The identity map is not rejected at 5 %: the lower end is 0, and the standard error is no guide.",
    )
    assert delta.notes[0].startswith("The identity map is not rejected at 5 %: the delta method breaks down there")


@pytest.mark.parametrize("name", ["platt", "temperature", "beta"])
def test_profile_agrees_with_delta_far_from_the_identity(name):
    y, s = binary(6000, 5, 0.0, 0.5)
    found = map_inference(y, s, calibrator=name)
    for kind in MAP_SUMMARIES:
        a, b = found.summary(kind).interval, found.summary(kind, method="delta").interval
        assert (a.low, a.high) == pytest.approx((b.low, b.high), abs=0.06 * (b.high - b.low))
        assert not found.summary(kind).degenerate
        assert found.summary(kind).notes == ()


def test_the_profile_holds_the_extremes_over_the_ellipsoid():
    """Brute force: E|g(S) − S| of the maps on the Wald ellipsoid in 2000 directions; sampling of the scores adds to it."""
    y, s = binary(2000, 5, 0.3, 0.7)
    found = map_inference(y, s, calibrator="platt")
    theta, odds = np.array(list(found.terms.values())), logit(s)
    angles = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    maps = (
        theta + 1.959964 * np.stack([np.cos(angles), np.sin(angles)], axis=1) @ np.linalg.cholesky(found.covariance).T
    )
    gaps = np.abs(expit(maps[:, :1] + maps[:, 1:] * odds) - s)
    values = gaps.mean(axis=1)
    interval, estimate = found.summary("ici").interval, np.abs(expit(theta[0] + theta[1] * odds) - s)
    sampling = 1.959964 * estimate.std() / np.sqrt(s.size)
    assert interval.low <= values.min() + 1e-6
    assert interval.high >= values.max() - 1e-6
    # sides of two sources are put together as squares, so they are at most the sum of both
    assert interval.low >= values.min() - sampling - 1e-3
    assert interval.high <= values.max() + sampling + 1e-3


@pytest.mark.statistical
@pytest.mark.parametrize("index", range(9))
def test_coverage(index):
    from benchmarks.map_inference import LAWS, coverage

    for name, (_, _, hit, _) in coverage(LAWS[index], 200, 400).items():
        if name != "test" and not name.endswith("delta"):
            assert 0.89 <= hit <= 0.998, name


# ── the result ──────────────────────────────────────────────────────────────────────────────────────


def test_result():
    y, s = binary()
    found = map_inference(
        pd.Series(np.where(y == 1, "yes", "no")),
        pd.Series(s),
        calibrator="platt",
        pos_label="yes",
        confidence_level=0.9,
    )
    assert isinstance(found.to_frame(), pd.DataFrame)
    assert list(found.to_frame("polars").columns) == [
        "parameter", "estimate", "std_error", "model_std_error", "low", "high", "identity",
    ]  # fmt: skip
    assert json.loads(json.dumps(found.to_dict()))["n"] == 300
    assert json.loads(json.dumps(found.summary().to_dict()))["kind"] == "ici"
    assert "90 % intervals" in repr(found)
    assert "Identity: p =" in found._repr_html_()
    assert repr(found.summary()).startswith("ici 0.")
    assert pickle.loads(pickle.dumps(found)).terms == found.terms  # noqa: S301
    wide = found.interval("slope", 0.99)
    assert wide.low < found.interval("slope").low
    band = found.calibrate(pl.Series([0.2, 0.5]), confidence_level=0.5)
    assert band.to_frame().columns == ["score", "calibrated", "low", "high"]
    assert band.to_dict()["confidence_level"] == 0.5
    np.testing.assert_allclose(found.calibrate(np.array([[0.8, 0.2], [0.5, 0.5]]), confidence_level=0.5).low, band.low)


def test_three_classes():
    y, s = three()
    names = np.array(["a", "b", "c"])[y]
    frame = pl.DataFrame({"c": s[:, 2], "a": s[:, 0], "b": s[:, 1]})  # columns go by name
    found = map_inference(names, frame, calibrator="vector-scaling")
    assert found.names[:3] == ("slope a", "slope b", "slope c") or set(found.names[:3]) == {
        "slope a",
        "slope b",
        "slope c",
    }
    assert found.notes == ("The ridge is part of the equation: intervals are of the penalised parameters.",)
    band = found.calibrate(s)
    np.testing.assert_allclose(band.calibrated.sum(axis=1), 1, atol=1e-12)
    assert ((band.low < band.calibrated) & (band.calibrated < band.high)).all()
    assert band.to_frame().shape == (300, 12)
    temperature = map_inference(y, s, calibrator="temperature")
    assert temperature.interval("temperature").low < 1.7 < temperature.interval("temperature").high
    assert temperature.test.pvalue < 0.01


def test_fitted_calibrators_come_with_their_rows():
    y, s = binary()
    fitted = PlattCalibrator().fit(s, y)
    assert map_inference(y, s, calibrator=fitted).calibrator is fitted
    with pytest.raises(InputError, match=r"must come with the rows it was fitted on; got a PlattCalibrator that is"):
        map_inference(*binary(300, 9), calibrator=fitted)
    with pytest.raises(InputError, match=r"must have the classes of the rows; got 2 classes and 3 in y_proba"):
        map_inference(*three(), calibrator=TemperatureCalibrator().fit(s, y))


def test_a_beta_map_at_its_bound_says_so():
    rng = np.random.default_rng(0)
    s = rng.random(400)
    y = (rng.random(400) < np.where(s < 0.5, 0.5, s)).astype(int)
    found = map_inference(y, s, calibrator="beta")
    assert found.names == ("b", "c")
    assert found.notes == ("Fixed at the bound 0: a. The other parameters are estimated under this condition.",)


def test_zeros_and_ones():
    y, s = binary()
    s[:3], y[:3] = 0.0, [0, 0, 1]
    found = map_inference(y, s, calibrator="platt")
    assert found.notes == ("3 rows with a score of 0 or 1 were read as the calibrator reads such scores.",)
    assert math.isinf(found.summary("reliability").plugin)
    assert math.isnan(found.summary("reliability").interval.low)
    for result in (found, found.summary("reliability"), found.calibrate([0.0, 0.5, 1.0])):
        json.dumps(result.to_dict(), allow_nan=False)
    assert found.summary("reliability").notes[0].startswith("Infinite: a score of exactly 0 or 1 is recalibrated")
    assert math.isfinite(found.summary("ici").std_error)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda y, s: map_inference(y, s, calibrator="isotonic"), "one of platt, temperature, beta, vector-scaling"),
        (
            lambda y, s: map_inference(y, s, calibrator=get_calibrator("platt", kind="logit")),
            "must take probabilities; got kind='logit'",
        ),
        (
            lambda y, s: map_inference(s > 0.5, s, calibrator="platt"),
            "classes that overlap, because parameters are infinite otherwise",
        ),
        (
            lambda y, s: map_inference(y, np.full(300, 0.3), calibrator="platt"),
            "300 rows with 1 different scores. Use a map with fewer",
        ),
        (
            lambda y, s: map_inference(y, s, calibrator="platt", groups=np.zeros(300)),
            "groups must be at least two; got one group",
        ),
        (
            lambda y, s: map_inference(y, s, calibrator="platt").summary("ece"),
            "kind must be one of ici, lcs, rms, reliability; got 'ece'",
        ),
        (
            lambda y, s: map_inference(y, s, calibrator="platt").interval("T"),
            "name must be one of intercept, slope; got 'T'",
        ),
        (
            lambda y, s: map_inference(y, s, calibrator="platt").calibrate(three()[1]),
            "y_proba must have 2 classes, as in the fit; got 3",
        ),
        (
            lambda y, s: map_inference(y, s, calibrator="platt", confidence_level=95),
            "confidence_level must be a confidence level between 0 and 1; got 95",
        ),
        (lambda y, s: map_inference(*three(), calibrator="platt"), "PlattCalibrator must get two classes"),
        (
            lambda y, s: map_inference(*three(), calibrator="temperature").plot(),
            "must be of two classes; got 3 classes",
        ),
        (lambda y, s: map_inference(np.where(y, "b", "a"), s, calibrator="platt"), "pos_label"),
        (
            lambda y, s: map_inference(y, s, calibrator="platt", small_sample="no"),
            "small_sample must be True or False; got 'no'",
        ),
        (
            lambda y, s: map_inference(pd.Series(y), pd.Series(s, index=np.arange(300)[::-1]), calibrator="platt"),
            "y_true and y_proba must have their rows in the same order",
        ),
        (
            lambda y, s: map_inference(
                pd.Series(y), s, calibrator="platt", groups=pd.Series(range(300), range(299, -1, -1))
            ),
            "y_true and groups must have their rows in the same order",
        ),
        (
            lambda y, s: map_inference(
                pd.Series(y), s, calibrator="platt", sample_weight=pd.Series(s, range(299, -1, -1))
            ),
            "y_true and sample_weight must have their rows in the same order",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError) as caught:
        call(*binary())
    assert message in str(caught.value)


def test_plot():
    y, s = binary()
    display = map_inference(y, s, calibrator="platt").plot(confidence_level=0.8)
    (band,) = display.ax_.collections
    inside = band.get_paths()[0].vertices
    assert inside[:, 0].min() == pytest.approx(s.min())
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["platt", "80 % at each score"]
    plt.close(display.figure_)


def test_metrics_of_the_logistic_recalibration_agree():
    from scoreprism.metrics import calibration_intercept, calibration_slope

    y, s = binary()
    found = map_inference(y, s, calibrator="platt", small_sample=False)
    assert found.std_errors["slope"] == pytest.approx(calibration_slope(y, s).std_error, rel=1e-6)
    assert found.std_errors["intercept"] == pytest.approx(calibration_intercept(y, s).std_error, rel=1e-6)


def test_arguments_in_another_order_few_rows_and_labels_are_noticed():
    rng = np.random.default_rng(0)
    s = rng.uniform(0.1, 0.9, 40)
    y = (rng.random(40) < s).astype(int)
    with pytest.raises(InputError, match="calibrator must be one of"):
        map_inference(s, "platt", calibrator=y)
    with pytest.raises(
        InputError, match=r"got the calibrator 'platt'. Call map_inference\(y_true, y_proba, calibrator=…"
    ):
        map_inference("platt", y, calibrator=s)
    few = map_inference(y, s, calibrator="platt")
    assert [(one.kind, one.n) for one in few.findings] == [("few_rows", 40)]
    assert few.notes[-1] == "Only 40 rows: large-sample errors and tests are too optimistic."
    hard = np.tile([0.0, 1.0], 100)
    outcome = np.where(rng.random(200) < 0.8, hard, 1 - hard).astype(int)
    with pytest.warns(HardLabelsWarning, match="are these predicted labels"):
        map_inference(outcome, hard, calibrator="platt")
