"""Checks of single arguments: choices, numbers, counts; probabilities, fold laws, codes and weights in arrays."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import detach, is_foreign, is_real, to_host
from scoreprism._core.frames import unwrap
from scoreprism._core.lazy_laws import ClassScores, LazyLaw, find_bad_logits, is_law_block, read_scores
from scoreprism._core.logits import Logits, get_values, turn_into_law
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, n_classes
from scoreprism._findings.finding import Finding, announce
from scoreprism._spelling import Marked, mark
from scoreprism.exceptions import InputError

#: Characters of somebody's text that a message shows.
_LONGEST = 60


def refuse(rule: str, got: str, remedy: Marked, kind: type[InputError] = InputError) -> NoReturn:
    """Raise with the three parts every message has; rule and remedy name arguments in backticks."""
    raise kind(rule, got, remedy)


def abbreviate(values: Iterable[object], most: int = 5) -> str:
    """Write the first few values for a message: ``1, 2, 3, …``."""
    items = [str(v) for v in values]
    return ", ".join(items[:most]) + (", …" if len(items) > most else "")


def quote(value: object) -> str:
    """Write a name or value from a file in quotes: control characters are escaped, and long texts are cut."""
    text = str(value)
    return repr(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


def write_plain(value: object) -> str:
    """Write a number or label without numpy's wrapper: 0.5, not ``np.float64(0.5)``."""
    if isinstance(value, np.generic):
        value = value.item()
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _fold_case(word: str) -> str:
    return word.strip().lower().replace("_", "-").replace(" ", "-")


def parse_choice(value: object, options: Iterable[str], name: str) -> str:
    """Parse one of several words; case does not matter, and underscores, spaces and hyphens are the same."""
    choices = list(options)
    if isinstance(value, str):
        if value in choices:
            return value
        by_folded = {_fold_case(option): option for option in choices}
        if _fold_case(value) in by_folded:
            return by_folded[_fold_case(value)]
        near = difflib.get_close_matches(value, choices, n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]!r}?" if near else "Choose one of these."
    else:
        hint = "Pass its name."
    refuse(f"{mark(name)} must be one of {', '.join(choices)}", repr(value), hint)


def parse_number(value: object, name: str, rule: str, holds: Callable[[float], bool]) -> float:
    """Parse a real number that satisfies `holds`, which `rule` describes."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        refuse(f"{mark(name)} must be {rule}", repr(value), "Pass a number.")
    number = float(value)
    if not math.isfinite(number) or not holds(number):
        refuse(f"{mark(name)} must be {rule}", write_plain(number), "Pass a number in that range.")
    return number


def parse_confidence(value: object) -> float:
    """A confidence level in (0, 1)."""
    return parse_number(value, "confidence_level", "a confidence level between 0 and 1", lambda v: 0.0 < v < 1.0)


def parse_share(value: object, name: str) -> float:
    """A share from 0 to below 1."""
    return parse_number(value, name, "a share from 0 to below 1", lambda v: 0.0 <= v < 1.0)


def parse_clip(value: object, k: int) -> float | None:
    """A clipping distance in (0, 1/K], or None."""
    if value is None:
        return None
    return parse_number(value, "clip", f"a distance from 0, above 0 and at most 1/{k}", lambda v: 0.0 < v <= 1.0 / k)


def require_rows(n: int, expected: int, name: str, other: str) -> None:
    """Require the same number of rows in two arguments."""
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
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        refuse(f"{mark(name)} must be a whole number of at least {least}", repr(value), "Pass an integer.")
    return int(value)


def parse_flag(value: object, name: str) -> bool:
    """Parse True or False; 0 and 1 are refused."""
    if not isinstance(value, (bool, np.bool_)):
        refuse(f"{mark(name)} must be True or False", repr(value), "Pass one of them.")
    return bool(value)


#: More processes than this are a mistake, on which joblib fails with an unclear message.
_MOST_JOBS = 10_000


def require_jobs(n_jobs: object) -> None:
    """Refuse an invalid number of processes."""
    whole = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and 0 != n_jobs <= _MOST_JOBS):  # type: ignore[operator]
        refuse("`n_jobs` must be a number of processes, −1 for all cores, or None", repr(n_jobs), "For example 2.")


#: How far the probabilities of a row may be from summing to 1 (float32 softmax rows are off by 1e-7).
SUM_TOLERANCE = 1e-6
#: Sums of weights that could count rows: beyond, 1 + sum rounds to 1 or to the sum.
_ROWS = (2.0**-53, 2.0**53)
#: Weights below this share of the largest count as 0: they change no sum, and their squares underflow.
_NO_WEIGHT = 2.0**-500
#: Numbers checked at a time, so that the second pass finds them in cache.
_IN_CACHE = 1 << 17
_LOGITS = "If these are logits, declare them with scoreprism.Logits."
_ROUNDING = "If this is rounding, use np.clip(p, 0, 1)."
_PERCENT = "If these are percentages, divide by 100."


def refuse_missing(name: str, missing: NDArray[np.bool_]) -> NoReturn:
    bad = np.flatnonzero(missing)
    refuse(
        f"{mark(name)} must have no missing values",
        f"{bad.size} of {missing.shape[0]} rows missing or NaN (row {abbreviate(bad)})",
        "Drop or impute these rows first.",
    )


def _reduce_to_rows(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Reduce a mask to one flag per row: whether any entry is set."""
    return np.asarray(mask.reshape(mask.shape[0] if mask.ndim else 1, -1).any(axis=1))


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, NaT or pandas.NA, which raises when it is compared."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:
        return True
    except ValueError:  # an array or list inside: not missing, but not a number either
        return False


def as_array(value: ArrayLike, name: str) -> NDArray[Any]:
    """Anything array-like as an ndarray with no missing entries."""
    if value is None:
        refuse(f"{mark(name)} must be an array", "None", "Pass one value per row.")
    if hasattr(value, "toarray") and hasattr(value, "nnz"):
        refuse(f"{mark(name)} must be a dense array", f"a sparse {type(value).__name__}", "Call .toarray() first.")
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        mask = np.ma.getmaskarray(value)
        refuse_missing(name, _reduce_to_rows(mask))
    column = unwrap(value)
    if column.missing is not None:
        refuse_missing(name, column.missing)
    try:
        array = np.asarray(column.values)
    except (ValueError, TypeError) as error:
        refuse(
            f"{mark(name)} must be a rectangular array",
            f"{type(value).__name__} ({error})",
            "Give every row the same length.",
        )
    if array.dtype == object:
        missing = np.array([is_missing(v) for v in array.reshape(-1)], dtype=bool)
        if missing.any():
            refuse_missing(name, _reduce_to_rows(missing.reshape(array.shape)))
    return array


def _as_real(value: ArrayLike, name: str) -> FloatArray:
    """A float64 array that may still hold NaN."""
    array = as_array(value, name)
    if array.dtype.kind not in "fiub":
        what = {"O": "dtype object", "c": "complex numbers", "U": "strings", "S": "bytes"}.get(
            array.dtype.kind, f"dtype {array.dtype}"
        )
        refuse(f"{mark(name)} must hold real numbers", what, "Convert with .astype(float) if these are numbers.")
    return np.asarray(array, dtype=np.float64, order="C")  # sums of rows depend on the layout, in the last bit


def _require_finite(numbers: FloatArray, name: str) -> None:
    if numbers.size == 0:
        return
    rows = numbers.reshape(numbers.shape[0] if numbers.ndim else 1, -1)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        first = rows[bad[0]]
        value = first[~np.isfinite(first)][0]
        refuse(
            f"{mark(name)} must be finite",
            f"{write_plain(value)} in row {bad[0]} ({bad.size} of {rows.shape[0]} rows with NaN or infinities)",
            "Drop or impute these rows first.",
        )


def parse_numbers(value: ArrayLike, name: str) -> FloatArray:
    """A float64 array without NaN or infinities."""
    numbers = _as_real(value, name)
    _require_finite(numbers, name)
    return numbers


def is_law(block: FloatArray) -> bool:
    """Whether every row is a point of the simplex."""
    if block.size == 0:
        return True
    if not np.minimum.reduce(block, axis=None) >= 0.0:  # NaN fails too
        return False
    if block.ndim == 1:
        return bool(np.maximum.reduce(block) <= 1.0)
    sums = block @ np.ones(block.shape[1])
    least, most = np.minimum.reduce(sums), np.maximum.reduce(sums)
    if not (least >= 1.0 - SUM_TOLERANCE and most <= 1.0 + SUM_TOLERANCE):
        return False
    # nonnegative rows that sum to 1 up to rounding have no entry above 1: only others need this pass
    return bool(most <= 1.0 + 1e-12 or np.maximum.reduce(block, axis=None) <= 1.0)


def refuse_law(law: FloatArray, name: str, logits: str = _LOGITS) -> NoReturn:
    """Raise the error that says why `is_law` is False; `logits` is the remedy where they may be logits."""
    _require_finite(law, name)
    rows = law.reshape(law.shape[0], -1)
    outside = np.flatnonzero(((rows < 0.0) | (rows > 1.0)).any(axis=1))
    if outside.size:
        row = rows[outside[0]]
        worst = row[np.argmax(np.maximum(-row, row - 1.0))]
        percent = rows.min() >= 0.0 and 1.0 < rows.max() <= 100.0 and np.median(rows.max(axis=1)) > 1.5
        refuse(
            f"{mark(name)} must hold probabilities between 0 and 1",
            f"{float(worst)!r} in row {outside[0]} ({outside.size} of {rows.shape[0]} rows outside)",
            _ROUNDING if max(-rows.min(), rows.max() - 1.0) < 1e-6 else _PERCENT if percent else logits,
        )
    sums = rows.sum(axis=1)
    bad = np.flatnonzero(np.abs(sums - 1.0) > SUM_TOLERANCE)
    refuse(
        f"{mark(name)} must have rows that sum to 1 within {SUM_TOLERANCE:g}",
        f"{write_plain(sums[bad[0]])} in row {bad[0]} ({bad.size} of {rows.shape[0]} rows)",
        f"Divide each row by its sum if that is what you mean. {logits}",
    )


def as_law_array(value: ArrayLike, name: str, *, single: bool = False) -> FloatArray:
    """Numbers in the shape of a law, ``(n,)`` or ``(n, K)``, not yet checked to be probabilities; logits as these."""
    lazy: Any = read_where_it_is(value, name, is_logit=isinstance(value, Logits))
    if lazy is not None:
        stands_for_array: FloatArray = lazy
        return stands_for_array  # stands for an array
    if isinstance(value, Logits):
        return _parse_logits(as_law_array(value.values, name, single=single), name)
    law = _as_real(value, name)
    if law.ndim == 0 and single:
        law = law.reshape(1)
    if law.ndim == 0:
        refuse(f"{mark(name)} must hold one row per case", "a single number", "Pass [p] for one case.")
    if law.ndim == 2 and law.shape[1] == 1:
        law = law[:, 0]
    if law.ndim > 2 or (law.ndim == 2 and law.shape[1] == 0):
        refuse(
            f"{mark(name)} must have shape (n,) or (n, K)",
            f"shape {law.shape}",
            "Pass one row per case, one column per class.",
        )
    if law.shape[0] == 0:
        refuse(f"{mark(name)} must not be empty", f"shape {law.shape}", "Pass at least one row.")
    return law


def parse_law(value: ArrayLike, name: str = "y_proba", *, single: bool = False) -> FloatArray:
    """Probabilities of shape ``(n,)`` or ``(n, K)``, or logits of them; a single number only with `single`."""
    law = as_law_array(value, name, single=single)
    if isinstance(law, LazyLaw):
        return law  # checked as it was read
    rows = max(1, _IN_CACHE // n_classes(law))
    if not all(is_law(law[start : start + rows]) for start in range(0, law.shape[0], rows)):
        refuse_law(law, name)
    return law


#: Numbers of an array of low precision from which it is read by blocks instead of being copied to float64.
_MANY_NUMBERS = 1 << 22


def read_where_it_is(
    value: Any, name: str, *, is_logit: bool, explain: Callable[[FloatArray], NoReturn] | None = None
) -> ClassScores | None:
    """
    Scores of several classes that stay where they are: of other libraries, and large ones of low precision.

    `explain` refuses numbers that are no probabilities; by default `refuse_law` does.
    """
    values = get_values(value)
    if not _stays_where_it_is(values):
        return None

    def check(block: Any, first: int) -> None:
        if is_logit:
            _refuse_logits(to_host(find_bad_logits(block)), block, first, name)
        elif not is_law_block(block, SUM_TOLERANCE):
            law = to_host(values).astype(np.float64)
            explain(law) if explain is not None else refuse_law(law, name)

    return read_scores(detach(values), is_logit=is_logit, check=check)


def _stays_where_it_is(values: Any) -> bool:
    """Whether scores of several classes are read by blocks, where they are."""
    if is_foreign(values):
        return bool(values.ndim == 2 and values.shape[1] > 2 and values.shape[0] > 0 and is_real(values))
    if not isinstance(values, np.ndarray) or values.ndim != 2 or values.shape[1] < 3:
        return False
    return values.dtype.kind == "f" and values.dtype.itemsize < 8 and values.size >= _MANY_NUMBERS


def _refuse_logits(bad: NDArray[np.bool_], logits: Any, first: int, name: str) -> None:
    """Refuse rows of logits that give no probabilities."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        wrong = to_host(logits)[row]
        refuse(
            f"the logits of {mark(name)} must be numbers or −∞, not all of a row −∞",
            f"{abbreviate(np.atleast_1d(wrong))} in row {first + row} ({int(bad.sum())} of {bad.size} rows)",
            "Correct these rows, or leave them out.",
        )


def _parse_logits(logits: FloatArray, name: str) -> FloatArray:
    """The probabilities of logits, which must be numbers, and of which one in each row must be above −∞."""
    _refuse_logits(np.isnan(logits) if logits.ndim == 1 else find_bad_logits(logits), logits, 0, name)
    return turn_into_law(logits)


def parse_folds(value: ArrayLike, law: FloatArray, name: str) -> FloatArray:
    """The laws of the fold models on every row: ``(F, n)`` or ``(F, n, K)``."""
    folds = parse_numbers(value, name)
    if folds.ndim == law.ndim + 2 and folds.shape[-1] == 1:
        folds = folds[..., 0]
    if folds.ndim != law.ndim + 1 or folds.shape[1:] != law.shape:
        refuse(
            f"{mark(name)} must have shape (F, {', '.join(map(str, law.shape))})",
            f"shape {folds.shape}",
            "Stack the probabilities of each fold model.",
        )
    if folds.shape[0] < 2:
        refuse(
            f"{mark(name)} must hold at least two fold models",
            f"{folds.shape[0]}",
            "Leave folds out for probabilities that were given.",
        )
    for f, fold in enumerate(folds):
        if not is_law(fold):
            refuse_law(fold, f"{name}[{f}]")
    return folds


def parse_codes(value: ArrayLike, k: int) -> IntArray:
    """Parse outcome codes 0, …, K−1, which losses take instead of labels."""
    # fast path of the kernels; not for subclasses: a masked array has numbers behind its mask
    integers = type(value) is np.ndarray and value.dtype.kind in "iu" and value.ndim == 1 and value.size > 0
    if integers and value.min() >= 0 and value.max() < k:  # type: ignore[attr-defined]
        return value.astype(np.intp, copy=False)  # type: ignore[attr-defined,no-any-return]
    numbers = parse_numbers(value, "y")
    if numbers.ndim == 0:
        numbers = numbers.reshape(1)
    if numbers.ndim != 1:
        refuse("`y` must be one-dimensional", f"shape {numbers.shape}", "Pass one class code per row.")
    wrong = np.flatnonzero((numbers < 0) | (numbers >= k) | (numbers != np.floor(numbers)))
    if wrong.size:
        refuse(
            f"`y` must hold class codes 0 to {k - 1}",
            f"{write_plain(numbers[wrong[0]])} in row {wrong[0]} ({wrong.size} of {numbers.shape[0]} rows)",
            "Encode labels first, or use Chain, which takes labels.",
        )
    return numbers.astype(np.intp)


def parse_weights(
    value: ArrayLike | None, n: int, other: str = "y_true", *, as_rows: bool = False
) -> FloatArray | None:
    """
    Nonnegative weights that are not all zero; None means equal weights.

    Weights whose sum cannot be a number of rows (`_ROWS`) are scaled to sum to the number of rows with weight: their
    squares would leave the range of floats, and only their ratios can be meant. With `as_rows`, where a weight of 2
    counts as two rows, this is a warning. Weights below `_NO_WEIGHT` of the largest become 0.
    """
    if value is None:
        return None
    weights = parse_numbers(value, "sample_weight").copy()
    if weights.ndim == 2 and weights.shape[1] == 1:
        weights = weights[:, 0]
    if weights.ndim != 1:
        refuse("`sample_weight` must be one-dimensional", f"shape {weights.shape}", "Pass one weight per row.")
    require_rows(weights.shape[0], n, "sample_weight", other)
    negative = np.flatnonzero(weights < 0)
    if negative.size:
        refuse(
            "`sample_weight` must be nonnegative",
            f"{write_plain(weights[negative[0]])} in row {negative[0]} ({negative.size} of {n} rows)",
            "Use 0 to leave a row out.",
        )
    if not weights.any():
        refuse("`sample_weight` must not be all zero", f"{n} zeros", "Give at least one row a positive weight.")
    weights = _scale_to_rows(weights, as_rows)
    weights[weights < _NO_WEIGHT * weights.max()] = 0.0
    return weights


def _scale_to_rows(weights: FloatArray, as_rows: bool) -> FloatArray:
    """Scale weights whose sum cannot count rows so that they sum to the number of rows with weight."""
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if _ROWS[0] <= total <= _ROWS[1]:
        return weights
    largest = float(weights.max())
    if largest < np.finfo(np.float64).tiny:
        refuse(
            "`sample_weight` must not be subnormal",
            f"{write_plain(largest)} as the largest",
            "Multiply the weights by a constant: only their ratios matter.",
        )
    ratios = weights / largest
    n_weighted = np.count_nonzero(ratios)
    if as_rows:
        announce(Finding("weight_scale", value=total, n=int(n_weighted), facts={"scaled": True}))
    return np.asarray(ratios * (n_weighted / ratios.sum()))


#: With fewer rows than this, predictions of only 0 and 1 are no reason for suspicion.
_SUSPICIOUS = 30


def is_hard(law: FloatArray) -> bool:
    """Whether all probabilities are 0 or 1, as predicted labels are."""
    if law.shape[0] < _SUSPICIOUS:
        return False
    # the first rows nearly always decide, which saves a pass over all
    return all(bool(((part == 0.0) | (part == 1.0)).all()) for part in (law[:_SUSPICIOUS], law))


def warn_of_hard_labels(name: str = "y_proba") -> None:
    """Warn that probabilities look like predicted labels."""
    announce(Finding("hard_labels", subject=name))
