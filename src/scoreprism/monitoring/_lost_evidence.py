"""How much evidence is lost, at most, because scores are counted by bin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from scoreprism._core.numerics import TINY
from scoreprism._core.simplex import FloatArray
from scoreprism.monitoring._alternatives import TREE_MOVES, TREES
from scoreprism.monitoring._evidence import _TREE_EVERY, log_ratios, log_trees, mix_since, move_bins

if TYPE_CHECKING:
    from scoreprism.monitoring._stream import Stream


def bound_log_evidence(stream: Stream) -> float:
    """
    What log E against calibration would be at most at the last look, if every row counted with its own score.

    The log-likelihood ratio of a row, y·m − log(1 + s·u) with u = eᵐ − 1, is convex in its score s, with a curvature of
    at most (u / min(1, 1 + u))². So a bin loses at most half of that times the sum of squared deviations of its scores
    from their mean, whatever its outcomes.
    """
    counts, alternatives, prior = stream.counts, stream.alternatives, stream.prior
    spread = np.maximum(counts.squares - counts.rows * counts.rate**2, 0.0)
    ratios = log_ratios(alternatives, counts.rows, counts.events, counts.rate)
    ratios = ratios + 0.5 * spread @ _bend(alternatives.moves).T
    periods = len(ratios)
    parts = [mix_since(ratios, alternatives) + np.log(prior.each(periods) + TINY)]
    bins = move_bins(counts) + 0.5 * spread[..., None] * _bend(TREE_MOVES)
    begun = np.arange(0, periods, _TREE_EVERY)
    for first in begun:
        mass = prior.until(first + _TREE_EVERY) - prior.until(first)
        parts.append(np.atleast_1d(np.log(TREES * mass) + log_trees(bins[first:].sum(axis=0))))
    blocks = begun[-1] + _TREE_EVERY
    unused = (1.0 - TREES) * (1.0 - prior.until(periods)) + TREES * (1.0 - prior.until(blocks))
    return float(logsumexp(np.concatenate([*parts, np.atleast_1d(np.log(unused + TINY))])))


def _bend(moves: FloatArray) -> Any:
    """The largest curvature of the log-likelihood ratio of a row, as its score varies."""
    u = np.expm1(moves)
    return (u / np.minimum(1.0, 1.0 + u)) ** 2
