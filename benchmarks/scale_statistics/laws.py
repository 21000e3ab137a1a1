"""The laws of the simulations of scale: those of `benchmarks.statistics`, rounded scores, other mixes, rare events, ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.special import expit, logit

from benchmarks.statistics.scenarios import (
    LAW,
    SCENARIOS,
    SCORES,
    Draw,
    Scenario,
    Terms,
    _labels,
    conditional_terms,
    gauss,
    grid,
)
from scoreprism._core.simplex import FloatArray

Sample = Callable[[int, np.random.Generator], Draw]


def _mixed(name: str, of: str) -> Scenario:
    """A law of the bars where large X₁ have become frequent (density 2x): other scores, the same P(Y | S)."""
    score = SCORES[of]

    def sample(n: int, rng: np.random.Generator) -> Draw:
        X = rng.random((n, 2))
        X[:, 0] **= 0.5
        q = expit(LAW.logit(X[:, 0], X[:, 1]))
        return Draw(X, _labels(q, rng), score(X[:, 0], X[:, 1]), q)

    def exact(loss: str) -> Terms:
        (x1, x2), mass = grid(120, 60)
        return conditional_terms(score(gauss(120)[0], 0.0), expit(LAW.logit(x1, x2)), mass * 2.0 * x1, loss)

    return Scenario(name, f"{of} with X₁ of density 2x", sample, exact)


def _rounded(name: str, step: float) -> Scenario:
    """Law b with rounded scores, kept off 0 and 1."""

    def score(u: FloatArray, v: FloatArray) -> FloatArray:
        s: FloatArray = np.clip(np.round(SCORES["b"](u, v) / step) * step, step, 1.0 - step)
        return s

    def sample(n: int, rng: np.random.Generator) -> Draw:
        X, y, q = LAW.sample(n, rng)
        return Draw(X, y, score(X[:, 0], X[:, 1]), q)

    def exact(loss: str) -> Terms:
        found = LAW.population(score, loss)
        return Terms(found.reliability, found.grouping, found.irreducible)

    return Scenario(name, f"b rounded to {step:g}", sample, exact)


def _direct(name: str, story: str, calibrated: Callable[[int, np.random.Generator], FloatArray]) -> Scenario:
    """A score whose log-odds are 1.2 times too large, and shifted: the law C is drawn itself."""

    def sample(n: int, rng: np.random.Generator) -> Draw:
        c = calibrated(n, rng)
        return Draw(np.empty((n, 0)), _labels(c, rng), expit(1.2 * logit(c) + 0.1), c)

    return Scenario(name, story, sample, lambda _: Terms(np.nan, np.nan, np.nan))


def _rare(rate: float) -> Scenario:
    """Log-normal risks of mean `rate`, nearly."""
    center = np.log(rate) - 0.5

    def calibrated(n: int, rng: np.random.Generator) -> FloatArray:
        law: FloatArray = expit(center + rng.standard_normal(n))
        return law

    return _direct(f"rare {rate:g}", f"events of rate {rate:g}, log-odds N(log {rate:g} − ½, 1)", calibrated)


def _bold(n: int, rng: np.random.Generator) -> FloatArray:
    law: FloatArray = expit(4.0 * rng.standard_normal(n))
    return law


def _ends(n: int, rng: np.random.Generator) -> FloatArray:
    return np.clip(rng.beta(0.3, 0.3, n), 1e-9, 1.0 - 1e-9)


LAWS: dict[str, Scenario] = {
    **{name: SCENARIOS[name] for name in ("a", "b", "c", "d", "e", "weights")},
    **{
        law.name: law
        for law in (
            _mixed("b, other mix", "b"),
            _mixed("c, other mix", "c"),
            _rounded("b to 0.01", 0.01),
            _rounded("b to 0.0001", 0.0001),
            _rare(1e-2),
            _rare(1e-3),
            _rare(1e-4),
            _direct("bold", "log-odds N(0, 4²), scores 1.2 times as far out", _bold),
            _direct("ends", "C ~ Beta(0.3, 0.3), from 1e-9", _ends),
        )
    },
}


@cache
def truth(law: str, loss: str) -> Terms:
    """Population values."""
    return LAWS[law].exact(loss)
