"""From a file to a sample: columns found by name, cast strictly, rows with missing values refused or dropped."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scoreprism._core.checks import quote, refuse
from scoreprism._document.model import Origin
from scoreprism._findings.wording import plural
from scoreprism.cli import _casts as casts
from scoreprism.cli._binary_files import read_binary
from scoreprism.cli._column_roles import ReadOptions, Roles, Score, find_roles
from scoreprism.cli._polars_guards import translate_errors
from scoreprism.cli._score_checks import find_score_like, match_classes, require_order, require_sums
from scoreprism.cli._sources import note_doubts, open_source
from scoreprism.cli._text_files import read_text
from scoreprism.cli._words import list_names, name_row

if TYPE_CHECKING:
    from scoreprism import Sample


@dataclass(frozen=True, eq=False)
class ReadSample:
    """What a file holds."""

    sample: Sample
    origin: Origin  # name and hash of the file, rows, columns used
    notes: tuple[str, ...]  # on what was done: rows dropped, columns chosen
    doubts: tuple[str, ...]  # why the file may be incomplete; these are among the notes


@dataclass(frozen=True, eq=False)
class ReadTable:
    """Every column of a file, to be written back, and the scores in it."""

    table: pl.DataFrame  # as it was read, rows without a score dropped where that was asked for
    scores: dict[str, Any]  # an array, NaN where a row has none; or a frame with a column per class
    origin: Origin
    notes: tuple[str, ...]


def read_sample(path: str, options: ReadOptions) -> ReadSample:
    """Read outcomes and scores, and what else was named."""
    columns = _Columns.read(path, options, need_target=True)
    with translate_errors("the columns of FILE must be readable"):
        columns.refuse_or_drop_missing()
        outcomes = _Outcomes.of(columns)
        scores = {score.name: _read_score(score, columns, outcomes) for score in columns.roles.scores}
        features = _keep_features(columns, outcomes)
    sample = _make_sample(columns, outcomes, scores, features)
    return ReadSample(sample, columns.describe(features), tuple(columns.roles.notes), tuple(columns.doubts))


def read_table(path: str, options: ReadOptions) -> ReadTable:
    """Read every column as it was written, and the scores among them; no outcomes."""
    columns = _Columns.read(path, options, need_target=False)
    with translate_errors("the columns of FILE must be readable"):
        if options.drop_missing:
            columns.refuse_or_drop_missing()
        else:
            columns.note_missing()
        scores = {score.name: _read_score(score, columns, None) for score in columns.roles.scores}
    names = columns.roles.names.all
    table = columns.frame.rename({name: names[int(name)] for name in columns.frame.columns})
    return ReadTable(table, scores, columns.describe({}), tuple(columns.roles.notes))


# ── columns ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Columns:
    """Columns on their way to a sample: cast, then rid of rows with missing values."""

    roles: Roles
    frame: pl.DataFrame  # as they were written, under their positions
    cast: dict[int, pl.Series]  # in their roles; null where a value is missing
    rows: NDArray[np.intp]  # position of each row in the file
    origin: Origin
    doubts: list[str]

    @classmethod
    def read(cls, path: str, options: ReadOptions, *, need_target: bool) -> _Columns:
        """Open a file, find the columns that were named, and cast them."""
        source = open_source(path, options.max_gigabytes, options.encoding)
        table = read_text(source, options) if source.kind == "text" else read_binary(source, options.max_gigabytes)
        roles = find_roles(options, table.names, need_target=need_target)
        if not need_target:
            roles.names.require_distinct()
        frame, doubts, details = table.take(roles.used if need_target else range(len(table.names)))
        doubts = note_doubts([*source.doubts, *doubts], source.name, strict=options.strict)
        roles.notes.extend(doubts)
        origin = Origin(source.name, source.sha256, {"rows_read": frame.height, **details})
        del source, table  # frees the text before the columns are converted
        with translate_errors("the columns of FILE must be readable"):
            cast = {i: _cast(frame.get_column(str(i)), i, roles) for i in roles.required}
        return cls(roles, frame, cast, np.arange(frame.height), origin, doubts)

    def get(self, name: str | None) -> NDArray[Any] | None:
        """A column that has a role."""
        return None if name is None else casts.to_array(self.cast[self.roles.names[name]])

    def describe(self, features: dict[str, pl.Series]) -> Origin:
        """The file, its rows and the columns that were used."""
        read, left = self.origin.details["rows_read"], self.frame.height
        rows = {"rows_read": read, "rows_dropped": read - left, "rows": left}
        return replace(self.origin, details={**rows, **self.origin.details, "columns": self.roles.to_dict(features)})

    def refuse_or_drop_missing(self) -> None:
        """Refuse rows in which a value is missing, or drop them."""
        gaps = self._find_gaps()
        if not gaps:
            return
        if not self.roles.given.drop_missing:
            i, missing = min(gaps.items())
            written = self._written(i, missing)
            is_label = written and self.roles.required[i] in ("target", "groups")
            refuse(
                f"{self.roles.describe(i)} must have no missing values",
                f"{int(missing.sum())} of {missing.size} missing, first in {name_row(np.argmax(missing))}{written}",
                "Fill them in, or pass --drop-missing to leave these rows out."
                + " If it is a label, rename it." * bool(is_label),
            )
        keep = ~np.logical_or.reduce(list(gaps.values()))
        if not keep.any():
            where = ", ".join(map(self.roles.describe, gaps))
            refuse("some row must be complete", "a missing value in every row", f"See {where}.")
        counts = "; ".join(
            f"{int(gap.sum())} missing in {self.roles.describe(i)}{self._written(i, gap)}" for i, gap in gaps.items()
        )
        self.roles.notes.append(f"{plural(int((~keep).sum()), 'row')} of {keep.size} dropped: {counts}.")
        mask = pl.Series(keep)
        self.rows, self.frame = np.flatnonzero(keep), self.frame.filter(mask)
        self.cast = {i: series.filter(mask) for i, series in self.cast.items()}

    def note_missing(self) -> None:
        """Note how many rows have no score; refuse a column in which no row has one."""
        gaps = self._find_gaps()
        if not gaps:
            return
        missing = np.logical_or.reduce(list(gaps.values()))
        where = "; ".join(f"{self.roles.describe(i)}{self._written(i, gap)}" for i, gap in gaps.items())
        if missing.all():
            refuse("some row must have a score", f"none in {plural(missing.size, 'row')}: {where}", "Correct --score.")
        self.roles.notes.append(
            f"{int(missing.sum())} of {plural(missing.size, 'row')} have no score, first in "
            f"{name_row(np.argmax(missing))} ({where}): their recalibrated score is empty. "
            "Pass --drop-missing to leave them out."
        )

    def _find_gaps(self) -> dict[int, NDArray[np.bool_]]:
        return {i: series.is_null().to_numpy() for i, series in self.cast.items() if series.null_count()}

    def _written(self, i: int, missing: NDArray[np.bool_]) -> str:
        """How the first missing value is written, if it is written at all."""
        text = self.frame.get_column(str(i))[int(np.argmax(missing))]
        return "" if text is None or not str(text).strip() else f", written {quote(text)}"


def _cast(series: pl.Series, i: int, roles: Roles) -> pl.Series:
    """A column in its role; null where a value is missing. Rows in messages are those of the file."""
    role, what, given = roles.required[i], roles.describe(i), roles.given
    if role == "target":  # what the user called a label is one, also if it reads like a missing value
        named = {
            text for score in roles.scores for classes in (score.classes, *score.other_classes) for text in classes
        }
        known = {text for text in (*named, given.pos_label) if text and text.strip()}
        return casts.to_outcomes(series, what, known)
    if role == "groups":
        return casts.to_text(series, what)
    if role == "time":
        return casts.to_times(series, what, given.time_format)
    cast = casts.to_weights if role == "weight" else casts.to_probabilities
    if role == "score" and given.logits:
        cast = casts.to_logits
    return cast(series, what, decimal_comma=given.decimal_comma)


# ── outcomes and scores ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Outcomes:
    """Outcomes and what is known of them."""

    column: pl.Series
    labels: list[Any]  # sorted
    pos_label: Any  # the class whose probability scores of one column are; None where that is clear (0/1, booleans)

    @classmethod
    def of(cls, columns: _Columns) -> _Outcomes:
        """From a target that has no missing values."""
        target = columns.roles.given.target
        column = columns.cast[columns.roles.names[str(target)]]
        labels = column.unique().sort().to_list()
        if len(labels) < 2:
            got = f"{list_names(labels)} in all {plural(len(column), 'row')}"
            refuse(f"target {quote(target)} must hold at least two labels", got, "Use rows of both classes.")
        return cls(column, labels, _find_positive(columns.roles, labels))

    @property
    def event(self) -> NDArray[np.bool_]:
        """Where the positive of two labels is."""
        return np.asarray(self.column == self.positive)

    @property
    def positive(self) -> Any:
        """The positive of two labels."""
        return self.labels[-1] if self.pos_label is None else self.pos_label


def _find_positive(roles: Roles, labels: list[Any]) -> Any:
    """The class whose probability scores of one column are; None where that is clear, or where no score needs it."""
    given = roles.given
    alone = [f"score {quote(score.name)}" for score in roles.scores if len(score.columns) == 1]
    alone += [f"{role} {quote(name)}" for role, name in given.single.items() if role in ("q", "latent")]
    if alone and len(labels) > 2:
        rule = f"target {quote(given.target)} must hold two labels for {alone[0]}, which is one column"
        refuse(rule, list_names(labels), "Name a column per class, for example --score 'p_*'.")
    if given.pos_label is not None:
        if len(labels) > 2:
            rule = "--pos-label must be left out if the target has more than two labels"
            refuse(rule, list_names(labels), "The names of the score's columns tell the classes.")
        label = casts.match_label(given.pos_label, labels)
        if label is None:
            rule = "--pos-label must be one of the labels of the target"
            refuse(rule, quote(given.pos_label), f"The labels are {list_names(labels)}.")
        return label
    if alone and set(labels) not in ({0, 1}, {-1, 1}):
        rule = f"the positive label of {alone[0]} must be named"
        refuse(rule, f"the labels {list_names(labels)}", f"Pass --pos-label {quote(labels[-1])}, or the other one.")
    return None


def _read_score(score: Score, columns: _Columns, outcomes: _Outcomes | None) -> Any:
    """Probabilities of one model: an array, or a frame with a column per class."""
    given, what, parts = columns.roles.given, f"score {quote(score.name)}", [columns.cast[i] for i in score.columns]
    if given.logits:
        parts = _turn_into_probabilities(parts, what, columns.rows)
        columns.roles.notes.append(f"{what[0].upper()}{what[1:]} was read as logits.")
    if len(parts) > 1:
        classes = score.classes if outcomes is None else match_classes(score, outcomes.labels)
        frame = pl.DataFrame(dict(zip(classes, parts, strict=True)))
        require_sums(frame, what, columns.rows)
        return frame
    if outcomes is not None and not given.as_given:
        other = next(label for label in outcomes.labels if label != outcomes.positive)
        require_order(parts[0].to_numpy(), outcomes.event.astype(float), None, what, str(other))
    return parts[0].to_numpy()


def _turn_into_probabilities(parts: list[pl.Series], what: str, rows: NDArray[np.intp]) -> list[pl.Series]:
    """The probabilities of logits that were declared; refuse what cannot be logits."""
    from scoreprism._core.logits import turn_into_law

    table = np.column_stack([part.to_numpy() for part in parts])
    if table.min() >= 0.0 and table.max() <= 1.0:
        remedy = "Leave out --logits if these are probabilities."
        refuse(f"{what} must hold logits, as --logits says", "only numbers from 0 to 1", remedy)
    if len(parts) == 1:
        return [pl.Series(turn_into_law(table[:, 0]))]
    empty = np.flatnonzero(np.isneginf(table).all(axis=1))
    if empty.size:
        got = f"−∞ for all in {name_row(rows[empty[0]])} ({empty.size} of {table.shape[0]} rows)"
        refuse(f"{what} must have a logit above −∞ for some class of each row", got, "Correct or drop these rows.")
    return [pl.Series(column) for column in turn_into_law(table).T]


# ── features ────────────────────────────────────────────────────────────────────────────────────────


def _keep_features(columns: _Columns, outcomes: _Outcomes) -> dict[str, pl.Series]:
    """Features by name; columns that --all-features should not have taken are left out, with a note."""
    roles, features = columns.roles, dict[str, pl.Series]()
    named, notes = set(roles.given.features), roles.notes
    for i in roles.features:
        name, raw = roles.names.all[i], columns.frame.get_column(str(i))
        series, odd = casts.to_feature(raw, f"feature {quote(name)}", decimal_comma=roles.given.decimal_comma)
        if name not in named and series.dtype == pl.String and 1 < series.len() == series.n_unique():
            notes.append(f"Column {quote(name)} is not used as a feature: every value is unique.")
            continue
        if odd is not None:
            first = f"{quote(raw[odd])} in {name_row(columns.rows[odd])}"
            notes.append(f"Feature {quote(name)} is read as text: some values are not finite numbers, first {first}.")
        features[name] = series
    others = {name: series for name, series in features.items() if name not in named}
    alike = _find_alike(others, columns, outcomes) if others else ()
    return {name: series for name, series in features.items() if name not in alike}


def _find_alike(features: dict[str, pl.Series], columns: _Columns, outcomes: _Outcomes) -> list[str]:
    """Which features look like scores of the same target; a note names them."""
    roles = columns.roles
    single = {s.name: columns.cast[s.columns[0]].to_numpy() for s in roles.scores if len(s.columns) == 1}
    classes = [score.classes for score in roles.scores if len(score.columns) > 1]
    alike = find_score_like(features, single, outcomes.event if len(outcomes.labels) == 2 else None, classes)
    if alike:
        which = list_names(name for name in roles.names.all if name in alike)
        them, note = "them", f"Columns {which} are not used as features: they look like scores of the same target"
        if len(alike) == 1:
            them, note = "it", f"Column {which} is not used as a feature: it looks like a score of the same target"
        roles.notes.append(f"{note}. Name {them} in --features, beside --all-features, to keep {them}.")
    return alike


def _make_sample(
    columns: _Columns, outcomes: _Outcomes, scores: dict[str, Any], features: dict[str, pl.Series]
) -> Sample:
    from scoreprism._sample.sample import Sample
    from scoreprism.exceptions import ScoreprismWarning

    given, names = columns.roles.given, columns.roles.names
    segments = {
        name: casts.to_segments(columns.frame.get_column(str(names[name])), f"segment {quote(name)}")
        for name in given.segments
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScoreprismWarning)  # reports and tests warn about each model
        return Sample.of(
            casts.to_array(outcomes.column), scores, pl.DataFrame(features) if features else None,
            q=columns.get(given.q), latent=columns.get(given.latent), sample_weight=columns.get(given.weight),
            groups=columns.get(given.groups), segments=segments or None, time=columns.get(given.time),
            pos_label=outcomes.pos_label,
        )  # fmt: skip
