"""Recalibration of many stages by one map: its cross-fitted losses, stage by stage, in the same folds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_random_state, refuse
from scoreprism._core.simplex import FloatArray, IntArray, clip_law
from scoreprism._fitting.chain_fit import fitting_weights
from scoreprism._fitting.crossfit import make_crossfit
from scoreprism._fitting.learners import MapLearner, OwnMap, parse_calibrator
from scoreprism._sample.fit_rows import Data
from scoreprism.calibrators import OneVsRestCalibrator, SelectedCalibrator, get_calibrator
from scoreprism.calibrators._base import Calibrator
from scoreprism.decomposition._rows import mean_loss
from scoreprism.ensembles._stage_inputs import Path
from scoreprism.losses import ProperLoss

#: The map that is fast enough for every round of a booster: two parameters for two classes, one for more.
FAST = {True: "platt", False: "temperature"}


def parse_map(calibrator: object, k: int) -> MapLearner:
    """One map for all stages."""
    if isinstance(calibrator, str) and calibrator == "fast":
        calibrator = FAST[k == 2]
    if isinstance(calibrator, str) and calibrator in ("auto", "selected"):
        calibrator = SelectedCalibrator()
    if isinstance(calibrator, (str, Calibrator)):
        made = get_calibrator(calibrator)
        made = made if k == 2 or made.multiclass else OneVsRestCalibrator(made)
        if isinstance(made, SelectedCalibrator):  # one map that chooses inside, not several to be mixed
            return OwnMap(made.name, made.set_params(kind="probability"))
        calibrator = made
    return parse_calibrator(calibrator, k)[0]


@dataclass(frozen=True)
class Folds:
    """The rows of some stages in folds: which fold each row is in, and what maps are fitted with."""

    codes: IntArray
    fold: IntArray
    weight: FloatArray | None
    fitting: FloatArray | None
    groups: IntArray | None
    k: int

    @property
    def count(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1

    @staticmethod
    def of(path: Path, cv: object, random_state: object, *, blind: bool = False) -> Folds:
        """
        Folds that every row is in once: nested choices need the others of each.

        Rows are dealt in an order that goes by the first score. Where several calls, each with a score of its own, are
        to have the same folds, `blind` leaves the score out: then rows that are alike otherwise go by their place.
        """
        weight = path.sheet.weight
        law = np.full(path.laws[0].shape, 1.0 / path.k) if blind else path.laws[0]
        data = Data(law, path.codes, fitting_weights(weight), path.k, "probability")
        if np.unique(path.codes if weight is None else path.codes[weight > 0]).size < 2:
            refuse("`y_true` must hold at least two classes", "one", "Pass rows in which each class occurs.")
        seed = int(parse_random_state(random_state).integers(2**62))
        plan = make_crossfit(cv, data, path.sheet.groups, seed)
        if plan.factor != 1.0 or not plan.whole:
            refuse("`cv` must put every row into one fold", "other splits", "Pass a number of folds, or KFold.")
        return Folds(path.codes, plan.home, weight, data.weight, path.sheet.groups, path.k)

    def data(self, score: FloatArray) -> Data:
        """What a map of this score is fitted on."""
        return Data(score, self.codes, self.fitting, self.k, "probability")

    def law(self, score: FloatArray, learner: MapLearner) -> FloatArray:
        """The score recalibrated by maps that did not see the row."""
        data = self.data(score)
        shared, law = learner.shared(data), np.empty(score.shape)
        for f in range(self.count):
            test = np.flatnonzero(self.fold == f)
            law[test] = shared.fitted(data.part(self._rows(self.fold != f)))(score[test])
        return law

    def nested(self, score: FloatArray, learner: MapLearner, loss: ProperLoss) -> FloatArray:
        """
        Losses for choices that must not see a fold: line f holds, for the rows of every other fold j, the loss of
        a map that saw neither f nor j; NaN in fold f itself. A map without f and j serves both lines.
        """
        if self.count < 3:
            refuse(
                "`cv` must have at least 3 folds, for choices are nested in them",
                f"{self.count}",
                "For example `cv`=5.",
            )
        data = self.data(score)
        shared = learner.shared(data)
        lines = np.full((self.count, score.shape[0]), np.nan)
        for f in range(self.count):
            for j in range(f):
                rows = self._rows((self.fold != f) & (self.fold != j))
                two = np.unique(self.codes[rows]).size > 1
                fitted = shared.fitted(data.part(rows)) if two else _as_it_is(data.distance)
                for line, tested in ((f, j), (j, f)):
                    rows = np.flatnonzero(self.fold == tested)
                    lines[line, rows] = loss.loss(fitted(score[rows]), self.codes[rows])
        return lines

    def _rows(self, mask: Any) -> IntArray:
        """Rows that a map is fitted on: those with weight."""
        return np.flatnonzero(mask if self.weight is None else mask & (self.weight > 0))

    def mean(self, rows: FloatArray, mask: Any = None) -> float:
        """The (weighted) mean of some rows."""
        if mask is None:
            return mean_loss(rows, self.weight)
        return mean_loss(rows[mask], None if self.weight is None else self.weight[mask])


def _as_it_is(distance: float) -> Any:
    """No map, where two folds less leave one class only: the score, off the boundary."""
    return lambda score: clip_law(score, distance)
