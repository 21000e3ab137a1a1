"""The rows a metric is computed from: parsed once, without zero weights, and shared by all metrics of a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import refuse
from scoreprism._core.resampling import Rng, count_pooled_rows, count_rows
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_matrix, as_vector, n_classes
from scoreprism._sample.sample import Sample

Thing = TypeVar("Thing")

#: Rows of an outcome up to which each is resampled on its own; more are pooled in this many neighbourhoods.
_UNITS = 2048


@dataclass(frozen=True)
class Units:
    """Units of resampling: rows in order of score, or runs of neighbours with equal outcomes, drawn by size."""

    score: FloatArray
    y: FloatArray
    weight: FloatArray
    size: FloatArray

    @property
    def is_single(self) -> bool:
        """Whether every unit is one row."""
        return bool((self.size == 1.0).all())

    def draw(self, rng: Rng) -> FloatArray:
        """How often each unit occurs in one resample of as many rows."""
        return count_rows(rng, self.size.shape[0]) if self.is_single else count_pooled_rows(rng, self.size)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows that have weight."""

    law: FloatArray  # (n,): scores; two classes are one column
    y: IntArray  # (n,): outcomes
    weight: FloatArray | None  # (n,): positive weights; None for equal ones
    backend: str | None = None  # dataframe library the data came in
    pool: bool = True  # whether many rows may be resampled as neighbourhoods
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(sample: Sample) -> Rows:
        """The rows of a sample's only model; equal weights become None."""
        law, weight = sample.prediction, sample.weight
        if weight is not None and (weight == weight[0]).all():
            weight = None
        return Rows(as_vector(law) if sample.k == 2 else law, sample.y, weight, sample.backend)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.y.shape[0])

    @property
    def k(self) -> int:
        """Number of classes."""
        return n_classes(self.law)

    @cached_property
    def share(self) -> FloatArray:
        """Weights that sum to one."""
        return np.full(self.n, 1.0 / self.n) if self.weight is None else self.weight / self.weight.sum()

    def bound_unseen(self, tail: float) -> float:
        """
        Largest plausible probability of the outcomes that no row has; 0 where every class occurs.

        n rows without an outcome of probability u have probability (1 − u)ⁿ, which is `tail` at the bound (Clopper &
        Pearson 1934; 3/n at 5 %). With weights (Σw)²/Σw² stands for n.
        """
        return 0.0 if np.unique(self.y).size == self.k else -math.expm1(math.log(tail) * float((self.share**2).sum()))

    @cached_property
    def order(self) -> IntArray:
        """Two classes: rows in order of score."""
        return np.argsort(self.law, kind="stable")

    def mean(self, values: FloatArray) -> float:
        """Weighted mean of one value per row."""
        return float(values.mean()) if self.weight is None else float(self.share @ values)

    def remember(self, key: Any, make: Callable[[], Thing]) -> Thing:
        """The result of `make`, cached by key, so that the metrics of a table share their curves."""
        if key not in self._cache:
            self._cache[key] = make()
        value: Thing = self._cache[key]
        return value

    @cached_property
    def plain(self) -> FloatArray:
        """Weights with mean one."""
        return np.ones(self.n) if self.weight is None else self.weight / self.weight.mean()

    def with_event(self, score: FloatArray, event: NDArray[np.bool_], *, pool: bool) -> Rows:
        """The same rows with another score and event."""
        return Rows(score, event.astype(np.intp), self.weight, self.backend, pool)

    @cached_property
    def row_units(self) -> Units:
        """Two classes: every row a unit."""
        order = self.order
        return Units(self.law[order], self.y[order].astype(np.float64), self.plain[order], np.ones(self.n))

    @cached_property
    def unordered_units(self) -> Units:
        """Any number of classes: every row a unit, in the order of the rows; its score does not matter."""
        nothing = np.zeros(self.n)
        return Units(nothing, nothing, self.plain, np.ones(self.n))

    @cached_property
    def units(self) -> Units:
        """Two classes: units of resampling; weighted rows are never pooled, as weights differ among neighbours."""
        if not self.pool or self.weight is not None or self.n <= 2 * _UNITS:
            return self.row_units
        score, y = self.law[self.order], self.y[self.order]
        parts = []
        for outcome in (0, 1):
            chosen = score[y == outcome]
            if chosen.size:
                starts = np.unique(np.linspace(0, chosen.size, _UNITS, endpoint=False).astype(np.intp))
                sizes = np.diff(np.append(starts, chosen.size)).astype(np.float64)
                parts.append((np.add.reduceat(chosen, starts) / sizes, np.full(starts.size, float(outcome)), sizes))
        scores, outcomes, sizes = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(scores, kind="stable")
        return Units(scores[order], outcomes[order], np.ones(order.size), sizes[order])


def parse_rows(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None,
    sample_weight: ArrayLike | None,
    pos_label: object,
    classes: ArrayLike | None,
) -> Rows:
    """Rows of one model."""
    if isinstance(y_proba, Mapping):
        refuse(
            "`y_proba` must be the probabilities of one model",
            f"a mapping of {len(y_proba)}",
            "Pass one of its values, and call once for each model.",
        )
    return Rows.of(Sample.of(y_true, y_proba, sample_weight=sample_weight, pos_label=pos_label, classes=classes))


def split_classes(rows: Rows) -> list[Rows]:
    """Rows of every class against the rest."""
    law = as_matrix(rows.law)
    # the classes share one resample of rows, so none of them may pool rows
    return rows.remember(
        "one-vs-rest", lambda: [rows.with_event(law[:, k], rows.y == k, pool=False) for k in range(rows.k)]
    )


def pick_top_label(rows: Rows) -> tuple[Rows, IntArray]:
    """Rows of "the most likely class is right", and that class (the first of equals)."""
    law = as_matrix(rows.law)
    best = law.argmax(axis=1)
    confidence = np.take_along_axis(law, best[:, None], axis=1)[:, 0]
    return rows.remember("top", lambda: rows.with_event(confidence, rows.y == best, pool=True)), best
