"""What the columns of a frame are: names parsed, and the expressions that read them in any engine."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np

from scoreprism._core.checks import listed, parse_choice, parse_count, plain, refuse
from scoreprism._spelling import mark
from scoreprism.exceptions import LabelError

#: Lengths of a period that dates are brought to: by parts of a date, which every engine has.
PERIODS = ("day", "week", "month", "quarter", "year")


@dataclass(frozen=True)
class Roles:
    """Which column is what."""

    target: str  # the outcome, and P(Y = 1)
    score: str  # the outcome, and P(Y = 1)
    q: str | None = None  # the law Q, the law Π, weights, periods, folds
    latent: str | None = None  # the law Q, the law Π, weights, periods, folds
    weight: str | None = None  # the law Q, the law Π, weights, periods, folds
    by: tuple[str, ...] = ()  # segments
    time: str | None = None  # the law Q, the law Π, weights, periods, folds
    every: str | None = None  # one of `PERIODS`, where `time` holds dates
    fold: str | None = None  # the law Q, the law Π, weights, periods, folds
    # number of folds that a hash of the column `fold` is brought to; None if it holds folds
    fold_hash: int | None = None
    pos_label: Any = None  # the label that the score speaks of

    @property
    def laws(self) -> dict[str, str]:
        """Columns of given laws by the name of their level."""
        named = {"S": self.score, "Q": self.q, "Π": self.latent}
        return {level: column for level, column in named.items() if column is not None}

    @property
    def columns(self) -> dict[str, str]:
        """Every column that is read, by what it is."""
        named: dict[str, str | None] = {"target": self.target, "score": self.score, "q": self.q}
        named["latent"] = self.latent
        named |= {"sample_weight": self.weight, "time": self.time, "`cv_column` or `key`": self.fold}
        segments = {f"by[{i}]" if len(self.by) > 1 else "by": name for i, name in enumerate(self.by)}
        return {role: name for role, name in {**named, **segments}.items() if name is not None}

    def renamed(self, names: Mapping[str, str]) -> Roles:
        """The same roles where columns have other names."""
        single = {"target", "score", "q", "latent", "weight", "time", "fold"}
        changed = {role: names.get(getattr(self, role), getattr(self, role)) for role in single}
        return replace(self, **changed, by=tuple(names[name] for name in self.by))


#: More folds than this take long and add nothing.
MOST_FOLDS = 100


def parse_count_of_folds(cv: object) -> int:
    """Number of folds."""
    count = parse_count(cv, "cv", 2)
    if count > MOST_FOLDS:
        refuse(f"`cv` must be at most {MOST_FOLDS} folds", f"{count:,}", "The default, 5, is enough for many rows.")
    return count


def parse_folds(cv: object, cv_column: str | None, key: str | None) -> tuple[str | None, int | None]:
    """The column that folds come from, and the number of folds that it is hashed to (None if it holds them)."""
    if cv_column is not None and key is not None:
        refuse("folds must come from `cv_column` or `key`", "both", "Leave one of them out.")
    folds = parse_count_of_folds(cv)
    return (cv_column, None) if key is None else (key, folds)


def require_law_below(q: object, latent: object) -> None:
    """Refuse a law Π without a law Q."""
    if latent is not None and q is None:
        refuse("`latent` must stand above `q`", "latent alone", "Pass `q` as well, or the law as `q`.")


def parse_by(by: object) -> tuple[str, ...]:
    """Names of segment columns."""
    if by is None:
        return ()
    names = (by,) if isinstance(by, str) else by
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
        refuse("`by` must name one or more columns", plain(by), "For example 'region'.")
    if len(set(names)) < len(names):
        refuse("`by` must name each column once", listed(names), "Leave the repeated one out.")
    return tuple(names)


def check_columns(schema: dict[str, nw.dtypes.DType], roles: Roles) -> Roles:
    """Refuse columns that are not there, naming candidates, and types that cannot be what they are said to be."""
    require_columns(schema, roles.columns, ("score", "q", "latent", "sample_weight"))
    for role, name in roles.columns.items():
        labels = role.startswith("by") or role in ("time", "`cv_column` or `key`")
        if labels and (schema[name].is_nested() or schema[name] in _NO_LABELS):
            refuse(f"{mark(role)} must hold labels", f"column {name!r} of type {schema[name]}", "Name another column.")
    _check_target(schema[roles.target], roles)
    return with_period(schema, roles)


def require_columns(schema: dict[str, nw.dtypes.DType], columns: Mapping[str, str], numeric: Collection[str]) -> None:
    """Refuse names (by role) that are no columns, `numeric` roles without numbers, and columns of two roles."""
    for role, name in columns.items():
        if not isinstance(name, str):
            refuse(f"{mark(role)} must be the name of a column", plain(name), f"There are {listed(schema, 20)}.")
        if name not in schema:
            near = difflib.get_close_matches(name, schema, 3, 0.6)
            hint = f"Did you mean {', '.join(map(repr, near))}? " if near else ""
            refuse(f"{mark(role)} must name a column of the data", repr(name), f"{hint}There are {listed(schema, 20)}.")
    for role, name in columns.items():
        if role in numeric and not schema[name].is_numeric():
            truth = schema[name] == nw.Boolean and role != "sample_weight"
            remedy = "A probability is meant." if truth else "Cast it to a number first."
            refuse(f"{mark(role)} must hold numbers", f"column {name!r} of type {schema[name]}", remedy)
    names = list(columns.values())
    shared = [name for name in names if names.count(name) > 1]
    if shared:
        refuse("every column must have one role", f"{shared[0]!r} in several", "Name another column.")


#: Types whose values are no labels of anything.
_NO_LABELS = (nw.Binary, nw.Duration, nw.Object)


@dataclass
class Seen:
    """What the files of one call must have in common."""

    kinds: dict[str, str] = field(default_factory=dict)  # what each column of labels holds
    others: set[Any] = field(default_factory=set)  # labels of the target that are not the event

    def copy(self) -> Seen:
        """What has been seen so far."""
        return Seen(dict(self.kinds), set(self.others))

    def alike(self, schema: dict[str, nw.dtypes.DType], roles: Roles) -> Roles:
        """Refuse labels that are numbers in one file and words in another: they would be different segments."""
        labels = [name for name in (*roles.by, roles.time, roles.fold) if name is not None]
        labels += [roles.target] if roles.pos_label is not None else []
        for name in labels:
            kind = _kind(schema[name])
            known = self.kinds.setdefault(name, kind)
            if kind != known:
                refuse(
                    "a column must have the same type in all files",
                    f"{name!r} with {known} in some and {kind} in others",
                    "Cast it when the files are written, or pass a frame.",
                )
        return roles

    def label(self, labels: Iterable[Any], roles: Roles) -> None:
        """Refuse a target with more than one label beside the event."""
        self.others |= set(labels)
        if len(self.others) > 1:
            event = 1 if roles.pos_label is None else roles.pos_label
            found = sorted(self.others, key=str)
            refuse(
                f"`target` {roles.target!r} must hold two labels",
                listed([plain(event), *(plain(label) for label in found)]),
                "Filter the rows, or make a column of 0 and 1.",
                LabelError,
            )


def _kind(kind: nw.dtypes.DType) -> str:
    """What a type is to a reader."""
    if kind.is_numeric():
        return "numbers"
    if kind == nw.Boolean:
        return "booleans"
    return "dates" if kind in (nw.Date, nw.Datetime) else "words"


def _check_target(kind: nw.dtypes.DType, roles: Roles) -> None:
    given = roles.pos_label
    if kind == nw.Boolean and given is not None and (isinstance(given, str) or given not in (0, 1)):
        refuse(
            f"`pos_label` must be a label of column {roles.target!r}",
            f"{given!r} for a column of booleans",
            "Pass True or False.",
        )
    if kind == nw.Boolean or (kind.is_numeric() and given is None):
        return
    if roles.pos_label is None:
        refuse(
            "`pos_label` must name the label that the score speaks of, "
            "unless labels are 0 and 1, −1 and 1, or booleans",
            f"a target of type {kind}",
            "For example `pos_label`='yes'.",
        )
    word = isinstance(roles.pos_label, str)
    if word == kind.is_numeric():
        refuse(
            f"`pos_label` must be a label of column {roles.target!r}",
            f"{roles.pos_label!r} for a column of type {kind}",
            "Write it as in the data.",
        )


def with_period(schema: dict[str, nw.dtypes.DType], roles: Roles) -> Roles:
    """The length of a period: a month for dates unless said otherwise, none for other columns."""
    if roles.time is None:
        if roles.every is not None:
            refuse("`every` must come with `time`", f"every={roles.every!r} alone", "Pass `time`= as well.")
        return roles
    kind = schema[roles.time]
    if isinstance(kind, (nw.Date, nw.Datetime)) or kind in (nw.Date, nw.Datetime):
        return replace(roles, every=parse_choice(roles.every or "month", PERIODS, "every"))
    if roles.every is not None:
        refuse("`every` must come with a column of dates", f"{roles.time!r} of type {kind}", "Leave `every` out.")
    if kind.is_float() or kind == nw.Unknown:
        refuse("`time` must hold periods or dates", f"{roles.time!r} of type {kind}", "Make a column of periods.")
    return roles


#: What stands for a label that is no outcome.
NO_OUTCOME = -2

# ── expressions ─────────────────────────────────────────────────────────────────────────────────────


def number(name: str) -> nw.Expr:
    """A column of numbers, in double precision."""
    return nw.col(name).cast(nw.Float64)


def outcome(roles: Roles, kind: nw.dtypes.DType) -> nw.Expr:
    """1 for the event, 0 (or −1) for the other label; what is no outcome is another number, or missing."""
    target = nw.col(roles.target)
    if kind == nw.Boolean:
        event, other = target, ~target
        if roles.pos_label is not None and not roles.pos_label:
            event, other = other, event
        return nw.when(event).then(nw.lit(1)).otherwise(nw.when(other).then(nw.lit(0)).otherwise(nw.lit(NO_OUTCOME)))
    if roles.pos_label is not None:
        rest = nw.when(~target.is_null()).then(nw.lit(0)).otherwise(nw.lit(NO_OUTCOME))
        return nw.when(target == roles.pos_label).then(nw.lit(1)).otherwise(rest)
    return target.cast(nw.Int64 if kind.is_integer() else nw.Float64)


def is_outcome() -> nw.Expr:
    """Whether the column y, made by `outcome`, holds one."""
    y = nw.col("y")
    return (y == 0) | (y == 1) | (y == -1)


def period(roles: Roles, frame: nw.LazyFrame[Any]) -> nw.Expr:
    """
    The period of a row as one whole number (a float: pandas has no other missing ones), or the column as it is.

    Times with a zone are brought to UTC, where the engine keeps zones; those of SQL have that of their session.
    """
    column = nw.col(roles.time or "")
    if roles.every is None:
        return column
    kind, engine = frame.collect_schema()[roles.time or ""], frame.implementation
    local = engine.is_polars() or engine.is_pyarrow() or engine.is_pandas()
    if local and isinstance(kind, nw.Datetime) and kind.time_zone is not None:
        column = column.dt.convert_time_zone("UTC")
    year, month = column.dt.year().cast(nw.Float64), column.dt.month().cast(nw.Float64)
    if roles.every == "year":
        return year
    if roles.every == "quarter":
        return year * 10 + _parts(month + 2, 3)
    if roles.every == "month":
        return year * 100 + month
    if roles.every == "day":
        return year * 10000 + month * 100 + column.dt.day().cast(nw.Float64)
    return _week(year, month, column.dt.day().cast(nw.Float64))


def _week(year: nw.Expr, month: nw.Expr, day: nw.Expr) -> nw.Expr:
    """Weeks since Monday, 29 December 1969, by the day number of a date (years start in March: leap days come last)."""
    early = (month < 3).cast(nw.Float64)
    shifted, months = year - early, month - 3 + 12 * early
    leaps = _parts(shifted, 4) - _parts(shifted, 100) + _parts(shifted, 400)
    return _parts(365 * shifted + leaps + _parts(153 * months + 2, 5) + day - 719466, 7)


def _parts(whole: nw.Expr, size: int) -> nw.Expr:
    """Whole parts of a whole number; integer division is guarded against zero in some engines, at a price."""
    return (whole * (1.0 / size) + 1e-6).floor()


def period_label(code: Any, every: str | None) -> Any:
    """A period as people write it."""
    if code is None or code != code or type(code).__name__ == "NAType":
        return None
    if every is None:
        return code
    whole = int(code)
    if every == "week":
        return str(np.datetime64("1969-12-29") + np.timedelta64(7 * whole, "D"))
    if every == "quarter":
        return f"{whole // 10}-Q{whole % 10}"
    if every == "month":
        return f"{whole // 100}-{whole % 100:02d}"
    return str(whole) if every == "year" else f"{whole // 10000}-{whole // 100 % 100:02d}-{whole % 100:02d}"


def period_code(label: Any, every: str | None) -> Any:
    """The number behind the label of a period: `period_label` backwards."""
    if every is None or label is None:
        return label
    if every == "week":
        from datetime import date

        return (date.fromisoformat(label) - date(1969, 12, 29)).days // 7
    return int("".join(part for part in label if part.isdigit()))


#: A prime below 2³¹ and a primitive root of it: products stay below 2⁶³ in every engine.
_PRIME, _ROOT = 2**31 - 1, 48271


def hashed(key: str, kind: nw.dtypes.DType, folds: int) -> nw.Expr:
    """A fold from a whole number, the same in every engine."""
    if not kind.is_integer():
        refuse(
            "`key` must be a column of whole numbers, which every engine hashes alike",
            f"{key!r} of type {kind}",
            "Make a column of folds in the engine and pass it as `cv_column`.",
        )
    # the largest unsigned numbers are no signed ones
    value = (nw.col(key) % _PRIME).cast(nw.Int64) if kind == nw.UInt64 else nw.col(key).cast(nw.Int64) % _PRIME
    once = (value * _ROOT + 11) % _PRIME
    twice = ((once % 46337) * _ROOT + once) % _PRIME  # no longer linear: keys in arithmetic order are dealt at random
    return ((twice * _ROOT) % _PRIME) % folds
