"""Losses of one decision: what it costs to be on the wrong side of a threshold."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scoreprism._core.checks import parse_number
from scoreprism._core.simplex import FloatArray, IntArray, as_vector
from scoreprism.losses._proper_loss import ProperLoss


class _Threshold(ProperLoss):
    """A threshold and two costs; a prediction equal to the threshold counts as below."""

    binary_only: ClassVar[bool] = True

    @property
    def strictly_proper(self) -> bool:
        """False: any prediction on the right side of θ is best."""
        return False

    @property
    def symmetric(self) -> bool:
        """False: a tie with θ counts as below, whatever the costs."""
        return False

    @abstractmethod
    def _costs(self) -> tuple[float, float, float]:
        """The threshold, and what a false alarm (y = 0) and a miss (y = 1) cost."""

    def _layout(self, law: FloatArray) -> FloatArray:
        return as_vector(law)

    def _loss(self, p: FloatArray, y: IntArray) -> FloatArray:
        theta, alarm, miss = self._costs()
        return np.where(y == 1, np.where(p <= theta, miss, 0.0), np.where(p > theta, alarm, 0.0))

    def _risk(self, p: FloatArray, q: FloatArray) -> FloatArray:
        theta, alarm, miss = self._costs()
        return np.where(p <= theta, miss * q, alarm * (1.0 - q))

    def _divergence(self, p: FloatArray, q: FloatArray) -> FloatArray:  # accuracy: |q−θ| without cancellation
        theta, alarm, miss = self._costs()
        wrong_side = np.where(p <= theta, q - theta, theta - q)
        return (alarm + miss) * np.maximum(wrong_side, 0.0)

    def _weight(self, c: FloatArray) -> FloatArray:
        return np.where(c == self._costs()[0], np.inf, 0.0)


@dataclass(frozen=True)
class Elementary(_Threshold):
    r"""
    The elementary loss of one decision threshold θ, from which all binary proper losses are mixed (Murphy).

    :math:`\ell(p,1) = (1-\theta)1\{p \le \theta\}`, :math:`\ell(p,0) = \theta 1\{p > \theta\}`,
    :math:`\mathcal E(q) = \min(\theta(1-q), (1-\theta)q)`. A prediction equal to θ counts as below it, so
    the classes are not exchangeable even at θ = ½. Proper, not strictly: zero reliability does not mean
    calibrated. Its weight is a unit mass at θ: `weight` is ``inf`` there and 0 elsewhere.

    Parameters
    ----------
    theta : float, default=0.5
        Threshold between 0 and 1.

    Examples
    --------
    >>> Elementary(theta=0.3).loss([0.3, 0.31], [1, 0])
    array([0.7, 0.3])
    """

    theta: float = 0.5
    name: ClassVar[str] = "elementary"

    def __post_init__(self) -> None:
        object.__setattr__(self, "theta", parse_number(self.theta, "theta", "between 0 and 1", lambda v: 0.0 < v < 1.0))

    @classmethod
    def at(cls, theta: float) -> Elementary:
        """
        The loss of a threshold that was parsed before, for code that goes through many.

        Parameters
        ----------
        theta : float
            Threshold above 0 and below 1.

        Returns
        -------
        Elementary
            The loss.
        """
        loss = object.__new__(cls)
        object.__setattr__(loss, "theta", theta)
        return loss

    def _costs(self) -> tuple[float, float, float]:
        return self.theta, self.theta, 1.0 - self.theta

    def formula(self, k: int) -> str:
        return f"θ or 1−θ when p and y are on different sides of θ = {self.theta:g}"


@dataclass(frozen=True)
class CostWeighted(_Threshold):
    r"""
    The cost of acting on a probability: `fp` for a false alarm, `fn` for a miss.

    The best threshold is θ = fp/(fp + fn), and the loss is (fp + fn) times the elementary loss at θ.

    Parameters
    ----------
    fp : float, default=1.0
        Cost of acting (p > θ) when nothing happens.
    fn : float, default=1.0
        Cost of not acting (p ≤ θ) when it happens.

    Examples
    --------
    >>> CostWeighted(fp=1, fn=4).loss([0.1, 0.9, 0.9], [1, 0, 1])
    array([4., 1., 0.])
    """

    fp: float = 1.0
    fn: float = 1.0
    name: ClassVar[str] = "cost-weighted"

    def __post_init__(self) -> None:
        for key in ("fp", "fn"):
            object.__setattr__(self, key, parse_number(getattr(self, key), key, "a cost above 0", lambda v: v > 0.0))

    def _costs(self) -> tuple[float, float, float]:
        return self.fp / (self.fp + self.fn), self.fp, self.fn

    def formula(self, k: int) -> str:
        return f"{self.fp:g} per false alarm, {self.fn:g} per miss, acting when p > {self._costs()[0]:g}"
