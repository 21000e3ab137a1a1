"""Fitted models in place of scores: their probabilities, and whether they have seen these rows before."""

from __future__ import annotations

from typing import Any

import numpy as np

from scoreprism._validation import parse_law, refuse
from scoreprism.simplex import ArrayLike, FloatArray

#: Where estimators keep the rows, or the number of rows, that they were fitted on.
_KEPT_ROWS = ("_fit_X", "X_train_", "X_fit_")
_KEPT_COUNTS = ("n_samples_fit_", "n_samples_", "_n_samples")


def predicted(model: Any, X: ArrayLike | None) -> tuple[FloatArray, tuple[Any, ...] | None, tuple[str, ...]]:
    """
    Probabilities that a fitted classifier gives to X, the labels of their columns, and what there is to say of it.

    Parameters
    ----------
    model : fitted classifier
        With ``predict_proba``.
    X : array-like or frame
        Features.

    Returns
    -------
    tuple
        Law, labels, notes.
    """
    if X is None:
        refuse("a model as y_proba must come with X", "no X", "Pass the features it should score.")
    from sklearn.exceptions import NotFittedError

    try:
        law = parse_law(model.predict_proba(X), f"{type(model).__name__}.predict_proba(X)")
    except NotFittedError as error:
        refuse("a model as y_proba must be fitted", str(error), "Fit it on other rows first.")
    labels = getattr(model, "classes_", None)
    seen = trained_on(model, X)
    notes = () if seen is None else (f"{seen}: terms of a model on its own training rows describe nothing",)
    return law, None if labels is None else tuple(np.asarray(labels).tolist()), notes


def trained_on(model: Any, X: Any) -> str | None:
    """
    Why a model seems to have been trained on these very rows; None if nothing speaks for it.

    Parameters
    ----------
    model : fitted estimator
        A pipeline is judged by its last step, a search by its best estimator.
    X : array-like or frame
        Features.

    Returns
    -------
    str or None
        The reason.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X = np.arange(8.0)[:, None]
    >>> trained_on(KNeighborsClassifier(1).fit(X, [0, 1] * 4), X)
    'KNeighborsClassifier was trained on these rows (it keeps them)'
    """
    rows = np.shape(X)[0] if hasattr(X, "shape") else len(X)
    for inner in _insides(model):
        name = type(inner).__name__
        for attribute in _KEPT_ROWS:
            kept = getattr(inner, attribute, None)
            if kept is not None and np.shape(kept) == np.shape(X) and np.array_equal(np.asarray(kept), np.asarray(X)):
                return f"{name} was trained on these rows (it keeps them)"
        if rows in _counts(inner):
            return f"{name} was trained on as many rows as there are here ({rows}), perhaps on these"
    return None


def _insides(model: Any) -> list[Any]:
    """A model and what it is made of, as far as it shows."""
    found = [model]
    for attribute in ("best_estimator_", "estimator_", "final_estimator_"):
        if getattr(model, attribute, None) is not None:
            found += _insides(getattr(model, attribute))
    if getattr(model, "steps", None):
        found += _insides(model.steps[-1][1])
    return found


def _counts(model: Any) -> set[int]:
    """Numbers of training rows that a model remembers: by itself, or in the roots of its trees."""
    found = {int(getattr(model, name)) for name in _KEPT_COUNTS if np.ndim(getattr(model, name, None) or []) == 0}
    tree = getattr(model, "tree_", None)
    if tree is not None:
        found.add(round(float(tree.n_node_samples[0])))
    trees = getattr(model, "estimators_", None)
    if trees is not None and getattr(model, "bootstrap", False) is False:
        found |= {round(float(t.tree_.n_node_samples[0])) for t in np.ravel(trees)[:1] if hasattr(t, "tree_")}
    elif getattr(model, "estimators_samples_", None) is not None:
        found.add(len(model.estimators_samples_[0]))
    for stage in (getattr(model, "_predictors", None) or [])[:1]:  # histogram boosting keeps the count of its root
        found.add(int(stage[0].nodes["count"][0]))
    return found - {0, 1}
