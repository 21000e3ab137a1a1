"""Text that came from somebody's file, made harmless to look at: no control, no reversal, no broken letters."""

from __future__ import annotations

import re

#: Controls and broken letters; marks that turn the direction of what follows, hide in it, or end a line; tags.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""
    A text in which every character can be seen: control and direction marks are written out.

    Parameters
    ----------
    text : str
        Anything.

    Returns
    -------
    str
        With the line breaks that it had; a tabulator is a space.

    Examples
    --------
    >>> print(visible("a\x1b[31mb\u202ec"))
    a\x1b[31mb\u202ec
    """
    spaced = text.replace("\r\n", "\n").replace("\r", " ").replace("\t", " ")
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), spaced)


def one_line(text: str) -> str:
    r"""
    A text without line breaks, in which every character can be seen.

    Parameters
    ----------
    text : str
        Anything.

    Returns
    -------
    str
        One line.

    Examples
    --------
    >>> one_line("a name\n  of two lines")
    'a name of two lines'
    """
    return " ".join(line.strip() for line in visible(text).split("\n"))


def encodable(text: str) -> str:
    r"""
    A text that UTF-8 can hold: halves of letters, which a broken file may leave, are written out.

    Parameters
    ----------
    text : str
        Anything.

    Returns
    -------
    str
        The same, in nearly all cases.

    Examples
    --------
    >>> encodable("caf\ud8e9")
    'caf\\ud8e9'
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
