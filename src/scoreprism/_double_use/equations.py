"""Equations that hold on the training rows alone: means, score equations, and the errors of boosted classifiers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.numerics import TINY
from scoreprism._core.simplex import FloatArray
from scoreprism._double_use.chance import log_near_zero
from scoreprism._double_use.model_parts import ModelPart

#: Equations that are checked at most, rows for their spread, hidden units of a network and rounds of AdaBoost.
_EQUATIONS, _ROWS, _HIDDEN, _ROUNDS = 20, 10_000, 30, 10


class Equations(NamedTuple):
    """What a model has from its training rows, and the chance (its logarithm) that other rows give it as well."""

    what: str
    chance: float


def find_equations(part: ModelPart) -> Equations | None:
    """The equations that a model solved in training, and how nearly they hold on these rows."""
    model = part.model
    if part.step:
        return _means(part)
    if part.y is None:
        return None
    if hasattr(model, "estimator_errors_") and hasattr(model, "estimator_weights_"):
        return _errors(part)
    if type(model).__name__ in ("LogisticRegression", "LogisticRegressionCV"):
        sums = _logistic
    elif hasattr(model, "coefs_") and hasattr(model, "intercepts_") and hasattr(model, "out_activation_"):
        sums = _last_layer
    else:
        sums = _class_means
    equations = sums(part, np.ones(part.rows))
    if equations is None or part.weight is None:
        return equations
    weighted = sums(part, part.weight)
    return weighted if weighted is not None and weighted.chance < equations.chance else equations


def _take_columns(X: Any, columns: int) -> FloatArray:
    """The first columns as numbers."""
    some = X[:, :columns] if hasattr(X, "nnz") or isinstance(X, np.ndarray) else np.asarray(X)[:, :columns]
    return np.asarray(some.toarray() if hasattr(some, "toarray") else some, dtype=np.float64)


def _judge(what: str, scores: FloatArray, total: FloatArray, values: FloatArray) -> Equations:
    """Sums that are near to zero; `values` are what they are made of."""
    return Equations(what, log_near_zero(scores[:_ROWS], total, values[:_ROWS], len(scores)))


def _means(part: ModelPart) -> Equations | None:
    """Means of features, of scalers and principal components."""
    mean = getattr(part.model, "mean_", None)
    if mean is None or np.ndim(mean) != 1 or len(mean) != part.X.shape[1]:
        return None
    if np.ndim(seen := getattr(part.model, "n_samples_seen_", part.rows)) == 0 and seen != part.rows:
        return None
    X = _take_columns(part.X, _EQUATIONS)
    whole = np.isfinite(X).all(axis=0)
    scores = X[:, whole] - np.asarray(mean)[:_EQUATIONS][whole]
    name = type(part.model).__name__
    return _judge(f"means:{name}", scores, scores.sum(axis=0), X[:, whole])


def _class_means(part: ModelPart, weight: FloatArray) -> Equations | None:
    """Means of classes, of naive Bayes and discriminant analysis."""
    model, y = part.model, part.y
    means = next((m for a in ("theta_", "means_") if (m := getattr(model, a, None)) is not None), None)
    if means is None and hasattr(model, "feature_count_") and hasattr(model, "class_count_"):
        means = model.feature_count_ / np.maximum(model.class_count_, TINY)[:, None]
    if y is None or means is None or np.shape(means) != (part.k, part.X.shape[1]):
        return None
    columns = max(1, _EQUATIONS // part.k)
    X = _take_columns(part.X, columns)
    if (level := getattr(model, "binarize", None)) is not None and hasattr(model, "feature_count_"):
        X = (level < X).astype(np.float64)
    gaps = weight[:, None] * (X - np.asarray(means)[y, :columns])
    scores = np.concatenate([gaps * (y == k)[:, None] for k in range(min(part.k, _EQUATIONS))], axis=1)
    values = np.tile(X, min(part.k, _EQUATIONS))
    return _judge("class_means", scores, scores.sum(axis=0), values)


def _logistic(part: ModelPart, weight: FloatArray) -> Equations | None:
    """The score equations of a logistic regression: Σ (y − p) x is the gradient of the penalty."""
    model, y = part.model, part.y
    classes = 1 if part.k == 2 else part.k - 1
    if y is None or np.shape(model.coef_) != (1 if part.k == 2 else part.k, part.X.shape[1]):
        return None
    C = float(np.ravel(getattr(model, "C_", model.C))[0])
    penalty, ratio = getattr(model, "penalty", "deprecated"), getattr(model, "l1_ratio_", model.l1_ratio)
    ratio = float(np.ravel(ratio)[0]) if np.ravel(ratio)[0] is not None else 0.0
    ratio = {"l1": 1.0, "l2": 0.0}.get(penalty, ratio)
    strength = 0.0 if penalty is None or not np.isfinite(C) else 1.0 / C
    law, X = model.predict_proba(part.X), _take_columns(part.X, max(1, _EQUATIONS // classes))
    weight = weight * _class_weights(model, y, part.k)
    scores, total, values = [], [], []
    first = int(part.k == 2)  # two classes have one equation, of the second
    for k in range(classes):
        gap = weight * ((y == first + k) - law[:, first + k])
        w = model.coef_[k, : X.shape[1]]
        used = (w != 0.0) | (ratio == 0.0)  # a coefficient that a penalty holds at zero solves no equation
        scores.append(gap[:, None] * X[:, used])
        total.append(gap @ X[:, used] - strength * ((1.0 - ratio) * w + ratio * np.sign(w))[used])
        values.append(X[:, used])
        if model.fit_intercept:
            scores.append(gap[:, None])
            total.append(np.array([gap.sum() - _penalise_intercept(model, strength, ratio, k)]))
            values.append(np.arange(len(y), dtype=np.float64)[:, None] % 2.0)
    return _judge(
        "score_equations", np.concatenate(scores, axis=1), np.concatenate(total),
        np.concatenate(values, axis=1),
    )  # fmt: skip


def _penalise_intercept(model: Any, strength: float, ratio: float, k: int) -> float:
    """The gradient of the penalty in the intercept, which liblinear alone penalises."""
    if model.solver != "liblinear":
        return 0.0
    own = float(model.intercept_[k]) / model.intercept_scaling
    return float(strength * ((1.0 - ratio) * own + ratio * np.sign(own)) / model.intercept_scaling)


def _class_weights(model: Any, y: NDArray[Any], k: int) -> FloatArray:
    """Weights of rows that come from their class."""
    weights = model.class_weight
    if weights is None:
        return np.ones(y.size)
    if isinstance(weights, str):
        by_class = y.size / (k * np.maximum(np.bincount(y, minlength=k), 1))
    else:
        by_class = np.array([weights.get(label, 1.0) for label in np.asarray(model.classes_).tolist()])
    return np.asarray(by_class[y], dtype=np.float64)


def _last_layer(part: ModelPart, weight: FloatArray) -> Equations | None:
    """The score equations of a network's last layer, which training brings near to zero on its own rows."""
    model, y = part.model, part.y
    if y is None or model.out_activation_ not in ("logistic", "softmax"):
        return None
    from sklearn.neural_network._base import ACTIVATIONS

    hidden = np.asarray(part.X, dtype=np.float64)
    for coefficients, intercepts in zip(model.coefs_[:-1], model.intercepts_[:-1], strict=True):
        hidden = hidden @ coefficients + intercepts
        ACTIVATIONS[model.activation](hidden)
    classes = 1 if part.k == 2 else part.k - 1
    centred = hidden[:_ROWS] - hidden[:_ROWS].mean(axis=0)
    _, turn = np.linalg.eigh(centred.T @ centred)
    turn = turn[:, ::-1][:, : max(1, _HIDDEN // classes)]
    column = np.column_stack([hidden @ turn, np.ones(y.size)])
    law = model.predict_proba(part.X)
    first = int(part.k == 2)  # two classes have one equation, of the second
    gaps = [weight * ((y == first + k) - law[:, first + k]) for k in range(classes)]
    penalties = [model.alpha * np.append(turn.T @ model.coefs_[-1][:, k], 0.0) for k in range(classes)]
    scores = np.concatenate([gap[:, None] * column for gap in gaps], axis=1)
    if scores.shape[1] * 10 > y.size:
        return None
    return _judge(
        "last_layer", scores, scores.sum(axis=0) - np.concatenate(penalties),
        np.tile(column, classes),
    )  # fmt: skip


def _errors(part: ModelPart) -> Equations | None:
    """The weighted errors of AdaBoost's members, round by round: those on its training rows are kept."""
    model, y = part.model, part.y
    if y is None:
        return None
    labels, weight = np.asarray(model.classes_)[y], np.full(y.size, 1.0 / y.size)
    wrong: list[NDArray[np.bool_]] = []
    X = np.asarray(part.X)
    rounds = list(zip(model.estimators_, model.estimator_errors_, model.estimator_weights_, strict=False))[:_ROUNDS]
    for member, error, factor in rounds:
        missed = member.predict(X) != labels
        if abs(float(weight[missed].sum()) - error) > 1e-9:
            return None
        wrong.append(missed)
        weight = weight * np.exp(factor * missed)
        weight /= weight.sum()
    values = np.stack(wrong, axis=1).astype(np.float64)
    scores = values - values.mean(axis=0)
    return _judge("round_errors", scores, np.zeros(len(wrong)), values)
