"""Required sample sizes: the formula, its small-miscalibration law, scores, pilots, errors; power by simulation."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm

from scoreprism import Chain, Level
from scoreprism.exceptions import InputError
from scoreprism.inference import required_sample_size
from scoreprism.losses import get_loss

Z = norm.ppf(0.95) + norm.ppf(0.8)
SCORES = np.random.default_rng(0).uniform(0.05, 0.95, 300)


def recalibrated(size, loss, scores, alternative):
    """The line in log-odds that is as far from the scores as the reliability says: shifted up, or flatter."""

    def law(t):
        return expit(logit(scores) + t) if alternative == "shift" else expit((1 - t) * logit(scores))

    def excess(t):
        return get_loss(loss).divergence(scores, law(t)).mean() - size.reliability

    c = law(brentq(excess, 0.0, 20.0 if alternative == "shift" else 1.0, xtol=1e-14))
    return np.column_stack([1 - c, c])


def test_the_rule_for_small_miscalibration():
    """σ² = 2ρ: n = 2(z₁+z₂)²/ρ, four times the most powerful test; 2·6.1826/.005 = 2473.02…"""
    size = required_sample_size(reliability=0.005)
    assert size.n == math.ceil(2 * Z**2 / 0.005) == 2474
    assert size.n_test == math.ceil(Z**2 / (2 * 0.005)) == 619
    assert size.sd == pytest.approx(0.1, rel=1e-12)
    assert size.loss == "log"


@pytest.mark.parametrize("alternative", ["shift", "slope"])
@pytest.mark.parametrize("k", [2, 3])
def test_scores_tend_to_the_rule(alternative, k):
    """For the log loss σ²/ρ → 2 and n/n_test → 4 whatever the scores and the direction, to order √ρ."""
    scores = SCORES if k == 2 else np.random.default_rng(1).dirichlet([2, 2, 2], 100)
    size = required_sample_size(reliability=1e-7, y_proba=scores, alternative=alternative)
    assert size.sd**2 / size.reliability == pytest.approx(2.0, abs=5e-3)
    assert size.n / size.n_test == pytest.approx(4.0, rel=5e-3)


def test_brier_by_hand():
    """
    One score .2, true probability c = .2 + √ρ: (S−Y)² − (C−Y)² = (S−C)(S+C−2Y), so σ = 2·|S−C|·√(c(1−c)).

    ρ = .01 gives c = .3 and σ² = 4·.01·.21 = .0084.
    """
    size = required_sample_size(reliability=0.01, loss="brier", base_rate=0.2)
    assert size.sd**2 == pytest.approx(0.0084, rel=1e-9)
    assert size.n == math.ceil(Z**2 * 0.0084 / 0.01**2)
    assert recalibrated(size, "brier", np.array([0.2]), "shift")[0, 1] == pytest.approx(0.3, rel=1e-9)


@pytest.mark.parametrize("loss", ["log", "brier", "spherical"])
@pytest.mark.parametrize("alternative", ["shift", "slope"])
def test_the_alternative_has_the_reliability_asked_for(loss, alternative):
    size = required_sample_size(reliability=0.004, loss=loss, y_proba=SCORES, alternative=alternative)
    truth = recalibrated(size, loss, SCORES, alternative)[:, 1]
    assert get_loss(loss).divergence(SCORES, truth).mean() == pytest.approx(0.004, rel=1e-9)
    moved = logit(truth) - logit(SCORES) if alternative == "shift" else logit(truth) / logit(SCORES)
    assert moved == pytest.approx(np.full(300, moved[0]), rel=1e-9)


def test_more_to_see_takes_fewer_rows():
    sizes = [required_sample_size(reliability=r, y_proba=SCORES).n for r in (0.001, 0.003, 0.01, 0.03)]
    assert sizes == sorted(sizes, reverse=True)
    assert required_sample_size(reliability=0.01, power=0.9).n > required_sample_size(reliability=0.01).n
    assert required_sample_size(reliability=0.01, confidence_level=0.99).n > required_sample_size(reliability=0.01).n


def test_certain_scores_add_nothing():
    """Scores of 0 and 1 stay where they are; they dilute, and nothing is infinite."""
    size = required_sample_size(reliability=0.004, y_proba=[0.0, 0.3, 0.7, 1.0])
    inner = required_sample_size(reliability=0.008, y_proba=[0.3, 0.7])
    assert math.isfinite(size.sd)
    assert size.n == pytest.approx(2 * inner.n, rel=0.01)


def pilot(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.05, 0.95, n)
    c = expit(logit(s) / 1.5)
    y = (rng.random(n) < c).astype(int)
    return Chain(y, [Level("S", s), Level("C", c)])


def test_pilot():
    """σ = se·√n; twice the reliability has twice the variance, so half the rows."""
    first = pilot().decompose("brier")
    estimate, error = first.terms["reliability"], first.std_error["reliability"]
    size = required_sample_size(pilot=first)
    assert size.n == math.ceil((Z * error * math.sqrt(2000) / estimate) ** 2)
    assert (size.reliability, size.loss, size.n_test) == (estimate, "brier", None)
    twice = required_sample_size(pilot=first, reliability=2 * estimate)
    assert twice.n == pytest.approx(size.n / 2, abs=1)


def test_pilot_agrees_with_scores():
    """A large pilot knows what the scores say."""
    rng = np.random.default_rng(5)
    scores = rng.uniform(0.05, 0.95, 300)
    known = required_sample_size(reliability=0.02, y_proba=scores, alternative="slope")
    c = recalibrated(known, "log", scores, "slope")[:, 1]
    rows = rng.integers(300, size=200_000)
    y = (rng.random(200_000) < c[rows]).astype(int)
    first = Chain(y, [Level("S", scores[rows]), Level("C", c[rows])]).decompose("log")
    assert required_sample_size(pilot=first).n == pytest.approx(known.n, rel=0.05)


def test_power_at_and_result():
    size = required_sample_size(reliability=0.01, y_proba=[0.2, 0.6])
    assert size.power_at(size.n) == pytest.approx(0.8, abs=1e-3)
    assert size.power_at(size.n) >= 0.8 > size.power_at(size.n - 1)
    assert json.loads(json.dumps(size.to_dict()))["n"] == size.n
    with pytest.raises(AttributeError):
        size.n = 1
    assert repr(required_sample_size(reliability=0.005)) == (
        "2474 rows show a reliability of 0.005 (log loss) with probability 0.8: lower bound above 0 at confidence 0.95\n"
        "  standard deviation of the loss differences: 0.1\n"
        "  a test of calibration needs at least 619 rows\n"
        "  assumed: small miscalibration, under which σ² = 2·reliability\n"
        "  assumed: C known; independent rows"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "reliability must be a positive number; got None. Pass a number."),
        ({"reliability": 0.0}, "reliability must be a positive number; got 0. Pass a number in that range."),
        (
            {"reliability": 0.01, "power": 1.0},
            "power must be a probability between 0 and 1; got 1. Pass a number in that range.",
        ),
        (
            {"reliability": 0.01, "power": 0.04},
            "power must be above 1 − confidence_level; got power 0.04 at confidence 0.95. Raise one of them.",
        ),
        (
            {"reliability": 0.01, "y_proba": [0.2], "base_rate": 0.3},
            "at most one of y_proba, base_rate and pilot must be given; got y_proba and base_rate. Leave the others out.",
        ),
        (
            {"reliability": 0.01, "loss": "brier"},
            (
                "the brier loss must come with scores, because its rows vary with them; got neither y_proba, base_rate nor "
                "pilot. Pass y_proba, typical scores."
            ),
        ),
        (
            {"reliability": 0.5, "y_proba": [0.2, 0.6], "alternative": "slope"},
            (
                "reliability must be one that a slope of these scores can have, at most 0.1218; got 0.5. "
                "Pass a smaller one, or use the other alternative."
            ),
        ),
        (
            {"reliability": 0.01, "alternative": "bump"},
            "alternative must be one of shift, slope; got 'bump'. Choose one of these.",
        ),
        (
            {"pilot": "a file"},
            "pilot must be a Decomposition with a term 'reliability'; got str. Use Chain.decompose.",
        ),
    ],
)
def test_errors(arguments, text):
    with pytest.raises(InputError) as caught:
        required_sample_size(**arguments)
    assert str(caught.value) == text


def test_errors_of_pilots():
    first = pilot(40, 3).decompose("log")
    with pytest.raises(InputError) as caught:
        required_sample_size(pilot=first, loss="log")
    assert str(caught.value) == (
        "loss must be left out beside a pilot, which has one; got 'log'. Decompose the pilot by that loss."
    )
    y, s = [0, 1, 0, 1], np.array([0.2, 0.7, 0.4, 0.6])
    flat = Chain(y, [Level("S", s), Level("C", s)]).decompose("log")
    with pytest.raises(InputError) as caught:
        required_sample_size(pilot=flat)
    assert str(caught.value) == (
        "pilot must have a positive reliability with a finite standard error; got 0 ± 0. Take more rows, or pass y_proba."
    )


@pytest.mark.statistical
@pytest.mark.parametrize("alternative", ["shift", "slope"])
@pytest.mark.parametrize(("loss", "reliability"), [("log", 0.01), ("brier", 0.003)])
def test_the_stated_power_is_reached(loss, reliability, alternative):
    """The lower bound of a decomposition with the oracle C, at the n returned; 2000 data sets, three standard errors."""
    size = required_sample_size(reliability=reliability, loss=loss, y_proba=SCORES, alternative=alternative)
    c = recalibrated(size, loss, SCORES, alternative)[:, 1]
    rng = np.random.default_rng(7)
    seen = 0
    for _ in range(2000):
        rows = rng.integers(300, size=size.n)
        y = (rng.random(size.n) < c[rows]).astype(int)
        result = Chain(y, [Level("S", SCORES[rows]), Level("C", c[rows])]).decompose(loss)
        seen += result.lower_bound("reliability").value > 0.0
    assert seen / 2000 == pytest.approx(0.8, abs=0.027)
    assert size.n_test is not None


@pytest.mark.statistical
@pytest.mark.parametrize("alternative", ["shift", "slope"])
def test_the_most_powerful_test_needs_n_test_rows(alternative):
    """Neyman–Pearson: Σ log C_Y/S_Y against its 95 % quantile under Y ~ S."""
    size = required_sample_size(reliability=0.01, y_proba=SCORES, alternative=alternative)
    c = recalibrated(size, "log", SCORES, alternative)
    ratios = np.log(c / np.column_stack([1 - SCORES, SCORES]))
    rng = np.random.default_rng(8)

    def statistics(law):
        rows = rng.integers(300, size=(10_000, size.n_test))
        y = (rng.random(rows.shape) < law[rows, 1]).astype(int)
        return ratios[rows, y].sum(axis=1)

    critical = np.quantile(statistics(np.column_stack([1 - SCORES, SCORES])), 0.95)
    assert np.mean(statistics(c) > critical) == pytest.approx(0.8, abs=0.03)
