"""One replicate of a pipeline: draw, refit, and measure every level of the chain on the test rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_clip, refuse
from scoreprism._core.resampling import Streams
from scoreprism._core.simplex import FloatArray
from scoreprism._core.workers import limit_threads
from scoreprism._fitting.candidates import FittedScore
from scoreprism._fitting.chain_fit import ChainFit
from scoreprism._fitting.information import LevelTask
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.level import Level
from scoreprism._sample.sample import Sample
from scoreprism.decomposition import Chain
from scoreprism.pipelines._pipeline import (
    Accepts,
    Pipeline,
    draw,
    fit_estimator,
    get_labels,
    make_class_check,
    make_pair_check,
    reseed,
    score_rows,
)

#: Streams of a replicate: the draws of one part do not depend on those of another.
_CALIBRATION, _TRAINING, _TEST, _BLOCKS, _SEEDS = range(5)


@dataclass(frozen=True)
class Setup:
    """A fitted pipeline, ready to be resampled, as it is sent to workers."""

    pipeline: Pipeline  # scored, without rows and features that are not needed again
    fit: ChainFit  # of the pipeline as it is
    seed: int  # of all replicates

    @classmethod
    def of(cls, pipeline: Pipeline, seed: int) -> Setup:
        """The pipeline with its scores."""
        again = pipeline.refit == "all"
        calibration, test = (one if again else replace(one, X=None) for one in pipeline.score_samples(seed))
        train, clip = pipeline.train if again else None, parse_clip(pipeline.clip, test.k)
        lean = replace(pipeline, train=train, calibration=calibration, test=test, q=None, clip=clip)
        fit = _fit_scores(lean, calibration, test, seed)
        if not make_pair_check(calibration)(np.ones(calibration.n)):
            rule = "`calibration` must hold at least two rows of each class, and five rows or clusters"
            refuse(rule, f"{calibration.n} rows", "Use a larger split.")
        return cls(lean, fit, seed)

    @property
    def draws_test(self) -> bool:
        """Whether test rows are drawn as well."""
        return self.pipeline.reference is None or self.pipeline.resample_test

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages of resampling, each on top of the one before."""
        training = () if self.pipeline.train is None else ("training",)
        return ("calibration", *training, *(("test",) if self.draws_test else ()))

    @property
    def fits_levels(self) -> bool:
        """Whether levels are fitted on the test rows themselves."""
        return any(isinstance(level, LevelTask) for level in self.fit.levels)

    def measure(self, chain: Chain) -> FloatArray:
        """For each loss the means in which terms and gains are linear: losses of levels, spreads above the first."""
        clip = self.pipeline.clip
        used, lines = chain.clip_at(clip), []
        for loss in self.pipeline.losses.values():
            losses = used._losses(loss)
            if np.isinf(losses[1:]).any():
                chain.decompose(loss, clip=clip)  # refuses it, and names the rows
            lines.append([used.sample.mean(line) for line in (*losses, *used._spreads(loss)[1:])])
        return np.array(lines)


@contextmanager
def silence() -> Iterator[None]:
    """Use one thread, as last bits of sums depend on their number, and no warnings, which the pipeline has issued."""
    with warnings.catch_warnings(), limit_threads():
        warnings.simplefilter("ignore")
        yield


@silence()
def replicate(setup: Setup, number: int) -> tuple[int, FloatArray, int]:
    """Run one replicate; returns its number, values (stages, losses, columns) and the number of rejected draws."""
    streams, calibration, train = Streams(setup.seed), setup.pipeline.calibration, setup.pipeline.train
    accepts, rng = make_pair_check(calibration), streams(number, _CALIBRATION)
    counts, redrawn = draw(calibration, "calibration", rng, accepts, "two rows of each class")
    blocks = int(streams(number, _BLOCKS).integers(2**62))
    fit = recalibrate(setup.fit, counts, blocks)
    laws = fit_laws(fit)
    values = [setup.measure(fit.link(*laws))]
    if train is not None:
        fresh, thrown = _retrain(setup, train, number)
        redrawn += thrown
        fit = recalibrate(fresh, counts, blocks)
        laws = fit_laws(fit)
        values.append(setup.measure(fit.link(*laws)))
    if setup.draws_test:
        tested, thrown = draw(setup.pipeline.test, "test", streams(number, _TEST), _keeps_classes(setup), "all classes")
        redrawn += thrown
        fit = fit.reweight(tested)
        if setup.fits_levels:
            laws = laws[0], fit.fit_levels(laws[0])
        values.append(setup.measure(fit.link(*laws)))
    return number, np.stack(values), redrawn


def _fit_scores(pipeline: Pipeline, calibration: Sample, test: Sample, seed: int) -> ChainFit:
    """The fit that `decompose` would make for these scores of the calibration and the test rows."""
    maps, reference = pipeline.calibrator, "auto" if pipeline.reference is None else pipeline.reference
    return ChainFit.of(test, calibrator=maps, reference=reference, calibration=calibration, random_state=seed)


def fit_laws(fit: ChainFit) -> tuple[FittedScore, list[Level]]:
    """C and the levels above it."""
    score_law, _ = fit.fit_score()
    return score_law, fit.fit_levels(score_law)


def _keeps_classes(setup: Setup) -> Accepts:
    """A check that all training parts of the folds have all classes, for laws fitted on test rows."""
    if not setup.fits_levels:
        return lambda _: True
    codes, k = setup.pipeline.test.y, setup.pipeline.test.k
    present = np.unique(codes)

    def accepts(counts: FloatArray) -> bool:
        parts = (np.bincount(codes[train], counts[train], k) for train in setup.fit.plan.trains)
        return all(bool((part[present] > 0).all()) for part in parts)

    return accepts


def recalibrate(fit: ChainFit, counts: FloatArray, seed: int) -> ChainFit:
    """The fit with resampled calibration rows: distinct rows with counts, so that copies share a block."""
    # counts are not rescaled: Kish's effective number, to which users' weights are scaled, would halve n
    rows, groups, used = fit.calibration, fit.calibration_groups, np.flatnonzero(counts)
    assert rows is not None  # noqa: S101 - a pipeline has them
    weight = counts[used] if rows.weight is None else counts[used] * rows.weight[used]
    resampled = FitRows(rows.score[used], rows.codes[used], weight, rows.k, rows.kind)
    return replace(fit, calibration=resampled, calibration_groups=None if groups is None else groups[used], seed=seed)


def _retrain(setup: Setup, train: Sample, number: int) -> tuple[ChainFit, int]:
    """The fit for the scores of a classifier trained on resampled rows, and the number of rejected draws."""
    streams, pipeline = Streams(setup.seed), setup.pipeline
    counts, thrown = draw(train, "train", streams(number, _TRAINING), make_class_check(train), "all classes")
    where = f" in replicate {number}"
    estimator = reseed(pipeline.estimator, streams(number, _SEEDS))
    if pipeline.counts == "weights":
        drawn = train.take(np.flatnonzero(counts))
        weight = counts[counts > 0] if drawn.weight is None else counts[counts > 0] * drawn.weight
    else:
        drawn = train.take(np.repeat(np.arange(train.n), counts.astype(np.intp)))
        weight = drawn.weight  # type: ignore[assignment]
    model = fit_estimator(estimator, drawn.X, get_labels(drawn), weight, where)
    calibration, test = (_rescore(one, model, where) for one in (pipeline.calibration, pipeline.test))
    return _fit_scores(pipeline, calibration, test, setup.fit.seed), thrown


def _rescore(sample: Sample, model: Any, where: str) -> Sample:
    assert sample.classes is not None  # noqa: S101 - those of the first model
    law = score_rows(model, sample.X, sample.classes, type(model).__name__, where)
    return replace(sample, predictions={sample.name: law})
