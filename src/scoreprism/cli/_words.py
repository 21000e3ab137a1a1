"""What a reader says of names and values that strangers wrote: escaped, cut, on one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from scoreprism._core.checks import refuse

_LONGEST = 60
_MOST = 20


def shown(value: object) -> str:
    """A name or a value in quotes; control characters are escaped, and what is long is cut."""
    text = str(value)
    return repr(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def several(values: Iterable[object], most: int = _MOST) -> str:
    """A list of names."""
    items = list(values)
    rest = f", … ({len(items)} in all)" if len(items) > most else ""
    return ", ".join(shown(item) for item in items[:most]) + rest


def nearest(name: str, names: Sequence[str]) -> list[str]:
    """Names that may have been meant: those that differ by blanks or case first."""
    folded = name.strip().casefold()
    alike = [other for other in names if other.strip().casefold() == folded]
    close = difflib.get_close_matches(name, names[:1000], n=3, cutoff=0.6)
    return list(dict.fromkeys([*alike, *close]))[:3]


def refuse_column(name: str, names: Sequence[str], role: str) -> NoReturn:
    """A column that is not there."""
    near = nearest(name, names)
    hint = f"Did you mean {' or '.join(map(shown, near))}? " if near else ""
    if names and all(_is_number(other) for other in names):
        hint = "The first line must hold the names of the columns. "
    elif len(names) == 1:
        hint += "If a sign separates fields, pass it as --delimiter. "
    refuse(f"{role} must be a column of the file", shown(name), f"{hint}The columns are {several(names)}.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def at(row: Any) -> str:
    """A row as people count: the first row of data is 1."""
    return f"data row {int(row) + 1}"


def count(k: int, what: str) -> str:
    """A count with its noun."""
    return f"{k} {what}" if k == 1 else f"{k} {what}s"
