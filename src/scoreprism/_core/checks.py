"""Checks of single values: refusals, choices, numbers, counts, seeds."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

import numpy as np

from scoreprism._spelling import Marked, mark
from scoreprism.exceptions import InputError


def refuse(rule: str, got: str, remedy: Marked, kind: type[InputError] = InputError) -> NoReturn:
    """Raise with the three parts every message has; rule and remedy name arguments in backticks."""
    raise kind(rule, got, remedy)


def listed(values: Iterable[object], most: int = 5) -> str:
    """A short list for a message: ``1, 2, 3, …``."""
    items = [str(v) for v in values]
    return ", ".join(items[:most]) + (", …" if len(items) > most else "")


def plain(value: object) -> str:
    """A number or label as a person would write it: no ``np.float64(…)``."""
    if isinstance(value, np.generic):
        value = value.item()
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _fold(word: str) -> str:
    return word.strip().lower().replace("_", "-").replace(" ", "-")


def parse_choice(value: object, options: Iterable[str], name: str) -> str:
    """One of a closed vocabulary; case does not matter, and underscores, spaces and hyphens are the same."""
    known = list(options)
    if isinstance(value, str):
        if value in known:
            return value
        plainly = {_fold(option): option for option in known}
        if _fold(value) in plainly:
            return plainly[_fold(value)]
        near = difflib.get_close_matches(value, known, n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]!r}?" if near else "Choose one of these."
    else:
        hint = "Pass its name."
    refuse(f"{mark(name)} must be one of {', '.join(known)}", repr(value), hint)


def parse_number(value: object, name: str, rule: str, holds: Callable[[float], bool]) -> float:
    """A real number that satisfies `holds`; `rule` says what that is."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        refuse(f"{mark(name)} must be {rule}", repr(value), "Pass a number.")
    number = float(value)
    if not math.isfinite(number) or not holds(number):
        refuse(f"{mark(name)} must be {rule}", plain(number), "Pass a number in that range.")
    return number


def parse_confidence(value: object) -> float:
    """A confidence level in (0, 1)."""
    return parse_number(value, "level", "a confidence level between 0 and 1", lambda v: 0.0 < v < 1.0)


def parse_clip(value: object, k: int) -> float | None:
    """A clipping distance in (0, 1/K], or None."""
    if value is None:
        return None
    return parse_number(value, "clip", f"a distance from 0, above 0 and at most 1/{k}", lambda v: 0.0 < v <= 1.0 / k)


def outside() -> int:
    """How many frames up the user's own code is: a warning should point there."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "scoreprism":
        level, frame = level + 1, frame.f_back
    return level


def require_rows(n: int, expected: int, name: str, other: str) -> None:
    """Two arguments must speak of the same rows."""
    if n != expected:
        refuse(
            f"{mark(name)} and {mark(other)} must have the same number of rows",
            f"{n} and {expected}",
            "Pass one entry per row in both.",
        )


def parse_random_state(value: object) -> np.random.Generator:
    """A generator from a seed, a generator or None."""
    try:
        return np.random.default_rng(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        refuse("`random_state` must be a nonnegative integer, a numpy Generator or None", repr(value), "For example 0.")


def parse_count(value: object, name: str, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < least:
        refuse(f"{mark(name)} must be a whole number of at least {least}", repr(value), "Pass an integer.")
    return int(value)


def parse_flag(value: object, name: str) -> bool:
    """True or False; a number that could be meant so is refused."""
    if not isinstance(value, (bool, np.bool_)):
        refuse(f"{mark(name)} must be True or False", repr(value), "Pass one of them.")
    return bool(value)


#: More processes than this are a mistake; joblib fails on them in its own words.
_MOST_JOBS = 10_000


def require_jobs(n_jobs: object) -> None:
    """Refuse what is no number of processes, or one that no cluster has."""
    whole = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and 0 != n_jobs <= _MOST_JOBS):  # type: ignore[operator]
        refuse("`n_jobs` must be a number of processes, −1 for all cores, or None", repr(n_jobs), "For example 2.")
