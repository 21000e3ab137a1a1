"""Reports from sums: what the command line asks of the engines, and what it refuses there."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scoreprism.cli._options import Asked, release_memory
from scoreprism.cli._output import Voice
from scoreprism.cli._summaries import find_suspects, say_floors
from scoreprism.exceptions import DoubtfulFileWarning

if TYPE_CHECKING:
    from scoreprism._core.parquet_pages import Pages
    from scoreprism.report import Report
    from scoreprism.scale import Sums

#: Options that only make sense where rows are summed.
_OF_SUMS = ("engine", "period", "cells", "fold_column", "fold_key", "save_sums")
#: Options that need rows in memory, and what to do instead.
_SAMPLE = "Take a sample of rows into one file, and leave out what is at scale."
_OF_ROWS = {
    "features": _SAMPLE,
    "all_features": _SAMPLE,
    "save_map": "Fit it with `scoreprism recalibrate` on a sample.",
    "groups": "--fold-key or --fold-column keep rows together in folds; intervals take rows as independent.",
    "time_format": "Keep dates as dates, in Parquet.",
    "delimiter": "Convert the files to Parquet.",
    "decimal_comma": "Convert the files to Parquet.",
    "encoding": "Convert the files to Parquet.",
    "drop_missing": "Leave these rows out where the data are.",
    "max_gigabytes": "Memory does not grow with the rows: leave it out.",
    "jobs": "The engine has threads of its own: leave it out.",
}
#: Options that sums have settled.
_SETTLED = (
    "target", "scores", "models", "pos_label", "weight", "q", "latent", "segments", "time", "clip",
    "verify_checksums", *_OF_SUMS[:-1],
)  # fmt: skip


def at_scale(files: Sequence[str], given: Mapping[str, Any]) -> bool:
    """Whether a call is about sums: its options say so, or its files."""
    asked = bool(given.get("sums")) or any(given.get(name) is not None for name in _OF_SUMS)
    return asked or len(files) > 1 or any(_is_many(file) for file in files)


def _is_many(file: str) -> bool:
    """A folder, or a glob that is not the name of a file."""
    return file != "-" and not Path(file).is_file() and (Path(file).is_dir() or any(sign in file for sign in "*?["))


@dataclass(frozen=True)
class Call:
    """A call for a report from sums."""

    files: tuple[str, ...]  # paths, globs and folders
    given: Mapping[str, Any]  # options by name, as click parsed them

    def check(self) -> None:
        """Refuse what sums cannot do, before anything is read."""
        typed = _typed()
        for name, remedy in _OF_ROWS.items():
            if name in typed:
                raise click.UsageError(
                    f"{_flag(name)} needs rows in memory, and these are summed where they are. {remedy}"
                )
        if "-" in self.files:
            raise click.UsageError(
                "at scale FILE must be a path, a glob or a folder; got - (stdin). Write it to a file"
            )
        if self.given["sums"]:
            self._check_sums(typed)
            return
        for name, there in (("target", self.given["target"]), ("scores", self.given["scores"] or self.given["models"])):
            if not there:
                raise click.UsageError(
                    f"{_flag(name)} must name a column, at scale; got none. Columns are not guessed there"
                )
        if len(self.given["scores"]) > 1:
            self._require_one()

    def _require_one(self) -> None:
        if self.given.get("save_sums"):
            raise click.UsageError("--save-sums keeps the sums of one score; got several. Call it once for each")

    def with_scores(self) -> Call:
        """The same call with a column for each of its scores, found among those of the files."""
        from scoreprism.cli._column_roles import Names, find_models, find_scores
        from scoreprism.cli._words import quote, several

        given = self.given
        names = list(self.schema())
        for word in given["scores"]:
            found = find_scores([word], names)[0] if word not in names and {"*", ","} & set(word) else None
            if found is not None:
                columns = [names[i] for i in found.columns]
                raise click.UsageError(
                    f"a report from sums is about two classes, so --score must name one column, the probability of the "
                    f"event; got {quote(word)}, which are {len(columns)} columns ({several(columns, 3)}). "
                    "If each is a model of its own, pass --models; for several classes take a sample of rows into one "
                    "file and leave out what is at scale, or use scoreprism.scale.decompose in Python"
                )
        known = Names(names)
        taken = {known.find(name, _flag(role)) for role, name in _columns(given)}
        models = [model.name for model in find_models(given["models"], names, taken)]
        call = replace(self, given={**given, "scores": (*given["scores"], *models)})
        if len(call.given["scores"]) > 1:
            call._require_one()
        return call

    def schema(self) -> dict[str, Any]:
        """Types of the columns."""
        import narwhals as nw

        from scoreprism.scale import scan

        frame: Any = nw.from_native(scan(list(self.files), engine=self.given["engine"])).lazy()
        return dict(frame.collect_schema())

    def _check_sums(self, typed: set[str]) -> None:
        if self.files:
            raise click.UsageError(f"give FILE or --sums; got both. The sums of {self.files[0]!r} can be added later")
        settled = [name for name in _SETTLED if name in typed]
        if settled:
            raise click.UsageError(f"{_flag(settled[0])} is settled in the sums of --sums. Leave it out")

    @property
    def inputs(self) -> tuple[str, ...]:
        """Every file that is read."""
        if self.given["sums"]:
            return tuple(_json_files(self.given["sums"]))
        from scoreprism._core.source_files import find_files

        return tuple(find_files(list(self.files))[0])

    @property
    def name(self) -> str:
        """What the data are called: the pattern or the folder, without where it stands."""
        source = (*self.files, *self.given["sums"])
        if len(source) > 1:
            return f"{Path(source[0]).name} and {len(source) - 1} more"
        path = Path(source[0])
        return str(path) if not path.is_absolute() else str(Path(path.parent.name) / path.name)

    @property
    def stem(self) -> str:
        """What a report on them is called."""
        path = Path((*self.files, *self.given["sums"])[0])
        alone = len(self.files) == 1 and path.is_file()
        word = path.name.partition(".")[0] if alone or path.is_dir() else path.parent.name
        return word if word.strip(".*?[]") else "predictions"


def summed(call: Call, voice: Voice, kind: str, sections: Sequence[str] | None) -> tuple[Report, Sums]:
    """The report on data that stay where they are."""
    release_memory()
    asked = _typed()
    with voice.listening():
        notes = [] if call.given["sums"] else _doubts(call)
        for note in notes:
            voice.say(f"note: {note}")
        warnings.simplefilter("ignore", DoubtfulFileWarning)  # it has been told
        call = call if call.given["sums"] else call.with_scores()
        from scoreprism.report import Origin, summarize_sums  # not before the columns are found: it loads everything

        given = call.given
        checksums = {"checksums": str(_verified(call))} if given["verify_checksums"] or given["strict"] else {}
        sums = _read(call) if given["sums"] else _summarized(call, voice)
        for name, found in sums.items():
            if not given["as_given"]:
                _require_order(name, found[0])
        voice.say(f"seed: {given['seed']}")
        losses = list(Asked("", given).losses()) if "losses" in asked or not given["sums"] else None
        first = next(iter(sums.values()))
        report = summarize_sums(
            sums, loss=losses, confidence_level=given["confidence"], random_state=given["seed"], sections=sections,
            title=given.get("title"), origin=Origin(call.name, "", _details(call, len(first)) | checksums), notes=notes,
            min_gain=given["min_gain"], findings=find_suspects(notes),
        )  # fmt: skip
    say_floors(report, voice)
    return replace(report, kind=kind), first[0]


def _doubts(call: Call) -> list[str]:
    """What speaks against files being complete; refused with --strict."""
    from scoreprism._core.source_files import doubt_about, find_files
    from scoreprism.cli._sources import note_doubts

    paths, kind = find_files(list(call.files))
    found: list[str] = []
    for path in paths:
        doubt = doubt_about(path, kind)
        told = f"in {path!r}, {doubt}" if len(paths) > 1 else doubt
        found += note_doubts([told] if doubt else [], path, strict=call.given["strict"])
    return found


def _verified(call: Call) -> Pages:
    """The columns that are summed, compared with the checksums of their pages."""
    from scoreprism._core.source_files import verify_files

    return verify_files(list(call.files), {name for _, name in _columns(call.given)})


def _columns(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Options that name columns, and the columns."""
    single = ("target", "weight", "q", "latent", "time", "fold_column", "fold_key")
    several = [(role, name) for role in ("scores", "segments") for name in given[role]]
    return several + [(role, given[role]) for role in single if given[role] is not None]


def _details(call: Call, passes: int) -> dict[str, Any]:
    """Where the numbers come from."""
    files = call.inputs
    if call.given["sums"]:
        return {"files of sums": len(files)}
    size = sum(Path(file).stat().st_size for file in files)
    found = {"engine": call.given["engine"] or "polars", "files": len(files), "bytes": f"{size:,}"}
    return found | {"times summed": f"{passes * len(call.given['scores'])}, each over all rows"}


def _summarized(call: Call, voice: Voice) -> dict[str, tuple[Sums, ...]]:
    """Sums of each score; by segments and by periods one after the other, which takes less memory than at once."""
    from scoreprism.scale import aggregate

    given = call.given
    groups, time = tuple(dict.fromkeys(given["segments"])), given["time"]
    keys: list[dict[str, Any]] = [{"segments": group} for group in groups]
    times = [] if time is None else [time]
    keys += [{"time": name, "period": given["period"]} for name in times]
    if time is None and given["period"] is not None:
        raise click.UsageError("--period goes with --time; got it alone. Name the column of dates")
    if given.get("save_sums") or len(keys) < 2:
        keys = [{"segments": groups or None, "time": time, "period": given["period"]}]
    elif not given["quiet"]:
        voice.say(
            f"note: the data are read {len(keys) * len(given['scores'])} times, by {', '.join((*groups, *times))}"
            f"{' for each score' * (len(given['scores']) > 1)}"
        )
    options = {
        "target": given["target"], "q": given["q"], "latent": given["latent"],
        "loss": list(Asked("", given).losses()), "sample_weight": given["weight"], "fold_column": given["fold_column"],
        "fold_key": given["fold_key"], "clip": given["clip"], "engine": given["engine"], "pos_label": _label(call),
    }  # fmt: skip
    options |= {"cells": given["cells"]} if given["cells"] is not None else {}
    files = list(call.files)
    return {score: tuple(aggregate(files, score=score, **key, **options) for key in keys) for score in given["scores"]}


def _label(call: Call) -> Any:
    """The label of --pos-label as the column has it."""
    text, target = call.given["pos_label"], call.given["target"]
    if text is None:
        return None
    import narwhals as nw

    schema = call.schema()
    kind = schema.get(target)
    if kind == nw.Boolean and text.casefold() in ("true", "false"):
        return text.casefold() == "true"
    if kind is not None and kind.is_numeric():
        try:
            return int(text) if kind.is_integer() else float(text)
        except ValueError:
            return text
    return text


def _require_order(score: str, sums: Sums) -> None:
    """Refuse a score that is high where events are rare, as for rows: ranks of cells, rows of a cell as ties."""
    import numpy as np

    from scoreprism.cli._score_checks import refuse_reversed

    table = sums.table
    _, place = np.unique(table["key"], return_inverse=True)
    rows = np.bincount(place, table["n"])
    events = np.bincount(place, table["n"] * table["y"])
    n, ones = float(rows.sum()), float(events.sum())
    if not 0.0 < ones < n:
        return
    gap = np.cumsum(rows) - 0.5 * rows - 0.5 * n
    spread = float(np.sqrt(ones * (n - ones) / (n * (n - 1.0)) * (rows @ gap**2)))
    other = "0" if sums.settings.pos_label is None else "the other label"
    refuse_reversed(float(events @ gap), spread, ones * (n - ones), f"--score {score!r}", other)


# ── files of sums ───────────────────────────────────────────────────────────────────────────────────


def _json_files(patterns: Sequence[str]) -> list[str]:
    """Files of sums, by path, glob or folder, each once."""
    import glob

    from scoreprism._core.checks import refuse
    from scoreprism._core.source_files import each_once

    found: list[str] = []
    for pattern in patterns:
        here = Path(pattern).expanduser()
        if here.is_dir():
            some = sorted(str(path) for path in here.glob("*.json"))
        else:
            some = [str(here)] if here.is_file() else sorted(glob.glob(str(here), recursive=True))  # noqa: PTH207
        if not some:
            refuse("--sums must name files that exist", f"{pattern!r}, which matches none", "Check the path.")
        found += some
    return each_once(found)


def _read(call: Call) -> dict[str, tuple[Sums, ...]]:
    """Sums added up, score by score; a file that does not fit is named."""
    from scoreprism._core.progress import tracked
    from scoreprism.exceptions import InputError
    from scoreprism.scale import Sums

    files = call.inputs
    totals: dict[str, Sums] = {}
    for file in tracked(files, len(files), "sums of files"):
        try:
            part = Sums.from_json(Path(file).read_bytes())
            score = part.settings.score
            totals[score] = totals[score] + part if score in totals else part
        except InputError as error:
            raise InputError(f"{Path(file).name}: {error}") from None
    return {score: (total,) for score, total in totals.items()}


# ── words ───────────────────────────────────────────────────────────────────────────────────────────


def _typed() -> set[str]:
    """Options that were given, not left at their defaults."""
    context = click.get_current_context()
    default = (click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP)
    return {name for name in context.params if context.get_parameter_source(name) not in default}


def _flag(name: str) -> str:
    """An option as it is typed."""
    known = {option.name: option.opts[0] for option in click.get_current_context().command.params}
    return known.get(name, f"--{name.replace('_', '-')}")
