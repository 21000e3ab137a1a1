"""Several classes, all rows: scaling by passes that sum gradients, then a pass for the terms; segments one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np

from scoreprism._core.checks import refuse, write_plain
from scoreprism._core.labels import sort_key
from scoreprism._core.progress import track
from scoreprism._core.simplex import FloatArray, IntArray, clip_law
from scoreprism._findings.finding import Finding
from scoreprism._fitting.chain_fit import expect_surprises, find_overfit
from scoreprism._kernels.term_intervals import Alternative, Moments
from scoreprism._sample.cells import Cells
from scoreprism._sample.level import Level
from scoreprism._sample.sample import Sample
from scoreprism._spelling import mark
from scoreprism.decomposition import Chain, Decomposition
from scoreprism.losses import ProperLoss
from scoreprism.scale._class_rows import MOST_MODELS, ClassRows, Facts, find_facts
from scoreprism.scale._class_scaling import ClassRequest, ScalingFit, with_home
from scoreprism.scale._column_settings import read_period
from scoreprism.scale._engine_pass import group_rows
from scoreprism.scale._expressions import (
    CLASS_FORMULAS,
    SoftmaxExpression,
    add_columns,
    clip_columns,
    is_unbounded,
    list_columns,
    pick,
    with_logs,
    with_maps,
)
from scoreprism.scale._scaled_result import ClassDecomposition, attach_parts, share_floor

#: Most segments, and most periods; each takes separate passes.
MOST_SEGMENTS = 24
#: Passes that the progress bar expects.
_EXPECTED = 7


def decompose_all_rows(rows: ClassRows, request: ClassRequest) -> ClassDecomposition:
    """Decompose the whole, and every segment and period by its own laws and passes."""
    facts = find_facts(rows)
    labels = _list_labels(facts, rows)
    result = _fit(rows, facts, request)
    floors = share_floor(result)
    for kind, place in rows.roles.parts.items():
        parts = {label: _take_part(rows, facts, place, label) for label in labels[kind]}
        result = attach_parts(result, kind, parts, lambda part: _fit(part[0], part[1], request, floors))
    return result


def _list_labels(facts: Facts, rows: ClassRows) -> dict[str, list[tuple[Any, ...]]]:
    kinds = {}
    for kind, place in rows.roles.parts.items():
        labels = {key[place] for key in facts.segments}
        if len(labels) > MOST_SEGMENTS:
            refuse(
                f"`segments` and `time` must make at most {MOST_SEGMENTS} {kind}, each fitted in passes of its own",
                f"{len(labels):,}",
                "Use coarser columns, or `calibrator`='auto', which fits to a sample.",
            )
        kinds[kind] = sorted(labels, key=sort_key)
    return kinds


def _take_part(rows: ClassRows, facts: Facts, place: slice, label: tuple[Any, ...]) -> tuple[ClassRows, Facts]:
    """The rows of a segment or period."""
    mask = np.array([key[place] == label for key in facts.segments])
    frame = rows.frame
    for name, value in zip(rows.roles.key_names[place], label, strict=True):
        raw = read_period(value, rows.roles.period) if name == "time" else value
        frame = frame.filter(nw.col(name).is_null() if raw is None else nw.col(name) == raw)
    return replace(rows, frame=frame), facts.take(mask)


def _fit(
    rows: ClassRows, facts: Facts, request: ClassRequest, floors: Mapping[str, float] | None = None
) -> ClassDecomposition:
    """Fit fold models by passes, then sum the terms in a last pass; an infinite loss takes another at its floor."""
    assert request.scaling is not None  # noqa: S101 - checked by the caller
    labels = facts.fold_labels
    home = _assign_folds(facts, rows, labels)
    ready = with_home(rows, labels)
    fitting = ScalingFit(ready, facts, home, request.scaling)
    passes = 2 + sum(1 for _ in track(fitting.steps(), _EXPECTED, "passes over the data"))
    maps, common = fitting.maps, request.scaling.make_map(fitting.common, rows.k)
    parameters = {"slopes": common.slope.tolist(), "intercepts": common.intercept.tolist()}
    loss, sums = request.loss, _sum_terms(ready, maps, request.loss, request.clip)
    how = {"laws": ["C = P(Y | S)"], "folds": len(maps), "passes": passes}
    findings = [Finding("law_fitted", level=1, subject=request.scaling.name, facts=how)]
    findings += [Finding("zero_weight", n=int(facts.absent))] if facts.absent else []
    findings += expect_surprises(float(sums.surprise.sum()))

    def add_facts(result: Decomposition, passes: int) -> ClassDecomposition:
        error = float(result._moments.std_error(dict.fromkeys(range(result._levels), 1.0)))
        facts_of_all = {"risk_in_all": result.risk, "risk_std_error": error, "passes": passes, "parameters": parameters}
        return ClassDecomposition._of(result, **facts.counts, **facts_of_all)

    whole = _decompose(sums, loss, request, request.clip, findings)
    floor = _find_floor(whole, sums) if floors is None else floors.get(str(loss))
    if floor is None:
        return add_facts(whole, passes)
    again = _sum_terms(ready, maps, loss, floor)  # clipped losses need sums of their own
    twin = _decompose(again, loss, request, floor, findings)._as_floored(round(float(again.moved.sum())))
    return add_facts(replace(whole, floored=add_facts(twin, passes + 1)), passes + 1)


def _find_floor(whole: Decomposition, sums: ClassSums) -> float | None:
    """The distance that scores are kept from 0, if the loss is infinite."""
    return None if whole.clip is not None or whole._finite else _make_sample(sums).floor


def _assign_folds(facts: Facts, rows: ClassRows, labels: Sequence[Any]) -> IntArray:
    """Number the folds of the lines; every class must occur outside of every fold."""
    column = rows.roles.fold
    if not 2 <= len(labels) <= MOST_MODELS:
        refuse(
            f"{mark(rows.roles.fold_role)} {column!r} must make from 2 to {MOST_MODELS} folds",
            f"{len(labels):,}",
            "Change it.",
        )
    place = {label: i for i, label in enumerate(labels)}
    home = np.array([place[fold] for fold in facts.folds], dtype=np.intp)
    y, n = facts.table["y"].astype(np.intp), facts.table["n"]
    counts = np.bincount(y, n, rows.k)
    if (counts > 0).sum() < 2:
        refuse("the target must hold at least two classes", f"{int((counts > 0).sum())}", "Pass more rows.")
    for f, label in enumerate(labels):
        inside = np.bincount(y[home != f], n[home != f], rows.k)
        missing = np.flatnonzero((inside == 0) & (counts >= 2))
        if missing.size:
            got = f"none of {write_plain(rows.roles.classes[missing[0]])} outside of fold {write_plain(label)}"
            refuse("every class must be outside of every fold", got, f"Use other folds than those of {column!r}.")
    return home


# ── the last pass ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ClassSums:
    """Sums of the last pass: a line for each class and pattern of laws that excluded the outcome."""

    y: IntArray  # (lines,): the class
    zero: IntArray  # (lines,): by bits, the given levels that excluded it
    n: FloatArray  # (lines,): rows
    w: FloatArray  # (lines,): Σw
    w2: FloatArray  # (lines,): Σw²
    surprise: FloatArray  # (lines,): Σ(1 − max C)
    # components x of the rows: steps of the loss, then the spread of C
    first: FloatArray  # (lines, c): Σw·x
    second: FloatArray  # (lines, c): Σw²·x
    products: FloatArray  # (lines, c, c): Σw²·x·x'
    levels: tuple[str, ...]  # S, C and the given levels above
    k: int  # number of classes
    moved: FloatArray  # (lines,): rows whose score was clipped


def _sum_terms(rows: ClassRows, maps: Sequence[SoftmaxExpression], loss: ProperLoss, clip: float | None) -> ClassSums:
    """Evaluate all maps on all rows, that of the row's own fold as C, and sum terms and cross-products."""
    k, folds, n_levels = rows.k, len(maps), len(rows.roles.levels)
    distances = {f"m{f}": one.floor for f, one in enumerate(maps)}
    mean = {f"mid_{j}": add_columns([nw.col(f"m{f}_{j}") for f in range(folds)]) * (1.0 / folds) for j in range(k)}
    at_home = {f"own_{j}": pick([nw.col(f"m{f}_{j}") for f in range(folds)], "home") for j in range(k)}
    size = n_levels + 2  # steps of S, C and the levels above, and one spread
    sums = {f"s_{name}": value for name, value in _build_summands(rows, size).items()}
    sums |= {} if clip is None else {"s_moved": nw.col("moved")}

    def build(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        frame = clip_columns(with_maps(with_logs(frame, k), maps, k), distances, k)
        if clip is not None:
            least = nw.min_horizontal(*list_columns("p0", k))
            frame = frame.with_columns(moved=(least < clip).cast(nw.Float64))
            laws = [*distances, *(f"p{t}" for t in range(n_levels))]
            frame = clip_columns(frame, dict.fromkeys(laws, clip), k)
        frame = frame.with_columns(**mean, **at_home)
        never = [(pick(list_columns(f"p{t}", k)) <= 0.0).cast(nw.Int64) * 2**t for t in range(n_levels)]
        frame = frame.with_columns(**_build_components(n_levels, folds, k, loss), zero=add_columns(never))
        return frame.select("y", "zero", **sums)

    table = group_rows(rows.frame, build, ["y", "zero"], dict.fromkeys(sums, "sum"))
    return _read_sums(table, rows, size)


def _build_summands(rows: ClassRows, size: int) -> dict[str, nw.Expr]:
    """Columns to be summed: ``a`` Σw·x, ``b`` Σw²·x, ``d`` Σw²·x·x'."""
    columns: dict[str, nw.Expr] = {"surprise": 1.0 - nw.max_horizontal(*list_columns("own", rows.k))}
    w = nw.col("w") if rows.roles.has_weights else nw.lit(1.0)
    if rows.roles.has_weights:
        columns |= {"w": w, "w2": w * w}
    for a in range(size):
        columns[f"a{a}"] = w * nw.col(f"x{a}")
        if rows.roles.has_weights:
            columns[f"b{a}"] = w * w * nw.col(f"x{a}")
        for b in range(a, size):
            columns[f"d{a}_{b}"] = w * w * nw.col(f"x{a}") * nw.col(f"x{b}")
    return columns


def _build_components(n_levels: int, folds: int, k: int, loss: ProperLoss) -> dict[str, nw.Expr]:
    """Columns ``x{component}``; an infinite loss counts as 0 and is recorded in ``zero``."""
    order = ["p0", "own", *(f"p{t}" for t in range(1, n_levels))]
    formula = CLASS_FORMULAS[type(loss)]
    values = [formula.loss(pick(list_columns(name, k)), list_columns(name, k)) for name in order]
    columns = {f"x{t}": before - after for t, (before, after) in enumerate(pairwise(values))}
    columns[f"x{len(order) - 1}"] = values[-1]
    laws = [list_columns(f"m{f}", k) for f in range(folds)]
    return columns | {f"x{len(order)}": formula.spread(laws, list_columns("mid", k))}


def _read_sums(table: dict[str, Any], rows: ClassRows, size: int) -> ClassSums:
    n = table["n"].astype(np.float64)
    w, w2 = (table["s_w"], table["s_w2"]) if rows.roles.has_weights else (n, n)
    first = np.column_stack([table[f"s_a{a}"] for a in range(size)])
    second = np.column_stack([table[f"s_b{a}"] for a in range(size)]) if rows.roles.has_weights else first
    products = np.zeros((n.size, size, size))
    for a in range(size):
        for b in range(a, size):
            products[:, a, b] = products[:, b, a] = table[f"s_d{a}_{b}"]
    return ClassSums(
        y=table["y"].astype(np.intp),
        zero=table["zero"].astype(np.intp),
        n=n,
        w=w,
        w2=w2,
        surprise=table["s_surprise"],
        first=first,
        second=second,
        products=products,
        levels=("S", "C", *rows.roles.levels[1:]),
        k=rows.k,
        moved=table.get("s_moved", np.zeros(n.size)),
    )


# ── from sums to terms ──────────────────────────────────────────────────────────────────────────────


def _decompose(
    sums: ClassSums, loss: ProperLoss, request: ClassRequest, clip: float | None, findings: Sequence[Finding]
) -> Decomposition:
    """Terms of one loss, with the resolution form by the same law C."""
    assert request.scaling is not None  # noqa: S101 - checked by the caller
    form = request.form
    levels = len(sums.levels)
    sample = _make_sample(sums)
    chain = Chain.of(sample, _make_levels(sample, sums.levels), findings=tuple(findings))
    spread = np.zeros((2 * levels, levels + 1))
    spread[:levels, :levels] = np.eye(levels)
    spread[levels + 1, levels] = 1.0  # only C has one
    moments = _find_moments(sums, spread, np.zeros((sums.n.size, 2 * levels)))
    infinite = _find_infinite(sums, loss)
    infinite_rows = chain._find_infinite_rows(np.where(infinite, np.inf, 0.0), loss, form)
    moments = _with_infinite(moments, infinite)
    risk = float(moments.mean[:levels].sum())
    result = chain._conclude(loss, form, clip, moments, risk, None, infinite_rows)
    own = Alternative(
        request.scaling.name,
        loss=float(moments.mean[1:levels].sum()),
        difference=moments.value({0: 1.0}),
        spread=float(moments.mean[levels + 1]),
        std_error=moments.std_error({0: 1.0}),
    )
    overfit = find_overfit(result, 1)
    if overfit is not None:  # without a warning: scalings of many rows hardly ever overfit
        result = replace(result, findings=(*result.findings, overfit))
    return replace(result, _alternatives=(own,), _resolution=partial(_decompose_resolution, sums, result))


def _make_sample(sums: ClassSums) -> Sample:
    """Lines as a sample, of which only the number of rows is used."""
    law = np.full((sums.n.size, sums.k), 1.0 / sums.k)
    return Sample(sums.y, {"model": law}, weight=sums.w, cells=Cells(sums.n, sums.w2))


def _make_levels(sample: Sample, names: Sequence[str]) -> list[Level]:
    """Levels that are known by their sums."""
    return [Level.of(name, sample.prediction, is_summed=True) for name in names]


def _find_moments(sums: ClassSums, turn: FloatArray, shift: FloatArray) -> Moments:
    """Moments of turn·x + shift, `shift` being constant within a line."""
    mass = float(sums.w.sum())
    first = sums.first @ turn.T + shift * sums.w[:, None]
    part, moved = sums.second @ turn.T, shift * sums.w2[:, None]
    second = part + moved
    mean = first.sum(axis=0) / mass
    products = np.einsum("ia,lab,jb->ij", turn, sums.products, turn)
    products += part.T @ shift + shift.T @ part + moved.T @ shift
    along = np.outer(mean, second.sum(axis=0))
    covariance = products - along - along.T + np.outer(mean, mean) * float(sums.w2.sum())
    return Moments(mean, covariance / mass**2 if sums.n.sum() > 1 else covariance * np.nan)


def _find_infinite(sums: ClassSums, loss: ProperLoss) -> FloatArray:
    """Lines where a level has an infinite loss, (levels, lines)."""
    infinite = np.zeros((len(sums.levels), sums.n.size), dtype=bool)
    if is_unbounded(loss):
        for t, row in enumerate([0, *range(2, len(sums.levels))]):
            infinite[row] = (sums.zero >> t) & 1
    return infinite


def _with_infinite(moments: Moments, infinite: FloatArray) -> Moments:
    """An infinite loss of S makes the first step infinite, and its covariances undefined."""
    if not infinite[0].any():
        return moments
    mean, covariance = moments.mean.copy(), moments.covariance.copy()
    mean[0] = np.inf
    covariance[0, :] = covariance[:, 0] = np.nan
    return Moments(mean, covariance)


def _decompose_resolution(sums: ClassSums, whole: Decomposition) -> Decomposition:
    """Uncertainty − resolution + reliability: the marginal law has one known loss per class."""
    loss, clip, sample = whole.loss, whole.clip, _make_sample(sums)
    marginal = np.bincount(sums.y, sums.w, sums.k) / sums.w.sum()
    law = np.tile(marginal, (sums.n.size, 1))
    constant = loss.evaluate(clip_law(law, clip), sums.y)
    levels = len(sums.levels)
    turn = np.zeros((6, levels + 1))
    turn[0, 0] = 1.0
    turn[1, 1:levels] = 1.0  # the loss of C
    turn[4, levels] = 1.0
    shift = np.zeros((sums.n.size, 6))
    shift[:, 1], shift[:, 2] = -constant, constant
    moments = _with_infinite(_find_moments(sums, turn, shift), _find_infinite(sums, loss)[:1])
    chain = Chain.of(sample, _make_levels(sample, ("S", "C"))).with_marginal()
    return chain._conclude(loss, whole.form, clip, moments, whole.risk, None, ())
