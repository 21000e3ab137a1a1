"""Tables as CSV, for spreadsheets that run what looks like a formula."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from scoreprism._core.wording import visible
from scoreprism.displays._decomposition_bars import known_of
from scoreprism.exceptions import UnavailableError
from scoreprism.report._model import Column, Range, Table
from scoreprism.report._pieces import ends

if TYPE_CHECKING:
    from scoreprism.decomposition import Decomposition
    from scoreprism.report._report import Report

#: How a cell starts that a spreadsheet may run; full-width signs are taken for the plain ones by some.
_RUNS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")

#: Columns of the terms of a report.
TERM_COLUMNS = (
    ("model", "loss", "term", "estimate", "std_error", "low", "high", "lower_bound", "upper_bound", "share", "muted")
)  # fmt: skip


def render_csv(report: Report) -> str:
    """The terms of all models and losses, a row each."""
    level = report.settings.get("level", 0.95)
    rows = [
        [model, loss, *row]
        for model, result in report.models.items()
        for name, found in result.decompositions.items()
        for loss, decomposition in beside(name, found).items()
        for row in term_rows(decomposition, level)
    ]
    return csv_lines(TERM_COLUMNS, rows)


def beside(loss: str, found: Decomposition) -> dict[str, Decomposition]:
    """A decomposition by its loss; where that is infinite, also the one at the floor."""
    twin = found._stand_in
    return {loss: found} if twin is None else {loss: found, f"{loss}, {twin._mark}": twin}


def term_rows(result: Decomposition, level: float) -> list[list[Any]]:
    """What is known of each term, as numbers."""
    rows: list[list[Any]] = []
    errors, finite = result.std_error, math.isfinite(result.risk) and result.risk != 0.0
    for term, value in result.terms.items():
        interval = _tried(result.interval, term, level)
        two_sided = [None, None] if interval is None else [interval.low, interval.high]
        bounds = [_tried(bound, term, level) for bound in (result.lower_bound, result.upper_bound)]
        one_sided = [None if bound is None else bound.value for bound in bounds]
        muted = term in result.muted
        share = value / result.risk if finite and not muted else None
        estimate, error = (None, None) if muted else (value, errors[term])
        rows.append([term, *map(_known, (estimate, error, *two_sided, *one_sided, share)), muted])
    return rows


def told_cell(result: Decomposition, term: str, level: float) -> Any:
    """An estimate alone; where it is muted, the bound that is known."""
    return ends(*known_of(result, term, level)) if term in result.muted else result.terms[term]


def _tried(ask: Any, term: str, level: float) -> Any:
    """An interval or a bound, or None where there is none to be had."""
    try:
        return ask(term, level)
    except UnavailableError:
        return None


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def csv_text(table: Table) -> str:
    """Any table as CSV; a range becomes two columns, or three with its estimate."""
    parts = [_parts([row[i] for row in table.rows]) for i in range(len(table.columns))]
    heads = [_head(column, part) for column, some in zip(table.columns, parts, strict=True) for part in some]
    rows = [[_part(cell, part) for cell, some in zip(row, parts, strict=True) for part in some] for row in table.rows]
    return csv_lines(heads, rows)


def _parts(cells: Sequence[Any]) -> tuple[str, ...]:
    """What a column is split into: nothing, or the ends of its ranges, perhaps with their estimates."""
    ranges = [cell for cell in cells if isinstance(cell, Range)]
    if not ranges:
        return ("",)
    return ("estimate", "low", "high") if any(cell.estimate is not None for cell in ranges) else ("low", "high")


def _head(column: Column, part: str) -> str:
    return f"{column.key}_{part}" if part else column.key


def _part(cell: Any, part: str) -> Any:
    """A part of a range; a number in a column of ranges is all of them."""
    return getattr(cell, part) if isinstance(cell, Range) else cell


def csv_lines(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV that no spreadsheet runs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_cell(head) for head in heads])
    writer.writerows([_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> str:
    """A cell as text: words that would be run get an apostrophe, numbers keep all digits."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool) or not isinstance(value, str):
        return repr(float(value)) if isinstance(value, float) else str(value)
    words = visible(value)
    return f"'{words}" if words.lstrip().startswith(_RUNS) and not _is_number(words) else words


def _is_number(words: str) -> bool:
    try:
        return math.isfinite(float(words)) and words == words.strip()
    except ValueError:
        return False
