"""The sections of a report from sums: calibration by cells, segments and periods, and what is exact."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from scoreprism._core.labels import key_order
from scoreprism._core.progress import tracked
from scoreprism._document.tables import marked
from scoreprism._kernels.holm import MARKED
from scoreprism.estimation import SegmentDecompositions
from scoreprism.exceptions import ScoreprismError
from scoreprism.report._calibration_section import diagram, graded, meaning, metrics_table
from scoreprism.report._evidence import OF_CELLS, alpha_of
from scoreprism.report._method_section import REFERENCES, facts_table, tables_of
from scoreprism.report._model import Block, Figure, Notice, Origin, Section, Table
from scoreprism.report._pieces import ends, enumerated, figure, table, thinned
from scoreprism.report._report import SECTIONS
from scoreprism.report._segment_section import adjusted, choose_segments, mark_of, shown_by
from scoreprism.report._segment_section import meaning as segments_meaning
from scoreprism.report._subject import collect_warnings
from scoreprism.report._sum_subject import SumCase, SumSubject, curve_of, grades_of
from scoreprism.scale import Drift, Partial, ScaledDecomposition

#: Periods at most: the last ones.
MOST_PERIODS = 60
MISSING = "(missing)"
#: Tests as people call them.
_TESTS = {"bound": "reliability above 0", "spiegelhalter": "Spiegelhalter's", OF_CELLS: "smallest of several, by cells"}


# ── calibration ─────────────────────────────────────────────────────────────────────────────────────


def calibration(case: SumCase) -> Section:
    """Diagrams, summaries, tests and grades, from cells."""
    first, *others = enumerate(case.models.values(), start=1)
    blocks: list[Block] = [_diagram(first[1], 1), metrics_table(case), _tests(case), _grades(first[1], 1)]
    for number, model in others:
        blocks += [_diagram(model, number), _grades(model, number)]
    if any(not model.partial.exact for model in case.models.values()):
        words = "Slope, area and Spiegelhalter's variance take the rows of a cell at their mean score."
        blocks.append(Notice("note", words))
    return Section("calibration", SECTIONS["calibration"], meaning(case), tuple(blocks))


def _diagram(model: SumSubject, number: int) -> Figure:
    curve = curve_of(model.cells, model.level, model.name)
    assert curve.low is not None and curve.high is not None  # noqa: PT018, S101 - it has a band
    rows = [(float(curve.x[i]), float(curve.y[i]), ends(curve.low[i], curve.high[i])) for i in thinned(curve.x.size)]
    percent = f"{100 * model.level:g} %"
    columns = [("score", "predicted", "short"), ("rate", "observed", "short"), ("interval", percent, "short")]
    data = table(f"reliability-data-{number}", "Observed rate against predicted probability", columns, rows)
    off = float(np.mean((curve.x < curve.low) | (curve.x > curve.high)))
    described = (
        f"Observed event rate against predicted probability, in {curve.x.size} bins, each with its {percent} "
        f"interval (Jeffreys, each by itself); the mean score is outside of it in {100 * off:.0f} % of them. Above, "
        "the scores of events and of other rows."
    )
    return diagram(curve, model.name, number, described, data)


def _tests(case: SumCase) -> Table:
    rows: list[tuple[Any, ...]] = []
    for model in case.models.values():
        for method, part in model.calibration.components.items():
            rows.append((model.name, _TESTS.get(method, method), part["statistic"], part["pvalue"]))
        if model.calibration.method not in model.calibration.components:
            rows.append((model.name, "both, adjusted", None, model.calibration.pvalue))
    columns = [
        ("model", "model", "text"), ("method", "test", "text"), ("statistic", "statistic", "short"),
        ("pvalue", "p-value", "pvalue"),
    ]  # fmt: skip
    note = (
        "Hypothesis: outcomes are drawn from the scores. With many rows a small p-value says nothing of the size of "
        "what is wrong: see the terms."
    )
    return table("tests", "Tests of calibration", columns, rows, note)


def _grades(model: SumSubject, number: int) -> Table:
    return graded(grades_of(model.cells, model.level), "score", model.name, number, model.level)


# ── segments and periods ────────────────────────────────────────────────────────────────────────────


def segments(case: SumCase) -> tuple[Section | None, dict[str, SegmentDecompositions]]:
    """Terms by segment and by period; and the periods and segments themselves."""
    model = case.first
    blocks: list[Block] = []
    every: dict[str, SegmentDecompositions] = {}
    titles = {}
    for partial in model.partials:
        for column in partial.settings.keys:
            titles[column] = _titled(partial, column)
            found, said = _decomposed(case, partial, column)
            blocks += [Notice("note", f"{column}: {text}") for text in said]
            if found is not None:
                every[column] = found
    if not titles:
        return None, {}
    shown = {titles[column]: found for column, found in every.items()}
    pvalues = adjusted(shown)
    time = model.partials[-1].settings.time
    for number, (column, found) in enumerate(every.items()):
        parts = shown_by(case, titles[column], found, number, pvalues)
        several = column == time and len(found) > 1
        drifted = _drifted(case, replace(model.decompositions[case.loss], periods=found).drift()) if several else []
        lines = any(isinstance(block, Figure) for block in drifted)  # which say more than bars
        blocks += [*(part for part in parts if not (lines and isinstance(part, Figure))), *drifted]
    named = {title: column for column, title in titles.items()}
    wrong = [f"{named[c]} {str(s).strip()}" for (c, s), p in pvalues.items() if p <= alpha_of(case.level)]
    left = [titles[column] for column in titles if column not in every]
    mark = next((mark_of(found) for found in every.values()), "")
    said_so = marked(segments_meaning(case, wrong, len(pvalues), left), mark)
    return Section("segments", SECTIONS["segments"], said_so, tuple(blocks)), every


def _titled(partial: Partial, column: str) -> str:
    settings = partial.settings
    if column != settings.time:
        return column
    return f"{column}, in {settings.every}s" if settings.every else column


def _decomposed(case: SumCase, partial: Partial, column: str) -> tuple[SegmentDecompositions | None, list[str]]:
    """Segments of one column that are large enough, by laws of their own; and what was left out."""
    chosen, said = _large(partial, column)
    found: dict[Any, ScaledDecomposition] = {}
    skipped: dict[Any, str] = {}
    with collect_warnings():
        for label, part in tracked(_parts(partial, column, chosen), len(chosen), f"laws by {column}"):
            try:
                result = part.decompose(loss=case.losses[case.loss], random_state=case.seed, floors=_floors(case))
            except ScoreprismError as error:
                skipped[label] = str(error)
                continue
            assert isinstance(result, ScaledDecomposition)  # noqa: S101 - of one loss
            found[label] = result
    said += [f"{label} was left out: {why}" for label, why in skipped.items()]
    if not found:
        return None, [*said, "no segment is large enough"]
    names = next(iter(found.values())).names
    return SegmentDecompositions(names, None, dict(found), skipped), said


def _floors(case: SumCase) -> dict[str, float]:
    """The floor of the whole, at which parts are judged too, where the loss is infinite."""
    twin = case.first.decompositions[case.loss]._stand_in
    return {} if twin is None or twin.clip is None else {case.loss: twin.clip}


def _codes(partial: Partial, column: str) -> tuple[list[Any], Any]:
    """Labels of a column in order, and the place of each line's label among them."""
    place = partial.settings.keys.index(column)
    values = [key[place] for key in partial.segments]
    labels = sorted(set(values), key=key_order)
    where = {label: i for i, label in enumerate(labels)}
    by_segment = np.array([where[value] for value in values], dtype=np.intp)
    return labels, by_segment[partial.table["segment"].astype(np.intp)]


def _large(partial: Partial, column: str) -> tuple[list[Any], list[str]]:
    """Labels with enough rows of both outcomes; the largest of many segments, the last of many periods."""
    labels, codes = _codes(partial, column)
    rows = np.stack([np.bincount(codes, partial.table["n"] * (partial.table["y"] == y), len(labels)) for y in (0, 1)])
    last = MOST_PERIODS if column == partial.settings.time else None
    chosen, said = choose_segments([_named(label) for label in labels], rows, last=last)
    return [labels[i] for i in chosen], said


def _named(label: Any) -> str:
    return MISSING if label is None else str(label)


def _parts(partial: Partial, column: str, chosen: list[Any]) -> Iterator[tuple[Any, Partial]]:
    """The sums of each label."""
    for label in chosen:
        yield MISSING if label is None else label, partial.only(**{column: label}).pooled()


def _drifted(case: SumCase, drift: Drift) -> list[Block]:
    """Changes from period to period, and what they say; at the floor, where the loss of some is infinite."""
    drift = drift.floored or drift
    mark = next(iter(drift.periods.decompositions.values()))._mark
    periods, rows = drift.periods, list[tuple[Any, ...]]()
    for after, before in drift.pairs:
        known = [drift.interval(name, after, case.level) for name in drift.names]
        changes = [periods[after].terms[name] - periods[before].terms[name] for name in drift.names]
        cells = [ends(i.low, i.high, c) if math.isfinite(c) else None for i, c in zip(known, changes, strict=True)]
        rows.append((str(after), str(before), *cells))
    columns = [("period", "period", "text"), ("against", "against", "text")]
    columns += [(name, name, "signed") for name in drift.names]
    note = f"Change of each term with its {case.percent} interval."
    if len(rows) > 1:
        chance = f"{len(rows) * alpha_of(case.level):.1g}"
        note = f"{note[:-1]}, each by itself: if nothing changed, {chance} of {len(rows)} would leave out 0 by chance."
    title = f"Change of the terms of the {case.loss} loss{f', {mark}' if mark else ''}"
    data = table("drift", title, columns, rows, note)
    return [Notice("note", marked(_moved(drift), mark)), *_drift_figure(case, drift, len(rows), mark), data]


def _moved(drift: Drift) -> str:
    """Which changes of the first term are shown, by the p-values that the figure marks."""
    term, count = drift.names[0], len(drift.pairs)
    moved = [str(period) for period, p in drift.pvalues(term).items() if p < MARKED]
    if count == 1:
        (after, before), how = drift.pairs[0], "changed" if moved else "is not shown to have changed"
        return f"The {term} {how} from {before} to {after} (p {'<' if moved else '≥'} {MARKED:g})."
    over = f"Holm's p {'<' if moved else '≥'} {MARKED:g} over {count} changes"
    if not moved:
        return f"The {term} is not shown to have changed from any period to the next ({over})."
    return f"The {term} differs from the period before in {enumerated(moved, 6)} ({over})."


def _drift_figure(case: SumCase, drift: Drift, count: int, mark: str) -> list[Block]:
    """Terms over time, where the display is there."""
    if not hasattr(drift, "plot") or not all(math.isfinite(d.risk) for d in drift.periods.decompositions.values()):
        return []

    def draw(ax: Any) -> None:
        drift.plot(ax, level=case.level)

    described = f"The terms of the {case.loss} loss in each of {count + 1} periods, with {case.percent} intervals."
    title, size = f"The terms over time{f', {mark}' if mark else ''}", (6.4, 1.0 + 1.5 * (1 + len(drift.names)))
    return [figure("drift-figure", title, marked(described, mark), draw, size=size)]


# ── method ──────────────────────────────────────────────────────────────────────────────────────────


def method(case: SumCase, origin: Origin, settings: Mapping[str, Any]) -> Section:
    """What was computed, from which sums, and what is exact."""
    model = case.first
    partial, chosen = model.partial, model.partial.settings
    others, events = model.outcomes.tolist()
    facts = [("data", origin.name), ("rows", f"{partial.n:,}"), ("outcomes", f"others: {others:,}, events: {events:,}")]
    facts += [(key.replace("_", " "), str(value)) for key, value in origin.details.items()]
    columns = {"target": chosen.target, "weights": chosen.sample_weight, "folds": _folds(partial)}
    facts += [(key, str(value)) for key, value in columns.items() if value is not None]
    facts += [(str(key).replace("_", " "), str(value)) for key, value in settings.items() if value is not None]
    laws = [(name, note) for name, one in case.models.items() for note in one.main.notes]
    blocks: list[Block] = [
        facts_table(facts),
        _exactness(case),
        *tables_of(case, 2, laws, case.notes, _references(case)),
    ]
    said = (
        f"Every number here was computed from sums over {partial.n:,} rows: rows were read where they are and never "
        "held in memory."
    )
    return Section("method", SECTIONS["method"], said, tuple(blocks))


def _references(case: SumCase) -> list[str]:
    """What a report from sums rests on: no curves, no net benefit."""
    kept = [line for line in REFERENCES if line.startswith(("Charpentier", "Bröcker", "Holm"))]
    if "grouping" in case.first.main.names:
        kept.insert(2, next(line for line in REFERENCES if "grouping" in line))
    drift = case.first.partials[-1].settings.time is not None
    more = [
        "Spiegelhalter (1986): a test of calibration",
        "DeLong, DeLong & Clarke-Pearson (1988): the error of the AUC",
    ]
    return [*kept, *more, *(["Zou & Donner (2008): intervals of changes"] if drift else [])]


def _folds(partial: Partial) -> str:
    settings = partial.settings
    if settings.fold is None:
        return "drawn within cells: rows are taken to be independent"
    how = f"hash of {settings.fold}" if settings.fold_hash else f"column {settings.fold}"
    return f"{len(partial.folds)}, from the {how}"


def _exactness(case: SumCase) -> Table:
    """What summing by cell did, beside what chance does."""
    rows: list[tuple[Any, ...]] = []
    for model in case.models.values():
        what = f"{model.partial.n_keys:,} {'distinct scores' if model.partial.exact else 'cells'}"
        for name, result in model.decompositions.items():
            error = min(result.std_error.values())
            moved = result.quantisation_error
            share = moved / error if error > 0.0 else math.nan
            beside = "–" if math.isnan(share) else "< 0.1 %" if 0.0 < share < 0.001 else f"{100 * share:.1f} %"
            bound = "0, exact" if model.partial.exact else f"{moved:.1e}"
            rows.append((model.name, name, what, bound, f"{error:.1e}", beside))
    columns = [
        ("model", "model", "text"), ("loss", "loss", "text"), ("cells", "summed by", "text"),
        ("quantisation", "terms moved by up to", "text"), ("std_error", "standard error", "text"),
        ("ratio", "share of it", "text"),
    ]  # fmt: skip
    note = (
        "With at most as many distinct scores as cells nothing is lost. Else the loss of the score is summed row by "
        "row, and is exact; C is evaluated on cells, which moves reliability and refinement by up to about this, one "
        "against the other. The standard error is the smallest of a term."
    )
    return table("exactness", "What is exact, and what is quantised", columns, rows, note)
