"""The commands around recalibration maps: recalibrate, apply, export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scoreprism.cli._options import (
    FORCE,
    JUDGED,
    NUMBERS,
    QUIET,
    RANDOM,
    READING,
    SHOWN,
    TEXT,
    Asked,
    Command,
    Option,
    options,
)
from scoreprism.cli._output import Voice, emit, emit_bytes, outputs
from scoreprism.cli._summaries import find_suspects, keep_section, summarized
from scoreprism.cli._types import FILE, Named

if TYPE_CHECKING:
    from scoreprism import Sample
    from scoreprism.calibrators import Calibrator
    from scoreprism.report import Report

#: What quotes names, and the type of double precision, in the SQL of each database.
_DIALECTS = {
    "duckdb": ('"', "DOUBLE"),
    "postgresql": ('"', "DOUBLE PRECISION"),
    "snowflake": ('"', "DOUBLE"),
    "spark": ("`", "DOUBLE"),
    "bigquery": ("`", "FLOAT64"),
    "mysql": ("`", "DOUBLE"),
}


@click.command(
    cls=Command,
    example="scoreprism recalibrate credit.csv --target default --score model --save map.json",
)
@click.argument("file", type=FILE)
@options(
    JUDGED, READING,
    click.option("--method", cls=Option, section="Numbers", default="selected", show_default=True, metavar="NAME",
                 help="The map; see `scoreprism calibrators`. The default chooses one by cross-validation."),
    click.option("--order", cls=Option, section="Numbers", type=click.Choice(("keep", "any")),
                 help="Whether a map that is chosen must keep the ranking of the scores (default), or may reverse it."),
    NUMBERS, RANDOM,
    click.option("--save", type=FILE, cls=Option, section="Output", metavar="FILE",
                 help="Where the map goes, as JSON."),
    FORCE, SHOWN,
)  # fmt: skip
def recalibrate(file: str, method: str, order: str | None, save: str | None, force: bool, **given: Any) -> None:
    """
    Fit a recalibration map on all rows of FILE, and print what it does to rows it has not seen.

    FILE must hold rows that the model was not trained on. The losses that are printed are cross-fitted; the map that is
    kept is fitted on all rows.
    """
    from scoreprism._core.atomic_files import write_text

    targets = outputs((save,) if save else (), force=force, inputs=(file,))
    voice, asked = Voice(given["quiet"]), Asked(file, given)
    with voice.listening():
        _require_one_score(asked.read().sample)  # before maps are loaded, which takes a second
    calibrator = _choose_calibrator(method, order, given["seed"])
    found = summarized(asked, voice, "recalibration", lambda _: ["recalibration"], calibrators=(calibrator,))
    map_ = the_map(found)
    assert map_ is not None  # noqa: S101 - the section makes one
    for target in targets:
        with voice.listening():
            voice.say(f"wrote {write_text(target, lambda: map_.to_json(indent=1), overwrite=force)}")
    if not targets:
        voice.say("note: the map is not kept; give --save map.json to keep it")
    name = getattr(map_, "selected_", map_.name)
    if name == "identity" and targets:
        voice.say("note: the map is the identity: it leaves the scores as they are")
    title = f"Recalibration of {', '.join(found.models)} by {name}"
    emit(keep_section(found, "recalibration", title, find_suspects(asked.read().doubts)), given["form"])


def the_map(report: Report) -> Calibrator | None:
    """The map of a report on one score, with the names of the file's columns."""
    map_ = next(iter(report.models.values())).map
    if map_ is not None and map_.provenance_ is not None:
        columns = report.origin.details["columns"]
        score = next(iter(columns["scores"].values()))
        map_.provenance_ = map_.provenance_.named(tuple(score), columns["target"])
    return map_


def _require_one_score(sample: Sample) -> None:
    if len(sample.predictions) != 1:
        names = ", ".join(sample.predictions)
        raise click.UsageError(f"recalibrate takes one score; got {names}. Call it once for each")


def _choose_calibrator(method: str, order: str | None, seed: int) -> Calibrator:
    """The map that was named, or the one that chooses."""
    from scoreprism.calibrators import SelectedCalibrator, get_calibrator

    found = get_calibrator(method)
    if isinstance(found, SelectedCalibrator):
        found.set_params(order=order or "keep", random_state=seed)
    elif order:
        raise click.UsageError(f"--order is for a map that is chosen; --method {found.name} names one")
    return found


@click.command(cls=Command, example="scoreprism apply map.json new.csv --score model -o recalibrated.csv")
@click.argument("calibrator", type=FILE)
@click.argument("file", type=FILE)
@options(
    click.option("--score", "scores", cls=Option, section="Columns", multiple=True, required=True, metavar="COLUMN",
                 help="The score; 'p_*' or 'p_a,p_b,p_c' for several classes."),
    click.option("--column", type=Named("column"), cls=Option, section="Columns", metavar="NAME",
                 help="Name of the new column; with several classes, what its columns start with. "
                 "The score's name and _recalibrated by default."),
    click.option("--any-score", is_flag=True, cls=Option, section="Columns",
                 help="Accept a score of another name than the one the map was fitted on."),
    TEXT,
    click.option("--output", "-o", type=FILE, cls=Option, section="Output", required=True, metavar="FILE",
                 help="Where the rows go: .csv, .tsv, .parquet, or - for CSV on stdout."),
    FORCE, QUIET,
)  # fmt: skip
def apply(
    calibrator: str, file: str, column: str | None, any_score: bool, output: str, force: bool, **given: Any
) -> None:
    """
    Add recalibrated scores to the rows of FILE by the map in CALIBRATOR, which `scoreprism recalibrate` wrote.

    A row without a score gets no new one, and the number of such rows is printed. Every other column is written back as
    it was read; in CSV and TSV, text that a spreadsheet would run as a formula gets an apostrophe in front.
    """
    from scoreprism.cli._polars_guards import require_start

    require_start(file)
    from scoreprism.cli._apply_map import add_recalibrated, holds_text, require_ending, require_same_score, write_frame

    content, voice = _read_map(calibrator), Voice(given["quiet"])
    if len(given["scores"]) > 1:
        raise click.UsageError("apply takes one score. Call it once for each, or 'p_a,p_b' for several classes")
    targets = outputs((output,) if output != "-" else (), force=force, inputs=(calibrator, file))
    ending = require_ending(targets[0] if targets else None)
    with voice.listening():
        data = Asked(file, given).read_table()
        map_ = _load(content)  # after the columns are found: loading maps takes a second
        for note in data.notes:
            voice.say(f"note: {note}")
        comma = given["decimal_comma"] and ending != ".parquet" and holds_text(data.table)
        require_same_score(map_, data, voice, any_score=any_score)
        frame = add_recalibrated(map_, data, given["scores"][0], column, voice, decimal_comma=comma)
        separator = given["delimiter"] or (";" if comma else None)
        write_frame(frame, targets[0] if targets else None, separator, voice, overwrite=force)


@click.command(cls=Command, example="scoreprism export map.json --sql --score-column score")
@click.argument("calibrator", type=FILE)
@options(
    click.option("--sql", is_flag=True, cls=Option, section="What", help="An SQL expression."),
    click.option("--csv", "table", is_flag=True, cls=Option, section="What", help="A table of scores and values."),
    click.option("--score-column", type=Named("column"), cls=Option, section="What", default="score",
                 show_default=True, metavar="NAME",
                 help="Column of the score; a dot separates a table from its column."),
    click.option("--dialect", cls=Option, section="What", type=click.Choice(tuple(_DIALECTS)), default="duckdb",
                 show_default=True, help="Whose SQL: names are quoted and types are called as it does."),
    click.option("--points", cls=Option, section="What", type=click.IntRange(2, 1_000_001), default=1001,
                 show_default=True, help="Rows of the table."),
    click.option("--output", "-o", type=FILE, cls=Option, section="Output", metavar="FILE",
                 help="Where it goes; stdout by default."),
    FORCE, QUIET,
)  # fmt: skip
def export(
    calibrator: str, sql: bool, table: bool, score_column: str, dialect: str, points: int, output: str | None,
    force: bool, quiet: bool,
) -> None:  # fmt: skip
    """Write the map in CALIBRATOR as an SQL expression, or as a table to look up values in."""
    from scoreprism._core.atomic_files import write_text

    if sql == table:
        raise click.UsageError(f"say what to write: --sql or --csv, {'not both' if sql else 'one of them'}")
    map_ = _load(_read_map(calibrator))
    targets = outputs((output,) if output else (), force=force, inputs=(calibrator,))
    quote, number = _DIALECTS[dialect]
    voice = Voice(quiet)
    if sql:
        _tell_column(map_, score_column, voice)
    text = map_.to_sql(score_column, quote=quote, number=number) if sql else _grid(map_, score_column, points)
    text = text if text.endswith("\n") else f"{text}\n"
    if targets:
        with voice.listening():
            voice.say(f"wrote {write_text(targets[0], lambda: text, overwrite=force)}")
    else:
        emit_bytes(text)


def _read_map(path: str) -> bytes:
    """What the file of a map holds."""
    from scoreprism._maps.map_files import READER
    from scoreprism.cli._sources import read_small

    return read_small(path, "CALIBRATOR", READER.megabytes)


def _load(content: bytes) -> Calibrator:
    from scoreprism.calibrators import from_json

    return from_json(content)


def _tell_column(map_: Calibrator, name: str, voice: Voice) -> None:
    """Say so where the expression reads another column than the one the map was fitted on."""
    known = None if map_.provenance_ is None else map_.provenance_.score
    if known is not None and name.rpartition(".")[2] != known[-1] and name != known[-1]:
        voice.say(f"note: the map was fitted on the column {known[-1]!r}; this expression reads {name!r}")


def _grid(map_: Calibrator, name: str, points: int) -> str:
    """Scores from 0 to 1 and what they become."""
    import numpy as np

    from scoreprism._core.checks import refuse
    from scoreprism._document.csv_text import render_csv
    from scoreprism._document.model import make_table

    if len(map_.classes_) > 2 or map_.n_features_in_ > 2 or map_.kind != "probability":
        found = f"{map_.n_features_in_} columns of kind {map_.kind!r} and {len(map_.classes_)} classes"
        refuse("--csv must get a map of one probability", found, "Use `scoreprism apply`, or the map in Python.")
    grid = np.linspace(0.0, 1.0, points)
    rows = list(zip(grid.tolist(), map_.calibrate(grid).tolist(), strict=True))
    columns = [(name, name, "number"), (f"{name}_recalibrated", "", "number")]
    return render_csv(make_table("grid", "", columns, rows))
