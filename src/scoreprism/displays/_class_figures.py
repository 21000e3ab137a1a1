"""Reliability diagrams of several classes as small multiples."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from scoreprism._document.colours import house_style
from scoreprism._parameters import described
from scoreprism.curves import ReliabilityCurve
from scoreprism.displays._axes import parse_zoom, take_grid
from scoreprism.displays._figure_text import inches, shorten
from scoreprism.displays._reliability_figure import ReliabilityDisplay
from scoreprism.displays._style import Canvas, Inks, choose_styles

#: Panels at most, and side by side.
_MOST, _COLUMNS = 9, 3
#: Width and height of a panel of a new figure, in inches, and room for what stands around them.
_PANEL, _MARGIN = (1.5, 1.6), (0.3, 0.1)
#: Share of the expected cases that a panel shows.
_NEARLY = 0.99
#: Panels narrower than this, in inches, get smaller letters.
_NARROW = 1.4


class ClasswiseReliabilityDisplay(ReliabilityDisplay):
    """
    Reliability diagrams of classes, each against the rest and in a panel of its own, zoomed to the scores of nearly
    all expected cases.

    Of more than nine curves those are drawn that lie furthest from the diagonal, on average over their scores, the
    worst first. `from_predictions` takes the options of `reliability_curve` and of `plot`; of a prediction of K classes
    it computes K curves.

    Parameters
    ----------
    curves : ReliabilityCurve or sequence of ReliabilityCurve
        One per class.

    Attributes
    ----------
    curves : tuple of ReliabilityCurve
        The numbers.
    axes_ : list of Axes
        The panels.
    ax_, figure_ : matplotlib Axes and Figure
        The first panel, and its figure.
    line_ : list of Line2D
        The line of each panel.
    band_ : list of artists
        Bands, if any are drawn.
    diagonal_ : Line2D
        Perfect calibration, in the last panel.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> s = rng.dirichlet([1, 2, 3], 300)
    >>> y = (rng.random(300)[:, None] > s.cumsum(axis=1)[:, :-1]).sum(axis=1)
    >>> display = ClasswiseReliabilityDisplay.from_predictions(y, s, band=None)
    >>> [ax.get_title("left") for ax in display.axes_]
    ['0', '1', '2']
    """

    axes_: list[Canvas]

    @described()
    def plot(self, ax: Any = None, *, curve_kwargs: Any = None, zoom: Any = "auto", histogram: bool = False) -> Self:
        """
        Draw.

        Parameters
        ----------
        zoom : "auto", None or pair of numbers, default="auto"
            Limits of both axes of every panel: "auto" for up to the scores below which 99 % of the cases are expected,
            where that is a corner; None for 0 to 1.
        histogram : bool, default=False
            Whether to show the distribution of scores.

        Returns
        -------
        display
            Itself, with ``axes_``, ``figure_`` and the artists.
        """
        drawn = self._pick()
        with house_style(), self._page(ax):
            inks = Inks.of(self.ax_)
            styles = choose_styles(len(self.curves), inks, curve_kwargs)
            own = [None] * len(styles) if curve_kwargs is None else styles
            self.axes_ = _divide(self.ax_, len(drawn))
            self.ax_, self.line_, self.band_, self.histogram_ = self.axes_[0], [], [], []
            for number, (place, axes) in enumerate(zip(drawn, self.axes_, strict=True)):
                curve = self.curves[place]
                shown = parse_zoom(zoom, 0.0, _find_reach(curve)) if zoom == "auto" else zoom
                options: dict[str, Any] = {"curve_kwargs": own[place], "zoom": shown, "histogram": histogram}
                panel = ReliabilityDisplay([curve]).plot(axes, **options)
                self.line_, self.band_ = [*self.line_, *panel.line_], [*self.band_, *panel.band_]
                self.histogram_, self.diagonal_ = [*self.histogram_, *panel.histogram_], panel.diagonal_
                _label(axes, self.names[place], inks, is_first=number % _COLUMNS == 0)
        return self

    def _pick(self) -> list[int]:
        """The curves that are drawn."""
        if len(self.curves) <= _MOST:
            return list(range(len(self.curves)))
        return sorted(range(len(self.curves)), key=lambda i: -_measure_gap(self.curves[i]))[:_MOST]

    def _size(self) -> tuple[float, float]:
        count = min(len(self.curves), _MOST)
        columns = min(count, _COLUMNS)
        rows = -(-count // columns)
        return columns * _PANEL[0] + _MARGIN[0], rows * _PANEL[1] + _MARGIN[1]


def _find_reach(curve: ReliabilityCurve) -> float:
    """The score below which nearly all cases are expected; nearly all rows of a rare class have far smaller ones."""
    mass, edges = curve.distribution.mass, curve.distribution.edges
    expected = np.cumsum(mass * 0.5 * (edges[1:] + edges[:-1]))
    return float(edges[1 + np.searchsorted(expected, _NEARLY * expected[-1])])


def _measure_gap(curve: ReliabilityCurve) -> float:
    """Mean distance of a curve from the diagonal over its scores."""
    mass, edges = curve.distribution.mass, curve.distribution.edges
    centres = 0.5 * (edges[1:] + edges[:-1])
    return float(mass @ np.abs(np.interp(centres, curve.x, curve.y) - centres) / mass.sum())


def _divide(ax: Canvas, count: int) -> list[Canvas]:
    """Panels in place of axes, row by row; the last row may have room left."""
    columns = min(count, _COLUMNS)
    grid, figure, paper = take_grid(ax).subgridspec(-(-count // columns), columns), ax.figure, ax.get_facecolor()
    return [figure.add_subplot(grid[i // columns, i % columns], facecolor=paper) for i in range(count)]


def _label(axes: Canvas, name: str, inks: Inks, *, is_first: bool) -> None:
    """Name a panel; its legend and long labels go."""
    if (legend := axes.get_legend()) is not None:
        legend.remove()
    is_narrow = inches(axes)[0] < _NARROW
    size = 7.0 if is_narrow else 8.0
    axes.set_title(shorten(name, 14 if is_narrow else 20), loc="left", fontsize=size + 0.5, color=inks.ink, pad=3)
    axes.set_xlabel("predicted", fontsize=size, labelpad=1)
    axes.set_ylabel("observed" if is_first else "", fontsize=size, labelpad=1)
    axes.locator_params(nbins=2 if is_narrow else 3)
    axes.tick_params(labelsize=size - 0.3, pad=1.5)
