"""Tables as CSV, for spreadsheets that run what looks like a formula."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

from scoreprism._document.model import Range, Table
from scoreprism._findings.wording import visible

#: How a cell starts that a spreadsheet may run; full-width signs are taken for the plain ones by some.
FORMULA_SIGNS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def render_csv(table: Table) -> str:
    """Any table as CSV; a range becomes two columns, or three with its estimate."""
    parts = [_find_parts([row[i] for row in table.rows]) for i in range(len(table.columns))]
    columns = zip(table.columns, parts, strict=True)
    heads = [f"{column.key}_{part}" if part else column.key for column, some in columns for part in some]
    rows = [
        [_get_part(cell, part) for cell, some in zip(row, parts, strict=True) for part in some] for row in table.rows
    ]
    return csv_lines(heads, rows)


def _find_parts(cells: Sequence[Any]) -> tuple[str, ...]:
    """What a column is split into: nothing, or the ends of its ranges, perhaps with their estimates."""
    ranges = [cell for cell in cells if isinstance(cell, Range)]
    if not ranges:
        return ("",)
    return ("estimate", "low", "high") if any(cell.estimate is not None for cell in ranges) else ("low", "high")


def _get_part(cell: Any, part: str) -> Any:
    """A part of a range; a number in a column of ranges is all of them."""
    return getattr(cell, part) if isinstance(cell, Range) else cell


def csv_lines(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV, in which nothing is taken for a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_write_cell(head) for head in heads])
    writer.writerows([_write_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def _write_cell(value: Any) -> str:
    """A cell as text: words that would be run get an apostrophe, numbers keep all digits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool) or not isinstance(value, str):
        return repr(float(value)) if isinstance(value, float) else str(value)
    words = visible(value)
    return f"'{words}" if words.lstrip().startswith(FORMULA_SIGNS) and not _is_number(words) else words


def _is_number(words: str) -> bool:
    try:
        return math.isfinite(float(words)) and words == words.strip()
    except ValueError:
        return False
