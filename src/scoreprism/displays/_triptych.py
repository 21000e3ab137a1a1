"""The triptych: Murphy diagram, reliability diagram and ROC curve side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from scoreprism._core.checks import refuse
from scoreprism._core.frames import make_frame
from scoreprism._document.colours import house_style
from scoreprism._parameters import described
from scoreprism.curves import Curve, reliability_curve
from scoreprism.displays._axes import check_axes, compact, draw_shared_legend, split_axes
from scoreprism.displays._display import CurveDisplay, ShownModel
from scoreprism.displays._figure_text import draw_legend
from scoreprism.displays._murphy_figures import MurphyDisplay
from scoreprism.displays._reliability_figure import ReliabilityDisplay
from scoreprism.displays._score_figures import RocDisplay, add_areas
from scoreprism.displays._style import Canvas, Inks

#: Options that all three panels take.
_SHARED = ("sample_weight", "pos_label", "classes")


class TriptychDisplay(CurveDisplay[Curve]):
    """
    Overall performance, calibration and discrimination of models, side by side (Dimitriadis et al. 2024).

    `from_predictions` takes the options of `reliability_curve` and of `plot`.

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

    _computes = staticmethod(reliability_curve)

    @classmethod
    def _check(cls, ax: Any) -> None:
        if ax is not None and not hasattr(ax, "get_subplotspec"):
            _parse_three(ax)
        else:
            super()._check(ax)

    @classmethod
    def _make(cls, parts: Sequence[ShownModel]) -> Self:
        shared = [p._replace(options={k: v for k, v in p.options.items() if k in _SHARED}) for p in parts]
        return cls(MurphyDisplay._make(shared), ReliabilityDisplay._make(parts), RocDisplay._make(shared))

    @property
    def names(self) -> list[str]:
        """Names of the models."""
        return self.murphy.names

    @described()
    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        """
        Draw.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of three Axes, optional
            Where to draw; one is divided. A new figure by default.

        Returns
        -------
        display
            Itself, with ``axes_``, ``figure_`` and the artists.
        """
        whole = ax is None or hasattr(ax, "get_subplotspec")
        with house_style(), self._page(ax if whole else _parse_three(ax)[0]):
            self.axes_, place = split_axes(self.ax_, 3, self._keys) if whole else (_parse_three(ax), None)
            self.ax_ = self.axes_[0]
            titles = ("Performance", "Calibration", "Discrimination")
            panels: tuple[CurveDisplay[Any], ...] = (self.murphy, self.reliability, self.roc)
            for title, panel, axes in zip(titles, panels, self.axes_, strict=True):
                panel._folds_of = self._folds_of
                panel.plot(axes, curve_kwargs=curve_kwargs)
                if (own_legend := axes.get_legend()) is not None:
                    own_legend.remove()
                axes.set_title(title, color=Inks.of(axes).ink)
                axes.set_box_aspect(1)
            self.line_ = [line for panel in panels for line in panel.line_]
            handles = self.roc.line_[: len(self._keys)]
            if place is not None:
                draw_shared_legend(place, Inks.of(self.ax_), handles, self._keys)
            elif self._keys:
                draw_legend(self.ax_, Inks.of(self.ax_), handles, self._keys)
            if whole:
                compact(self.axes_)
        return self

    def _size(self) -> tuple[float, float]:
        """Width and height; a long legend goes beside the panels."""
        return self.figsize[0] + 2.2 * (len(self._keys) > 6), self.figsize[1]

    @property
    def _keys(self) -> list[str]:
        """Entries of the legend; none for one model without a name."""
        if self._folds_of is not None:
            areas = [curve.auc for curve in self.roc.curves]
            return [f"{self._folds_of}, {len(areas)} folds, AUC {min(areas):.3f} to {max(areas):.3f}"]
        return add_areas(self.names, self.roc.curves) if self.murphy._named else []

    @described()
    def to_frame(self, backend: str | None = None) -> Any:
        """
        All points of all panels as one dataframe.

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


def _parse_three(ax: Any) -> list[Canvas]:
    """Parse three axes passed by the user."""
    axes = list(getattr(ax, "flat", ax)) if hasattr(ax, "__iter__") and not isinstance(ax, str) else [ax]
    if len(axes) != 3:
        refuse("`ax` must be one Axes or three", f"{len(axes)}", "For example plt.subplots(1, 3)[1].")
    return [check_axes(one) for one in axes]
