"""One model of a report from sums: its decompositions, and what its cells show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.simplex import IntArray
from scoreprism._findings.finding import Finding, collect_findings
from scoreprism._kernels.term_intervals import tail
from scoreprism.curves import ReliabilityCurve
from scoreprism.inference import TestResult
from scoreprism.losses import ProperLoss
from scoreprism.metrics import MetricTable
from scoreprism.report._score_sums import ScoreSums
from scoreprism.report._subject import BaseSubject, run_test_of_many
from scoreprism.scale import ScaledDecomposition, Sums


@dataclass(frozen=True, eq=False)
class SumSubject(BaseSubject):
    """A model of which sums over rows are known."""

    name: str
    decompositions: Mapping[str, ScaledDecomposition]
    findings: tuple[Finding, ...]
    level: float
    parts: tuple[Sums, ...]  # sums of the same rows, by different columns
    #: Of two classes; what features add, groups of rows and single scores are not known.
    k, certain, clustered, grouping, untested = 2, 0, False, None, None

    @property
    def sums(self) -> Sums:
        """The sums that the whole comes from."""
        return self.parts[0]

    @cached_property
    def cells(self) -> ScoreSums:
        """The score in cells."""
        return ScoreSums.of_sums(self.sums)

    @property
    def labels(self) -> list[str]:
        """The other class, and the one that scores are probabilities of."""
        event = self.sums.settings.pos_label
        return ["0", "1"] if event is None else ["any other", str(event)]

    @property
    def origins(self) -> list[Finding]:
        """Where its laws came from."""
        return [one for one in self.main.findings if one.severity in ("provenance", "caution")]

    @property
    def outcomes(self) -> IntArray:
        """Rows of each class."""
        return np.asarray(np.round(self.cells.rows.sum(axis=1)), dtype=np.intp)

    @property
    def n(self) -> int:
        """Rows that were summed."""
        return int(self.sums.n)

    @property
    def tests(self) -> list[TestResult]:
        """The parts of the test, and what they say together."""
        whole = self.calibration
        parts = [
            TestResult(part["statistic"], part["pvalue"], method, whole.hypothesis, whole.n, 0)
            for method, part in whole.components.items()
            if method != whole.method
        ]
        return [*parts, whole if whole.method not in whole.components else replace(whole, statistic=math.nan)]

    @cached_property
    def reliability(self) -> ReliabilityCurve:
        """Event rate by score in bins, each with its interval."""
        return self.cells.curve(self.level, self.name)

    @cached_property
    def metrics(self) -> MetricTable:
        """Summaries of calibration and discrimination."""
        return self.cells.metrics(self.level)

    @cached_property
    def calibration(self) -> TestResult:
        """The test of cells, as for rows that are too many to draw the outcome of each."""
        z = self.cells.spiegelhalter()
        return run_test_of_many(self.main, z, min(2.0 * tail(abs(z)), 1.0))


def fit_sums(name: str, parts: tuple[Sums, ...], losses: dict[str, ProperLoss], level: float, seed: int) -> SumSubject:
    """Fit the laws of one model to its sums; warnings are kept for the reader of the report."""
    rows = {sums.n for sums in parts}
    if len(rows) > 1:
        refuse("sums of one model must be of the same rows", f"{sorted(rows)} rows", "Sum them again.")
    with collect_findings() as warned:
        whole = parts[0].pool()
        first, *others = losses.items()
        main: Any = whole.decompose(first[1], random_state=seed)
        found = {first[0]: main} | {name: main.chain.decompose(loss) for name, loss in others}
    return SumSubject(name, found, tuple(warned), level, parts)
