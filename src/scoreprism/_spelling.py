"""How messages name arguments: in backticks, which Python drops and the command line replaces by its options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

#: A text with marked names; or alternatives, of which readers get those whose arguments they have.
Marked = str | tuple[str, ...]

#: Either the data of a user in quotes, which are left alone; or a marked name, perhaps with an index or a value.
_PARTS = re.compile(
    r"""(?<!\w)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"""|`(?P<name>[A-Za-z_][\w.]*(?:\(\))?)`(?:\[\d+\]|=True\b|='(?P<word>\w+)'|(?P<value>=)(?=[^\s.,;)])|=)?"""
)
#: What the reader of a message calls the arguments; None: as in Python.
_OPTIONS: ContextVar[Mapping[str, str] | None] = ContextVar("options", default=None)


@contextmanager
def spelling(options: Mapping[str, str] | None) -> Iterator[None]:
    """Within it, and in the workers that it starts, texts name arguments as `options` does."""
    before = _OPTIONS.set(options)
    try:
        yield
    finally:
        _OPTIONS.reset(before)


def current_spelling() -> Mapping[str, str] | None:
    """The table that is in force."""
    return _OPTIONS.get()


def mark(name: str) -> str:
    """The name of an argument, or of one of its entries, marked; a phrase is left alone."""
    word, bracket, entry = name.partition("[")
    return f"`{word}`{bracket}{entry}" if word.isidentifier() else name


def first_name(text: str) -> str:
    """The first argument that a text names, or nothing."""
    return next((name for name in _find_names(text) if name.isidentifier()), "")


def spell(text: Marked) -> str:
    """A text in the words of its reader."""
    options = _OPTIONS.get()
    if isinstance(text, tuple):
        usable = [one for one in text if options is None or all(name in options for name in _find_names(one))]
        text = ", or ".join(usable or text) + "."
    return _PARTS.sub(lambda match: _spell(match, options), text)


def _spell(match: re.Match[str], options: Mapping[str, str] | None) -> str:
    if match["name"] is None:
        return match[0]
    if options is None or match["name"] not in options:
        return match[0].replace("`", "")
    option = options[match["name"]]
    return f"{option} {match['word'] or ''}" if match["word"] or match["value"] else option


def _find_names(text: str) -> list[str]:
    return [match["name"] for match in _PARTS.finditer(text) if match["name"] is not None]
