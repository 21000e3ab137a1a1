"""One replicate of a pipeline: draw, refit, and measure every level of the chain on the test rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._core.workers import one_thread
from scoreprism._fitting.candidates import ScoreLaw
from scoreprism._fitting.chain_fit import ChainFit
from scoreprism._fitting.information import LevelTask
from scoreprism._sample.fit_rows import Data
from scoreprism._sample.level import Level
from scoreprism._sample.sample import Sample
from scoreprism.losses import ProperLoss
from scoreprism.pipelines._estimators import fit_estimator, reseeded, scored
from scoreprism.pipelines._material import Accepts, Part, draw, every_class, two_of_each

#: Streams of a replicate: what is drawn for one part does not depend on another.
_CALIBRATION, _TRAINING, _TEST, _BLOCKS, _SEEDS = range(5)


def stream(seed: int, replicate: int, what: int) -> np.random.Generator:
    """The random numbers of one part of one replicate."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(replicate, what)))


@dataclass(frozen=True)
class Chosen:
    """How laws are fitted, as `decompose` takes it."""

    calibrator: object
    reference: object
    q: Any
    classes: NDArray[Any]

    def fit(self, calibration: Part, test: Part, scores: tuple[FloatArray, FloatArray], seed: int) -> ChainFit:
        """What `decompose` would fit for these scores of the calibration and the test rows."""
        sample = Sample.of(
            test.y,
            scores[1],
            None if self.reference is None else test.X,
            q=self.q,
            sample_weight=test.weight,
            groups=test.units if test.clustered else None,
            classes=self.classes,
        )
        fit = ChainFit.of(
            sample,
            calibrator=self.calibrator,
            reference="auto" if self.reference is None else self.reference,
            calibration=(scores[0], calibration.y, calibration.weight),
            classes=self.classes,
            random_state=seed,
        )
        return replace(fit, calibration_groups=calibration.units if calibration.clustered else None)


@dataclass(frozen=True)
class Setup:
    """A pipeline and its rows, ready to be resampled."""

    estimator: Any  # refitted only if there are training rows here
    train: Part | None  # rows; without features where these are not needed again
    calibration: Part  # rows; without features where these are not needed again
    test: Part  # rows; without features where these are not needed again
    chosen: Chosen  # how laws are fitted
    fit: ChainFit  # the pipeline as it is
    losses: Mapping[str, ProperLoss]  # losses
    clip: float | None  # clipping distance
    counts: str  # "rows" repeats training rows, "weights" passes counts as weights
    judged: bool  # whether test rows are drawn as well
    seed: int  # seed of all replicates

    @property
    def stages(self) -> tuple[str, ...]:
        """What is drawn on top of what."""
        training = () if self.train is None else ("training",)
        return ("calibration", *training, *(("test",) if self.judged else ()))

    @property
    def fits_levels(self) -> bool:
        """Whether laws are fitted on the test rows themselves."""
        return any(isinstance(level, LevelTask) for level in self.fit.levels)


@dataclass(frozen=True)
class Replicate:
    """Values of a replicate, (stages, losses, columns), and how many draws were thrown away for it."""

    number: int
    values: FloatArray
    redrawn: int


@dataclass(frozen=True)
class Work:
    """The replicates of a setup by number: what travels to workers."""

    setup: Setup

    def __call__(self, number: int) -> Replicate:
        with quiet():
            return replicate(self.setup, number)


@contextmanager
def quiet(*, warn: bool = False) -> Iterator[None]:
    """
    One thread for linear algebra; and no warnings, which were given for the pipeline itself.

    How many threads a worker may use depends on the number of workers, and the last bits of a sum on the threads.
    """
    with warnings.catch_warnings(), one_thread():
        if not warn:
            warnings.simplefilter("ignore")
        yield


def replicate(setup: Setup, number: int) -> Replicate:
    """Draw and refit, stage by stage: calibration rows, then training rows as well, then test rows as well."""
    rng = stream(setup.seed, number, _CALIBRATION)
    counts, redrawn = draw(setup.calibration, rng, two_of_each(setup.calibration), "two rows of each class")
    blocks = int(stream(setup.seed, number, _BLOCKS).integers(2**62))
    fit = _calibrated_on(setup.fit, counts, setup.calibration, blocks)
    laws = _fit(fit)
    values = [_means(fit, setup, laws)]
    if setup.train is not None:
        fresh, thrown = _retrained(setup, setup.train, number)
        redrawn += thrown
        fit = _calibrated_on(fresh, counts, setup.calibration, blocks)
        laws = _fit(fit)
        values.append(_means(fit, setup, laws))
    if setup.judged:
        tested, thrown = draw(setup.test, stream(setup.seed, number, _TEST), _judges(setup), "all classes")
        redrawn += thrown
        fit = fit.reweight(tested)
        if setup.fits_levels:
            laws = laws[0], fit.fit_levels(laws[0])
        values.append(_means(fit, setup, laws))
    return Replicate(number, np.stack(values), redrawn)


def _judges(setup: Setup) -> Accepts:
    """Laws fitted on test rows need all classes in all training parts of their folds."""
    if not setup.fits_levels:
        return lambda _: True
    codes, k = setup.fit.rows.codes, setup.fit.rows.k
    present = np.unique(codes)

    def accepts(counts: FloatArray) -> bool:
        parts = (np.bincount(codes[train], counts[train], k) for train in setup.fit.plan.trains)
        return all(bool((part[present] > 0).all()) for part in parts)

    return accepts


def _calibrated_on(fit: ChainFit, counts: FloatArray, part: Part, seed: int) -> ChainFit:
    """
    The fit with resampled calibration rows: distinct ones with counts, so that copies share a block.

    Counts are weights as they are: Kish's effective number, which weights of a user are scaled to, would halve n.
    """
    data = fit.calibration
    assert data is not None  # noqa: S101 - a pipeline has one
    held: IntArray = np.flatnonzero(counts)
    weight = counts[held] if data.weight is None else counts[held] * data.weight[held]
    drawn = Data(data.score[held], data.codes[held], weight, data.k, data.kind)
    groups = np.unique(part.units[held], return_inverse=True)[1] if part.clustered else None
    return replace(fit, calibration=drawn, calibration_groups=groups, seed=seed)


def _retrained(setup: Setup, train: Part, number: int) -> tuple[ChainFit, int]:
    """The fit for the scores of a classifier trained on resampled rows, and draws thrown away."""
    counts, thrown = draw(train, stream(setup.seed, number, _TRAINING), every_class(train), "all classes")
    where = f" in replicate {number}"
    estimator = reseeded(setup.estimator, stream(setup.seed, number, _SEEDS))
    if setup.counts == "weights":
        drawn = train.taken(np.flatnonzero(counts))
        weight = counts[counts > 0] if drawn.weight is None else counts[counts > 0] * drawn.weight
    else:
        drawn = train.taken(np.repeat(np.arange(train.n), counts.astype(np.intp)))
        weight = drawn.weight  # type: ignore[assignment]
    model = fit_estimator(estimator, drawn.X, drawn.y, weight, where)
    classes = setup.chosen.classes
    scores = scored(model, setup.calibration.X, classes, where), scored(model, setup.test.X, classes, where)
    return setup.chosen.fit(setup.calibration, setup.test, scores, setup.fit.seed), thrown


Laws = tuple[ScoreLaw, list[Level]]


def _fit(fit: ChainFit) -> Laws:
    score_law, _ = fit.fit_score()
    return score_law, fit.fit_levels(score_law)


def _means(fit: ChainFit, setup: Setup, laws: Laws) -> FloatArray:
    """
    For each loss the mean loss of every level, then the mean spread of every level above the prediction.

    Terms, gains and every form of rows are linear in these.
    """
    chain, lines = fit.link(*laws), []
    for loss in setup.losses.values():
        result = chain.decompose(loss, clip=setup.clip)
        columns = (*result.level_losses.T, *result.level_spreads.T[1:])
        lines.append([chain.sample.mean(column) for column in columns])
    return np.array(lines)


def original(setup: Setup) -> FloatArray:
    """The values of the pipeline as it is."""
    with quiet():
        return _means(setup.fit, setup, _fit(setup.fit))
