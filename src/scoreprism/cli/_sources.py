"""Files and stdin: their kind by the first bytes, their hash, and limits on their size."""

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
from typing import IO, TYPE_CHECKING, NoReturn, TypeAlias

from scoreprism._core.checks import quote, refuse
from scoreprism._findings.wording import encodable
from scoreprism.cli._polars_guards import GIGABYTE
from scoreprism.exceptions import InputError

if TYPE_CHECKING:
    import polars as pl

_CHUNK = 1 << 22
#: First bytes of UTF-16.
WIDE = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"
#: Last bytes of an Arrow stream; they are optional, but a stream that was cut off lacks them.
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_KINDS = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "stream"}
_USE_PARQUET = "In Parquet, only the named columns are read."
_ENDINGS = {".parquet": "Parquet", ".pq": "Parquet", ".arrow": "Arrow", ".feather": "Arrow", ".ipc": "Arrow"}
_EXPORT, _UNPACK = "Export the table as CSV or Parquet.", "Decompress it first, or use gzip."
_LOGIN = "It may be a login page: download the table itself."
_FOREIGN = {
    b"PK\x03\x04": ("a zip archive or an Excel workbook", "Save the sheet as CSV, or unpack the archive."),
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", "Save the sheet as CSV."),
    b"BZh91AY": ("a bzip2 file", _UNPACK),
    b"\xfd7zXZ": ("an xz file", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("a zstd file", _UNPACK),
    b"PARE": ("an encrypted Parquet file", "Decrypt it first."),
    b"FEA1": ("a Feather file of version 1", "Write it again as Feather 2 or Parquet."),
    b"SQLite format": ("an SQLite database", _EXPORT),
    b"\x89HDF": ("an HDF5 file", _EXPORT),
    b'{"': ("a JSON file", _EXPORT),
    b"[{": ("a JSON file", _EXPORT),
    b"<!DOCTYPE": ("a web page", _LOGIN),
    b"<html": ("a web page", _LOGIN),
    b"%PDF": ("a PDF document", "Pass a table of predictions."),
}
#: Columns of a file, named by their positions; doubts that the file is complete; and details for the report.
Taken: TypeAlias = "tuple[pl.DataFrame, list[str], dict[str, str]]"


@dataclass(frozen=True)
class Source:
    """Bytes of a known kind."""

    name: str  # name of the file without its folder, or "stdin"
    sha256: str  # hash of the bytes as they are stored
    kind: str  # "text", "parquet", "arrow" or "stream"
    content: bytes  # the bytes, unpacked; none of a Parquet file, which is read where it is, column by column
    path: Path | None = None  # where that file is
    doubts: tuple[str, ...] = ()  # why the file may be incomplete

    def open(self) -> IO[bytes]:
        """The bytes as a file."""
        return io.BytesIO(self.content) if self.path is None else self.path.open("rb")


def open_source(given: str, max_gigabytes: float, encoding: str) -> Source:
    """Read a file or stdin."""
    utf8 = encoding.lower().replace("_", "-") in {"utf-8", "utf8"}
    if given == "-":
        if sys.stdin is None or sys.stdin.isatty():
            got = "a closed stdin" if sys.stdin is None else "a terminal"
            refuse("'-' must get data from a pipe or a file", got, "For example: scoreprism diagnose - < FILE.")
        return _read(sys.stdin.buffer, "stdin", None, max_gigabytes, utf8=utf8)
    path = Path(given)
    with _open_plain(path, "FILE", "Pass '-' and pipe it to stdin.") as file:
        before = os.fstat(file.fileno()).st_size
        source = _read(file, encodable(path.name), path, max_gigabytes, utf8=utf8)
        size, after = file.tell(), os.fstat(file.fileno()).st_size
    if before == size == after:
        return source
    doubt = f"the file changed while it was read, {before:,} bytes at first, {size:,} read, {after:,} at the end"
    return replace(source, doubts=(doubt, *source.doubts))


def read_small(given: str, role: str, megabytes: int) -> bytes:
    """Read a small file; devices and pipes are refused, because they may never end."""
    with _open_plain(Path(given), role, "Write it to a file first.") as file:
        content = file.read(megabytes * 10**6 + 1)  # it may grow while it is read
    if len(content) > megabytes * 10**6:
        refuse(f"{role} must have at most {megabytes} MB", f"more in {quote(given)}", "Check the path.")
    return content


@contextmanager
def _open_plain(path: Path, role: str, remedy: str) -> Iterator[IO[bytes]]:
    """Open a plain file; errors are refusals with a remedy."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            refuse(f"{role} must be a plain file", f"{quote(path)}, which is a folder", "Name a file in it.")
        if not stat.S_ISREG(mode):
            refuse(f"{role} must be a plain file", f"{quote(path)}, which is a device or a pipe", remedy)
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        refuse(f"{role} must exist", quote(path), "Check the path and the working folder.")
    except OSError as error:
        refuse(f"{role} must be readable", f"{error.strerror or error} for {quote(path)}", "Check its permissions.")
    except ValueError as error:
        if isinstance(error, InputError) or "null" not in str(error):
            raise
        refuse(f"{role} must be a path", f"{quote(path)}, with a NUL character", "Check the path.")


def _read(file: IO[bytes], name: str, path: Path | None, most: float, *, utf8: bool) -> Source:
    """Read what is there, by its first bytes."""
    start = file.read(64)
    if not start:
        refuse("FILE must not be empty", f"0 bytes in {quote(name)}", "Check how it was written.")
    packed = start.startswith(_GZIP)
    kind = "gzip" if packed else _find_kind(start, name)
    if kind == "parquet" and path is not None:
        digest = hashlib.sha256(start)
        while block := file.read(_CHUNK):
            digest.update(block)
        return Source(name, digest.hexdigest(), kind, b"", path)
    try:
        content = _read_all(file, name, most, start, text=utf8 and kind == "text")
        sha256 = hashlib.sha256(content).hexdigest()
        if packed:
            content = _unpack(content, name, most)
            kind = _find_kind(content[:64], name, packed=True)
    except MemoryError:
        refuse("FILE must fit into memory", quote(name), _USE_PARQUET)
    is_cut = kind == "stream" and not content.endswith(_END_OF_STREAM)
    return Source(name, sha256, kind, content, doubts=("the Arrow stream has no end marker",) if is_cut else ())


def _find_kind(start: bytes, name: str, *, packed: bool = False) -> str:
    """Find the kind by the first bytes; a name whose ending promises another kind is refused."""
    for magic, (what, remedy) in _FOREIGN.items():
        if start.startswith(magic):
            refuse("FILE must be CSV, TSV, Parquet or Arrow", f"{what} in {quote(name)}", remedy)
    if packed and start.startswith(_GZIP):
        refuse("FILE must be compressed once", f"gzip inside gzip in {quote(name)}", "Decompress it first.")
    for magic, kind in _KINDS.items():
        if start.startswith(magic):
            return kind
    ending = Path(name).suffix
    if ending.lower() in _ENDINGS:
        got = f"{start[:8]!r} at the start of {quote(name)}"
        remedy = "It may be damaged: write it again, or rename it."
        refuse(f"a file that ends in {ending} must be {_ENDINGS[ending.lower()]}", got, remedy)
    return "text"


def _read_all(stream: IO[bytes] | gzip.GzipFile, name: str, most: float, start: bytes = b"", *, text: bool) -> bytes:
    """Read a whole stream, up to a size; binary data without an end are refused at their first block."""
    blocks, size = [start], len(start)
    while block := stream.read(_CHUNK):
        size += len(block)
        if size > most * GIGABYTE:
            rule = f"FILE must hold at most {most:g} GB, uncompressed"
            refuse(rule, f"more in {quote(name)}", f"Raise --max-gigabytes. {_USE_PARQUET}")
        if text and b"\0" in block and not start.startswith(WIDE):
            refuse_binary(name)
        blocks.append(block)
    return b"".join(blocks)


def refuse_binary(name: str) -> NoReturn:
    """Refuse text with NUL bytes."""
    remedy = "If it is UTF-16, pass --encoding utf-16; otherwise it is damaged or not text."
    refuse("a text file must not contain NUL bytes", f"some in {quote(name)}", remedy)


def _unpack(packed: bytes, name: str, most: float) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            content = _read_all(stream, name, most, text=False)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        refuse("a gzip file must be complete", f"{quote(name)}: {error}", "Compress or download it again.")
    if not content:
        refuse("FILE must not be empty", f"0 bytes in {quote(name)}, decompressed", "Check how it was written.")
    return content


def note_doubts(doubts: Sequence[str], name: str, *, strict: bool) -> list[str]:
    """Turn doubts that a file is complete into notes; with --strict it is refused."""
    if doubts and strict:
        remedy = "Write or download it again; if it is complete, leave --strict out."
        refuse("with --strict a file must be complete beyond doubt", f"{quote(name)}: {doubts[0]}", remedy)
    return [f"{doubt[0].upper()}{doubt[1:]}: is the file complete?" for doubt in doubts]
