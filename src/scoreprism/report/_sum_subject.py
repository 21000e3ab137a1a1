"""One model of a report from sums: its decompositions, and what curves, grades and summaries need of its cells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.numerics import clipped_sigmoid, log_odds
from scoreprism._core.simplex import FloatArray, IntArray, frozen
from scoreprism._findings.finding import Finding, collect_findings
from scoreprism._kernels.binomial import rate_interval
from scoreprism._kernels.logistic import find_separation, fit_logistic
from scoreprism._kernels.term_intervals import tail
from scoreprism.curves import ReliabilityCurve, ScoreDistribution
from scoreprism.inference import TestResult
from scoreprism.losses import ProperLoss
from scoreprism.metrics import MetricTable
from scoreprism.metrics._estimate import Estimate, Wald
from scoreprism.report._evidence import from_bound, of_many
from scoreprism.report._subject import DECILES, EDGE, GRADES, BaseSubject, Grade
from scoreprism.scale import ScaledDecomposition, Sums

#: Bins of a histogram.
_FINE = 1000
#: Where nearly all scores are this near to 0, or to 1, a histogram has so many times the bins.
_NEAR, _RARER = 0.05, 20
#: A bin of the diagram holds this share of the rows; or, where scores are sparse, so many rows over such a width.
_SHARE, _ROWS, _WIDTH = 1 / 40, 1000, 0.02
#: Fewer rows than these make no bin of their own.
_LEAST = 50


@dataclass(frozen=True, eq=False)
class SumSubject(BaseSubject):
    """A model of which sums over rows are known."""

    name: str
    decompositions: Mapping[str, ScaledDecomposition]
    findings: tuple[Finding, ...]
    level: float
    parts: tuple[Sums, ...]  # sums of the same rows, by different columns
    #: Of two classes; what features add, groups of rows and single scores are not known.
    k, certain, clustered, grouping, untested = 2, 0, False, None, None

    @property
    def sums(self) -> Sums:
        """The sums that the whole comes from."""
        return self.parts[0]

    @cached_property
    def cells(self) -> SummedScores:
        """The score in cells."""
        return SummedScores.of(self.sums)

    @property
    def labels(self) -> list[str]:
        """The other class, and the one that scores speak of."""
        event = self.sums.settings.pos_label
        return ["0", "1"] if event is None else ["any other", str(event)]

    @property
    def origins(self) -> list[Finding]:
        """Where its laws came from."""
        return [one for one in self.main.findings if one.severity in ("provenance", "caution")]

    @property
    def outcomes(self) -> IntArray:
        """Rows of each class."""
        return np.asarray(np.round(self.cells.rows.sum(axis=1)), dtype=np.intp)

    @property
    def n(self) -> int:
        """Rows that were summed."""
        return int(self.sums.n)

    @property
    def tests(self) -> list[TestResult]:
        """The parts of the test, and what they say together."""
        whole = self.calibration
        parts = [
            TestResult(part["statistic"], part["pvalue"], method, whole.hypothesis, whole.n, 0)
            for method, part in whole.components.items()
            if method != whole.method
        ]
        return [*parts, whole if whole.method not in whole.components else replace(whole, statistic=math.nan)]

    def grades(self) -> list[Grade]:
        """Grades of the score, from cells."""
        return grades_of(self.cells, self.level)

    @cached_property
    def reliability(self) -> ReliabilityCurve:
        """Event rate by score in bins, each with its interval."""
        return curve_of(self.cells, self.level, self.name)

    @cached_property
    def metrics(self) -> MetricTable:
        """Summaries of calibration and discrimination."""
        return metrics_of(self.cells, self.level)

    @cached_property
    def calibration(self) -> TestResult:
        """The test of cells, as for rows that are too many to draw the outcome of each."""
        bound = from_bound(self.main, "reliability", "bound")
        z = spiegelhalter_of(self.cells)
        parts = {"bound": {"statistic": bound.statistic, "pvalue": bound.pvalue}}
        parts["spiegelhalter"] = {"statistic": z, "pvalue": min(2.0 * tail(abs(z)), 1.0)}
        return of_many(parts, self.main, bound.n)


def fit_sums(name: str, parts: tuple[Sums, ...], losses: dict[str, ProperLoss], level: float, seed: int) -> SumSubject:
    """Fit the laws of one model to its sums; what is warned of is kept for the reader of the report."""
    rows = {sums.n for sums in parts}
    if len(rows) > 1:
        refuse("sums of one model must be of the same rows", f"{sorted(rows)} rows", "Sum them again.")
    with collect_findings() as said:
        whole = parts[0].pool()
        first, *others = losses.items()
        main: Any = whole.decompose(first[1], random_state=seed)
        found = {first[0]: main} | {name: main.chain.decompose(loss) for name, loss in others}
    return SumSubject(name, found, tuple(said), level, parts)


# ── cells ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class SummedScores:
    """Sums by distinct score or by cell, in order (first axis: non-events, events)."""

    rows: FloatArray  # (2, m): rows, Σw, Σw² and Σws
    weight: FloatArray
    squares: FloatArray
    total: FloatArray
    low: FloatArray  # (2, m): smallest and largest score; the ends of the cell where there is no row
    high: FloatArray
    exact: bool  # whether each is one score

    @classmethod
    def of(cls, sums: Sums) -> SummedScores:
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

    def merged(self, bins: IntArray) -> SummedScores:
        """SummedScores put together, by the number of their bin."""
        starts = np.flatnonzero(np.diff(bins, prepend=-1))

        def added(part: FloatArray) -> FloatArray:
            return np.asarray(np.add.reduceat(part, starts, axis=1))

        low, high = np.minimum.reduceat(self.low, starts, axis=1), np.maximum.reduceat(self.high, starts, axis=1)
        n, w, w2, s = added(self.rows), added(self.weight), added(self.squares), added(self.total)
        return SummedScores(n, w, w2, s, low, high, self.exact and starts.size == bins.size)

    def rates(self, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Event rate of each cell, and its Jeffreys interval; rows of unequal weight count as fewer."""
        weight = self.weight.sum(axis=0)
        rate, worth = self.weight[1] / weight, weight**2 / self.squares.sum(axis=0)
        return rate, *rate_interval(rate * worth, worth, level, "jeffreys")


# ── bins ────────────────────────────────────────────────────────────────────────────────────────────


def grades_of(cells: SummedScores, level: float) -> list[Grade]:
    """Grades of a score: its values where they are few, else ten of equal size."""
    rows = cells.rows.sum(axis=0)
    if not (cells.exact and rows.size <= GRADES):
        middle = (np.cumsum(rows) - 0.5 * rows) / rows.sum()
        cells = cells.merged(np.minimum((middle * DECILES).astype(np.intp), DECILES - 1))
    rate, low, high = cells.rates(level)
    least, most, rows, mean = cells.low.min(axis=0), cells.high.max(axis=0), cells.rows.sum(axis=0), cells.mean
    return [
        Grade(float(least[g]), float(most[g]), int(rows[g]), float(mean[g]), float(rate[g]), low[g], high[g])
        for g in range(rate.size)
    ]


def curve_of(cells: SummedScores, level: float, name: str) -> ReliabilityCurve:
    """Event rate by score in bins that can be read, with a pointwise confidence band."""
    held = cells if cells.exact and cells.rows.shape[1] <= GRADES else cells.merged(_readable(cells))
    rate, low, high = held.rates(level)
    weight = held.weight.sum(axis=0)
    n = int(cells.rows.sum())
    return ReliabilityCurve(
        name=name, n=n, _backend=None, method="bins", x=held.mean, y=rate, band="confidence", confidence_level=level,
        uniform=False, band_x=held.mean, low=low, high=high, weight=weight / weight.sum(),
        distribution=distribution_of(cells, name),
    )  # fmt: skip


def _readable(cells: SummedScores) -> IntArray:
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


def distribution_of(cells: SummedScores, name: str) -> ScoreDistribution:
    """Histogram of scores; rows are spread evenly between the smallest and the largest score of their cell."""
    fine = _FINE * (_RARER if _near_an_end(cells) else 1)
    edges, weight = np.linspace(0.0, 1.0, fine + 1), cells.weight / cells.weight.sum()
    shares = []
    for y in (1, 0):
        below = _below(edges[1:-1], cells.low[y], cells.high[y], weight[y])
        shares.append(np.diff(np.concatenate([[0.0], below, [float(weight[y].sum())]])))
    events, others = (np.maximum(share, 0.0) for share in shares)
    return ScoreDistribution(
        name=name, n=int(cells.rows.sum()), _backend=None, edges=frozen(edges), events=events, others=others
    )


def _near_an_end(cells: SummedScores) -> bool:
    """Whether 99 % of the rows have a score near 0, or near 1."""
    rows, mean = cells.rows.sum(axis=0), cells.mean
    return bool(max(rows[mean < _NEAR].sum(), rows[mean > 1.0 - _NEAR].sum()) >= 0.99 * rows.sum())


def _below(edges: FloatArray, low: FloatArray, high: FloatArray, weight: FloatArray) -> FloatArray:
    """Weight below each edge."""
    upto = np.concatenate([[0.0], np.cumsum(weight)])
    whole = np.searchsorted(high, edges, side="left")  # cells that end below the edge
    cut = np.minimum(whole, low.size - 1)
    width = np.maximum(high[cut] - low[cut], 1e-300)
    inside = np.clip((edges - low[cut]) / width, 0.0, 1.0) * ((whole < low.size) & (low[cut] < edges))
    return np.asarray(upto[whole] + inside * weight[cut])


# ── summaries ───────────────────────────────────────────────────────────────────────────────────────


def metrics_of(cells: SummedScores, level: float) -> MetricTable:
    """Summaries of calibration that sums can give; each with an interval from the sums themselves."""
    made = (_ratio(cells), _slope(cells), _area(cells))
    found = {one.name: one for one in made if one is not None}
    intervals = {name: one.interval(level) for name, one in found.items()}
    return MetricTable(tuple(found), None, found, intervals, int(cells.rows.sum()), level, ())


def _ratio(cells: SummedScores) -> Estimate | None:
    """Observed events by expected ones."""
    seen, meant = float(cells.weight[1].sum()), float(cells.total.sum())
    if not meant > 0.0:
        return None
    gaps = np.array([[0.0], [1.0]]) - seen / meant * cells.lines
    error = float(np.sqrt((cells.squares * gaps**2).sum())) / meant
    name, how = "observed_expected_ratio", "observed events by the sum of scores"
    return Estimate(seen / meant, name, how, Wald(seen / meant, error, "wald, from sums", low=0.0))


def _slope(cells: SummedScores) -> Estimate | None:
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


def _area(cells: SummedScores) -> Estimate:
    """Area under the ROC curve, scores of one cell taken as ties, with DeLong's standard error."""
    others, events = cells.weight / cells.weight.sum(axis=1, keepdims=True)
    below = np.cumsum(others) - 0.5 * others  # share of others that an event of the cell beats
    above = 1.0 - np.cumsum(events) + 0.5 * events
    area = float(events @ below)
    squares = cells.squares / cells.weight.sum(axis=1, keepdims=True) ** 2
    error = float(np.sqrt(squares[1] @ (below - area) ** 2 + squares[0] @ (above - area) ** 2))
    return Estimate(area, "auc", "cells as ties", Wald(area, error, "DeLong, from sums", low=0.0, high=1.0))


def spiegelhalter_of(cells: SummedScores) -> float:
    """Spiegelhalter's statistic, a standard normal where the score is calibrated; its variance at the mean scores."""
    s = cells.lines
    gaps = np.array([[0.0], [1.0]]) - s
    variance = (cells.squares * (1.0 - 2.0 * s) ** 2 * s * (1.0 - s)).sum()
    return float((cells.weight * gaps * (1.0 - 2.0 * s)).sum() / np.sqrt(variance)) if variance > 0.0 else float("nan")
