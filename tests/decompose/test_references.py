"""Reference laws: encoders, members, the stack, boosting from an offset, the partition bound."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from scoreprism import Sample
from scoreprism._learners import boosting, members
from scoreprism.datasets import CopulaLaw
from scoreprism.exceptions import InputError
from scoreprism.losses import get_loss
from scoreprism.references import MEMBERS, StackedReference, partition_lower_bound
from tests.chains import decompose_losses


def parse_features(X, n):
    """Columns of X as a sample keeps them."""
    (block,) = Sample.of(np.arange(n) % 2, np.full(n, 0.5), X).levels
    return block.columns


def features_of(X):
    return encoder_of(X)(parse_features(X, len(X)))


def encoder_of(X):
    """What turns features into numbers and bins for the members of a stack."""
    return StackedReference("calibrated").fit(X, np.arange(len(X)) % 2)._encoder


# ── encoders ────────────────────────────────────────────────────────────────────────────────────────────


def test_columns_of_every_kind():
    frame = pd.DataFrame(
        {
            "number": [1.0, 2.0, np.nan, 4.0],
            "whole": [1, 2, 3, 4],
            "flag": [True, False, True, False],
            "word": ["a", "b", None, "a"],
            "level": pd.Categorical(["x", "y", "x", "y"]),
            "time": pd.to_datetime(["2020-01-01", "2020-01-02", None, "2020-01-04"]),
        }
    )
    kinds = [column.dtype.kind for column in parse_features(frame, 4)]
    assert kinds == ["f", "f", "f", "U", "U", "f"]
    assert parse_features(frame, 4)[5].tolist()[:2] == [1577836800.0, 1577923200.0]  # seconds since 1970
    same = parse_features(pl.from_pandas(frame), 4)
    for ours, theirs in zip(parse_features(frame, 4), same, strict=True):
        assert np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f")
    mixed = parse_features([[1, "a"], [None, "b"]], 2)
    assert [column.dtype.kind for column in mixed] == ["f", "U"]


@pytest.mark.parametrize("name", ["nnz", "toarray"])
@pytest.mark.parametrize("library", [pd, pl])
def test_a_column_may_be_called_as_a_part_of_a_sparse_matrix(library, name):
    """Columns of pandas are attributes of the frame: a count of nonzeros makes no frame sparse."""
    (column,) = parse_features(library.DataFrame({name: [3.0, 0.0, 1.0]}), 3)
    assert column.tolist() == [3.0, 0.0, 1.0]


def test_bins_keep_the_order_and_missing_values_are_bin_zero():
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000)
    x[:10] = np.nan
    codes = features_of(x[:, None]).codes[0]
    assert (codes[:10] == 0).all()
    assert codes.max() <= 31
    order = np.argsort(x[10:])
    assert (np.diff(codes[10:][order].astype(int)) >= 0).all()
    counts = np.bincount(codes[10:])[1:]
    assert counts.max() <= 1.2 * counts.min()


def test_rare_categories_are_other():
    words = np.array(["often"] * 90 + ["seldom"] * 8 + ["once", "never"], dtype=object)
    encoded = features_of(words[:, None])
    assert encoded.codes[0].tolist() == [1] * 90 + [2] * 8 + [0, 0]
    assert features_of(np.arange(200).astype(str)[:, None]).design.shape[0] == 0  # names of rows say nothing


def test_numbers_and_times_in_disguise():
    from datetime import date
    from decimal import Decimal

    frame = pd.DataFrame(
        {
            "decimal": [Decimal("0.1"), Decimal("0.2")],
            "day": [date(2020, 1, 1), date(2020, 1, 2)],
            "month": pd.period_range("2020-01", periods=2, freq="M"),
        }
    )
    decimal, day, month = parse_features(frame, 2)
    assert decimal.tolist() == [0.1, 0.2]
    assert day.tolist() == [1577836800.0, 1577923200.0]
    assert month.tolist() == [1577836800.0, 1580515200.0]  # January and February 2020, from 1970


def test_codes_of_new_rows_keep_their_columns():
    """Two categories in fit are one contrast; a third one later is 0, and the columns stay."""
    words = np.array(["a", "b"] * 20, dtype=object)[:, None]
    encoder, table = encoder_of(words), parse_features(words, 40)
    assert encoder(table).design[0, :2].tolist() == [0.5, -0.5]
    assert encoder([np.array(["c"])]).design.tolist() == [[0.0]]
    fitted = StackedReference(("logistic",)).fit(np.array(["a", "b"] * 50)[:, None], np.arange(100) % 3 % 2)
    assert fitted.predict_proba(np.array([["c"]])).shape == (1, 2)


def test_outliers_do_not_lead():
    x = np.r_[np.linspace(0, 1, 99), 1e12]
    assert np.abs(features_of(x[:, None]).design).max() == 4.0


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (pd.DataFrame({"a": [[1], [2]]}), "column 'a' of X must hold one value per row; got objects of type list."),
        (np.array([1j, 2j]), "column 0 of X must hold numbers, times or categories; got dtype complex128."),
        ([[1], [1, 2]], "X must be a rectangular table; got "),
    ],
)
def test_bad_features(X, text):
    with pytest.raises(InputError, match=re.escape(text)):
        parse_features(X, 2)


# ── offsets ─────────────────────────────────────────────────────────────────────────────────────────────


# ── boosting ────────────────────────────────────────────────────────────────────────────────────────────


def test_one_tree_is_the_best_split_by_hand():
    """Depth 1, no ridge, rate 1: the leaf values are Newton steps Σ(y−p)/Σp(1−p) on both sides of the best cut."""
    x = np.repeat(np.arange(8.0), 25)
    y = (x >= 5).astype(float)
    y[::7] = 1 - y[::7]
    features = features_of(x[:, None])
    growth = boosting.Growth(stages=1, rate=1.0, depth=1, ridge=1e-12, leaf=0.0)
    start = np.full(200, np.log(0.3 / 0.7))
    (fitted,) = boosting.boost(
        [boosting.BoostingFit(features, start, y, np.ones(200))], growth, np.random.default_rng(0)
    )
    eta = next(iter(fitted.staged(features, start, (1,))))
    gains = [sum(((y - 0.3)[side].sum()) ** 2 / (0.21 * side.sum()) for side in (x <= c, x > c)) for c in range(7)]
    cut = int(np.argmax(gains))
    for side in (x <= cut, x > cut):
        assert eta[side] == pytest.approx(start[side] + (y - 0.3)[side].sum() / (0.21 * side.sum()), abs=1e-12)


def test_boosting_lowers_the_loss_stage_by_stage():
    rng = np.random.default_rng(0)
    X = rng.random((500, 3))
    y = (rng.random(500) < expit(4 * (X[:, 0] > 0.5) - 2)).astype(float)
    features, start = features_of(X), np.zeros(500)
    (fitted,) = boosting.boost(
        [boosting.BoostingFit(features, start, y, np.ones(500))], boosting.Growth(stages=20), np.random.default_rng(0)
    )
    losses = [np.mean(np.logaddexp(0, eta) - y * eta) for eta in fitted.staged(features, start, tuple(range(1, 21)))]
    assert (np.diff([np.log(2), *losses]) < 0).all()


def test_categories_are_split_by_what_they_mean():
    """Alternating categories: one cut in the order of outcomes separates them, none in the order of names."""
    rng = np.random.default_rng(0)
    word = rng.choice(list("abcdefgh"), 2000)
    y = np.isin(word, list("aceg")).astype(float)
    features = features_of(word[:, None])
    growth = boosting.Growth(stages=1, rate=1.0, depth=1, ridge=1e-12, leaf=0.0)
    (fitted,) = boosting.boost([boosting.BoostingFit(features, np.zeros(2000), y, np.ones(2000))], growth, rng)
    eta = next(iter(fitted.staged(features, np.zeros(2000), (1,))))
    assert np.array_equal(eta > 0, y == 1)


@pytest.mark.parametrize("k", [2, 3])
def test_fits_that_grow_in_step_are_those_of_each_alone(k, monkeypatch):
    """To the last bit: sums have the same numbers in the same order."""
    rng = np.random.default_rng(0)
    fits, growth = [], boosting.Growth(stages=12)
    for n in (150, 211, 90):
        X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 4, n), "c": rng.choice(list("abcde"), n)})
        codes = rng.integers(0, k, n)
        hit = codes.astype(float) if k == 2 else np.eye(k)[codes]
        fits.append(boosting.BoostingFit(features_of(X), 0.3 * rng.normal(size=hit.shape), hit, rng.random(n)))
    together = boosting.boost(fits, growth, rng)
    monkeypatch.setattr("scoreprism._learners.boosting._IN_STEP", 0)
    for fit, one, other in zip(fits, together, boosting.boost(fits, growth, rng), strict=True):
        for ours, theirs in zip(*(b.staged(fit.features, fit.start, (5, 12)) for b in (one, other)), strict=True):
            assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("k", [2, 3])
def test_a_law_that_cannot_be_beaten_is_kept(k):
    """Outcomes drawn from the start: what members add is noise, and the mixture gives it little weight."""
    rng = np.random.default_rng(1)
    base = rng.random(3000) if k == 2 else rng.dirichlet(np.ones(3), 3000)
    law = np.column_stack([1 - base, base]) if k == 2 else base
    codes = (rng.random(3000)[:, None] > law.cumsum(axis=1)).sum(axis=1)
    X = rng.random((3000, 3))
    reference = StackedReference(random_state=0).fit(X, codes, y_proba=base)
    found = reference.predict_proba(X, y_proba=base)
    assert np.abs(found - law).mean() < 0.02


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("k", [2, 3])
def test_every_member_gives_laws(name, k):
    rng = np.random.default_rng(0)
    features = features_of(rng.random((200, 3)))
    base = np.full(200, 0.4) if k == 2 else np.full((200, 3), 1 / 3)
    task = members.Task(features, base, rng.integers(0, k, 200), rng.random(200), k)
    for law in MEMBERS[name](task, rng)(features, base):
        assert law.shape == base.shape
        assert ((law > 0) & (law < 1)).all()
        assert k == 2 or law.sum(axis=1) == pytest.approx(np.ones(200), abs=1e-12)


def test_mixing_weights_are_the_best():
    """Against scipy's SLSQP on the same convex problem."""
    rng = np.random.default_rng(0)
    hits = rng.random((3, 400)) ** np.array([[1.0], [0.5], [2.0]])
    ours = members.find_mixing_weights(hits, None, steps=5000)

    def value(share):
        return -np.log(share @ hits).mean()

    theirs = minimize(
        value, np.full(3, 1 / 3), bounds=[(0, 1)] * 3, constraints={"type": "eq", "fun": lambda w: w.sum() - 1}
    )
    assert value(ours) <= theirs.fun + 1e-5
    assert ours.sum() == pytest.approx(1.0)


# ── interactions ────────────────────────────────────────────────────────────────────────────────────────


def test_quadrants_by_hand():
    """Xor of two columns, one stage, rate 1, no ridge: Newton steps Σ(y−p)/Σp(1−p) of the four quadrants, p = ½."""
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], (400, 3))
    y = (X[:, 0] * X[:, 2] > 0).astype(float)
    y[::7] = 1 - y[::7]
    features, start = features_of(X), np.zeros(400)
    growth = boosting.Growth(stages=1, rate=1.0, ridge=1e-12, leaf=0.0)
    fitted = boosting.boost_pairs(features, start, y, np.ones(400), growth)
    eta = next(iter(fitted.staged(features, start, (1,))))
    for a in (-1.0, 1.0):
        for b in (-1.0, 1.0):
            quadrant = (X[:, 0] == a) & (X[:, 2] == b)
            step = (y - 0.5)[quadrant].sum() / (0.25 * quadrant.sum())
            assert eta[quadrant] == pytest.approx(np.full(quadrant.sum(), step), abs=1e-9)


def test_quadrants_end_at_the_cut_of_the_law():
    """Xor at the 30 % and the 80 % point of two uniform columns: the values of one stage change there, to a bin of 2/31."""
    rng = np.random.default_rng(0)
    X = rng.random((4000, 4))
    y = ((X[:, 1] > 0.3) != (X[:, 3] > 0.8)).astype(float)
    features, start = features_of(X), np.zeros(4000)
    fitted = boosting.boost_pairs(features, start, y, np.ones(4000), boosting.Growth(stages=1))
    eta = next(iter(fitted.staged(features, start, (1,))))
    wrong = (eta > 0) != (y == 1)
    near = (np.abs(X[:, 1] - 0.3) < 2 / 31) | (np.abs(X[:, 3] - 0.8) < 2 / 31)
    assert not (wrong & ~near).any()


@pytest.mark.parametrize("k", [2, 3])
def test_pairs_that_interact_are_found_and_others_seldom(k):
    """Noise gives ½ of a pair on average, by the definition of the search: at most 1 in 40 samples (Poisson, 1e-4)."""
    rng = np.random.default_rng(0)
    found, count = [], []
    for _ in range(40):
        codes = rng.integers(1, 32, (30, 500)).astype(np.uint8)
        hit = rng.integers(0, k, 500)
        residual = np.stack([(hit == c) - 1 / k for c in range(k)]) if k > 2 else (hit - 0.5)[None]
        variance = np.full(len(residual), 500 / k if k > 2 else 125.0)
        count.append(len(boosting.find_pairs(codes, residual, variance, boosting.Search())))
        sign = np.where((codes[4] > 15) == (codes[17] > 10), 1.0, -1.0)
        residual[0] += 0.3 * sign
        found.append(boosting.find_pairs(codes, residual, variance, boosting.Search())[:1] == [(4, 17)])
    assert all(found)
    assert 0 < np.mean(count) < 1.0


def test_a_column_that_does_not_vary_has_no_pairs():
    codes = np.stack([np.ones(100), np.arange(100) % 2 + 1, np.zeros(100)]).astype(np.uint8)
    assert boosting.find_pairs(codes, np.ones((1, 100)), np.array([25.0]), boosting.Search()) == []


def test_many_columns_and_rows_are_searched_in_part():
    """Of 40 columns the 10 strongest alone, on a part of the rows; the pair has an effect of each column alone."""
    rng = np.random.default_rng(0)
    codes = rng.integers(1, 32, (40, 4000)).astype(np.uint8)
    high = codes > 15
    residual = 0.6 * (high[3] & high[31])[None] + rng.normal(0, 0.5, (1, 4000))
    search = boosting.Search(columns=10, products=4000 * 30**2 / 3.5)
    assert (3, 31) in boosting.find_pairs(codes, residual - residual.mean(), np.array([1000.0]), search)


def test_without_interactions_it_is_offset_boosting():
    """With this seed no pair is beyond chance (of six there is one in two fifths of samples)."""
    rng = np.random.default_rng(1)
    features, base = features_of(rng.random((400, 4))), np.full(400, 0.5)
    task = members.Task(features, base, rng.integers(0, 2, 400), None, 2)
    plain, paired = (MEMBERS[name](task, rng)(features, base) for name in ("offset-boosting", "interactions"))
    assert all(np.array_equal(a, b) for a, b in zip(plain, paired, strict=True))


@pytest.mark.parametrize("k", [2, 3])
def test_interactions_of_categories_with_missing_values_and_weights(k):
    """Six categories that turn the effect of a number around, alternating by name: neither says anything alone."""
    rng = np.random.default_rng(0)
    word, x, weight = rng.choice(list("abcdef"), 4000), rng.normal(size=4000), rng.random(4000) + 0.5
    sign = np.where(np.isin(word, list("ace")), 1.0, -1.0) * np.sign(x)
    gone = rng.random(4000) < 0.1
    sign[gone], x[gone] = 0.0, np.nan
    law = (
        0.5 + 0.35 * sign
        if k == 2
        else np.stack([1 / 3 + 0.3 * sign, 1 / 3 - 0.3 * sign, np.full(4000, 1 / 3)], axis=1)
    )
    y = (rng.random(4000) < law).astype(int) if k == 2 else (rng.random((4000, 1)) > law.cumsum(axis=1)).sum(axis=1)
    frame = pd.DataFrame({"noise": rng.random(4000), "word": word, "x": x, "more": rng.random(4000)})
    features, base = features_of(frame), np.full(law.shape, 1 / k)
    task, far = members.Task(features, base, y, weight, k), np.abs(base - law).mean()
    plain, paired = (MEMBERS[name](task, rng)(features, base) for name in ("offset-boosting", "interactions"))
    assert np.abs(plain[0] - law).mean() > 0.75 * far
    for after in paired:
        assert np.abs(after - law).mean() < 0.3 * far


def test_xor_of_ten_features_is_found():
    """
    Y turns with the sign of x₁x₂, which no column shows alone, and the score knows x₃.

    C = E[q | x₃] = σ(.8 x₃), so the truth is the mean of d(C, q). Without the member the bounds are .45 and .43 of it.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 10))
    c = expit(0.8 * X[:, 2])
    q = c + 0.6 * np.minimum(c, 1 - c) * np.sign(X[:, 0] * X[:, 1])
    y = (rng.random(8000) < q).astype(int)
    found = decompose_losses(y, expit(X[:, 2] + 0.1), X, losses=("brier", "log"), random_state=0)
    for name in ("brier", "log"):
        loss = get_loss(name)
        truth = float(np.mean(loss.divergence(c, q)))
        assert 0.7 * truth < found[name].lower_bound("grouping").value < truth


# ── the stack as an estimator ───────────────────────────────────────────────────────────────────────────


def test_stack_learns_and_remembers():
    X, y, q = CopulaLaw(rho=0.0).sample(3000, 0)
    labels = np.where(y == 1, "yes", "no")
    fitted = StackedReference().fit(X[:2000], labels[:2000])
    law = fitted.predict_proba(X[2000:])
    assert law.sum(axis=1) == pytest.approx(np.ones(1000))
    assert np.sqrt(np.mean((law[:, 1] - q[2000:]) ** 2)) < 0.06
    assert set(fitted.predict(X[2000:])) == {"no", "yes"}
    assert fitted.weights_.sum() == pytest.approx(1.0)
    again = StackedReference().fit(X[:2000], labels[:2000])
    assert np.array_equal(again.predict_proba(X[2000:]), law)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda X, y: StackedReference("forest").fit(X, y), "members must be one of calibrated, logistic, polynomial"),
        (lambda X, y: StackedReference(()).fit(X, y), "members must name at least one learner; got none."),
        (lambda X, y: StackedReference().fit(X, y * 0), "y must hold at least two classes; got one."),
        (lambda X, y: StackedReference().fit(X, y).predict_proba(X[:, :1]), "X must have 2 columns, as in fit; got 1."),
        (
            lambda X, y: StackedReference(("logistic",)).fit(X, y, y_proba=np.full(100, 0.5)).predict_proba(X),
            "predict_proba must get y_proba, as fit did; got the opposite.",
        ),
        (
            lambda X, y: StackedReference().fit(X, y, y_proba=np.full((100, 3), 1 / 3)),
            "y_proba must have a column for each label; got 3 classes beside 2 labels.",
        ),
    ],
)
def test_stack_refuses(call, text):
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=re.escape(text)):
        call(rng.random((100, 2)), rng.integers(0, 2, 100))


# ── the partition bound ─────────────────────────────────────────────────────────────────────────────────


def test_partition_bound_by_hand_for_the_log_loss():
    """One bin, two regions with 3 of 4 and 0 of 4 events: entropies in nats, jackknife by its definition."""

    def entropy(p):
        return -sum(v * np.log(v) for v in (p, 1 - p) if v > 0)

    def short(k, n):
        left_out = (k * entropy((k - 1) / (n - 1)) if k else 0) + (n - k) * entropy(k / (n - 1))
        return (n - 1) * (entropy(k / n) - left_out / n)

    y = np.array([1, 1, 1, 0, 0, 0, 0, 0])
    bound = partition_lower_bound(y, np.full(8, 0.4), partition=np.repeat([0, 1], 4), loss="log", calibrator="platt")
    assert bound.explained == pytest.approx(entropy(3 / 8) - 0.5 * entropy(3 / 4), abs=1e-12)
    assert bound.bias == pytest.approx(0.5 * short(3, 4) + 0.5 * short(0, 4) - short(3, 8), abs=1e-12)
    assert bound.induced == pytest.approx(0.0, abs=1e-12)
    assert np.isfinite(bound.lower_bound().value)


def test_partition_bound_sees_nothing_where_nothing_is():
    rng = np.random.default_rng(0)
    s = rng.random(4000)
    y = (rng.random(4000) < s).astype(int)
    bound = partition_lower_bound(y, s, rng.random((4000, 3)), loss="brier", random_state=0)
    assert abs(bound.estimate) < 4 * bound.std_error
    assert bound.lower_bound().value < 0.001


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "partition_lower_bound must have X or partition; got neither."),
        ({"partition": np.arange(20)}, "regions must hold at least two rows; got none that does."),
        ({"X": np.zeros((20, 1)), "n_bins": 0}, "n_bins must be a whole number of at least 1; got 0."),
    ],
)
def test_partition_bound_refuses(options, text):
    with pytest.raises(InputError, match=re.escape(text)):
        partition_lower_bound(np.arange(20) % 2, np.linspace(0.1, 0.9, 20), **options)
