"""A map that sees jumps: local shifts of the log-odds of a smooth map, on a tree of cells of the score."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scoreprism._core.numerics import EDGE_OF_SHIFTS, clipped_sigmoid, log_odds
from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.isotonic import pool_ties
from scoreprism._kernels.local_shifts import flattened, local_shifts
from scoreprism._maps.binary_map import BinaryMap, Steps, Sum
from scoreprism._maps.parts import Map
from scoreprism._sample.fit_rows import Batch, Data
from scoreprism.calibrators._calibrator import Calibrator
from scoreprism.calibrators._splines import NaturalSplineCalibrator


class TreeCalibrator(Calibrator):
    """
    A natural spline with local shifts of its log-odds: the map that finds jumps, bumps and tables of means.

    The scores are cut in halves again and again, down to cells of about eight rows. Each cell may shift the log-odds
    of the spline; all prunings of this tree, all levels of it, and (where scores are tied) a shift for every distinct
    score are averaged by how well they explain the outcomes (Willems et al. 1995, context-tree weighting). Where the
    spline fits, hardly anything is shifted. Not monotone.

    Parameters
    ----------
    kind : {"probability", "logit"}, default="probability"
        What scores are.

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

    name = "tree"

    def __init__(self, *, kind: str = "probability") -> None:
        self.kind = kind

    def _fit(self, data: Data) -> Map:
        base = NaturalSplineCalibrator(kind=self.kind)._fit(data)
        assert isinstance(base, BinaryMap)  # noqa: S101 - a spline of two classes is one
        pooled = pool_ties(data.score, data.y, data.weight)
        law = base(pooled.score)
        gradient = (pooled.events - pooled.weight * law)[None]
        information = (pooled.weight * law * (1.0 - law))[None]
        shift = local_shifts(gradient, information, law, pooled.weight, data.total, single=True)[0]
        logit = data.logit(pooled.score)
        shift = flattened(shift)
        new = np.flatnonzero(np.diff(shift) != 0.0) + 1
        starts = np.concatenate([logit[:1], 0.5 * (logit[new - 1] + logit[new])])
        keep = np.concatenate([[True], np.diff(starts) > 0.0])
        steps = Steps(starts[keep], shift[np.concatenate([[0], new])][keep])
        curve = Sum(base.curve, steps)
        return replace(base, curve=curve, floor=0.0).floored(data.score, data.distance)

    def _fit_many(self, batch: Batch) -> FloatArray:
        law = np.clip(NaturalSplineCalibrator()._fit_many(batch), EDGE_OF_SHIFTS, 1.0 - EDGE_OF_SHIFTS)
        gradient, information = batch.events - batch.weight * law, batch.weight * law * (1.0 - law)
        total = float(batch.total.mean())
        whole = batch.whole.sum(axis=0)
        shift = local_shifts(gradient, information, law.mean(axis=0), whole, total, single=batch.single)
        return batch.kept_inside(clipped_sigmoid(log_odds(law) + shift))

    @property
    def starts_(self) -> FloatArray:
        """Logits from which on a shift holds."""
        return np.array(self._fitted.curve.second.starts)

    @property
    def shifts_(self) -> FloatArray:
        """The shifts."""
        return np.array(self._fitted.curve.second.values)
