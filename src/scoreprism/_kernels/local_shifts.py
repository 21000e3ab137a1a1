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
#: Estimated rates of a node are kept this far from 0 and 1.
_EDGE = 1e-6
#: Steps of a fitted map smaller than this, in log-odds, are dropped.
_FLAT = 0.005
#: Models with a smaller posterior share are left out.
_NOTHING = 1e-4
#: Shifts beyond which the log-likelihood of a node is no longer approximated by a parabola.
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
            shift[far], evidence[far] = _find_far_mode(u, i, c, shift[far], variance)
        return shift, evidence

    def average(self) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
        """Evidence and mean shift over all variances, no shift as likely as any; and the evidence of all nodes."""
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

    def merge(self, whole: FloatArray, starts: IntArray) -> _Nodes:
        """The nodes one depth higher, whose first children are `starts`; `whole` is the mass of these."""
        mass = np.maximum(whole, TINY)
        rate = np.add.reduceat(self.rate * mass, starts) / np.add.reduceat(mass, starts)
        gradient, information = (
            np.add.reduceat(values, starts, axis=1) for values in (self.gradient, self.information)
        )
        return _Nodes(gradient, information, rate)


def _find_far_mode(
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
    # many rows in few cells leave most leaves empty: only nodes that hold cells are stored
    leaves, first, leaf_of = np.unique(_find_leaves(whole, depth), return_index=True, return_inverse=True)
    mass = np.add.reduceat(whole, first)
    sums_of_rates = np.add.reduceat(whole * rate, first)
    mean = np.divide(sums_of_rates, mass, out=np.full(mass.size, 0.5), where=mass > 0.0)
    ladder = [_Nodes(_sum_cells(gradient, first), _sum_cells(information, first), mean)]
    place, steps = [np.arange(leaves.size)], []  # the node of each leaf, and the first child of each node
    codes = leaves
    for _ in range(depth):
        codes, starts, parent = np.unique(codes >> 1, return_index=True, return_inverse=True)
        ladder.append(ladder[-1].merge(mass, starts))
        mass = np.add.reduceat(mass, starts)
        place.append(parent[place[-1]])
        steps.append(starts)
    ladder.reverse()  # from the root to the leaves
    place.reverse()
    leaf, shifts, sums = zip(*(nodes.average() for nodes in ladder), strict=True)
    evidence, out = _average_tree(leaf, shifts, steps[::-1])
    levels = list(zip(ladder, sums, place, strict=True))[2:]
    scores = _Nodes(gradient, information, rate) if single and cells <= total / _TIED else None
    half = 0.5 if scores is None else 0.25
    models_ = [
        (nodes, v, logs_by_variance[t], half / (len(levels) * len(_VARIANCES)), node_of)
        for nodes, logs_by_variance, node_of in levels
        for t, v in enumerate(_VARIANCES)
    ]
    if scores is not None:
        logs_by_variance = scores.average()[2]
        models_ += [(scores, v, logs_by_variance[t], half / len(_VARIANCES), leaf_of) for t, v in enumerate(_VARIANCES)]
    logs = np.stack([log + np.log(prior) for _, _, log, prior, _ in models_] + [evidence + np.log(0.5)])
    share = np.exp(logs - logs.max(axis=0))
    share /= share.sum(axis=0)
    out *= share[-1][:, None]
    alone = np.zeros((models, cells))
    for (nodes, variance, _, _, node_of), part in zip(models_, share[:-1], strict=True):
        if part.max() < _NOTHING:
            continue
        shift = part[:, None] * nodes.fit(variance)[0]
        if nodes is scores:
            alone += shift
        else:
            out += shift[:, node_of]
    return np.clip(out[:, leaf_of] + alone, -_FARTHEST, _FARTHEST)


def _find_leaves(whole: FloatArray, depth: int) -> IntArray:
    """The leaf of each cell; leaves have equal mass as far as whole cells allow."""
    reached = np.cumsum(whole)
    first = np.searchsorted(reached, reached[-1] * np.arange(1, 1 << depth) / (1 << depth) * REACHED)
    return np.searchsorted(np.minimum(first, whole.size - 1), np.arange(whole.size), side="right")


def _sum_cells(values: FloatArray, first: IntArray) -> FloatArray:
    """Sums over the cells of each leaf, by the first cell of each."""
    upto = np.cumsum(values, axis=1)
    before = np.where(first > 0, upto[:, first - 1], 0.0)
    return np.asarray(upto[:, np.append(first[1:], values.shape[1]) - 1] - before)


def _average_tree(
    leaf: Sequence[FloatArray], mean: Sequence[FloatArray], steps: Sequence[IntArray]
) -> tuple[FloatArray, FloatArray]:
    """Evidence of all prunings of the tree together (context-tree weighting), and the mean shift in each leaf."""
    below, stop = leaf[-1], [np.ones(leaf[-1].shape)]
    for one, starts in zip(reversed(leaf[:-1]), reversed(steps), strict=True):
        split = np.add.reduceat(below, starts, axis=1)
        stop.append(clipped_sigmoid(one - split))
        below = np.logaddexp(one, split) - np.log(2.0)
    stop.reverse()
    out = stop[0] * mean[0]
    alive = 1.0 - stop[0]
    for ended, shift, starts in zip(stop[1:], mean[1:], steps, strict=True):
        children = np.diff(starts, append=shift.shape[1])
        alive, out = np.repeat(alive, children, axis=1), np.repeat(out, children, axis=1)
        out = out + alive * ended * shift
        alive = alive * (1.0 - ended)
    return below[:, 0], out


def flatten_shifts(shift: FloatArray) -> FloatArray:
    """Drop steps too small to matter: a map with fewer steps is faster to read, store and query."""
    out, level = np.empty(shift.size), float(shift[0])
    for i, value in enumerate(shift.tolist()):
        if abs(value - level) > _FLAT:
            level = value
        out[i] = level
    return out
