"""How much deciding by a score can lose to miscalibration: an upper bound at every threshold, from cells of scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._kernels.term_intervals import quantile
from scoreprism.curves._elementary import pooled

#: Rows of one score that are a cell by themselves, and the share of all rows that they must be.
_TIED, _TIED_SHARE = 5, 1.0 / 1024.0
#: Cells of neighbouring scores at most; a cell holds √n rows while they are fewer.
_CELLS = 512
#: Beside the edges of cells the bound is looked at in these steps of the threshold.
_STEPS = np.arange(1, 200) / 200
#: Rows in A that a design effect needs.
_ENOUGH = 30
#: Entries of a matrix (thresholds × cells) that are handled at a time.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class DecisionCells:
    r"""
    Cells of neighbouring scores, and the outcomes in them.

    Miscalibration costs :math:`r(\theta) = \max_A P f_A` at the threshold θ, where A is a set of scores at which one
    decides the other way than the score says, and :math:`f_A` what a row gains by that: :math:`y - \theta` below θ
    and :math:`\theta - y` above. For a fixed A, :math:`P_n f_A + z\,s_A` bounds its gain. So the largest of these
    over all unions of cells bounds :math:`r(\theta)` with the same confidence, whichever union is the best one: no
    correction for the search is needed, and none for looking at every threshold, as the largest r is reached at a
    fixed one. It is an upper bound as far as C crosses θ between cells and not within them.
    """

    low: FloatArray  # (m,): first and last score of each part: a cell, cut at the thresholds that are looked at
    high: FloatArray  # (m,): first and last score of each part: a cell, cut at the thresholds that are looked at
    begin: IntArray  # (cells,): first part of each cell, and the one after its last
    end: IntArray  # (cells,): first part of each cell, and the one after its last
    # (2, m + 1): sums over the parts before: shares of the weight of events and of others, and squares of these
    mass: FloatArray
    # (2, m + 1): sums over the parts before: shares of the weight of events and of others, and squares of these
    squares: FloatArray
    inflation: float = 1.0  # what dependence within clusters makes of variances

    @classmethod
    def of(
        cls,
        score: FloatArray,
        y: FloatArray | IntArray,
        share: FloatArray,
        theta: FloatArray,
        groups: IntArray | None = None,
    ) -> DecisionCells:
        """Make cells: of every score that many rows share, and of some √n rows else."""
        event, other = share * y, share * (1 - y)
        points, columns = pooled(score, np.ones(score.size), event, other, share * event, share * other)
        first = _starts(columns[0])
        cuts = np.searchsorted(points, np.concatenate([theta, _STEPS]), side="right")
        part = np.unique(np.concatenate([first, cuts[cuts < points.size]]))
        sums = np.add.reduceat(np.stack(columns[1:]), part, axis=1)
        before = np.concatenate([np.zeros((4, 1)), np.cumsum(sums, axis=1)], axis=1)
        begin = np.searchsorted(part, first)
        cells = cls(
            points[part], points[np.append(part[1:], points.size) - 1], begin, np.append(begin[1:], part.size),
            before[:2], before[2:],
        )  # fmt: skip
        if groups is None:
            return cells
        inflation = _design_effect(cells, score, y, share, theta, groups)
        return cls(cells.low, cells.high, begin, cells.end, cells.mass, cells.squares, inflation)

    @property
    def edges(self) -> tuple[FloatArray, IntArray]:
        """
        Thresholds that the largest loss may be at, and how many parts lie at or below them.

        Between two scores the bound is convex in θ: its ends suffice, of which the upper one is a limit.
        """
        size = np.arange(self.low.size + 1)
        return np.concatenate([self.high, self.low]), np.concatenate([size[1:], size[:-1]])

    def place(self, theta: FloatArray) -> IntArray:
        """Parts at or below thresholds, at which the cells were cut."""
        return np.searchsorted(self.high, theta, side="right")

    def plugin(self, theta: FloatArray) -> FloatArray:
        """What deciding by the event rates of cells would have gained on these rows."""
        gain, _ = self._moves(theta, self.place(theta))
        return np.asarray(np.maximum(gain, 0.0).sum(axis=1))

    def upper(self, theta: FloatArray, level: float, place: IntArray | None = None) -> FloatArray:
        """Upper bound of the loss from miscalibration, at each threshold by itself."""
        where = self.place(theta) if place is None else place
        step = max(_BLOCK // (2 * self.begin.size), 1)
        blocks = range(0, theta.size, step)
        z = quantile(level, two_sided=False)
        return np.concatenate([self._largest(theta[i : i + step], where[i : i + step], z) for i in blocks])

    def _largest(self, theta: FloatArray, place: IntArray, z: float) -> FloatArray:
        """
        The largest gain plus z standard errors over all unions of cells.

        Of all A with the same variance the best one takes cells by their gain per variance, so only these are tried,
        with a share of the last cell. Events may be so few that they are not yet seen: the terms in (1 − 2θ) are those
        of Wilson's interval.
        """
        gain, variance = self._moves(theta, place)
        variance *= self.inflation
        ratio = np.divide(gain, variance, out=np.zeros_like(gain), where=variance > 0.0)  # 0: an empty part of a cell
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
        """Of each cell, below and above each threshold: the gain from deciding the other way, and its variance."""
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
    """First distinct score of every cell: scores that many rows share are alone, runs of others are cut evenly."""
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


def _design_effect(
    cells: DecisionCells,
    score: FloatArray,
    y: FloatArray | IntArray,
    share: FloatArray,
    theta: FloatArray,
    groups: IntArray,
) -> float:
    """How many times the variance of independent rows clusters have, at the worst threshold; at least 1."""
    home = np.searchsorted(cells.high, score)
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
