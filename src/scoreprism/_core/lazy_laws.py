"""Probabilities of several classes that are computed a block of rows at a time, where the scores live."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from scoreprism._core.arrays import DEVICE_BLOCK, convert, like, namespace, take, to_host, widen
from scoreprism._core.logits import LOWEST
from scoreprism._core.simplex import FloatArray, IntArray, clip_law

Rows = slice | IntArray
#: Numbers of a block on the processor: a few arrays of them stay in the cache.
_BLOCK = 1 << 18


class LazyLaw(NDArrayOperatorsMixin, ABC):
    """
    A law of shape (n, K) that is computed when it is needed.

    Code that goes by blocks asks for `block`; everything else sees a numpy array, which is made on first use and kept.
    """

    ndim = 2
    dtype = np.dtype(np.float64)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and classes."""

    @property
    @abstractmethod
    def place(self) -> Any:
        """An array that lives where the blocks do."""

    @abstractmethod
    def block(self, rows: Rows) -> Any:
        """The law of some rows in double precision, where the scores live."""

    @abstractmethod
    def take(self, rows: IntArray) -> LazyLaw:
        """Some of the rows, not yet computed."""

    @property
    def step(self) -> int:
        """Rows of a block."""
        return max(1, (_BLOCK if isinstance(self.place, np.ndarray) else DEVICE_BLOCK) // self.shape[1])

    def blocks(self) -> Iterator[slice]:
        """Blocks of rows."""
        n = self.shape[0]
        return (slice(first, min(first + self.step, n)) for first in range(0, n, self.step))

    @cached_property
    def whole(self) -> FloatArray:
        """All rows as a numpy array."""
        law = np.empty(self.shape)
        for rows in self.blocks():
            law[rows] = to_host(self.block(rows))
        law.flags.writeable = False
        return law

    def column(self, code: int) -> FloatArray:
        """The probabilities of one class."""
        return np.concatenate([to_host(self.block(rows)[:, code]) for rows in self.blocks()])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice) or (isinstance(key, np.ndarray) and key.ndim == 1):
            some = np.flatnonzero(key) if isinstance(key, np.ndarray) and key.dtype == bool else key
            return to_host(self.block(some))
        rows, *columns = key if isinstance(key, tuple) else (key,)
        if isinstance(rows, slice) and rows == slice(None) and len(columns) == 1:
            (code,) = columns
            if isinstance(code, (int, np.integer)):
                return self.column(int(code))
        return self.whole[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.whole, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = (np.asarray(one) if isinstance(one, LazyLaw) else one for one in inputs)
        return getattr(ufunc, method)(*arrays, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.whole, name)


@dataclass(frozen=True, eq=False)
class ClassScores(LazyLaw):
    """Scores of several classes as they came: probabilities or logits, of any precision, on any device."""

    values: Any  # (n, K)
    is_logit: bool
    least: FloatArray  # (n,): log of the smallest positive probability of each row
    zero: NDArray[np.bool_]  # (n,): rows with a probability of 0
    index: IntArray | None = None  # the rows that belong to it; None for all
    _kept: dict[str, Any] = field(default_factory=dict)  # centred log-probabilities of all rows, where they are few

    @property
    def shape(self) -> tuple[int, int]:
        n = self.values.shape[0] if self.index is None else self.index.size
        return int(n), int(self.values.shape[1])

    @property
    def place(self) -> Any:
        return self.values

    @cached_property
    def precision(self) -> Any:
        """The type that maps are fitted and evaluated in: that of the scores, single precision at least."""
        xp = namespace(self.values)
        return xp.float64 if self.values.dtype == xp.float64 else xp.float32

    @property
    def is_single(self) -> bool:
        """Whether maps are fitted in single precision."""
        return bool(self.precision == namespace(self.values).float32)

    def find_ranges(self) -> list[tuple[float, float]]:
        """The smallest finite and the largest score of each class."""
        least, most = np.full(self.shape[1], np.inf), np.full(self.shape[1], -np.inf)
        for rows in self.blocks():
            values = widen(self.read(rows))
            xp = namespace(values)
            finite = xp.where(values > -xp.inf, values, xp.full_like(values, xp.inf))
            least = np.minimum(least, to_host(xp.min(finite, axis=0)))
            most = np.maximum(most, to_host(xp.max(values, axis=0)))
        return list(zip(np.minimum(least, most).tolist(), most.tolist(), strict=True))

    def take(self, rows: IntArray) -> ClassScores:
        index = rows if self.index is None else self.index[rows]
        return replace(self, index=index, least=self.least[rows], zero=self.zero[rows])

    @cached_property
    def least_log(self) -> float:
        """The log of the smallest positive probability."""
        return float(self.least.min())

    @cached_property
    def has_zero(self) -> bool:
        """Whether some probability is 0."""
        return bool(self.zero.any())

    def reorder(self, columns: list[int]) -> ClassScores:
        """The same with the columns in another order."""
        order = np.asarray(columns, dtype=np.int64)
        xp = namespace(self.values)
        return replace(self, values=xp.take(self.values, like(order, self.values), axis=1))

    def read(self, rows: Rows) -> Any:
        """The scores of some rows as they came."""
        return take(self.values, rows if self.index is None else self.index[rows])

    def block(self, rows: Rows) -> Any:
        values = widen(self.read(rows))
        if not self.is_logit:
            return values
        xp = namespace(values)
        law = xp.exp(log_softmax_block(values, LOWEST))
        if self.has_zero:
            law = xp.where(values == -xp.inf, 0.0 * law, law)
        return law / xp.sum(law, axis=1, keepdims=True)

    def logs(self, rows: Rows, low: float) -> Any:
        """Log-probabilities, those below `low` counted as `low`, in the precision of the fits."""
        values = self.read(rows)
        xp = namespace(values)
        values = convert(values, self.precision)
        floor = float(np.log(low))
        if self.is_logit:
            return log_softmax_block(values, floor)
        logs = xp.log(xp.where(values > 0.0, values, 1.0 + 0.0 * values))
        if self.has_zero:
            logs = xp.where(values > 0.0, logs, floor + 0.0 * logs)
        return logs if self.least_log >= floor else xp.where(logs < floor, floor + 0.0 * logs, logs)

    def centered(self, rows: Rows, low: float) -> Any:
        """The same minus their mean over classes, which is all that a softmax depends on."""
        if self.has_zero or self.least_log < float(np.log(low)):
            return _center(self.logs(rows, low))
        if self.is_logit:  # none is cut: the constant of the softmax goes with the mean
            return _center(convert(self.read(rows), self.precision))
        if self.values.shape[0] * self.shape[1] > _FEW:
            return _center(self.logs(rows, low))
        if "centered" not in self._kept:
            whole = convert(self.values, self.precision)
            xp = namespace(whole)
            self._kept["centered"] = _center(xp.log(xp.where(whole > 0.0, whole, xp.ones_like(whole))))
        return take(self._kept["centered"], rows if self.index is None else self.index[rows])


#: Numbers up to which the logarithms of probabilities are kept.
_FEW = 1 << 24


def _center(logs: Any) -> Any:
    return logs - namespace(logs).mean(logs, axis=1, keepdims=True)


def read_scores(
    values: Any, *, is_logit: bool, check: Callable[[Any, int], None] = lambda _block, _first: None
) -> ClassScores:
    """Scores of several classes in an array of any library; each block is given to `check`, with its first row."""
    n = values.shape[0]
    scores = ClassScores(values, is_logit, np.zeros(n), np.zeros(n, dtype=bool))
    for rows in scores.blocks():
        block = widen(scores.read(rows))
        check(block, rows.start)
        with np.errstate(divide="ignore"):
            logs = log_softmax_block(block, -np.inf) if is_logit else namespace(block).log(block)
        scores.least[rows], scores.zero[rows] = find_least(logs)
    return scores


def is_law_block(law: Any, tolerance: float) -> bool:
    """Whether every row of an array of any library is a point of the simplex."""
    xp = namespace(law)
    gap = xp.abs(xp.sum(law, axis=1) - 1.0)
    return bool(xp.all(law >= 0.0)) and bool(xp.all(law <= 1.0)) and bool(xp.all(gap <= tolerance))


def find_bad_logits(values: Any) -> Any:
    """Rows that hold NaN or ∞, or nothing but −∞."""
    xp = namespace(values)
    wrong = xp.isnan(values) | (values == xp.inf)
    return xp.any(wrong, axis=1) | xp.all(values == -xp.inf, axis=1)


def find_least(logs: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Of each row the smallest finite log-probability, and whether some are −∞."""
    xp = namespace(logs)
    finite = logs > -xp.inf
    least = xp.min(xp.where(finite, logs, xp.zeros_like(logs)), axis=1)
    return to_host(least).astype(np.float64), ~to_host(xp.all(finite, axis=1))


def log_softmax_block(values: Any, floor: float) -> Any:
    """Log softmax of each row of an array of any library, at least `floor`."""
    xp = namespace(values)
    logs = values - xp.max(values, axis=1, keepdims=True)
    logs = logs - xp.log(xp.sum(xp.exp(logs), axis=1, keepdims=True))
    return xp.where(logs < floor, floor + xp.zeros_like(logs), logs)


@dataclass(frozen=True, eq=False)
class ClippedLaw(LazyLaw):
    """A law kept away from the boundary of the simplex."""

    law: LazyLaw
    distance: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.law.shape

    @property
    def place(self) -> Any:
        return self.law.place

    def take(self, rows: IntArray) -> ClippedLaw:
        return ClippedLaw(self.law.take(rows), self.distance)

    def block(self, rows: Rows) -> Any:
        return clip_block(self.law.block(rows), self.distance)


@dataclass(frozen=True, eq=False)
class MeanLaw(LazyLaw):
    """The mean of several laws."""

    laws: tuple[LazyLaw, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.laws[0].shape

    @property
    def place(self) -> Any:
        return self.laws[0].place

    def take(self, rows: IntArray) -> MeanLaw:
        return MeanLaw(tuple(law.take(rows) for law in self.laws))

    def block(self, rows: Rows) -> Any:
        first, *others = (law.block(rows) for law in self.laws)
        for other in others:
            first = first + other
        return first / len(self.laws)


def clip_block(law: Any, distance: float) -> Any:
    """As `clip_law`, for several classes in an array of any library."""
    xp = namespace(law)
    if isinstance(law, np.ndarray):
        return clip_law(law, distance)
    low = to_host(xp.min(law, axis=1) < distance)
    rows = np.flatnonzero(low)
    if rows.size == 0:
        return law
    some = law if rows.size == law.shape[0] else take(law, rows)
    excess = xp.where(some < distance, xp.zeros_like(some), some - distance)
    total = xp.sum(excess, axis=1, keepdims=True)
    room = 1.0 - law.shape[1] * distance
    some = distance + excess * (room / xp.where(total > 0.0, total, xp.ones_like(total)))
    if rows.size == law.shape[0]:
        return some
    where = np.arange(law.shape[0])
    where[rows] = law.shape[0] + np.arange(rows.size)
    return take(xp.concat([law, some], axis=0), where)


def take_rows_of_law(law: Any, rows: IntArray) -> Any:
    """Some rows of a law; of one that is not yet computed, to be computed later."""
    return law.take(rows) if isinstance(law, LazyLaw) else law[rows]


def read_block(law: Any, rows: Rows) -> Any:
    """Some rows of a law, where it lives."""
    return law.block(rows) if isinstance(law, LazyLaw) else law[rows]


def reorder_columns(law: Any, columns: list[int]) -> Any:
    """A law with its columns in another order."""
    return law.reorder(columns) if isinstance(law, ClassScores) else law[:, columns]


def as_whole_array(law: Any) -> Any:
    """A law as a numpy array."""
    return law.whole if isinstance(law, LazyLaw) else law
