"""Several panels in the place of one, with a place for the legend that they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scoreprism._core.checks import refuse
from scoreprism.displays._labels import inches, wrapped
from scoreprism.displays._style import Canvas, Inks

#: Inches that a letter of a legend takes, and that its line and the gaps take.
_LETTER, _KEY = 0.066, 0.55
#: Panels narrower than this, in inches, get short words and small letters.
_NARROW = 1.5
#: What words become in narrow panels.
_SHORT = {
    "decision threshold θ": "θ",
    "mean elementary loss": "loss",
    "predicted probability": "probability",
    "false positive rate": "FPR",
    "true positive rate": "TPR",
}


def split_axes(ax: Canvas, count: int, names: Sequence[str] = ()) -> tuple[list[Canvas], Canvas | None]:
    """Put panels side by side where axes were; these stay as an invisible frame."""
    spec = ax.get_subplotspec()
    if spec is None:
        rule = "a figure of several panels must have axes of a grid to divide"
        refuse(rule, "axes placed by hand", "Make them with plt.subplots().")
    ax.set_axis_off()
    figure, paper = ax.figure, ax.get_facecolor()
    width, height = inches(ax)
    if not names:
        grid = spec.subgridspec(1, count)
        return [figure.add_subplot(grid[0, i], facecolor=paper) for i in range(count)], None
    margin = _KEY + _LETTER * max(len(line) for name in names for line in wrapped(name, 34).split("\n"))
    if len(names) > 6 and (width - margin) / count > _NARROW:
        grid = spec.subgridspec(1, count + 1, width_ratios=[(width - margin) / count] * count + [margin])
        place, line = figure.add_subplot(grid[0, count]), 0
    else:
        foot = 0.04 + 0.175 * -(-len(names) // _columns(names, width))
        grid = spec.subgridspec(2, count, height_ratios=[max(height - foot, 0.3), foot])
        place, line = figure.add_subplot(grid[1, :]), 0
    place.set_axis_off()
    return [figure.add_subplot(grid[line, i], facecolor=paper) for i in range(count)], place


def _columns(names: Sequence[str], width: float) -> int:
    widest = max(len(name) for name in names)
    return min(len(names), max(int(width / (_KEY + _LETTER * widest)), 1))


def shared_legend(place: Canvas, inks: Inks, handles: Sequence[Any], names: Sequence[str]) -> Any:
    """The legend of all panels, in its place."""
    width, height = inches(place)
    if height > width:
        words, columns = [wrapped(name, 34) for name in names], 1
    else:
        words, columns = list(names), _columns(names, width)
    small = {"fontsize": 8, "labelspacing": 0.3, "columnspacing": 1.2, "borderpad": 0.0}
    return place.legend(handles, words, loc="upper left", ncols=columns, labelcolor=inks.ink, **small)


def compact(panels: Sequence[Canvas]) -> None:
    """Short words, few ticks and small letters, where panels are narrow."""
    if inches(panels[0])[0] >= _NARROW:
        return
    for ax in panels:
        for axis in (ax.xaxis, ax.yaxis):
            text = axis.label.get_text()
            axis.set_label_text(_SHORT.get(text, text), fontsize=7)
        ax.set_title(ax.get_title("left"), loc="left", fontsize=7.5)
        ax.locator_params(nbins=3)
        ax.tick_params(labelsize=6.5)
