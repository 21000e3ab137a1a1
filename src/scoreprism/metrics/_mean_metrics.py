"""Metrics that are means over rows: accuracy, top-k accuracy, log loss and Brier loss."""

from __future__ import annotations

import math

import numpy as np

from scoreprism._core.checks import parse_count, refuse
from scoreprism._core.simplex import FloatArray, as_matrix, pick
from scoreprism._kernels.binomial import rate_interval
from scoreprism._kernels.estimate_intervals import ONE_SIGMA, Absent, Inference, Wald
from scoreprism._kernels.term_intervals import Interval
from scoreprism.losses import get_loss
from scoreprism.metrics._estimate import Estimate
from scoreprism.metrics._gap_intervals import ONE_ROW
from scoreprism.metrics._metric import metric
from scoreprism.metrics._rows import Rows


class _ShareInference(Inference):
    """
    A share of right rows, with Jeffreys' interval; where all or none are right, up to the exact bound.

    Weighted or half-right rows count as rows of equal weight whose mean has the same variance.
    """

    has_methods = False

    def __init__(self, rows: Rows, hits: FloatArray, value: float) -> None:
        self.value = value
        self.variance = float(rows.share**2 @ (hits - value) ** 2)
        self.size = value * (1.0 - value) / self.variance if self.variance > 0.0 else 1.0 / float((rows.share**2).sum())
        self.is_pure = value in (0.0, 1.0)

    @property
    def std_error(self) -> float:
        return self._find_unseen(ONE_SIGMA) if self.is_pure else math.sqrt(self.variance)

    def _find_unseen(self, tail: float) -> float:
        """The largest plausible share of what did not occur (Clopper & Pearson 1934)."""
        return -math.expm1(math.log(tail) / self.size)

    def interval(self, confidence_level: float, n_resamples: int, random_state: object, method: str | None) -> Interval:
        low = high = self.value
        if self.is_pure:
            unseen = self._find_unseen(0.5 * (1.0 - confidence_level))
            low, high = (1.0 - unseen, 1.0) if self.value == 1.0 else (0.0, unseen)
        elif self.variance > 0.0:  # else every row is a tie of all classes, whatever its outcome
            events, size = np.array([self.value * self.size]), np.array([self.size])
            (low,), (high,) = rate_interval(events, size, confidence_level, "jeffreys")
        return Interval(float(low), float(high), confidence_level, "Jeffreys")


@metric("The share of right predictions.", ideal=math.inf)
def accuracy(rows: Rows) -> Estimate:
    """
    How often the most likely class is the one observed.

    Where m classes are equally likely, and the observed one is among them, the row counts 1/m: what guessing among them
    gets right. So the order of the classes does not matter; without such ties it is scikit-learn's ``accuracy_score``
    of the largest probability. It looks at ranks only, and does not reward probabilities that are right.

    Examples
    --------
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> accuracy(y, s)
    <accuracy 0.75: share of rows whose most likely class was observed>
    """
    return _estimate_share(rows, 1, "accuracy", "share of rows whose most likely class was observed")


@metric("The share.", ideal=math.inf)
def top_k_accuracy(rows: Rows, *, k: int = 5) -> Estimate:
    """
    How often the observed class is among the k most likely ones.

    Where classes are equally likely at the border, so that j of m of them have room, the row counts j/m. scikit-learn's
    ``top_k_accuracy_score`` lets the last of them in; without such ties it is the same.

    Examples
    --------
    >>> y, s = [0, 1, 2, 0], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]]
    >>> float(top_k_accuracy(y, s, k=2))
    1.0
    """
    room = parse_count(k, "k", 1)
    if room >= rows.k:
        rule = "top_k_accuracy must have more than `k` classes, or every row is right"
        refuse(rule, f"{rows.k} classes and k={room}", "Pass a smaller `k`.")
    return _estimate_share(
        rows, room, "top_k_accuracy", f"share of rows with the observed class among the first {room}"
    )


@metric("The loss; infinite where something happened that had probability 0.", ideal=0.0)
def log_loss(rows: Rows) -> Estimate:
    """
    Mean of −log of the probability given to the observed class.

    scikit-learn's ``log_loss``, which keeps probabilities away from 0. `decompose` splits it into what recalibration
    can remove and the rest.

    Examples
    --------
    >>> round(log_loss([0, 1, 1, 1], [0.2, 0.6, 0.7, 0.9]), 4)
    0.299
    """
    return _estimate_loss(rows, "log", "log_loss", "mean of −log of the probability of the observed class")


@metric("The loss.", ideal=0.0)
def brier_score(rows: Rows) -> Estimate:
    """
    Mean squared error of the probabilities: (p − y)² for two classes, Σ over classes of (p − y)² for more.

    scikit-learn's ``brier_score_loss`` with its default scale. `decompose` splits it into what recalibration can remove
    and the rest.

    Examples
    --------
    >>> round(brier_score([0, 1, 1, 1], [0.2, 0.6, 0.7, 0.9]), 4)
    0.075
    """
    over = "" if rows.k == 2 else ", summed over classes"
    return _estimate_loss(rows, "brier", "brier_score", f"mean squared error of the probabilities{over}")


def _estimate_share(rows: Rows, room: int, name: str, method: str) -> Estimate:
    hits = _find_hits(rows, room)
    value = min(rows.mean(hits), 1.0)
    return Estimate(value, name, method, ONE_ROW if rows.n == 1 else _ShareInference(rows, hits, value))


def _find_hits(rows: Rows, room: int) -> FloatArray:
    """Of each row, whether the observed class is among the first; the share of ties that has room."""
    law = as_matrix(rows.law)
    own = pick(law, rows.y)[:, None]
    above, tied = (law > own).sum(axis=1), (law == own).sum(axis=1)
    hits: FloatArray = np.clip((room - above) / tied, 0.0, 1.0)
    return hits


def _estimate_loss(rows: Rows, loss: str, name: str, method: str) -> Estimate:
    family = get_loss(loss)
    values = family.evaluate(rows.law, rows.y)
    value, change = rows.mean(values), 0.0
    if np.unique(rows.y).size == 1:  # how much more another outcome would have cost
        columns = [family.evaluate(rows.law, np.full(rows.n, k)) for k in range(rows.k)]
        change = float(np.max(np.max(columns, axis=0) - values)) if math.isfinite(value) else math.inf
    inference: Inference = Absent("the loss is infinite, or can be", "Look at the scores of 0 and 1.")
    if rows.n == 1:
        inference = ONE_ROW
    elif math.isfinite(value + change):
        error = math.sqrt(float(rows.share**2 @ (values - value) ** 2))
        inference = Wald(value, error, "clt", low=0.0, beyond=lambda tail: change * rows.bound_unseen(tail))
    return Estimate(value, name, method, inference)
