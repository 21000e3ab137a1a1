"""How columns and rows of a file are named in messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scoreprism._core.checks import quote


def list_names(values: Iterable[object], most: int = 20) -> str:
    """Names in quotes; of many the first, and how many there are."""
    items = list(values)
    rest = f", … ({len(items)} in all)" if len(items) > most else ""
    return ", ".join(map(quote, items[:most])) + rest


def name_row(row: Any) -> str:
    """A row as people count: the first row of data is 1."""
    return f"data row {int(row) + 1}"
