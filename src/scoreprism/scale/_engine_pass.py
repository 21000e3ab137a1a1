"""Passes over the data in its engine: rows are summed, and columns with bad values are refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import abbreviate, refuse, write_plain
from scoreprism._core.simplex import FloatArray
from scoreprism._spelling import mark
from scoreprism.exceptions import LabelError
from scoreprism.scale._column_settings import (
    MOST_WEIGHT,
    Agreement,
    ColumnRoles,
    Schema,
    Settings,
    are_keys_valid,
    cast_number,
    code_outcome,
    is_outcome,
    is_present,
    read_label,
    read_segments,
    select_keys,
    write_label,
)
from scoreprism.scale._engines import fetch, takes_log_of_zero, translate_errors
from scoreprism.scale._expressions import (
    FORMULAS,
    avoid_zero,
    build_cell,
    build_parts,
    has_formula,
    is_unbounded,
    with_root,
)
from scoreprism.scale._sums import Sums
from scoreprism.scale._sums_file import WEIGHTS

#: Segments × periods × folds; more than this means a column of identifiers.
MOST_GROUPS = 20_000
#: First rows that are examined: if they have many distinct scores, counting all rows is needless.
_HEAD = 20_000
#: First rows in which groups are counted.
_LOOKED = 100_000
#: Keys of rows that are in no cell.
_BAD, _ABSENT = -1.0, -2.0
#: Bits of the grids that separate distinct scores, from coarse to fine.
_BITS = (16, 24, 32, 40, 48)


@dataclass(frozen=True)
class Scan:
    """A frame, the roles and types of its columns under names the engine takes literally, and the settings."""

    frame: nw.LazyFrame[Any]
    schema: Schema
    roles: ColumnRoles
    settings: Settings

    @property
    def laws(self) -> range:
        """The numbers of the given levels."""
        return range(len(self.settings.laws))

    @property
    def keys(self) -> list[str]:
        """Columns of segments, periods and folds."""
        return [*self.roles.key_names, *(["fold"] if self.roles.fold is not None else [])]


def sum_rows(scan: Scan, agreement: Agreement) -> Sums:
    """Sum the rows of a frame by distinct score if there are few, otherwise by cell."""
    with translate_errors("the engine must be able to read the data", "Check the columns."):
        rows = _select_rows(scan)
        _refuse_identifiers(rows, scan)
        exact = _has_few_scores(rows, scan)
        table = fetch(_group(_flag_rows(rows, scan, exact=exact), scan, exact=exact))
        if not exact:
            cell, outcome = np.divmod(table["key"], 3)
            table |= {"key": np.where(table["key"] < 0, table["key"], cell), "y": outcome - 1}
        _refuse_bad(table, table["key"] == _BAD, scan, agreement)
    return _make_sums(table, scan, exact=exact)


def _refuse_identifiers(rows: nw.LazyFrame[Any], scan: Scan) -> None:
    """Count the groups before cells multiply them: a column of identifiers would exhaust the memory."""
    few = {"fold" if scan.roles.fold_hash is not None else "", "time" if scan.roles.period is not None else ""}
    names = [name for name in scan.keys if name not in few]
    if not names:
        return
    for most in (_LOOKED, None):
        part = rows.select(*names) if most is None else rows.select(*names).head(most)
        groups = int(fetch(part.unique().head(MOST_GROUPS + 1).select(n=nw.len()))["n"][0])
        _require_few(groups, scan.settings)


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────


def _select_rows(scan: Scan) -> nw.LazyFrame[Any]:
    """Select the columns that are used, under our own names."""
    roles = scan.roles
    laws = {f"law{t}": cast_number(name) for t, (name,) in enumerate(roles.laws.values())}
    y = code_outcome(roles, scan.schema[roles.target])
    return scan.frame.select(**laws, y=y, **select_keys(roles, scan.frame))


def _is_valid(scan: Scan) -> nw.Expr:
    """Whether a row can be summed; comparisons with null and NaN are false."""
    valid = is_outcome()
    for t in scan.laws:
        valid = valid & (nw.col(f"law{t}") >= 0.0) & (nw.col(f"law{t}") <= 1.0)
    return are_keys_valid(valid, scan.roles, scan.schema)


def _flag_rows(rows: nw.LazyFrame[Any], scan: Scan, *, exact: bool) -> nw.LazyFrame[Any]:
    """Flag rows that can be summed; the others get harmless numbers."""
    flagged = rows.with_columns(valid=_is_valid(scan))
    calm = {f"law{t}": nw.when(nw.col("valid")).then(nw.col(f"law{t}")).otherwise(nw.lit(0.5)) for t in scan.laws}
    if scan.settings.has_weights:
        calm["w"] = nw.when(nw.col("valid")).then(nw.col("w")).otherwise(nw.lit(0.0))
    if exact:  # outcomes are grouped by
        calm["y"] = nw.when(nw.col("valid")).then(nw.col("y")).otherwise(nw.lit(0)).cast(nw.Int64)
    return flagged.with_columns(**calm)


# ── groups ──────────────────────────────────────────────────────────────────────────────────────────


def _group(rows: nw.LazyFrame[Any], scan: Scan, *, exact: bool) -> nw.LazyFrame[Any]:
    """The group-by: arithmetic first, then plain sums, as Dask has no others."""
    settings, score = scan.settings, nw.col("law0")
    columns, sums = _build_loss_columns(scan, exact=exact)
    if not exact:
        rows = with_root(rows, "law0")
    if columns:
        rows = rows.with_columns(**{f"hit{t}": _build_hit(f"law{t}", settings.clip) for t in scan.laws})
        if not takes_log_of_zero(scan.frame):
            rows = rows.with_columns(**{f"some{t}": avoid_zero(nw.col(f"hit{t}")) for t in scan.laws})
    rows = rows.with_columns(key=_build_key(scan, exact=exact), **columns)
    moments = {} if exact else {"s": score, "s2": score * score}
    sums = {**moments, **sums}
    if settings.has_weights:
        w = nw.col("w")
        squares = {name: w * w * value for name, value in sums.items() if name[0] == "d"}
        firsts = {name: w * value for name, value in sums.items() if name[0] != "d"}
        seconds = {f"b{name[1:]}": w * w * value for name, value in sums.items() if name[0] == "a"}
        powers = dict(zip(WEIGHTS, (w, w * w, w * w * w, w * w * w * w), strict=True))
        sums = {**powers, **firsts, **seconds, **squares}
    summands = {f"sum_{name}": value for name, value in sums.items()}
    # rows to which a level above the score gave probability 0; for the score itself, 0 and 1 are cells of their own
    summands |= {f"zero{t}": (nw.col(f"hit{t}") <= 0.0).cast(nw.Int64) for t in scan.laws[1:]}
    rows = rows.with_columns(**summands) if summands else rows
    aggregates = [nw.len().alias("n")]
    aggregates += [nw.col(name).sum() for name in summands]
    if not exact:
        aggregates += [score.min().alias("lo"), score.max().alias("hi")]
    return rows.group_by("key", *(["y"] if exact else []), *scan.keys).agg(*aggregates)


def _build_key(scan: Scan, *, exact: bool) -> nw.Expr:
    """The score itself, or cell and outcome as one whole number, which groups faster than two; negative: no cell."""
    score = nw.col("law0")
    key = score + 0.0 if exact else build_cell(score, scan.settings.cells) * 3.0 + (nw.col("y") + 1)
    if scan.settings.has_weights:
        key = nw.when(nw.col("w") > 0.0).then(key).otherwise(nw.lit(_ABSENT))
    key = nw.when(nw.col("valid")).then(key).otherwise(nw.lit(_BAD))
    return key if exact else key.cast(nw.Int64)


def _build_loss_columns(scan: Scan, *, exact: bool) -> tuple[dict[str, nw.Expr], dict[str, nw.Expr]]:
    """Losses as columns, one logarithm per row and level; then their first and second moments."""
    if exact and len(scan.laws) == 1:
        return {}, {}  # the loss of a distinct score is the same in all of its rows
    columns, sums = {}, {}
    for i, loss in enumerate(scan.settings.losses):
        if not has_formula(loss):
            continue
        for t in scan.laws:
            some = f"hit{t}" if takes_log_of_zero(scan.frame) else f"some{t}"
            columns[f"loss{i}{t}"] = FORMULAS[type(loss)](nw.col(f"hit{t}"), nw.col(some))
        for t in scan.laws:
            sums[f"a{i}{t}"] = nw.col(f"loss{i}{t}")
            for u in scan.laws[t:]:
                sums[f"d{i}{t}{u}"] = nw.col(f"loss{i}{t}") * nw.col(f"loss{i}{u}")
    return columns, sums


def _build_hit(law: str, clip: float | None) -> nw.Expr:
    """p_y, the probability of the outcome."""
    p = nw.col(law) if clip is None else nw.col(law).clip(clip, 1.0 - clip)
    return nw.when(nw.col("y") == 1).then(p).otherwise(1.0 - p)


# ── few distinct scores ─────────────────────────────────────────────────────────────────────────────


def _has_few_scores(rows: nw.LazyFrame[Any], scan: Scan) -> bool:
    """Whether there are at most as many distinct scores as cells, found on finer and finer grids in bounded memory."""
    cells = scan.settings.cells
    score = rows.select(s=nw.when(_is_valid(scan)).then(nw.col("law0")).otherwise(nw.lit(0.5)))
    if np.unique(fetch(score.head(_HEAD))["s"]).size > cells:
        return False
    score, apart = with_root(score, "s"), 0
    for bits in (*_BITS, None):
        code = nw.col("s") if bits is None else build_parts(nw.col("s"), 2.0 ** (bits - 1))
        codes = fetch(
            score.with_columns(code=code)
            .group_by("code")
            .agg(nw.col("s").min().alias("lo"), nw.col("s").max().alias("hi"))
        )
        is_shared = codes["lo"] < codes["hi"]
        apart += int((~is_shared).sum())
        if apart + 2 * int(is_shared.sum()) > cells:
            return False
        if not is_shared.any():
            return True
        score = score.with_columns(code=code).filter(nw.col("code").is_in(codes["code"][is_shared].tolist()))
    return True  # pragma: no cover - the last round has one score per code


# ── the result ──────────────────────────────────────────────────────────────────────────────────────


def _make_sums(table: dict[str, NDArray[Any]], scan: Scan, *, exact: bool) -> Sums:
    """Make sums of the table of an engine."""
    settings, roles = scan.settings, scan.roles
    absent = table["key"] == _ABSENT
    n_absent = int(table["n"][absent].sum())
    present = {name: column[~absent] for name, column in table.items()}
    folds = present["fold"].tolist() if roles.fold is not None else [None] * present["n"].size
    return Sums.from_groups(
        settings,
        exact=exact,
        segments=read_segments(present, roles.key_names, roles.period),
        folds=[write_label(fold) for fold in folds],
        columns=_fill_columns(present, settings),
        absent=n_absent,
    )


def _fill_columns(table: dict[str, NDArray[Any]], settings: Settings) -> dict[str, FloatArray]:
    """The columns of sums: those of the engine, and those that follow from them without weights."""
    columns: dict[str, FloatArray] = {
        "key": table["key"].astype(np.float64),
        "y": (table["y"] == 1).astype(np.float64),
        "n": table["n"].astype(np.float64),
    }
    for name, values in table.items():
        if name.startswith("sum_"):
            columns[name.removeprefix("sum_")] = values.astype(np.float64)
        elif name.startswith("zero") or name in ("lo", "hi"):
            columns[name] = values.astype(np.float64)
    if not settings.has_weights:
        columns |= dict.fromkeys(WEIGHTS, columns["n"])
        columns |= {f"b{name[1:]}": values for name, values in list(columns.items()) if name[0] == "a"}
    if settings.has_weights and (columns["w4"] < np.finfo(float).tiny).any():
        refuse(
            f"`sample_weight` {settings.sample_weight!r} must be 0, or large enough for a fourth power",
            f"weights below {MOST_WEIGHT**-1:.0e}",
            "Multiply all weights by the same number.",
        )
    return {name: _zero_infinite(name, columns, settings) if name[0] in "abd" else columns[name] for name in columns}


def _zero_infinite(name: str, columns: dict[str, FloatArray], settings: Settings) -> FloatArray:
    """Moments of a loss, 0 where it is infinite, which the cells of 0 and 1 and the columns zero… record."""
    size = 2 if name[0] == "d" else 1
    loss, levels = settings.losses[int(name[1:-size])], name[-size:]
    if not is_unbounded(loss):
        return columns[name]
    never = ~np.isfinite(columns[name])
    for level in levels:
        never |= columns.get(f"zero{level}", np.zeros(1)) > 0.0
    return np.where(never, 0.0, columns[name])


# ── one pass of any kind ────────────────────────────────────────────────────────────────────────────


def group_rows(
    frame: nw.LazyFrame[Any],
    build: Callable[[nw.LazyFrame[Any]], nw.LazyFrame[Any]],
    keys: Sequence[str],
    how: Mapping[str, str],
) -> dict[str, NDArray[Any]]:
    """One pass: build columns, group by `keys`, and return ``n`` and the "sum", "min" or "max" of each column."""

    def query(lazy: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        aggregates = [getattr(nw.col(name), what)() for name, what in how.items()]
        return build(lazy).group_by(*keys).agg(nw.len().alias("n"), *aggregates)

    if frame.implementation.is_dask():  # its planner takes minutes, its partitions milliseconds
        with translate_errors("the engine must be able to read the data", "Check the columns."):
            return _group_partitions(frame.to_native(), query, keys, {"n": "sum", **how})
    return fetch(query(frame))


def _group_partitions(
    frame: Any, query: Callable[[Any], Any], keys: Sequence[str], how: Mapping[str, str]
) -> dict[str, NDArray[Any]]:
    from dask.base import compute
    from dask.delayed import delayed

    def one(part: Any) -> Any:
        return query(nw.from_native(part).lazy()).collect().to_native()

    parts = compute(*(delayed(one)(part) for part in frame.to_delayed()))  # type: ignore[no-untyped-call]
    some = [part for part in parts if len(part)] or list(parts[:1])
    table = nw.concat([nw.from_native(part, eager_only=True) for part in some])
    merged = table.group_by(*keys).agg(*(getattr(nw.col(name), what)() for name, what in how.items()))
    return fetch(merged.lazy())


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────


def refuse_empty(absent: int) -> NoReturn:
    """Refuse data without rows, or with `absent` rows of weight 0 only."""
    what = f"{absent:,} rows, all of weight 0" if absent else "0 rows"
    refuse("`data` must hold rows with weight", what, "Check the filter, or the weights.")


def require_few_groups(sums: Sums) -> None:
    """Refuse more segments, periods and folds than can be of use."""
    folds = len(sums.folds) if sums.settings.fold_hash is None else 1
    _require_few(len(sums.segments) * folds, sums.settings)


def _require_few(groups: int, settings: Settings) -> None:
    """Refuse too many groups, naming the columns that make them."""
    if groups > MOST_GROUPS:
        names = [*settings.keys, *([settings.fold] if settings.fold is not None and not settings.fold_hash else [])]
        refuse(
            f"`segments`, `time` and `fold_column` must make at most {MOST_GROUPS:,} groups",
            f"{'more' if groups == MOST_GROUPS + 1 else f'{groups:,}'} from {', '.join(map(repr, names))}",
            "Use coarser columns; identifiers are no segments (`fold_key`= deals them to folds).",
        )


def _refuse_bad(table: dict[str, NDArray[Any]], bad: NDArray[np.bool_], scan: Scan, agreement: Agreement) -> None:
    """Refuse rows that cannot be summed, and outcomes with three labels."""
    if bad.any():
        _explain(int(table["n"].sum()), scan)
    if scan.roles.pos_label is not None:
        agreement.require_two(_find_other_labels(scan), scan.settings)
        return
    has_weight = table["key"] >= 0  # rows without weight are not grouped by outcome
    agreement.require_two([label for label in (-1, 0) if (has_weight & (table["y"] == label)).any()], scan.settings)


def _find_other_labels(scan: Scan) -> set[Any]:
    """The first and the last label other than `pos_label`."""
    roles, kind = scan.roles, scan.schema[scan.roles.target]
    if kind == nw.Boolean:
        return set()
    label = nw.col("label") if kind.is_numeric() else nw.col("label").cast(nw.String)  # categories have no order
    others = scan.frame.select(label=nw.col(roles.target)).select(label=label)
    others = others.filter((nw.col("label") != roles.pos_label) & ~nw.col("label").is_null())
    ends = fetch(others.select(low=nw.col("label").min(), high=nw.col("label").max()))
    return {read_label(ends[name][0]) for name in ("low", "high")} - {None}


def _explain(total: int, scan: Scan) -> NoReturn:
    """Name the first column with bad values, by further queries."""
    roles, settings = scan.roles, scan.settings
    for role in (*roles.law_columns, *(["sample_weight"] if roles.has_weights else [])):
        values = scan.frame.select(v=cast_number(roles.columns[role]))
        refuse_outside(values, role, settings.columns[role], total)
    if roles.fold is not None:
        refuse_missing_folds(scan.frame.select(v=nw.col(roles.fold)), scan.schema[roles.fold], settings, total)
    labels = scan.frame.select(y=code_outcome(roles, scan.schema[roles.target]), v=nw.col(roles.target))
    count, examples = count_wrong(labels, is_outcome())
    rule = f"`target` {settings.target!r} must be 0 or 1 (or −1 or 1, or boolean) in every row"
    if roles.pos_label is not None:
        rule = f"`target` {settings.target!r} must not be missing"
    remedy = "Drop rows without an outcome." if examples == ["missing"] else "Pass `pos_label`= for other labels."
    refuse(rule, f"{abbreviate(examples)} in {count:,} of {total:,} rows", remedy, LabelError)


def count_wrong(column: nw.LazyFrame[Any], holds: nw.Expr) -> tuple[int, list[str]]:
    """Count the values that break a rule, and show some of them."""
    fine = nw.when(holds).then(nw.lit(1)).otherwise(nw.lit(0))
    wrong = column.with_columns(fine=fine).filter(nw.col("fine") == 0).select("v")
    count = int(fetch(wrong.select(n=nw.len()))["n"][0])
    sample = [read_label(value) for value in fetch(wrong.head(1000))["v"].tolist()] if count else []
    return count, list(dict.fromkeys("missing" if value is None else write_plain(value) for value in sample))


def refuse_outside(values: nw.LazyFrame[Any], role: str, name: str, total: int) -> None:
    """Refuse values of a column ``v`` that are not probabilities, or not weights."""
    most = MOST_WEIGHT if role == "sample_weight" else 1.0
    count, examples = count_wrong(values, (nw.col("v") >= 0.0) & (nw.col("v") <= most))
    if not count:
        return
    ordered = sorted(examples, key=lambda value: math.inf if value == "missing" else float(value))
    got = f"{abbreviate(ordered)} in {count:,} of {total:,} rows"
    if role == "sample_weight":
        rule = f"`sample_weight` {name!r} must be from 0 to {MOST_WEIGHT:.0e}, whose fourth power can be summed"
        refuse(rule, got, "Drop these rows, or multiply all weights by the same number.")
    remedy = "If these are percentages, divide by 100; logits go through a sigmoid or a softmax first."
    remedy = "Drop these rows, or fill them." if examples == ["missing"] else remedy
    refuse(f"{mark(role)} {name!r} must hold probabilities from 0 to 1", got, remedy)


def refuse_missing_folds(folds: nw.LazyFrame[Any], kind: nw.dtypes.DType, roles: ColumnRoles, total: int) -> None:
    """Refuse rows without a fold, in a column ``v``."""
    count, _ = count_wrong(folds, is_present("v", kind))
    if count:
        rule = f"{mark(roles.fold_role)} {roles.fold!r} must not be missing"
        refuse(rule, f"{count:,} of {total:,} rows without one", "Drop these rows, or give them a fold.")
