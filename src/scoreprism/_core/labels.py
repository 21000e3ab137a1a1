"""Labels of outcomes and groups, and which column of a law belongs to which label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import abbreviate, as_array, refuse, refuse_missing, require_rows, write_plain
from scoreprism._core.frames import unwrap
from scoreprism._core.simplex import ArrayLike, FloatArray, IntArray, n_classes
from scoreprism._spelling import mark
from scoreprism.exceptions import LabelError


def parse_labels(value: ArrayLike, name: str) -> NDArray[Any]:
    """One-dimensional sortable labels without missing entries."""
    labels = as_array(value, name)
    if labels.dtype.kind == "U" and isinstance(value, (list, tuple)) and not all(isinstance(v, str) for v in value):
        labels = np.array(value, dtype=object)  # numpy would have turned the numbers among them into text
    if labels.ndim == 0:
        refuse(
            f"{mark(name)} must hold one label per row", f"the single value {write_plain(labels[()])}", "Pass a list."
        )
    if labels.ndim != 1:
        remedy = (
            "Use .argmax(axis=1) for one-hot rows." if labels.ndim == 2 and labels.shape[1] > 1 else "Use .ravel()."
        )
        refuse(f"{mark(name)} must be one-dimensional", f"shape {labels.shape}", remedy)
    if labels.shape[0] == 0:
        refuse(f"{mark(name)} must not be empty", "0 rows", "Pass at least one row.")
    if labels.dtype.kind in "fmM" and (labels != labels).any():
        refuse_missing(name, labels != labels)
    if labels.dtype.kind == "M":
        labels = labels.astype("datetime64[us]")  # one resolution, so that equal times compare equal
    if labels.dtype.kind in "cV":
        refuse(f"{mark(name)} must hold sortable labels", f"dtype {labels.dtype}", "Use integers, booleans or strings.")
    return labels


def sort_key(label: Any) -> Any:
    """Sort key of labels, or of tuples of them: numbers first, then other types by name, None last."""
    if isinstance(label, tuple):
        return tuple(sort_key(part) for part in label)
    numeric = isinstance(label, (int, float))
    return (label is None, "" if numeric else type(label).__name__, 0 if label is None else label)


def code_labels(labels: NDArray[Any], name: str) -> tuple[NDArray[Any], IntArray]:
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
            f"{mark(name)} must hold labels of one sortable kind",
            f"a mix of {abbreviate(kinds)}",
            "Convert them to one type.",
            LabelError,
        )
    return values, inverse.astype(np.intp)


def parse_groups(value: ArrayLike | None, n: int, name: str = "groups") -> tuple[NDArray[Any], IntArray] | None:
    """Distinct group labels and the group code of every row."""
    if value is None:
        return None
    labels = parse_labels(value, name)
    require_rows(labels.shape[0], n, name, "y_true")
    return code_labels(labels, name)


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
    """Match labels with the columns of the laws; columns of frames that are named after labels are matched by name."""
    labels = parse_labels(y_true, "y_true")
    require_rows(labels.shape[0], laws[0].values.shape[0], "y_true", "y_proba")
    present, codes = code_labels(labels, "y_true")
    k = n_classes(laws[0].values)
    vector = any(law.values.ndim == 1 for law in laws)
    if present.size > k:
        remedy = "Pass one column per label."
        if vector:
            remedy = "Pass probabilities of shape (n, K), or `y_true` == label for one class against the rest."
        if present.dtype.kind == "f" and present.min() >= 0.0 and present.max() <= 1.0:
            remedy = "Are `y_true` and `y_proba` in each other's place?"
        refuse(
            f"`y_true` must have at most as many labels as the probabilities have classes ({k})",
            f"{present.size} labels: {_write_labels(present)}",
            remedy,
            LabelError,
        )
    columns = _order_classes(y_true, present, laws, pos_label, classes)
    known = set(columns.tolist())
    missing = [label for label in present.tolist() if label not in known]
    if missing:
        refuse(
            "`y_true` must only hold labels that the probabilities have a class for",
            f"{_write_labels(np.array(missing, dtype=present.dtype))} beside the classes {_write_labels(columns)}",
            "Correct the labels, `pos_label` or classes.",
            LabelError,
        )
    final = columns if pos_label is None else _put_positive_last(columns, k, pos_label)
    position = {label: code for code, label in enumerate(final.tolist())}
    recode = [position[label] for label in present.tolist()]
    if recode != list(range(len(recode))):
        codes = np.array(recode, dtype=np.intp)[codes]
    return Outcomes(codes, final, [_find_column_order(law, columns, final) for law in laws])


def _make_comparable(names: Iterable[object], labels: NDArray[Any]) -> list[object]:
    """Make names comparable with labels: 1, 1.0, True and "1" are the same where labels are numbers."""
    numeric = all(isinstance(label, (bool, int, float)) for label in labels.tolist())
    return [_read_number(name) if numeric else str(name) for name in names]


def _read_number(name: object) -> object:
    try:
        return float({"True": 1.0, "False": 0.0}.get(name, name) if isinstance(name, str) else name)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(name)


def _order_classes(
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
    named = _order_by_names(present, laws)
    positional = [law.name for law in laws if law.values.ndim == 2 and not _has_label_names(law, present)]
    if named is not None and not positional:
        return named[1]
    default = _order_unnamed(y_true, present, k, pos_label, positional)
    if named is not None and _make_comparable(named[1], present) != _make_comparable(default, present):
        refuse(
            "probabilities with and without column names must agree on the order of the classes",
            f"{_write_labels(named[1])} from {named[0]}, and no label names on {', '.join(positional)}",
            "Pass `classes`=[…], the labels in the order of the unnamed columns.",
            LabelError,
        )
    return default


def _order_unnamed(
    y_true: ArrayLike, present: NDArray[Any], k: int, pos_label: object, positional: Sequence[str]
) -> NDArray[Any]:
    """The order of columns without names: an ordered categorical's, else sorted."""
    categories = unwrap(y_true).categories
    if categories is not None and len(categories) == k:
        return np.array(categories, dtype=object)
    if pos_label is not None and k == 2:
        return _order_by_pos_label(present, pos_label, positional)
    return _guess_free_columns(present, k, 2)


def _has_label_names(law: GivenLaw, present: NDArray[Any]) -> bool:
    """Whether the columns of a law are named after the labels."""
    names = _make_comparable(law.columns or (), present)
    return set(_make_comparable(present.tolist(), present)) <= set(names) and len(set(names)) == n_classes(law.values)


def _order_by_names(present: NDArray[Any], laws: Sequence[GivenLaw]) -> tuple[str, NDArray[Any]] | None:
    """The first law whose columns are named after the labels, and the labels in that order."""
    by_key = dict(zip(_make_comparable(present.tolist(), present), present.tolist(), strict=True))
    for law in laws:
        if law.values.ndim == 2 and _has_label_names(law, present):
            keys = _make_comparable(law.columns or (), present)
            absent = [_convert_like(present, key) for key in keys]
            labels = [by_key.get(key, other) for key, other in zip(keys, absent, strict=True)]
            return law.name, np.array(labels, dtype=object)
    return None


def _convert_like(present: NDArray[Any], key: object) -> object:
    """Convert a column name to the type of the labels."""
    sample = present.tolist()[0]
    return type(sample)(key) if isinstance(sample, (bool, int, float)) and isinstance(key, float) else key


def _find_column_order(law: GivenLaw, columns: NDArray[Any], final: NDArray[Any]) -> list[int] | None:
    """Which column of a law belongs to each class; None if they are in place."""
    if law.values.ndim == 1 and law.columns is None:
        return None
    wanted = _make_comparable(final.tolist(), final)
    names = _make_comparable(law.columns or (), final)
    if law.values.ndim == 1:
        if len(names) == 1 and names[0] in wanted and names[0] != wanted[1]:
            refuse(
                f"one column of probabilities must be that of the positive label, {write_plain(final[1])}",
                f"{law.name} named {write_plain((law.columns or ('',))[0])}",
                "Pass the other column, or `pos_label`.",
                LabelError,
            )
        return None
    common = set(names) & set(wanted)
    if common and (common != set(wanted) or len(names) != len(wanted)):
        refuse(
            f"the columns of {mark(law.name)} must be named after all labels or none",
            f"the columns {[str(name) for name in law.columns or ()]} beside the labels {_write_labels(final)}",
            "Rename the columns, or pass .to_numpy().",
            LabelError,
        )
    have = names if common else _make_comparable(columns.tolist(), final)
    place = {label: column for column, label in enumerate(have)}
    order = [place[label] for label in wanted]
    return None if order == list(range(len(order))) else order


def _write_labels(labels: NDArray[Any]) -> str:
    values = [write_plain(v) for v in labels[:8]]
    return "[" + ", ".join(values) + (", …" if labels.size > 8 else "") + "]"


def _parse_classes(classes: ArrayLike, k: int) -> NDArray[Any]:
    columns = parse_labels(classes, "classes")
    if columns.shape[0] != k or len({str(label) for label in columns.tolist()}) != k:
        refuse(
            f"`classes` must name {k} different labels, one per column",
            _write_labels(columns),
            "List them in column order.",
            LabelError,
        )
    return columns


def _order_by_pos_label(present: NDArray[Any], pos_label: object, positional: Sequence[str]) -> NDArray[Any]:
    """Two classes in sorted order, one of which is `pos_label`."""
    if np.ndim(pos_label) != 0:  # type: ignore[arg-type]
        refuse(
            "`pos_label` must be a single label",
            write_plain(pos_label),
            "Use `classes`=[…] for the order of columns.",
            LabelError,
        )
    others = [label for label in present.tolist() if label != pos_label]
    if len(others) == 2:
        refuse(
            "`pos_label` must be one of the labels of `y_true`",
            f"{write_plain(pos_label)} beside {_write_labels(present)}",
            "Pass one of these.",
            LabelError,
        )
    standard = _find_standard_coding(present)
    other = others[0] if others else next((v for v in standard or () if v != pos_label), None)
    if other is None:  # one label only, and it is the positive one: the other class never occurred
        if positional:
            refuse(
                "`y_true` must show which label belongs to which of the 2 columns",
                f"the single label {_write_labels(present)}",
                "Pass `classes`=[…] in column order.",
                LabelError,
            )
        return np.array(
            [f"not {pos_label}" if isinstance(pos_label, str) else _make_placeholder(pos_label), pos_label],
            dtype=object,
        )
    try:
        return np.unique(np.array([other, pos_label], dtype=object))
    except TypeError:
        refuse(
            "`pos_label` must be of the same kind as the labels",
            f"{write_plain(pos_label)} beside {_write_labels(present)}",
            "Pass one of the labels.",
            LabelError,
        )


def _make_placeholder(label: object) -> object:
    """Make a placeholder for a class that does not occur."""
    return (not label) if isinstance(label, (bool, np.bool_)) else 0 if label != 0 else 1


def _find_standard_coding(present: NDArray[Any]) -> tuple[object, object] | None:
    """The coding, {0, 1}, {−1, 1} or booleans, whose positive class is conventional."""
    if present.dtype.kind == "b":
        return (False, True)
    if present.dtype.kind in "iuf" or (present.dtype == object and all(isinstance(v, (int, float)) for v in present)):
        for coding in ((0, 1), (-1, 1)):
            if set(present.tolist()) <= set(coding):
                return coding
    return None


def _guess_free_columns(present: NDArray[Any], k: int, ndim: int) -> NDArray[Any]:
    """Column labels where neither names nor options give them; refused where more than one order is possible."""
    if k == 2:
        standard = _find_standard_coding(present)
        if standard is not None:
            return np.array(standard)
        if ndim == 1:
            refuse(
                "`y_true` must show which label is the positive class of 1-D probabilities",
                f"the labels {_write_labels(present)}",
                f"Pass `pos_label`={write_plain(present[-1])} (or the other one).",
                LabelError,
            )
    if present.size == k:
        return present
    if not (present.dtype.kind in "iu" and present[0] == 0 and present[-1] < k):
        refuse(
            f"`y_true` must show which label belongs to which of the {k} columns",
            f"the labels {_write_labels(present)}",
            "Pass `classes`=[…] in column order.",
            LabelError,
        )
    return np.arange(k)


def _put_positive_last(columns: NDArray[Any], k: int, pos_label: object) -> NDArray[Any]:
    """The classes with the positive label as code 1."""
    if k > 2:
        refuse(
            "`pos_label` must be left out for more than two classes",
            write_plain(pos_label),
            "Use `classes`=[…] for column order.",
            LabelError,
        )
    if pos_label not in columns.tolist():
        refuse(
            "`pos_label` must be one of classes",
            f"{write_plain(pos_label)} beside {_write_labels(columns)}",
            "Pass one of these.",
            LabelError,
        )
    return columns if columns.tolist().index(pos_label) == 1 else columns[::-1]
