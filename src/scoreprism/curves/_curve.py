"""The base class of curves (named columns, a frame, a figure) and the rows that curves are computed from."""

from __future__ import annotations

import difflib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import refuse
from scoreprism._core.resampling import Rng, draw_events
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_vector
from scoreprism._document.result import Result
from scoreprism._kernels.isotonic import run_starts
from scoreprism._sample.sample import Sample
from scoreprism.decomposition import Chain

#: Points that a document prints of a curve; its frame has all of them.
_SHOWN = 12


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Curve(Result):
    """
    A curve: the numbers behind a figure.

    Attributes
    ----------
    name : str or None
        The model.
    n : int
        Number of rows with weight.

    Examples
    --------
    >>> from scoreprism.curves import roc_curve
    >>> curve = roc_curve([0, 1, 0, 1], [0.1, 0.3, 0.4, 0.8])
    >>> isinstance(curve, Curve), curve.to_dict()["points"]["fpr"]
    (True, [0.0, 0.0, 0.5, 0.5, 1.0])
    >>> curve
    RocCurve: area 0.7500, under the convex hull 0.8750; 5 points (fpr, tpr, threshold) from 4 rows
    """

    name: str | None = None
    n: int
    _backend: str | None = None

    @abstractmethod
    def _points(self) -> dict[str, FloatArray]:
        """The points, column by column."""

    @abstractmethod
    def _describe(self) -> str:
        """A short description beside the points."""

    def to_dict(self) -> dict[str, Any]:
        """
        The points as plain Python objects.

        Returns
        -------
        dict
            Name of the model, number of rows, and a list per column.
        """
        lists = {key: column.tolist() for key, column in self._points().items()}
        return {"curve": type(self).__name__, "name": self.name, "n": self.n, "points": lists}

    def _columns(self) -> dict[str, list[Any]]:
        return {key: column.tolist() for key, column in self._points().items()}

    def _shown_columns(self) -> dict[str, list[Any]]:
        columns = self._columns()
        size = len(next(iter(columns.values())))
        some = np.unique(np.linspace(0, size - 1, _SHOWN).astype(np.intp))
        return columns if size <= _SHOWN else {key: [values[i] for i in some] for key, values in columns.items()}

    def _title(self) -> str:
        size = len(next(iter(self._points().values())))
        return f"{self!r}\n[{_SHOWN} of {size} points]" if size > _SHOWN else repr(self)

    def _decimals(self) -> int:
        return 4

    def __repr__(self) -> str:
        columns = self._points()
        size = len(next(iter(columns.values())))
        who = f" of {self.name}" if self.name else ""
        points = f"{size} point{'s' * (size != 1)} ({', '.join(columns)})"
        return f"{type(self).__name__}{who}: {self._describe()}; {points} from {self.n} rows"


@dataclass(frozen=True)
class BinaryRows:
    """Parsed rows of two classes that have weight, in the order they came."""

    score: FloatArray  # (n,): probability of the positive class
    y: FloatArray  # (n,): outcomes 0.0 or 1.0
    weight: FloatArray | None = None  # (n,): positive weights
    backend: str | None = None  # dataframe library the data came in

    @staticmethod
    def of(sample: Sample) -> BinaryRows:
        """The rows of a sample's only model; weights that are all 1 become None."""
        weight = None if sample.weight is None or (sample.weight == 1.0).all() else sample.weight
        return BinaryRows(as_vector(sample.prediction), sample.y.astype(np.float64), weight, sample.backend)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.score.shape[0])

    @property
    def total(self) -> float:
        """Total weight."""
        return float(self.n) if self.weight is None else float(self.weight.sum())

    @property
    def weights(self) -> FloatArray:
        """Weights; ones if the rows have none."""
        return np.ones(self.n) if self.weight is None else self.weight

    @property
    def rate(self) -> float:
        """Share of events."""
        return float(np.average(self.y, weights=self.weight))

    def take(self, rows: IntArray) -> BinaryRows:
        """Some rows, in this order."""
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, score=self.score[rows], y=self.y[rows], weight=weight)


@dataclass(frozen=True, eq=False)
class RowCells:
    """Rows in the order of the cells of scores they belong to."""

    rows: BinaryRows
    first: IntArray  # (cells,): first row of each cell

    @classmethod
    def rank(cls, rows: BinaryRows, most: int | None = None) -> Self:
        """Sort rows by score, with one cell per distinct score, or at most `most` cells of about equally many rows."""
        ranked = rows.take(np.argsort(rows.score, kind="stable"))
        first = run_starts(ranked.score)
        if most is not None and first.shape[0] > most:  # no cell splits a tie
            first = np.unique(first[np.searchsorted(first, np.arange(most) * (rows.n / most))])
        return cls(ranked, first)

    @cached_property
    def weight(self) -> FloatArray:
        """Weight of each cell."""
        return np.add.reduceat(self.rows.weights, self.first)

    @cached_property
    def size(self) -> FloatArray:
        """Rows in each cell, (Σw)²/Σw² under weights (Kish)."""
        return self.weight**2 / np.add.reduceat(self.rows.weights**2, self.first)

    def sums(self, values: FloatArray | NDArray[np.bool_]) -> FloatArray:
        """Weighted sum over each cell."""
        return np.add.reduceat(self.rows.weights * values, self.first)

    def mean(self, values: FloatArray) -> FloatArray:
        """Weighted mean of each cell."""
        return self.sums(values) / self.weight

    def redraw(self, rng: Rng) -> FloatArray:
        """Weighted events of each cell when outcomes are drawn from the scores."""
        return self.sums(draw_events(rng, self.rows.score))


def require_two_classes(k: int) -> None:
    """Refuse any number of classes but two."""
    if k != 2:
        rule = "a curve over one probability must have two classes"
        refuse(rule, f"{k}", "For class k against the rest pass y == k and y_proba[:, k].")


def require_one_model(y_proba: object) -> None:
    """Refuse a mapping of models, which only displays take, and more than two classes, before anything is fitted."""
    if isinstance(y_proba, Mapping):
        rule = "`y_proba` must be the probabilities of one model"
        refuse(rule, "a mapping", "Call it once per model, or use a display.")
    shape = getattr(y_proba, "shape", ())
    if isinstance(shape, tuple) and len(shape) == 2 and shape[1] > 2:
        require_two_classes(shape[1])


def require_known(options: Iterable[str], function: Callable[..., object], what: str) -> None:
    """Refuse options that `function` does not take."""
    known = [key for key in signature(function).parameters if not key.startswith("y_")]
    for key in options:
        if key not in known:
            near = difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]!r}?" if near else "Choose one of these."
            refuse(f"an option of {what} must be one of {', '.join(known)}", repr(key), hint)


def drop_absent_rows(chain: Chain) -> tuple[Chain, FloatArray]:
    """The rows of a chain that have weight, and their weights."""
    weight = chain.sample.weight
    if weight is None:
        return chain, np.ones(chain.sample.n)
    weighted = np.flatnonzero(weight)
    return (chain, weight) if weighted.size == weight.size else (chain.take(weighted), weight[weighted])


def weigh_effectively(rows: BinaryRows) -> BinaryRows:
    """The same rows, with weights that add up to the effective number of rows, (Σw)²/Σw²."""
    if rows.weight is None or (rows.weight == rows.weight[0]).all():
        return replace(rows, weight=None)
    return replace(rows, weight=rows.weight * float(rows.weight.sum() / (rows.weight @ rows.weight)))


def parse_binary(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> BinaryRows:
    """Parse outcomes and predictions of two classes; rows of weight zero are dropped."""
    require_one_model(y_proba)
    sample = Sample.of(y_true, y_proba, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    require_two_classes(sample.k)
    return BinaryRows.of(sample)
