"""Bounds of the reliability that hold at every look, by inverting the e-process over all maps that move bins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scoreprism._core.simplex import FloatArray
from scoreprism.monitoring._alternatives import FLOOR
from scoreprism.monitoring._evidence import Counts, find_extreme_shares, move_rates

#: Moves of the log-odds of a bin that are looked at: some everywhere, and others around its own, in standard errors.
_EVERYWHERE, _STEP, _AROUND = np.linspace(-6.0, 6.0, 61), 0.1, 80
#: Multipliers of the likelihood.
_PRICES = np.geomspace(1e-4, 1e6, 81)

#: The divergence d(s, c) of a score s from the chance c.
Divergence = Callable[[FloatArray, FloatArray], FloatArray]


def bound_reliability(counts: Counts, need: float, divergence: Divergence) -> tuple[float, float]:
    """
    Ends of the mean divergence of scores from chances over some periods, from pooled counts (G,).

    The chance that the likelihood of the true map ever falls below α times that of a mixture with a fixed prior is at
    most α. So the true map is among those whose log-likelihood reaches what is needed, `need`; the ends are the least
    and the largest reliability among them, by Lagrangian duality, which errs outwards.
    """
    kept = _keep_inside(counts)
    moves = _choose_moves(kept)
    likelihood = bound_likelihood(kept, moves)
    rate = np.broadcast_to(kept.rate[:, None], moves.shape)
    cost = kept.rows[:, None] * divergence(rate.ravel(), move_rates(rate, moves).ravel()).reshape(moves.shape)
    # between two moves that are looked at, the likelihood is at most so much larger
    enough = need - kept.rows.size * _STEP**2 / 8.0
    low, high = 0.0, np.inf
    for price in _PRICES:
        low = max(low, float((cost - price * likelihood).min(axis=1).sum()) + price * enough)
        high = min(high, float((cost + price * likelihood).max(axis=1).sum()) - price * enough)
    total = float(kept.rows.sum())
    return float(max(low, 0.0) / total), float(max(high, low, 0.0) / total)


def _keep_inside(counts: Counts) -> Counts:
    """Bins that have rows, with mean scores a little away from 0 and 1, where a loss may be infinite."""
    rows, events, scores, squares = (one[counts.rows > 0.0] for one in counts)
    inside = np.clip(scores, FLOOR * rows, (1.0 - FLOOR) * rows)
    return Counts(rows, events, inside, np.maximum(squares, inside**2 / rows))


def bound_likelihood(counts: Counts, moves: FloatArray) -> FloatArray:
    """The largest log-likelihood ratio (G, M) of moves of bins, whatever the scores are that have these sums."""
    rate, u = counts.rate[:, None], np.expm1(moves)
    spread = np.maximum(counts.squares / counts.rows - counts.rate**2, 0.0)[:, None]
    one, below = find_extreme_shares(rate, spread)
    zero, rest = find_extreme_shares(1.0 - rate, spread)
    up = (1.0 - zero) * np.log1p((1.0 - rest) * u)
    down = one * moves + (1.0 - one) * np.log1p(below * u)
    return np.asarray(counts.events[:, None] * moves - counts.rows[:, None] * np.where(moves > 0.0, up, down))


def _choose_moves(counts: Counts) -> FloatArray:
    """Moves of each bin, (G, M), in order."""
    inside = (counts.events + 0.5) / (counts.rows + 1.0)
    score = np.clip(counts.rate, 1e-12, 1.0 - 1e-12)
    own = np.log(inside / (1.0 - inside)) - np.log(score / (1.0 - score))
    error = 1.0 / np.sqrt((counts.rows + 1.0) * inside * (1.0 - inside))
    near = own[:, None] + error[:, None] * _STEP * np.arange(-_AROUND, _AROUND + 1)
    everywhere = np.broadcast_to(_EVERYWHERE, (own.size, _EVERYWHERE.size))
    return np.sort(np.clip(np.concatenate([near, everywhere], axis=1), -30.0, 30.0), axis=1)
