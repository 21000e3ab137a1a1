"""Figures of stages: the terms of the loss stage by stage, what each stage adds, and the stages that are chosen."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self, TypeVar

import numpy as np

from scoreprism._core.checks import parse_choice, refuse
from scoreprism._core.simplex import FloatArray
from scoreprism._parameters import described
from scoreprism.displays._axes import require_finite, split_axes
from scoreprism.displays._display import ResultDisplay, register
from scoreprism.displays._figure_text import draw_legend, has_layout, inches
from scoreprism.displays._style import Canvas, Inks
from scoreprism.ensembles import StageRecalibration, StageSelection, StagewiseDecomposition


def widen(stages: FloatArray, *lines: FloatArray) -> tuple[FloatArray, ...]:
    """Stages and lines over them; a single stage is widened to a short line."""
    if stages.size > 1:
        return (stages, *lines)
    return (stages + np.array([-0.4, 0.4]), *(np.repeat(line, 2) for line in lines))


def set_stage_scale(axes: Canvas, stages: FloatArray) -> None:
    """Use a log scale for stages over several orders of magnitude, else whole numbers; centre a single stage."""
    if stages.size == 1:
        axes.set_xticks(stages, [f"{stages[0]:g}"])
        axes.set_xlim(stages[0] - 1.0, stages[0] + 1.0)
    elif stages.size >= 5 and stages[0] > 0 and stages[-1] / stages[0] >= 50:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)


#: What is drawn of a stagewise decomposition.
_KINDS = ("both", "stages", "gains")
#: Axes narrower than this, in inches, hold one panel; smaller than these, only the first words of a legend.
_TWO_PANELS, _SMALL = 4.0, (3.2, 2.4)
#: Marks of the two least losses: a ring, inside which the diamond of the other stays visible.
_RING = {"marker": "o", "markersize": 8, "fillstyle": "none", "markeredgewidth": 1.2, "linestyle": "none", "zorder": 4}
_DIAMOND = {"marker": "D", "markersize": 4, "linestyle": "none", "zorder": 4}


def _get_opacity(inks: Inks) -> float:
    """Opacity of a band that is pale on white paper and visible on black."""
    return 0.15 if inks.mode == "light" else 0.4


def _explain(axes: Canvas, inks: Inks, handles: Any, words: list[str], first: int = 2) -> None:
    """Draw a legend; only its first entries on small axes without a layout, where it goes inside."""
    (width, height), (least_width, least_height) = inches(axes), _SMALL
    if not has_layout(axes) and (width < least_width or height < least_height):
        box = draw_legend(axes, inks, handles[:first], words[:first])
        for text in box.get_texts():
            text.set_fontsize(6)
    else:
        draw_legend(axes, inks, handles, words)


class StagewiseDisplay(ResultDisplay[StagewiseDecomposition]):
    """
    The terms of every stage as areas, and next to them the gain of each stage of the grid.

    Made by ``StagewiseDecomposition.plot()``. A ring marks the least loss, a diamond the least refinement: what
    recalibration would leave. Gains are bars with their intervals.

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
    >>> result = stagewise_decomposition(model, [[0.2, 0.2, 0.8, 0.8], [0.1, 0.3, 0.6, 0.9]])
    >>> len(result.plot().axes_)
    2
    """

    figsize = (8.2, 3.6)

    @property
    def names(self) -> list[str]:
        """Names of the line and the areas."""
        return ["loss", "reliability", "refinement"]

    @described()
    def plot(self, ax: Any = None, *, curve_kwargs: Any = None, kind: str | None = None) -> Self:
        """
        Draw.

        Parameters
        ----------
        curve_kwargs : dict, optional
            Options of the line of the loss.
        kind : {"both", "stages", "gains"}, optional
            The stages, the gains, or both side by side. By default both; the stages alone where the chain has no
            gains, or the axes are narrower than four inches.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """
        chosen = self._choose_kind(ax, kind)
        require_finite({"the stages": float(self.result.stages.loss.max())})
        self._kind = chosen
        with self._canvas(ax, curve_kwargs, 1) as (axes, inks, styles):
            self.axes_ = split_axes(axes, 2)[0] if chosen == "both" else [axes]
            self.band_ = []
            self.bar_: list[Any] = []
            self.interval_: list[Any] = []
            if chosen != "gains":
                self._draw_stages(self.axes_[0], inks, styles[0] if curve_kwargs else {})
            if chosen != "stages":
                self._draw_gains(self.axes_[-1], inks)
            for panel in self.axes_:
                inks.dress(panel)
        return self

    def _choose_kind(self, ax: Any, kind: str | None) -> str:
        """Choose what to draw on these axes."""
        if not self._steps and kind == "gains":
            refuse("gains must be between two stages of the grid", "one stage", "Use `kind`='stages'.")
        narrow = ax is not None and hasattr(ax, "get_window_extent") and inches(ax)[0] < _TWO_PANELS
        if not self._steps or (kind is None and narrow):
            return "stages"
        return parse_choice("both" if kind is None else kind, _KINDS, "kind")

    @property
    def _steps(self) -> list[str]:
        """Terms that are drawn as bars."""
        return [name for name in self.result.names if name.startswith("gain ") or name == "path → X"]

    def _size(self) -> tuple[float, float]:
        return self.figsize if self._kind == "both" else (4.8, self.figsize[1])

    def _draw_stages(self, axes: Canvas, inks: Inks, style: dict[str, Any]) -> None:
        """Loss and refinement, the area between them, and where each is least."""
        table, names = self.result.stages, ("reliability", "refinement")
        left = table.loss - table.reliability
        fill = {"color": inks.term("reliability", names), "alpha": 0.85, "linewidth": 0}
        self.band_.append(axes.fill_between(*widen(table.numbers, left, table.loss), **fill))
        colour = inks.line("refinement", names)
        band = {"color": colour, "alpha": _get_opacity(inks), "linewidth": 0}
        axes.fill_between(*widen(table.numbers, table.refinement_low, table.refinement_high), **band)
        lower = axes.plot(*widen(table.numbers, left), color=colour, linewidth=1.4)
        self.line_ = axes.plot(*widen(table.numbers, table.loss), **({"color": inks.ink} | style))
        marks = []
        for values, look in ((table.loss, _RING), (left, _DIAMOND)):
            best = int(np.argmin(values))
            marks += axes.plot(table.numbers[best], values[best], color=inks.ink, **look)
        self.best_ = marks[0]
        low = float(np.nanmin([table.refinement_low.min(), left.min()]))
        high = float(np.nanmax([table.loss.max(), table.refinement_high.max()]))
        room = high - low or 0.1
        axes.set_ylim(low - 0.15 * room, high + 0.08 * room)
        axes.set(xlabel="stage", ylabel=f"{self.result.loss!s} loss")
        set_stage_scale(axes, table.numbers)
        least = zip(("least loss", "least refinement"), marks, strict=True)
        words = ["loss", *names, *(f"{what}: {mark.get_xdata()[0]:g}" for what, mark in least)]
        _explain(axes, inks, [*self.line_, self.band_[0], *lower, *marks], words, 3)

    def _draw_gains(self, axes: Canvas, inks: Inks) -> None:
        """A bar per step, from the first stage of the grid on."""
        result = self.result
        steps = self._steps
        labels = [name.removeprefix("gain ").replace("path → X", "X") for name in steps]
        value = np.array([result.terms[name] for name in steps])
        place = np.arange(len(steps))
        bars = axes.bar(place, value, width=0.7, color=inks.term("grouping"), linewidth=0)
        self.bar_ = list(bars)
        if not result.decomposition._population:
            ends = [result.decomposition._shown_interval(name, result.confidence_level) for name in steps]
            low, high = (np.array([getattr(end, side) for end in ends]) for side in ("low", "high"))
            self.interval_ = [axes.vlines(place, low, high, color=inks.ink, linewidth=1.0)]
        axes.axhline(0.0, color=inks.quiet, linewidth=0.6)
        tilt = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if len(steps) > 4 else {}
        axes.set_xticks(place, labels, **tilt)
        middle, half = (len(steps) - 1) / 2.0, max(len(steps), 4) / 2.0  # few bars stay bars
        axes.set_xlim(middle - half, middle + half)
        nats = " in nats" if result.loss.name == "log" else ""
        axes.set(xlabel="from stage → to stage", ylabel=f"information gained{nats}")


S = TypeVar("S", StageSelection, StageRecalibration)


class RecalibratedStagesDisplay(ResultDisplay[S]):
    """Stages before and after recalibration: a line for each, and marks of some stages along the bottom."""

    figsize = (5.2, 3.6)

    @property
    def names(self) -> list[str]:
        """Names of the lines."""
        return ["loss", "recalibrated"]

    @abstractmethod
    @described()
    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        """
        Draw.

        Parameters
        ----------
        curve_kwargs : dict, optional
            Options of the line of the loss.

        Returns
        -------
        display
            Itself, with ``ax_``, ``figure_`` and the artists.
        """

    def _draw_lines(self, axes: Canvas, inks: Inks, stages: FloatArray, before: Any, after: Any, own: Any) -> None:
        self.line_ = axes.plot(*widen(stages, before), **({"color": inks.ink} | own))
        self.line_ += axes.plot(*widen(stages, after), color=self._colour(inks), linewidth=1.4)
        axes.set_xlabel("stage")
        set_stage_scale(axes, stages)

    def _colour(self, inks: Inks) -> str:
        return inks.line("refinement", ("refinement",))

    def _draw_marks(self, axes: Canvas, inks: Inks, marked: Any, ends: tuple[float, float], loss: str) -> Any:
        """Mark stages along the bottom, below all losses."""
        low, high = ends
        room = high - low or 0.1
        look = {"marker": "|", "markersize": 5, "linestyle": "none", "color": inks.quiet}
        (marks,) = axes.plot(marked, np.full(marked.size, low - 0.06 * room), **look)
        axes.set_ylim(low - 0.12 * room, high + 0.08 * room)
        axes.set_ylabel(f"{loss} loss")
        return marks


class StageSelectionDisplay(RecalibratedStagesDisplay[StageSelection]):
    """
    The loss of every stage before and after recalibration, and the stage that each would choose.

    Made by ``StageSelection.plot()``. Stages that do not differ significantly from the best are marked along the
    bottom.

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
    >>> select_stage(y, [0.5 + 0.5 * (q - 0.5), q], random_state=0).plot().ax_.get_xlabel()
    'stage'
    """

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        result, table = self.result, self.result.stages
        with self._canvas(ax, curve_kwargs, 1) as (axes, inks, styles):
            before = np.where(np.isfinite(table.raw_loss), table.raw_loss, np.nan)
            after, half = table.recalibrated_loss, table.recalibrated_std_error
            band = {"color": self._colour(inks), "alpha": _get_opacity(inks), "linewidth": 0}
            axes.fill_between(*widen(table.numbers, after - half, after + half), **band)
            self._draw_lines(axes, inks, table.numbers, before, after, styles[0] if curve_kwargs else {})
            self.best_ = []
            for stage, values, look in ((result.raw_stage, before, _RING), (result.stage, after, _DIAMOND)):
                i = int(np.flatnonzero(table.numbers == stage)[0])
                self.best_ += axes.plot(stage, values[i], color=inks.ink, **look)
            ends = float((after - half).min()), float(np.nanmax(np.append(before, after + half)))
            self.alike_ = self._draw_marks(axes, inks, np.array(result.alike), ends, str(result.loss))
            words = ["as is", "recalibrated (± se)", f"least as is: {result.raw_stage:g}"]
            words += [f"chosen: {result.stage:g}", "like the best"]
            _explain(axes, inks, [*self.line_, *self.best_, self.alike_], words)
        return self


class StageRecalibrationDisplay(RecalibratedStagesDisplay[StageRecalibration]):
    """
    The loss of every stage before and after recalibration; the area between is the reliability.

    Made by ``StageRecalibration.plot()``. Stages whose map merges more than one in a hundred pairs of different
    scores are marked along the bottom.

    Attributes
    ----------
    result : StageRecalibration
        The numbers.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : list of Line2D
        Loss before, loss after.
    merged_ : Line2D
        Stages that lose resolution.

    Examples
    --------
    >>> import numpy as np
    >>> from scoreprism.ensembles import recalibrate_stages
    >>> rng = np.random.default_rng(0)
    >>> q = rng.random(300)
    >>> y = rng.random(300) < q
    >>> recalibrate_stages(y, [0.5 * q, q], calibrator="platt", random_state=0).plot().ax_.get_ylabel()
    'log loss'
    """

    def plot(self, ax: Any = None, *, curve_kwargs: Any = None) -> Self:
        result = self.result
        before, after = result.loss, result.recalibrated_loss
        require_finite({"the stages": float(before.max())})
        with self._canvas(ax, curve_kwargs, 1) as (axes, inks, styles):
            fill = {"color": inks.term("reliability"), "alpha": 0.85, "linewidth": 0}
            area = axes.fill_between(*widen(result.numbers, after, before), **fill)
            self._draw_lines(axes, inks, result.numbers, before, after, styles[0] if curve_kwargs else {})
            ends = float(np.minimum(before, after).min()), float(np.maximum(before, after).max())
            self.merged_ = self._draw_marks(axes, inks, result._merging, ends, result.loss_name)
            count = 3 + bool(result._merging.size)
            words = ["loss", "recalibrated", "reliability", "merges over 1 %"]
            _explain(axes, inks, [*self.line_, area, self.merged_][:count], words[:count])
        return self


register(StagewiseDisplay, StagewiseDecomposition)
register(StageRecalibrationDisplay, StageRecalibration)
register(StageSelectionDisplay, StageSelection)
