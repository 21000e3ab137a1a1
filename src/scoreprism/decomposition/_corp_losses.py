"""The loss of a two-class law that is constant on pools of rows: sums are enough, rows are not needed."""

from __future__ import annotations

import numpy as np

from scoreprism._core.simplex import FloatArray, clip_law
from scoreprism.losses import ProperLoss


def pooled_losses(loss: ProperLoss, law: FloatArray, weight: FloatArray, events: FloatArray) -> FloatArray:
    """The summed loss of each pool: events·ℓ(c, 1) + (weight − events)·ℓ(c, 0), where 0·∞ = 0."""
    size = law.shape[0]
    mass = np.concatenate([weight - events, events])
    outcome = np.zeros(2 * size, dtype=np.intp)
    outcome[size:] = 1
    losses = loss.evaluate(np.concatenate([law, law]), outcome)
    losses[mass == 0.0] = 0.0
    losses *= mass
    return losses[:size] + losses[size:]


def corp_losses(
    loss: ProperLoss, weight: FloatArray, events: FloatArray, clip: float | None = None
) -> tuple[float, float]:
    """Mean loss of the isotonic law, and of the marginal law, from the sums of the isotonic blocks."""
    blocks = np.array([weight, events])
    weights, happened = np.concatenate([blocks, blocks.sum(axis=1, keepdims=True)], axis=1)  # all rows: the last pool
    law = happened / weights
    sums = pooled_losses(loss, law if clip is None else clip_law(law, clip), weights, happened)
    total = weights[-1]
    return float(np.add.reduce(sums[:-1]) / total), float(sums[-1] / total)
