"""The numbers behind figures against direct formulas, scikit-learn, scipy, model-diagnostics and dcurves."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import GroupKFold, KFold

from scoreprism import Chain, Level, compare, corp_decomposition, decompose
from scoreprism.calibrators import get_calibrator
from scoreprism.curves import (
    MurphyDecomposition,
    calibration_map,
    grouping_curve,
    murphy_curve,
    murphy_decomposition,
    net_benefit,
    resolution_plane,
    roc_curve,
    score_distribution,
)
from scoreprism.exceptions import InfiniteLossError, InfiniteLossWarning, InputError, LabelError
from scoreprism.losses import BetaLoss, Elementary, Tsallis, from_entropy, from_loss, get_loss
from tests.chains import decompose_losses
from tests.conftest import EVERY_LOSS

pytestmark = pytest.mark.filterwarnings(
    "ignore::scoreprism.exceptions.HardLabelsWarning"
)  # scores of 0 and 1 on purpose


#: Sums of n terms of size 1 / n in another order: rounding only.
ROUNDING = 1e-13


def sample(seed: int, n: int = 200, kind: str = "ties") -> tuple[np.ndarray, np.ndarray]:
    """Scores of a kind, and outcomes that follow them."""
    rng = np.random.default_rng(seed)
    scores = {
        "ties": rng.integers(0, 21, n) / 20,  # 0 and 1 among them
        "smooth": rng.random(n),
        "constant": np.full(n, 0.3),
        "certain": rng.integers(0, 2, n).astype(float),
        "ulp": 0.3 + rng.integers(0, 3, n) * np.spacing(0.3),
    }[kind]
    return (rng.random(n) < 0.2 + 0.6 * scores).astype(int), scores


def weights_for(seed: int, n: int) -> np.ndarray:
    """Uneven weights, a third of them zero."""
    rng = np.random.default_rng(1000 + seed)
    return np.where(rng.random(n) < 1 / 3, 0.0, rng.gamma(1.0, size=n) + 0.01)


def features(seed: int = 0, n: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X, outcomes, the true law and a score that is neither calibrated nor complete."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    q = 1 / (1 + np.exp(-X.sum(axis=1)))
    return X, (rng.random(n) < q).astype(int), q, 1 / (1 + np.exp(-2 * X[:, 0]))


def elementary(p, y, theta):
    """The definition of `losses.Elementary`, also at θ = 0 and 1, which that class leaves out."""
    return np.where(y == 1, (1 - theta) * (p <= theta), theta * (p > theta))


# ── Murphy curves ──────────────────────────────────────────────────────────────────────────────────────────────────────

KINDS = ["ties", "smooth", "constant", "certain", "ulp"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 150])
def test_murphy_curve_is_the_mean_elementary_loss_everywhere(kind, weighted, n):
    """At every jump, one float before and after it, and at random: the mean of losses.Elementary(θ)."""
    y, s = sample(n, n, kind)
    w = weights_for(n, n) + (n < 3) if weighted else None
    curve = murphy_curve(y, s, sample_weight=w)
    held = np.ones(n, bool) if w is None else w > 0
    jumps = np.unique(s[held])
    rng = np.random.default_rng(n)
    theta = np.concatenate([jumps, np.nextafter(jumps, 0), np.nextafter(jumps, 1), rng.random(20)])
    theta = np.unique(theta[(theta > 0) & (theta < 1)])
    direct = np.array([np.average(Elementary(t).loss(s, y), weights=w) for t in theta])
    np.testing.assert_allclose(curve.at(theta), direct, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(
        murphy_curve(y, s, thresholds=theta, sample_weight=w).loss, direct, rtol=0, atol=ROUNDING
    )
    # the points of the curve: every score twice, first the limit from the left, then the value
    assert curve.theta.tolist() == np.repeat(np.unique([0.0, *jumps, 1.0]), 2).tolist()
    at = curve.theta[::2]
    np.testing.assert_allclose(
        curve.loss[1::2], [np.average(elementary(s, y, t), weights=w) for t in at], rtol=0, atol=ROUNDING
    )
    left = np.nextafter(at[1:], 0)  # one float away the loss has moved by one float as well
    np.testing.assert_allclose(
        curve.loss[2::2], [np.average(elementary(s, y, t), weights=w) for t in left], rtol=0, atol=ROUNDING
    )
    assert curve.n == held.sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_murphy_standard_errors(kind, weighted):
    """Σw²(r − r̄)²/(Σw)², the formula of `intervals.Moments`, at thresholds of one's own and at the jumps."""
    y, s = sample(5, 120, kind)
    w = weights_for(5, 120) if weighted else None
    mass = np.ones(120) if w is None else w
    exact, some = (murphy_curve(y, s, thresholds=t, sample_weight=w) for t in (None, np.linspace(0, 1, 23)))
    for theta, error in [
        *zip(exact.theta[1::2], exact.std_error[1::2], strict=True),
        *zip(some.theta, some.std_error, strict=True),
    ]:
        r = elementary(s, y, theta)
        direct = np.sqrt((mass**2 * (r - np.average(r, weights=mass)) ** 2).sum()) / mass.sum()
        assert error == pytest.approx(direct, abs=1e-9)  # the root of a rounding error of 1e-18


def test_murphy_standard_error_is_zero_where_all_rows_lose_the_same():
    curve = murphy_curve([1] * 7, [0.3] * 7, thresholds=[0.1, 0.9])
    assert curve.std_error.tolist() == [0.0, 0.0]
    assert curve.loss.tolist() == [0.0, pytest.approx(0.1, abs=1e-16)]
    assert np.isnan(murphy_curve([1], [0.3]).std_error).all()  # one row has no standard error


def test_integer_weights_are_repeated_rows():
    """Except for standard errors: a repeated row is two observations."""
    y, s = sample(1, 60)
    w = np.random.default_rng(0).integers(0, 4, 60)
    theta = np.linspace(0, 1, 41)
    a, b = murphy_curve(y, s, sample_weight=w), murphy_curve(np.repeat(y, w), np.repeat(s, w))
    np.testing.assert_allclose(a.at(theta), b.at(theta), rtol=0, atol=ROUNDING)
    assert a.integrate("brier") == pytest.approx(b.integrate("brier"), abs=ROUNDING)
    a, b = roc_curve(y, s, sample_weight=w), roc_curve(np.repeat(y, w), np.repeat(s, w))
    assert (a.auc, a.hull_auc) == pytest.approx((b.auc, b.hull_auc), abs=ROUNDING)
    a, b = net_benefit(y, s, sample_weight=w), net_benefit(np.repeat(y, w), np.repeat(s, w))
    np.testing.assert_allclose(a.benefit, b.benefit, rtol=0, atol=1e-11)  # θ/(1 − θ) is up to 99
    a, b = score_distribution(y, s, sample_weight=w), score_distribution(np.repeat(y, w), np.repeat(s, w))
    np.testing.assert_allclose([a.events, a.others], [b.events, b.others], rtol=0, atol=ROUNDING)


#: Losses that charge for being certain and right: ℓ(p,1) = (1−p)² + 2 and ℓ(p,0) = p² + 1; ℰ(q) = 4 − Σq² + q₁.
CHARGING = [
    from_loss(lambda p, y: (p - y) ** 2 + 1 + y, name="charging"),
    from_entropy(
        lambda q: 4 - (q**2).sum(axis=1) + q[:, 1], lambda q: np.eye(q.shape[1])[1] - 2 * q, name="charging entropy"
    ),
]


@pytest.mark.parametrize("loss", [*EVERY_LOSS, *CHARGING], ids=str)
@pytest.mark.parametrize("kind", ["smooth", "ties"])
def test_murphy_integrates_to_every_loss(loss, kind):
    """∫ℓ_θ dH(θ) is the loss: its own mean. Scores 0 and 1 make some infinite, and the integral with them."""
    y, s = sample(3, 150, kind)
    w = weights_for(3, 150)
    direct = float((w[w > 0] * loss.loss(s, y)[w > 0]).sum() / w.sum())
    found = murphy_curve(y, s, sample_weight=w).integrate(loss)
    assert found == direct if np.isinf(direct) else found == pytest.approx(direct, abs=1e-10)


def test_infinite_log_loss_only_where_it_is():
    assert murphy_curve([1, 0], [0.0, 0.5]).integrate("log") == np.inf
    assert murphy_curve([1, 0], [0.5, 1.0]).integrate("log") == np.inf
    assert murphy_curve([0, 1], [0.0, 1.0]).integrate("log") == 0.0
    assert murphy_curve([1, 0, 1], [0.0, 0.5, 0.5], sample_weight=[0, 1, 1]).integrate("log") == pytest.approx(
        np.log(2)
    )


def test_murphy_agrees_with_model_diagnostics():
    """
    model-diagnostics 1.5: ElementaryScore(eta)(y, s), the heights of plot_murphy_diagram, without a factor.

    Its indicators are 1{η ≤ z}: a prediction equal to η counts as above, ours as below. So it is our limit from the
    left; away from the scores both are the same.
    """
    scoring = pytest.importorskip("model_diagnostics.scoring", reason='python -m pip install -e ".[test]"')
    y, s = sample(2, 120)
    w = weights_for(2, 120)
    curve = murphy_curve(y, s, sample_weight=w)
    line = curve._exact()
    for eta in [*np.unique(s)[1:-1], 0.011, 0.3333, 0.77]:
        theirs = scoring.ElementaryScore(eta)(y, s, weights=w)
        assert line.before(np.array([eta]))[0] == pytest.approx(theirs, abs=ROUNDING)
        if eta not in s:
            assert curve.at([eta])[0] == pytest.approx(theirs, abs=ROUNDING)
    plt = pytest.importorskip("matplotlib.figure")
    axes = plt.Figure().subplots()
    etas = np.linspace(0.013, 0.987, 50)
    scoring.plot_murphy_diagram(y, s, w, etas=etas, ax=axes)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), curve.at(etas), rtol=0, atol=ROUNDING)


def test_murphy_curve_with_thresholds_has_no_values_elsewhere():
    curve = murphy_curve([0, 1], [0.2, 0.6], thresholds=[0.5, 0.1, 0.5])
    assert curve.theta.tolist() == [0.1, 0.5]
    for call in (lambda: curve.at([0.3]), lambda: curve.integrate("brier")):
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == (
            "only a curve that knows every jump has values elsewhere; got a curve made with thresholds=. "
            "Make it with thresholds=None."
        )


@pytest.mark.parametrize(
    ("thresholds", "got"),
    [([1.2], "1.2 to 1.2"), ([-0.1, 0.5], "-0.1 to 0.5"), ([[0.1]], "shape (1, 1)"), ([], "shape (0,)")],
)
@pytest.mark.parametrize("function", [murphy_curve, net_benefit, murphy_decomposition])
def test_thresholds_are_checked(function, thresholds, got):
    y, s = sample(0, 60, "smooth")
    with pytest.raises(InputError) as caught:
        function(y, s, thresholds=thresholds)
    rule = "thresholds must be a column of numbers between 0 and 1"
    assert str(caught.value) == f"{rule}; got {got}. For example np.arange(1, 100) / 100."


# ── the Murphy decomposition ───────────────────────────────────────────────────────────────────────────────────────────


def options_of(case: str) -> tuple[np.ndarray, np.ndarray, dict]:
    """Outcomes, scores and options of `decompose`: one case for each way laws can come about."""
    X, y, q, s = features()
    _, yc, _, sc = features(1)
    rng = np.random.default_rng(2)
    options = {
        "two terms": {},
        "weights": {"q": q, "sample_weight": weights_for(0, y.size)},
        "groups": {"q": q, "groups": np.arange(y.size) // 4, "sample_weight": weights_for(0, y.size)},
        "features": {"X": X, "reference": "logistic", "cv": 2},
        "calibration": {"calibration": (sc, yc), "calibrator": "platt"},
        "four terms": {
            "q": q,
            "latent": np.clip(q + rng.normal(0, 0.05, q.size), 0.01, 0.99),
            "calibrator": "isotonic",
        },
    }[case]
    return y, s, {"random_state": 0, **options}


CASES = ["two terms", "weights", "groups", "features", "calibration", "four terms"]
MIXED = [
    get_loss("brier"),
    get_loss("log"),
    get_loss("spherical"),
    BetaLoss(a=2, b=-0.3),
    Tsallis(alpha=3),
    CHARGING[0],
]


@pytest.mark.parametrize("form", ["debiased", "difference", "plugin"])
@pytest.mark.parametrize("case", CASES)
def test_murphy_decomposition_integrates_to_every_decomposition(case, form):
    """And at a threshold it is the decomposition of the elementary loss, intervals included; terms make the curve."""
    y, s, options = options_of(case)
    if form == "plugin":  # which goes by one partition; splits of one's own are one
        folds = KFold(5, shuffle=True, random_state=0) if "groups" not in options else GroupKFold(5)
        options = {**options, "cv": list(folds.split(s, y, options.get("groups")))}
    thetas = [0.12, 0.5, 0.83]
    curve = murphy_decomposition(y, s, thresholds=thetas, form=form, **options)
    losses = [*MIXED, *map(Elementary, thetas)]
    direct = decompose_losses(y, s, losses=losses, form=form, **options)
    found = list(direct.values())
    for loss, whole in zip(MIXED, found, strict=False):
        terms = curve.integrate(loss)
        assert list(terms) == list(whole.terms)
        assert list(terms.values()) == pytest.approx(list(whole.terms.values()), abs=1e-10)
    for i, whole in enumerate(found[len(MIXED) :]):
        assert curve.values[i] == pytest.approx(list(whole.terms.values()), abs=ROUNDING)
        ends = [whole.interval(term) for term in whole.names]
        # 1e-9: roots of variances, in which rounding errors are about 1e-18
        assert curve.low[i] == pytest.approx([end.low for end in ends], abs=1e-9)
        assert curve.high[i] == pytest.approx([end.high for end in ends], abs=1e-9)
    grid = np.linspace(0, 1, 101)
    whole = murphy_curve(y, s, sample_weight=options.get("sample_weight"))
    np.testing.assert_allclose(curve.at(grid).sum(axis=1), whole.at(grid), rtol=0, atol=ROUNDING)
    np.testing.assert_array_equal(curve.at(thetas), curve.values)


def exact_population() -> tuple[Chain, int]:
    """
    Exact laws of a finite population: four states with P(Y=1) = 1/10, 1/2, 3/5, 9/10 and a score of two values.

    Rows are state × outcome, weighted by their probabilities. The score joins states 1, 2 and 3, 4; C is the mean.
    """
    prob, law, score = np.array([0.4, 0.2, 0.1, 0.3]), np.array([0.1, 0.5, 0.6, 0.9]), np.array([0.3, 0.3, 0.7, 0.7])
    joined = np.array([(0.4 * 0.1 + 0.2 * 0.5) / 0.6] * 2 + [(0.1 * 0.6 + 0.3 * 0.9) / 0.4] * 2)
    y = np.tile([0, 1], 4)
    weight = np.stack([prob * (1 - law), prob * law], axis=1).ravel()
    levels = [Level(name, np.repeat(column, 2)) for name, column in (("S", score), ("C", joined), ("Q", law))]
    return Chain(y, levels, sample_weight=weight, population=True), y.size


@pytest.mark.parametrize("form", ["debiased", "difference", "plugin"])
def test_exact_laws_give_exact_terms_in_every_form(form):
    """With exact laws all forms agree (theorem 2.1): E d_θ(S, C), E d_θ(C, Q) and E ℰ_θ(Q), written out."""
    chain, n = exact_population()
    curve = MurphyDecomposition.from_chain(chain, form=form)
    assert curve.n == n
    prob, law = np.array([0.4, 0.2, 0.1, 0.3]), np.array([0.1, 0.5, 0.6, 0.9])
    score, joined = np.array([0.3, 0.3, 0.7, 0.7]), np.array([0.14 / 0.6] * 2 + [0.33 / 0.4] * 2)

    def divergence(p, q, theta):
        return np.where((np.minimum(p, q) <= theta) & (theta < np.maximum(p, q)), np.abs(q - theta), 0.0)

    for theta, values in zip(curve.theta, curve.values, strict=True):
        entropy = np.minimum(theta * (1 - law), (1 - theta) * law)
        terms = [divergence(score, joined, theta), divergence(joined, law, theta), entropy]
        assert values[:3] == pytest.approx([float(prob @ term) for term in terms], abs=ROUNDING)
    np.testing.assert_allclose(curve.values[:, 3:], 0.0, atol=ROUNDING)  # the residual of plug-in
    np.testing.assert_allclose(curve.low[:, 1], curve.high[:, 1], atol=ROUNDING)  # a population has no sampling error
    for loss in MIXED:
        assert curve.integrate(loss) == pytest.approx(chain.decompose(loss, form=form).terms, abs=1e-10)


def test_interval_at_zero_belongs_to_the_value_there():
    """At θ = 0 a prediction of 0 still misses events, at a cost of 1: reliability is 1/2, ± z·√(1/4/n)."""
    y, s = [0, 1] * 50, [0.0] * 100
    curve = murphy_decomposition(y, s, thresholds=[0, 1], random_state=0)
    assert curve.values[0, 0] == pytest.approx(0.5, abs=ROUNDING)
    assert (curve.low[0, 0], curve.high[0, 0]) == pytest.approx(
        (0.5 - 1.959964 * 0.05, 0.5 + 1.959964 * 0.05), abs=1e-6
    )
    assert curve.values[1].tolist() == [0.0, 0.0]
    by_rows = murphy_decomposition(y, s, thresholds=[0, 1], groups=np.arange(100), random_state=0)
    np.testing.assert_allclose([by_rows.low[0, 0], by_rows.high[0, 0]], [curve.low[0, 0], curve.high[0, 0]], atol=1e-9)


def test_infinite_levels():
    """As `decompose`: an infinite prediction is reported as infinite, an infinite law is refused."""
    y, s, options = options_of("two terms")
    curve = murphy_decomposition(y, s.round(), **options)
    with pytest.warns(InfiniteLossWarning):
        direct = decompose(y, s.round(), loss="log", **options)
    assert curve.integrate("log") == pytest.approx(direct.terms, abs=1e-10)
    certain = murphy_decomposition(y, s, q=s.round(), random_state=0)
    with pytest.raises(InfiniteLossError) as caught:
        certain.integrate("log")
    assert str(caught.value) == (
        "level 'Q' must have a finite log loss in every row; it gives probability 0 to what happened. "
        "Use form='plugin', or pass probabilities that are kept away from 0."
    )
    assert np.isfinite(list(certain.integrate("brier").values())).all()


OPTIONS = (
    "each option must be one of calibrator, reference, calibration, cv, random_state, n_jobs, repeats, q, latent, levels, "
    "sample_weight, groups, pos_label, classes; got 'random_stat'. Did you mean 'random_state'?"
)


def test_refusals_of_curves_with_fitted_laws():
    X, y, q, s = features()
    three = np.random.default_rng(0).dirichlet(np.ones(3), y.size)
    remedy = "For class k against the rest pass y == k and y_proba[:, k]."
    for call, text in (
        (
            lambda: murphy_decomposition(y, three),
            f"a curve over one probability must have two classes; got 3. {remedy}",
        ),
        (
            lambda: grouping_curve(y, three, X, reference="logistic", cv=2),
            f"a curve over one probability must have two classes; got 3. {remedy}",
        ),
        (
            lambda: murphy_decomposition(y, s, random_stat=0),
            OPTIONS,
        ),
        (
            lambda: murphy_decomposition(y, s, form="plug"),
            "form must be one of debiased, difference, plugin; got 'plug'. Did you mean 'plugin'?",
        ),
        (
            lambda: murphy_decomposition(y, s, confidence_level=95),
            "confidence_level must be a confidence level between 0 and 1; got 95. Pass a number in that range.",
        ),
        (
            lambda: grouping_curve(y, s),
            "a grouping curve must have the levels S, C and Q; got S, C. Pass X or q=, and no further levels.",
        ),
        (
            lambda: grouping_curve(y, s, q=q, latent=q),
            "a grouping curve must have the levels S, C and Q; got S, C, Q, Π. Pass X or q=, and no further levels.",
        ),
        (
            lambda: grouping_curve(y, s, q=q, n_bins=0),
            "n_bins must be a whole number of at least 1; got 0. Pass an integer.",
        ),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == text


# ── ROC ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["ties", "smooth", "constant", "certain"])
def test_roc_equals_scikit_learn(kind, weighted):
    """sklearn.metrics.roc_curve with all points, as functions; roc_auc_score (1.9)."""
    from sklearn.metrics import roc_auc_score
    from sklearn.metrics import roc_curve as theirs

    y, s = sample(4, 300, kind)
    w = weights_for(4, 300) if weighted else None
    curve = roc_curve(y, s, sample_weight=w)
    fpr, tpr, cuts = theirs(y, s, sample_weight=w, drop_intermediate=False)
    assert curve.auc == pytest.approx(roc_auc_score(y, s, sample_weight=w), abs=1e-12)
    # every point of theirs lies on a segment of ours, and every corner of ours is one of theirs
    for x, height in zip(fpr, tpr, strict=True):
        beside = np.flatnonzero((curve.fpr[:-1] <= x + 1e-12) & (x <= curve.fpr[1:] + 1e-12))
        dx, dy = np.diff(curve.fpr)[beside], np.diff(curve.tpr)[beside]
        off = np.abs(dx * (height - curve.tpr[beside]) - dy * (x - curve.fpr[beside]))
        inside = (curve.tpr[beside] <= height + 1e-12) & (height <= curve.tpr[beside + 1] + 1e-12)
        assert off[inside].min() < 1e-12
    at = {cut: point for cut, *point in zip(cuts.tolist(), fpr, tpr, strict=True)}
    for cut, *point in zip(curve.thresholds.tolist(), curve.fpr, curve.tpr, strict=True):
        assert at[cut] == pytest.approx(point, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["ties", "smooth", "certain"])
def test_roc_hull(kind, weighted):
    """scipy.spatial.ConvexHull of the curve, its upper side; and scikit-learn's AUC of the isotonic fit."""
    from scipy.spatial import ConvexHull
    from sklearn.metrics import roc_auc_score

    y, s = sample(6, 200, kind)
    w = weights_for(6, 200) + 0.05 if weighted else None
    curve = roc_curve(y, s, sample_weight=w)
    points = np.stack([np.append(curve.fpr, 1.0), np.append(curve.tpr, 0.0)], axis=1)
    corners = points[ConvexHull(points).vertices]
    upper = corners[np.lexsort((corners[:, 1], corners[:, 0]))]
    upper = upper[~((upper[:, 0] == 1.0) & (upper[:, 1] == 0.0))]
    grid = np.linspace(0, 1, 501)
    np.testing.assert_allclose(
        np.interp(grid[1:], curve.hull_fpr, curve.hull_tpr), np.interp(grid[1:], *upper.T), rtol=0, atol=1e-12
    )
    recalibrated = IsotonicRegression().fit(s, y, w).predict(s)
    assert curve.hull_auc == pytest.approx(roc_auc_score(y, recalibrated, sample_weight=w), abs=1e-12)
    again = roc_curve(y, recalibrated, sample_weight=w)
    np.testing.assert_allclose([again.fpr, again.tpr], [curve.hull_fpr, curve.hull_tpr], rtol=0, atol=1e-12)


def test_roc_needs_both_classes():
    for y, w in (([1, 1], None), ([0, 0], None), ([0, 1], [1, 0])):
        with pytest.raises(InputError) as caught:
            roc_curve(y, [0.2, 0.3], sample_weight=w)
        rule = "a ROC curve must have events and non-events, both with weight"
        assert str(caught.value) == f"{rule}; got one of the two only. Pass rows of both classes."


# ── the resolution plane ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["brier", "log"])
def test_resolution_plane_is_corp(loss, weighted):
    """The same calls of corp_decomposition: equal to the last bit."""
    _, y, q, s = features()
    w = weights_for(0, y.size) if weighted else None
    plane = resolution_plane(y, {"s": s, "q": q}, loss=loss, sample_weight=w)
    assert plane.models == ("s", "q")
    for i, score in enumerate((s, q)):
        d = corp_decomposition(y, score, loss=loss, sample_weight=w)
        assert [plane.reliability[i], plane.resolution[i]] == list(d.terms.values())[:2]
        assert plane.uncertainty == pytest.approx(
            d.terms["uncertainty"], abs=ROUNDING
        )  # blocks differ, so do their sums
        assert plane.risk[i] == d.risk
    np.testing.assert_allclose(plane.reliability - plane.resolution + plane.uncertainty, plane.risk, atol=1e-12)


def test_resolution_plane_by_crossfitting():
    _, y, q, s = features()
    plane = resolution_plane(y, pd.DataFrame({"s": s, "q": q}), method="crossfit", random_state=3, cv=2)
    found = compare(y, {"s": s, "q": q}, random_state=3, cv=2).decompositions
    for i, d in enumerate(found.values()):
        terms = d.resolution_form.terms
        assert [plane.reliability[i], plane.resolution[i], plane.uncertainty] == list(terms.values())
    assert plane.to_frame().columns.tolist() == ["model", "reliability", "resolution", "loss"]
    assert json.loads(json.dumps(plane.to_dict()))["models"] == ["s", "q"]


CROSSFIT_OPTIONS = (
    "an option of method='crossfit' must be one of X, loss, calibrator, reference, calibration, q, latent, levels, "
    "cv, form, sample_weight, groups, pos_label, classes, clip, random_state, n_jobs, repeats; got 'random_stat'. "
    "Did you mean 'random_state'?"
)


def test_resolution_plane_refusals():
    y, s = sample(0, 60, "smooth")
    for call, text in (
        (
            lambda: resolution_plane(y, {"s": s}, random_state=0),
            "method='corp' must have no further options; got 'random_state'. Leave them out, or use method='crossfit'.",
        ),
        (
            lambda: resolution_plane(y, {"s": s}, method="crossfit", random_stat=0),
            CROSSFIT_OPTIONS,
        ),
        (
            lambda: resolution_plane(y, {"s": s}, method="cv"),
            "method must be one of corp, crossfit; got 'cv'. Choose one of these.",
        ),
        (
            lambda: resolution_plane(y, s),
            "y_proba must be a mapping or a frame of models; got ndarray. For example {'logistic': p1, 'forest': p2}.",
        ),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == text


# ── grouping ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("case", ["weights", "groups", "features"])
@pytest.mark.parametrize("n_bins", [1, 7])
def test_grouping_curve_adds_up(case, n_bins):
    """Bins weighted by their mass: the grouping term of decompose(loss="brier")."""
    y, s, options = options_of(case)
    s = s.round(1)
    curve = grouping_curve(y, s, n_bins=n_bins, **options)
    whole = decompose(y, s, loss="brier", **options)
    assert curve.mass @ curve.variance == pytest.approx(whole.terms["grouping"], abs=ROUNDING)
    assert curve.mass.sum() == pytest.approx(1.0, abs=ROUNDING)
    if n_bins == 1:
        interval = whole.interval("grouping")
        assert (curve.low[0], curve.high[0]) == pytest.approx((interval.low, interval.high), abs=ROUNDING)


def test_quantiles_of_one_bin():
    """numpy.quantile(method="inverted_cdf"), with weights and without."""
    _, y, q, s = features()
    w = weights_for(3, y.size)
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    for weight in (None, w):
        curve = grouping_curve(y, s, q=q, n_bins=1, sample_weight=weight, random_state=0)
        expected = np.quantile(q, levels, weights=weight, method="inverted_cdf")
        assert curve.quantiles[0].tolist() == expected.tolist()
        assert curve.x[0] == pytest.approx(np.average(s, weights=weight), abs=ROUNDING)


def test_equal_scores_stay_in_one_bin():
    """Ten scores of 40 rows: ten bins hold one each; a hundred bins cannot be more."""
    rng = np.random.default_rng(0)
    s, q = np.repeat(np.arange(10) / 10, 40), rng.random(400)
    y = (rng.random(400) < q).astype(int)
    for n_bins in (10, 100):
        curve = grouping_curve(y, s, q=q, n_bins=n_bins, random_state=0)
        assert curve.x == pytest.approx(np.arange(10) / 10, abs=ROUNDING)
        assert curve.mass == pytest.approx([0.1] * 10, abs=ROUNDING)
    two = grouping_curve(y, s, q=q, n_bins=2, random_state=0)
    assert two.x == pytest.approx([0.2, 0.7], abs=ROUNDING)
    assert (two.spread == np.sqrt(np.maximum(two.variance, 0))).all()


# ── net benefit ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_net_benefit_is_counted(kind, weighted):
    """TP/n − FP/n·θ/(1−θ), counted; π − ℓ_θ/(1−θ); and rows 1, −θ/(1−θ) and 0 for the interval."""
    y, s = sample(7, 150, kind)
    w = weights_for(7, 150) if weighted else np.ones(150)
    curve = net_benefit(y, s, sample_weight=w if weighted else None, confidence_level=0.9)
    losses = murphy_curve(y, s, thresholds=curve.thresholds, sample_weight=w).loss
    rate = np.average(y, weights=w)
    np.testing.assert_allclose(curve.benefit, rate - losses / (1 - curve.thresholds), rtol=0, atol=1e-11)
    for i, theta in enumerate(curve.thresholds):
        odds = theta / (1 - theta)
        rows = (s > theta) * np.where(y == 1, 1.0, -odds)
        mean = np.average(rows, weights=w)
        error = np.sqrt((w**2 * (rows - mean) ** 2).sum()) / w.sum()
        assert curve.benefit[i] == pytest.approx(mean, abs=1e-11)
        assert curve.high[i] - curve.low[i] == pytest.approx(2 * 1.6448536269514722 * error, abs=1e-7)  # a root, × 99
        assert curve.act_on_all[i] == pytest.approx(rate - odds * (1 - rate), abs=1e-11)


#: np.random.default_rng(3).beta(2, 3, 30) with two decimals, and outcomes drawn from them.
DCA_S = [
    0.64, 0.68, 0.2, 0.51, 0.34, 0.32, 0.17, 0.48, 0.52, 0.18, 0.3, 0.58, 0.27, 0.31, 0.78,
    0.57, 0.86, 0.26, 0.28, 0.16, 0.46, 0.13, 0.25, 0.16, 0.57, 0.47, 0.33, 0.89, 0.17, 0.2,
]  # fmt: skip
DCA_Y = [1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0]
DCA_T = np.array([0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75])
#: dcurves 1.1.7: dca(data=frame of y and m, outcome="y", modelnames=["m"], thresholds=DCA_T), net_benefit of "m", "all".
DCA_MODEL = [
    0.543859649122807, 0.5185185185185185, 0.42499999999999993, 0.42222222222222217, 0.36190476190476184,
    0.3777777777777778, 0.26666666666666666, 0.16666666666666666, 0.1,
]  # fmt: skip
DCA_ALL = [
    0.543859649122807, 0.5185185185185185, 0.4583333333333333, 0.4222222222222222, 0.38095238095238093,
    0.27777777777777773, 0.1333333333333333, -0.08333333333333326, -0.7333333333333334,
]  # fmt: skip


def test_net_benefit_agrees_with_dcurves():
    """dcurves acts on a prediction equal to θ, we do not: there it is our value one float to the left."""
    assert net_benefit(DCA_Y, DCA_S, thresholds=np.nextafter(DCA_T, 0)).benefit == pytest.approx(
        DCA_MODEL, abs=ROUNDING
    )
    curve = net_benefit(DCA_Y, DCA_S, thresholds=DCA_T)
    assert curve.act_on_all == pytest.approx(DCA_ALL, abs=ROUNDING)
    tied = np.isin(DCA_T, DCA_S)
    assert tied.tolist() == [False, False, True, True, True, False, False, False, False]
    assert curve.benefit[~tied] == pytest.approx(np.array(DCA_MODEL)[~tied], abs=ROUNDING)
    assert (curve.benefit[tied] != np.array(DCA_MODEL)[tied]).all()


def test_net_benefit_agrees_with_dcurves_live():
    dcurves = pytest.importorskip("dcurves", reason="python -m pip install dcurves")
    y, s = sample(8, 200, "smooth")
    table = dcurves.dca(data=pd.DataFrame({"y": y, "m": s}), outcome="y", modelnames=["m"], thresholds=DCA_T.tolist())
    theirs = table[table.model == "m"].sort_values("threshold").net_benefit
    np.testing.assert_allclose(net_benefit(y, s, thresholds=DCA_T).benefit, theirs, rtol=0, atol=ROUNDING)


def test_net_benefit_refuses_threshold_one():
    with pytest.raises(InputError) as caught:
        net_benefit([0, 1], [0.2, 0.6], thresholds=[0.5, 1.0])
    assert str(caught.value) == (
        "thresholds of net benefit must be below 1; got 1. There a false alarm would weigh infinitely."
    )
    assert np.isnan(net_benefit([1], [0.6], thresholds=[0.5]).low).all()


# ── distributions, maps, stages ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n_bins", [1, 7, 50, 100])
@pytest.mark.parametrize("kind", [*KINDS, "decimals"])
def test_score_distribution_equals_numpy(kind, n_bins):
    """
    numpy.histogram with the same edges; the last bin includes 1 in both.

    Scores with two decimals lie on edges of 50 and 100 bins: 0.58·50 is below 29 in floats, and 0.29·100 below 29.
    """
    y, s = (np.tile([0, 1], 101), np.repeat(np.arange(101) / 100, 2)) if kind == "decimals" else sample(9, 300, kind)
    w = weights_for(9, y.size)
    curve = score_distribution(y, s, n_bins=n_bins, sample_weight=w)
    for happened, found in ((1, curve.events), (0, curve.others)):
        of = y == happened
        expected = np.histogram(s[of], bins=curve.edges, weights=w[of])[0] / w.sum()
        np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING)
    assert curve.mass.sum() == pytest.approx(1.0, abs=ROUNDING)
    assert curve.edges.tolist() == np.linspace(0, 1, n_bins + 1).tolist()


@pytest.mark.parametrize("calibrator", ["platt", "isotonic", "monotone-spline"])
def test_calibration_map_is_the_calibrator(calibrator):
    _, y, _, s = features()
    w = weights_for(1, y.size)
    curve = calibration_map(y, s, calibrator=calibrator, sample_weight=w)
    fitted = get_calibrator(calibrator).fit(s, y, sample_weight=w)
    np.testing.assert_allclose(curve.y, fitted.calibrate(curve.x), rtol=0, atol=1e-12)
    assert curve.support == (s[w > 0].min(), s[w > 0].max())
    assert (curve.x[0], curve.x[-1], curve.name) == (0.0, 1.0, fitted.name)
    assert np.isin(curve.support, curve.x).all()


def test_calibration_map_keeps_a_fitted_calibrator():
    _, y, _, s = features()
    fitted = get_calibrator("platt").fit(s[:100], y[:100])
    curve = calibration_map(y, s, calibrator=fitted)
    assert curve.calibrator is fitted
    assert curve.y.tolist() == fitted.calibrate(curve.x).tolist()
    fresh = get_calibrator("platt")
    assert calibration_map(y, s, calibrator=fresh).calibrator is not fresh  # what was passed is not changed
    assert not hasattr(fresh, "classes_")
    three = get_calibrator("dirichlet").fit(np.random.default_rng(0).dirichlet(np.ones(3), 90), np.tile([0, 1, 2], 30))
    with pytest.raises(InputError):
        calibration_map(y, s, calibrator=three)
    with pytest.raises(LabelError, match="y must hold at least two classes; got one class, 1"):
        calibration_map(np.ones(20), s[:20], calibrator="platt")


# ── what all curves have in common ─────────────────────────────────────────────────────────────────────────────────────

ONE_MODEL = {
    "murphy": murphy_curve,
    "murphy at": lambda *a, **k: murphy_curve(*a, thresholds=[0.2, 0.5], **k),
    "roc": roc_curve,
    "net benefit": net_benefit,
    "distribution": score_distribution,
    "map": lambda *a, **k: calibration_map(*a, calibrator="platt", **k),
    "murphy decomposition": lambda *a, **k: murphy_decomposition(*a, calibrator="platt", cv=2, random_state=0, **k),
    "grouping": lambda y, p, **k: grouping_curve(y, p, q=p, n_bins=3, calibrator="platt", cv=2, random_state=0, **k),
}
EVERY = ONE_MODEL | {
    "plane": lambda y, p, **k: resolution_plane(y, {"a": p}, **k),
}


@pytest.mark.parametrize("curve", EVERY)
def test_frames_come_back_in_the_library_of_the_data(curve, library):
    y, s = sample(11, 300, "smooth")
    base = EVERY[curve](y, s)
    expected = base.to_frame().to_dict(as_series=False)
    for inputs in ((library.column(y), library.column(s)), (y, library.column(s)), (library.column(y), s)):
        frame = EVERY[curve](*inputs).to_frame()
        assert isinstance(frame, library.kind)
        assert str(library.as_lists(frame)) == str(expected)  # to the last bit; NaN prints as itself
    assert isinstance(base.to_frame(library.name), library.kind)


@pytest.mark.parametrize("curve", EVERY)
def test_frames_dicts_and_reprs(curve):
    y, s = sample(11, 300, "smooth")
    base = EVERY[curve](y, s)
    assert isinstance(base.to_frame(), pl.DataFrame)
    expected = base.to_frame().to_dict(as_series=False)
    plain = json.loads(json.dumps(base.to_dict()))
    assert plain["n"] == 300
    assert plain["curve"] == type(base).__name__
    for key, values in plain["points"].items():
        assert str(values) == str(expected[key])
    assert "\n" not in repr(base)
    assert len(repr(base)) < 250
    assert repr(base).startswith(type(base).__name__)


@pytest.mark.parametrize("curve", ONE_MODEL)
def test_names_are_shown(curve):
    y, s = sample(11, 300, "smooth")
    named = ONE_MODEL[curve](y, s, name="forest")
    assert repr(named).startswith(f"{type(named).__name__} of forest: ")
    assert named.to_dict()["name"] == "forest"


@pytest.mark.parametrize("curve", EVERY)
def test_labels_and_layouts(curve):
    """Words with pos_label, two columns, and −1/1 give what 0/1 and one column give, to the last bit."""
    y, s = sample(12, 300, "smooth")
    s = np.clip(np.round(s * 64), 1, 63) / 64  # so that 1 − (1 − s) is s
    make = EVERY[curve]
    expected = str(make(y, s).to_dict())
    words = np.where(y == 1, "bad", "good")
    assert str(make(words, s, pos_label="bad").to_dict()) == expected
    assert str(make(2 * y - 1, s).to_dict()) == expected
    assert str(make(y, np.stack([1 - s, s], axis=1)).to_dict()) == expected
    assert str(make(words, np.stack([s, 1 - s], axis=1), pos_label="bad").to_dict()) == expected
    with pytest.raises(LabelError, match="y_true must show which label is the positive class of 1-D probabilities"):
        make(words, s)


@pytest.mark.parametrize("curve", ONE_MODEL)
def test_refusals_that_all_curves_share(curve):
    y, s = sample(13, 60, "smooth")
    make = ONE_MODEL[curve]
    with pytest.raises(InputError) as caught:
        make(y, {"a": s})
    assert str(caught.value) == (
        "y_proba must be the probabilities of one model; got a mapping. Call it once per model, or use a display."
    )
    three = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    with pytest.raises(InputError, match=r"For class k against the rest pass y == k and y_proba\[:, k\]\."):
        make(np.arange(60) % 3, three)
    gap = s.copy()
    gap[3] = np.nan
    with pytest.raises(InputError, match=r"y_proba must .*row 3"):
        make(y, gap)
    with pytest.raises(InputError, match="sample_weight must not be all zero"):
        make(y, s, sample_weight=np.zeros(60))
    with pytest.raises(InputError, match="y_true must have as many rows|must have the same number of rows|rows"):
        make(y[:-1], s)


@pytest.mark.parametrize("curve", EVERY)
def test_arrays_cannot_be_changed_and_input_is_not(curve):
    y, s = sample(14, 300, "smooth")
    kept = s.copy()
    made = EVERY[curve](y, s)
    assert (s == kept).all()
    for column in made._points().values():
        if column.base is None:
            assert not column.flags.writeable


@pytest.mark.parametrize("name", ["brier", "log"])
def test_integrals_with_the_weight_of_a_loss_by_quadrature(name):
    """∫ f(θ) w(θ) dθ with `ProperLoss.weight`, piece by piece in log-odds, against `integrate`, which uses the loss itself."""
    rng = np.random.default_rng(5)
    s = rng.uniform(0.05, 0.95, 60)
    y = (rng.random(60) < s).astype(int)
    loss, curve = get_loss(name), murphy_curve(y, s)
    ends = np.log(1 / (1 / np.concatenate([[1e-13], np.sort(s), [1 - 1e-13]]) - 1))
    nodes, shares = np.polynomial.legendre.leggauss(40)
    total = 0.0
    for a, b in zip(ends[:-1], ends[1:], strict=True):
        for low, high in zip(np.linspace(a, b, 9)[:-1], np.linspace(a, b, 9)[1:], strict=True):
            u = 0.5 * (low + high) + 0.5 * (high - low) * nodes
            theta = 1 / (1 + np.exp(-u))
            total += 0.5 * (high - low) * shares @ (curve.at(theta) * loss.weight(theta) * theta * (1 - theta))
    assert total == pytest.approx(curve.integrate(name), abs=1e-10)
    assert total == pytest.approx(loss.loss(s, y).mean(), abs=1e-10)
