"""What displays are made from, parsed before anything is computed: models by name, folds, classes, axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.arrays import parse_law
from scoreprism._core.checks import listed, refuse
from scoreprism._core.frames import column_names, take_rows
from scoreprism._core.labels import GivenLaw
from scoreprism._core.simplex import n_classes
from scoreprism.decomposition._rows import Sheet
from scoreprism.displays._style import Canvas

#: Options that belong to rows, and are split with them.
_BY_ROW = ("sample_weight", "groups", "q", "latent")


class Part(NamedTuple):
    """One model of a figure: outcomes, probabilities, its name, and how its curve is computed."""

    y_true: Any
    y_proba: Any
    name: str | None
    options: dict[str, Any]


def check_axes(ax: Any) -> Canvas:
    """Axes that can be drawn on."""
    from matplotlib.axes import Axes

    remedy = "For example fig, ax = plt.subplots(layout='constrained')."
    if not isinstance(ax, Axes):
        refuse("`ax` must be matplotlib Axes", type(ax).__name__, remedy)
    if ax.name != "rectilinear":
        refuse("`ax` must have straight axes", f"the projection {ax.name!r}", remedy)
    return ax


def one_vs_rest(part: Part) -> list[Part]:
    """A model of several classes as one of two classes for each: the class, or something else."""
    if hasattr(part.y_proba, "predict_proba"):
        return [part]
    law = parse_law(part.y_proba, "y_proba")
    if n_classes(law) == 2:
        return [part]
    options = dict(part.options)
    label = options.pop("pos_label", None)
    given = GivenLaw("y_proba", law, None, column_names(part.y_proba))
    sheet = Sheet.of(part.y_true, [given], classes=options.pop("classes", None))
    labels: list[Any] = [] if sheet.classes is None else sheet.classes.tolist()
    if label is not None and label not in labels:
        refuse("`pos_label` must be one of the classes", repr(label), f"The classes are {listed(labels)}.")
    chosen = range(len(labels)) if label is None else [labels.index(label)]
    found = []
    for k in chosen:
        mine = options | {
            key: np.asarray(options[key])[:, k] for key in ("q", "latent") if options.get(key) is not None
        }
        name = str(labels[k]) if part.name is None else f"{part.name}, {labels[k]}"
        found.append(Part((sheet.y == k).astype(int), sheet.laws[0][:, k], name, mine))
    return found


def sequence_of(curves: Any) -> tuple[Any, ...]:
    return tuple(curves) if isinstance(curves, (list, tuple)) else (curves,)


def by_name(models: Mapping[Any, Any], name: str | None, what: str) -> dict[str, Any]:
    """Several models by different names."""
    if name is not None:
        refuse("`name` must go with one model", f"a mapping as {what}", "Name models by its keys.")
    if not models:
        refuse(f"{what} must hold at least one model", "an empty mapping", "For example {'logistic': p}.")
    named = {str(key): model for key, model in models.items()}
    if len(named) < len(models):
        refuse("models must have different names", listed(models), "Rename them.")
    return named


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
        refuse("`cv_results` must hold estimators and indices", got, remedy)
    found = list(zip(cv_results["indices"]["test"], cv_results["estimator"], strict=True))
    last = max(int(test.max()) for test, _ in found if test.size)
    if last >= len(y):
        rule = "`X` and `y` must be the rows that cross_validate was called with"
        refuse(rule, f"{len(y)} rows and the index {last}", "Pass the same `X` and `y`.")
    return found


def taken(options: dict[str, Any], rows: Any) -> dict[str, Any]:
    """Options of some rows."""
    mine = {k: take_rows(options[k], rows) for k in _BY_ROW if options.get(k) is not None}
    return options | mine
