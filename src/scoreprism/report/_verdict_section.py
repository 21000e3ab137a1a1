"""Section 1: what the loss is made of, what to do next, how sure that is, and what may be wrong."""

from __future__ import annotations

import math
from typing import Any

from scoreprism._document.tables import marked
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._advice import meaning
from scoreprism.displays._decomposition_bars import DecompositionDisplay, known_of
from scoreprism.report._conclusions import advised, behind, next_step, ranked, warned
from scoreprism.report._model import Block, Notice, Section, Table, show
from scoreprism.report._pieces import digits, ends, enumerated, figure, pvalue, table
from scoreprism.report._report import SECTIONS
from scoreprism.report._subject import AnyCase, Subject
from scoreprism.report._tables import beside, told_cell

#: What the terms are.
DEFINITIONS = {
    "reliability": "miscalibration: what is lost because predictions differ from the rates that follow them",
    "grouping": "information in the features that the score does not use: cases of equal scores with different chances",
    "irreducible": "uncertainty that is left when everything in the features is used",
    "refinement": "what is left after recalibration: information that is not used, and chance",
    "heterogeneity": "latent states that no feature tells apart",
    "noise": "chance itself",
}


def verdict(case: AnyCase) -> Section:
    """The first section."""
    several = len(case.models) > 1
    blocks: list[Block] = _several_advised(case) if several else _advised(case, case.first)
    blocks += [Notice("warning", text) for text in warned(case) if not _said(text, blocks)]
    if several:
        blocks.append(glance_table(case))
    picture = _bars(case) if several else _waterfall(case, case.first)
    blocks += [*([picture] if picture is not None else []), terms_table(case), _glossary(case)]
    blocks.append(Notice("note", _how_sure(case, case.first)))
    said = _compared(case) if several else _shares(case, case.first)
    return Section("verdict", SECTIONS["verdict"], said, tuple(blocks))


def _said(text: str, blocks: list[Block]) -> bool:
    """Whether a notice says so already."""
    return any(isinstance(block, Notice) and text.lower() in block.text.lower() for block in blocks)


def _advised(case: AnyCase, model: Subject) -> list[Block]:
    actions, notes = advised(case, model)
    return [*(Notice("action", line) for line in actions), *(Notice("note", line) for line in notes)]


def _several_advised(case: AnyCase) -> list[Block]:
    """Of several models only what asks for something."""
    return [
        Notice("action", _named(model.name, line)) for model in case.models.values() for line in advised(case, model)[0]
    ]


def _named(name: str, line: str) -> str:
    """Advice with the name of its model."""
    return (
        f"Recalibrate {name}{line[11:]}" if line.startswith("Recalibrate") else f"{name}: {line[0].lower()}{line[1:]}"
    )


def _shares(case: AnyCase, model: Subject) -> str:
    """The estimates, in a sentence."""
    result = model.basis(case.loss)
    if not math.isfinite(result.risk) or result.risk <= 0.0:
        return f"The {result.loss} loss of {model.name} is {show(result.risk, 'short')}: it has no shares."
    told = {term: value for term, value in result.terms.items() if term not in result.muted}
    parts = [f"{term} {show(value / result.risk, 'share')}" for term, value in told.items()]
    rest = show(sum(result.terms[term] for term in result.muted) / result.risk, "share")
    apart = f"; {enumerated(result.muted)}, {rest} together, cannot be told apart" if result.muted else ""
    said = f"Estimated parts of the {result.loss} loss of {model.name}, {digits(result.risk)}: "
    said += f"{enumerated(parts)}{apart}."
    return marked(said, result._mark)


def _compared(case: AnyCase) -> str:
    """What tests say of the models."""
    wrong = [model.name for model in case.models.values() if model.miscalibrated]
    count = len(case.models)
    if not wrong:
        return f"None of the {count} models is shown to be miscalibrated."
    if len(wrong) == count:
        return f"{'Both' if count == 2 else f'All {count}'} models are shown to be miscalibrated."
    names = f": {enumerated(wrong)}"
    are = "is" if len(wrong) == 1 else "are"
    return f"{len(wrong)} of the {count} models {are} shown to be miscalibrated{names}."


def glance_table(case: AnyCase) -> Table:
    """All models in one line each, smallest loss first."""
    order = ranked(case)
    mark = next((model.basis(case.loss)._mark for model in order if model.basis(case.loss)._mark), "")
    rows: list[tuple[Any, ...]] = []
    for model in order:
        found = model.decompositions[case.loss]
        floored = None if found.floored is None else found.floored.risk
        known = case.paired and model is not order[0] and math.isfinite(model.basis(case.loss).risk)
        gap = ends(*behind(case, order[0], model, floored=bool(mark))) if known else None
        rows.append((model.name, next_step(case, model), found.risk, floored, gap, model.calibration.pvalue))
    columns = [
        ("model", "model", "text"), ("next", "next step", "text"), ("loss", f"{case.loss} loss", "loss"),
        ("floored", mark, "loss"), ("behind", f"behind the best ({case.percent})", "signed"),
        ("pvalue", "calibrated? p", "pvalue"),
    ]  # fmt: skip
    left_out = {"" if mark else "floored", "" if case.paired else "behind"}
    keep = [i for i, column in enumerate(columns) if column[0] not in left_out]
    columns, rows = [columns[i] for i in keep], [tuple(row[i] for i in keep) for row in rows]
    note = "" if case.paired else "Sums do not tell whether losses differ by more than chance: compare on rows."
    if mark:
        how = ", and all differences," if case.paired else ""
        note = f"Next steps of a model whose loss is infinite{how} are {mark}. {note}".strip()
    return table("glance", f"All models at a glance ({case.loss} loss)", columns, rows, note)


def terms_table(case: AnyCase) -> Table:
    """The terms of all models and losses."""
    rows: list[tuple[Any, ...]] = []
    for model in case.models.values():
        for name, found in model.decompositions.items():
            for loss, result in beside(name, found).items():
                known = [known_cell(result, term, case.level) for term in result.names]
                rows.append((model.name, loss, result.risk, *known))
    names = case.first.decompositions[case.loss].names
    columns = [
        ("model", "model", "text"), ("loss", "loss", "text"), ("value", "value", "loss"),
        *((term, term, "loss") for term in names),
    ]  # fmt: skip
    note = (
        f"In brackets what is known at {case.percent}: an interval, or the bound that data can give. "
        "Estimates add up to the loss, and may "
        "fall below 0 by chance."
    )
    muted = dict.fromkeys(term for term in names for result in _shown(case) if term in result.muted)
    if muted:
        note += f" Where {' or '.join(muted)} has a bound and no estimate, the estimate would be mostly noise."
    return table("terms", "What the loss is made of", columns, rows, note)


def _shown(case: AnyCase) -> list[Decomposition]:
    """Everything that the table of terms shows."""
    found = [pair for model in case.models.values() for pair in model.decompositions.items()]
    return [result for name, one in found for result in beside(name, one).values()]


def known_cell(result: Decomposition, term: str, level: float) -> Any:
    """An estimate with what is known of it."""
    value = result.terms[term]
    if not math.isfinite(value):
        return value
    return told_cell(result, term, level) if term in result.muted else ends(*known_of(result, term, level), value)


def _glossary(case: AnyCase) -> Table:
    names = case.first.decompositions[case.loss].names
    columns = [("term", "term", "text"), ("what", "what it is", "text"), ("by", "what reduces it", "text")]
    rows = [(name, DEFINITIONS.get(name, f"what is gained from {name}"), meaning(name)) for name in names]
    return table("meaning", "What the terms mean", columns, rows)


def _waterfall(case: AnyCase, model: Subject) -> Block | None:
    result = model.basis(case.loss)
    if not math.isfinite(result.risk):
        return None
    words = [f"{term} {_in_words(result, term, case.level)}" for term in result.names]
    described = f"A waterfall from the {result.loss} loss {digits(result.risk)} down: {', '.join(words)}."
    described = marked(described, result._mark)

    def draw(ax: Any) -> None:
        DecompositionDisplay(result).plot(ax, level=case.level, cut=True)

    title = f"What the {result.loss} loss of {model.name} is made of{_with(result._mark)}"
    return figure("waterfall", title, described, draw, size=(4.7, 1.3 + 0.42 * len(result.names)))


def _in_words(result: Decomposition, term: str, level: float) -> str:
    """An estimate; where it is muted, the bound that is known."""
    if term not in result.muted:
        return digits(result.terms[term])
    known = known_of(result, term, level)
    return f"at least {digits(known.low)}" if math.isfinite(known.low) else f"at most {digits(known.high)}"


def _bars(case: AnyCase) -> Block | None:
    """What can be reduced, model by model; all at the floor, where the loss of one is infinite."""
    found = {name: model.decompositions[case.loss] for name, model in case.models.items()}
    if not all(math.isfinite(result.risk) for result in found.values()):
        found = {name: result.floored or result for name, result in found.items()}
    mark = next(iter(found.values()))._mark
    if not all(math.isfinite(result.risk) for result in found.values()):
        return None
    terms = case.first.decompositions[case.loss].names[:-1]

    def draw(ax: Any) -> None:
        DecompositionDisplay(found).plot(ax, level=case.level, terms=terms)

    described = (
        f"The parts of the {case.loss} loss that can be reduced, {' and '.join(terms)}, of each model, "
        "with what is known of them."
    )
    muted = dict.fromkeys(term for term in terms if any(term in result.muted for result in found.values()))
    if muted:
        described += f" Of {enumerated(tuple(muted))} only the least it can be is drawn: an estimate would be noise."
    title, size = f"What could be removed from each loss{_with(mark)}", (4.8, 1.4 + 0.36 * len(found))
    return figure("waterfall", title, marked(described, mark), draw, size=size)


def _with(mark: str) -> str:
    return f", {mark}" if mark else ""


def _how_sure(case: AnyCase, model: Subject) -> str:
    test = model.calibration
    how = "drawing outcomes from the scores" if test.n_resamples else "a large-sample law"
    sure = f"Test of calibration of {model.name}: {pvalue(test.pvalue)} ({test.method}, by {how})."
    return (
        f"{sure} “At least” is a one-sided bound, “at most” the upper end of a two-sided interval, both at "
        f"{case.percent}; terms are corrected for the noise of what was fitted."
    )
