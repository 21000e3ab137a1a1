"""The resolution plane: miscalibration against discrimination, many models on one map with lines of equal loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.arrays import parse_law
from scoreprism._core.checks import listed, parse_choice, refuse
from scoreprism._core.frames import make_frame
from scoreprism._core.simplex import ArrayLike, FloatArray, frozen, n_classes
from scoreprism.curves._base import Curve, backend_among, require_known
from scoreprism.decomposition import Decomposition, corp_decomposition
from scoreprism.estimation._compare import compare, parse_models
from scoreprism.estimation._decompose import decompose
from scoreprism.losses import ProperLoss, get_loss


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ResolutionPlane(Curve):
    """
    Where models lie: miscalibration against discrimination.

    Made by `resolution_plane`. The loss of a model is uncertainty + miscalibration − discrimination, so models of equal
    loss lie on lines of slope 1, the better ones further to the lower right.

    Attributes
    ----------
    models : tuple of str
        Names.
    miscalibration, discrimination, risk : array of shape (models,)
        Terms and loss of each model.
    uncertainty : float
        Loss of the constant prediction, the same for all.
    method : str
        "corp" or "crossfit".
    loss : ProperLoss
        The loss.

    Examples
    --------
    >>> plane = resolution_plane([0, 0, 1, 1], {"a": [0.1, 0.4, 0.3, 0.9], "b": [0.4, 0.4, 0.6, 0.6]}, loss="brier")
    >>> plane.discrimination
    array([0.125, 0.25 ])
    """

    models: tuple[str, ...]
    miscalibration: FloatArray
    discrimination: FloatArray
    risk: FloatArray
    uncertainty: float
    method: str
    loss: ProperLoss

    def to_dict(self) -> dict[str, Any]:
        """
        The points as plain Python objects.

        Returns
        -------
        dict
            With the names of models, the loss and its uncertainty.
        """
        extra = {"models": list(self.models), "loss": str(self.loss), "method": self.method}
        return super().to_dict() | extra | {"uncertainty": self.uncertainty}

    def to_frame(self, backend: str | None = None) -> Any:
        """
        One row per model.

        Parameters
        ----------
        backend : str, optional
            "polars", "pandas" or "pyarrow"; the library the data came in, else polars.

        Returns
        -------
        frame
            Model, miscalibration, discrimination, loss.
        """
        return make_frame({"model": list(self.models), **self._columns()}, backend or self._backend)

    def _columns(self) -> dict[str, FloatArray]:
        return {"miscalibration": self.miscalibration, "discrimination": self.discrimination, "loss": self.risk}

    def _about(self) -> str:
        return f"{len(self.models)} models, {self.loss!s} loss, uncertainty {self.uncertainty:.4f}, {self.method}"


def _by_corp(y_true: ArrayLike, models: Mapping[str, Any], options: dict[str, Any]) -> list[Decomposition]:
    several = [n_classes(parse_law(score, "y_proba")) for score in models.values()]
    if max(several) > 2:
        rule = '`method`="corp" must have two classes, because isotonic regression needs an order'
        refuse(rule, f"{max(several)}", 'Pass `method`="crossfit".')
    return [corp_decomposition(y_true, score, **options) for score in models.values()]


def _by_crossfit(y_true: ArrayLike, models: Mapping[str, Any], options: dict[str, Any]) -> list[Decomposition]:
    return [found.resolution_form for found in compare(models, y_true, **options).decompositions.values()]


#: How the laws behind the plane are found.
PLANES: dict[str, Callable[[ArrayLike, Mapping[str, Any], dict[str, Any]], list[Decomposition]]] = {
    "corp": _by_corp,
    "crossfit": _by_crossfit,
}


def resolution_plane(
    y_true: ArrayLike,
    y_proba: Mapping[str, ArrayLike] | ArrayLike,
    *,
    loss: str | ProperLoss = "log",
    method: str = "corp",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    clip: float | None = None,
    **options: Any,
) -> ResolutionPlane:
    """
    Miscalibration and discrimination of several models on the same rows.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes.
    y_proba : mapping of str to array-like, or frame
        Probabilities by model; the columns of a frame are models.
    loss : str or ProperLoss, default="log"
        The loss.
    method : {"corp", "crossfit"}, default="corp"
        "corp": isotonic regression in the sample, as `corp_decomposition`; both terms are biased up alike, so the
        loss is right but all models move along their line. "crossfit": reliability and resolution of `decompose`,
        debiased; any number of classes.
    sample_weight : array-like of shape (n,), optional
        Weights.
    pos_label : label, optional
        The label that 1-D probabilities speak of.
    classes : array-like of shape (K,), optional
        Labels in column order.
    clip : float, optional
        Keep laws at least this far from 0.
    **options : object
        With "crossfit": further arguments of `decompose`, ``random_state`` for one.

    Returns
    -------
    ResolutionPlane
        A point per model.

    Examples
    --------
    >>> from scoreprism import corp_decomposition
    >>> y, a, b = [0, 0, 1, 1, 1], [0.1, 0.4, 0.3, 0.9, 0.8], [0.4, 0.4, 0.6, 0.6, 0.3]
    >>> plane = resolution_plane(y, {"a": a, "b": b}, loss="brier")
    >>> bool(plane.miscalibration[0] == corp_decomposition(y, a, loss="brier").terms["miscalibration"])
    True
    """
    chosen = parse_choice(method, PLANES, "method")
    models = parse_models(y_proba, "y_proba")
    if chosen == "corp" and options:
        rule = "`method`='corp' must have no further options"
        refuse(rule, listed(map(repr, options)), "Leave them out, or use `method`='crossfit'.")
    require_known(options, decompose, "method='crossfit'")
    shared = {"sample_weight": sample_weight, "pos_label": pos_label, "classes": classes, "clip": clip}
    found = PLANES[chosen](y_true, models, {"loss": loss, **shared, **options})
    terms = np.array([[d.terms[name] for name in d.names] for d in found])
    return ResolutionPlane(
        n=found[0].n, _backend=backend_among(y_true, y_proba, *models.values()), models=tuple(models),
        miscalibration=frozen(terms[:, 0]), discrimination=frozen(terms[:, 1]),
        risk=frozen(np.array([d.risk for d in found])), uncertainty=float(terms[0, 2]), method=chosen,
        loss=get_loss(loss),
    )  # fmt: skip
