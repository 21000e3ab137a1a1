"""The pass over the data: one group-by that turns rows into sums, in whatever engine holds them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NoReturn

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from scoreprism._validation import listed, plain, refuse
from scoreprism.exceptions import LabelError
from scoreprism.scale._engines import fetched, told
from scoreprism.scale._grid import cell_expression, position_expression
from scoreprism.scale._losses import by_row, loss_expression
from scoreprism.scale._partial import Partial, Settings
from scoreprism.scale._roles import Roles, Seen, hashed, number, outcome, period, period_label
from scoreprism.simplex import FloatArray

#: Rows that are looked at first: many distinct scores among them save the search for few.
_HEAD = 20_000
#: Segments times periods times folds; more than this is a column of identifiers, not of segments.
MOST_GROUPS = 20_000
#: Rows in which groups are counted first.
_LOOKED = 100_000
#: Weights above this cannot be squared.
_MOST_WEIGHT = 1e150
#: Keys of rows that are not in any cell.
_BAD, _ABSENT = -1.0, -2.0
#: Bits of the grids that separate distinct scores, from coarse to fine.
_BITS = (16, 24, 32, 40, 48)


@dataclass(frozen=True)
class Reading:
    """A frame, its columns by role (under names the engine takes, and as asked for), their types, what is summed."""

    frame: nw.LazyFrame[Any]
    schema: dict[str, nw.dtypes.DType]
    roles: Roles
    asked: Roles
    settings: Settings

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels whose law is given."""
        return self.settings.levels


def summed(reading: Reading, seen: Seen) -> Partial:
    """The sums of a frame: by distinct score where there are few, else by cell; none of an empty frame."""
    with told("the engine must be able to read the data", "Check the columns."):
        rows = _rows(reading)
        _refuse_identifiers(rows, reading)
        exact = _few_scores(rows, reading)
        table = fetched(_grouped(_stated(rows, reading), reading, exact=exact))
        _refuse_bad(table, reading, seen)
    return _partial(table, reading, exact=exact)


def require_rows(partial: Partial) -> Partial:
    """A partial that holds something."""
    if not partial.table["n"].size:
        what = f"{partial.absent:,} rows, all of weight 0" if partial.absent else "0 rows"
        refuse("data must hold rows with weight", what, "Check the filter, or the weights.")
    return partial


def require_few_groups(partial: Partial) -> None:
    """No more segments, periods and folds than can be looked at."""
    _require_few(len(partial.segments) * len(partial.folds), partial.settings)


def _require_few(groups: int, settings: Settings) -> None:
    if groups > MOST_GROUPS:
        names = [*settings.keys, *([settings.fold] if settings.fold is not None and not settings.fold_hash else [])]
        refuse(
            f"by, time and cv_column must make at most {MOST_GROUPS:,} groups",
            f"{'more' if groups == MOST_GROUPS + 1 else f'{groups:,}'} from {', '.join(map(repr, names))}",
            "Use coarser columns; identifiers are no segments (key= deals them to folds).",
        )


def _refuse_identifiers(rows: nw.LazyFrame[Any], reading: Reading) -> None:
    """Count the groups before cells multiply them: a column of identifiers would fill the memory."""
    names = _keys(reading)[2:]
    if reading.roles.fold_hash is not None:
        names.remove("fold")
    if not names:
        return
    for most in (_LOOKED, None):
        part = rows.select(*names) if most is None else rows.select(*names).head(most)
        groups = int(fetched(part.unique().head(MOST_GROUPS + 1).select(n=nw.len()))["n"][0])
        _require_few(groups, reading.settings)


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────


def _rows(reading: Reading) -> nw.LazyFrame[Any]:
    """The columns that count, under names of ours: user's names are data and may be anything."""
    roles, schema = reading.roles, reading.schema
    columns = {f"law{t}": number(name) for t, name in enumerate(roles.laws.values())}
    columns["y"] = outcome(roles, schema[roles.target])
    if roles.weight is not None:
        columns["w"] = number(roles.weight)
    columns |= {f"by{i}": nw.col(name) for i, name in enumerate(roles.by)}
    if roles.time is not None:
        columns["time"] = period(roles)
    if roles.fold is not None:
        folded = roles.fold_hash is not None
        columns["fold"] = hashed(roles.fold, schema[roles.fold], roles.fold_hash or 0) if folded else nw.col(roles.fold)
    return reading.frame.select(**columns)


def _valid(reading: Reading) -> nw.Expr:
    """Whether a row can be summed; null and NaN compare to nothing."""
    valid = nw.col("y") >= -1
    for t in range(len(reading.levels)):
        valid = valid & (nw.col(f"law{t}") >= 0.0) & (nw.col(f"law{t}") <= 1.0)
    if reading.settings.weighted:
        valid = valid & (nw.col("w") >= 0.0) & (nw.col("w") <= _MOST_WEIGHT)
    if reading.roles.fold is not None:
        given = reading.roles.fold_hash is None
        valid = valid & _there("fold", reading.schema[reading.roles.fold] if given else nw.Int64())
    return valid


def _there(name: str, kind: nw.dtypes.DType) -> nw.Expr:
    """Whether a label is there; NaN is none."""
    column = nw.col(name)
    return ~column.is_null() & ~column.is_nan() if kind.is_float() else ~column.is_null()


def _stated(rows: nw.LazyFrame[Any], reading: Reading) -> nw.LazyFrame[Any]:
    """Rows with a state: 1 counts, 0 has no weight, −1 cannot be; the last two hold harmless numbers."""
    weighted = reading.settings.weighted
    counts = nw.when(nw.col("w") > 0.0).then(nw.lit(1)).otherwise(nw.lit(0)) if weighted else nw.lit(1)
    stated = rows.with_columns(state=nw.when(_valid(reading)).then(counts).otherwise(nw.lit(-1)))
    counted = nw.col("state") == 1
    held = {f"law{t}": nw.when(counted).then(nw.col(f"law{t}")).otherwise(nw.lit(0.5)) for t, _ in _laws(reading)}
    if weighted:
        held["w"] = nw.when(counted).then(nw.col("w")).otherwise(nw.lit(0.0))
    return stated.with_columns(
        event=(nw.col("y") == 1).cast(nw.Int64), minus=(nw.col("y") == -1).cast(nw.Int64), **held
    )


def _laws(reading: Reading) -> list[tuple[int, str]]:
    return list(enumerate(reading.levels))


# ── groups ──────────────────────────────────────────────────────────────────────────────────────────


def _grouped(rows: nw.LazyFrame[Any], reading: Reading, *, exact: bool) -> nw.LazyFrame[Any]:
    """The one group-by: arithmetic first, plain sums after (Dask knows no others)."""
    settings, score = reading.settings, nw.col("law0")
    cell = score if exact else cell_expression(score, settings.cells).cast(nw.Float64)
    outside = nw.when(nw.col("state") == 0).then(nw.lit(_ABSENT)).otherwise(nw.lit(_BAD))
    rows = rows.with_columns(key=nw.when(nw.col("state") == 1).then(cell).otherwise(outside))
    columns, sums = _loss_columns(reading, exact=exact)
    rows = rows.with_columns(**columns) if columns else rows
    moments = {} if exact else {"s": score, "s2": score * score}
    sums = {**moments, **sums}
    if settings.weighted:
        w = nw.col("w")
        squares = {name: w * w * value for name, value in sums.items() if name[0] == "d"}
        firsts = {name: w * value for name, value in sums.items() if name[0] != "d"}
        seconds = {f"b{name[1:]}": w * w * value for name, value in sums.items() if name[0] == "a"}
        sums = {"w": w, "w2": w * w, **firsts, **seconds, **squares}
    summands = {f"sum_{name}": value for name, value in sums.items()} | _impossible(reading)
    rows = rows.with_columns(**summands) if summands else rows
    found = [nw.len().alias("n"), nw.col("minus").sum()]
    found += [nw.col(name).sum() for name in summands]
    if not exact:
        found += [score.min().alias("lo"), score.max().alias("hi")]
    return rows.group_by(*_keys(reading)).agg(*found)


def _keys(reading: Reading) -> list[str]:
    roles = reading.roles
    keys = ["key", "event", *(f"by{i}" for i in range(len(roles.by)))]
    return keys + (["time"] if roles.time is not None else []) + (["fold"] if roles.fold is not None else [])


def _loss_columns(reading: Reading, *, exact: bool) -> tuple[dict[str, nw.Expr], dict[str, nw.Expr]]:
    """One logarithm per row and law: losses as columns, then their first and second moments."""
    if exact and len(reading.levels) == 1:
        return {}, {}  # the loss of a distinct score is the same in all of its rows
    columns, sums = {}, {}
    for i, loss in enumerate(reading.settings.losses):
        if not by_row(loss):
            continue
        for t, _ in _laws(reading):
            columns[f"loss{i}{t}"] = loss_expression(loss, _hit(f"law{t}", reading.settings.clip))
        for t, _ in _laws(reading):
            sums[f"a{i}{t}"] = nw.col(f"loss{i}{t}")
            for u in range(t, len(reading.levels)):
                sums[f"d{i}{t}{u}"] = nw.col(f"loss{i}{t}") * nw.col(f"loss{i}{u}")
    return columns, sums


def _hit(law: str, clip: float | None) -> nw.Expr:
    """p_y, the probability of what happened."""
    p = nw.col(law)
    if clip is not None:
        p = (
            nw.when(p < clip)
            .then(nw.lit(clip))
            .otherwise(nw.when(p > 1.0 - clip).then(nw.lit(1.0 - clip)).otherwise(p))
        )
    return nw.when(nw.col("event") == 1).then(p).otherwise(1.0 - p)


def _impossible(reading: Reading) -> dict[str, nw.Expr]:
    """Rows to which a law above the score gave probability 0; those of the score have cells of their own."""
    found = {}
    for t, _ in _laws(reading)[1:]:
        found[f"zero{t}"] = (_hit(f"law{t}", reading.settings.clip) <= 0.0).cast(nw.Int64)
    return found


# ── few distinct scores ─────────────────────────────────────────────────────────────────────────────


def _few_scores(rows: nw.LazyFrame[Any], reading: Reading) -> bool:
    """
    Whether there are at most as many distinct scores as cells; a handful of groups per cell at a time.

    Grids of more and more bits separate the scores. A grid with more occupied cells than we have is the answer, so
    memory stays bounded whatever the scores are.
    """
    cells = reading.settings.cells
    score = rows.select(s=nw.when(_valid(reading)).then(nw.col("law0")).otherwise(nw.lit(0.5)))
    if np.unique(fetched(score.head(_HEAD))["s"]).size > cells:
        return False
    apart = 0
    for bits in (*_BITS, None):
        code = nw.col("s") if bits is None else (position_expression(nw.col("s")) * 2.0 ** (bits - 1)).floor()
        found = fetched(
            score.with_columns(code=code)
            .group_by("code")
            .agg(nw.col("s").min().alias("lo"), nw.col("s").max().alias("hi"))
        )
        shared = found["lo"] < found["hi"]
        apart += int((~shared).sum())
        if apart + 2 * int(shared.sum()) > cells:
            return False
        if not shared.any():
            return True
        score = score.with_columns(code=code).filter(nw.col("code").is_in(found["code"][shared].tolist())).select("s")
    return True  # pragma: no cover - the last round has one score per code


# ── the result ──────────────────────────────────────────────────────────────────────────────────────


def _partial(table: dict[str, NDArray[Any]], reading: Reading, *, exact: bool) -> Partial:
    """The table as a partial: keys coded, what is constant in a group filled in."""
    settings, roles = reading.settings, reading.roles
    absent = table["key"] == _ABSENT
    gone = int(table["n"][absent].sum())
    kept = {name: column[~absent] for name, column in table.items()}
    names = [f"by{i}" for i in range(len(roles.by))]
    columns = [kept[name].tolist() for name in names]
    if roles.time is not None:
        columns.append([period_label(code, roles.every) for code in kept["time"].tolist()])
    keys = list(zip(*columns, strict=True)) if columns else [()] * kept["n"].size
    folds = kept["fold"].tolist() if roles.fold is not None else [None] * kept["n"].size
    return Partial.from_groups(
        settings,
        exact=exact,
        segments=[tuple(plain_label(value) for value in key) for key in keys],
        folds=[plain_label(fold) for fold in folds],
        columns=_filled(kept, settings),
        absent=gone,
    )


def plain_label(value: Any) -> Any:
    """A label that JSON can hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)  # pandas makes floats of whole numbers where some are missing
    if isinstance(value, (str, int, float, bool)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _filled(kept: dict[str, NDArray[Any]], settings: Settings) -> dict[str, FloatArray]:
    """Columns of a partial: what was summed, and what follows from it where there are no weights."""
    columns: dict[str, FloatArray] = {
        "key": kept["key"].astype(np.float64),
        "y": kept["event"].astype(np.float64),
        "n": kept["n"].astype(np.float64),
    }
    for name, values in kept.items():
        if name.startswith("sum_"):
            columns[name.removeprefix("sum_")] = values.astype(np.float64)
        elif name.startswith("zero") or name in ("lo", "hi"):
            columns[name] = values.astype(np.float64)
    if not settings.weighted:
        columns |= {"w": columns["n"], "w2": columns["n"]}
        columns |= {f"b{name[1:]}": values for name, values in list(columns.items()) if name[0] == "a"}
    return columns


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────


def _refuse_bad(table: dict[str, NDArray[Any]], reading: Reading, seen: Seen) -> None:
    """Rows that cannot be summed, in words; and outcomes of three labels."""
    bad = table["key"] == _BAD
    if bad.any():
        _explain(int(table["n"].sum()), reading)
    if reading.roles.pos_label is not None:
        seen.label(_other_labels(reading), reading.asked)
        return
    minus = int(table["minus"].sum())
    zeros = int(table["n"][table["event"] == 0].sum()) - minus
    seen.label([label for label, rows in ((-1, minus), (0, zeros)) if rows], reading.asked)


def _other_labels(reading: Reading) -> set[Any]:
    """With pos_label, the first and the last of the other labels."""
    roles, kind = reading.roles, reading.schema[reading.roles.target]
    if kind == nw.Boolean:
        return set()
    label = nw.col("label") if kind.is_numeric() else nw.col("label").cast(nw.String)  # categories have no order
    others = reading.frame.select(label=nw.col(roles.target)).select(label=label)
    others = others.filter((nw.col("label") != roles.pos_label) & ~nw.col("label").is_null())
    found = fetched(others.select(low=nw.col("label").min(), high=nw.col("label").max()))
    return {plain_label(found[end][0]) for end in ("low", "high")} - {None}


def _explain(total: int, reading: Reading) -> NoReturn:
    """Say what is wrong with the first column that has something wrong; further queries, on the way to an error."""
    roles, asked = reading.roles, reading.asked
    numbers = {"score": roles.score, "q": roles.q, "latent": roles.latent, "sample_weight": roles.weight}
    for role, name in numbers.items():
        if name is None:
            continue
        most = _MOST_WEIGHT if role == "sample_weight" else 1.0
        count, shown = _wrong(reading.frame.select(v=number(name)), (nw.col("v") >= 0.0) & (nw.col("v") <= most))
        if count:
            _refuse_values(role, asked.columns[role], shown, f"{count:,} of {total:,} rows")
    if roles.fold is not None:
        folds = reading.frame.select(v=nw.col(roles.fold))
        count, _ = _wrong(folds, _there("v", reading.schema[roles.fold]))
        if count:
            refuse(
                f"cv_column or key {asked.fold!r} must not be missing",
                f"{count:,} of {total:,} rows without",
                "Drop these rows, or give them a fold.",
            )
    labels = reading.frame.select(y=outcome(roles, reading.schema[roles.target]), v=nw.col(roles.target))
    count, shown = _wrong(labels, nw.col("y") > -2)
    rule = f"target {asked.target!r} must be 0 or 1 (or −1 or 1, or boolean) in every row"
    if roles.pos_label is not None:
        rule = f"target {asked.target!r} must not be missing"
    remedy = "Drop rows without an outcome." if shown == ["missing"] else "Pass pos_label= for other labels."
    refuse(rule, f"{listed(shown)} in {count:,} of {total:,} rows", remedy, LabelError)


def _wrong(column: nw.LazyFrame[Any], holds: nw.Expr) -> tuple[int, list[str]]:
    """How many values break a rule, and some of them as people write them."""
    fine = nw.when(holds).then(nw.lit(1)).otherwise(nw.lit(0))
    wrong = column.with_columns(fine=fine).filter(nw.col("fine") == 0).select("v")
    count = int(fetched(wrong.select(n=nw.len()))["n"][0])
    sample = [plain_label(value) for value in fetched(wrong.head(1000))["v"].tolist()] if count else []
    return count, list(dict.fromkeys("missing" if value is None else plain(value) for value in sample))


def _refuse_values(role: str, name: str, shown: list[str], rows: str) -> NoReturn:
    what = f"{listed(sorted(shown, key=_as_number))} in {rows}"
    if role == "sample_weight":
        refuse(f"sample_weight {name!r} must be finite and not negative", what, "Drop or mend these rows.")
    remedy = "If these are percentages, divide by 100; logits go through a sigmoid first."
    if shown == ["missing"]:
        remedy = "Drop these rows, or fill them."
    refuse(f"{role} {name!r} must hold probabilities from 0 to 1", what, remedy)


def _as_number(shown: object) -> float:
    return math.inf if shown == "missing" else float(str(shown))
