"""The grouping diagram: how far chances differ among rows that share a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from scoreprism.curves import GroupingCurve, grouping_curve
from scoreprism.displays._base import Display, enters
from scoreprism.displays._inputs import Part
from scoreprism.displays._labels import legend, wrapped
from scoreprism.displays._limits import zoomed
from scoreprism.displays._style import Canvas, Inks

#: Intervals of more models than this would only cover each other.
_FEW = 3


class GroupingDisplay(Display[GroupingCurve]):
    """
    Spread of P(Y | X) within level sets of the score.

    One model: quantiles of Q̂ in each bin of scores, around the calibrated score; bars say how far rows of equal scores
    differ. Several models: the debiased standard deviation of Q against the score, hollow where it may be zero.

    `from_predictions` takes the options of `grouping_curve` and of `plot`.

    Parameters
    ----------
    curves : GroupingCurve or sequence of GroupingCurve
        One per model.

    Attributes
    ----------
    curves : tuple of GroupingCurve
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : list of Line2D
        The line of each model.
    band_ : list of artists
        Bars of quantiles, or intervals.

    Examples
    --------
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw(rho=0.0).sample(500, random_state=0)
    >>> display = GroupingDisplay.from_predictions(y, X[:, 0], q=q, random_state=0)
    >>> display.ax_.get_ylabel()
    'P(Y = 1 | X)'
    """

    figsize = (4.2, 4.2)
    features = True

    _computes = staticmethod(grouping_curve)
    _shows = GroupingCurve

    @classmethod
    def _made(cls, parts: Sequence[Part]) -> Self:
        """Several models are compared in fewer bins: each bin has its noise."""
        few = {} if len(parts) == 1 else {"n_bins": 5}
        return cls([cls._curve(part._replace(options=few | part.options)) for part in parts])

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
            Limits of the axes of probabilities; None for 0 to 1.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """
        values = [part for curve in self.curves for part in (curve.x, curve.quantiles.ravel())]
        limits = zoomed(zoom, min(float(v.min()) for v in values), max(float(v.max()) for v in values))
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            self.band_: list[Any] = []
            if len(self.curves) == 1:
                self._quantiles(axes, inks, styles[0] if curve_kwargs else {})
                axes.set(ylim=limits, box_aspect=1)
            else:
                self._spreads(axes, inks, styles)
            axes.set(xlim=limits, xlabel="predicted probability")
        return self

    def _quantiles(self, axes: Canvas, inks: Inks, style: dict[str, Any]) -> None:
        """Bars from the 5 to the 95 % quantile, thick from 25 to 75, and the calibrated score across them."""
        curve = self.curves[0]
        q05, q25, q50, q75, q95 = curve.quantiles.T
        colour = inks.term("grouping")
        self.diagonal_ = self._reference(axes, inks, [0, 1], [0, 1])
        wide = axes.vlines(curve.x, q05, q95, color=colour, linewidth=1.3)
        thick = axes.vlines(curve.x, q25, q75, color=colour, linewidth=5.0, alpha=0.45)
        (middle,) = axes.plot(curve.x, q50, linestyle="none", marker="o", markersize=3, color=colour)
        self.line_ = axes.plot(curve.x, curve.calibrated, zorder=3, **({"color": inks.line("reliability")} | style))
        self.band_ = [wide, thick, middle]
        axes.set_ylabel("P(Y = 1 | X)")
        axes.set_title(wrapped(curve.name or "", 50), color=inks.ink)
        words = ["5–95 % of rows", "25–75 %", "median", "calibrated score"]
        legend(axes, inks, [wide, thick, middle, self.line_[0]], words)

    def _spreads(self, axes: Canvas, inks: Inks, styles: list[dict[str, Any]]) -> None:
        """Debiased standard deviations; hollow where it may be zero; intervals of up to three models."""
        for curve, name, style in zip(self.curves, self.names, styles, strict=True):
            if len(self.curves) <= _FEW:
                low, high = (np.sqrt(np.maximum(end, 0.0)) for end in (curve.low, curve.high))
                fill = {"color": style["color"], "alpha": 0.13, "linewidth": 0}
                self.band_.append(axes.fill_between(curve.x, low, high, **fill))
            self.line_ += axes.plot(curve.x, curve.spread, **({"label": name} | style))
            faces = [style["color"] if low > 0.0 else inks.paper for low in curve.low]
            axes.scatter(curve.x, curve.spread, 14, c=faces, edgecolors=style["color"], linewidths=1.0, zorder=3)
        axes.set_ylabel("spread of P(Y = 1 | X)")
        axes.set_ylim(bottom=0)
        self._explain(axes, inks)


enters(GroupingDisplay)
