"""Decision curves: the net benefit of acting on a prediction, at every threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoreprism._core.checks import parse_confidence, refuse
from scoreprism._core.simplex import ArrayLike, FloatArray, frozen
from scoreprism._kernels.term_intervals import quantile
from scoreprism._sample.sample import Sample
from scoreprism.curves._base import Binary, Curve, parse_binary
from scoreprism.curves._murphy import parse_thresholds, sides_and_squares


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NetBenefit(Curve):
    """
    Net benefit of a model over decision thresholds, beside acting on everyone and on no one.

    Made by `net_benefit`. The unit is one event that was acted upon: a net benefit of 0.05 is worth as much as finding
    5 events per 100 rows without a single false alarm.

    Attributes
    ----------
    thresholds : array of shape (m,)
        Probabilities above which one acts.
    benefit : array of shape (m,)
        TP/n − FP/n · θ/(1 − θ); acting on no one has 0.
    act_on_all : array of shape (m,)
        The same for acting on everyone.
    low, high : array of shape (m,)
        Ends of the interval of the benefit at each threshold by itself; NaN for a single row.
    level : float
        Confidence level.
    rate : float
        Share of events.

    Examples
    --------
    >>> net_benefit([0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9], thresholds=[0.5]).benefit
    array([0.])
    """

    thresholds: FloatArray
    benefit: FloatArray
    act_on_all: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    rate: float

    def _columns(self) -> dict[str, FloatArray]:
        ends = {"low": self.low, "high": self.high}
        return {"threshold": self.thresholds, "benefit": self.benefit, **ends, "act_on_all": self.act_on_all}

    def _about(self) -> str:
        return f"net benefit, event rate {self.rate:.4f}"


def net_benefit(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    *,
    thresholds: ArrayLike | None = None,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    name: str | None = None,
) -> NetBenefit:
    r"""
    The decision curve: net benefit of acting when the predicted probability exceeds θ (Vickers & Elkin 2006).

    It is the Murphy curve in another unit: :math:`\mathrm{NB}(\theta) = \pi - \ell_\theta/(1-\theta)` with the event
    rate :math:`\pi`. A prediction equal to θ is not acted on.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Two-class outcomes; or everything at once.
    y_proba : array-like of shape (n,) or (n, 2)
        Predicted probabilities.
    thresholds : array-like of shape (m,), optional
        Thresholds from 0 to below 1; 0.01, …, 0.99 by default, and steps of a twentieth of the event rate where
        that is below 5 %.
    level : float, default=0.95
        Confidence level of the interval at each threshold.
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
    NetBenefit
        The curve, its intervals, and what acting on everyone gives.

    Examples
    --------
    >>> curve = net_benefit([0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9], thresholds=[0.2, 0.75])
    >>> curve.benefit, curve.act_on_all
    (array([0.4375, 0.25  ]), array([ 0.375, -1.   ]))
    """
    confidence = parse_confidence(level)
    rows = parse_binary(y_true, y_proba, sample_weight, pos_label, classes)
    theta = usual_thresholds(rows.rate) if thresholds is None else np.unique(parse_thresholds(thresholds))
    if theta[-1] == 1.0:
        refuse("thresholds of net benefit must be below 1", "1", "There a false alarm would weigh infinitely.")
    odds = theta / (1.0 - theta)
    true, false, error = _acted_on(rows, theta, odds)
    benefit = true - odds * false
    reach = quantile(confidence, two_sided=True) * error
    if rows.n == 1:
        reach[:] = np.nan
    return NetBenefit(
        name=name, n=rows.n, _backend=rows.backend, thresholds=frozen(theta), benefit=frozen(benefit),
        act_on_all=frozen(rows.rate - odds * (1.0 - rows.rate)), low=frozen(benefit - reach),
        high=frozen(benefit + reach), level=confidence, rate=rows.rate,
    )  # fmt: skip


def usual_thresholds(rate: float) -> FloatArray:
    """Every percent; for rare events also fine steps around their rate, where decisions about them are made."""
    percents = np.arange(1, 100) / 100
    return percents if rate >= 0.05 else np.union1d(percents, np.linspace(0.0, 5.0 * rate, 101)[1:])


def _acted_on(rows: Binary, theta: FloatArray, odds: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Share of events and of non-events above each threshold, and the standard error of the net benefit."""
    mass, squares = sides_and_squares(rows, theta)
    share = rows.weights / rows.total
    true, false = np.maximum(rows.rate - mass[0], 0.0), mass[1]
    hits, alarms = np.maximum(float(share**2 @ rows.y) - squares[0], 0.0), squares[1]
    rest = np.maximum(float(share @ share) - hits - alarms, 0.0)
    benefit = true - odds * false
    variance = hits * (1.0 - benefit) ** 2 + alarms * (odds + benefit) ** 2 + rest * benefit**2
    return true, false, np.sqrt(variance)
