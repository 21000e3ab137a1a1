"""Cells of the score: a grid that every engine computes with the same five operations, to the last bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scoreprism._core.checks import parse_count
from scoreprism._core.simplex import FloatArray, IntArray

if TYPE_CHECKING:
    import narwhals as nw

#: Cells unless said otherwise; what that costs is measured in docs/scale.md.
CELLS = 1024
#: More cells than this are no summary any more.
MOST_CELLS = 1 << 20


def parse_cells(cells: object) -> int:
    """Number of cells between 0 and 1."""
    from scoreprism._core.checks import refuse

    count = parse_count(cells, "cells", 8)
    if count > MOST_CELLS:
        refuse(
            f"`cells` must be at most {MOST_CELLS:,}", f"{count:,}", f"The default, {CELLS}, is enough for most data."
        )
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
    """The cell of each score: 0 is s = 0 alone, cells + 1 is s = 1 alone, the others share what lies between."""
    low = score < 0.5
    steps = np.ceil(np.sqrt(2.0 * np.where(low, score, 1.0 - score)) * (cells / 2)).astype(np.intp)
    return np.where(low, steps, cells + 1 - steps)


def with_root(frame: nw.LazyFrame[Any], score: str) -> nw.LazyFrame[Any]:
    """The frame with the column ``root``; step by step, because some engines evaluate what is repeated again."""
    import narwhals as nw

    s = nw.col(score)
    near = frame.with_columns(root=nw.when(s < 0.5).then(s).otherwise(1.0 - s) * 2.0)
    return near.with_columns(root=nw.col("root").sqrt())


def parts_expression(score: nw.Expr, parts: float) -> nw.Expr:
    """`position` in so many parts per unit, whole, of a frame `with_root`."""
    import narwhals as nw

    root = nw.col("root")
    return (nw.when(score < 0.5).then(root).otherwise(2.0 - root) * parts).floor()


def cell_expression(score: nw.Expr, cells: int) -> nw.Expr:
    """`cell_of` in an engine, of a frame `with_root`; whole, but not an integer yet."""
    import narwhals as nw

    below = (nw.col("root") * (-cells / 2)).floor()  # minus the steps, rounded up
    return nw.when(score < 0.5).then(0.0 - below).otherwise(below + (cells + 1.0))


def edges(cells: int) -> FloatArray:
    """Where the cells between 0 and 1 begin and end, up to rounding."""
    root = np.arange(cells + 1) * (2.0 / cells)
    half = np.where(root <= 1.0, root, 2.0 - root) ** 2 / 2.0
    return np.where(root <= 1.0, half, 1.0 - half)
