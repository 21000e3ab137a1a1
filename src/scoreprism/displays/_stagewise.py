"""The terms of the loss, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from scoreprism._validation import refuse
from scoreprism.curves import StagewiseCurve, stagewise_curve
from scoreprism.displays._base import Display, Part, enters
from scoreprism.displays._labels import legend
from scoreprism.displays._style import Canvas, Inks
from scoreprism.estimation._models import predicted

#: Stages that a boosted model is looked at, unless others are asked for.
_STAGES = 20


class StagewiseDisplay(Display[StagewiseCurve]):
    """
    The loss and its terms against the stage of a model.

    One model: its loss as a line, below it areas for the terms; what lies under the orange area is what recalibrating
    each stage would leave. Several models: the loss of each, and dashed what recalibration would leave.

    Parameters
    ----------
    curves : StagewiseCurve or sequence of StagewiseCurve
        One per model.

    Attributes
    ----------
    curves : tuple of StagewiseCurve
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : list of Line2D
        The loss of each model.
    band_ : list of artists
        Areas of the terms, or lines of what recalibration leaves.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> q = rng.random(300)
    >>> y = rng.random(300) < q
    >>> display = StagewiseDisplay.from_predictions(y, [np.full(300, 0.5), 0.5 * q + 0.25, q], random_state=0)
    >>> display.ax_.get_xlabel()
    'stage'
    """

    figsize = (5.2, 3.6)
    features = True

    @classmethod
    def _kind(cls) -> type[StagewiseCurve]:
        return StagewiseCurve

    @classmethod
    def _curve(cls, part: Part) -> StagewiseCurve:
        return stagewise_curve(part.y_true, part.y_proba, name=part.name, **part.options)

    @classmethod
    def _models(cls, y_proba: Any, name: str | None) -> dict[str | None, Any]:
        """A mapping whose keys are numbers, or a sequence, holds the stages of one model."""
        numbered = isinstance(y_proba, Mapping) and all(isinstance(key, (int, float, np.number)) for key in y_proba)
        return {name: y_proba} if numbered else super()._models(y_proba, name)

    @classmethod
    def _scores(cls, estimator: Any, X: Any, options: dict[str, Any]) -> tuple[Any, tuple[Any, ...] | None]:
        """Probabilities of some stages of a boosted classifier."""
        if not hasattr(estimator, "staged_predict_proba"):
            rule = "a stagewise display must have a classifier with staged_predict_proba"
            refuse(rule, type(estimator).__name__, "Pass stages to from_predictions instead.")
        labels = predicted(estimator, X)[1]
        found = list(estimator.staged_predict_proba(X))
        asked = options.pop("stages", None)
        some = _spaced(len(found)) if asked is None else np.asarray(asked, dtype=np.intp)
        if some.size == 0 or some.min() < 1 or some.max() > len(found):
            refuse(f"stages must be numbers from 1 to {len(found)}", f"{some.tolist()}", "Leave some out.")
        return {int(stage): found[stage - 1] for stage in some}, labels

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            self.band_: list[Any] = []
            if len(self.curves) == 1:
                self._areas(axes, inks, styles[0])
            else:
                self._lines(axes, inks, styles)
            axes.set(xlabel="stage", ylabel=f"{self.curves[0].loss!s} loss")
            axes.xaxis.get_major_locator().set_params(integer=True)
        return self

    def _areas(self, axes: Canvas, inks: Inks, style: dict[str, Any]) -> None:
        """From the loss down: an area for each term but the last, which is everything below."""
        curve = self.curves[0]
        top = curve.risk
        for t, name in enumerate(curve.names[:-1]):
            below = top - curve.values[:, t]
            fill = {"color": inks.term(name, curve.names), "alpha": 0.85, "linewidth": 0}
            self.band_.append(axes.fill_between(curve.stages, below, top, **fill))
            top = below
        last = axes.plot(curve.stages, top, color=inks.quiet, linewidth=1.2)
        self.line_ = axes.plot(curve.stages, curve.risk, **(style | {"color": inks.ink}))
        low, high = float(top.min()), float(curve.risk.max())
        axes.set_ylim(low - 0.15 * (high - low), high + 0.08 * (high - low))
        legend(axes, inks, [*self.line_, *self.band_, *last], ["loss", *curve.names])

    def _lines(self, axes: Canvas, inks: Inks, styles: list[dict[str, Any]]) -> None:
        """The loss of each model, and thin what recalibration would leave of it."""
        for curve, name, style in zip(self.curves, self.names, styles, strict=True):
            thin = {"color": style["color"], "linewidth": 0.9, "linestyle": (0, (2, 1.5))}
            self.band_ += axes.plot(curve.stages, curve.risk - curve.values[:, 0], **thin)
            self.line_ += axes.plot(curve.stages, curve.risk, **({"label": name} | style))
        after = self.band_[0]
        legend(axes, inks, [*self.line_, after], [*self.names, "recalibrated"])


def _spaced(count: int) -> Any:
    """Stages from the first to the last, closer at the beginning where most happens."""
    return np.unique(np.geomspace(1, count, min(_STAGES, count)).round().astype(np.intp))


enters(StagewiseDisplay)
