"""How numbers and lists are written, by one rule everywhere; and text from somebody's file made harmless to look at."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

#: Controls and broken letters; marks that turn the direction of what follows, hide in it, or end a line; tags.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)
#: Names of the months, whatever the language of the machine.
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
#: Dates, months and times as they are stored: ISO 8601.
_DATE, _MONTH = re.compile(r"\d{4}-\d{2}-\d{2}"), re.compile(r"(\d{4})-(0[1-9]|1[0-2])")
#: Evidence is written as a power of ten from here on.
_MUCH = 5.0
#: Numbers nearer to 0 than the first, or from the second on, are written with a power of ten.
_TINY, _HUGE = 1e-4, 1e7


# ── names ───────────────────────────────────────────────────────────────────────────────────────────

#: What a model is called that came without a name, as a key and in tables.
UNNAMED = "model"


def call_model(name: str) -> str:
    """The name of a model as sentences and titles use it."""
    return "the model" if name == UNNAMED else name


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────


def write_amount(value: float, digits: int = 3) -> str:
    """A number in a sentence: so many significant digits, a power of ten where it is tiny or huge."""
    if value != value:
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0.0:
        return "0"
    if not _TINY <= abs(value) < _HUGE:
        mantissa, _, power = f"{value:.{min(digits, 2) - 1}e}".partition("e")
        return f"{mantissa}e{int(power)}".replace("-", "−")
    rounded = float(f"{value:.{digits}g}")  # 0.0999 with two digits is 0.10
    return write_fixed(value, max(digits - 1 - math.floor(math.log10(abs(rounded))), 0))


def write_fixed(value: float, decimals: int, sign: str = "") -> str:
    """A number with so many decimals and a proper minus sign; one that rounds to 0 has none."""
    return f"{round(value, decimals) + 0.0:{sign},.{decimals}f}".replace("-", "−")


def write_share(share: float) -> str:
    """A share in per cent: two digits; what is nearly nothing, or nearly all, is not called 0 or 100 %."""
    percent = 100.0 * share
    if 0.0 < abs(percent) < 0.01:
        return "less than 0.01 %"
    if 99.0 <= abs(percent) < 100.0:
        return f"{write_fixed(math.copysign(min(abs(percent), 99.9), percent), 1)} %"  # not all of it
    if abs(percent) >= 100.0:
        return f"{write_fixed(percent, 0)} %"
    return f"{write_amount(percent, 2)} %"


def write_count(count: float) -> str:
    """A number of rows, in groups of three digits."""
    return f"{count:,.0f}"


def write_whole(number: float) -> str:
    """A whole number that is a name rather than a count: a stage, a year."""
    return f"{number:.0f}".replace("-", "−")


def write_pvalue(value: float) -> str:
    """A p-value in a sentence."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def write_percent(confidence_level: float) -> str:
    """A confidence level."""
    return f"{100 * confidence_level:g} %"


def write_evidence(log10: float) -> str:
    """Evidence E, from its decimal logarithm: two digits at least, a power of ten where it is huge."""
    if log10 >= _MUCH:
        return f"10{str(int(log10)).translate(_RAISED)}"
    if log10 < -3.0:
        return "less than 0.001"
    if log10 > 2.0:
        return write_count(10.0**log10)
    return write_amount(10.0**log10, 2)


#: Digits of exponents.
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


# ── periods ─────────────────────────────────────────────────────────────────────────────────────────


def read_date(period: str | int) -> datetime | None:
    """The time that a period begins, where its name is a date, a month or a time."""
    text = str(period)
    if isinstance(period, int):
        return None
    if _MONTH.fullmatch(text):
        text = f"{text}-01"
    if not _DATE.match(text):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=None)


def write_period(period: str | int, *, year: bool = True) -> str:
    """A period in a sentence: a date in words, "period 17", or its name."""
    found = read_date(period)
    if found is None:
        return f"period {period}" if isinstance(period, int) else str(period)
    end = f" {found.year}" if year else ""
    if _MONTH.fullmatch(str(period)):
        return f"{MONTHS[found.month - 1]}{end}"
    clock = f", {found:%H:%M}" if found.time() != found.min.time() else ""
    return f"{found.day} {MONTHS[found.month - 1]}{end}{clock}"


def write_span(first: str | int, last: str | int, joint: str = "to", beside: str | int | None = None) -> str:
    """Two periods with a word between; a month or a year they share is written once, not if it is that of `beside`."""
    one, other = read_date(first), read_date(last)
    if one is None or other is None:
        if isinstance(first, int) and isinstance(last, int):
            return f"periods {first} {joint} {last}"
        return f"{write_period(first)} {joint} {write_period(last)}"
    known = None if beside is None else read_date(beside)
    is_day = _DATE.fullmatch(str(first)) and _DATE.fullmatch(str(last))
    end = write_period(last, year=known is None or (one.year, other.year) != (known.year, known.year))
    if is_day and (one.year, one.month) == (other.year, other.month):
        return f"{one.day} {joint} {end}"
    return f"{write_period(first, year=one.year != other.year)} {joint} {end}"


def name_unit(periods: Sequence[str | int]) -> str:
    """What the periods are: days, weeks, months, or just periods."""
    found = [read_date(one) for one in periods]
    dates = [one for one in found if one is not None]
    if len(dates) < len(found) or not dates:
        return "period"
    if all(_MONTH.fullmatch(str(one)) for one in periods):
        return "month"
    if any(one.time() != one.min.time() for one in dates):
        return "period"
    gaps = sorted((b - a).days for a, b in pairwise(dates))
    usual = gaps[len(gaps) // 2] if gaps else 1
    return {1: "day", 7: "week"}.get(usual, "month" if 28 <= usual <= 31 else "period")


# ── words ───────────────────────────────────────────────────────────────────────────────────────────


def plural(count: int, word: str) -> str:
    """A count and what is counted."""
    return f"{write_count(count)} {word}{'' if count == 1 else 's'}"


def enumerate_words(words: Sequence[str], most: int = 4, joint: str = "and") -> str:
    """Words in a sentence; of many the first, and how many more there are."""
    if len(words) > most:
        return f"{', '.join(words[:most])} {joint} {len(words) - most} more"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {joint} {words[-1]}"


def visible(text: str) -> str:
    """A text in which every character can be seen: control and direction marks are written out."""
    spaced = text.replace("\r\n", "\n").replace("\r", " ").replace("\t", " ")
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), spaced)


def one_line(text: str) -> str:
    """A text without line breaks, in which every character can be seen."""
    return " ".join(line.strip() for line in visible(text).split("\n"))


def encodable(text: str) -> str:
    """A text that UTF-8 can hold: halves of letters, which a broken file may leave, are written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
