"""Pool adjacent violators with ties and weights: the one kernel that CORP and the calibrators share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scoreprism.simplex import FloatArray, IntArray

__all__ = ["Blocks", "Pooled", "isotonic_blocks", "isotonic_fit", "pool_ties"]


class Pooled(NamedTuple):
    """Rows with equal scores made one: distinct scores in increasing order, their weights and events."""

    score: FloatArray
    weight: FloatArray
    events: FloatArray


class Blocks(NamedTuple):
    """The level sets of an isotonic fit: first and one-past-last distinct score, weight and mean of each."""

    start: IntArray
    stop: IntArray
    weight: FloatArray
    value: FloatArray


def pool_ties(score: FloatArray, y: FloatArray, weight: FloatArray | None = None) -> Pooled:
    """
    Sum weights and events over equal scores.

    Parameters
    ----------
    score : array of shape (n,)
        Scores.
    y : array of shape (n,)
        Outcomes in [0, 1].
    weight : array of shape (n,), optional
        Nonnegative weights; ones when not given.

    Returns
    -------
    Pooled
        In increasing order of score.

    Examples
    --------
    >>> pool_ties(np.array([0.7, 0.2, 0.7]), np.array([1.0, 0.0, 0.0])).events
    array([0., 1.])
    """
    if weight is None and _packable(score, y):
        ranked, events = _packed_sort(score, y)
        first = _firsts(ranked)
        weights = np.diff(np.append(first, ranked.size)).astype(np.float64)
    else:
        order = np.argsort(score)
        ranked = score[order]
        first = _firsts(ranked)
        given = np.ones(ranked.size) if weight is None else weight[order]
        weights, events = np.add.reduceat(given, first), given * y[order]
    return Pooled(ranked[first], weights, np.add.reduceat(events, first))


def _firsts(ranked: FloatArray) -> IntArray:
    """Where each distinct value of a sorted array begins."""
    return np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))


def _packable(score: FloatArray, y: FloatArray) -> bool:
    """Whether scores are in [0, 1] and outcomes 0 or 1, so that both fit in one 64-bit word."""
    return bool(score.min() >= 0.0 and score.max() <= 1.0 and ((y == 0.0) | (y == 1.0)).all())


def _packed_sort(score: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """
    Scores and outcomes in order of score, by one sort of integers instead of an argsort and two gathers.

    The bits of nonnegative floats are ordered as the floats are, and those of [0, 1] leave the top bit free.
    """
    word = (score + 0.0).view(np.uint64) << np.uint64(1) | y.astype(np.uint64)  # + 0.0 turns −0.0 into 0.0
    word.sort()
    events = (word & np.uint64(1)).astype(np.float64)
    word >>= np.uint64(1)
    return word.view(np.float64), events


def isotonic_blocks(weight: FloatArray, events: FloatArray) -> Blocks:
    """
    Nondecreasing means closest to ``events / weight`` in weighted least squares (paper, appendix E.1).

    Block means are taken again from sums, so that a block in which everything (or nothing) happened is
    exactly 1 (or 0). Entries without weight join their left neighbour.

    Parameters
    ----------
    weight : array of shape (m,)
        Weight of each distinct score, in increasing order of score.
    events : array of shape (m,)
        Weighted number of events.

    Returns
    -------
    Blocks
        The level sets.

    Examples
    --------
    >>> isotonic_blocks(np.ones(4), np.array([0.0, 1.0, 0.0, 1.0])).value
    array([0. , 0.5, 1. ])
    """
    from scipy.optimize import isotonic_regression

    held = np.flatnonzero(weight > 0)
    cuts = isotonic_regression(events[held] / weight[held], weights=weight[held]).blocks
    start = held[cuts[:-1]].astype(np.intp)
    start[0] = 0
    stop = np.append(start[1:], weight.shape[0]).astype(np.intp)
    mass = np.add.reduceat(weight, start)
    return Blocks(start, stop, mass, np.add.reduceat(events, start) / mass)


def isotonic_fit(score: FloatArray, y: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """
    In-sample isotonic regression of `y` on `score`; equal scores get equal values.

    Parameters
    ----------
    score, y : array of shape (n,)
        Scores and outcomes.
    weight : array of shape (n,), optional
        Nonnegative weights.

    Returns
    -------
    array of shape (n,)
        Fitted value of each row, between 0 and 1 for outcomes between 0 and 1.

    Examples
    --------
    >>> isotonic_fit(np.array([0.4, 0.1, 0.9]), np.array([0.0, 1.0, 1.0]))
    array([0.5, 0.5, 1. ])
    """
    pooled = pool_ties(score, y, weight)
    blocks = isotonic_blocks(pooled.weight, pooled.events)
    fitted: FloatArray = blocks.value[np.searchsorted(pooled.score[blocks.start], score, side="right") - 1]
    return fitted
