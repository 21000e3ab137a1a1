"""Levels above C: what features add to the score, level by level, each fitted model starting from its law below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._core.workers import count_workers, run_all
from scoreprism._fitting.candidates import FittedScore, keep_from_certainty
from scoreprism._fitting.crossfit import FittedLaw
from scoreprism._fitting.fitted_laws import LevelFits
from scoreprism._fitting.parse_learners import fit_foreign
from scoreprism._learners.members import (
    Task,
    can_boost_ahead,
    find_mixing_weights,
    mix_laws,
    observed_probabilities,
    predict_foreign,
)
from scoreprism._sample.embeddings import FeatureEncoder
from scoreprism._sample.features import Features, JoinedFeatures, join_blocks, score_columns
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.level import FeatureBlock, Level
from scoreprism._sample.sample import Sample
from scoreprism._sample.wide_columns import WideColumns

if TYPE_CHECKING:
    from scoreprism._fitting.chain_fit import ChainFit


@dataclass(frozen=True)
class LevelTask:
    """A level to be fitted: everything known at it, the score and all coarser blocks included."""

    name: str
    known: Features | JoinedFeatures  # encoded for our own learners, as it came for classifiers from other libraries
    reference: Any = None  # a stack for this level alone; None for the reference of the fit


def make_tasks(sample: Sample, rows: FitRows, *, own: bool) -> list[Level | LevelTask]:
    """The levels above C: given laws unchanged, features as tasks that also know the score and all coarser features."""
    tasks: list[Level | LevelTask] = []
    blocks: list[FeatureBlock] = []
    features: Features | None = None
    weighted = slice(None) if sample.weight is None else sample.weight > 0  # rows that no split tests have weight 0
    for level in sample.levels:
        if isinstance(level, Level):
            tasks.append(level)
            continue
        first = [] if blocks else score_columns(rows.score)
        new = _drop_known(level.columns, blocks)
        blocks.append(level)
        if own and (first or new):
            encoded = FeatureEncoder.fit(new, first, weighted)(new, first)
            features = encoded if features is None else features.beside(encoded)
        known: Any = features
        if not own:
            known = join_blocks([block.table for block in blocks], [block.columns for block in blocks], rows.score)
        tasks.append(LevelTask(level.name, known))
    return tasks


def _drop_known(columns: Sequence[NDArray[Any]], blocks: Sequence[FeatureBlock]) -> Sequence[NDArray[Any]]:
    """The columns that no coarser block has; of embeddings all, to which a column more or less is nothing."""
    if isinstance(columns, WideColumns):
        return columns
    known = [column for block in blocks for column in block.columns]
    return [column for column in columns if not any(_are_equal(column, other) for other in known)]


def _are_equal(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype.kind == b.dtype.kind and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def fit_levels(fit: ChainFit, score_law: FittedScore, most: int | None = None) -> list[Level]:
    """
    The laws above Ĉ (the first `most` of them), coarse to fine; each model starts from its own law below.

    They are fitted in each of the partitions that `score_law` holds the models of.
    """
    by_partition = [
        _fit_in_partition(replace(fit, plan=plan), base, p, most)
        for p, (plan, base) in enumerate(zip(fit.plans, score_law.below, strict=True))
    ]
    levels = []
    for level, *laws in zip(fit.levels[:most], *by_partition, strict=True):
        parts = [law for law in laws if law is not None]
        if not parts:
            levels.append(level)  # passed by the user without fold models
            continue
        fits, first = fits_above(fit, score_law, parts), parts[0]  # `law` and `folds` show the first partition
        if isinstance(level, Level):
            levels.append(level.change(fits=fits))
        else:
            levels.append(Level.of(level.name, first.law, folds=first.folds, factor=first.factor, fits=fits))
    return levels


def fits_above(fit: ChainFit, score_law: FittedScore, parts: Sequence[FittedLaw]) -> LevelFits | None:
    """How a level above C was fitted, in the partitions of the fit; None where rows are sums."""
    if fit.pooling is not None:
        return None
    if fit.calibration is not None:
        below = [score_law.fitted.law] * len(parts)
    else:
        below = [plan.gather(models).law for plan, models in zip(fit.plans, score_law.below, strict=True)]
    return LevelFits(score_law.fits, below, parts)


def _fit_in_partition(fit: ChainFit, base: FloatArray, partition: int, most: int | None) -> list[FittedLaw | None]:
    """The laws of the levels in one partition; None for a law passed without fold models."""
    fitted: list[FittedLaw | None] = []
    for number, level in enumerate(fit.levels[:most]):
        if isinstance(level, Level):
            law = level.law if fit.rows.k > 2 or level.law.ndim == 1 else level.law[:, 1]
            base = np.broadcast_to(law, (len(fit.plan.trains), *law.shape))
            fitted.append(None if level.folds is None else FittedLaw(level.law, level.folds))
            continue
        base = _fit_models(fit, level, base, number, partition)
        fitted.append(fit.plan.gather(base))
    return fitted


def _fit_models(fit: ChainFit, level: LevelTask, base: FloatArray, number: int, partition: int) -> FloatArray:
    """
    The law of every model on every row.

    A classifier from another library is fitted on the score and the features. Members of a stack start from the law
    below, and are mixed by their predictions, out of sample, of the rows that the model may see.
    """
    data, plan, known = fit.rows, fit.plan, level.known
    reference = level.reference or fit.reference

    def make_task(features: Features, model: int) -> Task:
        rows = plan.trains[model]
        return Task(features.part(rows), base[model][rows], data.codes[rows], _weigh(data, rows), data.k)

    def fit_model(model: int) -> FloatArray:
        seed = (fit.seed, number, model, *([partition] if partition else []))
        if isinstance(known, JoinedFeatures):
            rows = plan.trains[model]
            fitted = fit_foreign(reference, known.rows(rows), data.codes[rows], _weigh(data, rows), seed)
            return predict_foreign(fitted, known.all(), data.k, rows.size)
        task = tasks[model] if tasks else make_task(known, model)
        return np.stack(reference.fit_members(task, np.random.default_rng(seed))(known, base[model]))

    count, tasks = len(plan.trains), []
    if isinstance(known, Features) and count_workers(fit.n_jobs) == 1 and can_boost_ahead(known, count, data.k):
        tasks = [make_task(known, model) for model in range(count)]
        reference.boost_ahead(tasks)
    laws = list(run_all(fit_model, range(len(plan.trains)), fit.n_jobs, f"level {level.name}"))
    if isinstance(known, JoinedFeatures):
        return np.stack(laws)
    hits = np.stack([observed_probabilities(list(members), data.codes) for members in laws])
    out = np.empty(base.shape)
    for model, (rows, models) in enumerate(plan.mixing):
        share = find_mixing_weights(hits[models, :, rows].T, _weigh(data, rows))
        out[model] = keep_from_certainty(mix_laws(laws[model], share), data, plan.trains[model])
    return out


def _weigh(data: FitRows, rows: IntArray) -> FloatArray | None:
    return None if data.weight is None else data.weight[rows]
