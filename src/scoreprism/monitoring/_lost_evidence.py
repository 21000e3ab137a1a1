"""How much evidence is lost, at most, because scores are counted by bin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from scoreprism._core.numerics import TINY
from scoreprism._core.simplex import FloatArray
from scoreprism.monitoring._alternatives import GRID, TREE_MOVES, TREES, Alternatives
from scoreprism.monitoring._evidence import _TREE_EVERY, Counts, log_ratios, log_trees, mix_since, move_bins

if TYPE_CHECKING:
    from scoreprism.monitoring._stream import Stream


def bound_log_evidence(stream: Stream) -> float:
    """What log E against calibration would be at most at the last look, if every row counted with its own score."""
    counts, alternatives, prior = stream.counts, stream.alternatives, stream.prior
    ends = find_bin_ends(alternatives)
    lost = np.stack([_bound_loss(counts, ends, moves).sum(axis=-1) for moves in alternatives.moves], axis=-1)
    ratios = log_ratios(alternatives, counts.rows, counts.events, counts.rate) + lost
    periods = len(ratios)
    parts = [mix_since(ratios, alternatives) + np.log(prior.each(periods) + TINY)]
    flat = np.ones(alternatives.bins)
    bins = move_bins(counts) + np.stack([_bound_loss(counts, ends, move * flat) for move in TREE_MOVES], axis=-1)
    begun = np.arange(0, periods, _TREE_EVERY)
    for first in begun:
        mass = prior.until(first + _TREE_EVERY) - prior.until(first)
        parts.append(np.atleast_1d(np.log(TREES * mass) + log_trees(bins[first:].sum(axis=0))))
    blocks = begun[-1] + _TREE_EVERY
    unused = (1.0 - TREES) * (1.0 - prior.until(periods)) + TREES * (1.0 - prior.until(blocks))
    return float(logsumexp(np.concatenate([*parts, np.atleast_1d(np.log(unused + TINY))])))


def find_bin_ends(alternatives: Alternatives) -> tuple[FloatArray, FloatArray]:
    """The least and the largest score that each bin may hold."""
    steps = alternatives.ends.astype(np.float64)
    inner = np.where(steps < GRID / 2 + 1, 2.0 * (steps / GRID) ** 2, 1.0 - 2.0 * ((GRID - steps) / GRID) ** 2)
    return np.concatenate([[0.0], inner]), np.concatenate([inner, [1.0]])


def _bound_loss(counts: Counts, ends: tuple[FloatArray, FloatArray], moves: FloatArray) -> FloatArray:
    """
    What each period and bin (T, G) loses at most, for moves of the bins.

    The log-likelihood ratio of a row is convex in its score s: y·m − log(1 + s·u) with u = eᵐ − 1. So a bin loses at
    most what scores at its two ends would, and at most half of the largest curvature times the sum of squared
    deviations from their mean, whatever the outcomes.
    """
    low, high = ends
    u = np.expm1(moves)
    spread = np.maximum(counts.squares - counts.rows * counts.rate**2, 0.0)
    curved = 0.5 * spread * (u / (1.0 + u * np.where(u > 0.0, low, high))) ** 2
    share = np.clip((counts.rate - low) / (high - low), 0.0, 1.0)
    chord = (1.0 - share) * np.log1p(u * low) + share * np.log1p(u * high)
    apart = counts.rows * np.maximum(np.log1p(u * counts.rate) - chord, 0.0)
    return np.minimum(curved, apart)
