"""What goes where: results on stdout in four formats, everything else on stderr."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scoreprism.cli._process import complain, debugging, legible, one_line, to_stderr, visible

if TYPE_CHECKING:
    from rich.console import Console

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


def emit(report: Report, form: str) -> None:
    """Print a report."""
    if form == "table":
        from scoreprism.report._terminal import renderables

        console = _console()
        show(renderables(report, console.width), console)
        return
    makers: dict[str, Callable[[], str]] = {"json": report.to_json, "md": report.to_markdown}
    emit_bytes(csv_of(report) if form == "csv" else makers[form]())


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


def csv_of(report: Report) -> str:
    """The terms of all models as CSV, or the table that another answer is about."""
    from scoreprism.report._tables import csv_text

    if report.kind in ("report", "diagnosis"):
        return report.to_csv()
    tables = {table.key: table for section in report.sections for table in section.tables}
    return csv_text(tables.get("differences", next(iter(tables.values()))))


def _console() -> Console:
    """As wide as the terminal or COLUMNS, within limits; a pipe or a file gets lines of one length, whoever calls."""
    from rich.console import Console

    told = sys.stdout.isatty() or os.environ.get("COLUMNS", "").strip("0")
    width, height = shutil.get_terminal_size((_WIDTH, 24)) if told else (_WIDTH, 24)
    plain = bool(os.environ.get("NO_COLOR"))  # rich would keep bold and dim
    colours: Any = None if plain else "auto"
    # with both given, rich does not read COLUMNS itself, whatever stands there
    return Console(highlight=False, width=min(max(width, _LEAST), _MOST), height=max(height, 1), color_system=colours)


def show(parts: Iterable[Any], console: Console | None = None) -> None:
    """Print on a terminal: its width, its colours, no trailing blanks, and no crash on a sign it cannot write."""
    console = console or _console()
    with console.capture() as captured:
        for part in parts:
            console.print(part, markup=False)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    click.echo(legible("\n".join(lines), sys.stdout))


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


def gate_failed(lines: list[str]) -> None:
    """End with exit code 1 if a gate failed, after everything was printed."""
    for line in lines:
        complain(line, "gate failed")
    if lines:
        raise click.exceptions.Exit(1)


def plain_settings(**settings: Any) -> dict[str, Any]:
    """Settings that were made; those left alone are left out."""
    return {name: value for name, value in settings.items() if value is not None}
