"""The grouping diagram: how far chances differ among rows that share a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from scoreprism.curves import GroupingCurve, grouping_curve
from scoreprism.displays._base import Display, Part, enters
from scoreprism.displays._labels import legend
from scoreprism.displays._style import Canvas, Inks


class GroupingDisplay(Display[GroupingCurve]):
    """
    Spread of P(Y | X) within level sets of the score.

    One model: quantiles of Q̂ in each bin of scores, around the calibrated score; bars say how far rows of equal scores
    differ. Several models: the debiased standard deviation of Q against the score.

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

    @classmethod
    def _kind(cls) -> type[GroupingCurve]:
        return GroupingCurve

    @classmethod
    def _curve(cls, part: Part) -> GroupingCurve:
        return grouping_curve(part.y_true, part.y_proba, name=part.name, **part.options)

    @classmethod
    def _made(cls, parts: Sequence[Part]) -> Self:
        """Several models are compared in fewer bins: each bin has its noise."""
        few = {} if len(parts) == 1 else {"n_bins": 5}
        return cls([cls._curve(part._replace(options=few | part.options)) for part in parts])

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            self.band_: list[Any] = []
            if len(self.curves) == 1:
                self._quantiles(axes, inks, styles[0])
            else:
                self._spreads(axes, inks, styles)
        return self

    def _quantiles(self, axes: Canvas, inks: Inks, style: dict[str, Any]) -> None:
        """Bars from the 5 to the 95 % quantile, thick from 25 to 75, and the calibrated score across them."""
        curve = self.curves[0]
        q05, q25, q50, q75, q95 = curve.quantiles.T
        colour = inks.term("grouping")
        axes.plot([0, 1], [0, 1], color=inks.quiet, linewidth=0.9, zorder=1)
        wide = axes.vlines(curve.x, q05, q95, color=colour, linewidth=1.3)
        thick = axes.vlines(curve.x, q25, q75, color=colour, linewidth=5.0, alpha=0.45)
        (middle,) = axes.plot(curve.x, q50, linestyle="none", marker="o", markersize=3, color=colour)
        line = {"color": inks.term("reliability"), "linewidth": 1.6} | {k: v for k, v in style.items() if k != "color"}
        self.line_ = axes.plot(curve.x, curve.calibrated, zorder=3, **line)
        self.band_ = [wide, thick, middle]
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted probability", ylabel="P(Y = 1 | X)", box_aspect=1)
        legend(axes, inks, [wide, thick, self.line_[0]], ["5–95 %", "25–75 %", "mean"])

    def _spreads(self, axes: Canvas, inks: Inks, styles: list[dict[str, Any]]) -> None:
        """Debiased standard deviations; intervals of up to three models."""
        for curve, name, style in zip(self.curves, self.names, styles, strict=True):
            if len(self.curves) <= 3:
                ends = (np.sqrt(np.maximum(end, 0.0)) for end in (curve.low, curve.high))
                fill = {"color": style["color"], "alpha": 0.15, "linewidth": 0}
                self.band_.append(axes.fill_between(curve.x, *ends, **fill))
            dots = {"marker": "o", "markersize": 3.5, "label": name} | style
            self.line_ += axes.plot(curve.x, curve.spread, **dots)
        axes.set(xlim=(0, 1), xlabel="predicted probability", ylabel="spread of P(Y = 1 | X)")
        axes.set_ylim(bottom=0)
        legend(axes, inks, self.line_, self.names)


enters(GroupingDisplay)
