"""Words on figures: legends that leave the curves alone, labels that avoid each other, and paths of bearable length."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scoreprism.displays._style import Canvas, Inks
from scoreprism.simplex import FloatArray

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
    >>> wrapped("a gradient boosting classifier, calibrated").count(chr(10))
    1
    """
    return "\n".join(textwrap.wrap(str(name), width, max_lines=3, placeholder=" …")) or str(name)


def legend(ax: Canvas, inks: Inks, handles: Sequence[Any], labels: Sequence[str], *, beside: bool = False) -> Any:
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


#: How far from its point a label may stand, in points; beyond `_FAR` a line leads back.
_REACHES = (7.0, 16.0, 28.0, 42.0, 58.0)
_FAR = 16.0
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


Box = tuple[float, float, float, float]


class Seat(NamedTuple):
    """Where a label stands: how far from its point, in points, how aligned, and which pixels it takes."""

    offset: tuple[float, float]
    align: dict[str, str]
    box: Box
    cost: float


def place_labels(ax: Canvas, x: FloatArray, y: FloatArray, words: Sequence[str], inks: Inks) -> list[Any]:
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
    ax.figure.draw_without_rendering()  # the layout decides how large the axes are
    points = ax.transData.transform(np.column_stack([x, y]))
    taken: list[Box] = [(px - 5, py - 5, px + 5, py + 5) for px, py in points]
    texts = []
    for i, word in enumerate(words):
        text = ax.annotate(word, (x[i], y[i]), (0, 0), textcoords="offset points", fontsize=8, color=inks.ink)
        text.set_annotation_clip(False)
        seat = _best_seat(ax, text, taken)
        text.set(position=seat.offset, **seat.align)
        taken.append(seat.box)
        if max(map(abs, seat.offset)) > _FAR:
            line = {"arrowstyle": "-", "color": inks.quiet, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 3}
            ax.annotate("", (x[i], y[i]), seat.offset, textcoords="offset points", arrowprops=line)
        texts.append(text)
    return texts


def _best_seat(ax: Canvas, text: Any, taken: Sequence[Box]) -> Seat:
    """The nearest seat that covers nothing, or the one that covers least."""
    best: Seat | None = None
    for reach in _REACHES:
        for dx, dy, ha, va in _SEATS:
            shrink = 1.0 if dx == 0 or dy == 0 else 0.7
            offset, align = (dx * reach * shrink, dy * reach * shrink), {"ha": ha, "va": va}
            text.set(position=offset, **align)
            extent = text.get_window_extent()
            box = (extent.x0 - 1, extent.y0 - 1, extent.x1 + 1, extent.y1 + 1)
            cost = sum(_overlap(box, other) for other in taken) + _outside(box, ax.bbox.extents)
            if best is None or cost < best.cost:
                best = Seat(offset, align, box, cost)
        if best is not None and best.cost == 0.0:
            return best
    return best  # type: ignore[return-value]


def _overlap(a: Box, b: Box) -> float:
    """Area that two boxes share."""
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _outside(box: Box, frame: Any) -> float:
    """Area of a box outside the axes."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    return area - _overlap(box, tuple(frame))
