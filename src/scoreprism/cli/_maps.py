"""The commands around recalibration maps: recalibrate, apply, export."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from scoreprism.cli import _options as opt
from scoreprism.cli._output import check_outputs, emit, emit_bytes, say, write_output
from scoreprism.cli._reports import find_suspects, keep_section, make_report, name_map, read_rows, require_one_score

if TYPE_CHECKING:
    from scoreprism.calibrators import Calibrator

#: Every map that can be named: those of `scoreprism.calibrators`, which takes a second to load.
METHODS = (
    "identity", "platt", "temperature", "beta", "isotonic", "binning", "bin-effects", "kernel", "spline",
    "natural-spline", "monotone-spline", "tree", "venn-abers", "vector-scaling", "matrix-scaling",
    "structured-matrix", "dirichlet", "polynomial", "one-vs-rest", "selected",
)  # fmt: skip
#: Quotation mark of names and type of double precision in the SQL of each database.
_DIALECTS = {
    "duckdb": ('"', "DOUBLE"),
    "postgresql": ('"', "DOUBLE PRECISION"),
    "snowflake": ('"', "DOUBLE"),
    "spark": ("`", "DOUBLE"),
    "bigquery": ("`", "FLOAT64"),
    "mysql": ("`", "DOUBLE"),
}


@click.command(
    cls=opt.Command, example="scoreprism recalibrate credit.csv --target default --score model --save map.json"
)
@click.argument("file", type=opt.FILE)
@opt.options(
    opt.SCORES, opt.READING,
    opt.in_numbers("--method", type=click.Choice(METHODS, case_sensitive=False), default="selected", metavar="NAME",
                   help="Map; see `scoreprism calibrators`. The default selects one by cross-validation."),
    opt.in_numbers("--order", type=click.Choice(("keep", "any")), metavar="NAME",
                   help="Whether the selected map must keep the ranking of the scores: keep (default) or any."),
    opt.NUMBERS, opt.RANDOM,
    opt.in_output("--save", type=opt.FILE, metavar="FILE", help="Save the map as JSON."),
    opt.FORCE, opt.SHOWN,
)  # fmt: skip
def recalibrate(
    file: str, method: str, order: str | None, save: str | None, force: bool, form: str, **given: Any
) -> None:
    """
    Fit a recalibration map on all rows of FILE, and print what it does to rows it has not seen.

    FILE must hold rows that the model was not trained on. The printed losses are cross-fitted; the saved map is fitted
    on all rows.
    """
    if order and method != "selected":
        raise click.UsageError(f"--order is for --method selected; got {method}. Leave one of them out")
    targets = check_outputs(save, force=force, inputs=(file,))
    data = read_rows(file, given)
    require_one_score(data.sample, "recalibrate")
    from scoreprism.calibrators import get_calibrator

    choice = {"order": order or "keep", "random_state": given["seed"]} if method == "selected" else {}
    calibrator = get_calibrator(method, **choice)
    made = make_report(data, given, "recalibration", ["recalibration"], calibrators=(calibrator,))
    map_ = name_map(made)
    for target in targets:
        write_output(target, map_.to_json(indent=1), force=force)
    name = getattr(map_, "selected_", map_.name)
    if not targets:
        say("note: the map is not saved; pass --save map.json to keep it")
    elif name == "identity":
        say("note: the map is the identity: it leaves the scores unchanged")
    title = f"Recalibration of {', '.join(made.models)} by {name}"
    emit(keep_section(made, "recalibration", title, cautions=find_suspects(data.doubts)), form)


@click.command(cls=opt.Command, example="scoreprism apply map.json new.csv --score model -o recalibrated.csv")
@click.argument("calibrator", type=opt.FILE)
@click.argument("file", type=opt.FILE)
@opt.options(
    opt.in_columns("--score", "scores", multiple=True, required=True, metavar="COLUMN",
                   help="Score to recalibrate; 'p_*' or 'p_a,p_b,p_c' for several classes."),
    opt.in_columns("--column", type=opt.Named("column"), metavar="NAME",
                   help="Name of the new column, or what the new columns of several classes start with. The score's "
                   "name and _recalibrated by default."),
    opt.in_columns("--any-score", is_flag=True,
                   help="Accept a score with another name than the one the map was fitted on."),
    opt.TEXT,
    opt.in_output("--output", "-o", type=opt.FILE, required=True, metavar="FILE",
                  help="File to write: .csv, .tsv, .parquet, or - for CSV on stdout."),
    opt.FORCE, opt.QUIET,
)  # fmt: skip
def apply(
    calibrator: str, file: str, column: str | None, any_score: bool, output: str, force: bool, **given: Any
) -> None:
    """
    Add recalibrated scores to the rows of FILE, by the map that `scoreprism recalibrate` saved in CALIBRATOR.

    A row without a score gets no new one, and the number of such rows is printed. All other columns are written back
    as they were read; in CSV and TSV, text that a spreadsheet would run as a formula gets a leading apostrophe.
    """
    from scoreprism.cli._polars_guards import require_start

    require_start(file)
    from scoreprism.cli._apply_map import add_recalibrated, holds_text, require_ending, require_same_score, write_frame
    from scoreprism.cli._column_roles import ReadOptions
    from scoreprism.cli._read_sample import read_table

    content = _read_map(calibrator)
    if len(given["scores"]) > 1:
        raise click.UsageError("apply takes one score. Call it once for each, or pass 'p_a,p_b' for several classes")
    target = next(iter(check_outputs(None if output == "-" else output, force=force, inputs=(calibrator, file))), None)
    ending = require_ending(target)
    data = read_table(file, ReadOptions.of(given))
    map_ = _load(content)  # after the columns are found: loading maps takes a second
    for note in data.notes:
        say(f"note: {note}")
    comma = given["decimal_comma"] and ending != ".parquet" and holds_text(data.table)
    require_same_score(map_, data, any_score=any_score)
    frame = add_recalibrated(map_, data, given["scores"][0], column, decimal_comma=comma)
    write_frame(frame, target, given["delimiter"] or (";" if comma else None), overwrite=force)


_in_content = partial(click.option, cls=opt.Option, section="Content")


@click.command(cls=opt.Command, example="scoreprism export map.json --sql --score-column score")
@click.argument("calibrator", type=opt.FILE)
@opt.options(
    _in_content("--sql", is_flag=True, help="SQL expression."),
    _in_content("--csv", "table", is_flag=True, help="Lookup table of scores and recalibrated scores."),
    _in_content("--score-column", type=opt.Named("column"), default="score", metavar="NAME",
                help="Column of the score; a dot separates table and column."),
    _in_content("--dialect", type=click.Choice(tuple(_DIALECTS)), default="duckdb", metavar="NAME",
                help=f"SQL dialect: {', '.join(_DIALECTS)}."),
    _in_content("--points", type=click.IntRange(2, 1_000_001), default=1001, metavar="N", help="Rows of the table."),
    opt.in_output("--output", "-o", type=opt.FILE, metavar="FILE", help="File to write; stdout by default."),
    opt.FORCE, opt.QUIET,
)  # fmt: skip
def export(
    calibrator: str, sql: bool, table: bool, score_column: str, dialect: str, points: int, output: str | None,
    force: bool,
) -> None:  # fmt: skip
    """Write the map in CALIBRATOR as an SQL expression or as a lookup table."""
    if sql == table:
        raise click.UsageError(f"choose what to write: --sql or --csv, {'not both' if sql else 'one of them'}")
    map_ = _load(_read_map(calibrator))
    targets = check_outputs(output, force=force, inputs=(calibrator,))
    if sql:
        _say_other_column(map_, score_column)
        quote, number = _DIALECTS[dialect]
        text = map_.to_sql(score_column, quote=quote, number=number)
    else:
        text = _make_grid(map_, score_column, points)
    if not targets:
        emit_bytes(text)
    for target in targets:
        write_output(target, text if text.endswith("\n") else f"{text}\n", force=force)


def _read_map(path: str) -> bytes:
    """Read the file of a map; a large one is refused."""
    from scoreprism._maps.map_files import READER
    from scoreprism.cli._sources import read_small

    return read_small(path, "CALIBRATOR", READER.megabytes)


def _load(content: bytes) -> Calibrator:
    from scoreprism.calibrators import from_json

    return from_json(content)


def _say_other_column(map_: Calibrator, name: str) -> None:
    """Print a note if the expression reads another column than the one the map was fitted on."""
    known = None if map_.provenance_ is None else map_.provenance_.score
    if known is not None and name.rpartition(".")[2] != known[-1] and name != known[-1]:
        say(f"note: the map was fitted on column {known[-1]!r}; this expression reads {name!r}")


def _make_grid(map_: Calibrator, name: str, points: int) -> str:
    """Make a table of scores from 0 to 1 and their recalibrated values."""
    import numpy as np

    from scoreprism._core.checks import refuse
    from scoreprism._document.csv_text import csv_lines

    if len(map_.classes_) > 2 or map_.n_features_in_ > 2 or map_.kind != "probability":
        got = f"{map_.n_features_in_} columns of kind {map_.kind!r} and {len(map_.classes_)} classes"
        refuse("--csv needs a map of one probability", got, "Use `scoreprism apply`, or the map in Python.")
    grid = np.linspace(0.0, 1.0, points)
    return csv_lines([name, f"{name}_recalibrated"], zip(grid.tolist(), map_.calibrate(grid).tolist(), strict=True))
