"""Embeddings as learners see them: principal coordinates of all rows, made once, and who is near whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import IntArray
from scoreprism._kernels.nearest import find_nearest
from scoreprism._sample.features import FAR, Encoder, Features
from scoreprism._sample.wide_columns import WideColumns

#: Columns up to which all principal coordinates are taken; of more, only so many, found from random directions.
_WHOLE, _MOST = 1024, 512
#: Extra directions of that search, and its passes.
_EXTRA, _PASSES = 32, 1
#: A coordinate whose variance is a smaller share of the largest is rounding.
_RANK = 1e-6
#: Numbers of a block of rows.
_BLOCK = 1 << 21
#: Coordinates that distances are taken in, and neighbours that are kept of each row.
NEAR, NEIGHBOURS = 64, 64
#: Rows that neighbours are sought among, drawn at random from more.
_CANDIDATES = 20_000

Coordinates = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Basis:
    """How a wide table is standardised and turned to its principal axes; outcomes play no part in it."""

    fitted_on: WideColumns
    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    rotation: Coordinates  # (d, r), axes of most variance first

    @staticmethod
    def fit(table: WideColumns) -> Basis:
        center, scale = _find_moments(table.array)
        blocks = lambda: _standardise(table.array, center, scale)  # noqa: E731
        d = len(table)
        rotation = _find_all_axes(blocks, d) if d <= _WHOLE else _find_main_axes(blocks, d)
        return Basis(table, center, scale, rotation)

    def place(self, table: WideColumns) -> Coordinates:
        """Principal coordinates of the rows of a table."""
        out = np.empty((table.array.shape[0], self.rotation.shape[1]), dtype=np.float32)
        first = 0
        for z in _standardise(table.array, self.center, self.scale):
            np.matmul(z, self.rotation, out=out[first : first + len(z)])
            first += len(z)
        return out

    @cached_property
    def encoder(self) -> Encoder:
        """Bins and standardised columns, one by one, for learners that need them."""
        return Encoder.fit(_as_floats(self.fitted_on))


def _as_floats(table: WideColumns) -> list[NDArray[np.float64]]:
    return [column.astype(np.float64) for column in table]


def _row_blocks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    step = max(1, _BLOCK // array.shape[1])
    return (array[first : first + step] for first in range(0, array.shape[0], step))


def _find_moments(array: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of the finite numbers of each column; a scale of 1 for constant ones."""
    d = array.shape[1]
    count, total, square = np.zeros(d), np.zeros(d), np.zeros(d)
    start: NDArray[np.float64] | None = None  # sums of squares around a row of numbers lose little to rounding
    for block in _row_blocks(array):
        values = block.astype(np.float64)
        finite = np.isfinite(values)
        if start is None:
            start = np.where(finite[0], values[0], 0.0)
        values = np.where(finite, values - start, 0.0)
        count += finite.sum(axis=0)
        total += values.sum(axis=0)
        square += np.einsum("ij,ij->j", values, values)
    assert start is not None  # noqa: S101 - a table has rows
    mean = total / np.maximum(count, 1.0)
    variance = np.maximum(square / np.maximum(count, 1.0) - mean**2, 0.0)
    center = start + mean
    flat = variance <= (1e-7 * (1.0 + np.abs(center))) ** 2
    return center, np.where(flat, np.inf, np.sqrt(variance))


def _standardise(array: NDArray[Any], center: NDArray[Any], scale: NDArray[Any]) -> Iterator[Coordinates]:
    """Blocks of rows in units of the scale, cut at ±4, with 0 for what is missing or constant."""
    for block in _row_blocks(array):
        with np.errstate(invalid="ignore"):
            z = ((block - center) / scale).astype(np.float32)
        z[np.isnan(z)] = 0.0
        yield np.clip(z, -FAR, FAR, out=z)


def _find_all_axes(blocks: Any, d: int) -> Coordinates:
    """Eigenvectors of the products of all columns."""
    products = np.zeros((d, d))
    for z in blocks():
        products += z.T @ z
    values, axes = np.linalg.eigh(products)
    kept = values > _RANK * max(float(values[-1]), 1.0)
    return np.ascontiguousarray(axes[:, kept][:, ::-1], dtype=np.float32)


def _find_main_axes(blocks: Any, d: int) -> Coordinates:
    """The axes of most variance, from random directions (Halko, Martinsson & Tropp 2011)."""
    rng = np.random.default_rng(0)
    axes = rng.standard_normal((d, _MOST + _EXTRA)).astype(np.float32)
    for _ in range(1 + _PASSES):
        axes = sum(z.T @ (z @ axes) for z in blocks())
        axes = np.linalg.qr(axes)[0]
    products = sum(part.T @ part for part in (z @ axes for z in blocks()))
    values, turn = np.linalg.eigh(products.astype(np.float64))
    kept = (values > _RANK * max(float(values[-1]), 1.0)) & (np.arange(values.size) >= _EXTRA)
    return np.ascontiguousarray(axes @ turn[:, kept][:, ::-1].astype(np.float32))


class WideTable:
    """All rows of some embeddings, beside the score and few columns; what is made of them is made once."""

    def __init__(self, narrow: Features, parts: Sequence[tuple[Basis, WideColumns]]) -> None:
        self.narrow, self.parts = narrow, tuple(parts)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.narrow.n

    @cached_property
    def coordinates(self) -> Coordinates:
        """Few columns as they are, without the score, and principal coordinates of the wide ones."""
        return np.concatenate([self.narrow.coordinates, *(basis.place(part) for basis, part in self.parts)], axis=1)

    @cached_property
    def near(self) -> Coordinates:
        """The coordinates of most variance: distances are taken in these."""
        kept = np.argsort(-self.coordinates.var(axis=0), kind="stable")[:NEAR]
        return np.ascontiguousarray(self.coordinates[:, np.sort(kept)])

    @cached_property
    def nearest(self) -> NDArray[np.int32]:
        """Rows nearest to each row, (n, NEIGHBOURS)."""
        rows = np.arange(self.n)
        if self.n > _CANDIDATES:
            rows = np.sort(np.random.default_rng(0).choice(self.n, _CANDIDATES, replace=False))
        own = np.full(self.n, -1)
        own[rows] = np.arange(rows.size)
        return rows.astype(np.int32)[find_nearest(self.near[rows], self.near, NEIGHBOURS, own)]

    @cached_property
    def spread_out(self) -> Features:
        """Bins and standardised columns of everything, for learners that look at columns one by one."""
        whole = self.narrow
        for basis, part in self.parts:
            whole = whole.beside(basis.encoder(_as_floats(part)))
        return whole


class WideFeatures(Features):
    """Some rows of embeddings; bins and columns one by one are made when a learner asks for them."""

    def __init__(self, table: WideTable, rows: IntArray | None = None) -> None:
        self.__dict__.update(table=table, rows=np.arange(table.n) if rows is None else rows)

    table: WideTable
    rows: IntArray
