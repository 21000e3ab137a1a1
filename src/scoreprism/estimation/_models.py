"""Fitted models in place of scores: their probabilities, and whether they have seen these rows before."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from scoreprism._validation import outside, parse_law, refuse
from scoreprism.exceptions import DoubleUseWarning, ScoreprismError
from scoreprism.simplex import ArrayLike, FloatArray

#: Where estimators keep the rows that they were fitted on.
_KEPT_ROWS = ("_fit_X", "X_train_", "X_fit_")


def predicted(
    model: Any, X: ArrayLike | None, name: str = "y_proba"
) -> tuple[FloatArray, tuple[Any, ...] | None, tuple[str, ...]]:
    """
    Probabilities that a fitted classifier gives to X, the labels of their columns, and what there is to say of it.

    Parameters
    ----------
    model : fitted classifier
        With ``predict_proba``.
    X : array-like or frame
        Features.
    name : str, default="y_proba"
        What the caller calls the model.

    Returns
    -------
    tuple
        Law, labels, notes.
    """
    if X is None:
        refuse(f"a model as {name} must come with X", "no X", "Pass the features it should score.")
    from sklearn.exceptions import NotFittedError

    if not hasattr(model, "predict_proba"):
        remedy = "Wrap it in scikit-learn's CalibratedClassifierCV, or pass probabilities."
        refuse(f"a model as {name} must have predict_proba", type(model).__name__, remedy)
    try:
        law = parse_law(model.predict_proba(X), f"{type(model).__name__}.predict_proba(X)")
    except NotFittedError as error:
        refuse(f"a model as {name} must be fitted", str(error).rstrip("."), "Fit it on other rows first.")
    except (ScoreprismError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever another maker's code raises is told in our words
        refuse(
            f"{type(model).__name__} must be able to score X", f"its own error: {error}", "Pass what it was fitted on."
        )
    labels = getattr(model, "classes_", None)
    seen = trained_on(model, X)
    columns = None if labels is None else tuple(np.asarray(labels).tolist())
    if seen is None:
        return law, columns, ()
    note = f"{seen}: terms of a model on its own training rows describe nothing"
    warnings.warn(note, DoubleUseWarning, stacklevel=outside())
    return law, columns, (note,)


def trained_on(model: Any, X: Any) -> str | None:
    """
    Why a model seems to have been trained on these very rows; None if nothing speaks for it.

    Parameters
    ----------
    model : fitted estimator
        A pipeline is judged by its last step, on what the steps before it make of the rows; a search by its best
        estimator. Rows that were drawn (bootstrap, subsample), parts of the training rows, and models that keep
        nothing of them are not recognised.
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
    for inner, rows in insides(model, X):
        name = type(inner).__name__
        for attribute in _KEPT_ROWS:
            kept = getattr(inner, attribute, None)
            if kept is not None and _same(kept, rows):
                return f"{name} was trained on these rows (it keeps them)"
        if _fills_leaves(inner, rows):
            return f"{name} was trained on these rows (they fill the leaves of its trees to the last row)"
    return None


def _same(kept: Any, rows: Any) -> bool:
    """Whether rows are those that were kept."""
    if hasattr(kept, "nnz") or hasattr(rows, "nnz"):
        alike = hasattr(kept, "nnz") and hasattr(rows, "nnz") and kept.shape == rows.shape
        return bool(alike and (kept != rows).nnz == 0)
    return np.shape(kept) == np.shape(rows) and np.array_equal(np.asarray(kept), np.asarray(rows))


def insides(model: Any, X: Any) -> Iterator[tuple[Any, Any]]:
    """
    A model and what it is made of, as far as it shows, each with the rows as they reach it.

    Parameters
    ----------
    model : fitted estimator
        Perhaps a pipeline, a search, a wrapper.
    X : array-like or frame
        Features.

    Yields
    ------
    tuple
        A model, and its features.
    """
    yield model, X
    for attribute in ("best_estimator_", "estimator_", "final_estimator_"):
        if getattr(model, attribute, None) is not None:
            yield from insides(getattr(model, attribute), X)
    if getattr(model, "steps", None):
        try:
            rows = model[:-1].transform(X) if len(model.steps) > 1 else X
        except Exception:  # noqa: BLE001 - steps of another maker that do not take these rows have not seen them
            return
        yield from insides(model.steps[-1][1], rows)


def _fills_leaves(model: Any, X: Any) -> bool:
    """Whether every leaf of a tree holds exactly as many of these rows as it held in training."""
    members: Any = getattr(model, "estimators_", [model])
    trees = list(members.ravel()[:3] if isinstance(members, np.ndarray) else members[:3])
    grown = [tree for tree in trees if hasattr(tree, "tree_") and hasattr(tree, "apply")]
    if not grown or getattr(model, "bootstrap", False) or getattr(model, "subsample", 1.0) != 1.0:
        return False
    for one in grown:
        leaves = one.tree_.children_left < 0
        if leaves.sum() < 2:
            return False
        try:
            rows = X if hasattr(one, "feature_names_in_") else np.asarray(X)  # what it knows by name it wants by name
            held = np.bincount(one.apply(rows), minlength=leaves.size)
        except (ValueError, TypeError):
            return False
        if not np.array_equal(held[leaves], one.tree_.n_node_samples[leaves]):
            return False
    return True
