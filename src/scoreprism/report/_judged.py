"""What verdicts and sections ask of a model and of a report's material, whether there are rows or only sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from scoreprism.report._evidence import alpha_of

if TYPE_CHECKING:
    from scoreprism._core.simplex import IntArray
    from scoreprism.decomposition import Decomposition
    from scoreprism.inference import TestResult
    from scoreprism.losses import ProperLoss
    from scoreprism.metrics import MetricTable


class Judged(ABC):
    """A model that can be judged."""

    name: str  # its name
    decompositions: dict[str, Decomposition]  # one per loss
    warnings: tuple[str, ...]  # what was warned of on the way
    level: float  # confidence level

    @property
    def main(self) -> Decomposition:
        """That of the first loss."""
        return next(iter(self.decompositions.values()))

    def basis(self, loss: str) -> Decomposition:
        """What sentences on a loss go by: its decomposition, at a floor where it is infinite."""
        found = self.decompositions[loss]
        return found._stand_in or found

    @property
    @abstractmethod
    def calibration(self) -> TestResult:
        """Is it calibrated?"""

    @property
    @abstractmethod
    def metrics(self) -> MetricTable:
        """Summaries of calibration and discrimination."""

    @property
    def grouping(self) -> TestResult | None:
        """Do features know more than the score? None where that was not tested."""
        return None

    @property
    def clustered(self) -> bool:
        """Whether rows come in clusters."""
        return False

    @property
    @abstractmethod
    def labels(self) -> list[str]:
        """The classes, in words."""

    @property
    @abstractmethod
    def outcomes(self) -> IntArray:
        """Rows of each class, those without weight left out."""

    def infinite_places(self, loss: str) -> str:
        """Which rows those are, in words; empty where that is not known."""
        return ""

    @abstractmethod
    def infinite_rows(self, loss: str) -> int:
        """Rows whose loss is infinite."""

    @property
    def refuted(self) -> bool:
        """Whether the test of calibration rejects."""
        return bool(self.calibration.pvalue <= alpha_of(self.level))

    @property
    def miscalibrated(self) -> bool:
        """Whether miscalibration is shown, by the test or by the bound of its term."""
        main = self.basis(next(iter(self.decompositions)))
        doubted = any(level <= 1 for level, _ in main._doubts) or not np.isfinite(main.risk)
        return self.refuted or (not doubted and main.lower_bound("reliability", self.level).value > 0.0)


class Matter:
    """What a report is about."""

    models: Mapping[str, Judged]  # at least one
    losses: dict[str, ProperLoss]  # the first is the one that single-loss sections speak of
    level: float  # confidence level
    warnings: tuple[str, ...]  # what was warned of while sections were made

    @property
    def first(self) -> Judged:
        """The model that single-model figures show."""
        return next(iter(self.models.values()))

    @property
    def loss(self) -> str:
        """The loss that single-loss sections speak of."""
        return next(iter(self.losses))

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return True

    @property
    def percent(self) -> str:
        """The confidence level in words."""
        return f"{100 * self.level:g} %"

    #: What would tell the model from the data.
    telling = "give features"

    @property
    def paired(self) -> bool:
        """Whether losses of several models are known row by row, so that their difference has an interval."""
        return True
