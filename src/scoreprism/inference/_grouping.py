"""grouping_test: does the score lose information that is in the features?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scoreprism._validation import parse_choice, parse_count, parse_random_state, refuse
from scoreprism.crossfit import run_all
from scoreprism.estimation._chain import Block, Problem, calibrated_by, fit_levels
from scoreprism.estimation._parse import Request, parse
from scoreprism.inference._calibration import TestResult
from scoreprism.intervals import tail
from scoreprism.references._features import Features
from scoreprism.references._members import Task, mixed, to_eta
from scoreprism.references._stack import StackedReference
from scoreprism.simplex import ArrayLike, FloatArray, IntArray, one_hot

#: Learners of the direction in which the features are said to matter.
DIRECTION = ("polynomial", "offset-boosting")
#: Knots of the regressions on the score, at most; and distinct scores up to which each has a mean of its own.
_KNOTS, _DISTINCT = 12, 20

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
    random_state: object = None,
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
    random_state : int, Generator or None, default=None
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
        refuse("grouping_test must have X", "None", "Pass the features; calibration_test needs none.")
    rng = parse_random_state(random_state)
    request = Request(
        y_true, y_proba, X, calibrator="platt" if chosen == "bootstrap" else "auto",
        reference=StackedReference(("logistic",)), sample_weight=sample_weight,
        pos_label=pos_label, classes=classes, random_state=int(rng.integers(2**62)),
    )  # fmt: skip
    problem = parse(request)
    count = parse_count(n_resamples, "n_resamples", 19)
    statistic, pvalue, draws = _METHODS[chosen](problem, rng, count, n_jobs)
    return TestResult(statistic, pvalue, chosen, _HYPOTHESIS, problem.sheet.n, draws, about="Grouping")


def _features(problem: Problem) -> Features:
    level = problem.levels[0]
    if not isinstance(level, Block) or not isinstance(level.known, Features):
        refuse("X must be a table of features", type(level).__name__, "Pass columns, not laws.")
    return level.known


def _projected_covariance(
    problem: Problem, rng: np.random.Generator, _count: int, _n_jobs: int | None
) -> tuple[float, float, int]:
    """One split: learn a direction on half of the rows, test it on the others."""
    data, features = problem.data, _features(problem)
    held = np.arange(data.codes.size) if data.weight is None else np.flatnonzero(data.weight > 0)
    order = rng.permutation(held)
    learn, judge = np.sort(order[: order.size // 2]), np.sort(order[order.size // 2 :])
    for rows in (learn, judge):
        if rows.size < 20 or np.unique(data.codes[rows]).size < 2:
            found = f"{rows.size} rows of {np.unique(data.codes[rows]).size} classes"
            refuse("each half of the rows must hold 20 of them and two classes", found, "Pass more rows.")
    h = _direction(problem, features, learn, judge, rng)
    weight = np.ones(judge.size) if data.weight is None else data.weight[judge]
    basis = score_basis(data.score[judge])
    outcome = data.codes[judge, None] if data.k == 2 else one_hot(data.codes[judge], data.k)
    product = weight * (_freed(outcome, basis, weight) * _freed(h, basis, weight)).sum(axis=1)
    error = float(np.sqrt(((product - product.mean()) ** 2).sum()))
    z = float(product.sum()) / error if error > 1e-12 * np.abs(product).sum() else 0.0
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
    """
    Functions of the score that outcomes and directions are freed of: means of few scores, cubic splines of many.

    Parameters
    ----------
    score : array of shape (n,) or (n, K)
        Scores.

    Returns
    -------
    array of shape (n, q)
        A basis, the constant included.

    Examples
    --------
    >>> score_basis(np.array([0.1, 0.4, 0.1])).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """
    columns = [to_eta(score)] if score.ndim == 1 else list(to_eta(score).T[1:] - to_eta(score).T[0])
    parts: list[FloatArray] = []
    for x in columns:
        values, inverse = np.unique(x, return_inverse=True)
        if values.size <= _DISTINCT:
            part = np.eye(values.size)[inverse]
        else:
            knots = int(min(_KNOTS, max(4, x.size ** (1.0 / 3.0)))) if score.ndim == 1 else 4
            part = _cubic(x, knots)
        parts.append(part if not parts else part[:, 1:])
    if score.ndim == 2:
        z = np.column_stack(columns)
        z = (z - z.mean(axis=0)) / np.where(z.std(axis=0) > 0, z.std(axis=0), 1.0)
        parts += [z[:, [i]] * z[:, j:] for i in range(min(z.shape[1], 6)) for j in [i + 1] if j < z.shape[1]]
    return np.column_stack(parts)


def _cubic(x: FloatArray, knots: int) -> FloatArray:
    """Cubic B-splines on quantiles, linear in effect where there is little data."""
    from scipy.interpolate import BSpline

    inner = np.unique(np.quantile(x, np.linspace(0.0, 1.0, knots + 1)))
    low, high = inner[0], inner[-1]
    t = np.concatenate([[low] * 3, inner, [high] * 3])
    return np.asarray(BSpline.design_matrix(np.clip(x, low, high), t, 3).toarray())


def _freed(values: FloatArray | IntArray, basis: FloatArray, weight: FloatArray) -> FloatArray:
    """Residuals of a weighted regression on the basis."""
    root = np.sqrt(weight)[:, None]
    beta = np.linalg.lstsq(basis * root, values * root, rcond=None)[0]
    return np.asarray(values - basis @ beta)


@dataclass(frozen=True)
class _Gain:
    """Gain of the features over Ĉ, cross-fitted, for outcomes of one's own."""

    problem: Problem

    def __call__(self, codes: IntArray) -> float:
        problem = self.problem
        again = replace(problem, data=replace(problem.data, codes=codes))
        fitted = calibrated_by(again, problem.maps[0])
        law = fit_levels(again, fitted)[0][1]
        gain = _log_hit(law, codes) - _log_hit(fitted.fitted.law, codes)
        return float(np.average(gain, weights=problem.data.weight))


def _log_hit(law: FloatArray, codes: IntArray) -> FloatArray:
    p = np.where(codes == 1, law, 1.0 - law) if law.ndim == 1 else law[np.arange(codes.size), codes]
    return np.log(np.maximum(p, 1e-300))


def _bootstrap(problem: Problem, rng: np.random.Generator, count: int, n_jobs: int | None) -> tuple[float, float, int]:
    """Outcomes drawn from Ĉ(S), to which features add nothing."""
    law = problem.maps[0].fitted(problem.data)(problem.data.score)
    gain = _Gain(problem)
    seeds = rng.spawn(count)

    def draw(number: int) -> float:
        u = seeds[number].random(problem.data.codes.size)
        if law.ndim == 1:
            codes = (u < law).astype(np.intp)
        else:
            codes = np.minimum((u[:, None] > law.cumsum(axis=1)).sum(axis=1), problem.data.k - 1)
        return gain(codes)

    observed = gain(problem.data.codes)
    drawn = np.array(list(run_all(draw, range(count), n_jobs, "grouping test")))
    return observed, float(1 + (drawn >= observed).sum()) / (count + 1), count


_METHODS: dict[str, Callable[[Problem, np.random.Generator, int, int | None], Any]] = {
    "projected-covariance": _projected_covariance,
    "bootstrap": _bootstrap,
}
