"""Several panels in the place of one, with a place for the legend that they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scoreprism._validation import refuse
from scoreprism.displays._labels import wrapped
from scoreprism.displays._style import Canvas, Inks

#: A shared legend of more names than this stands beside the panels.
_ABOVE = 6


def split_axes(ax: Canvas, count: int, names: Sequence[str] = ()) -> tuple[list[Canvas], Canvas | None]:
    """
    Put panels side by side where axes were; these stay as an invisible frame.

    Parameters
    ----------
    ax : matplotlib Axes
        Made by ``subplots`` or the like.
    count : int
        Number of panels.
    names : sequence of str, default=()
        Names in the legend that the panels share; without any there is none.

    Returns
    -------
    tuple of list of Axes, and Axes or None
        Panels from left to right, and an empty place for the legend.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> panels, place = split_axes(plt.subplots()[1], 3)
    >>> len(panels), place
    (3, None)
    """
    spec = ax.get_subplotspec()
    if spec is None:
        rule = "a figure of several panels must have axes of a grid to divide"
        refuse(rule, "axes placed by hand", "Make them with plt.subplots().")
    ax.set_axis_off()
    figure, paper = ax.figure, ax.get_facecolor()
    size = ax.get_position().width * figure.get_figwidth(), ax.get_position().height * figure.get_figheight()
    if not names:
        grid = spec.subgridspec(1, count)
        return [figure.add_subplot(grid[0, i], facecolor=paper) for i in range(count)], None
    if len(names) > _ABOVE:
        width = 0.5 + 0.068 * max(len(line) for name in names for line in wrapped(name).split("\n"))
        share = (size[0] - width) / count
        grid = spec.subgridspec(1, count + 1, width_ratios=[max(share, 0.1)] * count + [width])
        place = figure.add_subplot(grid[0, count])
        panels = [figure.add_subplot(grid[0, i], facecolor=paper) for i in range(count)]
    else:
        height = 0.2 * _rows(names, size[0])
        grid = spec.subgridspec(2, count, height_ratios=[height, max(size[1] - height, 0.1)])
        place = figure.add_subplot(grid[0, :])
        panels = [figure.add_subplot(grid[1, i], facecolor=paper) for i in range(count)]
    place.set_axis_off()
    return panels, place


def _rows(names: Sequence[str], width: float) -> int:
    """Rows of a legend above the panels."""
    return -(-len(names) // _columns(names, width))


def _columns(names: Sequence[str], width: float) -> int:
    widest = max(len(name) for name in names)
    return min(len(names), max(int(width / (0.55 + 0.068 * widest)), 1))


def shared_legend(place: Canvas, inks: Inks, handles: Sequence[Any], names: Sequence[str]) -> Any:
    """
    The legend of all panels, in its place.

    Parameters
    ----------
    place : matplotlib Axes
        Empty axes from `split_axes`.
    inks : Inks
        Colours.
    handles : sequence of artists
        What is explained.
    names : sequence of str
        What to say.

    Returns
    -------
    Legend
        Above or beside the panels.
    """
    if len(names) > _ABOVE:
        words, columns = [wrapped(name) for name in names], 1
    else:
        words, columns = list(names), _columns(names, place.get_position().width * place.figure.get_figwidth())
    return place.legend(handles, words, loc="upper left", ncols=columns, labelcolor=inks.ink)
