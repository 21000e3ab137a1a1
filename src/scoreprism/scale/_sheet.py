"""Lines that are sums: cells, outcomes and folds in the place of rows, with the moments of what varies inside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import FloatArray
from scoreprism._kernels.term_intervals import Moments, steps
from scoreprism.decomposition._result import Kept
from scoreprism.decomposition._rows import Sheet, evaluate
from scoreprism.losses import ProperLoss
from scoreprism.scale._partial import Partial


@dataclass(frozen=True)
class LossSums:
    """What is known of the losses of given levels within each line."""

    # by level, the mean loss of the rows of a line by weight, and by squared weight; the second as far from that of its
    # group as the loss of the score is
    mean: dict[str, FloatArray]
    # by level, the mean loss of the rows of a line by weight, and by squared weight; the second as far from that of its
    # group as the loss of the score is
    mean2: dict[str, FloatArray]
    # by two levels, Σw²(ℓ − mean2)(ℓ' − mean2') over the rows of a line, or its share of those of its group
    within: dict[tuple[str, str], FloatArray]


@dataclass(frozen=True)
class SummedSheet(Sheet):
    """A sheet whose lines stand for many rows."""

    counts: FloatArray = field(default_factory=lambda: np.empty(0))  # (n,): rows behind each line
    squares: FloatArray = field(default_factory=lambda: np.empty(0))  # (n,): σw², Σw³ and Σw⁴ of each line
    cubes: FloatArray = field(default_factory=lambda: np.empty(0))  # (n,): σw², Σw³ and Σw⁴ of each line
    fourths: FloatArray = field(default_factory=lambda: np.empty(0))  # (n,): σw², Σw³ and Σw⁴ of each line
    rows_in_all: int = 0  # rows of data, those without weight included
    # by loss; a loss that is not here is evaluated at the scores of the lines
    sums: dict[str, LossSums] = field(default_factory=dict)
    # from a clipping distance to such sums; None where the engine has clipped already
    sums_at: Callable[[float], dict[str, LossSums]] | None = None

    def clipped(self, distance: float | None) -> SummedSheet:
        found = super().clipped(distance)
        assert isinstance(found, SummedSheet)  # noqa: S101 - replace keeps the class
        if distance is None or self.sums_at is None:
            return found
        return replace(found, sums=self.sums_at(distance))

    @property
    def held(self) -> int:
        return self.units

    @property
    def cases(self) -> int:
        return self.rows_in_all

    @property
    def masses(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        assert self.weight is not None  # noqa: S101 - lines always have one
        return self.weight, self.squares, self.cubes, self.fourths

    @property
    def units(self) -> int:
        return round(float(self.counts.sum()))

    @property
    def summed(self) -> bool:
        return True

    def total(self, values: FloatArray) -> float:
        return float(self.counts @ values)

    def counted(self, lines: NDArray[np.bool_]) -> str:
        return f"{round(float(self.counts[lines].sum())):,} of {self.cases:,} rows"

    def evaluated(self, loss: ProperLoss, names: Sequence[str]) -> Kept:
        losses, spreads, _ = evaluate(self, loss)
        known = self._known(loss)
        for t, name in enumerate(names):
            if name in known.mean:
                losses[t] = known.mean[name]
        return Kept(losses, spreads)

    def moments(self, kept: Kept, loss: ProperLoss, names: Sequence[str]) -> Moments:
        """Σw²(r − r̄)(r' − r̄')/(Σw)², from what lies between lines and what lies within them."""
        known, weight = self._known(loss), self.weight
        assert weight is not None  # noqa: S101 - lines always have one
        held = weight > 0
        share = weight[held] / weight.sum()
        part = np.concatenate([steps(kept.losses), kept.extras])[:, held]
        seen = kept.losses.copy()
        for t, name in enumerate(names):
            if name in known.mean2:
                seen[t] = known.mean2[name]
        with np.errstate(invalid="ignore"):
            mean = (part * share).sum(axis=1)
            apart = np.concatenate([steps(seen), kept.extras])[:, held] - mean[:, None]
            covariance = (apart * self.squares[held]) @ apart.T
        covariance += self._within(known, names, covariance.shape[0])
        return Moments(mean, covariance / float(weight.sum()) ** 2 if self.units > 1 else covariance * np.nan)

    def _known(self, loss: ProperLoss) -> LossSums:
        return self.sums.get(str(loss), LossSums({}, {}, {}))

    def _within(self, known: LossSums, names: Sequence[str], size: int) -> FloatArray:
        """What varies inside lines, brought from levels to steps: a level is in its own step and in the one before."""
        inside = np.zeros((size, size))
        for (a, b), values in known.within.items():
            if a not in names or b not in names:
                continue
            total = float(values.sum())
            for i, first in _in_steps(names.index(a)):
                for j, second in _in_steps(names.index(b)):
                    inside[i, j] += first * second * total
                    if a != b:
                        inside[j, i] += first * second * total
        return inside


def _in_steps(level: int) -> list[tuple[int, float]]:
    return [(level, 1.0)] if level == 0 else [(level, 1.0), (level - 1, -1.0)]


@dataclass(frozen=True)
class Lines:
    """
    Groups of a partial, each as one line or, where a cell holds several scores, as four.

    A group whose scores have mean m and variance σ² between lo and hi stands at two pairs of scores,
    {lo, m + σ²/(m − lo)} and {m − σ²/(hi − m), hi}, each with weights that keep m and σ². The mean over the group of
    any function whose third derivative keeps its sign lies between the means of the pairs (Chebyshev and Markov), so
    half of their difference bounds the error of taking the middle.
    """

    score: FloatArray
    group: NDArray[np.intp]
    share: FloatArray
    side: FloatArray  # +1 and −1 for the two pairs, 0 for a line that is a whole group


def beyond(partial: Partial, floor: float) -> NDArray[np.bool_]:
    """Groups of a partial with scores closer to 0 or 1 than a floor."""
    table = partial.table
    low, high = (table["key"], table["key"]) if partial.exact else (table["lo"], table["hi"])
    return np.asarray((low < floor) | (high > 1.0 - floor))


def lines_of(partial: Partial) -> Lines:
    """Where the groups of a partial stand."""
    table = partial.table
    if partial.exact:
        size = table["n"].size
        return Lines(table["key"], np.arange(size), np.ones(size), np.zeros(size))
    low, high, w = table["lo"], table["hi"], table["w"]
    mean = np.clip(table["s"] / w, low, high)
    below, above = mean - low, high - mean
    variance = np.clip(table["s2"] / w - mean**2, 0.0, below * above)
    wide = (below > 0.0) & (above > 0.0) & (variance > 0.0)
    single, several = np.flatnonzero(~wide), np.flatnonzero(wide)
    m, v, lo, hi = mean[several], variance[several], low[several], high[several]
    at_low, at_high = v / (v + (m - lo) ** 2), v / (v + (hi - m) ** 2)
    nodes = [(lo, at_low, 1.0), (np.minimum(m + v / (m - lo), hi), 1.0 - at_low, 1.0)]
    nodes += [(hi, at_high, -1.0), (np.maximum(m - v / (hi - m), lo), 1.0 - at_high, -1.0)]
    return Lines(
        np.concatenate([mean[single], *(score for score, _, _ in nodes)]),
        np.concatenate([single, *([several] * 4)]),
        np.concatenate([np.ones(single.size), *(0.5 * share for _, share, _ in nodes)]),
        np.concatenate([np.zeros(single.size), *(np.full(several.size, side) for _, _, side in nodes)]),
    )
