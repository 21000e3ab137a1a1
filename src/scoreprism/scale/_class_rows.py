"""Reading several classes: a column of probabilities for each, checked and counted in one pass."""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import SUM_TOLERANCE, abbreviate, refuse, write_plain
from scoreprism._core.labels import sort_key
from scoreprism._core.simplex import FloatArray
from scoreprism._spelling import mark
from scoreprism.exceptions import LabelError
from scoreprism.scale._column_settings import (
    ColumnRoles,
    Schema,
    are_keys_valid,
    cast_number,
    hash_key,
    parse_period,
    read_label,
    read_segments,
    require_columns,
    select_keys,
)
from scoreprism.scale._engine_pass import count_wrong, group_rows, refuse_empty, refuse_missing_folds, refuse_outside
from scoreprism.scale._engines import fetch, read_schema, rename_columns, wrap
from scoreprism.scale._expressions import add_columns, clip_columns, list_columns, pick

#: Most folds: every fold has a model, and every model is evaluated on every row.
MOST_MODELS = 20
#: Number of hash values that rows are drawn by.
DRAWS = 2**31 - 1


@dataclass(frozen=True)
class ClassRows:
    """Rows under our names: ``p{t}_{k}`` for law t and class k, ``y``, and those of `select_keys`."""

    frame: nw.LazyFrame[Any]  # the rows
    roles: ColumnRoles  # original names of the columns, and labels
    source: nw.LazyFrame[Any]  # the target under its own name, for messages
    schema: Schema  # types of the columns, under their own names

    @property
    def k(self) -> int:
        """Number of classes."""
        return len(self.roles.laws["S"])

    @property
    def law_columns(self) -> list[str]:
        """Columns of probabilities."""
        return [f"p{t}_{k}" for t in range(len(self.roles.levels)) for k in range(self.k)]


def read_rows(frame: Any, roles: ColumnRoles) -> ClassRows:
    """Select and check the columns that are used; only labels are read, and only without `classes`."""
    schema = read_schema(wrap(frame))
    checked = _check_columns(schema, roles)
    lazy, names = rename_columns(frame)
    if not checked.classes:
        checked = replace(checked, classes=_find_labels(lazy, names[checked.target], checked.laws["S"]))
    inner, kinds = checked.rename(names), lazy.collect_schema()
    _check_labels(kinds[inner.target], checked)
    chosen = {f"p{t}_{k}": cast_number(name) for t, law in enumerate(inner.laws.values()) for k, name in enumerate(law)}
    chosen |= {"y": code_classes(inner.target, checked.classes), **select_keys(inner, lazy)}
    if inner.fold is not None and inner.fold_hash:
        chosen["draw"] = hash_key(inner.fold, kinds[inner.fold], DRAWS)
    return ClassRows(lazy.select(**chosen), checked, lazy.select(target=nw.col(inner.target)), schema)


def code_classes(column: str, classes: Sequence[Any]) -> nw.Expr:
    """Code a label by its place, −1 for others."""
    code = nw.lit(-1)
    for k, label in reversed(list(enumerate(classes))):
        code = nw.when(nw.col(column) == label).then(nw.lit(k)).otherwise(code)
    return code


# ── names, types and labels ─────────────────────────────────────────────────────────────────────────


def _check_columns(schema: Schema, roles: ColumnRoles) -> ColumnRoles:
    require_columns(schema, roles)
    for role, name in roles.label_columns.items():
        if role != "time" and (schema[name].is_temporal() or schema[name].is_nested()):
            remedy = "Make a column of words or whole numbers; periods are passed as `time`=."
            refuse(
                f"{mark(role)} must hold words, whole numbers or booleans", f"{name!r} of type {schema[name]}", remedy
            )
    return parse_period(schema, roles)


def _find_labels(lazy: nw.LazyFrame[Any], target: str, names: Sequence[str]) -> tuple[Any, ...]:
    """Find the labels in column order, if columns are named after them, with or without a common prefix."""
    column = fetch(lazy.select(label=nw.col(target)).group_by("label").agg(nw.len().alias("n")).head(1000))["label"]
    labels = [read_label(label) for label in column.tolist()]
    by_name = {str(label): label for label in labels if label is not None}
    prefix = os.path.commonprefix(list(names))  # noqa: RUF071 - by letters, since names are not paths
    for tried in (list(names), [name.removeprefix(prefix) for name in names]):
        if by_name and set(by_name) <= set(tried):
            sample = next(iter(by_name.values()))
            return tuple(by_name.get(name, _convert_label(name, sample)) for name in tried)
    return refuse(
        "`classes` must give the labels in the order of the columns, unless columns are named after them",
        f"the labels {abbreviate(sorted(by_name), 10)} beside the columns {abbreviate(names, 10)}",
        "For example `classes`=['a', 'b', 'c'].",
        LabelError,
    )


def _convert_label(name: str, sample: Any) -> Any:
    """The label of a class without rows, in the type of the others."""
    try:
        return type(sample)(name)
    except (TypeError, ValueError):
        return name


def _check_labels(kind: nw.dtypes.DType, roles: ColumnRoles) -> None:
    words = [isinstance(label, str) for label in roles.classes]
    if any(words) != all(words) or (kind.is_numeric() and words[0]) or (kind == nw.String and not words[0]):
        refuse(
            f"`classes` must be labels of column {roles.target!r}",
            f"{abbreviate(map(write_plain, roles.classes), 10)} for a column of type {kind}",
            "Write them as in the data.",
            LabelError,
        )


# ── the first pass ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Facts:
    """Facts from one pass over the rows, a line for each segment, period, fold and class that occur together."""

    # ``y``, ``n``, ``w``, ``w2``; ``least``, the smallest positive probability, and ``zeros``, rows with a zero in S;
    # ``worst`` and ``best``, ends of p_y − max of the others; and further sums, by name
    table: dict[str, FloatArray]
    segments: list[tuple[Any, ...]]  # labels of each line
    folds: list[Any]  # labels of each line
    absent: int  # rows of weight zero

    @property
    def n(self) -> int:
        """Number of rows, those of weight zero included."""
        return int(self.table["n"].sum()) + self.absent

    @property
    def counts(self) -> dict[str, Any]:
        """Fields of a `ClassDecomposition` that concern all rows."""
        return {"_total": float(self.table["w"].sum()), "_held": int(self.table["n"].sum()), "rows_in_all": self.n}

    @property
    def fold_labels(self) -> list[Any]:
        """Distinct folds, in order."""
        return sorted(set(self.folds), key=sort_key)

    def take(self, mask: NDArray[np.bool_]) -> Facts:
        """Some of the lines."""
        places = np.flatnonzero(mask)
        table = {name: column[places] for name, column in self.table.items()}
        return Facts(table, [self.segments[i] for i in places], [self.folds[i] for i in places], 0)


def _is_valid(rows: ClassRows) -> nw.Expr:
    """Whether a row can be counted; null and NaN fail one of the comparisons."""
    fine = nw.col("y") >= 0
    for t in range(len(rows.roles.levels)):
        law = list_columns(f"p{t}", rows.k)
        for p in law:
            fine = fine & (p >= 0.0) & (p <= 1.0)
        fine = fine & (add_columns(law) >= 1.0 - SUM_TOLERANCE) & (add_columns(law) <= 1.0 + SUM_TOLERANCE)
    return are_keys_valid(fine, rows.roles, rows.schema)


def find_facts(rows: ClassRows, sums: Mapping[str, nw.Expr] | None = None, clip: float | None = None) -> Facts:
    """Count and check all rows in one pass; `sums` are further columns to be summed, S being clipped before."""
    table = _count_rows(rows, dict(sums or {}), clip)
    if (table["state"] == -1).any():
        _explain(rows, int(table["n"].sum()))
    is_absent = table["state"] == 0
    absent = int(table["n"][is_absent].sum())
    present = {name: column[~is_absent] for name, column in table.items()}
    if not present["n"].size:
        refuse_empty(absent)
    segments = read_segments(present, rows.roles.key_names, rows.roles.period)
    has_fold = rows.roles.fold is not None
    folds = [read_label(fold) for fold in present["fold"].tolist()] if has_fold else [None] * present["n"].size
    keys = {*rows.roles.key_names, "fold", "state"}
    numbers = {name: column.astype(np.float64) for name, column in present.items() if name not in keys}
    if not rows.roles.has_weights:
        numbers |= {"w": numbers["n"], "w2": numbers["n"]}
    return Facts(numbers, segments, folds, absent)


def _count_rows(rows: ClassRows, sums: dict[str, nw.Expr], clip: float | None) -> dict[str, NDArray[Any]]:
    """Count rows by group; bad rows get harmless numbers."""
    counts = nw.when(nw.col("w") > 0.0).then(nw.lit(1)).otherwise(nw.lit(0)) if rows.roles.has_weights else nw.lit(1)
    is_held = nw.col("state") == 1
    calm = {name: nw.when(is_held).then(nw.col(name)).otherwise(nw.lit(1.0 / rows.k)) for name in rows.law_columns}
    if rows.roles.has_weights:
        calm["w"] = nw.when(is_held).then(nw.col("w")).otherwise(nw.lit(0.0))
    more = {**sums, **_describe_rows(rows)} | ({"w2": nw.col("w") * nw.col("w")} if rows.roles.has_weights else {})

    def build(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        state = nw.when(_is_valid(rows)).then(counts).otherwise(nw.lit(-1))
        frame = frame.with_columns(state=state).with_columns(**calm)
        return (frame if clip is None else clip_columns(frame, {"p0": clip}, rows.k)).with_columns(**more)

    how = {"least": "min", "zeros": "sum", "worst": "min", "best": "max", **dict.fromkeys(sums, "sum")}
    how |= {"w": "sum", "w2": "sum"} if rows.roles.has_weights else {}
    fold = ["fold"] if rows.roles.fold is not None else []
    return group_rows(rows.frame, build, ["state", "y", *rows.roles.key_names, *fold], how)


def _describe_rows(rows: ClassRows) -> dict[str, nw.Expr]:
    """Smallest positive probability of a row, whether it has a zero, and the lead of the outcome over other classes."""
    p = list_columns("p0", rows.k)
    positive = [nw.when(one > 0.0).then(one).otherwise(nw.lit(2.0)) for one in p]
    others = [nw.when(nw.col("y") == k).then(nw.lit(-1.0)).otherwise(one) for k, one in enumerate(p)]
    ahead = pick(p) - nw.max_horizontal(*others)
    none = nw.min_horizontal(*p) <= 0.0
    return {"least": nw.min_horizontal(*positive), "zeros": none.cast(nw.Int64), "worst": ahead, "best": ahead}


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────


def _explain(rows: ClassRows, count: int) -> NoReturn:
    """Refuse with the first error found by further queries."""
    roles = rows.roles
    columns = dict(zip(roles.law_columns.items(), rows.law_columns, strict=True))
    columns |= {("sample_weight", roles.sample_weight): "w"} if roles.sample_weight is not None else {}
    for (role, name), column in columns.items():
        refuse_outside(rows.frame.select(v=nw.col(column)), role, name, count)
    for t, level in enumerate(roles.levels):
        _refuse_sums(rows, count, t, level)
    if roles.fold is not None:
        kind = rows.schema[roles.fold] if roles.fold_hash is None else nw.Int64()
        refuse_missing_folds(rows.frame.select(v=nw.col("fold")), kind, roles, count)
    labels = rows.source.select(v=nw.col("target"), y=code_classes("target", roles.classes))
    wrong, examples = count_wrong(labels, nw.col("y") >= 0)
    refuse(
        f"`target` {roles.target!r} must hold one of the classes {abbreviate(map(write_plain, roles.classes), 10)}",
        f"{abbreviate(examples)} in {wrong:,} of {count:,} rows",
        "Drop these rows, or pass a column of probabilities for each label.",
        LabelError,
    )


def _refuse_sums(rows: ClassRows, count: int, t: int, level: str) -> None:
    value = nw.col("v")
    sums = rows.frame.select(v=add_columns(list_columns(f"p{t}", rows.k)))
    off, examples = count_wrong(sums, (value >= 1.0 - SUM_TOLERANCE) & (value <= 1.0 + SUM_TOLERANCE))
    if off:
        refuse(
            f"the columns of {level} must sum to 1 within {SUM_TOLERANCE:g} in every row",
            f"{examples[0]} and the like in {off:,} of {count:,} rows",
            "Divide by the sum if that is what you mean; logits go through a softmax first.",
        )
