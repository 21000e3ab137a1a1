"""What pages are made of: one way to make a table, one way to draw a figure, and numbers in sentences."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from scoreprism.displays import house_style
from scoreprism.displays._style import MARKERS, Inks
from scoreprism.exceptions import ScoreprismWarning
from scoreprism.report import Column, Figure, Table

__all__ = ["INK", "MARKERS", "colour", "figure", "list_words", "minus", "pvalue", "scientific", "share_legend", "table"]

#: Colours on white paper; the page exchanges them on a dark one.
INK = Inks.on("white")
Row = Mapping[str, Any]


def table(key: str, title: str, rows: Sequence[Row], note: str = "", kinds: Mapping[str, str] | None = None) -> Table:
    """Make a table from dicts, whose keys are the headings; `kinds` says how columns are shown that need it."""
    heads = list(rows[0])
    found = {head: [plain(row[head]) for row in rows] for head in heads}
    shown = {head: (kinds or {}).get(head) or _guess_kind(cells) for head, cells in found.items()}
    columns = tuple(Column(head, head, shown[head]) for head in heads)
    return Table(key, title, columns, tuple(zip(*found.values(), strict=True)), note)


def _guess_kind(cells: Sequence[Any]) -> str:
    if any(isinstance(cell, str) for cell in cells):
        return "text"
    return "count" if all(isinstance(cell, int) for cell in cells) else "loss"


def figure(
    key: str,
    title: str,
    description: str,
    draw: Callable[[Any], Any],
    rows: Sequence[Row] = (),
    *,
    size: tuple[float, float],
    shape: tuple[int, int] = (1, 1),
    **options: Any,
) -> Figure:
    """Make a figure that is drawn when it is needed: `draw` gets all axes; `rows` are the numbers behind it."""

    def paint() -> Any:
        from matplotlib.figure import Figure as Canvas

        with house_style(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)  # the page says what there is to say
            canvas = Canvas(figsize=size, layout="constrained")
            axes = canvas.subplots(*shape, squeeze=False, **options).ravel()
            for ax in axes:
                INK.dress(ax)
            draw(axes)
        return canvas

    return Figure(key, title, description, paint, table(f"{key}-data", title, rows) if rows else None)


def colour(index: int) -> str:
    """Colour of a model, in the order of the house style: blue, red, green."""
    return str(INK.model(index)["color"])


def share_legend(axes: Any) -> None:
    """Put what the first axes show in a legend below all of them."""
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def list_rows(ax: Any, names: Sequence[str]) -> None:
    """Name the rows of a figure, from top to bottom, without an axis."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)


def plain(value: Any) -> Any:
    """Turn arrays into lists and numpy's numbers into Python's: what JSON gives back as it was."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def name_numbers(prefix: str, rows: Sequence[Row], columns: Sequence[str]) -> dict[str, float]:
    """Name the numbers of some columns: prefix, the texts of the row, the column."""
    named = {}
    for row in rows:
        texts = "/".join(cell for cell in row.values() if isinstance(cell, str))
        named |= {f"{prefix}/{texts}/{column}": row[column] for column in columns if row[column] is not None}
    return named


def thin(count: int, points: int = 21) -> list[int]:
    """Choose places of some rows among many, ends included."""
    return sorted({round(i * (count - 1) / (points - 1)) for i in range(points)})


def minus(text: str) -> str:
    """Write the hyphens before numbers as minus signs."""
    return re.sub(r"(?<!\w)-(?=\d)", "−", text)


def list_words(words: Sequence[str]) -> str:
    """List words in a sentence."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def pvalue(value: float) -> str:
    """Write a p-value in a sentence."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def scientific(value: float, decimals: int = 1) -> str:
    """Write a very small or large number in a sentence: digits, and a power of ten."""
    if value == 0.0:
        return "0"
    digits, power = f"{value:.{decimals}e}".split("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if float(digits) == 1.0 else f"{digits}·10{raised}"
