"""Isotonic recalibration: the nondecreasing map of least squared error, and gentler versions of it."""

from __future__ import annotations

import numpy as np

from scoreprism._core.checks import parse_choice
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.isotonic import Ladder, isotonic_blocks, isotonic_ladder
from scoreprism._maps.binary_map import BinaryMap, BrokenLine, Curve, Steps, parse_distance
from scoreprism._maps.parts import Map
from scoreprism._sample.fit_batch import Batch
from scoreprism._sample.fit_rows import Data
from scoreprism.calibrators._base import Calibrator


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

    name = "isotonic"
    monotone = True

    def __init__(
        self,
        *,
        interpolation: str = "centered",
        shrink: bool = True,
        clip: str | float = "auto",
        kind: str = "probability",
    ) -> None:
        self.interpolation = interpolation
        self.shrink = shrink
        self.clip = clip
        self.kind = kind

    def _fit(self, data: Data) -> Map:
        interpolation = parse_choice(self.interpolation, ("centered", "linear", "step"), "interpolation")
        clip = parse_distance(self.clip, data.total)
        ladder = isotonic_ladder(data.score, data.y, data.weight)
        value = ladder.value
        if self.shrink:
            ladder, value = _shrunken(ladder, data.rate)
        return BinaryMap(data.chart("score"), _curve(ladder, value, interpolation), "identity", clip)

    def _fit_many(self, batch: Batch) -> FloatArray:
        if not self.shrink or self.interpolation != "centered" or self.clip != "auto":
            return super()._fit_many(batch)
        found = np.empty(batch.weight.shape)
        for weight, events, law in zip(batch.weight, batch.events, found, strict=True):
            blocks, total = isotonic_blocks(weight, events), float(weight.sum())
            mass = np.add.reduceat(weight * batch.center, blocks.start)
            rate = float(events.sum()) / total
            again = isotonic_blocks(blocks.weight + 1.0, blocks.events + rate)
            held = np.add.reduceat(blocks.weight, again.start)
            center = np.add.reduceat(mass, again.start) / held
            law[:] = np.interp(batch.center, center, np.maximum.accumulate(again.value))
            low = min(0.5 / total, 0.25)
            np.clip(law, low, 1.0 - low, out=law)
        return found

    @property
    def n_blocks_(self) -> int:
        """Number of different values."""
        values: FloatArray = self._fitted.curve.values
        return len(np.unique(values))


def _shrunken(ladder: Ladder, rate: float) -> tuple[Ladder, FloatArray]:
    """Blocks with one pseudo-observation at the base rate each, pooled again so that values do not fall."""
    weight, events = ladder.weight + 1.0, ladder.events + rate
    blocks = isotonic_blocks(weight, events)
    mass = np.add.reduceat(ladder.center * ladder.weight, blocks.start)
    held = np.add.reduceat(ladder.weight, blocks.start)
    first, last = ladder.first[blocks.start], ladder.last[blocks.stop - 1]
    center = np.clip(mass / held, first, last)
    return Ladder(first, last, center, held, np.add.reduceat(ladder.events, blocks.start)), blocks.value


def _curve(ladder: Ladder, value: FloatArray, interpolation: str) -> Curve:
    """Blocks as a curve; values are made nondecreasing to the last bit."""
    value = np.maximum.accumulate(value)
    if interpolation == "step":
        return Steps(ladder.first, value)
    if interpolation == "centered":
        return BrokenLine(ladder.center, value)
    knots = np.column_stack([ladder.first, ladder.last]).ravel()
    keep = np.concatenate([[True], np.diff(knots) > 0.0])
    return BrokenLine(knots[keep], np.repeat(value, 2)[keep])
