"""The loss of a two-class law that is constant on pools of rows: sums are enough, rows are not needed."""

from __future__ import annotations

import numpy as np

from scoreprism._core.simplex import FloatArray, clip_law
from scoreprism.losses import ProperLoss


def pooled_losses(loss: ProperLoss, law: FloatArray, weight: FloatArray, events: FloatArray) -> FloatArray:
    """
    The summed loss of each pool: events·ℓ(c, 1) + (weight − events)·ℓ(c, 0), where 0·∞ = 0.

    Parameters
    ----------
    loss : ProperLoss
        The loss.
    law : array of shape (b,)
        P(Y=1) in each pool.
    weight, events : array of shape (b,)
        Weight and weighted events of each pool.

    Returns
    -------
    array of shape (b,)
        Summed losses; divided by the total weight they add up to the mean.

    Examples
    --------
    >>> from scoreprism.losses import Brier
    >>> pooled_losses(Brier(), np.array([0.0, 0.75]), np.array([3.0, 4.0]), np.array([0.0, 3.0]))
    array([0.  , 0.75])
    """
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
    """
    Mean loss of the isotonic law, and of the marginal law, from the sums of the isotonic blocks.

    Parameters
    ----------
    loss : ProperLoss
        The loss.
    weight, events : array of shape (b,)
        Weight and weighted events of each block.
    clip : float, optional
        Keep both laws at least this far from 0 and 1.

    Returns
    -------
    tuple of two floats
        The mean losses.

    Examples
    --------
    >>> from scoreprism.losses import Brier
    >>> corp_losses(Brier(), np.array([4.0, 4.0]), np.array([1.0, 3.0]))
    (0.1875, 0.25)
    """
    blocks = np.array([weight, events])
    weights, happened = np.concatenate([blocks, blocks.sum(axis=1, keepdims=True)], axis=1)  # all rows: the last pool
    law = happened / weights
    sums = pooled_losses(loss, law if clip is None else clip_law(law, clip), weights, happened)
    total = weights[-1]
    return float(np.add.reduce(sums[:-1]) / total), float(sums[-1] / total)
