"""Strict conversion of columns to numbers, labels, times or text."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scoreprism._core.checks import quote, refuse
from scoreprism._findings.wording import plural
from scoreprism.cli._words import list_names, name_row

#: Spellings of "missing" in files, in lower case.
MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "none", "-", ".", "?", "<na>", "nat")
#: The segment of rows that have none.
_MISSING_LABEL = "(missing)"
#: More classes than this are taken for a mistake.
_MOST_CLASSES = 100
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})(\.0*)?")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")
_QUARTER = re.compile(r"[0-9]{4}-?[Qq][1-4]")
#: Longest label in an array of text: numpy gives every row the length of the longest.
_LONGEST = 64
_NAME_TARGET = "Name the column of the outcomes."
_USUAL_TIMES = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f")


# ── text ────────────────────────────────────────────────────────────────────────────────────────────


def _to_strings(series: pl.Series, role: str) -> pl.Series:
    """Convert a column of any type to text without surrounding blanks."""
    if series.dtype.is_nested() or series.dtype in (pl.Binary, pl.Object):
        refuse(f"{role} must hold plain values", f"values of type {series.dtype}", "Split it into columns first.")
    return series.cast(pl.String).str.strip_chars()


def _is_missing(strings: pl.Series) -> pl.Series:
    """Whether each text is a spelling of "missing", or null."""
    return strings.str.to_lowercase().is_in(list(MISSING)).fill_null(value=True)


def to_text(series: pl.Series, role: str, known: Collection[str] = ()) -> pl.Series:
    """A column as text; null where it is missing, which `known` words are not."""
    strings = _to_strings(series, role)
    distinct = strings.unique().drop_nulls()  # usually far fewer than rows
    absent = [text for text in distinct.filter(_is_missing(distinct)).to_list() if text not in known]
    return strings.set(strings.is_in(absent).fill_null(value=False), None) if absent else strings


def to_array(series: pl.Series) -> NDArray[Any]:
    """A column without missing values as an array."""
    if series.dtype != pl.String:
        return series.to_numpy()
    distinct = series.unique()
    table = np.array(distinct.to_list(), dtype=object)
    if max((len(text) for text in table), default=0) <= _LONGEST:
        table = table.astype(str)
    codes = series.replace_strict(distinct, pl.Series(range(len(distinct))), return_dtype=pl.UInt32)
    return np.asarray(table[codes.to_numpy()])


def to_segments(series: pl.Series, role: str) -> NDArray[Any]:
    """Labels of segments as text; rows without one are a segment too."""
    return to_array(to_text(series, role).fill_null(_MISSING_LABEL))


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────


def _refuse_values(rule: str, values: pl.Series, places: Sequence[int], remedy: str) -> NoReturn:
    """Refuse a column by the first value that does not fit, and how many there are."""
    value = values[int(places[0])]
    shown = quote(value) if isinstance(value, str) else repr(value)
    refuse(rule, f"{shown} in {name_row(places[0])} ({plural(len(places), 'such value')})", remedy)


def to_numbers(series: pl.Series, role: str, *, decimal_comma: bool, minus_infinity: bool = False) -> pl.Series:
    """A column as finite numbers, or −∞ where that may be; null where a value is missing."""
    if series.dtype.is_numeric() or series.dtype == pl.Null:
        numbers = series.cast(pl.Float64).fill_nan(None)
        infinite = (~_may_stand(numbers, minus_infinity)).arg_true().to_list()
        if infinite:
            _refuse_values(f"{role} must hold finite numbers", numbers, infinite, "Correct or drop these rows.")
        return numbers
    if series.dtype not in (pl.String, pl.Categorical, pl.Enum):
        refuse(f"{role} must hold numbers", f"values of type {series.dtype}", "Convert the column first.")
    numbers, bad = _parse_numbers(_to_strings(series, role), decimal_comma, minus_infinity=minus_infinity)
    if bad:
        _refuse_values(
            f"{role} must hold numbers", series, bad, _suggest_remedy(str(series[bad[0]]).strip(), decimal_comma)
        )
    return numbers


def _may_stand(numbers: pl.Series, minus_infinity: bool) -> pl.Series:
    """Which numbers are finite, missing, or −∞ where that may be."""
    fits = numbers.is_finite() | (numbers == -math.inf) if minus_infinity else numbers.is_finite()
    return fits.fill_null(value=True)


def _parse_numbers(strings: pl.Series, decimal_comma: bool, *, minus_infinity: bool) -> tuple[pl.Series, list[int]]:
    """Numbers, null where text is missing or invalid; and the rows where it is invalid."""
    written = strings
    if decimal_comma:  # a point is then a thousands separator, or a mistake: no guess
        points = strings.str.contains(".", literal=True).fill_null(value=False)
        written = strings.str.replace(",", ".", literal=True).set(points, None)
    numbers = written.cast(pl.Float64, strict=False)
    odd = numbers.is_null() | ~_may_stand(numbers, minus_infinity)
    bad = odd.arg_true().filter(~_is_missing(strings.filter(odd)))
    return numbers.set(odd, None), bad.to_list()


def _suggest_remedy(value: str, decimal_comma: bool) -> str:
    if value.endswith("%"):
        return "Remove the percent signs and divide by 100."
    if value.isascii() and value.lower().lstrip("+-") in {"inf", "infinity"}:
        return "Infinite numbers cannot be used: correct or drop these rows."
    if decimal_comma and "." in value:
        return "With --decimal-comma no value may contain a point."
    if "," in value and not decimal_comma:
        return "If this is a decimal comma, pass --decimal-comma."
    return f"Correct these values, or leave them empty and pass --drop-missing (missing: {', '.join(MISSING[1:8])})."


def to_probabilities(series: pl.Series, role: str, *, decimal_comma: bool) -> pl.Series:
    """A column as numbers in [0, 1]; percentages and log-odds are refused, not converted."""
    numbers = to_numbers(series, role, decimal_comma=decimal_comma)
    outside = ((numbers < 0.0) | (numbers > 1.0)).arg_true().to_list()
    if outside:
        low, high = float(numbers.min()), float(numbers.max())  # type: ignore[arg-type]
        remedy = "A score must be a probability: if these are points, recalibrate them first."
        if low >= -1e-6 and high <= 1.0 + 1e-6:
            remedy = "If this is rounding, clip the values to [0, 1] first."
        elif low < 0.0:
            remedy = (
                "If these are logits, turn them into probabilities; diagnose, report, compare and test take them with "
                "--logits."
            )
        elif high <= 100.0:
            remedy = "If these are percentages, divide them by 100 first."
        got = f"{numbers[outside[0]]!r} in {name_row(outside[0])} ({len(outside)} of {len(numbers)} values outside)"
        refuse(f"{role} must hold probabilities between 0 and 1", got, remedy)
    return numbers


def to_logits(series: pl.Series, role: str, *, decimal_comma: bool) -> pl.Series:
    """A column of logits, which may be −∞."""
    return to_numbers(series, role, decimal_comma=decimal_comma, minus_infinity=True)


def to_weights(series: pl.Series, role: str, *, decimal_comma: bool) -> pl.Series:
    """A column as weights, none of which is negative, and not all zero."""
    numbers = to_numbers(series, role, decimal_comma=decimal_comma)
    negative = (numbers < 0.0).arg_true().to_list()
    if negative:
        _refuse_values(f"{role} must hold weights of at least 0", numbers, negative, "Use 0 to leave a row out.")
    if not (numbers > 0.0).any():
        refuse(f"{role} must have a weight above 0", f"{len(numbers)} zeros", "Leave --weight out for equal weights.")
    return numbers


def to_feature(series: pl.Series, role: str, *, decimal_comma: bool) -> tuple[pl.Series, int | None]:
    """Numbers if every value present is one, otherwise text; and the first row that is not a number, if others are."""
    if series.dtype == pl.Boolean or series.dtype.is_numeric() or series.dtype == pl.Null:
        return series.cast(pl.Float64).fill_nan(None), None
    if series.dtype.is_temporal():
        return series, None
    strings = _to_strings(series, role)
    numbers, bad = _parse_numbers(strings, decimal_comma, minus_infinity=False)
    if not bad:
        return numbers, None
    return strings.set(_is_missing(strings), None), bad[0] if numbers.null_count() < len(numbers) else None


# ── outcomes ────────────────────────────────────────────────────────────────────────────────────────


def to_outcomes(series: pl.Series, role: str, known: Collection[str]) -> pl.Series:
    """Outcomes: integers, booleans or strings; null where one is missing, which `known` words are not."""
    if series.dtype.is_temporal():
        refuse(f"{role} must hold labels", f"values of type {series.dtype}", _NAME_TARGET)
    if series.dtype == pl.Boolean or series.dtype.is_integer():
        _require_few(series.drop_nulls().unique().sort().to_list(), role)
        return series
    if series.dtype.is_float() or series.dtype.is_decimal():
        series = series.cast(pl.Float64).fill_nan(None)
    strings = to_text(series, role, known if series.dtype == pl.String else ())
    distinct = strings.drop_nulls().unique().sort().to_list()
    if not distinct:
        words = [text for text in _to_strings(series, role).drop_nulls().unique().sort().to_list() if text]
        written = f", written {list_names(words, 5)}" if words else ""
        remedy = _NAME_TARGET + (" If these are labels, rename them." if words else "")
        refuse(f"{role} must hold labels", f"only missing values{written}", remedy)
    labels = _parse_labels(distinct, role)
    _require_few(labels, role)
    if isinstance(labels[0], str):
        return strings
    kind = pl.Boolean() if isinstance(labels[0], bool) else pl.Int64()
    meaning = dict(zip(distinct, labels, strict=True))
    return strings.replace_strict(meaning, default=None, return_dtype=kind)


def _parse_labels(distinct: Sequence[str], role: str) -> list[Any]:
    """Parse the distinct labels: all booleans, all integers, or all text."""
    folded = [text.casefold() for text in distinct]
    if all(text in {"true", "false"} for text in folded):
        return [text == "true" for text in folded]
    if all(_WHOLE.fullmatch(text) for text in distinct):
        return [int(text.partition(".")[0] or 0) for text in distinct]
    if all(_DECIMAL.fullmatch(text) for text in distinct) and not all(text.isdigit() for text in distinct):
        first = next(text for text in distinct if not _WHOLE.fullmatch(text))
        remedy = "Name the column of the outcomes: classes, not amounts."
        if all(0.0 <= float(text) <= 1.0 for text in distinct):
            remedy = "Are these scores? Name the column of the outcomes; soft labels must be rounded to 0 or 1 first."
        got = f"{quote(first)} among {plural(len(distinct), 'distinct number')}"
        refuse(f"{role} must hold class labels", got, remedy)
    return list(distinct)


def _require_few(labels: Sequence[Any], role: str) -> None:
    if not labels:
        refuse(f"{role} must hold labels", "only missing values", _NAME_TARGET)
    if len(labels) > _MOST_CLASSES:
        rule, got = f"{role} must hold at most {_MOST_CLASSES} classes", f"{len(labels)} distinct values"
        refuse(rule, f"{got}: {list_names(labels, 5)}", "Name the column of the outcomes, or merge rare classes.")


def is_integer(text: str) -> bool:
    """Whether a text is a whole number."""
    return _INTEGER.fullmatch(text) is not None


def match_label(text: str, labels: Sequence[Any]) -> Any:
    """Find the label that a text means: the same text, or the same number or boolean; None if there is none."""
    for label in labels:
        if text == str(label) or (isinstance(label, bool) and text.casefold() == str(label).casefold()):
            return label
    if all(not isinstance(label, str) for label in labels) and _WHOLE.fullmatch(text.strip()):
        wanted = int(text.strip().partition(".")[0])
        return next((label for label in labels if label == wanted), None)
    return None


# ── times ───────────────────────────────────────────────────────────────────────────────────────────


def to_times(series: pl.Series, role: str, form: str | None) -> pl.Series:
    """Dates and times; integers and quarters stay as they are, because they sort correctly."""
    if series.dtype.is_integer() and form is None:
        return series.cast(pl.Int64)
    if series.dtype in (pl.Date, pl.Datetime):
        is_zoned = isinstance(series.dtype, pl.Datetime) and series.dtype.time_zone is not None
        utc = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if is_zoned else series
        return utc.cast(pl.Datetime("us"))
    if series.dtype.is_float() or series.dtype.is_temporal():
        refuse(f"{role} must hold dates or whole numbers", f"values of type {series.dtype}", "Convert it first.")
    strings = to_text(series, role)
    for usual in _USUAL_TIMES if form is None else ():  # avoids a Python object for each time
        times = strings.str.to_datetime(usual, strict=False, time_unit="us")
        if times.null_count() == strings.null_count():
            return times
    distinct = strings.drop_nulls().unique(maintain_order=True)  # the first bad one is named
    texts = distinct.to_list()
    if form is None and all(map(is_integer, texts)):
        return strings.cast(pl.Int64)
    if form is None and all(_QUARTER.fullmatch(text) for text in texts):
        return strings.str.replace("-", "", literal=True).str.to_uppercase()
    times = pl.Series(_parse_times(texts, strings, role, form), dtype=pl.Datetime("us"))
    return strings.replace_strict(distinct, times, default=None, return_dtype=pl.Datetime("us"))


def _parse_times(texts: list[str], strings: pl.Series, role: str, form: str | None) -> list[datetime]:
    times: list[datetime] = []
    for text in texts:
        try:
            if form is not None:
                times.append(datetime.strptime(text, form))  # noqa: DTZ007 - zones are kept
            else:
                times.append(datetime.fromisoformat(f"{text}-01" if _MONTH.fullmatch(text) else text))
        except (ValueError, OverflowError, re.error):
            _refuse_time(text, strings, role, form)
    zoned = [time for time in times if time.tzinfo is not None]
    if 0 < len(zoned) < len(times):
        got = f"{len(zoned)} of {len(times)} with one"
        refuse(f"{role} must have a time zone everywhere or nowhere", got, "Add the missing ones.")
    return [time.astimezone(UTC).replace(tzinfo=None) for time in times] if zoned else times


def _refuse_time(text: str, strings: pl.Series, role: str, form: str | None) -> NoReturn:
    got = f"{quote(text)} in {name_row((strings == text).arg_true()[0])}"
    if form is not None:
        refuse(f"{role} must hold times in the format {quote(form)}", got, "Correct the values or --time-format.")
    remedy = "Pass --time-format, for example '%d/%m/%Y' if 03/04/2024 is the third of April."
    refuse(f"{role} must hold ISO dates (2024-04-03) or whole numbers", got, remedy)
