"""From parsed rows to the laws of a chain: Ĉ by the best of several maps, then level by level what features add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.base import clone

from scoreprism.calibrators._data import Data
from scoreprism.crossfit import REFITS, CrossFit, FittedLaw, run_all, split_blocks
from scoreprism.decomposition._rows import Sheet, spread
from scoreprism.estimation._learners import CELL_ROWS, Cells, MapLearner, OwnMap, fit_foreign
from scoreprism.estimation._tables import Table
from scoreprism.intervals import Alternative, Moments
from scoreprism.losses import ProperLoss
from scoreprism.references._features import Features
from scoreprism.references._members import Task, mixed, mixing_weights
from scoreprism.references._stack import foreign_law, hit_rows
from scoreprism.simplex import FloatArray, IntArray, as_matrix, clip_law


@dataclass(frozen=True)
class Given:
    """A level whose law was given."""

    name: str
    law: FloatArray
    folds: FloatArray | None = None


@dataclass(frozen=True)
class Block:
    """A level to be fitted: everything known at it, the score and all coarser blocks included."""

    name: str
    known: Features | Table  # encoded for our own learners, in its container for classifiers of other makers


@dataclass(frozen=True)
class Problem:
    """Everything `decompose` fits, parsed."""

    sheet: Sheet
    data: Data
    plan: CrossFit
    maps: Sequence[MapLearner]
    reference: Any
    levels: Sequence[Given | Block]
    calibration: Data | None
    seed: int
    n_jobs: int | None
    notes: tuple[str, ...] = ()

    @cached_property
    def cells(self) -> Cells | None:
        """Cells of the score, where rows are many."""
        many = self.data.k == 2 and self.data.codes.shape[0] > CELL_ROWS
        return Cells.of(self.data.score) if many else None


@dataclass(frozen=True)
class Calibrated:
    """The laws of one candidate map: of every model on every row, and gathered."""

    name: str
    models: FloatArray
    fitted: FittedLaw


def judged(sheet: Sheet, candidate: Calibrated, loss: ProperLoss) -> Alternative:
    """Loss difference, spread and standard error of the reliability that a candidate map gives."""
    score = sheet.laws[0]
    law = candidate.fitted.law if score.ndim == candidate.fitted.law.ndim else as_matrix(candidate.fitted.law)
    lines = np.stack([loss.loss(score, sheet.y), loss.loss(law, sheet.y)])
    moments = Moments.of(lines, np.empty((0, sheet.n)), sheet.weight, sheet.groups)
    some = slice(None, None, max(1, sheet.n // CELL_ROWS))  # a mean over many rows does not need all of them
    v = spread(loss, candidate.fitted.folds[:, some], candidate.fitted.factor)
    return Alternative(
        candidate.name,
        loss=moments.value({1: 1.0}),
        difference=moments.value({0: 1.0}),
        spread=float(np.average(v, weights=None if sheet.weight is None else sheet.weight[some])),
        std_error=moments.std_error({0: 1.0}),
    )


@dataclass(frozen=True)
class Choice:
    """The map chosen for a loss, with its laws; and what every candidate says of the reliability."""

    winner: Calibrated
    alternatives: tuple[Alternative, ...]


def calibrate(problem: Problem, losses: dict[str, ProperLoss]) -> dict[str, Choice]:
    """Fit every candidate map; for each loss the one with the smallest loss out of sample is chosen."""
    preferred = None if problem.calibration is None else _preferred(problem, problem.calibration, losses)
    winners: dict[str, Calibrated] = {}
    found: dict[str, list[Alternative]] = {name: [] for name in losses}
    for learner in problem.maps:
        candidate = calibrated_by(problem, learner)
        for name, loss in losses.items():
            alternative = judged(problem.sheet, candidate, loss)
            best = min((other.loss for other in found[name]), default=np.inf)
            if learner.name == preferred[name] if preferred else alternative.loss < best:
                winners[name] = candidate
            found[name].append(alternative)
    return {name: Choice(winners[name], tuple(found[name])) for name in losses}


def calibrated_by(problem: Problem, learner: MapLearner) -> Calibrated:
    """The laws of one candidate map: cross-fitted, or fitted on the calibration split."""
    data, rows = problem.data, problem.calibration
    if rows is None:
        shared = learner.shared(data)
        cells = problem.cells if isinstance(learner, OwnMap) else None
        part = data.part if cells is None else partial(cells.pooled, data)
        laws = np.empty((len(problem.plan.trains), *data.score.shape))
        for model, train in enumerate(problem.plan.trains):
            laws[model] = shared.fitted(part(train))(data.score)
        return Calibrated(learner.name, laws, problem.plan.gather(laws))
    shared = learner.shared(rows)
    refits = [shared.fitted(rows.part(kept))(data.score) for kept in split_blocks(rows, problem.seed)]
    law = shared.fitted(rows)(data.score)
    models = np.broadcast_to(law, (len(problem.plan.trains), *law.shape))  # every model above starts from it
    return Calibrated(learner.name, models, FittedLaw(law, np.stack(refits), (REFITS - 1) / REFITS))


def _preferred(problem: Problem, rows: Data, losses: dict[str, ProperLoss]) -> dict[str, str]:
    """For a calibration split the map is chosen by cross-validation within it: the rows at hand have no say."""
    everyone = np.arange(rows.codes.shape[0])
    means: dict[str, dict[str, float]] = {name: {} for name in losses}
    for learner in problem.maps if len(problem.maps) > 1 else ():
        shared, law = learner.shared(rows), np.empty(rows.score.shape)
        for train in split_blocks(rows, problem.seed):
            test = np.setdiff1d(everyone, train)
            law[test] = shared.fitted(rows.part(train))(rows.score[test])
        for name, loss in losses.items():
            means[name][learner.name] = float(np.average(loss.loss(law, rows.codes), weights=rows.weight))
    first = problem.maps[0].name
    return {name: min(found, key=found.__getitem__) if found else first for name, found in means.items()}


def fit_levels(problem: Problem, calibrated: Calibrated) -> list[tuple[str, FloatArray, FittedLaw | None]]:
    """The laws above Ĉ, coarse to fine; each model starts from its own law of the level before."""
    base = calibrated.models
    fitted: list[tuple[str, FloatArray, FittedLaw | None]] = []
    for number, level in enumerate(problem.levels):
        if isinstance(level, Given):
            law = level.law if problem.data.k > 2 or level.law.ndim == 1 else level.law[:, 1]
            base = np.broadcast_to(law, (len(problem.plan.trains), *law.shape))
            given = None if level.folds is None else FittedLaw(level.law, level.folds)
            fitted.append((level.name, level.law, given))
            continue
        if isinstance(level.known, Features):
            base = _stacked(problem, level.name, level.known, base, number)
        else:
            base = _foreign(problem, level.name, level.known, number)
        gathered = problem.plan.gather(base)
        fitted.append((level.name, gathered.law, gathered))
    return fitted


def _stacked(problem: Problem, level: str, features: Features, base: FloatArray, number: int) -> FloatArray:
    """Members fitted by every model, then mixed by what they say out of sample of the rows the model may see."""
    data, plan = problem.data, problem.plan

    def fit(model: int) -> FloatArray:
        rows = plan.trains[model]
        weight = None if data.weight is None else data.weight[rows]
        task = Task(features.part(rows), base[model][rows], data.codes[rows], weight, data.k)
        rng = np.random.default_rng([problem.seed, number, model])
        return np.stack(problem.reference.fit_members(task, rng)(features, base[model]))

    laws = list(run_all(fit, range(len(plan.trains)), problem.n_jobs, f"level {level}"))
    hits = np.stack([hit_rows(list(members), data.codes) for members in laws])
    out = np.empty(base.shape)
    for model, (rows, models) in enumerate(plan.mixing):
        weight = None if data.weight is None else data.weight[rows]
        share = mixing_weights(hits[models, :, rows].T, weight)
        out[model] = floored(mixed(laws[model], share), data, plan.trains[model])
    return out


def floored(law: FloatArray, data: Data, train: IntArray) -> FloatArray:
    """A fitted law stays 1/(2n)² away from 0 and 1: it mixes laws that are already shrunken."""
    total = float(train.size if data.weight is None else data.weight[train].sum())
    return clip_law(law, min((0.5 / max(total, 1.0)) ** 2, 1.0 / data.k))


def _foreign(problem: Problem, level: str, table: Table, number: int) -> FloatArray:
    """A classifier of another maker, fitted by every model on the score and the features."""
    data, plan = problem.data, problem.plan

    def fit(model: int) -> FloatArray:
        rows = plan.trains[model]
        weight = None if data.weight is None else data.weight[rows]
        estimator = clone(problem.reference)
        if "random_state" in estimator.get_params() and estimator.get_params()["random_state"] is None:
            estimator.set_params(random_state=int(np.random.default_rng([problem.seed, number, model]).integers(2**31)))
        fitted = fit_foreign(estimator, table.rows(rows), data.codes[rows], weight)
        return foreign_law(fitted, table.all(), data.k, rows.size)

    return np.stack(list(run_all(fit, range(len(plan.trains)), problem.n_jobs, f"level {level}")))
