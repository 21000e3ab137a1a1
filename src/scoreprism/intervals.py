"""From level losses and spreads to terms, standard errors, intervals and bounds (docs/statistics.md).

A decomposition over T levels is a vector of T *steps* (the loss of each level minus that of the next; the
loss of the last), T *spreads* and, under the plug-in form, T divergences. Terms, intervals and bounds are
linear in it, so its mean and covariance are all that has to be kept when the rows are gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from scoreprism.exceptions import UnavailableError
from scoreprism.simplex import FloatArray, IntArray

__all__ = [
    "FORMS",
    "INTERVAL_METHODS",
    "ROLES",
    "Alternative",
    "Bound",
    "Interval",
    "Moments",
    "Role",
    "bca",
    "coefficients",
    "steps",
]

#: How rows are filled from the laws of a chain.
FORMS = ("debiased", "difference", "plugin")

#: How a two-sided interval is made: `bracket` allows for the noise of fitted laws, `envelope` also for the choice of
#: the map, `clt` for neither; `bca` refits on resampled rows.
INTERVAL_METHODS = ("bracket", "envelope", "clt", "bca")

Coefficients = Mapping[int, float]


@dataclass(frozen=True)
class Interval:
    """
    A two-sided confidence interval.

    Attributes
    ----------
    low, high : float
        Ends of the interval; NaN where the loss is infinite.
    level : float
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
    level: float
    method: str


@dataclass(frozen=True)
class Bound:
    """
    A one-sided confidence bound.

    Attributes
    ----------
    value : float
        The bound.
    level : float
        Confidence level.

    Examples
    --------
    >>> Bound(0.1, 0.95).value
    0.1
    """

    value: float
    level: float


@dataclass(frozen=True)
class Alternative:
    """
    What another candidate map would have said of the reliability: the ``envelope`` looks at all of them.

    Attributes
    ----------
    name : str
        The candidate.
    loss : float
        Its mean loss out of sample.
    difference, spread, std_error : float
        Its loss difference LD, its spread V, and the standard error of LD.

    Examples
    --------
    >>> round(Alternative("platt", 0.6, 0.01, 0.001, 0.002).reach(1.96), 5)
    0.01592
    """

    name: str
    loss: float
    difference: float
    spread: float
    std_error: float

    def reach(self, z: float) -> float:
        """
        Upper end of its bracket.

        Parameters
        ----------
        z : float
            Normal quantile.

        Returns
        -------
        float
            ``LD + 2V + z·se``.
        """
        return self.difference + 2.0 * self.spread + z * self.std_error


@dataclass(frozen=True)
class Role:
    """
    What kind of number a term is, and so what can be said about it (docs/statistics.md).

    Attributes
    ----------
    below, above : bool
        Whether the spread of the level at the term's own step lowers its lower end, and that of the next level
        raises its upper end.
    nonnegative : bool
        Whether intervals are cut at 0.
    conditional : bool
        Whether its interval holds only for the class of laws that was fitted.
    no_lower, no_upper : str
        Why a bound cannot exist; empty if it can.

    Examples
    --------
    >>> ROLES["reliability"].nonnegative
    True
    """

    below: bool = False
    above: bool = False
    nonnegative: bool = False
    conditional: bool = False
    no_lower: str = ""
    no_upper: str = ""


_NO_DATA = (
    "a finer law could always explain more, and no data set can rule that out without assumptions (Lee & Barber 2021)"
)
_IN_SAMPLE = "the law was fitted on these same rows, so their variation says nothing about its noise"

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
    A term as a linear function of steps, spreads and divergences.

    Parameters
    ----------
    form : str
        One of `FORMS`.
    step : int
        Index of the term; `levels` itself means the residual of the plug-in form.
    levels : int
        Number of levels of the chain.

    Returns
    -------
    dict of int to float
        Nonzero coefficients by component: steps first, then spreads, then divergences.

    Examples
    --------
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

    Attributes
    ----------
    mean : array of shape (c,)
        Mean of each component.
    covariance : array of shape (c, c)
        Covariance of the means; a function is called for it when it is first asked for.

    Examples
    --------
    >>> moments = Moments.of(np.array([[1.0, 3.0]]), np.zeros((1, 2)), None, None)
    >>> moments.mean, round(moments.std_error({0: 1.0}), 6)
    (array([2., 0.]), 0.707107)
    """

    mean: FloatArray
    _covariance: FloatArray | Callable[[], FloatArray]

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
        Moments of the components of the rows at hand.

        Parameters
        ----------
        losses : array of shape (levels, n)
            Loss of every level; the components are its steps.
        extras : array of shape (e, n)
            Spreads and, under plug-in, divergences: components as they are.
        weight : array of shape (n,) or None
            Weights; rows of weight zero are absent.
        groups : integer array of shape (n,) or None
            Clusters: rows of the same code are not independent.
        population : bool, default=False
            The rows are the whole population: there is no sampling error.

        Returns
        -------
        Moments
            With ``Σw²(r−r̄)²/(Σw)²`` on the diagonal, cluster-robust if `groups` is given; NaN for a
            component that is not finite, or if there is only one row or cluster.
        """
        size = losses.shape[0] + extras.shape[0]
        total = float(losses.shape[1]) if weight is None else float(weight.sum())
        mean = np.zeros(size)
        with np.errstate(invalid="ignore"):
            for part, share, _ in _blocks(losses, extras, weight, groups):
                mean += (part * (share / total)).sum(axis=1)
            if population:
                return cls(mean, np.zeros((size, size)))
            covariance = np.zeros((size, size))
            clusters = None if groups is None else np.zeros((size, int(groups.max()) + 1))
            for part, share, codes in _blocks(losses, extras, weight, groups):
                centred = (part - mean[:, None]) * (share / total)
                if clusters is None or codes is None:
                    covariance += centred @ centred.T
                else:
                    for line, sums in zip(centred, clusters, strict=True):
                        np.add.at(sums, codes, line)
            if clusters is not None:
                covariance = clusters @ clusters.T
        return cls(mean, covariance if _units(losses.shape[1], weight, groups) > 1 else covariance * np.nan)

    def value(self, term: Coefficients) -> float:
        """
        Mean of a linear function of the components.

        Parameters
        ----------
        term : mapping of int to float
            Coefficients by component.

        Returns
        -------
        float
            Its mean.
        """
        return sum((c * float(self.mean[i]) for i, c in term.items()), 0.0)

    def std_error(self, term: Coefficients) -> float:
        """
        Standard error of a linear function of the components.

        Parameters
        ----------
        term : mapping of int to float
            Coefficients by component.

        Returns
        -------
        float
            Its standard error, NaN if undefined.
        """
        index = list(term)
        c = np.array([term[i] for i in index])
        variance = c @ self.covariance[np.ix_(index, index)] @ c
        return float(np.sqrt(np.maximum(variance, 0.0)))


#: Rows per block of `_blocks`: a block of some ten components stays in cache.
_STEP = 1 << 13


def _blocks(
    losses: FloatArray, extras: FloatArray, weight: FloatArray | None, groups: IntArray | None
) -> Iterator[tuple[FloatArray, FloatArray, IntArray | None]]:
    """Components, weights and clusters of some rows at a time; rows of weight zero are absent, whatever they hold."""
    for start in range(0, losses.shape[1], _STEP):
        rows = slice(start, start + _STEP)
        part = np.concatenate([steps(losses[:, rows]), extras[:, rows]])
        codes = None if groups is None else groups[rows]
        if weight is None:
            yield part, np.ones(part.shape[1]), codes
            continue
        held = weight[rows] > 0
        yield part[:, held], weight[rows][held], None if codes is None else codes[held]


def _units(n: int, weight: FloatArray | None, groups: IntArray | None) -> int:
    """Number of independent rows or clusters that have weight."""
    if groups is None:
        return n if weight is None else int(np.count_nonzero(weight))
    return int(np.unique(groups if weight is None else groups[weight > 0]).size)


def steps(losses: FloatArray) -> FloatArray:
    """
    Loss of each level minus that of the next, and the loss of the last: the telescoping sum of the chain theorems.

    Parameters
    ----------
    losses : array of shape (levels, n)
        Losses.

    Returns
    -------
    array of shape (levels, n)
        Steps, which add up to the first line.

    Examples
    --------
    >>> steps(np.array([[3.0], [2.5], [1.0]])).ravel()
    array([0.5, 1.5, 1. ])
    """
    out = losses.copy()
    with np.errstate(invalid="ignore"):
        out[:-1] -= losses[1:]
    return out


def quantile(level: float, *, two_sided: bool) -> float:
    """
    Normal quantile of a confidence level.

    Parameters
    ----------
    level : float
        Confidence level.
    two_sided : bool
        Whether the error is split between two ends.

    Returns
    -------
    float
        For example 1.96 or 1.645 at 95 %.

    Examples
    --------
    >>> round(quantile(0.95, two_sided=True), 4), round(quantile(0.95, two_sided=False), 4)
    (1.96, 1.6449)
    """
    return NormalDist().inv_cdf(0.5 + level / 2.0 if two_sided else level)


def bca(estimate: float, replicates: FloatArray, influence: FloatArray, level: float) -> Interval:
    """
    Bias-corrected and accelerated bootstrap interval (Efron 1987).

    Parameters
    ----------
    estimate : float
        The term.
    replicates : array of shape (B,)
        The term on resampled rows.
    influence : array of shape (units,)
        Influence of every row or cluster, up to a factor: their skewness is the acceleration.
    level : float
        Confidence level.

    Returns
    -------
    Interval
        NaN where the replicates are not finite, or all on one side of the estimate.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=4001)
    >>> interval = bca(float(np.median(draws)), draws, np.array([-1.0, 0.0, 1.0]), 0.95)
    >>> round(interval.low, 1), round(interval.high, 1)
    (-1.9, 2.0)
    """
    normal, size = NormalDist(), replicates.size
    share = float((replicates < estimate).sum() + 0.5 * (replicates == estimate).sum()) / size
    if not np.isfinite(replicates).all() or not 0.0 < share < 1.0:  # the estimate lies outside all replicates
        return Interval(np.nan, np.nan, level, "bca")
    bias = normal.inv_cdf(share)
    centred = influence - influence.mean()
    square = float((centred**2).sum())
    skew = float((centred**3).sum()) / (6.0 * square**1.5) if square > 0.0 else 0.0

    def point(z: float) -> float:
        moved = bias + (bias + z) / (1.0 - skew * (bias + z))
        return float(np.quantile(replicates, normal.cdf(moved)))

    z = quantile(level, two_sided=True)
    return Interval(point(-z), point(z), level, "bca")


def tail(z: float) -> float:
    """
    P(Z > z) of a standard normal variable, to full precision far out.

    Parameters
    ----------
    z : float
        A statistic.

    Returns
    -------
    float
        One-sided p-value.

    Examples
    --------
    >>> round(tail(1.6448536269514722), 6), tail(10.0) > 0
    (0.05, True)
    """
    return 0.5 * math.erfc(z / math.sqrt(2.0))


@dataclass(frozen=True)
class TermInference:
    """
    Intervals and bounds of one term.

    `step` is the index of the term in its chain, `sign` is −1 for a term that is subtracted (resolution).

    Examples
    --------
    >>> moments = Moments(np.array([0.03, 0.2, 0.0, 0.01]), np.diag([1e-4, 1e-4, 0.0, 0.0]))
    >>> round(TermInference("reliability", "reliability", 0, 1, 2, moments).lower_bound(0.95).value, 4)
    0.0136
    """

    name: str
    role: str
    step: int
    sign: int
    levels: int
    moments: Moments

    def _difference(self) -> tuple[float, float]:
        """The loss difference LD and its standard error."""
        combination = coefficients("difference", self.step, self.levels)
        rows = {i: self.sign * c for i, c in combination.items()}
        return self.moments.value(rows), self.moments.std_error(rows)

    def _spreads(self) -> tuple[float, float]:
        """How far the noise of the fitted laws may have moved LD up, and down."""
        role = ROLES[self.role]
        own = self.moments.value({self.levels + self.step: 1.0}) if role.below else 0.0
        following = self.moments.value({self.levels + self.step + 1: 1.0}) if role.above else 0.0
        return (own, following) if self.sign > 0 else (following, own)

    def _cut(self, value: float) -> float:
        return float(np.maximum(value, 0.0)) if ROLES[self.role].nonnegative else value

    def require_interval(self) -> None:
        """Refuse an interval for a law that was fitted on the rows it is judged by."""
        self._require(ROLES[self.role].no_lower == _IN_SAMPLE, "interval", _IN_SAMPLE)

    def reach(self, level: float) -> float:
        """
        Upper end of the bracket before it is cut at 0.

        Parameters
        ----------
        level : float
            Confidence level.

        Returns
        -------
        float
            ``LD + 2V_next + z·se``; negative if the next level predicts worse, beyond chance.
        """
        (difference, error), (_, down) = self._difference(), self._spreads()
        return difference + 2 * down + quantile(level, two_sided=True) * error

    def bracket(self, level: float) -> Interval:
        """
        Interval ``[LD − 2V_own − z·se, LD + 2V_next + z·se]`` that allows for the noise of fitted laws.

        Parameters
        ----------
        level : float
            Confidence level.

        Returns
        -------
        Interval
            Cut at 0 for a reliability.
        """
        (difference, error), (up, _) = self._difference(), self._spreads()
        low = difference - 2 * up - quantile(level, two_sided=True) * error
        label = "bracket, conditional on the reference class" if ROLES[self.role].conditional else "bracket"
        return Interval(self._cut(low), self._cut(self.reach(level)), level, label)

    def lower_statistic(self) -> tuple[float, float]:
        """
        The statistic behind the lower bound, and its standard error.

        Returns
        -------
        tuple of float
            ``LD − V_own``, which the term exceeds in expectation, and the standard error of LD.
        """
        (difference, error), (up, _) = self._difference(), self._spreads()
        return difference - up, error

    def lower_bound(self, level: float) -> Bound:
        """
        One-sided lower bound ``LD − V_own − z·se``.

        Parameters
        ----------
        level : float
            Confidence level.

        Returns
        -------
        Bound
            Cut at 0 for a reliability.
        """
        self._require(bool(ROLES[self.role].no_lower), "lower bound", ROLES[self.role].no_lower)
        shift, error = self.lower_statistic()
        return Bound(self._cut(shift - quantile(level, two_sided=False) * error), level)

    def upper_bound(self, level: float) -> Bound:
        """
        One-sided upper bound ``LD + 2V_next + z·se``.

        Parameters
        ----------
        level : float
            Confidence level.

        Returns
        -------
        Bound
            Cut at 0 for a reliability.
        """
        self._require(bool(ROLES[self.role].no_upper), "upper bound", ROLES[self.role].no_upper)
        (difference, error), (_, down) = self._difference(), self._spreads()
        return Bound(self._cut(difference + 2 * down + quantile(level, two_sided=False) * error), level)

    def _require(self, missing: bool, what: str, why: str) -> None:
        """Refuse what cannot be had, with the reason and the way out."""
        if not missing:
            return
        if why == _IN_SAMPLE:
            remedy = "Decompose with laws fitted out of sample instead."
        else:
            other = "upper" if what == "lower bound" else "lower"
            remedy = (
                f"Use interval({self.name!r}), which is conditional on the reference class, "
                f"or {other}_bound({self.name!r})."
            )
        raise UnavailableError(f"{self.name!r} has no {what}: {why}. {remedy}")
