"""From a file to a sample: columns found by name, cast strictly, rows with missing values refused or dropped."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import refuse
from scoreprism._findings.wording import plural
from scoreprism.cli._binary_files import read_binary
from scoreprism.cli._casts import (
    match_label,
    to_array,
    to_feature,
    to_outcomes,
    to_probabilities,
    to_segments,
    to_text,
    to_times,
    to_weights,
)
from scoreprism.cli._column_roles import FoundRoles, GivenRoles, Score, find_roles
from scoreprism.cli._polars_guards import translate_errors
from scoreprism.cli._score_checks import find_score_like, match_classes, require_order, require_sums
from scoreprism.cli._sources import note_doubts, open_source
from scoreprism.cli._text_files import read_text
from scoreprism.cli._words import at, quote, several

if TYPE_CHECKING:
    import polars as pl

    from scoreprism import Sample
    from scoreprism.report import Origin


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read."""

    delimiter: str | None = None  # between fields; None looks at the first lines
    decimal_comma: bool = False  # whether "0,5" is a half
    encoding: str = "utf-8"  # of text
    drop_missing: bool = False  # whether rows with missing values in the columns named are dropped
    as_given: bool = False  # whether a score that falls with its class is taken as it is
    max_gigabytes: float = 8.0  # more than this is refused
    time_format: str | None = None  # how times are written, as in `datetime.strptime`; None for ISO 8601
    strict: bool = False  # whether a file that may not be complete is refused


@dataclass(frozen=True, eq=False)
class ReadSample:
    """What a file holds."""

    sample: Sample
    origin: Origin  # name and hash of the file, rows, columns used
    notes: tuple[str, ...]  # what was done to it: rows dropped, columns chosen, what was taken for what
    doubts: tuple[str, ...]  # what speaks against the file being complete; these are among the notes


@dataclass(frozen=True, eq=False)
class ReadTable:
    """Every column of a file, to be written back, and the scores in it."""

    table: pl.DataFrame  # as it was read, rows without a score dropped where that was asked for
    scores: dict[str, Any]  # an array, NaN where a row has none; or a frame with a column per class
    origin: Origin
    notes: tuple[str, ...]
    doubts: tuple[str, ...]


def read_sample(path: str, roles: GivenRoles, options: ReadOptions) -> ReadSample:
    """Read outcomes and scores, and what else was named."""
    columns = _read_columns(path, roles, options, need_target=True)
    with translate_errors("the columns of FILE must be readable"):
        columns.refuse_or_drop_missing()
        outcomes = _Outcomes.of(columns)
        scores = {score.name: _read_score(score, columns, outcomes) for score in columns.found.scores}
        features = _keep_features(columns, outcomes)
    sample = _make_sample(columns, outcomes, scores, features)
    return ReadSample(sample, columns.describe(features), tuple(columns.found.notes), tuple(columns.doubts))


def read_table(path: str, roles: GivenRoles, options: ReadOptions) -> ReadTable:
    """Read every column as it was written, and the scores among them; no outcomes."""
    columns = _read_columns(path, roles, options, need_target=False)
    with translate_errors("the columns of FILE must be readable"):
        if options.drop_missing:
            columns.refuse_or_drop_missing()
        else:
            columns.note_missing()
        scores = {score.name: _read_score(score, columns, None) for score in columns.found.scores}
    names = columns.found.names.all
    table = columns.frame.rename({name: names[int(name)] for name in columns.frame.columns})
    return ReadTable(table, scores, columns.describe({}), tuple(columns.found.notes), tuple(columns.doubts))


# ── columns ─────────────────────────────────────────────────────────────────────────────────────────


def _read_columns(path: str, roles: GivenRoles, options: ReadOptions, *, need_target: bool) -> _Columns:
    source = open_source(path, options.max_gigabytes, options.encoding)
    table = (
        read_text(source, encoding=options.encoding, delimiter=options.delimiter, decimal_comma=options.decimal_comma)
        if source.kind == "text"
        else read_binary(source, options.max_gigabytes)
    )
    found = find_roles(roles, table.names, need_target=need_target)
    if not need_target:
        found.names.require_distinct()
    frame, doubts, details = table.take(found.used if need_target else range(len(table.names)))
    doubts = note_doubts([*source.doubts, *doubts], source.name, strict=options.strict)
    found.notes.extend(doubts)
    from scoreprism.report import Origin

    origin = Origin(source.name, source.sha256, {"rows_read": frame.height, **details})
    del source, table  # the text is not kept beside its columns
    with translate_errors("the columns of FILE must be readable"):
        cast = {i: _cast(frame.get_column(str(i)), i, found, options) for i in found.required}
    return _Columns(found, options, frame, cast, np.arange(frame.height), origin, doubts)


def _cast(series: pl.Series, i: int, found: FoundRoles, options: ReadOptions) -> pl.Series:
    """A column in its role; null where a value is missing. Rows in messages are those of the file."""
    role = found.required[i]
    what = f"{role} {quote(found.names.all[i])}"
    if role == "target":
        return to_outcomes(series, what, _known_labels(found))
    if role == "groups":
        return to_text(series, what)
    if role == "time":
        return to_times(series, what, options.time_format)
    return (to_weights if role == "weight" else to_probabilities)(series, what, decimal_comma=options.decimal_comma)


def _known_labels(found: FoundRoles) -> set[str]:
    """What the user called a label; it is one, also if it reads like a missing value."""
    named = {text for score in found.scores for classes in (score.classes, *score.other_classes) for text in classes}
    return {text for text in (*named, found.roles.pos_label) if text and text.strip()}


@dataclass
class _Columns:
    """Columns on their way to a sample: cast, then rid of rows with missing values."""

    found: FoundRoles
    options: ReadOptions
    frame: pl.DataFrame  # as they were written, under their positions
    cast: dict[int, pl.Series]  # in their roles
    rows: NDArray[np.intp]  # where each row stands in the file
    origin: Origin
    doubts: list[str]

    def get(self, name: str | None) -> NDArray[Any] | None:
        """A column that has a role."""
        return None if name is None else to_array(self.cast[self.found.names[name]])

    def describe(self, features: dict[str, pl.Series]) -> Origin:
        """The file, its rows and the columns that were used."""
        read, left = self.origin.details["rows_read"], self.frame.height
        rows = {"rows_read": read, "rows_dropped": read - left, "rows": left}
        details = {**rows, **self.origin.details, "columns": self.found.describe(features)}
        return replace(self.origin, details=details)

    def refuse_or_drop_missing(self) -> None:
        """Refuse rows in which a value is missing, or drop them."""
        import polars as pl

        gaps = self._find_gaps()
        if not gaps:
            return
        if not self.options.drop_missing:
            self._refuse_gap(*min(gaps.items()))
        keep = ~np.logical_or.reduce(list(gaps.values()))
        what = {i: f"{self.found.required[i]} {quote(self.found.names.all[i])}" for i in gaps}
        if not keep.any():
            refuse("some row must have no missing value", "a missing one in each", f"See {', '.join(what.values())}.")
        places = "; ".join(f"{int(gap.sum())} missing in {what[i]}{self._written(i, gap)}" for i, gap in gaps.items())
        self.found.notes.append(f"{plural(int((~keep).sum()), 'row')} of {keep.size} dropped: {places}.")
        mask = pl.Series(keep)
        self.rows, self.frame = np.flatnonzero(keep), self.frame.filter(mask)
        self.cast = {i: series.filter(mask) for i, series in self.cast.items()}

    def note_missing(self) -> None:
        """Say how many rows that are written back have no score; a column without any is not one of scores."""
        gaps = self._find_gaps()
        if not gaps:
            return
        missing = np.logical_or.reduce(list(gaps.values()))
        names = self.found.names.all
        where = "; ".join(f"score {quote(names[i])}{self._written(i, gap)}" for i, gap in gaps.items())
        if missing.all():
            refuse("some row must have a score", f"none in {plural(missing.size, 'row')}: {where}", "Correct --score.")
        rows = f"{int(missing.sum())} of {plural(missing.size, 'row')}"
        self.found.notes.append(
            f"{rows} have no score, the first is {at(np.argmax(missing))} ({where}): their "
            "recalibrated score is empty. Pass --drop-missing to leave them out."
        )

    def _find_gaps(self) -> dict[int, NDArray[np.bool_]]:
        return {i: series.is_null().to_numpy() for i, series in self.cast.items() if series.null_count()}

    def _written(self, i: int, missing: NDArray[np.bool_]) -> str:
        """How the first missing value is written, if it is written at all."""
        text = self.frame.get_column(str(i))[int(np.argmax(missing))]
        return "" if text is None or not str(text).strip() else f", written {quote(text)}"

    def _refuse_gap(self, i: int, missing: NDArray[np.bool_]) -> NoReturn:
        role, written = self.found.required[i], self._written(i, missing)
        label = " If it is a label, rename it." if written and role in {"target", "groups"} else ""
        refuse(
            f"{role} {quote(self.found.names.all[i])} must have no missing values",
            f"{int(missing.sum())} of {missing.size} missing, first in {at(np.argmax(missing))}{written}",
            f"Fill them in, or pass --drop-missing to leave these rows out.{label}",
        )


# ── outcomes and scores ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Outcomes:
    """Outcomes and what is known of them."""

    column: pl.Series
    labels: list[Any]  # sorted
    pos_label: Any  # the label that scores of one column speak of; None where the library knows (0/1, booleans)

    @classmethod
    def of(cls, columns: _Columns) -> _Outcomes:
        """From a target that has no missing values."""
        roles = columns.found.roles
        column = columns.cast[columns.found.names[str(roles.target)]]
        labels = column.unique().sort().to_list()
        if len(labels) < 2:
            got = f"{several(labels)} in all {plural(len(column), 'row')}"
            rule = f"target {quote(roles.target)} must hold at least two labels"
            refuse(rule, got, "Nothing can be said of one class alone.")
        return cls(column, labels, _find_positive(columns.found, labels))

    @property
    def event(self) -> NDArray[np.bool_]:
        """Where the positive of two labels is."""
        return np.asarray(self.column == self.positive)

    @property
    def positive(self) -> Any:
        """The positive of two labels."""
        return self.labels[-1] if self.pos_label is None else self.pos_label


def _find_positive(found: FoundRoles, labels: list[Any]) -> Any:
    """The label that scores of one column speak of; None where there is no doubt, or no such score."""
    roles = found.roles
    alone = [f"score {quote(score.name)}" for score in found.scores if len(score.columns) == 1]
    alone += [f"{role} {quote(name)}" for role, name in roles.single.items() if role in ("q", "latent")]
    if alone and len(labels) > 2:
        rule = f"target {quote(roles.target)} must hold two labels for {alone[0]}, which is one column"
        refuse(rule, several(labels), "Name a column per class, for example --score 'p_*'.")
    if roles.pos_label is not None and len(labels) > 2:
        rule = "--pos-label must be left out where the target has more than two labels"
        refuse(rule, several(labels), "The names of the score's columns say which class each speaks of.")
    if roles.pos_label is not None:
        label = match_label(roles.pos_label, labels)
        if label is None:
            rule = "--pos-label must be one of the labels of the target"
            refuse(rule, quote(roles.pos_label), f"The labels are {several(labels)}.")
        return label
    if alone and set(labels) not in ({0, 1}, {-1, 1}):
        rule = f"the label that {alone[0]} speaks of must be named"
        refuse(rule, f"the labels {several(labels)}", f"Pass --pos-label {quote(labels[-1])}, or the other one.")
    return None


def _read_score(score: Score, columns: _Columns, outcomes: _Outcomes | None) -> Any:
    """Probabilities of one model: an array, or a frame with a column per class."""
    import polars as pl

    what, parts = f"score {quote(score.name)}", [columns.cast[i] for i in score.columns]
    if len(parts) > 1:
        classes = score.classes if outcomes is None else match_classes(score, outcomes.labels)
        frame = pl.DataFrame(dict(zip(classes, parts, strict=True)))
        require_sums(frame, what, columns.rows)
        return frame
    if outcomes is not None and not columns.options.as_given:
        other = next(label for label in outcomes.labels if label != outcomes.positive)
        require_order(parts[0], outcomes.event, what, str(other))
    return parts[0].to_numpy()


# ── features ────────────────────────────────────────────────────────────────────────────────────────


def _keep_features(columns: _Columns, outcomes: _Outcomes) -> dict[str, pl.Series]:
    """Features by name, without those that nobody named and that cannot be meant; notes say which."""
    import polars as pl

    found, kept = columns.found, dict[str, pl.Series]()
    named, notes = set(found.roles.features), found.notes
    for i in found.features:
        name = found.names.all[i]
        raw = columns.frame.get_column(str(i))
        series, odd = to_feature(raw, f"feature {quote(name)}", decimal_comma=columns.options.decimal_comma)
        if name not in named and series.dtype == pl.String and 1 < series.len() == series.n_unique():
            notes.append(f"Column {quote(name)} is left out of the features: its texts all differ, as names do.")
            continue
        if odd is not None:
            first = f"{quote(raw[odd])} in {at(columns.rows[odd])}"
            notes.append(f"Feature {quote(name)} is read as text: some values are no finite numbers, first {first}.")
        kept[name] = series
    others = {name: series for name, series in kept.items() if name not in named}
    alike = _find_alike(others, columns, outcomes) if others else ()
    return {name: series for name, series in kept.items() if name not in alike}


def _find_alike(features: dict[str, pl.Series], columns: _Columns, outcomes: _Outcomes) -> list[str]:
    """Which features look like scores of the same target; a note names them."""
    found = columns.found
    single = {s.name: columns.cast[s.columns[0]].to_numpy() for s in found.scores if len(s.columns) == 1}
    classes = [score.classes for score in found.scores if len(score.columns) > 1]
    event = outcomes.event if len(outcomes.labels) == 2 else None
    alike = find_score_like(features, single, event, classes)
    if alike:
        which = several(name for name in found.names.all if name in alike)
        one = len(alike) == 1
        found.notes.append(
            f"{'Column' if one else 'Columns'} {which} {'is' if one else 'are'} left out of the features: "
            f"{'it looks like a score' if one else 'they look like scores'} of the same target. Name "
            f"{'it' if one else 'them'} in --features, beside --all-features, to keep {'it' if one else 'them'}."
        )
    return alike


def _make_sample(
    columns: _Columns, outcomes: _Outcomes, scores: dict[str, Any], features: dict[str, pl.Series]
) -> Sample:
    import polars as pl

    from scoreprism._sample.sample import Sample
    from scoreprism.exceptions import ScoreprismWarning

    roles = columns.found.roles
    segments = {
        name: to_segments(columns.frame.get_column(str(columns.found.names[name])), f"segment {quote(name)}")
        for name in roles.segments
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScoreprismWarning)  # whatever there is to say is said of each model
        return Sample.of(
            to_array(outcomes.column), scores, pl.DataFrame(features) if features else None,
            q=columns.get(roles.q), latent=columns.get(roles.latent), sample_weight=columns.get(roles.weight),
            groups=columns.get(roles.groups), segments=segments or None, time=columns.get(roles.time),
            pos_label=outcomes.pos_label,
        )  # fmt: skip
