"""Stage by stage: how the terms of the loss move while a model is boosted, or grows in any other way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_confidence
from scoreprism._core.simplex import ArrayLike, FloatArray, frozen
from scoreprism._estimation.compare import compare
from scoreprism._estimation.decompose import decompose
from scoreprism._fitting.chain_fit import ROW_OPTIONS
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample
from scoreprism._sample.staged_models import stage_sample
from scoreprism.curves._curve import Curve, require_known
from scoreprism.losses import ProperLoss


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StagewiseCurve(Curve):
    """
    The terms of the loss of every stage of a model.

    Made by `stagewise_curve`.

    Attributes
    ----------
    names : tuple of str
        Terms in order.
    stages : array of shape (T,)
        Number of each stage.
    risk : array of shape (T,)
        Loss of each stage.
    values : array of shape (T, terms)
        Terms of each stage; they add up to the loss.
    low, high : array of shape (T, terms)
        Ends of their intervals.
    confidence_level : float
        Confidence level.
    loss : ProperLoss
        The loss.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> q = rng.random(500)
    >>> y = rng.random(500) < q
    >>> curve = stagewise_curve(y, {1: np.full(500, 0.5), 10: q}, loss="brier", random_state=0)
    >>> curve.stages, bool(curve.risk[0] > curve.risk[1])
    (array([ 1., 10.]), True)
    """

    names: tuple[str, ...]
    stages: FloatArray
    risk: FloatArray
    values: FloatArray
    low: FloatArray
    high: FloatArray
    confidence_level: float
    loss: ProperLoss

    def _columns(self) -> dict[str, FloatArray]:
        columns = {"stage": self.stages, "loss": self.risk}
        for t, name in enumerate(self.names):
            columns |= {name: self.values[:, t], f"{name}_low": self.low[:, t], f"{name}_high": self.high[:, t]}
        return columns

    def _about(self) -> str:
        return f"{self.loss!s} loss and its terms over {self.stages.size} stages"


@described()
def stagewise_curve(
    y_true: ArrayLike | Sample,
    stages: Mapping[float, ArrayLike] | Sequence[ArrayLike] | None = None,
    X: ArrayLike | None = None,
    *,
    loss: str | ProperLoss = "log",
    confidence_level: float = 0.95,
    name: str | None = None,
    random_state: object = 0,
    **options: Any,
) -> StagewiseCurve:
    """
    Decompose the loss of every stage of a model, on the same rows and in the same folds.

    While a model is boosted, refinement falls as long as stages add information, and reliability rises once they
    overfit: the curve shows which of the two moves the loss, and what recalibrating each stage would leave.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Outcomes of rows the model was not trained on; or everything at once, stages as predictions whose names are
        their numbers.
    stages : mapping of number to array-like, or sequence of array-like
        Probabilities by stage; stages of a sequence are numbered from 1.
    X : array-like or frame of shape (n, p), optional
        Features. With them, refinement is split into grouping and irreducible loss.
    random_state : int, Generator or None, default=0
        Seed of the folds, which all stages share.
    **options : object
        Further arguments of `decompose`.

    Returns
    -------
    StagewiseCurve
        Terms and intervals by stage.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> q = rng.random(500)
    >>> y = rng.random(500) < q
    >>> stagewise_curve(y, [np.full(500, 0.5), 0.5 * q + 0.25, q], random_state=0).names
    ('reliability', 'refinement')
    """
    confidence = parse_confidence(confidence_level)
    require_known(options, decompose, "a stagewise curve")
    rows = {key: options.pop(key) for key in ROW_OPTIONS if key in options}
    sample = stage_sample(y_true, stages, X=X, **rows)
    found = list(compare(sample, loss=loss, random_state=random_state, **options).decompositions.values())
    names = found[0].names
    intervals = [[d.interval(term, confidence) for term in names] for d in found]
    values = np.array([list(d.terms.values()) for d in found])
    ends = np.array([[(interval.low, interval.high) for interval in line] for line in intervals])
    return StagewiseCurve(
        name=name, n=found[0].n, _backend=sample.backend, names=names,
        stages=frozen(np.array([float(number) for number in sample.predictions])),
        risk=frozen(np.array([d.risk for d in found])), values=frozen(values),
        low=frozen(ends[..., 0]), high=frozen(ends[..., 1]), confidence_level=confidence, loss=found[0].loss,
    )  # fmt: skip
