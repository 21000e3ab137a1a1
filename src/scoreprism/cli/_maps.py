"""The commands around recalibration maps: recalibrate, apply, export."""

from __future__ import annotations

from pathlib import Path
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
from scoreprism.cli._summaries import summarized, told
from scoreprism.cli._types import FILE, Named

if TYPE_CHECKING:
    from scoreprism.calibrators import Calibrator
    from scoreprism.cli._predictions import Predictions

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
    click.option("--order", cls=Option, section="Numbers", type=click.Choice(("keep", "any")), default="keep",
                 show_default=True, help="Whether the map that is chosen must keep the ranking of the scores."),
    NUMBERS, RANDOM,
    click.option("--save", type=FILE, cls=Option, section="Output", metavar="FILE",
                 help="Where the map goes, as JSON."),
    FORCE, SHOWN,
)  # fmt: skip
def recalibrate(file: str, method: str, order: str, save: str | None, force: bool, **given: Any) -> None:
    """
    Fit a recalibration map on all rows of FILE, and print what it does to rows it has not seen.

    FILE must hold rows that the model was not trained on. The losses that are printed are cross-fitted; the map that is
    kept is fitted on all rows.
    """
    from scoreprism._files import write_text
    from scoreprism.calibrators import SelectedCalibrator, get_calibrator

    asked = get_calibrator(method)
    if isinstance(asked, SelectedCalibrator):
        asked.set_params(order=order, random_state=given["seed"])
    targets = outputs((save,) if save else (), force=force, inputs=(file,))
    voice = Voice(given["quiet"])
    found = summarized(Asked(file, given), voice, "recalibration", _one_score, calibrators=(asked,))
    map_ = next(iter(found.models.values())).map
    assert map_ is not None  # noqa: S101 - the section makes one
    for target in targets:
        voice.say(f"wrote {write_text(target, lambda: map_.to_json(indent=1), overwrite=force)}")
    if not targets:
        voice.say("note: the map is not kept; give --save map.json to keep it")
    name = getattr(map_, "selected_", map_.name)
    if name == "identity" and targets:
        voice.say("note: the map is the identity: it leaves the scores as they are")
    title = f"Recalibration of {', '.join(found.models)} by {name}"
    emit(told(found, "recalibration", title), given["form"])


def _one_score(data: Predictions) -> list[str]:
    if len(data.scores) != 1:
        raise click.UsageError(f"recalibrate takes one score; got {', '.join(data.scores)}. Call it once for each")
    return ["recalibration"]


@click.command(cls=Command, example="scoreprism apply map.json new.csv --score model -o recalibrated.csv")
@click.argument("calibrator", type=FILE)
@click.argument("file", type=FILE)
@options(
    click.option("--score", "scores", cls=Option, section="Columns", multiple=True, required=True, metavar="COLUMN",
                 help="The score; 'p_*' or 'p_a,p_b,p_c' for several classes."),
    click.option("--column", type=Named("column"), cls=Option, section="Columns", metavar="NAME",
                 help="Name of the new column; with several classes, what its columns start with. "
                 "The score's name and _recalibrated by default."),
    TEXT,
    click.option("--output", "-o", type=FILE, cls=Option, section="Output", required=True, metavar="FILE",
                 help="Where the rows go: .csv, .tsv, .parquet, or - for CSV on stdout."),
    FORCE, QUIET,
)  # fmt: skip
def apply(calibrator: str, file: str, column: str | None, output: str, force: bool, **given: Any) -> None:
    """
    Add recalibrated scores to the rows of FILE by the map in CALIBRATOR, which `scoreprism recalibrate` wrote.

    Every other column is written back as it was read; in CSV and TSV, text that a spreadsheet would run as a formula
    gets an apostrophe in front.
    """
    from scoreprism.cli._columns import recalibrated, require_table, write_frame, written_as_text

    map_, voice = _loaded(calibrator), Voice(given["quiet"])
    if len(given["scores"]) > 1:
        raise click.UsageError("apply takes one score. Call it once for each, or 'p_a,p_b' for several classes")
    targets = outputs((output,) if output != "-" else (), force=force, inputs=(calibrator, file))
    ending = require_table(targets[0] if targets else None)
    with voice.listening():
        data = Asked(file, given).read(whole=True)
        for note in data.notes:
            voice.say(f"note: {note}")
        comma = given["decimal_comma"] and ending != ".parquet" and written_as_text(data)
        frame = recalibrated(map_, data, given["scores"][0], column, decimal_comma=comma)
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
    from scoreprism._files import write_text

    if sql == table:
        raise click.UsageError(f"say what to write: --sql or --csv, {'not both' if sql else 'one of them'}")
    map_ = _loaded(calibrator)
    targets = outputs((output,) if output else (), force=force, inputs=(calibrator,))
    quote, number = _DIALECTS[dialect]
    text = map_.to_sql(score_column, quote=quote, number=number) if sql else _grid(map_, score_column, points)
    text = text if text.endswith("\n") else f"{text}\n"
    if targets:
        Voice(quiet).say(f"wrote {write_text(targets[0], lambda: text, overwrite=force)}")
    else:
        emit_bytes(text)


def _loaded(path: str) -> Calibrator:
    """A map from its file."""
    from scoreprism._validation import refuse
    from scoreprism.calibrators import from_json

    try:
        text = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        refuse("CALIBRATOR must be a file that can be read", f"{path!r} ({reason})", "Correct its name.")
    return from_json(text)  # type: ignore[arg-type]


def _grid(map_: Calibrator, name: str, points: int) -> str:
    """Scores from 0 to 1 and what they become."""
    import numpy as np

    from scoreprism._validation import refuse
    from scoreprism.cli._answers import make_table
    from scoreprism.report._tables import csv_text

    if len(map_.classes_) > 2 or map_.n_features_in_ > 2 or map_.kind != "probability":
        found = f"{map_.n_features_in_} columns of kind {map_.kind!r} and {len(map_.classes_)} classes"
        refuse("--csv must get a map of one probability", found, "Use `scoreprism apply`, or the map in Python.")
    grid = np.linspace(0.0, 1.0, points)
    rows = list(zip(grid.tolist(), map_.calibrate(grid).tolist(), strict=True))
    columns = {name: (name, "number"), f"{name}_recalibrated": ("", "number")}
    return csv_text(make_table("grid", "", columns, rows))
