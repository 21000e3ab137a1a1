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
    """
    Columns of a file in their roles.

    Attributes
    ----------
    table : polars.DataFrame
        Every column as it was read, rows with missing values dropped where that was asked for.
    origin : Origin
        Name and hash of the file, rows, columns used.
    notes : tuple of str
        What was done to it: rows dropped, columns chosen, what was taken for what.
    doubts : tuple of str
        What speaks against the file being complete; these are among the notes.
    y : array of shape (n,) or None
        Outcomes: integers, booleans or strings.
    scores : dict of str to array of shape (n,) or polars.DataFrame of shape (n, K)
        Probabilities of each model; columns of a frame are named after the classes.
    X : polars.DataFrame or None
        Features: numbers where all values are numbers, text elsewhere; missing values are null.
    reference, latent, weight : array of shape (n,) or None
        P(Y=1 | X), P(Y=1 | Z) and weights, where the file has them.
    segments : dict of str to array of str
        Grouping columns.
    time : array of shape (n,) or None
        datetime64, or labels of periods (integers or strings) that are in order.
    cluster : array of str or None
        What rows have in common that are not independent.
    pos_label : object
        The label that scores of one column speak of; None where the library knows (0/1, booleans).
    """

    table: pl.DataFrame
    origin: Origin
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    y: NDArray[Any] | None = None
    scores: dict[str, Any] = field(default_factory=dict)
    X: pl.DataFrame | None = None
    reference: NDArray[Any] | None = None
    latent: NDArray[Any] | None = None
    weight: NDArray[Any] | None = None
    segments: dict[str, NDArray[Any]] = field(default_factory=dict)
    time: NDArray[Any] | None = None
    cluster: NDArray[Any] | None = None
    pos_label: object = None
