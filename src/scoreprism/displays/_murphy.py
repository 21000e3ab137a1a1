"""Murphy diagrams, plain and decomposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from scoreprism._validation import parse_choice
from scoreprism.curves import MurphyCurve, MurphyDecomposition, murphy_curve, murphy_decomposition
from scoreprism.displays._base import Display, Part, enters
from scoreprism.displays._labels import legend, thinned
from scoreprism.displays._panels import shared_legend, split_axes
from scoreprism.displays._style import Canvas, Inks

#: More rows than this are evaluated on a grid of thresholds, which no eye can tell from all of them.
_MANY = 20_000
_GRID = np.linspace(0.0, 1.0, 501)
_THETA = "decision threshold θ"


class MurphyDisplay(Display[MurphyCurve]):
    """
    Mean elementary loss against the decision threshold.

    A model whose curve lies below another everywhere is better under every proper loss. The grey line is the constant
    prediction of the event rate.

    Parameters
    ----------
    curves : MurphyCurve or sequence of MurphyCurve
        One per model.

    Attributes
    ----------
    curves : tuple of MurphyCurve
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : list of Line2D
        The line of each model.
    constant_ : Line2D
        The constant prediction.

    Examples
    --------
    >>> display = MurphyDisplay.from_predictions([0, 0, 1, 1], {"a": [0.1, 0.4, 0.3, 0.9], "b": [0.4, 0.4, 0.6, 0.6]})
    >>> [line.get_label() for line in display.line_]
    ['a', 'b']
    """

    @classmethod
    def _kind(cls) -> type[MurphyCurve]:
        return MurphyCurve

    @classmethod
    def _curve(cls, part: Part) -> MurphyCurve:
        many = {"thresholds": _GRID} if np.shape(part.y_true)[:1] > (_MANY,) else {}
        return murphy_curve(part.y_true, part.y_proba, name=part.name, **(many | part.options))

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            rate = self.curves[0].rate
            corner = {"color": inks.quiet, "linewidth": 0.9, "zorder": 1}
            (self.constant_,) = axes.plot(
                [0, rate, 1], [0, rate * (1 - rate), 0], label="constant prediction", **corner
            )
            for curve, name, style in zip(self.curves, self.names, styles, strict=True):
                x, y = thinned(curve.theta, curve.loss)
                self.line_ += axes.plot(x, y, **({"label": name, "linewidth": 1.4} | style))
            axes.set(xlim=(0, 1), xlabel=_THETA, ylabel="mean elementary loss")
            axes.set_ylim(bottom=0)
            names = self.names if self._named else ["model"]
            legend(axes, inks, [*self.line_, self.constant_], [*names, "constant"])
        return self


class MurphyDecompositionDisplay(Display[MurphyDecomposition]):
    """
    Where the loss is lost: its terms against the decision threshold.

    One model: the terms on top of each other, what no model of these features can remove at the bottom, what
    recalibration would remove on top (``kind="stacked"``; a term whose estimate is negative has no area); or each term
    with its interval (``kind="lines"``). Several models: a panel for each term.

    Parameters
    ----------
    curves : MurphyDecomposition or sequence of MurphyDecomposition
        One per model.

    Attributes
    ----------
    curves : tuple of MurphyDecomposition
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    axes_ : list of Axes
        The panels.
    line_ : list of Line2D
        The line of each term, or of each model in each panel.
    band_ : list of artists
        Areas or intervals.

    Examples
    --------
    >>> from scoreprism.datasets import CopulaLaw
    >>> X, y, q = CopulaLaw(rho=0.0).sample(500, random_state=0)
    >>> display = MurphyDecompositionDisplay.from_predictions(y, X[:, 0], q=q, random_state=0)
    >>> display.ax_.get_xlabel()
    'decision threshold θ'
    """

    figsize = (5.2, 3.6)
    features = True

    axes_: list[Canvas]

    @classmethod
    def _kind(cls) -> type[MurphyDecomposition]:
        return MurphyDecomposition

    @classmethod
    def _curve(cls, part: Part) -> MurphyDecomposition:
        return murphy_decomposition(part.y_true, part.y_proba, name=part.name, **part.options)

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None, kind: str | None = None) -> Self:
        """
        Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        curve_kwargs : dict or list of dict, optional
            Options of the lines, for all models or one dict each.
        kind : {"stacked", "lines"}, optional
            How one model is drawn; several are drawn as lines, a panel per term.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """
        chosen = parse_choice(kind or "stacked", ("stacked", "lines"), "kind")
        names = self.curves[0].names
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            self.band_: list[Any] = []
            if len(self.curves) == 1:
                self.axes_ = [axes]
                (self._stacked if chosen == "stacked" else self._lines)(axes, inks, styles[0])
                axes.set(xlim=(0, 1), xlabel=_THETA, ylabel="mean elementary loss")
            else:
                self.axes_, place = split_axes(axes, len(names), self.names)
                self._panels(inks, styles, names, place)
        return self

    def _size(self) -> tuple[float, float]:
        panels = 1 if len(self.curves) == 1 else len(self.curves[0].names)
        return (self.figsize[0], self.figsize[1]) if panels == 1 else (2.8 * panels + 1.4 * (len(self.curves) > 6), 3.4)

    def _stacked(self, axes: Canvas, inks: Inks, style: dict[str, Any]) -> None:
        """Areas on top of each other, the last term at the bottom, the loss their upper edge; a negative has none."""
        curve = self.curves[0]
        values = curve.at(_GRID)
        loss, floor = values.sum(axis=1), np.zeros(_GRID.size)
        for t in reversed(range(len(curve.names))):
            colour = inks.term(curve.names[t], curve.names)
            top = np.clip(values[:, t:].sum(axis=1), floor, np.maximum(loss, floor))
            self.band_.append(axes.fill_between(_GRID, floor, top, color=colour, linewidth=0, label=curve.names[t]))
            floor = top
        edge = {**style, "color": inks.ink, "linewidth": 0.8}
        self.line_ = axes.plot(_GRID, loss, **edge)
        axes.set_ylim(bottom=0)
        legend(axes, inks, self.band_[::-1], curve.names)

    def _lines(self, axes: Canvas, inks: Inks, style: dict[str, Any]) -> None:
        """Each term with its interval."""
        curve = self.curves[0]
        for t, name in enumerate(curve.names):
            colour = inks.term(name, curve.names)
            fill = {"color": colour, "alpha": 0.22, "linewidth": 0}
            self.band_.append(axes.fill_between(curve.theta, curve.low[:, t], curve.high[:, t], **fill))
            self.line_ += axes.plot(_GRID, curve.at(_GRID)[:, t], **{**style, "color": colour, "label": name})
        axes.axhline(0, color=inks.quiet, linewidth=0.6)
        legend(axes, inks, self.line_, curve.names)

    def _panels(self, inks: Inks, styles: list[dict[str, Any]], names: Sequence[str], place: Any) -> None:
        """A panel per term, a line per model."""
        for t, (axes, term) in enumerate(zip(self.axes_, names, strict=True)):
            for curve, name, style in zip(self.curves, self.names, styles, strict=True):
                self.line_ += axes.plot(_GRID, curve.at(_GRID)[:, t], **({"label": name, "linewidth": 1.2} | style))
            axes.axhline(0, color=inks.quiet, linewidth=0.6, zorder=1)
            axes.set(xlim=(0, 1), title=term, xlabel="θ")
            inks.dress(axes)
        self.axes_[0].set_ylabel("mean elementary loss")
        count = len(self.curves)
        shared_legend(place, inks, self.line_[-count:], self.names)


enters(MurphyDisplay)
enters(MurphyDecompositionDisplay)
