"""The reliability diagram."""

from __future__ import annotations

from typing import Any, Self

from scoreprism.curves import ReliabilityCurve, reliability_curve
from scoreprism.displays._base import Display, Part, enters
from scoreprism.displays._labels import legend, thinned
from scoreprism.displays._style import Canvas

#: Share of the height of the axes that the histogram of scores may take.
_FLOOR = 0.12
#: Bands of more models than this would only cover each other.
_MOST_BANDS = 3


class ReliabilityDisplay(Display[ReliabilityCurve]):
    """
    Event rate against predicted probability, with a band.

    A consistency band lies around the diagonal: where the curve leaves it, the model is miscalibrated beyond chance. A
    confidence band lies around the curve. Along the bottom, the distribution of scores.

    Parameters
    ----------
    curves : ReliabilityCurve or sequence of ReliabilityCurve
        One per model.

    Attributes
    ----------
    curves : tuple of ReliabilityCurve
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : list of Line2D
        The line of each model.
    band_ : list of artists
        The band of each model that has one.
    diagonal_ : Line2D
        Perfect calibration.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.random(300)
    >>> display = ReliabilityDisplay.from_predictions(rng.random(300) < s, s, n_resamples=100, random_state=0)
    >>> display.ax_.get_xlabel()
    'predicted probability'
    """

    figsize = (4.2, 4.2)

    @classmethod
    def _kind(cls) -> type[ReliabilityCurve]:
        return ReliabilityCurve

    @classmethod
    def _curve(cls, part: Part) -> ReliabilityCurve:
        return reliability_curve(part.y_true, part.y_proba, name=part.name, **part.options)

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            (self.diagonal_,) = axes.plot([0, 1], [0, 1], color=inks.quiet, linewidth=0.9, zorder=1)
            self.band_: list[Any] = []
            self._histograms(axes, styles)
            for curve, style in zip(self.curves, styles, strict=True):
                self._band(axes, curve, style)
                self.line_.append(_line(axes, curve, style))
            axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted probability", ylabel="event rate", box_aspect=1)
            if self._named:
                legend(axes, inks, self.line_, self.names)
        return self

    def _band(self, axes: Canvas, curve: ReliabilityCurve, style: dict[str, Any]) -> None:
        """Fill between the ends of the band; bars for bins."""
        if curve.band_x is None or curve.low is None or curve.high is None or len(self.curves) > _MOST_BANDS:
            return
        if curve.method == "bins":
            artist = axes.vlines(curve.band_x, curve.low, curve.high, color=style["color"], linewidth=1.2, zorder=2)
        else:
            fill = {"color": style["color"], "alpha": 0.18, "linewidth": 0.0, "zorder": 1.5}
            artist = axes.fill_between(curve.band_x, curve.low, curve.high, **fill)
        self.band_.append(artist)

    def _histograms(self, axes: Canvas, styles: list[dict[str, Any]]) -> None:
        """Distributions of scores along the bottom, all to the same scale."""
        if len(self.curves) > _MOST_BANDS:
            return
        found = [curve.distribution.mass for curve in self.curves]
        highest = max(float(mass.max()) for mass in found)
        for curve, mass, style in zip(self.curves, found, styles, strict=True):
            height = _FLOOR * mass / highest
            shade = {"color": style["color"], "alpha": 0.28 if len(found) == 1 else 0.2, "linewidth": 0.0}
            axes.stairs(height, curve.distribution.edges, fill=True, zorder=0.5, **shade)


def _line(axes: Canvas, curve: ReliabilityCurve, style: dict[str, Any]) -> Any:
    """The curve; bins are points."""
    if curve.method == "bins":
        dots = {"marker": "o", "markersize": 4, "linewidth": 0.9} | style
        return axes.plot(curve.x, curve.y, zorder=3, **dots)[0]
    return axes.plot(*thinned(curve.x, curve.y), zorder=3, **style)[0]


enters(ReliabilityDisplay)
