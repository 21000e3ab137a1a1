"""Scores of the synthetic experiment: logistic models, their average, roundings; and what they are fitted with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from scoreprism._core.numerics import sigmoid
from scoreprism._core.simplex import FloatArray
from scoreprism.datasets import CopulaLaw

Score: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
#: Names of the scores in sentences, tables and figures.
NAMES = {
    "x1": "x₁",
    "x2": "x₂",
    "average": "average",
    "x12": "x₁₂",
    "x1-rounded": "x₁ rounded",
    "x12-rounded": "x₁₂ rounded",
}
#: Features of each logistic model.
FEATURES = {"x1": (0,), "x2": (1,), "x12": (0, 1)}
#: Values of a rounded score.
VALUES = 5
#: First number of all seeds of this experiment, so that no other shares its draws.
SEED = 61


@dataclass(frozen=True)
class Logistic:
    """σ(a + b₁x₁ + b₂x₂)."""

    intercept: float
    slopes: tuple[float, float]

    def __call__(self, x1: FloatArray, x2: FloatArray) -> FloatArray:
        return sigmoid(self.intercept + self.slopes[0] * x1 + self.slopes[1] * x2)


@dataclass(frozen=True)
class Average:
    """The mean of two scores."""

    first: Score
    second: Score

    def __call__(self, x1: FloatArray, x2: FloatArray) -> FloatArray:
        return 0.5 * (self.first(x1, x2) + self.second(x1, x2))


@dataclass(frozen=True)
class Rounded:
    """A score that says only in which of five intervals of equal length it lies: 0.1, 0.3, …, 0.9."""

    score: Score

    def __call__(self, x1: FloatArray, x2: FloatArray) -> FloatArray:
        return rounded(self.score(x1, x2))


def rounded(score: FloatArray) -> FloatArray:
    """
    The middle of that of five intervals of equal length in which a score lies.

    Parameters
    ----------
    score : array
        Between 0 and 1.

    Returns
    -------
    array
        0.1, 0.3, 0.5, 0.7 or 0.9.

    Examples
    --------
    >>> rounded(np.array([0.0, 0.55, 1.0])).tolist()
    [0.1, 0.5, 0.9]
    """
    cell: FloatArray = np.minimum(np.floor(score * VALUES), VALUES - 1)
    return (2.0 * cell + 1.0) / (2 * VALUES)


def fitted(X: FloatArray, y: Any, features: tuple[int, ...], weight: FloatArray | None = None) -> Logistic:
    """
    An unpenalised logistic regression on some of the features.

    Parameters
    ----------
    X : array of shape (n, 2)
        Features.
    y : array of shape (n,)
        Outcomes.
    features : tuple of int
        Columns that it uses.
    weight : array of shape (n,), optional
        Of rows.

    Returns
    -------
    Logistic
        The fit.
    """
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10)
    model.fit(X[:, list(features)], y, weight)
    slopes = dict(zip(features, model.coef_[0].tolist(), strict=True))
    return Logistic(float(model.intercept_[0]), (slopes.get(0, 0.0), slopes.get(1, 0.0)))


def population_logistic(law: CopulaLaw, features: tuple[int, ...]) -> Logistic:
    """
    The logistic model that a fit on endlessly many rows gives.

    Solves E[(Q − σ(a + b·x))(1, x)] = 0 on a grid: each node is a row with outcome 1 and weight Q, and one with
    outcome 0 and weight 1 − Q.

    Parameters
    ----------
    law : CopulaLaw
        The population.
    features : tuple of int
        Features that the model uses.

    Returns
    -------
    Logistic
        The projection in Kullback–Leibler divergence.

    Examples
    --------
    >>> model = population_logistic(CopulaLaw(0.0), (0,))
    >>> round(model.intercept, 5), round(model.slopes[0], 5), model.slopes[1]
    (-1.54365, 3.15052, 0.0)
    """
    u, v, mass = law._grid(161)
    q = sigmoid(law.logit(u, v))
    X = np.stack([u, v], axis=1)
    y = np.repeat([1, 0], mass.size)
    return fitted(np.concatenate([X, X]), y, features, np.concatenate([mass * q, mass * (1.0 - q)]))


def scores_of(models: dict[str, Logistic]) -> dict[str, Score]:
    """
    All scores of the experiment.

    Parameters
    ----------
    models : dict of str to Logistic
        Those of `FEATURES`.

    Returns
    -------
    dict of str to callable
        By the keys of `NAMES`.
    """
    return {
        **models,
        "average": Average(models["x1"], models["x2"]),
        "x1-rounded": Rounded(models["x1"]),
        "x12-rounded": Rounded(models["x12"]),
    }


def population_scores(law: CopulaLaw) -> dict[str, Score]:
    """
    All scores of the experiment, fitted on the population itself.

    Parameters
    ----------
    law : CopulaLaw
        The population.

    Returns
    -------
    dict of str to callable
        By the keys of `NAMES`.
    """
    return scores_of({key: population_logistic(law, features) for key, features in FEATURES.items()})


def isotonic(score: FloatArray, y: Any) -> Any:
    """
    The textbook isotonic regression, joined by straight lines as scikit-learn does.

    Parameters
    ----------
    score : array of shape (n,)
        Scores.
    y : array of shape (n,)
        Outcomes.

    Returns
    -------
    IsotonicCalibrator
        Fitted.
    """
    from scoreprism.paper._members import MAPS

    return MAPS["isotonic"]().fit(score, y)


def generator(rho: float, run: int, purpose: int = 0) -> np.random.Generator:
    """
    Random numbers of one run.

    Parameters
    ----------
    rho : float
        Correlation.
    run : int
        Number of the run.
    purpose : int, default=0
        Different for experiments that must not share their draws.

    Returns
    -------
    Generator
        The same on every machine.
    """
    return np.random.default_rng([SEED, round(1000 * (rho + 1.0)), run, purpose])
