"""Each map against something nobody here wrote: other packages, exact fractions, brute force, independent optimisers."""

import warnings
from fractions import Fraction

import clarabel
import numpy as np
import pytest
from betacal import BetaCalibration
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.interpolate import BSpline, CubicSpline
from scipy.optimize import isotonic_regression, minimize, minimize_scalar
from scipy.special import expit, log_softmax, logit, logsumexp, softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from scoreprism import decompose
from scoreprism._kernels.quadratic_program import solve_qp
from scoreprism._sample.folds import random_folds
from scoreprism.calibrators import (
    BetaCalibrator,
    BinEffectsCalibrator,
    BinningCalibrator,
    DirichletCalibrator,
    IsotonicCalibrator,
    KernelCalibrator,
    MatrixScalingCalibrator,
    MonotoneSplineCalibrator,
    NaturalSplineCalibrator,
    OneVsRestCalibrator,
    PlattCalibrator,
    PolynomialCalibrator,
    SelectedCalibrator,
    SplineCalibrator,
    StructuredMatrixCalibrator,
    TemperatureCalibrator,
    VectorScalingCalibrator,
    VennAbersCalibrator,
    from_json,
    get_calibrator,
)
from scoreprism.exceptions import ContradictedOrderWarning, InputError, ScoreOrderWarning

#: Some laws here fall on purpose, and random ones may.
pytestmark = pytest.mark.filterwarnings("ignore::scoreprism.exceptions.ScoreOrderWarning")


def sample(n=800, seed=0, power=1.5):
    rng = np.random.default_rng(seed)
    s = rng.beta(1.2, 1.2, n)
    return s, (rng.random(n) < s**power).astype(int)


def three_classes(n=800, seed=0, sharpness=1.5):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet([1.0, 1.5, 2.0], n)
    y = (rng.random(n)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    return law**sharpness / (law**sharpness).sum(axis=1, keepdims=True), y


# ── Platt ───────────────────────────────────────────────────────────────────────────────────────────


def test_platt_reaches_the_minimum_where_libsvm_stops_short():
    """
    Decision values [5, −4, 1], labels [1, −1, −1]: the minimiser of Platt's smoothed log loss.

    LIBSVM and scikit-learn's test print −0.20261354, 0.65236315: they stop at a gradient of 1e-5. The digits here
    are the zero of the gradient to 40 digits (mpmath.findroot).
    """
    platt = PlattCalibrator(smooth_targets=True, kind="logit").fit([5, -4, 1], [1, -1, -1])
    assert -platt.slope_ == pytest.approx(-0.2026144896, abs=1e-10)
    assert -platt.intercept_ == pytest.approx(0.6523666390, abs=1e-10)
    f, t = np.array([5.0, -4.0, 1.0]), np.array([2 / 3, 1 / 4, 1 / 4])
    p = expit(platt.slope_ * f + platt.intercept_)
    np.testing.assert_allclose([(p - t) @ f, (p - t).sum()], 0, atol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
def test_platt_is_unpenalised_logistic_regression_on_the_logit(weighted):
    s, y = sample()
    weight = np.random.default_rng(1).random(s.size) if weighted else None
    peer = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=200)
    peer.fit(logit(s)[:, None], y, sample_weight=weight)
    ours = PlattCalibrator().fit(s, y, weight)
    np.testing.assert_allclose([ours.slope_, ours.intercept_], [peer.coef_[0, 0], peer.intercept_[0]], rtol=1e-8)
    np.testing.assert_allclose(ours.calibrate(s), peer.predict_proba(logit(s)[:, None])[:, 1], atol=1e-9)


def test_platt_under_separation_uses_smoothed_targets():
    s, y = np.linspace(0.1, 0.9, 20), (np.linspace(0.1, 0.9, 20) > 0.5).astype(int)
    plain, smooth = PlattCalibrator().fit(s, y), PlattCalibrator(smooth_targets=True).fit(s, y)
    assert plain.separated_
    assert (plain.slope_, plain.intercept_) == (smooth.slope_, smooth.intercept_)


def test_many_rows_start_from_few_and_end_at_the_same_place():
    s, y = sample(100_000)
    ours = PlattCalibrator().fit(s, y)
    x = logit(s)
    p = expit(ours.slope_ * x + ours.intercept_)
    np.testing.assert_allclose([(p - y).mean(), ((p - y) * x).mean()], 0, atol=1e-11)


# ── temperature ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_temperature_equals_an_independent_optimiser(power):
    rng = np.random.default_rng(0)
    q = rng.beta(1, 1, 2000)
    y = (rng.random(2000) < q).astype(int)
    x = power * logit(q)

    def slope(t):
        return ((expit(x / t) - y) @ x) / 2000

    from scipy.optimize import brentq

    fitted = TemperatureCalibrator().fit(expit(x), y)
    assert fitted.temperature_ == pytest.approx(brentq(slope, 0.05, 20, xtol=1e-14), rel=1e-8)


def test_temperature_of_three_classes_equals_an_independent_optimiser():
    p, y = three_classes()
    logs = np.log(p)

    def loss(t):
        z = logs / t
        return np.mean(np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y])

    peer = minimize_scalar(loss, bounds=(0.2, 5), method="bounded", options={"xatol": 1e-12})
    assert TemperatureCalibrator().fit(p, y).temperature_ == pytest.approx(peer.x, rel=1e-7)


@given(st.integers(0, 10_000), st.integers(4, 60), st.floats(0.1, 8))
def test_temperature_keeps_the_arg_max_and_never_worsens_its_loss(seed, n, sharpness):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.7, 1, 2], n) ** sharpness + 1e-12
    p /= p.sum(axis=1, keepdims=True)
    y = np.append(rng.integers(0, 3, n - 3), [0, 1, 2])
    law = TemperatureCalibrator().fit(p, y).predict_proba(p)
    np.testing.assert_array_equal(law.argmax(axis=1), p.argmax(axis=1))
    loss = [-np.log(v[np.arange(n), y]).mean() for v in (law, p)]
    assert loss[0] <= loss[1] + 1e-12
    s, binary = p[:, 1] / (p[:, 0] + p[:, 1]), (y == 1).astype(int)
    ours = TemperatureCalibrator().fit(s, binary).calibrate(s)
    assert log_loss(binary, ours) <= log_loss(binary, s) + 1e-12
    np.testing.assert_array_equal(ours > 0.5, s > 0.5)


# ── beta ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("variant", ["abm", "am", "ab"])
@pytest.mark.parametrize("n", [300, 5000])
def test_beta_equals_betacal(variant, n):
    """betacal 1.1.0 stops L-BFGS at a gradient of 1e-4; a tight Newton fit of the same model is the second witness."""
    s, y = sample(n)
    ours = BetaCalibrator(parameters=variant).fit(s, y)
    theirs = BetaCalibration(variant).fit(s[:, None], y).predict(s)
    np.testing.assert_allclose(ours.calibrate(s), theirs, atol=1e-3)
    assert log_loss(y, ours.calibrate(s)) <= log_loss(y, theirs) + 1e-12
    columns = {
        "abm": np.column_stack([np.log(s), -np.log1p(-s)]),
        "am": logit(s)[:, None],
        "ab": np.column_stack([np.log(2 * s), -np.log(2 * (1 - s))]),
    }[variant]
    tight = LogisticRegression(
        C=np.inf, solver="newton-cholesky", tol=1e-12, fit_intercept=variant != "ab", max_iter=500
    )
    np.testing.assert_allclose(ours.calibrate(s), tight.fit(columns, y).predict_proba(columns)[:, 1], atol=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_beta_never_turns_the_score_around(seed):
    """The constrained minimum, against a bounded optimiser."""
    rng = np.random.default_rng(seed)
    s = rng.random(60)
    y = (rng.random(60) < [1 - s, np.full(60, 0.5), np.abs(s - 0.5) * 2, 1 - np.abs(s - 0.5)][seed % 4]).astype(int)
    columns = np.column_stack([np.log(s), -np.log1p(-s), np.ones(60)])
    sign = 1 - 2 * y

    def look(theta):
        eta = columns @ theta
        return np.logaddexp(0, sign * eta).sum(), columns.T @ (expit(eta) - y)

    options = {"ftol": 1e-15, "gtol": 1e-10}
    peer = minimize(look, [0.5, 0.5, 0.0], jac=True, bounds=[(0, None), (0, None), (None, None)], options=options)
    ours = BetaCalibrator().fit(s, y)
    assert min(ours.a_, ours.b_) >= 0
    assert look(np.array([ours.a_, ours.b_, ours.c_]))[0] <= peer.fun + 1e-8


# ── isotonic ────────────────────────────────────────────────────────────────────────────────────────


def exact_pav(y, w):
    """Pool adjacent violators in fractions."""
    blocks = []
    for value, weight in zip(y, w, strict=True):
        blocks.append([Fraction(value) * Fraction(weight), Fraction(weight), 1])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            events, weight_, size = blocks.pop()
            blocks[-1] = [blocks[-1][0] + events, blocks[-1][1] + weight_, blocks[-1][2] + size]
    return [float(events / weight) for events, weight, size in blocks for _ in range(size)]


TEXTBOOK = {"interpolation": "step", "shrink": False, "clip": 0}


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1), st.integers(1, 5)), min_size=2, max_size=40))
def test_isotonic_equals_pav_in_fractions(rows):
    score, y, w = (np.array(column) for column in zip(*rows, strict=True))
    if y.min() == y.max():
        y[0] = 1 - y[0]
    values = np.unique(score)
    events = [int((w * y)[score == v].sum()) for v in values]
    weights = [int(w[score == v].sum()) for v in values]
    expected = exact_pav([Fraction(e, m) for e, m in zip(events, weights, strict=True)], weights)
    fitted = IsotonicCalibrator(**TEXTBOOK).fit(score / 12, y, w).calibrate(values / 12)
    np.testing.assert_allclose(fitted, expected, atol=1e-15)
    ones = IsotonicCalibrator(**TEXTBOOK).fit(np.repeat(score, w) / 12, np.repeat(y, w)).calibrate(values / 12)
    np.testing.assert_allclose(ones, expected, atol=1e-15)


def test_isotonic_equals_scipy_and_scikit_learn():
    s, y = sample(3000)
    order = np.argsort(s)
    expected = isotonic_regression(y[order].astype(float)).x
    np.testing.assert_allclose(IsotonicCalibrator(**TEXTBOOK).fit(s, y).calibrate(s[order]), expected, atol=1e-15)
    peer = IsotonicRegression(out_of_bounds="clip").fit(s, y)
    ours = IsotonicCalibrator(interpolation="linear", shrink=False, clip=0).fit(s, y)
    new = np.linspace(0, 1, 2001)
    np.testing.assert_allclose(ours.calibrate(new), peer.predict(new), atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "law",
    [
        lambda r, n: r.random(n),
        lambda r, n: r.beta(0.2, 3, n),
        lambda r, n: np.round(r.random(n), 2),
        lambda r, n: r.normal(0, 1e6, n),
    ],
    ids=["even", "skewed", "tied", "wide"],
)
def test_cells_decide_what_to_sort_without_changing_the_fit(law, weighted, monkeypatch):
    rng = np.random.default_rng(0)
    n = 140_000
    score = law(rng, n)
    rank = score.argsort().argsort() / n
    y = (rng.random(n) < 0.2 + 0.6 * rank**2).astype(float)
    weight = rng.integers(0, 3, n) * rng.random(n) if weighted else None
    fast = IsotonicCalibrator(**TEXTBOOK, kind="logit").fit(score, y.astype(int), weight)
    monkeypatch.setattr("scoreprism._kernels.isotonic._MANY", 10**9)
    slow = IsotonicCalibrator(**TEXTBOOK, kind="logit").fit(score, y.astype(int), weight)
    assert fast.n_blocks_ == slow.n_blocks_ > 1
    np.testing.assert_allclose(fast.calibrate(score), slow.calibrate(score), rtol=1e-12)


def test_shrunken_blocks_by_hand():
    """Blocks 0/2, 1/2, 2/2 at base rate 1/2: (0+½)/3, (1+½)/3, (2+½)/3."""
    s, y = np.arange(1, 7) / 10, [0, 0, 1, 0, 1, 1]
    fitted = IsotonicCalibrator(interpolation="step", clip=0).fit(s, y).calibrate(s)
    np.testing.assert_allclose(fitted, np.repeat([1 / 6, 1 / 2, 5 / 6], 2), atol=1e-15)


def blocks(s, y):
    """Centre, value and size of each isotonic block, by scipy."""
    order = np.argsort(s)
    fit = isotonic_regression(y[order].astype(float))
    starts = fit.blocks[:-1]
    return np.add.reduceat(s[order], starts) / fit.weights, fit.x[starts], fit.weights


def test_shrinking_alone_would_break_the_order():
    """The second PAV is needed: in a calibrated sample (k + p̄)/(m + 1) alone falls somewhere in about half of the samples."""
    falls = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        s = rng.random(300)
        y = (rng.random(300) < s).astype(float)
        _, value, size = blocks(s, y)
        falls += (np.diff((value * size + y.mean()) / (size + 1)) < 0).any()
        fitted = IsotonicCalibrator(interpolation="step").fit(s, y).calibrate(np.sort(s))
        assert (np.diff(fitted) >= 0).all()
    assert 10 <= falls <= 35


def test_centred_isotonic_passes_through_the_centres():
    s, y = sample(500)
    center, value, _ = blocks(s, y)
    fitted = IsotonicCalibrator(interpolation="centered", shrink=False, clip=0).fit(s, y)
    np.testing.assert_allclose(fitted.calibrate(center), value, atol=1e-12)
    middle = 0.5 * (center[:-1] + center[1:])
    np.testing.assert_allclose(fitted.calibrate(middle), 0.5 * (value[:-1] + value[1:]), atol=1e-12)


def test_steps_cost_a_tenth_of_log_loss_at_200_rows():
    """The measured trade-off of docs/calibrators.md: unshrunken steps at n = 200 against the default."""
    costs = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        s, new = rng.random(200), rng.random(4000)
        y = (rng.random(200) < s).astype(int)
        step = IsotonicCalibrator(interpolation="step", shrink=False, clip=1e-6).fit(s, y).calibrate(new)
        default = IsotonicCalibrator().fit(s, y).calibrate(new)
        costs.append(
            [(new * np.log(new / p) + (1 - new) * np.log((1 - new) / (1 - p))).mean() for p in (step, default)]
        )
    step, default = np.mean(costs, axis=0)
    assert 0.05 < step < 0.3
    assert default < 0.03


# ── bins ────────────────────────────────────────────────────────────────────────────────────────────


def test_binning_values_are_event_rates():
    s, y = sample(1000)
    fitted = BinningCalibrator(n_bins=10).fit(s, y)
    bins = np.digitize(s, fitted.edges_)
    np.testing.assert_array_equal(np.bincount(bins), 100)
    np.testing.assert_allclose(fitted.values_, [y[bins == b].mean() for b in range(10)], atol=1e-15)
    wide = BinningCalibrator(n_bins=4, strategy="uniform").fit([0.0, 0.1, 0.9, 1.0], [0, 1, 1, 1])
    np.testing.assert_allclose(wide.values_, [0.5, 1.0])  # two empty bins joined their neighbour


def test_bin_effects_are_the_penalised_maximum():
    """The mode of the likelihood times N(0, τ²), by scipy's optimiser."""
    rng = np.random.default_rng(0)
    s = rng.random(1500)
    y = (rng.random(1500) < np.where(np.abs(s - 0.5) < 0.1, 0.9, s)).astype(int)
    fitted = BinEffectsCalibrator(n_bins=8).fit(s, y)
    assert fitted.variance_ > 0
    platt = PlattCalibrator().fit(s, y)
    offset = platt.slope_ * logit(s) + platt.intercept_
    steps = fitted.map_.curve.second
    bins = np.searchsorted(steps.starts[1:], logit(s), side="right")

    def look(u):
        eta = offset + u[bins]
        gradient = np.bincount(bins, expit(eta) - y, 8) + u / fitted.variance_
        return (np.logaddexp(0, eta) - y * eta).sum() + 0.5 * (u @ u) / fitted.variance_, gradient

    peer = minimize(look, np.zeros(8), jac=True, options={"gtol": 1e-9})
    np.testing.assert_allclose(fitted.effects_, peer.x, atol=1e-6)


def test_bin_effects_vanish_in_a_platt_world():
    """Where bins scatter no more than chance, in about half of calibrated samples, the map is Platt's."""
    vanished = 0
    for seed in range(20):
        s, y = sample(400, seed=seed, power=1.0)
        fitted = BinEffectsCalibrator().fit(s, y)
        if fitted.variance_ == 0.0:
            vanished += 1
            np.testing.assert_allclose(fitted.calibrate(s), PlattCalibrator().fit(s, y).calibrate(s), atol=1e-12)
    assert 5 <= vanished <= 17


# ── kernels ─────────────────────────────────────────────────────────────────────────────────────────


#: Kernels by their definitions: c(1 − u²)ᵏ between −1 and 1.
KERNELS = {
    "triweight": lambda u: 35 / 32 * np.clip(1 - u**2, 0, None) ** 3,  # the paper's
    "biweight": lambda u: 15 / 16 * np.clip(1 - u**2, 0, None) ** 2,
    "epanechnikov": lambda u: 3 / 4 * np.clip(1 - u**2, 0, None),
}


def direct(x, y, weight, grid, h, kernel):
    k = kernel((grid[:, None] - x) / h) * (1 if weight is None else weight)
    return k.sum(axis=1), k @ y


@pytest.mark.parametrize("name", KERNELS)
def test_rules_of_thumb_are_of_equal_width(name):
    """Bandwidths of kernels are alike up to (∫K² / (∫u²K)²)^(1/5), the canonical factor (Marron & Nolan 1988)."""
    u = np.linspace(-1, 1, 200_001)
    s, y = sample(400)

    def factor(kernel):
        assert np.trapezoid(KERNELS[kernel](u), u) == pytest.approx(1.0, abs=1e-8)
        roughness, variance = (np.trapezoid(v, u) for v in (KERNELS[kernel](u) ** 2, u**2 * KERNELS[kernel](u)))
        return (roughness / variance**2) ** 0.2

    here, there = (KernelCalibrator(bandwidth="rule", kernel=one).fit(s, y).bandwidth_ for one in (name, "triweight"))
    assert here / there == pytest.approx(factor(name) / factor("triweight"), abs=6e-4)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("h", [0.03, 0.3])
def test_kernel_calibrator_is_the_nadaraya_watson_estimate(name, h):
    """Up to the spline that joins its values: the distances its docstring gives."""
    s, y = sample(800)
    fitted = KernelCalibrator(bandwidth=h, kernel=name).fit(s, y)
    new = np.linspace(s.min(), s.max(), 3333)
    mass, events = direct(s, y, None, new, h, KERNELS[name])
    expected = np.clip(events / mass, 1 / 1600, 1 - 1 / 1600)
    np.testing.assert_allclose(fitted.calibrate(new), expected, atol=1e-3 if name == "epanechnikov" else 2e-5)


@pytest.mark.parametrize("name", KERNELS)
def test_the_spline_goes_through_the_estimate_at_points_a_thirtysecond_of_a_bandwidth_apart(name):
    """From the smallest score to the largest, which are here 3 bandwidths apart: 97 points."""
    s, y = sample(400)
    s = np.clip(s, 0.125, 0.875)
    assert (s.min(), s.max()) == (0.125, 0.875)
    points = np.linspace(0.125, 0.875, 97)
    mass, events = direct(s, y, None, points, 0.25, KERNELS[name])
    fitted = KernelCalibrator(bandwidth=0.25, kernel=name, clip=0.0).fit(s, y)
    np.testing.assert_allclose(fitted.calibrate(points), events / mass, atol=1e-12)


def test_leave_one_out_bandwidth_is_the_best_of_those_tried():
    s, y = sample(400)
    chosen = KernelCalibrator(bandwidth="cv").fit(s, y).bandwidth_

    def loss(h):
        k = KERNELS["triweight"]((s[:, None] - s) / h)
        np.fill_diagonal(k, 0)
        mass = k.sum(axis=1)
        rate = np.where(mass > 0, (k @ y) / np.where(mass > 0, mass, 1), y.mean())
        return ((y - rate) ** 2).mean()

    rule = KernelCalibrator(bandwidth="rule").fit(s, y).bandwidth_
    assert loss(chosen) <= min(loss(h) for h in rule * 2.0 ** np.arange(-2, 3.01, 0.5)) + 1e-6


# ── splines ─────────────────────────────────────────────────────────────────────────────────────────


def b_splines(x, k=12):
    """Twelve cubic B-splines on even knots over [0, 1] by scipy, and DᵀD of the second differences of coefficients."""
    knots = np.arange(-3.0, k + 1.0) / (k - 3)
    second = np.diff(np.eye(k), 2, axis=0)
    return BSpline.design_matrix(x, knots, 3).toarray(), second.T @ second


def waves(n=300):
    """Outcomes whose law rises and falls."""
    rng = np.random.default_rng(0)
    s = rng.random(n)
    return s, (rng.random(n) < 0.5 + 0.3 * np.sin(5 * s)).astype(int)


def straight(penalty):
    """A P-spline of the score itself: least squares, without a link."""
    return SplineCalibrator(link="identity", chart="probability", n_basis=12, penalty=penalty)


def test_a_spline_is_penalised_least_squares_of_scipys_basis():
    s, y = waves()
    b, penalty = b_splines(s)
    expected = b @ np.linalg.solve(b.T @ b + 2.0 * penalty, b.T @ y)
    assert 0.05 < expected.min() < expected.max() < 0.95
    np.testing.assert_allclose(straight(2.0).fit(s, y).calibrate(s), expected, atol=1e-12)


def test_splines_go_straight_on_beyond_their_knots():
    """Three intervals beyond the outer knots; the log-odds of scores between .2 and .8 end there at 1.4."""
    s, y = waves()
    fitted = SplineCalibrator(n_basis=8, penalty=1.0).fit(0.2 + 0.6 * s, y)
    for far in (np.array([-3.6, -3.4, -3.2]), np.array([3.2, 3.4, 3.6])):
        law = logit(fitted.calibrate(expit(far)))
        assert law[0] - 2 * law[1] + law[2] == pytest.approx(0.0, abs=1e-12)
        assert abs(law[0] - law[2]) > 1e-3


@pytest.mark.parametrize("seed", range(12))
def test_quadratic_programs_against_clarabel(seed):
    rng = np.random.default_rng(seed)
    k, m = 20, 21
    root = rng.normal(size=(k, k)) * 10.0 ** rng.uniform(-2, 2, k)
    g, pull = root.T @ root + 1e-3 * np.eye(k), rng.normal(size=k) * 50
    rows = np.vstack([np.diff(np.eye(k), axis=0), np.eye(k)[:1], -np.eye(k)[-1:]])
    least = np.concatenate([np.zeros(k - 1), [-1.0, -1.0]])
    x = solve_qp(g, pull, rows, least)
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.tol_gap_abs, settings.tol_gap_rel, settings.tol_feas = False, 1e-12, 1e-12, 1e-12
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(g)), -pull, sparse.csc_matrix(-rows), -least, [clarabel.NonnegativeConeT(m)], settings
    )
    peer = np.array(solver.solve().x)
    objective = [0.5 * v @ g @ v - pull @ v for v in (x, peer)]
    assert objective[0] <= objective[1] + 1e-6 * abs(objective[1])
    assert (rows @ x >= least - 1e-8).all()


def paper_program(s, y, k, penalty, h, clip):
    """The program of the paper's appendix E.3 with our bounds, for clarabel."""
    t = np.linspace(0, 1, k)
    weights = np.maximum(1 - ((t[:, None] - s) / h) ** 2, 0) ** 3 * 35 / 32
    v = weights.sum(axis=1)
    rate = (weights @ y) / np.where(v > 0, v, 1)
    knots = np.arange(-3, k + 1) / (k - 3)
    b = BSpline.design_matrix(np.clip(t, 0, 1 - 1e-15), knots, 3).toarray()
    second = np.diff(np.eye(k), 2, axis=0)
    g = (b.T * v) @ b + penalty * second.T @ second
    ends = BSpline.design_matrix(np.array([0, 1 - 1e-15]), knots, 3).toarray()
    rows = np.vstack([np.diff(np.eye(k), axis=0), ends[:1], -ends[1:]])
    return g, b.T @ (v * rate), rows, np.concatenate([np.zeros(k - 1), [clip, clip - 1]]), knots


@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("k", [8, 20])
def test_monotone_identity_spline_solves_the_paper_s_program(penalty, k):
    rng = np.random.default_rng(1)
    s = rng.uniform(0.3, 0.95, 300)  # a band: some windows are empty
    y = (rng.random(300) < 0.8 - 0.5 * (s > 0.6)).astype(int)  # falls, so that the constraints bind
    ours = MonotoneSplineCalibrator(link="identity", n_basis=k, penalty=penalty, bandwidth=0.1).fit(s, y)
    g, pull, rows, least, knots = paper_program(s, y, k, penalty, 0.1, 1 / 600)
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.tol_gap_abs, settings.tol_gap_rel = False, 1e-12, 1e-12
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(g + 1e-12 * np.eye(k))), -pull, sparse.csc_matrix(-rows), -least,
        [clarabel.NonnegativeConeT(len(least))], settings,
    )  # fmt: skip
    peer = np.array(solver.solve().x)
    band = np.linspace(0.3, 0.95, 200)  # where rows are; beyond, the objective hardly moves
    spline = BSpline.design_matrix(band, knots, 3).toarray() @ peer
    np.testing.assert_allclose(ours.calibrate(band), spline, atol=2e-5)
    grid = np.linspace(0, 1 - 1e-12, 400)
    beta = np.linalg.lstsq(BSpline.design_matrix(grid, knots, 3).toarray(), ours.calibrate(grid), rcond=None)[0]
    assert 0.5 * beta @ g @ beta - pull @ beta <= 0.5 * peer @ g @ peer - pull @ peer + 1e-6


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # SLSQP of older scipy, about itself
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("penalty", [0.0, 0.3, 30.0])
def test_logit_splines_minimise_the_penalised_likelihood(monotone, penalty):
    """Against scipy's SLSQP on the same basis (its own B-splines), started from our solution and from a line."""
    rng = np.random.default_rng(2)
    s = rng.random(250)
    y = (rng.random(250) < np.where(s < 0.5, 0.2 + s, 0.9 - 0.6 * s)).astype(int)
    k = 8
    kind = MonotoneSplineCalibrator if monotone else SplineCalibrator
    ours = kind(n_basis=k, penalty=penalty, chart="probability").fit(s, y)
    knots = np.arange(-3, k + 1) / (k - 3)
    b = BSpline.design_matrix(s, knots, 3).toarray()
    second = np.diff(np.eye(k), 2, axis=0)

    def look(beta):
        eta = b @ beta
        value = (np.logaddexp(0, eta) - y * eta).sum() + 0.5 * penalty * ((second @ beta) ** 2).sum()
        return value, b.T @ (expit(eta) - y) + penalty * second.T @ (second @ beta)

    bound = np.log(499.0)
    grid = np.linspace(0, 1 - 1e-12, 300)
    mine = np.linalg.lstsq(BSpline.design_matrix(grid, knots, 3).toarray(), logit(ours.calibrate(grid)), rcond=None)[0]
    rules = [{"type": "ineq", "fun": np.diff, "jac": lambda _: np.diff(np.eye(k), axis=0)}] if monotone else []
    best = min(
        minimize(
            look,
            start,
            jac=True,
            method="SLSQP",
            constraints=rules,
            bounds=[(-bound, bound)] * k,
            options={"ftol": 1e-14, "maxiter": 2000},
        ).fun
        for start in (mine, np.linspace(-1, 1, k))
    )
    assert look(mine)[0] <= best + 1e-5


def test_large_penalty_is_a_straight_line_platt_s():
    s, y = sample(600)
    for kind in (SplineCalibrator, MonotoneSplineCalibrator):
        fitted = kind(penalty=1e9).fit(s, y).calibrate(s)
        np.testing.assert_allclose(fitted, PlattCalibrator().fit(s, y).calibrate(s), atol=1e-5)


def test_sharing_rows_among_points_changes_nothing_that_matters(monkeypatch):
    s, y = sample(20_000)
    shared = MonotoneSplineCalibrator().fit(s, y)
    monkeypatch.setattr("scoreprism._learners.penalised_splines._MANY", 10**9)
    exact = MonotoneSplineCalibrator(penalty=shared.penalty_).fit(s, y)
    grid = np.linspace(0.001, 0.999, 999)
    assert np.abs(shared.calibrate(grid) - exact.calibrate(grid)).max() < 1e-5


def test_reml_is_the_marginal_likelihood_of_gaussian_data():
    """λ of the identity link against a direct maximisation of the restricted likelihood on a fine grid."""
    n, (s, z) = 300, waves()
    b, penalty = b_splines(s)
    chosen = straight("reml").fit(s, z).penalty_
    values, vectors = np.linalg.eigh(penalty)
    fixed, random = b @ vectors[:, :2], b @ vectors[:, 2:] / np.sqrt(values[2:])

    def minus_twice(lam):
        v = np.eye(n) + random @ random.T / lam
        inverse = np.linalg.inv(v)
        middle = fixed.T @ inverse @ fixed
        residual = z - fixed @ np.linalg.solve(middle, fixed.T @ inverse @ z)
        return np.linalg.slogdet(v)[1] + np.linalg.slogdet(middle)[1] + (n - 2) * np.log(residual @ inverse @ residual)

    grid = chosen * 10.0 ** np.linspace(-1, 1, 81)
    assert grid[np.argmin([minus_twice(lam) for lam in grid])] == pytest.approx(chosen, rel=0.15)  # both on grids


def test_gcv_is_generalised_cross_validation():
    s, y = waves()
    b, penalty = b_splines(s)
    chosen = straight("gcv").fit(s, y).penalty_

    def gcv(lam):
        hat = b @ np.linalg.solve(b.T @ b + lam * penalty, b.T)
        return ((y - hat @ y) ** 2).sum() / (y.size - np.trace(hat)) ** 2

    grid = chosen * 10.0 ** np.linspace(-1, 1, 81)
    assert grid[np.argmin([gcv(lam) for lam in grid])] == pytest.approx(chosen, rel=0.15)


def test_natural_spline_is_scipy_s_natural_cubic():
    s, y = sample(1000)
    fitted = NaturalSplineCalibrator(ridge=0.0).fit(s, y)
    knots = fitted.knots_
    peer = CubicSpline(knots, np.eye(5), bc_type="natural")
    inside = (logit(s) > knots[0]) & (logit(s) < knots[-1])
    np.testing.assert_allclose(logit(fitted.calibrate(s[inside])), peer(logit(s[inside])) @ fitted.values_, atol=1e-9)
    x = np.where(inside, logit(s), np.clip(logit(s), knots[0], knots[-1]))
    design = peer(x)
    below, above = np.minimum(logit(s) - knots[0], 0), np.maximum(logit(s) - knots[-1], 0)
    design += below[:, None] * peer(knots[0], 1) + above[:, None] * peer(knots[-1], 1)
    tight = LogisticRegression(C=np.inf, fit_intercept=False, solver="newton-cholesky", tol=1e-12, max_iter=500).fit(
        design, y
    )
    np.testing.assert_allclose(fitted.values_, tight.coef_[0], atol=1e-6)


def test_monotone_spline_follows_where_isotonic_steps():
    rng = np.random.default_rng(0)
    s = rng.random(20_000)
    truth = 0.1 + 0.8 / (1 + np.exp(-15 * (s - 0.5)))
    y = (rng.random(20_000) < truth).astype(int)
    error = [
        np.sqrt(np.mean((c.fit(s, y).calibrate(s) - truth) ** 2))
        for c in (MonotoneSplineCalibrator(), IsotonicCalibrator(**TEXTBOOK))
    ]
    assert error[0] < 0.012
    assert error[0] < error[1]


# ── Venn–Abers ──────────────────────────────────────────────────────────────────────────────────────


@given(
    st.lists(st.tuples(st.integers(0, 15), st.integers(0, 1)), min_size=3, max_size=40),
    st.booleans(),
    st.integers(0, 99),
)
def test_venn_abers_equals_brute_force(rows, weighted, seed):
    score, y = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    if y.min() == y.max():
        y[0] = 1 - y[0]
    s = (score + 1) / 20
    weight = np.random.default_rng(seed).random(s.size) + 0.7 if weighted else None
    fitted = VennAbersCalibrator().fit(s, y, weight)
    new = np.unique(np.concatenate([s, s + 0.01, s - 0.01, [0.0, 1.0]]))
    interval = fitted.predict_interval(new)
    all_weights = np.append(np.ones(s.size) if weight is None else weight, 1.0)
    for column, outcome in ((0, 0.0), (1, 1.0)):
        brute = [
            IsotonicRegression().fit(np.append(s, v), np.append(y, outcome), all_weights).predict([v])[0] for v in new
        ]
        np.testing.assert_allclose(
            interval[:, column], brute, atol=1e-7
        )  # scikit-learn drops scores within 1e-7 of each other
    low, high = interval.T
    assert (low <= high).all()
    np.testing.assert_allclose(fitted.calibrate(new), high / (1 - low + high), atol=1e-15)


def isotonic_at(s, y, w=None):
    """The isotonic fit at the last row, in fractions."""
    w = np.ones(s.size) if w is None else w
    values = np.unique(s)
    weights = [sum(map(Fraction, w[s == v])) for v in values]
    events = [sum(map(Fraction, (w * y)[s == v])) for v in values]
    fit = exact_pav([e / m for e, m in zip(events, weights, strict=True)], weights)
    return fit[int(np.searchsorted(values, s[-1]))]


def test_venn_abers_of_many_rows_equals_brute_force_at_some():
    s, y = sample(1500)
    new = np.linspace(0.01, 0.99, 8)
    interval = VennAbersCalibrator().fit(s, y).predict_interval(new)
    for column, outcome in ((0, 0.0), (1, 1.0)):
        brute = [isotonic_at(np.append(s, v), np.append(y, outcome)) for v in new]
        np.testing.assert_allclose(interval[:, column], brute, atol=1e-12)


def test_cross_venn_abers_merges_by_geometric_means():
    s, y = sample(300)
    parts = [
        (np.arange(100, 300), np.arange(100)),
        (np.r_[0:100, 200:300], np.arange(100, 200)),
        (np.arange(200), np.arange(200, 300)),
    ]
    cross = VennAbersCalibrator(cv=parts).fit(s, y)
    new = np.linspace(0.05, 0.95, 19)
    each = [VennAbersCalibrator().fit(s[test], y[test]).predict_interval(new) for _, test in parts]
    low = 1 - np.prod([1 - e[:, 0] for e in each], axis=0) ** (1 / 3)
    high = np.prod([e[:, 1] for e in each], axis=0) ** (1 / 3)
    np.testing.assert_allclose(cross.predict_interval(new), np.column_stack([low, high]), atol=1e-12)
    np.testing.assert_allclose(cross.calibrate(new), high / (1 - low + high), atol=1e-12)


def test_venn_abers_intervals_are_calibrated():
    """Under exchangeability one of p₀, p₁ is calibrated: P(Y=1) lies between their means, in any sample size."""
    low, high, events, n = 0.0, 0.0, 0, 3000
    rng = np.random.default_rng(0)
    for _ in range(n):
        s = rng.random(13)
        y = (rng.random(13) < s**2).astype(int)
        if y[:-1].min() == y[:-1].max():
            y[0], s[0] = 1 - y[0], s[0]  # both classes are needed; seldom
        interval = VennAbersCalibrator().fit(s[:-1], y[:-1]).predict_interval(s[-1:])[0]
        low, high, events = low + interval[0], high + interval[1], events + y[-1]
    noise = 3 * np.sqrt(n) / 2
    assert low - noise <= events <= high + noise


def test_brier_merge():
    s, y = sample(100)
    fitted = VennAbersCalibrator(merge="brier").fit(s, y)
    low, high = fitted.predict_interval(s).T
    np.testing.assert_allclose(fitted.calibrate(s), high + (low**2 - high**2) / 2, atol=1e-15)


# ── several classes ─────────────────────────────────────────────────────────────────────────────────


def penalised(theta, design, y, start, ridge):
    z = design @ theta.reshape(start.shape)
    logs = (
        z - np.log(np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)) - z.max(axis=1, keepdims=True)
    )
    return -logs[np.arange(len(y)), y].sum() + 0.5 * (ridge * (theta.reshape(start.shape) - start) ** 2).sum()


@pytest.mark.parametrize(
    "calibrator",
    [MatrixScalingCalibrator(ridge=0.5), DirichletCalibrator(ridge=0.01), PolynomialCalibrator(ridge=2.0)],
    ids=repr,
)
def test_softmax_maps_reach_the_minimum_of_their_penalised_likelihood(calibrator):
    """The gradient by central differences of an independently written objective is zero."""
    p, y = three_classes(500)
    fitted = calibrator.fit(p, y)
    logs = np.log(p)
    z = logs - logs.mean(axis=1, keepdims=True)
    if calibrator.name == "dirichlet":
        design, total = np.column_stack([logs, np.ones(500)]), 500
        ridge = np.full((4, 3), 2 * total * 0.01 / 6)
        ridge[:3][np.diag_indices(3)] = 1e-6
        ridge[3] = 2 * total * 0.001 / 3
    else:
        squares = [z[:, i] * z[:, j] / 10 for i in range(3) for j in range(i, 3)]
        design = np.column_stack([z, *(squares if calibrator.name == "polynomial" else []), np.ones(500)])
        ridge = np.full((design.shape[1], 3), calibrator.ridge)
    start = np.zeros((design.shape[1], 3))
    start[:3] = np.eye(3)
    theta = np.vstack([fitted.weights_, fitted.intercepts_]).ravel()
    steps = 1e-5 * np.eye(theta.size)
    gradient = [
        (penalised(theta + e, design, y, start, ridge) - penalised(theta - e, design, y, start, ridge)) / 2e-5
        for e in steps
    ]
    np.testing.assert_allclose(gradient, 0, atol=1e-4)
    law = np.exp(design @ theta.reshape(start.shape))
    np.testing.assert_allclose(fitted.predict_proba(p), law / law.sum(axis=1, keepdims=True), atol=1e-10)


def test_matrix_scaling_with_a_small_ridge_is_multinomial_logistic_regression():
    p, y = three_classes(2000)
    z = np.log(p) - np.log(p).mean(axis=1, keepdims=True)
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(z, y)
    ours = MatrixScalingCalibrator(ridge=1e-7).fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(p), peer.predict_proba(z), atol=1e-4)


def test_vector_scaling_equals_an_independent_optimiser():
    p, y = three_classes(2000)
    z = np.log(p) - np.log(p).mean(axis=1, keepdims=True)

    def loss(theta):
        eta = z * theta[:3] + theta[3:]
        penalty = 0.5 * 0.01 * (((theta[:3] - 1) ** 2).sum() + (theta[3:] ** 2).sum())
        return (np.log(np.exp(eta).sum(axis=1)) - eta[np.arange(2000), y]).sum() + penalty

    peer = minimize(loss, np.r_[np.ones(3), np.zeros(3)], method="BFGS", options={"gtol": 1e-5})
    ours = VectorScalingCalibrator().fit(p, y)
    np.testing.assert_allclose(ours.intercepts_.sum(), 0, atol=1e-9)  # what the ridge asks for, and BFGS hardly sees
    centered = np.r_[peer.x[:3], peer.x[3:] - peer.x[3:].mean()]
    np.testing.assert_allclose(np.r_[ours.weights_.diagonal(), ours.intercepts_], centered, atol=1e-5)


@pytest.mark.parametrize(
    ("calibrator", "k"), [(VectorScalingCalibrator(), 400), (MatrixScalingCalibrator(ridge=0.5), 27)], ids=repr
)
def test_maps_of_many_weights_reach_their_minimum(calibrator, k):
    """More than 700 weights: the gradient of the documented objective, written out, is zero; some classes are rare."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.linspace(0.05, 0.5, k), 1500)
    y = (rng.random(1500)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, k - 1)
    y[:k] = np.arange(k)  # every class occurs
    p = p**0.7 + 1e-9
    p /= p.sum(axis=1, keepdims=True)
    fitted = calibrator.fit(p, y)
    z = np.log(p) - np.log(p).mean(axis=1, keepdims=True)
    eta = z @ fitted.weights_ + fitted.intercepts_
    law = np.exp(eta - eta.max(axis=1, keepdims=True))
    error = law / law.sum(axis=1, keepdims=True) - np.eye(k)[y]
    slopes = z.T @ error + calibrator.ridge * (fitted.weights_ - np.eye(k))
    if calibrator.name == "vector-scaling":
        slopes = slopes.diagonal()
    np.testing.assert_allclose(slopes, 0, atol=1500 * 1e-6)
    np.testing.assert_allclose(error.sum(axis=0) + calibrator.ridge * fitted.intercepts_, 0, atol=1500 * 1e-6)


def test_structured_matrix_scaling_equals_an_independent_optimiser():
    """The objective of Berta et al. (2026), written out: a temperature first, then a matrix near the identity."""
    p, y = three_classes(800)
    z = np.log(p) - np.log(p).mean(axis=1, keepdims=True)
    k, n = 3, len(y)

    def mean_loss(eta):
        return float((logsumexp(eta, axis=1) - eta[np.arange(n), y]).mean())

    sharpness = minimize_scalar(lambda b: mean_loss(b * z), bounds=(0.01, 10), options={"xatol": 1e-12}).x
    off = ~np.eye(k, dtype=bool)

    def objective(theta):
        delta, b = theta[: k * k].reshape(k, k), theta[k * k :]
        ridges = k * (delta.diagonal() ** 2).sum() + k * (k - 1) * (delta[off] ** 2).sum() + k * (b**2).sum()
        return mean_loss(sharpness * (z + z @ delta.T) + b) + ridges / n

    found = minimize(objective, np.zeros(k * k + k), method="BFGS", options={"gtol": 1e-8}).x
    expected = softmax(sharpness * (z + z @ found[: k * k].reshape(k, k).T) + found[k * k :], axis=1)
    np.testing.assert_allclose(StructuredMatrixCalibrator().fit(p, y).predict_proba(p), expected, atol=1e-5)


def test_structured_matrix_scaling_of_many_classes_reaches_its_minimum():
    """More than 700 weights: the slope of the documented objective, written out, is zero."""
    k, n = 40, 3000
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.normal(size=(n, k))
    y = (0.7 * logits + 0.3 * np.roll(logits, 1, axis=1) + rng.gumbel(size=(n, k))).argmax(axis=1)
    y[:k] = np.arange(k)  # every class occurs
    fitted = StructuredMatrixCalibrator(kind="logit", ridge=0.5).fit(logits, y)
    t = TemperatureCalibrator(kind="logit").fit(logits, y).temperature_
    z = log_softmax(logits, axis=1)
    z -= z.mean(axis=1, keepdims=True)
    error = softmax(z @ fitted.weights_ + fitted.intercepts_, axis=1) - np.eye(k)[y]
    ridges = np.where(np.eye(k, dtype=bool), k, k * (k - 1)) * t**2  # 2·ridge, of one half
    np.testing.assert_allclose(z.T @ error + ridges * (fitted.weights_ - np.eye(k) / t), 0, atol=n * 2e-5)
    np.testing.assert_allclose(error.sum(axis=0) + k * fitted.intercepts_, 0, atol=n * 2e-6)
    confused = fitted.weights_[np.arange(-1, k - 1), np.arange(k)]
    unrelated = fitted.weights_[np.arange(-2, k - 2), np.arange(k)]
    assert confused.mean() - unrelated.mean() > 10 * unrelated.std() / k**0.5  # it finds who is confused with whom


def test_vector_scaling_of_two_classes_is_platt():
    s, y = sample(2000)
    ours = VectorScalingCalibrator(ridge=1e-8).fit(np.column_stack([1 - s, s]), y)
    np.testing.assert_allclose(ours.predict_proba(s)[:, 1], PlattCalibrator().fit(s, y).calibrate(s), atol=1e-6)


def test_one_vs_rest_divides_binary_maps_by_their_sum():
    p, y = three_classes(500)
    columns = np.column_stack([BetaCalibrator().fit(p[:, k], y == k).calibrate(p[:, k]) for k in range(3)])
    ours = OneVsRestCalibrator(BetaCalibrator()).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(ours, columns / columns.sum(axis=1, keepdims=True), atol=1e-14)
    s, binary = sample(300)
    np.testing.assert_array_equal(
        OneVsRestCalibrator(BetaCalibrator()).fit(s, binary).calibrate(s), BetaCalibrator().fit(s, binary).calibrate(s)
    )


# ── selection ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("weighted", [False, True])
def test_selection_takes_the_simplest_within_a_standard_error_of_the_paired_difference(weighted):
    """Computed here from the rows, simplest first; se² = Σw²(r − r̄)²/(Σw)², as everywhere."""
    from sklearn.model_selection import KFold

    cv = KFold(4, shuffle=True, random_state=0)
    names = ["platt", "natural-spline", "isotonic", "kernel"]
    seen = set()
    for seed in range(4):
        s, y = sample(500, seed=seed)
        w = np.random.default_rng(seed).integers(1, 4, 500) if weighted else np.ones(500)
        laws = {name: np.empty(500) for name in names}
        for name in names:
            for a, b in cv.split(s):
                laws[name][b] = get_calibrator(name).fit(s[a], y[a], sample_weight=w[a]).calibrate(s[b])
        for loss, rows in (
            ("log", lambda p, o: -np.log(np.where(o == 1, p, 1 - p))),
            ("brier", lambda p, o: (p - o) ** 2),
        ):
            fitted = SelectedCalibrator(candidates=names, order="any", cv=cv, loss=loss).fit(s, y, sample_weight=w)
            lines = {name: rows(law, y) for name, law in laws.items()}
            means = {name: np.average(line, weights=w) for name, line in lines.items()}
            assert fitted.losses_ == pytest.approx(means, rel=1e-12)
            best = min(names, key=means.get)
            gaps = {name: means[name] - means[best] for name in names}
            errors = {
                name: np.sqrt(np.sum(w**2 * (line - lines[best] - gaps[name]) ** 2)) / w.sum()
                for name, line in lines.items()
            }
            assert fitted.std_errors_ == pytest.approx(errors, rel=1e-9)
            assert fitted.selected_ == next(name for name in names if gaps[name] <= errors[name])
            seen.add((best, fitted.selected_))
            expected = get_calibrator(fitted.selected_).fit(s, y, sample_weight=w).calibrate(s)
            np.testing.assert_array_equal(fitted.calibrate(s), expected)
            np.testing.assert_array_equal(fitted.calibrator_.calibrate(s), fitted.calibrate(s))
    assert any(best != chosen for best, chosen in seen)  # the rule is not the smallest loss


@pytest.mark.parametrize(
    ("order", "two", "three"),
    [
        ("keep", ["identity", "platt", "beta", "monotone-spline", "isotonic"], ["identity", "temperature"]),
        (
            "any",
            ["identity", "platt", "natural-spline", "isotonic", "kernel"],
            ["identity", "temperature", "vector-scaling", "matrix-scaling", "polynomial"],
        ),
    ],
)
def test_candidates_by_order(order, two, three):
    s, y = sample(300)
    p, z = three_classes(300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContradictedOrderWarning)
        assert list(SelectedCalibrator(order=order).fit(s, y).losses_) == two
        assert list(SelectedCalibrator(order=order).fit(p, z).losses_) == three


def test_many_classes_leave_out_maps_with_too_many_weights():
    chooser = SelectedCalibrator(order="any")
    assert [len(chooser.named_candidates(k)) for k in (8, 9, 20, 21, 256, 257)] == [5, 4, 4, 4, 4, 3]


def test_a_matrix_of_many_classes_is_tried_where_rows_are_a_quarter_of_its_weights():
    chooser = SelectedCalibrator(order="any")
    assert "structured-matrix" in chooser.named_candidates(100, n=2500)
    assert "structured-matrix" not in chooser.named_candidates(100, n=2499)


def test_a_bad_order_and_candidates_that_may_reverse_it_are_refused():
    s, y = sample(100)
    with pytest.raises(InputError) as refused:
        SelectedCalibrator(candidates=["platt", "kernel"]).fit(s, y)
    assert str(refused.value) == (
        "candidates must keep the order of scores, unless order='any'; got kernel, which may reverse it. "
        "Pass order='any', or leave it out."
    )
    with pytest.raises(InputError) as refused:
        SelectedCalibrator(order="kep").fit(s, y)
    assert str(refused.value) == "order must be one of keep, any; got 'kep'. Did you mean 'keep'?"
    p, z = three_classes(100)
    with pytest.raises(InputError, match="must keep the order of scores"):
        SelectedCalibrator(candidates=["vector-scaling"]).fit(p, z)


def _wavy(n, seed=0):
    """Scores whose C = P(Y | S) falls on a fifth of its range: a jump up and down again."""
    rng = np.random.default_rng(seed)
    s = rng.random(n)
    return s, (rng.random(n) < np.where(np.abs(s - 0.5) < 0.1, 0.9, s)).astype(int)


def test_the_default_keeps_the_order_where_the_data_contradict_it_and_says_so():
    s, y = _wavy(4000)
    with pytest.warns(ContradictedOrderWarning) as caught:
        kept = SelectedCalibrator().fit(s, y)
    found = kept.contradiction_
    assert found["map"] == "kernel"
    assert found["gain"] > 2 * found["std_error"] > 0
    assert str(caught[0].message) == (
        "The data contradict the order of the scores: out of fold, kernel, which may reverse it, has a log loss "
        f"{found['gain']:.2g} lower (standard error {found['std_error']:.2g}) than the best map that keeps it. "
        "The order is kept; pass order='any' to follow the data."
    )
    assert kept.contradiction == caught[0].message.finding
    assert (kept.contradiction.kind, kept.contradiction.subject) == ("order_contradicted", "kernel")
    assert (kept.contradiction.value, kept.contradiction.facts["std_error"]) == (found["gain"], found["std_error"])
    grid = np.linspace(0, 1, 20001)
    assert (np.diff(kept.calibrate(grid)) >= 0).all()
    assert kept.order_kept_
    free = SelectedCalibrator(order="any").fit(s, y)
    assert free.selected_ == "kernel"
    assert (np.diff(free.calibrate(grid)) < 0).any()
    assert not free.order_kept_
    assert free.contradiction_ is None
    assert free.contradiction is None
    back = from_json(kept.to_json())
    assert back.contradiction_ == found
    assert back.contradiction == kept.contradiction
    assert back.losses_ == kept.losses_
    assert back.to_json() == kept.to_json()


def test_a_score_that_ranks_the_wrong_way_round_is_not_turned_around():
    """P(Y | S) = 1 − S: the best increasing map is the base rate, and the falling one is far better."""
    rng = np.random.default_rng(0)
    s = rng.random(2000)
    y = (rng.random(2000) < 1 - s).astype(int)
    with pytest.warns(ContradictedOrderWarning), pytest.warns(ScoreOrderWarning):
        fitted = SelectedCalibrator().fit(s, y)
    assert fitted.selected_ == "platt"
    np.testing.assert_allclose(fitted.calibrate([0.1, 0.9]), y.mean(), rtol=1e-12)
    assert fitted.order_kept_
    assert fitted.ties_added_
    with pytest.warns(ScoreOrderWarning):
        assert SelectedCalibrator(order="any").fit(s, y).calibrator_.slope_ < -0.8


def test_three_classes_keep_their_order_within_rows():
    rng = np.random.default_rng(1)
    c = rng.dirichlet([1.0, 1.5, 2.0], 3000)
    mixed = np.exp(np.log(c) @ np.array([[1.0, 0.6, 0], [0, 1.0, 0], [0.3, 0, 1.0]]))
    p = mixed / mixed.sum(axis=1, keepdims=True)
    y = (rng.random(3000)[:, None] > c.cumsum(axis=1)).sum(axis=1)
    with pytest.warns(ContradictedOrderWarning, match="the order of the classes within rows"):
        fitted = SelectedCalibrator().fit(p, y)
    np.testing.assert_array_equal(fitted.predict_proba(p).argsort(axis=1), p.argsort(axis=1))
    assert fitted.selected_ == "temperature"
    assert fitted.order_kept_


def test_platt_with_a_slope_of_at_least_zero():
    """The likelihood is concave: where the free slope is negative the constrained optimum is the base rate."""
    rng = np.random.default_rng(0)
    s = rng.random(500)
    up, down = (rng.random(500) < s).astype(int), (rng.random(500) < 1 - s).astype(int)
    np.testing.assert_array_equal(
        PlattCalibrator(increasing=True).fit(s, up).calibrate(s), PlattCalibrator().fit(s, up).calibrate(s)
    )
    with pytest.warns(ScoreOrderWarning):
        fitted = PlattCalibrator(increasing=True).fit(s, down)
    np.testing.assert_allclose(fitted.calibrate([0.0, 0.4, 1.0]), down.mean(), rtol=1e-12)
    assert fitted.slope_ == 0.0


def test_calibrated_scores_are_left_alone():
    """Of 60 calibrated samples the identity is kept in most, and what is chosen costs less than always recalibrating."""
    kept, cost, always = 0, [], []
    grid = (np.arange(2000) + 0.5) / 2000
    for seed in range(60):
        rng = np.random.default_rng(seed)
        s = rng.random(400)
        y = (rng.random(400) < s).astype(int)
        fitted = SelectedCalibrator().fit(s, y)
        kept += fitted.selected_ == "identity"
        for found, calibrator in ((cost, fitted), (always, PlattCalibrator().fit(s, y))):
            p = calibrator.calibrate(grid)
            found.append(np.mean(grid * np.log(grid / p) + (1 - grid) * np.log((1 - grid) / (1 - p))))
    assert kept >= 48
    assert np.mean(cost) < np.mean(always)


def test_an_infinite_loss_of_the_scores_themselves_does_not_stop_the_choice():
    s, y = sample(300)
    s[:3], y[:3] = 0.0, 1  # zeros that happened
    fitted = SelectedCalibrator().fit(s, y)
    assert fitted.losses_["identity"] == np.inf
    assert np.isnan(fitted.std_errors_["identity"])
    assert fitted.selected_ != "identity"
    assert from_json(fitted.to_json()).losses_ == fitted.losses_


@pytest.mark.statistical
def test_the_order_is_rarely_contradicted_where_it_holds():
    """Monotone laws, 400 samples each: a warning needs more than two standard errors, and is a false alarm here."""
    rates = {}
    for name, law in {"calibrated": lambda s: s, "bent": lambda s: s**2 / (s**2 + 1 - s), "steps": _steps}.items():
        for n in (300, 2000):
            alarms = 0
            for seed in range(400):
                rng = np.random.default_rng([seed, n])
                s = rng.random(n)
                y = (rng.random(n) < law(s)).astype(int)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    alarms += SelectedCalibrator().fit(s, y).contradiction_ is not None
            rates[name, n] = alarms / 400
    assert max(rates.values()) <= 0.05, rates


def _steps(s):
    return np.select([s < 0.4, s < 0.7], [0.1, 0.35], 0.8)


def test_folds_are_random_and_share_the_bins():
    s, y = sample(200)
    one, two = (SelectedCalibrator(random_state=seed).fit(s, y).losses_ for seed in (0, 1))
    assert one != two
    assert BinEffectsCalibrator().fit(s, y).effects_.size == int(np.ceil(2 * 200 ** (1 / 3)))


# ── appendix E ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_appendix_e_is_u_shaped_with_its_minimum_near_a_tenth():
    """The figure of the paper's appendix E.4, against the exact law: ICI and LCS of cross-fitted maps for three k."""
    from dataclasses import replace

    from reproduction import PLANS, Work
    from reproduction.maps import BANDWIDTHS, measure_curves

    h = np.array(BANDWIDTHS)
    values = measure_curves(Work(replace(PLANS["full"], samples=20), n_jobs=2))[0][..., 2:]
    best = h[values.argmin(axis=1)]
    assert (best >= 0.05).all()
    assert (best <= 0.2).all()
    for curve in values.transpose(0, 2, 1).reshape(-1, len(h)):
        low = curve.argmin()
        assert curve[0] > 1.15 * curve[low]
        assert curve[-1] > 2 * curve[low]
        assert (np.diff(curve[:low]) < 0.1 * curve[low]).all()
        assert (np.diff(curve[low:]) > 0).all()


# ── found by review ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [PlattCalibrator, BetaCalibrator, NaturalSplineCalibrator, BinEffectsCalibrator])
@pytest.mark.parametrize("order", ["alternating", "rare"])
def test_many_rows_in_any_order(kind, order):
    """A rough first fit to some of many rows must not mislead, however rows are ordered and however rare events are."""
    rng = np.random.default_rng(0)
    n = 1 << 17
    if order == "alternating":
        y = np.tile([0, 1], n // 2)
        s = np.clip(0.5 + 0.2 * (y - 0.5) + 0.2 * rng.normal(size=n), 0.01, 0.99)
    else:
        x = rng.normal(-8, 1, n)
        s, y = expit(x), (rng.random(n) < expit(x)).astype(int)
    fitted = kind().fit(s, y)
    assert fitted.calibrate(s).mean() == pytest.approx(y.mean(), rel=0.05)  # logistic fits match the base rate
    shuffled = rng.permutation(n)
    np.testing.assert_allclose(
        kind().fit(s[shuffled], y[shuffled]).calibrate(s[:99]), fitted.calibrate(s[:99]), rtol=1e-6
    )


@pytest.mark.parametrize("slope", [60.0, 150.0])
def test_steep_is_not_separated(slope):
    """Classes that overlap have a maximum, however steep: the unpenalised fit of scikit-learn."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=5000)
    y = (rng.random(5000) < expit(slope * x)).astype(int)
    ours = PlattCalibrator(kind="logit").fit(x, y)
    peer = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-13, max_iter=1000).fit(x[:, None], y)
    assert not ours.separated_
    assert ours.slope_ == pytest.approx(peer.coef_[0, 0], rel=1e-6)


def test_beta_on_separated_and_reversed_scores():
    s, y = np.array([0.09, 0.26, 0.3, 0.6, 0.81]), np.array([0, 0, 0, 0, 1])
    for variant in ("abm", "am", "ab"):
        fitted = BetaCalibrator(parameters=variant).fit(s, y)
        assert fitted.separated_
        assert np.ptp(fitted.calibrate(s)) > 0.1
        constant = BetaCalibrator(parameters=variant).fit([0.2, 0.3, 0.6, 0.8], [1, 1, 0, 0]).calibrate([0.1, 0.9])
        np.testing.assert_allclose(constant, 0.5, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_kernel_crosses_gaps_in_a_straight_line(seed):
    rng = np.random.default_rng(seed)
    s = np.concatenate([rng.uniform(0, 0.2, 100), rng.uniform(0.8, 1, 100)])
    y = rng.integers(0, 2, 200)
    inside = KernelCalibrator(bandwidth=0.05).fit(s, y).calibrate(np.linspace(0.27, 0.73, 200))
    assert np.abs(np.diff(inside, 2)).max() < 1e-3


def test_kernel_of_heaped_scores_stays_small():
    """Most scores within 1e-10 of 0 used to ask for terabytes."""
    rng = np.random.default_rng(0)
    for heap in (1e-6, 1e-10):
        s = np.concatenate([rng.random(440) * heap, rng.random(60)])
        y = np.concatenate([np.zeros(440, int), np.ones(60, int)])
        y[rng.integers(0, 500, 5)] ^= 1
        fitted = KernelCalibrator().fit(s, y)
        assert fitted.bandwidth_ > 1e-4
        assert fitted.calibrate([0.0, 0.9])[1] > 0.8
    jitter = np.repeat([0.1, 0.3, 0.6], 130) * (1 + 1e-15 * rng.normal(size=390))
    truth = np.repeat([0.1, 0.3, 0.6], 130)
    outcome = (rng.random(390) < truth).astype(int)
    for calibrator in (KernelCalibrator(), NaturalSplineCalibrator()):
        fitted = calibrator.fit(jitter, outcome).calibrate(np.linspace(0.1, 0.6, 51))
        assert fitted.min() > 0.02
        assert fitted.max() < 0.75


def test_dirichlet_does_not_diverge():
    """Sharp scores of ten classes: the objective at the fit is below that of the identity."""
    from sklearn.datasets import load_digits
    from sklearn.naive_bayes import GaussianNB

    X, y = load_digits(return_X_y=True)
    p = GaussianNB(var_smoothing=1e-3).fit(X[:700], y[:700]).predict_proba(X[700:1000])
    for calibrator in (DirichletCalibrator(), MatrixScalingCalibrator(), VectorScalingCalibrator()):
        fitted = calibrator.fit(p, y[700:1000])
        assert np.abs(fitted.weights_).max() < 100
        assert log_loss(y[700:1000], fitted.predict_proba(p)) < log_loss(y[700:1000], p)


def test_temperature_without_a_finite_optimum():
    for s, y in (
        ([0.3, 0.5, 0.6], [0, 1, 1]),
        ([0.5, 0.5, 0.5], [0, 1, 1]),
        (np.linspace(0.01, 0.99, 50), np.arange(50) > 24),
    ):
        fitted = TemperatureCalibrator().fit(s, y)
        p = fitted.calibrate([0.01, 0.4, 0.499, 0.501, 0.6])
        assert p.min() > 1e-6
        assert p.max() < 1 - 1e-6
    assert TemperatureCalibrator().fit([0.5, 0.5, 0.5], [0, 1, 1]).temperature_ == 1.0
    law = TemperatureCalibrator().fit(np.eye(3)[[0, 1, 2, 0]] * 0.9 + 0.1 / 3, [0, 1, 2, 0]).predict_proba(np.eye(3))
    assert law.min() > 0


def test_venn_abers_of_very_uneven_weights():
    s, y, w = [0.16, 0.3, 0.36, 0.51, 0.6, 0.88], [0, 1, 1, 0, 0, 1], [1e12, 1e-12, 1, 1e12, 1e-12, 1e12]
    fitted = VennAbersCalibrator().fit(s, y, w)
    new = np.array([0.05, 0.3, 0.36, 0.4, 0.9])
    for column, outcome in ((0, 0.0), (1, 1.0)):
        brute = [isotonic_at(np.append(s, v), np.append(y, outcome), np.append(w, 1.0)) for v in new]
        np.testing.assert_allclose(fitted.predict_interval(new)[:, column], brute, rtol=1e-12)


def test_straight_lines_of_any_penalty():
    s, y = sample(300)
    expected = PlattCalibrator().fit(s, y).calibrate(s)
    for penalty in (1e12, 1e15, 1e18):
        np.testing.assert_allclose(
            MonotoneSplineCalibrator(penalty=penalty).fit(s, y).calibrate(s), expected, atol=1e-4
        )


def test_a_clip_that_was_asked_for_is_kept():
    s, y = sample(300)
    for kind in (MonotoneSplineCalibrator, SplineCalibrator, IsotonicCalibrator, BinningCalibrator, KernelCalibrator):
        p = kind(clip=0.1).fit(s, y).calibrate(np.linspace(0, 1, 101))
        assert p.min() >= 0.1
        assert p.max() <= 0.9


def test_maps_inside_maps():
    p, y = three_classes(300)
    nested = OneVsRestCalibrator(SelectedCalibrator(candidates=["platt", "beta"]))
    assert nested.fit(p, y).predict_proba(p).shape == (300, 3)
    zero = OneVsRestCalibrator(IsotonicCalibrator(clip=0, shrink=False)).fit(p, y).predict_proba(np.eye(3))
    np.testing.assert_allclose(zero.sum(axis=1), 1.0)
    assert OneVsRestCalibrator("beta").fit(p, y).predict_proba(p).shape == (300, 3)
    s, z = sample(200)
    assert SelectedCalibrator(candidates="platt").fit(s, z).selected_ == "platt"


def test_repeated_folds_give_a_mean_loss():
    from sklearn.model_selection import KFold, RepeatedKFold

    s, y = sample(300)
    once = SelectedCalibrator(candidates=["platt"], cv=KFold(3)).fit(s, y).losses_["platt"]
    often = SelectedCalibrator(candidates=["platt"], cv=RepeatedKFold(n_splits=3, n_repeats=4, random_state=0)).fit(
        s, y
    )
    assert often.losses_["platt"] == pytest.approx(once, rel=0.05)


def test_the_default_selection_is_reproducible():
    s, y = sample(300)
    assert SelectedCalibrator().fit(s, y).losses_ == SelectedCalibrator().fit(s, y).losses_


def test_getting_a_calibrator_with_parameters_leaves_the_given_one_alone():
    given = IsotonicCalibrator()
    assert get_calibrator(given, clip=0.1).clip == 0.1
    assert given.clip == "auto"
    with pytest.raises(ValueError, match="Pass PlattCalibrator\\(\\)\\."):
        get_calibrator(PlattCalibrator)


# ── parts that only their users saw ─────────────────────────────────────────────────────────────────────


def test_every_class_is_in_every_training_part():
    """Two rows of the rare class often fall into one fold: such draws are drawn again. Sizes differ by at most one."""
    codes = np.array([0, 0, 1, 1, 1, 1, 1])
    for seed in range(50):
        splits = random_folds(codes, 3, np.random.default_rng(seed))
        assert sorted(test.size for _, test in splits) == [2, 2, 3]
        for train, test in splits:
            assert set(codes[train]) == {0, 1}
            assert np.sort(np.concatenate([train, test])).tolist() == list(range(7))


def test_a_score_on_an_edge_belongs_to_the_bin_above_in_the_fit_too():
    """No score lies between .4 and .5, so that both edges divide the rows alike, and a step starts at its edge."""
    rng = np.random.default_rng(0)
    s = np.repeat([0.3, 0.5, 0.7], 400)
    y = rng.random(1200) < np.where(s < 0.4, 0.6, 0.3)
    on, between = (BinEffectsCalibrator(edges=[edge]).fit(s, y) for edge in (0.5, 0.4))
    assert np.abs(on.effects_).min() > 0.05
    assert on.effects_ == pytest.approx(between.effects_, abs=1e-12)
    assert on.calibrate([0.3, 0.5, 0.7]) == pytest.approx(between.calibrate([0.3, 0.5, 0.7]), abs=1e-12)


def test_a_bin_without_rows_changes_nothing():
    """An empty bin has no gap, no information and no effect, and takes nothing from the others."""
    rng = np.random.default_rng(0)
    s = np.repeat([0.3, 0.5, 0.7], 400)
    y = rng.random(1200) < np.where(s < 0.4, 0.6, 0.3)
    without, beside = (BinEffectsCalibrator(edges=edges).fit(s, y) for edges in ([0.4, 0.6], [0.1, 0.4, 0.6]))
    assert beside.variance_ == pytest.approx(without.variance_, rel=1e-12)
    assert beside.effects_ == pytest.approx([0.0, *without.effects_], abs=1e-12)


def test_nonnegative_least_squares_alone_solve_the_quadratic_program(monkeypatch):
    """
    What is polished is the minimum already, so that a refusal to polish costs digits, not the answer.

    Shortest x with x₁ + 2x₂ ≥ 5: (1, 2), the projection of 0 on the line. With G = ((2, 1), (1, 2)) and the same
    constraint x = λ G⁻¹a, G⁻¹a = (0, 1), a·G⁻¹a = 2: (0, 2.5).
    """
    monkeypatch.setattr("scoreprism._kernels.quadratic_program._polish", lambda x, *_: x)
    rows, least = np.array([[1.0, 2.0]]), np.array([5.0])
    assert solve_qp(np.eye(2), np.zeros(2), rows, least) == pytest.approx([1.0, 2.0], abs=1e-9)
    turned = np.array([[2.0, 1.0], [1.0, 2.0]])
    assert solve_qp(turned, np.zeros(2), rows, least) == pytest.approx([0.0, 2.5], abs=1e-9)


def test_a_clip_of_one_half_is_refused():
    from scoreprism.exceptions import InputError

    s, y = sample(50)
    with pytest.raises(InputError) as caught:
        IsotonicCalibrator(clip=0.5).fit(s, y)
    assert str(caught.value) == (
        "clip must be 'auto' or a distance of at least 0 and below 1/2; got 0.5. Pass a number in that range."
    )
    IsotonicCalibrator(clip=0.49).fit(s, y)


def test_parameters_stay_as_they_were_passed():
    s, y = sample(300)
    loose, strict = (IsotonicCalibrator(interpolation=word).fit(s, y) for word in ("Step", "step"))
    assert loose.interpolation == "Step"
    assert loose.n_blocks_ == strict.n_blocks_
    np.testing.assert_array_equal(loose.calibrate(s), strict.calibrate(s))


def test_bad_parameters_are_refused_wherever_a_map_is_fitted():
    s, y = sample(200)
    for bad in (NaturalSplineCalibrator(n_knots=9), OneVsRestCalibrator(NaturalSplineCalibrator(n_knots=9))):
        for fit in (lambda bad=bad: bad.fit(s, y), lambda bad=bad: decompose(y, s, calibrator=bad)):
            with pytest.raises(InputError, match="n_knots must be a whole number from 3 to 7"):
                fit()
