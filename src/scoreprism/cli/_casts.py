"""Columns as numbers, labels, times or text: strictly, so that nothing becomes a number that is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from scoreprism._core.checks import refuse
from scoreprism.cli._words import at, count, shown

if TYPE_CHECKING:
    import polars as pl

#: How files spell "missing", in lower case.
MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "none", "-", ".", "?", "<na>", "nat")
MISSING_LABEL = "(missing)"


def as_strings(series: pl.Series, role: str) -> pl.Series:
    """A column as text: of a typed column, what a person would write."""
    import polars as pl

    if series.dtype == pl.String:
        return series
    if series.dtype.is_nested() or series.dtype in (pl.Binary, pl.Object):
        refuse(f"{role} must hold plain values", f"values of type {series.dtype}", "Split it into columns first.")
    return series.cast(pl.String)


def is_missing(strings: pl.Series) -> pl.Series:
    """Where text says that there is nothing."""
    import polars as pl

    blank = strings.str.strip_chars().str.to_lowercase()
    return (blank.is_in(pl.Series(list(MISSING))) | blank.is_null()).fill_null(value=True)


def to_numbers(series: pl.Series, role: str, *, decimal_comma: bool = False) -> pl.Series:
    """A column as finite numbers."""
    import polars as pl

    if series.dtype.is_numeric():
        numbers = series.cast(pl.Float64)
        numbers = numbers.set(numbers.is_nan().fill_null(value=False), None)
        _require_finite(numbers, role)
        return numbers
    if series.dtype == pl.Null:
        return series.cast(pl.Float64)
    if series.dtype not in (pl.String, pl.Categorical, pl.Enum):
        refuse(f"{role} must hold numbers", f"values of type {series.dtype}", "Convert the column first.")
    strings = as_strings(series, role)
    numbers, bad = parsed(strings, decimal_comma=decimal_comma)
    if bad.any():
        _refuse_text(strings, bad, role, decimal_comma)
    return numbers


def parsed(strings: pl.Series, *, decimal_comma: bool) -> tuple[pl.Series, pl.Series]:
    """Numbers, null where text is missing or bad; and where it is bad."""
    import polars as pl

    numbers = _cast(strings, decimal_comma)
    odd = ~numbers.is_finite().fill_null(value=False)
    if not odd.any():
        return numbers, odd
    rest = strings.filter(odd)
    again = _cast(rest.str.strip_chars(), decimal_comma)
    fine = again.is_finite().fill_null(value=False)
    bad = ~fine & ~is_missing(rest)
    places = odd.arg_true()
    again = pl.select(pl.when(fine).then(again).otherwise(None)).to_series()
    return numbers.scatter(places, again), odd.scatter(places, bad)


def _cast(strings: pl.Series, decimal_comma: bool) -> pl.Series:
    import polars as pl

    if decimal_comma:  # a point is then a thousands separator, or a mistake: no guess
        clean = strings.str.replace(",", ".", literal=True)
        strings = pl.select(pl.when(strings.str.contains(".", literal=True)).then(None).otherwise(clean)).to_series()
    return strings.cast(pl.Float64, strict=False)


def _refuse_text(strings: pl.Series, bad: pl.Series, role: str, decimal_comma: bool) -> NoReturn:
    places = bad.arg_true()
    value = str(strings[int(places[0])])
    where = f"{shown(value)} in {at(places[0])} ({count(len(places), 'such value')})"
    refuse(f"{role} must hold numbers", where, _hint(value.strip(), decimal_comma))


def _hint(value: str, decimal_comma: bool) -> str:
    if value.endswith("%"):
        return "Take the percent signs off, and divide by 100."
    if value.isascii() and value.lower().lstrip("+-") in {"inf", "infinity"}:
        return "Infinite numbers cannot be used: correct or drop these rows."
    if decimal_comma and "." in value:
        return "With --decimal-comma no value may hold a point."
    if "," in value and not decimal_comma:
        return "If this is a decimal comma, pass --decimal-comma."
    return f"Correct these values, or leave them empty and pass --drop-missing (missing: {', '.join(MISSING[1:8])})."


def _require_finite(numbers: pl.Series, role: str) -> None:
    places = numbers.is_infinite().fill_null(value=False).arg_true()
    if len(places):
        refuse(
            f"{role} must hold finite numbers",
            f"{numbers[int(places[0])]} in {at(places[0])} ({count(len(places), 'such value')})",
            "Correct or drop these rows.",
        )


def require_probabilities(numbers: pl.Series, role: str) -> None:
    """Refuse what is outside [0, 1]; percentages and log-odds are not guessed."""
    low, high = _number(numbers.min()), _number(numbers.max())
    if low >= 0.0 and high <= 1.0:
        return
    places = ((numbers < 0.0) | (numbers > 1.0)).fill_null(value=False).arg_true()
    if low >= -1e-6 and high <= 1.0 + 1e-6:
        remedy = "If this is rounding, cut the values off at 0 and 1 first."
    elif low < 0.0:
        remedy = "If these are logits (log-odds), apply 1/(1+exp(-x)) first."
    elif high <= 100.0:
        remedy = "If these are percentages, divide them by 100 first."
    else:
        remedy = "A score must be a probability: recalibrate it first if it is a number of points."
    refuse(
        f"{role} must hold probabilities between 0 and 1",
        f"{numbers[int(places[0])]!r} in {at(places[0])} ({len(places)} of {len(numbers)} values outside)",
        remedy,
    )


def require_nonnegative(numbers: pl.Series, role: str) -> None:
    """Refuse weights that are negative, or all zero."""
    places = (numbers < 0.0).fill_null(value=False).arg_true()
    if len(places):
        where = f"{numbers[int(places[0])]!r} in {at(places[0])} ({count(len(places), 'such value')})"
        refuse(f"{role} must hold weights of at least 0", where, "Use 0 to leave a row out.")
    if not (numbers > 0.0).any():
        refuse(f"{role} must have a weight above 0", f"{len(numbers)} zeros", "Leave --weight out for equal weights.")


def _number(value: Any) -> float:
    return 0.0 if value is None else float(value)


def to_feature(series: pl.Series, name: str, *, decimal_comma: bool) -> tuple[pl.Series, int | None]:
    """A feature: numbers if every value that is there is one, else text."""
    import polars as pl

    if series.dtype == pl.Boolean or series.dtype.is_numeric() or series.dtype == pl.Null:
        return series.cast(pl.Float64).fill_nan(None), None
    if series.dtype.is_temporal():
        return series, None
    strings = as_strings(series, f"feature {shown(name)}")
    numbers, bad = parsed(strings, decimal_comma=decimal_comma)
    if not bad.any():
        return numbers, None
    mixed = numbers.null_count() < len(numbers)
    text = pl.select(pl.when(is_missing(strings)).then(None).otherwise(strings.str.strip_chars())).to_series()
    return text, int(bad.arg_true()[0]) if mixed else None
