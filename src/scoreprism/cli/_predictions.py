"""Predictions as they were read from a file: parsed columns, and what a report must say of the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scoreprism.report import Origin

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Predictions:
    """Columns of a file in their roles."""

    table: pl.DataFrame  # every column as it was read, rows with missing values dropped where that was asked for
    origin: Origin  # name and hash of the file, rows, columns used
    notes: tuple[str, ...] = ()  # what was done to it: rows dropped, columns chosen, what was taken for what
    doubts: tuple[str, ...] = ()  # what speaks against the file being complete; these are among the notes
    y: NDArray[Any] | None = None  # (n,): outcomes: integers, booleans or strings
    # (n,): probabilities of each model; columns of a frame are named after the classes
    scores: dict[str, Any] = field(default_factory=dict)
    # features: numbers where all values are numbers, text elsewhere; missing values are null
    X: pl.DataFrame | None = None
    reference: NDArray[Any] | None = None  # (n,): P(Y=1 | X), P(Y=1 | Z) and weights, where the file has them
    latent: NDArray[Any] | None = None  # (n,): P(Y=1 | X), P(Y=1 | Z) and weights, where the file has them
    weight: NDArray[Any] | None = None  # (n,): P(Y=1 | X), P(Y=1 | Z) and weights, where the file has them
    segments: dict[str, NDArray[Any]] = field(default_factory=dict)  # grouping columns
    time: NDArray[Any] | None = None  # (n,): datetime64, or labels of periods (integers or strings) that are in order
    cluster: NDArray[Any] | None = None  # what rows have in common that are not independent
    # the label that scores of one column speak of; None where the library knows (0/1, booleans)
    pos_label: object = None
