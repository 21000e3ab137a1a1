"""Cells of the score: a grid that every engine computes with the same five operations, to the last bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scoreprism._validation import parse_count
from scoreprism.simplex import FloatArray, IntArray

if TYPE_CHECKING:
    import narwhals as nw

#: Cells unless said otherwise; what that costs is measured in docs/scale.md.
CELLS = 1024
#: More cells than this are no summary any more.
MOST_CELLS = 1 << 20


def parse_cells(cells: object) -> int:
    """Number of cells between 0 and 1."""
    from scoreprism._validation import refuse

    count = parse_count(cells, "cells", 8)
    if count > MOST_CELLS:
        refuse(f"cells must be at most {MOST_CELLS:,}", f"{count:,}", f"The default, {CELLS}, is enough for most data.")
    return count


def position(score: FloatArray) -> FloatArray:
    """
    Where a score stands, from 0 to 2: √(2s) up to one half, and mirrored above it.

    Equal steps of it cost nearly the same log loss everywhere, as those of arcsin √s would; but a square root is
    rounded correctly by every machine, so that all engines put a row into the same cell.
    """
    low = score < 0.5
    root = np.sqrt(2.0 * np.where(low, score, 1.0 - score))
    return np.where(low, root, 2.0 - root)


def cell_of(score: FloatArray, cells: int) -> IntArray:
    """
    The cell of each score: 0 is s = 0 alone, cells + 1 is s = 1 alone, the others share what lies between.

    Examples
    --------
    >>> cell_of(np.array([0.0, 1e-300, 0.5, 1 - 2**-53, 1.0]), 8)
    array([0, 1, 5, 8, 9])
    """
    cell = 1 + np.floor(position(score) * (cells / 2)).astype(np.intp)
    return np.where(score <= 0.0, 0, cell)


def position_expression(score: nw.Expr) -> nw.Expr:
    """`position` in an engine, of scores from 0 to 1."""
    import narwhals as nw

    low = score < 0.5
    root = (nw.when(low).then(score).otherwise(1.0 - score) * 2.0).sqrt()
    return nw.when(low).then(root).otherwise(2.0 - root)


def cell_expression(score: nw.Expr, cells: int) -> nw.Expr:
    """`cell_of` in an engine; floor comes before the cast, because DuckDB rounds when it casts."""
    import narwhals as nw

    cell = (position_expression(score) * (cells / 2)).floor().cast(nw.Int64) + 1
    return nw.when(score <= 0.0).then(nw.lit(0, nw.Int64)).otherwise(cell)


def edges(cells: int) -> FloatArray:
    """
    Where the cells between 0 and 1 begin and end, up to rounding.

    Examples
    --------
    >>> edges(8).round(3)
    array([0.   , 0.031, 0.125, 0.281, 0.5  , 0.719, 0.875, 0.969, 1.   ])
    """
    root = np.arange(cells + 1) * (2.0 / cells)
    half = np.where(root <= 1.0, root, 2.0 - root) ** 2 / 2.0
    return np.where(root <= 1.0, half, 1.0 - half)
