"""Parquet footers, read before any column is decoded, and verification of page checksums.

Footers and page headers are structs in Thrift's compact protocol.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import IO, Any

from scoreprism._core.checks import refuse

_MAGIC = b"PAR1"
#: Bytes read for the header of a page at first, and at most: statistics in it may hold long texts.
_HEAD, _LONGEST_HEAD = 1 << 10, 1 << 24
#: Bytes of a page that are read at once.
_BLOCK = 1 << 22
_REMEDY = "It may be cut off or damaged: write or download it again."
_DEEPEST = 32


@dataclass(frozen=True)
class Chunk:
    """The pages of a column in a group of rows."""

    column: str  # name of the top-level column
    start: int | None  # offset of the first page; None if it is not in this file
    values: int  # how many values its pages hold


@dataclass(frozen=True)
class Pages:
    """Counts of verified and unverified pages of some columns."""

    verified: int  # pages whose checksum is right
    without: int  # pages that have none
    unread: str = ""  # why pages could not be read; empty if all were

    def __str__(self) -> str:
        if self.unread:
            return f"not verified: {self.unread}"
        if not self.verified:
            return "none in the file"
        rest = f"; {self.without:,} pages have none" if self.without else ""
        return f"verified, {self.verified:,} {'page' if self.verified == 1 else 'pages'}{rest}"

    def __add__(self, other: Pages) -> Pages:
        return Pages(self.verified + other.verified, self.without + other.without, self.unread or other.unread)


@dataclass(frozen=True)
class Footer:
    """Contents of a footer."""

    rows: int  # number of rows
    sizes: dict[str, int]  # bytes of each top-level column without compression, but as encoded
    chunks: tuple[Chunk, ...] = ()  # where the pages of each column are


def read_footer(file: IO[bytes], name: str) -> Footer:
    """Read the footer of a Parquet file."""
    size = file.seek(0, 2)
    file.seek(max(size - 8, 0))
    tail = file.read(8)
    length = struct.unpack("<I", tail[:4])[0] if len(tail) == 8 else 0
    if tail[4:] != _MAGIC or not 0 < length <= size - 12:
        refuse("a Parquet file must end in its footer", f"another end in {name!r}", _REMEDY)
    file.seek(size - 8 - length)
    try:
        return _parse_metadata(_Thrift(file.read(length)).read_struct())
    except (IndexError, KeyError, TypeError, ValueError, AttributeError):
        refuse("a Parquet file must have a readable footer", f"a damaged one in {name!r}", _REMEDY)


def _parse_metadata(metadata: dict[int, Any]) -> Footer:
    """
    FileMetaData: 3 num_rows, 4 row_groups; RowGroup: 1 columns; ColumnChunk: 1 file_path, 3 meta_data.

    ColumnMetaData: 3 path, 5 num_values, 6 size, 9 first data page, 11 dictionary page.
    """
    sizes: dict[str, int] = {}
    chunks: list[Chunk] = []
    for group in metadata.get(4, []):
        for chunk in group[1]:
            about = chunk[3]
            column = about[3][0].decode("utf-8")
            sizes[column] = sizes.get(column, 0) + max(int(about[6]), 0)
            places = [about[field] for field in (9, 11) if isinstance(about.get(field), int) and about[field] > 0]
            start = min(places) if places and 1 not in chunk else None
            chunks.append(Chunk(column, start, int(about[5])))
    rows = metadata[3]
    if not isinstance(rows, int) or rows < 0:
        raise ValueError
    return Footer(rows, sizes, tuple(chunks))


def verify_pages(
    file: IO[bytes], name: str, columns: Collection[str] | None = None, footer: Footer | None = None
) -> Pages:
    """
    Compare the pages of some columns with their checksums, where they have any; a page that differs is refused.

    A checksum is the CRC-32 of the bytes of a page as they are stored, without its header.
    """
    pages, reader = Pages(0, 0), _PageReader(file)
    for chunk in (footer or read_footer(file, name)).chunks:
        if columns is None or chunk.column in columns:
            pages += _verify(reader, name, chunk)
    return pages


def _verify(reader: _PageReader, name: str, chunk: Chunk) -> Pages:
    """Verify the pages of one chunk, in order, until all its values are covered."""
    if chunk.start is None:
        return Pages(0, 0, f"the pages of column {chunk.column!r} are not in the file")
    verified = without = 0
    try:
        for stored, computed in reader.read_checksums(chunk.start, chunk.values):
            if stored is None:
                without += 1
                continue
            if computed != stored & 0xFFFFFFFF:
                refuse(
                    "the pages of a Parquet file must have the checksums that were written with them",
                    f"another one for a page of column {chunk.column!r} in {name!r}",
                    "The file is damaged: write or download it again.",
                )
            verified += 1
    except (_UnreadableError, IndexError, KeyError, TypeError, AttributeError):
        return Pages(verified, without, f"the pages of column {chunk.column!r} have headers that cannot be read")
    return Pages(verified, without)


class _UnreadableError(Exception):
    """An invalid page header, or pages longer than the file."""


class _PageReader:
    """Reads page by page, in all no more bytes than the file has, even if the footer is wrong."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._left = file, file.seek(0, 2)

    def read_checksums(self, place: int, values: int) -> Iterator[tuple[int | None, int]]:
        """
        Yield the stored and the computed checksum of each page.

        PageHeader: 3 compressed size, 4 crc; 5 and 8 headers of data pages, in which 1 is the number of values.
        """
        while values > 0:
            header, length = self._read_header(place)
            size, stored, data = header[3], header.get(4), header.get(5) or header.get(8)
            count = 0 if data is None else data[1]
            self._left -= length + size
            if size < 0 or count < 0 or self._left < 0:
                raise _UnreadableError
            values -= count
            yield stored, 0 if stored is None else self._compute_crc(place + length, size)
            place += length + size

    def _read_header(self, place: int) -> tuple[dict[int, Any], int]:
        """Read the header at an offset; returns it with its length."""
        size = _HEAD
        while True:
            self._file.seek(place)
            read = self._file.read(size)
            parser = _Thrift(read)
            try:
                return parser.read_struct(), parser.length
            except (IndexError, ValueError):
                if len(read) < size or size >= _LONGEST_HEAD:
                    raise _UnreadableError from None
                size *= 16

    def _compute_crc(self, place: int, size: int) -> int:
        self._file.seek(place)
        crc = 0
        while size > 0:
            block = self._file.read(min(size, _BLOCK))
            if not block:
                raise _UnreadableError
            crc = zlib.crc32(block, crc)
            size -= len(block)
        return crc


class _Thrift:
    """Values of Thrift's compact protocol, struct by struct: field number → value."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def length(self) -> int:
        """Bytes that were read."""
        return self._at

    def _read_byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _read_varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._read_byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError

    def _read_integer(self) -> int:
        value = self._read_varint()
        return (value >> 1) ^ -(value & 1)

    def _read_binary(self) -> bytes:
        length = self._read_varint()
        self._at += length
        if self._at > len(self._data):
            raise IndexError
        return self._data[self._at - length : self._at]

    def _read_list(self, depth: int) -> list[Any]:
        head = self._read_byte()
        length = head >> 4 if head >> 4 < 15 else self._read_varint()
        if length > len(self._data):  # each takes a byte at least
            raise ValueError
        kind = head & 15
        return [self._read_byte() if kind in {1, 2} else self._read_value(kind, depth) for _ in range(length)]

    def _read_value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError
        if kind in {1, 2}:  # a boolean in a struct is its type
            return kind == 1
        if kind == 3:
            return self._read_byte()
        if kind in {4, 5, 6}:
            return self._read_integer()
        if kind == 7:
            self._at += 8
            return None
        if kind == 8:
            return self._read_binary()
        if kind in {9, 10}:
            return self._read_list(depth + 1)
        if kind == 12:
            return self.read_struct(depth + 1)
        raise ValueError  # maps do not occur in a footer

    def read_struct(self, depth: int = 0) -> dict[int, Any]:
        """Fields up to the stop byte."""
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._read_byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._read_integer()
            fields[number] = self._read_value(head & 15, depth)
        return fields
