"""The triptych: Murphy diagram, reliability diagram and ROC curve side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from scoreprism._validation import refuse
from scoreprism.curves import Curve
from scoreprism.displays._base import Display, Part
from scoreprism.displays._labels import legend
from scoreprism.displays._murphy import MurphyDisplay
from scoreprism.displays._panels import shared_legend, split_axes
from scoreprism.displays._reliability import ReliabilityDisplay
from scoreprism.displays._simple import RocDisplay
from scoreprism.displays._style import Canvas, Inks, house_style
from scoreprism.frames import make_frame

#: Options that all three panels take.
_SHARED = ("sample_weight", "pos_label", "classes")


class TriptychDisplay(Display[Curve]):
    """
    Overall performance, calibration and discrimination of models, side by side (Dimitriadis et al. 2024).

    Parameters
    ----------
    murphy : MurphyDisplay
        Left panel.
    reliability : ReliabilityDisplay
        Middle panel.
    roc : RocDisplay
        Right panel.

    Attributes
    ----------
    murphy, reliability, roc : displays
        The panels.
    curves : tuple of Curve
        All curves of all panels.
    axes_ : list of Axes
        The panels.
    figure_ : matplotlib Figure
        Its figure.
    line_ : list of Line2D
        The lines of all panels.

    Examples
    --------
    >>> display = TriptychDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.9], band=None)
    >>> [ax.get_title("left") for ax in display.axes_]
    ['Performance', 'Calibration', 'Discrimination']
    """

    figsize = (9.6, 3.5)
    axes_: list[Canvas]

    def __init__(self, murphy: MurphyDisplay, reliability: ReliabilityDisplay, roc: RocDisplay) -> None:
        self.murphy, self.reliability, self.roc = murphy, reliability, roc
        self.curves = (*murphy.curves, *reliability.curves, *roc.curves)

    @classmethod
    def _kind(cls) -> type[Curve]:
        return Curve

    @classmethod
    def _curve(cls, part: Part) -> Curve:
        raise NotImplementedError  # each panel makes its own

    @classmethod
    def _made(cls, parts: Sequence[Part]) -> Self:
        shared = [p._replace(options={k: v for k, v in p.options.items() if k in _SHARED}) for p in parts]
        return cls(MurphyDisplay._made(shared), ReliabilityDisplay._made(parts), RocDisplay._made(shared))

    @property
    def names(self) -> list[str]:
        """Names of the models."""
        return self.murphy.names

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        """
        Draw.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of three Axes, optional
            Where to draw; one is divided. A new figure by default.
        curve_kwargs : dict or list of dict, optional
            Options of the lines, for all models or one dict each.

        Returns
        -------
        display
            Itself, with ``axes_``, ``figure_`` and the artists.
        """
        with house_style():
            self.axes_, place = self._three(ax)
            self.ax_ = self.axes_[0]
            self.figure_ = self.ax_.figure
            self.line_ = []
            titles = ("Performance", "Calibration", "Discrimination")
            panels: tuple[Display[Any], ...] = (self.murphy, self.reliability, self.roc)
            for title, panel, axes in zip(titles, panels, self.axes_, strict=True):
                panel.plot(axes, curve_kwargs=curve_kwargs)
                if axes.get_legend() is not None:
                    axes.get_legend().remove()
                axes.set_title(title, color=Inks.of(axes).ink)
                axes.set_box_aspect(1)
                self.line_ += panel.line_
            handles = self.line_[-len(self.names) :]
            if place is not None:
                shared_legend(place, Inks.of(self.ax_), handles, self._keys)
            elif self._keys:
                legend(self.axes_[-1], Inks.of(self.ax_), handles, self._keys, beside=True)
        return self

    @property
    def _keys(self) -> list[str]:
        """What the legend says; nothing of one model without a name."""
        pairs = zip(self.names, self.roc.curves, strict=True)
        return [f"{name}, AUC {curve.auc:.3f}" for name, curve in pairs] if self.murphy._named else []

    def _three(self, ax: Any) -> tuple[list[Canvas], Canvas | None]:
        """Three panels, and where their legend goes."""
        if ax is None or hasattr(ax, "get_subplotspec"):
            return split_axes(self._new_axes() if ax is None else ax, 3, self._keys)
        found = list(getattr(ax, "flat", ax))
        if len(found) != 3:
            refuse("ax must be one Axes or three", f"{len(found)}", "For example plt.subplots(1, 3)[1].")
        return found, None

    def frame(self, backend: str | None = None) -> Any:
        """
        All points of all panels as one dataframe.

        Parameters
        ----------
        backend : str, optional
            "polars", "pandas" or "pyarrow"; the library the data came in, else polars.

        Returns
        -------
        frame
            Panel, model, x and y.
        """
        columns: dict[str, list[Any]] = {"panel": [], "model": [], "x": [], "y": []}
        for panel, key in (("murphy", "theta loss"), ("reliability", "x y"), ("roc", "fpr tpr")):
            for name, curve in zip(self.names, getattr(self, panel).curves, strict=True):
                x, y = (getattr(curve, word).tolist() for word in key.split())
                columns["panel"] += [panel] * len(x)
                columns["model"] += [name] * len(x)
                columns["x"] += x
                columns["y"] += y
        return make_frame(columns, backend or self.curves[0]._backend)
