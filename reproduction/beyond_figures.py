"""Figures of what the paper could not see: the noise floor, debiased reliability, double use, three terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reproduction.printed import LOSSES, METHODS
from scoreprism.decomposition import Decomposition
from scoreprism.displays import DecompositionDisplay, house_style
from scoreprism.displays._style import Canvas, Inks
from scoreprism.pipelines import PairedComparison, splits_summary
from scoreprism.report import Figure, Table
from scoreprism.report._pieces import figure

#: Markers of the reliability figure; those of the plug-in and the floor as in the figure of all splits.
_MARKS = {"plug-in": "D", "noise floor": "|", "debiased": "^"}
#: What the label of an axis says where extreme splits are drawn at its ends.
_EDGES = "beyond the edges"
#: Room between a panel and its title, in points.
_PAD = 9


def floor_figure(frame: Any, description: str) -> Figure:
    """
    The plug-in reliability of every split against the noise floor.

    Parameters
    ----------
    frame : frame
        From `german_frame`.
    description : str
        In words; the numbers stand in a table beside it.

    Returns
    -------
    Figure
        Two panels.
    """
    # The debiased reliability under a map that reaches 0 and 1 is ruled by single rows: it has a figure of its own.
    summary = splits_summary(frame.drop("reliability"))

    def draw(axes: Any) -> None:
        for ax, loss in zip(axes, LOSSES, strict=True):
            summary.plot(ax=ax, loss=loss)
            ax.set_title(LOSSES[loss], loc="left", color=Inks.of(ax).ink, pad=_PAD)
            ax.set_xlabel(ax.get_xlabel().replace(f" ({loss})", ""))
        one_key(axes)

    title = "Plug-in reliability in every split, and what a calibrated score would show"
    return figure("beyond-noise-floor", title, description, draw, size=(6.8, 5.8), panels=(1.0, 1.0))


def one_key(axes: Any) -> None:
    """
    The legend below the last of several panels that have the same.

    Parameters
    ----------
    axes : array of matplotlib Axes
        From top to bottom.
    """
    for ax in axes[:-1]:
        ax.get_legend().remove()
        ax.set_xlabel("\n".join(line for line in ax.get_xlabel().split("\n") if _EDGES in line))


def one_scale(axes: Any) -> None:
    """
    The same limits for all panels, unless splits beyond an edge that would move are drawn there.

    Parameters
    ----------
    axes : array of matplotlib Axes
        Of the same quantity.
    """
    lows, highs = zip(*(ax.get_xlim() for ax in axes), strict=True)
    whole = (min(lows), max(highs))
    if not any(_at_edge(ax, end, whole[end]) for ax in axes for end in (0, 1)):
        for ax in axes:
            ax.set_xlim(whole)


def _at_edge(ax: Any, end: int, new: float) -> bool:
    """Whether something is drawn at an end of the axis that a new limit would move."""
    old = ax.get_xlim()[end]
    drawn = np.concatenate([np.asarray(line.get_xdata(), dtype=np.float64) for line in ax.lines])
    return bool(old != new and ((drawn <= old) if end == 0 else (drawn >= old)).any())


def debiased_figure(
    rows: Mapping[tuple[str, str], tuple[float, float, float, float, float]], description: str
) -> Figure:
    """
    Plug-in, floor, and debiased reliability with its interval.

    Parameters
    ----------
    rows : mapping of (loss, method) to numbers
        Plug-in, floor, debiased, and the ends of its interval.
    description : str
        In words; the numbers stand in a table beside it.

    Returns
    -------
    Figure
        Two panels.
    """

    def draw() -> Any:
        from matplotlib.figure import Figure as Sheet

        with house_style():
            sheet = Sheet(figsize=(7.4, 3.3), layout="constrained")
            for ax, loss in zip(sheet.subplots(1, 2, sharey=True), LOSSES, strict=True):
                _debiased_panel(ax, {method: rows[loss, method] for method in METHODS})
                ax.set_title(LOSSES[loss], loc="left", color=Inks.of(ax).ink)
                ax.set_xlabel("reliability")
            handles, labels = sheet.axes[0].get_legend_handles_labels()
            sheet.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        return sheet

    title = "Reliability: plug-in and noise floor (isotonic), debiased (mixture of maps) with its 95 % interval"
    return Figure("beyond-debiased-reliability", title, description, draw)


def _debiased_panel(ax: Canvas, rows: Mapping[str, tuple[float, float, float, float, float]]) -> None:
    inks = Inks.of(ax)
    colours = {"plug-in": inks.line("reliability"), "noise floor": inks.ink, "debiased": inks.model(2)["color"]}
    ax.axvline(0.0, color=inks.quiet, linewidth=0.9, zorder=1)
    for row, (plugin, floor, debiased, low, high) in enumerate(rows.values()):
        ax.plot([low, high], [row + 0.16] * 2, color=colours["debiased"], linewidth=1.6, zorder=2)
        places = {
            "plug-in": (plugin, row - 0.16),
            "noise floor": (floor, row - 0.16),
            "debiased": (debiased, row + 0.16),
        }
        for name, (x, y) in places.items():
            marker = _MARKS[name]
            look = {"color": colours[name], "marker": marker, "linestyle": "none"}
            wide = {"markersize": 12, "markeredgewidth": 2.0} if marker == "|" else {"markersize": 6}
            ax.plot(x, y, label=name if row == 0 else None, zorder=4, **look, **wide)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.margins(x=0.08)
    ax.locator_params(axis="x", nbins=6)
    inks.dress(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)


def double_use_figure(found: Mapping[str, PairedComparison], description: str, data: Table) -> Figure:
    """
    Differences from the average with and without double use.

    Parameters
    ----------
    found : mapping of str to PairedComparison
        By protocol.
    description : str
        In words.
    data : Table
        In numbers.

    Returns
    -------
    Figure
        A panel for each protocol.
    """

    def draw(axes: Any) -> None:
        for ax, (name, comparison) in zip(axes, found.items(), strict=True):
            comparison.plot(ax=ax)
            ax.set_title(f"stack and calibrator: {name}", loc="left", color=Inks.of(ax).ink, pad=_PAD)
        one_scale(axes)
        one_key(axes)

    title = "Reliability against the average's: stack and calibrator on the same rows, and on different ones"
    return figure(
        "beyond-double-use", title, description, draw, data, size=(6.8, 2.7 * len(found)), panels=(1.0,) * len(found)
    )


def terms_figure(found: Mapping[str, Mapping[str, Decomposition]], description: str) -> Figure:
    """
    Reliability and grouping of the methods, under both losses.

    Parameters
    ----------
    found : mapping of str to mapping of str to Decomposition
        By loss, then by method.
    description : str
        In words; the numbers stand in a table beside it.

    Returns
    -------
    Figure
        Two panels.
    """

    def draw(axes: Any) -> None:
        for ax, (loss, methods) in zip(axes, found.items(), strict=True):
            DecompositionDisplay(dict(methods)).plot(ax=ax, terms=("reliability", "grouping"))
            ax.set_title(LOSSES[loss], loc="left", color=Inks.of(ax).ink, pad=_PAD)
            ax.set_xlabel(ax.get_xlabel().replace(f"the {loss} loss", "the loss"))
        one_key(axes)

    title = "The part of the loss that can be reduced, with what is known of it"
    return figure("beyond-terms-figure", title, description, draw, size=(6.8, 5.4), panels=(1.0, 1.0))
