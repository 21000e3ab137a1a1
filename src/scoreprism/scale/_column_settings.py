"""The roles of columns, the settings of sums, and the expressions that read columns in any engine."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Self, TypeVar

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import abbreviate, parse_choice, parse_count, refuse, write_plain
from scoreprism._spelling import mark
from scoreprism.exceptions import LabelError
from scoreprism.losses import LOSSES, ProperLoss, get_loss

#: Lengths of a period; each follows from parts of a date, which every engine has.
PERIODS = ("day", "week", "month", "quarter", "year")
#: Larger weights have fourth powers, which the skewness of sums needs, that overflow when summed.
MOST_WEIGHT = 1e70
#: Most folds; more would only take longer.
MOST_FOLDS = 100

Schema = Mapping[str, nw.dtypes.DType]


@dataclass(frozen=True, kw_only=True)
class ColumnRoles:
    """The role of each column."""

    target: str
    laws: dict[str, tuple[str, ...]]  # columns of each given level: one for P(Y = 1), or one for each class
    classes: tuple[Any, ...] = ()  # labels in column order, where there is a column for each class
    sample_weight: str | None = None
    segments: tuple[str, ...] = ()
    time: str | None = None
    period: str | None = None  # one of `PERIODS`, where `time` holds dates
    fold: str | None = None
    # number of folds that the column `fold` is hashed to; None if it holds folds
    fold_hash: int | None = None
    pos_label: Any = None  # positive class of a single score

    @property
    def score(self) -> str:
        """The column of scores, or the first of them."""
        return self.laws["S"][0]

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels with given probabilities."""
        return tuple(self.laws)

    @property
    def has_weights(self) -> bool:
        """Whether rows have weights."""
        return self.sample_weight is not None

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns of segments, then that of periods."""
        return (*self.segments, *([self.time] if self.time is not None else []))

    @property
    def key_names(self) -> list[str]:
        """Their names in the frames of `select_keys`."""
        return [*(f"by{i}" for i in range(len(self.segments))), *(["time"] if self.time is not None else [])]

    @property
    def parts(self) -> dict[str, slice]:
        """The places of segments and of periods in `keys`, if there are any."""
        places = {"segments": slice(0, len(self.segments)), "periods": slice(len(self.segments), len(self.keys))}
        return {kind: place for kind, place in places.items() if place.start < place.stop}

    @property
    def fold_role(self) -> str:
        """The argument that named the column of folds."""
        return "fold_column" if self.fold_hash is None else "fold_key"

    @property
    def label_columns(self) -> dict[str, str]:
        """Columns of segments, periods and folds, by role."""
        return {role: name for role, name in self.columns.items() if role.startswith(("segments", "time", "fold"))}

    @property
    def law_columns(self) -> dict[str, str]:
        """Columns of probabilities, by role."""
        called = {"S": "score", "Q": "q", "Π": "latent"}
        return {
            called[level] if len(names) == 1 else f"{called[level]}[{i}]": name
            for level, names in self.laws.items()
            for i, name in enumerate(names)
        }

    @property
    def columns(self) -> dict[str, str]:
        """All columns that are read, by role."""
        rest = {"sample_weight": self.sample_weight, "time": self.time, self.fold_role: self.fold}
        several = len(self.segments) > 1
        segments = {f"segments[{i}]" if several else "segments": name for i, name in enumerate(self.segments)}
        present = {role: name for role, name in rest.items() if name is not None}
        return {"target": self.target, **self.law_columns, **present, **segments}

    def rename(self, names: Mapping[str, str]) -> Self:
        """The same roles for renamed columns."""
        single = ("target", "sample_weight", "time", "fold")
        changed: dict[str, Any] = {role: names.get(getattr(self, role), getattr(self, role)) for role in single}
        laws = {level: tuple(names[name] for name in columns) for level, columns in self.laws.items()}
        return replace(self, **changed, laws=laws, segments=tuple(names[name] for name in self.segments))


Roles = TypeVar("Roles", bound=ColumnRoles)

#: Settings that are written to JSON unchanged.
_UNCHANGED = ("cells", "clip", "sample_weight", "time", "period", "fold", "fold_hash", "pos_label")


@dataclass(frozen=True, kw_only=True)
class Settings(ColumnRoles):
    """Settings that sums must share to be added: the columns that were read, the cells, the losses."""

    losses: tuple[ProperLoss, ...]
    cells: int
    clip: float | None = None

    def _facts(self) -> dict[str, Any]:
        laws = tuple(name for names in self.laws.values() for name in names)
        first = {"target": self.target, "score": self.score, "levels": self.levels, "laws": laws}
        rest = (*_UNCHANGED, "losses", "segments")
        return first | {name: getattr(self, name) for name in rest}

    def require_like(self, other: Settings) -> None:
        """Refuse settings whose sums cannot be added to these."""
        theirs = other._facts()
        for name, own in self._facts().items():
            if own != theirs[name]:
                got = f"{own!s} and {theirs[name]!s}"
                refuse(f"sums must have the same {name} to be added", got, "Add like to like.")

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain objects."""
        losses = [{"name": loss.name, "parameters": loss.parameters} for loss in self.losses]
        return self._facts() | {"losses": losses}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Settings:
        """Read what `to_dict` wrote."""
        losses = tuple(get_loss(loss["name"], **loss["parameters"]) for loss in data["losses"])
        laws: dict[str, tuple[str, ...]] = {
            level: (name,) for level, name in zip(data["levels"], data["laws"], strict=True)
        }
        if laws["S"] != (data["score"],):
            raise ValueError("another score than the law S")
        unchanged = {name: data[name] for name in ("target", *_UNCHANGED)}
        return cls(laws=laws, losses=losses, segments=tuple(data["segments"]), **unchanged)


def has_name(loss: ProperLoss) -> bool:
    """Whether a loss can be written to JSON by its name."""
    return LOSSES.get(loss.name) is type(loss)


# ── parsing ────────────────────────────────────────────────────────────────────────────────────────


def parse_roles(laws: Mapping[str, tuple[str, ...]], **options: Any) -> ColumnRoles:
    """Parse the roles of columns from the arguments of `scale.decompose`; `laws` are the columns of each level."""
    fold, fold_hash = _parse_folds(options["cv"], options["fold_column"], options["fold_key"])
    if "Π" in laws and "Q" not in laws:
        refuse("`latent` must stand above `q`", "latent alone", "Pass `q` as well, or `latent` as `q`.")
    label = options.get("pos_label")
    return ColumnRoles(
        target=options["target"],
        laws=dict(laws),
        classes=options.get("classes", ()),
        sample_weight=options["sample_weight"],
        segments=_parse_segments(options["segments"]),
        time=options["time"],
        period=options["period"],
        fold=fold,
        fold_hash=fold_hash,
        pos_label=label.item() if isinstance(label, np.generic) else label,
    )


def parse_count_of_folds(cv: object) -> int:
    """Parse the number of folds."""
    count = parse_count(cv, "cv", 2)
    if count > MOST_FOLDS:
        refuse(f"`cv` must be at most {MOST_FOLDS} folds", f"{count:,}", "The default, 5, is enough for many rows.")
    return count


def _parse_folds(cv: object, fold_column: str | None, fold_key: str | None) -> tuple[str | None, int | None]:
    """Parse the column of folds, and the number of folds that it is hashed to (None if it holds folds)."""
    if fold_column is not None and fold_key is not None:
        refuse("folds must come from `fold_column` or `fold_key`", "both", "Leave one of them out.")
    folds = parse_count_of_folds(cv)
    return (fold_column, None) if fold_key is None else (fold_key, folds)


def _parse_segments(segments: object) -> tuple[str, ...]:
    """Parse the names of segment columns."""
    if segments is None:
        return ()
    names = (segments,) if isinstance(segments, str) else segments
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
        refuse("`segments` must name one or more columns", write_plain(segments), "For example 'region'.")
    if len(set(names)) < len(names):
        refuse("`segments` must name each column once", abbreviate(names), "Leave the repeated one out.")
    return tuple(names)


# ── checks of columns ───────────────────────────────────────────────────────────────────────────────


#: Types whose values cannot be labels.
_NO_LABELS = (nw.Binary, nw.Duration, nw.Object)


def check_columns(schema: Schema, roles: Roles) -> Roles:
    """Refuse missing columns and types that do not fit their roles; return the roles with the period."""
    require_columns(schema, roles)
    for role, name in roles.label_columns.items():
        if schema[name].is_nested() or schema[name] in _NO_LABELS:
            refuse(f"{mark(role)} must hold labels", f"column {name!r} of type {schema[name]}", "Name another column.")
    _check_target(schema[roles.target], roles)
    return parse_period(schema, roles)


def require_column(schema: Schema, role: str, name: object, *, numeric: bool) -> None:
    """Refuse a column that is missing, or that is not numeric."""
    known = f"There are {abbreviate(schema, 20)}."
    if not isinstance(name, str):
        refuse(f"{mark(role)} must be the name of a column", write_plain(name)[:80], known)
    if name not in schema:
        near = difflib.get_close_matches(name, schema, 3, 0.6)
        hint = f"Did you mean {', '.join(map(repr, near))}? " if near else ""
        refuse(f"{mark(role)} must name a column of the data", repr(name), f"{hint}{known}")
    if numeric and not schema[name].is_numeric():
        is_boolean = schema[name] == nw.Boolean and role != "sample_weight"
        remedy = "Pass a probability." if is_boolean else "Cast it to a number first."
        refuse(f"{mark(role)} must hold numbers", f"column {name!r} of type {schema[name]}", remedy)


def require_columns(schema: Schema, roles: ColumnRoles) -> None:
    """Refuse missing columns, probabilities and weights that are not numeric, and columns with two roles."""
    columns = roles.columns
    for role, name in columns.items():
        require_column(schema, role, name, numeric=role == "sample_weight" or role in roles.law_columns)
    names = list(columns.values())
    shared = [name for name in names if names.count(name) > 1]
    if shared:
        refuse("every column must have one role", f"{shared[0]!r} in several", "Name another column.")


@dataclass
class Agreement:
    """Types and labels on which the files of one call must agree."""

    kinds: dict[str, str] = field(default_factory=dict)  # kind of values in each column of labels
    others: set[Any] = field(default_factory=set)  # labels of the target other than the event

    def copy(self) -> Agreement:
        """A copy, to which a failed read can return."""
        return Agreement(dict(self.kinds), set(self.others))

    def require_alike(self, schema: Schema, roles: ColumnRoles) -> None:
        """Refuse labels that are numbers in one file and text in another: they would be different segments."""
        labels = [name for name in (*roles.segments, roles.time, roles.fold) if name is not None]
        labels += [roles.target] if roles.pos_label is not None else []
        for name in labels:
            kind = _name_kind(schema[name])
            expected = self.kinds.setdefault(name, kind)
            if kind != expected:
                refuse(
                    "a column must have the same type in all files",
                    f"{name!r} with {expected} in some and {kind} in others",
                    "Cast it when the files are written, or pass a frame.",
                )

    def require_two(self, labels: Iterable[Any], roles: ColumnRoles) -> None:
        """Refuse a target with more than one label besides the event."""
        self.others |= set(labels)
        if len(self.others) > 1:
            event = 1 if roles.pos_label is None else roles.pos_label
            others = sorted(self.others, key=str)
            refuse(
                f"`target` {roles.target!r} must hold two labels",
                abbreviate([write_plain(event), *(write_plain(label) for label in others)]),
                "Filter the rows, or make a column of 0 and 1.",
                LabelError,
            )


def _name_kind(kind: nw.dtypes.DType) -> str:
    """Name a type for readers."""
    if kind.is_numeric():
        return "numbers"
    if kind == nw.Boolean:
        return "booleans"
    return "dates" if kind in (nw.Date, nw.Datetime) else "words"


def _check_target(kind: nw.dtypes.DType, roles: ColumnRoles) -> None:
    pos_label = roles.pos_label
    if kind == nw.Boolean and pos_label is not None and (isinstance(pos_label, str) or pos_label not in (0, 1)):
        refuse(
            f"`pos_label` must be a label of column {roles.target!r}",
            f"{pos_label!r} for a column of booleans",
            "Pass True or False.",
        )
    if kind == nw.Boolean or (kind.is_numeric() and pos_label is None):
        return
    if pos_label is None:
        refuse(
            "`pos_label` must name the positive class, unless labels are 0 and 1, −1 and 1, or booleans",
            f"a target of type {kind}",
            "For example `pos_label`='yes'.",
        )
    if isinstance(pos_label, str) == kind.is_numeric():
        refuse(
            f"`pos_label` must be a label of column {roles.target!r}",
            f"{pos_label!r} for a column of type {kind}",
            "Write it as in the data.",
        )


def parse_period(schema: Schema, roles: Roles) -> Roles:
    """Parse the length of a period: a month by default for dates, none for other columns."""
    if roles.time is None:
        if roles.period is not None:
            refuse("`period` must come with `time`", f"period={roles.period!r} alone", "Pass `time`= as well.")
        return roles
    kind = schema[roles.time]
    if kind in (nw.Date, nw.Datetime):
        return replace(roles, period=parse_choice(roles.period or "month", PERIODS, "period"))
    if roles.period is not None:
        refuse("`period` must come with a column of dates", f"{roles.time!r} of type {kind}", "Leave `period` out.")
    if kind.is_float() or kind == nw.Unknown:
        refuse("`time` must hold periods or dates", f"{roles.time!r} of type {kind}", "Make a column of periods.")
    return roles


# ── expressions ─────────────────────────────────────────────────────────────────────────────────────

#: Code of a label that is not an outcome.
_NO_OUTCOME = -2


def cast_number(name: str) -> nw.Expr:
    """Cast a column to double precision."""
    return nw.col(name).cast(nw.Float64)


def select_keys(roles: ColumnRoles, frame: nw.LazyFrame[Any]) -> dict[str, nw.Expr]:
    """Select weight, segments, period and fold under our own names, since users' names may be anything."""
    schema = frame.collect_schema()
    columns = {} if roles.sample_weight is None else {"w": cast_number(roles.sample_weight)}
    columns |= {f"by{i}": nw.col(name) for i, name in enumerate(roles.segments)}
    if roles.time is not None:
        columns["time"] = _code_period(roles.time, roles.period, schema[roles.time], frame.implementation)
    if roles.fold is not None:
        hashes = roles.fold_hash
        columns["fold"] = nw.col(roles.fold) if hashes is None else hash_key(roles.fold, schema[roles.fold], hashes)
    return columns


def are_keys_valid(fine: nw.Expr, roles: ColumnRoles, schema: Schema) -> nw.Expr:
    """Whether `fine` holds, the weight of a row can be summed and its fold is present; on columns of `select_keys`."""
    if roles.sample_weight is not None:
        fine = fine & (nw.col("w") >= 0.0) & (nw.col("w") <= MOST_WEIGHT)
    if roles.fold is not None:
        fine = fine & is_present("fold", schema[roles.fold] if roles.fold_hash is None else nw.Int64())
    return fine


def is_present(name: str, kind: nw.dtypes.DType) -> nw.Expr:
    """Whether a label is present; NaN counts as missing."""
    column = nw.col(name)
    return ~column.is_null() & ~column.is_nan() if kind.is_float() else ~column.is_null()


def code_outcome(roles: ColumnRoles, kind: nw.dtypes.DType) -> nw.Expr:
    """Code the target: 1 for the event, 0 (or −1) for the other label; anything else is another number, or missing."""
    target = nw.col(roles.target)
    if kind == nw.Boolean:
        event, other = target, ~target
        if roles.pos_label is not None and not roles.pos_label:
            event, other = other, event
        return nw.when(event).then(nw.lit(1)).otherwise(nw.when(other).then(nw.lit(0)).otherwise(nw.lit(_NO_OUTCOME)))
    if roles.pos_label is not None:
        rest = nw.when(~target.is_null()).then(nw.lit(0)).otherwise(nw.lit(_NO_OUTCOME))
        return nw.when(target == roles.pos_label).then(nw.lit(1)).otherwise(rest)
    return target.cast(nw.Int64 if kind.is_integer() else nw.Float64)


def is_outcome() -> nw.Expr:
    """Whether the column y of `code_outcome` holds an outcome."""
    y = nw.col("y")
    return (y == 0) | (y == 1) | (y == -1)


def _code_period(time: str, period: str | None, kind: nw.dtypes.DType, engine: nw.Implementation) -> nw.Expr:
    """Code the period of a row as a whole number (a float, since pandas has no missing integers)."""
    column = nw.col(time)
    if period is None:
        return column
    local = engine.is_polars() or engine.is_pyarrow() or engine.is_pandas()  # SQL: the zone of the session
    if local and isinstance(kind, nw.Datetime) and kind.time_zone is not None:
        column = column.dt.convert_time_zone("UTC")
    year, month = column.dt.year().cast(nw.Float64), column.dt.month().cast(nw.Float64)
    if period == "year":
        return year
    if period == "quarter":
        return year * 10 + _divide(month + 2, 3)
    if period == "month":
        return year * 100 + month
    if period == "day":
        return year * 10000 + month * 100 + column.dt.day().cast(nw.Float64)
    return _count_weeks(year, month, column.dt.day().cast(nw.Float64))


def _count_weeks(year: nw.Expr, month: nw.Expr, day: nw.Expr) -> nw.Expr:
    """Count weeks since Monday, 29 December 1969, from day numbers (years start in March, so leap days come last)."""
    early = (month < 3).cast(nw.Float64)
    shifted, months = year - early, month - 3 + 12 * early
    leaps = _divide(shifted, 4) - _divide(shifted, 100) + _divide(shifted, 400)
    return _divide(365 * shifted + leaps + _divide(153 * months + 2, 5) + day - 719466, 7)


def _divide(whole: nw.Expr, size: int) -> nw.Expr:
    """Divide whole numbers; integer division is slower in engines that guard it against zero."""
    return (whole * (1.0 / size) + 1e-6).floor()


#: A prime below 2³¹ and a primitive root of it: products stay below 2⁶³ in every engine.
_PRIME, _ROOT = 2**31 - 1, 48271


def hash_key(key: str, kind: nw.dtypes.DType, folds: int) -> nw.Expr:
    """Hash a whole number to a fold, the same in every engine."""
    if not kind.is_integer():
        refuse(
            "`fold_key` must be a column of whole numbers, which every engine hashes alike",
            f"{key!r} of type {kind}",
            "Make a column of folds in the engine and pass it as `fold_column`.",
        )
    # the largest unsigned numbers do not fit into signed ones
    value = (nw.col(key) % _PRIME).cast(nw.Int64) if kind == nw.UInt64 else nw.col(key).cast(nw.Int64) % _PRIME
    once = (value * _ROOT + 11) % _PRIME
    twice = ((once % 46337) * _ROOT + once) % _PRIME  # not linear, so that consecutive keys are dealt at random
    return ((twice * _ROOT) % _PRIME) % folds


# ── labels ──────────────────────────────────────────────────────────────────────────────────────────


def read_label(value: Any) -> Any:
    """Convert a label to one that JSON can hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return None
    if isinstance(value, float) and abs(value) < 2.0**63 and value.is_integer():
        return int(value)  # pandas turns integers into floats where some are missing
    if isinstance(value, (str, int, float, bool)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def write_label(value: Any) -> Any:
    """Convert a label of a segment, period or fold; JSON has no infinite numbers."""
    label = read_label(value)
    return str(label) if isinstance(label, float) and math.isinf(label) else label


def read_segments(table: Mapping[str, NDArray[Any]], keys: Sequence[str], period: str | None) -> list[tuple[Any, ...]]:
    """Read the labels of segment and period of each line from the columns `keys`, as JSON can hold them."""
    columns = []
    for name in keys:
        values = table[name].tolist()
        columns.append([write_label(write_period(v, period) if name == "time" else v) for v in values])
    return list(zip(*columns, strict=True)) if columns else [()] * next(iter(table.values())).shape[0]


def write_period(code: Any, period: str | None) -> Any:
    """Write a period the usual way."""
    whole = read_label(code)
    if whole is None or period is None:
        return whole
    if period == "week":
        return str(np.datetime64("1969-12-29") + np.timedelta64(7 * whole, "D"))
    if period == "quarter":
        return f"{whole // 10}-Q{whole % 10}"
    if period == "month":
        return f"{whole // 100}-{whole % 100:02d}"
    return str(whole) if period == "year" else f"{whole // 10000}-{whole // 100 % 100:02d}-{whole % 100:02d}"


def read_period(label: Any, period: str | None) -> Any:
    """Read the code of a period from its label: the inverse of `write_period`."""
    if period is None or label is None:
        return label
    if period == "week":
        return (date.fromisoformat(label) - date(1969, 12, 29)).days // 7
    return int("".join(part for part in label if part.isdigit()))
