"""The folder of a run: page, tables and figures, made aside and put in place together; a journal of finished tasks."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from scoreprism._document.markdown import render_markdown
from scoreprism.exceptions import InputError
from scoreprism.report import Figure, Report, Table

if TYPE_CHECKING:
    from reproduction.run import Reproduction

#: Where finished tasks are kept; a folder that has it is ours.
JOURNAL = "journal-of-reproduce"
#: The last file that is put in place: a folder that has it is finished.
PAGE = "index.html"
#: Pixels per inch of figures.
_DPI = 180


def prepare(out: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Make a folder that a run may write to: new, empty, of an unfinished run, or finished and to be replaced."""
    folder = Path(out)
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError("`out` must be a folder", f"{str(folder)!r}, which is a file", "Use another path.")
        if folder.is_dir() and any(folder.iterdir()) and not (folder / JOURNAL).is_dir():
            rule = "`out` must be a new or empty folder, or one of an earlier run"
            raise InputError(rule, f"{str(folder)!r}, which holds something else", "Use another path.")
        if (folder / PAGE).exists() and not overwrite:
            rule = "`out` must not hold the results of a finished run"
            raise InputError(rule, f"{str(folder)!r}", "Pass `overwrite`=True (--force), or use another path.")
        (folder / JOURNAL).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _describe(error) from error
    return folder


def write(found: Reproduction, folder: Path, *, overwrite: bool) -> None:
    """Write everything aside, then put it in place; until then an earlier run stays as it was."""
    staged = folder / JOURNAL / "staged"
    shutil.rmtree(staged, ignore_errors=True)  # of a run that was killed
    try:
        _fill(found, staged)
        names = sorted(path.relative_to(staged) for path in staged.rglob("*") if path.is_file())
        taken = [str(folder / name) for name in names if (folder / name).exists()]
        if taken and not overwrite:
            rule = "`out` must not hold files under the names of ours"
            raise InputError(rule, f"{taken[0]!r}", "Pass `overwrite`=True (--force); what was computed is kept.")
        (folder / PAGE).unlink(missing_ok=True)  # unfinished meanwhile
        for name in sorted(names, key=lambda name: name == Path(PAGE)):
            (folder / name).parent.mkdir(exist_ok=True)
            (staged / name).replace(folder / name)
    except OSError as error:
        raise _describe(error) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _describe(error: OSError) -> InputError:
    rule = "`out` must be a folder that can be written to"
    return InputError(rule, f"{error.strerror} for {error.filename!r}", "Use another path.")


def _fill(found: Reproduction, folder: Path) -> None:
    for part in ("tables", "figures"):
        (folder / part).mkdir(parents=True)
    for section in found.report.sections:
        for table in section.tables:
            _to_frame(table).write_csv(folder / "tables" / f"{table.key}.csv")
    for figure in list_figures(found.report):
        _draw(figure, folder / "figures")
    found.to_frame().write_csv(folder / "checks.csv")
    results = json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False, indent=1)
    (folder / "results.json").write_text(results + "\n", encoding="utf-8")
    (folder / "reproduction.md").write_text(_to_markdown(found.report), encoding="utf-8")
    (folder / PAGE).write_text(found.report.to_html(), encoding="utf-8")


def list_figures(report: Report) -> list[Figure]:
    """List the figures of a page."""
    return [block for section in report.sections for block in section.blocks if isinstance(block, Figure)]


def _to_frame(table: Table) -> pl.DataFrame:
    heads = [column.title for column in table.columns]
    return pl.DataFrame(list(table.rows), schema=heads, orient="row", infer_schema_length=None)


def _to_markdown(report: Report) -> str:
    """The page as Markdown, with a link to each picture."""
    return render_markdown(report, {figure.key: f"figures/{figure.key}.svg" for figure in list_figures(report)})


def _draw(figure: Figure, folder: Path) -> None:
    """Draw a figure on white paper, as SVG and PNG; the same bytes each time."""
    from matplotlib import rc_context, style

    with style.context("default"), rc_context({"svg.fonttype": "none", "svg.hashsalt": figure.key}):
        drawn = figure.draw()
        look = {"facecolor": "white", "bbox_inches": "tight", "pad_inches": 0.1}
        drawn.savefig(folder / f"{figure.key}.svg", metadata={"Date": None}, **look)
        drawn.savefig(folder / f"{figure.key}.png", dpi=_DPI, **look)
