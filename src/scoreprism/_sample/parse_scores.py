"""Scores and outcomes as users pass them: what is read, what is refused, what is warned of."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import SUM_TOLERANCE, abbreviate, is_law, parse_numbers, refuse, refuse_law
from scoreprism._core.frames import unwrap
from scoreprism._core.labels import parse_labels
from scoreprism._core.logits import Logits
from scoreprism._core.simplex import ArrayLike, FloatArray
from scoreprism._findings.finding import Finding, announce


def score_numbers(scores: ArrayLike) -> FloatArray:
    """Real numbers of one or two dimensions."""
    if isinstance(scores, Logits):
        remedy = 'Pass kind="logit" to the calibrator, and the numbers themselves.'
        refuse("a calibrator is told by `kind` what its scores are", "Logits", remedy)
    values = unwrap(scores).values
    dtype = getattr(values, "dtype", None)
    if getattr(dtype, "kind", None) == "O":
        try:
            scores = np.asarray(values).astype(np.float64)
        except ValueError:
            refuse("`scores` must hold real numbers", "strings", "Convert with .astype(float) if these are numbers.")
        except TypeError as error:
            raise TypeError(f"scores must hold real numbers; {error}. Convert them to numbers first.") from None
    elif getattr(dtype, "kind", None) == "c":
        refuse("`scores` must hold real numbers", "complex numbers", "Complex data not supported: pass the real part.")
    table = parse_numbers(scores, "scores")
    if table.ndim == 0:
        refuse("`scores` must hold one row per case", "a single number", "Pass [score] for one case.")
    if table.ndim > 2:
        refuse("`scores` must have one or two dimensions", f"shape {table.shape}", "Pass one row per case.")
    if table.ndim == 1 and table.size == 0:
        refuse("`scores` must not be empty", "0 rows", "Pass at least one row.")
    if np.abs(table).max(initial=0.0) > 1e15:
        refuse("`scores` must be at most 1e15 in size", f"{np.abs(table).max():.3g}", "Rescale them.")
    return table


def refuse_scores(law: FloatArray) -> NoReturn:
    """Why scores are no probabilities; with the other thing they may be."""
    refuse_law(law, "scores", 'If these are logits, declare them with kind="logit".')


def count_rows(X: Any) -> int:
    """How many rows there are of features in whatever form a classifier takes them."""
    if hasattr(X, "shape"):
        return int(X.shape[0])
    return len(X) if hasattr(X, "__len__") else len(np.asarray(X))


def parse_prediction(value: ArrayLike, name: str, n: int, k: int) -> FloatArray:
    """Probabilities a classifier returned, one column per class."""
    law = parse_numbers(value, name)
    if law.shape != (n, k):
        refuse(
            f"{name} must give one row per case and one column per class",
            f"shape {law.shape} for {n} rows and {k} classes",
            "Correct the classifier.",
        )
    return cut_rounding(law, name)


def cut_rounding(law: FloatArray, name: str) -> FloatArray:
    """A law cut to [0, 1] where rounding left it, which users of a classifier cannot do; anything else is refused."""
    cut = np.clip(law, 0.0, 1.0)
    law = np.where(np.abs(law - cut) <= SUM_TOLERANCE, cut, law)
    if not is_law(law):
        refuse_law(law, name, "If these are logits, apply scipy.special.expit (softmax for several classes) first.")
    return law


def parse_decision(value: ArrayLike, name: str, n: int) -> FloatArray:
    """Decision values a classifier returned."""
    values = parse_numbers(value, name)
    if values.ndim not in (1, 2) or values.shape[0] != n:
        refuse(f"{name} must give one row per case", f"shape {values.shape} for {n} rows", "Correct the classifier.")
    return values


def check_column_names(columns: Sequence[Any] | None, classes: NDArray[Any]) -> None:
    """Columns named after the labels must be in their order."""
    names = [str(name) for name in columns or ()]
    labels = [str(label) for label in classes.tolist()]
    if len(names) > 1 and sorted(names) == sorted(labels) and names != labels:
        refuse(
            "columns named after the labels must be in sorted order of the labels",
            f"the columns {abbreviate(names)}",
            f"Pass scores[[{abbreviate(map(repr, labels))}]].",
        )


def warn_of_small_weights(weight: FloatArray | None) -> None:
    """Weights count as rows; weights that add up to one row are nearly always meant otherwise."""
    if weight is not None and weight.sum() < 2.0 <= weight.size:
        announce(Finding("weight_scale", value=float(weight.sum()), n=int(weight.size)))


def require_some(table: FloatArray) -> None:
    """No empty tables, in scikit-learn's words."""
    rows, columns = table.shape
    for count, what in ((rows, "sample(s)"), (columns, "feature(s)")):
        if count == 0:
            refuse(
                "`scores` must not be empty",
                f"{count} {what} (shape={table.shape}) while a minimum of 1 is required",
                "Pass at least one.",
            )


def class_labels(y: ArrayLike, who: str) -> NDArray[Any]:
    """Class labels, one per row; a column vector is taken with scikit-learn's warning."""
    from sklearn.exceptions import DataConversionWarning
    from sklearn.utils.multiclass import check_classification_targets

    if y is None:
        refuse(
            f"{who} requires y to be passed, but the target y is None", "None", "Pass the outcomes of the scored rows."
        )
    column = unwrap(y)
    values = np.asarray(column.values) if column.backend is None and not isinstance(y, (list, tuple)) else column.values
    if getattr(values, "ndim", 1) == 2 and values.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected. Pass y.ravel()."
        warnings.warn(message, DataConversionWarning, stacklevel=3)
        y = values.ravel()
    elif getattr(getattr(values, "dtype", None), "kind", "") == "c":
        refuse(
            "`y` must hold sortable labels", "complex numbers", "Complex data not supported: use integers or strings."
        )
    labels = parse_labels(y, "y")
    if labels.dtype.kind == "f":
        check_classification_targets(labels)
    return labels
