"""The reliability diagram."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from scoreprism._findings.wording import write_percent
from scoreprism._parameters import described
from scoreprism.curves import ReliabilityCurve, reliability_curve
from scoreprism.displays._axes import coarsen, find_bulk, parse_zoom
from scoreprism.displays._display import CurveDisplay, shows, stack_frames
from scoreprism.displays._figure_text import make_swatch, thin_out
from scoreprism.displays._style import Canvas, Inks

#: Share of the height of the axes for the histogram of one model, and for each of several.
_FLOOR, _STRIP = 0.11, 0.05
#: Bands and histograms of more models than this would only cover each other.
_FEW = 3
#: Curves of at most this many points show them.
_POINTS = 16


@shows(ReliabilityCurve, reliability_curve)
class ReliabilityDisplay(CurveDisplay[ReliabilityCurve]):
    """
    Event rate against predicted probability, with a band.

    A consistency band (grey) lies around the diagonal: where the curve leaves it, the model is miscalibrated beyond
    chance; it is drawn for one model. A confidence band, in the colour of its model, lies around the curve. Along the
    bottom, the distribution of scores. Where nearly all scores are close to 0 or to 1, the axes show that corner.

    Attributes
    ----------
    band_ : list of artists
        Bands, if any are drawn.
    histogram_ : list of StepPatch
        Distributions of scores, if any are drawn.
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

    figsize = (4.2, 4.5)

    @described()
    def plot(self, ax: Any = None, *, curve_kwargs: Any = None, zoom: Any = "auto", histogram: bool = True) -> Self:
        """
        Draw.

        Parameters
        ----------
        zoom : "auto", None or pair of numbers, default="auto"
            Limits of both axes; None for 0 to 1.
        histogram : bool, default=True
            Whether to show the distribution of scores, of up to three models.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """
        limits = parse_zoom(zoom, *self._find_range())
        with self._canvas(ax, curve_kwargs, len(self.curves)) as (axes, inks, styles):
            self.diagonal_ = self._draw_reference(axes, inks, [0, 1], [0, 1])
            self.histogram_: list[Any] = []
            more: dict[str, Any] = {}
            for row, (curve, style) in enumerate(zip(self.curves, styles, strict=True)):
                if histogram and len(self.curves) <= _FEW:
                    self._draw_histogram(axes, row, curve, style, limits)
                more |= self._draw_band(axes, inks, curve, style)
                self.line_.append(_draw_line(axes, curve, style))
            axes.set(xlim=limits, ylim=limits, box_aspect=1)
            part = "" if limits == (0.0, 1.0) else f" (only {limits[0]:g} to {limits[1]:g} shown)"
            axes.set(xlabel=f"predicted probability{part}", ylabel="event rate")
            self._explain(axes, inks, more)
        return self

    def _find_range(self) -> tuple[float, float]:
        """The range of probabilities worth showing."""
        low, high = find_bulk([curve.distribution for curve in self.curves])
        rates = [np.interp([low, high], curve.x, curve.y) for curve in self.curves]
        rates += [curve.y[[0, -1]] for curve in self.curves if curve.method == "bins" and curve.x.size]
        return min(low, *(float(rate[0]) for rate in rates)), max(high, *(float(rate[1]) for rate in rates))

    def _draw_band(self, axes: Canvas, inks: Inks, curve: ReliabilityCurve, style: dict[str, Any]) -> dict[str, Any]:
        """Draw the band, and return its legend entry."""
        consistency = curve.band == "consistency"
        if curve.band_x is None or curve.low is None or curve.high is None:
            return {}
        if len(self.curves) > (1 if consistency else _FEW):
            return {}
        colour = inks.quiet if consistency else style["color"]
        if curve.band_x.size <= _POINTS:
            artist = axes.vlines(curve.band_x, curve.low, curve.high, color=colour, linewidth=4, alpha=0.35, zorder=2)
        else:
            fill = {"color": colour, "alpha": 0.2, "linewidth": 0.0, "zorder": 1.5}
            artist = axes.fill_between(curve.band_x, curve.low, curve.high, **fill)
        self.band_.append(artist)
        everywhere = "uniform " if curve.uniform else ""
        swatch = artist if len(self.curves) == 1 else make_swatch(inks.quiet)
        return {f"{write_percent(curve.confidence_level)} {everywhere}{curve.band} band": swatch}

    def _draw_histogram(
        self, axes: Canvas, row: int, curve: ReliabilityCurve, style: Any, limits: tuple[float, float]
    ) -> None:
        """Draw the distribution of scores along the bottom; several models get a strip each."""
        edges, both = coarsen(curve.distribution, limits)
        mass = both.sum(axis=0)
        height = _FLOOR if len(self.curves) == 1 else _STRIP
        base = 0.0 if len(self.curves) == 1 else row * (_STRIP + 0.01)
        shade = {"color": style["color"], "alpha": 0.35, "linewidth": 0.0, "transform": axes.get_xaxis_transform()}
        top = base + height * mass / mass.max()
        self.histogram_.append(axes.stairs(top, edges, baseline=base, fill=True, zorder=0.5, **shade))

    @described()
    def to_frame(self, backend: str | None = None) -> Any:
        """
        All points as one dataframe: curves, and below them their bands.

        Returns
        -------
        frame
            Columns model, part ("curve" or "band"), x, y, low, high.
        """
        parts: list[tuple[str, dict[str, Any]]] = []
        for name, curve in zip(self.names, self.curves, strict=True):
            parts.append((name, {"part": ["curve"] * curve.x.size, "x": curve.x, "y": curve.y}))
            if curve.band_x is not None:
                band = {"x": curve.band_x, "low": curve.low, "high": curve.high}
                parts.append((name, {"part": ["band"] * curve.band_x.size, **band}))
        return stack_frames(parts, backend or self.curves[0]._backend)


def _draw_line(axes: Canvas, curve: ReliabilityCurve, style: dict[str, Any]) -> Any:
    """Draw the curve, with markers if it has few points."""
    distinct = np.unique(curve.x).size
    dots = {"marker": "o", "markersize": 4} if distinct <= _POINTS else {}
    thin = {"linewidth": 0.9} if curve.method == "bins" else {}
    return axes.plot(*thin_out(curve.x, curve.y), zorder=3, **(thin | dots | style))[0]
