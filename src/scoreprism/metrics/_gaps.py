"""Gaps between scores and what happened: the functionals that are metrics of calibration, and their intervals.

A *curve* is a list of places, each with a mass and the gap between the event rate and the score there: bins, or points
of a smoother. ECE, ICI, Emax and the like are norms of the gaps. All of them are homogeneous: twice the gaps, twice the
metric.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice
from scoreprism._core.numerics import WITHIN
from scoreprism._core.resampling import Streams
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.term_intervals import Interval, quantile
from scoreprism.metrics._estimate import ONE_SIGMA, Absent, Estimate, Inference
from scoreprism.metrics._rows import Rows, Units

#: How resamples become an interval.
GAP_INTERVALS = ("scaled", "hull", "basic", "percentile")
#: Resamples behind a standard error, and their seed.
_FEW, _SEED = 200, 0
#: Rows of each outcome that the interval of a median gap needs.
_MEDIAN = 5
ONE_ROW = Absent("one row has no variation", "Pass more rows.")
ONE_OUTCOME = Absent("one outcome only, and nothing says at which scores the other would occur", "Use ici or ece.")


@dataclass(frozen=True)
class Profile:
    """Gaps (event rate minus score) of places, and the masses of the places, which sum to one."""

    gap: FloatArray
    mass: FloatArray


class Norm(ABC):
    """From gaps, one or many lines of them, and masses to the metric."""

    #: p of a mean of |g|^p; 0 for anything else.
    order = 0
    #: Rows of each outcome without which there is no interval.
    least = 1

    @abstractmethod
    def __call__(self, gap: FloatArray, mass: FloatArray) -> FloatArray:
        """The metric of each line."""

    def reach(self, moved: float, mass: FloatArray) -> float | None:
        """How far the metric can go when Σ m|change of g| ≤ `moved` and no gap moves by more than 1; None: anywhere."""
        return None


class _MeanAbsolute(Norm):
    """Σ m|g|."""

    order = 1

    def __call__(self, gap: FloatArray, mass: FloatArray) -> FloatArray:
        return np.asarray(np.abs(gap) @ mass)

    def reach(self, moved: float, mass: FloatArray) -> float | None:
        return moved


class _RootMeanSquare(Norm):
    """√Σ m g²."""

    order = 2

    def __call__(self, gap: FloatArray, mass: FloatArray) -> FloatArray:
        return np.asarray(np.sqrt(gap**2 @ mass))

    def reach(self, moved: float, mass: FloatArray) -> float | None:
        return math.sqrt(moved)  # the square of a change is at most the change


class _Largest(Norm):
    """Largest |g|."""

    def __call__(self, gap: FloatArray, mass: FloatArray) -> FloatArray:
        return np.asarray(np.abs(gap).max(axis=-1))


@dataclass(frozen=True)
class PlainMean(Norm):
    """Mean of |g| over places that have mass, each counted once; of `parts` of as many places, the mean of theirs."""

    parts: int = 1

    def _counts(self, mass: FloatArray) -> FloatArray:
        held = (mass > 0.0).reshape(self.parts, -1)
        return np.asarray((held / (self.parts * held.sum(axis=1, keepdims=True))).ravel())

    def __call__(self, gap: FloatArray, mass: FloatArray) -> FloatArray:
        return np.asarray(np.abs(gap) @ self._counts(mass))

    def reach(self, moved: float, mass: FloatArray) -> float | None:
        held = mass > 0.0
        return min(moved * float((self._counts(mass)[held] / mass[held]).max()), 1.0)


mean_absolute, root_mean_square, largest, plain_mean = _MeanAbsolute(), _RootMeanSquare(), _Largest(), PlainMean()


@dataclass(frozen=True)
class QuantileNorm(Norm):
    """The q-quantile of |g|: where the mass of smaller ones reaches q; the middle of two where it is exactly q."""

    q: float

    @property
    def least(self) -> int:  # type: ignore[override]
        """The median of a curve through one to three events is nearly that of none: docs/metrics.md."""
        return _MEDIAN if self.q <= 0.5 else 1

    def __call__(self, gap: FloatArray, mass: FloatArray) -> FloatArray:
        lines = np.atleast_2d(np.abs(gap))
        order = np.argsort(lines, axis=1)
        reached = np.cumsum(mass[order], axis=1)
        ranked = np.take_along_axis(lines, order, axis=1)
        at = (reached < self.q - 1e-12).sum(axis=1)
        after = np.minimum((reached < self.q + 1e-12).sum(axis=1), mass.size - 1)
        line = np.arange(lines.shape[0])
        found = 0.5 * (ranked[line, at] + ranked[line, after])
        return np.asarray(found if gap.ndim == 2 else found[0])


class Curve(ABC):
    """Gaps as a function of the weights of the rows."""

    rows: Rows

    @abstractmethod
    def exact(self) -> Profile:
        """The gaps of all rows."""

    @abstractmethod
    def places(self) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        """Masses of the places of the pooled problem, and their gaps as a function of the weights of the units."""

    @property
    def units(self) -> Units:
        """What is resampled."""
        return self.rows.units

    def missing(self, tail: float) -> float:
        """How far, in Σ m|change|, outcomes that no row has but may well be possible could have moved the gaps."""
        return self.rows.unseen(tail)

    def row_sizes(self, order: int) -> FloatArray | None:
        """|gap|^order of every row, where resamples keep the masses of the places; None where masses are resampled."""
        return None

    @cached_property
    def profile(self) -> Profile:
        """The gaps of all rows, computed once."""
        return self.exact()

    @cached_property
    def pooled(self) -> tuple[Profile, Callable[[FloatArray], FloatArray]]:
        """The gaps of the units, and how they depend on weights."""
        mass, gaps = self.places()
        return Profile(gaps(self.units.weight * self.units.size), mass), gaps

    def noise(self, count: int, streams: Streams) -> FloatArray:
        """How far the gaps of each resample lie from those of the units, shape (count, places); the last are kept."""
        kept: dict[Any, FloatArray] = self.__dict__.setdefault("_noise", {})
        if (count, streams) not in kept:
            kept.clear()
            weights = (self.units.weight * self.units.draw(streams(b)) for b in range(count))
            kept[count, streams] = self.draw_noise(weights)
        return kept[count, streams]

    def draw_noise(self, weights: Iterator[FloatArray]) -> FloatArray:
        """How far the gaps under these weights of the units lie from those of the units themselves."""
        estimate, gaps = self.pooled
        return np.array([gaps(weight) - estimate.gap for weight in weights])


class Joined(Curve):
    """Several curves on the same rows as one: those of the classes, with equal shares of the mass or their own."""

    def __init__(self, rows: Rows, curves: Sequence[Curve], shares: Sequence[float], picks: Sequence[Any]) -> None:
        self.rows, self.curves, self.shares, self.picks = rows, curves, shares, picks

    def exact(self) -> Profile:
        parts = [curve.profile for curve in self.curves]
        mass = np.concatenate([part.mass * share for part, share in zip(parts, self.shares, strict=True)])
        return Profile(np.concatenate([part.gap for part in parts]), mass)

    def missing(self, tail: float) -> float:
        return sum(share * curve.missing(tail) for curve, share in zip(self.curves, self.shares, strict=True))

    def row_sizes(self, order: int) -> FloatArray | None:
        found = [curve.row_sizes(order) for curve in self.curves]
        sizes = [part for part in found if part is not None]
        return np.asarray(np.array(self.shares) @ sizes) if len(sizes) == len(found) else None

    @cached_property
    def units(self) -> Units:
        return Units(np.zeros(self.rows.n), np.zeros(self.rows.n), self.rows.plain, np.ones(self.rows.n))

    def places(self) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        found = [curve.places() for curve in self.curves]
        mass = np.concatenate([m * share for (m, _), share in zip(found, self.shares, strict=True)])

        def gaps(weight: FloatArray) -> FloatArray:
            lines = [g(weight[pick]) for (_, g), pick in zip(found, self.picks, strict=True)]
            return np.concatenate(lines)

        return mass, gaps


class GapInference(Inference):
    """
    Intervals of a norm of gaps, by resampling the rows.

    A norm of noisy gaps lies above the norm of the true ones, and its resamples lie above it in turn. "percentile"
    takes them as they are and "basic" reflects them. "scaled" asks which sizes of the gaps are compatible with the
    estimate: were the true gaps t times the estimated ones, the estimate would be a draw of the norm of t·gap + noise,
    with the noise of the resamples. The interval holds the t·estimate of all t for which it is not an extreme draw;
    at its upper end that is asked relative to t = 0, so that an estimate below the noise does not shrink the interval.
    "hull" holds "scaled" and "percentile": quantiles of the gaps and their largest hang on a few places, and far from
    calibration gaps of another shape than the estimated ones miss them in ways that no t shows.

    Resamples of rows without an event have none: the interval is then widened by what the largest plausible probability
    of the outcome that did not occur could add to the norm.
    """

    def __init__(self, curve: Curve, norm: Norm, estimate: float, power: int = 1, default: str = "scaled") -> None:
        self.curve, self.norm, self.estimate, self.power, self.default = curve, norm, estimate, power, default

    def _replicates(self, count: int, random_state: object) -> tuple[FloatArray, FloatArray, FloatArray]:
        pooled, _ = self.curve.pooled
        return pooled.gap, pooled.mass, self.curve.noise(count, Streams.of(random_state))

    @cached_property
    def _error(self) -> float:
        gap, mass, noise = self._replicates(_FEW, _SEED)
        spread = float((self.norm(gap + noise, mass) ** self.power).std(ddof=1))
        reach = self._reach(ONE_SIGMA, mass)
        return math.hypot(spread, (self.estimate + reach) ** self.power - self.estimate**self.power)

    @cached_property
    def _mass_error(self) -> float:
        """Standard error of a mean of |gap|^p that comes from where the scores lie, with the curve held fixed."""
        order, rows = self.norm.order, self.curve.rows
        sizes = self.curve.row_sizes(order) if order else None
        if sizes is None or self.estimate <= 0.0:
            return 0.0
        error = float(np.sqrt(rows.share**2 @ (sizes - rows.mean(sizes)) ** 2))
        return error if order == 1 else 0.5 * error / self.estimate

    def _reach(self, tail: float, mass: FloatArray) -> float:
        moved = self.curve.missing(tail)
        return 0.0 if moved == 0.0 else self.norm.reach(moved, mass) or 0.0

    @property
    def std_error(self) -> float:
        return self._error

    def interval(self, level: float, n_resamples: int, random_state: object, method: str | None) -> Interval:
        chosen = parse_choice(self.default if method is None else method, GAP_INTERVALS, "method")
        gap, mass, noise = self._replicates(n_resamples, random_state)
        tail = 0.5 * (1.0 - level)
        centre = float(self.norm(gap, mass))
        found = []
        if chosen in ("scaled", "hull"):
            low, high = self._scaled(gap, mass, noise, centre, tail)
            more = quantile(level, two_sided=True) * self._mass_error
            down, up = (math.hypot(max(part, 0.0), more) for part in (self.estimate - low, high - self.estimate))
            found.append((self.estimate - down, self.estimate + up) if more > 0.0 else (low, high))
        if chosen != "scaled":
            low, high = np.quantile(self.norm(gap + noise, mass), [tail, 1.0 - tail]) - centre + self.estimate
            turned = 2.0 * self.estimate - high, 2.0 * self.estimate - low
            found.append(turned if chosen == "basic" else (low, high))
        reach = self._reach(tail, mass)
        low, high = min(low for low, _ in found) - reach, max(high for _, high in found) + reach
        ends = np.clip([low, high], 0.0, 1.0) ** self.power  # no gap of probabilities is longer than 1
        label = f"bootstrap, {chosen}" + (", widened for the outcome that did not occur" if reach > 0.0 else "")
        return Interval(float(ends[0]), float(ends[1]), level, label)

    def _scaled(
        self, gap: FloatArray, mass: FloatArray, noise: FloatArray, centre: float, tail: float
    ) -> tuple[float, float]:
        if centre <= 1e-12:  # no direction in which the gaps could be longer
            return 0.0, float(np.quantile(self.norm(noise, mass), 1.0 - 2.0 * tail))

        def below(t: float) -> float:
            return float((self.norm(t * gap + noise, mass) <= centre * WITHIN).mean())

        none = max(below(0.0), 1.0 / noise.shape[0])
        low = 0.0 if 1.0 - none >= tail else _crossing(lambda t: 1.0 - below(t) >= tail, 0.0, 1.0)
        reach = 1.0
        while below(reach) >= tail * none and reach < 1e6:
            reach *= 2.0
        high = _crossing(lambda t: below(t) < tail * none, 0.0, reach)
        return low * self.estimate, max(high, low) * self.estimate


def _crossing(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition that fails at `low` and holds at `high` begins to hold, to 1e-9."""
    for _ in range(60):
        if high - low <= 1e-9 * max(high, 0.05):
            break
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return 0.5 * (low + high)


def gap_estimate(name: str, curve: Curve, norm: Norm, method: str, power: int = 1, default: str = "scaled") -> Estimate:
    """A norm of the gaps of a curve, or its square, with its interval."""
    value = float(norm(curve.profile.gap, curve.profile.mass))
    return Estimate(value**power, name, method, gap_inference(curve, norm, value, power, default))


def gap_inference(curve: Curve, norm: Norm, estimate: float, power: int = 1, default: str = "scaled") -> Inference:
    """The interval of a norm of gaps, or why there is none."""
    if curve.rows.n == 1:
        return ONE_ROW
    if norm.reach(0.5, curve.profile.mass) is None:
        if curve.missing(0.5) > 0.0:
            return ONE_OUTCOME
        rare = int(np.bincount(curve.rows.y).min())
        if rare < norm.least:
            return Absent(f"{rare} rows of the rarer outcome tell little about half of the scores", "Use ici or ece.")
    return GapInference(curve, norm, estimate, power, default)
