"""Words of numbers; and text from somebody's file made harmless to look at: no control, reversal, broken letters."""

from __future__ import annotations

import re

#: Controls and broken letters; marks that turn the direction of what follows, hide in it, or end a line; tags.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)


def plural(count: int, word: str) -> str:
    """A count and what is counted."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def visible(text: str) -> str:
    """A text in which every character can be seen: control and direction marks are written out."""
    spaced = text.replace("\r\n", "\n").replace("\r", " ").replace("\t", " ")
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), spaced)


def one_line(text: str) -> str:
    """A text without line breaks, in which every character can be seen."""
    return " ".join(line.strip() for line in visible(text).split("\n"))


def encodable(text: str) -> str:
    """A text that UTF-8 can hold: halves of letters, which a broken file may leave, are written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
