"""Outcomes, groups and times: what their values say, exactly as they stand in the file."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import refuse
from scoreprism.cli._casts import MISSING_LABEL, as_strings, is_missing
from scoreprism.cli._words import at, count, several, shown

if TYPE_CHECKING:
    import polars as pl

#: More classes than this are taken for a mistake.
MOST_CLASSES = 100
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})(\.0*)?")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")
_QUARTER = re.compile(r"[0-9]{4}-?[Qq][1-4]")
_LONGEST = 64
_USUAL = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f")


def clean_text(series: pl.Series, role: str, known: Collection[str] = ()) -> pl.Series:
    """Text without blanks around it; null where it is missing, which `known` words are not."""
    import polars as pl

    strings = as_strings(series, role).str.strip_chars()
    distinct = strings.unique()
    absent = distinct.filter(is_missing(distinct) & ~distinct.is_in(list(known)).fill_null(value=False))
    if not absent.drop_nulls().len():  # a look at the distinct values spares one at every row
        return strings
    return pl.select(pl.when(strings.is_in(absent.drop_nulls().to_list())).then(None).otherwise(strings)).to_series()


def to_array(strings: pl.Series) -> NDArray[Any]:
    """Text as an array; long labels are kept as objects, which do not make every row as long as the longest."""
    import polars as pl

    distinct = strings.unique()
    table = np.array(distinct.to_list(), dtype=object)
    if max((len(text) for text in table), default=0) <= _LONGEST:
        table = table.astype(str)
    codes = strings.replace_strict(distinct, pl.Series(range(len(distinct))), return_dtype=pl.UInt32)
    return np.asarray(table[codes.to_numpy()])


def to_outcomes(series: pl.Series, role: str, known: Collection[str] = ()) -> tuple[pl.Series, list[Any]]:
    """Outcomes and their labels: integers, booleans or strings."""
    import polars as pl

    if series.dtype == pl.Boolean or series.dtype.is_integer():
        labels = series.drop_nulls().unique().sort().to_list()
        _require_few(labels, role)
        return series, labels
    if series.dtype.is_float() or series.dtype.is_decimal():
        series = series.cast(pl.Float64)
        series = series.set(series.is_nan().fill_null(value=False), None)
    elif series.dtype.is_temporal():
        refuse(f"{role} must hold labels", f"values of type {series.dtype}", "Name the column of the outcomes.")
    strings = clean_text(series, role, known if series.dtype == pl.String else ())
    distinct = strings.drop_nulls().unique().sort().to_list()
    if not distinct:
        _refuse_empty(as_strings(series, role), role)
    labels = _labels(distinct, role)
    _require_few(labels, role)
    meaning = dict(zip(distinct, labels, strict=True))
    kind = pl.Boolean() if isinstance(labels[0], bool) else pl.Int64() if isinstance(labels[0], int) else pl.String()
    if kind == pl.String():
        return strings, labels
    return strings.replace_strict(meaning, default=None, return_dtype=kind), sorted(set(labels))


def _refuse_empty(strings: pl.Series, role: str) -> NoReturn:
    words = [text for text in strings.drop_nulls().unique().sort().to_list() if text.strip()]
    written = f", written {several(words, 5)}" if words else ""
    remedy = "Name the column of the outcomes." + (" If these are labels, rename them." if words else "")
    refuse(f"{role} must hold labels", f"only missing values{written}", remedy)


def _labels(distinct: Sequence[str], role: str) -> list[Any]:
    """What each distinct text says."""
    folded = [text.casefold() for text in distinct]
    if all(text in {"true", "false"} for text in folded):
        return [text == "true" for text in folded]
    if all(_WHOLE.fullmatch(text) for text in distinct):
        return [int(text.partition(".")[0] or 0) for text in distinct]
    if all(_DECIMAL.fullmatch(text) for text in distinct) and not all(text.isdigit() for text in distinct):
        _refuse_decimals(distinct, role)
    return list(distinct)


def _refuse_decimals(distinct: Sequence[str], role: str) -> NoReturn:
    first = next(text for text in distinct if not _WHOLE.fullmatch(text))
    inside = all(0.0 <= float(text) <= 1.0 for text in distinct)
    remedy = "Is this a column of scores? Name that of the outcomes; soft labels must be made 0 or 1 first."
    if not inside:
        remedy = "Name the column of the outcomes: classes, not amounts."
    rule = f"{role} must hold labels of classes"
    refuse(rule, f"{shown(first)} among {count(len(distinct), 'distinct number')}", remedy)


def _require_few(labels: Sequence[Any], role: str) -> None:
    if not labels:
        refuse(f"{role} must hold labels", "only missing values", "Name the column of the outcomes.")
    if len(labels) > MOST_CLASSES:
        rule = f"{role} must hold at most {MOST_CLASSES} classes"
        got = f"{len(labels)} distinct values: {several(labels, 5)}"
        refuse(rule, got, "Name the column of the outcomes, or join rare classes.")


def find_label(given: str, labels: Sequence[Any], role: str) -> Any:
    """The label that a word on the command line means."""
    found = match_label(given, labels)
    if found is None:
        refuse(f"{role} must be one of the labels of the target", shown(given), f"The labels are {several(labels)}.")
    return found


def match_label(text: str, labels: Sequence[Any]) -> Any:
    """The label that a text means: the very text, else the same number or truth value; None if there is none."""
    for label in labels:
        if text == str(label) or (isinstance(label, bool) and text.casefold() == str(label).casefold()):
            return label
    if all(not isinstance(label, str) for label in labels) and _WHOLE.fullmatch(text.strip()):
        wanted = int(text.strip().partition(".")[0])
        return next((label for label in labels if label == wanted), None)
    return None


def to_groups(series: pl.Series, role: str) -> NDArray[Any]:
    """Labels of groups as text."""
    return to_array(clean_text(series, role).fill_null(MISSING_LABEL))


def to_times(series: pl.Series, role: str, form: str | None) -> pl.Series:
    """Times: dates, or integers and quarters that are in order as they are."""
    import polars as pl

    if series.dtype.is_integer() and form is None:
        return series.cast(pl.Int64)
    if series.dtype == pl.Date:
        return series.cast(pl.Datetime("us"))
    if isinstance(series.dtype, pl.Datetime):
        zone = series.dtype.time_zone
        return (series.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if zone else series).cast(
            pl.Datetime("us")
        )
    if series.dtype.is_float() or series.dtype.is_temporal():
        refuse(f"{role} must hold dates or whole numbers", f"values of type {series.dtype}", "Convert it first.")
    strings = clean_text(series, role)
    for usual in _USUAL if form is None else ():  # spares a Python object for each time
        times = strings.str.to_datetime(usual, strict=False, time_unit="us")
        if times.null_count() == strings.null_count():
            return times
    distinct = strings.drop_nulls().unique(maintain_order=True)  # the first bad one is named
    texts = distinct.to_list()
    if form is None and all(_INTEGER.fullmatch(text) for text in texts):
        return strings.cast(pl.Int64)
    if form is None and all(_QUARTER.fullmatch(text) for text in texts):
        return strings.str.replace("-", "", literal=True).str.to_uppercase()
    found = pl.Series(_read_times(texts, strings, role, form), dtype=pl.Datetime("us"))
    return strings.replace_strict(distinct, found, default=None, return_dtype=pl.Datetime("us"))


def _read_times(texts: list[str], strings: pl.Series, role: str, form: str | None) -> list[datetime]:
    times, zoned = [], 0
    for text in texts:
        try:
            time = datetime.strptime(text, form) if form is not None else _iso(text)  # noqa: DTZ007 - zones are kept
        except (ValueError, OverflowError, re.error):
            _refuse_time(text, strings, role, form)
        zoned += time.tzinfo is not None
        times.append(time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo is not None else time)
    if 0 < zoned < len(times):
        refuse(f"{role} must have a time zone everywhere or nowhere", f"{zoned} of {len(times)} with one", "Add it.")
    return times


def _iso(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}-01" if _MONTH.fullmatch(text) else text)


def _refuse_time(text: str, strings: pl.Series, role: str, form: str | None) -> NoReturn:
    places = (strings == text).arg_true()
    got = f"{shown(text)} in {at(places[0])}"
    if form is not None:
        refuse(f"{role} must hold times written as {shown(form)}", got, "Correct the values or --time-format.")
    remedy = "Pass --time-format, for example '%d/%m/%Y' for 03/04/2024 on the third of April."
    refuse(f"{role} must hold ISO dates (2024-04-03) or whole numbers", got, remedy)
