"""Maps that were fitted to sums, at scores other than those they were fitted to."""

from __future__ import annotations

from functools import partial

import numpy as np

from scoreprism.estimation._chain import Calibrated, blended
from scoreprism.estimation._decompose import Laws
from scoreprism.estimation._learners import MapLearner
from scoreprism.simplex import FloatArray, IntArray

#: A map that weighs less than this in every mixture is not fitted again.
_NOTHING = 1e-6


def calibrated_at(laws: Laws, score: FloatArray, fold: IntArray | None = None) -> Calibrated:
    """The law C of fitted maps at other scores: of every fold model, and of the one without the fold of each row."""
    problem, choice = laws.problem, laws.choice
    home = np.zeros(score.size, dtype=np.intp) if fold is None else fold
    elsewhere = _replaced(laws, home)
    found = []
    for index, learner in enumerate(problem.maps):
        used = len(problem.maps) == 1 or bool((choice.shares[:, index] > _NOTHING).any())
        models = _models(laws, learner, score) if used else np.zeros((len(problem.plan.trains), score.size))
        found.append(Calibrated(learner.name, models, elsewhere.problem.plan.gather(models)))
    return blended(elsewhere.problem, found, choice.shares)


def _replaced(laws: Laws, home: IntArray) -> Laws:
    """The same laws where rows have other folds."""
    from dataclasses import replace

    problem = laws.problem
    return laws._replace(problem=replace(problem, plan=replace(problem.plan, home=home)))


def _models(laws: Laws, learner: MapLearner, score: FloatArray) -> FloatArray:
    """What the model of each fold says at some scores."""
    problem = laws.problem
    assert problem.cells is not None  # noqa: S101 - sums have cells
    shared, part = learner.shared(problem.data), partial(problem.cells.pooled, problem.data)
    return np.stack([shared.fitted(part(train))(score) for train in problem.plan.trains])
