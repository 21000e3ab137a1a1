"""Logits in the place of probabilities, where they are declared."""

from __future__ import annotations

from typing import Any

import numpy as np

from scoreprism._core.numerics import log_softmax
from scoreprism._core.simplex import FloatArray

#: Log of the smallest probability that finite logits give.
LOWEST = float(np.log(1e-300))


class Logits:
    """
    Logits, in the place of probabilities: log-odds for two classes, one column per class for more.

    Every function that takes ``y_proba`` takes them, and so do ``q`` and ``Level``; they are never guessed. The softmax
    is computed once, in double precision whatever the type of the logits; no logit but −∞, which is a probability of
    0, gives a probability below 1e-300.

    Parameters
    ----------
    values : array-like or frame of shape (n,) or (n, K)
        Log-odds of the positive class, or logits (or log-probabilities) of all classes. They may be −∞.

    Examples
    --------
    >>> import numpy as np
    >>> import scoreprism
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(2000, 3))
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)  # drawn from the softmax of z
    >>> scoreprism.calibration_test(y, scoreprism.Logits(z), random_state=0).pvalue > 0.05
    True
    >>> bool(scoreprism.decompose(y, scoreprism.Logits(2 * z)).terms["reliability"] > 0.05)
    True
    """

    def __init__(self, values: Any) -> None:
        self.values = get_values(values)  # logits of logits are the same logits

    def __repr__(self) -> str:
        shape = getattr(self.values, "shape", None)
        return f"Logits({type(self.values).__name__}{'' if shape is None else f' of shape {tuple(shape)}'})"


def get_values(value: Any) -> Any:
    """What logits were made of; everything else as it is."""
    return value.values if isinstance(value, Logits) else value


def turn_into_law(logits: FloatArray) -> FloatArray:
    """The probabilities of logits that are finite or −∞ (log-odds may be ∞ as well)."""
    with np.errstate(invalid="ignore"):
        logs = -np.logaddexp(0.0, -logits) if logits.ndim == 1 else log_softmax(logits)
    law = np.exp(np.maximum(logs, LOWEST, out=logs))
    law[np.isneginf(logits)] = 0.0
    if logits.ndim == 2:
        law /= law.sum(axis=1, keepdims=True)
    return law
