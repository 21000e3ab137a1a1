"""The beta family of Buja, Stuetzle & Shen (2005), and the incomplete beta function it needs."""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma
from typing import ClassVar

import numpy as np

from scoreprism._core.checks import parse_number, refuse
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism.losses._proper_loss import ProperLoss

_TERMS = 64  # both series run at arguments up to 1/2: 2^-64 is below rounding


def _rising_factorials(first: float, count: int) -> FloatArray:
    """(first)_k / k! for k = 0 … count − 1."""
    k = np.arange(1, count)
    return np.concatenate([[1.0], np.cumprod((first + k - 1.0) / k)])


def _antiderivative(s: FloatArray, b: float) -> FloatArray:
    """∫_s^{1/2} u^{b−1} du, also at b = 0 and without cancellation near it."""
    logarithm = np.log(2.0 * s)
    return -logarithm if b == 0.0 else -(0.5**b) * np.expm1(b * logarithm) / b


def _lower_half(x: FloatArray, a: float, b: float) -> FloatArray:
    """The power series of the integral at 0, for x ≤ 1/2."""
    coefficients = _rising_factorials(1.0 - b, _TERMS) / (a + np.arange(_TERMS))
    series: FloatArray = x**a * np.polyval(coefficients[::-1], x)
    return series


def _upper_half(rest: FloatArray, a: float, b: float) -> FloatArray:
    """The same from 1/2 on, expanded at 1; `rest` is 1 − x ≤ 1/2."""
    c = _rising_factorials(1.0 - a, _TERMS)
    k = np.arange(2, _TERMS)
    tail = c[2:] / (b + k)
    fixed = float(np.sum(tail * 0.5 ** (b + k))) + float(_lower_half(np.array([0.5]), a, b)[0])
    moving = rest ** (b + 2.0) * np.polyval(tail[::-1], rest)
    total: FloatArray = fixed - moving + _antiderivative(rest, b) + c[1] * _antiderivative(rest, b + 1.0)
    return total


def incomplete_beta(x: FloatArray, rest: FloatArray, a: float, b: float) -> FloatArray:
    """
    ∫_0^x t^{a−1} (1−t)^{b−1} dt for a > 0 and b > −1, where `rest` is 1 − x, known to its own accuracy.

    Two power series meet at 1/2, and a recurrence in `a` brings large `a` down to (1, 2]; they are twenty
    times faster than ``scipy.special.betainc``, which is undefined for b ≤ 0 and loses all digits as b → 0.
    For large b the series cancel, and betainc serves.
    """
    if b > 8.0:
        from scipy.special import beta, betainc, betaincc

        total: FloatArray = beta(a, b) * np.where(x <= 0.5, betainc(a, b, x), betaincc(b, a, rest))
        return total
    steps = max(0, int(np.ceil(a)) - 2)
    base = a - steps
    value = np.empty_like(x)
    low = x <= 0.5
    value[low] = _lower_half(x[low], base, b)
    value[~low] = _upper_half(rest[~low], base, b)
    for order in base + np.arange(steps):
        value = np.where(np.isinf(value), np.inf, (order * value - x**order * rest**b) / (order + b))
    return np.where((rest == 0.0) & (b <= 0.0), np.inf, value)


@dataclass(frozen=True)
class BetaLoss(ProperLoss):
    r"""
    The beta family: weight :math:`w(c) = c^{a-1}(1-c)^{b-1}` on decision thresholds, a, b > −1.

    :math:`\ell(p,1) = \int_p^1 c^{a-1}(1-c)^b\,dc`, :math:`\ell(p,0) = \int_0^p c^a(1-c)^{b-1}\,dc`.
    (1, 1) is half the Brier loss, (0, 0) the log loss, (−½, −½) the boosting loss with
    :math:`\mathcal E(q) = 4\sqrt{q(1-q)}`; a > b stresses high
    thresholds. Unbounded for y = 1 if a ≤ 0, for y = 0 if b ≤ 0.

    Parameters
    ----------
    a, b : float, default=-0.5
        Exponents, each above −1.

    Examples
    --------
    >>> BetaLoss(a=-0.5, b=-0.5).loss([0.2], [1])  # 2·sqrt((1 − p)/p)
    array([4.])
    >>> BetaLoss(a=1, b=1).loss([0.2], [1]).round(10)  # (1 − p)²/2
    array([0.32])
    """

    a: float = -0.5
    b: float = -0.5
    name: ClassVar[str] = "beta"
    binary_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for key in ("a", "b"):
            object.__setattr__(self, key, parse_number(getattr(self, key), key, "above −1", lambda v: v > -1.0))
        if lgamma(self.a + 1.0) + lgamma(self.b + 1.0) - lgamma(self.a + self.b + 2.0) < -690.0:
            refuse(
                "a and b must leave the loss a size that doubles can hold",
                f"a={self.a:g}, b={self.b:g}",
                "Use smaller ones.",
            )

    @property
    def symmetric(self) -> bool:
        """Whether a = b."""
        return self.a == self.b

    def _partial(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """ℓ(p, 0) and ℓ(p, 1)."""
        no, yes = p[:, 0], p[:, 1]
        return incomplete_beta(yes, no, self.a + 1.0, self.b), incomplete_beta(no, yes, self.b + 1.0, self.a)

    def _loss(self, p: FloatArray, y: IntArray) -> FloatArray:
        if_no, if_yes = self._partial(p)
        return np.maximum(np.where(y == 1, if_yes, if_no), 0.0)

    def _risk(self, p: FloatArray, q: FloatArray) -> FloatArray:
        if_no, if_yes = self._partial(p)
        return np.where(q[:, 1] > 0, q[:, 1] * if_yes, 0.0) + np.where(q[:, 0] > 0, q[:, 0] * if_no, 0.0)

    def _divergence(self, p: FloatArray, q: FloatArray) -> FloatArray:  # accuracy: exactly 0 at p = q
        regret = np.zeros(p.shape[0])
        for k, (at_p, at_q) in enumerate(zip(self._partial(p), self._partial(q), strict=True)):
            gap = q[:, k] * (at_p - at_q)
            lost = np.isnan(gap)  # two losses of subnormal probabilities overflowed: c^{a−1} integrated by its power
            if lost.any():
                power, share, other = (self.b, self.a)[k], np.log(q[lost, k]), np.log(p[lost, k])
                gap[lost] = (np.exp((power + 1.0) * share) - np.exp(share + power * other)) / power
            regret += np.where(q[:, k] > 0, gap, 0.0)
        return np.maximum(regret, 0.0)

    def _weight(self, c: FloatArray) -> FloatArray:
        return c ** (self.a - 1.0) * (1.0 - c) ** (self.b - 1.0)

    def formula(self, k: int) -> str:
        return f"beta family with weight c^{self.a - 1:g} (1−c)^{self.b - 1:g} on thresholds"
