"""A score in cells, from rows or from sums over them: grades, a reliability curve, summaries of calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.numerics import clipped_sigmoid, log_odds
from scoreprism._core.simplex import FloatArray, IntArray, freeze
from scoreprism._kernels.binomial import rate_interval
from scoreprism._kernels.estimate_intervals import Wald
from scoreprism._kernels.logistic import find_separation, fit_logistic
from scoreprism.curves import ReliabilityCurve, ScoreDistribution
from scoreprism.metrics import Estimate, MetricTable
from scoreprism.scale import Sums

#: Distinct scores up to this many are grades of their own; otherwise up to ten bins of so many rows at least.
GRADES, DECILES, _OF_GRADE = 20, 10, 30
#: How far scores of 0 and 1 are kept from the edge where log-odds are needed.
EDGE = 1e-6
#: Bins of a histogram.
_FINE = 1000
#: Where nearly all scores are this near to 0, or to 1, a histogram has so many times the bins.
_NEAR, _RARER = 0.05, 20
#: A bin of the diagram holds this share of the rows; or, where scores are sparse, so many rows over such a width.
_SHARE, _ROWS, _WIDTH = 1 / 40, 1000, 0.02
#: Fewer rows than these make no bin of their own.
_LEAST = 50


class Grade(NamedTuple):
    """A grade of a score: where it is, how many rows it has, what was predicted and what was seen."""

    least: float
    most: float
    rows: int
    mean: float
    rate: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """Sums by distinct score or by cell, in order (first axis: non-events, events)."""

    rows: FloatArray  # (2, m): rows, Σw, Σw² and Σws
    weight: FloatArray
    squares: FloatArray
    total: FloatArray
    low: FloatArray  # (2, m): smallest and largest score; the ends of the cell where there is no row
    high: FloatArray
    exact: bool  # whether each is one score

    @classmethod
    def of_sums(cls, sums: Sums) -> ScoreSums:
        """The cells of sums, over all of its folds, segments and periods."""
        table = sums.pool().table
        keys, place = np.unique(table["key"], return_inverse=True)
        where = (table["y"].astype(np.intp), place)
        score = table["key"] * table["w"] if sums.exact else table["s"]
        n, w, w2, s = (np.zeros((2, keys.size)) for _ in range(4))
        for total, column in ((n, table["n"]), (w, table["w"]), (w2, table["w2"]), (s, score)):
            np.add.at(total, where, column)
        low, high = np.full((2, keys.size), np.inf), np.full((2, keys.size), -np.inf)
        np.minimum.at(low, where, table["key"] if sums.exact else table["lo"])
        np.maximum.at(high, where, table["key"] if sums.exact else table["hi"])
        ends = np.where(low > 1.0, high[::-1], low), np.where(high < 0.0, low[::-1], high)
        return cls(n, w, w2, s, *ends, sums.exact)

    @classmethod
    def of_rows(cls, score: FloatArray, event: NDArray[np.bool_], weight: FloatArray | None) -> ScoreSums:
        """A cell for each distinct score."""
        keys, place = np.unique(score, return_inverse=True)
        weight, line = np.ones(score.size) if weight is None else weight, place + keys.size * event
        parts = (np.ones(score.size), weight, weight**2, weight * score)
        n, w, w2, s = (np.bincount(line, part, 2 * keys.size).astype(float).reshape(2, -1) for part in parts)
        ends = np.stack([keys, keys])
        return cls(n, w, w2, s, ends, ends, exact=True)

    @property
    def mean(self) -> FloatArray:
        """Mean score of each cell, over both outcomes."""
        middle = self.total.sum(axis=0) / self.weight.sum(axis=0)
        return np.asarray(np.clip(middle, self.low.min(axis=0), self.high.max(axis=0)))

    @property
    def lines(self) -> FloatArray:
        """Mean score of each cell and outcome; that of the cell where there is no row."""
        with np.errstate(invalid="ignore", divide="ignore"):
            own = np.clip(self.total / self.weight, self.low, self.high)
        return np.where(self.weight > 0.0, own, self.mean)

    def merge(self, bins: IntArray) -> ScoreSums:
        """Add up the cells of each bin, by the number of the bin of each cell."""
        starts = np.flatnonzero(np.diff(bins, prepend=-1))

        def add_up(part: FloatArray) -> FloatArray:
            return np.asarray(np.add.reduceat(part, starts, axis=1))

        low, high = np.minimum.reduceat(self.low, starts, axis=1), np.maximum.reduceat(self.high, starts, axis=1)
        n, w, w2, s = add_up(self.rows), add_up(self.weight), add_up(self.squares), add_up(self.total)
        return ScoreSums(n, w, w2, s, low, high, self.exact and starts.size == bins.size)

    @property
    def ratio(self) -> tuple[float, float]:
        """Observed events by expected ones, and its standard error; not a number where none are expected."""
        seen, meant = float(self.weight[1].sum()), float(self.total.sum())
        if not meant > 0.0:
            return np.nan, np.nan
        gaps = np.array([[0.0], [1.0]]) - seen / meant * self.lines
        return seen / meant, float(np.sqrt((self.squares * gaps**2).sum())) / meant

    def rates(self, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Event rate of each cell, and its Jeffreys interval; rows of unequal weight count as fewer."""
        weight = self.weight.sum(axis=0)
        rate, worth = self.weight[1] / weight, weight**2 / self.squares.sum(axis=0)
        return rate, *rate_interval(rate * worth, worth, level, "jeffreys")

    def grades(self, level: float) -> list[Grade]:
        """Grades of a score: its values where they are few, else bins of equal size, with Jeffreys intervals."""
        cells, rows = self, self.rows.sum(axis=0)
        if not (cells.exact and rows.size <= GRADES):
            middle = (np.cumsum(rows) - 0.5 * rows) / rows.sum()
            bins = int(np.clip(rows.sum() // _OF_GRADE, 2, DECILES))
            cells = cells.merge(np.minimum((middle * bins).astype(np.intp), bins - 1))
        rate, low, high = cells.rates(level)
        least, most, rows, mean = cells.low.min(axis=0), cells.high.max(axis=0), cells.rows.sum(axis=0), cells.mean
        return [
            Grade(float(least[g]), float(most[g]), int(rows[g]), float(mean[g]), float(rate[g]), low[g], high[g])
            for g in range(rate.size)
        ]

    def curve(self, level: float, name: str) -> ReliabilityCurve:
        """Event rate by score in bins that can be read, with a pointwise confidence band."""
        held = self if self.exact and self.rows.shape[1] <= GRADES else self.merge(_find_readable_bins(self))
        rate, low, high = held.rates(level)
        weight, n = held.weight.sum(axis=0), int(self.rows.sum())
        return ReliabilityCurve(
            name=name, n=n, _backend=None, method="bins", x=held.mean, y=rate, band="confidence",
            confidence_level=level, uniform=False, band_x=held.mean, low=low, high=high, weight=weight / weight.sum(),
            distribution=self.distribution(name),
        )  # fmt: skip

    def distribution(self, name: str) -> ScoreDistribution:
        """Histogram of scores; rows are spread evenly between the smallest and the largest score of their cell."""
        fine = _FINE * (_RARER if _is_near_an_end(self) else 1)
        edges, weight = np.linspace(0.0, 1.0, fine + 1), self.weight / self.weight.sum()
        shares = []
        for y in (1, 0):
            below = _weigh_below(edges[1:-1], self.low[y], self.high[y], weight[y])
            shares.append(np.diff(np.concatenate([[0.0], below, [float(weight[y].sum())]])))
        events, others = (np.maximum(share, 0.0) for share in shares)
        return ScoreDistribution(
            name=name, n=int(self.rows.sum()), _backend=None, edges=freeze(edges), events=events, others=others
        )

    def metrics(self, level: float) -> MetricTable:
        """Summaries of calibration that sums can give; each with an interval from the sums themselves."""
        made = (_find_ratio(self), _find_slope(self), _find_area(self))
        found = {one.name: one for one in made if one is not None}
        intervals = {name: one.interval(level) for name, one in found.items()}
        return MetricTable(tuple(found), None, found, intervals, int(self.rows.sum()), level, ())

    def spiegelhalter(self) -> float:
        """Spiegelhalter's statistic, standard normal where the score is calibrated; its variance at mean scores."""
        s = self.lines
        gaps = np.array([[0.0], [1.0]]) - s
        variance = (self.squares * (1.0 - 2.0 * s) ** 2 * s * (1.0 - s)).sum()
        return float((self.weight * gaps * (1.0 - 2.0 * s)).sum() / np.sqrt(variance)) if variance > 0.0 else np.nan


# ── bins ────────────────────────────────────────────────────────────────────────────────────────────


def _find_readable_bins(cells: ScoreSums) -> IntArray:
    """The bin of each cell: of enough rows, or wide and of some rows; a small rest joins the bin before it."""
    rows, ends = cells.rows.sum(axis=0), cells.high.max(axis=0)
    enough = max(_LEAST, float(rows.sum()) * _SHARE)
    bins, current, held, start = np.zeros(rows.size, dtype=np.intp), 0, 0.0, float(cells.low.min())
    for i, count in enumerate(rows):
        bins[i], held = current, held + float(count)
        if held >= enough or (held >= min(_ROWS, enough) and ends[i] - start >= _WIDTH):
            current, held, start = current + 1, 0.0, float(ends[i])
    if 0.0 < held < _LEAST and current:
        bins[bins == current] = current - 1
    return bins


def _is_near_an_end(cells: ScoreSums) -> bool:
    """Whether 99 % of the rows have a score near 0, or near 1."""
    rows, mean = cells.rows.sum(axis=0), cells.mean
    return bool(max(rows[mean < _NEAR].sum(), rows[mean > 1.0 - _NEAR].sum()) >= 0.99 * rows.sum())


def _weigh_below(edges: FloatArray, low: FloatArray, high: FloatArray, weight: FloatArray) -> FloatArray:
    """Weight below each edge."""
    upto = np.concatenate([[0.0], np.cumsum(weight)])
    whole = np.searchsorted(high, edges, side="left")  # cells that end below the edge
    cut = np.minimum(whole, low.size - 1)
    width = np.maximum(high[cut] - low[cut], 1e-300)
    inside = np.clip((edges - low[cut]) / width, 0.0, 1.0) * ((whole < low.size) & (low[cut] < edges))
    return np.asarray(upto[whole] + inside * weight[cut])


# ── summaries ───────────────────────────────────────────────────────────────────────────────────────


def _find_ratio(cells: ScoreSums) -> Estimate | None:
    """Observed events by expected ones."""
    ratio, error = cells.ratio
    if np.isnan(ratio):
        return None
    name, how = "observed_expected_ratio", "observed events by the sum of scores"
    return Estimate(ratio, name, how, Wald(ratio, error, "wald, from sums", low=0.0))


def _find_slope(cells: ScoreSums) -> Estimate | None:
    """Slope of outcomes on the log-odds of the score; None where there is no finite one."""
    held = cells.weight.ravel() > 0.0
    y = np.repeat([0.0, 1.0], cells.weight.shape[1])[held]
    odds = log_odds(cells.lines.ravel()[held], EDGE)
    if np.ptp(odds) < 1e-6 or find_separation(odds, y):
        return None
    share = cells.weight.ravel()[held] / cells.weight.sum()
    squares = cells.squares.ravel()[held] / float(cells.weight.sum()) ** 2
    design = np.stack([np.ones(odds.size), odds - float(share @ odds)])
    fit = fit_logistic(design, y, share * float(cells.rows.sum()))
    if not fit.converged:
        return None
    p = clipped_sigmoid(fit.coefficients @ design)
    bread = np.linalg.inv((design * (share * p * (1.0 - p))) @ design.T)
    covariance = bread @ ((design * (squares * (y - p) ** 2)) @ design.T) @ bread
    slope = float(fit.coefficients[1])
    inference = Wald(slope, float(np.sqrt(covariance[1, 1])), "wald, sandwich, from sums")
    return Estimate(slope, "calibration_slope", "logistic regression on log-odds of cells", inference)


def _find_area(cells: ScoreSums) -> Estimate:
    """Area under the ROC curve, scores of one cell taken as ties, with DeLong's standard error."""
    others, events = cells.weight / cells.weight.sum(axis=1, keepdims=True)
    below = np.cumsum(others) - 0.5 * others  # share of others that an event of the cell beats
    above = 1.0 - np.cumsum(events) + 0.5 * events
    area = float(events @ below)
    squares = cells.squares / cells.weight.sum(axis=1, keepdims=True) ** 2
    error = float(np.sqrt(squares[1] @ (below - area) ** 2 + squares[0] @ (above - area) ** 2))
    return Estimate(area, "auc", "cells as ties", Wald(area, error, "DeLong, from sums", low=0.0, high=1.0))
