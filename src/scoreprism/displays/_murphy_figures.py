"""Murphy diagrams, of the loss and of its terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from scoreprism._core.checks import parse_choice
from scoreprism._core.simplex import FloatArray
from scoreprism._findings.wording import write_percent
from scoreprism._parameters import described
from scoreprism.curves import MurphyCurve, MurphyDecomposition, murphy_curve, murphy_decomposition
from scoreprism.displays._axes import compact, draw_shared_legend, parse_zoom, split_axes
from scoreprism.displays._display import CurveDisplay, ShownModel, ZoomedDisplay, shows
from scoreprism.displays._figure_text import draw_legend, thin_out, wrap
from scoreprism.displays._style import Canvas, Inks

#: More rows than this are evaluated on a grid of thresholds, which looks the same as all of them.
_MANY = 20_000
_GRID = np.linspace(0.0, 1.0, 501)
_THETA = "decision threshold θ"
#: Intervals of more models than this would only cover each other.
_FEW = 3


@shows(MurphyCurve, murphy_curve)
class MurphyDisplay(ZoomedDisplay[MurphyCurve]):
    """
    Mean elementary loss against the decision threshold.

    A model whose curve lies below another everywhere is better under every proper loss. The grey line is the constant
    prediction of the event rate.

    Attributes
    ----------
    band_ : list of artists
        The interval of the mean at each threshold, of one model.
    constant_ : Line2D
        The constant prediction.

    Examples
    --------
    >>> display = MurphyDisplay.from_predictions([0, 0, 1, 1], {"a": [0.1, 0.4, 0.3, 0.9], "b": [0.4, 0.4, 0.6, 0.6]})
    >>> [line.get_label() for line in display.line_]
    ['a', 'b']
    """

    @classmethod
    def _curve(cls, part: ShownModel) -> MurphyCurve:
        many = {"thresholds": _GRID} if part.sample.n > _MANY else {}
        return murphy_curve(part.sample, name=part.name, **(many | part.options))

    def _draw(self, axes: Canvas, inks: Inks, styles: list[dict[str, Any]], limits: tuple[float, float]) -> None:
        rate = self.curves[0].rate
        corners = [0, rate, 1], [0, rate * (1 - rate), 0]
        self.constant_ = self._draw_reference(axes, inks, *corners, label="constant prediction")
        for curve, name, style in zip(self.curves, self.names, styles, strict=True):
            x, y = thin_out(curve.theta, curve.loss)
            if len(self.curves) == 1:
                reach = 1.96 * np.interp(x, curve.theta, curve.std_error)
                self._fill(axes, x, y - reach, y + reach, style["color"], 0.18)
            self.line_ += axes.plot(x, y, **({"label": name, "linewidth": 1.4} | style))
        axes.set(xlabel=_THETA, ylabel="mean elementary loss")
        axes.set_ylim(bottom=0)
        more = {"constant": self.constant_} | ({"95 % interval": self.band_[0]} if self.band_ else {})
        self._explain(axes, inks, more)

    def _find_range(self) -> tuple[float, float]:
        return _find_active_range(
            [(curve.theta, curve.loss - _find_constant_loss(curve.rate, curve.theta)) for curve in self.curves]
        )


@shows(MurphyDecomposition, murphy_decomposition)
class MurphyDecompositionDisplay(CurveDisplay[MurphyDecomposition]):
    """
    Terms of the loss against the decision threshold.

    One model: the terms stacked, with what no model of these features can remove at the bottom and what recalibration
    would remove on top (``kind="stacked"``; a term whose estimate is negative has no area); or each term
    with its interval (``kind="lines"``). Several models: a panel for each term.

    Attributes
    ----------
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

    @described()
    def plot(self, ax: Any = None, *, curve_kwargs: Any = None, kind: str | None = None, zoom: Any = "auto") -> Self:
        """
        Draw.

        Parameters
        ----------
        kind : {"stacked", "lines"}, optional
            How one model is drawn; several are drawn as lines, a panel per term.
        zoom : "auto", None or pair of numbers, default="auto"
            Limits of the thresholds; None for 0 to 1.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """
        chosen = parse_choice(kind or "stacked", ("stacked", "lines"), "kind")
        limits = parse_zoom(
            zoom, *_find_active_range([(curve.theta, part) for curve in self.curves for part in curve.values[:, :-1].T])
        )
        with self._canvas(ax, curve_kwargs, len(self.curves)) as (axes, inks, styles):
            if len(self.curves) == 1:
                self.axes_ = [axes]
                (self._draw_stacked if chosen == "stacked" else self._draw_lines)(axes, inks, styles[0])
                axes.set(xlim=limits, xlabel=_THETA, ylabel="mean elementary loss")
                axes.set_title(wrap(self.curves[0].name or "", 60), color=inks.ink)
            else:
                keys = self.names if self._folds_of is None else [f"{self._folds_of}, {len(self.curves)} folds"]
                self.axes_, place = split_axes(axes, len(self.curves[0].names), keys)
                self._draw_panels(inks, styles, limits)
                draw_shared_legend(place, inks, self.line_[: len(keys)], keys)
                compact(self.axes_)
        return self

    def _size(self) -> tuple[float, float]:
        panels = len(self.curves[0].names)
        return self.figsize if len(self.curves) == 1 else (2.8 * panels + 1.4 * (len(self.curves) > 6), 3.6)

    def _draw_stacked(self, axes: Canvas, inks: Inks, style: dict[str, Any]) -> None:
        """Stack areas from the last term up to the loss; a negative term has no area."""
        curve = self.curves[0]
        values = curve._at(_GRID)
        loss, floor = values.sum(axis=1), np.zeros(_GRID.size)
        for t in reversed(range(len(curve.names))):
            colour = inks.term(curve.names[t], curve.names)
            top = np.clip(values[:, t:].sum(axis=1), floor, np.maximum(loss, floor))
            self.band_.append(axes.fill_between(_GRID, floor, top, color=colour, linewidth=0, label=curve.names[t]))
            floor = top
        own = {key: value for key, value in style.items() if key != "color"}
        self.line_ = axes.plot(_GRID, loss, **({"color": inks.ink, "linewidth": 0.8} | own))
        axes.set_ylim(bottom=0)
        draw_legend(axes, inks, self.band_[::-1], curve.names)

    def _draw_lines(self, axes: Canvas, inks: Inks, style: dict[str, Any]) -> None:
        """Each term with its interval."""
        curve = self.curves[0]
        self._draw_reference(axes, inks, [0, 1], [0, 0], linewidth=0.6)
        for t, name in enumerate(curve.names):
            colour = inks.line(name, curve.names)
            self._fill(axes, curve.theta, curve.low[:, t], curve.high[:, t], colour, 0.2)
            self.line_ += axes.plot(curve.theta, curve.values[:, t], **{**style, "color": colour, "label": name})
        interval = f"{write_percent(curve.confidence_level)} intervals"
        draw_legend(axes, inks, [*self.line_, self.band_[0]], [*curve.names, interval])

    def _draw_panels(self, inks: Inks, styles: list[dict[str, Any]], limits: tuple[float, float]) -> None:
        """Draw a panel per term with a line per model; reducible terms share a scale."""
        names = self.curves[0].names
        for t, (axes, term) in enumerate(zip(self.axes_, names, strict=True)):
            self._draw_reference(axes, inks, [0, 1], [0, 0], linewidth=0.6)
            for curve, name, style in zip(self.curves, self.names, styles, strict=True):
                if len(self.curves) <= _FEW:
                    self._fill(axes, curve.theta, curve.low[:, t], curve.high[:, t], style["color"], 0.12)
                self.line_ += axes.plot(curve.theta, curve.values[:, t], **({"label": name, "linewidth": 1.2} | style))
            if 0 < t < len(names) - 1:
                axes.sharey(self.axes_[0])
            axes.set(xlim=limits, title=term, xlabel="θ")
            inks.dress(axes)
        self.axes_[0].set_ylabel("mean elementary loss")


def _find_constant_loss(rate: float, theta: FloatArray) -> FloatArray:
    """Elementary loss of the constant prediction of the event rate."""
    return np.minimum(theta * (1.0 - rate), (1.0 - theta) * rate)


def _find_active_range(curves: Sequence[tuple[FloatArray, FloatArray]]) -> tuple[float, float]:
    """The range of thresholds with values above a hundredth of the largest."""
    peak = max(float(np.abs(values).max()) for _, values in curves)
    points = np.concatenate([theta[np.abs(values) > 0.01 * peak] for theta, values in curves])
    return (float(points.min()), float(points.max())) if points.size else (0.0, 1.0)
