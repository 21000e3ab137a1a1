"""Bounds of the reliability that hold at every look, by inverting the e-process over all maps that move bins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scoreprism._core.simplex import FloatArray
from scoreprism.monitoring._evidence import Counts, log_likelihood, move_rates

#: Moves of the log-odds of a bin that are looked at.
_MOVES = np.sinh(np.linspace(-4.5, 4.5, 121)) / np.sinh(4.5) * 6.0
#: Multipliers of the likelihood.
_PRICES = np.geomspace(1e-4, 1e6, 81)
#: Bins of the score that a map may move alone.
_BINS = 32

#: The divergence d(s, c) of a score s from the chance c.
Divergence = Callable[[FloatArray, FloatArray], FloatArray]


def bound_reliability(counts: Counts, need: float, divergence: Divergence) -> tuple[float, float]:
    """
    Ends of the mean divergence of scores from chances over some periods, from pooled counts (G,).

    The chance that the likelihood of the true map ever falls below α times that of a mixture with a fixed prior is at
    most α. So the true map is among those whose log-likelihood reaches what is needed, `need`; the ends are the least
    and the largest reliability among them, by Lagrangian duality, which errs outwards.
    """
    pairs = _merge(counts)
    rows, rate = pairs.rows[:, None], pairs.rate[:, None]
    likelihood = log_likelihood(rows, pairs.events[:, None], rate, _MOVES)
    moved, still = move_rates(rate, _MOVES), np.broadcast_to(rate, likelihood.shape)
    cost = rows * divergence(still.ravel(), moved.ravel()).reshape(likelihood.shape)
    low, high = 0.0, np.inf
    for price in _PRICES:
        low = max(low, float((cost - price * likelihood).min(axis=1).sum()) + price * need)
        high = min(high, float((cost + price * likelihood).max(axis=1).sum()) - price * need)
    total = float(pairs.rows.sum())
    return float(max(low, 0.0) / total), float(max(high, 0.0) / total)


def _merge(counts: Counts) -> Counts:
    """Neighbouring bins together, until there are few; bins without rows are left out."""
    step = -(-counts.rows.size // _BINS)
    pooled = Counts(*(np.add.reduceat(one, np.arange(0, one.size, step)) for one in counts))
    held = pooled.rows > 0.0
    return Counts(*(one[held] for one in pooled))
