"""The laws of the simulations: how to draw from each, and its exact terms by quadrature.

Scenarios a to e and q2 are those of the bars: two uniform features, `CopulaLaw(rho=0)`, and a score. The others are what
the bars do not reach: rare events, scores near 0 and 1, ten features, clusters, three classes, weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtr, softmax

from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism.datasets import CopulaLaw
from scoreprism.losses import get_loss

LOSSES = ("brier", "log")


class Draw(NamedTuple):
    """A sample: features, outcomes, scores, true law, and weights and clusters where there are any."""

    X: FloatArray
    y: IntArray
    s: FloatArray
    q: FloatArray
    weight: FloatArray | None = None
    groups: IntArray | None = None


class Terms(NamedTuple):
    """Population values."""

    reliability: float
    grouping: float
    irreducible: float


@dataclass(frozen=True)
class Scenario:
    """A law to draw from, with its exact terms."""

    name: str
    story: str
    sample: Callable[[int, np.random.Generator], Draw]
    exact: Callable[[str], Terms]

    def truth(self, loss: str) -> Terms:
        return _cached(self.name, loss)


@cache
def _cached(name: str, loss: str) -> Terms:
    return SCENARIOS[name].exact(loss)


# ── quadrature ──────────────────────────────────────────────────────────────────────────────────────────


def gauss(points: int) -> tuple[FloatArray, FloatArray]:
    """Gauss–Legendre on (0, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return (nodes + 1) / 2, weights / 2


def grid(*points: int) -> tuple[list[FloatArray], FloatArray]:
    """The product rule on the unit cube: coordinates and mass, each of shape `points`."""
    rules = [gauss(p) for p in points]
    coordinates = np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij")
    mass = np.ones(points)
    for axis, (_, weights) in enumerate(rules):
        mass *= weights.reshape([-1 if a == axis else 1 for a in range(len(points))])
    return list(coordinates), mass


def conditional_terms(s: FloatArray, q: FloatArray, mass: FloatArray, loss: str) -> Terms:
    """
    Exact terms where nodes have the shape (m, r): m values of the score, which are all different, r points within each.

    s has the shape (m,) or (m, K), q (m, r) or (m, r, K), mass (m, r).
    """
    chosen = get_loss(loss)
    mass = mass / mass.sum()
    row = mass.sum(axis=1)
    share = (mass / row[:, None]).reshape(mass.shape + (1,) * (q.ndim - 2))
    c = (share * q).sum(axis=1)
    refinement = float(row @ chosen.entropy(c))
    irreducible = float(mass.ravel() @ chosen.entropy(q.reshape(-1, *q.shape[2:])))
    return Terms(float(row @ chosen.divergence(s, c)), refinement - irreducible, irreducible)


# ── the scenarios of the bars ───────────────────────────────────────────────────────────────────────────

LAW = CopulaLaw(rho=0.0)


def line(x: FloatArray) -> FloatArray:
    """The population logistic regression on X₁."""
    return -1.5436 + 3.1505 * x


@cache
def mean_q() -> Callable[[FloatArray], FloatArray]:
    """E[Q | X₁], an interpolant of its logit to 1e-12 (checked in the tests of this package by its reliability of 0)."""
    nodes = np.cos(np.pi * (np.arange(40) + 0.5) / 40) / 2 + 0.5
    v, share = gauss(60)
    values = logit(expit(LAW.logit(nodes[:, None], v[None, :])) @ share)
    return np.polynomial.Chebyshev.fit(nodes, values, 39, domain=[0.0, 1.0])


def _reversed(x: FloatArray) -> FloatArray:
    return np.where((x >= 0.3) & (x <= 0.7), 1 - x, x)


SCORES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "a": lambda u, v: expit(2 * line(u) + 0 * v),
    "b": lambda u, v: expit(1.25 * line(u) + 0.1 + 0 * v),
    "c": lambda u, v: expit(mean_q()(u) + 0 * v),
    "d": lambda u, v: expit(1.25 * line(_reversed(u)) + 0 * v),
    "e": lambda u, v: np.round(expit(1.25 * line(u) + 0.1 + 0 * v), 1),
    "q2": lambda u, v: expit(2 * LAW.logit(u, v)),
}
STORIES = {
    "a": "overconfident: σ(2·logit)",
    "b": "a little off: σ(1.25·logit + 0.1)",
    "c": "calibrated: E[Q | X₁]",
    "d": "not monotone",
    "e": "b rounded to 0.1",
    "q2": "σ(2·logit Q), no grouping",
}
#: Reliability and grouping in 1e-4, as specified: Brier, log, Brier, log. The irreducible term is below.
SPECIFIED = {
    "a": (157.4, 599.4, 122.3, 279.9),
    "b": (22.06, 58.63, 122.3, 279.9),
    "c": (0.0, 0.0, 122.3, 279.9),
    "d": (157.3, 335.9, 122.3, 279.9),
    "e": (24.03, 72.48, 129.2, 297.0),
    "q2": (141.5, 673.9, 0.0, 0.0),
}
SPECIFIED_IRREDUCIBLE = {"brier": 1963.5, "log": 5773.6}


def _square(name: str) -> Scenario:
    score = SCORES[name]

    def sample(n: int, rng: np.random.Generator) -> Draw:
        X, y, q = LAW.sample(n, rng)
        return Draw(X, y, score(X[:, 0], X[:, 1]), q)

    def exact(loss: str) -> Terms:
        found = LAW.population(score, loss)
        return Terms(found.reliability, found.grouping, found.irreducible)

    return Scenario(name, STORIES[name], sample, exact)


def check_truths() -> None:
    """Stop where the quadrature does not give the values the bars were written for."""
    for name, (rel_brier, rel_log, grp_brier, grp_log) in SPECIFIED.items():
        for loss, rel, grp in (("brier", rel_brier, grp_brier), ("log", rel_log, grp_log)):
            found = [1e4 * value for value in SCENARIOS[name].truth(loss)]
            wanted = [rel, grp, SPECIFIED_IRREDUCIBLE[loss]]
            if not np.allclose(found, wanted, rtol=0, atol=0.06):
                raise AssertionError(f"scenario {name}, {loss}: terms {found} are not those specified, {wanted}")


# ── what the bars do not reach ──────────────────────────────────────────────────────────────────────────


def _labels(q: FloatArray, rng: np.random.Generator) -> IntArray:
    if q.ndim == 1:
        return (rng.random(q.shape[0]) < q).astype(np.intp)
    passed: IntArray = (rng.random((q.shape[0], 1)) > q.cumsum(axis=1)[:, :-1]).sum(axis=1)
    return passed


def _by_first(
    name: str,
    story: str,
    features: int,
    relevant: int,
    log_odds: Callable[..., FloatArray],
    score: Callable[[FloatArray], FloatArray],
    weight: Callable[..., FloatArray] | None = None,
) -> Scenario:
    """Independent uniform features; a score that rises with the first, so that C = E[Q | X₁]; weights of the features."""

    def sample(n: int, rng: np.random.Generator) -> Draw:
        X = rng.random((n, features))
        columns = list(X.T[:relevant])
        q = expit(log_odds(*columns))
        return Draw(X, _labels(q, rng), score(X[:, 0]), q, None if weight is None else weight(*columns))

    def exact(loss: str) -> Terms:
        x, mass = grid(120, *[40 if relevant <= 2 else 16] * (relevant - 1))
        if weight is not None:
            mass = mass * weight(*x)
        q = expit(log_odds(*x)).reshape(120, -1)
        return conditional_terms(score(gauss(120)[0]), q, mass.reshape(120, -1), loss)

    return Scenario(name, story, sample, exact)


#: Spread of the random effect of a cluster, and nodes to integrate it out.
CLUSTER_SD, CLUSTER_SIZE = 1.0, 10
_HERMITE = np.polynomial.hermite_e.hermegauss(40)


def _marginal(x1: FloatArray, x2: FloatArray) -> FloatArray:
    """E σ(η + u) over the effect u of the cluster."""
    nodes, weights = _HERMITE
    eta = LAW.logit(x1, x2)
    found: FloatArray = expit(eta[..., None] + CLUSTER_SD * nodes) @ (weights / weights.sum())
    return found


def _clusters() -> Scenario:
    """Rows of a cluster share an effect on the outcome and half of the variance of (the normal score of) X₁."""
    score = SCORES["b"]

    def sample(n: int, rng: np.random.Generator) -> Draw:
        groups = np.arange(n) // CLUSTER_SIZE
        count = int(groups[-1]) + 1
        shared, own, other = rng.standard_normal(count)[groups], rng.standard_normal(n), rng.standard_normal(n)
        X = ndtr(np.stack([np.sqrt(0.5) * (shared + own), other], axis=1))
        effect = CLUSTER_SD * rng.standard_normal(count)[groups]
        y = _labels(expit(LAW.logit(X[:, 0], X[:, 1]) + effect), rng)
        return Draw(X, y, score(X[:, 0], X[:, 1]), _marginal(X[:, 0], X[:, 1]), None, groups)

    def exact(loss: str) -> Terms:
        (x1, x2), mass = grid(120, 60)
        return conditional_terms(score(x1[:, 0], 0.0 * x1[:, 0]), _marginal(x1, x2), mass, loss)

    story = f"clusters of {CLUSTER_SIZE}: a shared effect N(0, {CLUSTER_SD:g}²) and a shared half of X₁; score of b"
    return Scenario("clusters", story, sample, exact)


def _three_logits(x1: FloatArray, x2: FloatArray, x3: FloatArray) -> FloatArray:
    return np.stack([np.zeros_like(x1), 3 * (x1 - 0.5) + 1.5 * (x3 - 0.5), 2.5 * (x2 - 0.4) - 2 * (x3 - 0.5)], axis=-1)


def _three_score(x1: FloatArray, x2: FloatArray) -> FloatArray:
    z = _three_logits(x1, x2, np.full_like(x1, 0.5))
    law: FloatArray = softmax(1.4 * z + np.array([0.0, 0.15, 0.0]), axis=-1)
    return law


def _three() -> Scenario:
    """A score that tells (X₁, X₂), so that C = E[Q | X₁, X₂], and a third feature that it misses."""

    def sample(n: int, rng: np.random.Generator) -> Draw:
        X = rng.random((n, 3))
        q = softmax(_three_logits(*X.T), axis=-1)
        return Draw(X, _labels(q, rng), _three_score(X[:, 0], X[:, 1]), q)

    def exact(loss: str) -> Terms:
        (x1, x2, x3), mass = grid(40, 40, 40)
        q = softmax(_three_logits(x1, x2, x3), axis=-1).reshape(1600, 40, 3)
        s = _three_score(x1[:, :, 0].ravel(), x2[:, :, 0].ravel())
        return conditional_terms(s, q, mass.reshape(1600, 40), loss)

    return Scenario(
        "three classes", "softmax in 3 features, the score sees 2: logits × 1.4 + (0, .15, 0)", sample, exact
    )


def _three_null() -> Scenario:
    """Scores from a Dirichlet law and Y ~ Cat(S): calibrated, whatever the loss."""

    def sample(n: int, rng: np.random.Generator) -> Draw:
        s = np.maximum(rng.dirichlet([1.0, 1.5, 2.0], n), 1e-9)
        s /= s.sum(axis=1, keepdims=True)
        return Draw(s, _labels(s, rng), s, s)

    return Scenario(
        "3-class null", "S ~ Dirichlet(1, 1.5, 2), Y ~ Cat(S)", sample, lambda _: Terms(0.0, 0.0, float("nan"))
    )


def _rare(x1: FloatArray, x2: FloatArray) -> FloatArray:
    return -6.95 + 2.5 * x1 + 1.5 * x2


def _edge(x1: FloatArray, x2: FloatArray) -> FloatArray:
    return 12 * (x1 - 0.5) + 4 * (x2 - 0.5)


def _wide(x1: FloatArray, x2: FloatArray, x3: FloatArray, x4: FloatArray) -> FloatArray:
    return LAW.logit(x1, x2) + 1.5 * (x3 - 0.5) + 2.0 * np.sin(2 * np.pi * x4) * (x3 - 0.5)


def _tilt(x1: FloatArray, x2: FloatArray) -> FloatArray:
    return np.exp(1.5 * (x1 - 0.5) + 1.5 * (x2 - 0.5))


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        *(_square(name) for name in SCORES),
        _by_first("rare", "base rate 1 %: logit −6.95 + 2.5x₁ + 1.5x₂; S = σ(−5.73 + 3.25x₁), twice too high", 2, 2, _rare,
                  lambda u: expit(-5.73 + 3.25 * u)),
        _by_first("edge", "logit 12(x₁−½) + 4(x₂−½); S = σ(16(x₁−½)), from 3e-4 to 1 − 3e-4", 2, 2, _edge,
                  lambda u: expit(16 * (u - 0.5))),
        _by_first("ten features", "four that matter, one of them by interaction, six that do not; score of b", 10, 4, _wide,
                  lambda u: expit(1.25 * line(u) + 0.1)),
        _clusters(),
        _three(),
        _by_first("weights", "the law of b drawn unweighted, judged under weights exp(1.5(x₁−½) + 1.5(x₂−½))", 2, 2,
                  LAW.logit, lambda u: expit(1.25 * line(u) + 0.1), _tilt),
        _three_null(),
    )
}  # fmt: skip
