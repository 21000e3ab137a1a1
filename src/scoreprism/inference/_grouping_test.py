"""grouping_test: whether the score loses information of the features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from scoreprism._calibration_test.calibration_tests import TestResult
from scoreprism._core.checks import parse_choice, parse_count, parse_random_state, refuse
from scoreprism._core.resampling import draw_classes
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_matrix, one_hot
from scoreprism._core.workers import run_all
from scoreprism._fitting.chain_fit import ChainFit
from scoreprism._fitting.information import LevelTask
from scoreprism._fitting.parse_learners import Refinement
from scoreprism._fitting.score_basis import regress_out, score_basis
from scoreprism._kernels.term_intervals import tail
from scoreprism._learners.members import Task, mix_laws, observed_probabilities
from scoreprism._parameters import described
from scoreprism._sample.features import Features
from scoreprism._sample.level import FeatureBlock
from scoreprism._sample.sample import Sample
from scoreprism._sample.wide_columns import WideColumns
from scoreprism.references import StackedReference

#: Learners of the direction in which the features seem to matter, and of their gain, by whether these are embeddings.
DIRECTION = {False: ("polynomial", "offset-boosting"), True: ("probe", "neighbours")}
GAIN = {False: ("logistic",), True: ("probe",)}

_HYPOTHESIS = "the features add nothing to the score: P(Y | S, X) = P(Y | S)"


@described()
def grouping_test(
    y_true: ArrayLike | Sample,
    y_proba: ArrayLike | None = None,
    X: ArrayLike | None = None,
    *,
    method: str = "projected-covariance",
    n_resamples: int = 199,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    random_state: object = 0,
    n_jobs: int | None = None,
) -> TestResult:
    """
    Test whether the features say more about the outcome than the score does; the hypothesis is grouping = 0.

    ``"projected-covariance"`` (Lundborg et al.): on one half of the rows a direction h(S, X) is learned in which
    outcomes seem to depend on the features beyond the score; on the other half the covariance of Y and h, both cleared
    of what the score explains, is compared with its standard error. ``"bootstrap"`` uses all rows: the gain of a
    cross-fitted regression on the features over Ĉ, compared with its gain on outcomes drawn from Ĉ(S). More than 100
    columns of numbers are taken for embeddings, which have learners of their own (`StackedReference`).

    Parameters
    ----------
    X : array-like or frame of shape (n, p), optional
        Features; omit with a Sample.
    method : {"projected-covariance", "bootstrap"}, default="projected-covariance"
        Which test.
    n_resamples : int, default=199
        Draws of ``"bootstrap"``.
    random_state : int, Generator or None, default=0
        Seed of the halves and of the draws.
    n_jobs : int, optional
        Processes of ``"bootstrap"``.

    Returns
    -------
    TestResult
        Statistic (large values are evidence against the hypothesis) and one-sided p-value.

    Examples
    --------
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw().sample(2000, random_state=0)
    >>> grouping_test(y, X[:, 0], X, random_state=0).pvalue < 0.01
    True
    >>> grouping_test(y, q, X, random_state=0).pvalue < 0.01
    False
    """
    chosen = parse_choice(method, _METHODS, "method")
    rng = parse_random_state(random_state)
    sample = Sample.of(y_true, y_proba, X, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    blocks = [level for level in sample.levels if isinstance(level, FeatureBlock)]
    if not blocks:
        refuse("grouping_test must have `X`", "None", "Pass the features; calibration_test needs none.")
    gain = GAIN[isinstance(blocks[0].columns, WideColumns)]
    fit = ChainFit.of(sample, reference=StackedReference(gain), random_state=int(rng.integers(2**62)))
    count = parse_count(n_resamples, "n_resamples", 19)
    statistic, pvalue, draws = _METHODS[chosen](fit, rng, count, n_jobs)
    return TestResult(statistic, pvalue, chosen, _HYPOTHESIS, sample.n_held, draws, about="Grouping")


def _get_features(fit: ChainFit) -> Features:
    level = fit.levels[0]
    if not isinstance(level, LevelTask) or not isinstance(level.known, Features):
        refuse("`X` must be a table of features", type(level).__name__, "Pass columns, not probabilities.")
    return level.known


def _test_projected_covariance(
    fit: ChainFit, rng: np.random.Generator, _count: int, _n_jobs: int | None
) -> tuple[float, float, int]:
    """One split: learn a direction on half of the rows, test it on the others."""
    data, features = fit.rows, _get_features(fit)
    assert fit.partitions is not None  # noqa: S101 - folds are random
    rows = fit.partitions.held  # in a canonical order, so that halves do not depend on the order of the data
    order = rng.permutation(rows.size)
    learn, judge = rows[np.sort(order[: order.size // 2])], rows[np.sort(order[order.size // 2 :])]
    for rows in (learn, judge):
        if rows.size < 20 or np.unique(data.codes[rows]).size < 2:
            got = f"{rows.size} rows of {np.unique(data.codes[rows]).size} classes"
            refuse("each half of the rows must hold 20 of them and two classes", got, "Pass more rows.")
    h = _learn_direction(fit, features, learn, judge, rng)
    weight = np.ones(judge.size) if data.weight is None else data.weight[judge]
    basis = score_basis(data.score[judge])
    outcome = data.codes[judge, None] if data.k == 2 else one_hot(data.codes[judge], data.k)
    (left, reach), (right, _) = regress_out(outcome, basis, weight), regress_out(h, basis, weight)
    if np.abs(right).max() <= 1e-9 * (1.0 + np.abs(h).max()):  # the direction is a function of the score alone
        return 0.0, 0.5, 0
    product = weight * (left * right).sum(axis=1)
    error = float(np.sqrt(((product / np.maximum(1.0 - reach, 0.1)) ** 2).sum()))  # HC3: residuals are too small
    z = float(product.sum()) / error if error > 0.0 else 0.0
    return z, tail(z), 0


def _learn_direction(
    fit: ChainFit, features: Features, learn: IntArray, judge: IntArray, rng: np.random.Generator
) -> FloatArray:
    """What learners add to the calibrated score by the features, on rows they were not fitted on."""
    data = fit.rows
    map_ = fit.maps[0].fit(data.part(learn))
    weight = None if data.weight is None else data.weight[learn]
    task = Task(features.part(learn), map_(data.score[learn]), data.codes[learn], weight, data.k)
    base = map_(data.score[judge])
    laws = StackedReference(DIRECTION[features.is_wide]).fit_members(task, rng)(features.part(judge), base)
    added = mix_laws(laws, np.full(len(laws), 1.0 / len(laws))) - base
    spread = base * (1.0 - base)
    step: FloatArray = added / np.maximum(spread, 1e-3)  # roughly on the logit scale, so that rare classes count
    return step[:, None] if step.ndim == 1 else step


def _measure_gain(fit: ChainFit, codes: IntArray) -> float:
    """Cross-fitted gain of the features over Ĉ for given outcomes."""
    again = replace(fit, rows=replace(fit.rows, codes=codes), sample=replace(fit.sample, y=codes))
    fitted, _ = again.fit_score()
    law = again.fit_levels(fitted)[0].law
    gain = np.log(observed_probabilities([law], codes)[0] / observed_probabilities([fitted.fitted.law], codes)[0])
    return float(np.average(gain, weights=fit.rows.weight))


def _test_bootstrap(
    fit: ChainFit, rng: np.random.Generator, count: int, n_jobs: int | None
) -> tuple[float, float, int]:
    """Compare with outcomes drawn from Ĉ(S), to which features add nothing; one partition, as each draw is refitted."""
    assert fit.partitions is not None  # noqa: S101 - folds are random
    maps = [one for one in fit.maps if not isinstance(one, Refinement)]  # only maps that are fitted to rows
    fit = replace(fit, maps=maps, partitions=fit.partitions.first(1), repeats=1)
    data, mixture = fit.rows, fit.fit_score()[1].mixture
    assert mixture is not None  # noqa: S101 - just fitted
    share = mixture.shares.mean(axis=(0, 1))
    law = as_matrix(mix_laws([one.fit(data)(data.score) for one in maps], share))
    streams = rng.spawn(count)

    def draw(number: int) -> float:
        return _measure_gain(fit, draw_classes(streams[number], law))

    observed = _measure_gain(fit, data.codes)
    gains = np.array(list(run_all(draw, range(count), n_jobs, "grouping test")))
    return observed, float(1 + (gains >= observed).sum()) / (count + 1), count


_METHODS: dict[str, Callable[[ChainFit, np.random.Generator, int, int | None], Any]] = {
    "projected-covariance": _test_projected_covariance,
    "bootstrap": _test_bootstrap,
}
