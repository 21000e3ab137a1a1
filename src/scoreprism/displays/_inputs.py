"""What displays are made from, parsed before anything is computed: models by name, folds, classes, axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.checks import listed, refuse
from scoreprism._core.frames import take_rows
from scoreprism._sample.sample import Sample
from scoreprism.displays._style import Canvas

#: Options that belong to rows, and are split with them.
_BY_ROW = ("sample_weight", "groups", "q", "latent")


class Part(NamedTuple):
    """One model of a figure: its rows, its name, and how its curve is computed."""

    sample: Sample
    name: str | None
    options: dict[str, Any]


def check_axes(ax: Any) -> Canvas:
    """Axes that can be drawn on."""
    from matplotlib.axes import Axes

    remedy = "For example fig, ax = plt.subplots(layout='constrained')."
    if not isinstance(ax, Axes):
        refuse("ax must be matplotlib Axes", type(ax).__name__, remedy)
    if ax.name != "rectilinear":
        refuse("ax must have straight axes", f"the projection {ax.name!r}", remedy)
    return ax


def one_vs_rest(part: Part, label: object) -> list[Part]:
    """A model of several classes as one of two classes for each, or for one label: the class, or something else."""
    sample, labels = part.sample, list(part.sample.classes if part.sample.classes is not None else ())
    if label is not None and label not in labels:
        refuse("pos_label must be one of the classes", repr(label), f"The classes are {listed(labels)}.")
    return [
        part._replace(sample=sample.one_vs_rest(k), name=str(one) if part.name is None else f"{part.name}, {one}")
        for k, one in enumerate(labels)
        if label is None or one == label
    ]


def has_many_classes(y_proba: Any) -> bool:
    """Whether probabilities, or a fitted classifier, speak of more than two classes."""
    if hasattr(y_proba, "predict_proba"):
        return len(getattr(y_proba, "classes_", ())) > 2
    shape = getattr(y_proba, "shape", None) or np.shape(y_proba)
    return len(shape) == 2 and shape[1] > 2


def sequence_of(curves: Any) -> tuple[Any, ...]:
    return tuple(curves) if isinstance(curves, (list, tuple)) else (curves,)


def by_name(models: Mapping[Any, Any], name: str | None, what: str) -> dict[str, Any]:
    """Several models by different names."""
    if name is not None:
        refuse("name must go with one model", f"a mapping as {what}", "Name models by its keys.")
    if not models:
        refuse(f"{what} must hold at least one model", "an empty mapping", "For example {'logistic': p}.")
    named = {str(key): model for key, model in models.items()}
    if len(named) < len(models):
        refuse("models must have different names", listed(models), "Rename them.")
    return named


def name_predictions(sample: Sample, name: str | None) -> dict[str, str | None]:
    """What each model of a sample is called in a figure; one that nobody named has no name."""
    if len(sample.predictions) > 1:
        if name is not None:
            refuse("name must go with one model", listed(sample.predictions), "Leave it out.")
        return {key: key for key in sample.predictions}
    only = sample.name
    return {only: name or (None if only == "model" else only)}


def class_of(model: Any) -> str:
    """The name of a model's class; of a pipeline, that of its last step."""
    steps = getattr(model, "steps", None)
    return class_of(steps[-1][1]) if steps else type(model).__name__


def folds_of(cv_results: Mapping[str, Any], y: Any) -> list[tuple[Any, Any]]:
    """Test rows and model of every fold."""
    if not isinstance(cv_results, Mapping) or not {"estimator", "indices"} <= set(cv_results):
        got = (
            (", ".join(cv_results) or "an empty mapping")
            if isinstance(cv_results, Mapping)
            else type(cv_results).__name__
        )
        remedy = "Call cross_validate with return_estimator=True and return_indices=True."
        refuse("cv_results must hold estimators and indices", got, remedy)
    found = list(zip(cv_results["indices"]["test"], cv_results["estimator"], strict=True))
    last = max(int(test.max()) for test, _ in found if test.size)
    if last >= len(y):
        rule = "X and y must be the rows that cross_validate was called with"
        refuse(rule, f"{len(y)} rows and the index {last}", "Pass the same X and y.")
    return found


def taken(options: dict[str, Any], rows: Any) -> dict[str, Any]:
    """Options of some rows."""
    mine = {k: take_rows(options[k], rows) for k in _BY_ROW if options.get(k) is not None}
    return options | mine
