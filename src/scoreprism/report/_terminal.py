"""A report for a terminal: renderables of rich, which take every word of the user's as it is."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from scoreprism._core.checks import parse_count
from scoreprism._core.wording import one_line
from scoreprism.report._model import Block, Figure, Notice, Section, Table

if TYPE_CHECKING:
    from scoreprism.report._report import Report

#: What stands before a notice, and its style.
SIGNS = {"action": ("→", "bold green"), "warning": ("!", "bold yellow"), "note": ("·", "dim")}
#: A column of words is not squeezed below this many letters, and words not broken below it.
_WORD = 12
#: Spaces between columns: one is rich's own.
_GAP = 2
#: The least letters of a column where a table cannot fit.
_NARROWEST = 4
#: A word, with the sign for per cent that follows a number.
_PERCENT = re.compile(r"\S+ %\S*|\S+")


def render_text(report: Report, width: int = 100) -> str:
    """The report as plain text."""
    return plain_text(renderables(report, parse_count(width, "width", 40)), width)


def plain_text(parts: list[Any], width: int) -> str:
    """Renderables as plain text."""
    from rich.console import Console

    page = io.StringIO()
    plain: dict[str, Any] = {"color_system": None, "force_terminal": False, "legacy_windows": False, "_environ": {}}
    console = Console(file=page, width=width, highlight=False, markup=False, emoji=False, **plain)
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines()) + "\n"


def renderables(report: Report, width: int = 100) -> list[Any]:
    """The report for a console of rich."""
    from rich.text import Text

    parts: list[Any] = [Text(_folded(report.title, width), style="bold"), Text(_folded(report.headline, width))]
    for section in report.sections:
        parts += _section(section, width)
    return parts


def _section(section: Section, width: int) -> list[Any]:
    from rich.rule import Rule
    from rich.text import Text

    parts: list[Any] = [Text(), Rule(Text(one_line(section.title), style="bold"), align="left", style="dim")]
    parts += [Text(_folded(section.meaning, width))] if section.meaning else []
    noticed = False
    for block in section.blocks:
        following = isinstance(block, Notice) and noticed
        parts += ([] if following else [Text()]) + _block(block, width)
        noticed = isinstance(block, Notice)
    return parts


def _block(block: Block, width: int) -> list[Any]:
    """A notice, a table, or what a picture shows in words."""
    from rich.padding import Padding
    from rich.text import Text

    if isinstance(block, Notice):
        sign, style = SIGNS[block.kind]
        return [_hanging(sign, style, _folded(block.text, width - _GAP))]
    if isinstance(block, Table):
        return tables(block, width)
    assert isinstance(block, Figure)  # noqa: S101 - for the type checker
    words = Text(_folded(block.description, width - _GAP))
    return [Text(_folded(block.title, width), style="bold"), Padding(words, (0, 0, 0, _GAP))]


def _hanging(sign: str, style: str, words: str) -> Any:
    """A sign, and words that keep clear of it."""
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_row(Text(sign, style=style), Text(words))
    return grid


def tables(table: Table, width: int) -> list[Any]:
    """A table for a console of rich; one that is too wide becomes several, each with the first column."""
    from rich.text import Text

    cells = [[one_line(cell) for cell in row] for row in table.shown()]
    parts: list[Any] = [Text(_folded(table.title, width), style="bold")]
    for number, columns in enumerate(_sheets(table, cells, width)):
        parts += [Text()] if number else []
        parts.append(_grid(table, cells, columns, width))
    return [*parts, Text(_folded(table.note, width), style="dim")] if table.note else parts


def _sheets(table: Table, cells: list[list[str]], width: int) -> list[list[int]]:
    """Which columns stand beside each other, so that no number is broken."""
    least = [_least(table, cells, i) + _GAP for i in range(len(table.columns))]
    sheets = [[0]] if least else []
    for i in range(1, len(least)):
        if sum(least[j] for j in sheets[-1]) + least[i] > width and len(sheets[-1]) > 1:
            sheets.append([0])
        sheets[-1].append(i)
    return sheets


def _least(table: Table, cells: list[list[str]], column: int) -> int:
    """Letters that a column needs: numbers are not broken, words are."""
    from rich.cells import cell_len

    widest = max((cell_len(row[column]) for row in cells), default=0)
    head = max(map(cell_len, one_line(table.columns[column].title).split()), default=0)
    return max(widest, head) if _holds_numbers(table, column) else min(max(widest, head), _WORD)


def _holds_numbers(table: Table, column: int) -> bool:
    return table.columns[column].kind != "text"


def _widths(table: Table, cells: list[list[str]], columns: list[int], width: int) -> list[int]:
    """
    Letters of columns beside each other: what they need, and what is left goes to those that are short of room.

    Rich would squeeze columns below their least width, and then cut what stands at the right.
    """
    from rich.cells import cell_len

    least = [_least(table, cells, i) for i in columns]
    whole = [
        max(cell_len(one_line(text)) for text in (table.columns[i].title, *(row[i] for row in cells))) for i in columns
    ]
    left = width - _GAP * len(columns) - sum(least)
    if left < 0:  # one column beside the first, and still too wide: the first gives way, then the other
        first = max(least[0] + left, _NARROWEST)
        return [first, max(sum(least[1:]) + left + least[0] - first, _NARROWEST)][: len(columns)]
    while left > 0 and any(now < most for now, most in zip(least, whole, strict=True)):
        short = min((i for i, most in enumerate(whole) if least[i] < most), key=lambda i: least[i])
        least[short], left = least[short] + 1, left - 1
    return least


def _folded(text: str, width: int) -> str:
    """Text on lines of a width: a number keeps its sign for per cent, and only words longer than a line are broken."""
    from rich.cells import cell_len, chop_cells

    lines: list[str] = [""]
    for word in _PERCENT.findall(one_line(text)):
        if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
            continue
        parts = [word] if cell_len(word) <= width else chop_cells(word, width)
        lines = [*lines, *parts] if lines[-1] else [*lines[:-1], *parts]
    return "\n".join(lines)


def _grid(table: Table, cells: list[list[str]], columns: list[int], width: int) -> Any:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0), show_edge=False, header_style="dim")
    widths = _widths(table, cells, columns, width)
    for i, letters in zip(columns, widths, strict=True):
        side: Any = "right" if _holds_numbers(table, i) else "left"
        title = Text(_folded(table.columns[i].title, letters))
        grid.add_column(title, width=letters, justify=side, vertical="top", overflow="fold")
    for row in cells:
        grid.add_row(*(Text(_folded(row[i], letters)) for i, letters in zip(columns, widths, strict=True)))
    return grid
