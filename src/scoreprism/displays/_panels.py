"""Several panels in the place of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scoreprism._validation import refuse

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def split_axes(ax: Axes, count: int) -> list[Axes]:
    """
    Put panels side by side where axes were; these stay as an invisible frame.

    Parameters
    ----------
    ax : matplotlib Axes
        Made by ``subplots`` or the like.
    count : int
        Number of panels.

    Returns
    -------
    list of Axes
        From left to right.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> len(split_axes(plt.subplots()[1], 3))
    3
    """
    spec = ax.get_subplotspec()
    if spec is None:
        rule = "a figure of several panels must have axes of a grid to divide"
        refuse(rule, "axes placed by hand", "Make them with plt.subplots(), or pass a list of axes.")
    ax.set_axis_off()
    grid = spec.subgridspec(1, count)
    facecolor: Any = ax.get_facecolor()
    return [ax.figure.add_subplot(grid[0, i], facecolor=facecolor) for i in range(count)]
