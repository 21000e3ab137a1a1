"""Reading several classes: a column of probabilities for each, checked and counted in one pass."""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from scoreprism._core.arrays import SUM_TOLERANCE
from scoreprism._core.checks import listed, plain, refuse
from scoreprism._core.simplex import FloatArray
from scoreprism._spelling import mark
from scoreprism.exceptions import LabelError
from scoreprism.scale._engines import fetched, plainly_named, wrap
from scoreprism.scale._groups import key_order
from scoreprism.scale._laws import clipped, columns_of, picked, total
from scoreprism.scale._passes import grouped
from scoreprism.scale._reading import MOST_WEIGHT, plain_label, refuse_empty, segment_labels, there
from scoreprism.scale._roles import Roles, hashed, number, period, require_columns, with_period

#: More folds than this are a column of something else: every fold has a model, every model is evaluated on every row.
MOST_FOLDS = 20
#: Values of the hash of a key that rows are drawn by.
DRAWS = 2**31 - 1
#: More classes than this have too many columns of second derivatives.
MOST_CLASSES = 100


@dataclass(frozen=True)
class ClassColumns:
    """Which column is what, where there is one of probabilities per class."""

    roles: Roles  # target, weights, segments, periods and folds; its score is the first column of S
    laws: dict[str, tuple[str, ...]]  # columns of each given level, in the order of the classes
    classes: tuple[Any, ...]  # labels in the order of the columns

    @property
    def k(self) -> int:
        """Number of classes."""
        return len(self.laws["S"])

    @property
    def columns(self) -> dict[str, str]:
        """Every column that is read, by what it is."""
        others = {role: name for role, name in self.roles.columns.items() if role != "score"}
        return {**others, **self.law_roles}

    @property
    def law_roles(self) -> dict[str, str]:
        """Columns of probabilities, by level and place."""
        called = {"S": "score", "Q": "q", "Π": "latent"}
        return {f"{called[level]}[{i}]": name for level, names in self.laws.items() for i, name in enumerate(names)}

    def renamed(self, names: Mapping[str, str]) -> ClassColumns:
        """The same where columns have other names."""
        laws = {level: tuple(names[name] for name in columns) for level, columns in self.laws.items()}
        return replace(self, roles=self.roles.renamed(names), laws=laws)


@dataclass(frozen=True)
class ClassRows:
    """Rows under our names: ``p{t}_{k}`` for law t and class k, ``y``, ``w``, ``fold``, ``by{i}``, ``time``."""

    frame: nw.LazyFrame[Any]  # the rows
    columns: ClassColumns  # what they were called, and their labels
    source: nw.LazyFrame[Any]  # the rows under their own names, for messages
    kinds: dict[str, nw.dtypes.DType]  # types of the columns, under their own names

    @property
    def k(self) -> int:
        """Number of classes."""
        return self.columns.k

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels whose law is given."""
        return tuple(self.columns.laws)

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.columns.roles.weight is not None

    @property
    def keys(self) -> list[str]:
        """Columns of segments and periods."""
        roles = self.columns.roles
        return [*(f"by{i}" for i in range(len(roles.by))), *(["time"] if roles.time is not None else [])]

    @property
    def law_columns(self) -> list[str]:
        """Columns of probabilities."""
        return [f"p{t}_{k}" for t in range(len(self.levels)) for k in range(self.k)]


def read_rows(frame: Any, columns: ClassColumns) -> ClassRows:
    """The columns that count, checked by name and type; nothing is read yet but, without `classes`, the labels."""
    kinds = dict(wrap(frame).collect_schema())
    checked = _check_columns(kinds, columns)
    lazy, names = plainly_named(frame)
    if not checked.classes:
        checked = replace(checked, classes=_labels(lazy, names[checked.roles.target], checked.laws["S"]))
    inner, schema = checked.renamed(names), dict(lazy.collect_schema())
    roles = inner.roles
    _check_labels(schema[roles.target], checked)
    chosen = {f"p{t}_{k}": number(name) for t, law in enumerate(inner.laws.values()) for k, name in enumerate(law)}
    chosen["y"] = _code(roles.target, checked.classes)
    if roles.weight is not None:
        chosen["w"] = number(roles.weight)
    chosen |= {f"by{i}": nw.col(name) for i, name in enumerate(roles.by)}
    if roles.time is not None:
        chosen["time"] = period(roles, lazy)
    if roles.fold is not None:
        fold = roles.fold
        chosen["fold"] = hashed(fold, schema[fold], roles.fold_hash) if roles.fold_hash else nw.col(fold)
        if roles.fold_hash:
            chosen["draw"] = hashed(fold, schema[fold], DRAWS)
    return ClassRows(lazy.select(**chosen), checked, lazy.select(target=nw.col(roles.target)), kinds)


def _code(target: str, classes: Sequence[Any]) -> nw.Expr:
    """The number of a label, −1 for what is none of them."""
    code = nw.lit(-1)
    for k, label in reversed(list(enumerate(classes))):
        code = nw.when(nw.col(target) == label).then(nw.lit(k)).otherwise(code)
    return code


# ── names, types and labels ─────────────────────────────────────────────────────────────────────────


def _check_columns(schema: dict[str, nw.dtypes.DType], columns: ClassColumns) -> ClassColumns:
    require_columns(schema, columns.columns, ("sample_weight", *columns.law_roles))
    grouping = {
        role: name for role, name in columns.columns.items() if role == "`cv_column` or `key`" or role[:2] == "by"
    }
    for role, name in grouping.items():
        if schema[name].is_temporal() or schema[name].is_nested():
            remedy = "Make a column of words or whole numbers; periods are passed as `time`=."
            refuse(
                f"{mark(role)} must hold words, whole numbers or booleans", f"{name!r} of type {schema[name]}", remedy
            )
    return replace(columns, roles=with_period(schema, columns.roles))


def _labels(lazy: nw.LazyFrame[Any], target: str, names: Sequence[str]) -> tuple[Any, ...]:
    """Labels in the order of the columns, where the names of the columns (or what differs in them) are the labels."""
    found = fetched(lazy.select(label=nw.col(target)).group_by("label").agg(nw.len().alias("n")).head(1000))["label"]
    labels = [plain_label(label) for label in found.tolist()]
    by_name = {str(label): label for label in labels if label is not None}
    prefix = os.path.commonprefix(list(names))  # noqa: RUF071 - names are no paths: letter by letter is meant
    for tried in (list(names), [name.removeprefix(prefix) for name in names]):
        if by_name and set(by_name) <= set(tried):
            sample = next(iter(by_name.values()))
            return tuple(by_name.get(name, _like(name, sample)) for name in tried)
    return refuse(
        "`classes` must give the labels in the order of the columns, unless columns are named after them",
        f"the labels {listed(sorted(by_name), 10)} beside the columns {listed(names, 10)}",
        "For example `classes`=['a', 'b', 'c'].",
        LabelError,
    )


def _like(name: str, sample: Any) -> Any:
    """The label of a class that does not occur, of the type of one that does."""
    try:
        return type(sample)(name)
    except (TypeError, ValueError):
        return name


def _check_labels(kind: nw.dtypes.DType, columns: ClassColumns) -> None:
    words = [isinstance(label, str) for label in columns.classes]
    if any(words) != all(words) or (kind.is_numeric() and words[0]) or (kind == nw.String and not words[0]):
        refuse(
            f"`classes` must be labels of column {columns.roles.target!r}",
            f"{listed(map(plain, columns.classes), 10)} for a column of type {kind}",
            "Write them as in the data.",
            LabelError,
        )


# ── the first pass ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Facts:
    """What one pass told of the rows, a line for each combination of segment, period, fold and class that occurs."""

    # ``y``, ``n``, ``w``, ``w2``; ``least``, the smallest positive probability, and ``zeros``, rows with a zero in S;
    # ``worst`` and ``best``, ends of p_y − max of the others; and, by name, sums that were asked for
    table: dict[str, FloatArray]
    segments: list[tuple[Any, ...]]  # labels of each line
    folds: list[Any]  # labels of each line
    absent: int  # rows of weight zero

    @property
    def n(self) -> int:
        """Number of rows, those of weight zero included."""
        return int(self.table["n"].sum()) + self.absent

    @property
    def fold_labels(self) -> list[Any]:
        """Distinct folds, in order."""
        return sorted(set(self.folds), key=key_order)

    def only(self, held: NDArray[np.bool_]) -> Facts:
        """Some of the lines."""
        places = np.flatnonzero(held)
        table = {name: column[places] for name, column in self.table.items()}
        return Facts(table, [self.segments[i] for i in places], [self.folds[i] for i in places], 0)


def valid(rows: ClassRows) -> nw.Expr:
    """Whether a row can be counted; null and NaN compare to nothing, or to more than everything."""
    fine = nw.col("y") >= 0
    for t in range(len(rows.levels)):
        law = columns_of(f"p{t}", rows.k)
        for p in law:
            fine = fine & (p >= 0.0) & (p <= 1.0)
        fine = fine & (total(law) >= 1.0 - SUM_TOLERANCE) & (total(law) <= 1.0 + SUM_TOLERANCE)
    if rows.weighted:
        fine = fine & (nw.col("w") >= 0.0) & (nw.col("w") <= MOST_WEIGHT)
    if rows.columns.roles.fold is not None:
        fine = fine & _has_fold(rows)
    return fine


def _has_fold(rows: ClassRows) -> nw.Expr:
    roles = rows.columns.roles
    return there("fold", rows.kinds[roles.fold or ""] if roles.fold_hash is None else nw.Int64())


def find_facts(rows: ClassRows, sums: Mapping[str, nw.Expr] | None = None, clip: float | None = None) -> Facts:
    """Count and check all rows in one pass; `sums` are further columns to be summed, S being clipped before."""
    table = _counted(rows, dict(sums or {}), clip)
    bad = table["state"] == -1
    if bad.any():
        _explain(rows, int(table["n"].sum()))
    absent = table["state"] == 0
    gone = int(table["n"][absent].sum())
    kept = {name: column[~absent] for name, column in table.items()}
    if not kept["n"].size:
        refuse_empty(gone)
    segments = segment_labels(kept, rows.keys, rows.columns.roles.every)
    has_fold = rows.columns.roles.fold is not None
    folds = [plain_label(fold) for fold in kept["fold"].tolist()] if has_fold else [None] * kept["n"].size
    keys = {*rows.keys, "fold", "state"}
    numbers = {name: column.astype(np.float64) for name, column in kept.items() if name not in keys}
    if not rows.weighted:
        numbers |= {"w": numbers["n"], "w2": numbers["n"]}
    return Facts(numbers, segments, folds, gone)


def _counted(rows: ClassRows, sums: dict[str, nw.Expr], clip: float | None) -> dict[str, NDArray[Any]]:
    """Rows in their groups; those that cannot be counted hold harmless numbers."""
    counts = nw.when(nw.col("w") > 0.0).then(nw.lit(1)).otherwise(nw.lit(0)) if rows.weighted else nw.lit(1)
    held = nw.col("state") == 1
    calm = {name: nw.when(held).then(nw.col(name)).otherwise(nw.lit(1.0 / rows.k)) for name in rows.law_columns}
    if rows.weighted:
        calm["w"] = nw.when(held).then(nw.col("w")).otherwise(nw.lit(0.0))
    more = {**sums, **_described(rows)} | ({"w2": nw.col("w") * nw.col("w")} if rows.weighted else {})

    def build(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        frame = frame.with_columns(state=nw.when(valid(rows)).then(counts).otherwise(nw.lit(-1))).with_columns(**calm)
        return (frame if clip is None else clipped(frame, {"p0": clip}, rows.k)).with_columns(**more)

    how = {"least": "min", "zeros": "sum", "worst": "min", "best": "max", **dict.fromkeys(sums, "sum")}
    how |= {"w": "sum", "w2": "sum"} if rows.weighted else {}
    fold = ["fold"] if rows.columns.roles.fold is not None else []
    return grouped(rows.frame, build, ["state", "y", *rows.keys, *fold], how)


def _described(rows: ClassRows) -> dict[str, nw.Expr]:
    """The smallest positive probability of a row, whether it has a zero, and how far what happened is in front."""
    p = columns_of("p0", rows.k)
    positive = [nw.when(one > 0.0).then(one).otherwise(nw.lit(2.0)) for one in p]
    others = [nw.when(nw.col("y") == k).then(nw.lit(-1.0)).otherwise(one) for k, one in enumerate(p)]
    ahead = picked(p) - nw.max_horizontal(*others)
    none = nw.min_horizontal(*p) <= 0.0
    return {"least": nw.min_horizontal(*positive), "zeros": none.cast(nw.Int64), "worst": ahead, "best": ahead}


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────


def _explain(rows: ClassRows, count: int) -> NoReturn:
    """Say what is wrong with the first thing that is wrong; further queries, on the way to an error."""
    columns = rows.columns
    for t, (level, names) in enumerate(columns.laws.items()):
        for k, name in enumerate(names):
            p = nw.col("v")
            _refuse_some(rows, count, f"p{t}_{k}", (p >= 0.0) & (p <= 1.0), f"column {name!r} of {level}")
        _refuse_sums(rows, count, t, level)
    if rows.weighted:
        w = nw.col("v")
        _refuse_some(rows, count, "w", (w >= 0.0) & (w <= MOST_WEIGHT), f"`sample_weight` {columns.roles.weight!r}")
    gaps = 0 if columns.roles.fold is None else _count(rows.frame.filter(~_has_fold(rows)))
    if gaps:
        found = f"{gaps:,} of {count:,} rows without one"
        refuse(f"`cv_column` or `key` {columns.roles.fold!r} must not be missing", found, "Fill it.")
    wrong = rows.source.with_columns(y=_code("target", columns.classes)).filter(nw.col("y") < 0)
    shown = [plain_label(value) for value in fetched(wrong.select("target").head(1000))["target"].tolist()]
    refuse(
        f"`target` {columns.roles.target!r} must hold one of the classes {listed(map(plain, columns.classes), 10)}",
        f"{listed(dict.fromkeys(map(plain, shown)))} in {_count(wrong):,} of {count:,} rows",
        "Drop these rows, or pass a column of probabilities for each label.",
        LabelError,
    )


def _refuse_some(rows: ClassRows, count: int, column: str, holds: nw.Expr, what: str) -> None:
    fine = nw.when(holds).then(nw.lit(1)).otherwise(nw.lit(0))
    wrong = rows.frame.select(v=nw.col(column)).with_columns(fine=fine).filter(nw.col("fine") == 0)
    sample = fetched(wrong.select("v").head(1000))["v"]
    if not sample.size:
        return
    numbers = np.array([np.nan if value is None else float(value) for value in sample.tolist()])
    shown = [f"{value:.6g}" for value in numbers[~np.isnan(numbers)]]
    found = f"{listed(dict.fromkeys(shown))} and the like" if shown else "missing or NaN"
    if column == "w":
        rule = f"{what} must be from 0 to {MOST_WEIGHT:.0e}, whose fourth power can be summed"
        remedy = "Drop these rows, or multiply all weights by the same number."
    else:
        rule = f"{what} must hold probabilities from 0 to 1"
        percent = "If these are percentages, divide by 100; logits go through a softmax first."
        remedy = percent if shown else "Drop these rows, or fill them."
    refuse(rule, f"{found} in {_count(wrong):,} of {count:,} rows", remedy)


def _refuse_sums(rows: ClassRows, count: int, t: int, level: str) -> None:
    sums = rows.frame.select(v=total(columns_of(f"p{t}", rows.k)))
    off = sums.filter((nw.col("v") < 1.0 - SUM_TOLERANCE) | (nw.col("v") > 1.0 + SUM_TOLERANCE))
    sample = fetched(off.head(1))["v"]
    if sample.size:
        refuse(
            f"the columns of {level} must sum to 1 within {SUM_TOLERANCE:g} in every row",
            f"{plain(float(sample[0]))} and the like in {_count(off):,} of {count:,} rows",
            "Divide by the sum if that is what you mean; logits go through a softmax first.",
        )


def _count(frame: nw.LazyFrame[Any]) -> int:
    return int(fetched(frame.select(n=nw.len()))["n"][0])
