"""Expressions that engines evaluate for each row: the cell of a score, losses, and laws of several classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import narwhals as nw
import numpy as np

from scoreprism._core.checks import parse_count, refuse
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism.losses import Brier, LogLoss, ProperLoss, RankedProbability, Spherical

Frame = nw.LazyFrame[Any]
Exprs = Sequence[nw.Expr]

# ── cells of the score: a grid that every engine computes to the last bit ───────────────────────────

#: Default number of cells; docs/scale.md measures what it costs.
CELLS = 1024
#: More cells than this no longer summarise anything.
MOST_CELLS = 1 << 20


def parse_cells(cells: object) -> int:
    """Parse the number of cells between 0 and 1."""
    count = parse_count(cells, "cells", 8)
    if count > MOST_CELLS:
        refuse(
            f"`cells` must be at most {MOST_CELLS:,}", f"{count:,}", f"The default, {CELLS}, is enough for most data."
        )
    return count


def find_cells(score: FloatArray, cells: int) -> IntArray:
    """The cell of each score: 0 holds s = 0 alone, cells + 1 holds s = 1 alone, the others divide (0, 1)."""
    # equal steps of √(2s), mirrored above one half, cost nearly the same log loss everywhere, and every machine rounds
    # a square root alike, so that all engines agree on cells
    low = score < 0.5
    steps = np.ceil(np.sqrt(2.0 * np.where(low, score, 1.0 - score)) * (cells / 2)).astype(np.intp)
    return np.where(low, steps, cells + 1 - steps)


def with_root(frame: Frame, score: str) -> Frame:
    """Add the column ``root``, step by step: some engines evaluate repeated expressions again."""
    s = nw.col(score)
    near = frame.with_columns(root=nw.when(s < 0.5).then(s).otherwise(1.0 - s) * 2.0)
    return near.with_columns(root=nw.col("root").sqrt())


def build_parts(score: nw.Expr, parts: float) -> nw.Expr:
    """The place of a score between 0 and 2 in whole parts of a unit; of a frame `with_root`."""
    root = nw.col("root")
    return (nw.when(score < 0.5).then(root).otherwise(2.0 - root) * parts).floor()


def build_cell(score: nw.Expr, cells: int) -> nw.Expr:
    """`find_cells` in an engine, as a whole float; of a frame `with_root`."""
    below = (nw.col("root") * (-cells / 2)).floor()  # minus the steps, rounded up
    return nw.when(score < 0.5).then(0.0 - below).otherwise(below + (cells + 1.0))


# ── losses of two classes, from the probability of what happened ────────────────────────────────────


def avoid_zero(hit: nw.Expr) -> nw.Expr:
    """p_y, or 1 where it is 0, for engines without log 0; such rows are counted."""
    return hit + (hit <= 0.0).cast(nw.Float64)


def _half_square(hit: nw.Expr, _: nw.Expr) -> nw.Expr:
    return (1.0 - hit) * (1.0 - hit)


def _spherical_of_two(hit: nw.Expr, _: nw.Expr) -> nw.Expr:
    rest = 1.0 - hit
    return 1.0 - hit / (hit * hit + rest * rest).sqrt()


#: Losses of two classes that engines evaluate, as functions of p_y (and of what `avoid_zero` makes of it); the others
#: are evaluated on cells.
FORMULAS: dict[type[ProperLoss], Callable[[nw.Expr, nw.Expr], nw.Expr]] = {
    LogLoss: lambda _, some: 0.0 - some.log(),
    Brier: _half_square,
    RankedProbability: _half_square,
    Spherical: _spherical_of_two,
}


def has_formula(loss: ProperLoss) -> bool:
    """Whether an engine evaluates this loss for each row."""
    return type(loss) in FORMULAS


def is_unbounded(loss: ProperLoss) -> bool:
    """Whether probability 0 for the outcome has an infinite loss."""
    return bool(np.isinf(loss.evaluate(np.zeros(1), np.ones(1, dtype=np.intp)))[0])


# ── laws of several classes ─────────────────────────────────────────────────────────────────────────

#: Stands for log 0: less than the logarithm of any probability that a fit can tell from 0.
NOWHERE = -1e4


def add_columns(values: Exprs) -> nw.Expr:
    """Add columns."""
    return reduce(add, values)


def pick(values: Exprs, column: str = "y") -> nw.Expr:
    """Pick the value whose number a column holds; with ``y``, that of the outcome."""
    picked = values[-1]
    for k in range(len(values) - 2, -1, -1):
        picked = nw.when(nw.col(column) == k).then(values[k]).otherwise(picked)
    return picked


@dataclass(frozen=True)
class SoftmaxExpression:
    """A map softmax(slope_k · z_k + intercept_k), z being log-probabilities minus their mean."""

    slope: FloatArray  # (K,): temperature scaling has equal ones
    intercept: FloatArray  # (K,): it has none
    low: float | None = None  # probabilities below it count as `low`; None where there are none
    floor: float = 0.0  # no result is below it


def with_logs(frame: Frame, k: int) -> Frame:
    """Add columns ``l{k}``, the K logarithms of a row; engines disagree on log 0."""
    columns = {}
    for c in range(k):
        p = nw.col(f"p0_{c}")
        some = nw.when(p > 0.0).then(p).otherwise(nw.lit(1.0)).log()
        columns[f"l{c}"] = nw.when(p > 0.0).then(some).otherwise(nw.lit(NOWHERE))
    return frame.with_columns(**columns)


def number_charts(maps: Sequence[SoftmaxExpression]) -> list[int]:
    """Which ``z{c}`` of `with_maps` each map uses: maps with the same `low` share one."""
    lows = list(dict.fromkeys(one.low for one in maps))
    return [lows.index(one.low) for one in maps]


def with_maps(frame: Frame, maps: Sequence[SoftmaxExpression], k: int) -> Frame:
    """Add columns ``m{f}_{k}``, the law of each map, and ``z{c}_{k}``, its input; needs `with_logs`."""
    # in layers, so that no engine computes anything twice; names must differ by more than case
    chart_of = number_charts(maps)
    frame = _center_logs(frame, list(dict.fromkeys(one.low for one in maps)), k)
    eta = {}
    for f, (one, c) in enumerate(zip(maps, chart_of, strict=True)):
        for j in range(k):
            eta[f"h{f}_{j}"] = nw.col(f"z{c}_{j}") * float(one.slope[j]) + float(one.intercept[j])
    frame = frame.with_columns(**eta)
    frame = frame.with_columns(**{f"x{f}": nw.max_horizontal(*list_columns(f"h{f}", k)) for f in range(len(maps))})
    up = {f"e{f}_{j}": (nw.col(f"h{f}_{j}") - nw.col(f"x{f}")).exp() for f in range(len(maps)) for j in range(k)}
    frame = frame.with_columns(**up)
    frame = frame.with_columns(**{f"t{f}": add_columns(list_columns(f"e{f}", k)) for f in range(len(maps))})
    law = {f"m{f}_{j}": nw.col(f"e{f}_{j}") / nw.col(f"t{f}") for f in range(len(maps)) for j in range(k)}
    return frame.with_columns(**law)


def list_columns(name: str, k: int) -> list[nw.Expr]:
    """The columns of a law, class by class."""
    return [nw.col(f"{name}_{j}") for j in range(k)]


def _center_logs(frame: Frame, lows: Sequence[float | None], k: int) -> Frame:
    raised = {}
    for c, low in enumerate(lows):
        for j, log in enumerate(nw.col(f"l{j}") for j in range(k)):
            raised[f"u{c}_{j}"] = log if low is None else log.clip(lower_bound=float(np.log(low)))
    frame = frame.with_columns(**raised)
    frame = frame.with_columns(**{f"a{c}": add_columns(list_columns(f"u{c}", k)) * (1.0 / k) for c in range(len(lows))})
    centre = {f"z{c}_{j}": nw.col(f"u{c}_{j}") - nw.col(f"a{c}") for c in range(len(lows)) for j in range(k)}
    return frame.with_columns(**centre)


def build_log_hit(f: int, k: int) -> nw.Expr:
    """Log p_y of map f, before its floor."""
    return pick(list_columns(f"h{f}", k)) - nw.col(f"x{f}") - nw.col(f"t{f}").log()


def clip_columns(frame: Frame, laws: dict[str, float], k: int) -> Frame:
    """`clip_law` in the engine: keep the columns ``{name}_{k}`` of each law at its distance from 0."""
    laws = {name: distance for name, distance in laws.items() if distance > 0.0}
    if not laws:
        return frame
    least = {f"{name}_low": nw.min_horizontal(*list_columns(name, k)) for name in laws}
    over = {}
    for name, distance in laws.items():
        for j, p in enumerate(list_columns(name, k)):
            over[f"{name}_o{j}"] = (p - distance).clip(lower_bound=0.0)
    frame = frame.with_columns(**least, **over)
    sums = {f"{name}_s": add_columns([nw.col(f"{name}_o{j}") for j in range(k)]) for name in laws}
    frame = frame.with_columns(**sums)
    out = {}
    for name, distance in laws.items():
        mass = nw.when(nw.col(f"{name}_s") > 0.0).then(nw.col(f"{name}_s")).otherwise(nw.lit(1.0))
        for j, p in enumerate(list_columns(name, k)):
            raised = nw.col(f"{name}_o{j}") * (1.0 - k * distance) / mass + distance
            out[f"{name}_{j}"] = nw.when(nw.col(f"{name}_low") < distance).then(raised).otherwise(p)
    return frame.with_columns(**out)


# ── losses of several classes ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ClassFormula:
    """A loss of several classes in an engine."""

    # loss from p_y and all p; 0 where it is infinite, which is counted
    loss: Callable[[nw.Expr, Exprs], nw.Expr]
    # from the laws of the models and their mean to Σ_f d(law of f, mean)
    spread: Callable[[Sequence[Exprs], Exprs], nw.Expr]


def _log(hit: nw.Expr, _: Exprs) -> nw.Expr:
    inside = nw.when((hit > 0.0) & (hit < 1.0)).then(hit).otherwise(nw.lit(1.0))
    return 0.0 - inside.log()


def _log_spread(laws: Sequence[Exprs], mean: Exprs) -> nw.Expr:
    """Σ_k c_k Σ_f log(c_k / p_fk); fitted laws are above 0."""
    parts = []
    for k, c in enumerate(mean):
        parts.append(c * (c.log() * float(len(laws)) - add_columns([law[k].log() for law in laws])))
    return add_columns(parts)


def _square(hit: nw.Expr, law: Exprs) -> nw.Expr:
    rest = add_columns([p * p for p in law]) - hit * hit
    return (1.0 - hit) * (1.0 - hit) + rest.clip(lower_bound=0.0)


def _square_spread(laws: Sequence[Exprs], mean: Exprs) -> nw.Expr:
    return add_columns([(p - c) * (p - c) for law in laws for p, c in zip(law, mean, strict=True)])


def _norm(law: Exprs) -> nw.Expr:
    return add_columns([p * p for p in law]).sqrt()


def _spherical(hit: nw.Expr, law: Exprs) -> nw.Expr:
    return 1.0 - hit / _norm(law)


def _spherical_spread(laws: Sequence[Exprs], mean: Exprs) -> nw.Expr:
    along = add_columns([add_columns([p * c for p, c in zip(law, mean, strict=True)]) / _norm(law) for law in laws])
    return _norm(mean) * float(len(laws)) - along


#: Losses of several classes that engines evaluate.
CLASS_FORMULAS: dict[type[ProperLoss], ClassFormula] = {
    LogLoss: ClassFormula(_log, _log_spread),
    Brier: ClassFormula(_square, _square_spread),
    Spherical: ClassFormula(_spherical, _spherical_spread),
}
