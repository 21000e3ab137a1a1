"""The most that miscalibration costs a decision maker, whatever the threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.term_intervals import quantile

if TYPE_CHECKING:
    from scoreprism.curves._murphy_decomposition import MurphyDecomposition


@dataclass(frozen=True, kw_only=True)
class DecisionLoss:
    r"""
    The largest loss from miscalibration over all decision thresholds.

    Made by `decision_loss` and by `MurphyDecomposition.decision_loss`. At the threshold θ a false alarm costs θ and a
    miss 1 − θ; what is given is how much less a decision by C = P(Y|S) would cost on average than one by S.

    Attributes
    ----------
    value : float
        The largest estimate; at least 0.
    threshold : float
        Where it is reached.
    bound : float
        Upper bound: with confidence `level` no threshold loses more than this.
    level : float
        Its confidence level, one-sided.
    cdl, cdl_bound : float
        Estimate and upper bound of the calibration decision loss of Hu & Wu (2024): the most that is lost in any
        decision problem, with any number of actions, whose payoffs lie in [0, 1].
    n : int
        Number of rows with weight.
    name : str or None
        The model.
    baseline : str or None
        For a difference, the model it is compared with: `value` is how much more than it this one loses.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.curves import decision_loss
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(0.3, 0.5, 2000)
    >>> y = rng.random(2000) < 0.6  # at θ = 0.45 three in four scores are below it, and lose 0.6 − 0.45
    >>> found = decision_loss(y, s, random_state=0)
    >>> found
    DecisionLoss(0.12 at threshold 0.47, at most 0.14 at any with confidence 95 %)
    """

    value: float
    threshold: float
    bound: float
    level: float
    cdl: float
    cdl_bound: float
    n: int
    name: str | None = None
    baseline: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """
        Everything as plain Python objects.

        Returns
        -------
        dict
            Attributes by name.
        """
        return {
            "name": self.name, "baseline": self.baseline, "n": self.n, "value": self.value,
            "threshold": self.threshold, "bound": self.bound, "level": self.level, "cdl": self.cdl,
            "cdl_bound": self.cdl_bound,
        }  # fmt: skip

    def __repr__(self) -> str:
        who = f"{self.name}: " if self.name else ""
        more = f" more than {self.baseline or 'the baseline'}" if self.baseline is not None else ""
        sure = f"at most {self.bound:.2g} at any with confidence {100 * self.level:g} %"
        return f"DecisionLoss({who}{self.value:.2g}{more} at threshold {self.threshold:.2g}, {sure})"


@dataclass(frozen=True, eq=False)
class DecisionRows:
    """Scores, outcomes, weights that add up to 1, and clusters of the rows of a curve."""

    score: FloatArray
    y: IntArray
    share: FloatArray
    groups: IntArray | None = None

    def same_order(self, other: DecisionRows) -> bool:
        """Whether each score is a strictly increasing function of the other: then both have the same C."""
        order = np.argsort(self.score, kind="stable")
        steps, others = np.diff(self.score[order]), np.diff(other.score[order])
        return bool(np.array_equal(steps > 0.0, others > 0.0) and (others >= 0.0).all())

    def paired(self, other: DecisionRows, theta: FloatArray, z: float) -> tuple[FloatArray, FloatArray]:
        """Mean difference of the elementary losses at each threshold, and its upper bound."""
        found = np.zeros((theta.size, 2))
        unit = float(self.share @ self.share)
        if self.groups is not None:
            sums = np.bincount(self.groups, self.share)
            unit = float(sums @ sums)
        for i, at in enumerate(theta):
            below = self.score <= at
            moved = np.flatnonzero(below != (other.score <= at))
            gain = np.where(below[moved], self.y[moved] - at, at - self.y[moved]) * self.share[moved]
            each = gain if self.groups is None else np.bincount(self.groups[moved], gain)
            skew = 0.5 * z * abs(1.0 - 2.0 * at) * unit
            found[i] = gain.sum(), gain.sum() + z * math.sqrt(float(each @ each) + skew**2) + z * skew
        return found[:, 0], found[:, 1]


def largest_loss(curve: MurphyDecomposition, level: float) -> DecisionLoss:
    """The largest reliability of a curve, looked for at its thresholds and at the edges of the cells of scores."""
    if curve._cells is None:  # the rows are the whole population: nothing is uncertain
        line = curve._lines[0].at
        theta = np.union1d(curve.theta, np.concatenate([line, np.nextafter(line, 0.0)]))
        values = np.maximum(curve.at(theta)[:, 0], 0.0)
        return _made(curve, theta, values, theta, values, level)
    edges, place = curve._cells.edges
    theta = np.union1d(curve.theta, edges)
    at = np.concatenate([edges, curve.theta])
    where = np.concatenate([place, curve._cells.place(curve.theta)])
    upper = curve._cells.upper(at, level, where)
    return _made(curve, theta, np.maximum(curve.at(theta)[:, 0], 0.0), at, upper, level)


def largest_difference(curve: MurphyDecomposition, baseline: MurphyDecomposition, level: float) -> DecisionLoss:
    """
    The largest difference of two reliabilities, at the thresholds of the curves.

    Scores in the same order share C, so that the difference is that of the losses of the scores themselves, row by
    row. Else the upper bound of one less the lower bound of the other: as sd(f − g) ≤ sd f + sd g, each may have the
    level of the difference.
    """
    theta, z = curve.theta, quantile(level, two_sided=False)
    rows, others = curve._rows, baseline._rows
    values = np.maximum(curve.values[:, 0] - baseline.values[:, 0], 0.0)
    if curve._cells is None or baseline._below is None or rows is None or others is None:  # the whole population
        return _made(curve, theta, values, theta, values, level, baseline)
    if np.array_equal(rows.score, others.score):
        return _made(curve, theta, np.zeros(theta.size), theta, np.zeros(theta.size), level, baseline)
    if rows.same_order(others):
        values, upper = (np.maximum(part, 0.0) for part in rows.paired(others, theta, z))
        return _made(curve, theta, values, theta, upper, level, baseline)
    mean, error = baseline._below.T
    low = np.maximum(mean - z * np.nan_to_num(error, nan=math.inf), 0.0)
    upper = np.maximum(curve._cells.upper(theta, level) - low, 0.0)
    return _made(curve, theta, values, theta, upper, level, baseline)


def _made(
    curve: MurphyDecomposition,
    theta: FloatArray,
    values: FloatArray,
    at: FloatArray,
    upper: FloatArray,
    level: float,
    baseline: MurphyDecomposition | None = None,
) -> DecisionLoss:
    best = int(np.argmax(values))
    value, cdl = float(values[best]), of_bounded_payoffs(theta, values)
    return DecisionLoss(
        value=value, threshold=float(theta[best]), bound=max(float(upper.max()), value), level=level, cdl=cdl,
        cdl_bound=max(of_bounded_payoffs(at, upper), cdl), n=curve.n, name=curve.name,
        baseline=None if baseline is None else baseline.name or "",
    )  # fmt: skip


def of_bounded_payoffs(theta: FloatArray, loss: FloatArray) -> float:
    r"""
    The most that is lost in a decision problem with payoffs in [0, 1], from the losses at all thresholds.

    A problem is a mixture w of thresholds, and its payoffs lie in [0, 1] if :math:`\int(1-\theta)\,dw` and
    :math:`\int\theta\,dw` are at most 1 (what is at stake if the event occurs, and if not). The largest
    :math:`\int r\,dw` under these is twice the least concave function above r, at ½: two thresholds suffice, one on
    each side of ½. One threshold alone loses :math:`r(\theta)/\max(\theta, 1-\theta)`, the V-shaped scores of Hu & Wu.
    """
    low, high = theta <= 0.5, theta >= 0.5
    a, ra = (np.append(start, column[low]) for start, column in ((0.0, theta), (0.0, loss)))
    b, rb = (np.append(start, column[high]) for start, column in ((1.0, theta), (0.0, loss)))
    gap = b - a[:, None]
    lines = (b - 0.5) * ra[:, None] + (0.5 - a)[:, None] * rb
    between = np.divide(lines, gap, out=np.maximum(ra[:, None], rb), where=gap > 0.0)
    return 2.0 * float(between.max())
