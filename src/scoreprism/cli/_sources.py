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
from typing import IO, TYPE_CHECKING, NamedTuple, NoReturn

from scoreprism._core.checks import refuse
from scoreprism._findings.wording import encodable
from scoreprism.cli._polars_guards import GIGABYTE
from scoreprism.cli._words import quote

if TYPE_CHECKING:
    import polars as pl

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
    path: Path | None = None  # where that file is
    doubts: tuple[str, ...] = ()  # what speaks against the file being complete

    def open(self) -> IO[bytes]:
        """The bytes as a file."""
        return io.BytesIO(self.content or b"") if self.path is None else self.path.open("rb")


class Taken(NamedTuple):
    """Columns of a file as they were written, under their positions."""

    frame: pl.DataFrame
    doubts: list[str]  # what speaks against the file being complete
    details: dict[str, str]  # what a report says of the file


def open_source(given: str, max_gigabytes: float, encoding: str) -> Source:
    """Read a file or stdin."""
    utf8 = encoding.lower().replace("_", "-") in {"utf-8", "utf8"}
    if given == "-":
        if sys.stdin is None or sys.stdin.isatty():
            got = "a closed stdin" if sys.stdin is None else "a terminal"
            refuse("'-' must be fed by a pipe or a file", got, "For example: scoreprism diagnose - < FILE.")
        return _read(sys.stdin.buffer, "stdin", None, max_gigabytes, utf8=utf8)
    path = Path(given)
    with _translate_errors(given):
        _require_plain(path, given, "FILE must be a plain file, or '-'", "Pass '-' and feed it to stdin.")
        with path.open("rb") as file:
            before = os.fstat(file.fileno()).st_size
            found = _read(file, encodable(path.name), path, max_gigabytes, utf8=utf8)
            size, after = file.tell(), os.fstat(file.fileno()).st_size
    if before == size == after:
        return found
    doubt = f"the file changed while it was read, {before:,} bytes at first, {size:,} read, {after:,} at the end"
    return replace(found, doubts=(doubt, *found.doubts))


def read_small(given: str, role: str, megabytes: int) -> bytes:
    """Read a file that must be a plain one and small: a device may have no end, a pipe no beginning."""
    path, most = Path(given), megabytes * 10**6
    with _translate_errors(given, role):
        _require_plain(path, given, f"{role} must be a plain file", "Write it to a file first.")
        with path.open("rb") as file:
            content = file.read(most + 1)  # it may grow while it is read
    if len(content) > most:
        refuse(f"{role} must have at most {megabytes} MB", f"more in {quote(given)}", "Check the path.")
    return content


def _require_plain(path: Path, given: str, rule: str, remedy: str) -> None:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        refuse(rule, f"{quote(given)}, which is a folder", "Name a file in it.")
    if not stat.S_ISREG(mode):
        refuse(rule, f"{quote(given)}, which is a device or a pipe", remedy)


@contextmanager
def _translate_errors(given: str, role: str = "FILE") -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        refuse(f"{role} must exist", quote(given), "Check the path and the working folder.")
    except OSError as error:
        got = f"{error.strerror or error} for {quote(given)}"
        refuse(f"{role} must be readable", got, "Check its rights and path.")
    except ValueError as error:
        if "null" not in str(error):
            raise
        refuse(f"{role} must be a path", f"{quote(given)}, with a NUL character", "Check the path.")


def _read(file: IO[bytes], name: str, path: Path | None, most: float, *, utf8: bool) -> Source:
    """What is there, by its first bytes."""
    start = file.read(64)
    if not start:
        refuse("FILE must not be empty", f"0 bytes in {quote(name)}", "Check how it was written.")
    packed = start.startswith(_GZIP)
    kind = "gzip" if packed else _find_kind(start, name)
    if kind == "parquet" and path is not None:
        digest = hashlib.sha256(start)
        while block := file.read(_CHUNK):
            digest.update(block)
        return Source(name, digest.hexdigest(), kind, None, path)
    try:
        content = _read_all(file, name, most, start, text=utf8 and kind == "text")
        sha256 = hashlib.sha256(content).hexdigest()
        if packed:
            content = _unpack(content, name, most)
            kind = _find_kind(content[:64], name, packed=True)
    except MemoryError:
        refuse("FILE must fit into memory", quote(name), "Use Parquet, of which only named columns are read.")
    cut = kind == "stream" and not content.endswith(_END_OF_STREAM)
    return Source(name, sha256, kind, content, doubts=("the Arrow stream has no mark at its end",) if cut else ())


def _find_kind(start: bytes, name: str, *, packed: bool = False) -> str:
    """What the first bytes say; the ending of the name only speaks where they do not fit it."""
    for magic, (what, remedy) in _FOREIGN.items():
        if start.startswith(magic):
            refuse("FILE must be CSV, TSV, Parquet or Arrow", f"{what} in {quote(name)}", remedy)
    if packed and start.startswith(_GZIP):
        refuse("FILE must be packed once", f"gzip in gzip in {quote(name)}", "Unpack it first.")
    for magic, kind in _KINDS.items():
        if start.startswith(magic):
            return kind
    promised = _ENDINGS.get(Path(name).suffix.lower())
    if promised is not None:
        rule = f"a file with the ending {Path(name).suffix} must be {promised}"
        refuse(rule, f"{start[:8]!r} at the start of {quote(name)}", "It may be damaged: write it again, or rename it.")
    return "text"


def _read_all(stream: IO[bytes] | gzip.GzipFile, name: str, most: float, start: bytes = b"", *, text: bool) -> bytes:
    """All bytes of a stream, if they are not too many; junk that goes on for ever is noticed at its start."""
    blocks, size = [start], len(start)
    while block := stream.read(_CHUNK):
        size += len(block)
        if size > most * GIGABYTE:
            refuse(
                f"FILE must hold at most {most:g} GB, unpacked",
                f"more in {quote(name)}",
                "Raise --max-gigabytes, or use Parquet, of which only named columns are read.",
            )
        if text and b"\0" in block and not start.startswith(WIDE):
            refuse_binary(name)
        blocks.append(block)
    return b"".join(blocks)


def refuse_binary(name: str) -> NoReturn:
    """Text with NUL bytes."""
    refuse(
        "a text file must not hold NUL bytes",
        f"some in {quote(name)}",
        "If it is UTF-16, pass --encoding utf-16; else it is damaged or no text.",
    )


def _unpack(packed: bytes, name: str, most: float) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            content = _read_all(stream, name, most, text=False)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        refuse("a gzip file must be whole", f"{quote(name)}: {error}", "Pack or download it again.")
    if not content:
        refuse("FILE must not be empty", f"0 bytes in {quote(name)}, unpacked", "Check how it was written.")
    return content


def note_doubts(doubts: Sequence[str], name: str, *, strict: bool) -> list[str]:
    """Notes on what speaks against a file being complete; with --strict it is refused."""
    if doubts and strict:
        refuse(
            "with --strict nothing may speak against a file being complete",
            f"{quote(name)}: {doubts[0]}",
            "Write or download it again; if it is complete, leave --strict out.",
        )
    return [f"{doubt[0].upper()}{doubt[1:]}: is the file complete?" for doubt in doubts]
