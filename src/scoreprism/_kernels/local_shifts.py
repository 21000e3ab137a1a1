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

    gradient: FloatArray  # (M, nodes), or (classes, M, nodes)
    information: FloatArray
    rate: FloatArray  # (nodes,), or (classes, nodes): mean of the law to be shifted

    def fit(self, variance: float) -> tuple[FloatArray, FloatArray]:
        """Mean shift, and log of how much likelier outcomes are with a shift of this prior variance than with none."""
        shift = self.gradient / (self.information + 1.0 / variance)
        evidence = 0.5 * self.gradient * shift - 0.5 * np.log1p(variance * self.information)
        far = np.nonzero(np.abs(shift) > _FAR)
        if far[0].size:
            u, i, c = self.gradient[far], self.information[far], self.rate[(*far[:-2], far[-1])]
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
        return top + np.log(mass), moved / mass, [evidence.sum(axis=-1) for _, evidence in fits]

    def merge(self, mass: FloatArray, step: _Runs | _Halves) -> _Nodes:
        """The nodes one depth higher; `mass` is that of these."""
        held = np.maximum(mass, TINY)
        return _Nodes(step.up(self.gradient), step.up(self.information), step.up(self.rate * held) / step.up(held))


@dataclass(frozen=True)
class _Runs:
    """From the nodes that hold cells to their parents, by the first child of each parent; and back."""

    starts: IntArray

    def up(self, values: FloatArray) -> FloatArray:
        """Sums over children."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=-1))

    def down(self, values: FloatArray, count: int) -> FloatArray:
        """The value of the parent of each of `count` nodes."""
        return np.repeat(values, np.diff(self.starts, append=count), axis=-1)


class _Halves:
    """The same where every node has two children, also those that hold nothing: they change nothing."""

    def up(self, values: FloatArray) -> FloatArray:
        """Sums over children."""
        return np.asarray(values[..., ::2] + values[..., 1::2])

    def down(self, values: FloatArray, _count: int) -> FloatArray:
        """The value of the parent of each node."""
        return np.repeat(values, 2, axis=-1)


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


def find_depth(total: float) -> int:
    """Depth of the tree for so many rows."""
    return int(np.clip(np.floor(np.log2(max(total, 2 * _ROWS) / _ROWS)), 1, _DEEPEST))


def local_shifts(
    gradient: FloatArray, information: FloatArray, rate: FloatArray, whole: FloatArray, total: float, *, single: bool
) -> FloatArray:
    """Shifts of the log-odds of M laws in G cells: trees, levels and single scores, averaged."""
    cells, depth = gradient.shape[1], find_depth(total)
    # many rows in few cells leave most leaves empty: only nodes that hold cells are stored
    codes, first, leaf_of = np.unique(find_leaves(whole, depth), return_index=True, return_inverse=True)
    mass = np.add.reduceat(whole, first)
    sums_of_rates = np.add.reduceat(whole * rate, first)
    mean = np.divide(sums_of_rates, mass, out=np.full(mass.size, 0.5), where=mass > 0.0)
    leaves = _Nodes(_sum_cells(gradient, first), _sum_cells(information, first), mean)
    steps: list[_Runs | _Halves] = []
    for _ in range(depth):
        codes, starts = np.unique(codes >> 1, return_index=True)
        steps.append(_Runs(starts))
    scores = _Nodes(gradient, information, rate) if single and cells <= total / _TIED else None
    out, alone = _average_models(_climb(leaves, mass, steps), steps[::-1], scores)
    return np.clip(out[:, leaf_of] + alone, -_FARTHEST, _FARTHEST)


def shift_classes(
    gradient: FloatArray, information: FloatArray, rate: FloatArray, mass: FloatArray, depth: int
) -> FloatArray:
    """
    The same for several classes at once, from sums over all 2^depth leaves; none has shifts of single scores.

    `gradient` and `information` are (classes, M, leaves), `rate` and `mass` (classes, leaves).
    """
    steps: list[_Runs | _Halves] = [_Halves()] * depth
    ladder = _climb(_Nodes(gradient, information, rate), mass, steps)
    return np.clip(_average_models(ladder, steps, None)[0], -_FARTHEST, _FARTHEST)


def _climb(leaves: _Nodes, mass: FloatArray, steps: Sequence[_Runs | _Halves]) -> list[_Nodes]:
    """The nodes of all depths, from the root to the leaves."""
    ladder = [leaves]
    for step in steps:
        ladder.append(ladder[-1].merge(mass, step))
        mass = step.up(mass)
    return ladder[::-1]


def _average_models(
    ladder: Sequence[_Nodes], steps: Sequence[_Runs | _Halves], scores: _Nodes | None
) -> tuple[FloatArray, FloatArray | float]:
    """Mean shift of the leaves under all models, and that of single scores."""
    leaf, shifts, sums = zip(*(nodes.average() for nodes in ladder), strict=True)
    evidence, out = _average_tree(leaf, shifts, steps)
    half = 0.5 if scores is None else 0.25
    logs = [evidence + np.log(0.5)]
    levels = list(zip(ladder, sums, strict=True))[2:]
    priors = [half / (len(levels) * len(_VARIANCES)) for _ in levels]
    if scores is not None:
        levels.append((scores, scores.average()[2]))
        priors.append(half / len(_VARIANCES))
    logs += [one + np.log(prior) for (_, by_variance), prior in zip(levels, priors, strict=True) for one in by_variance]
    share = np.exp(np.stack(logs) - np.max(logs, axis=0))
    share /= share.sum(axis=0)
    parts = share[1:].reshape(len(levels), len(_VARIANCES), *evidence.shape)
    moved = [_shift_by(nodes, part) for (nodes, _), part in zip(levels, parts, strict=True)]
    alone = moved.pop() if scores is not None else 0.0
    total: FloatArray | float = 0.0
    for step, nodes, shift in zip(steps[1:], ladder[2:], moved, strict=True):  # from coarse to fine
        total = shift if isinstance(total, float) else step.down(total, nodes.gradient.shape[-1]) + shift
    return share[0][..., None] * out + total, alone


def _shift_by(nodes: _Nodes, shares: FloatArray) -> FloatArray:
    """The mean shift of nodes under all variances; those that hardly count are left out."""
    out = np.zeros(nodes.gradient.shape)
    for variance, share in zip(_VARIANCES, shares, strict=True):
        counts = share.max(axis=-1, keepdims=True) >= _NOTHING  # of each class by itself
        if counts.any():
            out += np.where(counts, share, 0.0)[..., None] * nodes.fit(variance)[0]
    return out


def find_leaves(whole: FloatArray, depth: int) -> IntArray:
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
    leaf: Sequence[FloatArray], mean: Sequence[FloatArray], steps: Sequence[_Runs | _Halves]
) -> tuple[FloatArray, FloatArray]:
    """Evidence of all prunings of the tree together (context-tree weighting), and the mean shift in each leaf."""
    below, stop = leaf[-1], [np.ones(leaf[-1].shape)]
    for one, step in zip(reversed(leaf[:-1]), reversed(steps), strict=True):
        split = step.up(below)
        stop.append(clipped_sigmoid(one - split))
        below = np.logaddexp(one, split) - np.log(2.0)
    stop.reverse()
    out = stop[0] * mean[0]
    alive = 1.0 - stop[0]
    for ended, shift, step in zip(stop[1:], mean[1:], steps, strict=True):
        alive, out = (step.down(values, shift.shape[-1]) for values in (alive, out))
        out = out + alive * ended * shift
        alive = alive * (1.0 - ended)
    return below[..., 0], out


def flatten_shifts(shift: FloatArray) -> FloatArray:
    """Drop steps too small to matter: a map with fewer steps is faster to read, store and query."""
    out, level = np.empty(shift.size), float(shift[0])
    for i, value in enumerate(shift.tolist()):
        if abs(value - level) > _FLAT:
            level = value
        out[i] = level
    return out
