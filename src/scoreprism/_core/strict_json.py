"""The reader of our JSON files: limits size and depth before parsing; no NaN or repeated fields by default."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, NoReturn

from scoreprism.exceptions import InputError

#: Greatest nesting of objects and lists; what we write has about ten.
DEPTH = 48
_MEGABYTE = 10**6
#: Everything but brackets: strings, which may contain brackets, also unterminated ones, and the rest.
_NO_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[^"\[\]{}]+', re.DOTALL)


@dataclass(frozen=True)
class Reader:
    """Limits and messages for one kind of file."""

    what: str  # what messages call the file, with its article
    remedy: str  # what to do about a file that is refused
    megabytes: int = 64  # largest size
    # most numbers, words, lists and objects together; each takes up to a hundred bytes of memory
    values: int = 2_000_000
    # whether the bare words NaN, Infinity and -Infinity are numbers, as Python's own json writes them
    nan: bool = False

    def read(self, text: object) -> Any:
        """Parse a text."""
        if not isinstance(text, (str, bytes)):
            self.refuse("must be read from text", type(text).__name__)
        if len(text) > self.megabytes * _MEGABYTE:
            self.refuse(f"must have at most {self.megabytes} MB", f"{len(text) / _MEGABYTE:.0f} MB")
        try:
            plain = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        except UnicodeDecodeError as error:
            self.refuse("must be JSON in UTF-8", f"byte {error.object[error.start]} in place {error.start}")
        count = 1 + sum(plain.count(sign) for sign in ",[{")
        if count > self.values:
            self.refuse(f"must hold at most {self.values} values", f"about {count}")
        if _is_deeper(plain, DEPTH):
            self.refuse(f"must have at most {DEPTH} levels", "more lists or objects within one another")
        try:
            return json.loads(
                plain,
                parse_constant=self._parse_constant,
                parse_float=self._parse_float,
                object_pairs_hook=self._build_object,
            )
        except InputError:
            raise
        except ValueError as error:
            start = plain[:40] + ("…" if len(plain) > 40 else "")
            why = error if isinstance(error, json.JSONDecodeError) else "a number of thousands of digits"
            self.refuse("must be JSON", f"{start!r} ({why})")

    def refuse(self, rule: str, got: str) -> NoReturn:
        """Refuse the file."""
        raise InputError(f"{self.what} {rule}", got, self.remedy)

    def _parse_constant(self, word: str) -> float:
        if not self.nan:
            self.refuse("must hold finite numbers", word)
        return float(word.replace("Infinity", "inf"))

    def _parse_float(self, text: str) -> float:
        number = float(text)
        if not math.isfinite(number):
            self.refuse("must hold finite numbers", text if len(text) < 40 else f"{text[:40]}…")
        return number

    def _build_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            repeated = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
            self.refuse("must not repeat a field", f"{repeated[:40]!r} twice")
        return fields


def _is_deeper(text: str, most: int) -> bool:
    """Whether lists and objects are nested deeper than `most`."""
    if text.count("[") + text.count("{") <= most:
        return False
    depth = 0
    for bracket in _NO_BRACKET.sub("", text):
        depth += 1 if bracket in "[{" else -1
        if depth > most:
            return True
    return False
