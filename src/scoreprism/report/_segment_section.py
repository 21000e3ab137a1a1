"""Section 6: the same terms per segment and per period (days to years, whichever leaves enough rows in each)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scoreprism._core.labels import code_labels, sort_key
from scoreprism._core.progress import track
from scoreprism._document.model import Block, Callout, Figure, Range, Section, Table, make_table
from scoreprism._estimation.decompose_by import decompose_segments
from scoreprism._findings.finding import Finding, of_severity
from scoreprism._findings.wording import plural, write_percent, write_share
from scoreprism._kernels.holm import MARKED, holm_by_name
from scoreprism._kernels.term_intervals import quantile
from scoreprism.decomposition import Decomposition, SegmentDecompositions
from scoreprism.exceptions import InputError, ScoreprismError, ScoreprismWarning
from scoreprism.report._pieces import draw_with, figure, find_mark, write_title
from scoreprism.report._report import SECTIONS
from scoreprism.report._score_sums import ScoreSums
from scoreprism.report._subject import Case, RowSubject, Subject
from scoreprism.report._sum_subject import SumSubject
from scoreprism.scale import Drift, ScaledDecomposition, Sums

#: Rows of a segment at least, rows of its rarer outcome at least, and segments or periods at most.
LEAST, RAREST, MOST = 100, 10, 24
#: Periods of sums at most: the last ones.
MOST_PERIODS = 60
#: Rows that half of the periods should have.
_ENOUGH = 200
#: Models whose segments are shown in full.
_FULL = 3
MISSING = "(missing)"


class Rates(NamedTuple):
    """How many events a segment had and how many were predicted, with the interval of their ratio."""

    observed: float  # event rate
    expected: float  # mean score
    ratio: float
    low: float
    high: float

    @classmethod
    def of(cls, cells: ScoreSums, level: float) -> Rates:
        """From the cells of a segment, by a large-sample law."""
        weight, (ratio, error) = float(cells.weight.sum()), cells.ratio
        reach = quantile(level, two_sided=True) * error
        rates = float(cells.weight[1].sum()) / weight, float(cells.total.sum()) / weight
        return cls(*rates, ratio, max(ratio - reach, 0.0), ratio + reach)

    @property
    def direction(self) -> str:
        """Whether predictions are too high or too low, and by how much, where that is significant."""
        if not math.isfinite(self.ratio) or self.low <= 1.0 <= self.high or self.ratio <= 0.0:
            return "–"
        off = 1.0 / self.ratio - 1.0
        return f"too {'high' if off > 0 else 'low'} by {write_share(abs(off))}"


@dataclass(frozen=True)
class SegmentColumn:
    """The segments of one column, or the periods, of one model."""

    name: str  # as sentences call it
    title: str  # as headings call it: periods with their length
    is_time: bool
    found: SegmentDecompositions | None
    rates: Mapping[Any, Rates]
    findings: tuple[Finding, ...]  # what was left out


def find_columns(case: Case) -> dict[str, list[SegmentColumn]]:
    """Every column of segments, and the periods, of each model."""
    return {name: list(_list_columns(case, model)) for name, model in case.models.items()}


def attach(found: ScaledDecomposition, columns: Sequence[SegmentColumn]) -> ScaledDecomposition:
    """A decomposition from sums with its periods, and its segments where they are of one column."""
    periods = [column.found for column in columns if column.is_time]
    groups = [column.found for column in columns if not column.is_time]
    return replace(found, periods=periods[0] if periods else None, segments=groups[0] if len(groups) == 1 else None)


def make_segments(case: Case, every: Mapping[str, Sequence[SegmentColumn]]) -> Section | None:
    """The sixth section: every model; the first ones in full, the rest in a table."""
    if not any(every.values()):
        return None
    lead: list[Finding] = []
    blocks: list[Block] = [_tabulate_models(case, every)] if len(every) > 1 else []
    for number, (name, columns) in enumerate(list(every.items())[:_FULL]):
        lead += _find_lead(case, case.models[name], columns)
        blocks += _show(case, name, columns, number)
    return Section("segments", SECTIONS["segments"], tuple(lead), tuple(blocks))


def _list_columns(case: Case, model: Subject) -> Iterator[SegmentColumn]:
    """Every column of segments, and the periods."""
    if isinstance(model, SumSubject):
        for sums in model.parts:
            yield from (_decompose_sums(case, model, sums, column) for column in sums.settings.keys)
        return
    sample = model.sample
    for column, labels in sample.segments.items():
        yield _decompose_rows(case, model, column, name_segments(labels, column))
    if sample.time is not None:
        what, labels = find_periods(sample.time)
        yield _decompose_rows(case, model, "time", labels, what)


# ── what is found ───────────────────────────────────────────────────────────────────────────────────


def _list_results(columns: Sequence[SegmentColumn]) -> dict[tuple[str, Any], Decomposition]:
    """What conclusions on segments go by, over all columns: at a floor where a loss is infinite."""
    known = [(column.title, column.found.floored or column.found) for column in columns if column.found is not None]
    return {(title, segment): one for title, found in known for segment, one in found.decompositions.items()}


def _adjust(columns: Sequence[SegmentColumn]) -> dict[tuple[str, Any], float]:
    """Evidence of miscalibration in each segment, adjusted by Holm's method over all segments of all columns."""
    return holm_by_name({key: one._inference("reliability").pvalue() for key, one in _list_results(columns).items()})


def _find_lead(case: Case, model: Subject, columns: Sequence[SegmentColumn]) -> list[Finding]:
    """In which segments a model is miscalibrated, and which columns have none that is large enough."""
    pvalues = _adjust(columns)
    about: dict[str, Any] = {"model": model.name, "n": len(pvalues), "confidence_level": case.level}
    small = [column.name for column in columns if column.found is None]
    found = []
    wrong = _list_worst(case, columns, pvalues)
    if wrong:
        found.append(Finding("segment_miscalibrated", **about, facts={"segments": wrong}))
    elif pvalues:
        found.append(Finding("segments_none", **about, facts={"overall": case.is_miscalibrated(model)}))
    if small:
        facts = {"rarer": RAREST, **({"columns": small} if pvalues else {})}
        found.append(Finding("segments_too_small", model=model.name, n=LEAST, facts=facts))
    return found


def _list_worst(case: Case, columns: Sequence[SegmentColumn], pvalues: Mapping[tuple[str, Any], float]) -> list[str]:
    """Segments that are significantly miscalibrated, the largest reliability first."""
    names, results = {column.title: column.name for column in columns}, _list_results(columns)
    wrong = [key for key, p in pvalues.items() if p <= case.alpha]
    wrong.sort(key=lambda key: -results[key].terms["reliability"])
    return [f"{names[title]} {str(segment).strip()}" for title, segment in wrong]


def _tabulate_models(case: Case, every: Mapping[str, Sequence[SegmentColumn]]) -> Table:
    """In how many segments each model is miscalibrated."""
    rows = []
    for name, columns in every.items():
        pvalues = _adjust(columns)
        wrong = _list_worst(case, columns, pvalues)
        named = ", ".join(wrong[:3]) + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")
        rows.append((name, len(pvalues), len(wrong), named or "–"))
    columns_ = [
        ("model", "model", "text"), ("segments", "segments", "count"), ("miscalibrated", "miscalibrated", "count"),
        ("which", "which", "text"),
    ]  # fmt: skip
    return make_table("segments-models", "Segments in which each model is miscalibrated (Holm)", columns_, rows)


def _show(case: Case, name: str, columns: Sequence[SegmentColumn], number: int) -> list[Block]:
    """Tables and figures of one model."""
    pvalues = _adjust(columns)
    several = len(case.models) > 1
    blocks: list[Block] = []
    for place, column in enumerate(columns):
        blocks += [Callout(one) for one in column.findings]
        if column.found is None:
            continue
        key = f"{number + 1}-{place + 1}"
        by = f"{name} by {column.title}" if several else f"by {column.title}"
        title = by if several else f"By {column.title}"
        blocks.append(_tabulate_segments(case, column, pvalues, f"segments-{key}", title))
        if column.is_time and len(column.found.decompositions) > 1:
            blocks += _show_drift(case, Drift.of(column.found, "first"), key, by)
        else:
            blocks += _make_bars(case, column, f"segments-figure-{key}", by)
    if columns and case.has_rows and not isinstance(case.cv, (int, np.integer)):
        blocks.append(Callout(Finding("approximated", facts={"folds": 5})))
    return blocks


def _tabulate_segments(case: Case, column: SegmentColumn, pvalues: Mapping[Any, float], key: str, title: str) -> Table:
    """A line per segment: how many rows and events, which way predictions are off, and the terms."""
    assert column.found is not None  # noqa: S101 - asked for before
    found = column.found
    shown = found.floored or found
    mark = find_mark(shown.decompositions)
    rows: list[tuple[Any, ...]] = []
    for segment, result in shown.decompositions.items():
        rates = column.rates.get(segment)
        direction = (None,) * 4 if rates is None else (
            rates.observed, rates.expected, Range(rates.low, rates.high, rates.ratio), rates.direction
        )  # fmt: skip
        known = Range(*result._known("reliability", case.level), result.terms["reliability"])
        others = [result._shown_term(name, case.level) for name in found.names[1:-1]]
        losses, p = (found[segment].risk, result.risk if mark else None), pvalues[column.title, segment]
        rows.append((str(segment).strip(), result.n, *direction, *losses, known, p, *others))
    columns = [
        ("segment", column.title, "text"), ("rows", "rows", "count"), ("observed", "event rate", "share"),
        ("expected", "mean score", "share"), ("ratio", "observed:expected", "short"),
        ("direction", "predictions", "text"), ("loss", f"{case.loss} loss", "loss"), ("floored", mark, "loss"),
        ("reliability", f"reliability ({write_percent(case.level)})", "loss"), ("pvalue", "p (Holm)", "pvalue"),
        *((name, name, "loss") for name in found.names[1:-1]),
    ]  # fmt: skip
    note = (
        "Maps are fitted within each segment. P-values test whether its reliability is above 0, adjusted for the "
        "number of segments."
    )
    note = f"{note} The loss is infinite in some segments: all terms are {mark}." if mark else note
    return make_table(key, title, columns, rows, note)


def _make_bars(case: Case, column: SegmentColumn, key: str, by: str) -> list[Block]:
    """What can be reduced in each segment, as bars."""
    assert column.found is not None  # noqa: S101 - asked for before
    shown = column.found.floored or column.found
    if not all(math.isfinite(result.risk) for result in shown.decompositions.values()):
        return []
    draw = draw_with(shown, confidence_level=case.level, terms=shown.names[:-1])
    described = (
        f"The reducible parts of the {case.loss} loss in {plural(len(shown), 'segment')}, each with its own maps."
    )
    title = write_title(f"What could be removed: {by}", find_mark(shown.decompositions))
    return [figure(key, title, described, draw, size=(4.7, 1.4 + 0.34 * len(shown)))]


def _show_drift(case: Case, drift: Drift, key: str, by: str) -> list[Block]:
    """Changes from period to period, and what they say; at the floor, where the loss of some is infinite."""
    drift = drift.floored or drift
    mark = find_mark(drift.periods.decompositions)
    rows: list[tuple[Any, ...]] = []
    for after, before in drift.pairs:
        changes = [drift.change(name, after) for name in drift.names]
        known = [drift.interval(name, after, case.level) for name in drift.names]
        cells = [Range(i.low, i.high, c) if math.isfinite(c) else None for i, c in zip(known, changes, strict=True)]
        rows.append((str(after), str(before), *cells))
    columns = [("period", "period", "text"), ("baseline", "baseline", "text")]
    columns += [(name, name, "signed") for name in drift.names]
    note = f"Change of each term with its {write_percent(case.level)} interval, each by itself."
    heading = write_title(f"Changes of the terms of the {case.loss} loss", mark)
    table = make_table(f"drift-{key}", heading, columns, rows, note)
    return [_make_drift_figure(case, drift, table, key, by, mark), Callout(_find_change(drift))]


def _find_change(drift: Drift) -> Finding:
    """Which changes of the first term are significant, by the p-values that the figure marks."""
    term = drift.names[0]
    changed = [str(period) for period, p in drift.pvalues(term).items() if p < MARKED]
    (after, before) = drift.pairs[0]
    facts = {"periods": changed, "alpha": MARKED, "after": str(after), "before": str(before)}
    return Finding("changed", term=term, n=len(drift.pairs), facts=facts)


def _make_drift_figure(case: Case, drift: Drift, changes: Table, key: str, by: str, mark: str) -> Figure | Table:
    """Terms over time, as lines, and their changes behind it; these alone where a loss is infinite."""
    if not all(math.isfinite(d.risk) for d in drift.periods.decompositions.values()):
        return changes
    draw = draw_with(drift, confidence_level=case.level)
    count = plural(len(drift.periods.decompositions), "period")
    described = f"The {case.loss} loss and its terms in {count}, with {write_percent(case.level)} intervals."
    size = (6.4, 1.0 + 1.5 * (1 + len(drift.names)))
    heading = write_title(f"The terms over time: {by}", mark)
    return figure(f"drift-figure-{key}", heading, described, draw, changes, size=size)


# ── from rows ───────────────────────────────────────────────────────────────────────────────────────


def _decompose_rows(case: Case, model: RowSubject, column: str, labels: NDArray[Any], every: str = "") -> SegmentColumn:
    """Segments that are large enough, decomposed; and what was left out. Periods are `every` long."""
    about = column, f"{column}, in {every}" if every else column, bool(every)
    names, codes = np.unique(labels, return_inverse=True)
    counts = np.stack([np.bincount(codes[model.sample.y == c], minlength=names.size) for c in range(model.k)])
    chosen, left_out = choose_segments(names.tolist(), counts, column)
    keep = np.flatnonzero(np.isin(codes, chosen))
    if not keep.size:
        return SegmentColumn(*about, None, {}, tuple(left_out))
    sample = replace(model.sample.take(keep), segments={column: labels[keep]})
    if model is not case.first:  # what features add is judged for the first model: the others take a fifth of the time
        sample = replace(sample, X=None, levels=())
    folds = {"cv": case.cv} if isinstance(case.cv, (int, np.integer)) else {}
    how = {"random_state": case.seed, "n_jobs": case.n_jobs, **folds}
    floors = {case.loss: case.floors[case.loss]} if case.loss in case.floors else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScoreprismWarning)
            found = decompose_segments(sample, column, case.losses[case.loss], "debiased", case.clip, how, floors)
    except InputError as error:
        failed = Finding("left_out", subject=column, facts={"reason": str(error)})
        return SegmentColumn(*about, None, {}, (*left_out, failed))
    rates: dict[Any, Rates] = {}
    for i in chosen if model.k == 2 else ():
        rows, weight = codes == i, model.sample.weight
        cells = ScoreSums.of_rows(model.law[rows], model.sample.y[rows] == 1, None if weight is None else weight[rows])
        rates[names[i]] = Rates.of(cells, case.level)
    return SegmentColumn(*about, found, rates, (*left_out, *_find_doubts(found, column)))


def _find_doubts(found: SegmentDecompositions, column: str) -> list[Finding]:
    """Segments that could not be decomposed, and doubts about others."""
    skipped = [
        Finding("left_out", subject=str(segment), facts={"reason": why, "column": column})
        for segment, why in found.skipped.items()
    ]
    doubted = [
        one.about(f"{column} {name}")
        for name, result in found.decompositions.items()
        for one in of_severity(result.findings, "doubt")
    ]
    return [*skipped, *doubted]


def choose_segments(
    names: Sequence[object], counts: NDArray[Any], column: str, *, last: int | None = None
) -> tuple[NDArray[Any], list[Finding]]:
    """Places of the segments that have enough rows of both outcomes; the largest of many, or so many last periods."""
    size = counts.sum(axis=0)
    rare = np.sort(counts, axis=0)[-2]
    enough = (size >= LEAST) & (rare >= RAREST)
    found = []
    if not enough.all():
        small = [f"{names[i]} ({size[i]:,.0f})" for i in np.flatnonzero(~enough).tolist()]
        facts = {"reason": "small", "names": small, "rarer": RAREST, "column": column}
        found.append(Finding("left_out", n=LEAST, facts=facts))
    chosen = np.flatnonzero(enough)
    if last is not None and chosen.size > last:
        found.append(Finding("left_out", n=last, facts={"reason": "last", "total": int(chosen.size), "column": column}))
        chosen = chosen[-last:]
    elif last is None and chosen.size > MOST:
        found.append(Finding("left_out", n=MOST, facts={"reason": "most", "total": int(chosen.size), "column": column}))
        chosen = np.sort(chosen[np.argsort(-size[chosen], kind="stable")[:MOST]])
    return chosen, found


# ── from sums ───────────────────────────────────────────────────────────────────────────────────────


def _decompose_sums(case: Case, model: SumSubject, sums: Sums, column: str) -> SegmentColumn:
    """Segments of one column that are large enough, by maps of their own; and what was left out."""
    settings = sums.settings
    is_time = column == settings.time
    about = column, f"{column}, in {settings.period}s" if is_time and settings.period else column, is_time
    labels, codes = _code_segments(sums, column)
    rows = np.stack([np.bincount(codes, sums.table["n"] * (sums.table["y"] == y), len(labels)) for y in (0, 1)])
    last = MOST_PERIODS if is_time else None
    chosen, left_out = choose_segments([_name_segment(label) for label in labels], rows, column, last=last)
    found: dict[Any, ScaledDecomposition] = {}
    rates: dict[Any, Rates] = {}
    skipped: dict[Any, str] = {}
    twin = model.decompositions[case.loss]._stand_in
    floor = None if twin is None else twin.clip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScoreprismWarning)
        for i in track(chosen, len(chosen), f"maps by {column}"):
            label = MISSING if labels[i] is None else labels[i]
            part = sums.select(**{column: labels[i]}).pool()
            try:
                result = part.decompose(case.losses[case.loss], random_state=case.seed, floor=floor)
            except ScoreprismError as error:
                skipped[label] = str(error)
                continue
            found[label], rates[label] = result, Rates.of(ScoreSums.of_sums(part), case.level)
    if not found:
        return SegmentColumn(*about, None, {}, tuple(left_out))
    together = SegmentDecompositions(next(iter(found.values())).names, None, dict(found), skipped)
    return SegmentColumn(*about, together, rates, (*left_out, *_find_doubts(together, column)))


def _code_segments(sums: Sums, column: str) -> tuple[list[Any], Any]:
    """Labels of a column in order, and the place of each line's label among them."""
    place = sums.settings.keys.index(column)
    values = [key[place] for key in sums.segments]
    labels = sorted(set(values), key=sort_key)
    where = {label: i for i, label in enumerate(labels)}
    by_segment = np.array([where[value] for value in values], dtype=np.intp)
    return labels, by_segment[sums.table["segment"].astype(np.intp)]


def _name_segment(label: Any) -> str:
    return MISSING if label is None else str(label)


# ── periods ─────────────────────────────────────────────────────────────────────────────────────────


def _label_weeks(moments: NDArray[Any]) -> NDArray[Any]:
    days = moments.astype("datetime64[D]").astype(np.int64)
    monday = days - (days + 3) % 7  # 1970-01-01 was a Thursday
    return np.char.add("week of ", monday.astype("datetime64[D]").astype(str))


def _label_quarters(moments: NDArray[Any]) -> NDArray[Any]:
    months = moments.astype("datetime64[M]").astype(np.int64)
    year, quarter = 1970 + months // 12, 1 + (months % 12) // 3
    return np.array([f"{y}-Q{q}" for y, q in zip(year.tolist(), quarter.tolist(), strict=True)])


#: From fine to coarse: the labels of each sort in the order of time.
_CALENDAR: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "days": lambda moments: moments.astype("datetime64[D]").astype(str),
    "weeks": _label_weeks,
    "months": lambda moments: moments.astype("datetime64[M]").astype(str),
    "quarters": _label_quarters,
    "years": lambda moments: moments.astype("datetime64[Y]").astype(str),
}


def find_periods(time: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """The period of each row."""
    if time.dtype.kind == "M":
        return _choose_calendar(time)
    if np.unique(time).size <= MOST or time.dtype.kind not in "iuf":
        return "periods", name_segments(time, "time")
    cuts = np.quantile(time, np.arange(1, 10) / 10, method="inverted_cdf")
    part = np.searchsorted(np.unique(cuts), time, side="left")
    names = []
    for p in range(int(part.max()) + 1):
        inside = time[part == p]
        names.append(f"{p + 1:02d}: {inside.min()} to {inside.max()}" if inside.size else "")
    return "ranges of equal size", np.array(names)[part]


def _choose_calendar(time: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """The finest periods that are few and large enough, else the coarsest of which there are several."""
    best = None
    for what, label_moments in _CALENDAR.items():
        labels = label_moments(time)
        _, counts = np.unique(labels, return_counts=True)
        if counts.size == 1:
            break  # coarser ones are one period too
        best = what, labels
        if counts.size <= MOST and np.median(counts) >= _ENOUGH:
            break
    return best if best is not None else ("days", _CALENDAR["days"](time))


def name_segments(labels: NDArray[Any], column: str) -> NDArray[Any]:
    """Labels as text; whole numbers of equal length, so that they sort as numbers do."""
    values, codes = code_labels(labels, column)
    if values.dtype.kind not in "iu":
        return np.asarray(values.astype(str)[codes])
    width = max(len(str(value)) for value in (values.min(), values.max()))
    return np.array([f"{value:>{width}}" for value in values.tolist()])[codes]
