"""Pools and combiners: closed forms, other packages, every form of input, and what must be refused."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import brentq
from scipy.special import betainc, expit, log_softmax, logit, softmax
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from scoreprism.ensembles import (
    COMBINERS,
    POOLS,
    BetaTransformedPool,
    LinearPool,
    LogPool,
    Stacking,
    average,
    beta_transformed_pool,
    log_pool,
    weighted_average,
)
from scoreprism.exceptions import InfiniteLossError, InputError, LabelError, ScoreOrderWarning, SeparationWarning


def two(n=400, seed=0):
    """Two members that differ, and outcomes of the sum of their logits."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(2, n))
    y = (rng.random(n) < expit(z.sum(axis=0))).astype(int)
    return {"a": expit(z[0]), "b": expit(z[1])}, y


def three(n=500, seed=1):
    """Two members of three classes."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(2, n, 3))
    law = softmax(z.sum(axis=0), axis=1)
    y = (rng.random(n)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    return {"a": softmax(z[0], axis=1), "b": softmax(z[1], axis=1)}, y


# ── members ─────────────────────────────────────────────────────────────────────────────────────────


def test_every_form_of_members_is_the_same_ensemble():
    scores, y = two()
    table = np.column_stack(list(scores.values()))
    forms = [
        scores,
        list(scores.values()),
        tuple(scores.values()),
        [v.tolist() for v in scores.values()],
        table,
        np.stack([1 - table, table], axis=2),
        pd.DataFrame(scores),
        pl.DataFrame(scores),
        {k: pl.Series(v) for k, v in scores.items()},
        {name: np.column_stack([1 - s, s]) for name, s in scores.items()},
    ]
    for form in forms:
        for j in range(2):
            one = weighted_average(form, [1 - j, j])
            np.testing.assert_allclose(one if one.ndim == 1 else one[:, 1], table[:, j], atol=1e-15)
    assert Stacking().fit(pd.DataFrame(scores), y).member_names_ == ("a", "b")
    assert Stacking().fit(table, y).member_names_ == ("member 1", "member 2")


def test_fitted_classifiers_are_members_with_X():
    X, y = make_classification(400, random_state=0)
    models = {"lr": LogisticRegression().fit(X[:200], y[:200]), "nb": GaussianNB().fit(X[:200], y[:200])}
    expected = np.mean([m.predict_proba(X[200:]) for m in models.values()], axis=0)
    np.testing.assert_allclose(average(models, X=X[200:]), expected, atol=1e-15)
    with pytest.raises(InputError, match=r"fitted classifiers as members must come with X; got 'lr', a Logistic"):
        average(models)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({"a": [0.1, 0.2]}, "an ensemble must have at least two members; got 1."),
        ([[0.1, 0.2]], "an ensemble must have at least two members; got 1."),
        (np.full((2, 9), 0.3), "rows first and the members second; got shape (2, 9): more members than rows."),
        (np.full((2, 9, 3), 1 / 3), "got shape (2, 9, 3): more members than rows."),
        (None, "shape (n, M) or (n, M, K); got NoneType."),
        (np.full(4, 0.3), "shape (n, M) or (n, M, K); got shape (4,)."),
        (np.full((4, 2), 0.5), "got 2 columns that sum to 1 in every row, as the classes of one model do."),
        (np.tile([0.2, 0.8, 0.3, 0.7], (9, 1)), "got pairs of columns that sum to 1 in every row"),
        ([[0.1, 0.2], [0.1, 0.2], [0.1, 0.2]], "each with all rows; got 3 lists of 2 numbers."),
        ([0.1, 0.2], "must hold one array per member; got 0.1, 0.2."),
        ({"a": [0.1], "b": [0.1, 0.2]}, "member 'b' and member 'a' must have the same number of rows; got 2 and 1."),
        ({"a": [0.1, 0.4], "b": np.full((2, 3), 1 / 3)}, "same classes; got 2 classes in 'a' and 3 in 'b'."),
        ({"a": [0.1, 0.4], "b": [1.2, 0.1]}, "member 'b' must hold probabilities between 0 and 1; got 1.2 in row 0"),
        ({"a": [0.1, np.nan], "b": [0.1, 0.2]}, "member 'a' must be finite; got nan in row 1"),
    ],
)
def test_what_is_no_ensemble_is_refused(scores, message):
    with pytest.raises(InputError) as caught:
        average(scores)
    assert message in str(caught.value)


def test_columns_in_different_orders_are_noticed():
    a = pd.DataFrame({"no": [0.5, 0.2], "yes": [0.5, 0.8]})
    with pytest.raises(InputError, match=r"classes in the same order; got 'no', 'yes' in 'a' and 'yes', 'no' in 'b'"):
        average({"a": a, "b": a[["yes", "no"]]})
    one = GaussianNB().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(InputError, match="members must be those of an ensemble; got one GaussianNB"):
        average(one, X=[[0.0]])


def test_one_row_of_many_members_is_one_row():
    np.testing.assert_allclose(average(np.array([[0.1, 0.2, 0.6]])), [0.3])


# ── pools ───────────────────────────────────────────────────────────────────────────────────────────


def test_linear_pools():
    scores, _ = two()
    a, b = scores.values()
    np.testing.assert_allclose(average(scores), (a + b) / 2, atol=1e-16)
    np.testing.assert_allclose(weighted_average(scores, [3, 1]), 0.75 * a + 0.25 * b, atol=1e-15)
    np.testing.assert_allclose(weighted_average(scores, {"b": 1, "a": 3}), 0.75 * a + 0.25 * b, atol=1e-15)


def test_log_pool_is_the_softmax_of_mean_logs():
    scores, _ = three()
    mean = np.mean([np.log(v) for v in scores.values()], axis=0)
    np.testing.assert_allclose(log_pool(scores), softmax(mean, axis=1), atol=1e-14)
    pair, _ = two()
    np.testing.assert_allclose(
        log_pool(pair, [0.5, 2]), expit(0.5 * logit(pair["a"]) + 2 * logit(pair["b"])), atol=1e-14
    )


def test_log_pool_is_externally_bayesian_where_weights_sum_to_one():
    # Genest (1984): pooling, then updating by a likelihood = updating every member, then pooling
    scores, _ = three()
    like = np.array([0.2, 0.5, 1.3])

    def update(p):
        return p * like / (p * like).sum(axis=1, keepdims=True)

    for weights, same in (([0.3, 0.7], True), ([1.0, 1.0], False)):
        after = update(log_pool(scores, weights))
        before = log_pool({k: update(v) for k, v in scores.items()}, weights)
        assert np.allclose(after, before, atol=1e-13) is same


def test_log_pool_zeros():
    # a veto holds, two vetoes that leave nothing are refused, a member without weight has none
    np.testing.assert_array_equal(log_pool([[0.0, 1.0], [0.4, 0.4]]), [0.0, 1.0])
    np.testing.assert_allclose(log_pool([[0.0, 0.3], [1.0, 0.3]], [0, 1]), [1.0, 0.3])
    with pytest.raises(InputError, match=r"got 1 of 2 rows where members exclude every class \(row 1\)"):
        log_pool([[0.1, 0.0], [0.4, 1.0]])
    a, b = np.array([[0.0, 0.5, 0.5], [0.2, 0.3, 0.5]]), np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    np.testing.assert_allclose(log_pool([a, b]), [[0, 1, 0], [0.2, 0.3, 0.5]], atol=1e-15)
    with pytest.raises(InputError, match=r"\(row 0\)"):
        log_pool([a, np.array([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])])


def test_beta_transformed_pool():
    # beta(2, 2) has the distribution function 3x² − 2x³; beta(1, 1) is the identity
    scores, _ = two()
    m = average(scores)
    np.testing.assert_allclose(beta_transformed_pool(scores, alpha=2, beta=2), 3 * m**2 - 2 * m**3, atol=1e-14)
    np.testing.assert_allclose(beta_transformed_pool(scores), m, atol=1e-15)
    wide = {k: np.column_stack([1 - v, v]) for k, v in scores.items()}
    np.testing.assert_allclose(beta_transformed_pool(wide, [1, 3], alpha=2, beta=1)[:, 1],
                               weighted_average(scores, [1, 3]) ** 2, atol=1e-14)  # fmt: skip


@pytest.mark.parametrize("name", POOLS)
def test_pools_return_laws_and_refuse_bad_weights(name):
    pool = POOLS[name]
    given = {"weights": [1, 2]} if name == "weighted-average" else {}
    for scores in (two()[0], three()[0]):
        if name == "beta-transformed-pool" and scores["a"].ndim == 2:
            with pytest.raises(
                InputError, match=r"two classes: a distribution function on \[0, 1\] has no .* got 3 classes"
            ):
                pool(scores)
            continue
        law = pool(scores, **given)
        assert law.shape == scores["a"].shape
        assert law.min() >= 0
        assert law.ndim == 1 or np.allclose(law.sum(axis=1), 1)
        # members that agree: what they agree on
        np.testing.assert_allclose(pool([scores["a"]] * 2, **given), scores["a"], atol=1e-12)
    if name == "average":
        return
    for weights, message in [
        ([1, -1], r"weights must be nonnegative; got -1"),
        ([1, 1, 1], r"weights must hold 2 numbers, one per member; got shape \(3,\)"),
        ({"a": 1, "c": 2}, r"weights must name every member once \(a, b\); got a, c"),
    ]:
        with pytest.raises(InputError, match=message):
            pool(two()[0], weights)
    if name != "log-pool":
        with pytest.raises(InputError, match=r"weights must have a positive, finite sum; got 0"):
            pool(two()[0], [0, 0])


def test_beta_parameters_are_positive():
    with pytest.raises(InputError, match=r"alpha must be a positive number; got 0"):
        beta_transformed_pool(two()[0], alpha=0)


# ── facts ───────────────────────────────────────────────────────────────────────────────────────────


def population(joint):
    """Rows and weights of a finite population: {(s1, s2): (probability, P(Y=1))}."""
    rows = [(s, y, p * (q if y else 1 - q)) for s, (p, q) in joint.items() for y in (0, 1)]
    s = np.array([r[0] for r in rows], dtype=float)
    return [s[:, 0], s[:, 1]], np.array([r[1] for r in rows]), np.array([r[2] for r in rows])


PAPER = {(0.25, 0.25): (0.25, 0.0), (0.25, 0.75): (0.25, 0.5), (0.75, 0.25): (0.25, 0.5), (0.75, 0.75): (0.25, 1.0)}
# two signals, independent given Y, right three times in four: P(both say ¾) = 5/16, P(Y=1 | both) = .9
NAIVE = {
    (0.25, 0.25): (5 / 16, 0.1),
    (0.25, 0.75): (3 / 16, 0.5),
    (0.75, 0.25): (3 / 16, 0.5),
    (0.75, 0.75): (5 / 16, 0.9),
}


@pytest.mark.parametrize("joint", [PAPER, NAIVE])
def test_average_of_calibrated_members_is_underconfident(joint):
    scores, y, w = population(joint)
    for s in scores:  # members are calibrated
        for value in (0.25, 0.75):
            assert np.average(y[s == value], weights=w[s == value]) == pytest.approx(value, abs=1e-15)
    mean = average(scores)
    gap = w @ (mean * (y - mean))
    assert gap == pytest.approx(w @ np.var(scores, axis=0), abs=1e-15)  # DESIGN.md: E(S₁−S₂)²/4 for two
    assert gap > 0.01


def test_papers_example_exactly():
    # paper, example avg-breaks-calibration: P(S̄ = ¼) = ¼ and E[Y | S̄ = ¼] = 0
    scores, y, w = population(PAPER)
    low = average(scores) == 0.25
    assert w[low].sum() == pytest.approx(0.25)
    assert np.average(y[low], weights=w[low]) == 0.0


def test_beta_transformed_pool_of_independent_signals_is_calibrated():
    # by symmetry α = β and weights ½; the pool is calibrated if F_α(¾) = .9, which has one root
    scores, y, w = population(NAIVE)
    alpha = brentq(lambda a: betainc(a, a, 0.75) - 0.9, 1, 20)
    fit = BetaTransformedPool().fit(scores, y, sample_weight=1600 * w)
    assert fit.converged_
    assert (fit.alpha_, fit.beta_) == pytest.approx((alpha, alpha), rel=1e-4)
    assert alpha > 1
    np.testing.assert_allclose(
        fit.predict_proba([[0.25, 0.75, 0.75], [0.25, 0.25, 0.75]])[:, 1], [0.1, 0.5, 0.9], atol=1e-5
    )
    # Bayes' rule: logits add, so the logarithmic pool with weights of one is exact too
    np.testing.assert_allclose(LogPool().fit(scores, y, sample_weight=1600 * w).weights_, [1, 1], atol=1e-7)
    np.testing.assert_allclose(log_pool([[0.75], [0.75]], [1, 1]), [0.9], atol=1e-15)


def test_beta_transformed_pool_on_continuous_signals():
    # Ranjan & Gneiting (2010), Theorem 1: linear pools of calibrated, distinct forecasts are underconfident: α, β > 1
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 20000)
    x = rng.normal(size=(2, y.size)) + np.where(y == 1, 0.5, -0.5)  # P(Y=1 | x) = σ(x)
    scores = list(expit(x))
    pool = BetaTransformedPool().fit(scores, y)
    assert pool.alpha_ > 1.2
    assert pool.beta_ > 1.2
    assert pool.alpha_ == pytest.approx(pool.beta_, rel=0.1)
    assert pool.weights_ == pytest.approx([0.5, 0.5], abs=0.06)
    recalibration = LogisticRegression(C=np.inf, tol=1e-8).fit(logit(pool.predict_proba(scores)[:, 1:]), y)
    raw = LogisticRegression(C=np.inf, tol=1e-8).fit(logit(average(scores))[:, None], y)
    assert recalibration.coef_[0, 0] == pytest.approx(1, abs=0.05)  # calibrated
    assert raw.coef_[0, 0] > 1.5  # underconfident


def test_beta_transformed_pool_with_unit_parameters_is_the_linear_pool():
    scores, y = two()
    fixed, pool = BetaTransformedPool(alpha=1, beta=1).fit(scores, y), LinearPool().fit(scores, y)
    np.testing.assert_allclose(fixed.weights_, pool.weights_, atol=1e-5)
    np.testing.assert_allclose(fixed.predict_proba(scores), pool.predict_proba(scores), atol=1e-5)


@pytest.mark.parametrize("data", [two, three])
def test_linear_pool_meets_the_conditions_of_its_optimum(data):
    scores, y = data()
    scores["noise"] = np.roll(scores["a"], 7, axis=0)
    w = np.random.default_rng(0).integers(1, 4, y.size).astype(float)
    pool = LinearPool().fit(scores, y, sample_weight=w)
    law = pool.predict_proba(scores)[np.arange(y.size), y]
    for share, s in zip(pool.weights_, scores.values(), strict=True):
        hit = np.where(y == 1, s, 1 - s) if s.ndim == 1 else s[np.arange(y.size), y]
        ratio = np.average(hit / law, weights=w)
        assert ratio == pytest.approx(1, abs=1e-7) if share > 0 else ratio <= 1 + 1e-7
    assert pool.weights_.sum() == pytest.approx(1, abs=1e-15)


def test_log_pool_weights_are_the_logistic_regression_without_intercept():
    scores, y = two()
    z = np.column_stack([logit(v) for v in scores.values()])
    peer = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10).fit(z, y)
    np.testing.assert_allclose(LogPool().fit(scores, y).weights_, peer.coef_[0], rtol=1e-5)
    flipped = {"a": scores["a"], "b": 1 - scores["b"]}
    assert LogPool().fit(flipped, y).weights_[1] == 0.0  # none is negative


# ── stacking against other packages ─────────────────────────────────────────────────────────────────


def test_stacking_equals_statsmodels_logit():
    sm = pytest.importorskip("statsmodels.api")
    scores, y = two()
    w = np.random.default_rng(0).integers(1, 4, y.size)
    z = np.column_stack([logit(v) for v in scores.values()])
    peer = sm.GLM(y, sm.add_constant(z), family=sm.families.Binomial(), freq_weights=w).fit(tol=1e-12)
    fit = Stacking().fit(scores, y, sample_weight=w)
    np.testing.assert_allclose(np.r_[fit.intercept_, fit.coef_[0]], peer.params, atol=1e-6)
    again = Stacking().fit({k: np.repeat(v, w) for k, v in scores.items()}, np.repeat(y, w))
    np.testing.assert_allclose(again.coef_, fit.coef_, atol=1e-9)


@pytest.mark.parametrize("C", [np.inf, 1.0, 0.05])
@pytest.mark.parametrize("on", ["logit", "probability"])
def test_stacking_equals_sklearn(on, C):
    scores, y = two()
    x = np.column_stack([logit(v) if on == "logit" else v for v in scores.values()])
    peer = LogisticRegression(C=C, tol=1e-12, max_iter=1000).fit(x, y)
    fit = Stacking(on=on, C=C).fit(scores, y)
    np.testing.assert_allclose(fit.coef_, peer.coef_, atol=2e-6)
    np.testing.assert_allclose(fit.intercept_, peer.intercept_, atol=2e-6)


@pytest.mark.parametrize("C", [np.inf, 1.0])
@pytest.mark.parametrize("on", ["logit", "probability"])
def test_multinomial_stacking_equals_sklearn(on, C):
    scores, y = three()
    log = [log_softmax(np.log(v), axis=1) for v in scores.values()]
    x = np.hstack([v - v.mean(axis=1, keepdims=True) for v in log] if on == "logit" else list(scores.values()))
    peer = LogisticRegression(C=C, tol=1e-10, max_iter=5000).fit(x, y)
    fit = Stacking(on=on, C=C).fit(scores, y)
    np.testing.assert_allclose(fit.predict_proba(scores), peer.predict_proba(x), atol=1e-5)
    assert fit.coef_.shape == (3, 6)
    if np.isfinite(C):  # a ridge makes the coefficients unique
        np.testing.assert_allclose(fit.coef_, peer.coef_, atol=1e-5)


@pytest.mark.parametrize("many", [False, True])
def test_stacking_as_final_estimator(many):
    X, y = load_iris(return_X_y=True)
    X, y = (X[:, :2], np.array(["a", "b", "c"])[y]) if many else (X[50:, :2], np.where(y[50:] == 1, "no", "yes"))
    bases = [("nb", GaussianNB()), ("lr", LogisticRegression())]
    ours = StackingClassifier(bases, final_estimator=Stacking(on="probability", C=1.0), cv=3).fit(X, y)
    theirs = StackingClassifier(bases, final_estimator=LogisticRegression(C=1.0, tol=1e-10, max_iter=1000), cv=3).fit(
        X, y
    )
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    assert list(ours.predict(X[:1])) == list(theirs.predict(X[:1]))
    assert ours.final_estimator_.n_features_in_ == (6 if many else 2)


# ── separation ──────────────────────────────────────────────────────────────────────────────────────


def test_separated_classes_are_told_and_finite():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 50)
    scores = [np.clip(0.3 * y + 0.3 + 0.1 * rng.random(100), 0, 1), rng.random(100)]
    with pytest.warns(SeparationWarning, match=r"likelihood has no maximum: fitted to Platt's smoothed targets"):
        fit = Stacking().fit(scores, y)
    assert fit.separated_
    law = fit.predict_proba(scores)[:, 1]
    assert law[y == 1].mean() == pytest.approx(51 / 52, abs=0.005)  # Platt's targets
    with pytest.warns(SeparationWarning):
        # a logarithmic pool has no intercept: the scores must stand on the right side of ½
        pool = LogPool().fit([np.where(y == 1, 0.6, 0.4), scores[1]], y)
    assert np.isfinite(pool.weights_).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a ridge keeps it finite: nothing to say
        assert not Stacking(C=1.0).fit(scores, y).separated_


def test_one_class_told_apart_from_two():
    # quasi-separation: class 2 is known without error, 0 and 1 overlap
    scores, y = three()
    y = np.where(scores["a"][:, 2] > 0.4, 2, np.minimum(y, 1))
    with pytest.warns(SeparationWarning):
        fit = Stacking(on="probability").fit(scores, y)
    assert np.isfinite(fit.coef_).all()
    assert np.abs(fit.coef_).max() < 1e4


@pytest.mark.filterwarnings("ignore:a member holds only 0 and 1")
def test_zeros_and_ones_are_read_as_finite_logits():
    scores, y = two()
    scores["a"] = np.where(np.arange(y.size) % 9 == 0, np.round(scores["a"]), scores["a"])
    for combiner in (Stacking(), LogPool()):
        law = combiner.fit(scores, y).predict_proba(scores)
        assert np.isfinite(np.log(law)).all()
    law, outcome = three()
    law["a"] = np.eye(3)[law["a"].argmax(axis=1)]
    for combiner in (Stacking(), LogPool()):
        assert np.isfinite(np.log(combiner.fit(law, outcome).predict_proba(law))).all()


def test_impossible_rows_are_named():
    scores = [[0.2, 0.0, 0.7, 0.4], [0.3, 0.0, 0.6, 0.1]]
    for combiner in (LinearPool(), BetaTransformedPool()):
        with pytest.raises(
            InfiniteLossError, match=r"got 1 of 4 rows where all members give probability 0 .* \(row 1\)"
        ):
            combiner.fit(scores, [0, 1, 1, 0])


# ── the estimator contract ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", COMBINERS)
def test_contract(name):
    scores, y = two()
    words = np.where(y == 1, "yes", "no")
    combiner = COMBINERS[name]()
    fit = clone(combiner).fit(scores, words)
    law = fit.predict_proba(scores)
    assert list(fit.classes_) == ["no", "yes"]
    assert law.shape == (y.size, 2)
    assert set(fit.predict(scores)) == {"no", "yes"}
    assert fit.score(scores["a"][:, None] * 0 + np.column_stack(list(scores.values())), words) > 0.6
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fit)).predict_proba(scores), law)  # noqa: S301
    assert combiner.get_params() == clone(fit).get_params()
    assert fit.member_names_ == ("a", "b")
    assert list(fit.feature_names_in_) == ["a", "b"]
    turned = {"b": scores["b"], "a": scores["a"]}  # members go by name
    for form in (turned, pl.DataFrame(turned), pd.DataFrame(scores), list(scores.values())):
        np.testing.assert_allclose(fit.predict_proba(form), law, atol=1e-15)
    few = np.column_stack(list(scores.values()))[:1]
    np.testing.assert_allclose(fit.predict_proba(few), law[:1], atol=1e-15)


@pytest.mark.parametrize("name", COMBINERS)
def test_weights_of_zero_leave_rows_out(name):
    scores, y = two()
    keep = np.arange(y.size) % 3 > 0
    fit = COMBINERS[name]().fit(scores, y, sample_weight=keep)
    some = COMBINERS[name]().fit({k: v[keep] for k, v in scores.items()}, y[keep])
    np.testing.assert_allclose(fit.predict_proba(scores), some.predict_proba(scores), atol=1e-6)


@pytest.mark.parametrize("name", ["fitted-linear-pool", "fitted-log-pool", "stacking"])
def test_three_classes_in_every_layout(name):
    scores, y = three()
    fit = COMBINERS[name]().fit(scores, y)
    law = fit.predict_proba(scores)
    assert fit.n_features_in_ == 6
    wide = np.hstack(list(scores.values()))
    for form in (wide, pd.DataFrame(wide), np.stack(list(scores.values()), axis=1), list(scores.values())):
        np.testing.assert_allclose(COMBINERS[name]().fit(form, y).predict_proba(form), law, atol=1e-7)
    np.testing.assert_allclose(fit.predict_proba(wide[:1]), law[:1], atol=1e-12)


def test_the_best_law_wins_on_new_rows():
    scores, y = two(4000, 5)
    new, outcome = two(4000, 6)
    loss = {}
    for name, cls in COMBINERS.items():
        law = cls().fit(scores, y).predict_proba(new)
        loss[name] = -np.log(law[np.arange(outcome.size), outcome]).mean()
    bayes = expit(logit(new["a"]) + logit(new["b"]))
    best = -np.log(np.where(outcome == 1, bayes, 1 - bayes)).mean()
    assert loss["stacking"] == pytest.approx(best, abs=0.002)
    assert loss["fitted-log-pool"] == pytest.approx(best, abs=0.002)
    assert best < loss["fitted-beta-pool"] < loss["fitted-linear-pool"]


def test_misuse_of_combiners_is_refused():
    scores, y = two()
    fit = Stacking().fit(scores, y)
    cases = [
        (lambda: fit.predict_proba({"a": scores["a"], "c": scores["b"]}), "the members of the fit, a, b; got a, c."),
        (lambda: fit.predict_proba(np.full((5, 3), 0.2)), "scores must have 2 columns, as in fit; got 3."),
        (lambda: fit.predict_proba([scores["a"]] * 3), "scores must have the 2 members of the fit; got 3."),
        (lambda: fit.predict_proba(three()[0]), "scores must have 2 classes, as in fit; got 3."),
        (lambda: Stacking().fit(scores, y[1:]), "y and scores must have the same number of rows; got 399 and 400."),
        (lambda: Stacking().fit(scores, np.zeros(400)), "y must hold at least two classes; got one class, 0"),
        (lambda: Stacking(on="odds").fit(scores, y), "on must be one of logit, probability; got 'odds'."),
        (lambda: Stacking(C=0.0).fit(scores, y), "C must be a positive number or np.inf; got 0."),
        (lambda: Stacking().fit(np.full((9, 4), 0.2), np.arange(9) % 3), "3 columns for each of at least two members"),
        (lambda: BetaTransformedPool(alpha=-1).fit(scores, y), "alpha must be a positive number; got -1."),
        (lambda: BetaTransformedPool().fit(*three()), "BetaTransformedPool must get two classes"),
        (lambda: Stacking().fit(scores, np.arange(400) % 3), "2 classes in scores and 3 in y: 0, 1, 2."),
    ]
    for call, message in cases:
        with pytest.raises((InputError, LabelError)) as caught:
            call()
        assert message in str(caught.value)
    names = ["no", "yes"]
    frames = {k: pd.DataFrame({"yes": v, "no": 1 - v}) for k, v in scores.items()}
    with pytest.raises(
        InputError, match=r"in sorted order of the labels; got the columns yes, no. Pass scores\[\['no'"
    ):
        Stacking().fit(frames, np.array(names)[y])
    with pytest.warns(ScoreOrderWarning):
        Stacking().fit({k: 1 - v for k, v in scores.items()}, y)


def test_a_failed_fit_leaves_nothing_behind():
    scores, y = two()
    fit = Stacking().fit(scores, y)
    with pytest.raises(InputError):
        fit.fit(scores, y[1:])
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        fit.predict_proba(scores)


def test_members_may_be_copies_of_each_other():
    scores, y = two()
    fit = Stacking().fit([scores["a"], scores["a"], scores["b"]], y)
    one = Stacking().fit(scores, y)
    np.testing.assert_allclose(
        fit.predict_proba([scores["a"]] * 2 + [scores["b"]]), one.predict_proba(scores), atol=1e-8
    )
    flat = Stacking().fit([scores["a"], np.full(y.size, 0.3)], y)
    assert flat.coef_[0, 1] == 0.0


def test_trees_that_say_zero_and_one():
    X, y = make_classification(600, flip_y=0.2, random_state=0)
    bases = [("t", DecisionTreeClassifier(max_depth=3, random_state=0)), ("lr", LogisticRegression())]
    law = StackingClassifier(bases, final_estimator=Stacking(), cv=3).fit(X, y).predict_proba(X)
    assert np.isfinite(np.log(law)).all()
