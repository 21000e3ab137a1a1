"""Where predictions come from: a file or stdin, its kind by its first bytes, its hash, and limits on its size."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from scoreprism._core.checks import refuse
from scoreprism.cli._words import shown

GIGABYTE = 10**9
_CHUNK = 1 << 22
#: How UTF-16 begins.
WIDE = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"
#: How an Arrow stream ends; it may also just stop, as one does that was cut off.
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_KINDS = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "stream"}
_ENDINGS = {".parquet": "Parquet", ".pq": "Parquet", ".arrow": "Arrow", ".feather": "Arrow", ".ipc": "Arrow"}
_FOREIGN = {
    b"PK\x03\x04": ("a zip archive or an Excel workbook", "Save the sheet as CSV, or unpack the archive."),
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", "Save the sheet as CSV."),
    b"BZh91AY": ("a bzip2 file", "Unpack it first, or use gzip."),
    b"\xfd7zXZ": ("an xz file", "Unpack it first, or use gzip."),
    b"\x28\xb5\x2f\xfd": ("a zstd file", "Unpack it first, or use gzip."),
    b"PARE": ("an encrypted Parquet file", "Decrypt it first."),
    b"FEA1": ("a Feather file of version 1", "Write it again as Feather 2 or Parquet."),
    b"SQLite format": ("an SQLite database", "Export the table as CSV or Parquet."),
    b"\x89HDF": ("an HDF5 file", "Export the table as CSV or Parquet."),
    b'{"': ("a JSON file", "Write the table as CSV or Parquet."),
    b"[{": ("a JSON file", "Write the table as CSV or Parquet."),
    b"<!DOCTYPE": ("a web page", "It may be the page of a login: download the table itself."),
    b"<html": ("a web page", "It may be the page of a login: download the table itself."),
    b"%PDF": ("a PDF document", "Pass a table of predictions."),
}


@dataclass(frozen=True)
class Source:
    """Bytes of a known kind."""

    name: str  # name of the file without its folder, or "stdin"
    sha256: str  # hash of the bytes as they are stored
    kind: str  # "text", "parquet", "arrow" or "stream"
    content: bytes | None  # the bytes, unpacked; None for a Parquet file, which is read where it is, column by column
    path: Path | None  # where it is
    doubts: tuple[str, ...] = ()  # what speaks against the file being complete


class _Hashed(io.RawIOBase):
    """A stream that hashes what is read from it."""

    def __init__(self, inner: IO[bytes], start: bytes = b"") -> None:
        self._inner, self._start, self.hash, self.size = inner, start, hashlib.sha256(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self._start or self._inner.read(len(buffer))
        self._start = block[len(buffer) :]
        block = block[: len(buffer)]
        self.hash.update(block)
        self.size += len(block)
        buffer[: len(block)] = block
        return len(block)


def open_source(given: str, max_gigabytes: float, encoding: str = "utf-8") -> Source:
    """Read a file or stdin."""
    plain = encoding.lower().replace("_", "-") in {"utf-8", "utf8"}
    if given == "-":
        if sys.stdin is None or sys.stdin.isatty():
            got = "a closed stdin" if sys.stdin is None else "a terminal"
            refuse("'-' must be fed by a pipe or a file", got, "For example: scoreprism diagnose - < FILE.")
        return _read(sys.stdin.buffer, "stdin", None, max_gigabytes, plain)[0]
    path = Path(given)
    with _in_our_words(given):
        _require_plain(path, given, "FILE must be a plain file, or '-'", "Pass '-' and feed it to stdin.")
        with path.open("rb") as file:
            before = os.fstat(file.fileno()).st_size
            found, size = _read(file, _printable(path.name), path, max_gigabytes, plain)
            after = os.fstat(file.fileno()).st_size
            if before == size == after:
                return found
            words = (
                f"the file changed while it was read, {before:,} bytes at first, {size:,} read, {after:,} at the end"
            )
            return replace(found, doubts=(words, *found.doubts))


def read_small(given: str, role: str, megabytes: int) -> bytes:
    """Read a file that must be a plain one and small: a device may have no end, a pipe no beginning."""
    path, most = Path(given), megabytes * 10**6
    with _in_our_words(given, role):
        _require_plain(path, given, f"{role} must be a plain file", "Write it to a file first.")
        with path.open("rb") as file:
            content = file.read(most + 1)  # it may grow while it is read
    if len(content) > most:
        refuse(f"{role} must have at most {megabytes} MB", f"more in {shown(given)}", "Check the path.")
    return content


def _require_plain(path: Path, given: str, rule: str, remedy: str) -> None:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        refuse(rule, f"{shown(given)}, which is a folder", "Name a file in it.")
    if not stat.S_ISREG(mode):
        refuse(rule, f"{shown(given)}, which is a device or a pipe", remedy)


@contextmanager
def _in_our_words(given: str, role: str = "FILE") -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        refuse(f"{role} must exist", shown(given), "Check the path and the working folder.")
    except OSError as error:
        got = f"{error.strerror or error} for {shown(given)}"
        refuse(f"{role} must be readable", got, "Check its rights and path.")
    except ValueError as error:
        if "null" not in str(error):
            raise
        refuse(f"{role} must be a path", f"{shown(given)}, with a NUL character", "Check the path.")


def _printable(name: str) -> str:
    """A name of any bytes as text that can be written."""
    return name.encode("utf-8", errors="backslashreplace").decode("utf-8")


def _read(file: IO[bytes], name: str, path: Path | None, most: float, plain: bool) -> tuple[Source, int]:
    """What is there, and how many bytes were read."""
    start = file.read(64)
    if not start:
        refuse("FILE must not be empty", f"0 bytes in {shown(name)}", "Check how it was written.")
    stream = _Hashed(file, start)
    content: bytes | None
    try:
        if start.startswith(_GZIP):
            packed = io.BufferedReader(stream, _CHUNK)
            content, path = _unpacked(packed, name, most), None
            kind = _kind(content[:64], name, packed=True)
        elif (kind := _kind(start, name)) == "parquet" and path is not None:
            content = None
            while stream.read(_CHUNK):
                pass
        else:
            content = _limited(stream, name, most, text=plain and kind == "text")
    except MemoryError:
        refuse("FILE must fit into memory", shown(name), "Use Parquet, of which only named columns are read.")
    cut = kind == "stream" and content is not None and not content.endswith(_END_OF_STREAM)
    doubts = ("the Arrow stream has no mark at its end",) if cut else ()
    return Source(name, stream.hash.hexdigest(), kind, content, path, doubts), stream.size


def _kind(start: bytes, name: str, *, packed: bool = False) -> str:
    """What the first bytes say; the ending of the name only speaks where they do not fit it."""
    for magic, (what, remedy) in _FOREIGN.items():
        if start.startswith(magic):
            refuse("FILE must be CSV, TSV, Parquet or Arrow", f"{what} in {shown(name)}", remedy)
    if packed and start.startswith(_GZIP):
        refuse("FILE must be packed once", f"gzip in gzip in {shown(name)}", "Unpack it first.")
    for magic, kind in _KINDS.items():
        if start.startswith(magic):
            return kind
    promised = _ENDINGS.get(Path(name).suffix.lower())
    if promised is not None:
        rule = f"a file with the ending {Path(name).suffix} must be {promised}"
        refuse(rule, f"{start[:8]!r} at the start of {shown(name)}", "It may be damaged: write it again, or rename it.")
    return "text"


def _limited(stream: io.RawIOBase | gzip.GzipFile, name: str, most: float, *, text: bool) -> bytes:
    """All bytes of a stream, if they are not too many; junk that goes on for ever is noticed at its start."""
    blocks: list[bytes] = []
    size = 0
    while block := stream.read(_CHUNK):
        size += len(block)
        if size > most * GIGABYTE:
            refuse(
                f"FILE must hold at most {most:g} GB, unpacked",
                f"more in {shown(name)}",
                "Raise --max-gigabytes, or use Parquet, of which only named columns are read.",
            )
        if text and b"\0" in block and not (blocks or [block])[0].startswith(WIDE):
            refuse_binary(name)
        blocks.append(block)
    return b"".join(blocks)


def refuse_binary(name: str) -> None:
    """Text with NUL bytes."""
    refuse(
        "a text file must not hold NUL bytes",
        f"some in {shown(name)}",
        "If it is UTF-16, pass --encoding utf-16; else it is damaged or no text.",
    )


def _unpacked(packed: IO[bytes], name: str, most: float) -> bytes:
    try:
        with gzip.GzipFile(fileobj=packed) as stream:
            content = _limited(stream, name, most, text=False)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        refuse("a gzip file must be whole", f"{shown(name)}: {error}", "Pack or download it again.")
    if not content:
        refuse("FILE must not be empty", f"0 bytes in {shown(name)}, unpacked", "Check how it was written.")
    return content


def doubted(doubts: Sequence[str], name: str, *, strict: bool) -> list[str]:
    """Notes on what speaks against a file being complete."""
    if doubts and strict:
        refuse(
            "with --strict nothing may speak against a file being complete",
            f"{shown(name)}: {doubts[0]}",
            "Write or download it again; if it is complete, leave --strict out.",
        )
    return [f"{doubt[0].upper()}{doubt[1:]}: is the file complete?" for doubt in doubts]
