"""What goes where: results on stdout in four formats, everything else on stderr."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scoreprism._document.model import Callout, Document
from scoreprism.cli._process import complain, debugging, legible, one_line, to_stderr, visible

if TYPE_CHECKING:
    from scoreprism._document.terminal import Span
    from scoreprism._findings.finding import Finding
    from scoreprism.report import Report

#: Columns of a table that goes to a file or a pipe; and the fewest and the most that anybody gets.
_WIDTH, _LEAST, _MOST = 100, 40, 200
#: Warnings for those who write programs, not for those who read results.
_FOR_DEVELOPERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning)


@dataclass(frozen=True)
class Voice:
    """What is said beside the results, on stderr."""

    quiet: bool = False  # whether nothing is said but errors

    def say(self, text: str) -> None:
        """Print a line, unless quiet."""
        from scoreprism._core.progress import paused

        if not self.quiet:
            with paused():
                to_stderr(one_line(text))

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Say warnings in one line each, once, as they come; silent ones keep the bars of long work away too."""
        from scoreprism._core.progress import hidden

        said: set[str] = set()

        def said_once(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            text = one_line(str(message))
            if text not in said and (debugging() or not issubclass(category, _FOR_DEVELOPERS)):
                said.add(text)
                self.say(f"warning: {text}")

        with warnings.catch_warnings(), hidden(self.quiet):
            warnings.simplefilter("always")
            warnings.showwarning = said_once
            yield


#: How the spans of a document look on a terminal that has colours.
_STYLES: dict[str, dict[str, Any]] = {
    "bold": {"bold": True},
    "dim": {"dim": True},
    "action": {"bold": True, "fg": "green"},
    "warning": {"bold": True, "fg": "yellow"},
    "note": {"dim": True},
}


def emit(document: Document, form: str) -> None:
    """Print a document: on a terminal in its width and colours, no trailing blanks, no crash on a sign it lacks."""
    if form == "table":
        from scoreprism._document.terminal import render_lines, trim_line

        for line in render_lines(document, _width()):
            text = "".join(_style(span) for span in trim_line(line))
            click.echo(legible(text, sys.stdout), color=None if not os.environ.get("NO_COLOR") else False)
        return
    emit_bytes(_render(document, form))


def _style(span: Span) -> str:
    look = _STYLES.get(span.style)
    return click.style(span.text, **look) if look else span.text


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


def shorten(report: Report) -> Report:
    """What fits on a screen: the verdict's findings, and one table."""
    verdict = report["verdict"]
    key = "glance" if len(report.models) > 1 else "terms"
    about, *blocks = verdict.blocks
    kept = [about, *(block for block in blocks if isinstance(block, Callout) or getattr(block, "key", "") == key)]
    return replace(report, sections=(replace(verdict, title="", blocks=tuple(kept)),))


def emit_bytes(text: str) -> None:
    """Print text for machines: UTF-8 and line ends as they are, whatever the terminal's."""
    if sys.stdout.isatty():
        text = "\n".join(visible(line) for line in text.replace("\r\n", "\n").split("\n"))
    sys.stdout.flush()
    rest = memoryview((text if text.endswith("\n") else f"{text}\n").encode("utf-8"))
    while rest:  # with PYTHONUNBUFFERED a write may end early, as where nobody reads any more: the next one says so
        written = sys.stdout.buffer.write(rest)
        rest = rest[len(rest) if written is None else written :]
    sys.stdout.buffer.flush()


def _width() -> int:
    """As wide as the terminal or COLUMNS, within limits; a pipe or a file gets lines of one length, whoever calls."""
    known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").strip("0")
    width = shutil.get_terminal_size((_WIDTH, 24)).columns if known else _WIDTH
    return min(max(width, _LEAST), _MOST)


def outputs(paths: tuple[str, ...], *, force: bool, inputs: tuple[str, ...] = ()) -> list[Path]:
    """Files to write, checked before any work is done."""
    from scoreprism._core.atomic_files import require_writable

    found = [Path(path) for path in paths]
    for i, path in enumerate(paths):
        for other in paths[:i]:
            if _same(path, other):
                raise click.UsageError(f"files to write must differ; got {other!r} and {path!r}, which are the same")
        for other in inputs:
            if _same(path, "/dev/stdin" if other == "-" else other):
                raise click.UsageError(f"a file that is read must not be replaced; got {path!r}. Use another path")
    for target in found:
        require_writable(target, overwrite=force)
    return found


def _same(one: str, other: str) -> bool:
    """Whether two paths lead to one file, through links of any kind, or would."""
    try:
        return Path(one).samefile(other)
    except OSError:  # one of them is not there yet
        return os.path.realpath(one) == os.path.realpath(other)
    except ValueError:  # a NUL character, which is refused elsewhere
        return False


def fail_gates(failures: Sequence[Finding]) -> None:
    """End with exit code 1 if a gate failed, after everything was printed."""
    for one in failures:
        complain(one.text, "gate failed")
    if failures:
        raise click.exceptions.Exit(1)


def plain_settings(**settings: Any) -> dict[str, Any]:
    """Settings that were made; those left alone are left out."""
    return {name: value for name, value in settings.items() if value is not None}
