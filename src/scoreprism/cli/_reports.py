"""The commands that look at predictions as a whole: report, diagnose, compare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scoreprism._findings.finding import Finding, of_severity
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
from scoreprism.cli._output import Voice, emit, fail_gates, outputs, shorten
from scoreprism.cli._scale import Call, at_scale, summed
from scoreprism.cli._summaries import keep_section, summarized
from scoreprism.cli._types import FILE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scoreprism import Sample
    from scoreprism.report import Report

_FILE = click.argument("file", type=FILE)
_FILES = click.argument("files", type=FILE, nargs=-1, metavar="FILE...")
_TITLE = click.option("--title", cls=Option, section="Output", help="Report title.")
_FULL = click.option(
    "--full", is_flag=True, cls=Option, section="Output", help="Print all sections, not the verdict alone."
)
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
    click.option("--save-sums", type=FILE, cls=Option, section="Output", metavar="FILE",
                 help="Keep the sums as JSON, for --sums."),
    _TITLE, FORCE, SHOWN,
)  # fmt: skip
def report(files: tuple[str, ...], paths: tuple[str, ...], save_map: str | None, force: bool, **given: Any) -> None:
    """
    Write a report on the scores in FILE that can be handed over, and print its verdict.

    FILE is CSV, TSV (also .gz), Parquet, Arrow, or - for stdin. Several files, a glob ('data/*.parquet') or a folder
    are summed where they are, whatever their size.
    """
    from scoreprism._document.model import require_ending

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
    emit(shorten(found), given["form"])
    fail_gates(_judge(found, given))


@click.command(cls=Command, example="scoreprism diagnose credit.csv --target default --score model")
@_FILES
@options(*_COLUMNS, PARTS, *_REST, SCALE, _TITLE, _FULL, SHOWN)
def diagnose(files: tuple[str, ...], full: bool, **given: Any) -> None:
    """
    Print what is wrong with the scores in FILE, and what to do about it; --full prints everything behind it.

    FILE is CSV, TSV (also .gz), Parquet, Arrow, or - for stdin. Several files, a glob ('data/*.parquet') or a folder
    are summed where they are, whatever their size.
    """
    if at_scale(files, given):
        call = Call(files, given)
        call.check()
        wanted = ("verdict", "calibration", "segments") if full else ("verdict", "segments")
        found, _ = summed(call, Voice(given["quiet"]), "diagnosis", wanted)
    else:
        asked = Asked(_single(files), given)
        found = summarized(asked, Voice(given["quiet"]), "diagnosis", _diagnosis if full else _verdict_alone)
    emit(found if full else shorten(found), given["form"])
    fail_gates(_judge(found, given))


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
    found = summarized(asked, Voice(given["quiet"]), "comparison", _comparison)
    ranking = [block for block in found["verdict"].blocks if getattr(block, "key", "") in ("glance", "terms")]
    cautions = of_severity(found["verdict"].findings, "doubt", "caution")
    shown = keep_section(found, "models", given["title"] or f"Comparison of {', '.join(found.models)}", cautions)
    section = shown.sections[0]
    emit(replace(shown, sections=(replace(section, blocks=(*ranking, *section.blocks)),)), given["form"])
    fail_gates(_judge(found, given))


def _report_sums(call: Call, voice: Voice, paths: tuple[str, ...], force: bool) -> None:
    """Write a report from sums, and the sums themselves where that was asked for."""
    from scoreprism._document.model import require_ending

    call.check()
    kept = call.given["save_sums"]
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
    emit(shorten(found), call.given["form"])
    fail_gates(_judge(found, call.given))


def _judge(report: Report, given: Mapping[str, Any]) -> list[Finding]:
    """The gates that fail."""
    alpha = given["alpha"] if given["fail_if_miscalibrated"] else None
    return report.failed_gates(max_reliability=given["max_reliability"], gate_on=given["gate_on"], max_pvalue=alpha)


def _single(files: tuple[str, ...]) -> str:
    """The one file of a report from rows."""
    if not files:
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=next(p for p in context.command.params if p.name == "files"))
    return files[0]


def _verdict_alone(sample: Sample) -> list[str]:
    """The verdict, which tells of segments and periods where there are any."""
    return ["verdict", "segments"] if sample.segments or sample.time is not None else ["verdict"]


def _diagnosis(sample: Sample) -> list[str]:
    """Everything behind a verdict, as far as the file has it."""
    there = {
        "verdict": True,
        "calibration": True,
        "grouping": bool(sample.levels),
        "segments": bool(sample.segments) or sample.time is not None,
        "models": len(sample.predictions) > 1,
    }
    return [section for section, present in there.items() if present]


def _comparison(sample: Sample) -> list[str]:
    if len(sample.predictions) < 2:
        raise click.UsageError(
            f"compare needs two scores or more; found {', '.join(sample.predictions)}. Give --score once for each "
            "model, or --models 'p_*'"
        )
    return ["verdict", "models"]


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
