"""One replicate of a pipeline: draw, refit, and measure every level of the chain on the test rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.resampling import Streams
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._core.workers import one_thread
from scoreprism._fitting.candidates import Block, Calibrated, Line, Problem, calibrate, fit_levels
from scoreprism._fitting.chain_fit import Request, decomposed, parse
from scoreprism._fitting.resample import resampled
from scoreprism._sample.fit_rows import Data
from scoreprism.losses import ProperLoss
from scoreprism.pipelines._estimators import fit_estimator, reseeded, scored
from scoreprism.pipelines._material import Accepts, Part, draw, every_class, two_of_each

#: Streams of a replicate: what is drawn for one part does not depend on another.
_CALIBRATION, _TRAINING, _TEST, _BLOCKS, _SEEDS = range(5)


@dataclass(frozen=True)
class Chosen:
    """How laws are fitted, as `decompose` takes it."""

    calibrator: object
    reference: object
    q: Any
    classes: NDArray[Any]

    def problem(self, calibration: Part, test: Part, scores: tuple[FloatArray, FloatArray], seed: int) -> Problem:
        """What `decompose` would fit for these scores of the calibration and the test rows."""
        features = {} if self.reference is None else {"X": test.X, "reference": self.reference}
        request = Request(
            test.y,
            scores[1],
            calibrator=self.calibrator,
            calibration=(scores[0], calibration.y, calibration.weight),
            q=self.q,
            sample_weight=test.weight,
            groups=test.units if test.clustered else None,
            classes=self.classes,
            random_state=seed,
            **features,
        )
        parsed = parse(request)
        return replace(parsed, calibration_groups=calibration.units if calibration.clustered else None)


@dataclass(frozen=True)
class Setup:
    """A pipeline and its rows, ready to be resampled."""

    estimator: Any  # refitted only if there are training rows here
    train: Part | None  # rows; without features where these are not needed again
    calibration: Part  # rows; without features where these are not needed again
    test: Part  # rows; without features where these are not needed again
    chosen: Chosen  # how laws are fitted
    problem: Problem  # the pipeline as it is
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
        return any(isinstance(level, Block) for level in self.problem.levels)


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
    streams = Streams(setup.seed)
    rng = streams(number, _CALIBRATION)
    counts, redrawn = draw(setup.calibration, rng, two_of_each(setup.calibration), "two rows of each class")
    blocks = int(streams(number, _BLOCKS).integers(2**62))
    problem = _calibrated_on(setup.problem, counts, setup.calibration, blocks)
    laws = _fit(problem)
    values = [_means(problem, setup, laws)]
    if setup.train is not None:
        fresh, thrown = _retrained(setup, setup.train, number)
        redrawn += thrown
        problem = _calibrated_on(replace(fresh, plan=setup.problem.plan), counts, setup.calibration, blocks)
        laws = _fit(problem)
        values.append(_means(problem, setup, laws))
    if setup.judged:
        tested, thrown = draw(setup.test, streams(number, _TEST), _judges(setup), "all classes")
        redrawn += thrown
        problem = resampled(problem, tested)
        if setup.fits_levels:
            laws = laws[0], fit_levels(problem, laws[0])
        values.append(_means(problem, setup, laws))
    return Replicate(number, np.stack(values), redrawn)


def _judges(setup: Setup) -> Accepts:
    """Laws fitted on test rows need all classes in all training parts of their folds."""
    if not setup.fits_levels:
        return lambda _: True
    codes, k = setup.problem.data.codes, setup.problem.data.k
    present = np.unique(codes)

    def accepts(counts: FloatArray) -> bool:
        parts = (np.bincount(codes[train], counts[train], k) for train in setup.problem.plan.trains)
        return all(bool((part[present] > 0).all()) for part in parts)

    return accepts


def _calibrated_on(problem: Problem, counts: FloatArray, part: Part, seed: int) -> Problem:
    """
    The problem with resampled calibration rows: distinct ones with counts, so that copies share a block.

    Counts are weights as they are: Kish's effective number, which weights of a user are scaled to, would halve n.
    """
    data = problem.calibration
    assert data is not None  # noqa: S101 - a pipeline has one
    held: IntArray = np.flatnonzero(counts)
    weight = counts[held] if data.weight is None else counts[held] * data.weight[held]
    drawn = Data(data.score[held], data.codes[held], weight, data.k, data.kind)
    groups = np.unique(part.units[held], return_inverse=True)[1] if part.clustered else None
    return replace(problem, calibration=drawn, calibration_groups=groups, seed=seed)


def _retrained(setup: Setup, train: Part, number: int) -> tuple[Problem, int]:
    """The problem for the scores of a classifier trained on resampled rows, and draws thrown away."""
    streams = Streams(setup.seed)
    counts, thrown = draw(train, streams(number, _TRAINING), every_class(train), "all classes")
    where = f" in replicate {number}"
    estimator = reseeded(setup.estimator, streams(number, _SEEDS))
    if setup.counts == "weights":
        drawn = train.taken(np.flatnonzero(counts))
        weight = counts[counts > 0] if drawn.weight is None else counts[counts > 0] * drawn.weight
    else:
        drawn = train.taken(np.repeat(np.arange(train.n), counts.astype(np.intp)))
        weight = drawn.weight  # type: ignore[assignment]
    model = fit_estimator(estimator, drawn.X, drawn.y, weight, where)
    classes = setup.chosen.classes
    scores = scored(model, setup.calibration.X, classes, where), scored(model, setup.test.X, classes, where)
    return setup.chosen.problem(setup.calibration, setup.test, scores, setup.problem.seed), thrown


Laws = tuple[Calibrated, list[Line]]


def _fit(problem: Problem) -> Laws:
    winner = calibrate(problem, {}).winner
    return winner, fit_levels(problem, winner)


def _means(problem: Problem, setup: Setup, laws: Laws) -> FloatArray:
    """
    For each loss the mean loss of every level, then the mean spread of every level above the prediction.

    Terms, gains and every form of rows are linear in these.
    """
    lines = []
    for loss in setup.losses.values():
        result = decomposed(problem, *laws, loss, "debiased", setup.clip)
        columns = np.concatenate([result.level_losses, result.level_spreads[:, 1:]], axis=1)
        weight = problem.sheet.weight
        held = slice(None) if weight is None else weight > 0
        lines.append(np.average(columns[held], axis=0, weights=None if weight is None else weight[held]))
    return np.stack(lines)


def original(setup: Setup) -> FloatArray:
    """The values of the pipeline as it is."""
    with quiet():
        return _means(setup.problem, setup, _fit(setup.problem))
