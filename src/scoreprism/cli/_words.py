"""How text of a stranger's file is written in messages and on terminals: escaped, cut, on one line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_LONGEST = 60
_MOST = 20


def quote(value: object) -> str:
    """A name or a value in quotes; control characters are escaped, and what is long is cut."""
    text = str(value)
    return repr(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def several(values: Iterable[object], most: int = _MOST) -> str:
    """A list of names."""
    items = list(values)
    rest = f", … ({len(items)} in all)" if len(items) > most else ""
    return ", ".join(quote(item) for item in items[:most]) + rest


def at(row: Any) -> str:
    """A row as people count: the first row of data is 1."""
    return f"data row {int(row) + 1}"


def one_line(text: str) -> str:
    """A text on one line, without characters that would move the cursor of a terminal."""
    return visible(" ".join(text.split()))


def visible(text: str) -> str:
    """A text without characters that would move the cursor of a terminal: their codes instead."""
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text)


def legible(text: str, stream: Any) -> str:
    """A text that a stream can encode: characters it does not have become question marks."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, errors="replace").decode(encoding)
