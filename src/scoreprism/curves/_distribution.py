"""How scores are distributed, overall and among events and non-events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoreprism._core.checks import parse_count
from scoreprism._core.simplex import ArrayLike, FloatArray, frozen
from scoreprism._sample.sample import Sample
from scoreprism.curves._base import Binary, Curve, parse_binary


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScoreDistribution(Curve):
    """
    Histogram of scores, split by outcome.

    Made by `score_distribution`.

    Attributes
    ----------
    edges : array of shape (bins + 1,)
        Edges of bins, from 0 to 1; a score on an edge belongs to the bin above it.
    events, others : array of shape (bins,)
        Share of all weight that lies in the bin and is, or is not, an event; they add up to 1.

    Examples
    --------
    >>> score_distribution([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9], n_bins=2).events
    array([0. , 0.5])
    """

    edges: FloatArray
    events: FloatArray
    others: FloatArray

    @property
    def mass(self) -> FloatArray:
        """Share of the weight in each bin."""
        return self.events + self.others

    def _columns(self) -> dict[str, FloatArray]:
        return {"low": self.edges[:-1], "high": self.edges[1:], "events": self.events, "others": self.others}

    def _about(self) -> str:
        return f"histogram in {self.events.shape[0]} bins"


def score_distribution(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    *,
    n_bins: int = 50,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    name: str | None = None,
) -> ScoreDistribution:
    """
    Histogram of the scores of events and of non-events.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Two-class outcomes; or everything at once.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities.
    n_bins : int, default=50
        Number of bins of equal width.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (2,), optional
        Labels in column order.
    name : str, optional
        The model.

    Returns
    -------
    ScoreDistribution
        Shares of the weight.

    Examples
    --------
    >>> score_distribution([0, 0, 1, 1], [0.1, 0.3, 0.6, 1.0], n_bins=4).mass
    array([0.25, 0.25, 0.25, 0.25])
    """
    rows = parse_binary(y_true, y_proba, sample_weight, pos_label, classes)
    return histogram(rows, parse_count(n_bins, "n_bins", 1), name)


def histogram(rows: Binary, count: int, name: str | None = None) -> ScoreDistribution:
    """Histogram of parsed rows."""
    edges = np.linspace(0.0, 1.0, count + 1)
    cell = np.minimum((rows.score * count).astype(np.intp), count - 1)
    # the product is rounded: 0.58 · 50 is below 29, though 0.58 is the edge itself
    cell += (rows.score >= edges[cell + 1]) & (cell < count - 1)
    cell -= rows.score < edges[cell]
    share = rows.weights / rows.total
    events = np.bincount(cell, share * rows.y, count).astype(np.float64)
    others = np.bincount(cell, share * (1.0 - rows.y), count).astype(np.float64)
    return ScoreDistribution(
        name=name, n=rows.n, _backend=rows.backend, edges=frozen(edges), events=frozen(events), others=frozen(others)
    )
