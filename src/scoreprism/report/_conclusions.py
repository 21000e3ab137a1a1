"""What a report advises, from bounds and from tests: one sentence for the whole, a few for each model, warnings."""

from __future__ import annotations

import math

from scoreprism._document.tables import marked
from scoreprism.decomposition import Decomposition
from scoreprism.decomposition._advice import INFINITE, advise, amount, widest
from scoreprism.report._evidence import alpha_of
from scoreprism.report._pieces import digits, enumerated, pvalue
from scoreprism.report._subject import AnyCase, Subject

#: Fewer rows, or fewer outcomes of the rarer class, than these deserve a warning.
FEW_ROWS, FEW_OUTCOMES = 200, 20

#: What removes each term, and what to do about it, in a few words.
_REMEDIES = {"reliability": "recalibration", "grouping": "a better model of the same features"}
_STEPS = {"reliability": "recalibrate", "grouping": "improve the model"}


def shown_gains(case: AnyCase, model: Subject) -> dict[str, float]:
    """The terms that are shown to be above 0, with their lower bounds; laws that are in doubt show nothing."""
    result = model.basis(case.loss)
    doubted = {level for level, _ in result._doubts}
    if 0 in doubted or not math.isfinite(result.risk):
        return {}
    found = {}
    for i, term in enumerate(result.names[: result._levels - 1]):
        if term == "heterogeneity":  # which nothing known here removes
            continue
        least = -1.0 if {i, i + 1} & doubted else result.lower_bound(term, case.level).value
        if least > 0.0:
            found[term] = least
    return found


def only_tested(case: AnyCase, model: Subject) -> bool:
    """Whether the test shows miscalibration whose size the decomposition leaves open."""
    result = model.basis(case.loss)
    if not math.isfinite(result.risk) or any(level <= 1 for level, _ in result._doubts):
        return False
    return model.refuted and result.lower_bound("reliability", case.level).value <= 0.0


def only_group_tested(case: AnyCase, model: Subject) -> bool:
    """Whether a test shows that features know more than the score, and the bound of the term leaves open how much."""
    result = model.basis(case.loss)
    if model.grouping is None or not math.isfinite(result.risk) or result._doubts:
        return False
    return (
        model.grouping.pvalue <= alpha_of(case.level) and result.lower_bound(result.names[1], case.level).value <= 0.0
    )


def advised(case: AnyCase, model: Subject) -> tuple[list[str], list[str]]:
    """What to do, and what is not known; of an infinite loss that first, and the rest at the floor."""
    result = model.basis(case.loss)
    said = advise(result, case.level, model.calibration.pvalue)
    lines = [line.replace(f"{result._telling} to", f"{case.telling} to") for line in said]
    gains = shown_gains(case, model)
    if only_tested(case, model):
        lines = [line for line in lines if not line.startswith("Nothing can be concluded")]
    if only_group_tested(case, model) and model.grouping is not None:
        known = (
            f"The features know more than the score ({pvalue(model.grouping.pvalue)}): what a better "
            "model gains is not settled."
        )
        lines = [known if line.startswith("No loss of information") else line for line in lines]
        lines = [line for line in lines if not line.startswith("Nothing can be concluded")]
    if gains:
        rest = "How much of the rest only richer features or better data could remove, no data can say."

        lines = [
            rest if line.startswith("A loss of ") else line for line in lines if not line.startswith("That a lower")
        ]
    lines = [line if line == INFINITE else marked(line, result._mark) for line in lines]
    if result._mark and math.isinf(model.decompositions[case.loss].risk):
        lines.insert(0, INFINITE)
    actions = [line for line in lines if line.startswith(_ASKS) or "gains at least" in line]
    return actions, [line for line in lines if line not in actions]


#: Beginnings of advice that asks for something.
_ASKS = ("Recalibrate", "Do not act", "The loss is infinite", "The features know more", "The scores are not calibrated")


def next_step(case: AnyCase, model: Subject) -> str:
    """What to do next, in a few words; an infinite loss comes first, the rest is what the floor shows."""
    if math.isinf(model.decompositions[case.loss].risk):
        rest = "" if math.isinf(model.basis(case.loss).risk) else _step(case, model)
        return f"keep scores off 0 and 1{f', then {rest}' if rest else ''}"
    return _step(case, model) or "nothing is shown"


def _step(case: AnyCase, model: Subject) -> str:
    """The next step on a finite loss; empty where nothing is shown."""
    result = model.basis(case.loss)
    if any(level == 0 for level, _ in result._doubts):
        return "use unseen rows"
    steps = [_STEPS.get(term, f"use {term}") for term in shown_gains(case, model)]
    if only_tested(case, model):
        steps.insert(0, "judge recalibration on fresh rows")
    if only_group_tested(case, model):
        steps.append(_STEPS["grouping"])
    return " and ".join(steps)


def headline(case: AnyCase) -> str:
    """The verdict in a sentence or two, from bounds and tests alone."""
    return _of_one(case, case.first) if len(case.models) == 1 else _of_several(case)


def _of_one(case: AnyCase, model: Subject) -> str:
    """Of an infinite loss that first, and what can be said at the floor."""
    first, result = model.decompositions[case.loss], model.basis(case.loss)
    if math.isfinite(first.risk):
        return _of_finite(case, model)
    said = f"The {first.loss} loss of {model.name} is infinite: it gave probability 0 to something that happened."
    if not result._mark:
        return said
    return f"{said} {_of_finite(case, model, f'{result._mark[0].upper()}{result._mark[1:]}: ')}"


def _of_finite(case: AnyCase, model: Subject, lead: str = "") -> str:
    """What is shown of a finite loss; after a lead the sentence goes on with a small letter."""
    result = model.basis(case.loss)
    what = f"the {result.loss} loss of {model.name}"

    def begin(word: str) -> str:
        return f"{lead}{word.lower()}" if lead else word

    if any(level == 0 for level, _ in result._doubts):
        return f"{begin('Nothing')} can be concluded on {model.name}: it was judged on rows that it has seen before."
    gains = shown_gains(case, model)
    if only_tested(case, model):
        first = (
            f"{lead}{model.name} is not calibrated ({pvalue(model.calibration.pvalue)}), but that recalibration lowers "
            f"its {result.loss} loss, {digits(result.risk)}, is not shown: it removes between 0 and "
            f"{widest(result, case.level)}"
        )
        return f"{first}{_and_more(gains, result)} ({case.percent} confidence)."
    if not gains and only_group_tested(case, model) and model.grouping is not None:
        test = pvalue(model.grouping.pvalue)
        return (
            f"{begin('The')} features know more than {model.name} uses ({test}); how much of {what}, "
            f"{digits(result.risk)}, a better model removes is not settled."
        )
    if not gains:
        remedies = " or ".join(_REMEDIES.get(term, term) for term in result.names[: result._levels - 1])
        where = f"on these {result.n_units:,} {'clusters' if model.clustered else 'rows'}"
        return f"{begin('No')} part of {what}, {digits(result.risk)}, is shown to be removable by {remedies} {where}."
    parts = [f"{_REMEDIES.get(term, term)} removes at least {amount(g, result.risk)}" for term, g in gains.items()]
    return f"{begin('Of')} {what}, {digits(result.risk)}, {enumerated(parts)}, at {case.percent} confidence."


def _and_more(gains: dict[str, float], result: Decomposition) -> str:
    parts = [f"{_REMEDIES.get(term, term)} at least {amount(g, result.risk)}" for term, g in gains.items()]
    return f"; {enumerated(parts)}" if parts else ""


def _of_several(case: AnyCase) -> str:
    """Which model has the smallest loss, which others may be as good, and which to recalibrate."""
    order = ranked(case)
    best = order[0]
    result = best.basis(case.loss)
    never = ""
    if not math.isfinite(best.decompositions[case.loss].risk):
        why = "each gave probability 0 to something that happened"
        never = f"The {result.loss} loss of every model is infinite: {why}."
    if not math.isfinite(result.risk):
        return never
    seen = [model.name for model in order if any(level == 0 for level, _ in model.decompositions[case.loss]._doubts)]
    if seen:
        return f"{never} Nothing can be concluded: {enumerated(seen)} saw these rows before.".strip()
    endless = [other for other in order[1:] if math.isinf(other.decompositions[case.loss].risk) and not never]
    finite = [other for other in order[1:] if other not in endless]
    alike = [other.name for other in finite if case.paired and not behind(case, best, other)[0] > 0.0]
    worse = f", and {enumerated(alike)} {'is' if len(alike) == 1 else 'are'} not shown to be worse" if alike else ""
    smallest = f"{best.name} has the smallest {result.loss} loss, {digits(result.risk)}{worse}."
    sentence = f"{never} {marked(smallest, result._mark)}".strip()
    sentence += f" {_infinite(case, endless)}" if endless else ""
    wrong = [model for model in order if "recalibrate" in next_step(case, model)]
    plain = [model.name for model in wrong if not model.basis(case.loss)._mark]
    floored = [model.name for model in wrong if model.basis(case.loss)._mark]
    parts = [enumerated(plain)] if plain else []
    parts += [f"{enumerated(floored)} ({wrong[-1].basis(case.loss)._mark})"] if floored else []  # those come last
    sentence += f" Recalibrate {', and '.join(parts)}." if parts else ""
    tested = [model.name for model in order if only_tested(case, model)]
    if not tested:
        return sentence
    are = "is" if len(tested) == 1 else "are"
    return f"{sentence} {enumerated(tested)} {are} not calibrated, but that recalibration gains anything is not shown."


def _infinite(case: AnyCase, models: list[Subject]) -> str:
    """Models whose loss is infinite, with what it is at the floor."""
    twins = [model.basis(case.loss) for model in models]
    known = ", ".join(digits(twin.risk) for twin in twins if twin._mark)
    said = f"That of {enumerated([model.name for model in models])} is infinite"
    return f"{said} ({known} {twins[0]._mark})." if known else f"{said}."


def ranked(case: AnyCase) -> list[Subject]:
    """The models, smallest loss first; those that are infinite last, in the order they have at the floor."""

    def size(model: Subject) -> tuple[float, float]:
        return model.decompositions[case.loss].risk, model.basis(case.loss).risk

    return sorted(case.models.values(), key=size)


def behind(case: AnyCase, best: Subject, other: Subject, *, floored: bool = False) -> tuple[float, float]:
    """Interval of the difference of two losses, paired; of both at the floor, where one is infinite or `floored`."""
    from scoreprism._kernels.term_intervals import quantile

    gap = other.decompositions[case.loss].minus(best.decompositions[case.loss])
    if (floored or not math.isfinite(gap.risk)) and gap.floored is not None:
        gap = gap.floored
    reach = quantile(case.level, two_sided=True) * gap.risk_std_error
    return float(gap.risk - reach), float(gap.risk + reach)


def warned(case: AnyCase) -> list[str]:
    """Everything a reader must beware of."""
    said = [_small(case.first), _CLUSTERS if case.first.clustered else "", *case.warnings]
    for one in case.models.values():
        prefix = f"{one.name}: " if len(case.models) > 1 else ""
        doubts = [text for result in one.decompositions.values() for _, text in result._doubts]
        few = [note for result in one.decompositions.values() for note in result.notes if "too optimistic" in note]
        infinite = [_impossible(one, loss) for loss, result in one.decompositions.items() if math.isinf(result.risk)]
        ours = [text for text in one.warnings if not (infinite and "infinite" in text)]
        said += [f"{prefix}{text[:1].upper()}{text[1:]}" for text in (*infinite, *ours, *doubts, *few)]
    return [text for text in dict.fromkeys(said) if text]


def _impossible(model: Subject, loss: str) -> str:
    """Rows that make a loss infinite; and what the terms beside it are."""
    places, twin = model.infinite_places(loss), model.basis(loss)
    rows = model.infinite_rows(loss)
    said = f"{rows:,} {'row has' if rows == 1 else 'rows have'} an infinite {loss} loss: the score gave probability 0 "
    said += f"to what happened{f' ({places})' if places else ''}."
    if not twin._mark:
        return said
    return f"{said} Terms beside it are shown {twin._mark}, which moves {twin._moved:,} of {twin.n:,} rows."


#: What clusters do to numbers that are computed row by row.
_CLUSTERS = (
    "Rows come in clusters: terms, their bounds and tests allow for it; intervals of summaries, grades, bands and net "
    "benefit take rows as independent, and are too narrow."
)


def _small(model: Subject) -> str:
    counts = model.outcomes
    n, rarest = int(counts.sum()), int(counts.min())
    if n < FEW_ROWS or rarest < FEW_OUTCOMES:
        label = model.labels[int(counts.argmin())]
        return f"Few data: {n} rows, {rarest} of class {label!r}. Intervals are wide, and rough for what they are."
    return ""
