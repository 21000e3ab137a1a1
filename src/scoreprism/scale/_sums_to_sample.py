"""From sums to a sample and its chain: folds drawn or read, laws fitted to cells, losses from the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial as bound
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import refuse
from scoreprism._core.simplex import FloatArray, IntArray, clip_law
from scoreprism._findings.finding import Finding
from scoreprism._fitting.candidates import Pooling
from scoreprism._fitting.chain_fit import PARTITIONS, ChainFit
from scoreprism._fitting.crossfit import no_crossfit
from scoreprism._fitting.fitted_laws import ScoreCells
from scoreprism._fitting.parse_learners import MapLearner
from scoreprism._sample.cells import Cells, LossSums
from scoreprism._sample.fit_rows import FitRows
from scoreprism._sample.level import Level
from scoreprism._sample.sample import Sample
from scoreprism.decomposition import Chain
from scoreprism.losses import ProperLoss
from scoreprism.scale._column_settings import MOST_FOLDS
from scoreprism.scale._expressions import is_unbounded

if TYPE_CHECKING:
    from scoreprism.scale._sums import Sums


@dataclass(frozen=True)
class Options:
    """Parsed options of the fit to sums."""

    loss: ProperLoss
    maps: Sequence[MapLearner]  # candidates for C
    cv: int
    form: str
    seed: int
    floors: Mapping[str, float] | None = None  # by loss; those of infinite losses unless given


def fit_sums(sums: Sums, options: Options) -> tuple[Lines, Chain]:
    """Fit a chain to sums; return it with the lines its laws were fitted to."""
    lines = place_lines(sums)
    fit = _make_fit(sums, lines, _find_shares(sums, options), options)
    return lines, fit.fit([options.loss], sums.settings.clip, options.floors)


def _find_shares(sums: Sums, options: Options) -> FloatArray:
    """The share of each group in each fold, (P, K, groups), from the column of folds or drawn."""
    table = sums.table
    codes = table["y"].astype(np.intp)
    if np.unique(codes).size < 2:
        refuse("the target must hold both outcomes", f"only {codes[0]}", "Pass more rows.")
    if sums.settings.fold is None:
        return draw_folds(sums, options.cv, options.seed)
    if not 2 <= len(sums.folds) <= MOST_FOLDS:
        rule = f"folds must be at least 2 and at most {MOST_FOLDS}"
        refuse(rule, f"{len(sums.folds):,}", "Use another column, or none; `fold_key`= deals identifiers to folds.")
    fold = table["fold"].astype(np.intp)
    shares = np.zeros((1, len(sums.folds), fold.size))
    shares[0, fold, np.arange(fold.size)] = 1.0
    alone = _find_lone_fold(shares[0], codes)
    if alone is not None:
        refuse(
            "both outcomes must be outside of every fold",
            f"only one outside of fold number {alone}",
            f"Use other folds than those of {sums.settings.fold!r}.",
        )
    return shares


def _find_lone_fold(share: FloatArray, codes: IntArray) -> int | None:
    """The first fold outside of which only one outcome occurs."""
    outside = [np.unique(codes[one < 1.0]).size < 2 for one in share]
    return outside.index(True) if any(outside) else None


#: Attempts to draw folds with both outcomes outside of each.
_DRAWS = 100


def draw_folds(sums: Sums, cv: int, seed: int) -> FloatArray:
    """Draw how many rows of each group are in each fold, a multinomial, once for each partition."""
    table = sums.table
    codes = table["y"].astype(np.intp)
    rng = np.random.default_rng(seed)
    worth = table["n"] if not sums.settings.has_weights else np.maximum(np.round(table["w"] ** 2 / table["w2"]), 1.0)
    partitions = []
    for _ in range(PARTITIONS):
        for _ in range(_DRAWS):
            share = (rng.multinomial(worth.astype(np.int64), np.full(cv, 1.0 / cv)) / worth[:, None]).T
            if _find_lone_fold(share, codes) is None:
                break
        else:
            refuse(
                "both outcomes must be outside of every fold",
                f"{_DRAWS} draws of {cv} folds without such a split",
                "Pass more rows.",
            )
        partitions.append(share)
    return np.stack(partitions)


def _make_fit(sums: Sums, lines: Lines, shares: FloatArray, options: Options) -> ChainFit:
    """Present lines as `decompose` presents rows."""
    settings, table, group = sums.settings, sums.table, lines.group
    codes = table["y"].astype(np.intp)[group]
    weight = table["w"][group] * lines.share
    worth = float(sums.table["w"].sum()) / float(sums.table["w2"].sum()) if settings.has_weights else 1.0
    rows = FitRows(lines.score, codes, weight * worth, 2, "probability")
    cells = Cells(
        counts=table["n"][group] * lines.share,
        squares=table["w2"][group] * lines.share,
        cubes=table["w3"][group] * lines.share,
        fourths=table["w4"][group] * lines.share,
        home=None if sums.exact else _find_centers(sums)[1][group],
        losses=_list_loss_sums(sums, lines),
        losses_at=bound(_list_loss_sums, sums, lines) if settings.clip is None else None,
    )
    return ChainFit(
        sample=Sample(codes, {"model": lines.score}, np.array([0, 1]), weight, cells=cells),
        rows=rows,
        plan=replace(no_crossfit(rows), trains=(np.empty(0, dtype=np.intp),) * shares.shape[1]),
        maps=options.maps,
        reference=None,
        levels=[Level.of(name, np.full(codes.size, 0.5), is_summed=True) for name in settings.levels[1:]],
        calibration=None,
        seed=options.seed,
        n_jobs=None,
        findings=_find_origins(sums, options),
        pooling=pool_folds(sums, lines, shares, worth),
    )


def pool_folds(sums: Sums, lines: Lines, shares: FloatArray, worth: float) -> Pooling:
    """The outcomes in each fold: at the centers of cells, for fits, and at the scores of lines."""
    table, group = sums.table, lines.group
    codes = table["y"].astype(np.intp)
    center, cell = _find_centers(sums)

    def add_up(place: IntArray, size: int, y: IntArray, values: FloatArray) -> FloatArray:
        """Sums by partition, fold, outcome and place of values (P, K, …)."""
        flat = y * size + place
        count, folds, _ = values.shape
        lines = [np.bincount(flat, line, 2 * size) for line in values.reshape(count * folds, -1)]
        return np.stack(lines).reshape(count, folds, 2, size).astype(np.float64)

    def make_cells(place: IntArray, at: FloatArray, rows: FloatArray) -> ScoreCells:
        count = np.bincount(place, rows, at.size).astype(np.float64)
        return ScoreCells(place, at, count, np.full(at.size, sums.exact))

    cells = make_cells(cell, center, table["n"])
    train = add_up(cell, center.size, codes, shares * (table["w"] * worth))
    at, place = np.unique(lines.score, return_inverse=True)
    points = cells if sums.exact else make_cells(place, at, table["n"][group] * lines.share)
    size = points.center.size
    part = shares[:, :, group] * lines.share
    mass = add_up(points.cell, size, codes[group], part * (table["w"][group] * worth))
    squares = add_up(points.cell, size, codes[group], part * (table["w2"][group] * worth**2))
    return Pooling(cells, train, cells if sums.exact else points, mass, squares if sums.settings.has_weights else mass)


def _find_centers(sums: Sums) -> tuple[FloatArray, IntArray]:
    """Mean score of each cell, over outcomes and folds; and the cell of each group."""
    table = sums.table
    keys, cell = np.unique(table["key"], return_inverse=True)
    if sums.exact:
        return keys, cell
    score, weight = (np.bincount(cell, table[name], keys.size) for name in ("s", "w"))
    low, high = np.full(keys.size, np.inf), np.zeros(keys.size)
    np.minimum.at(low, cell, table["lo"])
    np.maximum.at(high, cell, table["hi"])
    return np.clip(score / weight, low, high), cell


def _list_loss_sums(sums: Sums, lines: Lines, floor: float | None = None) -> dict[str, LossSums]:
    """The sums of each loss, line by line; at a floor, those the engine would have returned."""
    losses = enumerate(sums.settings.losses)
    return {str(loss): _spread_loss(sums, lines, loss, i, floor) for i, loss in losses if f"a{i}0" in sums.table}


def _spread_loss(sums: Sums, lines: Lines, loss: ProperLoss, i: int, floor: float | None) -> LossSums:
    levels, table, group = sums.settings.levels, sums.table, lines.group
    w, w2 = table["w"], table["w2"]
    mean = {level: table[f"a{i}{t}"] / w for t, level in enumerate(levels)}
    mean2 = {level: table[f"b{i}{t}"] / w2 for t, level in enumerate(levels)}
    within = {}
    for t, first in enumerate(levels):
        for u in range(t, len(levels)):
            inside = table[f"d{i}{t}{u}"] - table[f"b{i}{t}"] * mean2[levels[u]]
            within[first, levels[u]] = np.maximum(inside, 0.0) if t == u else inside
    if is_unbounded(loss):
        for t, level in enumerate(levels[1:], start=1):
            mean[level] = np.where(table[f"zero{t}"] > 0.0, np.inf, mean[level])
    clip = sums.settings.clip if floor is None else floor
    alone = loss.evaluate(clip_law(lines.score, clip), table["y"].astype(np.intp)[group])
    if floor is not None:
        _move_to_floor(sums, lines, alone, floor, mean, mean2, within)
    spread = {level: values[group] for level, values in mean.items()}
    spread["S"] = np.where(np.isinf(alone) & (lines.side == 0.0), np.inf, spread["S"])
    apart = _measure_apart(alone, lines, w2, within["S", "S"])
    explained = w2 * np.bincount(group, lines.share * apart**2, w2.size)
    slope = {level: _divide(within["S", level], within["S", "S"]) for level in levels}
    rest = {(a, b): values - slope[a] * slope[b] * explained for (a, b), values in within.items()}
    return LossSums(
        spread,
        {level: values[group] + slope[level][group] * apart for level, values in mean2.items()},
        {pair: values[group] * lines.share for pair, values in rest.items()},
    )


def _move_to_floor(
    sums: Sums,
    lines: Lines,
    alone: FloatArray,
    floor: float,
    mean: dict[str, FloatArray],
    mean2: dict[str, FloatArray],
    within: dict[tuple[str, str], FloatArray],
) -> None:
    """Replace the losses of S in groups that a floor reaches by those of their lines."""
    w2 = sums.table["w2"]
    is_beyond = find_beyond(sums, floor)
    at = np.bincount(lines.group, lines.share * alone, w2.size)
    mean["S"], mean2["S"] = np.where(is_beyond, at, mean["S"]), np.where(is_beyond, at, mean2["S"])
    apart = w2 * np.bincount(lines.group, lines.share * (alone - at[lines.group]) ** 2, w2.size)
    for pair, values in within.items():
        if "S" in pair:
            within[pair] = np.where(is_beyond, apart if pair == ("S", "S") else 0.0, values)


def _measure_apart(alone: FloatArray, lines: Lines, w2: FloatArray, most: FloatArray) -> FloatArray:
    """Distance of the loss of S at each line from that of its group: within a cell it varies along with that of C."""
    wide, apart = lines.side != 0.0, np.zeros(lines.score.size)
    group, share = lines.group[wide], lines.share[wide]
    apart[wide] = alone[wide] - np.bincount(group, share * alone[wide], w2.size)[group]
    spread = w2 * np.bincount(lines.group, lines.share * apart**2, w2.size)
    return apart * np.sqrt(_divide(most, spread))[lines.group]


def _divide(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Divide, with 0 where the whole is 0."""
    return np.divide(part, whole, out=np.zeros(part.size), where=whole > 0.0)


def bound_quantisation(sums: Sums, lines: Lines, chain: Chain, loss: ProperLoss, clip: float | None) -> float:
    """Half of the difference in mean loss between the two pairs of scores of each cell: of C, at a floor also of S."""
    weight = chain.sample.weight
    assert weight is not None  # noqa: S101 - lines always have one
    wide = lines.side != 0.0
    if not wide.any():
        return 0.0

    def sum_side(law: FloatArray, some: NDArray[np.bool_]) -> float:
        value = loss.evaluate(clip_law(law[some], clip), chain.sample.y[some])
        parts = np.bincount(lines.group[some], lines.side[some] * weight[some] * value)
        return float(np.abs(parts).sum() / weight.sum())

    error = sum_side(chain.levels[1].law, wide)
    if clip is None or sums.settings.clip is not None:
        return error
    return error + sum_side(lines.score, wide & find_beyond(sums, clip)[lines.group])


def _find_origins(sums: Sums, options: Options) -> tuple[Finding, ...]:
    """Findings on what was summed and where folds come from."""
    facts = {"exact": sums.exact, "cells": sums.settings.cells}
    findings = [Finding("from_sums", n=sums.n_keys, facts=facts)]
    if sums.settings.fold is None:
        findings.append(Finding("folds_drawn", n=options.cv, facts={"times": PARTITIONS}))
    return (*findings, *([Finding("zero_weight", n=int(sums.absent))] if sums.absent else []))


# ── the scores of groups ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Lines:
    """Groups of sums, each as one line or, where a cell holds several scores, as four."""

    # a group whose scores have mean m and variance σ² between lo and hi is put at two pairs of scores, {lo, m + σ²/(m −
    # lo)} and {m − σ²/(hi − m), hi}, which keep m and σ²: the mean of any function whose third derivative keeps its
    # sign lies between those of the pairs (Chebyshev and Markov), so half of their difference bounds the error

    score: FloatArray
    group: NDArray[np.intp]
    share: FloatArray
    side: FloatArray  # +1 and −1 for the two pairs, 0 for a line that is a whole group


def find_beyond(sums: Sums, floor: float) -> NDArray[np.bool_]:
    """Groups with scores closer to 0 or 1 than a floor."""
    table = sums.table
    low, high = (table["key"], table["key"]) if sums.exact else (table["lo"], table["hi"])
    return np.asarray((low < floor) | (high > 1.0 - floor))


def place_lines(sums: Sums) -> Lines:
    """Place each group at one score, or at four."""
    table = sums.table
    if sums.exact:
        size = table["n"].size
        return Lines(table["key"], np.arange(size), np.ones(size), np.zeros(size))
    low, high, w = table["lo"], table["hi"], table["w"]
    mean = np.clip(table["s"] / w, low, high)
    below, above = mean - low, high - mean
    variance = np.clip(table["s2"] / w - mean**2, 0.0, below * above)
    wide = (below > 0.0) & (above > 0.0) & (variance > 0.0)
    single, several = np.flatnonzero(~wide), np.flatnonzero(wide)
    m, v, lo, hi = mean[several], variance[several], low[several], high[several]
    at_low, at_high = v / (v + (m - lo) ** 2), v / (v + (hi - m) ** 2)
    # of two scores each is a node of both pairs: what rounding of the variance leaves between them is no score
    upper, lower, rounding = m + v / (m - lo), m - v / (hi - m), 4e-15 * m**2
    upper = np.where(hi - upper < rounding / (m - lo), hi, upper)
    lower = np.where(lower - lo < rounding / (hi - m), lo, lower)
    nodes = [(lo, at_low, 1.0), (upper, 1.0 - at_low, 1.0), (hi, at_high, -1.0), (lower, 1.0 - at_high, -1.0)]
    return Lines(
        np.concatenate([mean[single], *(score for score, _, _ in nodes)]),
        np.concatenate([single, *([several] * 4)]),
        np.concatenate([np.ones(single.size), *(0.5 * share for _, share, _ in nodes)]),
        np.concatenate([np.zeros(single.size), *(np.full(several.size, side) for _, _, side in nodes)]),
    )
