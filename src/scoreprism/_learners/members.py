"""The learners of a reference law: each starts from the calibrated law and adds the features."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.numerics import EDGE, law_logits, law_of_logits
from scoreprism._core.simplex import FloatArray, IntArray, as_matrix, clip_law, one_hot, pick
from scoreprism._kernels.logistic import fit_logistic
from scoreprism._kernels.ridge_probe import fit_probe
from scoreprism._kernels.softmax import SoftmaxProblem, fit_softmax
from scoreprism._learners.boosting import Boosted, BoostingFit, Growth, boost, boost_pairs, can_grow_in_step
from scoreprism._learners.local_votes import LocalVotes
from scoreprism._sample.features import Features
from scoreprism._sample.parse_scores import count_rows, parse_prediction
from scoreprism.exceptions import ScoreprismError

#: A fitted member: features and the law to start from → laws of its variants.
Fitted = Callable[[Features, FloatArray], list[FloatArray]]

#: Rows a regression is fitted on at most, columns whose squares and products it takes, classes boosting is used for.
_ROWS, _CROSSED, _BOOSTED_CLASSES = 200_000, 10, 30
#: Trees of boosting from the offset, early and late, and trees on pairs that follow them.
_OFFSET_STAGES, _PAIR_STAGES = (25, 100), 60


@dataclass(frozen=True)
class Task:
    """What a member is fitted on: features, the law to start from, outcomes and weights."""

    features: Features
    base: FloatArray
    codes: IntArray
    weight: FloatArray | None
    k: int
    kept: dict[str, Boosted] = field(default_factory=dict, repr=False)  # by start: fits that members build on

    @cached_property
    def eta(self) -> FloatArray:
        """The start on the scale of logits (log-probabilities for several classes)."""
        return law_logits(self.base)

    @cached_property
    def mass(self) -> FloatArray:
        """Weights, ones where there are none."""
        return np.ones(self.codes.shape[0]) if self.weight is None else self.weight

    @cached_property
    def hit(self) -> FloatArray:
        """Outcomes in the shape of η."""
        return self.codes.astype(np.float64) if self.k == 2 else one_hot(self.codes, self.k)

    @cached_property
    def rate(self) -> FloatArray:
        """The share of each class on the scale of η, in its shape."""
        share = law_logits(np.average(one_hot(self.codes, self.k), axis=0, weights=self.weight)[None])
        start = share[:, 1] - share[:, 0] if self.k == 2 else share
        return np.broadcast_to(start, self.eta.shape)

    def boosted(self, start: str, rng: np.random.Generator) -> Boosted:
        """Boosting from "eta" or from "rate", fitted when first asked for."""
        if start not in self.kept:
            boost_all([self], start, rng)
        return self.kept[start]

    def some(self, rng: np.random.Generator) -> Task:
        """At most `_ROWS` of the rows."""
        if self.codes.shape[0] <= _ROWS:
            return self
        return self.part(np.sort(rng.choice(self.codes.shape[0], _ROWS, replace=False)))

    def part(self, rows: IntArray) -> Task:
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        return Task(self.features.part(rows), self.base[rows], self.codes[rows], weight, self.k)


def calibrated(_task: Task, _rng: np.random.Generator) -> Fitted:
    """The law to start from: what a reference must beat."""
    return lambda _features, base: [base]


def _regress(columns: Callable[[Features, FloatArray], FloatArray], task: Task, rng: np.random.Generator) -> Fitted:
    """A ridge regression beside the offset η: β ~ N(0, 1/q) for q standardised columns, an open intercept."""
    some = task.some(rng)
    design = columns(some.features, some.eta)
    q = design.shape[0]
    x = np.concatenate([design, np.ones((1, design.shape[1]))])
    ridge = np.r_[np.full(q, float(max(q, 1))), 1e-6]
    if task.k == 2:
        beta = fit_logistic(x, some.hit, some.weight, penalty=np.diag(ridge), offset=some.eta).coefficients
    else:
        full = np.broadcast_to(ridge[:, None], (q + 1, task.k))
        start = np.zeros(full.shape)
        problem = SoftmaxProblem(x.T, some.codes, some.weight, start, full, offset=some.eta)
        beta = fit_softmax(problem, tight=False).theta

    def predict(features: Features, base: FloatArray) -> list[FloatArray]:
        eta = law_logits(base)
        added = beta[:-1].T @ columns(features, eta)
        return [law_of_logits(eta + added + beta[-1]) if task.k == 2 else law_of_logits(eta + added.T + beta[-1])]

    return predict


def logistic(task: Task, rng: np.random.Generator) -> Fitted:
    """Logistic regression on the features with offset logit Ĉ."""
    return _regress(lambda features, _eta: features.design, task, rng)


def polynomial(task: Task, rng: np.random.Generator) -> Fitted:
    """The same with squares and products of the columns that matter most, the score among them."""
    some = task.some(rng)
    p = law_of_logits(some.eta)
    residual = some.hit - p
    tie = np.abs(some.features.design @ (some.mass * residual.T).T)
    strength = tie if tie.ndim == 1 else tie.sum(axis=1)
    best = np.sort(np.argsort(-strength, kind="stable")[:_CROSSED])
    first = some.eta if some.eta.ndim == 1 else some.eta[:, 0]
    center, scale = float(first.mean()), float(first.std()) or 1.0

    def columns(features: Features, eta: FloatArray) -> FloatArray:
        base = eta[None] if eta.ndim == 1 else eta.T[: min(eta.shape[1], 3)]
        z = np.concatenate([features.design[best], np.clip((base - center) / scale, -4.0, 4.0)])
        upper = np.triu_indices(z.shape[0])
        return np.concatenate([features.design, z[-base.shape[0] :], 0.5 * z[upper[0]] * z[upper[1]]])

    return _regress(columns, task, rng)


#: Small boosting by what it starts from: the law below, or the share of each class.
_GROWTH = {"eta": Growth(stages=_OFFSET_STAGES[-1], depth=2), "rate": Growth(stages=80, depth=3)}


def boost_all(tasks: Sequence[Task], start: str, rng: np.random.Generator) -> None:
    """Fit the boosting of one task, or of several that are small, for all members that build on it."""
    fits = [BoostingFit(task.features, getattr(task, start), task.hit, task.mass) for task in tasks]
    for task, fitted in zip(tasks, boost(fits, _GROWTH[start], rng), strict=True):
        task.kept[start] = fitted


def can_boost_ahead(features: Features, count: int, k: int) -> bool:
    """Whether `count` tasks with at most these rows are so small that boosting is fitted for all of them at once."""
    if features.is_wide:
        return False
    return k <= _BOOSTED_CLASSES and can_grow_in_step([features.codes.shape] * count, 1 if k == 2 else k)


def boost_ahead(tasks: Sequence[Task], names: Collection[str]) -> None:
    """Fit what these members boost, for all tasks at once: each gets the numbers that it would get alone."""
    rng = np.random.default_rng(0)  # nothing is drawn for small tasks
    for start, users in (("eta", ("offset-boosting", "interactions")), ("rate", ("boosting",))):
        if any(name in names for name in users):
            boost_all(tasks, start, rng)


def offset_boosting(task: Task, rng: np.random.Generator) -> Fitted:
    """Small boosting started at logit Ĉ, early and late."""
    if task.k > _BOOSTED_CLASSES:
        return calibrated(task, rng)
    fitted = task.boosted("eta", rng)
    return lambda features, base: [
        law_of_logits(eta) for eta in fitted.staged(features, law_logits(base), _OFFSET_STAGES)
    ]


def interactions(task: Task, rng: np.random.Generator) -> Fitted:
    """Offset boosting, early and late, continued on pairs of columns whose interaction shows: xor, for example."""
    if task.k > _BOOSTED_CLASSES:
        return calibrated(task, rng)
    first = task.boosted("eta", rng)
    some, growth = task.some(rng), Growth(stages=_PAIR_STAGES)
    starts = first.staged(some.features, some.eta, _OFFSET_STAGES)
    crossed = [boost_pairs(some.features, start, some.hit, some.mass, growth) for start in starts]

    def predict(features: Features, base: FloatArray) -> list[FloatArray]:
        starts = first.staged(features, law_logits(base), _OFFSET_STAGES)
        ends = (one.staged(features, start, (_PAIR_STAGES,)) for one, start in zip(crossed, starts, strict=True))
        return [law_of_logits(eta) for end in ends for eta in end]

    return predict


def boosting(task: Task, rng: np.random.Generator) -> Fitted:
    """Small boosting from the base rate, with the score among the features."""
    if task.k > _BOOSTED_CLASSES:
        return calibrated(task, rng)
    fitted, rate, stages = task.boosted("rate", rng), task.rate[:1], (_GROWTH["rate"].stages,)

    def predict(features: Features, base: FloatArray) -> list[FloatArray]:
        return [law_of_logits(eta) for eta in fitted.staged(features, np.broadcast_to(rate, base.shape), stages)]

    return predict


def probe(task: Task, _rng: np.random.Generator) -> Fitted:
    """A ridge regression of many columns with offset log Ĉ, whose ridge the evidence chooses."""
    weights = fit_probe(task.features.coordinates, task.eta, task.codes, task.mass)

    def predict(features: Features, base: FloatArray) -> list[FloatArray]:
        added = features.coordinates @ weights[:-1].astype(np.float32) + weights[-1]
        return [law_of_logits(law_logits(base) + (added[:, 0] if task.k == 2 else added))]

    return predict


def neighbours(task: Task, rng: np.random.Generator) -> Fitted:
    """Outcomes of the nearest rows against what Ĉ expects of them, shrunken towards Ĉ by their likelihood."""
    local = LocalVotes(task.features, as_matrix(task.base), task.codes, task.mass)
    fitted = local.choose(rng)

    def predict(features: Features, base: FloatArray) -> list[FloatArray]:
        law = fitted.shift(features, as_matrix(base))
        return [law[:, 1] if task.k == 2 else law]

    return predict


#: Every learner a reference can be made of.
MEMBERS: dict[str, Callable[[Task, np.random.Generator], Fitted]] = {
    "calibrated": calibrated,
    "logistic": logistic,
    "polynomial": polynomial,
    "offset-boosting": offset_boosting,
    "interactions": interactions,
    "boosting": boosting,
    "probe": probe,
    "neighbours": neighbours,
}
#: Those of the default stack, by whether the features are embeddings.
DEFAULT_MEMBERS = {
    False: ("calibrated", "logistic", "polynomial", "offset-boosting", "interactions", "boosting"),
    True: ("calibrated", "probe", "neighbours"),
}


def find_mixing_weights(hits: FloatArray, weight: FloatArray | None, steps: int = 300) -> FloatArray:
    """
    Weights of a mixture of laws that minimise its log loss, by the EM algorithm.

    `hits` holds what each law gave to what happened, (laws, rows).
    """
    share = np.full(hits.shape[0], 1.0 / hits.shape[0])
    mass = np.full(hits.shape[1], 1.0 / hits.shape[1]) if weight is None else weight / weight.sum()
    for _ in range(steps):
        ratio = hits @ (mass / (share @ hits))
        if np.abs(ratio[share > 1e-4] - 1.0).max(initial=0.0) < 1e-4 and ratio.max() < 1.0 + 1e-4:
            break
        share = share * ratio
    return np.asarray(share / share.sum())


def mix_laws(laws: list[FloatArray] | FloatArray, share: FloatArray) -> FloatArray:
    """The mixture Σ share · law."""
    total: Any = 0.0
    for part, law in zip(share, laws, strict=True):
        total = total + part * law
    return np.asarray(total)


def observed_probabilities(laws: Sequence[FloatArray], codes: IntArray) -> FloatArray:
    """Probability of the observed class by each law, kept above zero: (laws, rows)."""
    return np.maximum(np.stack([pick(as_matrix(law), codes) for law in laws]), EDGE)


def predict_foreign(estimator: Any, table: Any, k: int, n_train: int) -> FloatArray:
    """The law of a classifier fitted on codes, all classes in order, kept 1/(2n) away from 0 and 1."""
    name, n = type(estimator).__name__, count_rows(table)
    try:
        predictions = estimator.predict_proba(table)
    except (ScoreprismError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - any error of a foreign estimator becomes an InputError
        refuse(f"{name} must be able to score these features", f"its own error: {error}", "Encode them in a pipeline.")
    law = parse_prediction(predictions, f"{name}.predict_proba", n, len(estimator.classes_))
    full = np.zeros((n, k))
    full[:, np.asarray(estimator.classes_, dtype=np.intp)] = law
    clipped = clip_law(full / full.sum(axis=1, keepdims=True), min(0.5 / n_train, 1.0 / k))
    return clipped[:, 1] if k == 2 else clipped
