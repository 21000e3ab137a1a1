"""Refits under resampled rows, each row in the fold it always had: what a bootstrap of a decomposition needs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._fitting.candidates import Problem, fit_levels, recalibrate
from scoreprism.losses import ProperLoss

#: Maps with a smaller share than this in every fold are not fitted again.
_SMALL = 0.005


@dataclass(frozen=True)
class Resampler:
    """A term of a decomposition under counts of its rows; the weights of the maps stay as they were."""

    problem: Problem
    shares: FloatArray
    loss: ProperLoss
    form: str
    clip: float | None

    @property
    def units(self) -> IntArray:
        """What is drawn with replacement: the unit of each row."""
        sheet = self.problem.sheet
        return np.arange(sheet.n) if sheet.groups is None else sheet.groups

    def term(self, index: int, counts: FloatArray) -> float:
        """A term with every row counted so many times, in the fold it always had (folds drawn anew would leak)."""
        from scoreprism._fitting.chain_fit import decomposed

        again = resampled(self.problem, counts)
        used = np.flatnonzero((self.shares >= _SMALL).reshape(-1, self.shares.shape[-1]).any(axis=0)).tolist()
        shares = self.shares[..., used] / self.shares[..., used].sum(axis=-1, keepdims=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            laws = recalibrate(again, shares, used)
            lines = fit_levels(again, laws, index)
            result = decomposed(again, laws, lines, self.loss, self.form, self.clip)
        return float(list(result.terms.values())[index])


def resampled(problem: Problem, counts: FloatArray) -> Problem:
    """The problem with counts for weights; rows that were not drawn are absent, the others stay in their folds."""
    weight = counts if problem.data.weight is None else counts * problem.data.weight
    tested = counts if problem.sheet.weight is None else counts * problem.sheet.weight
    held = np.flatnonzero(weight)
    plan = replace(
        problem.plan,
        trains=tuple(np.intersect1d(train, held, assume_unique=True) for train in problem.plan.trains),
        mixing=tuple((rows[weight[rows] > 0], models[weight[rows] > 0]) for rows, models in problem.plan.mixing),
    )
    data, sheet = replace(problem.data, weight=weight), replace(problem.sheet, weight=tested)
    partitions = problem.partitions
    if partitions is not None:
        partitions = replace(partitions, held=partitions.held[weight[partitions.held] > 0])
    return replace(problem, data=data, sheet=sheet, plan=plan, partitions=partitions)
