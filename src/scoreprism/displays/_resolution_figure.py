"""The resolution plane: models as points between lines of equal loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from scoreprism._core.frames import columns_of
from scoreprism._sample.models import parse_models
from scoreprism.curves import ResolutionPlane, resolution_plane
from scoreprism.displays._axes import require_finite
from scoreprism.displays._display import CurveDisplay, ShownModel, register
from scoreprism.displays._figure_text import place_labels, wrap
from scoreprism.displays._style import MARKERS, Canvas, Inks


class ResolutionPlaneDisplay(CurveDisplay[ResolutionPlane]):
    """
    Resolution against reliability, a point per model, with lines of equal loss.

    Up is more resolution, right is more miscalibration (the reliability term): the best models lie in the upper left.

    `from_predictions` takes the options of `resolution_plane` and of `plot`.

    Parameters
    ----------
    curves : ResolutionPlane
        The points.

    Attributes
    ----------
    curves : tuple of ResolutionPlane
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : list of Line2D
        The marker of each model.
    label_ : list of Text
        Its name.
    iso_ : list of Line2D
        Lines of equal loss.

    Examples
    --------
    >>> models = {"a": [0.1, 0.4, 0.3, 0.9], "b": [0.4, 0.4, 0.6, 0.6]}
    >>> ResolutionPlaneDisplay.from_predictions([0, 0, 1, 1], models, loss="brier").names
    ['a', 'b']
    """

    figsize = (5.0, 4.2)
    pools_folds = True

    _computes = staticmethod(resolution_plane)
    _shows = ResolutionPlane
    _of_two_classes = False

    @classmethod
    def _curve(cls, part: ShownModel) -> ResolutionPlane:
        options = dict(part.options)
        if options.get("method", "corp") == "corp":
            options.pop("random_state", None)  # nothing is random there
        return resolution_plane(part.sample, **options)

    @classmethod
    def _name_models(cls, y_proba: Any, name: str | None) -> dict[Any, Any]:
        """The columns of a frame without classes are models, as in `resolution_plane`."""
        if columns_of(y_proba) is not None and name is None and not isinstance(y_proba, Mapping):
            return {**parse_models(y_proba, "y_proba")}
        return super()._name_models(y_proba, name)

    @classmethod
    def _make(cls, parts: Sequence[ShownModel]) -> Self:
        models = {part.name or "model": part.sample.prediction for part in parts}
        return cls(cls._curve(parts[0]._replace(sample=replace(parts[0].sample, predictions=models))))

    @property
    def names(self) -> list[str]:
        """Names of the models."""
        return [model for plane in self.curves for model in plane.models]

    def to_frame(self, backend: str | None = None) -> Any:
        return self.curves[0].to_frame(backend)

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        plane = self.curves[0]
        x, y = plane.reliability, plane.resolution
        require_finite({name: float(risk) for name, risk in zip(plane.models, plane.risk, strict=True)})
        with self._canvas(ax, curve_kwargs, len(plane.models)) as (axes, inks, styles):
            for i, style in enumerate(styles):
                dot = {"marker": MARKERS[i // 5 % len(MARKERS)], "markersize": 6} | style | {"linestyle": "none"}
                self.line_ += axes.plot(x[i : i + 1], y[i : i + 1], zorder=3, clip_on=False, **dot)
            _set_limits(axes, x, y, 0.1 * plane.uncertainty or 0.1)  # an uncertainty of 0 gives no scale
            self._draw_iso_lines(axes, inks, plane)
            axes.set(xlabel="reliability", ylabel="resolution")
            axes.locator_params(nbins=5)
            axes.set_title(f"{plane.loss!s} loss, uncertainty {plane.uncertainty:.4g}", color=inks.ink, pad=14)
            axes.text(0.02, 0.98, "↖ better", transform=axes.transAxes, va="top", fontsize=8, color=inks.quiet)
            words = [wrap(name, 20) for name in plane.models]
            self.label_ = place_labels(axes, x, y, words, [line.get_color() for line in self.line_], inks)
        return self

    def _draw_iso_lines(self, axes: Canvas, inks: Inks, plane: ResolutionPlane) -> None:
        """Lines of slope 1, each labelled with the loss that all models on it have."""
        from matplotlib.ticker import MaxNLocator

        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        least, most = plane.uncertainty + left - high, plane.uncertainty + right - low
        self.iso_, has_title = [], False
        for loss in MaxNLocator(7).tick_values(least, most):
            shift = plane.uncertainty - loss  # resolution − reliability
            self.iso_ += axes.plot(
                [left, right], [left + shift, right + shift], color=inks.faint, linewidth=0.8, zorder=0
            )
            place = _find_exit((left, right), (low, high), shift)
            if place is not None:
                point, offset, align = place
                word = {"fontsize": 7, "color": inks.quiet, "textcoords": "offset points", "annotation_clip": False}
                axes.annotate(f"{'' if has_title else 'loss '}{loss:.4g}", point, offset, **align, **word)
                has_title = True
        axes.set(xlim=(left, right), ylim=(low, high))


def _find_exit(x: tuple[float, float], y: tuple[float, float], shift: float) -> Any:
    """Where a line y = x + shift leaves the axes, on the right or at the top, and the placement of its label."""
    if y[0] + 0.02 * (y[1] - y[0]) < x[1] + shift <= y[1]:
        return (x[1], x[1] + shift), (3, 0), {"va": "center", "ha": "left"}
    if x[0] + 0.02 * (x[1] - x[0]) < y[1] - shift < x[1] - 0.06 * (x[1] - x[0]):
        return (y[1] - shift, y[1]), (0, 2), {"va": "bottom", "ha": "center"}
    return None


def _set_limits(axes: Canvas, x: Any, y: Any, least: float) -> None:
    """Set limits with room around the points; the axis of reliability begins at 0 if that is near."""
    across, up = (max(float(np.ptp(values)), least) for values in (x, y))
    low = float(x.min())
    axes.set_xlim(0.0 if 0.0 <= low < across else low - 0.15 * across, float(x.max()) + 0.35 * across)
    axes.set_ylim(float(y.min()) - 0.25 * up, float(y.max()) + 0.25 * up)


register(ResolutionPlaneDisplay, ResolutionPlaneDisplay._shows)
