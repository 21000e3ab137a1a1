"""The commands that look at predictions as a whole: report, diagnose, compare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scoreprism.cli._gates import failures
from scoreprism.cli._options import (
    CLUSTER,
    FEATURES,
    FORCE,
    GATES,
    JUDGED,
    KNOWN,
    MODELS,
    NUMBERS,
    PARTS,
    RANDOM,
    READING,
    SCALE,
    SHOWN,
    Asked,
    Command,
    Option,
    options,
)
from scoreprism.cli._output import Voice, emit, gate_failed, outputs
from scoreprism.cli._scale import Call, at_scale, summed
from scoreprism.cli._summaries import summarized, told
from scoreprism.cli._types import FILE

if TYPE_CHECKING:
    from scoreprism.cli._predictions import Predictions
    from scoreprism.report import Report

_FILE = click.argument("file", type=FILE)
_FILES = click.argument("files", type=FILE, nargs=-1, metavar="FILE...")
_TITLE = click.option("--title", cls=Option, section="Output", help="What stands above it.")
_COLUMNS = (JUDGED, MODELS, FEATURES, KNOWN, CLUSTER)
_REST = (READING, NUMBERS, RANDOM, GATES)


@click.command(cls=Command, example="scoreprism report credit.csv --target default --score model -o report.html")
@_FILES
@options(
    *_COLUMNS, PARTS, *_REST, SCALE,
    click.option("--output", "-o", "paths", type=FILE, cls=Option, section="Output", multiple=True, metavar="FILE",
                 help="Where the report goes: .html, .json, .md, .csv or .txt; give it several times for several. "
                 "FILE-report.html by default."),
    click.option("--save-map", type=FILE, cls=Option, section="Output", metavar="FILE",
                 help="Keep the best recalibration map as JSON, for `scoreprism apply`."),
    click.option("--save-partial", type=FILE, cls=Option, section="Output", metavar="FILE",
                 help="Keep the sums as JSON, for --partials."),
    _TITLE, FORCE, SHOWN,
)  # fmt: skip
def report(files: tuple[str, ...], paths: tuple[str, ...], save_map: str | None, force: bool, **given: Any) -> None:
    """
    Write a report on the scores in FILE that can be handed over, and print its verdict.

    FILE is CSV, TSV (also .gz), Parquet, Arrow, or - for stdin. Several files, a glob ('data/*.parquet') or a folder
    are summed where they are, whatever their size.
    """
    from scoreprism.report._report import require_ending

    voice = Voice(given["quiet"])
    if at_scale(files, given):
        _report_sums(Call(files, given), voice, paths, force)
        return
    file = _single(files)
    wanted = paths or (_beside(file),)
    for path in wanted:
        require_ending(path)
    targets = outputs((*wanted, *((save_map,) if save_map else ())), force=force, inputs=(file,))
    asked = Asked(file, given)
    found = summarized(asked, voice, "report", lambda _: None)
    if save_map:
        _save_map(found, targets.pop(), voice, force)
    for target in targets:
        voice.say(f"wrote {found.save(target, overwrite=force)}")
    emit(replace(found, sections=(found["verdict"],)), given["form"])
    gate_failed(failures(found, asked))


@click.command(cls=Command, example="scoreprism diagnose credit.csv --target default --score model")
@_FILES
@options(*_COLUMNS, PARTS, *_REST, SCALE, _TITLE, SHOWN)
def diagnose(files: tuple[str, ...], **given: Any) -> None:
    """
    Print what is wrong with the scores in FILE, and what to do about it.

    FILE is CSV, TSV (also .gz), Parquet, Arrow, or - for stdin. Several files, a glob ('data/*.parquet') or a folder
    are summed where they are, whatever their size.
    """
    if at_scale(files, given):
        call = Call(files, given)
        call.check()
        found, _ = summed(call, Voice(given["quiet"]), "diagnosis", ("verdict", "calibration", "segments"))
        emit(found, given["form"])
        gate_failed(failures(found, Asked("", given)))
        return
    asked = Asked(_single(files), given)
    found = summarized(asked, Voice(given["quiet"]), "diagnosis", _diagnosis)
    emit(found, given["form"])
    gate_failed(failures(found, asked))


@click.command(cls=Command, example="scoreprism compare credit.csv --target default --score old --score new")
@_FILE
@options(*_COLUMNS, *_REST, _TITLE, SHOWN)
def compare(file: str, **given: Any) -> None:
    """
    Compare several scores of the same rows, term by term.

    FILE is CSV, TSV (also .gz), Parquet, Arrow, or - for stdin.
    """
    if len(given["scores"]) == 1 and not given["models"]:
        raise click.UsageError(
            "compare needs two scores or more; got one. Give --score once for each model, or --models 'p_*'"
        )
    asked = Asked(file, given)
    choose = _tested_comparison if given["fail_if_miscalibrated"] else _comparison
    found = summarized(asked, Voice(given["quiet"]), "comparison", choose)
    emit(told(found, "models", given["title"] or f"Comparison of {', '.join(found.models)}"), given["form"])
    gate_failed(failures(found, asked))


def _report_sums(call: Call, voice: Voice, paths: tuple[str, ...], force: bool) -> None:
    """Write a report from sums, and the sums themselves where that was asked for."""
    from scoreprism.report._report import require_ending

    call.check()
    kept = call.given["save_partial"]
    wanted = paths or (f"{call.stem}-report.html",)
    for path in wanted:
        require_ending(path)
    targets = outputs((*wanted, *((kept,) if kept else ())), force=force, inputs=call.inputs)
    found, partial = summed(call, voice, "report", None)
    if kept:
        from scoreprism._core.atomic_files import write_text

        with voice.listening():
            voice.say(f"wrote {write_text(targets.pop(), partial.to_json, overwrite=force)}")
    for target in targets:
        with voice.listening():
            voice.say(f"wrote {found.save(target, overwrite=force)}")
    emit(replace(found, sections=(found["verdict"],)), call.given["form"])
    gate_failed(failures(found, Asked("", call.given)))


def _single(files: tuple[str, ...]) -> str:
    """The one file of a report from rows."""
    if not files:
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=next(p for p in context.command.params if p.name == "files"))
    return files[0]


def _diagnosis(data: Predictions) -> list[str]:
    """What fits on a screen, as far as the file has it."""
    there = {
        "verdict": True,
        "calibration": True,
        "grouping": data.X is not None or data.reference is not None,
        "segments": bool(data.segments) or data.time is not None,
        "models": len(data.scores) > 1,
    }
    return [section for section, present in there.items() if present]


def _comparison(data: Predictions) -> list[str]:
    if len(data.scores) < 2:
        raise click.UsageError(
            f"compare needs two scores or more; found {', '.join(data.scores)}. Give --score once for each model, "
            "or --models 'p_*'"
        )
    return ["models"]


def _tested_comparison(data: Predictions) -> list[str]:
    return ["verdict", *_comparison(data)]  # which tests calibration


def _beside(file: str) -> str:
    """Name of a report, in the working folder."""
    stem = "predictions" if file == "-" else Path(file).name.partition(".")[0]
    return f"{stem or 'predictions'}-report.html"


def _save_map(found: Report, target: Path, voice: Voice, force: bool) -> None:
    from scoreprism._core.atomic_files import write_text
    from scoreprism._core.checks import refuse
    from scoreprism.cli._maps import the_map

    if len(found.models) > 1:
        refuse("--save-map must go with one score", f"{len(found.models)}", "Use `scoreprism recalibrate` for each.")
    map_ = the_map(found)
    if map_ is None:
        refuse("--save-map must find a map", "none", "Use `scoreprism recalibrate`.")
    with voice.listening():
        voice.say(f"wrote {write_text(target, lambda: map_.to_json(indent=1), overwrite=force)}")
