"""What a report concludes: which model is best, what to do about each, what to be careful about, which gates fail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from scoreprism._findings.finding import Finding, of_severity, select
from scoreprism._findings.sentences import say_briefly, say_headline, say_ranking
from scoreprism._findings.wording import plural
from scoreprism._kernels.term_intervals import quantile
from scoreprism.decomposition import Decomposition, PairedDifference
from scoreprism.exceptions import UnavailableError
from scoreprism.report._subject import FREE, Case, Subject

#: Fewer rows, or fewer outcomes of the rarer class, than these deserve a caution.
FEW_ROWS, FEW_OUTCOMES = 200, 20
#: Cautions about one model that stand elsewhere in a report: in the tables of terms, of calibration and of methods.
_ELSEWHERE = (
    "size_unknown", "level_overfits", "edge_scores", "quantised", "unreached_scores", "partial_cv", "zero_weight",
    "plugin_bias", "in_sample_bias", "infinite_loss", "floored",
)  # fmt: skip


def write_headline(case: Case) -> str:
    """The verdict in a sentence or two, from bounds and tests alone."""
    if len(case.models) > 1:
        return _write_ranking(case)
    model = case.first
    result = model.basis(case.loss)
    where = plural(result.n_units, "group" if model.clustered else "row")
    headline = say_headline(model.called, case.loss, result.risk, case.conclusions[model.name], where)
    return " ".join([headline, *map(say_briefly, select(case.findings, "changed", "segment_miscalibrated"))])


def _write_ranking(case: Case) -> str:
    order = rank_models(case)
    best = order[0]
    result = best.basis(case.loss)
    infinite = [model.name for model in order if math.isinf(model.decompositions[case.loss].risk)]
    actions: dict[str, list[str]] = {}
    for model in order:
        for one in case.conclusions[model.name]:
            actions.setdefault(one.kind, []).append(model.name)
    if not math.isfinite(result.risk):
        return say_ranking(None, (), infinite, actions, case.loss)
    facts = {} if result.floor is None else {"floor": result.floor}
    found = Finding("best_model", model=best.name, value=result.risk, facts={"loss": case.loss, **facts})
    alike = [
        other.name
        for other in order[1:]
        if case.has_rows
        and (other.name in infinite) == (best.name in infinite)
        and not find_gap(case, best, other)[0] > 0.0
    ]
    return say_ranking(found, alike, infinite, actions, case.loss)


def rank_models(case: Case) -> list[Subject]:
    """The models, smallest loss first; those that are infinite last, in the order they have at the floor."""

    def size(model: Subject) -> tuple[float, float]:
        return model.decompositions[case.loss].risk, model.basis(case.loss).risk

    return sorted(case.models.values(), key=size)


def find_gap(case: Case, best: Subject, other: Subject, *, floored: bool = False) -> tuple[float, float]:
    """Interval of the difference of two losses, paired; of both at the floor, where one is infinite or `floored`."""
    gap = other.decompositions[case.loss].minus(best.decompositions[case.loss])
    if (floored or not math.isfinite(gap.risk)) and gap.floored is not None:
        gap = gap.floored
    return find_gap_interval(gap, case.level)


def find_gap_interval(gap: PairedDifference, level: float) -> tuple[float, float]:
    """Interval of the difference of two losses."""
    reach = quantile(level, two_sided=True) * gap.risk_std_error
    return float(gap.risk - reach), float(gap.risk + reach)


def find_cautions(case: Case) -> list[Finding]:
    """Everything a reader must be careful about, each once."""
    found = _find_few_rows(case.first)
    found += [Finding("dependent_rows")] if case.first.clustered else []
    found += case.findings
    for name, model in case.models.items():
        own = [*model.findings, *of_severity(model.main.findings, "doubt", "caution")]
        own = [one for one in own if one.kind not in _ELSEWHERE]
        found += [one.about(name) for one in own] if len(case.models) > 1 else own
    reasons = [one.because for name in case.models for one in case.conclusions[name]]  # given with the actions
    first: dict[Any, Finding] = {}
    for one in found:
        if one not in reasons:
            first.setdefault((one.kind, one.model, one.subject, one.term, str(one.facts.get("reason", ""))), one)
    return list(first.values())


def _find_few_rows(model: Subject) -> list[Finding]:
    counts = model.outcomes
    n, rarest = int(counts.sum()), int(counts.min())
    if n >= FEW_ROWS and (rarest >= FEW_OUTCOMES or model.k > FREE):  # terms do not hang on one of many classes
        return []
    label = model.labels[int(counts.argmin())]
    return [Finding("few_rows", n=n, subject=label, facts={"count": rarest})]


# ── gates ───────────────────────────────────────────────────────────────────────────────────────────


def judge_reliability(models: Mapping[str, Decomposition], limit: float, on: str, level: float) -> list[Finding]:
    """Models whose reliability is above a limit: its estimate, or a bound."""
    found = []
    for name, result in models.items():
        value = _find_judged_value(result, on, level)
        if value <= limit:
            continue
        facts = {"limit": limit, "on": on, "loss": str(result.loss), "infinite_loss": math.isinf(result.risk)}
        if on == "upper" and math.isinf(value) and math.isfinite(result.risk) and not holds_for_any_shape(result):
            facts["smooth_only"] = True
        known = None if math.isnan(value) else value
        found.append(Finding("gate_reliability", model=name, value=known, confidence_level=level, facts=facts))
    return found


def _find_judged_value(result: Decomposition, on: str, level: float) -> float:
    """
    What a limit is compared with; an upper bound that cannot exist is infinite: it rules nothing out.

    One that holds for smooth calibration curves only rules nothing out either. An infinite estimate is no matter of
    chance, an outcome came true that had probability 0: every bound is infinite.
    """
    name = result.names[0]
    if on == "estimate" or result.terms[name] == math.inf:
        return result.terms[name]
    try:
        if on == "lower":
            return result._inference(name).lower_bound(level).value
        return max(result._inference(name).upper_bound(level).value, 0.0 if holds_for_any_shape(result) else math.inf)
    except UnavailableError:
        return -math.inf if on == "lower" else math.inf


def holds_for_any_shape(result: Decomposition) -> bool:
    """Whether the upper bound of the reliability holds whatever the shape of P(Y | S)."""
    return bool(result._inference(result.names[0]).any_shape)
