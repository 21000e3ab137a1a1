"""Section 1: what to do, what the loss is made of, and what to be careful about."""

from __future__ import annotations

import math
from typing import Any

from scoreprism._document.model import Block, Callout, Figure, Paragraph, Range, Section, Table, make_table
from scoreprism._findings.finding import Finding
from scoreprism._findings.sentences import DEFINITIONS, explain_term, say_step
from scoreprism._findings.wording import enumerate_words, plural, write_amount, write_percent, write_pvalue, write_share
from scoreprism.decomposition import Decomposition
from scoreprism.displays import DecompositionDisplay
from scoreprism.report._judgement import find_cautions, find_gap, rank_models
from scoreprism.report._metric_tables import tabulate_metrics
from scoreprism.report._pieces import draw_with, figure, find_mark, known_cell, write_title
from scoreprism.report._report import SECTIONS, add_floored
from scoreprism.report._subject import SCORES, Case, Subject


def make_verdict(case: Case) -> Section:
    """The first section."""
    several = len(case.models) > 1
    blocks: list[Block] = [Paragraph(_describe_data(case.first))]
    blocks += [Callout(one) for one in _find_actions(case)]
    blocks += [Callout(one) for one in find_cautions(case)]
    blocks += [_tabulate_models(case)] if several else []
    blocks += [one for one in (_make_bars(case) if several else _make_waterfall(case),) if one is not None]
    blocks += [] if case.binary or not case.has_rows else [_tabulate_scores(case)]
    blocks += [_tabulate_terms(case), _tabulate_meanings(case), Paragraph(_explain_confidence(case))]
    return Section("verdict", SECTIONS["verdict"], (), tuple(blocks))


def _find_actions(case: Case) -> list[Finding]:
    """What to do about each model; of one model also what is known."""
    if len(case.models) == 1:
        return list(case.conclusions[case.first.name])
    found = ((name, one) for name, findings in case.conclusions.items() for one in findings)
    kinds = ("not_material", "recalibrate_size_open", "information_size_open", "floored", "term_doubtful")
    return [one.about(name) for name, one in found if one.severity == "action" or one.kind in kinds]


def _describe_data(model: Subject) -> str:
    """How many rows there are, and how many events."""
    counts = model.outcomes
    rows = plural(int(counts.sum()), "row")
    if model.k > 2:
        return f"{rows}, {model.k} classes."
    return f"{rows}, {plural(int(counts[1]), 'event')} ({write_share(counts[1] / counts.sum())})."


def _tabulate_models(case: Case) -> Table:
    """All models in one line each, smallest loss first."""
    order, mark = rank_models(case), case.mark
    rows: list[tuple[Any, ...]] = []
    for model in order:
        found = model.decompositions[case.loss]
        floored = None if found.floored is None else found.floored.risk
        known = case.has_rows and model is not order[0] and math.isfinite(model.basis(case.loss).risk)
        gap = Range(*find_gap(case, order[0], model, floored=bool(mark))) if known else None
        step = say_step(case.conclusions[model.name])
        rows.append((model.name, step, found.risk, floored, gap, case.pvalues["calibration"][model.name]))
    columns = [
        ("model", "model", "text"), ("next", "next step", "text"), ("loss", f"{case.loss} loss", "loss"),
        ("floored", mark, "loss"), ("behind", f"behind the best ({write_percent(case.level)})", "signed"),
        ("pvalue", "p of calibration (Holm)", "pvalue"),
    ]  # fmt: skip
    note = "" if case.has_rows else "Sums do not show whether losses differ significantly: compare on rows."
    if mark:
        how = ", and all differences," if case.has_rows else ""
        note = f"The next steps of a model whose loss is infinite{how} are {mark}. {note}".strip()
    return make_table("glance", f"All models at a glance ({case.loss} loss)", columns, rows, note)


def _tabulate_scores(case: Case) -> Table:
    """How good the predictions of more than two classes are."""
    found = {name: model.scores for name, model in case.models.items()}
    return tabulate_metrics("scores", "How good the predictions are", found, SCORES, "ideal: a perfect prediction.")


def _tabulate_terms(case: Case) -> Table:
    """The terms of all models and losses; of one model and one loss, a line for each term."""
    shown = [
        (case.label(model), loss, result)
        for model in case.models.values()
        for name, found in model.decompositions.items()
        for loss, result in add_floored(name, found).items()
    ]
    names = case.first.decompositions[case.loss].names
    rows = [
        (model, loss, result.risk, *(known_cell(result, term, case.level) for term in result.names))
        for model, loss, result in shown
    ]
    columns = [
        ("model", "model", "text"), ("loss", "loss", "text"), ("value", "value", "loss"),
        *((term, term, "amount") for term in names),
    ]  # fmt: skip
    note = (
        f"What is known at {write_percent(case.level)} confidence: an interval in brackets, or the bound data can give."
    )
    muted = dict.fromkeys(term for term in names for _, _, result in shown if term in result.muted)
    if muted:
        note += (
            f" Where {enumerate_words(list(muted), joint='or')} has only a bound, an estimate would be mostly noise."
        )
    return make_table("terms", "What the loss is made of", columns, rows, note)


def _tabulate_meanings(case: Case) -> Table:
    names = case.first.decompositions[case.loss].names
    columns = [("term", "term", "text"), ("what", "what it is", "text"), ("by", "what reduces it", "text")]
    rows = [(name, DEFINITIONS.get(name, f"what is gained from {name}"), explain_term(name)) for name in names]
    return make_table("meaning", "What the terms mean", columns, rows)


def _make_waterfall(case: Case) -> Figure | None:
    model = case.first
    result = model.basis(case.loss)
    if not math.isfinite(result.risk):
        return None
    words = [f"{term} {_describe_term(result, term, case.level)}" for term in result.names]
    described = f"The {result.loss} loss, {write_amount(result.risk, 4)}, is made of {enumerate_words(words)}."
    draw = draw_with(DecompositionDisplay(result), confidence_level=case.level, cut=True)
    title = write_title(f"What the {result.loss} loss of {model.called} is made of", result._mark)
    return figure("waterfall", title, described, draw, size=(4.7, 1.3 + 0.42 * len(result.names)))


def _describe_term(result: Decomposition, term: str, level: float) -> str:
    """An estimate and its share; where it is muted, the bound that is known."""
    if term not in result.muted:
        value = result.terms[term]
        if value < 0.0:
            return f"0 (estimate {write_amount(value)})"
        share = f" ({write_share(value / result.risk)})" if result.risk > 0.0 else ""
        return f"{write_amount(value)}{share}"
    known = result._known(term, level)
    return f"at least {write_amount(known.low)}" if math.isfinite(known.low) else f"at most {write_amount(known.high)}"


def _make_bars(case: Case) -> Figure | None:
    """What can be reduced, model by model."""
    found = case.side_by_side
    if not all(math.isfinite(result.risk) for result in found.values()):
        return None
    terms = case.first.decompositions[case.loss].names[:-1]
    draw = draw_with(DecompositionDisplay(found), confidence_level=case.level, terms=terms)
    described = f"The reducible parts of each loss ({' and '.join(terms)}), with what is known of them."
    muted = dict.fromkeys(term for term in terms if any(term in result.muted for result in found.values()))
    if muted:
        described += (
            f" Of {enumerate_words(list(muted))} only the lower bound is drawn: an estimate would be mostly noise."
        )
    title = write_title("What could be removed from each loss", find_mark(found))
    return figure("waterfall", title, described, draw, size=(4.8, 1.4 + 0.36 * len(found)))


def _explain_confidence(case: Case) -> str:
    test = case.first.calibration
    how = "by drawing outcomes from the scores" if test.n_resamples else "by a large-sample approximation"
    sure = f"Test of calibration: {write_pvalue(test.pvalue)} ({test.method}, {how})."
    if len(case.models) > 1:
        sure = f"P-values are adjusted for the number of models by Holm's method ({test.method}, {how})."
    return (
        f"{sure} “At least” is a one-sided bound, “at most” the upper end of a two-sided interval, both at "
        f"{write_percent(case.level)} confidence; terms are corrected for the noise of the fitted probabilities."
    )
