"""Text on figures: legends that do not cover curves and labels that do not overlap; and thinning of long paths."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scoreprism._core.simplex import FloatArray
from scoreprism._findings.wording import write_fixed
from scoreprism.displays._style import Canvas, Inks

#: Points of a path that a figure keeps for each column of a fine grid: first, last, lowest, highest.
_COLUMNS = 400
#: Letters of a line in a legend.
_LETTERS = 26
#: Lines of a name.
_MOST = 3


def thin_out(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same path with fewer points: the first, last, lowest and highest of every narrow column."""
    if x.size <= 4 * _COLUMNS:
        return x, y
    span = x[-1] - x[0]
    column = ((x - x[0]) / (span or 1.0) * (_COLUMNS - 1)).astype(np.intp)
    first = np.flatnonzero(np.diff(column, prepend=-1))
    last = np.append(first[1:], x.size) - 1
    order = np.lexsort((y, column))
    corners = np.unique(np.concatenate([first, last, order[first], order[last]]))
    return x[corners], y[corners]


def wrap(name: str, width: int = _LETTERS) -> str:
    """Break a name into lines, but not before a percent sign; a long one loses its middle."""
    lines = [line.replace("\u00a0%", " %") for line in textwrap.wrap(str(name).replace(" %", "\u00a0%"), width)]
    if len(lines) > _MOST:
        lines = textwrap.wrap(shorten(str(name), _MOST * width - width // 2), width)
        lines = [*lines[: _MOST - 1], shorten(" ".join(lines[_MOST - 1 :]), width)]
    return "\n".join(lines) or str(name)


def shorten(name: str, most: int) -> str:
    """Cut the middle out of a long name, as names of a family often differ at the end."""
    if len(name) <= most:
        return name
    end = (most - 1) * 2 // 5
    return f"{name[: most - 1 - end].rstrip()}…{name[len(name) - end :].rstrip()}"


def make_swatch(colour: str) -> Any:
    """A legend swatch for something that has several colours in the figure."""
    from matplotlib.patches import Patch

    return Patch(color=colour, alpha=0.2, linewidth=0)


#: Points between the axes and a legend below them, for ticks and a label.
_DROP = 36
#: Inches of a line of a legend, and of a letter in it; letters that the swatch and the gap beside it take.
_LINE, _LETTER, _SWATCH = 0.165, 1 / 15, 7
#: Rows of a legend that always goes below; shares of the width that a longer one must leave as width and as height.
_FEW, _WIDE, _LEAST = 3, 0.6, 0.4
#: Mark of our legends, which a second display on the same axes continues.
_LEGEND = "scoreprism legend"


def write_known(value: float, low: float, high: float, decimals: int) -> str:
    """An estimate, if there is one, and its interval or bound."""
    words = [write_fixed(value, decimals)] if math.isfinite(value) else []
    ends = [write_fixed(end, decimals) if math.isfinite(end) else "" for end in (low, high)]
    if all(ends):
        below = low == 0.0 and words and words[0].startswith("−")  # corrected for noise, an estimate may fall below 0
        if below:
            words = ["0", f"[{ends[0]}, {ends[1]}; estimate {words[0]}]"]
        else:
            words.append(f"[{ends[0]}, {ends[1]}]")
    elif any(ends):
        words.append(f"≥ {ends[0]}" if ends[0] else f"≤ {ends[1]}")
    return "  ".join(words)


def root_figure(ax: Canvas) -> Any:
    """The top-level figure of axes, not a subfigure."""
    figure = ax.figure
    while hasattr(figure, "_parent"):
        figure = figure._parent
    return figure


def has_layout(ax: Canvas) -> bool:
    """Whether a layout engine makes room for the words around axes."""
    return root_figure(ax).get_layout_engine() is not None


def count_margin_letters(ax: Canvas) -> int:
    """Letters of a tick label that fit into the margin left of axes."""
    return int(ax.get_window_extent().x0 / root_figure(ax).dpi / 0.075) - 1


def inches(ax: Canvas) -> tuple[float, float]:
    """Width and height of axes in inches."""
    box = ax.get_window_extent()
    return box.width / root_figure(ax).dpi, box.height / root_figure(ax).dpi


def draw_legend(ax: Canvas, inks: Inks, handles: Sequence[Any], labels: Sequence[str]) -> Any:
    """
    Draw a legend that does not cover the curves: below the axes, or beside them if it is long and they are wide.

    In a figure without a layout engine nothing makes room for it, so it goes inside. The place of a title stays free.
    """
    handles, labels = _continue(ax, handles, labels)
    place: dict[str, Any] = {"labelcolor": inks.ink}
    words, columns = _arrange(ax, labels)
    if not has_layout(ax):
        place |= {"loc": "best", "frameon": True, "facecolor": inks.paper, "framealpha": 0.7, "edgecolor": "none"}
        place["fontsize"] = 7
    elif columns == 0:
        ax.set_box_aspect(None)  # the layout cannot keep square axes with a legend beside them
        place |= {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0)}
    else:
        place |= {
            "loc": "upper left",
            "bbox_to_anchor": (0.0, 0.0),
            "bbox_transform": _shift_below(ax),
            "ncols": columns,
        }
    drawn = ax.legend(handles, words, **place)
    drawn.set_gid(_LEGEND)
    return drawn


def _arrange(ax: Canvas, labels: Sequence[str]) -> tuple[list[str], int]:
    """Labels of a legend, and its number of columns below the axes; 0 if it goes beside them."""
    (width, height), few = inches(ax), len(labels) <= _FEW
    words = _phrase(ax, labels)
    widest = _LETTER * (max(len(line) for word in words for line in word.split("\n")) + _SWATCH)
    columns = min(len(words), max(int(width / widest), 1))
    rows = -(-len(words) // columns)
    narrow = [wrap(label, 34 if len(labels) <= 6 else 26) for label in labels]
    beside = _LETTER * (max(len(line) for word in narrow for line in word.split("\n")) + _SWATCH)
    low = height - _LINE * rows < _LEAST * width
    if not few and rows > _FEW and (low or width - beside >= _WIDE * width):
        return narrow, 0
    return words, -(-len(words) // rows)


def _phrase(ax: Canvas, labels: Sequence[str]) -> list[str]:
    """Labels of a legend below axes: on several lines if they are few, otherwise one line each."""
    if len(labels) <= _FEW:
        return [wrap(label, 34) for label in labels]
    room = int(np.clip(inches(ax)[0] / _LETTER - _SWATCH, 20, 48))
    return [shorten(label, room) for label in labels]


def _continue(ax: Canvas, handles: Sequence[Any], labels: Sequence[str]) -> tuple[list[Any], list[str]]:
    """Handles and labels of our legend on these axes, if there is one, and then new ones."""
    old = ax.get_legend()
    if old is None or old.get_gid() != _LEGEND:
        return list(handles), list(map(str, labels))
    known = [text.get_text().replace("\n", " ") for text in old.get_texts()]
    existing = list(zip(old.legend_handles, known, strict=True))
    spellings = [{label, *(word.replace("\n", " ") for word in _phrase(ax, [label]))} for label in map(str, labels)]
    pairs = zip(handles, map(str, labels), spellings, strict=True)
    fresh = [(handle, label) for handle, label, looks in pairs if not looks & set(known)]
    return [handle for handle, _ in existing + fresh], [label for _, label in existing + fresh]


def _shift_below(ax: Canvas) -> Any:
    """Coordinates of the axes, moved down by the height of ticks and of the label, which may have several lines."""
    from matplotlib.transforms import ScaledTranslation

    more = ax.get_xlabel().count("\n") * 1.2 * ax.xaxis.label.get_fontsize()
    return ax.transAxes + ScaledTranslation(0.0, -(_DROP + more) / 72.0, root_figure(ax).dpi_scale_trans)


#: Distances of a label from its point, in points; beyond `_FAR` a line connects them.
_REACHES = (7.0, 16.0, 28.0, 42.0, 58.0)
_FAR = 16.0
#: Positions of a label relative to its point: direction, then alignment.
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
    """Position of a label: offset from its point in points, alignment, pixels it covers, and cost."""

    offset: tuple[float, float]
    align: dict[str, str]
    box: Box
    cost: float


def place_labels(
    ax: Canvas, x: FloatArray, y: FloatArray, words: Sequence[str], colours: Sequence[str], inks: Inks
) -> list[Any]:
    """Write a name next to each point, so that names cover neither each other, nor a point, nor other words."""
    root_figure(ax).draw_without_rendering()  # the layout decides how large the axes are
    points = ax.transData.transform(np.column_stack([x, y]))
    occupied: list[Box] = [(px - 5, py - 5, px + 5, py + 5) for px, py in points]
    words_there = [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels()]
    occupied += [tuple(text.get_window_extent().extents) for text in words_there]
    texts = []
    for i, word in enumerate(words):
        text = ax.annotate(word, (x[i], y[i]), (0, 0), textcoords="offset points", fontsize=8, color=colours[i])
        text.set_annotation_clip(False)
        others = np.delete(points, i, axis=0)
        seat = _find_seat(ax, text, occupied, points[i], others)
        text.set(position=seat.offset, **seat.align)
        occupied.append(seat.box)
        if max(map(abs, seat.offset)) > _FAR:
            line = {"arrowstyle": "-", "color": inks.quiet, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 3}
            ax.annotate("", (x[i], y[i]), seat.offset, textcoords="offset points", arrowprops=line)
        texts.append(text)
    return texts


def _find_seat(ax: Canvas, text: Any, occupied: Sequence[Box], own: FloatArray, others: FloatArray) -> Seat:
    """The nearest position that covers nothing, or the one that covers least."""
    best: Seat | None = None
    for reach in _REACHES:
        for dx, dy, ha, va in _SEATS:
            shrink = 1.0 if dx == 0 or dy == 0 else 0.7
            offset, align = (dx * reach * shrink, dy * reach * shrink), {"ha": ha, "va": va}
            text.set(position=offset, **align)
            extent = text.get_window_extent()
            box = (extent.x0 - 1, extent.y0 - 1, extent.x1 + 1, extent.y1 + 1)
            cost = sum(_overlap(box, other) for other in occupied) + _measure_outside(box, ax.bbox.extents)
            cost += _charge_mistaken(box, own, others)
            if best is None or cost < best.cost:
                best = Seat(offset, align, box, cost)
        if best is not None and best.cost == 0.0:
            return best
    return best  # type: ignore[return-value]


def _overlap(a: Box, b: Box) -> float:
    """Area that two boxes share."""
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _measure_outside(box: Box, frame: Any) -> float:
    """Area of a box outside the axes."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    return area - _overlap(box, tuple(frame))


def _charge_mistaken(box: Box, own: FloatArray, others: FloatArray) -> float:
    """A charge for a name that is nearer to another point than to its own."""

    def gap(points: FloatArray) -> FloatArray:
        across = np.maximum(np.maximum(box[0] - points[:, 0], points[:, 0] - box[2]), 0.0)
        up = np.maximum(np.maximum(box[1] - points[:, 1], points[:, 1] - box[3]), 0.0)
        return np.hypot(across, up)

    if not others.size:
        return 0.0
    return float(np.maximum(gap(own[None])[0] + 2.0 - gap(others), 0.0).sum()) * 8.0
