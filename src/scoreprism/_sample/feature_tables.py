"""Features in the container they came in, with the score beside them: what a classifier of another maker is fed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import refuse
from scoreprism._core.frames import backend_of, column_names
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray

#: How the columns of the score are called in a frame.
SCORE_COLUMN = "scoreprism_score"


@dataclass(frozen=True)
class Table:
    """A native frame (wrapped by narwhals) or a numeric array, whose last columns are the score."""

    frame: Any

    def all(self) -> Any:
        """Every row, in the library it came in."""
        return self.frame if isinstance(self.frame, np.ndarray) else self.frame.to_native()

    def rows(self, rows: IntArray) -> Any:
        """Some rows."""
        return self.frame[rows] if isinstance(self.frame, np.ndarray) else self.frame[rows.tolist(), :].to_native()


def joined(blocks: Sequence[ArrayLike], parsed: Sequence[list[NDArray[Any]]], score: FloatArray) -> Table:
    """
    Blocks side by side, and the score.

    Frames of one library stay frames (a column that an earlier block already has is left out); anything else
    becomes an array, which must be numeric.
    """
    backends = {backend_of(block) for block in blocks}
    if len(backends) == 1 and None not in backends and all(hasattr(block, "columns") for block in blocks):
        return Table(_side_by_side(blocks, score))
    for columns in parsed:
        for j, column in enumerate(columns):
            if column.dtype.kind != "f":
                refuse(
                    "features for a classifier of another maker must be numbers, or a frame that it can read",
                    f"text in column {j}",
                    "Pass a frame and a pipeline that encodes it, or `reference`='auto', which takes categories.",
                )
    features = [column for columns in parsed for column in columns]
    return Table(np.column_stack([*features, score]))


def _side_by_side(blocks: Sequence[ArrayLike], score: FloatArray) -> Any:
    import narwhals as nw

    for block in blocks:
        names = column_names(block) or ()
        if len(set(names)) < len(names):
            refuse("columns of `X` must have different names", "a repeated one", "Rename them.")
    whole: Any = nw.from_native(blocks[0], eager_only=True)
    for block in blocks[1:]:
        more: Any = nw.from_native(block, eager_only=True)
        for name in more.columns:
            if name not in whole.columns:
                whole = whole.with_columns(more[name])
            elif not (whole[name].to_numpy() == more[name].to_numpy()).all():
                refuse(
                    "columns of the same name must be the same in all levels",
                    f"different values under {name!r}",
                    "Rename one of them.",
                )
    columns = score[:, None] if score.ndim == 1 else score
    for j, column in enumerate(columns.T):
        name = SCORE_COLUMN if columns.shape[1] == 1 else f"{SCORE_COLUMN}_{j}"
        series = nw.new_series(name, column.copy(), backend=whole.implementation)
        whole = whole.with_columns(series)
    return whole
