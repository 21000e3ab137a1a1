"""Section 7: several models on the same rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from scoreprism._document.model import Block, Range, Section, Table, make_table
from scoreprism._findings.finding import Finding, select
from scoreprism._findings.wording import write_fixed, write_percent
from scoreprism.curves import ResolutionPlane
from scoreprism.decomposition import Comparison
from scoreprism.displays import ResolutionPlaneDisplay
from scoreprism.report._judgement import find_gap_interval
from scoreprism.report._pieces import draw_with, figure, find_mark, write_title
from scoreprism.report._report import SECTIONS
from scoreprism.report._subject import Case

#: Pairs of models in the table of differences: all of few models, else each with the best.
_ALL_PAIRS = 3


def make_models(case: Case) -> Section | None:
    """The seventh section: several models whose rows are known."""
    if len(case.models) < 2 or not case.has_rows:
        return None
    found = {name: model.decompositions[case.loss] for name, model in case.models.items()}
    comparison = Comparison(next(iter(found.values())).names, None, found)
    blocks: list[Block] = [_make_plane(case), _tabulate_differences(case, comparison)]
    blocks += [] if comparison.floored is None else [_tabulate_differences(case, comparison.floored)]
    return Section("models", SECTIONS["models"], tuple(_find_gaps(case, comparison)), tuple(blocks))


def _find_gaps(case: Case, comparison: Comparison) -> list[Finding]:
    """The best model, and how far the others are behind; all at the floor, where the loss of each is infinite."""
    infinite = [name for name in comparison.ranking() if not np.isfinite(comparison[name].risk)]
    infinities = [one.about(name) for name in infinite for one in select(comparison[name].findings, "infinite_loss")]
    if len(infinite) == len(comparison.decompositions):
        if comparison.floored is None:
            return infinities
        comparison, infinite = comparison.floored, []
    first, last = ([], infinities) if infinite else (infinities, [])
    best, *others = [name for name in comparison.ranking() if name not in infinite]
    floor = comparison[best].floor
    facts = {"loss": case.loss, **({} if floor is None else {"floor": floor})}
    found = [*first, Finding("best_model", model=best, value=comparison[best].risk, facts=facts)]
    gaps = [
        Finding("behind", model=name, subject=best, value=gap.risk, low=low, high=high, confidence_level=case.level)
        for name, gap in ((name, comparison.difference(name, best)) for name in others)
        for low, high in [find_gap_interval(gap, case.level)]
    ]
    alike = [one for one in gaps if not (one.low or 0.0) > 0.0]
    if len(alike) == 1:
        found.append(replace(alike[0], kind="not_worse", facts={"others": [alike[0].model]}))
    elif alike:
        facts = {"others": [one.model for one in alike]}
        found.append(Finding("not_worse", subject=best, confidence_level=case.level, facts=facts))
    return [*found, *(one for one in gaps if one not in alike), *last]


def _tabulate_differences(case: Case, comparison: Comparison) -> Table:
    order = comparison.ranking()
    pairs = list(combinations(order, 2)) if len(order) <= _ALL_PAIRS else [(order[0], other) for other in order[1:]]
    rows: list[tuple[Any, ...]] = []
    for better, worse in pairs:
        gap = comparison.difference(worse, better)
        words = f"{worse} − {better}"
        rows.append((words, "loss", gap.risk, Range(*find_gap_interval(gap, case.level))))
        for term, value in gap.terms.items():
            interval = gap._interval(term, case.level) if np.isfinite(value) else None
            muted = term in (*gap.first.muted, *gap.second.muted)
            shown = None if interval is None else Range(interval.low, interval.high)
            rows.append((words, term, None if muted else value, shown))
    columns = [
        ("pair", "difference", "text"), ("term", "of", "text"), ("value", "estimate", "signed"),
        ("interval", f"{write_percent(case.level)} interval", "signed"),
    ]  # fmt: skip
    note = "Paired: same rows, same folds. Each interval stands by itself."
    mark, title = find_mark(comparison.decompositions), f"Paired differences of the {case.loss} loss and its terms"
    return make_table("differences-floored" if mark else "differences", write_title(title, mark), columns, rows, note)


def _make_plane(case: Case) -> Block:
    mark = find_mark(case.side_by_side)
    forms = {name: result.resolution_form for name, result in case.side_by_side.items()}
    values = {term: np.array([form.terms[term] for form in forms.values()]) for term in ("reliability", "resolution")}
    risk = np.array([form.risk for form in forms.values()])
    first = next(iter(forms.values()))
    rows = [(name, form.risk, form.terms["reliability"], form.terms["resolution"]) for name, form in forms.items()]
    columns = [
        ("model", "model", "text"), ("loss", "loss", "number"), ("reliability", "reliability", "number"),
        ("resolution", "resolution", "number"),
    ]  # fmt: skip
    note = f"Loss = uncertainty {write_fixed(first.terms['uncertainty'], 5)} − resolution + reliability."
    data = make_table("plane-data", "Reliability and resolution", columns, rows, note)
    if not np.isfinite(risk).all():
        return data
    plane = ResolutionPlane(
        name=None, n=first.n, _backend=None, models=tuple(forms), reliability=values["reliability"],
        resolution=values["resolution"], risk=risk, uncertainty=first.terms["uncertainty"], method="crossfit",
        loss=case.losses[case.loss],
    )  # fmt: skip
    draw = draw_with(ResolutionPlaneDisplay([plane]))
    described = (
        "Each model by what it tells apart (resolution) and by its miscalibration (reliability). Models "
        "on the same line have equal losses."
    )
    return figure("plane", write_title("Resolution plane", mark), described, draw, data, size=(4.5, 3.7))
