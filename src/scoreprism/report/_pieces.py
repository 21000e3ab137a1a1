"""Small pieces that all sections share: figures from displays, cells of terms."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from scoreprism._document.colours import house_style
from scoreprism._document.model import Cell, Figure, Range, Table
from scoreprism.exceptions import ScoreprismWarning

if TYPE_CHECKING:
    from scoreprism.decomposition import Decomposition

#: Points of a curve that its table shows.
_POINTS = 21
#: Where the middle one of some probabilities is below these, they have more decimals, or significant digits.
_FINE, _RARE = 0.02, 0.002


def figure(
    key: str,
    title: str,
    description: str,
    draw: Callable[[Any], Any],
    data: Table | None = None,
    *,
    size: tuple[float, float] = (6.4, 3.8),
    panels: Sequence[float] = (1.0,),
    lines: int = 0,
) -> Figure:
    """A figure that is drawn when it is needed: `draw` gets axes (or several, of these heights) in the house style."""

    def drawn() -> Any:
        from matplotlib.figure import Figure as Canvas

        with house_style(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)  # the verdict has them
            height = size[1] + 0.17 * max(lines - 3, 0)  # more lines than these make the legend taller
            canvas = Canvas(figsize=(size[0], height), layout="constrained")
            draw(canvas.subplots(len(panels), height_ratios=panels))
        return canvas

    return Figure(key, title, description, drawn, data)


def draw_with(display: Any, **options: Any) -> Callable[[Any], Any]:
    """A function that draws a display on axes: a copy of it, or a report would keep every figure it has drawn."""
    return lambda ax: copy(display).plot(ax, **options)


def thin(count: int, points: int = _POINTS) -> list[int]:
    """Positions of some rows among many, ends included."""
    if count <= points:
        return list(range(count))
    return sorted({round(i * (count - 1) / (points - 1)) for i in range(points)})


def choose_rate_kind(middle: float) -> str:
    """The kind of a column of probabilities: decimals that fit the largest leave nothing of those of rare events."""
    return "digits" if middle < _RARE else "number" if middle < _FINE else "short"


def write_title(title: str, mark: str) -> str:
    """A title, with the note on numbers at a floor."""
    return f"{title}, {mark}" if mark else title


def make_comparable(decompositions: Mapping[str, Decomposition]) -> dict[str, Decomposition]:
    """Decompositions to be shown side by side: all at the floor, where one is infinite."""
    if all(math.isfinite(one.risk) for one in decompositions.values()):
        return dict(decompositions)
    return {name: one.floored or one for name, one in decompositions.items()}


def find_mark(decompositions: Mapping[Any, Decomposition]) -> str:
    """The note on decompositions that are shown together at a floor; empty where they are not."""
    return next(iter(decompositions.values()))._mark


def known_cell(result: Decomposition, term: str, level: float) -> Cell:
    """An estimate with its interval or bound."""
    value = result.terms[term]
    if not math.isfinite(value):
        return value
    return Range(*result._known(term, level), None if term in result.muted else value)
