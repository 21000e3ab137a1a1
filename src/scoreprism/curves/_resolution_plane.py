"""The resolution plane: reliability against resolution of several models, with lines of equal loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scoreprism._core.checks import abbreviate, parse_choice, refuse
from scoreprism._core.simplex import ArrayLike, FloatArray, freeze
from scoreprism._estimation.compare import compare
from scoreprism._estimation.decompose import decompose
from scoreprism._fitting.chain_fit import ROW_OPTIONS
from scoreprism._parameters import described
from scoreprism._sample.models import parse_models
from scoreprism._sample.sample import Sample
from scoreprism.curves._curve import Curve, require_known
from scoreprism.decomposition import Decomposition, corp_decomposition
from scoreprism.losses import ProperLoss, get_loss


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ResolutionPlane(Curve):
    """
    Where models lie: reliability against resolution.

    Made by `resolution_plane`. The loss of a model is uncertainty + reliability − resolution, so models of equal
    loss lie on lines of slope 1, the better ones further to the lower right.

    Attributes
    ----------
    models : tuple of str
        Names.
    reliability, resolution, risk : array of shape (models,)
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
    >>> plane.resolution
    array([0.125, 0.25 ])
    """

    models: tuple[str, ...]
    reliability: FloatArray
    resolution: FloatArray
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

    def _columns(self) -> dict[str, list[Any]]:
        return {"model": list(self.models), **super()._columns()}

    def _points(self) -> dict[str, FloatArray]:
        return {"reliability": self.reliability, "resolution": self.resolution, "loss": self.risk}

    def _describe(self) -> str:
        return f"{len(self.models)} models, {self.loss!s} loss, uncertainty {self.uncertainty:.4f}, {self.method}"


def _decompose_corp(sample: Sample, options: dict[str, Any]) -> list[Decomposition]:
    if sample.k > 2:
        rule = '`method`="corp" must have two classes, because isotonic regression needs an order'
        refuse(rule, f"{sample.k}", 'Pass `method`="crossfit".')
    return [corp_decomposition(sample.model(name), **options) for name in sample.predictions]


def _decompose_crossfit(sample: Sample, options: dict[str, Any]) -> list[Decomposition]:
    return [d.resolution_form for d in compare(sample, **options).decompositions.values()]


#: How C is fitted, by `method`.
PLANES: dict[str, Callable[[Sample, dict[str, Any]], list[Decomposition]]] = {
    "corp": _decompose_corp,
    "crossfit": _decompose_crossfit,
}


@described()
def resolution_plane(
    y_true: ArrayLike | Sample,
    y_proba: Mapping[str, ArrayLike] | ArrayLike | None = None,
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
    Reliability and resolution of several models on the same rows.

    Parameters
    ----------
    y_proba : mapping of str to array-like, or frame
        Probabilities by model; the columns of a frame are models.
    method : {"corp", "crossfit"}, default="corp"
        "corp": isotonic regression in the sample, as `corp_decomposition`; both terms have the same upward bias, so the
        loss is right but all models move along their line. "crossfit": reliability and resolution of `decompose`,
        debiased; any number of classes.
    clip : float, optional
        Keep probabilities at least this far from 0.
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
    >>> bool(plane.reliability[0] == corp_decomposition(y, a, loss="brier").terms["reliability"])
    True
    """
    chosen = parse_choice(method, PLANES, "method")
    if chosen == "corp" and options:
        rule = "`method`='corp' must have no further options"
        refuse(rule, abbreviate(map(repr, options)), "Leave them out, or use `method`='crossfit'.")
    require_known(options, decompose, "method='crossfit'")
    arguments: dict[str, Any] = {"sample_weight": sample_weight, "pos_label": pos_label, "classes": classes} | options
    rows = {key: arguments.pop(key) for key in ("X", *ROW_OPTIONS) if key in arguments}
    models = None if isinstance(y_true, Sample) else parse_models(y_proba, "y_proba")
    sample = Sample.of(y_true, models, **rows)
    decompositions = PLANES[chosen](sample, {"loss": loss, "clip": clip, **arguments})
    terms = np.array([[d.terms[name] for name in d.names] for d in decompositions])
    return ResolutionPlane(
        n=decompositions[0].n, _backend=sample.backend, models=tuple(sample.predictions),
        reliability=freeze(terms[:, 0]), resolution=freeze(terms[:, 1]),
        risk=freeze(np.array([d.risk for d in decompositions])), uncertainty=float(terms[0, 2]), method=chosen,
        loss=get_loss(loss),
    )  # fmt: skip
