"""One model of a report from sums: its decompositions and what is asked of its cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.simplex import IntArray
from scoreprism._kernels.term_intervals import tail
from scoreprism.inference import TestResult
from scoreprism.losses import ProperLoss
from scoreprism.metrics import MetricTable
from scoreprism.report._cells import Cells, metrics_of, spiegelhalter_of
from scoreprism.report._evidence import from_bound, of_many
from scoreprism.report._fit import overheard
from scoreprism.report._judged import Judged, Matter
from scoreprism.scale import Partial, ScaledDecomposition


@dataclass(frozen=True, eq=False)
class SummedModel(Judged):
    """One model, from sums."""

    name: str  # its name
    decompositions: dict[str, ScaledDecomposition]  # type: ignore[assignment]
    warnings: tuple[str, ...]  # what was warned of on the way
    level: float  # confidence level
    partials: tuple[Partial, ...]  # sums of the same rows, by different columns

    @property
    def partial(self) -> Partial:
        """The sums that the whole comes from."""
        return self.partials[0]

    @cached_property
    def cells(self) -> Cells:
        """The score in cells."""
        return Cells.of(self.partial)

    @property
    def labels(self) -> list[str]:
        """The other class, and the one that scores speak of."""
        event = self.partial.settings.pos_label
        return ["0", "1"] if event is None else ["any other", str(event)]

    @property
    def outcomes(self) -> IntArray:
        """Rows of each class."""
        return np.asarray(np.round(self.cells.rows.sum(axis=1)), dtype=np.intp)

    def infinite_rows(self, loss: str) -> int:
        """Rows that had a score of 0 or 1 and were wrong."""
        rows, never = self.cells.rows, self.cells
        return int(rows[1][never.high[1] == 0.0].sum() + rows[0][never.low[0] == 1.0].sum())

    @cached_property
    def metrics(self) -> MetricTable:
        """Summaries of calibration and discrimination."""
        return metrics_of(self.cells, self.level)

    @cached_property
    def calibration(self) -> TestResult:
        """The test of cells, as for rows that are too many to draw the outcome of each."""
        bound = from_bound(self.main, "reliability", "bound")
        z = spiegelhalter_of(self.cells)
        parts = {"bound": {"statistic": bound.statistic, "pvalue": bound.pvalue}}
        parts["spiegelhalter"] = {"statistic": z, "pvalue": min(2.0 * tail(abs(z)), 1.0)}
        return of_many(parts, self.main, bound.n)


@dataclass(frozen=True, eq=False)
class SummedCase(Matter):
    """What a report from sums is about."""

    models: dict[str, SummedModel]  # each with its decompositions
    losses: dict[str, ProperLoss]  # the first is the one that single-loss sections speak of
    level: float  # confidence level
    seed: int  # seed of drawn folds
    notes: tuple[str, ...] = ()  # what was done to the data, and what was warned of
    warnings: tuple[str, ...] = field(default=())  # what was done to the data, and what was warned of
    telling = "give P(event | features) as a reference"

    @property
    def first(self) -> SummedModel:
        """The model that single-model figures show."""
        return next(iter(self.models.values()))

    @property
    def paired(self) -> bool:
        """Sums of different scores know nothing of each other."""
        return False


def judged_sums(
    name: str, partials: tuple[Partial, ...], losses: dict[str, ProperLoss], level: float, seed: int
) -> SummedModel:
    """Fit the laws of one model to its sums; what is warned of is kept for the reader of the report."""
    rows = {partial.n for partial in partials}
    if len(rows) > 1:
        refuse("partials of one model must be sums of the same rows", f"{sorted(rows)} rows", "Sum them again.")
    with overheard() as said:
        whole = partials[0].pooled()
        found = whole.decompose(loss=list(losses.values()), random_state=seed)
    assert isinstance(found, dict)  # noqa: S101 - losses are a list
    return SummedModel(name, found, tuple(said), level, partials)
