"""The most that miscalibration costs at any decision threshold, and the cells of scores that bound it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._document.result import Record
from scoreprism._kernels.term_intervals import quantile
from scoreprism.curves._threshold_lines import pool_rows

if TYPE_CHECKING:
    from scoreprism.curves._murphy_decomposition import MurphyDecomposition


#: A score with at least this many rows, and at least this share of all rows, is a cell of its own.
_TIED, _TIED_SHARE = 5, 1.0 / 1024.0
#: At most this many cells of neighbouring scores; with fewer, a cell holds √n rows.
_CELLS = 512
#: Thresholds at which the bound is evaluated besides the edges of cells.
_STEPS = np.arange(1, 200) / 200
#: Fewest rows in A from which a design effect is estimated.
_ENOUGH = 30
#: Entries of a matrix (thresholds × cells) processed at a time.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class DecisionRows:
    """Scores, outcomes, weights that add up to 1, and groups of the rows of a curve."""

    score: FloatArray
    y: IntArray
    share: FloatArray
    groups: IntArray | None = None

    def cells(self, theta: FloatArray) -> DecisionCells:
        """Cut the scores into cells: one for each score that many rows share, the others of about √n rows."""
        score, share = self.score, self.share
        event, other = share * self.y, share * (1 - self.y)
        points, columns = pool_rows(score, np.ones(score.size), event, other, share * event, share * other)
        first = _starts(columns[0])
        cuts = np.searchsorted(points, np.concatenate([theta, _STEPS]), side="right")
        part = np.unique(np.concatenate([first, cuts[cuts < points.size]]))
        sums = np.add.reduceat(np.stack(columns[1:]), part, axis=1)
        before = np.concatenate([np.zeros((4, 1)), np.cumsum(sums, axis=1)], axis=1)
        begin = np.searchsorted(part, first)
        cells = DecisionCells(
            points[part], points[np.append(part[1:], points.size) - 1], begin, np.append(begin[1:], part.size),
            before[:2], before[2:],
        )  # fmt: skip
        if self.groups is None:
            return cells
        return replace(cells, inflation=_design_effect(cells, self, theta, self.groups))

    def has_same_order(self, other: DecisionRows) -> bool:
        """Whether the two scores are strictly increasing functions of each other, so that both have the same C."""
        order = np.argsort(self.score, kind="stable")
        steps, others = np.diff(self.score[order]), np.diff(other.score[order])
        return bool(np.array_equal(steps > 0.0, others > 0.0) and (others >= 0.0).all())

    def compare(self, other: DecisionRows, theta: FloatArray, z: float) -> tuple[FloatArray, FloatArray]:
        """Mean difference of the elementary losses at each threshold, and its upper bound."""
        differences = np.zeros((theta.size, 2))
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
            differences[i] = gain.sum(), gain.sum() + z * math.sqrt(float(each @ each) + skew**2) + z * skew
        return differences[:, 0], differences[:, 1]


@dataclass(frozen=True, eq=False)
class DecisionCells:
    r"""
    Cells of neighbouring scores, and the outcomes in them.

    Miscalibration costs :math:`r(\theta) = \max_A P f_A` at the threshold θ, where A is a set of scores at which one
    decides against the score, and :math:`f_A` what a row gains by that: :math:`y - \theta` below θ
    and :math:`\theta - y` above. For a fixed A, :math:`P_n f_A + z\,s_A` bounds its gain. So the largest of these
    over all unions of cells bounds :math:`r(\theta)` with the same confidence, whichever union is the best one: no
    correction for the search is needed, and none for looking at every threshold, as the largest r is reached at a
    fixed one. It is an upper bound as far as C crosses θ between cells and not within them.
    """

    low: FloatArray  # (m,): first score of each part of a cell; cells are cut at the evaluated thresholds
    high: FloatArray  # (m,): its last score
    begin: IntArray  # (cells,): first part of each cell
    end: IntArray  # (cells,): the part after its last
    mass: FloatArray  # (2, m + 1): sums over the parts before: shares of the weight of events and of others
    squares: FloatArray  # (2, m + 1): the same of squared shares
    inflation: float = 1.0  # factor of variances for dependence within groups

    @property
    def edges(self) -> tuple[FloatArray, IntArray]:
        """
        Thresholds at which the loss can be largest, and how many parts lie at or below them.

        Between two scores the bound is convex in θ, so the ends suffice; the upper end is a limit.
        """
        size = np.arange(self.low.size + 1)
        return np.concatenate([self.high, self.low]), np.concatenate([size[1:], size[:-1]])

    def place(self, theta: FloatArray) -> IntArray:
        """Count the parts at or below thresholds at which the cells are cut."""
        return np.searchsorted(self.high, theta, side="right")

    def plugin(self, theta: FloatArray) -> FloatArray:
        """The gain on these rows from deciding by the event rates of cells."""
        gain, _ = self._moves(theta, self.place(theta))
        return np.asarray(np.maximum(gain, 0.0).sum(axis=1))

    def upper(self, theta: FloatArray, confidence_level: float, place: IntArray | None = None) -> FloatArray:
        """Pointwise upper bound of the loss from miscalibration."""
        where = self.place(theta) if place is None else place
        step = max(_BLOCK // (2 * self.begin.size), 1)
        blocks = range(0, theta.size, step)
        z = quantile(confidence_level, two_sided=False)
        return np.concatenate([self._largest(theta[i : i + step], where[i : i + step], z) for i in blocks])

    def _largest(self, theta: FloatArray, place: IntArray, z: float) -> FloatArray:
        """
        The largest gain plus z standard errors over all unions of cells.

        Among all A of equal variance the best takes cells in order of gain per variance, so only these are tried,
        with a share of the last cell. Rare events may not have been observed yet: the terms in (1 − 2θ) are those
        of Wilson's interval.
        """
        gain, variance = self._moves(theta, place)
        variance *= self.inflation
        ratio = np.divide(gain, variance, out=np.zeros_like(gain), where=variance > 0.0)  # empty parts get 0
        order = np.argsort(-ratio, axis=1)
        gain, variance, ratio = (np.take_along_axis(part, order, axis=1) for part in (gain, variance, ratio))
        skew = 0.5 * z * np.abs(1.0 - 2.0 * theta) * self.inflation * self.squares[:, -1].sum()
        after = np.sqrt(np.cumsum(variance, axis=1) + skew[:, None] ** 2)
        before = np.column_stack([skew, after[:, :-1]])
        # gain + z·√variance grows along a cell up to √variance = −z/(2 ratio)
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 at z = 0
            best = np.where(ratio < 0.0, -0.5 * z / ratio, np.inf)
        error = np.clip(best, before, after)
        reach = np.cumsum(gain, axis=1) - gain + ratio * (error**2 - before**2) + z * error
        return np.asarray(np.maximum(reach.max(axis=1), 0.0) + z * skew)

    def _moves(self, theta: FloatArray, place: IntArray) -> tuple[FloatArray, FloatArray]:
        """Gain from deciding the other way, and its variance, of each cell below and above each threshold."""
        middle = np.clip(place[:, None], self.begin, self.end)
        cost = np.stack([1.0 - theta, theta])[:, :, None]
        gains, variances = [], []
        begin, end = np.broadcast_to(self.begin, middle.shape), np.broadcast_to(self.end, middle.shape)
        for sign, start, stop in ((1.0, begin, middle), (-1.0, middle, end)):
            mass, squares = (sums[:, stop] - sums[:, start] for sums in (self.mass, self.squares))
            gains.append(sign * (cost[0] * mass[0] - cost[1] * mass[1]))
            variances.append(cost[0] ** 2 * squares[0] + cost[1] ** 2 * squares[1])
        return np.concatenate(gains, axis=1), np.concatenate(variances, axis=1)


def _starts(rows: FloatArray) -> IntArray:
    """First distinct score of every cell: frequent scores are cells of their own, runs of the others are cut evenly."""
    n = rows.sum()
    alone = rows >= max(_TIED, _TIED_SHARE * n)
    before = np.cumsum(rows) - rows
    fresh = np.append(True, alone[1:] | alone[:-1])
    run = np.cumsum(fresh) - 1
    begin = before[fresh]
    size = np.append(begin[1:], n) - begin
    target = max(np.sqrt(n), n / _CELLS)
    width = size / np.maximum(np.rint(size / target), 1.0)
    block = ((before - begin[run]) / width[run] + 1e-9).astype(np.intp)
    return np.flatnonzero(fresh | np.append(True, block[1:] != block[:-1]))


def _design_effect(cells: DecisionCells, rows: DecisionRows, theta: FloatArray, groups: IntArray) -> float:
    """Ratio of the variance of grouped rows to that of independent rows, at the worst threshold; at least 1."""
    y, share, home = rows.y, rows.share, np.searchsorted(cells.high, rows.score)
    cell = np.searchsorted(cells.begin, home, side="right") - 1
    worst = 1.0
    for at, place in zip(theta, cells.place(theta), strict=True):
        gain, _ = cells._moves(np.array([at]), np.array([place]))
        chosen = gain.reshape(2, -1) > 0.0
        above = (home >= place).astype(np.intp)
        moved = chosen[above, cell]
        if moved.sum() < _ENOUGH:
            continue
        value = np.where(moved, share * np.where(above == 1, at - y, y - at), 0.0)
        value -= share * value.sum()
        single = float(value @ value)
        if single > 0.0:
            together = np.bincount(groups, value)
            worst = max(worst, float(together @ together) / single)
    return worst


# ── the largest loss ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class DecisionLoss(Record):
    r"""
    The largest loss from miscalibration over all decision thresholds.

    Made by `decision_loss` and by `MurphyDecomposition.decision_loss`. At the threshold θ a false alarm costs θ and a
    miss 1 − θ; the loss is how much less a decision by C = P(Y|S) would cost on average than one by S.

    Attributes
    ----------
    value : float
        The largest estimate; at least 0.
    threshold : float
        Where it is reached.
    bound : float
        Upper bound: with confidence `confidence_level` no threshold loses more than this.
    confidence_level : float
        Its confidence level, one-sided.
    cdl, cdl_bound : float
        Estimate and upper bound of the calibration decision loss of Hu & Wu (2024): the largest loss in any
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
    >>> result = decision_loss(y, s, random_state=0)
    >>> result
    DecisionLoss(0.12 at threshold 0.47, at most 0.14 at any with confidence 95 %)
    """

    value: float
    threshold: float
    bound: float
    confidence_level: float
    cdl: float
    cdl_bound: float
    n: int
    name: str | None = None
    baseline: str | None = None

    def _title(self) -> str:
        return "The largest loss from miscalibration over all decision thresholds"

    def __repr__(self) -> str:
        who = f"{self.name}: " if self.name else ""
        more = f" more than {self.baseline or 'the baseline'}" if self.baseline is not None else ""
        sure = f"at most {self.bound:.2g} at any with confidence {100 * self.confidence_level:g} %"
        return f"DecisionLoss({who}{self.value:.2g}{more} at threshold {self.threshold:.2g}, {sure})"


def find_largest_loss(curve: MurphyDecomposition, confidence_level: float) -> DecisionLoss:
    """The largest reliability of a curve over its thresholds and the edges of the cells of scores."""
    if curve._cells is None:  # the rows are the whole population: nothing is uncertain
        line = curve._lines[0].at
        theta = np.union1d(curve.theta, np.concatenate([line, np.nextafter(line, 0.0)]))
        values = np.maximum(curve.at(theta)[:, 0], 0.0)
        return _make_result(curve, theta, values, theta, values, confidence_level)
    edges, place = curve._cells.edges
    theta = np.union1d(curve.theta, edges)
    at = np.concatenate([edges, curve.theta])
    where = np.concatenate([place, curve._cells.place(curve.theta)])
    upper = curve._cells.upper(at, confidence_level, where)
    return _make_result(curve, theta, np.maximum(curve.at(theta)[:, 0], 0.0), at, upper, confidence_level)


def find_largest_difference(
    curve: MurphyDecomposition, baseline: MurphyDecomposition, confidence_level: float
) -> DecisionLoss:
    """
    The largest difference of two reliabilities over the thresholds of the curves.

    Scores in the same order share C, so that the difference is that of the losses of the scores themselves, row by
    row. Otherwise it is the upper bound of one minus the lower bound of the other: since sd(f − g) ≤ sd f + sd g, each
    may have the level of the difference.
    """
    theta, z = curve.theta, quantile(confidence_level, two_sided=False)
    rows, others = curve._rows, baseline._rows
    values = np.maximum(curve.values[:, 0] - baseline.values[:, 0], 0.0)
    if curve._cells is None or baseline._below is None or rows is None or others is None:  # the whole population
        upper = values
    elif np.array_equal(rows.score, others.score):
        values = upper = np.zeros(theta.size)
    elif rows.has_same_order(others):
        values, upper = (np.maximum(part, 0.0) for part in rows.compare(others, theta, z))
    else:
        mean, error = baseline._below.T
        low = np.maximum(mean - z * np.nan_to_num(error, nan=math.inf), 0.0)
        upper = np.maximum(curve._cells.upper(theta, confidence_level) - low, 0.0)
    return _make_result(curve, theta, values, theta, upper, confidence_level, baseline)


def _make_result(
    curve: MurphyDecomposition,
    theta: FloatArray,
    values: FloatArray,
    at: FloatArray,
    upper: FloatArray,
    confidence_level: float,
    baseline: MurphyDecomposition | None = None,
) -> DecisionLoss:
    best = int(np.argmax(values))
    value, cdl = float(values[best]), find_payoff_loss(theta, values)
    return DecisionLoss(
        value=value, threshold=float(theta[best]), bound=max(float(upper.max()), value),
        confidence_level=confidence_level, cdl=cdl, cdl_bound=max(find_payoff_loss(at, upper), cdl),
        n=curve.n, name=curve.name, baseline=None if baseline is None else baseline.name or "",
    )  # fmt: skip


def find_payoff_loss(theta: FloatArray, loss: FloatArray) -> float:
    r"""
    The largest loss in a decision problem with payoffs in [0, 1], from the losses at all thresholds.

    A problem is a mixture w of thresholds, and its payoffs lie in [0, 1] if :math:`\int(1-\theta)\,dw` and
    :math:`\int\theta\,dw` are at most 1 (the stakes if the event occurs, and if not). The largest
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
