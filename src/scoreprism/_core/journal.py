"""An append-only file of finished work: one JSON line with a hash for each result.

The first line says what the file is about. A line that a crash left unfinished at the end is recognised by its hash and
dropped; everything else that does not fit is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, Self

from scoreprism._core.atomic_files import lock_file
from scoreprism._core.strict_json import Reader
from scoreprism.exceptions import InputError

#: Seconds between two calls of fsync; a killed process loses nothing in between, a power cut may.
_SYNC = 1.0
_LEFT = "Use another path; it is left as it is."


def _encode_line(text: str) -> bytes:
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]} {text}\n".encode()


def _decode_line(line: bytes) -> bytes | None:
    """The text of a line, or None if a crash cut it off."""
    mark, _, text = line.partition(b" ")
    if not line.endswith(b"\n") or hashlib.sha256(text[:-1]).hexdigest()[:16].encode() != mark:
        return None
    return text


class Journal:
    """A file of finished work, locked while it is open."""

    def __init__(
        self, path: str | os.PathLike[str], magic: str, what: str, writer: str, units: str = "results"
    ) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise InputError(f"{what} must be the path of a file", type(path).__name__, f"For example 'run.{what}'.")
        self.path, self.magic, self.what, self._writer, self._units = Path(path), magic, what, writer, units
        rule = f"{what} must be the path of a file in an existing folder"
        if not self.path.parent.is_dir():
            raise InputError(rule, f"{str(self.path)!r} in a folder that does not exist", "Make the folder first.")
        if self.path.exists() and not self.path.is_file():  # reading a device may never end
            got = "a folder" if self.path.is_dir() else f"{str(self.path)!r}, which is no plain file"
            raise InputError(rule, got, f"Add the name of a file, for example 'run.{what}'.")
        try:
            self._file = self.path.open("a+b")
        except OSError as error:
            rule = f"a {what} must be readable and writable"
            raise InputError(rule, f"{error.strerror} for {str(path)!r}", "Use another path.") from error
        try:
            self._lock()
            self._read()
        except BaseException:
            self._file.close()
            raise
        self._synced = time.monotonic()

    def _lock(self) -> None:
        """Lock the file for this run; the system releases the lock when the process ends."""
        if lock_file(self._file.fileno()) is False:
            rule = f"a {self.what} must be used by one run at a time"
            got = f"{str(self.path)!r}, in use by another process"
            raise InputError(rule, got, "Wait for it, or use another path.")

    def _read(self) -> None:
        self._file.seek(0)
        lines = self._file.read().splitlines(keepends=True)
        self.header: dict[str, Any] | None = None
        self.entries: list[dict[str, Any]] = []
        self._lines = lines
        if not lines or (len(lines) == 1 and self._is_cut_header(lines[0])):
            return
        first = _decode_line(lines[0])
        self.header = None if first is None else self._parse_line(first, 1)
        if self.header is None or self.header.get("format") != self.magic:
            rule = f"{self.what} must be a new file, or one that {self._writer} wrote"
            kind, _, number = str((self.header or {}).get("format")).rpartition(" ")
            other = f"of another version of scoreprism (format {number})"
            what = other if kind == self.magic.rpartition(" ")[0] else "which is something else"
            raise InputError(rule, f"{str(self.path)!r}, {what}", _LEFT)

    def _parse_line(self, text: bytes, number: int) -> dict[str, Any]:
        """Parse a line as JSON; the hash shows that it is complete, not who wrote it."""
        entry = Reader(f"line {number} of {str(self.path)!r}", _LEFT, 256, 10_000_000, nan=True).read(text)
        if not isinstance(entry, dict):
            self.refuse_line(number, f"a {type(entry).__name__}")
        return entry

    def refuse_line(self, number: int, arrived: str) -> NoReturn:
        """Refuse a complete line of the wrong content; line 1 is the header."""
        rule = f"a {self.what} must hold what {self._writer} wrote"
        raise InputError(rule, f"{arrived} in line {number} of {str(self.path)!r}", _LEFT)

    def _is_cut_header(self, line: bytes) -> bool:
        """Whether this is our header, cut off by a crash; without the format's name it may be another file."""
        _, _, text = line.partition(b" ")
        return not line.endswith(b"\n") and text.startswith(self._opening().encode())

    def resume(self) -> None:
        """Read the entries and cut off an unfinished last line, once the header was recognised."""
        texts = [_decode_line(line) for line in self._lines[1:]]
        n_whole = next((i for i, text in enumerate(texts) if text is None), len(texts))
        if any(text is not None for text in texts[n_whole:]):
            rule = f"a {self.what} must be whole up to its last line"
            raise InputError(rule, f"{str(self.path)!r}, damaged in line {n_whole + 2}", _LEFT)
        self.entries = [self._parse_line(text, 2 + i) for i, text in enumerate(texts[:n_whole]) if text is not None]
        self._file.truncate(sum(map(len, self._lines[: 1 + n_whole])))
        self._lines = []

    def begin(self, header: Mapping[str, Any]) -> None:
        """Write the header, with the format's name first, so that half a line is still recognised as ours."""
        self._file.truncate(0)
        self.header = {"format": self.magic, **header}
        rest = json.dumps(dict(header), sort_keys=True)[1:]
        try:
            with self._translate_errors():
                self._file.write(_encode_line(f"{self._opening()}{', ' if header else ''}{rest}"))
            self.sync()
        except InputError:
            with suppress(OSError):
                os.truncate(self.path, 0)  # half a header might not be recognised as ours
            raise

    def _opening(self) -> str:
        return json.dumps({"format": self.magic})[:-1]

    def append(self, content: dict[str, Any]) -> None:
        """Write a line; reading it keeps the order of its keys."""
        with self._translate_errors():
            self._file.write(_encode_line(json.dumps(content)))
            self._file.flush()
        self.entries.append(content)
        if time.monotonic() - self._synced > _SYNC:
            self.sync()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn errors of writing into an InputError; a line that was cut off is dropped the next time."""
        try:
            yield
        except OSError as error:
            with suppress(OSError):
                self._file.close()  # the buffer cannot be flushed either
            raise InputError(
                f"a {self.what} must be writable to the end",
                f"{error.strerror or error}, after {len(self.entries)} {self._units} in {str(self.path)!r}",
                "Free some disk space and run it again: it resumes from there.",
            ) from error

    def sync(self) -> None:
        """Flush to disk."""
        with self._translate_errors():
            self._file.flush()
            os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def close(self) -> None:
        """Sync and close, which releases the lock."""
        if not self._file.closed:
            self.sync()
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
