"""Parquet and Arrow files: only the columns that are asked for are decoded, and only if they are not too large."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scoreprism._core.checks import refuse
from scoreprism._core.parquet_pages import Pages, read_footer, verify_pages
from scoreprism.cli._memory import require_room
from scoreprism.cli._panics import in_our_words
from scoreprism.cli._sources import GIGABYTE, Source
from scoreprism.cli._words import shown

if TYPE_CHECKING:
    import polars as pl

#: Bytes of a value in memory, where polars has a fixed width; a string is a view of 16 bytes and its text.
_WIDTHS = {1: ("Int8", "UInt8", "Boolean"), 2: ("Int16", "UInt16"), 4: ("Int32", "UInt32", "Float32", "Date")}
#: Address space that Python and polars take before they read anything.
_OWN_GIGABYTES = 1.5
_CHILD = """
import io, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (ImportError, ValueError, OSError):
    pass
import polars
read = polars.read_ipc if sys.argv[1] == "arrow" else polars.read_ipc_stream
try:
    read(io.BytesIO(sys.stdin.buffer.read()))
except BaseException as error:
    print(error)
    sys.exit(1)
"""


@dataclass(frozen=True)
class Binary:
    """A table with types."""

    names: list[str]  # the columns
    source: Source  # where they are
    max_gigabytes: float  # more than this is not decoded

    def take(self, positions: Sequence[int]) -> pl.DataFrame:
        """Columns by position, with their types."""
        import polars as pl

        wanted = sorted({*positions} or {0})
        self._require_size(wanted)
        with in_our_words(f"{_format(self.source)} must be readable"):
            if self.source.kind == "parquet":
                frame = pl.read_parquet(_place(self.source), columns=wanted, glob=False)
            elif self.source.kind == "arrow":
                frame = pl.read_ipc(_place(self.source), columns=wanted)
            else:
                frame = pl.read_ipc_stream(_place(self.source), columns=wanted)
        self._require_fit(int(frame.estimated_size()), frame.height)
        if frame.height == 0:
            refuse("FILE must have at least one row", f"none in {shown(self.source.name)}", "Check how it was written.")
        frame = frame.select(frame.get_column(self.names[i]).alias(str(i)) for i in wanted)
        return frame.select(str(i) for i in positions)

    def verify(self, positions: Sequence[int]) -> Pages | None:
        """Compare columns with the checksums of their pages; one that differs is refused."""
        if self.source.kind != "parquet":
            return None
        with open_place(self.source) as file:
            return verify_pages(file, self.source.name, {self.names[i] for i in positions})

    def _require_size(self, wanted: Sequence[int]) -> None:
        """Refuse columns that would not fit; a small file can promise a great many rows."""
        if self.source.kind != "parquet":
            return
        with open_place(self.source) as file:
            footer = read_footer(file, self.source.name)
        schema = _schema(self.source)
        size = 0
        for i in wanted:
            name = self.names[i]
            size += max(footer.rows * _width(schema[name]), footer.sizes.get(name, 0))
        self._require_fit(size, footer.rows)
        require_room(size)

    def _require_fit(self, size: int, rows: int) -> None:
        if size > self.max_gigabytes * GIGABYTE:
            refuse(
                f"the columns read must take at most {self.max_gigabytes:g} GB in memory",
                f"about {size / GIGABYTE:.3g} GB for {rows} rows of {shown(self.source.name)}",
                "Name fewer columns, or raise --max-gigabytes.",
            )


def read_binary(source: Source, max_gigabytes: float) -> Binary:
    """Look at a Parquet or Arrow file."""
    if source.kind == "parquet":
        with open_place(source) as file:
            read_footer(file, source.name)
    else:
        _survive(source, max_gigabytes)
    return Binary(list(_schema(source)), source, max_gigabytes)


def _survive(source: Source, max_gigabytes: float) -> None:
    """Let a child with little memory read an Arrow file: a damaged length makes Rust end the whole process."""
    if not sys.executable or source.content is None:
        return
    limit = str(int((max_gigabytes + _OWN_GIGABYTES) * GIGABYTE))
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "RUST_BACKTRACE": "0"}
    child = subprocess.run(  # noqa: S603 - our own interpreter and program; the file is its stdin
        [sys.executable, "-c", _CHILD, source.kind, limit],
        input=source.content,
        capture_output=True,
        env=environment,
        check=False,
    )
    if child.returncode:
        told = child.stdout.decode("utf-8", errors="replace").strip().splitlines()
        refuse(
            f"an Arrow file must be readable in {max_gigabytes:g} GB",
            shown(told[0]) if told else f"lengths beyond that in {shown(source.name)}",
            "It may be damaged: write it again, or raise --max-gigabytes.",
        )


def _schema(source: Source) -> dict[str, Any]:
    import polars as pl

    with in_our_words(f"{_format(source)} must be readable"):
        if source.kind == "parquet" and source.content is None:
            return dict(pl.scan_parquet(_place(source), glob=False).collect_schema())
        if source.kind == "parquet":
            return dict(pl.read_parquet_schema(_place(source)))
        if source.kind == "arrow":
            return dict(pl.read_ipc_schema(_place(source)))
        return dict(pl.read_ipc_stream(_place(source), n_rows=0).schema)


def _format(source: Source) -> str:
    return "a Parquet file" if source.kind == "parquet" else "an Arrow file"


def _place(source: Source) -> Any:
    """What polars reads from: the path itself, which it must not take for a pattern, or the bytes."""
    return io.BytesIO(source.content) if source.content is not None else source.path


def open_place(source: Source) -> Any:
    """The file as Python reads it."""
    return io.BytesIO(source.content) if source.content is not None else source.path.open("rb")  # type: ignore[union-attr]


def _width(dtype: Any) -> int:
    kind = str(dtype.base_type().__name__)
    return next((width for width, kinds in _WIDTHS.items() if kind in kinds), 8 if kind != "String" else 16)
