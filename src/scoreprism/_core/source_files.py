"""Input files by path, glob or folder, Hive columns, and checks that files are complete."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from scoreprism._core.checks import quote, refuse
from scoreprism._core.parquet_pages import Pages, verify_pages
from scoreprism._findings.finding import Finding, announce

#: Separators of text files.
SEPARATORS = {"csv": ",", "tsv": "\t"}
#: Bytes at the end of a text file that are checked.
_TAIL = 1 << 16
#: Formats by file ending.
FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "tsv"}


def find_files(source: Any) -> tuple[list[str], str]:
    """Find files of one format, by path, glob or folder, in order."""
    patterns = source if isinstance(source, (list, tuple)) else [source]
    if not patterns:
        refuse("a path must name files that exist", "an empty list", "Pass one path or more.")
    for path in patterns:
        if not isinstance(path, (str, Path)) or not str(path):
            what = repr(path) if isinstance(path, str) else type(path).__name__
            refuse("a list of data must hold paths", what, "Put frames together with their engine first.")
    files = drop_repeats(file for path in patterns for file in match_files(str(path)))
    kinds = {FORMATS.get(Path(path).suffix.lower()) for path in files}
    if None in kinds or len(kinds) != 1:
        endings = sorted({Path(path).suffix for path in files})
        refuse(
            f"files must all be of one kind, ending in {', '.join(FORMATS)}",
            ", ".join(repr(ending) for ending in endings),
            "Convert other files, or pass a frame.",
        )
    return files, str(kinds.pop())


def drop_repeats(paths: Iterable[str]) -> list[str]:
    """Drop files that overlapping globs or links name twice, so that their rows count once."""
    return list({os.path.realpath(path): path for path in reversed(list(paths))}.values())[::-1]


def match_files(path: str, endings: Collection[str] = tuple(FORMATS)) -> list[str]:
    """Find the files a path names: the file itself, those in the folder with these endings, or matches of the glob."""
    here = Path(path).expanduser()
    try:
        if here.is_file():
            return [str(here)]
    except OSError as error:  # a name that no file can have
        refuse("a path must name files that exist", f"{str(path)[:60]!r}… ({error.strerror})", "Check the path.")
    if here.is_dir():
        inside = (p for p in here.rglob("*") if p.suffix.lower() in endings and p.is_file())
        files = sorted(str(p) for p in inside if not _is_hidden(p.relative_to(here)))
        if not files:
            refuse(
                "a folder must hold files to read", f"{path!r}, which has none", f"They end in {', '.join(endings)}."
            )
        return files
    files = sorted(p for p in glob.glob(str(here), recursive=True) if Path(p).is_file())  # noqa: PTH207 - absolute too
    if not files:
        refuse("a path must name files that exist", f"{path!r}, which matches none", "Check the path or the glob.")
    return files


def _is_hidden(path: Path) -> bool:
    """Whether a file is hidden by Spark's and Hive's convention: unfinished, or metadata."""
    return any(part[0] in "._" and "=" not in part for part in path.parts)


def read_hive_columns(path: str) -> dict[str, str]:
    """Read the columns that folder names hold (``name=value``)."""
    parts = (part.split("=", 1) for part in Path(path).parts[:-1])
    return {part[0]: part[1] for part in parts if len(part) == 2 and part[0]}


def find_hive_root(paths: list[str]) -> str | None:
    """Find the folder above the first ``name=value`` folder; None where there is none."""
    parts = Path(paths[0]).parts
    first = next((i for i, part in enumerate(parts[:-1]) if "=" in part), None)
    return None if first is None else str(Path(*parts[:first])) if first else "."


def doubt_ending(lines: Iterable[bytes], last: bytes, sign: bytes, written: bytes | None = None) -> str:
    """
    Say why a text without a final newline may be cut off: its last line or field is the shortest. Empty if it is not.

    In a complete file the last of n lines is the shortest with probability at most 1/n. A line that ends in a quote is
    complete, and its length is not compared.
    """
    others = [line for line in (line.rstrip(b"\r\n") for line in lines) if line]
    if not last or last.endswith(b'"') or not others:
        return ""
    if len(last) < min(map(len, others)) or last.count(sign) < min(line.count(sign) for line in others):
        line = _quote(last if written is None else written)
        return f"the last line, {line}, has no final newline and is shorter than every other"
    field = last.rpartition(sign)[2]
    fields = [line.rpartition(sign)[2] for line in others if not line.endswith(b'"')]
    if fields and len(field) < min(map(len, fields)):
        return f"the last line has no final newline, and its last field, {_quote(field)}, is shorter than every other"
    return ""


def _quote(line: bytes) -> str:
    return quote(line.decode("utf-8", errors="replace"))


def doubt_file(path: str, kind: str) -> str:
    """Say why a text file may be cut off, judged by its last lines; empty if nothing suggests it."""
    if kind not in SEPARATORS:
        return ""
    with Path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL, 0))
        lines = file.read().split(b"\n")[1:]  # without the header or a partial line
    return doubt_ending(lines[:-1], lines[-1], SEPARATORS[kind].encode()) if lines else ""


def verify_files(source: Any, columns: Iterable[str] | None = None) -> Pages:
    """Compare columns of Parquet files with the checksums of their pages; a page that differs is refused."""
    if not isinstance(source, (str, Path, list, tuple)):
        refuse("`verify_checksums` must come with files", type(source).__name__, "Pass paths of Parquet files.")
    paths, kind = find_files(source)
    if kind != "parquet":
        refuse("`verify_checksums` must come with Parquet files", kind.upper(), "Leave it out: text has no checksums.")
    names = None if columns is None else set(columns)
    totals = Pages(0, 0)
    for path in paths:
        with Path(path).open("rb") as file:
            pages = verify_pages(file, path, names)
        if pages.unread:
            refuse(
                "a file whose checksums are verified must have pages that can be read",
                f"{path!r}: {pages.unread}",
                "Write it again, or leave `verify_checksums` out.",
            )
        totals += pages
    if not totals.verified:
        announce(Finding("file_suspect", facts={"unverified": True}))
    return totals
