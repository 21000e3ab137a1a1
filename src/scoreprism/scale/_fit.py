"""From sums to laws and terms: folds drawn or given, calibrators fitted to cells, moments put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial as bound
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.checks import parse_choice, parse_random_state, refuse
from scoreprism._core.simplex import FloatArray, IntArray, clip_law
from scoreprism._fitting.candidates import Given, Pooling, Problem
from scoreprism._fitting.chain_fit import PARTITIONS, Laws, fit_laws, parse_losses
from scoreprism._fitting.crossfit import no_crossfit
from scoreprism._fitting.fitted_laws import Cells
from scoreprism._fitting.learners import ForeignMap, parse_calibrator
from scoreprism._sample.fit_rows import Data
from scoreprism._sample.scores import warn_of_reversed_scores
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._intervals import FORMS
from scoreprism.estimation import SegmentDecompositions
from scoreprism.losses import ProperLoss
from scoreprism.scale._drift import Drift, drift_between
from scoreprism.scale._groups import key_order
from scoreprism.scale._losses import by_row, unbounded
from scoreprism.scale._partial import Partial
from scoreprism.scale._result import ScaledDecomposition, decomposed_each, scaled
from scoreprism.scale._roles import MOST_FOLDS, parse_count_of_folds
from scoreprism.scale._sheet import Lines, LossSums, SummedSheet, beyond, lines_of

Losses = dict[str, ProperLoss]


@dataclass(frozen=True)
class Options:
    """How laws are fitted to a partial, parsed."""

    losses: Losses
    calibrator: object
    cv: int
    form: str
    seed: int
    floors: Mapping[str, float] | None = None  # by loss; those of infinite losses unless given


def decompose_partial(
    partial: Partial,
    *,
    loss: str | ProperLoss | Sequence[str | ProperLoss] | None = None,
    calibrator: object = "auto",
    cv: int = 5,
    form: str = "debiased",
    random_state: object = 0,
    floors: Mapping[str, float] | None = None,
) -> ScaledDecomposition | dict[str, ScaledDecomposition]:
    """Decompose the whole, each segment and each period; parts at the floor of the whole, where it is infinite."""
    single = isinstance(loss, (str, ProperLoss))
    chosen: Any = list(partial.settings.losses) if loss is None else [loss] if single else loss
    options = _parse(partial, parse_losses(chosen), calibrator, cv, form, random_state)
    options = replace(options, floors=floors)
    whole = _decomposed(partial.pooled(), options)
    twins = {name: found.floored for name, found in whole.items()}
    options = replace(options, floors={name: one.clip for name, one in twins.items() if one and one.clip})
    _warn_of_order(partial)
    segments = _by_key(partial, options, range(len(partial.settings.by)))
    last = len(partial.settings.keys) - 1
    periods = _by_key(partial, options, range(last, last + 1)) if partial.settings.time is not None else {}
    results = {
        name: replace(found, segments=segments.get(name), periods=periods.get(name), partial=partial)
        for name, found in whole.items()
    }
    return next(iter(results.values())) if single else results


def _warn_of_order(partial: Partial) -> None:
    """Say so where the score is lower where the event occurs, as for rows."""
    table, label = partial.table, partial.settings.pos_label
    score = table["key"] if partial.exact else table["s"] / table["w"]
    classes = np.array([0, 1] if label is None else [f"not {label}", label], dtype=object)
    data = Data(score, table["y"].astype(np.intp), table["w"], 2, "probability")
    warn_of_reversed_scores(data, classes, float(table["w"].sum()) ** 2 / float(table["w2"].sum()))


def _parse(
    partial: Partial, losses: Losses, calibrator: object, cv: object, form: str, random_state: object
) -> Options:
    settings = partial.settings
    parse_choice(form, FORMS, "form")
    if len(settings.levels) > 1:
        if form == "plugin":
            refuse(
                "`form`='plugin' must have the laws of all rows, which sums do not hold",
                f"the levels {', '.join(settings.levels)}",
                "Use `form`='debiased' or 'difference'.",
            )
        known = {str(loss) for loss in settings.losses if by_row(loss)}
        if not set(losses) <= known:
            found = ", ".join(sorted(set(losses) - known))
            refuse(
                "with `q` or `latent`, a loss must be one that was summed", found, f"Summed were {', '.join(known)}."
            )
    learners = parse_calibrator(calibrator, 2)
    if any(isinstance(learner, ForeignMap) for learner in learners):
        refuse("`calibrator` must be one of scoreprism's maps, which take sums", f"{calibrator!r}"[:80], "Use 'auto'.")
    count = parse_count_of_folds(cv)
    seed = int(parse_random_state(random_state).integers(2**62))
    return Options(losses, calibrator, count, form, seed)


# ── one decomposition ───────────────────────────────────────────────────────────────────────────────


def _decomposed(partial: Partial, options: Options) -> dict[str, ScaledDecomposition]:
    """Each loss of the rows of one partial, without segments."""
    lines, laws = fitted_laws(partial, options)
    results = laws.decomposed(options.losses, options.form, partial.settings.clip)

    def with_sums(name: str, found: Decomposition) -> ScaledDecomposition:
        error = _quantisation(partial, lines, laws, options.losses[name], found.clip)
        return scaled(found, partial, error, options)

    scaled_results = {}
    for name, found in results.items():
        twin = found.floored
        floored = None if twin is None else with_sums(name, _noted(twin, partial))
        scaled_results[name] = replace(with_sums(name, replace(found, floored=None)), floored=floored)
    return scaled_results


def _noted(twin: Decomposition, partial: Partial) -> Decomposition:
    """Levels above C are known by sums of their losses, which cannot be clipped after the fact."""
    above = partial.settings.levels[1:]
    note = f"{', '.join(above)} as summed: only S and C are kept away from 0 and 1"
    return replace(twin, notes=(*twin.notes, note)) if above else twin


def fitted_laws(partial: Partial, options: Options) -> tuple[Lines, Laws]:
    """The laws of the rows of one partial, with the lines they were fitted to."""
    lines = lines_of(partial)
    problem = _problem(partial, lines, _shares(partial, options), options)
    return lines, fit_laws(problem, options.losses, partial.settings.clip, options.floors)


def _shares(partial: Partial, options: Options) -> FloatArray:
    """What share of each group is in each fold, (P, K, groups): by the column of folds, or drawn."""
    table = partial.table
    codes = table["y"].astype(np.intp)
    if np.unique(codes).size < 2:
        refuse("the target must hold both outcomes", f"only {codes[0]}", "Pass more rows.")
    if partial.settings.fold is None:
        return _drawn(partial, options.cv, options.seed)
    if not 2 <= len(partial.folds) <= MOST_FOLDS:
        rule = f"folds must be at least 2 and at most {MOST_FOLDS}"
        refuse(rule, f"{len(partial.folds):,}", "Use another column, or none; `key`= deals identifiers to folds.")
    fold = table["fold"].astype(np.intp)
    shares = np.zeros((1, len(partial.folds), fold.size))
    shares[0, fold, np.arange(fold.size)] = 1.0
    alone = _alone(shares[0], codes)
    if alone is not None:
        refuse(
            "both outcomes must be outside of every fold",
            f"only one outside of fold number {alone}",
            f"Use other folds than those of {partial.settings.fold!r}.",
        )
    return shares


def _alone(share: FloatArray, codes: IntArray) -> int | None:
    """A fold outside of which there is one outcome only."""
    outside = [np.unique(codes[one < 1.0]).size < 2 for one in share]
    return outside.index(True) if any(outside) else None


#: Draws of folds before giving up on both outcomes outside of every fold.
_DRAWS = 100


def _drawn(partial: Partial, cv: int, seed: int) -> FloatArray:
    """
    Folds dealt to the rows of each group, as if every row drew its fold, once for each partition.

    Rows of a group have the same outcome and (nearly) the same score, so which of them is in which fold does not
    matter, only how many: a multinomial draw. With weights, a group counts as many rows as its weights are worth.
    """
    table = partial.table
    codes = table["y"].astype(np.intp)
    rng = np.random.default_rng(seed)
    worth = table["n"] if not partial.settings.weighted else np.maximum(np.round(table["w"] ** 2 / table["w2"]), 1.0)
    found = []
    for _ in range(PARTITIONS):
        for _ in range(_DRAWS):
            share = (rng.multinomial(worth.astype(np.int64), np.full(cv, 1.0 / cv)) / worth[:, None]).T
            if _alone(share, codes) is None:
                break
        else:
            refuse(
                "both outcomes must be outside of every fold",
                f"{_DRAWS} draws of {cv} folds without such a split",
                "Pass more rows.",
            )
        found.append(share)
    return np.stack(found)


def _problem(partial: Partial, lines: Lines, shares: FloatArray, options: Options) -> Problem:
    """The lines as `decompose` sees rows."""
    settings, table, group = partial.settings, partial.table, lines.group
    codes = table["y"].astype(np.intp)[group]
    weight = table["w"][group] * lines.share
    worth = float(partial.table["w"].sum()) / float(partial.table["w2"].sum()) if settings.weighted else 1.0
    data = Data(lines.score, codes, weight * worth, 2, "probability")
    sheet = SummedSheet(
        codes,
        [lines.score],
        [None],
        weight,
        classes=np.array([0, 1]),
        counts=table["n"][group] * lines.share,
        squares=table["w2"][group] * lines.share,
        cubes=table["w3"][group] * lines.share,
        fourths=table["w4"][group] * lines.share,
        rows_in_all=partial.n,
        sums=_loss_sums(partial, lines, options.losses),
        sums_at=bound(_loss_sums, partial, lines, options.losses) if settings.clip is None else None,
    )
    levels = [Given(name, np.full(codes.size, 0.5)) for name in settings.levels[1:]]  # known by their sums
    return Problem(
        sheet=sheet,
        data=data,
        plan=replace(no_crossfit(data), trains=(np.empty(0, dtype=np.intp),) * shares.shape[1]),
        maps=parse_calibrator(options.calibrator, 2),
        reference=None,
        levels=levels,
        calibration=None,
        seed=options.seed,
        n_jobs=None,
        notes=_notes(partial, options),
        pooling=_pooling(partial, lines, shares, worth),
    )


def _pooling(partial: Partial, lines: Lines, shares: FloatArray, worth: float) -> Pooling:
    """What the folds hold of each outcome: at the centers of cells, to fit laws to, and at the scores of lines."""
    table, group = partial.table, lines.group
    codes = table["y"].astype(np.intp)
    center, cell = _centers(partial)

    def sums(place: IntArray, size: int, y: IntArray, values: FloatArray) -> FloatArray:
        """Sums by partition, fold, outcome and place of values (P, K, …)."""
        flat = y * size + place
        count, folds, _ = values.shape
        found = [np.bincount(flat, line, 2 * size) for line in values.reshape(count * folds, -1)]
        return np.stack(found).reshape(count, folds, 2, size).astype(np.float64)

    def made(place: IntArray, at: FloatArray, rows: FloatArray) -> Cells:
        count = np.bincount(place, rows, at.size).astype(np.float64)
        return Cells(place, at, count, np.full(at.size, partial.exact))

    cells = made(cell, center, table["n"])
    train = sums(cell, center.size, codes, shares * (table["w"] * worth))
    at, place = np.unique(lines.score, return_inverse=True)
    points = cells if partial.exact else made(place, at, table["n"][group] * lines.share)
    size = points.center.size
    part = shares[:, :, group] * lines.share
    mass = sums(points.cell, size, codes[group], part * (table["w"][group] * worth))
    squares = sums(points.cell, size, codes[group], part * (table["w2"][group] * worth**2))
    return Pooling(
        cells, train, cells if partial.exact else points, mass, squares if partial.settings.weighted else mass
    )


def _centers(partial: Partial) -> tuple[FloatArray, IntArray]:
    """Mean score of each cell, over outcomes and folds; and the cell of each group."""
    table = partial.table
    keys, cell = np.unique(table["key"], return_inverse=True)
    if partial.exact:
        return keys, cell
    sums = np.bincount(cell, table["s"], keys.size), np.bincount(cell, table["w"], keys.size)
    low, high = np.full(keys.size, np.inf), np.zeros(keys.size)
    np.minimum.at(low, cell, table["lo"])
    np.maximum.at(high, cell, table["hi"])
    return np.clip(sums[0] / sums[1], low, high), cell


def _loss_sums(partial: Partial, lines: Lines, losses: Losses, floor: float | None = None) -> dict[str, LossSums]:
    """What the engine summed of each loss, for each line; at a floor, what it would have summed."""
    settings, table = partial.settings, partial.table
    known = {str(loss): i for i, loss in enumerate(settings.losses)}
    found = {}
    for name, loss in losses.items():
        i = known.get(name)
        if i is not None and f"a{i}0" in table:
            found[name] = _sums_of(partial, lines, loss, i, floor)
    return found


def _sums_of(partial: Partial, lines: Lines, loss: ProperLoss, i: int, floor: float | None) -> LossSums:
    levels, table, group = partial.settings.levels, partial.table, lines.group
    w, w2 = table["w"], table["w2"]
    mean = {level: table[f"a{i}{t}"] / w for t, level in enumerate(levels)}
    mean2 = {level: table[f"b{i}{t}"] / w2 for t, level in enumerate(levels)}
    within = {}
    for t, first in enumerate(levels):
        for u in range(t, len(levels)):
            inside = table[f"d{i}{t}{u}"] - table[f"b{i}{t}"] * mean2[levels[u]]
            within[first, levels[u]] = np.maximum(inside, 0.0) if t == u else inside
    if unbounded(loss):
        for t, level in enumerate(levels[1:], start=1):
            mean[level] = np.where(table[f"zero{t}"] > 0.0, np.inf, mean[level])
    clip = partial.settings.clip if floor is None else floor
    law = lines.score if clip is None else clip_law(lines.score, clip)
    alone = loss.evaluate(law, table["y"].astype(np.intp)[group])
    if floor is not None:
        _move(partial, lines, alone, floor, mean, mean2, within)
    spread = {level: values[group] for level, values in mean.items()}
    spread["S"] = np.where(np.isinf(alone) & (lines.side == 0.0), np.inf, spread["S"])
    apart = _apart(alone, lines, w2, within["S", "S"])
    held = w2 * np.bincount(group, lines.share * apart**2, w2.size)
    slope = {level: _ratio(within["S", level], within["S", "S"]) for level in levels}
    rest = {(a, b): values - slope[a] * slope[b] * held for (a, b), values in within.items()}
    return LossSums(
        spread,
        {level: values[group] + slope[level][group] * apart for level, values in mean2.items()},
        {pair: values[group] * lines.share for pair, values in rest.items()},
    )


def _move(
    partial: Partial,
    lines: Lines,
    alone: FloatArray,
    floor: float,
    mean: dict[str, FloatArray],
    mean2: dict[str, FloatArray],
    within: dict[tuple[str, str], FloatArray],
) -> None:
    """
    Losses of S in groups that a floor reaches, from its lines in the place of sums that know nothing of the floor.

    A group that lies beyond the floor has one loss, so nothing is lost. At most one cell at either end lies astride it,
    and is taken at the scores of its lines.
    """
    w2 = partial.table["w2"]
    moved = beyond(partial, floor)
    at = np.bincount(lines.group, lines.share * alone, w2.size)
    mean["S"], mean2["S"] = np.where(moved, at, mean["S"]), np.where(moved, at, mean2["S"])
    apart = w2 * np.bincount(lines.group, lines.share * (alone - at[lines.group]) ** 2, w2.size)
    for pair, values in within.items():
        if "S" in pair:
            within[pair] = np.where(moved, apart if pair == ("S", "S") else 0.0, values)


def _apart(alone: FloatArray, lines: Lines, w2: FloatArray, most: FloatArray) -> FloatArray:
    """
    How far the loss of S at each line is from that of its group, with the variance of its rows.

    Within a cell the losses of S and C rise and fall together. Where they are nearly the same, the standard error of
    their difference would be that of the width of the cells if S stood at its mean and C did not.
    """
    wide, apart = lines.side != 0.0, np.zeros(lines.score.size)
    group, share = lines.group[wide], lines.share[wide]
    apart[wide] = alone[wide] - np.bincount(group, share * alone[wide], w2.size)[group]
    seen = w2 * np.bincount(lines.group, lines.share * apart**2, w2.size)
    return apart * np.sqrt(_ratio(most, seen))[lines.group]


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Part / whole, 0 where there is nothing."""
    return np.divide(part, whole, out=np.zeros(part.size), where=whole > 0.0)


def _quantisation(partial: Partial, lines: Lines, laws: Laws, loss: ProperLoss, clip: float | None) -> float:
    """Half of what the two pairs of scores of each cell differ by, in the mean loss of C; at a floor, also in S."""
    weight = laws.problem.sheet.weight
    assert weight is not None  # noqa: S101 - lines always have one
    wide = lines.side != 0.0
    if not wide.any():
        return 0.0

    def half(law: FloatArray, some: NDArray[np.bool_]) -> float:
        kept = law[some] if clip is None else clip_law(law[some], clip)
        value = loss.evaluate(kept, laws.problem.sheet.y[some])
        parts = np.bincount(lines.group[some], lines.side[some] * weight[some] * value)
        return float(np.abs(parts).sum() / weight.sum())

    error = half(laws.choice.winner.fitted.law, wide)
    if clip is None or partial.settings.clip is not None:
        return error
    return error + half(lines.score, wide & beyond(partial, clip)[lines.group])


def _notes(partial: Partial, options: Options) -> tuple[str, ...]:
    what = "distinct scores" if partial.exact else f"cells of {partial.settings.cells} from 0 to 1"
    notes = [f"from sums over {partial.n_keys} {what}"]
    if partial.settings.fold is None:
        notes.append(f"{options.cv} folds drawn within cells, {PARTITIONS} times: rows are taken to be independent")
    if partial.absent:
        notes.append(f"{partial.absent:,} rows of weight 0 are absent")
    return tuple(notes)


# ── segments and periods ────────────────────────────────────────────────────────────────────────────


def _by_key(partial: Partial, options: Options, places: range) -> dict[str, SegmentDecompositions]:
    """Each segment (or period) by laws of its own, for every loss."""
    if not len(places):
        return {}
    names = [partial.settings.keys[j] for j in places]
    labels = sorted({tuple(key[j] for j in places) for key in partial.segments}, key=key_order)
    parts = {label: dict(zip(names, label, strict=True)) for label in labels}
    return decomposed_each(
        parts,
        lambda chosen: _decomposed(partial.only(**chosen).pooled(), options),
        options.losses,
        f"laws by {', '.join(names)}",
    )


def drift_of(partial: Partial, *, loss: str | ProperLoss = "log", against: Any = "previous", **options: Any) -> Drift:
    """Changes of the terms from period to period."""
    if partial.settings.time is None:
        refuse("drift must have periods", "a partial without a time column", "Pass `time`= to summarize or decompose.")
    if not isinstance(loss, (str, ProperLoss)):
        refuse("drift takes one loss", f"{loss!r}"[:80], "Call it once for each.")
    found: Any = decompose_partial(partial, loss=loss, **options)
    return drift_between(found.periods, against)
