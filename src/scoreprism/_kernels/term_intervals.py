"""From level losses and spreads to terms, standard errors, intervals and bounds (docs/statistics.md).

A decomposition over T levels is a vector of T *steps* (the loss of each level minus that of the next; the
loss of the last), T *spreads* and, under the plug-in form, T divergences. Terms, intervals and bounds are
linear in it, so its mean and covariance are all they need of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from scoreprism._core.numerics import cube
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._document.result import Record
from scoreprism.exceptions import UnavailableError

#: Fewer independent rows or groups than this make normal intervals too short (docs/statistics.md).
FEW_UNITS = 30

#: How rows are filled from the laws of a chain.
FORMS = ("debiased", "difference", "plugin")

#: How a two-sided interval is made. `any-shape` holds whatever the shape of C, as long as C varies slowly between
#: neighbours in the score; `smooth` where the maps that were fitted can follow C; `bracket` is `smooth` with normal
#: quantiles and observed errors alone, `envelope` reaches as far up as that of any candidate map; `clt` takes laws as
#: given; `bca` refits on resampled rows. `auto` is `any-shape` where there is one, else `bracket`.
INTERVAL_METHODS = ("auto", "any-shape", "smooth", "bracket", "envelope", "clt", "bca")

Coefficients = Mapping[int, float]


@dataclass(frozen=True)
class Interval(Record):
    """
    A two-sided confidence interval.

    Attributes
    ----------
    low, high : float
        Ends of the interval; NaN where the loss is infinite.
    confidence_level : float
        Confidence level.
    method : str
        How it was made.

    Examples
    --------
    >>> Interval(0.1, 0.2, 0.95, "bracket").low
    0.1
    """

    low: float
    high: float
    confidence_level: float
    method: str

    def _title(self) -> str:
        return f"Confidence interval at {self.confidence_level:.4g}, by method {self.method}"


@dataclass(frozen=True)
class Bound(Record):
    """
    A one-sided confidence bound.

    Attributes
    ----------
    value : float
        The bound.
    confidence_level : float
        Confidence level.

    Examples
    --------
    >>> Bound(0.1, 0.95).value
    0.1
    """

    value: float
    confidence_level: float

    _draw_instead: ClassVar[str] = "A bound does not know its estimate: plot the result it was asked of."

    def _title(self) -> str:
        return f"One-sided confidence bound at {self.confidence_level:.4g}"


@dataclass(frozen=True)
class Alternative:
    """
    The reliability by another candidate map; the ``envelope`` method considers all of them.

    >>> round(Alternative("platt", 0.6, 0.01, 0.001, 0.002).reach(1.96), 5)
    0.01592
    """

    name: str
    loss: float  # its mean loss out of sample
    difference: float  # its loss difference LD
    spread: float  # its spread V
    std_error: float  # of LD

    def reach(self, z: float) -> float:
        """Upper end of its bracket, ``LD + 2V + z·se``."""
        return self.difference + 2.0 * self.spread + z * self.std_error


class WhatIf(NamedTuple):
    """The reliability of every row under each possible outcome."""

    gains: FloatArray  # (K, n): loss of the score minus that of C, for each outcome
    share: FloatArray  # (K, n): probability of each outcome by C

    def moments(self, weight: FloatArray) -> list[FloatArray]:
        """For each row the second, third and fourth moment of its gain about the mean gain of all rows with weight."""
        gains, share = self.gains, self.share
        if not np.isfinite(gains).all():  # a score of 0 or 1: some other outcome would have cost an infinite loss
            gains, share = np.where(np.isfinite(gains), gains, 0.0), np.where(np.isfinite(gains), share, 0.0)
        mean = float((gains * share).sum(axis=0) @ weight) / float(weight.sum())
        gap = gains - mean
        square = gap * gap
        return [(power * share).sum(axis=0) for power in (square, square * gap, square * square)]

    def minus(self, other: Any) -> WhatIf:
        """The same of a difference of two reliabilities on the same rows, outcomes drawn from the mean of both laws."""
        other = other if isinstance(other, WhatIf) else other.collect()
        with np.errstate(invalid="ignore"):  # both may be infinite in a row; `moments` leaves such gains out
            return WhatIf(self.gains - other.gains, 0.5 * (self.share + other.share))


@dataclass(frozen=True)
class Ends:
    """What the ends of intervals need of the rows besides their moments."""

    # the part of the variance of the second-order term that is there even if Ĉ = C; None where there is no such term
    degenerate: float | None
    model_error: float  # of the reliability by the law C itself, outcomes drawn from it; NaN where rows are clustered
    skewness: float  # of the mean of the rows by the same law
    effective_rows: float  # that carry the variance: (Σx²)²/Σx⁴, as observed or by the law C, whichever is less

    @staticmethod
    def of(
        observed: FloatArray,
        what_if: Any,  # `WhatIf`, or the same by blocks
        powers: Sequence[FloatArray],
        degenerate: float | None,
        *,
        clustered: bool,
    ) -> Ends:
        """
        Moments by the law C of the `observed` rows of the reliability; `powers` are Σω, Σω², Σω³ and Σω⁴ of each.

        Where rows are dependent (`clustered`), the law C does not determine the error. An infinite reliability has
        none; terms above C still have their second-order part.
        """
        if not np.isfinite(observed).all():
            return Ends(degenerate, math.nan, 0.0, 0.0)
        weighted: Any = powers[0] > 0.0
        weighted = slice(None) if weighted.all() else weighted  # no copies where all rows count
        w, w2, w3, w4 = (power[weighted] for power in powers)
        total = float(w.sum())
        rows = observed[weighted] - float(w @ observed[weighted]) / total
        squares = rows**2
        effective = _divide(float(w2 @ squares) ** 2, float(w4 @ squares**2))
        moments = [moment[weighted] for moment in what_if.moments(powers[0])]
        variance, third, fourth = float(moments[0] @ w2), float(moments[1] @ w3), float(moments[2] @ w4)
        expected = _divide(variance**2, fourth)
        error = math.nan if clustered else math.sqrt(variance) / total
        return Ends(degenerate, error, _divide(third, variance**1.5), min(effective, expected))

    def error(self, observed: float) -> float:
        """The larger of the observed standard error and that by C: few rows may miss rare outcomes."""
        return observed if math.isnan(self.model_error) else max(observed, self.model_error)

    def reach(self, z: float) -> float:
        """
        The quantile of an upper end, z + clip(γ, 0, 1)·(2z² + 1)/6.

        The mean of skewed rows comes out too low more often than too high.
        """
        return z + min(max(self.skewness, 0.0), 1.0) * (2.0 * z * z + 1.0) / 6.0


def _divide(above: float, below: float) -> float:
    """Above / below, 0 where there is nothing to divide by."""
    return above / below if below > 0.0 else 0.0


@dataclass(frozen=True)
class Role:
    """Kind of a term, which decides its intervals and bounds (docs/statistics.md)."""

    below: bool = False  # whether the spread of the level at the term's own step lowers its lower end
    above: bool = False  # whether the spread of the next level raises its upper end
    nonnegative: bool = False  # whether intervals are cut at 0
    conditional: bool = False  # whether its interval holds only for the class of laws that was fitted
    no_lower: str = ""  # why a bound cannot exist; empty if it can
    no_upper: str = ""


_NO_DATA = (
    "finer information could always explain more, and no data set can rule that out without assumptions "
    "(Lee & Barber 2021)"
)
_IN_SAMPLE = "the recalibrated score was fitted on these same rows, so their variation says nothing about its noise"

#: Every kind of term.
ROLES: dict[str, Role] = {
    "reliability": Role(above=True, nonnegative=True),
    "information": Role(below=True, above=True, conditional=True, no_upper=_NO_DATA),
    "remaining": Role(below=True, conditional=True, no_lower=_NO_DATA),
    "resolution": Role(below=True, nonnegative=True),  # its sign is turned: `below` becomes the upper end
    "uncertainty": Role(),
    "residual": Role(),
    "in-sample": Role(no_lower=_IN_SAMPLE, no_upper=_IN_SAMPLE),
}


def coefficients(form: str, step: int, levels: int) -> dict[int, float]:
    """
    A term as a linear function of steps, spreads and divergences: nonzero coefficients by component, in this order.

    `step` is the index of the term; `levels` itself means the residual of the plug-in form.

    >>> coefficients("debiased", 1, 3)
    {1: 1.0, 4: -1.0, 5: 1.0}
    """
    if step == levels:
        return {**dict.fromkeys(range(levels), 1.0), **dict.fromkeys(range(2 * levels, 3 * levels), -1.0)}
    if form == "plugin":
        return {2 * levels + step: 1.0}
    term = {step: 1.0}
    if form == "debiased":
        if step > 0:
            term[levels + step] = -1.0
        if step < levels - 1:
            term[levels + step + 1] = 1.0
    return term


@dataclass(frozen=True)
class Moments:
    """
    Mean of the components of a decomposition, and the covariance of that mean.

    >>> moments = Moments.of(np.array([[1.0, 3.0]]), np.zeros((1, 2)), None, None)
    >>> moments.mean, round(moments.std_error({0: 1.0}), 6)
    (array([2., 0.]), 0.707107)
    """

    mean: FloatArray
    _covariance: FloatArray | Callable[[], FloatArray]  # a function is called on first use

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of the means."""
        return self._covariance() if callable(self._covariance) else self._covariance

    @classmethod
    def of(
        cls,
        losses: FloatArray,
        extras: FloatArray,
        weight: FloatArray | None,
        groups: IntArray | None,
        *,
        population: bool = False,
    ) -> Moments:
        """
        Moments of the steps of `losses` (levels, n), and of `extras` as they are: spreads and divergences.

        ``Σw²(r−r̄)²/(Σw)²`` is on the diagonal, cluster-robust if `groups` is given; NaN for a component that is not
        finite, or if there is only one row or cluster. A whole `population` has no sampling error.
        """
        size = losses.shape[0] + extras.shape[0]
        total = float(losses.shape[1]) if weight is None else float(weight.sum())
        mean = np.zeros(size)
        with np.errstate(invalid="ignore"):
            for part, share, _ in _iterate_blocks(losses, extras, weight, groups):
                mean += (part * (share / total)).sum(axis=1)
            if population:
                return cls(mean, np.zeros((size, size)))
            covariance = np.zeros((size, size))
            clusters = None if groups is None else np.zeros((size, int(groups.max()) + 1))
            for part, share, codes in _iterate_blocks(losses, extras, weight, groups):
                centred = (part - mean[:, None]) * (share / total)
                if clusters is None or codes is None:
                    covariance += centred @ centred.T
                else:
                    for line, sums in zip(centred, clusters, strict=True):
                        np.add.at(sums, codes, line)
            if clusters is not None:
                covariance = clusters @ clusters.T
        return cls(mean, covariance if _count_units(losses.shape[1], weight, groups) > 1 else covariance * np.nan)

    def value(self, term: Coefficients) -> float:
        """Mean of a linear function of the components."""
        return sum((c * float(self.mean[i]) for i, c in term.items()), 0.0)

    def std_error(self, term: Coefficients) -> float:
        """Standard error of a linear function of the components, NaN if undefined."""
        index = list(term)
        c = np.array([term[i] for i in index])
        variance = c @ self.covariance[np.ix_(index, index)] @ c
        return float(np.sqrt(np.maximum(variance, 0.0)))


#: Rows per block of `_iterate_blocks`: a block of some ten components stays in cache.
_STEP = 1 << 13


def _iterate_blocks(
    losses: FloatArray, extras: FloatArray, weight: FloatArray | None, groups: IntArray | None
) -> Iterator[tuple[FloatArray, FloatArray, IntArray | None]]:
    """Components, weights and clusters of some rows at a time; rows of weight zero are left out."""
    for start in range(0, losses.shape[1], _STEP):
        rows = slice(start, start + _STEP)
        part = np.concatenate([steps(losses[:, rows]), extras[:, rows]])
        codes = None if groups is None else groups[rows]
        if weight is None:
            yield part, np.ones(part.shape[1]), codes
            continue
        weighted = weight[rows] > 0
        yield part[:, weighted], weight[rows][weighted], None if codes is None else codes[weighted]


def _count_units(n: int, weight: FloatArray | None, groups: IntArray | None) -> int:
    """Number of independent rows or clusters that have weight."""
    if groups is None:
        return n if weight is None else int(np.count_nonzero(weight))
    return int(np.unique(groups if weight is None else groups[weight > 0]).size)


def steps(losses: FloatArray) -> FloatArray:
    """
    Loss of each level minus that of the next, and the loss of the last: the telescoping sum of the chain theorems.

    >>> steps(np.array([[3.0], [2.5], [1.0]])).ravel()
    array([0.5, 1.5, 1. ])
    """
    out = losses.copy()
    with np.errstate(invalid="ignore"):
        out[:-1] -= losses[1:]
    return out


def quantile(confidence_level: float, *, two_sided: bool) -> float:
    """Normal quantile of a confidence level."""
    return NormalDist().inv_cdf(0.5 + confidence_level / 2.0 if two_sided else confidence_level)


def bca(estimate: float, replicates: FloatArray, influence: FloatArray, confidence_level: float) -> Interval:
    """
    Bias-corrected and accelerated bootstrap interval (Efron 1987) of a term, from replicates of it on resampled rows.

    The skewness of the influence of every row or cluster is the acceleration. NaN where the replicates are not finite,
    or all on one side of the estimate.

    >>> draws = np.random.default_rng(0).normal(size=4001)
    >>> interval = bca(float(np.median(draws)), draws, np.array([-1.0, 0.0, 1.0]), 0.95)
    >>> round(interval.low, 1), round(interval.high, 1)
    (-1.9, 2.0)
    """
    normal, size = NormalDist(), replicates.size
    share = float((replicates < estimate).sum() + 0.5 * (replicates == estimate).sum()) / size
    if not np.isfinite(replicates).all() or not 0.0 < share < 1.0:  # the estimate lies outside all replicates
        return Interval(np.nan, np.nan, confidence_level, "bca")
    bias = normal.inv_cdf(share)
    centred = influence - influence.mean()
    square = float((centred**2).sum())
    skew = float(cube(centred).sum()) / (6.0 * square**1.5) if square > 0.0 else 0.0

    def point(z: float) -> float:
        moved = bias + (bias + z) / (1.0 - skew * (bias + z))
        return float(np.quantile(replicates, normal.cdf(moved)))

    z = quantile(confidence_level, two_sided=True)
    return Interval(point(-z), point(z), confidence_level, "bca")


def tail(z: float) -> float:
    """P(Z > z) of a standard normal variable, to full precision far out."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


@dataclass(frozen=True)
class TermInference:
    """
    Intervals and bounds of one term.

    `step` is the index of the term in its chain, `sign` is −1 for a term that is subtracted (resolution).
    """

    name: str
    role: str
    step: int
    sign: int
    levels: int
    moments: Moments
    ends: Ends | None = None

    def _rows(self) -> dict[int, float]:
        """The loss difference as a function of the components."""
        combination = coefficients("difference", self.step, self.levels)
        return {i: self.sign * c for i, c in combination.items()}

    def _difference(self) -> tuple[float, float]:
        """The loss difference LD and its standard error."""
        rows = self._rows()
        return self.moments.value(rows), self.moments.std_error(rows)

    def _spreads(self) -> tuple[float, float]:
        """How far the noise of the fitted laws may have moved LD up, and down."""
        role = ROLES[self.role]
        own = self.moments.value({self.levels + self.step: 1.0}) if role.below else 0.0
        following = self.moments.value({self.levels + self.step + 1: 1.0}) if role.above else 0.0
        return (own, following) if self.sign > 0 else (following, own)

    @property
    def any_shape(self) -> bool:
        """Whether there is an end that holds whatever the shape of C."""
        return self.ends is not None and self.ends.degenerate is not None and self._distance() != 0

    def _distance(self) -> int:
        """Effect of the distance of Ĉ from C on LD: +1 if LD is too small, −1 if too large, 0 if C is not in it."""
        role = ROLES[self.role]
        if self.step == 0 and role.above:
            return self.sign
        return -self.sign if self.step == 1 and role.below else 0

    def _second(self) -> tuple[float, float]:
        """LD corrected by the second-order term B, and its standard error without what is noise of B alone."""
        assert self.ends is not None and self.ends.degenerate is not None  # noqa: S101, PT018 - callers check `any_shape`
        sign, b = float(self._distance()), self.moments.mean.size - 1
        rows = self._rows()
        value = self.moments.value({**rows, b: sign})
        variance = self.moments.std_error({**rows, b: 2.0 * sign}) ** 2 - self.ends.degenerate
        return value, math.sqrt(max(variance, 0.0))

    def _cut(self, value: float) -> float:
        return float(np.maximum(value, 0.0)) if ROLES[self.role].nonnegative else value

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval: not for a law fitted on the rows it is evaluated on."""
        return ROLES[self.role].no_lower != _IN_SAMPLE

    def require_interval(self) -> None:
        """Refuse an interval where there is none."""
        if not self.has_interval:
            self._refuse("interval", _IN_SAMPLE)

    def reach(self, confidence_level: float) -> float:
        """Upper end of the bracket before it is cut at 0."""
        (difference, error), (_, down) = self._difference(), self._spreads()
        return difference + 2 * down + quantile(confidence_level, two_sided=True) * error

    def bracket(self, confidence_level: float) -> Interval:
        """Interval ``[LD − 2V_own − z·se, LD + 2V_next + z·se]`` that allows for the noise of fitted laws."""
        (difference, error), (up, _) = self._difference(), self._spreads()
        low = difference - 2 * up - quantile(confidence_level, two_sided=True) * error
        return Interval(
            self._cut(low), self._cut(self.reach(confidence_level)), confidence_level, self._label("bracket")
        )

    def _label(self, method: str) -> str:
        return f"{method}, conditional on the reference class" if ROLES[self.role].conditional else method

    def interval(self, confidence_level: float, *, any_shape: bool) -> Interval:
        """Interval with errors by the law C and skewed quantiles, for a C that is smooth or of any shape."""
        z = quantile(confidence_level, two_sided=True)
        name = "any shape" if any_shape else "smooth"
        return Interval(
            self._cut(self.low(z, any_shape=any_shape)),
            self._cut(self.high(z, any_shape=any_shape)),
            confidence_level,
            self._label(name),
        )

    def _errors(self, z: float) -> tuple[float, float]:
        """The standard error and the upper quantile: by the law C where this is the reliability."""
        error = self._difference()[1]
        if self.ends is None or self.role != "reliability":
            return error, z
        return self.ends.error(error), self.ends.reach(z)

    def low(self, z: float, *, any_shape: bool, spreads: float = 2.0) -> float:
        """Lower end before it is cut at 0."""
        difference = self._difference()[0]
        error, _ = self._errors(z)
        end = difference - spreads * self._spreads()[0] - z * error
        if not (any_shape and self.any_shape and self._distance() < 0):
            return end
        value, second = self._second()
        return min(end, value - z * max(second, error))

    def high(self, z: float, *, any_shape: bool) -> float:
        """Upper end before it is cut at 0."""
        difference = self._difference()[0]
        error, far = self._errors(z)
        end = difference + 2.0 * self._spreads()[1] + far * error
        if not (any_shape and self.any_shape and self._distance() > 0):
            return end
        value, second = self._second()
        return max(end, value + far * max(second, error))

    def difference_ends(
        self, first: TermInference, second: TermInference, z: float, *, any_shape: bool
    ) -> tuple[float, float]:
        """Ends of the difference of a term of two predictions on the same rows; `self` has its moments."""
        difference = self._difference()[0]
        error, far = self._errors(z)
        near = z
        if self.ends is not None and self.role == "reliability":  # rows of a difference are skewed either way
            near = replace(self.ends, skewness=-self.ends.skewness).reach(z)
        (up, down), (other_up, other_down) = first._spreads(), second._spreads()
        difference += (down - other_down) - (up - other_up)
        left = abs(down - other_down) + abs(up - other_up)  # noise common to both laws cancels
        low, high = difference - left - near * error, difference + left + far * error
        if not any_shape:
            return low, high
        value, wide = self._second()
        wide = max(wide, error)
        return min(low, value - near * wide), max(high, value + far * wide)

    def pvalue(self) -> float:
        """One-sided p-value of the statistic behind the lower bound."""
        shift, error = self.lower_statistic()
        if not math.isfinite(shift) or not math.isfinite(error):
            return math.nan
        if error == 0.0:
            return 0.0 if shift > 0.0 else 1.0
        return tail(shift / error)

    def lower_statistic(self) -> tuple[float, float]:
        """The statistic behind the lower bound, and its standard error."""
        difference, up = self._difference()[0], self._spreads()[0]
        error, _ = self._errors(0.0)
        plain = difference - up, error
        if not (self.any_shape and self._distance() < 0):
            return plain
        value, second = self._second()
        other = value, max(second, error)
        return min(plain, other, key=lambda pair: pair[0] / pair[1] if pair[1] > 0.0 else math.inf)

    def lower_bound(self, confidence_level: float) -> Bound:
        """One-sided lower bound ``LD − V_own − z·s``, or ``LD − B − z·s_B`` if that is less."""
        if ROLES[self.role].no_lower:
            self._refuse("lower bound", ROLES[self.role].no_lower)
        return Bound(
            self._cut(self.low(quantile(confidence_level, two_sided=False), any_shape=True, spreads=1.0)),
            confidence_level,
        )

    def upper_bound(self, confidence_level: float) -> Bound:
        """One-sided upper bound ``LD + 2V_next + κ·s``, or ``LD + B + κ·s_B`` if that is more."""
        if ROLES[self.role].no_upper:
            self._refuse("upper bound", ROLES[self.role].no_upper)
        return Bound(
            self._cut(self.high(quantile(confidence_level, two_sided=False), any_shape=True)), confidence_level
        )

    def _refuse(self, what: str, why: str) -> NoReturn:
        """Refuse an interval or bound that does not exist, with the reason and a remedy."""
        if why == _IN_SAMPLE:
            remedy = "Decompose with probabilities fitted out of sample instead."
        else:
            other = "upper" if what == "lower bound" else "lower"
            remedy = (
                f"Use interval({self.name!r}), which is conditional on the reference class, "
                f"or {other}_bound({self.name!r})."
            )
        raise UnavailableError(f"{self.name!r} has no {what}: {why}. {remedy}")
