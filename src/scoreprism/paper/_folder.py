"""The folder of a reproduction: the page, tables, figures, and a journal of what was computed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scoreprism._files import write_text, write_with
from scoreprism._validation import refuse
from scoreprism.report import Figure, Table

if TYPE_CHECKING:
    from scoreprism.paper._reproduce import Reproduction

#: Where finished tasks are kept; a folder that has it is ours.
JOURNAL = "journal-of-reproduce"
#: The last file that is written: a folder that has it is finished.
PAGE = "index.html"
#: Pixels per inch of figures.
_DPI = 180


def prepared(folder: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """
    A folder that a reproduction may write to: new, empty, of an unfinished run, or one that may be replaced.

    Parameters
    ----------
    folder : path
        Where to.
    overwrite : bool
        Whether a finished run may be replaced.

    Returns
    -------
    Path
        The folder, which is there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(path.name for path in prepared(folder, overwrite=False).iterdir())
    ['journal-of-reproduce']
    """
    if not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
        refuse("out must be the path of a folder", repr(folder), "For example 'reproduction'.")
    path, given = Path(folder), repr(os.fspath(folder))
    try:
        if path.exists() and not path.is_dir():
            refuse("out must be a folder", f"{given}, which is a file", "Use another path.")
        if path.is_dir() and any(path.iterdir()) and not (path / JOURNAL).is_dir():
            rule = "out must be a new or empty folder, or one of an earlier run of reproduce"
            refuse(rule, f"{given}, which holds something else", "Use another path; it is left as it is.")
        if (path / PAGE).exists() and not overwrite:
            rule = "out must not hold the results of a finished run"
            refuse(rule, given, "Pass overwrite=True (--force) to write them again, or use another path.")
        (path / JOURNAL).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse("out must be a folder that can be written to", f"{error.strerror} for {given}", "Use another path.")
    except ValueError as error:
        if "null" not in str(error):
            raise
        refuse("out must not hold a NUL character", given, "Use another path.")
    if not os.access(path / JOURNAL, os.W_OK | os.X_OK):
        refuse("out must be a folder that can be written to", given, "Use another path.")
    return path


def write_all(found: Reproduction, folder: Path) -> Path:
    """
    Write everything; the page last.

    Parameters
    ----------
    found : Reproduction
        What came of it.
    folder : Path
        Of `prepared`.

    Returns
    -------
    Path
        The page.
    """
    from scoreprism._progress import tracked

    for part in ("tables", "figures"):
        (folder / part).mkdir(exist_ok=True)
    files = list(_files(found, folder))
    for write in tracked(files, len(files), "files"):
        write()
    return write_text(folder / PAGE, found.report.to_html, overwrite=True)


def _files(found: Reproduction, folder: Path) -> Iterator[Callable[[], Path]]:
    """What writes each file."""
    from scoreprism.report._markdown import render_markdown, table_lines
    from scoreprism.report._tables import csv_text

    text = partial(write_text, overwrite=True)
    for section in found.report.sections:
        for table in section.tables:
            yield partial(text, folder / "tables" / f"{table.key}.csv", partial(csv_text, table))
            yield partial(text, folder / "tables" / f"{table.key}.md", partial(_markdown, table_lines, table))
        for block in section.blocks:
            if isinstance(block, Figure):
                yield partial(_draw, block, folder / "figures")
    yield partial(text, folder / "checks.csv", partial(_checks, found))
    yield partial(text, folder / "results.json", partial(_results, found))
    pictures = {figure.key: f"figures/{figure.key}.svg" for figure in _figures(found)}
    numbers = {table.key: f"tables/{table.key}.csv" for section in found.report.sections for table in section.tables}
    yield partial(text, folder / "reproduction.md", partial(render_markdown, found.report, pictures, numbers))


def _figures(found: Reproduction) -> list[Figure]:
    return [block for section in found.report.sections for block in section.blocks if isinstance(block, Figure)]


def _markdown(lines: Callable[[Table], list[str]], table: Table) -> str:
    return "\n\n".join(lines(table)) + "\n"


def _checks(found: Reproduction) -> str:
    from scoreprism.report._tables import csv_lines

    rows = [check.to_dict() for check in found.checks]
    heads = list(rows[0]) if rows else []
    return csv_lines(heads, [list(row.values()) for row in rows])


def _results(found: Reproduction) -> str:
    from scoreprism.report._json import plain

    return json.dumps(plain(found.to_dict()), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _draw(figure: Figure, folder: Path) -> Path:
    """A figure on white paper, as SVG and PNG; the same bytes each time."""
    from matplotlib import rc_context

    from scoreprism.report._svg import drawing

    with drawing(), rc_context({"svg.hashsalt": figure.key}):
        drawn = figure.draw()
        nothing: dict[str, Any] = {"metadata": {"Date": None}, "format": "svg"}
        for ending, extra in ((".svg", nothing), (".png", {"format": "png", "dpi": _DPI, "metadata": {}})):
            look = {"facecolor": "white", "bbox_inches": "tight", "pad_inches": 0.1} | extra
            path = folder / f"{figure.key}{ending}"
            write_with(path, lambda temporary, look=look: drawn.savefig(temporary, **look), overwrite=True)  # type: ignore[misc]
    return path
