"""Maps from bins of the score: histogram binning, and a Platt line with shrunken bin effects."""

from __future__ import annotations

import numpy as np

from scoreprism._core.arrays import parse_numbers
from scoreprism._core.checks import parse_choice, parse_count, refuse
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.bins import auto_bins, equal_mass_cuts
from scoreprism._kernels.logistic import expected
from scoreprism._maps.binary_map import BinaryMap, Steps, Sum, parse_distance
from scoreprism._maps.parts import Map
from scoreprism._sample.fit_rows import Data
from scoreprism.calibrators._base import Calibrator
from scoreprism.calibrators._parametric import fit_line


def _bin_sums(bins: IntArray, count: int, *columns: FloatArray) -> list[FloatArray]:
    return [np.bincount(bins, column, count).astype(np.float64) for column in columns]


class BinningCalibrator(Calibrator):
    """
    Histogram binning: the event rate of each bin of the score (Zadrozny & Elkan 2001).

    Parameters
    ----------
    n_bins : int, default=10
        Number of bins; fewer where ties leave no room, or where bins would be empty.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal mass, or of equal width between the smallest and the largest score.
    clip : "auto" or float, default="auto"
        Smallest distance from 0 and 1; "auto" is 1/(2n).
    kind : {"probability", "logit"}, default="probability"
        What scores are.

    Attributes
    ----------
    edges_ : array of shape (b − 1,)
        Where one bin ends and the next begins.
    values_ : array of shape (b,)
        Event rate of each bin.

    Examples
    --------
    >>> from scoreprism.calibrators import BinningCalibrator
    >>> binning = BinningCalibrator(n_bins=2).fit([0.1, 0.2, 0.3, 0.4], [0, 1, 1, 1])
    >>> binning.edges_, binning.values_
    (array([0.25]), array([0.5, 1. ]))
    >>> binning.calibrate([0.0, 0.9])
    array([0.5  , 0.875])
    """

    name = "binning"

    def __init__(
        self, *, n_bins: int = 10, strategy: str = "quantile", clip: str | float = "auto", kind: str = "probability"
    ) -> None:
        self.n_bins = n_bins
        self.strategy = strategy
        self.clip = clip
        self.kind = kind

    def _fit(self, data: Data) -> Map:
        n_bins = parse_count(self.n_bins, "n_bins", 1)
        strategy = parse_choice(self.strategy, ("quantile", "uniform"), "strategy")
        clip = parse_distance(self.clip, data.total)
        low, high = float(data.score.min()), float(data.score.max())
        if strategy == "quantile":
            cuts = equal_mass_cuts(data.score, data.weight, n_bins)
        else:
            cuts = low + (high - low) * np.arange(1, n_bins) / n_bins if high > low else np.zeros(0)
        bins = np.searchsorted(cuts, data.score, side="right")
        ones = np.ones(data.y.size) if data.weight is None else data.weight
        held, events = _bin_sums(bins, cuts.size + 1, ones, ones * data.y)
        full = np.flatnonzero(held)  # an empty bin joins the one before it, or at the start the first full one
        starts = np.concatenate([[min(low, cuts[0]) if cuts.size else low], cuts])[full]
        starts[0] = min(low, starts[0])
        return BinaryMap(data.chart("score"), Steps(starts, events[full] / held[full]), "identity", clip)

    @property
    def edges_(self) -> FloatArray:
        """Cuts between bins."""
        return np.array(self._fitted.curve.starts[1:])

    @property
    def values_(self) -> FloatArray:
        """Event rates, before clipping."""
        return np.array(self._fitted.curve.values)


class BinEffectsCalibrator(Calibrator):
    """
    Platt's line plus a shrunken effect for each bin of equal mass, for maps that are neither monotone nor smooth.

    On the logit scale, ``logit C = slope · logit S + intercept + u_b`` in bin b, with u_b ~ N(0, τ²): the effects are
    penalised by 1/(2τ²), and τ² is estimated by how far the bins scatter beyond chance (DerSimonian & Laird). Where
    they do not, τ² is 0 and the map is Platt's.

    Parameters
    ----------
    n_bins : "auto" or int, default="auto"
        Number of bins; "auto" is ⌈2 n^(1/3)⌉.
    edges : array-like of shape (b − 1,), optional
        Cuts between bins, on the scale of the scores, instead of equal mass. Folds of one data set should share them.
    kind : {"probability", "logit"}, default="probability"
        What scores are.

    Attributes
    ----------
    variance_ : float
        τ², between the bins.
    effects_ : array of shape (b,)
        Effects on the logit scale.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import BinEffectsCalibrator
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(5000)
    >>> c = np.where(np.abs(s - 0.5) < 0.1, 0.9, s)                   # one stretch is badly wrong
    >>> fitted = BinEffectsCalibrator().fit(s, rng.random(5000) < c)
    >>> bool(abs(fitted.calibrate([0.5])[0] - 0.9) < 0.05)
    True
    """

    name = "bin-effects"
    _kept = ("variance_",)

    def __init__(self, *, n_bins: str | int = "auto", edges: object = None, kind: str = "probability") -> None:
        self.n_bins = n_bins
        self.edges = edges
        self.kind = kind

    def _fit(self, data: Data) -> Map:
        line, _ = fit_line(data)
        x = data.logit(data.score)
        cuts = self._cuts(data)
        bins = np.searchsorted(cuts, x, side="right")
        offset = line(x)
        ones = np.ones(x.size) if data.weight is None else data.weight
        effects, self.variance_ = _shrunken_effects(bins, cuts.size + 1, offset, data.y, ones)
        starts = np.concatenate([[min(float(x.min()), cuts[0] if cuts.size else np.inf) - 1.0], cuts])
        return BinaryMap(data.logit, Sum(line, Steps(starts, effects)), "logit").floored(data.score, data.distance)

    def _cuts(self, data: Data) -> FloatArray:
        """Cuts on the logit scale."""
        if self.edges is not None:
            edges = parse_numbers(self.edges, "edges")
            if edges.ndim != 1 or (np.diff(edges) <= 0).any():
                refuse("`edges` must be increasing numbers", repr(self.edges), "Pass the cuts between bins in order.")
            return np.unique(data.logit(edges))
        n_bins = auto_bins(data.total) if self.n_bins == "auto" else parse_count(self.n_bins, "n_bins", 1)
        return equal_mass_cuts(data.logit(data.score), data.weight, n_bins)

    def _shared(self, data: Data) -> BinEffectsCalibrator:
        """Bin edges come from all scores, shared by the folds: edges per fold inflate the spread by half."""
        if self.edges is not None:
            return self
        n_bins = auto_bins(data.total) if self.n_bins == "auto" else parse_count(self.n_bins, "n_bins", 1)
        return BinEffectsCalibrator(edges=equal_mass_cuts(data.score, data.weight, n_bins), kind=self.kind)

    @property
    def effects_(self) -> FloatArray:
        """Bin effects."""
        return np.array(self._fitted.curve.second.values)


def _shrunken_effects(
    bins: IntArray, count: int, offset: FloatArray, y: FloatArray, weight: FloatArray
) -> tuple[FloatArray, float]:
    """Penalised effects of the bins beside an offset, and the variance between them."""
    p = expected(offset)
    gap, mass = _bin_sums(bins, count, weight * (y - p), weight * p * (1.0 - p))
    used = mass > 0.0
    scatter = float((gap[used] ** 2 / mass[used]).sum()) - max(int(used.sum()) - 2, 0)
    spare = float(mass.sum() - (mass**2).sum() / mass.sum()) if mass.any() else 0.0
    variance = scatter / spare if scatter > 0.0 and spare > 0.0 else 0.0
    effects = np.zeros(count)
    if variance == 0.0:
        return effects, 0.0
    for _ in range(50):  # Newton in every bin at once
        p = expected(offset + effects[bins])
        gap, mass = _bin_sums(bins, count, weight * (y - p), weight * p * (1.0 - p))
        step = np.clip((gap - effects / variance) / (mass + 1.0 / variance), -2.0, 2.0)
        effects += step
        if np.abs(step).max() < 1e-12:
            break
    return effects, variance
