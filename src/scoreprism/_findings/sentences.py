"""The sentences of findings, in one table that renderers read. No code parses a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from math import isfinite, isinf
from string import Formatter
from typing import TYPE_CHECKING, Any

from scoreprism._findings.wording import (
    call_model,
    enumerate_words,
    plural,
    write_amount,
    write_count,
    write_evidence,
    write_fixed,
    write_percent,
    write_period,
    write_pvalue,
    write_share,
    write_span,
)
from scoreprism._spelling import current_spelling, spell

if TYPE_CHECKING:
    from scoreprism._findings.finding import Finding

#: Losses that differ by less than this differ by rounding alone.
_ROUNDING = 1e-12
#: What reduces each term that has a name of its own.
MEANINGS = {
    "reliability": "recalibration on held-out data",
    "grouping": "a better score: model, features used, ensembling",
    "projection": "stacking, or keeping all members instead of one number",
    "irreducible": "richer features or better data",
    "refinement": "a better score, or better data",
    "heterogeneity": "features that tell latent states apart",
    "noise": "nothing: pure chance",
    "resolution": "nothing: what the score tells apart is subtracted",
    "uncertainty": "nothing: the spread of the outcome before any score",
    "residual": "nothing: what plug-in estimates leave over",
}
#: What the terms are.
DEFINITIONS = {
    "reliability": "miscalibration: the cost of predictions that differ from observed event rates",
    "grouping": "information in the features that the score does not use: equal scores, but different chances",
    "irreducible": "uncertainty that remains when all features are used",
    "refinement": "what remains after recalibration: unused information, and chance",
    "heterogeneity": "latent states that no feature distinguishes",
    "noise": "pure chance",
}
#: What removes a term, in a sentence and as a next step.
REMEDIES = {
    "reliability": "recalibration", "grouping": "a better model of the same features",
    "projection": "keeping all members", "heterogeneity": "features that tell latent states apart",
}  # fmt: skip
#: Next steps in a few words, by kind.
STEPS: dict[str, str] = {
    "infinite_loss": "keep scores off 0 and 1",
    "do_not_act": "use rows the model has not seen",
    "recalibrate": "recalibrate",
    "recalibrate_size_open": "test recalibration on new rows",
    "information_gain": "improve the model",
    "information_size_open": "try a better model",
    "stack": "stack the members",
    "keep_members": "keep all members",
}
NO_STEP = "no action supported"


#: Cautions, doubts and origins whose sentences name their model; the others get its name in front.
_NAMES_ITS_MODEL = frozenset(
    ("trained_on_rows", "may_be_trained_on_rows", "edge_scores", "unavailable", "order_contradicted")
)
#: How names begin that are words of ours, and have a capital where they begin a sentence; names of users stay.
_OUR_NAMES = ("the ", "member ")


def say(finding: Finding) -> str:
    """The sentence of a finding, in the words of its reader: of Python, or of the command line."""
    return spell(_say(_shield(finding))).replace(_TICK, "`")


def say_all(findings: Sequence[Finding]) -> list[str]:
    """The sentences of findings; those of several models that are alike are one sentence."""
    return [say(group[0]) if len(group) == 1 else _say_together(group) for group in group_alike(findings)]


def group_alike(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Group findings of several models that one sentence can state, in the order of the first of each group."""
    groups: dict[Any, list[Finding]] = {}
    for place, one in enumerate(findings):
        alike = one.kind in TOGETHER and one.model is not None and _is_plain(one)
        groups.setdefault((one.kind, one.facts.get("loss"), one.term) if alike else place, []).append(one)
    return list(groups.values())


def _is_plain(f: Finding) -> bool:
    """Whether a sentence of several models says all of a finding: of maps, that there is none."""
    if f.kind == "map_chosen":
        return f.subject == "identity" and bool(f.facts.get("chosen"))
    return f.kind != "map_gain" or (
        bool(f.facts.get("identity")) and not (f.low or 0.0) > 0.0 and isfinite(f.facts["before"])
    )


def _say_together(group: Sequence[Finding]) -> str:
    names = [str(one.model) for one in group]
    each = [f"{one.model}{_p(one)}" for one in group]
    words = {"names": _list_names(names), "any": enumerate_words(names, 6, "or"), "each": _list_names(each),
             "any_p": enumerate_words(each, 6, "or")}  # fmt: skip
    shielded = _shield(group[0])
    return spell(_fill(TOGETHER[shielded.kind], shielded, **_shield(words))).replace(_TICK, "`")


#: What findings of several models say together: {names}, {any} of them, {each} with its p-value.
TOGETHER = {
    "calibration_refuted": "{each} are not calibrated.",
    "calibration_not_refuted": "No significant miscalibration of {any_p} was found.",
    "no_information_gain": (
        "No evidence that a better model of these features than {any} would gain anything; it is not ruled out."
    ),
    "no_feature_adds": "Taken alone, no feature adds significantly to {any} (Holm).",
    "no_region": "No region of the features was found in which {any}, once recalibrated, is off.",
    "map_gain": "No map clearly lowers the {loss} loss of {any} out of fold: leave their scores as they are.",
    "map_chosen": "Cross-validation chose no map for {any}: their scores stay as they are.",
    "segments_none": "No significant miscalibration of {any} in any of {n:segment}, adjusted for their number.",
}


#: Replaces backticks in names of users: only ours mark arguments.
_TICK = "\ue000"


def _shield(value: Any) -> Any:
    """A finding, or what it holds, with the backticks of users replaced."""
    if isinstance(value, str):
        return value.replace("`", _TICK)
    if is_dataclass(value) and not isinstance(value, type):  # a finding
        parts = {name: _shield(getattr(value, name)) for name in ("term", "model", "subject", "because", "facts")}
        return replace(value, **parts)
    if isinstance(value, Mapping):
        return {_shield(key): _shield(one) for key, one in value.items()}
    return type(value)(map(_shield, value)) if type(value) in (list, tuple) else value


def _say(finding: Finding) -> str:
    """The sentence, in which names of arguments are marked."""
    if finding.model is not None:
        finding = replace(finding, model=call_model(finding.model))
    text = _fill(SENTENCES[finding.kind], finding)
    if text.startswith(_OUR_NAMES):
        text = _start(text)
    stage = finding.facts.get("stage")
    if stage is not None and finding.kind != "lost_resolution":
        others = finding.facts.get("others", 0)
        more = f" and {plural(others, 'other')}" if others else ""
        text = f"Stage {stage:g}{more}: {text}"
    members = finding.facts.get("members", 1)
    if members > 1:
        text = f"{text} The same is true of {plural(members - 1, 'other member')}."
    aside = finding.severity in ("doubt", "caution", "provenance")
    if finding.model is not None and aside and finding.kind not in _NAMES_ITS_MODEL:
        text = f"{finding.model}: {text}"
    return text


def _fill(sentence: str | Callable[[Finding], str], finding: Finding, **words: Any) -> str:
    """The words of a sentence; an error tells the author of a finding what it lacks."""
    try:
        if not isinstance(sentence, str):
            return sentence(finding)
        return sentence.format_map({**_fields(finding), **words})
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        lacks = list(error.args) if isinstance(error, KeyError) else _find_empty(sentence, finding)
        why = f"it has no {enumerate_words(lacks, joint='and no')}" if lacks else str(error)
        raise ValueError(f"a finding of the kind {finding.kind!r} cannot be put into words: {why}") from error


def _find_empty(sentence: str | Callable[[Finding], str], finding: Finding) -> list[str]:
    """The fields that a template names and a finding leaves empty."""
    named = [name for _, name, _, _ in Formatter().parse(sentence) if name] if isinstance(sentence, str) else []
    return [name for name in dict.fromkeys(named) if getattr(finding, name, finding.facts.get(name)) is None]


def explain_term(term: str) -> str:
    """What reduces a term; a step between levels that have no name of their own is called by its ends."""
    return MEANINGS.get(term) or describe_step(term)


def describe_step(term: str) -> str:
    """What reduces a step of information, by the levels at its ends."""
    coarse, arrow, fine = term.partition(STEP)
    if not arrow:
        return ""
    return "richer features or better data" if fine == "Y" else f"using what {fine!r} adds to {coarse!r}"


#: Between the levels in the name of a term that is called by its ends.
STEP = " → "


def write_distance(distance: float) -> str:
    """How far scores are kept from 0 and 1."""
    short = float(f"{distance:.2g}")
    return f"{short:.8f}".rstrip("0") if distance >= 1e-6 else f"{short:.2g}"


def mark_floor(distance: float) -> str:
    """The note on numbers that were computed at a floor."""
    return f"with scores kept {write_distance(distance)} from 0 and 1"


class _Count(int):
    """A count in a template: in groups of three digits, or with a noun as in {n:row}."""

    def __format__(self, unit: str) -> str:
        return plural(int(self), unit) if unit else write_count(int(self))


class _Number(float):
    """A number in a template: {value:a3} has three significant digits, {value:f1} one decimal; else as usual."""

    def __format__(self, spec: str) -> str:
        if spec[:1] == "a":
            return write_amount(float(self), int(spec[1:]))
        return write_fixed(float(self), int(spec[1:])) if spec[:1] == "f" else float.__format__(self, spec)


def _fields(f: Finding) -> dict[str, Any]:
    """What templates may name: facts, and the fields of a finding ready to be shown."""
    numbers = {"value": f.value, "low": f.low, "high": f.high, "confidence_level": f.confidence_level}
    return {
        **f.facts,
        **{name: None if value is None else _Number(value) for name, value in numbers.items()},
        "n": _Count(f.n or 0),
        "were": "was" if f.n == 1 else "were",
        "gain": _part(f.low, f),
        "p": _p(f),
        "of_model": _of_model(f),
        "who": f.model or "The score",
        "score": f.model or "the score",
        "model": f.model,
        "subject": f.subject,
        "term": f.term,
    }


# ── headlines ───────────────────────────────────────────────────────────────────────────────────────


def say_headline(model: str, loss: str, risk: float, findings: Sequence[Finding], where: str) -> str:
    """The verdict on one model in a sentence or two; `where` says how many rows it rests on."""
    by_kind = {one.kind: one for one in findings}
    infinite, doubt = by_kind.get("infinite_loss"), by_kind.get("do_not_act")
    sentences = []
    if infinite is not None:
        sentences.append(f"The {loss} loss of {model} is infinite: an outcome that it gave probability 0 was observed.")
    if doubt is not None:
        sentences.append(f"No conclusion on {model}: it is judged on rows that were used to fit it.")
        return " ".join(sentences)
    floor = by_kind.get("floored")
    about = f"the {loss} loss of {model}, {write_amount(risk, 4)},"
    if infinite is not None and floor is not None:
        sentences.append(f"{_start(mark_floor(floor.facts['floor']))}, it is {write_amount(risk, 4)}.")
        about = "this"
    gains = [one for one in findings if one.kind in ("recalibrate", "information_gain")]
    if gains:
        parts = [f"{_remedy(one)} removes at least {_part(one.low, one)}" for one in gains]
        level = _level(gains[0])
        sentences.append(f"Of {about.removesuffix(',')}, {enumerate_words(parts)}, at {level} confidence.")
    open_ = [one for one in findings if one.kind in ("recalibrate_size_open", "not_material", "information_size_open")]
    fine = [one for one in findings if one.kind == "calibrated_enough"]
    if gains and any(one.kind == "recalibrate_size_open" for one in open_):
        sentences.append("It is also miscalibrated; what recalibrating gains is open.")
    else:
        sentences += [say(replace(one, model=model)) for one in (*open_, *(fine if not gains else ()))]
    if fine and not gains and not open_ and any(one.kind == "no_information_gain" for one in findings):
        sentences.append(
            f"There is no evidence that a better model of the same features would gain anything ({where})."
        )
    if not gains and not open_ and not fine and risk == risk and (infinite is None or floor is not None):
        looked = [one for one in findings if one.kind in ("no_miscalibration", "no_information_gain")]
        remedies = enumerate_words([_remedy(one) for one in looked], joint="or") if looked else "anything known here"
        what = about.removesuffix(",")
        sentences.append(f"There is no evidence that {remedies} would lower {what} ({where}).")
    return " ".join(sentences)


def say_briefly(f: Finding) -> str:
    """A short sentence on segments or periods for a headline; the report names all of them below it."""
    if f.kind == "changed":
        return f"The {f.term} has changed since {f.facts['before']}."
    names = f.facts["segments"]
    most = f", most of all {names[0]}" if len(names) > 1 else f": {names[0]}"
    return f"{len(names)} of {_count(f, 'segment')} {_is(names)} miscalibrated{most}."


def _remedy(f: Finding) -> str:
    return REMEDIES.get(f.term or "", f.term or "")


def say_ranking(
    best: Finding | None, alike: Sequence[str], infinite: Sequence[str], actions: Mapping[str, Sequence[str]], loss: str
) -> str:
    """The verdict on several models: the best one, those as good, those that are infinite; `actions` names by kind."""
    sentences = []
    none = f"The {loss} loss of every model is infinite: each gave probability 0 to an outcome that was observed."
    if best is None:
        return none
    if actions.get("do_not_act"):
        names = actions["do_not_act"]
        return f"No conclusion: {_list_names(names)} {_is(names)} judged on rows that were used to fit {_it(names)}."
    worse = f"; {_list_names(alike)} {_is(alike)} not significantly worse" if alike else ""
    floor = best.facts.get("floor")
    at = f" {mark_floor(floor)}" if floor is not None else ""
    sentences.append(f"{best.model} has the smallest {loss} loss{at}, {write_amount(best.value or 0.0, 4)}{worse}.")
    if best.model in infinite:
        sentences.insert(0, none)
    elif infinite:
        sentences.append(f"The loss of {_list_names(infinite)} is infinite.")
    if actions.get("recalibrate"):
        sentences.append(f"Recalibrate {_list_names(actions['recalibrate'])}.")
    if actions.get("recalibrate_size_open"):
        names = actions["recalibrate_size_open"]
        sentences.append(
            f"{_list_names(names)} {_is(names)} miscalibrated, but the size of the gain from recalibrating is open."
        )
    if actions.get("not_material"):
        names = actions["not_material"]
        sentences.append(f"{_list_names(names)} {_is(names)} miscalibrated too little to be worth a change.")
    return " ".join(sentences)


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _it(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def say_step(findings: Sequence[Finding]) -> str:
    """What to do next, in a few words."""
    steps = [STEPS[one.kind] for one in findings if one.kind in STEPS]
    return enumerate_words(list(dict.fromkeys(steps))) if steps else NO_STEP


# ── parts of sentences ──────────────────────────────────────────────────────────────────────────────


def _part(value: float | None, f: Finding) -> str:
    """A part of the loss, with its share."""
    part = 0.0 if value is None else value
    return f"{write_amount(part)} ({write_share(part / f.value)})" if f.value else write_amount(part)


def _count(f: Finding, unit: str) -> str:
    """The count of a finding, with its unit."""
    return plural(int(f.n or 0), unit)


def _level(f: Finding) -> str:
    return write_percent(f.confidence_level or 0.95)


def _number(value: float | None) -> str:
    return "–" if value is None else write_amount(value)


def _span(f: Finding, decimals: int = 2) -> str:
    """An interval."""
    low, high = (write_fixed(end, decimals) if end is not None else "–" for end in (f.low, f.high))
    return f"{low} to {high}"


def _who(f: Finding, nobody: str) -> str:
    return nobody if f.model is None else f.model


def _scores_are(f: Finding) -> str:
    return "The scores are" if f.model is None else f"{f.model} is"


def _of_model(f: Finding) -> str:
    return "" if f.model is None else f" of {f.model}"


def _p(f: Finding) -> str:
    return "" if f.pvalue is None else f" ({write_pvalue(f.pvalue)})"


def _blind(f: Finding) -> str:
    """That a loss which is not strictly proper does not see everything."""
    return " This loss does not see all miscalibration." if f.facts.get("blind") else ""


#: Under which condition an upper end of the reliability holds.
_CONDITIONS = {"smooth": " if the calibration curve is smooth", "any": " whatever its shape", "": ""}


def _most(f: Finding) -> str:
    """What recalibration gains at most, under each condition: (condition, end) in facts."""
    ends = f.facts.get("ends") or [["", f.high]]
    return ", and ".join(f"at most {_part(end, f)}{_CONDITIONS[where]}" for where, end in ends)


def _share_of(value: float | None, f: Finding) -> str:
    return write_share(max(value or 0.0, 0.0) / f.value) if f.value else _number(value)


def _list_names(words: Sequence[Any], most: int = 6) -> str:
    return enumerate_words([str(word) for word in words], most)


def _start(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


# ── what to do ──────────────────────────────────────────────────────────────────────────────────────


def _infinite_loss(f: Finding) -> str:
    where = f"{write_count(f.n or 0)} of {plural(int(f.facts.get('total', 0)), 'row')}" if f.n else "some rows"
    rows = f.facts.get("rows") or ()
    more = f" and {(f.n or 0) - len(rows)} more" if (f.n or 0) > len(rows) else ""
    # positions as Python counts them; on the command line the first row of data is 1, as in its errors
    first, unit = (0, "row") if current_spelling() is None else (1, "data row")
    places = ", ".join(str(row + first) for row in rows)
    listed = f" ({unit if f.n == 1 else f'{unit}s'} {places}{more})" if rows else ""
    return (
        f"The {f.facts.get('loss', '')} loss{_of_model(f)} is infinite: in {where}{listed} the observed outcome had "
        "probability 0. First keep scores away from 0 and 1 (any recalibration map except the identity does), or pass "
        "`clip`=1e-6 to judge them at that distance."
    )


def _recalibrate(f: Finding) -> str:
    who = "" if f.model is None else f" {f.model}"
    return f"Recalibrate{who}: this gains at least {_part(f.low, f)} of the loss.{_blind(f)}"


def _recalibrate_size_open(f: Finding) -> str:
    where, end = (f.facts.get("ends") or [["", f.high]])[-1]
    condition = "" if where == "any" else _CONDITIONS[where]
    if f.low is not None and f.low > 0.0:
        goal = write_percent(f.facts.get("min_gain", 0.0))
        gain = f"recalibrating gains {_share_of(f.low, f)} to {_share_of(end, f)} of the loss{condition}"
        return f"{_scores_are(f)} miscalibrated{_p(f)}: {gain}; whether it reaches {goal} is open.{_blind(f)}"
    gain = f"recalibrating gains between 0 and {_part(end, f)} of the loss{condition}"
    return f"{_scores_are(f)} miscalibrated{_p(f)}, but the size of the gain is open: {gain}.{_blind(f)}"


def _not_material(f: Finding) -> str:
    gain = f"recalibrating gains only {_share_of(f.low, f)} to {_share_of(f.high, f)} of the loss"
    return f"{_scores_are(f)} miscalibrated{_p(f)}, but {gain}: not worth a change.{_blind(f)}"


def _gainer(f: Finding) -> str:
    """What gains from a step of information."""
    over = "" if f.model is None else f" than {f.model}"
    usual = {"grouping": f"a better model of these features{over}", "projection": "keeping all members"}
    return usual.get(f.term or "", f"going from {(f.term or '').replace(STEP, ' to ')}")


def _information_gain(f: Finding) -> str:
    return f"{_start(_gainer(f))} gains at least {_part(f.low, f)} of the loss."


def _information_size_open(f: Finding) -> str:
    if f.low is not None and f.low > 0.0:
        goal = write_percent(f.facts.get("min_gain", 0.0))
        return f"{_information_gain(f).removesuffix('.')}; whether it reaches {goal} is open."
    who = _who(f, "the score")
    return f"The features carry more information than {who}{_p(f)}; how much a better model would gain is open."


def _do_not_act(f: Finding) -> str:
    why = "" if f.because is None else f"{_say(f.because)} "
    return f"{why}Do not act on them."


def _keep_members(f: Finding) -> str:
    gain = f"a richer model of them than logistic stacking gains at least {_part(f.low, f)} over {f.subject}"
    return f"Keep all members: {gain}."


def _members_size_open(f: Finding) -> str:
    what = {"stack": "Stacking", "keep_members": "A richer model of the members"}[f.facts["action"]]
    gain = f"{what} gains {_share_of(f.low, f)} to {_share_of(f.high, f)} of the loss over {f.subject}"
    return f"{gain}{_judge_size(f)}."


def _judge_size(f: Finding) -> str:
    """How an interval of a gain lies to the gain that is worth a change."""
    goal = f.facts["min_gain"]
    if f.value and (f.high or 0.0) < goal * f.value:
        return ": not worth a change"
    return f"; whether it reaches {write_percent(goal)} is open"


def _paying(verdict: str, sign: float = 1.0) -> Callable[[Finding], str]:
    def sentence(f: Finding) -> str:
        if f.low is None:
            return "Whether recalibration pays cannot be determined: the loss is infinite."
        level = _level(f)
        size, *ends = (write_amount(sign * (value or 0.0)) for value in (f.value, *(f.low, f.high)[:: int(sign)]))
        verb = "lowers" if sign > 0.0 else "raises"
        return f"{verdict}: it {verb} the {f.facts['loss']} loss by {size} ({' to '.join(ends)} at {level} confidence)."

    return sentence


def _stage_choice(f: Finding) -> str:
    folds = _count(f, "fold")
    if f.value is None:
        same = f"Both rules choose the same stages ({f.facts['refined']}), whichever of the {folds} is left out"
        return f"{same}: no difference."
    ends = f.low or 0.0, f.high or 0.0
    gain = f"gains {write_amount(f.value)} ({write_amount(ends[0])} to {write_amount(ends[1])})"
    if max(map(abs, ends)) < _ROUNDING:
        gain = "makes no difference"
    chosen = f"{f.facts['refined']} by the recalibrated loss; {f.facts['raw']} by the raw loss"
    return (
        f"On unseen rows, choosing the stage by the recalibrated loss {gain} after recalibration. Stages chosen "
        f"with each of {folds} left out: {chosen}."
    )


def _stages_alike(f: Finding) -> str:
    first, last = f.facts["first"], f.facts["last"]
    if f.n == 1:
        return f"All other stages are significantly worse than the best, {first:g}."
    return f"{f.n} of {f.facts['total']} stages, {first:g} to {last:g}, are not significantly worse than the best."


def _infinite_stages(f: Finding) -> str:
    has = f"{_count(f, 'stage')} {'has' if f.n == 1 else 'have'}"
    return f"{has} an infinite raw loss: an observed outcome had probability 0."


def _infinite_splits(f: Finding) -> str:
    total = f.facts["total"]
    where = _list_names([f"{key} in {count} of {total} splits" for key, count in f.facts["where"].items()])
    return f"Infinite: {where}. An outcome that was observed, or may be, had probability 0. Pass `clip`=1e-6."


# ── what is known ───────────────────────────────────────────────────────────────────────────────────


def _floored(f: Finding) -> str:
    moved = f", which moves {write_count(f.n)} of {plural(int(f.facts['total']), 'row')}" if f.n is not None else ""
    return f"The terms{_of_model(f)} are computed {mark_floor(f.facts['floor'])}{moved}."


def _no_miscalibration(f: Finding) -> str:
    if f.high is None:
        return f"No significant miscalibration{_of_model(f)} was found."
    needed = f" It would take about {write_count(f.n)} rows to establish the estimated gain." if f.n else ""
    return f"No significant miscalibration{_of_model(f)} was found: recalibrating gains {_most(f)}.{needed}{_blind(f)}"


def _calibrated_enough(f: Finding) -> str:
    who = "No recalibration is needed" if f.model is None else f"{f.model} needs no recalibration"
    return f"{who}{_p(f)}: it would gain at most {_share_of(f.high, f)} of the loss.{_blind(f)}"


def _no_information_gain(f: Finding) -> str:
    return f"No evidence that {_gainer(f)} would gain anything; it is not ruled out."


#: What would split the rest of a loss.
_SPLITTERS = {
    "X": "pass `X` to separate them",
    "q": "pass `q`, a column of P(event | features), to separate them",
}


def _rest_unsplit(f: Finding) -> str:
    rest = f"What recalibration cannot remove, an estimated {_part(f.facts['rest'], f)}"
    return f"{rest}, is due to the model or the data: {_SPLITTERS[f.subject or 'X']}."


def _inconclusive(f: Finding) -> str:
    return f"Inconclusive with {_count(f, f.facts.get('unit', 'row'))}: no part of the loss is shown to be reducible."


def _term_doubtful(f: Finding) -> str:
    why = "" if f.because is None else f"{_say(f.because)} "
    return f"{why}{_start(f.term or 'this term')} is not assessed."


def _members_add_nothing(f: Finding) -> str:
    if f.facts.get("determined"):
        return "The aggregate determines everything that the members say."
    return f"No evidence that the members carry more information than {f.subject}: one number may be enough."


def _not_worse(f: Finding) -> str:
    names = f.facts["others"]
    gap = "" if f.value is None else f" ({_gap(f)})"
    return f"{_list_names(names)} {_is(names)} not significantly worse{gap}."


def _behind(f: Finding) -> str:
    size = f"{write_fixed(f.value or 0.0, 4)} ({_span(f, 4)})"
    return f"{f.model} is significantly worse than {f.subject}, by {size}."


def _gap(f: Finding) -> str:
    return f"{write_fixed(f.value or 0.0, 4)} behind, {_span(f, 4)}"


def _miscalibrated_by_bound(f: Finding) -> str:
    alone = "" if f.pvalue is None else f", although the test alone does not show it ({write_pvalue(f.pvalue)})"
    return f"{_who(f, 'The score')} is miscalibrated: the lower bound of its reliability is above 0{alone}."


def _event_bias(f: Finding) -> str:
    ratio = f"observed:expected {write_fixed(f.value or 0.0, 2)}, {_span(f)}"
    sign = f.facts["sign"]
    if sign == 0:
        return f"The predicted number of events agrees with the observed number ({ratio})."
    off = write_share(abs(1.0 / (f.value or 1.0) - 1.0)) if f.value else ""
    return f"Predictions are too {'low' if sign > 0 else 'high'} by {off} overall ({ratio})."


def _score_spread(f: Finding) -> str:
    sign = "too extreme" if f.facts["sign"] < 0 else "not extreme enough"
    words = f"(slope {write_fixed(f.value or 0.0, 2)}, {_span(f)})"
    return (
        f"Predictions are {sign} {words}."
        if f.facts.get("shown")
        else f"The slope alone suggests predictions {sign} {words}."
    )


def _segment_miscalibrated(f: Finding) -> str:
    names, total = f.facts["segments"], f.n or 0
    if len(names) == total > 6:
        return f"{_who(f, 'The score')} is miscalibrated in all {total} segments."
    what = f"{len(names)} of {plural(total, 'segment')}" if total > 1 else "the one segment that is large enough"
    return f"{_who(f, 'The score')} is miscalibrated in {what}: {_list_names(names)}."


def _segments_none(f: Finding) -> str:
    total = f.n or 0
    what = f"any of {plural(total, 'segment')}" if total > 1 else "the one segment that is large enough"
    if f.facts.get("overall"):
        return f"The miscalibration{_of_model(f)} seen overall is not significant within {what}."
    return f"No significant miscalibration{_of_model(f)} in {what}, adjusted for their number."


def _class_miscalibrated(f: Finding) -> str:
    names, who = f.facts["classes"], f"{_who(f, 'The score')} is miscalibrated in"
    if len(names) == f.n and not f.facts["rare"]:
        return f"{who} all {_count_classes(f)}, each against the rest."
    return f"{who} {len(names)} of {_count_classes(f)}, each against the rest: {_list_names(names)}."


def _classes_none(f: Finding) -> str:
    if not f.n:
        return f"No class has {f.facts['least']} expected cases, so that none is judged by itself."
    return f"No significant miscalibration{_of_model(f)} in any of {_count_classes(f)}, adjusted for their number."


def _count_classes(f: Finding) -> str:
    """The classes that were judged, and whether others were not."""
    enough = f" with {f.facts['least']} expected cases or more" if f.facts["rare"] else ""
    return f"{f.n} {'class' if f.n == 1 else 'classes'}{enough}"


def _costly_confusion(f: Finding) -> str:
    was, carries = ("was", "carries") if f.n == 1 else ("were", "carry")
    rows = f"{_count(f, 'row')} of class {f.subject} {was} predicted as {f.facts['predicted']}"
    by = "" if f.model is None else f" by {f.model}"
    share, every = write_share(f.value or 0.0), write_share(f.facts["all"])
    return f"{_start(rows)}{by} and {carries} {share} of the loss; all confusions carry {every}."


def _segments_too_small(f: Finding) -> str:
    where = f" of {_list_names(f.facts['columns'])}" if f.facts.get("columns") else ""
    needs = f"{f.n} rows, {f.facts['rarer']} of the rarer outcome"
    return f"No segment{where} is large enough for a decomposition of its own ({needs})."


def _net_benefit(f: Finding) -> str:
    if "thresholds" not in f.facts:
        return f"At no threshold is acting on {f.model} estimated to beat acting on everyone or on no one."
    where = "at thresholds between {:.2g} and {:.2g}".format(*f.facts["thresholds"])
    if f.facts.get("shown"):
        sure = f"at {_level(f)} confidence"
        return f"Acting on {f.model} beats acting on everyone and on no one {where} ({sure})."
    return f"Acting on {f.model} is estimated to beat acting on everyone and on no one {where}, but not significantly."


def _decision_cost(f: Finding) -> str:
    sure, bound = f"at {_level(f)} confidence", write_amount(f.high or 0.0, 2)
    costs = "Here a false alarm at threshold t costs t, and a miss costs 1 − t."
    if f.value is None:
        most = f"Miscalibration{_of_model(f)} costs at most {bound} per decision, whatever the threshold ({sure})"
        return f"{most}. {costs}"
    most = f"Miscalibration{_of_model(f)} costs most at thresholds around {f.facts['threshold']:.2g}"
    estimate = f"an estimated {write_amount(f.value, 2)} per decision"
    return f"{most}: {estimate}, and at most {bound} at any threshold ({sure}). {costs}"


def _feature_adds(f: Finding) -> str:
    names = f.facts["features"]
    adds = "adds" if len(names) == 1 else "each add"
    return f"Taken alone, {_list_names(names)} {adds} information to {_who(f, 'the score')}."


def _no_region(f: Finding) -> str:
    if f.facts.get("columns"):
        return (
            f"The {f.facts['columns']:,} features have no names: they are judged together, not each alone or by region."
        )
    if f.facts.get("classes"):
        return "Regions in words are found for two classes only."
    who = _who(f, "the score")
    return f"No region of the features was found in which {who}, once recalibrated, is off."


def _changed(f: Finding) -> str:
    what, p = f.term, f.facts
    over = f"Holm's p {'<' if p['periods'] else '≥'} {p['alpha']:g}, {_count(f, 'comparison')}"
    if f.n == 1:
        how = "changed" if p["periods"] else "did not change significantly"
        return f"The {what} {how} from {p['before']} to {p['after']} (p {'<' if p['periods'] else '≥'} {p['alpha']:g})."
    if not p["periods"]:
        return f"In no period does the {what} differ significantly from the first, {p['before']} ({over})."
    periods = _list_names(p["periods"])
    return f"The {what} has changed since the first period, {p['before']}: it differs in {periods} ({over})."


def _map_gain(f: Finding) -> str:
    """What the map that chooses inside each fold does to the loss."""
    loss, before, after = f.facts["loss"], f.facts["before"], f.facts["after"]
    how = "with the map chosen anew in each fold" if f.facts.get("chooses") else f"by {f.subject}"
    if not isfinite(before):
        effect = f"Recalibration makes the {loss} loss{_of_model(f)} finite"
        return f"{effect}: {write_amount(after, 4)} out of sample, {how}."
    change = f"from {write_fixed(before, 4)} to {write_fixed(after, 4)} out of sample, {how}"
    gain = f"(gain {write_fixed(f.value or 0.0, 4)}, {_span(f, 4)})"
    best = f"; of the maps tried, {f.facts['best']} did best" if f.facts.get("best") else ""
    if (f.low or 0.0) > 0.0:
        return f"Recalibration lowers the {loss} loss{_of_model(f)} {change} {gain}{best}."
    if f.facts.get("identity"):
        leave = "leave its scores as they are" if f.model else "leave the scores as they are"
        small = " Its miscalibration is too small for a map to remove, or of a shape that none of them follows."
        qualifier = small if f.facts.get("miscalibrated") else ""
        what = f"the {loss} loss{_of_model(f)}, {write_fixed(before, 4)}, out of fold"
        return f"No map clearly lowers {what}: {leave}.{qualifier}"
    if (f.value or 0.0) > 0.0:
        return f"Recalibration lowers the {loss} loss{_of_model(f)} {change} {gain}, not significantly{best}."
    why = (
        "its miscalibration is too small for maps fitted on so few rows, or of a shape they do not follow"
        if f.facts.get("miscalibrated")
        else "leave it as it is"
    )
    return f"Recalibration does not lower the {loss} loss{_of_model(f)} {gain}: {why}."


def _map_chosen(f: Finding) -> str:
    chosen, of = f.facts.get("chosen"), "" if f.model is None else f" for {f.model}"
    if f.subject == "identity":
        begin = f"Cross-validation chose no map{of}" if chosen else f"The map{of} is the identity"
        return f"{begin}: the scores stay as they are."
    how = ", chosen by cross-validation (the simplest within one standard error of the best)" if chosen else ""
    what = f"The map{of} is {f.subject}{how}"
    effect = f.facts["effect"]
    before, after = f.facts.get("auc_before"), f.facts.get("auc_after")
    if effect in ("classes_kept", "classes_changed"):
        verb = "keeps" if effect == "classes_kept" else "may change"
        return f"{what}: it {verb} the order of the classes within rows."
    if effect == "kept":
        return f"{what}: it keeps the order of the scores, and so the AUC ({write_fixed(before or 0.0, 4)})."
    words = {
        "ties": "keeps the order of the scores, but makes some of them equal",
        "reversed": "does not keep the order of the scores",
        "constant": "gives every row the same probability",
    }[effect]
    return f"{what}: it {words} (AUC {write_fixed(before or 0.0, 4)} before, {write_fixed(after or 0.0, 4)} after)."


def _path_loses(f: Finding) -> str:
    ends = f" ({_span(f, 5)})" if f.low is not None else ""
    return f"The last score alone misses {write_fixed(f.value or 0.0, 5)}{ends} of what the whole path knows."


# ── doubts ──────────────────────────────────────────────────────────────────────────────────────────

#: What shows that a model was trained on rows.
EVIDENCE = {
    "stored": "it stores them",
    "stored_other_outcomes": "it stores them with other outcomes",
    "leaves_equal": "each leaf of its trees holds exactly as many of them as in training",
    "leaves_more": "each leaf of its trees holds all the rows that it held in training",
    "leaves_fewer": "no leaf of its trees holds more of them than it held in training",
    "leaves_pure": "its leaves are pure on them although outcomes are noisy",
    "leaves_close": "they fill the leaves of its trees more like training rows than chance allows",
    "means": "their means are exactly those of its {name}",
    "class_means": "their class means are exactly those it learned",
    "score_equations": "its score equations hold on them",
    "last_layer": "the gradient of its last layer nearly vanishes on them",
    "round_errors": "the errors of its rounds are exactly those on them",
}


def _evidence(f: Finding) -> str:
    kind, _, name = str(f.facts["evidence"]).partition(":")
    return EVIDENCE[kind].format(name=name)


def _name_classifier(f: Finding) -> str | None:
    return f.subject if f.model is None else f"{f.model} ({f.subject})"


def _trained(f: Finding, verb: str) -> str:
    """Which rows a model was trained on, by which evidence."""
    facts = f.facts
    share = facts.get("share", 1.0)
    whole = "these rows" if share > 1.0 - 1e-9 else f"about {write_share(share)} of these rows"
    rows = "some or all of these rows" if facts.get("some") else whole
    return f"{_name_classifier(f)} {verb} trained on {rows} ({_evidence(f)})"


def _trained_on_rows(f: Finding) -> str:
    what = f.facts.get("what", "terms")
    if what == "map":
        return f"{_trained(f, 'was')}: a map fitted to them does not fit other rows."
    return f"{_trained(f, 'was')}: {what} of a model on its own training rows say nothing about new rows."


def _may_be_trained_on_rows(f: Finding) -> str:
    what = f.facts.get("what", "terms")
    if f.facts.get("other_outcomes"):
        return (
            f"{_name_classifier(f)} may have been trained on rows with these features, but other outcomes "
            f"({_evidence(f)}): if so, its {what} say nothing about new rows."
        )
    return f"{_trained(f, 'may have been')}: if so, its {what} say nothing about new rows."


def _parts_share_rows(f: Finding) -> str:
    one, other = f.facts["parts"]
    return f"{_start(one)} and {other} are the same rows: the terms are too good, or mean nothing."


def _calibrator_reused(f: Finding) -> str:
    who = _list_names(f.facts["methods"])
    return (
        f"{who} learned from the same rows as the calibrator, which flatters it: its scores look better calibrated on "
        "those rows than on new ones. Use repeated_splits(…, independent_halves=True)."
    )


#: What to do about a reference model that has learned noise.
_OVERFIT_REMEDIES = {
    "rows": "Pass more rows.",
    "reference": "Use a smaller model for `reference`=, or the default.",
}


def _overfit(f: Finding) -> str:
    name = f.subject
    what = f"the calibration map {name}" if f.level == 1 else f"the reference model of {name}"
    follows = (
        "Terms that involve it are unreliable." if f.level == 1 else "Its bounds hold; its estimates are unreliable."
    )
    usual = write_percent(f.facts["usual"])
    spread = f"it differs between folds by {write_share(f.value or 0.0)} of its loss (up to {usual} is normal)"
    return f"{_start(what)} overfits: {spread}. {follows} {_OVERFIT_REMEDIES[f.facts.get('remedy', 'rows')]}"


def _worse_than_coarser(f: Finding) -> str:
    hint = "" if f.facts.get("own") else " Did a pipeline drop the score, its last column?"
    return f"Level {f.subject} predicts significantly worse than {f.facts['coarser']}.{hint}"


def _moved_by_cells(f: Finding) -> str:
    share = f.facts.get("share_of_error")
    beside = "" if share is None else f" ({write_amount(share, 2)} of the smallest standard error)"
    return f"Summing by cell moved the loss of C by up to about {write_amount(f.value or 0.0, 2)}{beside}."


def _cells_too_coarse(f: Finding) -> str:
    return f"The cells are too coarse for so many rows. {_moved_by_cells(f)} Pass more `cells`=."


# ── cautions ────────────────────────────────────────────────────────────────────────────────────────


def _few_units(f: Finding) -> str:
    unit = _count(f, f"independent {f.facts['unit']}")
    return f"Only {unit}: below about {f.facts['enough']}, standard errors and intervals are too small."


def _few_rows(f: Finding) -> str:
    if f.subject is None:
        return f"Only {_count(f, 'row')}: large-sample errors and tests are too optimistic."
    rarest = f"{write_count(f.facts['count'])} of class {f.subject!r}"
    return f"Few data ({_count(f, 'row')}, {rarest}): intervals are wide and approximate."


def _extrapolated(f: Finding) -> str:
    span = "{:.6g} to {:.6g}".format(*f.facts["range"])
    return (
        f"{f.n} of {f.facts['total']} scores are outside the range that the map was fitted on, {span}: it extrapolates."
    )


def _few_effective_rows(f: Finding) -> str:
    rows = "A single row carries" if (f.value or 0.0) < 1.5 else f"About {f.value:.0f} rows carry"
    return f"{rows} most of the variance: intervals and bounds are less certain than stated."


def _shifted_replicates(f: Finding) -> str:
    value = f.value or 0.0
    return (
        f"The reliability of resampled pipelines is {write_fixed(abs(value), 1)} standard errors "
        f"{'above' if value > 0 else 'below'} that of this one: classifiers trained on copies of rows are other "
        "classifiers, and the interval is only roughly right."
    )


def _inner_validation(f: Finding) -> str:
    hint = " `resample`='weights' avoids it." if f.facts.get("weights") else ""
    return (
        f"{f.subject} validates itself on part of its training rows ({f.facts['how']}): copies of a row end up on both "
        f"sides, and resampled classifiers overfit.{hint}"
    )


def _in_sample_bias(f: Finding) -> str:
    if f.facts.get("bootstrap"):
        return (
            "The in-sample bias remains: every resample is fitted on itself, so replicates of reliability and "
            "resolution lie above their estimates, which themselves lie above the truth."
        )
    return "In-sample isotonic: reliability is biased upwards (about +0.0055 Brier for a calibrated score at n = 1000)."


def _partial_cv(f: Finding) -> str:
    tested = f"{write_count(f.n or 0)} of {write_count(f.facts['total'])} rows"
    return f"`cv` tests {tested}: the terms are those of these rows; the others have weight 0."


def _edge_scores(f: Finding) -> str:
    moved = f"moved by {write_amount(f.value or 0.0, 1)} for intercept, slope and calibration in the large"
    return f"{_who(f, 'The score')} gives {_count(f, 'row')} a score of exactly 0 or 1; such scores are {moved}."


def _unreached_scores(f: Finding) -> str:
    before, after = f.facts["before"], f.facts["after"]
    rows = f"{write_share(f.value or 0.0)} of the rows of period {after}"
    return f"{rows} have scores that do not occur in period {before}: what is said of them is extrapolated."


def _left_out(f: Finding) -> str:
    reason = f.facts["reason"]
    names = f.facts.get("names")
    what = _list_names(names) if names else f.subject
    where = f"{f.facts['column']}: " if f.facts.get("column") else ""
    texts = {
        "small": f"left out, with fewer than {f.n} rows or {f.facts.get('rarer')} of the rarer outcome: {what}.",
        "most": f"only the {f.n} largest of {f.facts.get('total')} segments are shown.",
        "last": f"only the last {f.n} of {f.facts.get('total')} periods are shown.",
    }.get(str(reason))
    if texts is not None:
        return f"{where}{texts}" if where else _start(texts)
    if reason == "infinite":
        gone = "nothing is compared" if f.facts["all"] else f"{what} {_is(names or ())} left out"
        return (
            f"{_start(f.facts['loss'])} loss: {gone}, because {f.facts['metric']} is infinite in some split. Pass "
            "`clip`=1e-6 to repeated_splits to compare all."
        )
    return f"{where}{what} was left out: {_stopped(str(reason))}"


def _unavailable(f: Finding) -> str:
    who = "" if f.model is None else f"{f.model}: "
    return f"{who}{f.subject} is not available: {_stopped(str(f.facts['reason']))}"


def _stopped(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _approximated(f: Finding) -> str:
    facts = f.facts
    if "folds" in facts:
        return "Within segments, maps are fitted in five random folds, whatever splits were passed."
    if "cells" in facts:
        return "Slope, AUC and Spiegelhalter's variance treat all rows of a cell as having its mean score."
    (few, fewer), (some, fewest) = facts["redraws"], facts["resamples"]
    classes = " (of more than ten classes, rows times classes over ten)" if facts.get("many_classes") else ""
    return (
        f"With more than {write_count(facts['many'])} rows{classes}, the test of calibration uses {facts['draws']} "
        f"draws, bands use {few} redraws, and intervals of summaries {some} resamples; with more than "
        f"{write_count(facts['more'])}, the test uses large-sample approximations, bands {fewer} redraws, and "
        f"intervals of summaries {fewest} resamples."
    )


def _order_contradicted(f: Finding) -> str:
    facts = f.facts
    what = "the order of the classes within rows" if facts.get("classes") else "the order of the scores"
    figures = f"{f.value:.2g} lower (standard error {facts['std_error']:.2g})"
    folds = facts.get("folds")
    often = "" if folds is None else f" Found in {folds[0]} of {folds[1]} folds; the figures are those of the clearest."
    return (
        f"The data contradict {what}{_of_model(f)}: out of fold, {f.subject}, which may reverse it, has a "
        f"{facts['loss']} loss {figures} than the best map that keeps it. The order is kept; "
        f"{_ORDER_REMEDIES[facts.get('remedy', 'order')]}.{often}"
    )


_ORDER_REMEDIES = {
    "order": "pass `order`='any' to follow the data",
    "calibrator": "pass calibrator=SelectedCalibrator(order='any') to follow the data",
}


def _hard_labels(f: Finding) -> str:
    more = f.n or 0
    who = f"{f.subject} holds" if more == 0 else f"{f.subject} and {more} more hold"
    return f"{who} only 0 and 1: are these predicted labels? Probabilities come from predict_proba."


def _reversed_scores(f: Finding) -> str:
    begin = "Scores" if f.facts.get("where") is None else f"{f.facts['where']}: scores"
    event, other = f.facts["event"], f.facts["other"]
    return (
        f"{begin} are read as the probability of {event}, but they are lower where it occurs. If they are "
        f"probabilities of {other}, pass 1 − scores (or −scores for logits), or one column per class."
    )


#: How fits of members that separate the classes end.
_SEPARATED = {
    "smoothed": "fitted to Platt's smoothed targets instead",
    "stack": "fitted to Platt's smoothed targets instead. Set C, or look for members that saw these rows before",
}


def _separation(f: Finding) -> str:
    if "alpha" in f.facts:
        return (
            f"α = {f.facts['alpha']:.3g} and β = {f.facts['beta']:.3g} are at a bound, or no maximum was reached: the "
            "members may separate the classes."
        )
    return f"The members separate the classes, and the likelihood has no maximum: {_SEPARATED[f.facts['remedy']]}."


def _weight_scale(f: Finding) -> str:
    total = f"{f.value:.3g}"
    if f.facts.get("scaled"):
        return (
            f"`sample_weight` sums to {total}, which is not a number of rows: only the ratios of the weights are used, "
            f"scaled to sum to the {f.n} rows that have weight."
        )
    return (
        f"`sample_weight` sums to {total} over {f.n} rows: a weight counts as a number of rows, and maps that shrink, "
        "or keep away from 0 and 1 by how many rows there are, take this as n. Multiply the weights by n / sum if they "
        "only set proportions."
    )


def _lost_resolution(f: Finding) -> str:
    facts = f.facts
    error = f" ± {facts['std_error']:.5f}" if facts["std_error"] > 0.0 else ""
    share, cost = f"{100 * (f.value or 0.0):.1f} %", f"{facts['cost']:.5f}{error}"
    return (
        f"{f.subject} makes {share} of the pairs of different scores equal at stage {facts['stage']:g} "
        f"(more than 1 % at {f.n} of {plural(facts['stages'], 'stage')}), which costs {cost} of the "
        "loss there; later stages cannot separate what was merged. Recalibrate the last stage only, or by a strictly "
        "increasing map such as 'platt' or 'beta'."
    )


def _file_suspect(f: Finding) -> str:
    if f.facts.get("unverified"):
        return "The files have no checksums: nothing was verified."
    if f.subject is None:
        return _start(_stopped(f.facts["reason"]))
    return f"{f.subject!r} may not be complete: {_stopped(f.facts['reason'])}"


# ── where numbers come from ─────────────────────────────────────────────────────────────────────────


def write_folds(facts: Mapping[str, Any]) -> str:
    """How a law was fitted out of sample."""
    if facts.get("split"):
        return "fitted on the calibration split"
    if facts.get("splits"):
        return "fitted on the splits of cv"
    if facts.get("passes"):
        return f"cross-fitted in {facts['folds']} folds by sums of gradients over all rows, in {facts['passes']} passes"
    times = f", {facts['times']} times" if facts.get("times", 1) > 1 else ""
    return f"cross-fitted in {facts['folds']} folds{times}"


def _law_fitted(f: Finding) -> str:
    if f.facts.get("aggregate"):
        return f"{f.subject} was fitted in the folds that judge it: each row is combined by a fit that has not seen it."
    how, shares = write_folds(f.facts), f.facts.get("shares")
    if shares:
        if len(shares) == 1:
            return f"{_list_names(f.facts['laws'])} is {next(iter(shares))}, {how}."
        mixed = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
        return f"{_list_names(f.facts['laws'])} mixes {mixed} by their likelihood out of sample, {how}."
    laws = f"{_list_names(f.facts['laws'])} {_is(f.facts['laws'])}"
    return f"{laws} {f.subject}, {how}." if f.level == 1 else f"{laws} fitted by {f.subject}, {how}."


def _law_given(f: Finding) -> str:
    what = f"{_list_names(f.facts['laws'])} {_is(f.facts['laws'])}"
    return f"{what} taken as given: if fitted on these rows, the terms look too good."


def _candidates_left_out(f: Finding) -> str:
    return f"{_start(_list_names(f.facts['maps']))} are left out: they are fitted only in random folds of the rows."


def _computed_on(f: Finding) -> str:
    where = f"Computed with {f.facts['library']} on {f.facts['device']}, from scores in {f.facts['dtype']}"
    parts = {"shifts": "local shifts", "levels": "levels above C", "test": "the test of calibration"}
    moved = [parts[part] for part in f.facts["moved"]]
    if not moved:
        return f"{where}."
    were = "was" if moved == [parts["test"]] else "were"
    return f"{where}; {enumerate_words(moved)} {were} computed by numpy, from rows that were copied in blocks."


def _from_sums(f: Finding) -> str:
    return f"Computed from sums over {_count(f, 'distinct score' if f.facts.get('exact') else 'cell')}."


def _sampled(f: Finding) -> str:
    facts = f.facts
    if f.n == facts["total"]:
        return f"All {write_count(facts['total'])} rows were used."
    size = f"{write_count(f.n or 0)} of {write_count(facts['total'])} rows"
    sampling = f"C is fitted to a sample of {size}, drawn {facts['how']}"
    whole = (
        ""
        if f.value is None
        else f" The loss over all rows is {f.value:.6g}, with a standard error of {facts['error']:.2g}."
    )
    return f"{sampling}: terms and intervals are those of a sample of that size.{whole}"


def _read_as(f: Finding) -> str:
    rows = f"{_count(f, 'row')} with a score of 0 or 1 {'was' if f.n == 1 else 'were'}"
    return f"{rows} read as the calibrator reads such scores."


#: What a result rests on.
_ASSUMPTIONS = {
    "ridge": "The ridge is part of the equation: intervals are of the penalised parameters.",
    "at_bound": "Fixed at the bound 0: {subject}. The other parameters are estimated under this condition.",
    "near_delta": "The identity map is not rejected at {alpha} %: the delta method breaks down there, and so does this "
    "interval. Use method='profile'.",
    "near_profile": "The identity map is not rejected at {alpha} %: the lower end is 0, and the standard error is no "
    "guide.",
    "moved_edge": "Infinite: a score of exactly 0 or 1 is recalibrated to something else.",
}


def _assumption(f: Finding) -> str:
    alpha = f"{100 * (1 - f.confidence_level):.3g}" if f.confidence_level is not None else ""
    return _ASSUMPTIONS[f.facts["of"]].format(subject=f.subject, alpha=alpha)


# ── monitors ────────────────────────────────────────────────────────────────────────────────────────

#: What a score is, so that it needs no glossary.
_DIRECTIONS = {
    "too high": "too high",
    "too low": "too low",
    "too bold": "too bold (too near 0 and 1)",
    "too timid": "too timid (too close to each other)",
}
#: What each part of a change of the loss means where it raises the loss, and where it lowers it.
_CAUSES = {
    "case mix": ("the scores that arrive are harder to tell apart", "the scores that arrive are easier to tell apart"),
    "reliability": ("scores are farther from the event rates", "scores are nearer to the event rates"),
    "refinement": (
        "at equal scores, outcomes are harder to predict", "at equal scores, outcomes are easier to predict",
    ),
}  # fmt: skip


def _monitor_alarm(f: Finding) -> str:
    facts = f.facts
    who = "Scores" if facts.get("view") is None else f"Probabilities of {facts['view']}"
    when = f"since {write_period(facts['since'])}"
    if facts["since_first"] != facts["since_last"]:
        when += f" (between {write_span(facts['since_first'], facts['since_last'], 'and', facts['since'])})"
    direction, is_sure = _DIRECTIONS[facts["direction"]], facts["is_sure"]
    if facts["process"] == "change":
        likely = "" if is_sure else "most likely "
        return f"The calibration has changed {when}; since then, {who[:1].lower()}{who[1:]} are {likely}{direction}."
    if facts["from_start"]:
        when = f"from the beginning, {write_period(facts['since'])}"
    return (
        f"{who} have been {direction} {when}." if is_sure else f"{who} have been off {when}, most likely {direction}."
    )


def _monitor_quiet(f: Finding) -> str:
    facts = f.facts
    if not f.n:
        after = facts.get("restart")
        return f"No rows since the restart after {write_period(after)}." if after is not None else "No rows so far."
    passed = plural(f.n, facts["unit"])
    if facts["process"] == "change" and f.n <= facts["baseline"]:
        first = plural(facts["baseline"], facts["unit"])
        found = (
            f"No alarm yet: the first {first} are the baseline, and {passed} {'has' if f.n == 1 else 'have'} passed."
        )
    else:
        evidence, needed = write_evidence(facts["log10_e"]), write_evidence(facts["log10_needed"])
        name = "the detector stands at" if facts["process"] == "detector" else "E ="
        found = f"No alarm after {passed}: {name} {evidence}, and {needed} are needed."
    if f.high is None:
        return found
    of_view = f" of {facts['view']}" if facts.get("view") else ""
    return f"{found} The reliability{of_view} is at most {write_amount(f.high, 2)}."


def _monitor_gain(f: Finding) -> str:
    """What recalibrating gains, with its share of the loss."""
    low = f.low or 0.0
    if f.high is None:
        return f"at least {_write_least(low, low)}" + (f" ({write_share(low / f.value)})" if f.value else "")
    ends = f"{_write_least(low, f.high)} to {write_amount(f.high, 2)}"
    if not f.value:
        return ends
    return f"{ends} ({write_share(low / f.value).removesuffix(' %')} to {write_share(f.high / f.value)})"


def _write_least(low: float, high: float) -> str:
    """The lower end of an interval: two digits, one where it is far below the upper end, and no power of ten."""
    if low <= 0.0:
        return "0"
    digits = 1 if low < 0.1 * high else 2
    return write_fixed(low, min(digits - 1 - math.floor(math.log10(low)), 9))


def _monitor_pays(f: Finding) -> str:
    if f.facts.get("view"):
        return f"Recalibrate: since {write_period(f.facts['since'])}, {_monitor_costs(f)}."
    rows = f"on rows like those since {write_period(f.facts['since'])}"
    return f"Recalibrate: {rows}, this gains {_monitor_gain(f)} of the {f.facts['loss']} loss."


def _monitor_costs(f: Finding) -> str:
    """The reliability of one class of several, which is not all that recalibration gains."""
    return f"the reliability of {f.facts['view']} alone has been {_monitor_gain(f)}"


def _monitor_most(f: Finding) -> str:
    """An upper bound of what recalibrating gains."""
    share = f" ({write_share(f.high / f.value)})" if f.value and f.high is not None else ""
    return f"{_number_short(f.high)}{share} of the {f.facts['loss']} loss"


def _number_short(value: float | None) -> str:
    return "–" if value is None else write_amount(value, 2)


def _monitor_open(f: Finding) -> str:
    look = f"Look at the rows since {write_period(f.facts['since'])} before you recalibrate"
    if f.high is None:
        return f"{look}: there are too few of them to say what recalibrating would gain."
    return f"{look}: what it would gain is not shown yet, but it is at most {_monitor_most(f)}."


def _monitor_idle(f: Finding) -> str:
    if f.facts.get("mix"):
        return "There is nothing to recalibrate. Look at the data: why do other cases arrive than before?"
    return "There is nothing to do."


def _monitor_minor(f: Finding) -> str:
    least = write_percent(f.facts["min_gain"])
    return f"Recalibrating would gain at most {_monitor_most(f)}: less than {least}, which is hardly worth a change."


def _monitor_segments(f: Finding) -> str:
    names, total = f.facts["segments"], f.n or 0
    if total == 1:
        return f"Look at {names[0]}: it is off."
    if len(names) == total:
        return f"Look at the segments: {'both' if total == 2 else f'all {write_count(total)}'} are off."
    return f"Look at {_list_names(names)} first: of {plural(total, 'segment')}, only {_it_is(names)} shown to be off."


def _monitor_segments_none(f: Finding) -> str:
    if f.n == 1:
        return "The only segment is not shown to be off."
    return f"Not one of {plural(f.n or 0, 'segment')} is shown to be off."


def _it_is(names: Sequence[str]) -> str:
    return "it is" if len(names) == 1 else "they are"


def _monitor_cause(f: Finding) -> str:
    facts = f.facts
    if not facts["alarm"]:
        since = write_period(facts["since"])
        scores = _moves("the mean score", facts["score_before"], facts["score_after"])
        loss = _moves(f"the {facts['loss']} loss", facts["loss_before"], facts["loss_after"], "")
        return (
            f"The case mix has changed since {since}: {scores}, and {loss} with it. No change of the calibration is "
            "shown."
        )
    parts = sorted(facts["parts"].items(), key=lambda one: -abs(one[1]))
    change = facts["loss_after"] - facts["loss_before"]
    moved = "risen" if change > 0.0 else "fallen"
    (first, size), *rest = parts
    why = _CAUSES[first][0 if size > 0.0 else 1]
    digits = 1 - math.floor(math.log10(max(abs(size), abs(change), 1e-9)))
    each = {name: write_fixed(part, digits, "+") for name, part in parts}
    others = enumerate_words([f"{each[name]} by {name}" for name, _ in rest])
    found = f"Since {write_period(facts['since'])}, the {facts['loss']} loss has {moved}"
    return f"{found} by {write_fixed(abs(change), digits)}: {each[first]} by {first} ({why}), {others}."


def _moves(what: str, before: float, after: float, verb: str | None = None) -> str:
    """What a number did, from where to where."""
    did = ("rose" if after > before else "fell") if verb is None else verb
    return " ".join(f"{what} {did} from {write_amount(before, 2)} to {write_amount(after, 2)}".split())


def _monitor_guarantee(f: Finding) -> str:
    facts = f.facts
    needed = write_evidence(facts["log10_needed"])
    if facts["process"] == "detector":
        periods = plural(facts["arl"], facts["unit"])
        return f"Where all scores are calibrated, it takes at least {periods} on average until a false alarm."
    what = "the scores are always off in the same way" if facts["process"] == "change" else "all scores are calibrated"
    return (
        f"Where {what}, the chance that E ever reaches {needed} is at most {write_percent(facts['alpha'])}, however "
        "often one looks."
    )


def say_monitor_headline(findings: Sequence[Finding]) -> str:
    """The verdict of a monitor in a sentence or two."""
    by_kind = {one.kind: one for one in findings}
    sentences = [say(one) for one in findings if one.kind in ("monitor_alarm", "monitor_quiet")]
    pays, cause = by_kind.get("monitor_pays"), by_kind.get("monitor_cause")
    if pays is not None:
        gains = f"Recalibrating would gain {_monitor_gain(pays)} of the {pays.facts['loss']} loss."
        sentences.append(f"{_start(_monitor_costs(pays))}." if pays.facts.get("view") else gains)
    sentences += [say(by_kind[kind]) for kind in ("monitor_minor",) if kind in by_kind]
    if cause is not None and not cause.facts["alarm"]:
        sentences.append(f"The case mix has changed since {write_period(cause.facts['since'])}.")
    off = by_kind.get("monitor_segments")
    if off is not None and "monitor_quiet" in by_kind:
        names = off.facts["segments"]
        sentences.append(f"But {_list_names(names)} {_is(names)} off.")
    return " ".join(sentences)


# ── gates ───────────────────────────────────────────────────────────────────────────────────────────

#: What a limit is compared with.
_JUDGED = {"estimate": "estimate", "lower": "lower {level} bound", "upper": "upper {level} bound"}


def _gate_reliability(f: Finding) -> str:
    facts = f.facts
    what = _JUDGED[facts["on"]].format(level=_level(f))
    subject = f"The {what} of the reliability of {f.model} ({facts['loss']} loss) is"
    limit = f"`max_reliability`={facts['limit']:g}"
    if facts.get("smooth_only"):
        remedy = "gate on another loss, for example brier or log, or on `gate_on`='lower'"
        return f"{subject} known for smooth calibration curves only, and a gate needs one for any shape: {remedy}."
    if f.value is None:
        return f"{subject} not known."
    if isinf(f.value):
        remedy = " (`clip`=1e-6 judges it at that distance from 0 and 1)" if facts.get("infinite_loss") else ""
        return f"{subject} infinite, above {limit}{remedy}."
    return f"{subject} {write_amount(f.value, 4)}, above {limit} by {write_amount(f.value - facts['limit'], 4)}."


def _gate_calibration(f: Finding) -> str:
    over = f" (Holm over {f.n} models)" if (f.n or 0) > 1 else ""
    limit = f"`max_pvalue`={f.facts['alpha']:g}"
    return f"{f.model} is not calibrated: {write_pvalue(f.pvalue or 0.0)}{over}, at or below {limit}."


#: One sentence for each kind: a template of `_fields`, or a function where it depends on what was found.
SENTENCES: dict[str, str | Callable[[Finding], str]] = {
    "infinite_loss": _infinite_loss,
    "do_not_act": _do_not_act,
    "recalibrate": _recalibrate,
    "recalibrate_size_open": _recalibrate_size_open,
    "information_gain": _information_gain,
    "information_size_open": _information_size_open,
    "stack": "Stack the members: this gains at least {gain} over recalibrating {subject}.",
    "keep_members": _keep_members,
    "members_size_open": _members_size_open,
    "recalibration_pays": _paying("Recalibration pays"),
    "stage_choice": _stage_choice,
    "stages_alike": _stages_alike,
    "infinite_stages": _infinite_stages,
    "infinite_splits": _infinite_splits,
    "floored": _floored,
    "not_material": _not_material,
    "calibrated_enough": _calibrated_enough,
    "no_miscalibration": _no_miscalibration,
    "no_information_gain": _no_information_gain,
    "heterogeneity": "Latent states that no feature distinguishes cost at least {gain} of the loss.",
    "rest_unsplit": _rest_unsplit,
    "rest_unknowable": (
        "How much of the rest would take richer features or better data cannot be determined from data."
    ),
    "reachable_loss": (
        "A loss of {high:a3} or less is achievable with the information at hand. How much of it would take richer "
        "features or better data cannot be determined from data."
    ),
    "no_lower_loss": "No evidence of an achievable lower loss.",
    "inconclusive": _inconclusive,
    "term_doubtful": _term_doubtful,
    "members_know_more": (
        "The members carry more information than {subject}, worth at least {gain} of the loss, but no model fitted "
        "here is shown to gain it."
    ),
    "members_insufficient": (
        "The members carry more information than {subject}{p}; whether using it gains anything is open."
    ),
    "members_add_nothing": _members_add_nothing,
    "best_model": "{model} has the smallest {loss} loss, {value:a4}.",
    "not_worse": _not_worse,
    "behind": _behind,
    "calibration_refuted": "{who} is not calibrated{p}.",
    "miscalibrated_by_bound": _miscalibrated_by_bound,
    "calibration_not_refuted": "No significant miscalibration{of_model} was found{p}.",
    "event_bias": _event_bias,
    "score_spread": _score_spread,
    "segment_miscalibrated": _segment_miscalibrated,
    "segments_none": _segments_none,
    "class_miscalibrated": _class_miscalibrated,
    "classes_none": _classes_none,
    "costly_confusion": _costly_confusion,
    "segments_too_small": _segments_too_small,
    "net_benefit": _net_benefit,
    "decision_cost": _decision_cost,
    "feature_adds": _feature_adds,
    "no_feature_adds": "Taken alone, no feature adds significantly to {score} ({n} tested, Holm).",
    "no_region": _no_region,
    "changed": _changed,
    "map_gain": _map_gain,
    "map_chosen": _map_chosen,
    "recalibration_costs": _paying("Recalibration costs", -1.0),
    "recalibration_undecided": _paying("These rows do not decide whether recalibration pays"),
    "path_loses": _path_loses,
    "trained_on_rows": _trained_on_rows,
    "calibration_reused": "`calibration`= holds these very rows: C was fitted on the outcomes it is judged by.",
    "parts_share_rows": _parts_share_rows,
    "calibrator_reused": _calibrator_reused,
    "overfit": _overfit,
    "worse_than_coarser": _worse_than_coarser,
    "cells_too_coarse": _cells_too_coarse,
    "not_calibrated_version": (
        "Level {subject} predicts significantly worse than {prediction} itself: it is not a calibrated version of it, "
        "and a {term} of 0 means no more than that."
    ),
    "may_be_trained_on_rows": _may_be_trained_on_rows,
    "level_overfits": _overfit,
    "size_unknown": "There are too few rows to tell how large {term} is, only how large it is at least.",
    "few_units": _few_units,
    "few_rows": _few_rows,
    "few_surprises": (
        "Only about {value:f1} outcomes are expected to differ from the most likely class: intervals and "
        "bounds are too optimistic."
    ),
    "few_effective_rows": _few_effective_rows,
    "few_calibration_rows": "C is fitted on only {n:row} of a calibration split.",
    "few_resamples": "Only {n:replicate}: standard errors and intervals are approximate.",
    "redrawn": "{n:draw} had too few rows of a class and {were} drawn again.",
    "shifted_replicates": _shifted_replicates,
    "few_held_out_rows": (
        "{n:held-out row}, {rest} of them outside the most frequent class, are too few to recalibrate on (at least "
        "{enough} are needed): the stage is the one with the least raw loss, and its probabilities stay as they are. "
        "Hold out more rows (validation_fraction, eval_set)."
    ),
    "extrapolated": _extrapolated,
    "weights_unused": (
        "{subject}.fit does not take sample_weight: the weights are used for the map only. Enable scikit-"
        "learn's metadata routing, or pass them under the name the classifier knows."
    ),
    "inner_validation": _inner_validation,
    "reference_limit": (
        "Grouping and irreducible loss, and their intervals, are what the reference model sees: a better one would "
        "find more grouping, and no interval allows for that."
    ),
    "overlapping_splits": (
        "Splits share rows. Wilcoxon's test treats them as independent and rejects up to five times too "
        "often; the corrected t-test (Nadeau & Bengio 2003) and the interval allow for it, and are too "
        "cautious for reliabilities."
    ),
    "test_ratio_unknown": (
        "Numbers of rows are not known: pass `test_ratio`=n_test/(n_train + n_calibration) for the t-test."
    ),
    "plugin_bias": (
        "Plug-in estimates are biased by the noise of what was fitted; intervals are those of the loss differences."
    ),
    "in_sample_bias": _in_sample_bias,
    "partial_cv": _partial_cv,
    "dependent_rows": (
        "Rows come in groups: terms, their bounds and tests allow for it; intervals of summaries, bins, bands"
        " and net benefit treat rows as independent, and are too narrow."
    ),
    "zero_weight": "{n:row} of weight 0 {were} left out.",
    "edge_scores": _edge_scores,
    "impossible_outcome": "An outcome of probability 0 was observed, which alone refutes the hypothesis.",
    "quantised": _moved_by_cells,
    "unreached_scores": _unreached_scores,
    "left_out": _left_out,
    "unavailable": _unavailable,
    "approximated": _approximated,
    "order_contradicted": _order_contradicted,
    "hard_labels": _hard_labels,
    "reversed_scores": _reversed_scores,
    "separation": _separation,
    "weight_scale": _weight_scale,
    "lost_resolution": _lost_resolution,
    "shape_refuted": (
        "Somewhere the event rate falls as the score rises, significantly at {confidence_level:.4g} confidence: an "
        "isotonic band cannot follow it, and spans what the data say on either side of each score. Use method='bins' "
        "or 'kernel'."
    ),
    "file_suspect": _file_suspect,
    "law_fitted": _law_fitted,
    "law_given": _law_given,
    "computed_on": _computed_on,
    "candidates_left_out": _candidates_left_out,
    "clipped": "Probabilities are clipped to at least {value:g}.",
    "unclipped_levels": "{subject} is used as it was summed: only S and C are kept away from 0 and 1.",
    "from_sums": _from_sums,
    "folds_drawn": "{n} folds drawn within cells, {times} times: rows are treated as independent.",
    "sampled": _sampled,
    "monitor_pays": _monitor_pays,
    "monitor_open": _monitor_open,
    "monitor_segments": _monitor_segments,
    "monitor_alarm": _monitor_alarm,
    "monitor_quiet": _monitor_quiet,
    "monitor_idle": _monitor_idle,
    "monitor_minor": _monitor_minor,
    "monitor_cause": _monitor_cause,
    "monitor_segments_none": _monitor_segments_none,
    "monitor_guarantee": _monitor_guarantee,
    "read_as": _read_as,
    "assumption": _assumption,
    "gate_reliability": _gate_reliability,
    "gate_calibration": _gate_calibration,
    "gate_unknown": "The calibration of {model} could not be tested: its p-value is not known.",
}
