"""Curves of gaps: a smoother in sample or cross-fitted, its version on a grid, and bins."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_choice, parse_count, refuse
from scoreprism._core.numerics import WITHIN
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.bins import even_codes
from scoreprism._kernels.local_regression import LocalRegression, _neighbours, pooled_ties
from scoreprism.exceptions import ScoreprismWarning
from scoreprism.metrics._gaps import Curve, Profile
from scoreprism.metrics._rows import Rows, Units

#: Smoothers with a name of their own; every name in `calibrators.CALIBRATORS` is one too.
SMOOTHERS = {"loess": LocalRegression(), "lowess": LocalRegression(degree=1, span=2.0 / 3.0)}
STRATEGIES = ("uniform", "quantile")
#: Places a curve is looked at in each resample, and neighbourhoods its rows are pooled in there.
_PLACES, _CELLS = 96, 256
#: Points of [0, 1] of the density-weighted score.
_GRID = 100

#: From scores, outcomes, weights and points to the values of a fitted curve.
Fit = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]


def parse_smoother(smoother: object) -> tuple[Any, str]:
    """A local regression or a calibrator, and what it is called."""
    if isinstance(smoother, LocalRegression):
        return smoother, str(smoother)
    if isinstance(smoother, str) and smoother in SMOOTHERS:
        return SMOOTHERS[smoother], f"{smoother}: {SMOOTHERS[smoother]}"
    from scoreprism.calibrators import CALIBRATORS, Calibrator, get_calibrator

    if isinstance(smoother, Calibrator):
        return smoother, type(smoother).__name__
    name = parse_choice(smoother, [*SMOOTHERS, *CALIBRATORS], "smoother")
    if name in SMOOTHERS:
        return parse_smoother(name)
    return get_calibrator(name), f"calibrator {name}"


def fitter(smoother: Any) -> Fit:
    """How a smoother is fitted."""
    if isinstance(smoother, LocalRegression):
        return smoother.fit_at
    from sklearn.base import clone

    def fit(x: FloatArray, y: FloatArray, weight: FloatArray, at: FloatArray) -> FloatArray:
        held = weight > 0.0
        equal = (weight[held] == weight[held][0]).all() if held.any() else True
        fitted = clone(smoother).fit(x[held], y[held].astype(np.intp), None if equal else weight[held])
        return np.asarray(fitted.calibrate(at))

    return fit


def refitter(smoother: Any) -> Fit:
    """
    How a smoother is fitted on a resample.

    One outcome only is its curve, which a calibrator would refuse; what a calibrator warns of it has said of the rows.
    """
    fit = fitter(smoother)
    if isinstance(smoother, LocalRegression):
        return fit

    def refit(x: FloatArray, y: FloatArray, weight: FloatArray, at: FloatArray) -> FloatArray:
        outcomes = y[weight > 0.0]
        if outcomes.size == 0 or outcomes.min() == outcomes.max():
            return np.full(at.size, float(outcomes[0]) if outcomes.size else 0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)
            return fit(x, y, weight, at)

    return refit


@dataclass(eq=False)
class SmoothCurve(Curve):
    """Gaps of a smoother: fitted on the rows it is looked at, or, with folds, on the others."""

    rows: Rows
    smoother: Any
    fold: IntArray | None = None
    on_grid: bool = False

    def exact(self) -> Profile:
        rows, fit = self.rows, fitter(self.smoother)
        x, y = rows.law, rows.y.astype(np.float64)
        if self.on_grid:
            at, mass = density_grid(x, rows.share)
            return Profile(fit(x, y, rows.plain, at) - at, mass)
        return Profile(self._fitted(fit, x, y, rows.plain, x, self.fold) - x, rows.share)

    def _fitted(
        self, fit: Fit, x: FloatArray, y: FloatArray, weight: FloatArray, at: FloatArray, fold: IntArray | None
    ) -> FloatArray:
        if fold is None:
            return fit(x, y, weight, at)
        out = np.empty(at.size)
        for number in range(int(fold.max()) + 1):
            test = fold == number
            out[test] = fit(x[~test], y[~test], weight[~test], at[test])
        return out

    def places(self) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        units, fit = self.units, refitter(self.smoother)
        mass = units.weight * units.size
        if self.on_grid:
            at, held = density_grid(self.rows.law, self.rows.share)
        else:
            at, held = _spots(units.score, mass)
        if self.fold is not None:
            return self._folded_places(fit)
        if isinstance(self.smoother, LocalRegression):
            return held, _pooled_fit(self.smoother, units.score, units.y, at)
        return held, lambda weight: fit(units.score, units.y, weight, at) - at

    def _folded_places(self, fit: Fit) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        """Gaps of the rows, averaged over neighbours: copies of a row stay in its fold."""
        rows, order = self.rows, self.rows.order
        x, y, fold = rows.law[order], rows.y[order].astype(np.float64), np.asarray(self.fold)[order]
        mass = rows.plain[order]
        starts = _starts(x, mass, _PLACES)
        held = np.add.reduceat(mass, starts)

        def gaps(weight: FloatArray) -> FloatArray:
            gap = self._fitted(fit, x, y, weight, x, fold) - x
            return np.asarray(np.add.reduceat(mass * gap, starts) / held)

        return held / held.sum(), gaps

    @property
    def units(self) -> Units:
        return self.rows.units if self.fold is None else self.rows.row_units

    def row_sizes(self, order: int) -> FloatArray | None:
        return None if self.on_grid else np.asarray(np.abs(self.profile.gap) ** order)


def _starts(x: FloatArray, mass: FloatArray, places: int) -> IntArray:
    """First of each run of neighbours: equal shares of the mass, ties together."""
    first = np.flatnonzero(np.append(True, np.diff(x) > 0.0))
    before = (np.cumsum(mass) - mass)[first]
    place = np.minimum(before * (places / mass.sum()) * WITHIN, places - 1).astype(np.intp)
    return np.asarray(first[np.append(True, np.diff(place) > 0)])


def _spots(x: FloatArray, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean score and mass of runs of neighbours; the two ends beside them, without mass, for the largest gap."""
    starts = _starts(x, mass, _PLACES)
    held = np.add.reduceat(mass, starts)
    at = np.concatenate([x[:1], np.add.reduceat(mass * x, starts) / held, x[-1:]])
    return at, np.concatenate([[0.0], held / held.sum(), [0.0]])


def _pooled_fit(
    local: LocalRegression, x: FloatArray, y: FloatArray, at: FloatArray
) -> Callable[[FloatArray], FloatArray]:
    """A local regression as a function of weights, its rows pooled in cells whose scores stay where they are."""
    centre, _, _ = _neighbours(*pooled_ties(x, y, np.ones(x.size)), _CELLS)
    edges = 0.5 * (centre[1:] + centre[:-1])
    cell = np.searchsorted(edges, x)

    def gaps(weight: FloatArray) -> FloatArray:
        mass: FloatArray = np.bincount(cell, weight, centre.size).astype(np.float64)
        events: FloatArray = np.bincount(cell, weight * y, centre.size).astype(np.float64)
        # no gap of probabilities is longer than 1, but a polynomial carried over a hole in resampled scores may be
        return np.clip(local.fit_sums(centre, mass, events, at) - at, -1.0, 1.0)

    return gaps


def density_grid(x: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
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
    cells = _neighbours(x[order], share[order], share[order], 4096) if x.size > 8192 else (x, share, share)
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


#: Gaps of a resample over the old mass of a bin may pass 1 where the bin was drawn often; beyond this they are cut.
_LARGEST = 10.0
#: Rows that are binned at a time, so that they stay in cache.
_STEP = 1 << 15


@dataclass(eq=False)
class BinCurve(Curve):
    """Gaps of bins: mean outcome minus mean score of the rows in each."""

    rows: Rows
    binning: Binning

    def sums(self) -> FloatArray:
        """Of each bin the weighted sum of y − s and the weight, over the total weight; shape (2, bins)."""
        rows, m = self.rows, self.binning.n_bins
        total = np.zeros((2, m))
        if self.binning.strategy == "quantile":
            codes, share = self.codes, rows.share
            return np.stack([np.bincount(codes, share * (rows.y - rows.law), m), np.bincount(codes, share, m)])
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
        return self.rows.kept(("codes", self.binning), lambda: self.binning.codes(self.rows.law, self.rows))

    def exact(self) -> Profile:
        gap, mass = self.sums()
        return Profile(gap / np.where(mass > 0.0, mass, 1.0), mass)

    def places(self) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        """Bins stay where they are and keep their masses: the gap of a resample is its sum over the old mass."""
        units, rows, m = self.units, self.rows, self.binning.n_bins
        if units.single:
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
            drawn = np.bincount(codes, w * gap, m) / (total if total > 0.0 else 1.0)
            # a resample without the one row that has nearly all weight would show gaps of any size
            return np.asarray(np.clip(drawn / safe, -_LARGEST, _LARGEST))

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
