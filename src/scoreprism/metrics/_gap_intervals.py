"""Intervals of norms of gaps: by resampling the rows and, for smoothed metrics, valid for any shape of C.

A local regression cannot follow a jump or a wave, and its resamples do not show that. So smoothed metrics use the
library's own C. LCS is the reliability of the Brier loss, so its interval is that of the reliability. The mean of
|S − C| is at least what the side on which Ĉ lies, found on other rows, explains of it, and at most the root of LCS.
Quantiles of |S − C| are those of a tree of local shifts, fitted again on resamples. All of them are 0 for a calibrated
score: where a test of that does not reject, so is the lower end.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import islice

import numpy as np

from scoreprism._core.checks import parse_choice
from scoreprism._core.numerics import WITHIN
from scoreprism._core.resampling import Streams
from scoreprism._core.simplex import FloatArray
from scoreprism._core.workers import limit_threads
from scoreprism._fitting.chain_fit import ChainFit
from scoreprism._fitting.fitted_laws import CellFits, ScoreCells
from scoreprism._kernels.estimate_intervals import ONE_SIGMA, Absent, Inference
from scoreprism._kernels.term_intervals import Interval, quantile
from scoreprism._sample.batch import Batch
from scoreprism._sample.sample import Sample
from scoreprism.calibrators import TreeCalibrator
from scoreprism.decomposition import Decomposition
from scoreprism.exceptions import ScoreprismError, ScoreprismWarning
from scoreprism.losses import Brier
from scoreprism.metrics._estimate import Estimate
from scoreprism.metrics._gap_curves import GapCurve, Profile, ResidualCurve, find_fixed_point
from scoreprism.metrics._gap_norms import Norm, largest, mean_absolute, root_mean_square
from scoreprism.metrics._rows import Rows

ONE_ROW = Absent("one row has no variation", "Pass more rows.")
ONE_OUTCOME = Absent("one outcome only, and nothing says at which scores the other would occur", "Use ici or ece.")
#: How resamples become an interval.
GAP_INTERVALS = ("scaled", "hull", "basic", "percentile")
#: How intervals of smoothed metrics are made: for any shape of C, or by resampling the rows of the smoother.
SHAPE_INTERVALS = ("any-shape", *GAP_INTERVALS)
#: Resamples behind a standard error, and their seed.
_FEW, _SEED = 200, 0
#: Resamples of a tree that are fitted at once.
_AT_ONCE = 128


class GapInference(Inference):
    """
    Intervals of a norm of gaps, by resampling the rows.

    A norm of noisy gaps lies above the norm of the true ones, and its resamples lie above it in turn. "percentile"
    takes them as they are and "basic" reflects them. "scaled" asks which sizes of the gaps are compatible with the
    estimate: were the true gaps t times the estimated ones, the estimate would be a draw of the norm of t·gap + noise,
    with the noise of the resamples. The interval holds t·estimate for all t for which it is not an extreme draw;
    at its upper end this is relative to t = 0, so that an estimate below the noise does not shrink the interval.
    "hull" holds "scaled" and "percentile": quantiles and maxima of the gaps depend on a few places, and far from
    calibration gaps of another shape than the estimated ones miss them in ways that no t shows.

    Resamples of rows without an event have none: the interval is then widened by what the largest plausible probability
    of the outcome that did not occur could add to the norm.
    """

    def __init__(self, curve: GapCurve, norm: Norm, estimate: float, power: int = 1, default: str = "scaled") -> None:
        self.curve, self.norm, self.estimate, self.power, self.default = curve, norm, estimate, power, default

    def _replicate(self, count: int, random_state: object) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gaps and masses of the units, and the noise of the resamples."""
        pooled, _ = self.curve.pooled
        return pooled.gap, pooled.mass, self.curve.noise(count, Streams.of(random_state))

    @cached_property
    def std_error(self) -> float:
        gap, mass, noise = self._replicate(_FEW, _SEED)
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
        """What the outcome that did not occur could add to the norm."""
        moved = self.curve.bound_missing(tail)
        return 0.0 if moved == 0.0 or self.norm.reach is None else self.norm.reach(moved, mass)

    @limit_threads()  # products of a resample are small: waking other threads costs more
    def interval(self, confidence_level: float, n_resamples: int, random_state: object, method: str | None) -> Interval:
        chosen = self.default if method is None else parse_choice(method, GAP_INTERVALS, "method")
        gap, mass, noise = self._replicate(n_resamples, random_state)
        tail = 0.5 * (1.0 - confidence_level)
        centre = float(self.norm(gap, mass))
        pairs = []
        if chosen in ("scaled", "hull"):
            low, high = self._scale_gaps(gap, mass, noise, centre, tail)
            more = quantile(confidence_level, two_sided=True) * self._mass_error
            down, up = (math.hypot(max(part, 0.0), more) for part in (self.estimate - low, high - self.estimate))
            pairs.append((self.estimate - down, self.estimate + up) if more > 0.0 else (low, high))
        if chosen != "scaled":
            low, high = np.quantile(self.norm(gap + noise, mass), [tail, 1.0 - tail]) - centre + self.estimate
            turned = 2.0 * self.estimate - high, 2.0 * self.estimate - low
            pairs.append(turned if chosen == "basic" else (low, high))
        reach = self._reach(tail, mass)
        low, high = min(low for low, _ in pairs) - reach, max(high for _, high in pairs) + reach
        ends = np.clip([low, high], 0.0, 1.0) ** self.power  # no gap of probabilities is longer than 1
        label = f"bootstrap, {chosen}" + (", widened for the outcome that did not occur" if reach > 0.0 else "")
        return Interval(float(ends[0]), float(ends[1]), confidence_level, label)

    def _scale_gaps(
        self, gap: FloatArray, mass: FloatArray, noise: FloatArray, centre: float, tail: float
    ) -> tuple[float, float]:
        """The ends of "scaled"."""
        if centre <= 1e-12:  # no direction in which the gaps could be longer
            return 0.0, float(np.quantile(self.norm(noise, mass), 1.0 - 2.0 * tail))

        def below(t: float) -> float:
            return float(self.norm.is_within(t * gap + noise, mass, centre * WITHIN).mean())

        none = max(below(0.0), 1.0 / noise.shape[0])
        low = 0.0 if 1.0 - none >= tail else _find_crossing(lambda t: 1.0 - below(t) >= tail, 0.0, 1.0)
        reach = 1.0
        while below(reach) >= tail * none and reach < 1e6:
            reach *= 2.0
        high = _find_crossing(lambda t: below(t) < tail * none, 0.0, reach)
        return low * self.estimate, max(high, low) * self.estimate


def _find_crossing(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition that fails at `low` and holds at `high` begins to hold, to 1e-9."""
    for _ in range(60):
        if high - low <= 1e-9 * max(high, 0.05):
            break
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return 0.5 * (low + high)


def estimate_norm(
    name: str, curve: GapCurve, norm: Norm, *, power: int = 1, default: str = "scaled", label: str | None = None
) -> Estimate:
    """A norm of the gaps of a curve, or its power, with its interval."""
    value = measure_size(curve, norm)
    inference = choose_inference(curve, norm, value, power, default)
    return Estimate(value**power, name, curve.label if label is None else label, inference)


def measure_size(curve: GapCurve, norm: Norm) -> float:
    """The norm of the gaps of all rows."""
    return float(norm(curve.profile.gap, curve.profile.mass))


def choose_inference(
    curve: GapCurve, norm: Norm, estimate: float, power: int = 1, default: str = "scaled"
) -> Inference:
    """The inference of a norm of gaps, or the reason why there is none."""
    if curve.rows.n == 1:
        return ONE_ROW
    if norm.reach is None:
        if curve.bound_missing(0.5) > 0.0:
            return ONE_OUTCOME
        rare = int(np.bincount(curve.rows.y).min())
        if rare < norm.least:
            return Absent(f"{rare} rows of the rarer outcome tell little about half of the scores", "Use ici or ece.")
    return GapInference(curve, norm, estimate, power, default)


class ResidualInference(GapInference):
    """
    Intervals of a smooth ECE.

    The fixed point of a resample is at most c if its residuals smoothed with the bandwidth c have a mean size of at
    most c. So "scaled" needs the bandwidth of the estimate only; an end is then the fixed point of the
    gaps that are t times as large. Resamples of the other methods keep the bandwidth of the estimate.
    """

    curve: ResidualCurve

    def _scale_gaps(
        self, gap: FloatArray, mass: FloatArray, noise: FloatArray, centre: float, tail: float
    ) -> tuple[float, float]:
        low, high = super()._scale_gaps(gap, mass, noise, centre, tail)
        if self.curve.bandwidth is not None or self.estimate <= 0.0 or centre <= 1e-12:
            return low, high
        whole = self.curve.whole / self.estimate
        return find_fixed_point(low * whole) if low > 0.0 else 0.0, find_fixed_point(high * whole)


def _decompose_brier(rows: Rows) -> Decomposition:
    """The Brier loss of the rows, decomposed; shared by the metrics of a table."""

    def make() -> Decomposition:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)  # they concern C, an intermediate result here
            chain = ChainFit.of(Sample(rows.y, {"model": rows.law}, np.arange(2), rows.weight)).fit()
            return chain.decompose_at(Brier(), "debiased", None)

    return rows.remember("brier laws", make)


class ShapeInference(Inference):
    """The interval for any shape of C; other methods resample the smoother."""

    def __init__(self, rows: Rows, inner: Inference, estimate: float, ends: Callable[..., tuple[float, float]]) -> None:
        self.rows, self.inner, self.estimate, self.ends = rows, inner, estimate, ends

    @property
    def std_error(self) -> float:
        return self.inner.std_error

    @limit_threads()
    def interval(self, confidence_level: float, n_resamples: int, random_state: object, method: str | None) -> Interval:
        chosen = "any-shape" if method is None else parse_choice(method, SHAPE_INTERVALS, "method")
        if isinstance(self.inner, Absent) or chosen != "any-shape":
            return self.inner.interval(
                confidence_level, n_resamples, random_state, None if chosen == "any-shape" else chosen
            )
        try:
            low, high = self.ends(self.rows, confidence_level, n_resamples, random_state)
        except ScoreprismError:  # too few rows, or one outcome: C cannot be fitted out of sample
            return self.inner.interval(confidence_level, n_resamples, random_state, None)
        return Interval(min(low, self.estimate), max(high, self.estimate), confidence_level, "any shape")


def bound_squared(rows: Rows, confidence_level: float, *_: object) -> tuple[float, float]:
    """Ends of the interval of E(S − C)²."""
    reliability = _decompose_brier(rows)._interval("reliability", confidence_level)
    return reliability.low, reliability.high


def _may_be_calibrated(rows: Rows, confidence_level: float) -> bool:
    """Whether the test of calibration does not reject."""
    pvalue = _decompose_brier(rows).calibration_pvalue
    return pvalue is not None and pvalue > 1.0 - confidence_level


def bound_absolute(rows: Rows, confidence_level: float, *_: object) -> tuple[float, float]:
    """
    Ends of the interval of E|S − C|.

    For any h between −1 and 1 chosen without the row itself, E h·(Y − S) is at most E|C − S|; h is the side
    on which C lies, found on other rows. The upper end is the root of that of E(S − C)².
    """
    chain = _decompose_brier(rows).chain
    fits = None if chain is None else chain.levels[1].fits
    assert isinstance(fits, CellFits)  # noqa: S101 - random folds of two classes
    side = np.sign(fits.mean_law - rows.law)
    gains = side * (rows.y - rows.law)
    error = math.sqrt(float(rows.share**2 @ (gains - rows.mean(gains)) ** 2))
    low = max(rows.mean(gains) - quantile(confidence_level, two_sided=True) * error, 0.0)
    high = math.sqrt(bound_squared(rows, confidence_level)[1])
    return 0.0 if _may_be_calibrated(rows, confidence_level) else low, high


class TreeCurve(GapCurve):
    """The gaps of a tree of local shifts, fitted on the rows themselves; resamples are fitted many at a time."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._cells = ScoreCells.of(self.units.score)
        self._whole = self._masses((self.units.weight * self.units.size)[None])

    def _masses(self, weights: FloatArray) -> FloatArray:
        """Weight of each outcome in each cell, (2, M, G)."""
        size = self._cells.center.size
        place = self.units.y.astype(np.intp) * size + self._cells.cell
        counts = [np.bincount(place, line, 2 * size).reshape(2, size) for line in weights]
        return np.stack(counts, axis=1).astype(np.float64)

    def _laws(self, masses: FloatArray) -> FloatArray:
        batch = Batch(self._cells.center, masses, self._whole[:, 0], self._cells.single)
        return TreeCalibrator()._fit_many(batch)

    def exact(self) -> Profile:
        mass = self._whole.sum(axis=(0, 1))
        return Profile(self._laws(self._whole)[0] - self._cells.center, mass / mass.sum())

    def places(self) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        return self.profile.mass, lambda weight: self._laws(self._masses(weight[None]))[0] - self._cells.center

    def resample(self, weights: Iterable[FloatArray]) -> FloatArray:
        lines, left = [], iter(weights)
        while some := list(islice(left, _AT_ONCE)):
            lines.append(self._laws(self._masses(np.stack(some))) - self._cells.center - self.profile.gap)
        return np.concatenate(lines)


def make_quantile_bounds(norm: Norm) -> Callable[..., tuple[float, float]]:
    """Ends of a quantile of |S − C| by resampling a tree of local shifts; the maximum is at least the mean."""

    def ends(rows: Rows, confidence_level: float, n_resamples: int, random_state: object) -> tuple[float, float]:
        curve = rows.remember("tree curve", lambda: TreeCurve(rows))
        hull = GapInference(curve, norm, measure_size(curve, norm), 1, "hull").interval(
            confidence_level, n_resamples, random_state, None
        )
        if _may_be_calibrated(rows, confidence_level):
            return 0.0, hull.high
        least = bound_absolute(rows, confidence_level)[0] if norm is largest else 0.0
        return max(hull.low, least), max(hull.high, least)

    return ends


def choose_bounds(norm: Norm) -> Callable[..., tuple[float, float]]:
    """The function that computes the ends of a norm of S − C from C itself."""
    return {mean_absolute: bound_absolute, root_mean_square: bound_squared}.get(norm) or make_quantile_bounds(norm)
