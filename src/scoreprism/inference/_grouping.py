"""grouping_test: does the score lose information that is in the features?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scoreprism._calibration_test.calibration_test import TestResult
from scoreprism._core.checks import parse_choice, parse_count, parse_random_state, refuse
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, as_matrix, one_hot
from scoreprism._core.workers import run_all
from scoreprism._fitting.candidates import Block, Problem, calibrate, fit_levels
from scoreprism._fitting.chain_fit import Request, parse
from scoreprism._fitting.learners import ShiftLearner
from scoreprism._learners.members import Task, hit_rows, mixed, to_eta
from scoreprism._sample.features import Features
from scoreprism.decomposition._intervals import tail
from scoreprism.references._stack import StackedReference

#: Learners of the direction in which the features are said to matter.
DIRECTION = ("polynomial", "offset-boosting")
#: Distinct scores up to which each has a mean of its own.
_DISTINCT = 20

_HYPOTHESIS = "the features add nothing to the score: P(Y | S, X) = P(Y | S)"


def grouping_test(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    X: ArrayLike,
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
    Test whether the features know something of the outcome that the score does not: grouping = 0.

    ``"projected-covariance"`` (Lundborg et al.): on one half of the rows a direction h(S, X) is learned in which
    outcomes seem to depend on the features beyond the score; on the other half the covariance of Y and h, both freed
    of what the score explains, is compared with its standard error. ``"bootstrap"`` uses all rows: the gain of a
    cross-fitted regression on the features over Ĉ, beside the same from outcomes drawn from Ĉ(S).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : array-like of shape (n,) or (n, K)
        Predicted probabilities.
    X : array-like or frame of shape (n, p)
        Features.
    method : {"projected-covariance", "bootstrap"}, default="projected-covariance"
        Which test.
    n_resamples : int, default=199
        Draws of ``"bootstrap"``.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.
    random_state : int, Generator or None, default=0
        Seed of the halves and of the draws.
    n_jobs : int, optional
        Processes of ``"bootstrap"``.

    Returns
    -------
    TestResult
        Statistic (large values speak against the hypothesis) and one-sided p-value.

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
    if X is None:
        refuse("grouping_test must have `X`", "None", "Pass the features; calibration_test needs none.")
    rng = parse_random_state(random_state)
    request = Request(
        y_true, y_proba, X, reference=StackedReference(("logistic",)), sample_weight=sample_weight,
        pos_label=pos_label, classes=classes, random_state=int(rng.integers(2**62)),
    )  # fmt: skip
    problem = parse(request)
    count = parse_count(n_resamples, "n_resamples", 19)
    statistic, pvalue, draws = _METHODS[chosen](problem, rng, count, n_jobs)
    held = problem.sheet.n if problem.data.weight is None else int(np.count_nonzero(problem.data.weight))
    return TestResult(statistic, pvalue, chosen, _HYPOTHESIS, held, draws, about="Grouping")


def _features(problem: Problem) -> Features:
    level = problem.levels[0]
    if not isinstance(level, Block) or not isinstance(level.known, Features):
        refuse("`X` must be a table of features", type(level).__name__, "Pass columns, not laws.")
    return level.known


def _projected_covariance(
    problem: Problem, rng: np.random.Generator, _count: int, _n_jobs: int | None
) -> tuple[float, float, int]:
    """One split: learn a direction on half of the rows, test it on the others."""
    data, features = problem.data, _features(problem)
    assert problem.partitions is not None  # noqa: S101 - folds are random
    held = problem.partitions.held  # in an order of their own: halves belong to rows, not to their places
    order = rng.permutation(held.size)
    learn, judge = held[np.sort(order[: order.size // 2])], held[np.sort(order[order.size // 2 :])]
    for rows in (learn, judge):
        if rows.size < 20 or np.unique(data.codes[rows]).size < 2:
            found = f"{rows.size} rows of {np.unique(data.codes[rows]).size} classes"
            refuse("each half of the rows must hold 20 of them and two classes", found, "Pass more rows.")
    h = _direction(problem, features, learn, judge, rng)
    weight = np.ones(judge.size) if data.weight is None else data.weight[judge]
    basis = score_basis(data.score[judge])
    outcome = data.codes[judge, None] if data.k == 2 else one_hot(data.codes[judge], data.k)
    (left, reach), (right, _) = freed(outcome, basis, weight), freed(h, basis, weight)
    if np.abs(right).max() <= 1e-9 * (1.0 + np.abs(h).max()):  # the direction is a function of the score alone
        return 0.0, 0.5, 0
    product = weight * (left * right).sum(axis=1)
    error = float(np.sqrt(((product / np.maximum(1.0 - reach, 0.1)) ** 2).sum()))  # HC3: residuals are too small
    z = float(product.sum()) / error if error > 0.0 else 0.0
    return z, tail(z), 0


def _direction(
    problem: Problem, features: Features, learn: IntArray, judge: IntArray, rng: np.random.Generator
) -> FloatArray:
    """What learners that start from the calibrated score add to it, by features, on rows they have not seen."""
    data = problem.data
    map_ = problem.maps[0].fitted(data.part(learn))
    weight = None if data.weight is None else data.weight[learn]
    task = Task(features.part(learn), map_(data.score[learn]), data.codes[learn], weight, data.k)
    base = map_(data.score[judge])
    laws = StackedReference(DIRECTION).fit_members(task, rng)(features.part(judge), base)
    added = mixed(laws, np.full(len(laws), 1.0 / len(laws))) - base
    spread = base * (1.0 - base)
    step: FloatArray = added / np.maximum(spread, 1e-3)  # as if on the scale of logits: rare classes count as well
    return step[:, None] if step.ndim == 1 else step


def score_basis(score: FloatArray) -> FloatArray:
    """Functions of the score that outcomes and directions are freed of: means of few scores, cubic splines of many."""
    if score.ndim == 1:
        return _curves(score, int(2.0 * np.sqrt(score.size)))
    n, k = score.shape
    if n < 10 * k:
        found = f"{n} rows for {k} classes"
        refuse("each half of the rows must hold ten rows for each class", found, "Pass more rows, or merge classes.")
    eta = to_eta(score)
    columns = list(eta.T[1:] - eta.T[0])
    joint = _products(score[:, 1:], n // 40)  # a map of several probabilities is not a sum of maps of each
    knots = int(min(np.sqrt(n), (n / 10 - 1 - joint.shape[1]) / (k - 1) - 3))  # a tenth of the rows in all
    if knots < 1:
        return np.column_stack([np.ones(n), *columns, joint])
    first, *others = (_curves(x, knots) for x in columns)
    return np.column_stack([first, *(part[:, 1:] for part in others), joint])


def _products(columns: FloatArray, most: int) -> FloatArray:
    """Polynomials in the columns, degree by degree as long as there is room for all of one."""
    found, last = [columns], [(columns[:, j], j) for j in range(columns.shape[1])]
    while True:
        following = [(part * columns[:, j], j) for part, i in last for j in range(i, columns.shape[1])]
        if sum(part.shape[1] for part in found) + len(following) > most:
            return np.concatenate(found, axis=1)
        found.append(np.stack([part for part, _ in following], axis=1))
        last = following


def _curves(x: FloatArray, knots: int) -> FloatArray:
    """Means of few values; cubic B-splines in the ranks of many: a map may bend anywhere."""
    from scipy.interpolate import BSpline
    from scipy.stats import rankdata

    values, inverse = np.unique(x, return_inverse=True)
    if values.size <= max(_DISTINCT, knots):
        return np.eye(values.size)[inverse]
    rank = (rankdata(x) - 0.5) / x.size
    t = np.concatenate([[0.0] * 3, np.linspace(0.0, 1.0, knots + 1), [1.0] * 3])
    basis = BSpline.design_matrix(rank, t, 3).toarray()
    return np.asarray(basis[:, basis.any(axis=0)])


def freed(values: FloatArray | IntArray, basis: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Residuals of a weighted regression on the basis, and the leverage of every row."""
    root = np.sqrt(weight)[:, None]
    frame, size, _ = np.linalg.svd(basis * root, full_matrices=False)
    frame = frame[:, size > 1e-10 * size[0]]
    left = values * root - frame @ (frame.T @ (values * root))
    return np.asarray(left / root), np.asarray((frame**2).sum(axis=1))


@dataclass(frozen=True)
class _Gain:
    """Gain of the features over Ĉ, cross-fitted, for outcomes of one's own."""

    problem: Problem

    def __call__(self, codes: IntArray) -> float:
        again = replace(self.problem, data=replace(self.problem.data, codes=codes))
        again = replace(again, sheet=replace(again.sheet, y=codes))
        fitted = calibrate(again, {}).winner
        law = fit_levels(again, fitted)[0][1]
        gain = np.log(hit_rows([law], codes)[0] / hit_rows([fitted.fitted.law], codes)[0])
        return float(np.average(gain, weights=self.problem.data.weight))


def _bootstrap(problem: Problem, rng: np.random.Generator, count: int, n_jobs: int | None) -> tuple[float, float, int]:
    """Outcomes drawn from Ĉ(S), to which features add nothing; in one partition, as every draw is fitted anew."""
    assert problem.partitions is not None  # noqa: S101 - folds are random
    maps = [one for one in problem.maps if not isinstance(one, ShiftLearner)]  # those that are fitted to rows alone
    problem = replace(problem, maps=maps, partitions=problem.partitions.first(1), repeats=1)
    data, share = problem.data, calibrate(problem, {}).shares.mean(axis=(0, 1))
    law = as_matrix(mixed([one.fitted(data)(data.score) for one in maps], share))
    gain = _Gain(problem)
    seeds = rng.spawn(count)

    def draw(number: int) -> float:
        u = seeds[number].random(data.codes.size)
        return gain(np.minimum((u[:, None] > law.cumsum(axis=1)).sum(axis=1), data.k - 1))

    observed = gain(data.codes)
    drawn = np.array(list(run_all(draw, range(count), n_jobs, "grouping test")))
    return observed, float(1 + (drawn >= observed).sum()) / (count + 1), count


_METHODS: dict[str, Callable[[Problem, np.random.Generator, int, int | None], Any]] = {
    "projected-covariance": _projected_covariance,
    "bootstrap": _bootstrap,
}
