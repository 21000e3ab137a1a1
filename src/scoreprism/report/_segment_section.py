"""Section 6: the same terms per group and per period, each by laws of its own."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.frames import take_rows
from scoreprism._document.tables import marked
from scoreprism.displays._decomposition import known_of
from scoreprism.estimation import SegmentDecompositions
from scoreprism.estimation._segments import decompose_parts, evidence
from scoreprism._kernels.holm import holm
from scoreprism.exceptions import InputError, ScoreprismWarning
from scoreprism.report._case import Case
from scoreprism.report._evidence import alpha_of
from scoreprism.report._fit import Model
from scoreprism.report._judged import Matter
from scoreprism.report._model import Block, Notice, Section
from scoreprism.report._periods import periods
from scoreprism.report._pieces import ends, enumerated, figure, table
from scoreprism.report._report import SECTIONS
from scoreprism.report._tables import told_cell

#: Rows of a segment at least, rows of its rarer outcome at least, and segments at most.
LEAST, RAREST, MOST = 100, 10, 24
#: Segments that a sentence names at most.
_LISTED = 6


def segments(case: Case) -> Section | None:
    """The sixth section."""
    by = dict(case.segments)
    if case.time is not None:
        what, labels = periods(case.time)
        by[f"time, in {what}"] = labels
    if not by:
        return None
    blocks: list[Block] = []
    every: dict[str, SegmentDecompositions] = {}
    for column, labels in by.items():
        found, left_out = _found(case, case.first, labels)
        blocks += [Notice("note", f"{column}: {text}") for text in left_out]
        if found is not None:
            every[column] = found
    pvalues = adjusted(every)
    for number, (column, found) in enumerate(every.items()):
        blocks += shown_by(case, column, found, number, pvalues)
    mark = next((mark_of(found) for found in every.values()), "")
    if every and not isinstance(case.first.request.cv, (int, np.integer)):
        blocks.append(
            Notice("note", "Inside segments, laws are fitted in five random folds, whatever the splits above.")
        )
    shown = [f"{c} {str(s).strip()}" for (c, s), p in pvalues.items() if p <= alpha_of(case.level)]
    left = [column for column in by if column not in every]
    said = marked(meaning(case, shown, len(pvalues), left), mark)
    return Section("segments", SECTIONS["segments"], said, tuple(blocks))


def mark_of(found: SegmentDecompositions) -> str:
    """What is said with segments that are judged at a floor; empty where none is infinite."""
    twins = found.floored
    return "" if twins is None else next(iter(twins.decompositions.values()))._mark


def adjusted(every: dict[str, SegmentDecompositions]) -> dict[tuple[str, Any], float]:
    """Evidence of miscalibration in each segment, adjusted by Holm's method over all segments of all columns."""
    raw = {
        (column, segment): evidence(result, "reliability")
        for column, found in every.items()
        for segment, result in (found.floored or found).decompositions.items()
    }
    return dict(zip(raw, holm(list(raw.values())), strict=True))


def meaning(case: Matter, shown: list[str], total: int, left: list[str]) -> str:
    name = case.first.name
    needs = f"the {LEAST} rows, and {RAREST} of the rarer outcome, that a decomposition of its own needs"
    if not total:
        return f"No group or period has {needs}."
    none = f" No segment of {enumerated(left)} has {needs}." if left else ""
    if len(shown) == total > _LISTED:
        return f"{name} is shown to be miscalibrated in all {total} segments.{none}"
    if shown:
        what = f"{len(shown)} of {total} segments" if total > 1 else "the one segment that is large enough"
        return f"{name} is shown to be miscalibrated in {what}: {enumerated(shown, _LISTED)}.{none}"
    what = f"any of the {total} segments" if total > 1 else "the one segment that is large enough"
    if case.first.miscalibrated:
        return f"The miscalibration of {name} that is seen overall is not shown within {what}.{none}"
    return f"{name} is not shown to be miscalibrated in {what}, adjusted for how many there are.{none}"


def _found(case: Case, model: Model, labels: NDArray[Any]) -> tuple[SegmentDecompositions | None, list[str]]:
    """Segments that are large enough, decomposed; and what was left out."""
    keep, said = _large(model, labels)
    if not keep.size:
        return None, [*said, "no segment is large enough"]
    asked = model.request
    folds: dict[str, Any] = {"cv": asked.cv} if isinstance(asked.cv, (int, np.integer)) else {}
    options = {name: getattr(asked, name) for name in ("q", "latent", "sample_weight", "groups")}
    given = {name: take_rows(value, keep) for name, value in options.items() if value is not None}
    if model.k > 2:
        given["classes"] = list(range(model.k))
    features = None if asked.X is None else take_rows(asked.X, keep)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)
            how = {"loss": case.losses[case.loss], "random_state": case.seed, "n_jobs": case.n_jobs, "clip": case.clip}
            floors = {case.loss: case.floors[case.loss]} if case.loss in case.floors else {}
            found = decompose_parts(
                labels[keep], model.y[keep], model.law[keep], features, {**how, **folds, **given}, floors
            )
    except InputError as error:
        return None, [*said, str(error)]
    said += [f"{segment} was left out: {why}" for segment, why in found.skipped.items()]
    said += [f"{name}: {text}" for name, result in found.decompositions.items() for _, text in result._doubts]
    return found, said


def _large(model: Model, labels: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    """Rows of the segments that have enough of both outcomes; the largest of many."""
    names, codes = np.unique(labels, return_inverse=True)
    held = np.ones(codes.size, dtype=bool) if model.weight is None else model.weight > 0
    counts = np.stack([np.bincount(codes[held & (model.y == c)], minlength=names.size) for c in range(model.k)])
    size = counts.sum(axis=0)
    rare = np.sort(counts, axis=0)[-2] if model.k > 2 else counts.min(axis=0)
    enough = (size >= LEAST) & (rare >= RAREST)
    said = []
    if not enough.all():
        small = [f"{name} ({count})" for name, count in zip(names[~enough], size[~enough], strict=True)]
        said.append(f"left out for fewer than {LEAST} rows or {RAREST} of the rarer outcome: {enumerated(small, 6)}")
    chosen = np.flatnonzero(enough)
    if chosen.size > MOST:
        said.append(f"the {MOST} largest of {chosen.size} segments are shown")
        chosen = np.sort(chosen[np.argsort(-size[chosen], kind="stable")[:MOST]])
    return np.flatnonzero(np.isin(codes, chosen) & held), said


def shown_by(
    case: Matter, column: str, found: SegmentDecompositions, number: int, pvalues: dict[tuple[str, Any], float]
) -> list[Block]:
    shown, mark = found.floored or found, mark_of(found)
    rows: list[tuple[Any, ...]] = []
    for segment, result in shown.decompositions.items():
        known = ends(*known_of(result, "reliability", case.level))
        values = [told_cell(result, name, case.level) for name in found.names]
        losses = (found[segment].risk, result.risk) if mark else (result.risk,)
        rows.append((str(segment).strip(), result.n, *losses, values[0], known, pvalues[column, segment], *values[1:]))
    columns = [
        ("segment", column, "text"), ("rows", "rows", "count"), ("loss", f"{case.loss} loss", "loss"),
        *([("floored", mark, "loss")] if mark else []),
        ("reliability", "reliability", "loss"), ("interval", f"{case.percent} interval", "loss"),
        ("pvalue", "p (Holm)", "pvalue"),
        *((name, name, "loss") for name in found.names[1:]),
    ]  # fmt: skip
    note = (
        "Laws are fitted inside each segment; p-values ask whether its reliability term is above 0, "
        "adjusted for how many segments there are in all."
    )
    note = f"{note} The loss is infinite in some: all terms are {mark}." if mark else note
    data = table(f"segments-{number + 1}", f"By {column}", columns, rows, note)
    if not all(math.isfinite(result.risk) for result in shown.decompositions.values()):
        return [data]
    where = f"each of {len(found)} segments of {column}, each" if len(found) > 1 else f"the one segment of {column},"
    described = f"The parts of the {case.loss} loss that can be reduced in {where} by laws of its own."

    def draw(ax: Any) -> None:
        shown.plot(ax, level=case.level, terms=found.names[:-1])

    height, title = 1.4 + 0.34 * len(found), f"What could be removed, by {column}{f', {mark}' if mark else ''}"
    return [
        data,
        figure(f"segments-figure-{number + 1}", title, marked(described, mark), draw, size=(4.7, height)),
    ]
