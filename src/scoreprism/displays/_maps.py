"""Recalibration maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism._document.drawing import draws
from scoreprism.calibrators import Calibrator
from scoreprism.curves import CalibrationMap, calibration_map
from scoreprism.displays._base import Display, enters
from scoreprism.displays._inputs import Part
from scoreprism.displays._labels import legend
from scoreprism.displays._limits import zoomed
from scoreprism.displays._style import Inks, house_style
from scoreprism.inference import MapInference


class CalibrationMapDisplay(Display[CalibrationMap]):
    """
    What calibrators make of a score: g(s) against s.

    Beyond the scores of the data, where a map extrapolates, it is drawn thin.

    `from_predictions` takes the options of `calibration_map` and of `plot`.

    Parameters
    ----------
    curves : CalibrationMap or sequence of CalibrationMap
        One per calibrator or model.

    Attributes
    ----------
    curves : tuple of CalibrationMap
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : list of Line2D
        The map of each calibrator or model, where there are data.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(300)
    >>> display = CalibrationMapDisplay.from_predictions(rng.random(300) < s**2, s, calibrator=["platt", "isotonic"])
    >>> display.names
    ['platt', 'isotonic']
    """

    figsize = (4.2, 4.2)

    _computes = staticmethod(calibration_map)
    _shows = CalibrationMap

    @classmethod
    def _made(cls, parts: Sequence[Part]) -> Self:
        curves = []
        for part in parts:
            options = dict(part.options)
            asked = options.pop(
                "calibrator", ("platt", "isotonic", "monotone-spline") if len(parts) == 1 else "monotone-spline"
            )
            each = [asked] if isinstance(asked, (str, Calibrator)) else list(asked)
            for one in each:
                name = part.name if len(each) == 1 else None
                if part.name is not None and len(each) > 1:
                    name = f"{part.name}, {one if isinstance(one, str) else one.name}"
                curves.append(cls._curve(part._replace(name=name, options=options | {"calibrator": one})))
        return cls(curves)

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None, zoom: Any = "auto") -> Self:
        """
        Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        curve_kwargs : dict or list of dict, optional
            Options of the lines, for all models or one dict each.
        zoom : "auto", None or pair of numbers, default="auto"
            Limits of both axes; None for 0 to 1.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """
        seen = [value for curve in self.curves for value in (*curve.support, *curve.y[curve.inside])]
        limits = zoomed(zoom, min(seen), max(seen))
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            self.diagonal_ = self._reference(axes, inks, [0, 1], [0, 1])
            for curve, name, style in zip(self.curves, self.names, styles, strict=True):
                inside = curve.inside
                axes.plot(curve.x, curve.y, color=style["color"], linewidth=0.7, alpha=0.7)
                dot = {"marker": "o"} if inside.sum() == 1 else {}
                self.line_ += axes.plot(curve.x[inside], curve.y[inside], **({"label": name} | dot | style))
            axes.set(xlim=limits, ylim=limits, xlabel="score", ylabel="recalibrated score", box_aspect=1)
            self._explain(axes, inks)
        return self


enters(CalibrationMapDisplay)


def _draw(result: MapInference, ax: Any = None, *, level: float | None = None, **options: Any) -> CalibrationMapDisplay:
    """The map, and its pointwise intervals where there are data."""
    if len(result.calibrator.classes_) > 2:
        what = f"{len(result.calibrator.classes_)} classes"
        refuse("a map that can be drawn must be of two classes", what, "Use law() for its numbers.")
    low, high = result.support
    x = np.unique(np.append(np.linspace(0.0, 1.0, 401), [low, high]))
    inner = np.clip(x, 1e-9, 1.0 - 1e-9)
    band = result.law(inner, level=level)
    curve = CalibrationMap(
        name=result.calibrator.name, n=result.n, calibrator=result.calibrator, x=x, y=band.law, support=(low, high)
    )
    display = CalibrationMapDisplay(curve).plot(ax, **options)
    inside = curve.inside
    colour = display.line_[0].get_color()
    fill = {"color": colour, "alpha": 0.18, "linewidth": 0}
    shade = display.ax_.fill_between(x[inside], band.low[inside], band.high[inside], **fill)
    words = [result.calibrator.name, f"{100 * band.level:g} % at each score"]
    with house_style():
        legend(display.ax_, Inks.of(display.ax_), [display.line_[0], shade], words)
    return display


draws(MapInference, _draw)
