"""A map that sees jumps: local shifts of the log-odds of a smooth map, on a tree of cells of the score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from scoreprism.calibrators._base import Calibrator
from scoreprism.calibrators._batch import Batch
from scoreprism.calibrators._data import Data, Map
from scoreprism.calibrators._logistic import expected
from scoreprism.calibrators._maps import BinaryMap, Steps, Sum
from scoreprism.calibrators._smooth import NaturalSplineCalibrator
from scoreprism.isotonic import pool_ties
from scoreprism.simplex import FloatArray, IntArray

#: Prior variances of a shift of the log-odds, each as likely as the others.
_VARIANCES = (0.01, 0.04, 0.16, 0.64, 2.56)
#: Rows per cell at least, and the greatest depth of the tree.
_ROWS, _DEEPEST = 8, 13
#: Rows per distinct score from which on each score may have a shift of its own.
_TIED = 5
#: Log-odds are shifted by no more than this.
_FARTHEST = 6.0
#: Level models below this share are left out.
_NOTHING = 1e-4


@dataclass(frozen=True)
class _Nodes:
    """Nodes of one depth (or the distinct scores): gradient and information of a common shift of their log-odds."""

    gradient: FloatArray  # (M, nodes)
    information: FloatArray

    def evidence(self, variance: float) -> FloatArray:
        """Log of how much likelier outcomes are with a shift of this prior variance than with none (Laplace)."""
        precision = self.information + 1.0 / variance
        return 0.5 * self.gradient**2 / precision - 0.5 * np.log1p(variance * self.information)

    def shift(self, variance: float) -> FloatArray:
        """The mean shift, given the outcomes."""
        return self.gradient / (self.information + 1.0 / variance)

    def averaged(self) -> tuple[FloatArray, FloatArray]:
        """Evidence and mean shift over all variances, with no shift at all as likely as any."""
        share = 0.5 / len(_VARIANCES)
        found = [self.evidence(variance) for variance in _VARIANCES]
        top = np.maximum(np.max(found, axis=0), 0.0)
        mass = 0.5 * np.exp(-top)
        moved = np.zeros(top.shape)
        for variance, one in zip(_VARIANCES, found, strict=True):
            part = share * np.exp(one - top)
            mass += part
            moved += part * self.shift(variance)
        return top + np.log(mass), moved / mass

    def pairs(self) -> _Nodes:
        """The nodes one depth higher."""
        shape = (self.gradient.shape[0], -1, 2)
        return _Nodes(self.gradient.reshape(shape).sum(axis=2), self.information.reshape(shape).sum(axis=2))


def local_shifts(
    gradient: FloatArray, information: FloatArray, whole: FloatArray, total: float, *, single: bool
) -> FloatArray:
    """
    Shifts of the log-odds of M laws in G cells, averaged over trees, levels and single scores (docs/statistics.md).

    Parameters
    ----------
    gradient, information : array of shape (M, G)
        Σw(y − c) and Σw·c(1 − c) of the training rows of each law in each cell.
    whole : array of shape (G,)
        Weight of all rows in each cell, which cuts the cells into nodes of equal mass.
    total : float
        Weight of a training set.
    single : bool
        Whether every cell holds one distinct score.

    Returns
    -------
    array of shape (M, G)
        Shifts.
    """
    models, cells = gradient.shape
    depth = int(np.clip(np.floor(np.log2(max(total, 2 * _ROWS) / _ROWS)), 1, _DEEPEST))
    node = _leaf_of(whole, depth)
    ladder = [_Nodes(_sums(gradient, node, 1 << depth), _sums(information, node, 1 << depth))]
    for _ in range(depth):
        ladder.append(ladder[-1].pairs())
    ladder.reverse()  # from the root to the leaves
    evidence, out = _tree_average(ladder)
    scores = _Nodes(gradient, information) if single and cells <= total / _TIED else None
    levels = list(_levels(ladder, scores))
    logs = np.stack([log + np.log(prior) for _, _, log, prior in levels] + [evidence + np.log(0.5)])
    share = np.exp(logs - logs.max(axis=0))
    share /= share.sum(axis=0)
    out *= share[-1][:, None]
    alone = np.zeros((models, cells)) if scores is not None else None
    for (nodes, variance, _, _), part in zip(levels, share[:-1], strict=True):
        if part.max() < _NOTHING:
            continue
        shift = part[:, None] * nodes.shift(variance)
        if nodes is scores:
            alone += shift
        else:
            out += np.repeat(shift, out.shape[1] // shift.shape[1], axis=1)
    moved = out[:, node] if alone is None else out[:, node] + alone
    return np.clip(moved, -_FARTHEST, _FARTHEST)


def _leaf_of(whole: FloatArray, depth: int) -> IntArray:
    """The leaf of each cell: leaves of equal mass, whose first cell is that in which the mass is reached."""
    reached = np.cumsum(whole)
    first = np.searchsorted(reached, reached[-1] * np.arange(1, 1 << depth) / (1 << depth) * (1.0 - 1e-12))
    return np.searchsorted(np.minimum(first, whole.size - 1), np.arange(whole.size), side="right")


def _sums(values: FloatArray, node: IntArray, count: int) -> FloatArray:
    """Sums over the cells of each leaf; leaves may be empty."""
    upto = np.concatenate([np.zeros((values.shape[0], 1)), np.cumsum(values, axis=1)], axis=1)
    edge = np.searchsorted(node, np.arange(count + 1))
    return np.asarray(upto[:, edge[1:]] - upto[:, edge[:-1]])


def _tree_average(ladder: list[_Nodes]) -> tuple[FloatArray, FloatArray]:
    """Evidence of all prunings of the tree together (context-tree weighting), and the mean shift in each leaf."""
    leaf, mean = zip(*(nodes.averaged() for nodes in ladder), strict=True)
    below, stop = leaf[-1], [np.ones(leaf[-1].shape)]
    for one in reversed(leaf[:-1]):
        split = below.reshape(one.shape[0], -1, 2).sum(axis=2)
        stop.append(expected(one - split))
        below = np.logaddexp(one, split) - np.log(2.0)
    stop.reverse()
    alive, out = np.ones(leaf[0].shape), np.zeros(leaf[0].shape)
    for ended, shift in zip(stop, mean, strict=True):
        if shift.shape[1] > 1:
            alive, out = np.repeat(alive, 2, axis=1), np.repeat(out, 2, axis=1)
        out = out + alive * ended * shift
        alive = alive * (1.0 - ended)
    return below[:, 0], out


def _levels(ladder: list[_Nodes], scores: _Nodes | None) -> Iterator[tuple[_Nodes, float, FloatArray, float]]:
    """Models in which all nodes of one depth, or all scores, are shifted: nodes, variance, evidence, prior share."""
    depths = ladder[2:]
    half = 0.5 if scores is None else 0.25
    for nodes in depths:
        for variance in _VARIANCES:
            prior = half / (len(depths) * len(_VARIANCES))
            yield nodes, variance, nodes.evidence(variance).sum(axis=1), prior
    if scores is not None:
        for variance in _VARIANCES:
            yield scores, variance, scores.evidence(variance).sum(axis=1), half / len(_VARIANCES)


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
    >>> TreeCalibrator().fit(s, rng.random(5000) < step).calibrate([0.45, 0.55]).round(1)
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
        shift = local_shifts(gradient, information, pooled.weight, data.total, single=True)[0]
        logit = data.logit(pooled.score)
        new = np.flatnonzero(np.diff(shift) != 0.0) + 1
        starts = np.concatenate([logit[:1], 0.5 * (logit[new - 1] + logit[new])])
        keep = np.concatenate([[True], np.diff(starts) > 0.0])
        steps = Steps(starts[keep], shift[np.concatenate([[0], new])][keep])
        curve = Sum(base.curve, steps)
        return replace(base, curve=curve, floor=0.0).floored(data.score, data.distance)

    def _fit_many(self, batch: Batch) -> FloatArray:
        law = np.clip(NaturalSplineCalibrator()._fit_many(batch), 1e-9, 1.0 - 1e-9)
        gradient, information = batch.events - batch.weight * law, batch.weight * law * (1.0 - law)
        total = float(batch.total.mean())
        shift = local_shifts(gradient, information, batch.whole.sum(axis=0), total, single=batch.single)
        return batch.kept_inside(expected(np.log(law) - np.log1p(-law) + shift))

    @property
    def starts_(self) -> FloatArray:
        """Logits from which on a shift holds."""
        return np.array(self._fitted.curve.second.starts)

    @property
    def shifts_(self) -> FloatArray:
        """The shifts."""
        return np.array(self._fitted.curve.second.values)
