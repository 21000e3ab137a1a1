"""CORP and isotonic regression against model-diagnostics, scikit-learn and an exact rational PAV."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoreprism import corp_decomposition, resolution_decomposition
from scoreprism._kernels import isotonic
from scoreprism.exceptions import InputError, UnavailableError

Y, S = [0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9]


def isotonic_law(y, score, weight=None):
    """The in-sample isotonic law of CORP, row by row; 0 in rows without weight."""
    chain = corp_decomposition(y, score, sample_weight=weight, loss="brier", classes=[0, 1]).chain
    return chain.sample.by_given_row(chain.levels[1].law, 0.0)


def rational_pav(score, y, weight):
    """Pool adjacent violators in exact arithmetic, ties pooled first."""
    blocks = []
    for value in sorted(set(score)):
        rows = [i for i, s in enumerate(score) if s == value and weight[i] > 0]
        if not rows:
            continue
        w = sum(Fraction(weight[i]) for i in rows)
        blocks.append([sum(Fraction(weight[i]) * y[i] for i in rows), w, {value}])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            events, w, values = blocks.pop()
            blocks[-1] = [blocks[-1][0] + events, blocks[-1][1] + w, blocks[-1][2] | values]
    return {value: events / w for events, w, values in blocks for value in values}


@given(
    rows=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1), st.integers(0, 5)), min_size=1, max_size=25).filter(
        lambda rows: any(w for _, _, w in rows)
    )
)
def test_isotonic_equals_exact_rational_pav(rows):
    score, y, weight = (np.array(v) for v in zip(*rows, strict=True))
    exact = rational_pav(score.tolist(), y.tolist(), weight.tolist())
    fitted = isotonic_law(y, score / 8, weight)
    for s, w, value in zip(score, weight, fitted, strict=True):
        if w > 0:
            assert value == pytest.approx(float(exact[s]), abs=1e-15)
    ordered = fitted[weight > 0][np.argsort(score[weight > 0], kind="stable")]
    assert (np.diff(ordered) >= -1e-15).all()


def test_isotonic_equals_scikit_learn():
    """scikit-learn's IsotonicRegression, which pools ties by their weighted mean (tested with 1.9)."""
    from sklearn.isotonic import IsotonicRegression

    rng = np.random.default_rng(0)
    s, y, w = rng.integers(0, 40, 500) / 40, rng.integers(0, 2, 500).astype(float), rng.random(500)
    np.testing.assert_allclose(
        isotonic_law(y, s, w), IsotonicRegression().fit(s, y, sample_weight=w).predict(s), atol=1e-12
    )


def test_issue_example():
    """Digits of the project's issue; model-diagnostics 1.5 `decompose(y, s, scoring_function=…)` prints the same."""
    brier, log = corp_decomposition(Y, S, loss="brier"), corp_decomposition(Y, S, loss="log")
    assert list(brier.terms) == ["reliability", "resolution", "uncertainty"]
    assert list(brier.terms.values()) == pytest.approx([0.1016667, 0.125, 0.25], abs=5e-8)
    assert list(log.terms.values()) == pytest.approx([0.3237327, 0.3182571, 0.6931472], abs=5e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_equals_model_diagnostics(seed, weighted):
    """PyPI model-diagnostics: decompose(y, s, weights, scoring_function=SquaredError() or LogLoss()), ties and weights."""
    scoring = pytest.importorskip("model_diagnostics.scoring", reason='python -m pip install -e ".[test]"')
    rng = np.random.default_rng(seed)
    s = np.clip(rng.beta(2, 3, 800).round(2), 0.01, 0.99)
    y = (rng.random(800) < s**1.3).astype(int)
    weight = rng.integers(1, 5, 800) * rng.random() if weighted else None
    for loss, function in (("brier", scoring.SquaredError()), ("log", scoring.LogLoss())):
        theirs = scoring.decompose(y, s, weight, scoring_function=function).row(0)
        ours = corp_decomposition(y, s, loss=loss, sample_weight=weight)
        assert [*ours.terms.values(), ours.risk] == pytest.approx(theirs, abs=1e-10)


def test_scores_one_ulp_apart_are_finite():
    """model-diagnostics 1.5 returns NaN here: it interpolates between scores that differ in the last bit."""
    s = [0.3, np.nextafter(0.3, 1), np.nextafter(np.nextafter(0.3, 1), 1), 0.6]
    for y in ([1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 1]):
        for loss in ("log", "brier"):
            assert np.isfinite(list(corp_decomposition(y, s, loss=loss).terms.values())).all()


def test_blocks_where_all_or_nothing_happened_are_certain():
    d = corp_decomposition(
        [0, 0, 1, 1, 1], [0.1, 0.2, 0.6, 0.7, 0.8], loss="log", sample_weight=[0.1, 0.3, 0.7, 0.2, 0.1]
    )
    assert d.terms["resolution"] == pytest.approx(d.terms["uncertainty"], abs=1e-15)
    assert d.level_losses[:, 1].tolist() == [0.0] * 5


def test_every_loss_has_nonnegative_terms():
    """Isotonic regression is optimal for every proper loss at once (Dimitriadis, Gneiting & Jordan 2021, theorem 1)."""
    from tests.conftest import EVERY_LOSS

    rng = np.random.default_rng(1)
    s = rng.random(300)
    y = rng.random(300) < s**2
    for loss in EVERY_LOSS:
        d = corp_decomposition(y, s, loss=loss)
        assert min(d.terms.values()) >= -1e-13
        total = d.terms["reliability"] - d.terms["resolution"] + d.terms["uncertainty"]
        assert total == pytest.approx(d.risk, abs=1e-12)


def test_in_sample_terms_carry_their_bias_and_no_interval():
    d = corp_decomposition(Y, S, loss="brier")
    assert d.findings[0].kind == "in_sample_bias"
    assert d.notes[0] == (
        "In-sample isotonic: reliability is biased upwards (about +0.0055 Brier for a calibrated score at n = 1000)."
    )
    with pytest.raises(
        UnavailableError, match="'reliability' has no interval: the recalibrated score was fitted on these same rows"
    ):
        d.interval("reliability")
    with pytest.raises(UnavailableError, match="'resolution' has no lower bound"):
        d.lower_bound("resolution")
    with pytest.raises(UnavailableError, match="'reliability' has no interval"):
        d.interval("reliability", method="clt")
    assert np.isnan(d.std_error["reliability"])
    difference = d.minus(corp_decomposition(Y, [0.5] * 6, loss="brier"))
    assert np.isnan(difference.std_error["reliability"])
    with pytest.raises(UnavailableError, match="'reliability' has no interval"):
        difference.interval("reliability")
    assert "–" in repr(difference)
    assert "biased upwards" in repr(d)


def test_bias_of_corp():
    """The bias in the note: +0.0055 Brier at n = 1000 for a calibrated score, as first measured; uniform scores, 200 draws."""
    rng = np.random.default_rng(2)
    values = []
    for _ in range(200):
        s = rng.random(1000)
        values.append(corp_decomposition(rng.random(1000) < s, s, loss="brier").terms["reliability"])
    assert np.mean(values) == pytest.approx(0.0055, abs=0.0008)


def test_corp_and_resolution_agree_on_the_same_law():
    rng = np.random.default_rng(3)
    s = rng.random(100).round(1)
    y = (rng.random(100) < s).astype(int)
    fitted = isotonic_law(y, s)
    a = corp_decomposition(y, np.clip(s, 0.01, 0.99), loss="log").terms.values()
    b = resolution_decomposition(y, np.clip(s, 0.01, 0.99), fitted, loss="log").terms.values()
    assert list(a) == pytest.approx(list(b), abs=1e-14)


def test_single_class_and_three_classes():
    d = corp_decomposition([1, 1], [0.4, 0.9], loss="brier")
    assert d.terms == pytest.approx({"reliability": 0.185, "resolution": 0, "uncertainty": 0})
    with pytest.raises(InputError, match="CORP must have two classes, .* got 3. Use resolution_decomposition"):
        corp_decomposition([0, 1, 2], np.eye(3))
    with pytest.raises(InputError, match="calibrated must have as many classes as y_proba"):
        resolution_decomposition([0, 1], [0.5, 0.5], np.full((2, 3), 1 / 3))
    with pytest.raises(InputError, match="calibrated and y_true must have the same number of rows; got 3 and 2"):
        resolution_decomposition([0, 1], [0.5, 0.5], [0.5, 0.5, 0.5])


@pytest.mark.filterwarnings("error")
def test_many_rows_of_one_score_are_one_block():
    """Cells of the score axis do not help there; as many rows as make them worth a try."""
    y = (np.arange(isotonic._MANY) % 4 == 0).astype(float)
    for score in (0.3, 0.0, 1.0):
        ladder = isotonic.isotonic_ladder(np.full(isotonic._MANY, score), y)
        assert [column.tolist() for column in ladder] == [
            [score],
            [score],
            [score],
            [isotonic._MANY],
            [isotonic._MANY / 4],
        ]


@pytest.mark.filterwarnings("error")
def test_scores_beyond_one_are_pooled_as_any():
    """np.unique says which rows are equal; margins and other scores need not lie in [0, 1]."""
    score, y = np.array([3.0, 0.5, 3.0, 70000.0, 0.5]), np.array([1.0, 0.0, 0.0, 1.0, 1.0])
    values, where = np.unique(score, return_inverse=True)
    pooled = isotonic.pool_ties(score, y)
    assert pooled.score.tolist() == values.tolist()
    assert pooled.weight.tolist() == np.bincount(where).tolist()
    assert pooled.events.tolist() == np.bincount(where, y).tolist()


@pytest.mark.parametrize(("low", "step"), [(0.1, 0.05), (0.0, 1e-310), (-8e304, 1e304), (3.0, 1e-15)])
def test_locating_many_scores_counts_the_cuts_up_to_each(low, step):
    """The definition, #{cuts ≤ x}, at the cuts themselves and beside them, for widths that a grid can and cannot divide."""
    cuts = low + step * np.arange(16.0)
    near = np.concatenate([cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf), [low - 1.0, cuts[-1] + 1.0]])
    x = np.tile(near, 4096 // near.size + 1)
    np.testing.assert_array_equal(isotonic.locate(cuts, x), (cuts <= x[:, None]).sum(axis=1))


def test_neighbouring_blocks_of_one_mean_are_one():
    """Means that differ by less than 1e-12 of themselves are one mean, rounded otherwise; both ends always stay."""
    edge = np.array([0, 2, 5, 9])
    assert isotonic._join_ties(edge, np.array([0.2, 0.2 * (1 + 1e-14), 0.7])).tolist() == [0, 5, 9]
    assert isotonic._join_ties(edge, np.array([0.2, 0.7, 0.7 * (1 + 1e-14)])).tolist() == [0, 2, 9]
    assert isotonic._join_ties(edge, np.array([0.2, 0.2 * (1 + 1e-11), 0.7])).tolist() == [0, 2, 5, 9]
    assert isotonic._join_ties(edge, np.array([0.0, 0.0, 0.0])).tolist() == [0, 9]
