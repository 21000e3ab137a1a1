"""A report for a terminal: renderables of rich, which take every word of the user's as it is."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from scoreprism._validation import parse_count
from scoreprism.report._model import Block, Figure, Notice, Section, Table
from scoreprism.report._words import one_line

if TYPE_CHECKING:
    from scoreprism.report._report import Report

#: What stands before a notice, and its style.
SIGNS = {"action": ("→", "bold green"), "warning": ("!", "bold yellow"), "note": ("·", "dim")}
#: A column of words is not squeezed below this many letters, and words not broken below it.
_WORD = 12
#: Spaces between columns: one is rich's own.
_GAP = 2


def render_text(report: Report, width: int = 100) -> str:
    """
    The report as plain text.

    Parameters
    ----------
    report : Report
        What was found out.
    width : int, default=100
        Columns of the terminal; at least 40.

    Returns
    -------
    str
        No colours, no spaces at the ends of lines.
    """
    return plain_text(renderables(report, parse_count(width, "width", 40)), width)


def plain_text(parts: list[Any], width: int) -> str:
    """
    Renderables as plain text.

    Parameters
    ----------
    parts : list
        What rich can print.
    width : int
        Columns of the terminal.

    Returns
    -------
    str
        No colours, no spaces at the ends of lines.
    """
    from rich.console import Console

    page = io.StringIO()
    plain: dict[str, Any] = {"color_system": None, "force_terminal": False, "legacy_windows": False, "_environ": {}}
    console = Console(file=page, width=width, highlight=False, markup=False, emoji=False, **plain)
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines()) + "\n"


def renderables(report: Report, width: int = 100) -> list[Any]:
    """
    The report for a console of rich.

    Parameters
    ----------
    report : Report
        What was found out.
    width : int, default=100
        Columns of the terminal: a table that is wider is cut into several.

    Returns
    -------
    list
        Text, rules and tables, in order. Print them one by one.
    """
    from rich.text import Text

    parts: list[Any] = [Text(one_line(report.title), style="bold"), Text(one_line(report.headline))]
    for section in report.sections:
        parts += _section(section, width)
    return parts


def _section(section: Section, width: int) -> list[Any]:
    from rich.rule import Rule
    from rich.text import Text

    parts: list[Any] = [Text(), Rule(Text(one_line(section.title), style="bold"), align="left", style="dim")]
    parts += [Text(one_line(section.meaning))] if section.meaning else []
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
        return [_hanging(sign, style, one_line(block.text))]
    if isinstance(block, Table):
        return tables(block, width)
    assert isinstance(block, Figure)  # noqa: S101 - for the type checker
    return [Text(one_line(block.title), style="bold"), Padding(Text(one_line(block.description)), (0, 0, 0, _GAP))]


def _hanging(sign: str, style: str, words: str) -> Any:
    """A sign, and words that keep clear of it."""
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_row(Text(sign, style=style), Text(words))
    return grid


def tables(table: Table, width: int) -> list[Any]:
    """
    A table for a console of rich; one that is too wide becomes several, each with the first column.

    Parameters
    ----------
    table : Table
        A table of a report.
    width : int
        Columns of the terminal.

    Returns
    -------
    list
        Its title, tables of rich, its note.
    """
    from rich.text import Text

    cells = [[one_line(cell) for cell in row] for row in table.shown()]
    parts: list[Any] = [Text(one_line(table.title), style="bold")]
    for number, columns in enumerate(_sheets(table, cells, width)):
        parts += [Text()] if number else []
        parts.append(_grid(table, cells, columns))
    return [*parts, Text(one_line(table.note), style="dim")] if table.note else parts


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


def _grid(table: Table, cells: list[list[str]], columns: list[int]) -> Any:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0), show_edge=False, header_style="dim")
    for i in columns:
        number = _holds_numbers(table, i)
        look: dict[str, Any] = {"justify": "right" if number else "left", "vertical": "top"}
        grid.add_column(
            Text(one_line(table.columns[i].title)), overflow="fold", min_width=_least(table, cells, i), **look
        )
    for row in cells:
        grid.add_row(*(Text(row[i]) for i in columns))
    return grid
