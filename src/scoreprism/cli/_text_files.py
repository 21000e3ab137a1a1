"""CSV and similar text: encoding, delimiter, header and the shape of every line are checked before polars splits it."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scoreprism._core.checks import quote, refuse
from scoreprism._core.source_files import doubt_ending
from scoreprism._findings.wording import plural
from scoreprism.cli._polars_guards import require_room, translate_errors
from scoreprism.cli._sources import WIDE, Source, Taken, refuse_binary
from scoreprism.cli._words import name_row

if TYPE_CHECKING:
    from scoreprism.cli._column_roles import ReadOptions

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_SAMPLE = 50
_HEADER = 1 << 22
_COLUMNS = 100_000
#: Bytes at the end that are checked first.
_TAIL = 1 << 16
_QUOTED = re.compile(rb'"[^"]*"')


@dataclass(frozen=True)
class TextFile:
    """A table as text."""

    name: str  # of the file
    names: list[str]  # the header
    delimiter: str  # between fields
    body: bytes  # records in UTF-8, without the header

    def take(self, positions: Sequence[int]) -> Taken:
        """Columns by position, as strings."""
        bare = _collapse_quotes(self.body, self.delimiter)
        height, blank = _measure(bare, self.delimiter, len(self.names))
        if height == blank.size:
            got = f"only a header in {quote(self.name)}"
            refuse("FILE must have at least one row", got, "Check how it was written.")
        doubt = _doubt_end(self.body, bare, self.delimiter)
        del bare
        return self._parse(positions, height, blank), [doubt] if doubt else [], {}

    def _parse(self, positions: Sequence[int], height: int, blank: NDArray[np.intp]) -> pl.DataFrame:
        with translate_errors("a text file must be a table"):
            frame = pl.read_csv(
                self.body, has_header=False, separator=self.delimiter, columns=sorted({*positions} or {0}),
                schema={str(i): pl.String() for i in range(len(self.names))}, infer_schema_length=0, glob=False,
            )  # fmt: skip
        if frame.height != height:  # the two readings of quotes must agree, or neither is trusted
            got = f"{height} or {frame.height} records, depending on the reader"
            refuse("quotes must enclose whole fields", got, "Write the file again with a CSV library.")
        if blank.size:
            keep = np.ones(height, dtype=bool)
            keep[blank] = False
            frame = frame.filter(pl.Series(keep))
        return frame.select(str(i) for i in positions)


def read_text(source: Source, options: ReadOptions) -> TextFile:
    """Settle how a text is split, and read its header."""
    require_room(len(source.content))
    content, delimiter = _to_utf8(source.content, source.name, options.encoding), options.delimiter
    if b"\n" not in content and b"\r" in content:
        content = content.replace(b"\r", b"\n")  # line ends of old Macs
    if content[:4].lower() == b"sep=" and content[5:6] in b"\r\n":  # how files tell Excel the delimiter
        delimiter = content[4:5].decode("utf-8") if delimiter is None else delimiter
        content = content[5:]
    if delimiter is None:
        delimiter = _find_delimiter(content, options.decimal_comma)
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)  # hard to type in most shells
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        refuse("--delimiter must be one character", quote(delimiter), "For example ';', or 'tab'.")
    names, start = _read_header(content, source.name, delimiter)
    return TextFile(source.name, names, delimiter, content[start:])


def _to_utf8(content: bytes, name: str, encoding: str) -> bytes:
    try:
        known = codecs.lookup(encoding).name
        if known not in {"utf-8", "utf-8-sig"}:
            content = content.decode(encoding).encode("utf-8")
    except UnicodeError as error:
        refuse(f"FILE must be text in {known}", f"{quote(name)}: {quote(error)}", "Pass another --encoding.")
    except (LookupError, ValueError):  # no codec, or one from bytes to bytes
        refuse("--encoding must be one that Python knows", quote(encoding), "For example utf-8, cp1252 or utf-16.")
    if known in {"utf-8", "utf-8-sig"}:
        _require_utf8(content, name)
    if b"\0" in content:
        refuse_binary(name)
    return content.removeprefix(codecs.BOM_UTF8)


def _require_utf8(content: bytes, name: str) -> None:
    if content.startswith(WIDE):
        refuse("a text file must be UTF-8", f"UTF-16 in {quote(name)}", "Pass --encoding utf-16.")
    if content.isascii():
        return
    for number, line in enumerate(io.BytesIO(content), start=1):  # line by line: the text itself is not kept
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            got = f"the byte 0x{line[error.start]:02x} in line {number} of {quote(name)}"
            remedy = "Pass --encoding cp1252 if it comes from Excel on Windows, or another encoding."
            refuse("a text file must be UTF-8", got, remedy)


# ── delimiter and header ────────────────────────────────────────────────────────────────────────────


def _find_delimiter(content: bytes, decimal_comma: bool) -> str:
    """Find the delimiter that splits the header and every line after it into equally many fields."""
    fits: dict[str, tuple[bool, int]] = {}
    for delimiter in DELIMITERS:
        widths = [len(record) for record in _first_records(content, delimiter)]
        if widths and widths[0] > 1 and not (decimal_comma and delimiter == ","):
            fits[delimiter] = (len(set(widths)) == 1, widths[0])
    best = [delimiter for delimiter, fit in fits.items() if fit == max(fits.values())]
    if len(best) > 1:
        got = f"fields that {' or '.join(DELIMITERS[d] for d in best)} could separate"
        refuse("a text file must have one field separator", got, "Pass --delimiter.")
    return best[0] if best else ","


def _first_records(content: bytes, delimiter: str) -> Iterator[list[str]]:
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


def _read_header(content: bytes, name: str, delimiter: str) -> tuple[list[str], int]:
    """Names of the columns, and where the first record of data starts; a quoted name may hold line breaks."""
    file = io.BytesIO(content)
    start = file.seek(_skip_blank_lines(content, 0))
    lines = (line.decode("utf-8") for line in iter(file.readline, b""))
    try:
        names = next(csv.reader(lines, delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        size = file.tell() - start
        if size > _HEADER:
            refuse("the header must have at most 4 MB", f"{size} bytes in {quote(name)}", "Is it a table?")
        if content.count(b'"') % 2:
            refuse("a quote must be closed", f"an open one in the header of {quote(name)}", "Check the first line.")
        refuse("the first line must hold the column names", quote(error), "Check its quotes.")
    if not names:
        refuse("FILE must not be empty", f"blank lines in {quote(name)}", "Check how it was written.")
    if len(names) > _COLUMNS:
        refuse(f"a file must have at most {_COLUMNS} columns", f"{len(names)}", "Leave out those you do not need.")
    # polars takes the width from the first line, blank or not; in a single column that is a missing value
    return names, _skip_blank_lines(content, file.tell()) if len(names) > 1 else file.tell()


def _skip_blank_lines(content: bytes, start: int) -> int:
    while content[start : start + 1] in (b"\r", b"\n"):
        start += 1
    return start


# ── the shape of every line: polars fills short ones up, cuts long ones, and guesses at stray quotes ─


def _collapse_quotes(body: bytes, delimiter: str) -> bytes:
    """Replace each quoted field by one quote, so that a line is a record; what readers disagree on is refused."""
    is_open = body.count(b'"') % 2 == 1
    bare = _drop_quoted(body + b'"' if is_open else body) if b'"' in body else body
    stray, lone = _find_odd_signs(bare, delimiter) if b'"' in bare or b"\r" in bare else (None, None)
    if stray is not None:
        got = f'a stray " in line {_count_lines_to(stray, bare, body)} after the header'
        remedy = "Write the file again with a CSV library, or remove the quotes."
        refuse("quotes must enclose whole fields and be doubled inside them", got, remedy)
    if is_open:
        line = body.count(b"\n", 0, body.rfind(b'"')) + 1
        got = f"an odd number of quotes, the last one in line {line} after the header"
        refuse("a quote must be closed", got, "The file may be cut off: check its end, and how it was written.")
    if lone is not None:  # it ends a line for some readers and not for others
        got = f"a lone carriage return in line {_count_lines_to(lone, bare, body)} after the header"
        refuse("lines must all end in the same way", got, "Write the file again with one kind of line ending.")
    return bare


def _drop_quoted(body: bytes) -> bytes:
    """Drop what is in quotes, except for the closing quotes."""
    signs = np.frombuffer(body, dtype=np.uint8)
    is_inside = np.bitwise_xor.accumulate((signs == ord('"')).view(np.uint8))
    return bytes(signs[is_inside == 0])


def _find_odd_signs(bare: bytes, delimiter: str) -> tuple[int | None, ...]:
    """Find the first quote inside a field, and the first carriage return without a line feed."""
    signs = np.frombuffer(b"\0%b\0" % bare, dtype=np.uint8)  # no text holds NUL bytes
    quotes, returns = (np.flatnonzero(signs == ord(sign)) for sign in '"\r')
    is_border = np.isin(np.arange(256), [*b'\0"\r\n', *delimiter.encode()])
    stray = quotes[~(is_border[signs[quotes - 1]] & is_border[signs[quotes + 1]])]
    lone = returns[signs[returns + 1] != ord("\n")]
    return tuple(int(places[0]) - 1 if places.size else None for places in (stray, lone))


def _count_lines_to(place: int, bare: bytes, body: bytes) -> int:
    """Number of the line of the file that holds a place of its collapsed text."""
    before = islice(_QUOTED.finditer(body), bare.count(b'"', 0, place))
    return bare.count(b"\n", 0, place) + sum(quoted[0].count(b"\n") for quoted in before) + 1


def _measure(bare: bytes, delimiter: str, width: int) -> tuple[int, NDArray[np.intp]]:
    """Count the records and find blank lines; records without exactly `width` fields are refused."""
    between_ends = bytes({*range(256)} - {*delimiter.encode(), *b"\n"})
    ends = bare.translate(None, between_ends) + (b"" if not bare or bare.endswith(b"\n") else b"\n")
    fields = np.diff(np.flatnonzero(np.frombuffer(ends, dtype=np.uint8) == ord("\n")), prepend=-1)
    odd = np.flatnonzero(fields != width)
    if not odd.size:
        return fields.size, odd
    breaks = np.r_[-1, np.flatnonzero(np.frombuffer(bare, dtype=np.uint8) == ord("\n")), len(bare)]
    is_blank = np.array([not bare[breaks[i] + 1 : breaks[i + 1]].strip(b"\r") for i in odd])
    blank, ragged = odd[is_blank], odd[~is_blank]
    if ragged.size:
        n_fields, row = int(fields[ragged[0]]), ragged[0] - np.searchsorted(blank, ragged[0])
        remedy = "The file may be cut off, or a name is missing in its header."
        if n_fields > width:
            remedy = "Quote fields that contain the delimiter (with decimal commas, use another), or name every column."
        got = f"{n_fields} in {name_row(row)} ({plural(ragged.size, 'such line')})"
        refuse(f"every line must have as many fields as the header, {width}", got, remedy)
    return fields.size, blank


def _doubt_end(body: bytes, bare: bytes, delimiter: str) -> str:
    """Why the last field may be cut off; a cut in an earlier field leaves too few of them and is refused."""
    if bare.endswith((b"\n", b'"')):
        return ""
    for text in (bare[-_TAIL:].partition(b"\n")[2], bare):  # the last lines suffice for nearly every complete file
        *others, last = (line.removesuffix(b"\r") for line in text.split(b"\n"))
        doubt = doubt_ending(others, last, delimiter.encode(), body.rpartition(b"\n")[2])
        if not doubt and any(line[-1:] not in (b"", b'"') for line in others):
            return ""
    return doubt
