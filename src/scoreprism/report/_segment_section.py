"""Section 6: the same terms per group and per period (days to years, whichever leaves enough rows in each)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.labels import distinct
from scoreprism._document.tables import marked
from scoreprism._kernels.holm import holm
from scoreprism.displays._decomposition_bars import known_of
from scoreprism.estimation import SegmentDecompositions
from scoreprism.estimation._segments import decompose_segments
from scoreprism.exceptions import InputError, ScoreprismWarning
from scoreprism.report._evidence import alpha_of
from scoreprism.report._model import Block, Notice, Section
from scoreprism.report._pieces import ends, enumerated, figure, table
from scoreprism.report._report import SECTIONS
from scoreprism.report._subject import AnyCase, RowCase, RowSubject
from scoreprism.report._tables import told_cell

#: Rows of a segment at least, rows of its rarer outcome at least, and segments or periods at most.
LEAST, RAREST, MOST = 100, 10, 24
#: Rows that half of the periods should have.
_ENOUGH = 200
#: Segments that a sentence names at most.
_LISTED = 6


def segments(case: RowCase) -> Section | None:
    """The sixth section."""
    sample = case.first.sample
    by = {column: name_segments(labels, column) for column, labels in sample.segments.items()}
    if sample.time is not None:
        what, labels = periods(sample.time)
        by[f"time, in {what}"] = labels
    if not by:
        return None
    blocks: list[Block] = []
    every: dict[str, SegmentDecompositions] = {}
    for column, labels in by.items():
        found, left_out = _found(case, case.first, column, labels)
        blocks += [Notice("note", f"{column}: {text}") for text in left_out]
        if found is not None:
            every[column] = found
    pvalues = adjusted(every)
    for number, (column, found) in enumerate(every.items()):
        blocks += shown_by(case, column, found, number, pvalues)
    mark = next((mark_of(found) for found in every.values()), "")
    if every and not isinstance(case.cv, (int, np.integer)):
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
        (column, segment): result._inference("reliability").pvalue()
        for column, found in every.items()
        for segment, result in (found.floored or found).decompositions.items()
    }
    return dict(zip(raw, holm(list(raw.values())), strict=True))


def meaning(case: AnyCase, shown: list[str], total: int, left: list[str]) -> str:
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


def _found(
    case: RowCase, model: RowSubject, column: str, labels: NDArray[Any]
) -> tuple[SegmentDecompositions | None, list[str]]:
    """Segments that are large enough, decomposed; and what was left out."""
    names, codes = np.unique(labels, return_inverse=True)
    counts = np.stack([np.bincount(codes[model.y == c], minlength=names.size) for c in range(model.k)])
    chosen, said = choose_segments(names.tolist(), counts)
    keep = np.flatnonzero(np.isin(codes, chosen))
    if not keep.size:
        return None, [*said, "no segment is large enough"]
    sample = replace(model.sample.take(keep), segments={column: labels[keep]})
    folds = {"cv": case.cv} if isinstance(case.cv, (int, np.integer)) else {}
    how = {"random_state": case.seed, "n_jobs": case.n_jobs, **folds}
    floors = {case.loss: case.floors[case.loss]} if case.loss in case.floors else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)
            found = decompose_segments(sample, column, case.losses[case.loss], "debiased", case.clip, how, floors)
    except InputError as error:
        return None, [*said, str(error)]
    said += [f"{segment} was left out: {why}" for segment, why in found.skipped.items()]
    said += [f"{name}: {text}" for name, result in found.decompositions.items() for _, text in result._doubts]
    return found, said


def choose_segments(
    names: Sequence[object], counts: NDArray[Any], *, last: int | None = None
) -> tuple[NDArray[Any], list[str]]:
    """Places of the segments that have enough rows of both outcomes; the largest of many, or so many last periods."""
    size = counts.sum(axis=0)
    rare = np.sort(counts, axis=0)[-2]
    enough = (size >= LEAST) & (rare >= RAREST)
    said = []
    if not enough.all():
        small = [f"{names[i]} ({size[i]:,.0f})" for i in np.flatnonzero(~enough).tolist()]
        said.append(f"left out for fewer than {LEAST} rows or {RAREST} of the rarer outcome: {enumerated(small, 6)}")
    chosen = np.flatnonzero(enough)
    if last is not None and chosen.size > last:
        said.append(f"the last {last} of {chosen.size} periods are shown")
        chosen = chosen[-last:]
    elif last is None and chosen.size > MOST:
        said.append(f"the {MOST} largest of {chosen.size} segments are shown")
        chosen = np.sort(chosen[np.argsort(-size[chosen], kind="stable")[:MOST]])
    return chosen, said


def shown_by(
    case: AnyCase, column: str, found: SegmentDecompositions, number: int, pvalues: dict[tuple[str, Any], float]
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


# ── periods ─────────────────────────────────────────────────────────────────────────────────────────


def _days(moments: NDArray[Any]) -> NDArray[Any]:
    return moments.astype("datetime64[D]").astype(str)


def _weeks(moments: NDArray[Any]) -> NDArray[Any]:
    days = moments.astype("datetime64[D]").astype(np.int64)
    monday = days - (days + 3) % 7  # 1970-01-01 was a Thursday
    return np.char.add("week of ", monday.astype("datetime64[D]").astype(str))


def _months(moments: NDArray[Any]) -> NDArray[Any]:
    return moments.astype("datetime64[M]").astype(str)


def _quarters(moments: NDArray[Any]) -> NDArray[Any]:
    months = moments.astype("datetime64[M]").astype(np.int64)
    year, quarter = 1970 + months // 12, 1 + (months % 12) // 3
    return np.array([f"{y}-Q{q}" for y, q in zip(year.tolist(), quarter.tolist(), strict=True)])


def _years(moments: NDArray[Any]) -> NDArray[Any]:
    return moments.astype("datetime64[Y]").astype(str)


#: From fine to coarse: the labels of each sort in the order of time.
_CALENDAR: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "days": _days,
    "weeks": _weeks,
    "months": _months,
    "quarters": _quarters,
    "years": _years,
}


def periods(time: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """The period of each row."""
    if time.dtype.kind == "M":
        return _calendar(time)
    if np.unique(time).size <= MOST or time.dtype.kind not in "iuf":
        return "periods", name_segments(time, "time")
    cuts = np.quantile(time, np.arange(1, 10) / 10, method="inverted_cdf")
    part = np.searchsorted(np.unique(cuts), time, side="left")
    names = []
    for p in range(int(part.max()) + 1):
        inside = time[part == p]
        names.append(f"{p + 1:02d}: {inside.min()} to {inside.max()}" if inside.size else "")
    return "ranges of equal size", np.array(names)[part]


def _calendar(time: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    best = None
    for what, labelled in _CALENDAR.items():
        labels = labelled(time)
        _, counts = np.unique(labels, return_counts=True)
        if counts.size == 1:
            break  # coarser ones are one period too
        best = (what, labels)
        if counts.size <= MOST and np.median(counts) >= _ENOUGH:
            break
    return best if best is not None else ("days", _days(time))


def name_segments(labels: NDArray[Any], column: str) -> NDArray[Any]:
    """Labels as text; whole numbers of equal length, so that they sort as numbers do."""
    values, codes = distinct(labels, column)
    if values.dtype.kind not in "iu":
        return np.asarray(values.astype(str)[codes])
    width = max(len(str(value)) for value in (values.min(), values.max()))
    return np.array([f"{value:>{width}}" for value in values.tolist()])[codes]
