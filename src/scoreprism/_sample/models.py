"""Models by name; fitted ones in place of scores: their probabilities, and whether they have seen these rows before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.checks import parse_law, refuse, write_plain
from scoreprism._core.frames import backend_of, column_names, columns_of
from scoreprism._core.simplex import ArrayLike, FloatArray
from scoreprism._findings.finding import Finding, announce
from scoreprism._spelling import mark
from scoreprism.exceptions import ScoreprismError


class Scored(NamedTuple):
    """Probabilities of a fitted model, the labels of their columns, and what was found out about it."""

    law: FloatArray
    labels: tuple[Any, ...] | None
    findings: tuple[Finding, ...] = ()


def predict_probabilities(model: Any, X: ArrayLike, name: str) -> tuple[FloatArray, tuple[Any, ...] | None]:
    """Probabilities that a fitted classifier gives to X, and the labels of their columns."""
    from sklearn.exceptions import NotFittedError

    if not hasattr(model, "predict_proba"):
        remedy = "Wrap it in scikit-learn's CalibratedClassifierCV, or pass probabilities."
        refuse(f"a model as {mark(name)} must have predict_proba", type(model).__name__, remedy)
    try:
        law = parse_law(model.predict_proba(X), f"{type(model).__name__}.predict_proba(X)")
    except NotFittedError as error:
        refuse(f"a model as {mark(name)} must be fitted", str(error).rstrip("."), "Fit it on other rows first.")
    except (ScoreprismError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - any error of a foreign model becomes an InputError
        refuse(
            f"{type(model).__name__} must be able to score `X`",
            f"its own error: {error}",
            "Pass what it was fitted on.",
        )
    labels = getattr(model, "classes_", None)
    return law, None if labels is None else tuple(np.asarray(labels).tolist())


def apply_model(
    model: Any,
    X: ArrayLike | None,
    name: str = "y_proba",
    *,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Scored:
    """Probabilities that a fitted classifier gives to X, and whether it was trained on these rows."""
    if X is None:
        refuse(f"a model as {mark(name)} must come with `X`", "no X", "Pass the features it should score.")
    law, columns = predict_probabilities(model, X, name)
    return Scored(law, columns, find_double_use(model, X, y, sample_weight, "terms"))


def find_double_use(
    model: Any, X: Any, y: ArrayLike | None, sample_weight: ArrayLike | None, what: str
) -> tuple[Finding, ...]:
    """Whether a model seems to be trained on the rows that judge its `what`; if it certainly was, that is announced."""
    from scoreprism._double_use import find_training_rows

    finding = find_training_rows(model, X, y, sample_weight)
    return () if finding is None else (announce(finding.with_facts(what=what)),)


def parse_models(scores: Any, what: str) -> dict[str, Any]:
    """Several models by name."""
    remedy = "For example {'logistic': p1, 'forest': p2}."
    if isinstance(scores, Mapping):
        models = dict(scores)
    elif columns_of(scores) is not None:
        names = column_names(scores) or range(len(columns_of(scores) or ()))
        if len({str(name) for name in names}) < len(list(names)):
            refuse("columns of a frame of models must have different names", "a repeated one", "Rename them.")
        models = {str(name): column for name, column in zip(names, columns_of(scores) or (), strict=True)}
    else:
        refuse(f"{what} must be a mapping or a frame of models", type(scores).__name__, remedy)
    if not models or not all(isinstance(name, str) for name in models):
        refuse(f"{what} must be named by words, at least one model", write_plain(list(models)), remedy)
    return {name: _drop_name(score) for name, score in models.items()}


def _drop_name(score: Any) -> Any:
    """Drop the name of a column of a frame of models: it names the model, not a label."""
    return score.rename(None) if backend_of(score) == "pandas" and getattr(score, "ndim", 2) == 1 else score
