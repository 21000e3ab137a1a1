"""One replicate of a pipeline: draw, refit, and measure every level of the chain on the test rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scoreprism._core.checks import parse_clip, refuse
from scoreprism._core.resampling import Streams
from scoreprism._core.simplex import FloatArray
from scoreprism._core.workers import one_thread
from scoreprism._fitting.candidates import ScoreLaw
from scoreprism._fitting.chain_fit import ChainFit
from scoreprism._fitting.information import LevelTask
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.level import Level
from scoreprism._sample.sample import Sample
from scoreprism.decomposition import Chain
from scoreprism.losses import ProperLoss
from scoreprism.pipelines._pipeline import (
    Accepts,
    Pipeline,
    draw,
    every_class,
    fit_estimator,
    labels_of,
    reseed,
    score_rows,
    two_of_each,
)

#: Streams of a replicate: what is drawn for one part does not depend on another.
_CALIBRATION, _TRAINING, _TEST, _BLOCKS, _SEEDS = range(5)


@dataclass(frozen=True)
class Setup:
    """A pipeline that is fitted, ready to be resampled: what travels to workers."""

    estimator: Any
    train: Sample | None  # only where the classifier is refitted
    calibration: Sample  # scored; without features where these are not needed again
    test: Sample  # the same, with the levels above C
    calibrator: object
    reference: object
    fit: ChainFit  # of the pipeline as it is
    losses: Mapping[str, ProperLoss]
    clip: float | None
    counts: str  # "rows" repeats training rows, "weights" passes counts as weights
    draws_test: bool  # whether test rows are drawn as well
    seed: int  # of all replicates

    @classmethod
    def of(cls, pipeline: Pipeline, seed: int) -> Setup:
        """The pipeline with its scores."""
        again = pipeline.refit == "all"
        calibration, test = (one if again else replace(one, X=None) for one in pipeline.scored(seed))
        reference = "auto" if pipeline.reference is None else pipeline.reference
        fit = _fit_of(calibration, test, pipeline.calibrator, reference, seed)
        if not two_of_each(calibration)(np.ones(calibration.n)):
            rule = "`calibration` must hold at least two rows of each class, and five rows or clusters"
            refuse(rule, f"{calibration.n} rows", "Use a larger split.")
        return cls(
            estimator=pipeline.estimator,
            train=pipeline.train if again else None,
            calibration=calibration,
            test=test,
            calibrator=pipeline.calibrator,
            reference=reference,
            fit=fit,
            losses=pipeline.losses,
            clip=parse_clip(pipeline.clip, test.k),
            counts=pipeline.counts,
            draws_test=pipeline.reference is None or pipeline.resample_test,
            seed=seed,
        )

    @property
    def stages(self) -> tuple[str, ...]:
        """What is drawn on top of what."""
        training = () if self.train is None else ("training",)
        return ("calibration", *training, *(("test",) if self.draws_test else ()))

    @property
    def fits_levels(self) -> bool:
        """Whether laws are fitted on the test rows themselves."""
        return any(isinstance(level, LevelTask) for level in self.fit.levels)

    def measure(self, chain: Chain) -> FloatArray:
        """
        For each loss the mean loss of every level, then the mean spread of every level above the prediction.

        Terms, gains and every form of rows are linear in these.
        """
        used, lines = chain.clipped(self.clip), []
        for loss in self.losses.values():
            losses = used.level_losses(loss)
            if np.isinf(losses[1:]).any():
                chain.decompose(loss, clip=self.clip)  # refuses it, and names the rows
            lines.append([used.sample.mean(line) for line in (*losses, *used.level_spreads(loss)[1:])])
        return np.array(lines)


@dataclass(frozen=True)
class Replicate:
    """Values of a replicate, (stages, losses, columns), and how many draws were thrown away for it."""

    number: int
    values: FloatArray
    redrawn: int


@dataclass(frozen=True)
class Replicates:
    """The replicates of a setup by number."""

    setup: Setup

    def __call__(self, number: int) -> Replicate:
        with quiet():
            return replicate(self.setup, number)


@contextmanager
def quiet() -> Iterator[None]:
    """
    One thread for linear algebra; and no warnings, which were given for the pipeline itself.

    How many threads a worker may use depends on the number of workers, and the last bits of a sum on the threads.
    """
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        yield


def replicate(setup: Setup, number: int) -> Replicate:
    """Draw and refit, stage by stage: calibration rows, then training rows as well, then test rows as well."""
    streams, accepts = Streams(setup.seed), two_of_each(setup.calibration)
    rng = streams(number, _CALIBRATION)
    counts, redrawn = draw(setup.calibration, "calibration", rng, accepts, "two rows of each class")
    blocks = int(streams(number, _BLOCKS).integers(2**62))
    fit = recalibrate(setup.fit, counts, blocks)
    laws = fit_laws(fit)
    values = [setup.measure(fit.link(*laws))]
    if setup.train is not None:
        fresh, thrown = _retrain(setup, setup.train, number)
        redrawn += thrown
        fit = recalibrate(fresh, counts, blocks)
        laws = fit_laws(fit)
        values.append(setup.measure(fit.link(*laws)))
    if setup.draws_test:
        tested, thrown = draw(setup.test, "test", streams(number, _TEST), _keeps_classes(setup), "all classes")
        redrawn += thrown
        fit = fit.reweight(tested)
        if setup.fits_levels:
            laws = laws[0], fit.fit_levels(laws[0])
        values.append(setup.measure(fit.link(*laws)))
    return Replicate(number, np.stack(values), redrawn)


def _fit_of(calibration: Sample, test: Sample, calibrator: object, reference: object, seed: int) -> ChainFit:
    """What `decompose` would fit for these scores of the calibration and the test rows."""
    return ChainFit.of(test, calibrator=calibrator, reference=reference, calibration=calibration, random_state=seed)


def fit_laws(fit: ChainFit) -> tuple[ScoreLaw, list[Level]]:
    """C and the levels above it."""
    score_law, _ = fit.fit_score()
    return score_law, fit.fit_levels(score_law)


def _keeps_classes(setup: Setup) -> Accepts:
    """Laws fitted on test rows need all classes in all training parts of their folds."""
    if not setup.fits_levels:
        return lambda _: True
    codes, k = setup.test.y, setup.test.k
    present = np.unique(codes)

    def accepts(counts: FloatArray) -> bool:
        parts = (np.bincount(codes[train], counts[train], k) for train in setup.fit.plan.trains)
        return all(bool((part[present] > 0).all()) for part in parts)

    return accepts


def recalibrate(fit: ChainFit, counts: FloatArray, seed: int) -> ChainFit:
    """
    The fit with resampled calibration rows: distinct ones with counts, so that copies share a block.

    Counts are weights as they are: Kish's effective number, which weights of a user are scaled to, would halve n.
    """
    rows, groups, held = fit.calibration, fit.calibration_groups, np.flatnonzero(counts)
    assert rows is not None  # noqa: S101 - a pipeline has them
    weight = counts[held] if rows.weight is None else counts[held] * rows.weight[held]
    drawn = FitRows(rows.score[held], rows.codes[held], weight, rows.k, rows.kind)
    return replace(fit, calibration=drawn, calibration_groups=None if groups is None else groups[held], seed=seed)


def _retrain(setup: Setup, train: Sample, number: int) -> tuple[ChainFit, int]:
    """The fit for the scores of a classifier trained on resampled rows, and draws thrown away."""
    streams = Streams(setup.seed)
    counts, thrown = draw(train, "train", streams(number, _TRAINING), every_class(train), "all classes")
    where = f" in replicate {number}"
    estimator = reseed(setup.estimator, streams(number, _SEEDS))
    if setup.counts == "weights":
        drawn = train.take(np.flatnonzero(counts))
        weight = counts[counts > 0] if drawn.weight is None else counts[counts > 0] * drawn.weight
    else:
        drawn = train.take(np.repeat(np.arange(train.n), counts.astype(np.intp)))
        weight = drawn.weight  # type: ignore[assignment]
    model = fit_estimator(estimator, drawn.X, labels_of(drawn), weight, where)
    calibration, test = (_rescore(one, model, where) for one in (setup.calibration, setup.test))
    return _fit_of(calibration, test, setup.calibrator, setup.reference, setup.fit.seed), thrown


def _rescore(sample: Sample, model: Any, where: str) -> Sample:
    assert sample.classes is not None  # noqa: S101 - those of the first model
    law = score_rows(model, sample.X, sample.classes, type(model).__name__, where)
    return replace(sample, predictions={sample.name: law})
