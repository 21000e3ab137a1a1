"""The commands that judge predictions as a whole: report, diagnose, compare."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scoreprism.cli import _options as opt
from scoreprism.cli._output import check_outputs, emit, fail_gates, say, write_output
from scoreprism.cli._scale import ReadSums, SumsCall, is_at_scale

if TYPE_CHECKING:
    from scoreprism import Sample
    from scoreprism._findings.finding import Finding
    from scoreprism.calibrators import Calibrator
    from scoreprism.cli._read_sample import ReadSample
    from scoreprism.report import Report

#: Folds of the library: each part of the rows is judged by a fit to the others.
_FOLDS = 5
#: The sections behind a verdict; those that a file has no columns for are left out.
_EVIDENCE = ("verdict", "calibration", "classes", "grouping", "segments", "models")
#: What logits in a file cannot have, and what to do instead.
_NOT_OF_LOGITS = {
    "all_features": "Logits of other models look like features: list the features in --features",
    "save_map": "A map of a file is one of probabilities: write these to a file first",
}
#: Sections that sums cannot fill.
_OF_ROWS = ("classes", "grouping", "models")
_FILES = click.argument("files", type=opt.FILE, nargs=-1, metavar="FILE...")
_TITLE = opt.in_output("--title", help="Report title.")
_COLUMNS = (opt.SCORES, opt.MODELS, opt.FEATURES, opt.KNOWN)
_HOW = (opt.READING, opt.LOGITS, opt.NUMBERS, opt.RANDOM, opt.GATES)


@click.command(cls=opt.Command, example="scoreprism report credit.csv --target default --score model -o report.html")
@_FILES
@opt.options(
    *_COLUMNS, opt.PARTS, *_HOW, opt.SCALE,
    opt.in_output("--output", "-o", "paths", type=opt.FILE, multiple=True, metavar="FILE",
                  help="Report file: .html, .json, .md, .csv or .txt; repeat it for several. FILE-report.html by "
                  "default."),
    opt.in_output("--save-map", type=opt.FILE, metavar="FILE",
                  help="Save the best recalibration map as JSON, for `scoreprism apply`."),
    opt.in_output("--save-sums", type=opt.FILE, metavar="FILE", help="Save the sums as JSON, for --sums."),
    _TITLE, opt.FORCE, opt.SHOWN,
)  # fmt: skip
def report(files: tuple[str, ...], paths: tuple[str, ...], form: str, force: bool, **given: Any) -> None:
    """
    Write a self-contained report on the scores in FILE and print its verdict.

    FILE is CSV, TSV (also .gz), Parquet, Arrow, or - for stdin. Several files, a glob ('data/*.parquet') or a folder
    are summed where they are, whatever their size.
    """
    from scoreprism._document.model import require_ending

    call = SumsCall.of(files, given) if is_at_scale(files, given) else None
    inputs, stem = ((_get_file(files),), _name_after(files[0])) if call is None else (call.inputs, call.stem)
    paths = paths or (f"{stem}-report.html",)
    for path in paths:
        require_ending(path)
    targets = check_outputs(*paths, given["save_map"], given["save_sums"], force=force, inputs=inputs)
    data: ReadSample | ReadSums
    if call is not None:
        data = call.read()
    else:
        data = read_rows(files[0], given)
        if given["save_map"]:
            require_one_score(data.sample, "--save-map")
    made = make_report(data, given, "report")
    if given["save_map"]:
        write_output(targets.pop(), name_map(made).to_json(indent=1), force=force)
    if isinstance(data, ReadSums) and given["save_sums"]:
        write_output(targets.pop(), next(iter(data.sums.values()))[0].to_json(), force=force)
    for target in targets:
        say(f"wrote {made.save(target, overwrite=force)}")
    emit(shorten(made), form)
    fail_gates(_find_failures(made, given))


@click.command(cls=opt.Command, example="scoreprism diagnose credit.csv --target default --score model")
@_FILES
@opt.options(
    *_COLUMNS, opt.PARTS, *_HOW, opt.SCALE, _TITLE,
    opt.in_output("--full", is_flag=True, help="Print all sections, not just the verdict."), opt.SHOWN,
)  # fmt: skip
def diagnose(files: tuple[str, ...], full: bool, form: str, **given: Any) -> None:
    """
    Print what is wrong with the scores in FILE and what to do about it; --full prints the evidence too.

    FILE is CSV, TSV (also .gz), Parquet, Arrow, or - for stdin. Several files, a glob ('data/*.parquet') or a folder
    are summed where they are, whatever their size.
    """
    data = SumsCall.of(files, given).read() if is_at_scale(files, given) else read_rows(_get_file(files), given)
    made = make_report(data, given, "diagnosis", _EVIDENCE if full else ("verdict", "classes", "segments"))
    emit(made if full else shorten(made), form)
    fail_gates(_find_failures(made, given))


@click.command(cls=opt.Command, example="scoreprism compare credit.csv --target default --score old --score new")
@click.argument("file", type=opt.FILE)
@opt.options(*_COLUMNS, *_HOW, _TITLE, opt.SHOWN)
def compare(file: str, form: str, **given: Any) -> None:
    """
    Compare several scores on the same rows, term by term.

    FILE is CSV, TSV (also .gz), Parquet, Arrow, or - for stdin.
    """
    if len(given["scores"]) == 1 and not given["models"]:
        _require_two(given["scores"])
    data = read_rows(file, given)
    _require_two(list(data.sample.predictions))
    from scoreprism._findings.finding import of_severity

    made = make_report(data, given, "comparison", ("verdict", "models"))
    verdict = made["verdict"]
    ranking = [block for block in verdict.blocks if getattr(block, "key", "") in ("glance", "terms")]
    cautions = of_severity(verdict.findings, "doubt", "caution")
    title = given["title"] or f"Comparison of {', '.join(made.models)}"
    emit(keep_section(made, "models", title, above=ranking, cautions=cautions), form)
    fail_gates(_find_failures(made, given))


def _require_two(scores: Sequence[str]) -> None:
    if len(scores) < 2:
        remedy = "Repeat --score for each model, or pass --models 'p_*'"
        raise click.UsageError(f"compare needs at least two scores; got {', '.join(scores)}. {remedy}")


# ── from rows to a report ───────────────────────────────────────────────────────────────────────────


def _get_file(files: tuple[str, ...]) -> str:
    """The one file of a report from rows."""
    if not files:
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=next(p for p in context.command.params if p.name == "files"))
    return files[0]


def _name_after(file: str) -> str:
    """Name a report after its file; it is written to the working folder."""
    return ("" if file == "-" else Path(file).name.partition(".")[0]) or "predictions"


def read_rows(file: str, given: Mapping[str, Any]) -> ReadSample:
    """Read a file, and print notes on what was done to it."""
    from scoreprism.cli._column_roles import ReadOptions
    from scoreprism.cli._read_sample import read_sample

    if given.get("logits"):
        for option, why in _NOT_OF_LOGITS.items():
            if given.get(option):
                name = "--" + option.replace("_", "-")
                raise click.UsageError(f"{name} and --logits exclude each other; got both. {why}")
    data = read_sample(file, ReadOptions.of(given))
    for note in data.notes:
        say(f"note: {note}")
    if given.get("all_features"):
        from scoreprism.cli._words import list_names

        say(f"features: {list_names(data.origin.details['columns'].get('features', ()))}")
    return data


def make_report(
    data: ReadSample | ReadSums, given: Mapping[str, Any], kind: str, sections: Sequence[str] | None = None,
    **options: Any,
) -> Report:  # fmt: skip
    """The report on rows or sums."""
    rows: Any
    if isinstance(data, ReadSums):
        sections = sections and [
            key for key in sections if key not in ("classes", "grouping", "models")
        ]  # which need rows
        rows, options = data.sums, {**options, "loss": data.losses, "notes": data.doubts}
    else:
        _require_enough(data.sample)
        rows, options = data.sample, {**options, "loss": given["losses"], "notes": data.notes}
        options |= {"clip": given["clip"], "n_jobs": given["jobs"]}
    say(f"seed: {given['seed']}")
    from scoreprism.report import make_report as make  # after the file was read: it loads everything

    made = make(
        rows, sections=sections, confidence_level=given["confidence"], min_gain=given["min_gain"],
        random_state=given["seed"], title=given.get("title"), origin=data.origin, findings=find_suspects(data.doubts),
        **options,
    )  # fmt: skip
    if kind != "recalibration":  # which shows no terms
        _say_floors(made)
    return replace(made, kind=kind)


def _require_enough(sample: Sample) -> None:
    """Refuse fewer rows than folds; the library's remedy, fewer folds, is not available here."""
    from scoreprism._core.checks import refuse

    if sample.n_units < _FOLDS:
        what = "rows" if sample.groups is None else "groups"
        refuse(f"FILE must have at least {_FOLDS} {what}", f"{sample.n_units}", "Use more data.")


def find_suspects(doubts: Sequence[str]) -> list[Finding]:
    """Doubts that a file is complete, as findings."""
    from scoreprism._findings.finding import Finding

    return [Finding("file_suspect", facts={"reason": text}) for text in doubts]


def _say_floors(made: Report) -> None:
    """Print which losses are infinite, at which floor their terms are shown instead, and how to choose another."""
    infinite = defaultdict[tuple[str, str], list[str]](list)
    for name, model in made.models.items():
        for loss, result in model.decompositions.items():
            if result._stand_in is not None:
                infinite[loss, result._stand_in._mark].append(name)
    for (loss, mark), names in infinite.items():
        what = f"the {loss} loss of {', '.join(names)} is infinite; its terms are shown {mark}"
        say(f"note: {what}. Use --clip to choose the distance; gates then use it too")


def _find_failures(made: Report, given: Mapping[str, Any]) -> list[Finding]:
    """The gates that fail."""
    alpha = given["alpha"] if given["fail_if_miscalibrated"] else None
    return made.failed_gates(max_reliability=given["max_reliability"], gate_on=given["gate_on"], max_pvalue=alpha)


# ── what is shown of it ─────────────────────────────────────────────────────────────────────────────


def shorten(made: Report) -> Report:
    """Keep what fits on a screen: the findings of the verdict, and one table; of more than two classes, two."""
    from scoreprism._document.model import Callout

    verdict = made["verdict"]
    keys = ("scores", "glance" if len(made.models) > 1 else "terms")
    about, *blocks = verdict.blocks
    kept = [about, *(block for block in blocks if isinstance(block, Callout) or getattr(block, "key", "") in keys)]
    return replace(made, sections=(replace(verdict, title="", blocks=tuple(kept)),))


def keep_section(
    made: Report, key: str, title: str, *, above: Sequence[Any] = (), cautions: Sequence[Finding]
) -> Report:
    """Keep one section of a report; its lead becomes the headline."""
    from scoreprism._document.model import Callout

    section = made[key]
    blocks = (*above, *section.blocks, *map(Callout, cautions))
    kept = replace(section, title="", lead=(), blocks=blocks)
    return replace(made, title=title, headline=section.meaning, sections=(kept,))


# ── its recalibration map ───────────────────────────────────────────────────────────────────────────


def require_one_score(sample: Sample, what: str) -> None:
    """Refuse several scores where one map is fitted."""
    if len(sample.predictions) > 1:
        names = ", ".join(sample.predictions)
        raise click.UsageError(f"{what} takes one score; got {names}. Use `scoreprism recalibrate` once for each")


def name_map(made: Report) -> Calibrator:
    """The map of a report on one score, with the names of the file's columns."""
    from scoreprism._core.checks import refuse

    map_ = next(iter(made.models.values())).map
    if map_ is None:
        refuse("a score must have a recalibration map", "none", "Use more data.")
    if map_.provenance_ is not None:
        columns = made.origin.details["columns"]
        score = next(iter(columns["scores"].values()))
        map_.provenance_ = map_.provenance_.named(tuple(score), columns["target"])
    return map_
