"""Pool adjacent violators with ties and weights: the one kernel that CORP and the calibrators share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scoreprism.simplex import FloatArray, IntArray

__all__ = ["Blocks", "Pooled", "isotonic_blocks", "isotonic_fit", "pool_ties"]


class Pooled(NamedTuple):
    """Rows with equal scores made one: distinct scores, their weights and events, and the way back to the rows."""

    score: FloatArray
    weight: FloatArray
    events: FloatArray
    inverse: IntArray


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
    order = np.argsort(score, kind="stable")
    ranked = score[order]
    new = np.concatenate([[True], ranked[1:] != ranked[:-1]])
    first = np.flatnonzero(new)
    inverse = np.empty(score.shape[0], dtype=np.intp)
    inverse[order] = np.cumsum(new) - 1
    weights = np.ones(score.shape[0]) if weight is None else weight[order]
    return Pooled(ranked[first], np.add.reduceat(weights, first), np.add.reduceat(weights * y[order], first), inverse)


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
    fitted: FloatArray = np.repeat(blocks.value, blocks.stop - blocks.start)[pooled.inverse]
    return fitted
