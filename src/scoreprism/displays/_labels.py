"""Words on figures: legends that leave the curves alone, labels that avoid each other, and paths of bearable length."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scoreprism.simplex import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scoreprism.displays._style import Inks

#: Points of a path that a figure keeps for each column of a fine grid: first, last, lowest, highest.
_COLUMNS = 400
#: Letters of a line in a legend.
_LETTERS = 26


def thinned(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """
    A path that looks the same with few points: of every narrow column of it the first, last, lowest and highest point.

    Parameters
    ----------
    x : array of shape (n,)
        Nondecreasing.
    y : array of shape (n,)
        Values.

    Returns
    -------
    tuple of arrays
        At most 1600 points; short paths stay as they are.

    Examples
    --------
    >>> x = np.linspace(0, 1, 100_000)
    >>> thinned(x, np.sin(x))[0].size <= 1600
    True
    """
    if x.size <= 4 * _COLUMNS:
        return x, y
    span = x[-1] - x[0]
    column = ((x - x[0]) / (span or 1.0) * (_COLUMNS - 1)).astype(np.intp)
    first = np.flatnonzero(np.diff(column, prepend=-1))
    last = np.append(first[1:], x.size) - 1
    order = np.lexsort((y, column))
    kept = np.unique(np.concatenate([first, last, order[first], order[last]]))
    return x[kept], y[kept]


def wrapped(name: str, width: int = _LETTERS) -> str:
    """
    A name on lines of bearable length.

    Parameters
    ----------
    name : str
        A name.
    width : int, default=26
        Letters of a line.

    Returns
    -------
    str
        At most three lines.

    Examples
    --------
    >>> wrapped("a gradient boosting classifier with calibration").count(chr(10))
    1
    """
    return "\n".join(textwrap.wrap(str(name), width, max_lines=3, placeholder=" …")) or str(name)


def legend(ax: Axes, inks: Inks, handles: Sequence[Any], labels: Sequence[str], *, beside: bool = False) -> Any:
    """
    A legend outside the axes: above them if it is short, beside them if it is long.

    Parameters
    ----------
    ax : matplotlib Axes
        Axes.
    inks : Inks
        Colours.
    handles : sequence of artists
        What is explained.
    labels : sequence of str
        What to say.
    beside : bool, default=False
        Beside the axes in any case.

    Returns
    -------
    Legend
        Part of the axes.
    """
    words = [wrapped(label) for label in labels]
    letters = 15 * ax.get_position().width * ax.figure.get_figwidth()  # that fit above the axes, at about 8 points
    widest = max(len(line) for word in words for line in word.split("\n")) + 7
    columns = min(len(words), max(int(letters / widest), 1))
    rows = -(-len(words) // columns)
    if beside or rows > 3:
        ax.set_box_aspect(None)  # the layout cannot hold both a square and what stands beside it
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "ncols": 1}
    else:
        place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.02), "ncols": -(-len(words) // rows)}
    return ax.legend(handles, words, labelcolor=inks.ink, **place)


#: Where a label may stand relative to its point: direction, then alignment.
_SEATS = (
    (1, 0, "left", "center"),
    (-1, 0, "right", "center"),
    (0, 1, "center", "bottom"),
    (0, -1, "center", "top"),
    (1, 1, "left", "bottom"),
    (1, -1, "left", "top"),
    (-1, 1, "right", "bottom"),
    (-1, -1, "right", "top"),
)


def place_labels(ax: Axes, x: FloatArray, y: FloatArray, words: Sequence[str], inks: Inks) -> list[Any]:
    """
    Write a name next to each point, so that names cover neither each other nor a point.

    Parameters
    ----------
    ax : matplotlib Axes
        Axes with their final limits.
    x, y : array of shape (m,)
        Points.
    words : sequence of str
        Their names.
    inks : Inks
        Colours.

    Returns
    -------
    list of Text
        One per point; further away, with a thin line to its point, where it is crowded.
    """
    figure = ax.figure
    figure.draw_without_rendering()  # the layout decides how large the axes are
    points = ax.transData.transform(np.column_stack([x, y]))
    taken = [(px - 5, py - 5, px + 5, py + 5) for px, py in points]
    texts = []
    for (px, py), word in zip(points, words, strict=True):
        best: tuple[float, Any, Any] | None = None
        for reach in (7, 16, 28, 42, 58):
            for dx, dy, ha, va in _SEATS:
                offset = (dx * reach * (1.0 if dy == 0 else 0.7), dy * reach * (1.0 if dx == 0 else 0.7))
                text = ax.annotate(
                    word, (px, py), offset, xycoords="figure pixels", textcoords="offset points", ha=ha, va=va,
                    fontsize=8, color=inks.ink, annotation_clip=False,
                )  # fmt: skip
                box = text.get_window_extent()
                frame = (box.x0 - 1, box.y0 - 1, box.x1 + 1, box.y1 + 1)
                cost = sum(_overlap(frame, other) for other in taken) + _outside(frame, ax.bbox.extents)
                text.remove()
                if best is None or cost < best[0] - 1e-9:
                    best = (cost, (offset, ha, va, reach), frame)
            if best is not None and best[0] == 0.0:
                break
        assert best is not None
        offset, ha, va, reach = best[1]
        taken.append(best[2])
        index = len(texts)
        line = {"arrowstyle": "-", "color": inks.quiet, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 3}
        texts.append(
            ax.annotate(
                word,
                (x[index], y[index]),
                offset,
                textcoords="offset points",
                ha=ha,
                va=va,
                fontsize=8,
                color=inks.ink,
                annotation_clip=False,
                arrowprops=line if reach > 16 else None,
            )  # fmt: skip
        )
    return texts


Box = tuple[float, float, float, float]


def _overlap(a: Box, b: Box) -> float:
    """Area that two boxes share."""
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _outside(box: Box, frame: Any) -> float:
    """Area of a box outside the axes."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    return area - _overlap(box, tuple(frame))
