"""The footer of a Parquet file: how large its columns are once decoded, told before any of them is.

A footer is a struct in Thrift's compact protocol; only lengths and names are taken from it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import IO, Any

from scoreprism._validation import refuse
from scoreprism.cli._words import shown

_MAGIC = b"PAR1"
_REMEDY = "It may be cut off or damaged: write or download it again."
_DEEPEST = 32


@dataclass(frozen=True)
class Footer:
    """
    What a footer promises.

    Attributes
    ----------
    rows : int
        Number of rows.
    sizes : dict of str to int
        Bytes of each top-level column without compression, but as encoded.
    """

    rows: int
    sizes: dict[str, int]


def read_footer(file: IO[bytes], name: str) -> Footer:
    """
    Read the footer of a Parquet file.

    Parameters
    ----------
    file : binary file
        The file.
    name : str
        Its name.

    Returns
    -------
    Footer
        Rows and sizes.
    """
    size = file.seek(0, 2)
    file.seek(max(size - 8, 0))
    tail = file.read(8)
    length = struct.unpack("<I", tail[:4])[0] if len(tail) == 8 else 0
    if tail[4:] != _MAGIC or not 0 < length <= size - 12:
        refuse("a Parquet file must end in its footer", f"another end in {shown(name)}", _REMEDY)
    file.seek(size - 8 - length)
    try:
        return _promised(_Thrift(file.read(length)).structure())
    except (IndexError, KeyError, TypeError, ValueError, AttributeError):
        refuse("a Parquet file must have a readable footer", f"a damaged one in {shown(name)}", _REMEDY)


def _promised(metadata: dict[int, Any]) -> Footer:
    """FileMetaData: 3 num_rows, 4 row_groups; RowGroup: 1 columns; ColumnChunk: 3 meta_data; there 3 path, 6 size."""
    sizes: dict[str, int] = {}
    for group in metadata.get(4, []):
        for chunk in group[1]:
            path = chunk[3][3]
            column = path[0].decode("utf-8")
            sizes[column] = sizes.get(column, 0) + max(int(chunk[3][6]), 0)
    rows = metadata[3]
    if not isinstance(rows, int) or rows < 0:
        raise ValueError
    return Footer(rows, sizes)


class _Thrift:
    """Values of Thrift's compact protocol, struct by struct: field number → value."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _binary(self) -> bytes:
        length = self._varint()
        self._at += length
        if self._at > len(self._data):
            raise IndexError
        return self._data[self._at - length : self._at]

    def _several(self, depth: int) -> list[Any]:
        head = self._byte()
        length = head >> 4 if head >> 4 < 15 else self._varint()
        if length > len(self._data):  # each takes a byte at least
            raise ValueError
        kind = head & 15
        return [self._byte() if kind in {1, 2} else self._value(kind, depth) for _ in range(length)]

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError
        if kind in {1, 2}:  # a boolean in a struct is its type
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in {4, 5, 6}:
            return self._integer()
        if kind == 7:
            self._at += 8
            return None
        if kind == 8:
            return self._binary()
        if kind in {9, 10}:
            return self._several(depth + 1)
        if kind == 12:
            return self.structure(depth + 1)
        raise ValueError  # maps do not occur in a footer

    def structure(self, depth: int = 0) -> dict[int, Any]:
        """Fields up to the stop byte."""
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = self._value(head & 15, depth)
        return fields
