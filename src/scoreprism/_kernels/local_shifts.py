"""Local shifts of log-odds over cells of a score: context trees, levels and single scores, averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scoreprism._core.numerics import REACHED, TINY, clipped_sigmoid, log_odds
from scoreprism._core.simplex import FloatArray, IntArray

#: Rows per cell at least, and the greatest depth of the tree.
_ROWS, _DEEPEST = 8, 13
#: Prior variances of a shift of the log-odds, each as likely as the others.
_VARIANCES = (0.01, 0.04, 0.16, 0.64, 2.56)
#: Rows per distinct score from which on each score may have a shift of its own.
_TIED = 5
#: Log-odds are shifted by no more than this.
_FARTHEST = 6.0
#: Rates that outcomes of a node seem to have reached are kept this far from 0 and 1.
_EDGE = 1e-6
#: Steps of a fitted map that are smaller than this, in log-odds, are none.
_FLAT = 0.005
#: Level models below this share are left out.
_NOTHING = 1e-4
#: Steps of the log-odds beyond which the likelihood of a node is no longer taken for a parabola.
_FAR = 0.7


@dataclass(frozen=True)
class _Nodes:
    """Nodes of one depth (or the distinct scores): gradient and information of a common shift of their log-odds."""

    gradient: FloatArray  # (M, nodes)
    information: FloatArray
    rate: FloatArray  # (nodes,): mean of the law to be shifted

    def fit(self, variance: float) -> tuple[FloatArray, FloatArray]:
        """Mean shift, and log of how much likelier outcomes are with a shift of this prior variance than with none."""
        shift = self.gradient / (self.information + 1.0 / variance)
        evidence = 0.5 * self.gradient * shift - 0.5 * np.log1p(variance * self.information)
        far = np.nonzero(np.abs(shift) > _FAR)
        if far[0].size:
            u, i, c = self.gradient[far], self.information[far], self.rate[far[1]]
            shift[far], evidence[far] = _far_mode(u, i, c, shift[far], variance)
        return shift, evidence

    def average(self) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
        """Evidence and mean shift over all variances, no shift as likely as any; and the evidence of all nodes."""
        full = np.flatnonzero((self.information != 0.0).any(axis=0) | (self.gradient != 0.0).any(axis=0))
        if full.size == self.rate.size:
            return self._averaged()
        # many rows in few cells make mostly empty leaves, which have neither evidence nor shift
        part = _Nodes(self.gradient[:, full], self.information[:, full], self.rate[full])
        evidence, shift = np.zeros(self.gradient.shape), np.zeros(self.gradient.shape)
        evidence[:, full], shift[:, full], sums = part._averaged()
        return evidence, shift, sums

    def _averaged(self) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
        share = 0.5 / len(_VARIANCES)
        fits = [self.fit(variance) for variance in _VARIANCES]
        top = np.zeros(self.gradient.shape)
        for _, evidence in fits:
            np.maximum(top, evidence, out=top)
        mass = 0.5 * np.exp(-top)
        moved = np.zeros(top.shape)
        for shift, evidence in fits:
            part = share * np.exp(evidence - top)
            mass += part
            moved += part * shift
        return top + np.log(mass), moved / mass, [evidence.sum(axis=1) for _, evidence in fits]

    def pairs(self, whole: FloatArray) -> _Nodes:
        """The nodes one depth higher; `whole` is the mass of these."""
        shape = (self.gradient.shape[0], -1, 2)
        mass = np.maximum(whole.reshape(-1, 2), TINY)
        rate = (self.rate.reshape(-1, 2) * mass).sum(axis=1) / mass.sum(axis=1)
        return _Nodes(self.gradient.reshape(shape).sum(axis=2), self.information.reshape(shape).sum(axis=2), rate)


def _far_mode(
    u: FloatArray, i: FloatArray, c: FloatArray, shift: FloatArray, variance: float
) -> tuple[FloatArray, FloatArray]:
    """
    Mode and evidence of a large shift, by the likelihood of n = I/(c(1 − c)) rows at the rate c with the same gradient.

    A parabola would overshoot: where c is 0.01 and the outcomes say 0.1, it shifts the log-odds by 9, not by 2.4.
    """
    n = i / (c * (1.0 - c))
    reached = c + np.divide(u, n, out=np.full(u.shape, np.inf) * np.sign(u), where=n > 0.0)
    eta = log_odds(c)
    start = log_odds(reached, _EDGE) - eta
    mode = np.sign(u) * np.minimum(np.abs(shift), np.abs(start))
    for _ in range(3):
        law = clipped_sigmoid(eta + mode)
        slope = u + n * (c - law) - mode / variance
        mode = mode + slope / (n * law * (1.0 - law) + 1.0 / variance)
    law = clipped_sigmoid(eta + mode)
    value = (u + n * c) * mode + n * (np.log1p(-law) - np.log1p(-c)) - 0.5 * mode**2 / variance
    return mode, value - 0.5 * np.log1p(variance * n * law * (1.0 - law))


def local_shifts(
    gradient: FloatArray, information: FloatArray, rate: FloatArray, whole: FloatArray, total: float, *, single: bool
) -> FloatArray:
    """Shifts of the log-odds of M laws in G cells: trees, levels and single scores, averaged."""
    models, cells = gradient.shape
    depth = int(np.clip(np.floor(np.log2(max(total, 2 * _ROWS) / _ROWS)), 1, _DEEPEST))
    node = _leaf_of(whole, depth)
    mass = np.bincount(node, whole, 1 << depth).astype(np.float64)
    held = np.bincount(node, whole * rate, 1 << depth)
    mean = np.divide(held, mass, out=np.full(mass.size, 0.5), where=mass > 0.0)
    ladder = [_Nodes(_sums(gradient, node, 1 << depth), _sums(information, node, 1 << depth), mean)]
    for _ in range(depth):
        ladder.append(ladder[-1].pairs(mass))
        mass = mass.reshape(-1, 2).sum(axis=1)
    ladder.reverse()  # from the root to the leaves
    leaf, shifts, sums = zip(*(nodes.average() for nodes in ladder), strict=True)
    evidence, out = _tree_average(leaf, shifts)
    levels = list(zip(ladder, sums, strict=True))[2:]
    scores = _Nodes(gradient, information, rate) if single and cells <= total / _TIED else None
    half = 0.5 if scores is None else 0.25
    models_ = [
        (nodes, v, found[t], half / (len(levels) * len(_VARIANCES)))
        for nodes, found in levels
        for t, v in enumerate(_VARIANCES)
    ]
    if scores is not None:
        found = scores.average()[2]
        models_ += [(scores, v, found[t], half / len(_VARIANCES)) for t, v in enumerate(_VARIANCES)]
    logs = np.stack([log + np.log(prior) for _, _, log, prior in models_] + [evidence + np.log(0.5)])
    share = np.exp(logs - logs.max(axis=0))
    share /= share.sum(axis=0)
    out *= share[-1][:, None]
    alone = np.zeros((models, cells))
    for (nodes, variance, _, _), part in zip(models_, share[:-1], strict=True):
        if part.max() < _NOTHING:
            continue
        shift = part[:, None] * nodes.fit(variance)[0]
        if nodes is scores:
            alone += shift
        else:
            out += np.repeat(shift, out.shape[1] // shift.shape[1], axis=1)
    return np.clip(out[:, node] + alone, -_FARTHEST, _FARTHEST)


def _leaf_of(whole: FloatArray, depth: int) -> IntArray:
    """The leaf of each cell: leaves of equal mass, whose first cell is that in which the mass is reached."""
    reached = np.cumsum(whole)
    first = np.searchsorted(reached, reached[-1] * np.arange(1, 1 << depth) / (1 << depth) * REACHED)
    return np.searchsorted(np.minimum(first, whole.size - 1), np.arange(whole.size), side="right")


def _sums(values: FloatArray, node: IntArray, count: int) -> FloatArray:
    """Sums over the cells of each leaf; leaves may be empty."""
    upto = np.concatenate([np.zeros((values.shape[0], 1)), np.cumsum(values, axis=1)], axis=1)
    edge = np.searchsorted(node, np.arange(count + 1))
    return np.asarray(upto[:, edge[1:]] - upto[:, edge[:-1]])


def _tree_average(leaf: Sequence[FloatArray], mean: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Evidence of all prunings of the tree together (context-tree weighting), and the mean shift in each leaf."""
    below, stop = leaf[-1], [np.ones(leaf[-1].shape)]
    for one in reversed(leaf[:-1]):
        split = below.reshape(one.shape[0], -1, 2).sum(axis=2)
        stop.append(clipped_sigmoid(one - split))
        below = np.logaddexp(one, split) - np.log(2.0)
    stop.reverse()
    alive, out = np.ones(leaf[0].shape), np.zeros(leaf[0].shape)
    for ended, shift in zip(stop, mean, strict=True):
        if shift.shape[1] > 1:
            alive, out = np.repeat(alive, 2, axis=1), np.repeat(out, 2, axis=1)
        out = out + alive * ended * shift
        alive = alive * (1.0 - ended)
    return below[:, 0], out


def flatten_shifts(shift: FloatArray) -> FloatArray:
    """Shifts with steps too small to matter left out: a map of few steps is quicker to read, to store and to query."""
    out, level = np.empty(shift.size), float(shift[0])
    for i, value in enumerate(shift.tolist()):
        if abs(value - level) > _FLAT:
            level = value
        out[i] = level
    return out
