"""Embeddings as learners see them: principal coordinates of many columns, made once for all folds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import refuse
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._sample.features import FAR, Codes, Encoder, Features
from scoreprism._sample.point_cloud import PointCloud, Points
from scoreprism._sample.wide_columns import WideColumns

#: Columns up to which all principal axes are taken; of more, so many, found from random directions.
_WHOLE, _MOST = 1024, 512
#: Extra directions of that search, and passes that sharpen it.
_EXTRA, _PASSES = 32, 2
#: An axis whose variance is a smaller share of the largest is rounding.
_LEAST = 1e-6
#: Numbers in a block of rows.
_BLOCK = 1 << 21

Blocks = Callable[[], Iterator[Points]]


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """How a wide table is standardised and turned to its principal axes; outcomes play no part in it."""

    source: WideColumns  # what it was fitted to
    center: FloatArray
    scale: FloatArray  # infinite for constant columns
    axes: Points  # (d, r), those of most variance first

    @staticmethod
    def fit(source: WideColumns) -> PrincipalAxes:
        center, scale = _find_moments(source.array)
        find = _find_all_axes if len(source) <= _WHOLE else _find_main_axes
        return PrincipalAxes(
            source, center, scale, find(lambda: _standardise(source.array, center, scale), len(source))
        )

    def place(self, table: WideColumns) -> Points:
        """Principal coordinates of the rows of a table."""
        blocks = _standardise(table.array, self.center, self.scale)
        return np.concatenate([block @ self.axes for block in blocks])

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder.fit([column.astype(np.float64) for column in self.source])

    def encode(self, table: WideColumns) -> Features:
        """The columns one by one, for learners that look at them so."""
        return self._encoder([column.astype(np.float64) for column in table])


def _split_rows(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    step = max(1, _BLOCK // array.shape[1])
    return (array[first : first + step] for first in range(0, array.shape[0], step))


def _find_moments(array: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of the finite numbers of each column; an infinite deviation where it is constant."""
    count, total, squares = np.zeros((3, array.shape[1]))
    start = np.where(np.isfinite(array[0]), array[0], 0.0).astype(np.float64)  # so that squares lose little to rounding
    for block in _split_rows(array):
        away = block - start
        finite = np.isfinite(away)
        away[~finite] = 0.0
        count += finite.sum(axis=0)
        total += away.sum(axis=0)
        squares += np.einsum("ij,ij->j", away, away)
    mean = total / np.maximum(count, 1.0)
    deviation = np.sqrt(np.maximum(squares / np.maximum(count, 1.0) - mean**2, 0.0))
    center = start + mean
    return center, np.where(deviation <= 1e-7 * np.abs(center), np.inf, deviation)


def _standardise(array: NDArray[Any], center: FloatArray, scale: FloatArray) -> Iterator[Points]:
    """Blocks of rows in standard deviations, cut at ±4; 0 for what is missing or constant."""
    for block in _split_rows(array):
        with np.errstate(invalid="ignore"):
            z = ((block - center) / scale).astype(np.float32)
        z[np.isnan(z)] = 0.0
        yield np.clip(z, -FAR, FAR, out=z)


def _find_all_axes(blocks: Blocks, d: int) -> Points:
    """Eigenvectors of the products of all columns."""
    products = np.zeros((d, d))
    for z in blocks():
        products += z.T @ z
    return _choose_axes(products, np.eye(d), d)


def _find_main_axes(blocks: Blocks, d: int) -> Points:
    """The axes of most variance, from random directions (Halko, Martinsson & Tropp 2011)."""
    axes = np.random.default_rng(0).standard_normal((d, _MOST + _EXTRA)).astype(np.float32)
    for _ in range(_PASSES):
        sums = np.zeros(axes.shape)
        for z in blocks():
            sums += z.T @ (z @ axes)
        axes = np.linalg.qr(sums)[0].astype(np.float32)
    products = np.zeros((axes.shape[1], axes.shape[1]))
    for z in blocks():
        part = z @ axes
        products += part.T @ part
    return _choose_axes(products, axes, _MOST)


def _choose_axes(products: FloatArray, axes: NDArray[Any], most: int) -> Points:
    """The strongest directions among some axes, given their products."""
    values, turn = np.linalg.eigh(products)
    kept = np.flatnonzero(values > _LEAST * max(float(values[-1]), 1.0))[::-1][:most]
    return np.ascontiguousarray(axes @ turn[:, kept], dtype=np.float32)


@dataclass(frozen=True, eq=False)
class WideTable:
    """All rows of embeddings, beside the score and few columns."""

    narrow: Features
    parts: tuple[tuple[PrincipalAxes, WideColumns], ...]

    @cached_property
    def cloud(self) -> PointCloud:
        """Few columns as they are, the score left out, and principal coordinates of the others."""
        few = self.narrow.coordinates
        return PointCloud(np.concatenate([few, *(axes.place(columns) for axes, columns in self.parts)], axis=1))

    @cached_property
    def encoded(self) -> Features:
        """The columns one by one."""
        whole = self.narrow
        for axes, columns in self.parts:
            whole = whole.beside(axes.encode(columns))
        return whole


class Embeddings(Features):
    """Some rows of embeddings; bins and standardised columns are made when a learner asks for them."""

    is_wide = True

    def __init__(self, table: WideTable, places: IntArray | None = None) -> None:
        self.__dict__.update(table=table, places=places, n_score=table.narrow.n_score)

    table: WideTable

    @property
    def n(self) -> int:
        return self.table.narrow.n if self.places is None else self.places.size

    def part(self, rows: NDArray[Any]) -> Features:
        return Embeddings(self.table, self.rows[rows])

    def beside(self, other: Features) -> Features:
        if isinstance(other, Embeddings):
            return Embeddings(
                WideTable(self.table.narrow.beside(other.table.narrow), self.table.parts + other.table.parts)
            )
        return Embeddings(WideTable(self.table.narrow.beside(other), self.table.parts))

    def after(self, few: Features) -> Features:
        """The same with few columns before them."""
        return Embeddings(WideTable(few.beside(self.table.narrow), self.table.parts))

    @property
    def cloud(self) -> PointCloud:
        return self.table.cloud

    @cached_property
    def codes(self) -> Codes:
        return self.table.encoded.codes[:, self.rows]

    @cached_property
    def categorical(self) -> tuple[bool, ...]:
        return self.table.encoded.categorical

    @cached_property
    def design(self) -> FloatArray:
        return self.table.encoded.design[:, self.rows]


@dataclass(frozen=True, eq=False)
class FeatureEncoder:
    """How a table, with or without the score before it, becomes features: few columns one by one, many as one array."""

    few: Encoder
    many: PrincipalAxes | None = None

    @staticmethod
    def fit(
        table: Sequence[NDArray[Any]], score: Sequence[NDArray[Any]] = (), rows: Any = slice(None)
    ) -> FeatureEncoder:
        """The encoder of these rows."""
        wide = isinstance(table, WideColumns)
        few = Encoder.fit([column[rows] for column in (score if wide else (*score, *table))])
        return FeatureEncoder(few, PrincipalAxes.fit(table.take(rows)) if isinstance(table, WideColumns) else None)

    def __call__(self, table: Sequence[NDArray[Any]], score: Sequence[NDArray[Any]] = ()) -> Features:
        if self.many is None:
            return replace(self.few([*score, *table]), n_score=len(score))
        if not isinstance(table, WideColumns):
            text = next(j for j, column in enumerate(table) if column.dtype.kind != "f")
            refuse("columns of `X` must hold numbers, as in fit", f"text in column {text}", "Pass the same features.")
        n = table.array.shape[0]
        few = self.few(score) if score else Features(np.zeros((0, n), dtype=np.uint8), (), np.zeros((0, n)))
        return Embeddings(WideTable(replace(few, n_score=len(score)), ((self.many, table),)))
