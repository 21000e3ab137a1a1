"""Several classes by a sample: the loss of all rows is summed, laws are fitted to some of them in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import refuse
from scoreprism._fitting.chain_fit import Request, prepare
from scoreprism.decomposition import Decomposition
from scoreprism.losses import ProperLoss
from scoreprism.scale._class_result import ClassDecomposition, ClassRequest, class_scaled, with_parts
from scoreprism.scale._classes import DRAWS, MOST_FOLDS, ClassRows, Facts, find_facts, read_rows
from scoreprism.scale._engines import engine_of, fetched
from scoreprism.scale._groups import coded, key_order
from scoreprism.scale._laws import CLASS_FORMULAS, columns_of, picked
from scoreprism.scale._losses import unbounded
from scoreprism.scale._reading import segment_labels
from scoreprism.scale._result import decomposed_each
from scoreprism.scale._sample import SAMPLERS, drawn, trimmed


def by_sample(frame: Any, rows: ClassRows, request: ClassRequest) -> dict[str, ClassDecomposition]:
    """All rows are counted and their loss summed; laws are fitted to a sample, in memory."""
    facts = find_facts(rows, _loss_sums(rows, request), request.clip)
    table, how = _drawn_rows(frame, rows, facts, request)
    used = table["y"].shape[0]
    whole = _decomposed_rows(table, rows, request)
    results = {}
    for i, (name, found) in enumerate(whole.items()):
        risk, error = _risk_of_all(facts, request.losses[name], i)
        notes = _sample_notes(used, facts.n, how, risk, error)
        results[name] = _sampled(found, notes, facts, risk, error)
        if found.floored is not None:  # the loss of all rows is not summed at the floor
            results[name] = replace(
                results[name], floored=_sampled(found.floored, notes[:1], facts, math.nan, math.nan)
            )
    floors = {name: one.floored.clip for name, one in results.items() if one.floored and one.floored.clip}
    count, keys = len(rows.columns.roles.by), rows.keys
    for kind, names in {"segments": keys[:count], "periods": keys[count:]}.items():
        if names:
            parts = _parts_of(table, names, rows.columns.roles.every)
            fit = partial(_decomposed_rows, rows=rows, request=request, floors=floors)
            found_by = decomposed_each(parts, fit, request.losses)
            results = {name: with_parts(one, kind, found_by[name]) for name, one in results.items()}
    return results


def _sampled(found: Decomposition, notes: Sequence[str], facts: Facts, risk: float, error: float) -> ClassDecomposition:
    """A decomposition of a sample, with what is known of all rows."""
    noted = replace(found, notes=(*notes, *found.notes))
    return replace(class_scaled(noted, facts, 2, None, risk, error), _weight=found._mass, _held=found.n_units)


def _drawn_rows(
    frame: Any, rows: ClassRows, facts: Facts, request: ClassRequest
) -> tuple[dict[str, NDArray[Any]], str]:
    """The rows that are used, and how they were drawn."""
    fold = ["fold"] if rows.columns.roles.fold is not None else []
    names = [*rows.law_columns, "y", *(["w"] if rows.weighted else []), *fold, *rows.keys]
    if facts.n <= request.sample:
        return fetched(rows.frame.select(*names)), ""
    by_key = _by_hash(rows, facts, request)
    if by_key is not None:
        how = f"by the hash of {rows.columns.roles.fold!r}, whole keys together"
        return fetched(by_key.select(*names)), how
    kept = read_rows(drawn(frame, request.sample, facts.n, request.seed), rows.columns)
    sampler = SAMPLERS.get(engine_of(frame))
    how = "at random" if sampler is None else f"at random by {engine_of(frame)}, repeatable given {sampler.repeats}"
    return trimmed(fetched(kept.frame.select(*names)), request.sample, request.seed), how


def _by_hash(rows: ClassRows, facts: Facts, request: ClassRequest) -> Any:
    """Whole keys, the same in every engine; None without a key, or where keys are too few to make a sample of."""
    if rows.columns.roles.fold_hash is None:
        return None
    share = request.sample / facts.n
    place = (nw.col("draw") + request.seed % DRAWS) % DRAWS
    kept = rows.frame.with_columns(place=place).filter(nw.col("place") < int(share * DRAWS))
    count = int(fetched(kept.select(n=nw.len()))["n"][0])
    return kept if 0.8 * request.sample <= count <= 1.25 * request.sample else None


def _decomposed_rows(
    table: Mapping[str, NDArray[Any]],
    rows: ClassRows,
    request: ClassRequest,
    floors: Mapping[str, float] | None = None,
) -> dict[str, Decomposition]:
    """Plain decompose on rows in memory; parts at the floor of the whole."""
    k, classes = rows.k, rows.columns.classes
    laws = [np.column_stack([table[f"p{t}_{j}"] for j in range(k)]).astype(np.float64) for t in range(len(rows.levels))]
    labels = np.empty(k, dtype=object)
    labels[:] = classes
    given: dict[str, Any] = dict(zip(("q", "latent"), laws[1:], strict=False))
    asked = Request(
        labels[table["y"].astype(np.intp)],
        laws[0],
        calibrator="vector-scaling" if request.calibrator == "vector" else request.calibrator,
        cv=_splits(table["fold"]) if "fold" in table else request.cv,
        sample_weight=table.get("w"),
        classes=list(classes),
        random_state=request.random_state,
        **given,
    )
    return prepare(asked, tuple(request.losses.values()), request.form, request.clip).decomposed(floors)


def _splits(folds: NDArray[Any]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    labels = sorted(set(folds.tolist()), key=key_order)
    if not 2 <= len(labels) <= MOST_FOLDS:
        refuse(f"folds must be from 2 to {MOST_FOLDS}", f"{len(labels):,}", "Use another `cv_column` or `key`.")
    return [(np.flatnonzero(folds != label), np.flatnonzero(folds == label)) for label in labels]


def _parts_of(
    table: Mapping[str, NDArray[Any]], names: Sequence[str], every: str | None
) -> dict[tuple[Any, ...], dict[str, NDArray[Any]]]:
    """The rows of each segment, or of each period."""
    labels, place = coded(segment_labels(table, names, every))
    held = {label: place == i for i, label in enumerate(labels)}
    return {label: {name: column[rows] for name, column in table.items()} for label, rows in held.items()}


def _loss_sums(rows: ClassRows, request: ClassRequest) -> dict[str, nw.Expr]:
    """Sums of the loss of S over all rows, for losses that engines evaluate."""
    law = columns_of("p0", rows.k)
    hit = picked(law)
    w = nw.col("w") if rows.weighted else nw.lit(1.0)
    sums: dict[str, nw.Expr] = {"never": (hit <= 0.0).cast(nw.Int64)}
    for i, loss in enumerate(request.losses.values()):
        if type(loss) in CLASS_FORMULAS:
            value = CLASS_FORMULAS[type(loss)].loss(hit, law)
            sums |= {f"a{i}": w * value, f"b{i}": w * w * value, f"d{i}": w * w * value * value}
    return sums


def _risk_of_all(facts: Facts, loss: ProperLoss, i: int) -> tuple[float, float]:
    """Mean loss of S over all rows and its standard error; NaN for a loss that engines do not evaluate."""
    table = facts.table
    if f"a{i}" not in table:
        return math.nan, math.nan
    if unbounded(loss) and table["never"].any():
        return math.inf, math.nan
    mass = float(table["w"].sum())
    risk = float(table[f"a{i}"].sum()) / mass
    squares = table[f"d{i}"].sum() - 2.0 * risk * table[f"b{i}"].sum() + risk**2 * table["w2"].sum()
    return risk, math.sqrt(max(float(squares), 0.0)) / mass


def _sample_notes(used: int, total: int, how: str, risk: float, error: float) -> list[str]:
    if used == total:
        return [f"all {total:,} rows were used"]
    sample = f"C is fitted to a sample of {used:,} of {total:,} rows, drawn {how}"
    notes = [f"{sample}: terms and intervals are those of a sample of that size"]
    if math.isfinite(risk):
        notes.append(f"the loss over all rows is {risk:.6g}, with a standard error of {error:.2g}")
    return notes
