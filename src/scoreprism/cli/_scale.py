"""Reports from sums: files that are summed in place, and options that need rows, which are refused."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scoreprism.cli._output import say

if TYPE_CHECKING:
    from scoreprism._document.model import Origin
    from scoreprism.losses import ProperLoss
    from scoreprism.scale import Sums

#: Options that only make sense where rows are summed.
_OF_SUMS = ("engine", "period", "cells", "fold_column", "fold_key", "save_sums")
#: Options that need rows in memory, and what to do instead.
_SAMPLE, _CONVERT = "Draw a sample of rows into one file and report on that.", "Convert the files to Parquet."
_OF_ROWS = {
    "features": _SAMPLE,
    "all_features": _SAMPLE,
    "save_map": "Fit it with `scoreprism recalibrate` on a sample.",
    "groups": "--fold-key or --fold-column keep rows together in folds; intervals treat rows as independent.",
    "time_format": "Store dates as dates, in Parquet.",
    "delimiter": _CONVERT,
    "decimal_comma": _CONVERT,
    "encoding": _CONVERT,
    "logits": "Turn them into probabilities where the data are.",
    "drop_missing": "Drop these rows where the data are.",
    "max_gigabytes": "Leave it out: memory does not grow with the rows.",
    "jobs": "Leave it out: the engine has threads of its own.",
}
#: Options that saved sums have already fixed.
_SETTLED = (
    "target", "scores", "models", "pos_label", "weight", "q", "latent", "segments", "time", "clip",
    "verify_checksums", *_OF_SUMS[:-1],
)  # fmt: skip
#: Options that name one column.
_SINGLE = ("target", "weight", "q", "latent", "time", "fold_column", "fold_key")


def is_at_scale(files: Sequence[str], given: Mapping[str, Any]) -> bool:
    """Whether a call is about sums: its options say so, or its files."""
    asked = bool(given["sums"]) or any(given.get(name) is not None for name in _OF_SUMS)  # diagnose saves no sums
    return asked or len(files) > 1 or any(map(_is_many, files))


def _is_many(file: str) -> bool:
    """A folder, or a glob that is not the name of a file."""
    return file != "-" and not Path(file).is_file() and (Path(file).is_dir() or any(sign in file for sign in "*?["))


@dataclass(frozen=True)
class ReadSums:
    """Sums by score: one of each, or one for each column that rows are summed by."""

    sums: dict[str, tuple[Sums, ...]]
    losses: Sequence[ProperLoss] | None  # None: those that were summed
    origin: Origin
    doubts: tuple[str, ...]  # why files may be incomplete


@dataclass(frozen=True)
class SumsCall:
    """A call for a report from sums."""

    files: tuple[str, ...]  # paths, globs and folders
    given: Mapping[str, Any]  # options by name, as click parsed them

    @classmethod
    def of(cls, files: tuple[str, ...], given: Mapping[str, Any]) -> SumsCall:
        """Refuse what sums cannot do, before anything is read."""
        typed = _find_typed()
        for name, remedy in _OF_ROWS.items():
            if name in typed:
                raise click.UsageError(
                    f"{_spell_option(name)} needs rows in memory; at scale rows are summed in place. {remedy}"
                )
        if "-" in files:
            raise click.UsageError(
                "at scale FILE must be a path, a glob or a folder; got - (stdin). Write it to a file"
            )
        if given["sums"]:
            if files:
                raise click.UsageError(
                    f"FILE and --sums exclude each other; got both. Sum {files[0]!r} with --save-sums"
                )
            for name in _SETTLED:
                if name in typed:
                    raise click.UsageError(
                        f"{_spell_option(name)} is already fixed by the sums in --sums. Leave it out"
                    )
        else:
            for name in ("target", "scores"):
                if not (given[name] or (name == "scores" and given["models"])):
                    raise click.UsageError(
                        f"at scale {_spell_option(name)} must name a column; got none. Columns are not guessed"
                    )
        _require_one_to_save(given, given["scores"])
        return cls(files, given)

    @cached_property
    def inputs(self) -> list[str]:
        """Every file that is read."""
        from scoreprism._core.source_files import drop_repeats, find_files, match_files

        if self.given["sums"]:
            return drop_repeats(file for path in self.given["sums"] for file in match_files(path, (".json",)))
        return find_files(list(self.files))[0]

    @property
    def _sources(self) -> tuple[str, ...]:
        return (*self.files, *self.given["sums"])

    @property
    def stem(self) -> str:
        """Name of the report, without its ending."""
        path = Path(self._sources[0])
        alone = len(self.files) == 1 and path.is_file()
        word = path.name.partition(".")[0] if alone or path.is_dir() else path.parent.name
        return word if word.strip(".*?[]") else "predictions"

    @property
    def _name(self) -> str:
        """Name of the data: the pattern or folder, of an absolute path with its last folder."""
        path, more = Path(self._sources[0]), len(self._sources) - 1
        if more:
            return f"{path.name} and {more} more"
        return str(Path(path.parent.name) / path.name if path.is_absolute() else path)

    def read(self) -> ReadSums:
        """Sum the data in place, or read sums from files; notes are printed."""
        from scoreprism._document.model import Origin
        from scoreprism.cli._score_checks import require_order
        from scoreprism.exceptions import DoubtfulFileWarning

        given, losses, notes = self.given, self.given["losses"], list[str]()
        if given["sums"]:
            sums, details = _read_sums(self.inputs), {"files of sums": len(self.inputs)}
            losses = losses if "losses" in _find_typed() else None
        else:
            notes = self._find_doubts()
            for note in notes:
                say(f"note: {note}")
            warnings.simplefilter("ignore", DoubtfulFileWarning)  # printed above
            scores = self._find_scores()
            checksums = self._verify(scores) if given["verify_checksums"] or given["strict"] else {}
            sums = self._sum_up(scores)
            details = self._describe(sum(map(len, sums.values()))) | checksums
        for name, (first, *_) in sums.items() if not given["as_given"] else ():
            table, other = first.table, "0" if first.settings.pos_label is None else "the other label"
            require_order(table["key"], table["y"], table["n"], f"--score {name!r}", other)
        return ReadSums(sums, losses, Origin(self._name, "", details), tuple(notes))

    # ── files and columns ───────────────────────────────────────────────────────────────────────────

    def _find_doubts(self) -> list[str]:
        """Why files may be incomplete; refused with --strict."""
        from scoreprism._core.source_files import doubt_file, find_files
        from scoreprism.cli._sources import note_doubts

        kind = find_files(list(self.files))[1]
        notes: list[str] = []
        for path in self.inputs:
            doubt = doubt_file(path, kind)
            where = f"in {path!r}, {doubt}" if len(self.inputs) > 1 else doubt
            notes += note_doubts([where] if doubt else [], path, strict=self.given["strict"])
        return notes

    def _verify(self, scores: Sequence[str]) -> dict[str, str]:
        """Compare the columns that are summed with the checksums of their pages."""
        from scoreprism._core.source_files import verify_files

        return {"checksums": str(verify_files(list(self.files), {*scores, *(name for _, name in self._columns)}))}

    @cached_property
    def _schema(self) -> dict[str, Any]:
        """Types of the columns."""
        import narwhals as nw

        from scoreprism.scale import scan

        frame: Any = nw.from_native(scan(list(self.files), engine=self.given["engine"])).lazy()
        return dict(frame.collect_schema())

    @property
    def _columns(self) -> list[tuple[str, str]]:
        """Options that name columns, and the columns."""
        several = [(role, name) for role in ("scores", "segments") for name in self.given[role]]
        return several + [(role, self.given[role]) for role in _SINGLE if self.given[role] is not None]

    def _find_scores(self) -> tuple[str, ...]:
        """Names of the columns of all scores."""
        from scoreprism._core.checks import quote
        from scoreprism.cli._column_roles import Names, find_models, find_scores
        from scoreprism.cli._words import list_names

        names = list(self._schema)
        for word in self.given["scores"]:
            if word not in names and {"*", ","} & set(word):
                columns = [names[i] for i in find_scores([word], names)[0].columns]
                raise click.UsageError(
                    f"a report from sums is about two classes, so --score must name one column, the probability of the "
                    f"event; got {quote(word)}, which are {len(columns)} columns ({list_names(columns, 3)}). "
                    "If each is a model of its own, pass --models; for several classes, draw a sample of rows into one "
                    "file, or use scoreprism.scale.decompose in Python"
                )
        known = Names(names)
        taken = {known.find(name, _spell_option(role)) for role, name in self._columns}
        models = [model.name for model in find_models(self.given["models"], names, taken)]
        scores = (*self.given["scores"], *models)
        _require_one_to_save(self.given, scores)
        return scores

    def _describe(self, passes: int) -> dict[str, Any]:
        """Where the numbers come from."""
        size = sum(Path(file).stat().st_size for file in self.inputs)
        engine = self.given["engine"] or "polars"
        passed = f"{passes}, each over all rows"
        return {"engine": engine, "files": len(self.inputs), "bytes": f"{size:,}", "times summed": passed}

    # ── sums ────────────────────────────────────────────────────────────────────────────────────────

    def _sum_up(self, scores: tuple[str, ...]) -> dict[str, tuple[Sums, ...]]:
        """Sums of each score; by segments and by periods one after the other, which takes less memory than at once."""
        from scoreprism.scale import aggregate

        given = self.given
        segments, time = tuple(dict.fromkeys(given["segments"])), given["time"]
        if time is None and given["period"] is not None:
            raise click.UsageError("--period needs --time; got --period alone. Name the column of dates")
        keys: list[dict[str, Any]] = [{"segments": segment} for segment in segments]
        keys += [] if time is None else [{"time": time, "period": given["period"]}]
        if given.get("save_sums") or len(keys) < 2:
            keys = [{"segments": segments or None, "time": time, "period": given["period"]}]
        else:
            by = ", ".join((*segments, *filter(None, [time])))
            each = " for each score" if len(scores) > 1 else ""
            say(f"note: the data are read {len(keys) * len(scores)} times, by {by}{each}")
        options = {
            "target": given["target"], "q": given["q"], "latent": given["latent"], "loss": list(given["losses"]),
            "sample_weight": given["weight"], "fold_column": given["fold_column"], "fold_key": given["fold_key"],
            "clip": given["clip"], "engine": given["engine"], "pos_label": self._parse_label(),
        }  # fmt: skip
        options |= {"cells": given["cells"]} if given["cells"] is not None else {}
        files = list(self.files)
        return {score: tuple(aggregate(files, score=score, **key, **options) for key in keys) for score in scores}

    def _parse_label(self) -> Any:
        """The label of --pos-label as the column has it."""
        return read_label(self.given["pos_label"], self._schema[self.given["target"]])


def read_label(text: str | None, kind: Any) -> Any:
    """A label that was typed, as a column of this type has it."""
    import narwhals as nw

    if text is None:
        return None
    if kind == nw.Boolean and text.casefold() in ("true", "false"):
        return text.casefold() == "true"
    try:
        return int(text) if kind.is_integer() else float(text) if kind.is_numeric() else text
    except ValueError:
        return text


def _require_one_to_save(given: Mapping[str, Any], scores: Sequence[str]) -> None:
    if given.get("save_sums") and len(scores) > 1:
        raise click.UsageError("--save-sums saves the sums of one score; got several. Run it once for each")


def _read_sums(files: Sequence[str]) -> dict[str, tuple[Sums, ...]]:
    """Sums added up, score by score; a file that does not fit is named."""
    from scoreprism._core.progress import track
    from scoreprism.exceptions import InputError
    from scoreprism.scale import Sums

    totals: dict[str, Sums] = {}
    for file in track(files, len(files), "sums of files"):
        try:
            part = Sums.from_json(Path(file).read_bytes())
            score = part.settings.score
            totals[score] = totals[score] + part if score in totals else part
        except InputError as error:
            raise InputError(f"{Path(file).name}: {error}") from None
    return {score: (total,) for score, total in totals.items()}


def _find_typed() -> set[str]:
    """Names of options that the user typed, not left at their defaults."""
    context = click.get_current_context()
    default = (click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP)
    return {name for name in context.params if context.get_parameter_source(name) not in default}


def _spell_option(name: str) -> str:
    """An option as it is typed."""
    return next(option.opts[0] for option in click.get_current_context().command.params if option.name == name)
