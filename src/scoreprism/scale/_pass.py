"""The pass over the data: one group-by that turns rows into sums, in whatever engine holds them."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import refuse
from scoreprism._core.simplex import FloatArray
from scoreprism.scale._engines import fetched, takes_log_of_zero, told
from scoreprism.scale._grid import cell_expression, parts_expression, with_root
from scoreprism.scale._groups import WEIGHTS
from scoreprism.scale._losses import by_row, loss_expression, possible, unbounded
from scoreprism.scale._partial import Partial
from scoreprism.scale._reading import (
    MOST_GROUPS,
    MOST_WEIGHT,
    Reading,
    refuse_bad,
    require_few,
    segment_labels,
    there,
    written,
)
from scoreprism.scale._roles import Seen, hashed, is_outcome, number, outcome, period
from scoreprism.scale._settings import Settings

#: Rows that are looked at first: many distinct scores among them save the search for few.
_HEAD = 20_000
#: Rows in which groups are counted first.
_LOOKED = 100_000
#: Keys of rows that are not in any cell.
_BAD, _ABSENT = -1.0, -2.0
#: Bits of the grids that separate distinct scores, from coarse to fine.
_BITS = (16, 24, 32, 40, 48)


def summed(reading: Reading, seen: Seen) -> Partial:
    """The sums of a frame: by distinct score where there are few, else by cell; none of an empty frame."""
    with told("the engine must be able to read the data", "Check the columns."):
        rows = _rows(reading)
        _refuse_identifiers(rows, reading)
        exact = _few_scores(rows, reading)
        table = fetched(_grouped(_stated(rows, reading, exact=exact), reading, exact=exact))
        if not exact:
            cell, outcome = np.divmod(table["key"], 3)
            table |= {"key": np.where(table["key"] < 0, table["key"], cell), "y": outcome - 1}
        refuse_bad(table, table["key"] == _BAD, reading, seen)
    return _partial(table, reading, exact=exact)


def _refuse_identifiers(rows: nw.LazyFrame[Any], reading: Reading) -> None:
    """Count the groups before cells multiply them: a column of identifiers would fill the memory."""
    few = {"fold" if reading.roles.fold_hash is not None else "", "time" if reading.roles.every is not None else ""}
    names = [name for name in _keys(reading) if name not in few]
    if not names:
        return
    for most in (_LOOKED, None):
        part = rows.select(*names) if most is None else rows.select(*names).head(most)
        groups = int(fetched(part.unique().head(MOST_GROUPS + 1).select(n=nw.len()))["n"][0])
        require_few(groups, reading.settings)


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
        columns["time"] = period(roles, reading.frame)
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
        valid = valid & (nw.col("w") >= 0.0) & (nw.col("w") <= MOST_WEIGHT)
    if reading.roles.fold is not None:
        given = reading.roles.fold_hash is None
        valid = valid & there("fold", reading.schema[reading.roles.fold] if given else nw.Int64())
    return valid


def _stated(rows: nw.LazyFrame[Any], reading: Reading, *, exact: bool) -> nw.LazyFrame[Any]:
    """Rows with a flag whether they count; those that cannot be hold harmless numbers."""
    stated = rows.with_columns(valid=_valid(reading))
    held = {
        f"law{t}": nw.when(nw.col("valid")).then(nw.col(f"law{t}")).otherwise(nw.lit(0.5)) for t, _ in _laws(reading)
    }
    if reading.settings.weighted:
        held["w"] = nw.when(nw.col("valid")).then(nw.col("w")).otherwise(nw.lit(0.0))
    if exact:  # outcomes are grouped by
        held["y"] = nw.when(nw.col("valid")).then(nw.col("y")).otherwise(nw.lit(0)).cast(nw.Int64)
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
        if not takes_log_of_zero(reading.frame):
            rows = rows.with_columns(**{f"some{t}": possible(nw.col(f"hit{t}")) for t, _ in _laws(reading)})
    rows = rows.with_columns(key=_key(reading, exact=exact), **columns)
    moments = {} if exact else {"s": score, "s2": score * score}
    sums = {**moments, **sums}
    if settings.weighted:
        w = nw.col("w")
        squares = {name: w * w * value for name, value in sums.items() if name[0] == "d"}
        firsts = {name: w * value for name, value in sums.items() if name[0] != "d"}
        seconds = {f"b{name[1:]}": w * w * value for name, value in sums.items() if name[0] == "a"}
        powers = dict(zip(WEIGHTS, (w, w * w, w * w * w, w * w * w * w), strict=True))
        sums = {**powers, **firsts, **seconds, **squares}
    summands = {f"sum_{name}": value for name, value in sums.items()} | _impossible(reading)
    rows = rows.with_columns(**summands) if summands else rows
    found = [nw.len().alias("n")]
    found += [nw.col(name).sum() for name in summands]
    if not exact:
        found += [score.min().alias("lo"), score.max().alias("hi")]
    return rows.group_by("key", *(["y"] if exact else []), *_keys(reading)).agg(*found)


def _key(reading: Reading, *, exact: bool) -> nw.Expr:
    """The score itself; or cell and outcome as one whole number, which is grouped faster than two. Below 0: no cell."""
    score = nw.col("law0")
    key = score + 0.0 if exact else cell_expression(score, reading.settings.cells) * 3.0 + (nw.col("y") + 1)
    if reading.settings.weighted:
        key = nw.when(nw.col("w") > 0.0).then(key).otherwise(nw.lit(_ABSENT))
    key = nw.when(nw.col("valid")).then(key).otherwise(nw.lit(_BAD))
    return key if exact else key.cast(nw.Int64)


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
            some = f"hit{t}" if takes_log_of_zero(reading.frame) else f"some{t}"
            columns[f"loss{i}{t}"] = loss_expression(loss, nw.col(f"hit{t}"), nw.col(some))
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
    return nw.when(nw.col("y") == 1).then(p).otherwise(1.0 - p)


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
    keys = [name for name in _keys(reading) if name != "fold"]
    folds = kept["fold"].tolist() if roles.fold is not None else [None] * kept["n"].size
    return Partial.from_groups(
        settings,
        exact=exact,
        segments=segment_labels(kept, keys, roles.every),
        folds=[written(fold) for fold in folds],
        columns=_filled(kept, settings),
        absent=gone,
    )


def _filled(kept: dict[str, NDArray[Any]], settings: Settings) -> dict[str, FloatArray]:
    """Columns of a partial: what was summed, and what follows from it where there are no weights."""
    columns: dict[str, FloatArray] = {
        "key": kept["key"].astype(np.float64),
        "y": (kept["y"] == 1).astype(np.float64),
        "n": kept["n"].astype(np.float64),
    }
    for name, values in kept.items():
        if name.startswith("sum_"):
            columns[name.removeprefix("sum_")] = values.astype(np.float64)
        elif name.startswith("zero") or name in ("lo", "hi"):
            columns[name] = values.astype(np.float64)
    if not settings.weighted:
        columns |= dict.fromkeys(WEIGHTS, columns["n"])
        columns |= {f"b{name[1:]}": values for name, values in list(columns.items()) if name[0] == "a"}
    if settings.weighted and (columns["w4"] < np.finfo(float).tiny).any():
        refuse(
            f"`sample_weight` {settings.sample_weight!r} must be 0, or large enough for a fourth power",
            f"weights below {MOST_WEIGHT**-1:.0e}",
            "Multiply all weights by the same number.",
        )
    return {name: _finite(name, columns, settings) if name[0] in "abd" else columns[name] for name in columns}


def _finite(name: str, columns: dict[str, FloatArray], settings: Settings) -> FloatArray:
    """Moments of a loss, 0 where it is infinite: the cells of 0 and 1 and the columns zero… tell where."""
    size = 2 if name[0] == "d" else 1
    loss, levels = settings.losses[int(name[1:-size])], name[-size:]
    if not unbounded(loss):
        return columns[name]
    never = ~np.isfinite(columns[name])
    for level in levels:
        never |= columns.get(f"zero{level}", np.zeros(1)) > 0.0
    return np.where(never, 0.0, columns[name])
