"""Curves of gaps: of bins, of a smoother in sample or cross-fitted, and of a Gaussian kernel (smooth ECE).

A *curve* is a list of places, each with a mass and the gap between the event rate and the score there: bins, points of
a smoother or of a grid. Metrics of calibration are norms of the gaps.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from scoreprism._core.checks import parse_choice, parse_count, refuse
from scoreprism._core.numerics import WITHIN
from scoreprism._core.resampling import Streams
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._fitting.crossfit import make_crossfit
from scoreprism._kernels.bins import even_codes
from scoreprism._kernels.isotonic import pool_ties, run_starts
from scoreprism._kernels.local_regression import LocalRegression, pool_neighbours
from scoreprism._sample.fit_rows import FitRows
from scoreprism.calibrators import CALIBRATORS, Calibrator, get_calibrator
from scoreprism.exceptions import ScoreOrderWarning, ScoreprismWarning
from scoreprism.metrics._rows import Rows, Units, pick_top_label, split_classes


@dataclass(frozen=True)
class Profile:
    """Gaps (event rate minus score) of places, and the masses of the places, which sum to one."""

    gap: FloatArray
    mass: FloatArray


class GapCurve(ABC):
    """Gaps as a function of the weights of the rows."""

    rows: Rows
    label: str  # description of the curve

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

    def bound_missing(self, tail: float) -> float:
        """Bound on Σ m|change| of the gaps if the outcomes that no row has had occurred."""
        return self.rows.bound_unseen(tail)

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
        """Gaps of each resample minus those of the units, shape (count, places); those of the last seed are kept."""
        cache: dict[Streams, FloatArray] = self.__dict__.setdefault("_noise", {})
        if streams not in cache:
            cache.clear()
        known = cache.get(streams)
        if known is None or len(known) < count:
            first = 0 if known is None else len(known)
            more = self.resample(self.units.weight * self.units.draw(streams(b)) for b in range(first, count))
            cache[streams] = more if known is None else np.concatenate([known, more])
        return cache[streams][:count]

    def resample(self, weights: Iterable[FloatArray]) -> FloatArray:
        """Gaps under each of many weights of the units, minus those of the units."""
        estimate, gaps = self.pooled
        return np.array([gaps(weight) - estimate.gap for weight in weights])


@dataclass(eq=False)
class JoinedCurve(GapCurve):
    """The curves of several classes on the same rows as one curve; `shares` are their shares of the mass."""

    rows: Rows
    curves: Sequence[GapCurve]
    shares: Sequence[float]
    picks: Sequence[IntArray]  # rows of each curve, in its order
    label: str

    def exact(self) -> Profile:
        parts = [curve.profile for curve in self.curves]
        mass = np.concatenate([part.mass * share for part, share in zip(parts, self.shares, strict=True)])
        return Profile(np.concatenate([part.gap for part in parts]), mass)

    def bound_missing(self, tail: float) -> float:
        return sum(share * curve.bound_missing(tail) for curve, share in zip(self.curves, self.shares, strict=True))

    def row_sizes(self, order: int) -> FloatArray | None:
        row_sizes = [curve.row_sizes(order) for curve in self.curves]
        sizes = [part for part in row_sizes if part is not None]
        return np.asarray(np.array(self.shares) @ sizes) if len(sizes) == len(row_sizes) else None

    @property
    def units(self) -> Units:
        return self.rows.unordered_units

    def places(self) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        places = [curve.places() for curve in self.curves]
        mass = np.concatenate([m * share for (m, _), share in zip(places, self.shares, strict=True)])

        def gaps(weight: FloatArray) -> FloatArray:
            return np.concatenate([g(weight[pick]) for (_, g), pick in zip(places, self.picks, strict=True)])

        return mass, gaps


def join_classes(rows: Rows, make: Callable[[Rows], GapCurve]) -> JoinedCurve:
    """The curves of every class against the rest, with equal shares of the mass."""
    parts = split_classes(rows)
    curves, shares = [make(part) for part in parts], [1.0 / rows.k] * rows.k
    label = f"{curves[0].label}; mean over {rows.k} classes"
    return rows.remember(
        ("classwise", curves[0]), lambda: JoinedCurve(rows, curves, shares, [p.order for p in parts], label)
    )


def join_predicted_classes(rows: Rows, n_bins: object, strategy: object) -> JoinedCurve:
    """Bins of the largest probability within the rows of each predicted class, each with its share of the weight."""
    binning = Binning.of(n_bins, strategy, rows)

    def make() -> JoinedCurve:
        top, best = pick_top_label(rows)
        members = [np.flatnonzero(best == k) for k in np.unique(best)]
        weights = [None if rows.weight is None else rows.weight[i] for i in members]
        parts = [Rows(top.law[i], top.y[i], weight, pool=False) for i, weight in zip(members, weights, strict=True)]
        curves, shares = [BinCurve(part, binning) for part in parts], [float(rows.share[i].sum()) for i in members]
        picks = [i[part.order] for i, part in zip(members, parts, strict=True)]
        return JoinedCurve(rows, curves, shares, picks, f"{binning} within each of {len(members)} predicted classes")

    return rows.remember(("top-label", binning), make)


# ── smoothers ──────────────────────────────────────────────────────────────────────────────────────────

#: Named smoothers; every name in `calibrators.CALIBRATORS` is one too.
SMOOTHERS = {"loess": LocalRegression(), "lowess": LocalRegression(degree=1, span=2.0 / 3.0)}
STRATEGIES = ("uniform", "quantile")
#: Places at which a curve is evaluated in each resample, and cells in which its rows are pooled there.
_PLACES, _CELLS = 96, 256
#: Points of the density-weighted score on [0, 1].
_GRID = 100

#: A function of scores, outcomes, weights and points that returns the fitted curve at the points.
Fit = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]


def parse_smoother(smoother: object) -> tuple[Any, str]:
    """A local regression or a calibrator, and its label."""
    if isinstance(smoother, LocalRegression):
        return smoother, str(smoother)
    if isinstance(smoother, Calibrator):
        return smoother, type(smoother).__name__
    name = parse_choice(smoother, [*SMOOTHERS, *CALIBRATORS], "smoother")
    if name in SMOOTHERS:
        return SMOOTHERS[name], f"{name}: {SMOOTHERS[name]}"
    return get_calibrator(name), f"calibrator {name}"


def get_fit(smoother: Any) -> Fit:
    """The fit function of a smoother."""
    if isinstance(smoother, LocalRegression):
        return smoother.fit_at

    def fit(x: FloatArray, y: FloatArray, weight: FloatArray, at: FloatArray) -> FloatArray:
        has_weight = weight > 0.0
        x, codes, weight = x[has_weight], y[has_weight].astype(np.intp), weight[has_weight]
        equal = bool((weight == weight[0]).all())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreOrderWarning)  # `Sample` has warned already
            fitted = clone(smoother).fit(x, codes, None if equal else weight)
        return np.asarray(fitted.calibrate(at))

    return fit


def get_refit(smoother: Any) -> Fit:
    """The fit function for resamples, in which only one outcome may occur."""
    fit = get_fit(smoother)
    if isinstance(smoother, LocalRegression):
        return fit

    def refit(x: FloatArray, y: FloatArray, weight: FloatArray, at: FloatArray) -> FloatArray:
        outcomes = y[weight > 0.0]
        if outcomes.size == 0 or outcomes.min() == outcomes.max():  # a calibrator would refuse it
            return np.full(at.size, float(outcomes[0]) if outcomes.size else 0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)  # the fit on all rows has warned already
            return fit(x, y, weight, at)

    return refit


def make_smooth_curve(rows: Rows, smoother: object, cv: object, *, on_grid: bool = False) -> SmoothCurve:
    """The curve of a smoother, shared by the metrics of a table."""

    def make() -> SmoothCurve:
        fit, label = parse_smoother(smoother)
        label += "" if cv is None else f", cross-fitted (cv={cv})"
        label += "; density-weighted grid" if on_grid else ""
        return SmoothCurve(rows, fit, label, _assign_folds(rows, cv), on_grid)

    # names and numbers are cached by value, any other object by identity
    smoother_key = smoother if isinstance(smoother, str) else id(smoother)
    folds = cv if isinstance(cv, int) or cv is None else id(cv)
    return rows.remember(("smooth", smoother_key, folds, on_grid), make)


def _assign_folds(rows: Rows, cv: object) -> IntArray | None:
    """The fold of every row; random folds are drawn with seed 0."""
    if cv is None:
        return None
    plan = make_crossfit(cv, FitRows(rows.law, rows.y, rows.weight, 2, "probability"), None, 0)
    if not plan.whole:
        missing = int((plan.home < 0).sum())
        refuse("`cv` must test every row", f"{missing} rows that no split tests", "Use K folds, for example `cv`=5.")
    return plan.home


@dataclass(eq=False)
class SmoothCurve(GapCurve):
    """Gaps of a smoother, fitted on all rows or, with folds, on the rows of the other folds."""

    rows: Rows
    smoother: Any
    label: str
    fold: IntArray | None = None
    on_grid: bool = False

    def exact(self) -> Profile:
        rows, fit = self.rows, get_fit(self.smoother)
        x, y = rows.law, rows.y.astype(np.float64)
        if self.on_grid:
            at, mass = make_density_grid(x, rows.share)
            return Profile(fit(x, y, rows.plain, at) - at, mass)
        return Profile(_fit_in_folds(fit, x, y, rows.plain, self.fold) - x, rows.share)

    def places(self) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        units, fit = self.units, get_refit(self.smoother)
        if self.fold is not None:
            return self._folded_places(fit)
        if self.on_grid:
            at, mass = make_density_grid(self.rows.law, self.rows.share)
        else:
            at, mass = _choose_places(units.score, units.weight * units.size)
        if isinstance(self.smoother, LocalRegression):
            return mass, _fit_pools(self.smoother, units.score, units.y, at)
        return mass, lambda weight: fit(units.score, units.y, weight, at) - at

    def _folded_places(self, fit: Fit) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        """Gaps of the rows averaged over neighbours; copies of a row stay in its fold."""
        rows, order = self.rows, self.rows.order
        x, y, fold = rows.law[order], rows.y[order].astype(np.float64), np.asarray(self.fold)[order]
        mass = rows.plain[order]
        starts = _cut_runs(x, mass)
        total = np.add.reduceat(mass, starts)

        def gaps(weight: FloatArray) -> FloatArray:
            gap = _fit_in_folds(fit, x, y, weight, fold) - x
            return np.asarray(np.add.reduceat(mass * gap, starts) / total)

        return total / total.sum(), gaps

    @property
    def units(self) -> Units:
        return self.rows.units if self.fold is None else self.rows.row_units

    def row_sizes(self, order: int) -> FloatArray | None:
        return None if self.on_grid else np.asarray(np.abs(self.profile.gap) ** order)


def _fit_in_folds(fit: Fit, x: FloatArray, y: FloatArray, weight: FloatArray, fold: IntArray | None) -> FloatArray:
    """The curve at the scores of its rows; with folds, fitted on the rows of the others."""
    if fold is None:
        return fit(x, y, weight, x)
    out = np.empty(x.size)
    for number in range(int(fold.max()) + 1):
        test = fold == number
        out[test] = fit(x[~test], y[~test], weight[~test], x[test])
    return out


def _cut_runs(x: FloatArray, mass: FloatArray) -> IntArray:
    """First row of each run of neighbours with about equal shares of the mass; ties stay together."""
    first = run_starts(x)
    before = (np.cumsum(mass) - mass)[first]
    place = np.minimum(before * (_PLACES / mass.sum()) * WITHIN, _PLACES - 1).astype(np.intp)
    return np.asarray(first[np.append(True, np.diff(place) > 0)])


def _choose_places(x: FloatArray, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean score and mass of runs of neighbours; the two extreme scores are added without mass, for the largest gap."""
    starts = _cut_runs(x, mass)
    total = np.add.reduceat(mass, starts)
    at = np.concatenate([x[:1], np.add.reduceat(mass * x, starts) / total, x[-1:]])
    return at, np.concatenate([[0.0], total / total.sum(), [0.0]])


def _fit_pools(
    local: LocalRegression, x: FloatArray, y: FloatArray, at: FloatArray
) -> Callable[[FloatArray], FloatArray]:
    """A local regression as a function of weights, with rows pooled in cells whose scores stay fixed."""
    centre, _, _ = pool_neighbours(*pool_ties(x, y), _CELLS)
    edges = 0.5 * (centre[1:] + centre[:-1])
    cell = np.searchsorted(edges, x)

    def gaps(weight: FloatArray) -> FloatArray:
        mass: FloatArray = np.bincount(cell, weight, centre.size).astype(np.float64)
        events: FloatArray = np.bincount(cell, weight * y, centre.size).astype(np.float64)
        # no gap of probabilities exceeds 1, but a polynomial extrapolated over a hole in resampled scores may
        return np.clip(local.fit_sums(centre, mass, events, at) - at, -1.0, 1.0)

    return gaps


def make_density_grid(x: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """
    Points of an even grid of [0, 1] within the scores, and the density of the scores there, summing to one.

    A Gaussian kernel with R's default bandwidth 0.9·min(sd, IQR/1.34)·n^(−1/5), as ``density(scores, from=0, to=1,
    n=100)`` without its binning; n is the number of rows that equal weights would need, (Σw)²/Σw².
    """
    grid = np.linspace(0.0, 1.0, _GRID)
    grid = grid[(grid >= x.min()) & (grid <= x.max())]
    if grid.size == 0:
        refuse(
            f'`over`="density" must have scores on both sides of a point of the grid 0, 1/{_GRID - 1}, …, 1',
            f"scores from {x.min():.6g} to {x.max():.6g}",
            'Use `over`="sample".',
        )
    n = 1.0 / float((share**2).sum())
    width = _rule_of_thumb(x, share, n)
    order = np.argsort(x)
    cells = pool_neighbours(x[order], share[order], share[order], 4096) if x.size > 8192 else (x, share, share)
    mass = np.exp(-0.5 * ((grid[:, None] - cells[0]) / width) ** 2) @ cells[1]
    if not mass.sum() > 0.0:  # points far from every score
        mass = np.ones(grid.size)
    return grid, mass / mass.sum()


def _rule_of_thumb(x: FloatArray, share: FloatArray, n: float) -> float:
    """R's bw.nrd0, with R's fallbacks for scores that are all alike."""
    centre = float(share @ x)
    deviation = float(np.sqrt(share @ (x - centre) ** 2 * n / max(n - 1.0, 1.0)))
    order = np.argsort(x)
    if np.ptp(share) == 0.0:
        low, high = np.quantile(x, [0.25, 0.75])
    else:
        low, high = np.interp([0.25, 0.75], np.cumsum(share[order]) - 0.5 * share[order], x[order])
    spread = min(deviation, (high - low) / 1.34) or deviation or abs(float(x[0])) or 1.0
    return float(0.9 * spread * n ** (-0.2))


# ── bins ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Binning:
    """How scores are cut: (a, b] of equal width, with 0 in the first; or equal masses, ties together."""

    n_bins: int
    strategy: str

    @classmethod
    def of(cls, n_bins: object, strategy: object, rows: Rows) -> Binning:
        """Parse the options, and refuse more bins than rows."""
        count = parse_count(n_bins, "n_bins", 1)
        chosen = parse_choice(strategy, STRATEGIES, "strategy")
        if count > rows.n:
            refuse(
                "there must be at least as many rows as bins",
                f"{rows.n} rows and {count} bins",
                f"Pass `n_bins` of at most {rows.n}, better a tenth of it.",
            )
        return cls(count, chosen)

    def __str__(self) -> str:
        return f"{self.n_bins} bins of equal {'width' if self.strategy == 'uniform' else 'mass'}"

    def codes(self, x: FloatArray, rows: Rows) -> IntArray:
        """The bin of every score."""
        if self.strategy == "uniform":
            return even_codes(x, self.n_bins)
        order = rows.order
        ranked, mass = x[order], rows.share[order]
        first = np.append(True, np.diff(ranked) > 0.0)
        before = (np.cumsum(mass) - mass)[first]
        bins = np.minimum((before + 1e-12) * self.n_bins, self.n_bins - 1).astype(np.intp)
        codes = np.empty(x.size, dtype=np.intp)
        codes[order] = bins[np.cumsum(first) - 1]
        return codes


#: Gaps of a resample, divided by the original mass, may exceed 1 in a bin that was drawn often; they are cut here.
_LARGEST = 10.0
#: Rows that are binned at a time, so that they stay in cache.
_STEP = 1 << 15


def make_bin_curve(rows: Rows, n_bins: object, strategy: object) -> BinCurve:
    """The curve of bins, shared by the metrics of a table."""
    binning = Binning.of(n_bins, strategy, rows)
    return rows.remember(binning, lambda: BinCurve(rows, binning))


@dataclass(eq=False)
class BinCurve(GapCurve):
    """Gaps of bins: mean outcome minus mean score of the rows in each."""

    rows: Rows
    binning: Binning
    label: str = field(init=False)

    def __post_init__(self) -> None:
        self.label = str(self.binning)

    def sums(self) -> FloatArray:
        """Weighted sum of y − s and weight of each bin, divided by the total weight; shape (2, bins)."""
        rows, m = self.rows, self.binning.n_bins
        if self.binning.strategy == "quantile":
            codes, share = self.codes, rows.share
            return np.stack([np.bincount(codes, share * (rows.y - rows.law), m), np.bincount(codes, share, m)])
        total = np.zeros((2, m))
        for start in range(0, rows.n, _STEP):
            part = slice(start, start + _STEP)
            codes = even_codes(rows.law[part], m)
            gap = rows.y[part] - rows.law[part]
            if rows.weight is None:
                total[0] += np.bincount(codes, gap, m)
                total[1] += np.bincount(codes, minlength=m)
            else:
                total[0] += np.bincount(codes, gap * rows.weight[part], m)
                total[1] += np.bincount(codes, rows.weight[part], m)
        return np.asarray(total / total[1].sum())

    @property
    def codes(self) -> IntArray:
        """The bin of every row."""
        return self.rows.remember(("codes", self.binning), lambda: self.binning.codes(self.rows.law, self.rows))

    def exact(self) -> Profile:
        gap, mass = self.sums()
        return Profile(gap / np.where(mass > 0.0, mass, 1.0), mass)

    def places(self) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        """Bins and their masses stay fixed: the gap of a resample is its sum divided by the original mass."""
        units, rows, m = self.units, self.rows, self.binning.n_bins
        if units.is_single:
            codes = self.codes[rows.order]
        elif self.binning.strategy == "uniform":
            codes = even_codes(units.score, m)
        else:
            highest = np.full(m, -np.inf)
            np.maximum.at(highest, self.codes, rows.law)
            codes = np.minimum(np.searchsorted(np.maximum.accumulate(highest), units.score), m - 1)
        weight = units.weight * units.size
        mass = np.bincount(codes, weight, m) / weight.sum()
        gap, safe = units.y - units.score, np.where(mass > 1e-200, mass, 1.0)

        def gaps(w: FloatArray) -> FloatArray:
            total = float(w.sum())  # 0 where none of the rows of a predicted class was drawn
            sums = np.bincount(codes, w * gap, m) / (total if total > 0.0 else 1.0)
            # a resample without the one row that has nearly all weight would show gaps of any size
            return np.asarray(np.clip(sums / safe, -_LARGEST, _LARGEST))

        return mass, gaps

    def variances(self, degrees: int) -> FloatArray:
        """
        Variance of the event rate of each bin, r(1 − r)/(n − degrees), with (Σw)²/Σw² for n; NaN where that is 0/0.

        uncertainty-calibration takes n − 1 for squared gaps and n for absolute ones (Kumar, Liang & Ma 2019).
        """
        rows, m, codes = self.rows, self.binning.n_bins, self.codes
        mass = np.bincount(codes, rows.share, m)
        safe = np.where(mass > 0.0, mass, 1.0)
        rate = np.bincount(codes, rows.share * rows.y, m) / safe
        squares = np.bincount(codes, rows.share**2, m)
        size = safe**2 / np.where(squares > 0.0, squares, 1.0) - degrees
        return np.where(size > 1e-9, rate * (1.0 - rate) / np.maximum(size, 1e-9), np.nan)


# ── a Gaussian kernel ────────────────────────────────────────────────────────────────────────────────


class Residuals:
    r"""
    Sums of y − s over the rows, as cosine coefficients :math:`c_k = \sum_i r_i\cos(\pi k s_i)`.

    A Gaussian kernel that is reflected at 0 and 1 multiplies them with :math:`e^{-(\pi k\sigma)^2/2}`. Rows are shared
    by the two points of the grid beside them, so that one transform serves every bandwidth.
    """

    def __init__(self, score: FloatArray, steps: int) -> None:
        self.steps = steps
        place = score * steps
        self.left = np.minimum(place.astype(np.intp), steps - 1)
        self.right = place - self.left

    def coefficients(self, residual: FloatArray) -> FloatArray:
        """Coefficients of residuals, each multiplied by its row's share of the weight."""
        up = residual * self.right
        sums = np.bincount(self.left, residual - up, self.steps + 1) + np.bincount(self.left + 1, up, self.steps + 1)
        inside = np.full(self.steps + 1, 0.5)
        inside[[0, -1]] = 1.0
        return _cosines(inside * sums)


def _cosines(values: FloatArray) -> FloatArray:
    """Σ_j values_j·cos(πjk/m), inner values counted twice: its own inverse up to a factor."""
    from scipy.fft import dct

    return np.asarray(dct(values, type=1))


def smooth(coefficients: FloatArray, bandwidth: float) -> FloatArray:
    """The smoothed residuals at the points of the grid."""
    frequency = math.pi * bandwidth * np.arange(coefficients.size)
    return _cosines(coefficients * np.exp(-0.5 * frequency**2))


def _weigh_grid(steps: int) -> FloatArray:
    """Weights of the points of a grid in its mean; the end points count half."""
    mass = np.full(steps + 1, 1.0 / steps)
    mass[[0, -1]] *= 0.5
    return mass


def find_fixed_point(coefficients: FloatArray) -> float:
    """The bandwidth equal to the mean absolute residual smoothed with it; unique, as that falls with the bandwidth."""
    mass = _weigh_grid(coefficients.size - 1)

    def excess(width: float) -> float:
        return float(np.abs(smooth(coefficients, width)) @ mass) - width

    (low, above), (high, below) = ((width, excess(width)) for width in (0.0, 1.0))
    last_moved = 0
    for _ in range(100):
        middle = low + (high - low) * above / (above - below) if above > 0.0 else 0.0
        gap = excess(middle)
        if abs(gap) <= 1e-13:  # the excess has slope −1 or less, so the fixed point is this near
            break
        if gap > 0.0:  # false position; the height of an end kept twice is halved (Illinois)
            low, above, below, last_moved = middle, gap, 0.5 * below if last_moved > 0 else below, 1
        else:
            high, below, above, last_moved = middle, gap, 0.5 * above if last_moved < 0 else above, -1
    return middle


#: Steps of the grid of [0, 1] on which an estimate is computed, and the fewest for resamples.
_STEPS, _FEWEST = 4096, 128
#: Steps of a resample's grid in one bandwidth.
_FINE = 16.0


@dataclass(eq=False)
class ResidualCurve(GapCurve):
    """Smoothed residuals of the rows on a grid, at one bandwidth."""

    rows: Rows
    bandwidth: float | None = None
    label: str = field(init=False)

    def __post_init__(self) -> None:
        own = ", its own value" if self.bandwidth is None else ""
        self.label = f"Gaussian kernel reflected at 0 and 1, bandwidth {self.width:.4g}{own}"

    @cached_property
    def whole(self) -> FloatArray:
        """Coefficients of all rows."""
        rows = self.rows
        return Residuals(rows.law, _STEPS).coefficients(rows.share * (rows.y - rows.law))

    @cached_property
    def value(self) -> float:
        """The metric; it is also the bandwidth unless one was given."""
        if self.bandwidth is None:
            return find_fixed_point(self.whole)
        return float(np.abs(smooth(self.whole, self.bandwidth)) @ _weigh_grid(_STEPS))

    @property
    def width(self) -> float:
        """The bandwidth."""
        return self.value if self.bandwidth is None else self.bandwidth

    def exact(self) -> Profile:
        return Profile(smooth(self.whole, self.width), _weigh_grid(_STEPS))

    def places(self) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        units = self.units
        needed = _FINE / max(self.width, _FINE / _STEPS)
        steps = min(max(2 ** math.ceil(math.log2(needed)), _FEWEST), _STEPS)
        grid, residual = Residuals(units.score, steps), units.y - units.score

        def gaps(weight: FloatArray) -> FloatArray:
            return smooth(grid.coefficients(residual * (weight / weight.sum())), self.width)

        return _weigh_grid(steps), gaps
