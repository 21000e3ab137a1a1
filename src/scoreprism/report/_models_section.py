"""Section 7: several models on the same rows."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from scoreprism._document.tables import marked
from scoreprism.curves import ResolutionPlane
from scoreprism.displays import ResolutionPlaneDisplay
from scoreprism.estimation import Comparison
from scoreprism.report._model import Block, Section, Table
from scoreprism.report._pieces import ends, figure, span, table
from scoreprism.report._report import SECTIONS
from scoreprism.report._subject import RowCase
from scoreprism.report._tables import told_cell

#: Pairs of models in the table of differences: all of few models, else each with the best.
_ALL_PAIRS = 3


def models(case: RowCase) -> Section | None:
    """The seventh section."""
    if len(case.models) < 2:
        return None
    found = {name: model.decompositions[case.loss] for name, model in case.models.items()}
    comparison = Comparison(next(iter(found.values())).names, None, found)
    blocks: list[Block] = [_ranking(case, comparison), _plane(case), _differences(case, comparison)]
    if comparison.floored is not None:
        blocks += [_ranking(case, comparison.floored), _differences(case, comparison.floored)]
    return Section("models", SECTIONS["models"], _meaning(case, comparison), tuple(blocks))


def _meaning(case: RowCase, comparison: Comparison) -> str:
    """The first two models; at the floor where one of them is infinite."""
    best, second = comparison.ranking()[:2]
    if np.isfinite(comparison[second].risk):
        return _placed(case, comparison)
    said = f"The {case.loss} loss of {second} is infinite."
    if not np.isfinite(comparison[best].risk):
        said = f"The {case.loss} loss of every model is infinite: they cannot be compared by it."
    floored = comparison.floored
    return said if floored is None else f"{said} {marked(_placed(case, floored), _mark(floored))}"


def _mark(comparison: Comparison) -> str:
    return next(iter(comparison.decompositions.values()))._mark


def _placed(case: RowCase, comparison: Comparison) -> str:
    best, second = comparison.ranking()[:2]
    gap = comparison.difference(second, best)
    reach = gap_interval(gap, case.level)
    start = f"{best} has the smallest {case.loss} loss"
    words = f"{second} is {gap.risk:.4f} behind ({span(*reach, 4)})"
    shown = "a difference that these rows show" if reach[0] > 0 else "a difference that these rows do not show"
    return f"{start}; {words}, {shown}."


def gap_interval(gap: Any, level: float) -> tuple[float, float]:
    """Interval of the difference of two losses."""
    from scoreprism._kernels.term_intervals import quantile

    reach = quantile(level, two_sided=True) * gap.risk_std_error
    return float(gap.risk - reach), float(gap.risk + reach)


def _ranking(case: RowCase, comparison: Comparison) -> Table:
    rows: list[tuple[Any, ...]] = []
    for name in comparison.ranking():
        result = comparison[name]
        rows.append((name, result.risk, *(told_cell(result, term, case.level) for term in comparison.names)))
    columns = [
        ("model", "model", "text"),
        ("loss", f"{case.loss} loss", "number"),
        *((t, t, "number") for t in comparison.names),
    ]
    mark = _mark(comparison)
    key, title = (
        ("ranking-floored", f"Models, smallest loss first, {mark}")
        if mark
        else ("ranking", "Models, smallest loss first")
    )
    return table(key, title, columns, rows)


def _differences(case: RowCase, comparison: Comparison) -> Table:
    order = comparison.ranking()
    pairs = list(combinations(order, 2)) if len(order) <= _ALL_PAIRS else [(order[0], other) for other in order[1:]]
    rows: list[tuple[Any, ...]] = []
    for better, worse in pairs:
        gap = comparison.difference(worse, better)
        words = f"{worse} − {better}"
        rows.append((words, "loss", gap.risk, ends(*gap_interval(gap, case.level))))
        for term, value in gap.terms.items():
            interval = gap.interval(term, case.level) if np.isfinite(value) else None
            muted = term in (*gap.first.muted, *gap.second.muted)
            shown = None if interval is None else ends(interval.low, interval.high)
            rows.append((words, term, None if muted else value, shown))
    columns = [
        ("pair", "difference", "text"), ("term", "of", "text"), ("value", "estimate", "signed"),
        ("interval", f"{case.percent} interval", "signed"),
    ]  # fmt: skip
    note = "Paired: same rows, same folds. Intervals are of each line by itself."
    mark, title = _mark(comparison), f"Paired differences of the {case.loss} loss and its terms"
    key, title = ("differences-floored", f"{title}, {mark}") if mark else ("differences", title)
    return table(key, title, columns, rows, note)


def _plane(case: RowCase) -> Block:
    found = {name: model.decompositions[case.loss] for name, model in case.models.items()}
    if not all(np.isfinite(one.risk) for one in found.values()):  # all at the floor then, to be drawn side by side
        found = {name: one.floored or one for name, one in found.items()}
    mark = next(iter(found.values()))._mark
    forms = {name: one.resolution_form for name, one in found.items()}
    values = {term: np.array([form.terms[term] for form in forms.values()]) for term in ("reliability", "resolution")}
    risk = np.array([form.risk for form in forms.values()])
    first = next(iter(forms.values()))
    rows = [(name, form.risk, form.terms["reliability"], form.terms["resolution"]) for name, form in forms.items()]
    columns = [
        ("model", "model", "text"), ("loss", "loss", "number"), ("reliability", "reliability", "number"),
        ("resolution", "resolution", "number"),
    ]  # fmt: skip
    note = marked(f"Loss = uncertainty {first.terms['uncertainty']:.5f} − resolution + reliability.", mark)
    data = table("plane-data", "Reliability and resolution", columns, rows, note)
    if not np.isfinite(risk).all():
        return data
    plane = ResolutionPlane(
        name=None, n=first.n, _backend=None, models=tuple(forms), miscalibration=values["reliability"],
        discrimination=values["resolution"], risk=risk, uncertainty=first.terms["uncertainty"], method="crossfit",
        loss=case.losses[case.loss],
    )  # fmt: skip

    def draw(ax: Any) -> None:
        ResolutionPlaneDisplay([plane]).plot(ax)

    described = (
        "Each model by what it tells apart (resolution) and by its miscalibration (reliability); models "
        "on one line have equal losses."
    )
    title = f"Resolution plane, {mark}" if mark else "Resolution plane"
    return figure("plane", title, marked(described, mark), draw, data, size=(4.5, 3.7))
