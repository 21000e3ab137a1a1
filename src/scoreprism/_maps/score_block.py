"""A block of rows of scores of several classes, with the logarithms that maps share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from scoreprism._core.arrays import convert, like, namespace, to_host
from scoreprism._core.lazy_laws import ClassScores, Rows
from scoreprism._core.simplex import IntArray
from scoreprism._maps.parts import Map
from scoreprism._maps.softmax_map import multiply_squares


class ScoreBlock:
    """Some rows of scores; what several maps need of them is computed once."""

    def __init__(self, scores: ClassScores, rows: Rows) -> None:
        self.scores, self.rows = scores, rows
        self._known: dict[Any, Any] = {}

    def logs(self, low: float) -> Any:
        """Log-probabilities, those below `low` counted as `low`."""
        return self._once("logs", low)

    def centered(self, low: float) -> Any:
        """The same minus their mean over classes."""
        return self._once("centered", low)

    def _once(self, what: str, low: float) -> Any:
        key = what, low if self.scores.least_log < np.log(low) or self.scores.has_zero else None  # else none is cut
        if key not in self._known:
            self._known[key] = getattr(self.scores, what)(self.rows, low)
        return self._known[key]

    def apply(self, fitted: Map) -> Any:
        """A map on these rows, in the precision of the scores and where they live."""
        at_block = getattr(fitted, "at_block", None)
        if at_block is not None:
            return at_block(self)
        law = fitted(to_host(self.scores.block(self.rows)))
        return convert(like(law, self.scores.place), self.scores.precision)


@dataclass(frozen=True)
class ScoreFeatures:
    """What maps of several classes are fitted to: log-probabilities of scores, or squares of them, by blocks."""

    scores: ClassScores
    low: float  # probabilities below it count as it
    features: str = "centered"
    constant: bool = False  # whether there is a last column of ones

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n, k = self.scores.shape
        return n, k + (k * (k + 1) // 2 if self.features == "squares" else 0) + self.constant

    @property
    def size(self) -> int:
        """Number of values."""
        return self.shape[0] * self.shape[1]

    def blocks(self) -> Iterator[slice]:
        """Blocks of rows."""
        return self.scores.blocks()

    def take(self, rows: IntArray) -> ScoreFeatures:
        """Some of the rows."""
        return replace(self, scores=self.scores.take(rows))

    def read(self, rows: slice) -> Any:
        """The columns of a block of rows, where the scores live; on a device they are kept for the next step."""
        if isinstance(self.scores.place, np.ndarray):
            return self._compute(rows)
        key = rows.start, rows.stop
        if key not in self._kept:
            self._kept[key] = self._compute(rows)
        return self._kept[key]

    @cached_property
    def _kept(self) -> dict[tuple[int, int], Any]:
        """Blocks by their first row and their end."""
        return {}

    def _compute(self, rows: slice) -> Any:
        """The columns of a block of rows."""
        block = ScoreBlock(self.scores, rows)
        z = block.logs(self.low) if self.features == "log" else block.centered(self.low)
        if self.features == "squares":
            z = multiply_squares(z)
        if not self.constant:
            return z
        xp = namespace(z)
        return xp.concat([z, xp.ones_like(z[:, :1])], axis=1)


def find_least_law(fitted: Map, scores: ClassScores) -> float:
    """The smallest probability that a map gives to these scores."""
    return min(
        float(namespace(law).min(law)) for law in (ScoreBlock(scores, rows).apply(fitted) for rows in scores.blocks())
    )
