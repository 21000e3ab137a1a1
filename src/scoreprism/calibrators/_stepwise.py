"""Maps that see the score in blocks or bins: isotonic, histogram binning, a Platt line with shrunken bin effects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_count, parse_numbers, refuse
from scoreprism._core.numerics import EDGE_OF_SHIFTS, clipped_sigmoid, least_distance, log_odds
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.bins import auto_bins, equal_mass_cuts
from scoreprism._kernels.isotonic import Ladder, isotonic_blocks, isotonic_ladder, pool_ties
from scoreprism._kernels.local_shifts import flatten_shifts, local_shifts
from scoreprism._maps.binary_map import BinaryMap, BrokenLine, MapCurve, Steps, Sum
from scoreprism._maps.parts import Map
from scoreprism._sample.batch import Batch
from scoreprism._sample.fit_rows import FitRows
from scoreprism.calibrators._calibrator import (
    Calibrator,
    FittedPart,
    at_least,
    one_of,
    optional,
    parse_distance,
    resolve_distance,
    rules,
    with_parameters,
)
from scoreprism.calibrators._parametric import fit_line
from scoreprism.calibrators._splines import NaturalSplineCalibrator


@with_parameters
class IsotonicCalibrator(Calibrator):
    """
    Isotonic regression by pooling adjacent violators (paper, appendix E.1).

    Parameters
    ----------
    interpolation : {"centered", "linear", "step"}, default="centered"
        Between blocks: straight lines between the mean scores of the blocks (Oron & Flournoy 2017), straight lines
        from the last score of one block to the first of the next (as scikit-learn), or right-continuous steps.
    shrink : bool, default=True
        Give a block with k events of weight m the value (k + p̄)/(m + 1), p̄ the base rate, then pool again with
        weights m + 1. One pseudo-observation per block keeps short blocks at the ends away from 0 and 1.
    clip : "auto" or float, default="auto"
        Smallest distance from 0 and 1; "auto" is 1/(2n), n the sum of the weights. 0 lets blocks reach the ends.
    kind : {"probability", "logit"}, default="probability"
        What scores are; isotonic maps only use their order, and their values between blocks.

    Attributes
    ----------
    n_blocks_ : int
        Number of blocks.

    Notes
    -----
    ``IsotonicCalibrator(interpolation="step", shrink=False, clip=0)`` is the textbook estimator, which minimises
    every proper loss among nondecreasing maps of the rows it was fitted on, and gives probability 0 or 1 to the ends.

    Examples
    --------
    >>> from scoreprism.calibrators import IsotonicCalibrator
    >>> s, y = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0, 0, 1, 0, 1, 1]
    >>> IsotonicCalibrator(interpolation="step", shrink=False, clip=0).fit(s, y).calibrate(s)
    array([0. , 0. , 0.5, 0.5, 1. , 1. ])
    >>> IsotonicCalibrator().fit(s, y).calibrate(s).round(3)
    array([0.167, 0.25 , 0.417, 0.583, 0.75 , 0.833])
    """

    interpolation: str = "centered"
    shrink: bool = True
    clip: str | float = "auto"
    kind: str = "probability"

    name = "isotonic"
    monotone = True
    n_blocks_ = FittedPart("curve.values", lambda values: len(np.unique(values)), "Number of different values.")
    _rules = rules(interpolation=one_of("centered", "linear", "step"), clip=parse_distance)

    def _fit(self, data: FitRows) -> Map:
        ladder = isotonic_ladder(data.score, data.y, data.weight)
        value = ladder.value
        if self.shrink:
            ladder, value = _shrink(ladder, data.rate)
        curve = _draw_curve(ladder, value, self.interpolation)
        return BinaryMap(data.chart("score"), curve, "identity", resolve_distance(self.clip, data))

    def _fit_many(self, batch: Batch) -> FloatArray:
        if not self.shrink or self.interpolation != "centered" or self.clip != "auto":
            return super()._fit_many(batch)
        laws = np.empty(batch.weight.shape)
        for weight, events, law in zip(batch.weight, batch.events, laws, strict=True):
            blocks, total = isotonic_blocks(weight, events), float(weight.sum())
            mass = np.add.reduceat(weight * batch.center, blocks.start)
            rate = float(events.sum()) / total
            again = isotonic_blocks(blocks.weight + 1.0, blocks.events + rate)
            block_weight = np.add.reduceat(blocks.weight, again.start)
            center = np.add.reduceat(mass, again.start) / block_weight
            law[:] = np.interp(batch.center, center, np.maximum.accumulate(again.value))
            low = least_distance(total)
            np.clip(law, low, 1.0 - low, out=law)
        return laws


def _shrink(ladder: Ladder, rate: float) -> tuple[Ladder, FloatArray]:
    """Blocks with one pseudo-observation at the base rate each, pooled again so that values do not fall."""
    weight, events = ladder.weight + 1.0, ladder.events + rate
    blocks = isotonic_blocks(weight, events)
    mass = np.add.reduceat(ladder.center * ladder.weight, blocks.start)
    block_weight = np.add.reduceat(ladder.weight, blocks.start)
    first, last = ladder.first[blocks.start], ladder.last[blocks.stop - 1]
    center = np.clip(mass / block_weight, first, last)
    return Ladder(first, last, center, block_weight, np.add.reduceat(ladder.events, blocks.start)), blocks.value


def _draw_curve(ladder: Ladder, value: FloatArray, interpolation: str) -> MapCurve:
    """Blocks as a curve; values are made nondecreasing to the last bit."""
    value = np.maximum.accumulate(value)
    if interpolation == "step":
        return Steps(ladder.first, value)
    if interpolation == "centered":
        return BrokenLine(ladder.center, value)
    knots = np.column_stack([ladder.first, ladder.last]).ravel()
    keep = np.concatenate([[True], np.diff(knots) > 0.0])
    return BrokenLine(knots[keep], np.repeat(value, 2)[keep])


def _sum_bins(bins: IntArray, count: int, *columns: FloatArray) -> list[FloatArray]:
    """Sums of columns over the rows of each bin."""
    return [np.bincount(bins, column, count).astype(np.float64) for column in columns]


@with_parameters
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

    n_bins: int = 10
    strategy: str = "quantile"
    clip: str | float = "auto"
    kind: str = "probability"

    name = "binning"
    edges_ = FittedPart("curve.starts", lambda starts: np.array(starts[1:]), "Cuts between bins.")
    values_ = FittedPart("curve.values", np.array, "Event rates, before clipping.")
    _rules = rules(n_bins=at_least(1), strategy=one_of("quantile", "uniform"), clip=parse_distance)

    def _fit(self, data: FitRows) -> Map:
        low, high = float(data.score.min()), float(data.score.max())
        if self.strategy == "quantile":
            cuts = equal_mass_cuts(data.score, data.weight, self.n_bins)
        else:
            cuts = low + (high - low) * np.arange(1, self.n_bins) / self.n_bins if high > low else np.zeros(0)
        bins = np.searchsorted(cuts, data.score, side="right")
        ones = np.ones(data.y.size) if data.weight is None else data.weight
        weight, events = _sum_bins(bins, cuts.size + 1, ones, ones * data.y)
        full = np.flatnonzero(weight)  # an empty bin joins the one before it, or at the start the first full one
        starts = np.concatenate([[min(low, cuts[0]) if cuts.size else low], cuts])[full]
        starts[0] = min(low, starts[0])
        steps = Steps(starts, events[full] / weight[full])
        return BinaryMap(data.chart("score"), steps, "identity", resolve_distance(self.clip, data))


def _parse_bins(value: object, name: str) -> str | int:
    return "auto" if isinstance(value, str) and value == "auto" else parse_count(value, name, 1)


def _parse_edges(value: object, name: str) -> FloatArray:
    edges = parse_numbers(value, name)
    if edges.ndim != 1 or (np.diff(edges) <= 0).any():
        refuse("`edges` must be increasing numbers", repr(value), "Pass the cuts between bins in order.")
    return edges


@with_parameters
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

    n_bins: str | int = "auto"
    edges: Any = None
    kind: str = "probability"

    name = "bin-effects"
    effects_ = FittedPart("curve.second.values", np.array, "Bin effects.")
    _kept = ("variance_",)
    _rules = rules(edges=optional(_parse_edges), n_bins=_parse_bins)

    def _fit(self, data: FitRows) -> Map:
        line, _ = fit_line(data)
        x = data.logit(data.score)
        cuts = self._cuts(data)
        bins = np.searchsorted(cuts, x, side="right")
        offset = line(x)
        ones = np.ones(x.size) if data.weight is None else data.weight
        effects, self.variance_ = _shrink_effects(bins, cuts.size + 1, offset, data.y, ones)
        starts = np.concatenate([[min(float(x.min()), cuts[0] if cuts.size else np.inf) - 1.0], cuts])
        return BinaryMap(data.logit, Sum(line, Steps(starts, effects)), "logit").with_floor(data.score, data.distance)

    def _cuts(self, data: FitRows) -> FloatArray:
        """Cuts on the logit scale."""
        if self.edges is not None:
            return np.unique(data.logit(self.edges))
        return equal_mass_cuts(data.logit(data.score), data.weight, self._count(data))

    def _count(self, data: FitRows) -> int:
        return auto_bins(data.total) if isinstance(self.n_bins, str) else self.n_bins

    def _share_choices(self, data: FitRows) -> BinEffectsCalibrator:
        """Bin edges come from all scores, shared by the folds: edges per fold inflate the spread by half."""
        if self.edges is not None:
            return self
        return BinEffectsCalibrator(edges=equal_mass_cuts(data.score, data.weight, self._count(data)), kind=self.kind)


def _shrink_effects(
    bins: IntArray, count: int, offset: FloatArray, y: FloatArray, weight: FloatArray
) -> tuple[FloatArray, float]:
    """Penalised effects of the bins beside an offset, and the variance between them."""
    p = clipped_sigmoid(offset)
    gap, mass = _sum_bins(bins, count, weight * (y - p), weight * p * (1.0 - p))
    used = mass > 0.0
    scatter = float((gap[used] ** 2 / mass[used]).sum()) - max(int(used.sum()) - 2, 0)
    spare = float(mass.sum() - (mass**2).sum() / mass.sum()) if mass.any() else 0.0
    variance = scatter / spare if scatter > 0.0 and spare > 0.0 else 0.0
    effects = np.zeros(count)
    if variance == 0.0:
        return effects, 0.0
    for _ in range(50):  # Newton in every bin at once
        p = clipped_sigmoid(offset + effects[bins])
        gap, mass = _sum_bins(bins, count, weight * (y - p), weight * p * (1.0 - p))
        step = np.clip((gap - effects / variance) / (mass + 1.0 / variance), -2.0, 2.0)
        effects += step
        if np.abs(step).max() < 1e-12:
            break
    return effects, variance


@with_parameters
class TreeCalibrator(Calibrator):
    """
    A natural spline with local shifts of its log-odds: the map that finds jumps, bumps and tables of means.

    The scores are cut in halves again and again, down to cells of about eight rows. Each cell may shift the log-odds
    of the spline; all prunings of this tree, all levels of it, and (where scores are tied) a shift for every distinct
    score are averaged by how well they explain the outcomes (Willems et al. 1995, context-tree weighting). Where the
    spline fits, hardly anything is shifted. Not monotone.

    Attributes
    ----------
    starts_, shifts_ : array
        Logits from which on a shift holds, and the shifts.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.calibrators import TreeCalibrator
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(5000)
    >>> step = np.where(s < 0.5, 0.2, 0.7)                              # no smooth map has such a jump
    >>> TreeCalibrator().fit(s, rng.random(5000) < step).calibrate([0.4, 0.6]).round(1)
    array([0.2, 0.7])
    """

    kind: str = "probability"

    name = "tree"
    starts_ = FittedPart("curve.second.starts", np.array, "Logits from which on a shift holds.")
    shifts_ = FittedPart("curve.second.values", np.array, "The shifts.")

    def _fit(self, data: FitRows) -> Map:
        base = NaturalSplineCalibrator(kind=self.kind)._fit(data)
        assert isinstance(base, BinaryMap)  # noqa: S101 - a spline of two classes is one
        pooled = pool_ties(data.score, data.y, data.weight)
        law = base(pooled.score)
        gradient = (pooled.events - pooled.weight * law)[None]
        information = (pooled.weight * law * (1.0 - law))[None]
        shift = local_shifts(gradient, information, law, pooled.weight, data.total, single=True)[0]
        logit = data.logit(pooled.score)
        shift = flatten_shifts(shift)
        new = np.flatnonzero(np.diff(shift) != 0.0) + 1
        starts = np.concatenate([logit[:1], 0.5 * (logit[new - 1] + logit[new])])
        keep = np.concatenate([[True], np.diff(starts) > 0.0])
        steps = Steps(starts[keep], shift[np.concatenate([[0], new])][keep])
        curve = Sum(base.curve, steps)
        return replace(base, curve=curve, floor=0.0).with_floor(data.score, data.distance)

    def _fit_many(self, batch: Batch) -> FloatArray:
        law = np.clip(NaturalSplineCalibrator()._fit_many(batch), EDGE_OF_SHIFTS, 1.0 - EDGE_OF_SHIFTS)
        gradient, information = batch.events - batch.weight * law, batch.weight * law * (1.0 - law)
        total = float(batch.total.mean())
        whole = batch.whole.sum(axis=0)
        shift = local_shifts(gradient, information, law.mean(axis=0), whole, total, single=batch.single)
        return batch.keep_inside(clipped_sigmoid(log_odds(law) + shift))
