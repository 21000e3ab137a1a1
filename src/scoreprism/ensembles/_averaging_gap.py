"""The calibration gap of an average, which the disagreement of its members predicts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.simplex import ArrayLike, as_columns, as_matrix, one_hot
from scoreprism._document.result import Record
from scoreprism._findings.wording import write_fixed
from scoreprism._kernels.term_intervals import Moments, tail
from scoreprism._parameters import described
from scoreprism._sample.sample import Sample
from scoreprism.ensembles._ensemble import Ensemble, parse_ensemble

#: Members whose own gaps have a p-value below this are reported as miscalibrated.
_MISCALIBRATED = 0.05


@dataclass(frozen=True, repr=False)
class AveragingGap(Record):
    r"""
    How far an average of calibrated members must be from calibrated, and how far it is.

    If every member is calibrated, :math:`E\langle\bar S, e_Y-\bar S\rangle = E\sum_m w_m\|S^m-\bar S\|^2`: the variance
    among the members, :math:`E(S^1-S^2)^2/4` for two members of two classes. An average of members that differ is
    therefore underconfident.

    Attributes
    ----------
    predicted, predicted_std_error : float
        The disagreement of the members, which equals the gap if they are calibrated.
    observed, observed_std_error : float
        The gap ⟨S̄, e_Y − S̄⟩ in these rows.
    excess, excess_std_error : float
        Observed − predicted: the weighted mean of the members' own gaps, zero if they are calibrated. A single row has
        no standard errors: NaN.
    least_brier : float
        Lower bound of the Brier reliability of the average, implied by the predicted gap (Cauchy–Schwarz).

    Examples
    --------
    >>> gap = AveragingGap(0.01, 0.0, 0.0101, 0.001, 0.0001, 0.001, 0.001)
    >>> gap
    Disagreement of calibrated members predicts a calibration gap of 0.01000; observed 0.01010 ± 0.00100
    """

    predicted: float
    predicted_std_error: float
    observed: float
    observed_std_error: float
    excess: float
    excess_std_error: float
    least_brier: float

    @property
    def pvalue(self) -> float:
        """One-sided p-value of the hypothesis that the average is not underconfident."""
        return self._tail(self.observed, self.observed_std_error)

    @property
    def members_pvalue(self) -> float:
        """Two-sided p-value of the hypothesis that the members have no gap, as calibrated ones have none."""
        return min(2.0 * self._tail(abs(self.excess), self.excess_std_error), 1.0)

    @staticmethod
    def _tail(value: float, error: float) -> float:
        if not error > 0.0:
            return math.nan if math.isnan(error) or value == 0.0 else (0.0 if value > 0.0 else 1.0)
        return tail(value / error)

    def _fields(self) -> dict[str, Any]:
        return super()._fields() | {"pvalue": self.pvalue, "members_pvalue": self.members_pvalue}

    def _title(self) -> str:
        return "Calibration gap of an average"

    def __repr__(self) -> str:
        observed = f"observed {write_fixed(self.observed, 5)} ± {write_fixed(self.observed_std_error, 5)}"
        own = "; the members have gaps of their own" if self.members_pvalue < _MISCALIBRATED else ""
        predicted = f"a calibration gap of {write_fixed(self.predicted, 5)}"
        return f"Disagreement of calibrated members predicts {predicted}; {observed}{own}"


@described()
def averaging_gap(
    y_true: ArrayLike | Sample,
    y_proba: Any = None,
    X: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> AveragingGap:
    """
    The calibration gap of an average, predicted from the disagreement of its members and observed.

    Parameters
    ----------
    y_true : array-like of shape (n,), or Sample
        Outcomes, or everything at once, its models the members.
    y_proba : mapping, frame, sequence or array
        Members, as in `average`.
    X : array-like or frame of shape (n, p), optional
        Features, for members that are fitted classifiers.
    weights : array-like of shape (M,), optional
        Weights of the members; equal by default.

    Returns
    -------
    AveragingGap
        Predicted and observed gap with standard errors.

    Examples
    --------
    The paper's example of two calibrated scores whose average is not, its four states with equal weight:

    >>> from scoreprism.ensembles import averaging_gap
    >>> s1, s2 = [0.25, 0.25, 0.75, 0.75] * 2, [0.25, 0.75, 0.25, 0.75] * 2
    >>> gap = averaging_gap([0, 0, 0, 0, 1, 1, 1, 1], [s1, s2], sample_weight=[2, 1, 1, 0, 0, 1, 1, 2])
    >>> gap.predicted, gap.observed                                         # E(S₁ − S₂)²/4 = 1/32
    (0.03125, 0.03125)
    """
    rows = {"sample_weight": sample_weight, "groups": groups, "pos_label": pos_label, "classes": classes}
    return measure_gap(parse_ensemble(y_true, y_proba, X, "mean", rows, weights=weights, seed=0))


def measure_gap(ensemble: Ensemble) -> AveragingGap:
    """The gap of a linear pool."""
    if ensemble.shares is None:
        refuse("the calibration gap must be that of an average", ensemble.aggregate, "Use `aggregate`='mean'.")
    sample, pooled = ensemble.sample, as_matrix(ensemble.law)
    weight, hit = sample.weight, one_hot(sample.y, sample.k)
    if sample.k == 2:  # one coordinate, as the paper writes it
        pooled, hit = pooled[:, 1:], hit[:, 1:]
    apart = np.zeros(sample.n)
    for share, law in zip(ensemble.shares, ensemble.members, strict=True):
        apart += share * ((as_columns(law) - pooled) ** 2).sum(axis=1)
    observed = (pooled * (hit - pooled)).sum(axis=1)
    moments = Moments.of(np.stack([observed, apart]), np.empty((0, sample.n)), weight, sample.groups)
    mean = np.average(pooled, axis=0, weights=weight)
    spread = float(np.average(((pooled - mean) ** 2).sum(axis=1), weights=weight))
    predicted, whole, excess = {1: 1.0}, {0: 1.0, 1: 1.0}, {0: 1.0}
    return AveragingGap(
        moments.value(predicted), moments.std_error(predicted), moments.value(whole), moments.std_error(whole),
        moments.value(excess), moments.std_error(excess),
        moments.value(predicted) ** 2 / spread if spread > 0.0 else 0.0,
    )  # fmt: skip
