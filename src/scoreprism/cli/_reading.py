"""From a file to predictions: columns found by name, cast strictly, rows with missing values refused or dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from scoreprism._core.checks import refuse
from scoreprism.cli._alike import find_score_like
from scoreprism.cli._binary import Binary, read_binary
from scoreprism.cli._casts import require_nonnegative, require_probabilities, to_feature, to_numbers
from scoreprism.cli._labels import clean_text, find_label, to_array, to_groups, to_outcomes, to_times
from scoreprism.cli._memory import require_room
from scoreprism.cli._panics import in_our_words
from scoreprism.cli._predictions import Predictions
from scoreprism.cli._roles import Found, Roles, find_roles
from scoreprism.cli._scores import Score, match_classes, possible_classes, require_order, require_sums
from scoreprism.cli._sources import Source, doubted, open_source
from scoreprism.cli._text import Text, read_text
from scoreprism.cli._words import at, count, several, shown
from scoreprism.report import Origin

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

__all__ = ["Reading", "Roles", "read_predictions"]


@dataclass(frozen=True)
class Reading:
    """How a file is read."""

    delimiter: str | None = None  # between fields; None looks at the first lines
    decimal_comma: bool = False  # whether "0,5" is a half
    encoding: str = "utf-8"  # of text
    drop_missing: bool = False  # whether rows with missing values in the columns named are dropped
    as_given: bool = False  # whether a score that falls with its class is taken as it is
    max_gigabytes: float = 8.0  # more than this is refused
    time_format: str | None = None  # how times are written, as in `datetime.strptime`; None for ISO 8601
    strict: bool = False  # whether a file that may not be complete is refused
    # whether nothing need be named, and every column is kept in `Predictions.table`, as are rows without a score
    whole: bool = False


def read_predictions(source: str, roles: Roles, reading: Reading) -> Predictions:
    """Read predictions from a file."""
    opened = open_source(source, reading.max_gigabytes, reading.encoding)
    table = _table(opened, reading)
    found = find_roles(roles, table.names, whole=reading.whole)
    whole = reading.whole or found.roles.target is None
    if whole:
        found.names.require_distinct()
    used = range(len(table.names)) if whole else found.used
    doubts = [*opened.doubts, *([table.doubt] if isinstance(table, Text) and table.doubt else [])]
    details = {}
    if isinstance(table, Binary) and (pages := table.verify(used)) is not None:
        details["checksums"] = str(pages)
        doubts += [f"checksums are not verified, {pages.unread}"] if pages.unread else []
    told = doubted(doubts, opened.name, strict=reading.strict)
    found.notes.extend(told)
    frame = table.take(used)
    del table  # the text is not kept beside its columns
    with in_our_words("the columns of FILE must be readable"):
        made = _Work(found, reading, frame).done(Origin(opened.name, opened.sha256, details))
    return replace(made, doubts=tuple(told))


def _table(opened: Source, reading: Reading) -> Text | Binary:
    if opened.kind != "text" or opened.content is None:
        return read_binary(opened, reading.max_gigabytes)
    require_room(len(opened.content))
    return read_text(
        opened.content,
        opened.name,
        encoding=reading.encoding,
        delimiter=reading.delimiter,
        decimal_comma=reading.decimal_comma,
    )


@dataclass
class _Work:
    """Columns on their way to predictions: cast, then rid of rows with missing values, then checked together."""

    found: Found
    reading: Reading
    frame: pl.DataFrame
    columns: dict[int, pl.Series] = field(default_factory=dict)
    labels: list[Any] = field(default_factory=list)

    def done(self, origin: Origin) -> Predictions:
        """Everything that was asked for."""
        read = self.frame.height
        for i, role in self.found.required.items():
            self.columns[i] = self._cast(i, role)
        self.rows = np.arange(read)
        self._drop_missing()
        roles, names = self.found.roles, self.found.names
        target = None if roles.target is None else self.columns[names[roles.target]]
        pos_label = self._positive(target)
        scores = {score.name: self._score(score, target, pos_label) for score in self.found.scores}
        X, features = self._features()
        rows = {"rows_read": read, "rows_dropped": read - self.frame.height, "rows": self.frame.height}
        told = replace(self.found, features=features).described()
        return Predictions(
            table=self.frame.rename({column: names.all[int(column)] for column in self.frame.columns}),
            origin=replace(origin, details={**rows, **origin.details, "columns": told}),
            notes=tuple(self.found.notes),
            y=_array(target),
            scores=scores,
            X=X,
            reference=self._array(roles.reference),
            latent=self._array(roles.latent),
            weight=self._array(roles.weight),
            segments={name: to_groups(self._raw(name), f"group {shown(name)}") for name in roles.groups},
            time=self._array(roles.time),
            cluster=self._array(roles.cluster),
            pos_label=pos_label,
        )

    def _raw(self, name: str) -> pl.Series:
        return self.frame.get_column(str(self.found.names[name]))

    def _array(self, name: str | None) -> NDArray[Any] | None:
        return None if name is None else _array(self.columns[self.found.names[name]])

    def _cast(self, i: int, role: str) -> pl.Series:
        """A column in its role; null where a value is missing. Rows in messages are those of the file."""
        series, what = self.frame.get_column(str(i)), f"{role} {shown(self.found.names.all[i])}"
        if role == "target":
            outcomes, self.labels = to_outcomes(series, what, self._known_labels())
            return outcomes
        if role == "cluster":
            return clean_text(series, what)
        if role == "time":
            return to_times(series, what, self.reading.time_format)
        numbers = to_numbers(series, what, decimal_comma=self.reading.decimal_comma)
        check: Callable[[pl.Series, str], None] = require_nonnegative if role == "weight" else require_probabilities
        check(numbers, what)
        return numbers

    def _known_labels(self) -> set[str]:
        """What the user called a label; it is one, also if it reads like a missing value."""
        found = self.found
        named = {text for score in found.scores for text in possible_classes(score, found.names.all)}
        return named | ({found.roles.pos_label} if found.roles.pos_label else set())

    def _written(self, i: int, missing: NDArray[np.bool_]) -> str:
        """How the first missing value is written, if it is written at all."""
        text = self.frame.get_column(str(i))[int(np.argmax(missing))]
        return "" if text is None or not str(text).strip() else f", written {shown(text)}"

    def _drop_missing(self) -> None:
        """Refuse or drop rows in which a value is missing."""
        import polars as pl

        gaps = {i: self.columns[i].is_null().to_numpy() for i in self.columns if self.columns[i].null_count()}
        if not gaps:
            return
        required = self.found.required
        told = {i: f"{required[i]} {shown(self.found.names.all[i])}" for i in gaps}
        if self.reading.whole and not self.reading.drop_missing:
            self._keep_missing(gaps, told)
            return
        if not self.reading.drop_missing:
            first = min(gaps)
            _refuse_missing(told[first], gaps[first], self._written(first, gaps[first]), required[first])
        keep = ~np.logical_or.reduce(list(gaps.values()))
        if not keep.any():
            refuse("some row must have no missing value", "a missing one in each", f"See {', '.join(told.values())}.")
        places = "; ".join(f"{int(gaps[i].sum())} missing in {told[i]}{self._written(i, gaps[i])}" for i in gaps)
        self.found.notes.append(f"{count(int((~keep).sum()), 'row')} of {keep.size} dropped: {places}.")
        mask = pl.Series(keep)
        self.rows, self.frame = np.flatnonzero(keep), self.frame.filter(mask)
        self.columns = {i: series.filter(mask) for i, series in self.columns.items()}
        if self.labels:
            self.labels = self.columns[self.found.names[str(self.found.roles.target)]].unique().sort().to_list()

    def _keep_missing(self, gaps: dict[int, NDArray[np.bool_]], told: dict[int, str]) -> None:
        """Say how many rows that are written back have no score; a column without any is not one of scores."""
        missing = np.logical_or.reduce(list(gaps.values()))
        where = "; ".join(f"{told[i]}{self._written(i, gap)}" for i, gap in gaps.items())
        if missing.all():
            refuse("some row must have a score", f"none in {count(missing.size, 'row')}: {where}", "Correct --score.")
        rows = f"{int(missing.sum())} of {count(missing.size, 'row')}"
        self.found.notes.append(
            f"{rows} have no score, the first is {at(np.argmax(missing))} ({where}): their "
            "recalibrated score is empty. Pass --drop-missing to leave them out."
        )

    def _positive(self, target: pl.Series | None) -> Any:
        """The label that scores of one column speak of; None where there is no doubt, or no such score."""
        roles, labels = self.found.roles, self.labels
        if target is None:
            return roles.pos_label
        what = f"target {shown(roles.target)}"
        if len(labels) < 2:
            got = f"{several(labels)} in all {count(len(target), 'row')}"
            refuse(f"{what} must hold at least two labels", got, "Nothing can be said of one class alone.")
        alone = [f"score {shown(score.name)}" for score in self.found.scores if len(score.columns) == 1]
        alone += [f"{role} {shown(getattr(roles, role))}" for role in ("reference", "latent") if getattr(roles, role)]
        if alone and len(labels) > 2:
            rule = f"{what} must hold two labels for {alone[0]}, which is one column"
            refuse(rule, several(labels), "Name a column per class, for example --score 'p_*'.")
        if roles.pos_label is not None and len(labels) > 2:
            rule = "--pos-label must be left out where the target has more than two labels"
            refuse(rule, several(labels), "The names of the score's columns say which class each speaks of.")
        if roles.pos_label is not None:
            return find_label(roles.pos_label, labels, "--pos-label")
        if alone and set(labels) not in ({0, 1}, {-1, 1}):
            rule = f"the label that {alone[0]} speaks of must be named"
            refuse(rule, f"the labels {several(labels)}", f"Pass --pos-label {shown(labels[-1])}, or the other one.")
        return None

    def _score(self, score: Score, target: pl.Series | None, pos_label: Any) -> Any:
        """Probabilities of one model: an array, or a frame with a column per class."""
        import polars as pl

        what, columns = f"score {shown(score.name)}", [self.columns[i] for i in score.columns]
        if len(columns) > 1:
            names = self.found.names.all
            classes = list(score.classes) if target is None else match_classes(score, self.labels, names)
            frame = pl.DataFrame(dict(zip(classes, columns, strict=True)))
            require_sums(frame, what, self.rows)
            return frame
        if target is not None and not self.reading.as_given:
            positive = self.labels[-1] if pos_label is None else pos_label
            other = next(label for label in self.labels if label != positive)
            require_order(columns[0], (target == positive).to_numpy(), what, str(other))
        return columns[0].to_numpy()

    def _score_like(self, columns: dict[int, pl.Series]) -> list[int]:
        """Which features that nobody named look like scores of the same target; a note names them."""
        found, names = self.found, self.found.names
        if not columns or found.roles.target is None:
            return []
        target, event = self.columns[names[found.roles.target]], None
        if len(self.labels) == 2:
            positive = find_label(found.roles.pos_label, self.labels, "") if found.roles.pos_label else self.labels[-1]
            event = (target == positive).to_numpy()
        single = {s.name: self.columns[s.columns[0]].to_numpy() for s in found.scores if len(s.columns) == 1}
        classes = [score.classes for score in found.scores if len(score.columns) > 1]
        alike = set(find_score_like({names.all[i]: series for i, series in columns.items()}, single, event, classes))
        if alike:
            which = several(name for name in names.all if name in alike)
            one = len(alike) == 1
            found.notes.append(
                f"{'Column' if one else 'Columns'} {which} {'is' if one else 'are'} left out of the features: "
                f"{'it looks like a score' if one else 'they look like scores'} of the same target. Name "
                f"{'it' if one else 'them'} in --features, beside --all-features, to keep {'it' if one else 'them'}."
            )
        return [i for i in columns if names.all[i] in alike]

    def _features(self) -> tuple[pl.DataFrame | None, list[int]]:
        """Features, and which columns they are."""
        import polars as pl

        named, kept, notes = set(self.found.roles.features or ()), dict[int, pl.Series](), self.found.notes
        for i in self.found.features:
            name = self.found.names.all[i]
            raw = self.frame.get_column(str(i))
            series, odd = to_feature(raw, name, decimal_comma=self.reading.decimal_comma)
            if name not in named and series.dtype == pl.String and 1 < series.len() == series.n_unique():
                notes.append(f"Column {shown(name)} is left out of the features: its texts all differ, as names do.")
                continue
            if odd is not None:
                first = f"{shown(raw[odd])} in {at(self.rows[odd])}"
                notes.append(
                    f"Feature {shown(name)} is read as text: some values are no finite numbers, first {first}."
                )
            kept[i] = series
        for i in self._score_like({i: series for i, series in kept.items() if self.found.names.all[i] not in named}):
            del kept[i]
        names = self.found.names.of(kept)
        return (pl.DataFrame(dict(zip(names, kept.values(), strict=True))) if kept else None), list(kept)


def _array(series: pl.Series | None) -> NDArray[Any] | None:
    import polars as pl

    if series is None:
        return None
    return to_array(series) if series.dtype == pl.String else series.to_numpy()


def _refuse_missing(what: str, missing: NDArray[np.bool_], written: str, role: str) -> None:
    label = " If it is a label, rename it." if written and role in {"target", "cluster"} else ""
    refuse(
        f"{what} must have no missing values",
        f"{int(missing.sum())} of {missing.size} missing, first in {at(np.argmax(missing))}{written}",
        f"Fill them in, or pass --drop-missing to leave these rows out.{label}",
    )
