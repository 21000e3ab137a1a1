"""From parsed rows to the laws of a chain: Ĉ mixed from several maps, then level by level what features add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy

from scoreprism._core.numerics import clipped_sigmoid as expected
from scoreprism._core.simplex import FloatArray, IntArray, clip_law
from scoreprism._core.workers import run_all
from scoreprism._fitting.crossfit import REFITS, CrossFit, FittedLaw, Partitions, Ties, split_blocks
from scoreprism._fitting.fitted_laws import CellFits, Cells, RowFits, between
from scoreprism._fitting.learners import BoostLearner, MapLearner, ShiftLearner, fit_foreign
from scoreprism._kernels.local_shifts import local_shifts
from scoreprism._learners.members import MEMBERS, Task, foreign_law, hit_rows, mixed, mixing_weights
from scoreprism._sample.feature_tables import Table
from scoreprism._sample.features import Encoder, Features
from scoreprism._sample.fit_batch import Batch
from scoreprism._sample.fit_rows import Data
from scoreprism.decomposition._intervals import Alternative
from scoreprism.decomposition._result import Kept
from scoreprism.decomposition._rows import Fits, Sheet, floor_of, has_infinite
from scoreprism.losses import ProperLoss, get_loss


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
class Pooling:
    """
    Cells that laws are fitted in, and what each fold of each partition holds there of each outcome.

    Lines that are sums are evaluated at scores of their own inside the cells, `points`.
    """

    cells: Cells
    train: FloatArray  # (P, K, 2, G) at the centers of `cells`
    points: Cells
    mass: FloatArray  # (P, K, 2, G') at the points
    squares: FloatArray


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
    partitions: Partitions | None = None  # random partitions of the rows, of which `plan` is the first
    repeats: int = 1  # how many of them levels above C are fitted in
    ties: Ties | None = None  # tells rows of the same score and outcome apart when folds are dealt
    pooling: Pooling | None = None  # where lines are sums: their cells, and what they hold in each fold

    @property
    def blocks(self) -> list[IntArray]:
        """Rows of the calibration split that each of its delete-block refits keeps."""
        assert self.calibration is not None  # noqa: S101 - only asked of a split
        return split_blocks(self.calibration, self.seed, self.calibration_groups)

    @cached_property
    def cells(self) -> Cells:
        """Cells of a score of two classes."""
        if self.pooling is not None:
            return self.pooling.points
        held = None if self.data.weight is None else self.data.weight > 0
        return Cells.of(self.data.score, held)


@dataclass(frozen=True)
class Calibrated:
    """
    A law of the score: of every model of the first partition on every row, and gathered; and in all partitions.

    `own` holds the laws of the rows of a calibration split, out of block.
    """

    name: str
    models: FloatArray
    fitted: FittedLaw
    own: FloatArray | None = None
    fits: Fits | None = None
    below: tuple[FloatArray, ...] = ()  # models of each partition that levels above are fitted in


def judged(sheet: Sheet, name: str, fits: Fits, loss: ProperLoss, clip: float | None) -> Alternative:
    """Loss difference, spread and standard error of the reliability that a candidate map gives."""
    score = sheet.laws[0]
    pair = replace(sheet, laws=[score, score], folds=[None, None], factors=(), fits=(None, fits)).clipped(clip)
    names = ("S", "C")
    losses, spreads, _ = pair.evaluated(loss, names)
    moments = pair.moments(Kept(losses, spreads), loss, names)
    return Alternative(
        name,
        loss=moments.value({1: 1.0}),
        difference=moments.value({0: 1.0}),
        spread=moments.value({3: 1.0}),
        std_error=moments.std_error({0: 1.0}),
    )


#: A law whose spread over the folds is more than this share of its loss has learned noise.
OVERFIT = 0.05
#: How far the weights of the folds count as noise: the jackknife overstates the variance of a choice by about two.
_DAMPED = 0.5**0.5
#: Classes whose log-ratios are paired for boosting.
_PAIRED = 6
#: Partitions in which candidates are looked at one by one.
_LOOKED_AT = 4


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
        mean = self.shares.reshape(-1, len(names)).mean(axis=0)
        main = sorted(zip(mean, names, strict=True), key=lambda pair: -pair[0])
        return ", ".join(f"{name} {100 * share:.0f} %" for share, name in main if share >= 0.005)


def find_floors(sheets: Sequence[Sheet], losses: Mapping[str, ProperLoss], clip: float | None) -> dict[str, float]:
    """How far scores are kept from 0 and 1, beside what was asked for, by each loss that is infinite."""
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
    Fit every candidate map in every partition, and mix them by their likelihood out of sample.

    The maps of a fold are weighted by exp(log-likelihood) of what they say of the *other* folds, so that no row helps
    to choose its own map: taking the best one instead would flatter it. A map that has learned noise is left out.
    """
    floors = find_floors([problem.sheet], losses, clip) if floors is None else floors
    candidates = _candidates(problem)
    alternatives = {
        name: tuple(judged(problem.sheet, *one, loss, clip) for one in candidates.alone())
        for name, loss in losses.items()
    }
    floored = {
        name: tuple(judged(problem.sheet, *one, losses[name], floor) for one in candidates.alone())
        for name, floor in floors.items()
    }
    shares = candidates.shares(_sober(problem, candidates))
    return Choice(candidates.mixed(shares), shares, alternatives, floors, floored)


def recalibrate(problem: Problem, shares: FloatArray, used: Sequence[int]) -> Calibrated:
    """The law C with shares that are known: only the maps `used` are fitted, and `shares` has a column for each."""
    return _candidates(replace(problem, maps=[problem.maps[i] for i in used])).mixed(shares)


def fit_alone(problem: Problem, learner: MapLearner, partitions: int = _LOOKED_AT) -> Calibrated:
    """The law of one map, fitted in a few partitions."""
    few = None if problem.partitions is None else problem.partitions.first(partitions)
    alone = _candidates(replace(problem, maps=[learner], partitions=few, repeats=1))
    return alone.mixed(alone.shares(np.array([True])))


def _sober(problem: Problem, candidates: Candidates) -> NDArray[np.bool_]:
    """Candidates that have not learned noise; the first where all have."""
    if len(problem.maps) == 1:
        return np.array([True])
    sober = np.array([spread <= OVERFIT * loss for loss, spread in candidates.noise()])
    if not sober.any():
        sober[0] = True
    return sober


def _likelihood_shares(totals: FloatArray, sober: NDArray[np.bool_]) -> FloatArray:
    """Weights in proportion to the likelihood, from log-likelihoods of the candidates along the last axis."""
    if totals.shape[-1] == 1:
        return np.ones(totals.shape)
    totals = np.where(sober, totals, -np.inf)
    best = totals.max(axis=-1, keepdims=True)
    totals = np.where(np.isinf(best) & sober, 0.0, totals)  # none of them could happen: no reason to prefer one
    share = np.exp(totals - np.where(np.isinf(best), 0.0, best))
    return np.asarray(share / share.sum(axis=-1, keepdims=True))


def _damped(shares: FloatArray) -> FloatArray:
    """Shares of the folds of a partition, drawn towards their mean."""
    mean = shares.mean(axis=-2, keepdims=True)
    return np.asarray(mean + _DAMPED * (shares - mean))


class Candidates(Protocol):
    """Maps that were fitted to the same rows, to be judged and mixed."""

    def alone(self) -> Iterator[tuple[str, Fits]]:
        """Each candidate by itself."""

    def noise(self) -> list[tuple[float, float]]:
        """Log loss and spread of each candidate."""

    def shares(self, sober: NDArray[np.bool_]) -> FloatArray:
        """What each model takes of each candidate."""

    def mixed(self, shares: FloatArray) -> Calibrated:
        """The law C."""


def _candidates(problem: Problem) -> Candidates:
    """The candidate maps, fitted: in partitions, in splits of one's own, or on a calibration split."""
    if problem.calibration is not None:
        return _SplitCandidates(problem, [_fitted_on_split(problem, learner) for learner in _parametric(problem)])
    if problem.pooling is not None:
        return _CellCandidates.of(problem, None)
    if problem.partitions is None:
        return _FoldCandidates(problem, [_fitted_in_folds(problem, learner) for learner in _parametric(problem)])
    if problem.data.k == 2:
        return _CellCandidates.of(problem, problem.partitions)
    return _RowCandidates.of(problem, problem.partitions)


def _parametric(problem: Problem) -> list[MapLearner]:
    """Candidates but local shifts of their mixture, which have to be fitted in partitions."""
    return [learner for learner in problem.maps if not isinstance(learner, (ShiftLearner, BoostLearner))]


# ── two classes, in partitions ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _CellCandidates:
    """Laws of each candidate by partition, fold and cell of the score."""

    problem: Problem
    names: list[str]
    laws: list[FloatArray]  # (P, K, G) each
    mass: FloatArray  # (P, K, 2, G)
    squares: FloatArray

    @staticmethod
    def of(problem: Problem, partitions: Partitions | None) -> _CellCandidates:
        pooling = problem.pooling
        if pooling is None:
            assert partitions is not None  # noqa: S101 - rows have partitions
            pooling = _pooled(problem, partitions)
        count, folds, _, cells = pooling.train.shape
        whole = pooling.train[0].sum(axis=0)
        rest = np.ascontiguousarray((whole - pooling.train).reshape(count * folds, 2, cells).transpose(1, 0, 2))
        np.maximum(rest, 0.0, out=rest)
        batch = Batch(pooling.cells.center, rest, whole, pooling.cells.single)
        laws = [learner.fit_many(batch, problem.data, partitions) for learner in problem.maps]
        names = [learner.name for learner in problem.maps]
        shape = (count, folds, cells)
        laws = [law.reshape(shape) for law in laws]
        if pooling.points is not pooling.cells:
            laws = [between(pooling.cells.center, law, pooling.points.center) for law in laws]
        return _CellCandidates(problem, names, laws, pooling.mass, pooling.squares)

    def _fits(self, law: FloatArray, damped: FloatArray) -> CellFits:
        problem = self.problem
        home = None if problem.pooling is not None or problem.partitions is None else problem.partitions.home
        return CellFits(problem.cells, problem.data.codes, law, damped, self.mass, self.squares, home)

    def alone(self) -> Iterator[tuple[str, Fits]]:
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
        held = self.mass[0].sum(axis=(0, 1))
        found = []
        for (_, fits), likelihood in zip(self.alone(), np.moveaxis(self._likelihoods, 2, 0), strict=True):
            spread = float(fits.clipped(1e-12).spread_by_cell(get_loss("log")) @ held / held.sum())
            found.append((-float(likelihood.sum()) / (len(likelihood) * float(held.sum())), spread))
        return found

    def shares(self, sober: NDArray[np.bool_]) -> FloatArray:
        found = self._likelihoods
        others = [np.delete(found, k, axis=1).sum(axis=1) for k in range(found.shape[1])]  # they may be infinite
        return _likelihood_shares(np.stack(others, axis=1), sober)

    def mixed(self, shares: FloatArray) -> Calibrated:
        law, damped = (_blend(self.laws, part) for part in (shares, _damped(shares)))
        fits = self._fits(law, damped)
        cell, problem = self.problem.cells.cell, self.problem
        below = tuple(one[:, cell] for one in law[: problem.repeats])
        folds = damped[0][:, cell]
        if problem.pooling is None:
            fitted = replace(problem.plan.gather(below[0]), folds=folds)
        else:
            fitted = FittedLaw(fits.mean_law, folds)
        return Calibrated(", ".join(self.names), below[0], fitted, fits=fits, below=below)


def _pooled(problem: Problem, partitions: Partitions) -> Pooling:
    """What each fold of each partition holds of each outcome in each cell."""
    data, cells = problem.data, problem.cells
    size, folds = cells.center.size, partitions.folds
    place = data.codes * size + cells.cell
    weight = data.weight

    def sums(values: FloatArray | None) -> FloatArray:
        found = np.empty((len(partitions.home), folds * 2 * size))
        for line, home in zip(found, partitions.home, strict=True):
            line[:] = np.bincount(home.astype(np.intp) * (2 * size) + place, values, folds * 2 * size)
        return found.reshape(-1, folds, 2, size)

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


# ── several classes, in partitions ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _RowCandidates:
    """Laws of each candidate by partition and fold, on every row."""

    problem: Problem
    partitions: Partitions
    names: list[str]
    laws: list[list[FloatArray]]  # by partition, by candidate: (K, n, C)

    @staticmethod
    def of(problem: Problem, partitions: Partitions) -> _RowCandidates:
        parametric = _parametric(problem)
        local = [learner for learner in problem.maps if isinstance(learner, (ShiftLearner, BoostLearner))]
        laws = []
        for p in range(len(partitions.home)):
            plan = partitions.plan(p)
            found = [_laws_in_folds(problem, plan, learner) for learner in parametric]
            if local:
                sober = np.ones(len(found), dtype=bool)
                base = _mixture(found, _fold_shares(problem, plan, found, sober))
                refine = {ShiftLearner: _shifted, BoostLearner: _boosted}
                found += [refine[type(learner)](problem, plan, base) for learner in local]
            laws.append(found)
        return _RowCandidates(problem, partitions, [learner.name for learner in problem.maps], laws)

    def _fits(self, laws: Sequence[FloatArray], damped: Sequence[FloatArray]) -> RowFits:
        parts = []
        for p, (models, folds) in enumerate(zip(laws, damped, strict=True)):
            parts.append(replace(self.partitions.plan(p).gather(models), folds=folds))
        return RowFits(self.problem.data.score, parts, self.partitions.home.astype(np.intp))

    def alone(self) -> Iterator[tuple[str, Fits]]:
        for index, name in enumerate(self.names):
            laws = [found[index] for found in self.laws]
            yield name, self._fits(laws, laws)

    def noise(self) -> list[tuple[float, float]]:
        found = []
        for name, fits in self.alone():
            one = judged(self.problem.sheet, name, fits, get_loss("log"), 1e-12)
            found.append((one.loss, one.spread))
        return found

    def shares(self, sober: NDArray[np.bool_]) -> FloatArray:
        found = [_fold_shares(self.problem, self.partitions.plan(p), laws, sober) for p, laws in enumerate(self.laws)]
        return np.stack(found)

    def mixed(self, shares: FloatArray) -> Calibrated:
        laws, damped = [], []
        for found, share in zip(self.laws, shares, strict=True):
            laws.append(_mixture(found, share))
            damped.append(_mixture(found, _damped(share)))
        below = tuple(laws[: self.problem.repeats])
        fits = self._fits(laws, damped)
        return Calibrated(", ".join(self.names), laws[0], fits.parts[0], fits=fits, below=below)


def _laws_in_folds(problem: Problem, plan: CrossFit, learner: MapLearner) -> FloatArray:
    """The laws of the models of a cross-fit on every row."""
    data = problem.data
    shared = learner.shared(data)
    laws = np.empty((len(plan.trains), *data.score.shape))
    for model, train in enumerate(plan.trains):
        laws[model] = shared.fitted(data.part(train))(data.score)
    return laws


def _fold_shares(
    problem: Problem, plan: CrossFit, candidates: Sequence[FloatArray], sober: NDArray[np.bool_]
) -> FloatArray:
    """The weights of every model, (models, candidates), from rows it was trained on and what others say of them."""
    data = problem.data
    logs = np.stack([_log_hits(plan, laws, data.codes) for laws in candidates])
    shares = []
    for rows, models in plan.mixing:
        found = logs[:, 0, rows] if plan.factor == 1.0 else logs[:, models, rows]
        totals = found.sum(axis=1) if data.weight is None else found @ data.weight[rows]
        shares.append(_likelihood_shares(totals, sober))
    return np.stack(shares)


def _log_hits(plan: CrossFit, laws: FloatArray, codes: IntArray) -> FloatArray:
    """Log of what models gave to what happened, (models, n); in a K-fold only that of the model without the row."""
    return np.log(hit_rows([plan.gather(laws).law] if plan.factor == 1.0 else list(laws), codes))


def _mixture(candidates: Sequence[FloatArray], shares: FloatArray) -> FloatArray:
    """The law of every model, mixed by its own weights."""
    models = np.zeros(candidates[0].shape)
    for index, laws in enumerate(candidates):
        for model, share in enumerate(shares[:, index]):
            if share > 1e-6:
                models[model] += share * laws[model]
    if models.ndim == 3:
        models /= models.sum(axis=2, keepdims=True)
    return models


def _shifted(problem: Problem, plan: CrossFit, base: FloatArray) -> FloatArray:
    """Local shifts of the log-odds of each class against the others, along its own score; then rows add up to 1."""
    data = problem.data
    weight = np.ones(data.codes.size) if data.weight is None else data.weight
    train = np.zeros((len(plan.trains), data.codes.size))
    for line, rows in zip(train, plan.trains, strict=True):
        line[rows] = weight[rows]
    out = np.empty(base.shape)
    total = float(train.sum(axis=1).mean())
    for j in range(data.k):
        cells = Cells.of(np.ascontiguousarray(data.score[:, j]))
        law = np.clip(base[:, :, j], 1e-9, 1.0 - 1e-9)
        size = cells.center.size

        def sums(values: FloatArray, cell: IntArray = cells.cell, size: int = size) -> FloatArray:
            return np.stack([np.bincount(cell, line, size) for line in values])

        gradient, information = sums(train * ((data.codes == j) - law)), sums(train * law * (1.0 - law))
        whole = np.bincount(cells.cell, weight, size).astype(np.float64)
        held = np.maximum(whole, 1e-300)
        rate = np.bincount(cells.cell, weight * law.mean(axis=0), size) / held
        shift = local_shifts(gradient, information, rate, whole, total, single=cells.single)
        out[:, :, j] = expected(np.log(law) - np.log1p(-law) + shift[:, cells.cell])
    out /= out.sum(axis=2, keepdims=True)
    return np.stack([floored(law, data, rows) for law, rows in zip(out, plan.trains, strict=True)])


def _boosted(problem: Problem, plan: CrossFit, base: FloatArray) -> FloatArray:
    """Boosting started at the law of each model: on centred log-ratios, their differences, and the top probability."""
    data = problem.data
    logs = np.log(np.maximum(data.score, 1e-12))
    ratios = logs - logs.mean(axis=1, keepdims=True)
    pairs = [ratios[:, i] - ratios[:, j] for i in range(min(data.k, _PAIRED)) for j in range(i)]
    columns = [*ratios.T, *pairs, data.score.max(axis=1)]
    features = Encoder.fitted(columns)(columns)
    out = np.empty(base.shape)
    for model, rows in enumerate(plan.trains):
        weight = None if data.weight is None else data.weight[rows]
        task = Task(features.part(rows), base[model][rows], data.codes[rows], weight, data.k)
        rng = np.random.default_rng([problem.seed, model])
        law = MEMBERS["offset-boosting"](task, rng)(features, base[model])[0]  # after few trees
        out[model] = floored(law, data, rows)
    return out


# ── splits of one's own, and a calibration split ────────────────────────────────────────────────────


@dataclass(frozen=True)
class _FoldCandidates:
    """Candidates fitted in splits that are no partition of the rows."""

    problem: Problem
    found: list[Calibrated]

    def alone(self) -> Iterator[tuple[str, Fits]]:
        for one in self.found:
            yield one.name, self._fits(one.fitted)

    def _fits(self, fitted: FittedLaw) -> RowFits:
        return RowFits(self.problem.data.score, [fitted], self.problem.plan.home[None])

    def noise(self) -> list[tuple[float, float]]:
        judgements = [judged(self.problem.sheet, *one, get_loss("log"), 1e-12) for one in self.alone()]
        return [(one.loss, one.spread) for one in judgements]

    def shares(self, sober: NDArray[np.bool_]) -> FloatArray:
        return _fold_shares(self.problem, self.problem.plan, [one.models for one in self.found], sober)

    def mixed(self, shares: FloatArray) -> Calibrated:
        models = _mixture([one.models for one in self.found], shares)
        fitted = self.problem.plan.gather(models)
        name = ", ".join(one.name for one in self.found)
        return Calibrated(name, models, fitted, fits=self._fits(fitted), below=(models,))


def _fitted_in_folds(problem: Problem, learner: MapLearner) -> Calibrated:
    laws = _laws_in_folds(problem, problem.plan, learner)
    return Calibrated(learner.name, laws, problem.plan.gather(laws))


@dataclass(frozen=True)
class _SplitCandidates:
    """Candidates fitted on a calibration split, with delete-block refits for their spread."""

    problem: Problem
    found: list[Calibrated]

    def alone(self) -> Iterator[tuple[str, Fits]]:
        for one in self.found:
            yield one.name, self._fits(one.fitted)

    def _fits(self, fitted: FittedLaw) -> RowFits:
        score = self.problem.data.score  # no row was seen by any model: all are in one fold
        return RowFits(score, [fitted], np.zeros((1, score.shape[0]), dtype=np.intp))

    def noise(self) -> list[tuple[float, float]]:
        judgements = [judged(self.problem.sheet, *one, get_loss("log"), 1e-12) for one in self.alone()]
        return [(one.loss, one.spread) for one in judgements]

    def shares(self, sober: NDArray[np.bool_]) -> FloatArray:
        rows = self.problem.calibration
        assert rows is not None  # noqa: S101 - a calibration split is at hand
        hits = np.log([hit_rows([one.own], rows.codes)[0] for one in self.found if one.own is not None])
        return _likelihood_shares(hits.sum(axis=1) if rows.weight is None else hits @ rows.weight, sober)[None]

    def mixed(self, shares: FloatArray) -> Calibrated:
        parts = [one.fitted for one in self.found]
        law = mixed([part.law for part in parts], shares[0])
        folds = mixed([part.folds for part in parts], shares[0])
        models = np.broadcast_to(law, (len(self.problem.plan.trains), *law.shape))  # every model above starts from it
        fitted = FittedLaw(law, folds, parts[0].factor)
        name = ", ".join(one.name for one in self.found)
        below = (models,) * self.problem.repeats
        return Calibrated(name, models, fitted, fits=self._fits(fitted), below=below)


def _fitted_on_split(problem: Problem, learner: MapLearner) -> Calibrated:
    """The law of one candidate map, and those of its refits without a block."""
    data, rows = problem.data, problem.calibration
    assert rows is not None  # noqa: S101 - a calibration split is at hand
    shared, refits, own = learner.shared(rows), [], np.empty(rows.score.shape)
    for kept in problem.blocks:
        refit, block = shared.fitted(rows.part(kept)), np.setdiff1d(np.arange(rows.codes.shape[0]), kept)
        refits.append(refit(data.score))
        own[block] = refit(rows.score[block])
    law = shared.fitted(rows)(data.score)
    models = np.broadcast_to(law, (len(problem.plan.trains), *law.shape))
    return Calibrated(learner.name, models, FittedLaw(law, np.stack(refits), (REFITS - 1) / REFITS), own)


#: A level of the finished chain: its name, its law, and how it was fitted (None for a law that was given).
Line = tuple[str, FloatArray, FittedLaw | None]


def fit_levels(problem: Problem, calibrated: Calibrated, most: int | None = None) -> list[Line]:
    """
    The laws above Ĉ (the first `most` of them), coarse to fine; each model starts from its own law below.

    They are fitted in each of the partitions that `calibrated` holds the models of.
    """
    if problem.partitions is None or problem.pooling is not None:
        plans = [problem.plan] * len(calibrated.below[:1])
    else:
        plans = [problem.partitions.plan(p) for p in range(min(len(calibrated.below), len(problem.partitions.home)))]
    found = [
        _fit_levels(replace(problem, plan=plan), base, p, most)
        for p, (plan, base) in enumerate(zip(plans, calibrated.below, strict=False))
    ]
    fitted: list[Line] = []
    for (name, law, first), *more in zip(*found, strict=True):
        again = tuple(other for _, _, other in more if other is not None)
        fitted.append((name, law, None if first is None else replace(first, again=again)))
    return fitted


def _fit_levels(problem: Problem, base: FloatArray, number_of_partition: int, most: int | None) -> list[Line]:
    """The levels in one partition."""
    fitted: list[Line] = []
    for number, level in enumerate(problem.levels[:most]):
        if isinstance(level, Given):
            law = level.law if problem.data.k > 2 or level.law.ndim == 1 else level.law[:, 1]
            base = np.broadcast_to(law, (len(problem.plan.trains), *law.shape))
            given = None if level.folds is None else FittedLaw(level.law, level.folds)
            fitted.append((level.name, level.law, given))
            continue
        if isinstance(level.known, Features):
            base = _stacked(problem, level, level.known, base, number, number_of_partition)
        else:
            base = _foreign(problem, level.name, level.known, number, number_of_partition)
        gathered = problem.plan.gather(base)
        fitted.append((level.name, gathered.law, gathered))
    return fitted


def _stacked(
    problem: Problem, level: Block, features: Features, base: FloatArray, number: int, partition: int
) -> FloatArray:
    """Members fitted by every model, then mixed by what they say out of sample of the rows the model may see."""
    data, plan = problem.data, problem.plan
    reference = level.reference or problem.reference

    def fit(model: int) -> FloatArray:
        rows = plan.trains[model]
        weight = None if data.weight is None else data.weight[rows]
        task = Task(features.part(rows), base[model][rows], data.codes[rows], weight, data.k)
        rng = np.random.default_rng([problem.seed, number, model, *([partition] if partition else [])])
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


def _foreign(problem: Problem, level: str, table: Table, number: int, partition: int) -> FloatArray:
    """A classifier of another maker, fitted by every model on the score and the features."""
    data, plan = problem.data, problem.plan

    def fit(model: int) -> FloatArray:
        rows = plan.trains[model]
        weight = None if data.weight is None else data.weight[rows]
        seed = (problem.seed, number, model, *([partition] if partition else []))
        fitted = fit_foreign(problem.reference, table.rows(rows), data.codes[rows], weight, seed)
        return foreign_law(fitted, table.all(), data.k, rows.size)

    return np.stack(list(run_all(fit, range(len(plan.trains)), problem.n_jobs, f"level {level}")))
