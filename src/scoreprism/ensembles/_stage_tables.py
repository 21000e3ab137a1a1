"""Amounts with standard errors, and tables with one row per stage, abbreviated in print if long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import FloatArray, IntArray, as_columns, freeze
from scoreprism._document.result import Record, Result, shorten
from scoreprism._document.result_json import encode
from scoreprism._findings.wording import plural, write_percent
from scoreprism._kernels.term_intervals import Moments, quantile
from scoreprism.decomposition import FiniteModel
from scoreprism.losses import ProperLoss


@dataclass(frozen=True, repr=False)
class Amount(Record):
    """
    A number with its standard error and interval.

    Attributes
    ----------
    value, std_error : float
        Estimate and standard error.
    low, high : float
        Ends of the interval.
    confidence_level : float
        Confidence level.

    Examples
    --------
    >>> Amount.of(np.array([0.0, 1.0, 2.0]), None, None, 0.95).value
    1.0
    """

    value: float
    std_error: float
    low: float
    high: float
    confidence_level: float

    @classmethod
    def of(
        cls,
        rows: FloatArray,
        weight: FloatArray | None,
        groups: IntArray | None,
        confidence_level: float,
        *,
        population: bool = False,
    ) -> Amount:
        """
        The mean of rows, with a normal interval.

        Parameters
        ----------
        rows : array of shape (n,)
            One number per row.
        weight : array of shape (n,) or None
            Weights.
        groups : integer array of shape (n,) or None
            Clusters.
        confidence_level : float
            Confidence level.
        population : bool, default=False
            Whether the rows are the whole population.

        Returns
        -------
        Amount
            Mean ± z standard errors, cluster-robust.
        """
        moments = Moments.of(rows[None], np.empty((0, rows.size)), weight, groups, population=population)
        value, error = moments.value({0: 1.0}), moments.std_error({0: 1.0})
        margin = quantile(confidence_level, two_sided=True) * error
        return cls(value, error, value - margin, value + margin, confidence_level)

    def _title(self) -> str:
        return f"Estimate with its {write_percent(self.confidence_level)} interval"


def describe_stages(numbers: NDArray[Any]) -> str:
    """Number and range of the stages, in words."""
    ends = f", {numbers[0]:g} to {numbers[-1]:g}" if numbers.size > 1 else f", number {numbers[0]:g}"
    return plural(numbers.size, "stage") + ends


def make_columns(table: type, lines: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Numbers of each stage as the columns of a table, in the order of its fields after the stage itself."""
    names = [field.name for field in fields(table)][1:]
    return {name: freeze(np.array(column)) for name, column in zip(names, zip(*lines, strict=True), strict=False)}


def decompose_states(
    model: FiniteModel, laws: Sequence[FloatArray], loss: ProperLoss
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Loss, reliability and refinement of every stage, exactly: `laws` are scores of the states of a population."""
    each = [model.decompose(law, {"C": as_columns(law)}, loss) for law in laws]
    reliability, refinement = (np.array([d.terms[name] for d in each]) for name in ("reliability", "refinement"))
    return np.array([d.risk for d in each]), reliability, refinement


class StageColumns(Result):
    """A table with one row per stage: every array of the dataclass is a column."""

    numbers: NDArray[Any]
    _backend: str | None

    def _columns(self) -> dict[str, list[Any]]:
        columns = {key: value.tolist() for key, value in vars(self).items() if isinstance(value, np.ndarray)}
        return {"stage": columns.pop("numbers"), **columns}

    def _lines(self, *names: str) -> dict[str, list[Any]]:
        """Some columns; the middle of a long table is left out."""
        stages = {"stage": [f"{number:g}" for number in self.numbers.tolist()]}
        columns = stages | {name: getattr(self, name).tolist() for name in names}
        return shorten(columns)

    def to_dict(self) -> dict[str, list[Any]]:
        """
        The stages as plain lists.

        Returns
        -------
        dict
            A list per column; numbers that are not finite are strings.
        """
        content: dict[str, list[Any]] = encode(self._columns())
        return content
