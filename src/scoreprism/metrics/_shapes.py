"""Intervals of smoothed metrics that hold whatever the shape of C: by the library's own C, not by the smoother.

A local regression cannot follow a jump or a wave, and its resamples do not know that. LCS is the reliability of the
Brier loss, so its interval is that of the reliability. The mean of |S − C| is at least what the side on which Ĉ lies,
found on other rows, explains of it, and at most the root of LCS. Quantiles of |S − C| are those of a tree of local
shifts, fitted again on resamples. All of them are 0 for a calibrated score: where a test of that does not reject, so is
the lower end.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from scoreprism._core.checks import parse_choice
from scoreprism._core.simplex import FloatArray
from scoreprism._fitting.chain_fit import ChainFit
from scoreprism._fitting.fitted_laws import CellFits, ScoreCells
from scoreprism._kernels.term_intervals import Interval, quantile
from scoreprism._sample.fit_rows import Batch
from scoreprism._sample.sample import Sample
from scoreprism.calibrators import TreeCalibrator
from scoreprism.exceptions import ScoreprismError, ScoreprismWarning
from scoreprism.metrics._estimate import Absent, Inference
from scoreprism.metrics._gaps import GAP_INTERVALS, Curve, GapInference, Norm, Profile, largest
from scoreprism.metrics._rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from scoreprism.decomposition import Decomposition

#: How intervals of smoothed metrics are made: for any shape of C, or by resampling the rows of the smoother.
SHAPE_INTERVALS = ("any-shape", *GAP_INTERVALS)
#: Resamples that are fitted at once.
_AT_ONCE = 128


@dataclass(frozen=True)
class Fitted:
    """The Brier loss of the rows, decomposed, and the law C behind it."""

    decomposition: Decomposition
    fits: CellFits


def _fitted(rows: Rows) -> Fitted:
    """The decomposition, shared by the metrics of a table."""

    def make() -> Fitted:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)  # of C, which nobody asked for here
            chain = ChainFit.of(Sample(rows.y, {"model": rows.law}, np.arange(2), rows.weight)).fit()
            found = chain.decompose("brier")
        fits = chain.levels[1].fits
        assert isinstance(fits, CellFits)  # noqa: S101 - random folds of two classes
        return Fitted(found, fits)

    return rows.kept("brier laws", make)


class ShapeInference(Inference):
    """The interval for any shape of C; other methods are those of the smoother's own resamples."""

    def __init__(self, rows: Rows, inner: Inference, estimate: float, ends: Callable[..., tuple[float, float]]) -> None:
        self.rows, self.inner, self.estimate, self.ends = rows, inner, estimate, ends

    @property
    def std_error(self) -> float:
        return self.inner.std_error

    def interval(self, level: float, n_resamples: int, random_state: object, method: str | None) -> Interval:
        chosen = "any-shape" if method is None else parse_choice(method, SHAPE_INTERVALS, "method")
        if isinstance(self.inner, Absent) or chosen != "any-shape":
            return self.inner.interval(level, n_resamples, random_state, None if chosen == "any-shape" else chosen)
        try:
            low, high = self.ends(self.rows, level, n_resamples, random_state)
        except ScoreprismError:  # too few rows, or one outcome: C cannot be fitted out of sample
            return self.inner.interval(level, n_resamples, random_state, None)
        return Interval(min(low, self.estimate), max(high, self.estimate), level, "any shape")


def squared_ends(rows: Rows, level: float, *_: object) -> tuple[float, float]:
    """Ends of E(S − C)²."""
    found = _fitted(rows).decomposition.interval("reliability", level)
    return found.low, found.high


def _calibrated(rows: Rows, level: float) -> bool:
    """Whether the scores may be calibrated: sides of neighbours go together, so that chance alone looks like gaps."""
    pvalue = _fitted(rows).decomposition.calibration_pvalue
    return pvalue is not None and pvalue > 1.0 - level


def absolute_ends(rows: Rows, level: float, *_: object) -> tuple[float, float]:
    """
    Ends of E|S − C|.

    For any h between −1 and 1 that a row did not take part in choosing, E h·(Y − S) is at most E|C − S|; h is the side
    on which C lies, found on other rows. The upper end is the root of that of E(S − C)².
    """
    fitted = _fitted(rows)
    side = np.sign(fitted.fits.mean_law - rows.law)
    found = side * (rows.y - rows.law)
    error = math.sqrt(float(rows.share**2 @ (found - rows.mean(found)) ** 2))
    low = 0.0 if _calibrated(rows, level) else rows.mean(found) - quantile(level, two_sided=True) * error
    return max(low, 0.0), math.sqrt(squared_ends(rows, level)[1])


class TreeCurve(Curve):
    """The gaps of a tree of local shifts, fitted on the rows themselves; resamples are fitted many at a time."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._cells = ScoreCells.of(self.units.score)
        self._whole = self._masses((self.units.weight * self.units.size)[None])

    def _masses(self, weights: FloatArray) -> FloatArray:
        """Weight of each outcome in each cell, (2, M, G)."""
        size = self._cells.center.size
        place = self.units.y.astype(np.intp) * size + self._cells.cell
        found = [np.bincount(place, line, 2 * size).reshape(2, size) for line in weights]
        return np.stack(found, axis=1).astype(np.float64)

    def _laws(self, masses: FloatArray) -> FloatArray:
        batch = Batch(self._cells.center, masses, self._whole[:, 0], self._cells.single)
        return TreeCalibrator()._fit_many(batch)

    def exact(self) -> Profile:
        mass = self._whole.sum(axis=(0, 1))
        return Profile(self._laws(self._whole)[0] - self._cells.center, mass / mass.sum())

    def places(self) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        return self.profile.mass, lambda weight: self._laws(self._masses(weight[None]))[0] - self._cells.center

    def draw_noise(self, weights: Iterator[FloatArray]) -> FloatArray:
        found = []
        while some := list(islice(weights, _AT_ONCE)):
            found.append(self._laws(self._masses(np.stack(some))) - self._cells.center - self.profile.gap)
        return np.concatenate(found)


def quantile_ends(norm: Norm) -> Callable[..., tuple[float, float]]:
    """Ends of a quantile of |S − C|, by resamples of a tree of local shifts; the largest is at least the mean."""

    def ends(rows: Rows, level: float, n_resamples: int, random_state: object) -> tuple[float, float]:
        curve = rows.kept("tree curve", lambda: TreeCurve(rows))
        value = float(norm(curve.profile.gap, curve.profile.mass))
        found = GapInference(curve, norm, value, 1, "hull").interval(level, n_resamples, random_state, None)
        if _calibrated(rows, level):
            return 0.0, found.high
        least = absolute_ends(rows, level)[0] if norm is largest else 0.0
        return max(found.low, least), max(found.high, least)

    return ends
