"""The synthetic laws of the paper (appendices D and E), with their exact conditional probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scoreprism._core.checks import parse_count, parse_law, parse_number, parse_numbers, parse_random_state, refuse
from scoreprism._core.numerics import cube, sigmoid
from scoreprism._core.resampling import draw_events
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray
from scoreprism.datasets._level_sets import Plane, ScoreLaw, score_law
from scoreprism.losses import ProperLoss, get_loss

Score = Callable[[FloatArray, FloatArray], FloatArray]


class Draw(NamedTuple):
    """
    Draws from a law: features, outcomes and the true probability of each.

    Attributes
    ----------
    X : array of shape (n, 2)
        Features.
    y : integer array of shape (n,)
        Outcomes.
    q : array of shape (n,)
        P(Y=1 | X).

    Examples
    --------
    >>> from scoreprism.datasets import CopulaLaw
    >>> CopulaLaw().sample(3, random_state=0).X.shape
    (3, 2)
    """

    X: FloatArray
    y: IntArray
    q: FloatArray


class PopulationTerms(NamedTuple):
    """
    Population values of a decomposition, by quadrature.

    Attributes
    ----------
    risk : float
        Expected loss of the score.
    reliability, grouping, irreducible : float
        Its three terms.
    method : str
        Which quadrature: smooth, discrete, curve or sampled.

    Examples
    --------
    >>> terms = PopulationTerms(0.2223, 0.0137, 0.0122, 0.1964, "smooth")
    >>> round(terms.reliability + terms.grouping + terms.irreducible, 4) == terms.risk
    True
    """

    risk: float
    reliability: float
    grouping: float
    irreducible: float
    method: str


class SquareLaw(ABC):
    """
    A law of (X₁, X₂, Y): uniform marginals with a Gaussian copula, and a known P(Y=1 | X₁, X₂) = σ(logit).

    Parameters
    ----------
    rho : float, default=0.0
        Correlation of the underlying normal variables, between −1 and 1.

    Examples
    --------
    >>> from scoreprism.datasets import CopulaLaw
    >>> isinstance(CopulaLaw(rho=0.7), SquareLaw)
    True
    """

    def __init__(self, rho: float = 0.0) -> None:
        self.rho = parse_number(rho, "rho", "a correlation between −1 and 1", lambda v: -1.0 < v < 1.0)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rho={self.rho:g})"

    @abstractmethod
    def logit(self, x1: FloatArray, x2: FloatArray) -> FloatArray:
        """
        Log-odds of Y = 1.

        Parameters
        ----------
        x1, x2 : array
            Features between 0 and 1.

        Returns
        -------
        array
            Log-odds.
        """

    def q(self, X: ArrayLike) -> FloatArray:
        """
        True probability of Y = 1 given the features.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Features.

        Returns
        -------
        array of shape (n,)
            Q = P(Y=1 | X).
        """
        features = parse_numbers(X, "X")
        if features.ndim != 2 or features.shape[1] != 2:
            refuse("`X` must have shape (n, 2)", f"shape {features.shape}", "Pass the columns x1 and x2.")
        return sigmoid(self.logit(features[:, 0], features[:, 1]))

    def sample(self, n: int, random_state: int | np.random.Generator | None = 0) -> Draw:
        """
        Draw independent rows.

        Parameters
        ----------
        n : int
            Number of rows.
        random_state : int, Generator or None, default=0
            Seed or generator.

        Returns
        -------
        Draw
            ``X`` of shape (n, 2), ``y`` in {0, 1} and ``q``, the true probability of each row.
        """
        from scipy.special import ndtr

        size = parse_count(n, "n", 1)
        rng = parse_random_state(random_state)
        z1, noise = rng.standard_normal((2, size))
        z2 = self.rho * z1 + np.sqrt(1.0 - self.rho**2) * noise
        X = np.stack([ndtr(z1), ndtr(z2)], axis=1)
        q = self.q(X)
        return Draw(X, draw_events(rng, q).astype(np.intp), q)

    def irreducible(self, loss: str | ProperLoss = "log") -> float:
        """
        Expected entropy of the true law, E ℰ(Q): E[Q(1−Q)] for Brier, E[H(Q)] for log.

        Parameters
        ----------
        loss : str or ProperLoss, default="log"
            The loss.

        Returns
        -------
        float
            By quadrature, to about 1e-12 for smooth losses.
        """
        u, v, mass = self._make_grid()
        return float(mass @ get_loss(loss).entropy(sigmoid(self.logit(u, v))))

    def score_law(self, score: Score) -> ScoreLaw:
        """
        The joint law of a score S and of its calibrated version C = E[Q | S].

        Parameters
        ----------
        score : callable
            Any function ``score(x1, x2)`` of two arrays with values between 0 and 1.

        Returns
        -------
        ScoreLaw
            Nodes in increasing order of ``score``: ``calibrated``, ``mass``, and the ``method`` of quadrature.
        """
        if not callable(score):
            refuse("`score` must be a function of (x1, x2)", type(score).__name__, "For example lambda x1, x2: x1.")

        def check(x1: FloatArray, x2: FloatArray) -> FloatArray:
            values = np.asarray(score(x1, x2), dtype=np.float64)
            if values.size:
                parse_law(values.reshape(-1), "score(x1, x2)")
            return np.broadcast_to(values, np.broadcast_shapes(x1.shape, x2.shape))

        return score_law(check, Plane(lambda u, v: sigmoid(self.logit(u, v)), self._density, self._conditional))

    def population(self, score: Score, loss: str | ProperLoss = "log") -> PopulationTerms:
        """
        Population reliability, grouping and irreducible terms of a score.

        Parameters
        ----------
        score : callable
            Any function ``score(x1, x2)`` of two arrays with values between 0 and 1.
        loss : str or ProperLoss, default="log"
            The loss.

        Returns
        -------
        PopulationTerms
            To 1e-7 for scores that are smooth and strictly monotone in x1 or in x2, such as
            σ(a + b₁x₁ + b₂x₂) and averages of these; to 1e-5 for scores with at most about a hundred values and for
            functions of one feature with a few turning points; to about 3e-5 for most others. ``method`` tells which.
        """
        chosen = get_loss(loss)
        law = self.score_law(score)
        reliability = float(law.mass @ chosen.divergence(law.score, law.calibrated))
        refinement = float(law.mass @ chosen.entropy(law.calibrated))
        irreducible = self.irreducible(chosen)
        return PopulationTerms(reliability + refinement, reliability, refinement - irreducible, irreducible, law.method)

    # ── the copula ──────────────────────────────────────────────────────────────────────────────────

    def _conditional(self, u: FloatArray, w: FloatArray) -> FloatArray:
        """X₂ as a function of X₁ = u and an independent uniform w."""
        if self.rho == 0.0:
            return w
        from scipy.special import ndtr, ndtri

        values: FloatArray = ndtr(self.rho * ndtri(u) + np.sqrt(1.0 - self.rho**2) * ndtri(w))
        return values

    def _density(self, u: FloatArray, v: FloatArray) -> FloatArray:
        """Density of the Gaussian copula."""
        if self.rho == 0.0:
            return np.ones(np.broadcast_shapes(u.shape, v.shape))
        from scipy.special import ndtri

        a, b, r = ndtri(u), ndtri(v), self.rho
        exponent = (2.0 * r * a * b - r * r * (a * a + b * b)) / (2.0 * (1.0 - r * r))
        density: FloatArray = np.exp(exponent) / np.sqrt(1.0 - r * r)
        return density

    def _make_grid(self, points: int = 321) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The trapezoidal rule in normal coordinates, which converges geometrically: x₁, x₂, probabilities."""
        from scipy.special import ndtr

        z = np.linspace(-8.5, 8.5, points)  # beyond 8.5 standard deviations the normal law has a mass of 2e-17
        share = np.exp(-0.5 * z * z)
        share /= share.sum()
        z1, noise = (a.ravel() for a in np.meshgrid(z, z, indexing="ij"))
        z2 = self.rho * z1 + np.sqrt(1.0 - self.rho**2) * noise
        return ndtr(z1), ndtr(z2), np.outer(share, share).ravel()


class CopulaLaw(SquareLaw):
    r"""
    The law of the paper's experiments (appendix D).

    :math:`\eta(x) = 2.5(x_1 + x_2 - 1) + 2(\exp((x_1-x_2)^3) - 1)`, :math:`Q = \sigma(\eta)`, uniform features
    with a Gaussian copula of correlation ρ.

    Parameters
    ----------
    rho : float, default=0.0
        Correlation between −1 and 1.

    Examples
    --------
    >>> law = CopulaLaw(rho=0.0)
    >>> round(law.irreducible("brier"), 7)
    0.1963521
    >>> from scipy.special import expit
    >>> terms = law.population(lambda x1, x2: expit(6 * x1 - 3), "brier")
    >>> round(terms.reliability, 7), round(terms.grouping, 7)
    (0.0136747, 0.0122324)
    """

    def logit(self, x1: FloatArray, x2: FloatArray) -> FloatArray:
        return 2.5 * ((x1 + x2) - 1.0) + 2.0 * np.expm1(cube(x1 - x2))


class AppendixELaw(SquareLaw):
    r"""
    The law of the paper's calibration maps (appendix E): independent uniform features.

    :math:`\eta(x) = x_1 + x_2 + \exp((x_1-x_2)^3) - 1`, :math:`Q = \sigma(\eta)`.

    Examples
    --------
    >>> float(AppendixELaw().q([[0.5, 0.5]])[0].round(6))
    0.731059
    """

    def __init__(self) -> None:
        super().__init__(0.0)

    def __repr__(self) -> str:
        return "AppendixELaw()"

    def logit(self, x1: FloatArray, x2: FloatArray) -> FloatArray:
        return x1 + x2 + np.expm1(cube(x1 - x2))
