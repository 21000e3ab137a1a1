"""Refits under resampled rows, each row in the fold it always had: what a bootstrap of a decomposition needs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from scoreprism.estimation._chain import Problem, calibrated_by, fit_levels
from scoreprism.losses import ProperLoss
from scoreprism.simplex import FloatArray, IntArray


@dataclass(frozen=True)
class Resampler:
    """The terms of a decomposition under counts of its rows; the map that was chosen stays chosen."""

    problem: Problem
    winner: str
    loss: ProperLoss
    form: str
    clip: float | None

    @property
    def units(self) -> IntArray:
        """What is drawn with replacement: the unit of each row."""
        sheet = self.problem.sheet
        return np.arange(sheet.n) if sheet.groups is None else sheet.groups

    def terms(self, counts: FloatArray) -> FloatArray:
        """The terms with every row counted so many times; folds stay as they are (naive folds would leak)."""
        from scoreprism.estimation._decompose import decomposed

        problem = self.problem
        weight = counts if problem.data.weight is None else counts * problem.data.weight
        tested = counts if problem.sheet.weight is None else counts * problem.sheet.weight
        held = np.flatnonzero(weight)
        plan = replace(
            problem.plan,
            trains=tuple(np.intersect1d(train, held, assume_unique=True) for train in problem.plan.trains),
            mixing=tuple((rows[weight[rows] > 0], models[weight[rows] > 0]) for rows, models in problem.plan.mixing),
        )
        again = replace(
            problem,
            data=replace(problem.data, weight=weight),
            sheet=replace(problem.sheet, weight=tested),
            plan=plan,
        )
        learner = next(one for one in problem.maps if one.name == self.winner)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calibrated = calibrated_by(again, learner)
            result = decomposed(again, calibrated, fit_levels(again, calibrated), self.loss, self.form, self.clip)
        return np.array(list(result.terms.values()))
