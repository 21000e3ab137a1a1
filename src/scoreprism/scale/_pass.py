"""The pass over the data: one group-by that turns rows into sums, in whatever engine holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from scoreprism._validation import listed, plain, refuse
from scoreprism.exceptions import InputError, LabelError, ScoreprismError
from scoreprism.scale._engines import fetched, first_line
from scoreprism.scale._grid import cell_expression, parts_expression, with_root
from scoreprism.scale._losses import by_row, loss_expression, possible
from scoreprism.scale._partial import Partial, Settings
from scoreprism.scale._roles import Roles, hashed, is_outcome, number, outcome, period, period_label
from scoreprism.simplex import FloatArray

#: Rows that are looked at first: many distinct scores among them save the search for few.
_HEAD = 20_000
#: Segments times periods; more than this is a column of identifiers, not of segments.
MOST_SEGMENTS = 20_000
#: Keys of rows that are not in any cell.
_BAD, _ABSENT = -1, -2
#: Bits of the grids that separate distinct scores, from coarse to fine.
_BITS = (16, 24, 32, 40, 48)


@dataclass(frozen=True)
class Reading:
    """A frame, its columns by role (under names the engine takes), their types, and what is to be summed."""

    frame: nw.LazyFrame[Any]
    schema: dict[str, nw.dtypes.DType]
    roles: Roles
    settings: Settings

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels whose law is given."""
        return self.settings.levels


def summed(reading: Reading) -> Partial:
    """The sums of a frame: by distinct score where there are few, else by cell."""
    rows = _rows(reading)
    try:
        exact = _few_scores(rows, reading)
        table = fetched(_grouped(_stated(rows, reading), reading, exact=exact))
        if not exact:
            table["key"], table["event"] = np.divmod(table["key"], 2)  # −1 and −2 become −1
            table["key"] = np.where(table["key"] < 0, np.where(table["event"] == 1, _BAD, _ABSENT), table["key"])
    except ScoreprismError:
        raise
    except Exception as error:  # noqa: BLE001 - every engine has errors of its own
        refuse("the engine must be able to read the data", f"its own error: {first_line(error)}", "Check the columns.")
    _refuse_bad(table, reading)
    return _partial(table, reading, exact=exact)


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
    valid = is_outcome()
    for t in range(len(reading.levels)):
        valid = valid & (nw.col(f"law{t}") >= 0.0) & (nw.col(f"law{t}") <= 1.0)
    if reading.settings.weighted:
        valid = valid & (nw.col("w") >= 0.0) & (nw.col("w") <= 1e300)
    if reading.roles.fold is not None:
        valid = valid & ~nw.col("fold").is_null()
    return valid


def _stated(rows: nw.LazyFrame[Any], reading: Reading) -> nw.LazyFrame[Any]:
    """Rows with a flag whether they count; those that cannot be hold harmless numbers."""
    stated = rows.with_columns(valid=_valid(reading), event=(nw.col("y") == 1).cast(nw.Int64))
    held = {
        f"law{t}": nw.when(nw.col("valid")).then(nw.col(f"law{t}")).otherwise(nw.lit(0.5)) for t, _ in _laws(reading)
    }
    if reading.settings.weighted:
        held["w"] = nw.when(nw.col("valid")).then(nw.col("w")).otherwise(nw.lit(0.0))
    return stated.with_columns(**held)


def _laws(reading: Reading) -> list[tuple[int, str]]:
    return list(enumerate(reading.levels))


# ── groups ──────────────────────────────────────────────────────────────────────────────────────────


def _grouped(rows: nw.LazyFrame[Any], reading: Reading, *, exact: bool) -> nw.LazyFrame[Any]:
    """The one group-by: arithmetic first, plain sums after (Dask knows no others)."""
    settings, score = reading.settings, nw.col("law0")
    columns, sums = _loss_columns(reading, exact=exact)
    if not exact:
        rows = with_root(rows, "law0")
    if columns:
        rows = rows.with_columns(**{f"hit{t}": _hit(f"law{t}", settings.clip) for t, _ in _laws(reading)})
        rows = rows.with_columns(**{f"some{t}": possible(nw.col(f"hit{t}")) for t, _ in _laws(reading)})
    rows = rows.with_columns(key=_key(reading, exact=exact), **columns)
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
    found = [nw.len().alias("n"), nw.col("y").sum().alias("y")]
    found += [nw.col(name).sum() for name in summands]
    if not exact:
        found += [score.min().alias("lo"), score.max().alias("hi")]
    return rows.group_by("key", *(["event"] if exact else []), *_keys(reading)).agg(*found)


def _key(reading: Reading, *, exact: bool) -> nw.Expr:
    """The score itself; or cell and outcome as one whole number, which is grouped faster than two. Below 0: no cell."""
    kind = nw.Float64 if exact else nw.Int64
    score, bad = nw.col("law0"), nw.lit(_BAD, kind)
    key = score if exact else cell_expression(score, reading.settings.cells) * 2 + nw.col("event")
    if reading.settings.weighted:
        key = nw.when(nw.col("w") > 0.0).then(key).otherwise(nw.lit(_ABSENT, kind))
    return nw.when(nw.col("valid")).then(key).otherwise(bad)


def _keys(reading: Reading) -> list[str]:
    roles = reading.roles
    keys = [f"by{i}" for i in range(len(roles.by))]
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
            columns[f"loss{i}{t}"] = loss_expression(loss, nw.col(f"hit{t}"), nw.col(f"some{t}"))
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
        found[f"zero{t}"] = (nw.col(f"hit{t}") <= 0.0).cast(nw.Int64)
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
    score, apart = with_root(score, "s"), 0
    for bits in (*_BITS, None):
        code = nw.col("s") if bits is None else parts_expression(nw.col("s"), 2.0 ** (bits - 1))
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
        score = score.with_columns(code=code).filter(nw.col("code").is_in(found["code"][shared].tolist()))
    return True  # pragma: no cover - the last round has one score per code


# ── the result ──────────────────────────────────────────────────────────────────────────────────────


def _partial(table: dict[str, NDArray[Any]], reading: Reading, *, exact: bool) -> Partial:
    """The table as a partial: keys coded, what is constant in a group filled in."""
    settings, roles = reading.settings, reading.roles
    absent = table["key"] == _ABSENT
    gone = int(table["n"][absent].sum())
    kept = {name: column[~absent] for name, column in table.items()}
    if not kept["n"].size:
        what = f"{gone} rows, all of weight 0" if gone else "0 rows"
        refuse("data must hold rows with weight", what, "Check the filter, or the weights.")
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
    return value if isinstance(value, (str, int, float, bool)) else str(value)


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


def _refuse_bad(table: dict[str, NDArray[Any]], reading: Reading) -> None:
    """Rows that cannot be summed, in words; and outcomes of three labels."""
    roles = reading.roles
    bad = table["key"] == _BAD
    if bad.any():
        _explain(int(table["n"][bad].sum()), int(table["n"].sum()), reading)
    other = (table["event"] == 0) & ~bad
    minus, zeros = -int(table["y"][other].sum()), int(table["n"][other].sum())
    if 0 < minus < zeros:
        refuse(
            f"target {roles.target!r} must hold two labels",
            "−1, 0 and 1",
            "Pass pos_label=1 if all others are the other class, or clean the column.",
            LabelError,
        )
    if roles.pos_label is not None:
        _require_two_labels(reading)
    segments = set(zip(*(table[name].tolist() for name in _keys(reading)), strict=True))
    if len(segments) > MOST_SEGMENTS:
        found = f"{len(segments):,}"
        refuse(f"by, time and folds must make at most {MOST_SEGMENTS:,} groups", found, "Use coarser columns.")


def _require_two_labels(reading: Reading) -> None:
    """With pos_label, everything else must be one other label."""
    roles = reading.roles
    target = reading.frame.select(label=nw.col(roles.target))
    others = target.filter((nw.col("label") != roles.pos_label) & ~nw.col("label").is_null())
    found = fetched(others.select(low=nw.col("label").min(), high=nw.col("label").max()))
    low, high = found["low"][0], found["high"][0]
    if low != high and reading.schema[roles.target] != nw.Boolean:
        refuse(
            f"target {roles.target!r} must hold two labels",
            f"{roles.pos_label!r}, {plain(low)}, {plain(high)}",
            "Filter the rows, or make a column of 0 and 1.",
            LabelError,
        )


def _explain(count: int, total: int, reading: Reading) -> None:
    """Say what is wrong with the first column that has something wrong; a further query, on the way to an error."""
    roles = reading.roles
    checks: list[tuple[str, str, nw.Expr]] = []
    for role, name in {
        "score": roles.score,
        "q": roles.q,
        "latent": roles.latent,
        "sample_weight": roles.weight,
    }.items():
        if name is None:
            continue
        most = 1e300 if role == "sample_weight" else 1.0
        checks.append((role, name, (nw.col("v") >= 0.0) & (nw.col("v") <= most)))
    for role, name, holds in checks:
        column = reading.frame.select(v=number(name))
        fine = nw.when(holds).then(nw.lit(1)).otherwise(nw.lit(0))
        wrong = column.with_columns(fine=fine).filter(nw.col("fine") == 0)
        sample = fetched(wrong.select("v").head(1000))["v"]
        if sample.size:
            _refuse_values(role, name, sample, count, total)
    if roles.fold is not None:
        gaps = fetched(reading.frame.select(v=nw.col(roles.fold)).filter(nw.col("v").is_null()).head(1))["v"]
        if gaps.size:
            refuse(
                f"cv_column or key {roles.fold!r} must not be missing",
                f"missing values among {count} bad rows",
                "Fill it.",
            )
    labels = reading.frame.select(y=outcome(roles, reading.schema[roles.target]), v=nw.col(roles.target))
    flagged = labels.with_columns(fine=nw.when(is_outcome()).then(nw.lit(1)).otherwise(nw.lit(0)))
    found = fetched(flagged.filter(nw.col("fine") == 0).select("v").head(1000))["v"]
    shown = listed(dict.fromkeys(plain(plain_label(value)) for value in found.tolist()))
    refuse(
        f"target {roles.target!r} must be 0 or 1 (or −1 or 1, or boolean) in every row",
        f"{shown} in {count:,} of {total:,} rows",
        "Drop missing outcomes, or pass pos_label= for other labels.",
        LabelError,
    )


def _refuse_values(role: str, name: str, sample: NDArray[Any], count: int, total: int) -> None:
    numbers = np.array([np.nan if value is None else float(value) for value in sample.tolist()])
    shown = [f"{value:.6g}" for value in numbers[~np.isnan(numbers)]]
    if not shown:
        what, remedy = "missing or NaN", "Drop these rows, or fill them."
    else:
        what = f"{listed(dict.fromkeys(shown))} and the like"
        remedy = "If these are percentages, divide by 100; logits go through a sigmoid first."
    if role == "sample_weight":
        raise InputError(
            f"sample_weight {name!r} must be finite and not negative; got {what} in {count:,} of {total:,} rows. "
            "Drop or mend these rows."
        )
    raise InputError(
        f"{role} {name!r} must hold probabilities from 0 to 1; got {what} in {count:,} of {total:,} rows. {remedy}"
    )
