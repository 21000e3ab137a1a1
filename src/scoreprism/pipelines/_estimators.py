"""Classifiers inside a bootstrap: their weights, their seeds, and whether repeated rows would leak inside them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import parse_law
from scoreprism._core.checks import refuse
from scoreprism._core.simplex import FloatArray
from scoreprism.exceptions import ScoreprismError

#: Rows from which on ``early_stopping="auto"`` of scikit-learn's histogram boosting holds out a part of them.
_STOPS_EARLY = 10_000


def weight_key(estimator: Any) -> str | None:
    """The argument of ``fit`` that takes sample weights."""
    from sklearn.utils.validation import has_fit_parameter

    if getattr(estimator, "steps", None):
        name, last = estimator.steps[-1]
        inner = weight_key(last)
        return None if inner is None else f"{name}__{inner}"
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    passes_on = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(estimator.fit).parameters.values())
    return weight_key(estimator.estimator) if passes_on and hasattr(estimator, "estimator") else None


def inner_validation(estimator: Any, n: int) -> str | None:
    """The parameter that makes a classifier validate itself on a part of its training rows."""
    parameters: Mapping[str, Any] = estimator.get_params(deep=True)
    for name, value in parameters.items():
        owner, _, last = name.rpartition("__")
        stops = parameters.get(f"{owner}__early_stopping" if owner else "early_stopping", None)
        held_out = (
            (last == "cv" and not (isinstance(value, str) and value == "prefit"))
            or (last == "early_stopping" and (value is True or (value == "auto" and n > _STOPS_EARLY)))
            or (last == "n_iter_no_change" and value is not None and stops is None)
            or (
                last == "probability" and value is True
            )  # the cross-validated Platt scaling of a support vector machine
        )
        if held_out:
            return name
    return None


def reseeded(estimator: Any, rng: np.random.Generator) -> Any:
    """A copy whose open seeds, nested ones too, are drawn; seeds that are numbers stay."""
    from sklearn.base import clone

    copy = clone(estimator)
    names = [name for name in sorted(copy.get_params(deep=True)) if name.rpartition("__")[2] == "random_state"]
    drawn = {name: int(rng.integers(2**31)) for name in names}
    known = copy.get_params(deep=True)
    return copy.set_params(**{k: v for k, v in drawn.items() if not isinstance(known[k], (int, np.integer))})


def fit_estimator(estimator: Any, X: Any, y: NDArray[Any], weight: FloatArray | None, where: str) -> Any:
    """Fit in place; what another maker's code raises is told in our words."""
    try:
        return estimator.fit(X, y) if weight is None else estimator.fit(X, y, **{str(weight_key(estimator)): weight})
    except (ScoreprismError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - see above
        name = type(estimator).__name__
        refuse(f"{name} must be able to learn from the rows of train", f"its own error{where}: {error}", "Mend it.")


def scored(model: Any, X: Any, classes: NDArray[Any], where: str) -> FloatArray:
    """Probabilities of all classes, in the order of the first model."""
    name = type(model).__name__
    try:
        law = parse_law(model.predict_proba(X), f"{name}.predict_proba")
    except (ScoreprismError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - see above
        refuse(f"{name} must be able to score rows", f"its own error{where}: {error}", "Pass what it was fitted on.")
    found = getattr(model, "classes_", classes)
    if len(found) != len(classes) or not np.array_equal(found, classes):
        refuse(f"{name} must know the classes {list(classes)}", f"{list(found)}{where}", "Pass more rows of each.")
    return law
