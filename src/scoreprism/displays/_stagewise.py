"""The terms of the loss, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._core.simplex import FloatArray
from scoreprism.curves import StagewiseCurve, stagewise_curve
from scoreprism.displays._base import Display, enters
from scoreprism.displays._labels import legend, wrapped
from scoreprism.displays._limits import require_finite
from scoreprism.displays._style import Canvas, Inks
from scoreprism.ensembles._stage_inputs import geometric, read_stages

#: Stages that a boosted model is looked at, unless others are asked for.
_STAGES = 20


class StagewiseDisplay(Display[StagewiseCurve]):
    """
    The loss and its terms against the stage of a model.

    One model: its loss as a line, below it areas for the terms; what lies under the orange area is what recalibrating
    each stage would leave. Several models: the loss of each, and dashed what recalibration would leave.

    `from_predictions` takes the options of `stagewise_curve` and of `plot`.

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
    best_ : Line2D
        The stage with the least loss, of one model.
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

    _computes = staticmethod(stagewise_curve)
    _shows = StagewiseCurve
    _of_two_classes = False

    @classmethod
    def _models(cls, y_proba: Any, name: str | None) -> dict[Any, Any]:
        """A mapping whose keys are numbers, or a sequence, holds the stages of one model."""
        numbered = isinstance(y_proba, Mapping) and all(isinstance(key, (int, float, np.number)) for key in y_proba)
        return {name: y_proba} if numbered else super()._models(y_proba, name)

    @classmethod
    def _scores(cls, estimator: Any, X: Any, y: Any, options: dict[str, Any]) -> tuple[Any, tuple[Any, ...] | None]:
        """Probabilities of some stages of a booster."""
        found = read_stages(estimator, X, y)
        count, asked = len(found.laws), options.get("stages")
        some = geometric(count, _STAGES) + 1 if asked is None else np.asarray(asked, dtype=np.intp)
        if some.size == 0 or some.min() < 1 or some.max() > count:
            refuse(f"`stages` must be numbers from 1 to {count}", f"{some.tolist()}", "Leave some out.")
        return {int(stage): found.laws[stage - 1].values for stage in some}, found.labels

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        require_finite({name: float(c.risk.max()) for name, c in zip(self.names, self.curves, strict=True)})
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            self.band_: list[Any] = []
            if len(self.curves) == 1:
                self._areas(axes, inks, styles[0] if curve_kwargs else {})
            else:
                self._lines(axes, inks, styles)
            axes.set(xlabel="stage", ylabel=f"{self.curves[0].loss!s} loss")
            stage_scale(axes, self.curves[0].stages)
        return self

    @staticmethod
    def _heights(axes: Canvas, low: float, high: float) -> None:
        room = high - low or 0.1
        axes.set_ylim(low - 0.15 * room, high + 0.08 * room)

    def _areas(self, axes: Canvas, inks: Inks, style: dict[str, Any]) -> None:
        """From the loss down: an area for each term but the last, which is everything below."""
        curve = self.curves[0]
        top = curve.risk
        for t, name in enumerate(curve.names[:-1]):
            below = top - curve.values[:, t]
            fill = {"color": inks.term(name, curve.names), "alpha": 0.85, "linewidth": 0}
            self.band_.append(axes.fill_between(*widened(curve.stages, below, top), **fill))
            top = below
        colour = inks.line(curve.names[-1], curve.names)
        last = axes.plot(*widened(curve.stages, top), color=colour, linewidth=1.4)
        self.line_ = axes.plot(*widened(curve.stages, curve.risk), **({"color": inks.ink} | style))
        best = int(np.argmin(curve.risk))
        self.best_ = axes.plot(curve.stages[best], curve.risk[best], marker="o", markersize=5, color=inks.ink)[0]
        self._heights(axes, float(top.min()), float(curve.risk.max()))
        axes.set_title(wrapped(curve.name or "", 60), color=inks.ink)
        least = f"least, stage {curve.stages[best]:g}"
        legend(axes, inks, [*self.line_, *self.band_, *last, self.best_], ["loss", *curve.names, least])

    def _lines(self, axes: Canvas, inks: Inks, styles: list[dict[str, Any]]) -> None:
        """The loss of each model, and thin what recalibration would leave of it."""
        from matplotlib.lines import Line2D

        thin: dict[str, Any] = {"linewidth": 0.9, "linestyle": (0, (2, 1.5))}
        for curve, name, style in zip(self.curves, self.names, styles, strict=True):
            self.band_ += axes.plot(curve.stages, curve.risk - curve.values[:, 0], color=style["color"], **thin)
            self.line_ += axes.plot(curve.stages, curve.risk, **({"label": name} | style))
        self._explain(axes, inks, {"recalibrated": Line2D([], [], color=inks.quiet, **thin)})


def widened(stages: FloatArray, *lines: FloatArray) -> tuple[FloatArray, ...]:
    """Stages and lines over them; of a single stage, which would be a point, a short piece."""
    if stages.size > 1:
        return (stages, *lines)
    return (stages + np.array([-0.4, 0.4]), *(np.repeat(line, 2) for line in lines))


def stage_scale(axes: Canvas, stages: FloatArray) -> None:
    """Stages over several orders of magnitude on a log scale, others at whole numbers; a single one in the middle."""
    if stages.size == 1:
        axes.set_xticks(stages, [f"{stages[0]:g}"])
        axes.set_xlim(stages[0] - 1.0, stages[0] + 1.0)
    elif stages.size >= 5 and stages[0] > 0 and stages[-1] / stages[0] >= 50:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)


enters(StagewiseDisplay)
