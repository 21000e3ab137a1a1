"""Several classes by a sample: the loss of all rows is summed, laws are fitted to a sample drawn by the engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import refuse
from scoreprism._core.labels import sort_key
from scoreprism._findings.finding import Finding
from scoreprism._fitting.chain_fit import ChainFit
from scoreprism._sample.sample import Sample
from scoreprism.decomposition import Decomposition
from scoreprism.exceptions import ScoreprismError
from scoreprism.losses import ProperLoss
from scoreprism.scale._class_rows import DRAWS, MOST_MODELS, ClassRows, Facts, find_facts, read_rows
from scoreprism.scale._class_scaling import ClassRequest
from scoreprism.scale._column_settings import read_segments
from scoreprism.scale._engines import fetch, find_engine, wrap
from scoreprism.scale._expressions import CLASS_FORMULAS, is_unbounded, list_columns, pick
from scoreprism.scale._scaled_result import ClassDecomposition, attach_parts, share_floor
from scoreprism.scale._sums import code_labels

#: Default size of a sample.
SAMPLE = 200_000


def decompose_sample(frame: Any, rows: ClassRows, request: ClassRequest) -> ClassDecomposition:
    """Count all rows and sum their loss; fit laws to a sample in memory."""
    facts = find_facts(rows, _build_loss_sums(rows, request.loss), request.clip)
    table, how = _draw_sample(frame, rows, facts, request)
    used = table["y"].shape[0]
    if rows.roles.has_weights:
        table = {name: column[table["w"] > 0.0] for name, column in table.items()}
    sample, folds = _make_sample(table, rows), table.get("fold")
    whole = _decompose(sample, folds, request)
    risk, error = _find_risk(facts, request.loss)
    sampled = _find_sample(used, facts.n, how, risk, error)
    twin = whole.floored  # the loss of all rows is not summed at the floor
    floored = None if twin is None else _add_facts(twin, sampled, facts, math.nan, math.nan)
    result = replace(_add_facts(whole, sampled, facts, risk, error), floored=floored)
    floors = share_floor(result)

    def fit(part: NDArray[np.bool_]) -> Decomposition:
        return _decompose(sample.take(part), None if folds is None else folds[part], request, floors)

    for kind, place in rows.roles.parts.items():
        labels, code = code_labels(read_segments(table, rows.roles.key_names[place], rows.roles.period))
        result = attach_parts(result, kind, {label: code == i for i, label in enumerate(labels)}, fit)
    return result


def _add_facts(result: Decomposition, sampled: Finding, facts: Facts, risk: float, error: float) -> ClassDecomposition:
    """Add the facts of all rows to the decomposition of a sample."""
    facts_of_all = {**facts.counts, "_total": result._mass, "_held": result.n_units, "passes": 2}
    noted = replace(result, findings=(sampled, *result.findings))
    return ClassDecomposition._of(noted, **facts_of_all, risk_in_all=risk, risk_std_error=error)


def _draw_sample(
    frame: Any, rows: ClassRows, facts: Facts, request: ClassRequest
) -> tuple[dict[str, NDArray[Any]], str]:
    """Draw the rows that laws are fitted to, and describe how."""
    fold = ["fold"] if rows.roles.fold is not None else []
    names = [*rows.law_columns, "y", *(["w"] if rows.roles.has_weights else []), *fold, *rows.roles.key_names]
    if facts.n <= request.sample:
        return fetch(rows.frame.select(*names)), ""
    by_key = _draw_by_hash(rows, facts, request)
    if by_key is not None:
        how = f"by the hash of {rows.roles.fold!r}, whole keys together"
        return fetch(by_key.select(*names)), how
    drawn, how = _draw_at_random(frame, request.sample, facts.n, request.seed)
    table = fetch(read_rows(drawn, rows.roles).frame.select(*names))
    return _trim_rows(table, request.sample, request.seed), how


def _draw_by_hash(rows: ClassRows, facts: Facts, request: ClassRequest) -> Any:
    """Draw whole keys, the same in every engine; None without a key, or with too few keys for a sample."""
    if rows.roles.fold_hash is None:
        return None
    share = request.sample / facts.n
    place = (nw.col("draw") + request.seed % DRAWS) % DRAWS
    chosen = rows.frame.with_columns(place=place).filter(nw.col("place") < int(share * DRAWS))
    count = int(fetch(chosen.select(n=nw.len()))["n"][0])
    return chosen if 0.8 * request.sample <= count <= 1.25 * request.sample else None


def _make_sample(table: Mapping[str, NDArray[Any]], rows: ClassRows) -> Sample:
    """Parse the drawn rows as any others."""
    labels = np.empty(rows.k, dtype=object)
    labels[:] = rows.roles.classes
    levels = range(len(rows.roles.levels))
    laws = [np.column_stack([table[f"p{t}_{j}"] for j in range(rows.k)]).astype(np.float64) for t in levels]
    by_level: dict[str, Any] = dict(zip(("y_proba", "q", "latent"), laws, strict=False))
    y = labels[table["y"].astype(np.intp)]
    return Sample.of(y, **by_level, sample_weight=table.get("w"), classes=list(rows.roles.classes))


def _decompose(
    sample: Sample, folds: NDArray[Any] | None, request: ClassRequest, floors: Mapping[str, float] | None = None
) -> Decomposition:
    """Plain decompose on rows in memory; parts at the floor of the whole."""
    fit = ChainFit.of(
        sample,
        calibrator="vector-scaling" if request.calibrator == "vector" else request.calibrator,
        cv=request.cv if folds is None else _make_splits(folds),
        random_state=request.random_state,
    )
    chain: Any = fit.fit([request.loss], request.clip, floors)
    floor = chain.fit.mixture.floors.get(str(request.loss))
    decomposition: Decomposition = chain.decompose_at(request.loss, request.form, request.clip, floor)
    return decomposition


def _make_splits(folds: NDArray[Any]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    labels = sorted(set(folds.tolist()), key=sort_key)
    if not 2 <= len(labels) <= MOST_MODELS:
        refuse(f"folds must be from 2 to {MOST_MODELS}", f"{len(labels):,}", "Use another `fold_column` or `fold_key`.")
    return [(np.flatnonzero(folds != label), np.flatnonzero(folds == label)) for label in labels]


def _build_loss_sums(rows: ClassRows, loss: ProperLoss) -> dict[str, nw.Expr]:
    """Sums of the loss of S over all rows, if engines evaluate it."""
    law = list_columns("p0", rows.k)
    hit = pick(law)
    w = nw.col("w") if rows.roles.has_weights else nw.lit(1.0)
    never: dict[str, nw.Expr] = {"never": (hit <= 0.0).cast(nw.Int64)}
    if type(loss) not in CLASS_FORMULAS:
        return never
    value = CLASS_FORMULAS[type(loss)].loss(hit, law)
    return never | {"a": w * value, "b": w * w * value, "d": w * w * value * value}


def _find_risk(facts: Facts, loss: ProperLoss) -> tuple[float, float]:
    """Mean loss of S over all rows and its standard error; NaN for a loss that engines do not evaluate."""
    table = facts.table
    if "a" not in table:
        return math.nan, math.nan
    if is_unbounded(loss) and table["never"].any():
        return math.inf, math.nan
    mass = float(table["w"].sum())
    risk = float(table["a"].sum()) / mass
    squares = table["d"].sum() - 2.0 * risk * table["b"].sum() + risk**2 * table["w2"].sum()
    return risk, math.sqrt(max(float(squares), 0.0)) / mass


def _find_sample(used: int, total: int, how: str, risk: float, error: float) -> Finding:
    """Which rows C is fitted to."""
    finding = Finding("sampled", n=used, facts={"total": total, "how": how})
    return replace(finding, value=risk).with_facts(error=error) if used < total and math.isfinite(risk) else finding


# ── rows at random: a share is drawn by the engine, then cut to the requested size ───────────────────


@dataclass(frozen=True)
class Sampler:
    """How an engine draws a share of its rows independently (Bernoulli), in bounded memory."""

    keep: Callable[[Any, float, int], Any]  # from a frame, a share and a seed to a frame of the drawn rows
    repeats: str  # what must stay the same for the same seed to give the same rows


def _draw_polars(frame: Any, share: float, seed: int) -> Any:
    import polars as pl

    at = pl.col("__row").hash(seed)
    chosen = frame.lazy().with_row_index("__row").filter(at < int(share * 2.0**64))
    return chosen.drop("__row")


def _draw_duckdb(frame: Any, share: float, seed: int) -> Any:
    chosen = f"select * from __rows using sample {100.0 * share:.12f} percent (bernoulli, {seed:d})"  # noqa: S608 - numbers
    return frame.query("__rows", chosen)


def _draw_ibis(frame: Any, share: float, seed: int) -> Any:
    """Some of the engines behind ibis take no seed."""
    try:
        chosen = frame.sample(share, method="row", seed=seed)
        wrap(chosen.limit(1)).collect()
    except ScoreprismError:
        raise
    except Exception:  # noqa: BLE001 - every engine has errors of its own
        return frame.sample(share, method="row")
    return chosen


#: How each engine draws; other frames are in memory and drawn there.
SAMPLERS: dict[str, Sampler] = {
    "polars": Sampler(_draw_polars, "the order of the rows, and the version of polars"),
    "duckdb": Sampler(_draw_duckdb, "the order of the rows and one thread (SET threads = 1)"),
    "dask": Sampler(lambda frame, share, seed: frame.sample(frac=share, random_state=seed), "the partitions"),
    "spark": Sampler(lambda frame, share, seed: frame.sample(fraction=share, seed=seed), "the partitions"),
    "ibis": Sampler(_draw_ibis, "what its engine needs"),
}


def _draw_at_random(frame: Any, size: int, count: int, seed: int) -> tuple[Any, str]:
    """A frame of slightly more than `size` of `count` rows, and how they were drawn."""
    share = min(1.0, (size + 5.0 * np.sqrt(size) + 10.0) / count)
    engine = find_engine(frame)
    if engine not in SAMPLERS:
        return _draw_in_memory(frame, share, seed), "at random"
    sampler = SAMPLERS[engine]
    return sampler.keep(frame, share, seed), f"at random by {engine}, repeatable given {sampler.repeats}"


def _draw_in_memory(frame: Any, share: float, seed: int) -> Any:
    eager = nw.from_native(frame, eager_only=True)
    chosen = np.flatnonzero(np.random.default_rng(seed).random(len(eager)) < share)
    return eager[chosen.tolist()].to_native()


def _trim_rows(table: dict[str, NDArray[Any]], size: int, seed: int) -> dict[str, NDArray[Any]]:
    """At most `size` of the rows, drawn at random, in their order."""
    count = next(iter(table.values())).shape[0]
    if count <= size:
        return table
    rows = np.sort(np.random.default_rng([seed, 1]).choice(count, size, replace=False))
    return {name: column[rows] for name, column in table.items()}
