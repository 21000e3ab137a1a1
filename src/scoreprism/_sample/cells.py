"""Lines that are sums: cells, outcomes and folds in the place of rows, with the moments of what varies inside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import FloatArray, IntArray, clip_law
from scoreprism.losses import ProperLoss


@dataclass(frozen=True)
class LossSums:
    """What is known of the losses of the levels within each line; levels go by name."""

    mean: dict[str, FloatArray]  # mean loss of the rows of a line
    # the same by squared weight; its distance from the mean of its group is that of the loss of the score
    mean2: dict[str, FloatArray]
    # by two levels, Σw²(ℓ − mean2)(ℓ' − mean2') over the rows of a line, or its share of those of its group
    within: dict[tuple[str, str], FloatArray]


@dataclass(frozen=True)
class Cells:
    """What the lines of a `Sample` stand for, where they are sums."""

    counts: FloatArray  # (n,): rows behind each line
    # (n,): Σw², Σw³ and Σw⁴ of each line; the last two only where ends of intervals are asked for
    squares: FloatArray
    cubes: FloatArray = field(default_factory=lambda: np.empty(0))
    fourths: FloatArray = field(default_factory=lambda: np.empty(0))
    home: IntArray | None = None  # (n,): the cell of each line, where a cell holds several scores
    losses: Mapping[str, LossSums] = field(default_factory=dict)  # by loss; others are evaluated at the scores of lines
    # from a clipping distance to such sums; None where the engine has clipped already
    losses_at: Callable[[float], dict[str, LossSums]] | None = None

    @property
    def n_units(self) -> int:
        """Number of rows that have weight."""
        return round(float(self.counts.sum()))

    def known(self, loss: object) -> LossSums:
        """The sums of a loss; empty where it was not summed."""
        return self.losses.get(str(loss), LossSums({}, {}, {}))

    def clip_at(self, distance: float) -> Cells:
        """The sums of laws that are kept away from 0 and 1."""
        return self if self.losses_at is None else replace(self, losses=self.losses_at(distance))

    def count_rows(self, lines: NDArray[np.bool_]) -> int:
        """How many rows some lines are."""
        return round(float(self.counts[lines].sum()))

    def within(self, loss: object, names: Sequence[str], size: int) -> FloatArray:
        """What varies inside lines, brought from levels to steps: a level is in its own step and in the one before."""
        inside = np.zeros((size, size))
        for (a, b), values in self.known(loss).within.items():
            if a not in names or b not in names:
                continue
            total = float(values.sum())
            for i, first in _express_in_steps(names.index(a)):
                for j, second in _express_in_steps(names.index(b)):
                    inside[i, j] += first * second * total
                    if a != b:
                        inside[j, i] += first * second * total
        return inside


def _express_in_steps(level: int) -> list[tuple[int, float]]:
    return [(level, 1.0)] if level == 0 else [(level, 1.0), (level - 1, -1.0)]


def block_losses(
    loss: ProperLoss, weight: FloatArray, events: FloatArray, clip: float | None = None
) -> tuple[float, float]:
    """Mean loss of the isotonic law, and of the marginal law, from the sums of the isotonic blocks."""
    blocks = np.array([weight, events])
    weights, happened = np.concatenate([blocks, blocks.sum(axis=1, keepdims=True)], axis=1)  # all rows: the last pool
    law, size = happened / weights, weights.size
    law = law if clip is None else clip_law(law, clip)
    # a law that is constant on a pool of rows: events·ℓ(c, 1) + (weight − events)·ℓ(c, 0), where 0·∞ = 0
    mass = np.concatenate([weights - happened, happened])
    losses = loss.evaluate(np.concatenate([law, law]), np.repeat([0, 1], size))
    losses[mass == 0.0] = 0.0
    losses *= mass
    sums, total = losses[:size] + losses[size:], weights[-1]
    return float(np.add.reduce(sums[:-1]) / total), float(sums[-1] / total)
