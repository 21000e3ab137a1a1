"""Figures of a model's stages: the terms of every stage beside the gains of the path, and the choice of a stage."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from scoreprism._registry import draws
from scoreprism._validation import parse_choice
from scoreprism.curves import StagewiseCurve
from scoreprism.displays._base import Display
from scoreprism.displays._labels import legend
from scoreprism.displays._limits import require_finite
from scoreprism.displays._panels import split_axes
from scoreprism.displays._stagewise import StagewiseDisplay, stage_scale
from scoreprism.displays._style import Canvas, Inks
from scoreprism.ensembles import StageSelection, StagewiseDecomposition

#: What is drawn of a stagewise decomposition.
_KINDS = ("both", "stages", "gains")


class StagewiseDecompositionDisplay(StagewiseDisplay):
    """
    The terms of every stage as areas, and beside them what each stage of the grid adds.

    Made by ``StagewiseDecomposition.plot()``. A circle marks the least loss, a diamond the least refinement: what
    recalibration would leave. Gains are bars with their intervals.

    Parameters
    ----------
    result : StagewiseDecomposition
        The numbers.

    Attributes
    ----------
    result : StagewiseDecomposition
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    axes_ : list of Axes
        The panels.
    bar_ : list of Rectangle
        The gains.
    interval_ : list of artists
        Their intervals.

    Examples
    --------
    >>> from scoreprism import FiniteModel
    >>> from scoreprism.ensembles import stagewise_decomposition
    >>> model = FiniteModel([0.25] * 4, [0.1, 0.3, 0.6, 0.9])
    >>> found = stagewise_decomposition([[0.2, 0.2, 0.8, 0.8], [0.1, 0.3, 0.6, 0.9]], model)
    >>> len(found.plot().axes_)
    2
    """

    figsize = (8.2, 3.6)

    def __init__(self, result: StagewiseDecomposition) -> None:
        self.result = result
        super().__init__(_curve_of(result))

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None, kind: str = "both") -> Self:
        """
        Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        curve_kwargs : dict, optional
            Options of the line of the loss.
        kind : {"both", "stages", "gains"}, default="both"
            The stages, the gains, or both side by side.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """
        chosen = parse_choice(kind, _KINDS, "kind")
        require_finite({"the stages": float(self.curves[0].risk.max())})
        self._kind = chosen
        with self._canvas(ax, curve_kwargs) as (axes, inks, styles):
            self.axes_ = split_axes(axes, 2)[0] if chosen == "both" else [axes]
            self.band_ = []
            self.bar_: list[Any] = []
            self.interval_: list[Any] = []
            if chosen != "gains":
                self._stages(self.axes_[0], inks, styles[0] if curve_kwargs else {})
            if chosen != "stages":
                self._gains(self.axes_[-1], inks)
            for panel in self.axes_:
                inks.dress(panel)
        return self

    def _size(self) -> tuple[float, float]:
        return self.figsize if self._kind == "both" else (4.8, self.figsize[1])

    def _stages(self, axes: Canvas, inks: Inks, style: dict[str, Any]) -> None:
        """Loss and refinement, the area between them, and where each is least."""
        curve = self.curves[0]
        names, left = curve.names, curve.risk - curve.values[:, 0]
        fill = {"color": inks.term("reliability", names), "alpha": 0.85, "linewidth": 0}
        self.band_.append(axes.fill_between(curve.stages, left, curve.risk, **fill))
        colour = inks.line(names[-1], names)
        band = {"color": colour, "alpha": 0.15, "linewidth": 0}
        axes.fill_between(curve.stages, curve.low[:, -1], curve.high[:, -1], **band)
        lower = axes.plot(curve.stages, left, color=colour, linewidth=1.4)
        self.line_ = axes.plot(curve.stages, curve.risk, **({"color": inks.ink} | style))
        marks = []
        for values, marker in ((curve.risk, "o"), (left, "D")):
            best = int(np.argmin(values))
            look = {"marker": marker, "markersize": 5, "linestyle": "none", "color": inks.ink, "zorder": 4}
            marks += axes.plot(curve.stages[best], values[best], **look)
        self.best_ = marks[0]
        low, high = np.nanmin([curve.low[:, -1].min(), left.min()]), np.nanmax([curve.risk.max(), left.max()])
        self._heights(axes, float(low), float(high))
        axes.set(xlabel="stage", ylabel=f"{curve.loss!s} loss")
        stage_scale(axes, curve.stages)
        words = ["loss", names[0], names[-1], *(f"least at {mark.get_xdata()[0]:g}" for mark in marks)]
        legend(axes, inks, [*self.line_, self.band_[0], *lower, *marks], words)

    def _gains(self, axes: Canvas, inks: Inks) -> None:
        """A bar per step, from the first stage of the grid on."""
        result = self.result
        steps = [name for name in result.names if name.startswith("gain ") or name == "path → X"]
        labels = [name.removeprefix("gain ").replace("path → X", "X") for name in steps]
        value = np.array([result.terms[name] for name in steps])
        place = np.arange(len(steps))
        bars = axes.bar(place, value, width=0.7, color=inks.term("grouping"), linewidth=0)
        self.bar_ = list(bars)
        if not result.decomposition._population:
            ends = [result.decomposition._shown_interval(name, result.level) for name in steps]
            low, high = (np.array([getattr(end, side) for end in ends]) for side in ("low", "high"))
            self.interval_ = [axes.vlines(place, low, high, color=inks.ink, linewidth=1.0)]
        axes.axhline(0.0, color=inks.quiet, linewidth=0.6)
        tilt = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if len(steps) > 4 else {}
        axes.set_xticks(place, labels, **tilt)
        nats = " in nats" if result.loss.name == "log" else ""
        axes.set(xlabel="from stage → to stage", ylabel=f"information gained{nats}")


class StageSelectionDisplay(Display[Any]):
    """
    The loss of every stage as it is and after recalibration, and the stages that each would choose.

    Made by ``StageSelection.plot()``. Stages that cannot be told apart from the best are marked along the bottom.

    Parameters
    ----------
    result : StageSelection
        The numbers.

    Attributes
    ----------
    result : StageSelection
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : list of Line2D
        Loss as it is, loss after recalibration.
    best_ : list of Line2D
        The two choices.
    alike_ : Line2D
        Stages like the best.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import select_stage
    >>> rng = np.random.default_rng(0)
    >>> q = rng.random(300)
    >>> y = rng.random(300) < q
    >>> select_stage([0.5 + 0.5 * (q - 0.5), q], y, random_state=0).plot().ax_.get_xlabel()
    'stage'
    """

    figsize = (5.2, 3.6)
    _shows = StageSelection

    def __init__(self, result: StageSelection) -> None:
        self.result = result
        self.curves = (result,)

    @property
    def names(self) -> list[str]:
        """Names of the lines."""
        return ["loss", "recalibrated"]

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        table = self.result.stages
        with self._canvas(ax, curve_kwargs, 1) as (axes, inks, styles):
            colour, own = inks.line("refinement", ("refinement",)), styles[0] if curve_kwargs else {}
            finite = np.where(np.isfinite(table.raw_loss), table.raw_loss, np.nan)
            half = table.recalibrated_std_error
            band = {"color": colour, "alpha": 0.15, "linewidth": 0}
            axes.fill_between(table.numbers, table.recalibrated_loss - half, table.recalibrated_loss + half, **band)
            self.line_ = axes.plot(table.numbers, finite, **({"color": inks.ink} | own))
            self.line_ += axes.plot(table.numbers, table.recalibrated_loss, color=colour, linewidth=1.4)
            self._marks(axes, inks, finite)
            axes.set(xlabel="stage", ylabel=f"{self.result.loss!s} loss")
            stage_scale(axes, table.numbers)
            words = ["as it is", "recalibrated (± se)", f"least as it is: {self.result.raw_stage:g}"]
            words += [f"chosen: {self.result.stage:g}", "like the best"]
            legend(axes, inks, [*self.line_, *self.best_, self.alike_], words)
        return self

    def _marks(self, axes: Canvas, inks: Inks, raw: Any) -> None:
        """Both choices, and the stages that are as good as the best."""
        table, result = self.result.stages, self.result
        low = float((table.recalibrated_loss - table.recalibrated_std_error).min())
        high = float(np.nanmax(np.append(raw, table.recalibrated_loss)))
        room = high - low or 0.1
        floor = low - 0.06 * room
        self.best_ = []
        for stage, values, marker in ((result.raw_stage, raw, "o"), (result.stage, table.recalibrated_loss, "D")):
            i = int(np.flatnonzero(table.numbers == stage)[0])
            look = {"marker": marker, "markersize": 5, "linestyle": "none", "color": inks.ink, "zorder": 4}
            self.best_ += axes.plot(stage, values[i], **look)
        alike = np.array(result.alike)
        look = {"marker": "|", "markersize": 5, "linestyle": "none", "color": inks.quiet}
        (self.alike_,) = axes.plot(alike, np.full(alike.size, floor), **look)
        axes.set_ylim(low - 0.12 * room, high + 0.08 * room)


def _curve_of(result: StagewiseDecomposition) -> StagewiseCurve:
    """The stages of a result as the curve that the areas are drawn from."""
    t = result.stages
    return StagewiseCurve(
        name=None, n=result.n, _backend=t._backend, names=("reliability", "refinement"), stages=t.numbers, risk=t.loss,
        values=np.column_stack([t.reliability, t.refinement]),
        low=np.column_stack([t.reliability_low, t.refinement_low]),
        high=np.column_stack([t.reliability_high, t.refinement_high]), level=result.level, loss=result.loss,
    )  # fmt: skip


draws(StagewiseDecomposition, lambda result, **options: StagewiseDecompositionDisplay(result).plot(**options))
draws(StageSelection, lambda result, **options: StageSelectionDisplay(result).plot(**options))
