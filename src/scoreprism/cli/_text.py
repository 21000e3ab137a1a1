"""CSV and its kin: encoding, delimiter, header and the shape of every line are settled before polars splits it."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import refuse
from scoreprism._core.source_files import cut_line
from scoreprism.cli._panics import in_our_words
from scoreprism.cli._sources import WIDE, refuse_binary
from scoreprism.cli._words import at, count, shown

if TYPE_CHECKING:
    import polars as pl

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_SAMPLE = 50
_HEADER = 1 << 22
_COLUMNS = 100_000
_BLOCK = 1 << 22
_QUOTE, _NEWLINE, _RETURN = 34, 10, 13

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Text:
    """A table as text."""

    names: list[str]  # the header
    delimiter: str  # between fields
    body: bytes  # records in UTF-8, without the header
    height: int  # records, blank lines too
    blank: NDArray[np.intp]  # which of them are blank lines
    doubt: str = ""  # what speaks against the file being complete

    def take(self, positions: Sequence[int]) -> pl.DataFrame:
        """Columns by position, as strings."""
        import polars as pl

        wanted = sorted({*positions} or {0})
        with in_our_words("a text file must be a table"):
            frame = pl.read_csv(
                self.body,
                has_header=False,
                separator=self.delimiter,
                schema={str(i): pl.String() for i in range(len(self.names))},
                columns=wanted,
                infer_schema_length=0,
                glob=False,
            )
        if frame.height != self.height:  # the two readings of quotes must agree, or neither is trusted
            refuse(
                "a text file must have quotes that enclose whole fields",
                f"{self.height} or {frame.height} records, as one reads them",
                "Write the file again with a CSV library.",
            )
        if self.blank.size:
            keep = np.ones(self.height, dtype=bool)
            keep[self.blank] = False
            frame = frame.filter(pl.Series(keep))
        return frame.select(str(i) for i in positions)


def read_text(content: bytes, name: str, *, encoding: str, delimiter: str | None, decimal_comma: bool) -> Text:
    """Settle how a text is read."""
    content = _as_utf8(content, name, encoding)
    if b"\n" not in content and b"\r" in content:
        content = content.replace(b"\r", b"\n")  # lines as old Macs ended them
    if content[:4].lower() == b"sep=" and content[5:6] in b"\r\n":  # how Excel is told the delimiter
        delimiter = content[4:5].decode("utf-8") if delimiter is None else delimiter
        content = content[5:]
    chosen = _parse_delimiter(delimiter) if delimiter is not None else _sniffed(content, decimal_comma)
    names, start = _header(content, name, chosen)
    body = content[start:]
    del content
    height, blank, doubt = _shape(np.frombuffer(body, dtype=np.uint8), ord(chosen), len(names), b'"' in body)
    if height == blank.size:
        refuse("FILE must have at least one row", f"only a header in {shown(name)}", "Check how it was written.")
    return Text(names, chosen, body, height, blank, doubt)


def _as_utf8(content: bytes, name: str, encoding: str) -> bytes:
    try:
        known = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        _refuse_encoding(encoding)
    if known in {"utf-8", "utf-8-sig"}:
        if content.startswith(WIDE):
            refuse("a text file must be UTF-8", f"UTF-16 in {shown(name)}", "Pass --encoding utf-16.")
        _require_utf8(content, name)
        content = content.removeprefix(codecs.BOM_UTF8)
    else:
        try:
            content = content.decode(encoding).removeprefix("\ufeff").encode("utf-8")
        except LookupError:  # a codec from bytes to bytes
            _refuse_encoding(encoding)
        except (UnicodeError, ValueError) as error:
            refuse(f"FILE must be text in {known}", f"{shown(name)}: {shown(error)}", "Pass another --encoding.")
    if b"\0" in content:
        refuse_binary(name)
    return content


def _refuse_encoding(encoding: str) -> NoReturn:
    refuse("encoding must be one that Python knows", shown(encoding), "For example utf-8, cp1252 or utf-16.")


def _require_utf8(content: bytes, name: str) -> None:
    """In blocks: the text itself is not kept."""
    decoder, view = codecs.getincrementaldecoder("utf-8")(), memoryview(content)
    for start in range(0, len(view), _BLOCK):
        try:
            decoder.decode(bytes(view[start : start + _BLOCK]), final=start + _BLOCK >= len(view))
        except UnicodeDecodeError as error:
            place = min(start + error.start, len(content) - 1)
            line = content.count(b"\n", 0, place) + 1
            refuse(
                "a text file must be UTF-8",
                f"the byte 0x{content[place]:02x} in line {line} of {shown(name)}",
                "Pass --encoding cp1252 if it comes from Excel on Windows, or another encoding.",
            )


def _parse_delimiter(given: str) -> str:
    delimiter = {"\\t": "\t", "tab": "\t"}.get(given, given)
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        refuse("--delimiter must be one character", shown(given), "For example ';', or 'tab'.")
    return delimiter


def _records(content: bytes, delimiter: str) -> Iterator[list[str]]:
    """The first records as Python's csv module reads them, without a last one that was cut off."""
    head = content[:_HEADER].decode("utf-8", errors="ignore")
    lines = io.StringIO(head, newline="")
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    for _ in range(_SAMPLE):
        try:
            record = next(reader)
        except (StopIteration, csv.Error):
            return
        if lines.tell() >= len(head) and len(content) > _HEADER:
            return
        if record:
            yield record


def _sniffed(content: bytes, decimal_comma: bool) -> str:
    """The delimiter that splits the header, and every line after it into as many fields."""
    widths: dict[str, int] = {}
    uneven: dict[str, int] = {}
    for delimiter in DELIMITERS:
        records = list(_records(content, delimiter))
        if not records or len(records[0]) < 2 or (decimal_comma and delimiter == ","):
            continue
        even = all(len(record) == len(records[0]) for record in records)
        (widths if even else uneven)[delimiter] = len(records[0])
    found = widths or uneven
    best = [delimiter for delimiter in found if found[delimiter] == max(found.values())]
    if len(best) > 1:
        refuse(
            "a text file must be split in one way",
            f"fields that {' or '.join(DELIMITERS[d] for d in best)} could separate",
            "Pass --delimiter.",
        )
    return best[0] if best else ","


def _header(content: bytes, name: str, delimiter: str) -> tuple[list[str], int]:
    """Names of the columns, and where the first record of data starts."""
    start = len(content) - len(content.lstrip(b"\r\n"))
    end, inside = start, False
    while True:  # a quoted name may hold line breaks
        stop = content.find(b"\n", end)
        line = content[end : stop if stop >= 0 else len(content)]
        inside ^= line.count(b'"') % 2 == 1
        end = stop + 1 if stop >= 0 else len(content)
        if not inside or stop < 0 or end - start > _HEADER:
            break
    if end - start > _HEADER:
        refuse("the header must have at most 4 MB", f"{end - start} bytes in {shown(name)}", "Is it a table?")
    if inside:
        refuse("a quote must be closed", f"an open one in the header of {shown(name)}", "Check the first line.")
    text = content[start:end].decode("utf-8").rstrip("\r\n")
    try:
        names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        refuse("the first line must hold the names of the columns", shown(error), "Check its quotes.")
    if not names:
        refuse("FILE must not be empty", f"blank lines in {shown(name)}", "Check how it was written.")
    if len(names) > _COLUMNS:
        refuse(f"a file must have at most {_COLUMNS} columns", f"{len(names)}", "Leave out those not needed.")
    if len(names) > 1:  # polars takes the width from the first line, blank or not
        end = len(content) - len(content[end:].lstrip(b"\r\n"))
    return names, end


def _shape(body: Bytes, delimiter: int, width: int, quoted: bool) -> tuple[int, NDArray[np.intp], str]:
    """Records, which are blank lines, and a doubt about the last; refused unless each other one has `width` fields."""
    if quoted:
        _check_quotes(body, delimiter)
    height, last, wrong, first = 0, -1, 0, (0, 0)
    blank: list[NDArray[np.intp]] = []
    ending = _Ending()
    for ends, fields, marks in _scanned(body, delimiter, quoted):
        odd = np.flatnonzero(fields != width)
        starts = np.append(last, ends[:-1])
        lengths = (ends - starts)[odd] - 1
        before = body[np.maximum(ends[odd] - 1, 0)]
        empty = (lengths == 0) | ((lengths == 1) & (before == _RETURN))
        blank.append(height + odd[empty])
        ragged = odd[~empty]
        if ragged.size and not wrong:
            skipped = sum(b.size for b in blank[:-1]) + int(np.count_nonzero(odd[empty] < ragged[0]))
            first = (height + int(ragged[0]) - skipped, int(fields[ragged[0]]))
        wrong += ragged.size
        height += ends.size
        if ends.size:
            last = int(ends[-1])
            ending.see(body, starts, np.maximum(starts, marks), ends, np.delete(np.arange(ends.size), odd[empty]))
    if wrong:
        _refuse_ragged(first, wrong, width)
    return height, np.concatenate([*blank, np.empty(0, dtype=np.intp)]).astype(np.intp), ending.doubt(body)


class _Ending:
    """
    Whether the last record looks cut off: without a line end, and it or its last field shorter than all others.

    A cut inside of an earlier field leaves too few fields, which is refused. Of a file that is complete, the last of n
    records is the shortest with a chance of at most 1/n, as any other is.
    """

    def __init__(self) -> None:
        #: Shortest record and shortest last field so far; how many records there are.
        self.least, self.records = [np.inf, np.inf], 0
        self.last = (0, 0, 0)

    def see(self, body: Bytes, starts: Any, marks: Any, ends: Any, kept: NDArray[np.intp]) -> None:
        """Records of a block that are not blank: places before them, before their last fields, and of their ends."""
        if not kept.size:
            return
        starts, marks, ends = starts[kept] + 1, marks[kept] + 1, ends[kept]
        if ends[-1] == body.size:  # there is no line end
            self.last = (int(starts[-1]), int(marks[-1]), int(ends[-1]))
            starts, marks, ends = starts[:-1], marks[:-1], ends[:-1]
        self.records += ends.size
        returns = (body[np.maximum(ends - 1, 0)] == _RETURN).astype(np.intp) if ends.size else 0
        for i, from_ in enumerate((starts, marks)):
            self.least[i] = min(self.least[i], np.min(ends - returns - from_, initial=body.size))

    def doubt(self, body: Bytes) -> str:
        """What speaks against the file being complete; empty if nothing does."""
        start, mark, end = self.last
        if not self.records or end == 0:
            return ""
        record, field = (bytes(body[place:end]).decode("utf-8", errors="replace") for place in (start, mark))
        if end - start < self.least[0]:
            return cut_line(record)
        return cut_line(field, field=True) if end - mark < self.least[1] else ""


def _scanned(body: Bytes, delimiter: int, quoted: bool) -> Iterator[tuple[Any, Any, Any]]:
    """Where records end, how many fields they have and where the last begins, by block; nothing in quotes counts."""
    inside, pending, mark = 0, 0, -1
    for start in range(0, body.size, _BLOCK):
        block = body[start : start + _BLOCK]
        ends, marks = block == _NEWLINE, block == delimiter
        if quoted:
            parity = (np.cumsum(block == _QUOTE, dtype=np.int32) + inside) & 1
            ends &= parity == 0
            marks &= parity == 0
            inside = int(parity[-1])
        _check_returns(body, start, block, parity if quoted else None)
        at_end, at_mark = np.flatnonzero(ends), np.flatnonzero(marks)
        seen = np.searchsorted(at_mark, at_end)
        fields = np.diff(seen, prepend=0) + 1
        if at_end.size:
            fields[0] += pending
            pending = at_mark.size - int(seen[-1])
        else:
            pending += at_mark.size
        places = np.append(mark, start + at_mark)
        yield start + at_end, fields, places[seen]
        mark = int(places[-1])
    if body.size and body[-1] != _NEWLINE:
        yield np.array([body.size]), np.array([pending + 1]), np.array([mark])


def _check_returns(body: Bytes, start: int, block: Bytes, parity: NDArray[np.int32] | None) -> None:
    """A carriage return alone ends a line for some readers and not for others."""
    places = np.flatnonzero(block == _RETURN)
    if parity is not None:
        places = places[parity[places] == 0]
    after = np.append(body[start : start + block.size + 1], 0)[places + 1]
    stray = places[after != _NEWLINE]
    if stray.size:
        line = int(np.count_nonzero(body[: start + stray[0]] == _NEWLINE)) + 1
        refuse(
            "lines must all end in the same way",
            f"a carriage return alone in line {line} after the header",
            "Write the file again with one kind of line end.",
        )


def _check_quotes(body: Bytes, delimiter: int) -> None:
    """Quotes enclose whole fields; inside they are doubled. Readers differ on anything else."""
    places = np.flatnonzero(body == _QUOTE)
    border = np.zeros(256, dtype=bool)
    border[[delimiter, _NEWLINE, _RETURN, _QUOTE]] = True
    opening, closing = places[::2], places[1::2]
    bad = opening[(opening > 0) & ~border[body[np.maximum(opening - 1, 0)]]]
    after = np.minimum(closing + 1, body.size - 1)
    bad_after = closing[(closing + 1 < body.size) & ~border[body[after]]]
    stray = min([*bad[:1].tolist(), *bad_after[:1].tolist()], default=None)
    if stray is not None:
        line = int(np.count_nonzero(body[:stray] == _NEWLINE)) + 1
        refuse(
            "quotes must enclose whole fields, and be doubled inside them",
            f'a stray " in line {line} after the header',
            "Write the file again with a CSV library, or take the quotes out.",
        )
    if places.size % 2:
        line = int(np.count_nonzero(body[: places[-1]] == _NEWLINE)) + 1
        refuse(
            "a quote must be closed",
            f"an odd number of them, the last one in line {line} after the header",
            "The file may be cut off: check its end, and how it was written.",
        )


def _refuse_ragged(first: tuple[int, int], wrong: int, width: int) -> None:
    row, fields = first
    more = "The file may be cut off, or its header lacks a name."
    if fields > width:
        more = "Quote fields that hold the delimiter (decimal commas need another one), or name every column."
    refuse(
        f"every line must have as many fields as the header, {width}",
        f"{fields} in {at(row)} ({count(wrong, 'such line')})",
        more,
    )
