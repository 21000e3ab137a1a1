"""Section 1: the terms with what is known of them, what to do next, and what may be wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._advice import meaning
from scoreprism.displays._decomposition import DecompositionDisplay, known_of
from scoreprism.report._case import Case, Model
from scoreprism.report._model import Block, Notice, Section, Table, show
from scoreprism.report._pieces import amount, ends, enumerated, figure, pvalue, table
from scoreprism.report._report import SECTIONS

#: Fewer rows, or fewer outcomes of the rarer class, than these deserve a warning.
FEW_ROWS, FEW_OUTCOMES = 200, 20

_COLUMNS = [
    ("model", "model", "text"),
    ("loss", "loss", "text"),
    ("term", "term", "text"),
    ("estimate", "estimate", "number"),
    ("known", "known", "number"),
    ("share", "share", "share"),
]


def verdict(case: Case) -> Section:
    """
    The first section.

    Parameters
    ----------
    case : Case
        The material.

    Returns
    -------
    Section
        What the loss is made of, and what to do.
    """
    model, blocks = case.first, list[Block]()
    result = model.decompositions[case.loss]
    several = len(case.models) > 1
    blocks += [Notice("action" if _asks(line) else "note", line) for line in advised(case, model)]
    blocks += [Notice("warning", text) for text in warned(case)]
    blocks.append(_waterfall(case, model, result))
    if several:
        blocks.append(glance_table(case))
    blocks.append(terms_table(case))
    blocks.append(Notice("note", _how_sure(case, model)))
    return Section("verdict", SECTIONS["verdict"], _shares(result, model), tuple(blocks))


def _shares(result: Decomposition, model: Model) -> str:
    """The estimates, in a sentence."""
    if not math.isfinite(result.risk) or result.risk <= 0.0:
        return (
            f"The {result.loss} loss of {model.name} is {show(result.risk, 'short')}, which no share can be given of."
        )
    parts = [f"{term} {show(value / result.risk, 'share')}" for term, value in result.terms.items()]
    return (
        f"Of the {result.loss} loss of {model.name}, {result.risk:.4f}, these shares are estimated: "
        f"{enumerated(parts)}."
    )


def _asks(advice: str) -> bool:
    """Whether advice asks for something to be done, or only says what is not known."""
    return advice.startswith(("Recalibrate", "Do not act")) or "gains at least" in advice or "Recalibrate" in advice


def advised(case: Case, model: Model) -> list[str]:
    """
    What to do, from bounds and from the test of calibration, which sees more than the bound of its size.

    Parameters
    ----------
    case : Case
        The material.
    model : Model
        One of its models.

    Returns
    -------
    list of str
        Sentences.
    """
    result = model.decompositions[case.loss]
    lines = [line.replace("pass X to", "give features to") for line in result.summary(case.level).advice]
    if not _only_tested(case, model):
        return lines
    most = amount(result.interval("reliability", case.level).high, result.risk)
    found = (
        f"{model.name} is miscalibrated ({pvalue(model.calibration.pvalue)}); what recalibration gains, "
        f"at most {most}, is not settled."
    )
    kept = [line for line in lines if not line.startswith(("Nothing can be concluded", "No miscalibration is shown"))]
    return [f"{found} Recalibrate, and judge it on fresh rows.", *kept]


def _only_tested(case: Case, model: Model) -> bool:
    """Whether the test shows miscalibration whose size the decomposition leaves open."""
    result = model.decompositions[case.loss]
    if not math.isfinite(result.risk) or any(level <= 1 for level, _ in result._doubts):
        return False
    return model.calibration.pvalue < 1.0 - case.level and result.lower_bound("reliability", case.level).value <= 0.0


def glance_table(case: Case) -> Table:
    """
    All models in one line each.

    Parameters
    ----------
    case : Case
        The material.

    Returns
    -------
    Table
        Loss, terms with what is known of them, test of calibration, next step.
    """
    rows = []
    for model in case.models.values():
        result = model.decompositions[case.loss]
        cells = [_known(result, term, case.level, with_estimate=True) for term in result.names[:-1]]
        rows.append((model.name, result.risk, *cells, model.calibration.pvalue, next_step(case, model)))
    terms = case.first.decompositions[case.loss].names[:-1]
    columns = [
        ("model", "model", "text"), ("loss", f"{case.loss} loss", "number"),
        *((term, term, "short") for term in terms),
        ("pvalue", "p (calibrated)", "pvalue"), ("next", "next step", "text"),
    ]  # fmt: skip
    return table(
        "glance",
        f"All models at a glance ({case.loss} loss)",
        columns,
        rows,
        f"In brackets what is known at {case.percent}.",
    )


def next_step(case: Case, model: Model) -> str:
    """
    What to do next, in a few words.

    Parameters
    ----------
    case : Case
        The material.
    model : Model
        One of its models.

    Returns
    -------
    str
        For example "recalibrate".
    """
    result = model.decompositions[case.loss]
    if not math.isfinite(result.risk):
        return "keep scores away from 0 and 1"
    doubted = {level for level, _ in result._doubts}
    if 0 in doubted:
        return "judge it on rows it has not seen"
    shown = [
        term
        for i, term in enumerate(result.names[: result._levels - 1])
        if not {i, i + 1} & doubted and result.lower_bound(term, case.level).value > 0.0
    ]
    steps = [_STEPS.get(term, f"use {term}") for term in shown]
    if not shown and _only_tested(case, model):
        steps = ["recalibrate"]
    return " and ".join(steps) or "nothing is shown yet"


#: What each term asks for.
_STEPS = {"reliability": "recalibrate", "grouping": "improve the model"}


def headline(case: Case) -> str:
    """
    The verdict on the first model in one sentence, from bounds alone.

    Parameters
    ----------
    case : Case
        The material.

    Returns
    -------
    str
        The sentence.
    """
    result, name = case.first.decompositions[case.loss], case.first.name
    what = f"the {result.loss} loss of {name}"
    if not math.isfinite(result.risk):
        return f"The {result.loss} loss of {name} is infinite: it gave probability 0 to something that happened."
    if any(level == 0 for level, _ in result._doubts):
        return f"Nothing can be concluded on {name}: it was judged on rows that it has seen before."
    if _only_tested(case, case.first):
        most = amount(result.interval("reliability", case.level).high, result.risk)
        test = pvalue(case.first.calibration.pvalue)
        return (
            f"{name} is miscalibrated ({test}); recalibration removes at most {most} of its {result.loss} "
            f"loss, {result.risk:.3f}."
        )
    doubted = {level for level, _ in result._doubts}
    gains = []
    for i, term in enumerate(result.names[: result._levels - 1]):
        least = -1.0 if {i, i + 1} & doubted else result.lower_bound(term, case.level).value
        if least > 0.0:
            gains.append((_remedy(term), least))
    if not gains:
        remedies = [_remedy(term) for term in result.names[: result._levels - 1]]
        where = f"on these {result.n_units:,} rows"
        return f"No part of {what}, {result.risk:.3f}, is shown to be removable by {_either(remedies)} {where}."
    parts = [f"{remedy} removes at least {amount(least, result.risk)}" for remedy, least in gains]
    sentence = f"Of {what}, {result.risk:.3f}, {enumerated(parts)}"
    return f"{sentence}, at {case.percent} confidence."


def _remedy(term: str) -> str:
    known = {"reliability": "recalibration", "grouping": "a better model of the same features"}
    return known.get(term, f"what {term!r} stands for")


def _either(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def terms_table(case: Case) -> Table:
    """
    The terms of all models and losses.

    Parameters
    ----------
    case : Case
        The material.

    Returns
    -------
    Table
        One row per model, loss and term.
    """
    rows = [row for model in case.models.values() for row in _rows(case, model)]
    note = f"Known at {case.percent} confidence: an interval, or the bound that data can give."
    return table("terms", "What the loss is made of", _COLUMNS, rows, note)


def _rows(case: Case, model: Model) -> list[tuple[Any, ...]]:
    rows = []
    for name, result in model.decompositions.items():
        finite = math.isfinite(result.risk) and result.risk != 0.0
        for term, value in result.terms.items():
            share = value / result.risk if finite else math.nan
            rows.append((model.name, name, term, value, _known(result, term, case.level), share))
    return rows


def _known(result: Decomposition, term: str, level: float, *, with_estimate: bool = False) -> Any:
    value = result.terms[term]
    if not math.isfinite(value):
        return None
    return ends(*known_of(result, term, level), value if with_estimate else None)


def _waterfall(case: Case, model: Model, result: Decomposition) -> Block:
    data = table(
        "waterfall-data",
        f"Terms of the {result.loss} loss of {model.name}",
        [*(column for column in _COLUMNS if column[0] not in ("model", "loss")), ("by", "what reduces it", "text")],
        [(*row[2:], meaning(row[2])) for row in _rows(case, model) if row[1] == case.loss],
        f"{result.loss.formula(result.n_classes)}; the terms add up to the observed loss, {result.risk:.5f}.",
    )
    if not math.isfinite(result.risk):
        return data
    words = [f"{term} {value:.4f}" for term, value in result.terms.items()]
    described = f"A waterfall from the {result.loss} loss {result.risk:.4f} down: {', '.join(words)}."

    def draw(ax: Any) -> None:
        DecompositionDisplay(result).plot(ax, level=case.level, cut=True)

    height = 1.3 + 0.42 * len(result.names)
    return figure(
        "waterfall",
        f"What the {result.loss} loss of {model.name} is made of",
        described,
        draw,
        data,
        size=(4.7, height),
    )


def warned(case: Case) -> list[str]:
    """
    Everything a reader must beware of.

    Parameters
    ----------
    case : Case
        The material.

    Returns
    -------
    list of str
        Each once.
    """
    said = [_small(case.first), *case.warnings]
    for one in case.models.values():
        prefix = f"{one.name}: " if len(case.models) > 1 else ""
        doubts = [text for result in one.decompositions.values() for _, text in result._doubts]
        few = [note for result in one.decompositions.values() for note in result.notes if "too optimistic" in note]
        infinite = [
            f"{_infinite_rows(one, loss)} rows have an infinite {loss} loss: the score gave "
            "probability 0 to what happened"
            for loss, result in one.decompositions.items()
            if math.isinf(result.risk)
        ]
        said += [f"{prefix}{text}" for text in (*infinite, *one.warnings, *doubts, *few)]
    return [text for text in dict.fromkeys(said) if text]


def _infinite_rows(model: Model, loss: str) -> int:
    rows = model.decompositions[loss].level_losses[:, 0]
    return int(np.isinf(rows).sum())


def _small(model: Model) -> str:
    counts = np.bincount(model.y if model.weight is None else model.y[model.weight > 0], minlength=model.k)
    n, rarest = int(counts.sum()), int(counts.min())
    if n < FEW_ROWS or rarest < FEW_OUTCOMES:
        label = model.labels[int(counts.argmin())]
        return f"Few data: {n} rows, {rarest} of class {label!r}. Intervals are wide, and rough for what they are."
    return ""


def _how_sure(case: Case, model: Model) -> str:
    test = model.calibration
    how = "drawing outcomes from the scores" if test.n_resamples else "a large-sample law"
    sure = f"Test of calibration of {model.name}: {pvalue(test.pvalue)} ({test.method}, by {how})."
    return (
        f"{sure} Intervals and bounds hold at {case.percent}; terms are corrected for the noise of fitted "
        "laws and add up to the observed loss."
    )
