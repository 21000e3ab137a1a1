"""One sample of each study, reduced to numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

import scoreprism
from benchmarks.scale_statistics.laws import LAWS
from benchmarks.statistics.scenarios import SCORES, Draw, gauss, mean_q
from scoreprism import scale
from scoreprism._core.simplex import FloatArray, IntArray
from scoreprism._fitting.fitted_laws import interpolate_laws
from scoreprism.decomposition import Chain, Decomposition, Level
from scoreprism.scale import Sums
from scoreprism.scale._shift import _assess_map, _split

Numbers = dict[str, float]
LOSSES = ("brier", "log")
LEVEL = 0.95
FOLDS = 5
#: Rows that are drawn and summed at a time.
CHUNK = 500_000


def frame(draw: Draw, **more: Any) -> pl.DataFrame:
    columns: dict[str, Any] = {"y": draw.y, "s": draw.s} | more
    return pl.DataFrame(columns if draw.weight is None else columns | {"w": draw.weight})


def described(found: Decomposition, prefix: str) -> Numbers:
    """Terms, errors, brackets and what these are made of."""
    numbers = {}
    for name in found.names:
        inference = found._inference(name)
        (difference, error), (up, down) = inference._difference(), inference._spreads()
        interval = found.interval(name)
        values = (found.terms[name], found.std_error[name], interval.low, interval.high, difference, error, up, down)
        keys = ("value", "error", "low", "high", "difference", "difference_error", "up", "down")
        numbers |= {f"{prefix}/{name}/{key}": float(value) for key, value in zip(keys, values, strict=True)}
    return numbers


# ── terms of one period ─────────────────────────────────────────────────────────────────────────────────


def terms(rng: np.random.Generator, law: str, n: int, plain: bool, q: bool = False) -> Numbers:
    """The decomposition from sums, folds drawn within cells; and beside it that of the rows, if asked for."""
    draw = LAWS[law].sample(n, rng)
    weight = None if draw.weight is None else "w"
    rows = frame(draw, q=draw.q) if q else frame(draw)
    seed = int(rng.integers(2**31))
    sums = scale.aggregate(rows, target="y", score="s", sample_weight=weight, loss=LOSSES, q="q" if q else None)
    numbers = {}
    for loss in LOSSES:
        numbers |= described(sums.decompose(loss, random_state=seed), f"scale/{loss}")
        if plain:
            options = {"loss": loss, "random_state": seed, "sample_weight": draw.weight}
            numbers |= described(scoreprism.decompose(draw.y, draw.s, **options), f"plain/{loss}")
    return numbers


# ── cells ───────────────────────────────────────────────────────────────────────────────────────────────


def chunks(law: str, n: int, seed: int) -> Any:
    """Rows and their folds, the same whenever they are asked for."""
    for start in range(0, n, CHUNK):
        rng = np.random.default_rng([seed, start])
        draw = LAWS[law].sample(min(CHUNK, n - start), rng)
        yield draw, rng.integers(FOLDS, size=draw.y.size)


def quantisation(rng: np.random.Generator, law: str, n: int, cells: int, plain: bool) -> Numbers:
    """What summing by cell does to the terms: against the same fitted maps at the score of every row."""
    seed = int(rng.integers(2**31))
    sums = _aggregate(law, n, seed, cells)
    summed, numbers = {loss: sums.decompose(loss) for loss in LOSSES}, {"keys": float(sums.n_keys)}
    exact = _by_row(summed[LOSSES[0]].chain, law, n, seed)
    for loss in LOSSES:
        numbers |= {f"{loss}/bound": summed[loss].quantisation_error}
        for name in summed[loss].names:
            key = f"{loss}/{name}"
            numbers |= {f"{key}/error": summed[loss].terms[name] - exact[key], f"{key}/truth": exact[key]}
            numbers |= {f"{key}/std_error": summed[loss].std_error[name]}
    return numbers | (_against_plain(summed, law, n, seed) if plain else {})


def _aggregate(law: str, n: int, seed: int, cells: int) -> Sums:
    parts = (
        scale.aggregate(frame(draw, f=fold), target="y", score="s", fold_column="f", cells=cells, loss=LOSSES)
        for draw, fold in chunks(law, n, seed)
    )
    return sum(parts)  # type: ignore[return-value]


def laws_at(chain: Chain, s: FloatArray, fold: IntArray) -> tuple[FloatArray, FloatArray]:
    """The law C of sums with a column of folds at other scores: out of fold, and of all models for the spread."""
    fits = chain.levels[1].fits
    models, damped = (interpolate_laws(fits.cells.center, table[0], s) for table in (fits.law, fits.damped))
    return models[fold, np.arange(s.size)], damped


def _by_row(chain: Chain, law: str, n: int, seed: int) -> Numbers:
    """The terms of the same maps, evaluated for every row."""
    totals: Numbers = {}
    for draw, fold in chunks(law, n, seed):
        law_of_row, folds = laws_at(chain, draw.s, fold)
        sample = scoreprism.Sample(draw.y, {"model": draw.s})
        pair = Chain.of(sample, (Level.of("S", draw.s), Level.of("C", law_of_row, folds=folds)))
        for loss in LOSSES:
            part = pair.decompose(loss)
            for name, value in part.terms.items():
                totals[f"{loss}/{name}"] = totals.get(f"{loss}/{name}", 0.0) + value * draw.y.size / n
    return totals


def _against_plain(summed: Any, law: str, n: int, seed: int) -> Numbers:
    """The difference to `scoreprism.decompose` of the rows, with the same folds."""
    parts = list(chunks(law, n, seed))
    y, s = (np.concatenate([getattr(draw, name) for draw, _ in parts]) for name in ("y", "s"))
    fold: IntArray = np.concatenate([one for _, one in parts])
    splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(FOLDS)]
    numbers = {}
    for loss in LOSSES:
        found = scoreprism.decompose(y, s, loss=loss, cv=splits)
        numbers |= {f"{loss}/{name}/plain": summed[loss].terms[name] - value for name, value in found.terms.items()}
    return numbers


# ── why the loss changed ────────────────────────────────────────────────────────────────────────────────


def shift(rng: np.random.Generator, before: str, after: str, n: int) -> Numbers:
    """The split of a change by mix and law, and what the map of the first period does in the second."""
    rows = [frame(LAWS[law].sample(n, rng)) for law in (before, after)]
    base, now = (scale.aggregate(part, target="y", score="s", loss=LOSSES) for part in rows)
    seed, numbers = int(rng.integers(2**31)), {}
    for name in LOSSES:
        new, old = (sums.decompose(name, random_state=seed) for sums in (now, base))
        loss = new.loss
        found = _split(new, old, loss, LEVEL) | _assess_map(new.chain, old.chain, loss, None, LEVEL)
        for part, ends in found.items():
            keys = ("value", "error", "low", "high")
            numbers |= {f"{name}/{part}/{key}": float(end) for key, end in zip(keys, ends, strict=True)}
        numbers |= {f"{name}/{part}/truth": value for part, value in _stale_truth(old.chain, after, loss).items()}
    return numbers


def _stale_truth(old: Chain, law: str, loss: Any) -> Numbers:
    """What the map that was fitted gains and loses in the population of the later period, by quadrature."""
    nodes, mass = gauss(400)
    mass = mass * 2.0 * nodes if "mix" in law else mass
    s, c = SCORES[law[0]](nodes, 0.0 * nodes), expit(mean_q()(nodes))
    b = old.levels[1].fits.at(s)
    stale, raw = loss.divergence(b, c), loss.divergence(s, c)
    return {"loses": float(mass @ stale), "gains": float(mass @ (raw - stale))}
