"""pipeline_bootstrap(): how far the terms of a whole pipeline move when its rows are drawn again (appendix C)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from scoreprism._core.checks import parse_count, parse_random_state
from scoreprism._core.simplex import ArrayLike
from scoreprism._core.workers import as_finished
from scoreprism._fitting.chain_fit import require_jobs
from scoreprism.losses import ProperLoss
from scoreprism.pipelines._asked import Asked, conclude
from scoreprism.pipelines._bootstrap_result import PipelineBootstrap
from scoreprism.pipelines._checkpoint import Checkpoint, Store, opened
from scoreprism.pipelines._replicates import Setup, Work, original


@overload
def pipeline_bootstrap(
    estimator: Any,
    calibrator: object,
    train: Any,
    calibration: Any,
    test: Any,
    *,
    refit: str = ...,
    n_resamples: int = ...,
    loss: str | ProperLoss = ...,
    reference: object = ...,
    q: ArrayLike | None = ...,
    groups: object = ...,
    resample: str = ...,
    resample_test: bool = ...,
    clip: float | None = ...,
    checkpoint: str | os.PathLike[str] | None = ...,
    random_state: object = ...,
    n_jobs: int | None = ...,
) -> PipelineBootstrap: ...
@overload
def pipeline_bootstrap(
    estimator: Any,
    calibrator: object,
    train: Any,
    calibration: Any,
    test: Any,
    *,
    refit: str = ...,
    n_resamples: int = ...,
    loss: list[str | ProperLoss] | list[str] | tuple[str | ProperLoss, ...],
    reference: object = ...,
    q: ArrayLike | None = ...,
    groups: object = ...,
    resample: str = ...,
    resample_test: bool = ...,
    clip: float | None = ...,
    checkpoint: str | os.PathLike[str] | None = ...,
    random_state: object = ...,
    n_jobs: int | None = ...,
) -> dict[str, PipelineBootstrap]: ...


def pipeline_bootstrap(
    estimator: Any,
    calibrator: object,
    train: Any,
    calibration: Any,
    test: Any,
    *,
    refit: str = "calibrator",
    n_resamples: int = 200,
    loss: str | ProperLoss | Sequence[str | ProperLoss] = "log",
    reference: object = None,
    q: ArrayLike | None = None,
    groups: object = None,
    resample: str = "auto",
    resample_test: bool = True,
    clip: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: object = None,
    n_jobs: int | None = None,
) -> PipelineBootstrap | dict[str, PipelineBootstrap]:
    """
    Bootstrap a pipeline: train a classifier, calibrate it on a second split, decompose its loss on a third.

    Every replicate draws rows with replacement, refits, and decomposes again, with the debiased estimate inside. Copies
    of a row share a block wherever the spread of the fitted map is measured, so that replicates centre on the estimate.

    Parameters
    ----------
    estimator : classifier
        Any classifier with ``predict_proba``, also a pipeline. If `train` is None, one that is fitted already: nothing
        but ``predict_proba`` and ``classes_`` is asked of it.
    calibrator : str, Calibrator or classifier
        How C is fitted, as in `decompose`; "auto" for the default.
    train, calibration, test : (X, y) or (X, y, sample_weight)
        The three splits, in arrays or frames. `train` may be None with ``refit="calibrator"``.
    refit : {"calibrator", "all"}, default="calibrator"
        "calibrator" keeps the classifier and resamples the calibration rows: uncertainty about *this* classifier.
        "all" resamples the training rows as well and fits both again: uncertainty about pipelines like this one.
    n_resamples : int, default=200
        Number of replicates. Replicate b does not depend on it.
    loss : str, ProperLoss or sequence of these, default="log"
        The loss. Several losses share the refits and give a mapping from loss to result.
    reference : None, str, StackedReference or classifier, default=None
        How Q = P(Y | S, X) is fitted on the test rows, as in `decompose`: adds grouping and irreducible loss, and
        the time of three such fits to every replicate. None leaves refinement as it is.
    q : array-like of shape (n_test,) or (n_test, K), optional
        The law P(Y | X) of the test rows, where it is known.
    groups : tuple of array-like, optional
        Clusters of the rows of train, calibration and test (None for single rows): drawn instead of rows.
    resample : {"auto", "rows", "weights"}, default="auto"
        How the classifier sees resampled rows: repeated, or once, with counts as weights. "auto" repeats them, except
        for classifiers that validate themselves on a part of their rows and take weights: copies would leak there.
    resample_test : bool, default=True
        Whether standard errors and intervals count the sampling of the test rows: True for statements about the
        population, False for statements about these test rows.
    clip : float, optional
        Keep all laws at least this far from 0; nothing is clipped unless asked for.
    checkpoint : path, optional
        A file that keeps finished replicates: a run that was interrupted, or is repeated with more replicates,
        continues from it with the same result. A file of another problem is refused: other rows, options, parameters
        or functions, or a classifier that scores calibration and test rows otherwise.
    random_state : int, Generator or None, default=None
        Seed. None draws one, and continues with that of the checkpoint.
    n_jobs : int, optional
        Processes, as in joblib, whose ``parallel_config`` chooses other backends. The result does not depend on it.

    Returns
    -------
    PipelineBootstrap, or dict of str to PipelineBootstrap
        Estimates, replicates, intervals. A mapping if `loss` is a sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from scoreprism.pipelines import pipeline_bootstrap
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1500, 1)) @ np.ones((1, 4)) + rng.normal(size=(1500, 4))  # naive Bayes is overconfident
    >>> y = (X[:, 0] + rng.logistic(size=1500) > 0).astype(int)
    >>> parts = [(X[i : i + 500], y[i : i + 500]) for i in (0, 500, 1000)]
    >>> result = pipeline_bootstrap(GaussianNB(), "platt", *parts, n_resamples=30, random_state=0)
    >>> result.advice[:19]
    'Recalibration pays:'
    """
    several = isinstance(loss, Sequence) and not isinstance(loss, str)
    count = parse_count(n_resamples, "n_resamples", 2)
    require_jobs(n_jobs)
    asked = Asked.of(
        estimator, calibrator, (train, calibration, test), refit, loss if several else [loss], reference, q, groups,
        resample, resample_test, clip,
    )  # fmt: skip
    seed = None if random_state is None else int(parse_random_state(random_state).integers(2**62))
    with opened(checkpoint, lambda: asked.identity, asked.digest_of_scores, seed) as store:
        setup, decompositions = asked.setup(store.seed)
        values = original(setup)
        store.require_shape((len(setup.stages), *values.shape))
        _run(setup, count, n_jobs, store)
    done = [store.done[b] for b in range(count)]
    drawn, redrawn = np.stack([one[0] for one in done]), sum(one[1] for one in done)
    results = {
        name: conclude(asked, setup, decompositions[name], values[i], drawn[:, :, i], redrawn)
        for i, name in enumerate(setup.losses)
    }
    return results if several else next(iter(results.values()))


def _run(setup: Setup, count: int, n_jobs: int | None, store: Store) -> None:
    """The replicates that are not there yet, stored as they finish."""
    missing = [b for b in range(count) if b not in store.done]

    def kept() -> str:
        finished = sum(b in store.done for b in range(count))
        where = "kept in the checkpoint" if isinstance(store, Checkpoint) else "lost: there is no checkpoint="
        return f"{finished} of {count} replicates were finished and are {where}"

    for one in as_finished(Work(setup), missing, n_jobs, "pipeline bootstrap", kept):
        store.add(one.number, one.values, one.redrawn)
