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
    """A table from columns (key, heading, kind) and rows."""
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
    """Places of some rows among many, ends included."""
    if count <= points:
        return list(range(count))
    return sorted({round(i * (count - 1) / (points - 1)) for i in range(points)})


def span(low: float, high: float, digits: int = 3) -> str:
    """An interval in words."""
    return f"{low:.{digits}f} to {high:.{digits}f}".replace("-", "−")


def ends(low: float, high: float, estimate: float | None = None) -> Range:
    """A range; an end that is not a number is none."""
    return Range(None if math.isnan(low) else float(low), None if math.isnan(high) else float(high), estimate)


def enumerated(words: Sequence[str], most: int = 4) -> str:
    """Words in a sentence."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def digits(loss: float) -> str:
    """A loss in a sentence: four decimals, three digits where it is small."""
    return f"{loss:.4f}" if not 0.0 < loss < 0.05 else f"{loss:#.3g}" if loss >= 1e-4 else f"{loss:.2e}"


def pvalue(value: float) -> str:
    """A p-value in a sentence."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"
