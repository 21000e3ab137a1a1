"""Output: results on stdout in four formats, everything else on stderr."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scoreprism._findings.wording import one_line, visible
from scoreprism.cli._process import GATE, complain, is_debugging, legible, to_stderr

if TYPE_CHECKING:
    from scoreprism._document.model import Block, Document, Origin, Table
    from scoreprism._document.terminal import Span
    from scoreprism._findings.finding import Finding

#: Width of a table that goes to a file or a pipe; and the limits of any width.
_WIDTH, _LEAST, _MOST = 100, 40, 200
#: Warnings for those who write programs, not for those who read results.
_FOR_DEVELOPERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning)


# ── stderr ──────────────────────────────────────────────────────────────────────────────────────────


def _is_quiet() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get("quiet"))


def say(text: str) -> None:
    """Print a line, unless --quiet was given."""
    from scoreprism._core.progress import pause

    if not _is_quiet():
        with pause():
            to_stderr(one_line(text))


@contextlib.contextmanager
def show_warnings() -> Iterator[None]:
    """Print warnings in one line each, once, as they come; --quiet silences them and the bars of long work."""
    from scoreprism._core.progress import hide_bars

    quiet, printed = _is_quiet(), set[str]()

    def print_once(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = one_line(str(message))
        if not quiet and text not in printed and (is_debugging() or not issubclass(category, _FOR_DEVELOPERS)):
            printed.add(text)
            say(f"warning: {text}")

    with warnings.catch_warnings(), hide_bars(quiet):
        warnings.simplefilter("always")
        warnings.showwarning = print_once
        yield


def fail_gates(failures: Sequence[Finding]) -> None:
    """End with exit code 1 if a gate failed, after everything was printed."""
    for finding in failures:
        complain(finding.text, "gate failed")
    if failures:
        raise click.exceptions.Exit(GATE)


# ── stdout ──────────────────────────────────────────────────────────────────────────────────────────

#: How the spans of a document look on a terminal that has colours.
_STYLES: dict[str, dict[str, Any]] = {
    "bold": {"bold": True},
    "dim": {"dim": True},
    "action": {"bold": True, "fg": "green"},
    "warning": {"bold": True, "fg": "yellow"},
    "note": {"dim": True},
}


def make_answer(
    kind: str, title: str, headline: str, table: Table, *, more: Sequence[Block] = (), origin: Origin | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Document:  # fmt: skip
    """A document of one table, for commands that make no whole report."""
    from scoreprism._document.model import Document, Origin, Section, versions

    section = Section(kind, "", (), (table, *more))
    return Document(kind, title, headline, (section,), origin or Origin(), dict(settings or {}), versions())


def emit(document: Document, form: str) -> None:
    """Print a document; on a terminal in its width and colours, with ? for characters that it cannot show."""
    if form != "table":
        emit_bytes(_render(document, form))
        return
    from scoreprism._document.terminal import render_lines, trim_line

    for line in render_lines(document, _width()):
        text = "".join(_style(span) for span in trim_line(line))
        click.echo(legible(text, sys.stdout), color=False if os.environ.get("NO_COLOR") else None)


def _style(span: Span) -> str:
    return click.style(span.text, **_STYLES[span.style]) if span.style in _STYLES else span.text


def _render(document: Document, form: str) -> str:
    """A document for machines, or as Markdown."""
    from scoreprism._document.csv_text import render_csv
    from scoreprism._document.json_text import plain_document, render_json
    from scoreprism._document.markdown import render_markdown

    if form == "md":
        return render_markdown(document)
    if form == "json":
        return render_json(document.to_dict() if hasattr(document, "to_dict") else plain_document(document))
    if document.kind in ("report", "diagnosis") and hasattr(document, "to_csv"):
        return str(document.to_csv())
    tables = document.tables
    return render_csv(tables.get("differences", next(iter(tables.values()))))


def emit_bytes(text: str) -> None:
    """Print text for machines: in UTF-8, with line ends unchanged, whatever the locale."""
    if sys.stdout.isatty():
        text = "\t".join(map(visible, text.split("\t")))
    sys.stdout.flush()
    rest = memoryview((text if text.endswith("\n") else f"{text}\n").encode("utf-8"))
    while rest:  # with PYTHONUNBUFFERED a write to a closed pipe may end early: the next one fails
        written = sys.stdout.buffer.write(rest)
        rest = rest[len(rest) if written is None else written :]
    sys.stdout.buffer.flush()


def _width() -> int:
    """The width of the terminal or COLUMNS, within limits; without either, the same for everybody."""
    known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").strip("0")
    width = shutil.get_terminal_size((_WIDTH, 24)).columns if known else _WIDTH
    return min(max(width, _LEAST), _MOST)


# ── files ───────────────────────────────────────────────────────────────────────────────────────────


def check_outputs(*paths: str | None, force: bool, inputs: Sequence[str] = ()) -> list[Path]:
    """Check the files to write before any work is done; None is left out."""
    from scoreprism._core.atomic_files import require_writable

    wanted = [path for path in paths if path is not None]
    for i, path in enumerate(wanted):
        for other in wanted[:i]:
            if _is_same_file(path, other):
                raise click.UsageError(f"output files must differ; got {other!r} and {path!r}, which are the same file")
        for other in inputs:
            if _is_same_file(path, "/dev/stdin" if other == "-" else other):
                raise click.UsageError(f"an input file must not be overwritten; got {path!r}. Use another path")
    for path in wanted:
        require_writable(path, overwrite=force)
    return [Path(path) for path in wanted]


def _is_same_file(path: str, other: str) -> bool:
    """Whether two paths are, or would be, the same file, also through links."""
    try:
        return Path(path).samefile(other)
    except OSError:  # one of them is not there yet
        return os.path.realpath(path) == os.path.realpath(other)
    except ValueError:  # a NUL character, which is refused elsewhere
        return False


def write_output(target: Path, text: str, *, force: bool) -> None:
    """Write a text, whole or not at all, and print where."""
    from scoreprism._core.atomic_files import write_text

    say(f"wrote {write_text(target, lambda: text, overwrite=force)}")
