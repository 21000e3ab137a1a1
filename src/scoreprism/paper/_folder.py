"""The folder of a reproduction: the page, tables, figures, and a journal of what was computed."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scoreprism._core.atomic_files import write_text, write_with
from scoreprism._core.checks import refuse
from scoreprism._core.strict_json import Reader
from scoreprism.exceptions import InputError
from scoreprism.report import Figure, Table

if TYPE_CHECKING:
    from scoreprism.paper._reproduce import Reproduction

#: Where finished tasks are kept; a folder that has it is ours.
JOURNAL = "journal-of-reproduce"
#: The last file that is written: a folder that has it is finished.
PAGE = "index.html"
#: In the journal: names of the files that we wrote, and those that are being made.
_WRITTEN, _STAGED = "written.json", "staged"
_PARTS = ("tables", "figures")
_TOP = _CHECKS, _RESULTS, _MARKDOWN = "checks.csv", "results.json", "reproduction.md"
#: Pixels per inch of figures.
_DPI = 180
_OTHER = "Use another path."
_LIST = Reader("the list of what reproduce wrote", _OTHER, 10)


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
    if not isinstance(overwrite, bool):
        refuse("overwrite must be True or False", repr(overwrite), "Pass one of them.")
    path, given = Path(folder), repr(os.fspath(folder))
    try:
        _require_ours(path, given, overwrite)
        (path / JOURNAL).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse("out must be a folder that can be written to", f"{error.strerror} for {given}", _OTHER)
    except ValueError as error:
        if "null" not in str(error):
            raise
        refuse("out must not hold a NUL character", given, _OTHER)
    for part in (path, path / JOURNAL, *(path / name for name in _PARTS if (path / name).exists())):
        if not os.access(part, os.W_OK | os.X_OK):
            refuse("out must be a folder that can be written to", repr(str(part)), _OTHER)
    return path


def _require_ours(path: Path, given: str, overwrite: bool) -> None:
    """Refuse what is no folder, holds something else, or is finished."""
    if path.is_symlink() and not path.exists():
        refuse("out must be a folder", f"{given}, a link that leads nowhere", _OTHER)
    if path.exists() and not path.is_dir():
        refuse("out must be a folder", f"{given}, which is a file", _OTHER)
    if path.is_dir() and any(path.iterdir()) and not (path / JOURNAL).is_dir():
        rule = "out must be a new or empty folder, or one of an earlier run of reproduce"
        refuse(rule, f"{given}, which holds something else", f"{_OTHER[:-1]}; it is left as it is.")
    if (path / PAGE).exists() and not overwrite:
        rule = "out must not hold the results of a finished run"
        refuse(rule, given, "Pass `overwrite`=True to write them again, or use another path.")
    for part in _PARTS:
        if (path / part).exists() and not (path / part).is_dir():
            refuse(f"{part} in out must be a folder", f"{str(path / part)!r}, which is a file", _OTHER)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """
    Keep other runs away from a folder; the lock goes with the process, whatever ends it.

    Parameters
    ----------
    folder : Path
        Of `prepared`.

    Yields
    ------
    None
        Nothing.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    descriptor = os.open(folder / JOURNAL, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                rule = "out must be used by one run at a time"
                refuse(rule, f"{str(folder)!r}, in use by another process", "Wait for it, or use another path.")
        yield
    finally:
        os.close(descriptor)


def write_all(found: Reproduction, folder: Path, *, overwrite: bool) -> Path:
    """
    Make everything aside, then put it in place at once; the page last.

    Until all of it is made an earlier run stays as it was. Files of the earlier run that this one does not have go.

    Parameters
    ----------
    found : Reproduction
        What came of it.
    folder : Path
        Of `prepared`.
    overwrite : bool
        Whether files that we did not write may be replaced.

    Returns
    -------
    Path
        The page.
    """
    from scoreprism._core.progress import tracked

    staged = folder / JOURNAL / _STAGED
    shutil.rmtree(staged, ignore_errors=True)  # of a run that was killed
    files = list(_files(found, staged))
    names = [*(name for made, _ in files for name in made), PAGE]
    earlier = _earlier(folder)
    _require_free(folder, [name for name in names if name not in earlier], overwrite)
    try:
        for part in _PARTS:
            (staged / part).mkdir(parents=True)
        for _, write in tracked(files, len(files), "files"):
            write()
        write_text(staged / PAGE, found.report.to_html)
        _publish(staged, folder, names, earlier)
    except OSError as error:
        refuse("out must be writable to the end", f"{error.strerror} for {error.filename!r}", _OTHER)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return folder / PAGE


def _require_free(folder: Path, names: list[str], overwrite: bool) -> None:
    """Refuse to replace what is not ours."""
    for path in (folder / name for name in names):
        if path.is_dir() or (path.exists() and not overwrite):
            rule = "out must not hold files that reproduce did not write where it writes its own"
            refuse(rule, repr(str(path)), "Move it away, or use another path; what was computed is kept.")


def _earlier(folder: Path) -> set[str]:
    """Names of files that an earlier run wrote; none if that is not known."""
    try:
        names = _LIST.read((folder / JOURNAL / _WRITTEN).read_bytes())
    except (OSError, InputError):
        return set()
    known = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
    # whatever the file says, nothing outside of our folders is touched
    return {name for name in known if name in {*_TOP, PAGE} or re.fullmatch(rf"({'|'.join(_PARTS)})/[\w.-]+", name)}


def _publish(staged: Path, folder: Path, names: list[str], earlier: set[str]) -> None:
    """Put files in place; without its page the folder counts as unfinished meanwhile."""
    list_of = partial(write_text, folder / JOURNAL / _WRITTEN, overwrite=True)
    list_of(lambda: json.dumps(sorted(earlier | set(names)), indent=1) + "\n")
    (folder / PAGE).unlink(missing_ok=True)
    for part in _PARTS:
        (folder / part).mkdir(exist_ok=True)
    for name in sorted(earlier - set(names)):
        (folder / name).unlink(missing_ok=True)
    for name in names:
        (staged / name).replace(folder / name)
    list_of(lambda: json.dumps(sorted(names), indent=1) + "\n")


def _files(found: Reproduction, folder: Path) -> Iterator[tuple[tuple[str, ...], Callable[[], object]]]:
    """Names of files, and what writes them."""
    from scoreprism.report._markdown import render_markdown, table_lines
    from scoreprism.report._tables import csv_text

    def text(name: str, make: Callable[[], str]) -> tuple[tuple[str, ...], Callable[[], object]]:
        return (name,), partial(write_text, folder / name, make)

    for section in found.report.sections:
        for table in section.tables:
            yield text(f"tables/{table.key}.csv", partial(csv_text, table))
            yield text(f"tables/{table.key}.md", partial(_markdown, table_lines, table))
    for figure in _figures(found):
        names = (f"figures/{figure.key}.svg", f"figures/{figure.key}.png")
        yield names, partial(_draw, figure, *(folder / name for name in names))
    yield text(_CHECKS, partial(checks_text, found))
    yield text(_RESULTS, partial(_results, found))
    pictures = {figure.key: f"figures/{figure.key}.svg" for figure in _figures(found)}
    numbers = {table.key: f"tables/{table.key}.csv" for section in found.report.sections for table in section.tables}
    yield text(_MARKDOWN, partial(render_markdown, found.report, pictures, numbers))


def _figures(found: Reproduction) -> list[Figure]:
    return [block for section in found.report.sections for block in section.blocks if isinstance(block, Figure)]


def _markdown(lines: Callable[[Table], list[str]], table: Table) -> str:
    return "\n\n".join(lines(table)) + "\n"


def checks_text(found: Reproduction) -> str:
    """
    All checks as CSV.

    Parameters
    ----------
    found : Reproduction
        What came of it.

    Returns
    -------
    str
        One line for each number or statement.
    """
    from scoreprism.report._tables import csv_lines

    rows = [check.to_dict() for check in found.checks]
    heads = list(rows[0]) if rows else []
    return csv_lines(heads, [list(row.values()) for row in rows])


def _results(found: Reproduction) -> str:
    from scoreprism.report._json import plain

    return json.dumps(plain(found.to_dict()), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _draw(figure: Figure, svg: Path, png: Path) -> None:
    """A figure on white paper, as SVG and PNG; the same bytes each time."""
    from matplotlib import rc_context

    from scoreprism.report._svg import drawing

    with drawing(), rc_context({"svg.hashsalt": figure.key}):
        drawn = figure.draw()
        nothing: dict[str, Any] = {"metadata": {"Date": None}, "format": "svg"}
        for path, extra in ((svg, nothing), (png, {"format": "png", "dpi": _DPI, "metadata": {}})):
            look = {"facecolor": "white", "bbox_inches": "tight", "pad_inches": 0.1} | extra
            write_with(path, lambda temporary, look=look: drawn.savefig(temporary, **look))  # type: ignore[misc]
