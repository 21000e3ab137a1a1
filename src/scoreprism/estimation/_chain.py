"""From parsed rows to the laws of a chain: Ĉ mixed from several maps, then level by level what features add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._workers import run_all
from scoreprism.calibrators._data import Data
from scoreprism.crossfit import REFITS, CrossFit, FittedLaw, split_blocks
from scoreprism.decomposition._result import Kept
from scoreprism.decomposition._rows import Sheet, floor_of, has_infinite, spread
from scoreprism.estimation._learners import CELL_ROWS, Cells, MapLearner, OwnMap, fit_foreign
from scoreprism.estimation._tables import Table
from scoreprism.intervals import Alternative
from scoreprism.losses import ProperLoss, get_loss
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
    reference: Any = None  # a stack of its own for this level, where the one of the problem is not meant


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
    doubts: tuple[str, ...] = ()  # those of the notes that forbid to act on any term
    calibration_groups: IntArray | None = None  # clusters of the calibration split, which share a block
    pooling: Cells | None = None  # where lines are sums: the cells they belong to

    @property
    def blocks(self) -> list[IntArray]:
        """Rows of the calibration split that each of its delete-block refits keeps."""
        assert self.calibration is not None  # noqa: S101 - only asked of a split
        return split_blocks(self.calibration, self.seed, self.calibration_groups)

    @cached_property
    def cells(self) -> Cells | None:
        """Cells of the score, where rows are many."""
        if self.pooling is not None:
            return self.pooling
        many = self.data.k == 2 and self.data.codes.shape[0] > CELL_ROWS
        return Cells.of(self.data.score) if many else None


@dataclass(frozen=True)
class Calibrated:
    """The laws of one candidate map: of every model on every row, and gathered; on a split's own rows out of block."""

    name: str
    models: FloatArray
    fitted: FittedLaw
    own: FloatArray | None = None


def judged(sheet: Sheet, candidate: Calibrated, loss: ProperLoss, clip: float | None) -> Alternative:
    """Loss difference, spread and standard error of the reliability that a candidate map gives."""
    score = sheet.laws[0]
    law = candidate.fitted.law if score.ndim == candidate.fitted.law.ndim else as_matrix(candidate.fitted.law)
    some = _sample(sheet)
    folds = candidate.fitted.folds[:, some]
    if clip is not None:
        folds = np.stack([clip_law(f, clip) for f in folds])
    pair = replace(sheet, laws=[score, law], folds=[None, None], factors=()).clipped(clip)
    names = ("S", "C")
    moments = pair.moments(Kept(pair.evaluated(loss, names).losses, np.empty((0, sheet.n))), loss, names)
    v = spread(loss, folds, candidate.fitted.factor)
    return Alternative(
        candidate.name,
        loss=moments.value({1: 1.0}),
        difference=moments.value({0: 1.0}),
        spread=float(np.average(v, weights=None if sheet.weight is None else sheet.weight[some])),
        std_error=moments.std_error({0: 1.0}),
    )


def _sample(sheet: Sheet) -> IntArray | slice:
    """Rows that the mean of a spread is taken over: it does not need a million of them."""
    if sheet.n <= 2 * CELL_ROWS or sheet.summed:
        return slice(None)
    held = np.arange(sheet.n) if sheet.weight is None else np.flatnonzero(sheet.weight)
    return np.random.default_rng(0).choice(held, min(CELL_ROWS, held.size), replace=False)


#: A law whose spread over the folds is more than this share of its loss has learned noise.
OVERFIT = 0.05
#: How far the weights of the folds count as noise: the jackknife overstates the variance of a choice by about two.
_DAMPED = 0.5**0.5


@dataclass(frozen=True)
class Choice:
    """The law C, a mixture of candidate maps; and what each candidate alone says of the reliability, by loss."""

    winner: Calibrated
    shares: FloatArray  # (models, candidates); one line for a calibration split
    alternatives: dict[str, tuple[Alternative, ...]]
    floors: Mapping[str, float] = field(default_factory=dict)  # of infinite losses, and of those compared with them
    floored: dict[str, tuple[Alternative, ...]] = field(default_factory=dict)  # candidates at the floor

    @property
    def described(self) -> str:
        """The maps that matter and their shares."""
        names = self.winner.name.split(", ")
        mean = self.shares.mean(axis=0)
        main = sorted(zip(mean, names, strict=True), key=lambda pair: -pair[0])
        return ", ".join(f"{name} {100 * share:.0f} %" for share, name in main if share >= 0.005)


def find_floors(sheets: Sequence[Sheet], losses: Mapping[str, ProperLoss], clip: float | None) -> dict[str, float]:
    """
    How far scores are kept from 0 and 1, beside what was asked for, by each loss that is infinite.

    Parameters
    ----------
    sheets : sequence of Sheet
        Predictions: of several models on the same rows, or of parts of the rows. One floor serves all.
    losses : mapping of str to ProperLoss
        By name.
    clip : float or None
        A distance that was asked for: nothing else is shown then.

    Returns
    -------
    dict of str to float
        Loss → 1/(2n), n the rows of the sheet that has most.
    """
    if clip is not None or not sheets:
        return {}
    floor = min(floor_of(sheet) for sheet in sheets)
    return {name: floor for name, loss in losses.items() if any(has_infinite(sheet, loss) for sheet in sheets)}


def calibrate(
    problem: Problem,
    losses: dict[str, ProperLoss],
    clip: float | None = None,
    floors: Mapping[str, float] | None = None,
) -> Choice:
    """
    Fit every candidate map, and mix them by their likelihood out of sample.

    The maps of a fold are weighted by exp(log-likelihood) of what they say of the *other* folds, so that no row helps
    to choose its own map: taking the best one instead would flatter it. A map that has learned noise is left out.
    """
    candidates = [calibrated_by(problem, learner) for learner in problem.maps]
    floors = find_floors([problem.sheet], losses, clip) if floors is None else floors
    alternatives = {
        name: tuple(judged(problem.sheet, candidate, loss, clip) for candidate in candidates)
        for name, loss in losses.items()
    }
    floored = {
        name: tuple(judged(problem.sheet, candidate, losses[name], floor) for candidate in candidates)
        for name, floor in floors.items()
    }
    sober = _sober(problem, candidates)
    if problem.calibration is not None:
        rows = problem.calibration
        hits = [hit_rows([candidate.own], rows.codes)[0] for candidate in candidates if candidate.own is not None]
        shares = _likelihood_shares(np.log(hits), rows.weight, sober)[None]
    else:
        shares = _fold_shares(problem, candidates, sober)
    return Choice(blended(problem, candidates, shares), shares, alternatives, floors, floored)


def _sober(problem: Problem, candidates: Sequence[Calibrated]) -> NDArray[np.bool_]:
    """Candidates that have not learned noise; the first where all have."""
    if len(candidates) == 1:
        return np.array([True])
    found = [judged(problem.sheet, candidate, get_loss("log"), 1e-12) for candidate in candidates]
    sober = np.array([one.spread <= OVERFIT * one.loss for one in found])
    if not sober.any():
        sober[0] = True
    return sober


def _fold_shares(problem: Problem, candidates: Sequence[Calibrated], sober: NDArray[np.bool_]) -> FloatArray:
    """The weights of every model, from rows it was trained on and what the other models say of them."""
    data, plan = problem.data, problem.plan
    logs = np.stack([_log_hits(problem, candidate) for candidate in candidates])
    shares = []
    for rows, models in plan.mixing:
        weight = None if data.weight is None else data.weight[rows]
        found = logs[:, 0, rows] if plan.factor == 1.0 else logs[:, models, rows]
        shares.append(_likelihood_shares(found, weight, sober))
    return np.stack(shares)


def _log_hits(problem: Problem, candidate: Calibrated) -> FloatArray:
    """Log of what models gave to what happened, (models, n); in a K-fold only that of the model without the row."""
    laws = [candidate.fitted.law] if problem.plan.factor == 1.0 else list(candidate.models)
    return np.log(hit_rows(laws, problem.data.codes))


def _likelihood_shares(logs: FloatArray, weight: FloatArray | None, sober: NDArray[np.bool_]) -> FloatArray:
    """Weights in proportion to the likelihood, from log-probabilities of what happened, (laws, rows)."""
    totals = logs.sum(axis=1) if weight is None else logs @ weight
    totals[~sober] = -np.inf
    share = np.exp(totals - totals.max())
    return np.asarray(share / share.sum())


def blended(problem: Problem, candidates: Sequence[Calibrated], shares: FloatArray) -> Calibrated:
    """Candidates mixed by the weights of each model; the spread sees weights that are drawn towards their mean."""
    name = ", ".join(candidate.name for candidate in candidates)
    if len(candidates) == 1:
        return candidates[0]
    if problem.calibration is not None:
        parts = [candidate.fitted for candidate in candidates]
        law = mixed([part.law for part in parts], shares[0])
        folds = mixed([part.folds for part in parts], shares[0])
        models = np.broadcast_to(law, (len(problem.plan.trains), *law.shape))
        return Calibrated(name, models, FittedLaw(law, folds, parts[0].factor))
    models = _mixtures(candidates, shares)
    fitted = problem.plan.gather(models)
    if problem.plan.factor == 1.0:
        mean = shares.mean(axis=0)
        fitted = replace(fitted, folds=_mixtures(candidates, mean + _DAMPED * (shares - mean)))
    return Calibrated(name, models, fitted)


def _mixtures(candidates: Sequence[Calibrated], shares: FloatArray) -> FloatArray:
    """The law of every model, mixed by its own weights."""
    models = np.zeros(candidates[0].models.shape)
    for index, candidate in enumerate(candidates):
        for model, share in enumerate(shares[:, index]):
            if share > 1e-6:
                models[model] += share * candidate.models[model]
    if models.ndim == 3:
        models /= models.sum(axis=2, keepdims=True)
    return models


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
    shared, refits, own = learner.shared(rows), [], np.empty(rows.score.shape)
    for kept in problem.blocks:
        refit, block = shared.fitted(rows.part(kept)), np.setdiff1d(np.arange(rows.codes.shape[0]), kept)
        refits.append(refit(data.score))
        own[block] = refit(rows.score[block])
    law = shared.fitted(rows)(data.score)
    models = np.broadcast_to(law, (len(problem.plan.trains), *law.shape))  # every model above starts from it
    return Calibrated(learner.name, models, FittedLaw(law, np.stack(refits), (REFITS - 1) / REFITS), own)


#: A level of the finished chain: its name, its law, and how it was fitted (None for a law that was given).
Line = tuple[str, FloatArray, FittedLaw | None]


def fit_levels(problem: Problem, calibrated: Calibrated, most: int | None = None) -> list[Line]:
    """The laws above Ĉ (the first `most` of them), coarse to fine; each model starts from its own law below."""
    base = calibrated.models
    fitted: list[Line] = []
    for number, level in enumerate(problem.levels[:most]):
        if isinstance(level, Given):
            law = level.law if problem.data.k > 2 or level.law.ndim == 1 else level.law[:, 1]
            base = np.broadcast_to(law, (len(problem.plan.trains), *law.shape))
            given = None if level.folds is None else FittedLaw(level.law, level.folds)
            fitted.append((level.name, level.law, given))
            continue
        if isinstance(level.known, Features):
            base = _stacked(problem, level, level.known, base, number)
        else:
            base = _foreign(problem, level.name, level.known, number)
        gathered = problem.plan.gather(base)
        fitted.append((level.name, gathered.law, gathered))
    return fitted


def _stacked(problem: Problem, level: Block, features: Features, base: FloatArray, number: int) -> FloatArray:
    """Members fitted by every model, then mixed by what they say out of sample of the rows the model may see."""
    data, plan = problem.data, problem.plan
    reference = level.reference or problem.reference

    def fit(model: int) -> FloatArray:
        rows = plan.trains[model]
        weight = None if data.weight is None else data.weight[rows]
        task = Task(features.part(rows), base[model][rows], data.codes[rows], weight, data.k)
        rng = np.random.default_rng([problem.seed, number, model])
        return np.stack(reference.fit_members(task, rng)(features, base[model]))

    laws = list(run_all(fit, range(len(plan.trains)), problem.n_jobs, f"level {level.name}"))
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
        seed = (problem.seed, number, model)
        fitted = fit_foreign(problem.reference, table.rows(rows), data.codes[rows], weight, seed)
        return foreign_law(fitted, table.all(), data.k, rows.size)

    return np.stack(list(run_all(fit, range(len(plan.trains)), problem.n_jobs, f"level {level}")))
