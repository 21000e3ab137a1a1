"""A document as lines of text, plain or with styles; words of users are never markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from scoreprism._document.model import Block, Callout, Document, Figure, Paragraph, Section, Table
from scoreprism._findings.wording import one_line

#: Sign in front of a callout.
SIGNS = {"action": "→", "warning": "!", "note": "·"}
#: A column of words is not squeezed below this many letters, and words not broken below it.
_WORD = 12
#: A longer word may be broken.
_LONG_WORD = 18
#: Spaces between columns.
_GAP = 2
#: The least letters of a column where a table cannot fit.
_NARROWEST = 4
#: A word, with the sign for per cent that follows a number.
_PERCENT = re.compile(r"\S+ %\S*|\S+")


class Span(NamedTuple):
    """Letters of one style: "", "bold", "dim", or the kind of a callout."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


def render_text(document: Document, width: int = 100) -> str:
    """The document as plain text, without figures."""
    lines = ("".join(span.text for span in trim_line(line)) for line in render_lines(document, width))
    return "\n".join(lines) + "\n"


def render_lines(document: Document, width: int = 100) -> Iterator[Line]:
    """The document line by line."""
    yield from _fold_lines(document.title, width, "bold")
    yield from _fold_lines(document.headline, width)
    for section in document.sections:
        yield from _render_section(section, width, apart=bool(section.title or document.title or document.headline))


def trim_line(line: Line) -> Line:
    """A line without blanks at its end."""
    spans = list(line)
    while spans:
        last = spans.pop()
        if text := last.text.rstrip():
            return (*spans, last._replace(text=text))
    return ()


def _render_section(section: Section, width: int, *, apart: bool) -> Iterator[Line]:
    """A section; `apart` where its first block has something above it."""
    if section.title:
        title = one_line(section.title)
        yield ()
        yield (Span(title, "bold"), Span(f" {'─' * max(width - cell_len(title) - 1, 0)}", "dim"))
    yield from _fold_lines(section.meaning, width)
    before: type | None = None if apart else Section
    for block in section.blocks:
        lines = list(_render_block(block, width))
        following = isinstance(block, (Callout, Paragraph)) and before is type(block)
        if lines and not following and before is not Section and (apart or isinstance(block, Table)):
            yield ()
        yield from lines
        before = type(block) if lines else before


def _render_block(block: Block, width: int) -> Iterator[Line]:
    """A callout, a table or words; a picture is not shown, and its caption neither."""
    if isinstance(block, Callout):
        first, *rest = fold(block.text, width - _GAP)
        yield (Span(f"{SIGNS[block.kind]} ", block.kind), Span(first))
        yield from ((Span(f"{' ' * _GAP}{line}"),) for line in rest)
    elif isinstance(block, Paragraph):
        yield from _fold_lines(block.text, width, "dim")
    elif isinstance(block, Table):
        yield from render_table(block, width)
    else:
        assert isinstance(block, Figure)  # noqa: S101 - for the type checker


def _fold_lines(text: str, width: int, style: str = "") -> Iterator[Line]:
    """Words on lines of a width; no line where there are none."""
    yield from ((Span(line, style),) for line in fold(text, width) if line)


def cell_len(text: str) -> int:
    """Columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len as measure

    return measure(text)


def fold(text: str, width: int) -> list[str]:
    """Text on lines of a width: a number keeps its sign for per cent, and only words longer than a line are broken."""
    lines = [""]
    for word in _PERCENT.findall(one_line(text)):
        if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
            continue
        parts = [word] if cell_len(word) <= width else _chop(word, width)
        lines = [*lines, *parts] if lines[-1] else [*lines[:-1], *parts]
    return lines


def _chop(word: str, width: int) -> list[str]:
    """A word on several lines, broken at a hyphen where one is."""
    from rich.cells import chop_cells

    joint = word.rfind("-", 1, width) + 1
    if not joint or not word[joint:]:
        return chop_cells(word, width)
    return [*chop_cells(word[:joint], width), *fold(word[joint:], width)]


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────


def render_table(table: Table, width: int = 100) -> Iterator[Line]:
    """A table; one that is too wide becomes several, each with the first column."""
    yield from _fold_lines(table.title, width, "bold")
    cells = [[one_line(cell) for cell in row] for row in table.shown()]
    for number, columns in enumerate(_split_columns(table, cells, width)):
        if number:
            yield ()
        yield from _render_grid(table, cells, columns, width)
    yield from _fold_lines(table.note, width, "dim")


def _render_grid(table: Table, cells: list[list[str]], columns: list[int], width: int) -> Iterator[Line]:
    """Columns beside each other: numbers at the right, words at the left."""
    widths = _find_widths(table, cells, columns, width)
    heads = [fold(table.columns[i].title, letters) for i, letters in zip(columns, widths, strict=True)]
    tall = max(map(len, heads), default=0)
    heads = [[""] * (tall - len(head)) + head for head in heads]  # headings end at the rule
    yield from ((Span(line, "dim"),) for line in _join_columns(table, heads, columns, widths))
    yield (Span("─" * min(sum(widths) + _GAP * (len(widths) - 1), width), "dim"),)
    for row in cells:
        folded = [fold(row[i], letters) for i, letters in zip(columns, widths, strict=True)]
        yield from ((Span(line),) for line in _join_columns(table, folded, columns, widths))


def _join_columns(table: Table, parts: list[list[str]], columns: list[int], widths: list[int]) -> Iterator[str]:
    """Cells of several lines side by side."""
    for place in range(max(map(len, parts), default=0)):
        padded = []
        for column, part, letters in zip(columns, parts, widths, strict=True):
            text = part[place] if place < len(part) else ""
            blank = " " * (letters - cell_len(text))
            padded.append(f"{blank}{text}" if table.columns[column].has_numbers else f"{text}{blank}")
        yield (" " * _GAP).join(padded)


def _split_columns(table: Table, cells: list[list[str]], width: int) -> list[list[int]]:
    """Which columns go side by side, so that no number is broken."""
    least = [_find_least(table, cells, i) + _GAP for i in range(len(table.columns))]
    # columns of words at the left say what a row is about: up to two are repeated
    first = [0, 1] if len(least) > 2 and not any(table.columns[i].has_numbers for i in (0, 1)) else [0]
    sheets = [first[:]] if least else []
    for i in range(len(first), len(least)):
        if sum(least[j] for j in sheets[-1]) + least[i] > width + _GAP and len(sheets[-1]) > len(first):
            sheets.append(first[:])
        sheets[-1].append(i)
    return sheets


def _find_least(table: Table, cells: list[list[str]], column: int) -> int:
    """Letters that a column needs: numbers are not broken, words are."""
    head = max(map(cell_len, one_line(table.columns[column].title).split()), default=0)
    if table.columns[column].has_numbers:
        return max(head, *(cell_len(row[column]) for row in cells), 0)
    words = max((cell_len(word) for row in cells for word in row[column].split()), default=0)
    widest = max((cell_len(row[column]) for row in cells), default=0)
    return max(min(max(widest, head), _WORD), min(words, _LONG_WORD))


def _find_widths(table: Table, cells: list[list[str]], columns: list[int], width: int) -> list[int]:
    """Letters of columns beside each other: what they need, and what is left goes to those that are short of room."""
    least = [_find_least(table, cells, i) for i in columns]
    whole = [
        max(cell_len(one_line(text)) for text in (table.columns[i].title, *(row[i] for row in cells))) for i in columns
    ]
    left = width - _GAP * (len(columns) - 1) - sum(least)
    for i in range(len(least)):  # one column beside the first, and still too wide: the first gives way, then the others
        given = min(max(-left, 0), max(least[i] - _NARROWEST, 0))
        least[i], left = least[i] - given, left + given
    while left > 0 and any(now < most for now, most in zip(least, whole, strict=True)):
        short = min((i for i, most in enumerate(whole) if least[i] < most), key=lambda i: least[i])
        least[short], left = least[short] + 1, left - 1
    return least
