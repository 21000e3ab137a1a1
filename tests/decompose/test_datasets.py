"""Population values by quadrature against given digits, independent integration and simulation; German credit."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib import resources

import numpy as np
import pytest
from scipy.special import expit

from scoreprism.datasets import AppendixELaw, CopulaLaw, german_credit_population, load_german_credit
from scoreprism.exceptions import InputError
from scoreprism.losses import get_loss


def logit_x1(x):
    """The population logistic in X₁ of the scenarios."""
    return -1.5436 + 3.1505 * x


def reversed_middle(x):
    return np.where((x >= 0.3) & (x <= 0.7), 1 - x, x)


#: Scenarios of the statistical brief the project started from: score and (rel Brier, rel log, grp Brier, grp log) in units of 1e-4, to the digits printed.
SCENARIOS = {
    "a": (lambda x1, x2: expit(2 * logit_x1(x1)), (157.4, 599.4, 122.3, 279.9), "smooth"),
    "b": (lambda x1, x2: expit(1.25 * logit_x1(x1) + 0.1), (22.06, 58.63, 122.3, 279.9), "smooth"),
    "d": (lambda x1, x2: expit(1.25 * logit_x1(reversed_middle(x1))), (157.3, 335.9, 122.3, 279.9), "curve"),
    "e": (lambda x1, x2: np.round(expit(1.25 * logit_x1(x1) + 0.1), 1), (24.03, 72.48, 129.2, 297.0), "discrete"),
    "q2": (lambda x1, x2: expit(2 * CopulaLaw().logit(x1, x2)), (141.5, 673.9, 0.0, 0.0), "smooth"),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios(name):
    score, expected, method = SCENARIOS[name]
    law = CopulaLaw()
    brier, log = law.population(score, "brier"), law.population(score, "log")
    ours = [1e4 * v for v in (brier.reliability, log.reliability, brier.grouping, log.grouping)]
    assert ours == pytest.approx(expected, abs=0.06)
    assert brier.method == method
    assert 1e4 * brier.irreducible == pytest.approx(1963.5, abs=0.05)
    assert 1e4 * log.irreducible == pytest.approx(5773.6, abs=0.05)


def test_digits_of_the_issue():
    """S = σ(6x₁ − 3); each value to the digits given."""

    def score(x1, x2):
        return expit(6 * x1 - 3)

    for rho, loss, expected in [
        (0.0, "brier", (0.2222592, 0.0136747, 0.0122324, 0.1963521)),
        (0.0, "log", (0.6556156, 0.0502640, 0.0279947, 0.5773569)),
    ]:
        assert CopulaLaw(rho).population(score, loss)[:4] == pytest.approx(expected, abs=5.1e-8)
    for rho, expected in [(-0.7, (0.0256442, 0.0074682)), (0.7, (0.0048269, 0.0086421))]:
        assert CopulaLaw(rho).population(score, "brier")[1:3] == pytest.approx(expected, abs=5.1e-8)


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")  # asked for more digits than there are
@pytest.mark.parametrize(
    "rho", [0.0, pytest.param(-0.7, marks=pytest.mark.slow), pytest.param(0.7, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("b", [(3.0, 3.0), (6.0, 1.0), (-1.0, 0.2), (0.01, -4.0)])
def test_linear_scores_by_another_route(rho, b):
    """
    C = E[Q | b₁x₁ + b₂x₂] once more, by scipy: for each level t, ∫ Q c(x₁, (t − b₁x₁)/b₂) dx₁ over the admissible x₁.

    The outer integral over x₁, x₂ is replaced by an expectation over the level itself with quad; 1e-7 is the bar.
    """
    from scipy.integrate import quad

    law = CopulaLaw(rho)
    b1, b2 = b
    if abs(b2) < abs(b1):  # integrate along the flatter coordinate: solve for the steeper one
        steep, flat, swap = b1, b2, True
    else:
        steep, flat, swap = b2, b1, False

    def inner(t, with_q):
        def integrand(f):
            s = (t - flat * f) / steep
            u, v = (s, f) if swap else (f, s)
            u, v = np.array([u]), np.array([v])
            value = law._density(u, v)[0] / abs(steep)
            return value * expit(law.logit(u, v))[0] if with_q else value

        ends = sorted([(t - 0.0) / flat, (t - steep) / flat])
        low, high = max(0.0, ends[0]) + 1e-13, min(1.0, ends[1]) - 1e-13
        return quad(integrand, low, high, epsabs=1e-11, limit=200)[0] if low < high else 0.0

    corners = sorted({0.0, b1, b2, b1 + b2})

    def density_weighted(t):
        mass = inner(t, False)
        if mass <= 0:
            return 0.0
        c = min(max(inner(t, True) / mass, 0.0), 1.0)
        return mass * get_loss("brier").entropy(c)[0]

    refinement = sum(
        quad(density_weighted, a + 1e-12, z - 1e-12, epsabs=3e-9, limit=60)[0]
        for a, z in zip(corners[:-1], corners[1:], strict=True)
    )
    ours = law.population(lambda x1, x2: expit(0.3 + b1 * x1 + b2 * x2), "brier")
    assert ours.method == "smooth"
    assert ours.grouping == pytest.approx(refinement - law.irreducible("brier"), abs=1e-7)


@pytest.mark.parametrize("rho", [-0.7, pytest.param(0.0, marks=pytest.mark.slow)])
def test_average_of_scores_against_simulation(rho):
    """The paper's ensemble score, by 4·10⁶ draws and 2000 bins: within 5 standard errors plus the width of a bin."""

    def score(x1, x2):
        return 0.5 * (expit(logit_x1(x1)) + expit(0.4 + 1.5 * (x2 - 0.5)))

    law = CopulaLaw(rho)
    exact = law.population(score, "brier")
    assert exact.method == "smooth"
    x, _, q = law.sample(4_000_000, random_state=1)
    s = score(x[:, 0], x[:, 1])
    order = np.argsort(s)
    binned, scores = q[order].reshape(2000, -1), s[order].reshape(2000, -1)
    c = np.repeat(binned.mean(axis=1), 2000).reshape(2000, -1)
    reliability = (scores - c) ** 2
    grouping = (c - binned) ** 2 * 2000 / 1999
    for ours, rows in ((exact.reliability, reliability), (exact.grouping, grouping)):
        assert ours == pytest.approx(rows.mean(), abs=5 * rows.std() / 2000 + 2e-6)


def test_quantised_scores_exactly():
    """Scores with few values that depend on x₁ only: C of each cell by one-dimensional quadrature, to 1e-5."""
    from scipy.integrate import dblquad

    law = CopulaLaw()
    terms = law.population(lambda x1, x2: np.where(x1 < 0.3, 0.2, np.where(x1 < 0.9, 0.5, 0.8)), "brier")
    reliability = refinement = 0.0
    for low, high, s in ((0, 0.3, 0.2), (0.3, 0.9, 0.5), (0.9, 1, 0.8)):
        c = dblquad(lambda v, u: float(expit(law.logit(np.array(u), np.array(v)))), low, high, 0, 1)[0] / (high - low)
        reliability += (high - low) * (s - c) ** 2
        refinement += (high - low) * c * (1 - c)
    assert terms.reliability == pytest.approx(reliability, abs=1e-5)
    assert terms.grouping == pytest.approx(refinement - terms.irreducible, abs=1e-5)
    assert law.population(lambda x1, x2: 0.5, "brier").grouping == pytest.approx(
        0.25 - 0.4347e-4 - terms.irreducible, abs=1e-6
    )


def test_any_score_at_all():
    """Neither monotone, nor of one feature, nor with few values: the sampled route, against simulation."""
    law = CopulaLaw()
    terms = law.population(lambda x1, x2: np.abs(2 * ((x1 + x2) % 1.0) - 1), "brier")
    assert terms.method == "sampled"
    assert terms.reliability + terms.grouping + terms.irreducible == pytest.approx(terms.risk, abs=1e-12)
    x, _, q = law.sample(1_000_000, random_state=2)
    s = np.abs(2 * ((x[:, 0] + x[:, 1]) % 1.0) - 1)
    rows = (s - q) ** 2 + q * (1 - q)
    assert terms.risk == pytest.approx(rows.mean(), abs=5 * rows.std() / 1000 + 5e-5)


def test_scores_with_plateaus():
    """A clipped linear score of x₁: C on the plateaus by quadrature of E[Q | x₁] over them, to 1e-5."""
    from scipy.integrate import quad

    law = CopulaLaw()
    x, share = np.polynomial.legendre.leggauss(40)
    v = (x + 1) / 2

    def given(u):
        return float(share @ expit(law.logit(np.full(v.shape, u), v))) / 2

    def entropy(c):
        return c * (1 - c)

    terms = law.population(lambda x1, x2: np.clip(1.5 * x1 - 0.25, 0.05, 0.95), "brier")
    assert terms.method == "curve"
    low, high = quad(given, 0, 0.2)[0] / 0.2, quad(given, 0.8, 1)[0] / 0.2
    middle = quad(lambda u: entropy(given(u)), 0.2, 0.8)[0]
    refinement = 0.2 * entropy(low) + 0.2 * entropy(high) + middle
    assert terms.grouping == pytest.approx(refinement - law.irreducible("brier"), abs=1e-5)
    fine = law.population(lambda x1, x2: np.round(x1, 3), "brier")
    smooth = law.population(lambda x1, x2: x1, "brier")
    assert fine.method == "curve"
    assert fine.grouping == pytest.approx(smooth.grouping, abs=1e-5)


def test_a_score_that_never_stops_turning_does_not_hang():
    law = CopulaLaw()
    nodes = law.score_law(lambda x1, x2: 0.5 + 0.4 * np.sin(5000 * x1))
    assert nodes.method == "sampled"
    exact = law.population(lambda x1, x2: 0.5, "brier")  # such a score tells nothing: C is the base rate everywhere
    assert nodes.mass @ (nodes.calibrated * (1 - nodes.calibrated)) == pytest.approx(
        exact.grouping + exact.irreducible, abs=1e-4
    )


ODD_SCORES = {
    "sine": (lambda x1, x2: 0.5 + 0.4 * np.sin(20 * x1), "curve"),
    "parabola": (lambda x1, x2: 0.1 + 3 * x1 * (1 - x1), "curve"),
    "jump": (lambda x1, x2: 0.1 + 0.3 * (x1 > 0.4) + 0.5 * x2, "sampled"),
    "product": (lambda x1, x2: 0.05 + 0.9 * x1 * x2, "smooth"),
    "maximum": (lambda x1, x2: 0.05 + 0.9 * np.maximum(x1, x2), "sampled"),
    "steps": (lambda x1, x2: 0.2 + 0.3 * (x1 > 0.3) + 0.4 * (x2 > 0.6), "discrete"),
    "rounded": (lambda x1, x2: 0.005 + np.round(0.6 * x1 + 0.38 * x2, 2), "discrete"),
    "rounded product": (lambda x1, x2: 0.1 + np.round(0.8 * x1 * x2, 3), "sampled"),
}


@cache
def midpoints(rho):
    """The features x₁, x₂ and P(Y | x₁, x₂) at the midpoints of 1000² cells of equal probability."""
    side, law = (np.arange(1000) + 0.5) / 1000, CopulaLaw(rho)
    u, w = (v.ravel() for v in np.meshgrid(side, side, indexing="ij"))
    v = law._conditional(u, w)
    return u, v, expit(law.logit(u, v))


@pytest.mark.parametrize("name", ODD_SCORES)
@pytest.mark.parametrize(
    "rho", [0.95, pytest.param(0.0, marks=pytest.mark.slow), pytest.param(-0.7, marks=pytest.mark.slow)]
)
def test_odd_scores_keep_the_risk_and_the_mean(name, rho):
    """rel + grp + irr must be E L(S,Q), which needs no C, and E[C] must be E[Q]: both by the midpoint rule."""
    score, method = ODD_SCORES[name]
    law, (u, v, q) = CopulaLaw(rho), midpoints(rho)
    s = score(u, v)
    nodes = law.score_law(score)
    assert nodes.method == method
    assert nodes.mass.sum() == pytest.approx(1.0, abs=1e-12)
    assert nodes.mass @ nodes.calibrated == pytest.approx(q.mean(), abs=1e-5)
    for loss in (get_loss("brier"), get_loss("log")):
        rows = loss.divergence(nodes.score, nodes.calibrated) + loss.entropy(nodes.calibrated)
        assert nodes.mass @ rows == pytest.approx(loss.risk(s, q).mean(), abs=3e-5)


def test_nodes_are_sorted_and_scores_are_checked_everywhere():
    nodes = CopulaLaw().score_law(lambda x1, x2: 0.5 + 0.4 * np.sin(8 * x1))
    assert nodes.method == "curve"
    assert (np.diff(nodes.score) >= 0).all()
    with pytest.raises(InputError, match=r"score\(x1, x2\) must hold probabilities between 0 and 1"):
        CopulaLaw().score_law(lambda x1, x2: 0.5 + 1.5 * (x1 - x2))
    with pytest.raises(InputError, match=r"score\(x1, x2\) must be finite"):
        CopulaLaw().score_law(lambda x1, x2: np.where(x1 > 0.9, np.nan, x1))


def test_samples_follow_the_law():
    """Uniform margins, the rank correlation 6/π·asin(ρ/2) of a Gaussian copula, and E[Y] = E[Q]; 5 standard errors."""
    law = CopulaLaw(rho=0.7)
    x, y, q = law.sample(100_000, random_state=0)
    assert x.mean(axis=0) == pytest.approx([0.5, 0.5], abs=5 * np.sqrt(1 / 12e5))
    spearman = np.corrcoef(x.T)[0, 1]
    assert spearman == pytest.approx(6 / np.pi * np.arcsin(0.35), abs=0.01)
    assert (y - q).mean() == pytest.approx(0.0, abs=5 * 0.5 / np.sqrt(1e5))
    np.testing.assert_array_equal(q, law.q(x))
    again = law.sample(100_000, random_state=0)
    np.testing.assert_array_equal(again.y, y)
    assert set(np.unique(y)) == {0, 1}


def test_appendix_e():
    """η(x₁,x₂) = x₁ + x₂ + exp((x₁−x₂)³) − 1; at (1, 0): 1 + e − 1 = e."""
    law = AppendixELaw()
    assert law.q([[1.0, 0.0]])[0] == pytest.approx(1 / (1 + np.exp(-np.e)))
    scores = law.q(law.sample(2000, random_state=0).X)
    assert 0.5 < scores.min() < scores.max() < 0.95
    assert repr(law) == "AppendixELaw()"


def test_bad_laws_are_refused():
    with pytest.raises(InputError, match="rho must be a correlation between −1 and 1; got 1"):
        CopulaLaw(rho=1.0)
    with pytest.raises(InputError, match=r"X must have shape \(n, 2\); got shape \(2,\)"):
        CopulaLaw().q([0.1, 0.2])
    with pytest.raises(InputError, match="n must be a whole number of at least 1; got 2.5"):
        CopulaLaw().sample(2.5)
    with pytest.raises(InputError, match=r"score\(x1, x2\) must hold probabilities between 0 and 1"):
        CopulaLaw().population(lambda x1, x2: 6 * x1 - 3)
    with pytest.raises(InputError, match=r"score must be a function of \(x1, x2\); got float"):
        CopulaLaw().population(0.5)


# ── German credit ───────────────────────────────────────────────────────────────────────────────────────


def test_german_credit_is_the_uci_file():
    """Hash of the UCI file, and the counts published with it."""
    packed = resources.files("scoreprism.datasets").joinpath("german_credit.data.gz").read_bytes()
    digest = hashlib.sha256(gzip.decompress(packed)).hexdigest()
    assert digest == "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871"
    data = load_german_credit()
    assert data.X.shape == (1000, 20)
    assert (data.y == 0).sum() == 700
    counts = {
        name: data.X[name].value_counts().sort(name)["count"].to_list()
        for name in ("checking_status", "foreign_worker", "personal_status_sex")
    }
    assert counts["checking_status"] == [274, 269, 63, 394]
    assert counts["personal_status_sex"] == [50, 310, 548, 92]
    assert counts["foreign_worker"] == [963, 37]
    assert [int(data.X[name].sum()) for name in ("duration_months", "credit_amount", "age_years")] == [
        20903,
        3271258,
        35546,
    ]
    assert "Hofmann" in data.attribution
    assert "CC BY 4.0" in data.attribution


def test_german_credit_in_other_libraries():
    import pandas as pd

    assert isinstance(load_german_credit("pandas").X, pd.DataFrame)


def test_exact_example():
    """The demo's numbers once more, with plain pandas groupbys instead of FiniteModel."""
    import pandas as pd

    data = load_german_credit("pandas")
    frame = pd.DataFrame(data.X).assign(y=data.y)
    score = frame["checking_status"].map({"A11": 0.6, "A12": 0.4, "A13": 0.4, "A14": 0.05})
    c = frame.groupby(score)["y"].transform("mean")
    q = frame.groupby(["checking_status", "credit_history", "savings"])["y"].transform("mean")
    terms = german_credit_population().decompose("brier").terms
    expected = [((score - c) ** 2).mean(), ((c - q) ** 2).mean(), (q * (1 - q)).mean()]
    assert list(terms.values()) == pytest.approx(expected, abs=1e-13)
    with np.errstate(divide="ignore"):
        log = german_credit_population().decompose("log").risk
    assert log == pytest.approx(-np.where(frame["y"] == 1, np.log(score), np.log(1 - score)).mean(), abs=1e-13)
