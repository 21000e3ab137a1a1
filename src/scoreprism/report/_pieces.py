"""Small pieces that all sections share: tables from plain rows, figures from displays, amounts in words."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scoreprism.displays import house_style
from scoreprism.exceptions import ScoreprismWarning
from scoreprism.report._model import Cell, Column, Figure, Range, Table

#: Points of a curve that its table shows.
_POINTS = 21


def table(
    key: str, title: str, columns: Sequence[tuple[str, str, str]], rows: Iterable[Sequence[Cell]], note: str = ""
) -> Table:
    """
    A table from columns (key, heading, kind) and rows.

    Examples
    --------
    >>> table("t", "Terms", [("term", "term", "text"), ("value", "value", "short")], [("a", 0.5)]).shown()
    [['a', '0.500']]
    """
    return Table(key, title, tuple(Column(*column) for column in columns), tuple(tuple(row) for row in rows), note)


def figure(
    key: str,
    title: str,
    description: str,
    draw: Callable[[Any], Any],
    data: Table | None = None,
    *,
    size: tuple[float, float] = (6.4, 3.8),
    panels: Sequence[float] = (1.0,),
) -> Figure:
    """A figure that is drawn when it is needed: `draw` gets axes (or several, of these heights) in the house style."""

    def drawn() -> Any:
        from matplotlib.figure import Figure as Canvas

        with house_style(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)  # whatever there is to say stands in the verdict
            canvas = Canvas(figsize=size, layout="constrained")
            draw(canvas.subplots(len(panels), height_ratios=panels))
        return canvas

    return Figure(key, title, description, drawn, data)


def thinned(count: int, points: int = _POINTS) -> list[int]:
    """
    Places of some rows among many, ends included.

    Examples
    --------
    >>> thinned(3), thinned(100, 3)
    ([0, 1, 2], [0, 50, 99])
    """
    if count <= points:
        return list(range(count))
    return sorted({round(i * (count - 1) / (points - 1)) for i in range(points)})


def span(low: float, high: float, digits: int = 3) -> str:
    """
    An interval in words.

    Examples
    --------
    >>> span(0.1, 0.25)
    '0.100 to 0.250'
    """
    return f"{low:.{digits}f} to {high:.{digits}f}".replace("-", "−")


def ends(low: float, high: float, estimate: float | None = None) -> Range:
    """
    A range; an end that is not a number is none.

    Examples
    --------
    >>> ends(0.5, float("nan"))
    Range(low=0.5, high=None, estimate=None)
    """
    return Range(None if math.isnan(low) else float(low), None if math.isnan(high) else float(high), estimate)


def enumerated(words: Sequence[str], most: int = 4) -> str:
    """
    Words in a sentence.

    Examples
    --------
    >>> enumerated(["a", "b", "c"]), enumerated(["a", "b", "c"], most=2)
    ('a, b and c', 'a, b and 1 more')
    """
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def digits(loss: float) -> str:
    """
    A loss in a sentence: four decimals, three digits where it is small.

    Examples
    --------
    >>> digits(0.48723), digits(0.0082634)
    ('0.4872', '0.00826')
    """
    return f"{loss:.4f}" if not 0.0 < loss < 0.05 else f"{loss:#.3g}" if loss >= 1e-4 else f"{loss:.2e}"


def pvalue(value: float) -> str:
    """
    A p-value in a sentence.

    Examples
    --------
    >>> pvalue(0.0004), pvalue(0.031)
    ('p < 0.001', 'p = 0.031')
    """
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"
