"""The law C = P(Y | S): candidate maps fitted out of sample, and mixed by their likelihood."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy

from scoreprism._core.arrays import convert, like, namespace, to_host
from scoreprism._core.lazy_laws import ClassScores, read_scores
from scoreprism._core.numerics import EDGE, EDGE_OF_SHIFTS, TINY, center_logs, row_blocks, sum_classes
from scoreprism._core.progress import track
from scoreprism._core.simplex import FloatArray, IntArray, clip_law, pick
from scoreprism._core.workers import map_threads
from scoreprism._fitting.crossfit import REFITS, CrossFit, FittedLaw, split_blocks
from scoreprism._fitting.fitted_laws import CellFits, RowFits, ScoreCells, interpolate_laws
from scoreprism._fitting.model_laws import (
    ClassShifts,
    ClippedMaps,
    FittedMaps,
    GatheredLaw,
    KeptLaws,
    MixedMaps,
    ModelLaws,
    TopShifts,
    keep_small,
)
from scoreprism._fitting.parse_learners import MapLearner, Refinement
from scoreprism._kernels.local_shifts import find_depth, find_leaves, local_shifts, shift_classes
from scoreprism._kernels.term_intervals import Alternative
from scoreprism._learners.members import MEMBERS, Task, mix_laws, observed_probabilities
from scoreprism._maps.score_block import ScoreBlock
from scoreprism._sample.batch import Batch
from scoreprism._sample.features import Encoder
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.level import Level, spread
from scoreprism._sample.sample import Sample
from scoreprism.decomposition import Chain
from scoreprism.losses import LogLoss, ProperLoss

if TYPE_CHECKING:
    from scoreprism._fitting.chain_fit import ChainFit


@dataclass(frozen=True)
class Pooling:
    """
    Cells that laws are fitted in, and what each fold of each partition holds there of each outcome.

    Lines that are sums are evaluated at scores of their own inside the cells, `points`.
    """

    cells: ScoreCells
    train: FloatArray  # (P, K, 2, G) at the centers of `cells`
    points: ScoreCells
    mass: FloatArray  # (P, K, 2, G') at the points
    squares: FloatArray


@dataclass(frozen=True)
class FittedScore:
    """A law of the score: out of sample in the first partition, and in all of them."""

    fitted: FittedLaw
    fits: CellFits | RowFits
    below: tuple[Any, ...]  # laws of every model on every row, in each partition that levels above are fitted in


#: A law whose spread over the folds is more than this share of its loss has learned noise.
OVERFIT = 0.05
#: How far the weights of the folds count as noise: the jackknife overstates the variance of a choice by about two.
_DAMPED = 0.5**0.5
#: Classes whose log-ratios are paired for boosting.
_PAIRED = 6
#: Partitions in which candidates are evaluated one by one.
_LOOKED_AT = 4


def judge_candidate(sample: Sample, name: str, fits: Any, loss: ProperLoss, clip: float | None) -> Alternative:
    """Loss difference, spread and standard error of the reliability that a candidate map for C gives."""
    score = sample.scores
    pair = Chain.of(sample, (Level.of("S", score), Level.of("C", score, fits=fits))).clip_at(clip)
    moments = pair.moments(pair._losses(loss), pair._spreads(loss), loss)
    return Alternative(
        name,
        loss=moments.value({1: 1.0}),
        difference=moments.value({0: 1.0}),
        spread=moments.value({3: 1.0}),
        std_error=moments.std_error({0: 1.0}),
    )


def _compute_shares(totals: FloatArray, sober: NDArray[np.bool_]) -> FloatArray:
    """Weights in proportion to the likelihood, from log-likelihoods of the candidates along the last axis."""
    if totals.shape[-1] == 1:
        return np.ones(totals.shape)
    totals = np.where(sober, totals, -np.inf)
    best = totals.max(axis=-1, keepdims=True)
    totals = np.where(np.isinf(best) & sober, 0.0, totals)  # impossible under all: no reason to prefer one
    share = np.exp(totals - np.where(np.isinf(best), 0.0, best))
    return np.asarray(share / share.sum(axis=-1, keepdims=True))


def _damp(shares: FloatArray) -> FloatArray:
    """Shares of the folds of a partition, drawn towards their mean."""
    mean = shares.mean(axis=-2, keepdims=True)
    return np.asarray(mean + _DAMPED * (shares - mean))


@dataclass(frozen=True)
class Candidates(ABC):
    """Maps that were fitted to the same rows, to be judged and mixed."""

    fit: ChainFit
    names: tuple[str, ...]

    @property
    def are_judged_at_once(self) -> bool:
        """Whether each is judged by itself as soon as they are fitted; else only if that is asked for."""
        return self.fit.rows.k <= MANY_CLASSES

    @abstractmethod
    def alone(self) -> Iterator[tuple[str, CellFits | RowFits]]:
        """Each candidate by itself."""

    def choose_shares(self, judged: Sequence[Alternative] = ()) -> FloatArray:
        """
        What each model takes of each candidate.

        The maps of a fold are weighted by exp(log-likelihood) of what they say of the *other* folds, so that no row
        helps to choose its own map: taking the best one instead would flatter it. Maps that have learned noise are left
        out; the first stays where all have. `judged` may hold the candidates under the log loss, if that is known.
        """
        if len(self.names) == 1:
            return self.shares(np.array([True]))
        if not judged or not all(math.isfinite(one.loss) for one in judged):
            judged = [judge_candidate(self.fit.sample, *one, LogLoss(), 1e-12) for one in self.alone()]
        sober = np.array([one.spread <= OVERFIT * one.loss for one in judged])
        if not sober.any():
            sober[0] = True
        return self.shares(sober)

    @abstractmethod
    def shares(self, sober: NDArray[np.bool_]) -> FloatArray:
        """The same, of the candidates that have not learned noise."""

    @abstractmethod
    def mix(self, shares: FloatArray) -> FittedScore:
        """The law C."""


def fit_candidates(fit: ChainFit) -> Candidates:
    """Fit the candidate maps: in partitions, in user-defined splits, or on a calibration split."""
    if fit.calibration is not None:
        return _SplitCandidates.of(fit, fit.calibration)
    if fit.pooling is not None or (fit.partitions is not None and fit.rows.k == 2):
        return _CellCandidates.of(fit)
    if fit.partitions is not None and (fit.rows.k > MANY_CLASSES or isinstance(fit.rows.score, ClassScores)):
        return _BlockCandidates.of(fit)
    return _RowCandidates.of(fit)


def _select_maps(fit: ChainFit) -> list[MapLearner]:
    """Candidates that are fitted to rows; refinements of their mixture need partitions."""
    return [learner for learner in fit.maps if not isinstance(learner, Refinement)]


# ── two classes, in partitions ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _CellCandidates(Candidates):
    """Laws of each candidate by partition, fold and cell of the score."""

    laws: list[FloatArray]  # (P, K, G) each
    mass: FloatArray  # (P, K, 2, G)
    squares: FloatArray

    @staticmethod
    def of(fit: ChainFit) -> _CellCandidates:
        pooling = _pool(fit) if fit.pooling is None else fit.pooling
        count, folds, _, cells = pooling.train.shape
        whole = pooling.train[0].sum(axis=0)
        rest = np.ascontiguousarray((whole - pooling.train).reshape(count * folds, 2, cells).transpose(1, 0, 2))
        np.maximum(rest, 0.0, out=rest)
        batch = Batch(pooling.cells.center, rest, whole, pooling.cells.single)
        fitted = (learner.fit_many(batch, fit.rows, fit.partitions) for learner in fit.maps)
        laws = [law.reshape(count, folds, cells) for law in fitted]
        if pooling.points is not pooling.cells:
            laws = [interpolate_laws(pooling.cells.center, law, pooling.points.center) for law in laws]
        names = tuple(learner.name for learner in fit.maps)
        return _CellCandidates(fit, names, laws, pooling.mass, pooling.squares)

    def _fits(self, law: FloatArray, damped: FloatArray) -> CellFits:
        fit = self.fit
        home = None if fit.pooling is not None or fit.partitions is None else fit.partitions.home
        return CellFits(fit.cells, fit.rows.codes, law, damped, self.mass, self.squares, home)

    def alone(self) -> Iterator[tuple[str, CellFits]]:
        some = slice(_LOOKED_AT)
        for name, law in zip(self.names, self.laws, strict=True):
            fits = self._fits(law[some], law[some])
            yield name, replace(fits, mass=self.mass[some], squares=self.squares[some])

    @cached_property
    def _likelihoods(self) -> FloatArray:
        """Log-likelihood of the rows of each fold, (P, K, candidates)."""
        never, events = self.mass[:, :, 0], self.mass[:, :, 1]  # a map may reach 0 and 1, where nothing else happened
        return np.stack([(xlog1py(never, -law) + xlogy(events, law)).sum(axis=2) for law in self.laws], axis=2)

    def noise(self) -> list[tuple[float, float]]:
        mass = self.mass[0].sum(axis=(0, 1))
        each = []
        for (_, fits), likelihood in zip(self.alone(), np.moveaxis(self._likelihoods, 2, 0), strict=True):
            spread = float(fits.clip_at(1e-12).spread_by_cell(LogLoss()) @ mass / mass.sum())
            each.append((-float(likelihood.sum()) / (len(likelihood) * float(mass.sum())), spread))
        return each

    def shares(self, sober: NDArray[np.bool_]) -> FloatArray:
        logs = self._likelihoods
        others = [np.delete(logs, k, axis=1).sum(axis=1) for k in range(logs.shape[1])]  # they may be infinite
        return _compute_shares(np.stack(others, axis=1), sober)

    def mix(self, shares: FloatArray) -> FittedScore:
        law, damped = (_blend(self.laws, part) for part in (shares, _damp(shares)))
        fits = self._fits(law, damped)
        cell, fit = self.fit.cells.cell, self.fit
        below = tuple(one[:, cell] for one in law[: fit.repeats])
        folds = damped[0][:, cell]
        if fit.pooling is None:
            fitted = replace(fit.plan.gather(below[0]), folds=folds)
        else:
            fitted = FittedLaw(fits.mean_law, folds)
        return FittedScore(fitted, fits, below)


def _pool(fit: ChainFit) -> Pooling:
    """What each fold of each partition holds of each outcome in each cell."""
    data, cells, partitions = fit.rows, fit.cells, fit.partitions
    assert partitions is not None  # noqa: S101 - rows have partitions
    size, folds = cells.center.size, partitions.folds
    place = data.codes * size + cells.cell
    weight = data.weight

    def sums(values: FloatArray | None) -> FloatArray:
        table = np.empty((len(partitions.home), folds * 2 * size))
        for line, home in zip(table, partitions.home, strict=True):
            line[:] = np.bincount(home.astype(np.intp) * (2 * size) + place, values, folds * 2 * size)
        return table.reshape(-1, folds, 2, size)

    mass = sums(weight)
    return Pooling(cells, mass, cells, mass, mass if weight is None else sums(weight**2))


def _blend(laws: Sequence[FloatArray], shares: FloatArray) -> FloatArray:
    """Tables (P, K, G) mixed by shares (P, K, candidates)."""
    out = np.zeros(laws[0].shape)
    for index, law in enumerate(laws):
        share = shares[:, :, index]
        if share.max() > 1e-6:
            out += share[:, :, None] * law
    return out


# ── row by row: several classes in partitions, and user-defined splits ───────────────────────────────


@dataclass(frozen=True)
class _RowCandidates(Candidates):
    """Laws of each candidate by partition and model, on every row."""

    plans: list[CrossFit]  # partitions of the rows, or splits that are none
    laws: list[list[FloatArray]]  # by partition, by candidate: (models, n, …)

    @staticmethod
    def of(fit: ChainFit) -> _RowCandidates:
        learners, refinements, plans = _select_maps(fit), [], fit.list_partitions()
        if fit.partitions is not None:
            refinements = [learner for learner in fit.maps if isinstance(learner, Refinement)]
        shared = [learner.share(fit.rows) for learner in learners]
        laws: list[list[FloatArray]] = []
        for plan in track(plans, len(plans), "partitions"):
            parts = [fit.rows.part(train) for train in plan.trains]
            fitted = [_fit_in_folds(fit.rows, parts, learner) for learner in track(shared, len(shared), "maps")]
            if refinements:
                sober = np.ones(len(fitted), dtype=bool)
                base = _mix(fitted, _weigh_in_folds(fit, plan, fitted, sober))
                fitted += [_REFINEMENTS[learner.name](fit, plan, base) for learner in refinements]
            laws.append(fitted)
        return _RowCandidates(fit, tuple(learner.name for learner in (*learners, *refinements)), plans, laws)

    def _fits(self, laws: Sequence[FloatArray], damped: Sequence[FloatArray]) -> RowFits:
        parts = []
        for plan, models, folds in zip(self.plans, laws, damped, strict=True):
            part = plan.gather(models)
            parts.append(replace(part, folds=folds) if plan.factor == 1.0 else part)
        return RowFits(self.fit.rows.score, parts, np.stack([plan.home for plan in self.plans]))

    def alone(self) -> Iterator[tuple[str, RowFits]]:
        for index, name in enumerate(self.names):
            laws = [candidates[index] for candidates in self.laws]
            yield name, self._fits(laws, laws)

    def shares(self, sober: NDArray[np.bool_]) -> FloatArray:
        pairs = zip(self.plans, self.laws, strict=True)
        return np.stack([_weigh_in_folds(self.fit, plan, laws, sober) for plan, laws in pairs])

    def mix(self, shares: FloatArray) -> FittedScore:
        laws, damped = [], []
        for candidates, share in zip(self.laws, shares, strict=True):
            laws.append(_mix(candidates, share))
            damped.append(_mix(candidates, _damp(share)))
        fits = self._fits(laws, damped)
        return FittedScore(fits.parts[0], fits, tuple(laws[: self.fit.repeats]))


def _fit_in_folds(data: FitRows, parts: Sequence[FitRows], learner: MapLearner) -> FloatArray:
    """The laws on every row of the maps fitted on these parts of the rows."""
    laws = np.empty((len(parts), *data.score.shape))
    for law, part in zip(laws, parts, strict=True):
        law[:] = learner.fit(part)(data.score)
    return laws


def _weigh_in_folds(fit: ChainFit, plan: CrossFit, candidates: Sequence[Any], sober: NDArray[np.bool_]) -> FloatArray:
    """The weights of every model, (models, candidates), from what other models say of the rows it was trained on."""
    data = fit.rows
    logs = np.stack([_log_observed(plan, laws, data.codes) for laws in candidates])
    shares = []
    for rows, models in plan.mixing:
        hits = logs[:, 0, rows] if plan.factor == 1.0 else logs[:, models, rows]
        totals = hits.sum(axis=1) if data.weight is None else hits @ data.weight[rows]
        shares.append(_compute_shares(totals, sober))
    return np.stack(shares)


def _log_observed(plan: CrossFit, laws: FloatArray, codes: IntArray) -> FloatArray:
    """Log of the probability of the observed class, (models, n); in a K-fold by the model that did not see the row."""
    if isinstance(laws, ModelLaws):
        with np.errstate(divide="ignore"):
            return np.log(GatheredLaw(laws, plan.home).find_observed(codes))[None]
    return np.log(observed_probabilities([plan.gather_law(laws)] if plan.factor == 1.0 else list(laws), codes))


def _mix(candidates: Sequence[FloatArray], shares: FloatArray) -> FloatArray:
    """The law of every model, mixed by its own weights."""
    models = np.zeros(candidates[0].shape)
    n, width = models[0].shape if models.ndim == 3 else (models[0].size, 1)
    for model, own in enumerate(shares):
        chosen = [(share, laws[model]) for share, laws in zip(own, candidates, strict=True) if share > 1e-6]
        for rows in row_blocks(n, width):
            mixed = models[model, rows]
            for share, law in chosen:
                mixed += share * law[rows]
            if mixed.ndim == 2:
                mixed /= sum_classes(mixed)
    return models


def _shift_locally(fit: ChainFit, plan: CrossFit, base: FloatArray) -> FloatArray:
    """Local shifts of the log-odds of each class against the others, along its own score; then rows add up to 1."""
    data, trees = fit.rows, fit.class_trees
    models, n, k = base.shape
    train = np.zeros((models, n))
    for line, rows in zip(train, plan.trains, strict=True):
        line[rows] = trees.weight[rows]
    out = np.empty(base.shape)
    leaves = 1 << trees.depth
    step = max(1, _SHIFTED // (models * max(leaves, n)))
    for first in range(0, k, step):
        some = slice(first, min(first + step, k))
        law = np.clip(base[:, :, some].transpose(2, 0, 1), EDGE_OF_SHIFTS, 1.0 - EDGE_OF_SHIFTS)
        hit = data.codes == np.arange(k)[some, None]
        gradient, information = train * (hit[:, None] - law), train * law * (1.0 - law)
        shift = trees.shift(some, gradient, information, law.mean(axis=1))
        law /= law + (1.0 - law) * np.exp(-shift)
        out[:, :, some] = law.transpose(1, 2, 0)
    out /= sum_classes(out)
    for model, rows in enumerate(plan.trains):
        out[model] = keep_from_certainty(out[model], data, rows)
    return out


#: Numbers of a block of classes that are shifted at a time.
_SHIFTED = 1 << 19


@dataclass(frozen=True)
class ClassTrees:
    """The leaf of each row in the tree of each class, along its own score; and classes with few distinct scores."""

    depth: int
    weight: FloatArray  # (n,)
    total: float  # weight of the rows that a model is trained on
    leaf: NDArray[np.uint16]  # (K, n)
    mass: FloatArray  # (K, leaves)
    tied: dict[int, ScoreCells]  # of classes whose scores may have shifts of their own

    @staticmethod
    def of(data: FitRows, folds: int) -> ClassTrees:
        """The trees of scores of several classes, for models trained on all folds but one."""
        n, k = data.score.shape
        weight = np.ones(n) if data.weight is None else data.weight
        total = float(weight.sum()) * (folds - 1) / folds
        depth = find_depth(total)
        leaf, mass, tied = np.empty((k, n), dtype=np.uint16), np.empty((k, 1 << depth)), {}
        for j in range(k):
            cells = ScoreCells.of(np.ascontiguousarray(data.score[:, j]))
            if cells.single:
                tied[j] = cells
            whole = _sum_lines(cells.cell, weight[None], cells.center.size)[0]
            leaf[j] = find_leaves(whole, depth)[cells.cell]
            mass[j] = np.bincount(leaf[j], weight, 1 << depth)
        return ClassTrees(depth, weight, total, leaf, mass, tied)

    def cells(self, code: int) -> tuple[IntArray, int]:
        """The cell of each row that a class is shifted in, and how many there are."""
        if code in self.tied:
            return self.tied[code].cell, self.tied[code].center.size
        return self.leaf[code].astype(np.intp), 1 << self.depth

    def shift(self, classes: slice, gradient: FloatArray, information: FloatArray, rate: FloatArray) -> FloatArray:
        """Shifts of each row, (classes, M, n), from gradients, informations and mean laws of some classes."""
        size = 1 << self.depth
        leaf, mass = self.leaf[classes].astype(np.intp), self.mass[classes]
        pairs = list(zip(leaf, gradient, information, strict=True))
        of_gradient = np.stack([_sum_lines(at, lines, size) for at, lines, _ in pairs])
        of_information = np.stack([_sum_lines(at, lines, size) for at, _, lines in pairs])
        means = np.stack([np.bincount(at, self.weight * line, size) for at, line in zip(leaf, rate, strict=True)])
        mean = np.divide(means, mass, out=np.full(mass.shape, 0.5), where=mass > 0.0)
        shift = shift_classes(of_gradient, of_information, mean, mass, self.depth)
        out = np.stack([own[:, at] for own, at in zip(shift, leaf, strict=True)])
        for i, j in enumerate(range(*classes.indices(self.leaf.shape[0]))):
            if j in self.tied:
                out[i] = self._shift_tied(self.tied[j], gradient[i], information[i], rate[i])
        return out

    def _shift_tied(
        self, cells: ScoreCells, gradient: FloatArray, information: FloatArray, rate: FloatArray
    ) -> FloatArray:
        """The same for a class of few distinct scores."""
        size = cells.center.size
        whole = _sum_lines(cells.cell, self.weight[None], size)[0]
        mean = np.bincount(cells.cell, self.weight * rate, size) / np.maximum(whole, TINY)
        lines = (_sum_lines(cells.cell, values, size) for values in (gradient, information))
        return local_shifts(next(lines), next(lines), mean, whole, self.total, single=True)[:, cells.cell]


def _sum_lines(place: IntArray, lines: FloatArray, size: int) -> FloatArray:
    """Sums of lines (M, n) by the place of each row."""
    return np.stack([np.bincount(place, line, size) for line in lines]).astype(np.float64, copy=False)


def _boost(fit: ChainFit, plan: CrossFit, base: FloatArray) -> FloatArray:
    """Boosting started at the law of each model: on centred log-ratios, their differences, and the top probability."""
    data = fit.rows
    ratios = center_logs(np.log(np.maximum(data.score, EDGE)))
    pairs = [ratios[:, i] - ratios[:, j] for i in range(min(data.k, _PAIRED)) for j in range(i)]
    columns = [*ratios.T, *pairs, data.score.max(axis=1)]
    features = Encoder.fit(columns)(columns)
    out = np.empty(base.shape)
    for model, rows in enumerate(plan.trains):
        weight = None if data.weight is None else data.weight[rows]
        task = Task(features.part(rows), base[model][rows], data.codes[rows], weight, data.k)
        rng = np.random.default_rng([fit.seed, model])
        law = MEMBERS["offset-boosting"](task, rng)(features, base[model])[0]  # after few trees
        out[model] = keep_from_certainty(law, data, rows)
    return out


#: How the mixture of the maps in a partition is refined.
_REFINEMENTS = {"shifts": _shift_locally, "boosting": _boost}


# ── many classes, and scores that stay where they are: a block of rows at a time ─────────────────────

#: Above so many classes, levels are fitted in half as many partitions, and only classes of enough rows are shifted.
MANY_CLASSES = 20
#: Rows of a class from which on it has local shifts of its own, where classes are many.
_ROWS_OF_CLASS = 200
#: Rows by which candidates are judged to have learned noise.
_JUDGED = 8192
#: How often a fit reads each number, about.
_READ = 10


@dataclass(frozen=True)
class _BlockCandidates(Candidates):
    """Laws of each candidate by partition, computed when they are needed or kept where they are small."""

    plans: list[CrossFit]
    laws: list[list[ModelLaws]]  # by partition, by candidate

    @staticmethod
    def of(fit: ChainFit) -> _BlockCandidates:
        scores = as_scores(fit.rows.score)
        learners = _select_maps(fit)
        refinements = [learner for learner in fit.maps if isinstance(learner, Refinement)]
        plans = fit.list_partitions()
        tables = len(plans) * (len(learners) + len(refinements))
        rows = replace(fit.rows, score=scores)
        shared = [learner.share(rows) for learner in learners]
        laws: list[list[ModelLaws]] = []
        for plan in track(plans, len(plans), "partitions"):
            fitted: list[ModelLaws] = []
            for learner in track(shared, len(shared), "maps"):
                parts = [rows.part(train) for train in plan.trains]
                work = _READ * scores.values.size if isinstance(scores.values, np.ndarray) else 0
                maps = tuple(map_threads(learner.fit, parts, work))
                fitted.append(keep_small(FittedMaps(scores, maps), tables))
            if refinements:
                shares = _weigh_in_folds(fit, plan, fitted, np.ones(len(fitted), dtype=bool))
                base = keep_small(MixedMaps(tuple(fitted), shares), tables)
                refined = [_REFINEMENTS_BY_BLOCK[learner.name](fit, plan, base) for learner in refinements]
                fitted += [keep_small(models, tables) for models in refined]
            laws.append(fitted)
        return _BlockCandidates(fit, tuple(learner.name for learner in (*learners, *refinements)), plans, laws)

    def _fits(self, laws: Sequence[ModelLaws], damped: Sequence[ModelLaws]) -> RowFits:
        parts = [
            replace(plan.gather(models), folds=folds)  # laws that stand for arrays
            for plan, models, folds in zip(self.plans, laws, damped, strict=True)
        ]
        return RowFits(self.laws[0][0].scores, parts, np.stack([plan.home for plan in self.plans]))

    def alone(self) -> Iterator[tuple[str, RowFits]]:
        for index, name in enumerate(self.names):
            laws = [candidates[index] for candidates in self.laws]
            yield name, self._fits(laws, laws)

    def _find_noise(self) -> list[tuple[float, float]]:
        """Loss and spread of each candidate in the first partition; where rows are many, of some of them."""
        sample, n = self.fit.sample, self.fit.sample.n
        step = -(-n // _JUDGED)
        some = np.arange(0, n, step)
        part = replace(sample, y=sample.y[some], weight=None if sample.weight is None else sample.weight[some])
        noise = []
        for candidate in self.laws[0]:
            fitted = self.plans[0].gather(candidate).rows(some).clip_at(EDGE)
            loss = part.mean(LogLoss().evaluate(fitted.law, part.y))
            noise.append((loss, part.mean(spread(LogLoss(), fitted.folds, fitted.factor))))
        return noise

    def choose_shares(self, judged: Sequence[Alternative] = ()) -> FloatArray:
        if len(self.names) == 1 or self.are_judged_at_once:
            return super().choose_shares(judged)
        sober = np.array([noise <= OVERFIT * loss for loss, noise in self._find_noise()])
        if not sober.any():
            sober[0] = True
        return self.shares(sober)

    def shares(self, sober: NDArray[np.bool_]) -> FloatArray:
        pairs = zip(self.plans, self.laws, strict=True)
        return np.stack([_weigh_in_folds(self.fit, plan, laws, sober) for plan, laws in pairs])

    def mix(self, shares: FloatArray) -> FittedScore:
        tables = 2 * len(self.plans)
        laws: list[ModelLaws] = []
        damped: list[ModelLaws] = []
        for candidates, share in zip(self.laws, shares, strict=True):
            laws.append(keep_small(MixedMaps(tuple(candidates), share), tables))
            same = np.allclose(_damp(share), share, rtol=0.0, atol=1e-15)
            damped.append(laws[-1] if same else keep_small(MixedMaps(tuple(candidates), _damp(share)), tables))
        fits = self._fits(laws, damped)
        return FittedScore(fits.parts[0], fits, tuple(laws[: self.fit.repeats]))


def as_scores(score: Any) -> ClassScores:
    """Scores of several classes as they are read by blocks."""
    return score if isinstance(score, ClassScores) else read_scores(score, is_logit=False)


def _shift_by_block(fit: ChainFit, plan: CrossFit, base: ModelLaws) -> ModelLaws:
    """Local shifts: of the class with the largest score, where classes are many, and of each class of enough rows."""
    data, k = fit.rows, fit.rows.k
    if k <= MANY_CLASSES:
        return _shift_each(fit, plan, base, np.arange(k))
    weight, tree = fit.top_tree.weight, fit.top_tree
    gradient, information = np.zeros((2, base.count, tree.cells.center.size))
    rate = np.zeros(tree.cells.center.size)
    for rows in base.scores.blocks():
        block, cell, home = ScoreBlock(base.scores, rows), tree.cells.cell[rows], plan.home[rows]
        codes = tree.top[rows]
        hit = (data.codes[rows] == codes).astype(np.float64)
        laws = [to_host(pick(law, like(codes, law))) for law in base.laws(block, range(base.count))]
        inside = np.clip(np.stack(laws).astype(np.float64), EDGE_OF_SHIFTS, 1.0 - EDGE_OF_SHIFTS)
        rate += np.bincount(cell, weight[rows] * inside.mean(axis=0), rate.size)
        for m, law in enumerate(inside):
            train = weight[rows] * (home != m)
            gradient[m] += np.bincount(cell, train * (hit - law), rate.size)
            information[m] += np.bincount(cell, train * law * (1.0 - law), rate.size)
    whole = np.bincount(tree.cells.cell, weight, rate.size).astype(np.float64)
    total = float(weight.sum()) * (base.count - 1) / base.count
    mean = rate / np.maximum(whole, TINY)
    shift = local_shifts(gradient, information, mean, whole, total, single=tree.cells.single)
    shifted = TopShifts(base, tree.top, tree.cells.cell, np.exp(-shift))
    enough = np.flatnonzero(np.bincount(data.codes, minlength=k) >= _ROWS_OF_CLASS)
    if enough.size:
        return _shift_each(fit, plan, shifted, enough)
    return ClippedMaps(shifted, max(find_distance(data, train) for train in plan.trains))


def _shift_each(fit: ChainFit, plan: CrossFit, base: ModelLaws, classes: IntArray) -> ModelLaws:
    """Local shifts of the log-odds of some classes against the others, each along its own score."""
    data, trees = fit.rows, fit.class_trees
    cells = [trees.cells(int(j)) for j in classes]
    sizes = np.array([size for _, size in cells])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    place = np.stack([cell.astype(np.int32) + offset for (cell, _), offset in zip(cells, offsets[:-1], strict=True)], 1)
    size = int(offsets[-1])
    sums, rate, whole = np.zeros((2, base.count, size)), np.zeros(size), np.zeros(size)
    for rows in base.scores.blocks():
        where, weight = place[rows].ravel(), trees.weight[rows, None]
        hit = data.codes[rows, None] == classes
        laws = base.laws(ScoreBlock(base.scores, rows), range(base.count))
        inside = [
            np.clip(to_host(law)[:, classes].astype(np.float64), EDGE_OF_SHIFTS, 1.0 - EDGE_OF_SHIFTS) for law in laws
        ]
        rate += np.bincount(where, (weight * np.mean(inside, axis=0)).ravel(), size)
        whole += np.bincount(where, np.broadcast_to(weight, hit.shape).ravel(), size)
        for m, law in enumerate(inside):
            train = weight * (plan.home[rows] != m)[:, None]
            sums[0, m] += np.bincount(where, (train * (hit - law)).ravel(), size)
            sums[1, m] += np.bincount(where, (train * law * (1.0 - law)).ravel(), size)
    mean = np.divide(rate, whole, out=np.full(size, 0.5), where=whole > 0.0)
    factor = np.empty((base.count, size))
    for index, j in enumerate(classes.tolist()):
        some = slice(offsets[index], offsets[index + 1])
        gradient, information = sums[:, :, some]
        if j in trees.tied:
            shift = local_shifts(gradient, information, mean[some], whole[some], trees.total, single=True)
        else:
            own = (gradient[None], information[None], mean[None, some], whole[None, some])
            shift = shift_classes(*own, trees.depth)[0]
        factor[:, some] = np.exp(-shift)
    floors = np.array([find_distance(data, train) for train in plan.trains])
    return ClassShifts(base, classes, place, factor, floors)


@dataclass(frozen=True)
class TopTree:
    """The largest score of each row, its class, and the cells it is shifted in."""

    top: IntArray
    cells: ScoreCells
    weight: FloatArray

    @staticmethod
    def of(data: FitRows) -> TopTree:
        scores = as_scores(data.score)
        top, confidence = np.empty(scores.shape[0], dtype=np.intp), np.empty(scores.shape[0])
        for rows in scores.blocks():
            law = scores.block(rows)
            codes = namespace(law).argmax(law, axis=1)
            top[rows], confidence[rows] = to_host(codes), to_host(pick(law, codes))
        weight = np.ones(top.size) if data.weight is None else data.weight
        return TopTree(top, ScoreCells.of(confidence), weight)


def _boost_by_block(fit: ChainFit, plan: CrossFit, base: ModelLaws) -> ModelLaws:
    """The same boosting as for few classes, of laws that are kept."""
    laws = _boost(fit, plan, np.asarray(base))
    return KeptLaws(base.scores, tuple(convert(like(law, base.scores.place), base.scores.precision) for law in laws))


_REFINEMENTS_BY_BLOCK = {"shifts": _shift_by_block, "boosting": _boost_by_block}


# ── on a calibration split ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _SplitCandidates(Candidates):
    """Candidates fitted on a calibration split, with delete-block refits for their spread."""

    split: FitRows
    laws: list[FittedLaw]
    own: list[FloatArray]  # law of each candidate on the rows of the split, out of block

    @staticmethod
    def of(fit: ChainFit, split: FitRows) -> _SplitCandidates:
        laws, all_own, learners = [], [], _select_maps(fit)
        blocks = split_blocks(split, fit.seed, fit.calibration_groups)
        for learner in learners:
            shared, refits, own = learner.share(split), [], np.empty(split.score.shape)
            for train in blocks:
                refit, block = shared.fit(split.part(train)), np.setdiff1d(np.arange(split.codes.shape[0]), train)
                refits.append(refit(fit.rows.score))
                own[block] = refit(split.score[block])
            law = shared.fit(split)(fit.rows.score)
            laws.append(FittedLaw(law, np.stack(refits), (REFITS - 1) / REFITS))
            all_own.append(own)
        return _SplitCandidates(fit, tuple(learner.name for learner in learners), split, laws, all_own)

    def _fits(self, fitted: FittedLaw) -> RowFits:
        score = self.fit.rows.score  # no row was seen by any model: all are in one fold
        return RowFits(score, [fitted], np.zeros((1, score.shape[0]), dtype=np.intp))

    def alone(self) -> Iterator[tuple[str, RowFits]]:
        for name, law in zip(self.names, self.laws, strict=True):
            yield name, self._fits(law)

    def shares(self, sober: NDArray[np.bool_]) -> FloatArray:
        hits, weight = np.log(observed_probabilities(self.own, self.split.codes)), self.split.weight
        return _compute_shares(hits.sum(axis=1) if weight is None else hits @ weight, sober)[None]

    def mix(self, shares: FloatArray) -> FittedScore:
        law = mix_laws([part.law for part in self.laws], shares[0])
        folds = mix_laws([part.folds for part in self.laws], shares[0])
        models = np.broadcast_to(law, (len(self.fit.plan.trains), *law.shape))  # every model above starts from it
        fitted = FittedLaw(law, folds, self.laws[0].factor)
        return FittedScore(fitted, self._fits(fitted), (models,) * self.fit.repeats)


def keep_from_certainty(law: FloatArray, data: FitRows, train: IntArray) -> FloatArray:
    """A fitted law stays 1/(2n)² away from 0 and 1: it mixes laws that are already shrunken."""
    return clip_law(law, find_distance(data, train))


def find_distance(data: FitRows, train: IntArray) -> float:
    """How far from 0 and 1 a law fitted on these rows stays."""
    total = float(train.size if data.weight is None else data.weight[train].sum())
    return min((0.5 / max(total, 1.0)) ** 2, 1.0 / data.k)
