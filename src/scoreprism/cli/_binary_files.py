"""Parquet and Arrow files: only the columns that are asked for are decoded, and only if they are not too large."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from scoreprism._core.checks import quote, refuse
from scoreprism._core.parquet_pages import Footer, read_footer, verify_pages
from scoreprism.cli._polars_guards import GIGABYTE, require_room, translate_errors, try_arrow
from scoreprism.cli._sources import Source, Taken

#: Bytes of a value in memory, where they are not 8; a string is a view of 16 bytes and its text.
_WIDTHS = {
    **dict.fromkeys(("Int8", "UInt8", "Boolean"), 1),
    **dict.fromkeys(("Int16", "UInt16"), 2),
    **dict.fromkeys(("Int32", "UInt32", "Float32", "Date"), 4),
    "String": 16,
}


@dataclass(frozen=True)
class BinaryFile:
    """A table with types."""

    names: list[str]  # the columns
    schema: dict[str, Any]  # and their types
    source: Source  # where they are
    footer: Footer | None  # of a Parquet file
    max_gigabytes: float  # more than this is not decoded

    def take(self, positions: Sequence[int]) -> Taken:
        """Columns by position, with their types; a page that differs from its checksum is refused."""
        names, source, doubts, details = self.names, self.source, list[str](), dict[str, str]()
        wanted = sorted({*positions} or {0})
        if self.footer is not None:
            with source.open() as file:
                pages = verify_pages(file, source.name, {names[i] for i in positions}, self.footer)
            doubts += [f"checksums are not verified, {pages.unread}"] if pages.unread else []
            details["checksums"] = str(pages)
            self._require_size(self.footer, [names[i] for i in wanted])
        frame = _load(source, columns=wanted)
        self._require_fit(int(frame.estimated_size()), frame.height)
        if frame.height == 0:
            refuse("FILE must have at least one row", f"none in {quote(source.name)}", "Check how it was written.")
        return frame.select(frame.get_column(names[i]).alias(str(i)) for i in positions), doubts, details

    def _require_size(self, footer: Footer, wanted: Sequence[str]) -> None:
        """Refuse columns that would not fit, before they are read: a small file can hold very many rows."""
        size = 0
        for name in wanted:
            width = _WIDTHS.get(self.schema[name].base_type().__name__, 8)
            size += max(footer.rows * width, footer.sizes.get(name, 0))
        self._require_fit(size, footer.rows)
        require_room(size)

    def _require_fit(self, size: int, rows: int) -> None:
        if size > self.max_gigabytes * GIGABYTE:
            got = f"about {size / GIGABYTE:.3g} GB for {rows} rows of {quote(self.source.name)}"
            rule = f"the columns read must take at most {self.max_gigabytes:g} GB in memory"
            refuse(rule, got, "Name fewer columns, or raise --max-gigabytes.")


def read_binary(source: Source, max_gigabytes: float) -> BinaryFile:
    """Read the schema of a Parquet or Arrow file."""
    footer = None
    if source.kind == "parquet":
        with source.open() as file:
            footer = read_footer(file, source.name)
    else:
        try_arrow(source.content, source.kind, source.name, max_gigabytes)
    schema = dict(_load(source, n_rows=0).schema)
    return BinaryFile(list(schema), schema, source, footer, max_gigabytes)


def _load(source: Source, **options: Any) -> pl.DataFrame:
    """Read with polars, from the path, which is not a pattern, or from the bytes."""
    with translate_errors(f"{'a Parquet' if source.kind == 'parquet' else 'an Arrow'} file must be readable"):
        if source.kind == "parquet":
            return pl.read_parquet(source.path or io.BytesIO(source.content), glob=False, **options)
        read = pl.read_ipc if source.kind == "arrow" else pl.read_ipc_stream
        return read(io.BytesIO(source.content), **options)
