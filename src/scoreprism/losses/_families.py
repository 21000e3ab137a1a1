"""The proper losses with closed forms; docstrings are the definitions, overrides say why they are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from scoreprism._core.arrays import like, namespace
from scoreprism._core.checks import parse_number
from scoreprism._core.simplex import FloatArray, IntArray, as_vector, n_classes, one_hot_like, pick
from scoreprism.losses._proper_loss import ProperLoss


def _row_sum(values: FloatArray) -> FloatArray:
    """Σ_k of each row; for few columns a product with ones is twice as fast as sum(axis=1)."""
    if isinstance(values, np.ndarray):
        return values @ np.ones(values.shape[1])
    return namespace(values).sum(values, axis=1)  # an array of another library


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    """Row-wise inner product."""
    return _row_sum(a * b)


def _above_zero(values: FloatArray) -> FloatArray:
    """Values that rounding may have put below 0."""
    if isinstance(values, np.ndarray):
        return np.maximum(values, 0.0)
    return namespace(values).where(values > 0.0, values, 0.0 * values)


def _at_least(law: FloatArray, floor: FloatArray) -> FloatArray:
    """Probabilities, or the floor of their row where it is larger."""
    xp = namespace(law)
    raised: FloatArray = xp.where(law > floor[:, None], law, floor[:, None] + 0.0 * law)
    return raised


def _weighted_sum(q: FloatArray, values: FloatArray) -> FloatArray:
    """Σ_k q_k·values_k with 0·∞ = 0: what cannot happen costs nothing."""
    xp = namespace(q)
    total = _dot(q, values)
    if xp.any(xp.isnan(total)):
        return _row_sum(xp.where(q > 0, q * values, 0.0 * q))
    return total


def _power(x: FloatArray, exponent: float) -> FloatArray:
    """x**exponent for 0 ≤ x ≤ 1; by roots and products, or exp and log, which are faster than pow."""
    whole, rest = divmod(exponent, 1.0)
    if rest not in (0.0, 0.5) or not 1 <= whole <= 4:
        xp = namespace(x)
        out = xp.log(x)
        out *= exponent
        power: FloatArray = np.exp(out, out=out) if xp is np else xp.exp(out)
        return power
    out = namespace(x).sqrt(x) if rest else x * x
    for _ in range(int(whole) - (0 if rest else 2)):
        out *= x
    return out if exponent != 1.0 else x


@dataclass(frozen=True)
class Brier(ProperLoss):
    r"""
    The Brier loss, or quadratic score.

    Two classes: :math:`\ell(p,y) = (p-y)^2`, :math:`\mathcal E(q) = q(1-q)`, :math:`d(p,q) = (p-q)^2`.
    K ≥ 3 classes: :math:`\ell(p,y) = \sum_k (p_k - 1\{y=k\})^2`, :math:`\mathcal E(q) = 1 - \|q\|^2`,
    :math:`d(p,q) = \|p-q\|^2` (the scale of scikit-learn's ``scale_by_half="auto"``).

    Examples
    --------
    >>> Brier().loss([0.25, 0.75], [1, 1])
    array([0.5625, 0.0625])
    """

    name: ClassVar[str] = "brier"
    takes_any_array: ClassVar[bool] = True

    def _layout(self, law: FloatArray) -> FloatArray:
        return as_vector(law) if n_classes(law) == 2 else law

    def _loss(self, p: FloatArray, y: IntArray) -> FloatArray:
        if p.ndim == 1:
            return np.square(p - y)
        hit = pick(p, y)
        return (1.0 - hit) ** 2 + _above_zero(_dot(p, p) - hit * hit)

    def _each(self, p: FloatArray) -> FloatArray:  # speed: all outcomes at once, here and below
        if p.ndim == 1:
            return np.stack([p * p, np.square(1.0 - p)], axis=1)
        return (1.0 - p) ** 2 + _above_zero(_dot(p, p)[:, None] - p * p)

    def _risk(self, p: FloatArray, q: FloatArray) -> FloatArray:  # accuracy: no cancellation near p = q
        return self._divergence(p, q) + self._entropy(q)

    def _entropy(self, q: FloatArray) -> FloatArray:
        return q * (1.0 - q) if q.ndim == 1 else _above_zero(1.0 - _dot(q, q))

    def _divergence(self, p: FloatArray, q: FloatArray) -> FloatArray:  # accuracy: relative
        difference = p - q
        return np.square(difference) if p.ndim == 1 else _dot(difference, difference)

    def _weight(self, c: FloatArray) -> FloatArray:
        return np.full(c.shape, 2.0)

    def curved(self, law: FloatArray, y: IntArray, floor: FloatArray) -> FloatArray:
        return one_hot_like(y, law) - law

    def formula(self, k: int) -> str:
        return "(p − y)²" if k == 2 else "Σ_k (p_k − 1{y=k})²"


#: Below this divergence the fast sum of the log loss loses digits and `_kl_terms` takes over.
_SMALL = 5e-3
_EVEN = (1 / 13, 1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3, 1.0)
_ODD = (1 / 15, 1 / 13, 1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3)


def _horner(coefficients: tuple[float, ...], x: FloatArray) -> FloatArray:
    """A polynomial, highest power first, in one buffer."""
    out: FloatArray = namespace(x).full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        out *= x
        out += coefficient
    return out


def _kl_terms(q: FloatArray, p: FloatArray, difference: FloatArray) -> FloatArray:
    """
    Q log(q/p) − q + p ≥ 0 to full relative accuracy; `difference` is q − p, known better than its parts.

    With z = (q−p)/(q+p) the term is (q+p)·[(1+z)·atanh z − z], a power series near z = 0.
    """
    z = difference / (q + p)
    square = z * z
    terms = _horner(_ODD, square)
    terms *= z
    terms += _horner(_EVEN, square)
    terms *= z
    terms *= difference
    far = ~(square < 0.0025)  # NaN, where both are 0, too
    if not isinstance(q, np.ndarray):
        return namespace(q).where(far, _kl_far(q, p, difference), terms)
    if far.any():
        terms[far] = _kl_far(q[far], p[far], difference[far])
    return terms


def _sum_kl_in_place(q: Any, p: Any) -> Any:
    """
    KL of each row of arrays of another library, in few passes over them: on a device these are what takes the time.

    What is lost by rounding is about 1e-16 of the mean |q − p|, so that divergences above 1e-14 have nine digits.
    """
    xp, difference = namespace(q), q - p
    terms = difference / p
    terms = xp.log1p(terms)
    terms *= q
    terms -= difference
    total = _above_zero(_row_sum(terms))
    if xp.all(xp.isfinite(total)):
        return total
    return _row_sum(_kl_terms(q, p, difference))  # something is 0


def _kl_pair(q: FloatArray, q0: FloatArray, p: FloatArray, p0: FloatArray, difference: FloatArray) -> FloatArray:
    """KL of two classes; `difference` is q − p = p0 − q0."""
    return _kl_terms(q, p, difference) + _kl_terms(q0, p0, -difference)


def _kl_far(q: FloatArray, p: FloatArray, difference: FloatArray) -> FloatArray:
    """The same where q and p are not close, or one of them is 0."""
    xp = namespace(q)
    ratio = q / p
    logarithm = xp.log(ratio)
    lost = (ratio == np.inf) | (ratio < 1e-300)  # the quotient over- or underflowed: take logarithms first
    if xp.any(lost):
        logarithm = xp.where(lost, xp.log(q) - xp.log(p), logarithm)
    terms: FloatArray = xp.where(q > 0, xp.where(p > 0, q * logarithm - difference, np.inf + 0.0 * p), p)
    return terms


@dataclass(frozen=True)
class LogLoss(ProperLoss):
    r"""
    The logarithmic loss, or cross-entropy.

    :math:`\ell(p,y) = -\log p_y`, :math:`\mathcal E(q) = -\sum_k q_k \log q_k` (Shannon entropy),
    :math:`d(p,q) = \mathrm{KL}(q\,\|\,p)`, in nats (paper, corollary "Log-loss: entropies and
    information"). Infinite where something happened that was given probability zero.

    Examples
    --------
    >>> LogLoss().loss([0.5, 0.0], [1, 1])
    array([0.69314718,        inf])
    """

    name: ClassVar[str] = "log"
    takes_any_array: ClassVar[bool] = True

    def _layout(self, law: FloatArray) -> FloatArray:
        return law

    def _loss(self, p: FloatArray, y: IntArray) -> FloatArray:
        hit = np.where(y == 1, p, 1.0 - p) if p.ndim == 1 else pick(p, y)
        return _above_zero(0.0 - namespace(hit).log(hit))  # an entry that rounding put above 1 costs nothing

    def _each(self, p: FloatArray) -> FloatArray:
        return _above_zero(0.0 - namespace(p).log(p))

    def _risk(self, p: FloatArray, q: FloatArray) -> FloatArray:
        if p.ndim == 1:
            yes = np.where(q > 0, q * np.log(p), 0.0)
            no = np.where(q < 1, (1.0 - q) * np.log1p(-p), 0.0)
            return 0.0 - (yes + no)
        return 0.0 - _weighted_sum(q, namespace(p).log(p))

    def _divergence(self, p: FloatArray, q: FloatArray) -> FloatArray:  # accuracy: relative; speed: one log
        if p.ndim == 1:
            return _kl_pair(q, 1.0 - q, p, 1.0 - p, q - p)
        if p.shape[1] == 2:  # the smaller of two probabilities knows their difference best
            difference = np.where(p[:, 1] < p[:, 0], q[:, 1] - p[:, 1], p[:, 0] - q[:, 0])
            return _kl_pair(q[:, 1], q[:, 0], p[:, 1], p[:, 0], difference)
        if not isinstance(q, np.ndarray):  # blocks are large elsewhere: no rows are set apart
            return _sum_kl_in_place(q, p)
        difference = q - p
        careful = ~(_row_sum(difference * difference / (q + p)) > _SMALL)  # about the divergence, where that is small
        if careful.all():
            return _row_sum(_kl_terms(q, p, difference))
        if careful.any():
            total = np.empty(q.shape[0])
            total[careful] = _row_sum(_kl_terms(q[careful], p[careful], difference[careful]))
            total[~careful] = self._divergence(p[~careful], q[~careful])
            return total
        ratio = q / p
        np.log(ratio, out=ratio)
        ratio *= q
        total = _row_sum(ratio)
        lost = ~(total < np.inf)  # something is 0
        if lost.any():
            total[lost] = _row_sum(_kl_terms(q[lost], p[lost], difference[lost]))
        return total

    def _weight(self, c: FloatArray) -> FloatArray:
        return 1.0 / (c * (1.0 - c))

    def curved(self, law: FloatArray, y: IntArray, floor: FloatArray) -> FloatArray:
        size: FloatArray = namespace(law).sqrt(2.0 * _at_least(law, floor))
        return (one_hot_like(y, law) - law) / size

    def formula(self, k: int) -> str:
        return "−log p_y, in nats"


def _norm(law: FloatArray) -> FloatArray:
    """The Euclidean norm of each row."""
    norm: FloatArray = namespace(law).sqrt(_dot(law, law))
    return norm


@dataclass(frozen=True)
class Spherical(ProperLoss):
    r"""
    The spherical loss.

    :math:`\ell(p,y) = 1 - p_y/\|p\|_2`, :math:`\mathcal E(q) = 1 - \|q\|_2`,
    :math:`d(p,q) = \|q\|_2 - \langle p, q\rangle/\|p\|_2`.

    Examples
    --------
    >>> Spherical().loss([0.5], [1]).round(6)
    array([0.292893])
    """

    name: ClassVar[str] = "spherical"
    takes_any_array: ClassVar[bool] = True

    def _loss(self, p: FloatArray, y: IntArray) -> FloatArray:
        return _above_zero(1.0 - pick(p, y) / _norm(p))

    def _each(self, p: FloatArray) -> FloatArray:
        return _above_zero(1.0 - p / _norm(p)[:, None])

    def _risk(self, p: FloatArray, q: FloatArray) -> FloatArray:
        return 1.0 - _dot(p, q) / _norm(p)

    def _entropy(self, q: FloatArray) -> FloatArray:
        return _above_zero(1.0 - _norm(q))

    def _divergence(self, p: FloatArray, q: FloatArray) -> FloatArray:  # accuracy: half a squared chord, never < 0
        size = _norm(q)
        chord = p / _norm(p)[:, None] - q / size[:, None]
        return 0.5 * size * _dot(chord, chord)

    def _weight(self, c: FloatArray) -> FloatArray:
        return (c * c + (1.0 - c) ** 2) ** -1.5

    def curved(self, law: FloatArray, y: IntArray, floor: FloatArray) -> FloatArray:
        norm = _norm(law)[:, None]
        residual, unit = one_hot_like(y, law) - law, law / norm
        size: FloatArray = namespace(law).sqrt(2.0 * norm)
        return (residual - _dot(residual, unit)[:, None] * unit) / size

    def formula(self, k: int) -> str:
        return "1 − p_y/‖p‖₂"


@dataclass(frozen=True)
class PseudoSpherical(ProperLoss):
    r"""
    The pseudo-spherical loss of order α > 1; α = 2 is the spherical loss.

    :math:`\ell(p,y) = 1 - (p_y/\|p\|_\alpha)^{\alpha-1}`, :math:`\mathcal E(q) = 1 - \|q\|_\alpha`,
    :math:`d(p,q) = \|q\|_\alpha - \sum_k q_k p_k^{\alpha-1} / \|p\|_\alpha^{\alpha-1}`.

    Parameters
    ----------
    alpha : float, default=3.0
        Order, above 1.

    Examples
    --------
    >>> PseudoSpherical(alpha=2).loss([0.5], [1]).round(6)
    array([0.292893])
    """

    alpha: float = 3.0
    name: ClassVar[str] = "pseudo-spherical"
    takes_any_array: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", parse_number(self.alpha, "alpha", "above 1", lambda v: v > 1.0))

    def _scale(self, p: FloatArray) -> FloatArray:
        """The row norm ‖p‖_α; scaled by the largest entry where powers could underflow."""
        if self.alpha * np.log2(p.shape[1]) < 500:
            return _power(_row_sum(_power(p, self.alpha)), 1.0 / self.alpha)
        top: FloatArray = namespace(p).max(p, axis=1)
        return top * _power(_row_sum(_power(p / top[:, None], self.alpha)), 1.0 / self.alpha)

    def _tilt(self, p: FloatArray) -> FloatArray:
        """(p_k/‖p‖_α)^{α−1}, the score of outcome k."""
        return _power(p / self._scale(p)[:, None], self.alpha - 1.0)

    def _loss(self, p: FloatArray, y: IntArray) -> FloatArray:
        return _above_zero(1.0 - _power(pick(p, y) / self._scale(p), self.alpha - 1.0))

    def _each(self, p: FloatArray) -> FloatArray:
        return _above_zero(1.0 - self._tilt(p))

    def _risk(self, p: FloatArray, q: FloatArray) -> FloatArray:
        return 1.0 - _dot(q, self._tilt(p))

    def _entropy(self, q: FloatArray) -> FloatArray:
        return _above_zero(1.0 - self._scale(q))

    def _divergence(self, p: FloatArray, q: FloatArray) -> FloatArray:  # accuracy: exactly 0 at p = q
        return _above_zero(_dot(q, self._tilt(q) - self._tilt(p)))

    def _weight(self, c: FloatArray) -> FloatArray:
        a = self.alpha
        return (a - 1.0) * (c * (1.0 - c)) ** (a - 2.0) * (c**a + (1.0 - c) ** a) ** (1.0 / a - 2.0)

    def formula(self, k: int) -> str:
        return f"1 − (p_y/‖p‖_α)^(α−1), α = {self.alpha:g}"


@dataclass(frozen=True)
class Tsallis(ProperLoss):
    r"""
    The Tsallis (power) loss of order α > 0, α ≠ 1; α = 2 is Brier's K-class form, α → 1 the log loss.

    :math:`\ell(p,y) = [1 - \alpha p_y^{\alpha-1} + (\alpha-1)\sum_k p_k^\alpha]/(\alpha-1)`,
    :math:`\mathcal E(q) = (1 - \sum_k q_k^\alpha)/(\alpha-1)`. Unbounded for α < 1.

    With ε = α − 1 and the deformed logarithm :math:`\ln_\varepsilon x = (x^\varepsilon - 1)/\varepsilon`
    all four functions are written so that nothing cancels as α → 1.

    Parameters
    ----------
    alpha : float, default=1.5
        Order, above 0 and not 1.

    Examples
    --------
    >>> Tsallis(alpha=2).loss([0.25], [1])  # twice the binary Brier loss
    array([1.125])
    """

    alpha: float = 1.5
    name: ClassVar[str] = "tsallis"
    takes_any_array: ClassVar[bool] = True

    def __post_init__(self) -> None:
        rule = "above 0 and not 1 (which is the log loss)"
        object.__setattr__(self, "alpha", parse_number(self.alpha, "alpha", rule, lambda v: v > 0.0 and v != 1.0))

    def _ln(self, x: FloatArray) -> FloatArray:
        """The deformed logarithm; −∞ or −1/ε at 0."""
        e = self.alpha - 1.0
        xp = namespace(x)
        deformed: FloatArray = xp.expm1(e * xp.log(x)) / e
        return deformed

    def _loss(self, p: FloatArray, y: IntArray) -> FloatArray:
        return _above_zero(_row_sum(_power(p, self.alpha)) - 1.0 - self.alpha * self._ln(pick(p, y)))

    def _each(self, p: FloatArray) -> FloatArray:
        return _above_zero(_row_sum(_power(p, self.alpha))[:, None] - 1.0 - self.alpha * self._ln(p))

    def _risk(self, p: FloatArray, q: FloatArray) -> FloatArray:
        return _row_sum(_power(p, self.alpha)) - 1.0 - self.alpha * _weighted_sum(q, self._ln(p))

    def _entropy(self, q: FloatArray) -> FloatArray:
        return _above_zero(-_weighted_sum(q, self._ln(q)))

    def _divergence(self, p: FloatArray, q: FloatArray) -> FloatArray:  # accuracy: near α = 1 and at p = q
        xp = namespace(p)
        gain = xp.where(q > 0, q * (self._ln(q) - self._ln(p)), 0.0 * q)
        slope = xp.where(q > 0, _power(p, self.alpha - 1.0) * (q - p), -_power(p, self.alpha))
        terms = gain - slope
        if self.alpha < 1:
            terms = xp.where((p == 0) & (q > 0), np.inf + 0.0 * q, terms)
        lost = xp.isnan(terms)
        if xp.any(lost):  # the deformed logarithm of a subnormal probability overflowed: add exponents instead
            terms = xp.where(lost, self._direct(p, q), terms)
        return _row_sum(_above_zero(terms))

    def _direct(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """The terms of the divergence by their formula, each power taken at once."""
        a, e = self.alpha, self.alpha - 1.0
        xp = namespace(p)
        crossed = xp.exp(xp.log(q) + e * xp.log(p))
        terms = (xp.exp(a * xp.log(q)) - a * crossed + e * xp.exp(a * xp.log(p))) / e
        direct: FloatArray = xp.where(p == q, 0.0 * p, terms)
        return direct

    def _weight(self, c: FloatArray) -> FloatArray:
        return self.alpha * (c ** (self.alpha - 2.0) + (1.0 - c) ** (self.alpha - 2.0))

    def curved(self, law: FloatArray, y: IntArray, floor: FloatArray) -> FloatArray:
        inside = _at_least(law, floor)
        size: FloatArray = namespace(law).sqrt(0.5 * self.alpha * inside ** (self.alpha - 2.0))
        return (one_hot_like(y, law) - law) * size

    def formula(self, k: int) -> str:
        return f"[1 − α p_y^(α−1) + (α−1) Σp^α]/(α−1), α = {self.alpha:g}"


@dataclass(frozen=True)
class RankedProbability(ProperLoss):
    r"""
    The ranked probability score, for ordered classes.

    With :math:`F_j(p) = p_0 + \dots + p_j`: :math:`\ell(p,y) = \sum_{j<K-1} (F_j(p) - 1\{y \le j\})^2`,
    :math:`\mathcal E(q) = \sum_j F_j(q)(1 - F_j(q))`, :math:`d(p,q) = \sum_j (F_j(p) - F_j(q))^2`. With two
    classes it is the Brier loss.

    Examples
    --------
    >>> RankedProbability().loss([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], [0, 0]).round(2)
    array([0.29, 0.89])
    """

    name: ClassVar[str] = "ranked-probability"
    takes_any_array: ClassVar[bool] = True

    @property
    def symmetric(self) -> bool:
        """False: the order of the classes matters."""
        return False

    @staticmethod
    def _cumulate(rows: FloatArray) -> FloatArray:
        """Cumulative sums without the last, which is 1."""
        if isinstance(rows, np.ndarray):
            return np.cumsum(rows[:, :-1], axis=1)
        return namespace(rows).cumulative_sum(rows[:, :-1], axis=1)

    def _loss(self, p: FloatArray, y: IntArray) -> FloatArray:
        k = p.shape[1]
        if k > 40 or not isinstance(p, np.ndarray):
            return self._square(p - one_hot_like(y, p))
        # speed: (p − e_y)ᵀ A (p − e_y) with A_ij = K − 1 − max(i, j), one product with a small matrix
        ranks = np.arange(k)
        spread: FloatArray = p @ (k - 1.0 - np.maximum(ranks[:, None], ranks))
        linear = pick(spread, y)
        linear *= -2.0
        linear -= y
        spread *= p
        linear += _row_sum(spread)
        linear += k - 1.0
        return np.maximum(linear, 0.0, out=linear)

    def _each(self, p: FloatArray) -> FloatArray:
        xp, k = namespace(p), p.shape[1]
        cumulated = self._cumulate(p)
        upto = xp.concat([xp.zeros_like(p[:, :1]), self._cumulate(xp.concat([cumulated, p[:, :1]], axis=1))], axis=1)
        above = _row_sum(cumulated)[:, None] - upto  # Σ of F_j over j ≥ k
        rest = like(k - 1.0 - np.arange(k), p, p.dtype)
        return _above_zero(_dot(cumulated, cumulated)[:, None] - 2.0 * above + rest[None, :])

    def _square(self, rows: FloatArray) -> FloatArray:
        cumulated = self._cumulate(rows)
        return _dot(cumulated, cumulated)

    def _risk(self, p: FloatArray, q: FloatArray) -> FloatArray:
        return self._divergence(p, q) + self._entropy(q)

    def _entropy(self, q: FloatArray) -> FloatArray:
        cumulated = self._cumulate(q)
        return _dot(cumulated, _above_zero(1.0 - cumulated))

    def _divergence(self, p: FloatArray, q: FloatArray) -> FloatArray:  # accuracy: relative
        return self._square(p - q)

    def _weight(self, c: FloatArray) -> FloatArray:
        return np.full(c.shape, 2.0)

    def curved(self, law: FloatArray, y: IntArray, floor: FloatArray) -> FloatArray:
        return self._cumulate(one_hot_like(y, law) - law)

    def formula(self, k: int) -> str:
        return "Σ_j (F_j(p) − 1{y ≤ j})²"
