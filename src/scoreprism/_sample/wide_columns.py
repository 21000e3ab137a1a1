"""A numeric table of many columns, kept as the array it came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import IntArray

#: Numeric tables of more columns are embeddings: their columns are one array, and mean little one by one.
WIDE = 100


@dataclass(frozen=True, eq=False)
class WideColumns(Sequence[NDArray[Any]]):
    """Columns that are views of one array of floats."""

    array: NDArray[Any]  # (n, d), float32 or float64; NaN is missing

    def __len__(self) -> int:
        return int(self.array.shape[1])

    @overload
    def __getitem__(self, index: int) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[NDArray[Any]]: ...
    def __getitem__(self, index: int | slice) -> NDArray[Any] | list[NDArray[Any]]:
        if isinstance(index, slice):
            return list(self.array.T[index])
        column: NDArray[Any] = self.array.T[index]
        return column

    def take(self, rows: IntArray) -> WideColumns:
        """The same on some of the rows."""
        return WideColumns(self.array[rows])

    @staticmethod
    def of(columns: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        """Many columns of numbers as one array; few, and those with text, as they are."""
        if len(columns) <= WIDE or any(column.dtype.kind != "f" or column.ndim != 1 for column in columns):
            return columns
        return WideColumns(np.column_stack(list(columns)))

    @staticmethod
    def of_array(array: NDArray[Any]) -> WideColumns | None:
        """An array of many columns of numbers, of float32 or float64 as it lies; None for any other."""
        if array.ndim != 2 or array.shape[1] <= WIDE or array.dtype.kind not in "fiub":
            return None
        if array.dtype in (np.float32, np.float64):
            return WideColumns(array)
        return WideColumns(array.astype(np.float32 if array.dtype.itemsize <= 2 else np.float64))
