"""The only checks on user input: every public argument is parsed here once, and trusted afterwards.

Every refusal reads ``rule; what arrived. remedy``.
"""

from __future__ import annotations

import difflib
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.frames import unwrap
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, n_classes
from scoreprism.exceptions import HardLabelsWarning, InputError, LabelError, WeightScaleWarning

#: How far the probabilities of one row may sum away from one (float32 softmax rows are off by 1e-7).
SUM_TOLERANCE = 1e-6

#: Sums of weights that could count rows. Outside, the weights vanish beside one row, or one row beside them.
_ROWS = (2.0**-53, 2.0**53)

#: A weight below this share of the largest counts as none: no sum notices it, and its square is no float.
_NO_WEIGHT = 2.0**-500

#: Numbers that are checked at a time, so that the second look finds them in cache.
_IN_CACHE = 1 << 17

_LOGITS = "If these are logits, apply scipy.special.expit (softmax for several classes) first."
_ROUNDING = "If this is rounding, use np.clip(p, 0, 1)."
_PERCENT = "If these are percentages, divide by 100."


def refuse(rule: str, arrived: str, remedy: str, kind: type[InputError] = InputError) -> NoReturn:
    """Raise with the three parts every message has."""
    raise kind(f"{rule}; got {arrived}. {remedy}")


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
    refuse(f"{name} must be one of {', '.join(known)}", repr(value), hint)


def parse_number(value: object, name: str, rule: str, holds: Callable[[float], bool]) -> float:
    """A real number that satisfies `holds`; `rule` says what that is."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        refuse(f"{name} must be {rule}", repr(value), "Pass a number.")
    number = float(value)
    if not math.isfinite(number) or not holds(number):
        refuse(f"{name} must be {rule}", plain(number), "Pass a number in that range.")
    return number


def parse_confidence(value: object) -> float:
    """A confidence level in (0, 1)."""
    return parse_number(value, "level", "a confidence level between 0 and 1", lambda v: 0.0 < v < 1.0)


def parse_clip(value: object, k: int) -> float | None:
    """A clipping distance in (0, 1/K], or None."""
    if value is None:
        return None
    return parse_number(value, "clip", f"a distance from 0, above 0 and at most 1/{k}", lambda v: 0.0 < v <= 1.0 / k)


def _refuse_missing(name: str, missing: NDArray[np.bool_]) -> NoReturn:
    bad = np.flatnonzero(missing)
    refuse(
        f"{name} must have no missing values",
        f"{bad.size} of {missing.shape[0]} rows missing or NaN (row {listed(bad)})",
        "Drop or impute these rows first.",
    )


def _by_row(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether anything in a row is marked."""
    return np.asarray(mask.reshape(mask.shape[0] if mask.ndim else 1, -1).any(axis=1))


def _is_missing(value: object) -> bool:
    """None, NaN, NaT, pandas.NA: the last one is the only object that refuses to say whether it equals itself."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:
        return True
    except ValueError:  # an array or list inside: not missing, but not a number either
        return False


def _array(value: ArrayLike, name: str) -> NDArray[Any]:
    """Anything array-like as an ndarray with no missing entries."""
    if value is None:
        refuse(f"{name} must be an array", "None", "Pass one value per row.")
    if hasattr(value, "toarray") and hasattr(value, "nnz"):
        refuse(f"{name} must be a dense array", f"a sparse {type(value).__name__}", "Call .toarray() first.")
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        mask = np.ma.getmaskarray(value)
        _refuse_missing(name, _by_row(mask))
    column = unwrap(value)
    if column.missing is not None:
        _refuse_missing(name, column.missing)
    try:
        array = np.asarray(column.values)
    except (ValueError, TypeError) as error:
        refuse(
            f"{name} must be a rectangular array",
            f"{type(value).__name__} ({error})",
            "Give every row the same length.",
        )
    if array.dtype == object:
        missing = np.array([_is_missing(v) for v in array.reshape(-1)], dtype=bool)
        if missing.any():
            _refuse_missing(name, _by_row(missing.reshape(array.shape)))
    return array


def _real(value: ArrayLike, name: str) -> FloatArray:
    """A float64 array that may still hold NaN."""
    array = _array(value, name)
    if array.dtype.kind not in "fiub":
        what = {"O": "dtype object", "c": "complex numbers", "U": "strings", "S": "bytes"}.get(
            array.dtype.kind, f"dtype {array.dtype}"
        )
        refuse(f"{name} must hold real numbers", what, "Convert with .astype(float) if these are numbers.")
    return np.asarray(array, dtype=np.float64)


def _require_finite(numbers: FloatArray, name: str) -> None:
    if numbers.size == 0:
        return
    rows = numbers.reshape(numbers.shape[0] if numbers.ndim else 1, -1)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        first = rows[bad[0]]
        value = first[~np.isfinite(first)][0]
        refuse(
            f"{name} must be finite",
            f"{plain(value)} in row {bad[0]} ({bad.size} of {rows.shape[0]} rows with NaN or infinities)",
            "Drop or impute these rows first.",
        )


def parse_numbers(value: ArrayLike, name: str) -> FloatArray:
    """A float64 array without NaN or infinities."""
    numbers = _real(value, name)
    _require_finite(numbers, name)
    return numbers


def is_law(block: FloatArray) -> bool:
    """Whether every row is a point of the simplex; made for blocks that fit in cache."""
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
    # nonnegative rows that sum to 1 up to rounding have no entry above 1: only sloppier ones need the look
    return bool(most <= 1.0 + 1e-12 or np.maximum.reduce(block, axis=None) <= 1.0)


def refuse_law(law: FloatArray, name: str) -> NoReturn:
    """Say why `is_law` said no."""
    _require_finite(law, name)
    rows = law.reshape(law.shape[0], -1)
    outside = np.flatnonzero(((rows < 0.0) | (rows > 1.0)).any(axis=1))
    if outside.size:
        row = rows[outside[0]]
        worst = row[np.argmax(np.maximum(-row, row - 1.0))]
        percent = rows.min() >= 0.0 and 1.0 < rows.max() <= 100.0 and np.median(rows.max(axis=1)) > 1.5
        refuse(
            f"{name} must hold probabilities between 0 and 1",
            f"{float(worst)!r} in row {outside[0]} ({outside.size} of {rows.shape[0]} rows outside)",
            _ROUNDING if max(-rows.min(), rows.max() - 1.0) < 1e-6 else _PERCENT if percent else _LOGITS,
        )
    sums = rows.sum(axis=1)
    bad = np.flatnonzero(np.abs(sums - 1.0) > SUM_TOLERANCE)
    refuse(
        f"{name} must have rows that sum to 1 within {SUM_TOLERANCE:g}",
        f"{plain(sums[bad[0]])} in row {bad[0]} ({bad.size} of {rows.shape[0]} rows)",
        f"Divide each row by its sum if that is what you mean. {_LOGITS}",
    )


def as_law_array(value: ArrayLike, name: str, *, single: bool = False) -> FloatArray:
    """Numbers in the shape of a law, ``(n,)`` or ``(n, K)``, not yet checked to be probabilities."""
    law = _real(value, name)
    if law.ndim == 0 and single:
        law = law.reshape(1)
    if law.ndim == 0:
        refuse(f"{name} must hold one row per case", "a single number", "Pass [p] for one case.")
    if law.ndim == 2 and law.shape[1] == 1:
        law = law[:, 0]
    if law.ndim > 2 or (law.ndim == 2 and law.shape[1] == 0):
        refuse(
            f"{name} must have shape (n,) or (n, K)",
            f"shape {law.shape}",
            "Pass one row per case, one column per class.",
        )
    if law.shape[0] == 0:
        refuse(f"{name} must not be empty", f"shape {law.shape}", "Pass at least one row.")
    return law


def parse_law(value: ArrayLike, name: str = "y_proba", *, single: bool = False) -> FloatArray:
    """Probabilities of shape ``(n,)`` or ``(n, K)``; a single number only where losses are evaluated by hand."""
    law = as_law_array(value, name, single=single)
    rows = max(1, _IN_CACHE // n_classes(law))
    if not all(is_law(law[start : start + rows]) for start in range(0, law.shape[0], rows)):
        refuse_law(law, name)
    return law


def outside() -> int:
    """How many frames up the user's own code is: a warning should point there."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "scoreprism":
        level, frame = level + 1, frame.f_back
    return level


#: Fewer rows than this may well be all certain.
_SUSPICIOUS = 30


def is_hard(law: FloatArray) -> bool:
    """Whether probabilities look like predicted labels."""
    return not (law.shape[0] < _SUSPICIOUS or bool(((law != 0.0) & (law != 1.0)).any()))


def warn_of_hard_labels(law: FloatArray, name: str = "y_proba") -> None:
    """Say so if probabilities look like predicted labels."""
    if not is_hard(law):
        return
    note = f"{name} holds only 0 and 1: are these predicted labels? Probabilities come from predict_proba"
    warnings.warn(note, HardLabelsWarning, stacklevel=outside())


def parse_folds(value: ArrayLike, law: FloatArray, name: str) -> FloatArray:
    """The laws of the fold models on every row: ``(F, n)`` or ``(F, n, K)``."""
    folds = parse_numbers(value, name)
    if folds.ndim == law.ndim + 2 and folds.shape[-1] == 1:
        folds = folds[..., 0]
    if folds.ndim != law.ndim + 1 or folds.shape[1:] != law.shape:
        refuse(
            f"{name} must have shape (F, {', '.join(map(str, law.shape))})",
            f"shape {folds.shape}",
            "Stack one law per fold model.",
        )
    if folds.shape[0] < 2:
        refuse(
            f"{name} must hold at least two fold models",
            f"{folds.shape[0]}",
            "Leave folds out for a law that was given.",
        )
    for f, fold in enumerate(folds):
        if not is_law(fold):
            refuse_law(fold, f"{name}[{f}]")
    return folds


def require_rows(n: int, expected: int, name: str, other: str) -> None:
    """Two arguments must speak of the same rows."""
    if n != expected:
        refuse(
            f"{name} and {other} must have the same number of rows",
            f"{n} and {expected}",
            "Pass one entry per row in both.",
        )


def parse_codes(value: ArrayLike, k: int, name: str = "y") -> IntArray:
    """Outcome codes 0, …, K−1 (losses speak codes; labels are for ``y_true``)."""
    # the fast lane of the kernels; not for subclasses: a masked array has numbers behind its mask
    integers = type(value) is np.ndarray and value.dtype.kind in "iu" and value.ndim == 1 and value.size > 0
    if integers and value.min() >= 0 and value.max() < k:  # type: ignore[attr-defined]
        return value.astype(np.intp, copy=False)  # type: ignore[attr-defined,no-any-return]
    numbers = parse_numbers(value, name)
    if numbers.ndim == 0:
        numbers = numbers.reshape(1)
    if numbers.ndim != 1:
        refuse(f"{name} must be one-dimensional", f"shape {numbers.shape}", "Pass one class code per row.")
    wrong = np.flatnonzero((numbers < 0) | (numbers >= k) | (numbers != np.floor(numbers)))
    if wrong.size:
        refuse(
            f"{name} must hold class codes 0 to {k - 1}",
            f"{plain(numbers[wrong[0]])} in row {wrong[0]} ({wrong.size} of {numbers.shape[0]} rows)",
            "Encode labels first, or use Chain, which takes labels.",
        )
    return numbers.astype(np.intp)


def parse_weights(
    value: ArrayLike | None, n: int, other: str = "y_true", *, as_rows: bool = False
) -> FloatArray | None:
    """
    Nonnegative weights that are not all zero; None means equal weights.

    Weights whose sum is no number of rows (`_ROWS`) are scaled to sum to the number of rows that have weight: their
    squares would leave the range of floats, and only their ratios can be meant. `as_rows` warns of it, where a weight
    of 2 counts as two rows. Weights below `_NO_WEIGHT` of the largest are none.
    """
    if value is None:
        return None
    weights = parse_numbers(value, "sample_weight").copy()
    if weights.ndim == 2 and weights.shape[1] == 1:
        weights = weights[:, 0]
    if weights.ndim != 1:
        refuse("sample_weight must be one-dimensional", f"shape {weights.shape}", "Pass one weight per row.")
    require_rows(weights.shape[0], n, "sample_weight", other)
    negative = np.flatnonzero(weights < 0)
    if negative.size:
        refuse(
            "sample_weight must be nonnegative",
            f"{plain(weights[negative[0]])} in row {negative[0]} ({negative.size} of {n} rows)",
            "Use 0 to leave a row out.",
        )
    if not weights.any():
        refuse("sample_weight must not be all zero", f"{n} zeros", "Give at least one row a positive weight.")
    weights = _scaled_to_rows(weights, as_rows)
    weights[weights < _NO_WEIGHT * weights.max()] = 0.0
    return weights


def _scaled_to_rows(weights: FloatArray, as_rows: bool) -> FloatArray:
    """Weights as they are if their sum could count rows, else their ratios with the number of rows as their sum."""
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if _ROWS[0] <= total <= _ROWS[1]:
        return weights
    largest = float(weights.max())
    if largest < np.finfo(np.float64).tiny:
        refuse(
            "sample_weight must not be subnormal",
            f"{plain(largest)} as the largest",
            "Multiply the weights by a constant: only their ratios matter.",
        )
    ratios = weights / largest
    held = np.count_nonzero(ratios)
    if as_rows:
        warnings.warn(
            f"sample_weight sums to {total:.3g}, which is no number of rows: only the ratios of the weights are used, "
            f"scaled to sum to the {held} rows that have weight.",
            WeightScaleWarning,
            stacklevel=outside(),
        )
    return np.asarray(ratios * (held / ratios.sum()))


def parse_labels(value: ArrayLike, name: str) -> NDArray[Any]:
    """One-dimensional sortable labels without missing entries."""
    labels = _array(value, name)
    if labels.dtype.kind == "U" and isinstance(value, (list, tuple)) and not all(isinstance(v, str) for v in value):
        labels = np.array(value, dtype=object)  # numpy would have turned the numbers among them into text
    if labels.ndim == 0:
        refuse(f"{name} must hold one label per row", f"the single value {plain(labels[()])}", "Pass a list.")
    if labels.ndim != 1:
        remedy = (
            "Use .argmax(axis=1) for one-hot rows." if labels.ndim == 2 and labels.shape[1] > 1 else "Use .ravel()."
        )
        refuse(f"{name} must be one-dimensional", f"shape {labels.shape}", remedy)
    if labels.shape[0] == 0:
        refuse(f"{name} must not be empty", "0 rows", "Pass at least one row.")
    if labels.dtype.kind in "fmM" and (labels != labels).any():
        _refuse_missing(name, labels != labels)
    if labels.dtype.kind == "M":
        labels = labels.astype("datetime64[us]")  # one resolution, so that equal times compare equal
    if labels.dtype.kind in "cV":
        refuse(f"{name} must hold sortable labels", f"dtype {labels.dtype}", "Use integers, booleans or strings.")
    return labels


def distinct(labels: NDArray[Any], name: str) -> tuple[NDArray[Any], IntArray]:
    """Sorted distinct labels and the code of each row."""
    if labels.dtype.kind in "biu":
        least, most = np.minimum.reduce(labels), np.maximum.reduce(labels)
        if (int(least), int(most)) == (0, 1):
            return np.array([0, 1]).astype(labels.dtype), labels.astype(np.intp)
        if int(most) - int(least) < 256:  # few integers: a table instead of a sort
            wide = labels.astype(np.uint64 if labels.dtype.kind == "u" else np.int64)
            offsets = (wide - wide.dtype.type(least)).astype(np.intp)
            table = np.flatnonzero(np.bincount(offsets))
            codes = np.zeros(table[-1] + 1, dtype=np.intp)
            codes[table] = np.arange(table.size)
            return (table.astype(wide.dtype) + wide.dtype.type(least)).astype(labels.dtype), codes[offsets]
    try:
        values, inverse = np.unique(labels, return_inverse=True)
    except TypeError:
        kinds = sorted({type(v).__name__ for v in labels.tolist()})
        refuse(
            f"{name} must hold labels of one sortable kind",
            f"a mix of {listed(kinds)}",
            "Convert them to one type.",
            LabelError,
        )
    return values, inverse.astype(np.intp)


def parse_random_state(value: object) -> np.random.Generator:
    """A generator from a seed, a generator or None."""
    try:
        return np.random.default_rng(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        refuse("random_state must be a nonnegative integer, a numpy Generator or None", repr(value), "For example 0.")


def parse_count(value: object, name: str, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < least:
        refuse(f"{name} must be a whole number of at least {least}", repr(value), "Pass an integer.")
    return int(value)


def parse_groups(value: ArrayLike | None, n: int, name: str = "groups") -> tuple[NDArray[Any], IntArray] | None:
    """Distinct group labels and the group code of every row."""
    if value is None:
        return None
    labels = parse_labels(value, name)
    require_rows(labels.shape[0], n, name, "y_true")
    return distinct(labels, name)


@dataclass(frozen=True)
class GivenLaw:
    """A parsed law on its way into a decomposition: its name, numbers, fold laws and, from a frame, column names."""

    name: str
    values: FloatArray
    folds: FloatArray | None = None
    columns: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Outcomes:
    """Parsed ``y_true``: codes 0…K−1, the label of each code, and the order in which to read the columns of laws."""

    codes: IntArray
    classes: NDArray[Any]
    orders: list[list[int] | None]


def parse_outcomes(
    y_true: ArrayLike, laws: Sequence[GivenLaw], *, pos_label: object = None, classes: ArrayLike | None = None
) -> Outcomes:
    """Match labels with the classes the laws speak of; columns of frames that are named after labels go by name."""
    labels = parse_labels(y_true, "y_true")
    require_rows(labels.shape[0], laws[0].values.shape[0], "y_true", "y_proba")
    present, codes = distinct(labels, "y_true")
    k = n_classes(laws[0].values)
    vector = any(law.values.ndim == 1 for law in laws)
    if present.size > k:
        remedy = "Pass one column per label."
        if vector:
            remedy = "Pass probabilities of shape (n, K), or y_true == label for one class against the rest."
        if present.dtype.kind == "f" and present.min() >= 0.0 and present.max() <= 1.0:
            remedy = "Are y_true and y_proba in each other's place?"
        refuse(
            f"y_true must have at most as many labels as the probabilities have classes ({k})",
            f"{present.size} labels: {_shown(present)}",
            remedy,
            LabelError,
        )
    columns = _class_order(y_true, present, laws, pos_label, classes)
    known = set(columns.tolist())
    missing = [label for label in present.tolist() if label not in known]
    if missing:
        refuse(
            "y_true must only hold labels that the probabilities speak of",
            f"{_shown(np.array(missing, dtype=present.dtype))} beside the classes {_shown(columns)}",
            "Correct the labels, pos_label or classes.",
            LabelError,
        )
    final = _positive_last(columns, k, pos_label)
    position = {label: code for code, label in enumerate(final.tolist())}
    recode = [position[label] for label in present.tolist()]
    if recode != list(range(len(recode))):
        codes = np.array(recode, dtype=np.intp)[codes]
    return Outcomes(codes, final, [_reading(law, columns, final) for law in laws])


def _keys(names: Iterable[object], labels: NDArray[Any]) -> list[object]:
    """Names in a form in which they compare with labels: 1, 1.0, True and "1" are the same where labels are numbers."""
    numeric = all(isinstance(label, (bool, int, float)) for label in labels.tolist())
    return [_number_in(name) if numeric else str(name) for name in names]


def _number_in(name: object) -> object:
    try:
        return float({"True": 1.0, "False": 0.0}.get(name, name) if isinstance(name, str) else name)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(name)


def _class_order(
    y_true: ArrayLike,
    present: NDArray[Any],
    laws: Sequence[GivenLaw],
    pos_label: object,
    classes: ArrayLike | None,
) -> NDArray[Any]:
    """The label of each column of the laws that do not name their columns, and the order results are kept in."""
    k = n_classes(laws[0].values)
    if classes is not None:
        return _parse_classes(classes, k)
    if pos_label is None and any(law.values.ndim == 1 for law in laws):
        return _guess_free_columns(present, k, 1)
    named = _columns_from_names(present, laws)
    positional = [law.name for law in laws if law.values.ndim == 2 and not _speaks_labels(law, present)]
    if named is not None and not positional:
        return named[1]
    default = _default_columns(y_true, present, k, pos_label, positional)
    if named is not None and _keys(named[1], present) != _keys(default, present):
        refuse(
            "laws with and without column names must agree on the order of the classes",
            f"{_shown(named[1])} from {named[0]}, and no label names on {', '.join(positional)}",
            "Pass classes=[…], the labels in the order of the unnamed columns.",
            LabelError,
        )
    return default


def _default_columns(
    y_true: ArrayLike, present: NDArray[Any], k: int, pos_label: object, positional: Sequence[str]
) -> NDArray[Any]:
    """The order of columns without names: an ordered categorical's, else sorted."""
    categories = unwrap(y_true).categories
    if categories is not None and len(categories) == k:
        return np.array(categories, dtype=object)
    if pos_label is not None and k == 2:
        return _columns_from_pos_label(present, pos_label, positional)
    return _guess_free_columns(present, k, 2)


def _speaks_labels(law: GivenLaw, present: NDArray[Any]) -> bool:
    """Whether the columns of a law are named after the labels."""
    names = _keys(law.columns or (), present)
    return set(_keys(present.tolist(), present)) <= set(names) and len(set(names)) == n_classes(law.values)


def _columns_from_names(present: NDArray[Any], laws: Sequence[GivenLaw]) -> tuple[str, NDArray[Any]] | None:
    """The first law whose columns are named after the labels, and the labels in that order."""
    by_key = dict(zip(_keys(present.tolist(), present), present.tolist(), strict=True))
    for law in laws:
        if law.values.ndim == 2 and _speaks_labels(law, present):
            keys = _keys(law.columns or (), present)
            absent = [_like(present, key) for key in keys]
            found = [by_key.get(key, other) for key, other in zip(keys, absent, strict=True)]
            return law.name, np.array(found, dtype=object)
    return None


def _like(present: NDArray[Any], key: object) -> object:
    """A label that never occurred, of the kind of those that did."""
    sample = present.tolist()[0]
    return type(sample)(key) if isinstance(sample, (bool, int, float)) and isinstance(key, float) else key


def _reading(law: GivenLaw, columns: NDArray[Any], final: NDArray[Any]) -> list[int] | None:
    """Which column of a law belongs to each class; None if they are in place."""
    if law.values.ndim == 1 and law.columns is None:
        return None
    wanted = _keys(final.tolist(), final)
    names = _keys(law.columns or (), final)
    if law.values.ndim == 1:
        if len(names) == 1 and names[0] in wanted and names[0] != wanted[1]:
            refuse(
                f"one column of probabilities must be that of the positive label, {plain(final[1])}",
                f"{law.name} named {plain((law.columns or ('',))[0])}",
                "Pass the other column, or pos_label.",
                LabelError,
            )
        return None
    common = set(names) & set(wanted)
    if common and (common != set(wanted) or len(names) != len(wanted)):
        refuse(
            f"the columns of {law.name} must be named after all labels or none",
            f"the columns {[str(name) for name in law.columns or ()]} beside the labels {_shown(final)}",
            "Rename the columns, or pass .to_numpy().",
            LabelError,
        )
    have = names if common else _keys(columns.tolist(), final)
    place = {label: column for column, label in enumerate(have)}
    order = [place[label] for label in wanted]
    return None if order == list(range(len(order))) else order


def _shown(labels: NDArray[Any]) -> str:
    values = [plain(v) for v in labels[:8]]
    return "[" + ", ".join(values) + (", …" if labels.size > 8 else "") + "]"


def _parse_classes(classes: ArrayLike, k: int) -> NDArray[Any]:
    columns = parse_labels(classes, "classes")
    if columns.shape[0] != k or len({str(label) for label in columns.tolist()}) != k:
        refuse(
            f"classes must name {k} different labels, one per column",
            _shown(columns),
            "List them in column order.",
            LabelError,
        )
    return columns


def _columns_from_pos_label(present: NDArray[Any], pos_label: object, positional: Sequence[str]) -> NDArray[Any]:
    """Two classes in sorted order, one of which is `pos_label`."""
    if np.ndim(pos_label) != 0:  # type: ignore[arg-type]
        refuse(
            "pos_label must be a single label",
            plain(pos_label),
            "Use classes=[…] for the order of columns.",
            LabelError,
        )
    others = [label for label in present.tolist() if label != pos_label]
    if len(others) == 2:
        refuse(
            "pos_label must be one of the labels of y_true",
            f"{plain(pos_label)} beside {_shown(present)}",
            "Pass one of these.",
            LabelError,
        )
    standard = _standard_coding(present)
    other = others[0] if others else next((v for v in standard or () if v != pos_label), None)
    if other is None:  # one label only, and it is the positive one: the other class never occurred
        if positional:
            refuse(
                "y_true must show which label belongs to which of the 2 columns",
                f"the single label {_shown(present)}",
                "Pass classes=[…] in column order.",
                LabelError,
            )
        return np.array(
            [f"not {pos_label}" if isinstance(pos_label, str) else _unlike(pos_label), pos_label], dtype=object
        )
    try:
        return np.unique(np.array([other, pos_label], dtype=object))
    except TypeError:
        refuse(
            "pos_label must be of the same kind as the labels",
            f"{plain(pos_label)} beside {_shown(present)}",
            "Pass one of the labels.",
            LabelError,
        )


def _unlike(label: object) -> object:
    """A placeholder for a class that never occurs."""
    return (not label) if isinstance(label, (bool, np.bool_)) else 0 if label != 0 else 1


def _standard_coding(present: NDArray[Any]) -> tuple[object, object] | None:
    """The codings that name their own positive class: {0, 1}, {−1, 1}, booleans."""
    if present.dtype.kind == "b":
        return (False, True)
    if present.dtype.kind in "iuf" or (present.dtype == object and all(isinstance(v, (int, float)) for v in present)):
        for coding in ((0, 1), (-1, 1)):
            if set(present.tolist()) <= set(coding):
                return coding
    return None


def _guess_free_columns(present: NDArray[Any], k: int, ndim: int) -> NDArray[Any]:
    """Column labels where nothing was said, only if there is no choice to make."""
    if k == 2:
        standard = _standard_coding(present)
        if standard is not None:
            return np.array(standard)
        if ndim == 1:
            refuse(
                "y_true must say which label 1-D probabilities speak of",
                f"the labels {_shown(present)}",
                f"Pass pos_label={plain(present[-1])} (or the other one).",
                LabelError,
            )
    if present.size == k:
        return present
    if present.dtype.kind in "iu" and present[0] == 0 and present[-1] < k:
        return np.arange(k)
    refuse(
        f"y_true must show which label belongs to which of the {k} columns",
        f"the labels {_shown(present)}",
        "Pass classes=[…] in column order.",
        LabelError,
    )


def _positive_last(columns: NDArray[Any], k: int, pos_label: object) -> NDArray[Any]:
    """The classes with the positive label, where one was named, as code 1."""
    if pos_label is None:
        return columns
    if k > 2:
        refuse(
            "pos_label must be left out for more than two classes",
            plain(pos_label),
            "Use classes=[…] for column order.",
            LabelError,
        )
    if pos_label not in columns.tolist():
        refuse(
            "pos_label must be one of classes",
            f"{plain(pos_label)} beside {_shown(columns)}",
            "Pass one of these.",
            LabelError,
        )
    return columns if columns.tolist().index(pos_label) == 1 else columns[::-1]
