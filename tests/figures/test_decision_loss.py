"""The largest loss from miscalibration over thresholds: closed forms, brute force over decisions, and how often its bound holds."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from scoreprism import Chain, Level
from scoreprism.curves import MurphyDecomposition, decision_loss, murphy_curve, murphy_decomposition
from scoreprism.curves._decision_loss import DecisionRows, find_payoff_loss
from scoreprism.exceptions import InputError
from scoreprism.report import make_report

Z = 1.6448536269514722  # scipy.stats.norm.ppf(0.95)
ROUNDING = 1e-12

#: A law on three scores: mass, score, P(Y=1|S).
LAW = [(Fraction(1, 2), Fraction(1, 5), Fraction(2, 5)), (Fraction(3, 10), Fraction(1, 2), Fraction(3, 10)),
       (Fraction(1, 5), Fraction(7, 10), Fraction(9, 10))]  # fmt: skip


def at(theta, *, left=False):
    """Σ mass·|C − θ| where θ lies between S and C, in fractions; from the left a score equal to θ is above it."""
    below = [(s < theta if left else s <= theta) for _, s, _ in LAW]
    return sum(m * max(c - theta if b else theta - c, 0) for (m, _, c), b in zip(LAW, below, strict=True))


def population():
    """The law as ten rows of each score with the outcomes in exact shares, and C known."""
    y = np.concatenate([[1] * int(10 * c) + [0] * (10 - int(10 * c)) for _, _, c in LAW])
    w, s, c = (np.repeat([float(row[i]) for row in LAW], 10) for i in range(3))
    return y, s, c, w


def chain_curve(*, whole=False):
    y, s, c, w = population()
    chain = Chain(y, [Level("score", s), Level("calibrated", c)], sample_weight=w, population=whole)
    return MurphyDecomposition.from_chain(chain, form="difference")


def test_a_law_on_three_scores_in_fractions():
    """Between scores the loss is convex in θ, so its maximum is at a score or just below one."""
    best = max(max(at(s), at(s, left=True)) for _, s, _ in LAW)
    assert best == Fraction(1, 10)  # ½·(2/5 − 1/5), at θ = 1/5
    found = chain_curve().decision_loss()
    assert found.value == pytest.approx(float(best), abs=ROUNDING)
    assert found.threshold == pytest.approx(0.2)
    assert found.bound > found.value
    known = chain_curve(whole=True).decision_loss()
    assert (known.value, known.bound) == pytest.approx((float(best), float(best)), abs=ROUNDING)
    # twice the least concave function above r at ½, which lies above r(½−) = 3/50 there: the line between two scores
    assert (at(Fraction(1, 5)), at(Fraction(1, 2), left=True), at(Fraction(7, 10))) == (
        Fraction(1, 10),
        Fraction(3, 50),
        Fraction(1, 25),
    )
    line = Fraction(1, 10) - Fraction(3, 5) * (Fraction(1, 10) - Fraction(1, 25))
    assert known.cdl == known.cdl_bound == pytest.approx(float(2 * line), abs=1e-9)


def v_shaped(mu, p, y):
    """The V-shaped score with its kink at mu, as Hu & Wu (2024) define it: payoffs in [0, 1], ½ at p = mu."""
    if mu > 0.5:
        return v_shaped(1 - mu, 1 - p, 1 - y)
    side = np.where(p > mu, 1.0, -1.0)
    return 0.5 + 0.5 * side * (y - mu) / (1 - mu)


def test_v_shaped_scores_are_elementary_losses_over_the_dearer_error():
    """E[S_μ(C, Y) − S_μ(S, Y)] = r(μ)/max(μ, 1 − μ): what divides their unit from ours."""
    y, s, c, w = population()
    curve = chain_curve()
    worst = 0.0
    for mu in np.arange(1, 400) / 400 + 1e-6:  # beside the scores: at one, their ties go the other way above ½
        regret = float(np.average(v_shaped(mu, c, y) - v_shaped(mu, s, y), weights=w))
        assert regret == pytest.approx(curve.at([mu])[0, 0] / max(mu, 1 - mu), abs=ROUNDING)
        worst = max(worst, regret)
    cdl = curve.decision_loss().cdl
    assert worst - 1e-3 < cdl <= 2 * worst + 1e-3  # their theorem: V-shaped scores reach at least half


def test_cdl_is_the_linear_program_over_all_bounded_scores():
    """A bounded proper score is a mixture w of thresholds with ∫(1 − θ)dw ≤ 1 and ∫θdw ≤ 1; scipy's linprog finds the best."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        theta, loss = np.sort(rng.random(60)), rng.random(60) * rng.random()
        solved = linprog(-loss, A_ub=np.stack([1 - theta, theta]), b_ub=[1, 1], bounds=(0, None))
        assert find_payoff_loss(theta, loss) == pytest.approx(-solved.fun, rel=1e-9)


def test_no_decision_with_payoffs_in_0_1_loses_more_than_the_cdl():
    """Brute force: random payoffs of two to five actions; regret of responding to S rather than to C."""
    y, s, c, w = population()
    cdl = chain_curve().decision_loss().cdl
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(4000):
        payoff = rng.random((rng.integers(2, 6), 2)).round(1)  # actions × outcomes
        respond = [np.argmax(payoff[:, 0] * (1 - p[:, None]) + payoff[:, 1] * p[:, None], axis=1) for p in (s, c)]
        regret = float(np.average(payoff[respond[1], y] - payoff[respond[0], y], weights=w))
        worst = max(worst, regret)
    assert worst <= cdl + ROUNDING
    assert worst > 0.7 * cdl  # random problems come near


def test_bound_is_the_best_union_of_cells():
    """All 2⁵ sets of five tied scores, one by one, against the sorted scan, which may take a share of one."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        atoms = np.sort(rng.permutation(np.arange(5, 96))[:5] / 100)
        s, y, share = np.repeat(atoms, 8), rng.integers(0, 2, 40), rng.random(40)
        share /= share.sum()
        theta = atoms[rng.integers(0, 5)]
        skew = 0.5 * Z * abs(1 - 2 * theta) * (share @ share)
        best = 0.0
        for chosen in itertools.product([False, True], repeat=5):
            gain = np.where(np.repeat(chosen, 8), np.where(s <= theta, y - theta, theta - y), 0.0) * share
            best = max(best, gain.sum() + Z * np.sqrt(gain @ gain + skew**2))
        found = float(DecisionRows(s, y, share).cells(np.array([theta])).upper(np.array([theta]), 0.95)[0])
        assert best + Z * skew - ROUNDING <= found <= 1.1 * (best + Z * skew)


@pytest.mark.parametrize(
    ("draw", "largest"),
    [
        # P(S ≤ θ)(.6 − θ) = 5(θ − .3)(.6 − θ), largest at θ = .45: 9/80
        (lambda rng, n: (rng.uniform(0.3, 0.5, n), np.full(n, 0.6)), 9 / 80),
        # at θ = .6: ∫(.7 − .6) over (.4, .6), ∫(.6 − .35) over (.6, .95), of scores uniform on (.05, .95)
        (
            lambda rng, n: (s := rng.uniform(0.05, 0.95, n), np.select([s < 0.4, s < 0.6], [0.2, 0.7], 0.35)),
            (0.2 * 0.1 + 0.35 * 0.25) / 0.9,
        ),
        # ten tied scores, C off by .07 up and down in turn: just below .9 the atom .9 loses .07 of its tenth
        (
            lambda rng, n: (s := rng.integers(0, 10, n) / 10 + 0.05, s + 0.07 * (1 - 2 * (np.rint(10 * s - 0.5) % 2))),
            0.007,
        ),
    ],
    ids=["shift", "stairs3", "saw"],
)
def test_bound_holds_as_often_as_it_says(draw, largest):
    """400 samples; the rates of docs/curves.md come from more, by benchmarks/decision_loss.py."""
    held = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        s, c = draw(rng, 400)
        rows = DecisionRows(s, (rng.random(400) < c).astype(int), np.full(400, 1 / 400))
        cells = rows.cells(np.array([0.5]))
        theta, place = cells.edges
        held += cells.upper(theta, 0.95, place).max() >= largest
    assert held / 400 >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 400)


def sample(n=600, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.random(n)
    return (rng.random(n) < s).astype(int), s


def test_scores_in_the_same_order_differ_by_their_own_losses():
    """C is the same for both, so that the difference is that of two Murphy curves: no law is in it."""
    y, s = sample()
    found = decision_loss(y, s**3, baseline=s, random_state=0)
    theta = np.arange(1, 100) / 100
    direct = murphy_curve(y, s**3).at(theta) - murphy_curve(y, s).at(theta)
    assert found.value == pytest.approx(direct.max(), abs=ROUNDING)
    assert found.threshold == theta[direct.argmax()]
    rows = [np.where((s**3 <= t) != (s <= t), np.where(y == 1, 1 - t, -t), 0) / y.size for t in theta]
    skew = 0.5 * Z * np.abs(1 - 2 * theta) / y.size
    upper = [r.sum() + Z * np.hypot(np.sqrt(r @ r), k) + Z * k for r, k in zip(rows, skew, strict=True)]
    assert found.bound == pytest.approx(max(upper), abs=ROUNDING)
    same = decision_loss(y, s, baseline=s, random_state=0)
    assert (same.value, same.bound, same.cdl_bound) == (0.0, 0.0, 0.0)


def test_difference_of_models_in_different_orders():
    """Upper bound of the one less lower bound LD − z·se of the other, at every percent."""
    y, s = sample()
    other = np.clip(s + np.random.default_rng(5).normal(0, 0.2, s.size), 0.01, 0.99)
    a, b = (murphy_decomposition(y, p, random_state=0, form="difference") for p in (other, s))
    found = a.decision_loss(b)
    low = np.maximum(b.values[:, 0] - Z * (b.values[:, 0] - b.low[:, 0]) / 1.959963984540054, 0)
    shown = b.low[:, 0] > 0  # elsewhere the interval is cut and its length says nothing
    assert shown.any()
    low[~shown] = np.maximum(b._below[~shown, 0] - Z * b._below[~shown, 1], 0)
    upper = a._cells.upper(a.theta, 0.95) - low
    assert found.bound == pytest.approx(max(upper.max(), found.value), abs=1e-9)
    assert found.value == pytest.approx((a.values - b.values)[:, 0].max(), abs=ROUNDING)
    assert found.threshold in a.theta


def test_level_weights_and_order_of_rows():
    y, s = sample(300)
    w = np.random.default_rng(3).uniform(0.5, 2, 300)
    curve = murphy_decomposition(y, s, sample_weight=w, calibrator="platt", random_state=0)
    low, high = curve.decision_loss(confidence_level=0.8), curve.decision_loss(confidence_level=0.99)
    assert low.bound < curve.decision_loss().bound < high.bound
    scaled = murphy_decomposition(y, s, sample_weight=7 * w, calibrator="platt", random_state=0)
    assert scaled.decision_loss().bound == pytest.approx(curve.decision_loss().bound, rel=1e-12)
    back = DecisionRows(s[::-1], y[::-1], w[::-1] / w.sum()).cells(curve.theta)
    np.testing.assert_allclose(back.upper(curve.theta, 0.95), curve._cells.upper(curve.theta, 0.95), rtol=1e-9)


def test_clusters_widen_the_bound():
    """Ten copies of each row are one row: the standard error is √10 times that of as many independent rows."""
    y, s = sample(200)
    y, s, g = (np.repeat(part, 10) for part in (y, s, np.arange(200)))
    apart, together = (decision_loss(y, s, groups=k, calibrator="platt", random_state=0) for k in (np.arange(2000), g))
    assert together.bound > apart.bound
    cells = DecisionRows(s, y, np.full(2000, 1 / 2000), g).cells(np.arange(1, 100) / 100)
    assert cells.inflation == pytest.approx(10, rel=1e-9)


def test_rare_events_are_looked_at_where_they_are():
    rng = np.random.default_rng(0)
    s = 0.004 * rng.random(5000)
    y = (rng.random(5000) < 0.01).astype(int)
    found = decision_loss(y, s, random_state=0)
    assert 0.0 < found.threshold < 0.01
    assert found.value <= found.bound < 0.02


def test_words_of_errors_and_of_the_result():
    y, s = sample(300)
    curve = murphy_decomposition(y, s, calibrator="platt", random_state=0, name="a")
    fewer = murphy_decomposition(y[:200], s[:200], calibrator="platt", random_state=0)
    with pytest.raises(InputError) as caught:
        curve.decision_loss(fewer)
    assert str(caught.value) == (
        "baseline must be a curve of the same rows at the same thresholds; got 300 rows, 99 thresholds and 200 rows, 99 "
        "thresholds. Make both from one y_true."
    )
    found = curve.decision_loss()
    assert repr(found) == (
        f"DecisionLoss(a: {found.value:.2g} at threshold {found.threshold:.2g}, at most {found.bound:.2g} at any with "
        "confidence 95 %)"
    )
    assert json.loads(json.dumps(found.to_dict()))["bound"] == found.bound


def test_report_says_it_once_with_its_threshold():
    y, s = sample(1500)
    wrong = make_report(y, {"wrong": s**2, "right": s}, sections=["decisions"], calibrators=["platt"])
    found = wrong.models["wrong"].decision_loss
    meaning = wrong["decisions"].meaning
    assert (
        f"Miscalibration of wrong costs most at thresholds around {found.threshold:.2g}: an estimated {found.value:.2g} per "
        in meaning
    )
    assert "at any threshold (at 95 % confidence). " in meaning
    assert meaning.endswith("Here a false alarm at threshold t costs t, and a miss costs 1 − t.")
    table = next(block for block in wrong["decisions"].blocks if block.key == "decision-loss")
    assert [row[0] for row in table.rows] == ["wrong", "right", "wrong, more than right", "right, more than wrong"]
    assert "What miscalibration costs decisions" in wrong.to_html()
    stored = json.loads(wrong.to_json())["models"]["wrong"]["decision_loss"]
    assert stored == {
        key: found.to_dict()[key] for key in ("value", "threshold", "bound", "confidence_level", "cdl", "cdl_bound")
    }
    calm = make_report(y, {"right": s}, sections=["decisions"], calibrators=["platt"])
    assert "Miscalibration of right costs at most 0.0" in calm["decisions"].meaning
