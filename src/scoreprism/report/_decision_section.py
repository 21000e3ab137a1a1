"""Section 5: what the score is worth for decisions, threshold by threshold."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from scoreprism._document.model import Block, Figure, Range, Section, Table, make_table
from scoreprism._findings.finding import Finding
from scoreprism._findings.wording import call_model, enumerate_words, write_percent
from scoreprism.curves import NetBenefit, net_benefit
from scoreprism.displays import (
    MurphyDecompositionDisplay,
    NetBenefitDisplay,
    RocDisplay,
)
from scoreprism.report._pieces import draw_with, figure, thin
from scoreprism.report._report import SECTIONS
from scoreprism.report._subject import Case

#: Thresholds that tables give.
_THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def make_decisions(case: Case) -> Section | None:
    """The fifth section: of two classes, where rows are known."""
    if not case.binary or not case.has_rows:
        return None
    benefits = [net_benefit(m.sample, confidence_level=case.level, name=m.name) for m in case.models.values()]
    blocks: list[Block] = [_make_murphy(case), _tabulate_losses(case), _make_benefit(case, benefits), _make_roc(case)]
    lead = (_find_benefit(case, benefits[0]), _find_cost(case))
    return Section("decisions", SECTIONS["decisions"], lead, tuple(blocks))


def _find_benefit(case: Case, benefit: NetBenefit) -> Finding:
    """Where acting on the score is shown, or estimated, to pay."""
    usual = np.maximum(benefit.act_on_all, 0.0)
    shown, estimated = benefit.low > usual, benefit.benefit > usual + 1e-12
    about: dict[str, Any] = {"model": benefit.name, "confidence_level": case.level}
    if not estimated.any():
        return Finding("net_benefit", **about)
    ends = _find_ends(benefit, shown if shown.any() else estimated)
    return Finding("net_benefit", **about, facts={"thresholds": list(ends), "shown": bool(shown.any())})


def _find_cost(case: Case) -> Finding:
    """What miscalibration costs decisions at most, and where most if there is any."""
    found = case.first.decision_loss
    about: dict[str, Any] = {"model": case.first.name, "high": float(found.bound), "confidence_level": case.level}
    if not case.is_miscalibrated(case.first):
        return Finding("decision_cost", **about)
    return Finding("decision_cost", value=float(found.value), **about, facts={"threshold": float(found.threshold)})


def _find_ends(benefit: NetBenefit, holds: Any) -> tuple[float, float]:
    """First and last threshold of the longest run."""
    low, high = benefit.thresholds[list(_find_longest_run(holds))]
    return float(low), float(high)


def _find_longest_run(holds: Any) -> tuple[int, int]:
    """First and last place of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(holds, dtype=int), [0]])))
    starts, stops = edges[::2], edges[1::2]
    best = int(np.argmax(stops - starts))
    return int(starts[best]), int(stops[best]) - 1


def _make_murphy(case: Case) -> Figure:
    curve = case.first.murphy
    places = [int(np.argmin(np.abs(curve.theta - t))) for t in _THRESHOLDS]
    columns = [("threshold", "threshold", "short"), *((name, name, "number") for name in curve.names)]
    rows = [(float(curve.theta[i]), *(float(v) for v in curve.values[i])) for i in places]
    data = make_table("murphy-data", "Terms of the elementary loss", columns, rows)
    draw = draw_with(MurphyDecompositionDisplay([curve]))
    name = call_model(curve.name)
    described = (
        f"The terms of {name} ({', '.join(curve.names)}) against the decision threshold. Every proper loss is "
        "a weighted mean of these curves."
    )
    muted = case.first.decompositions[case.loss].muted
    if muted:
        described += f" The border between {enumerate_words(muted)} is mostly noise here."
    return figure("murphy", f"At which decisions {name} loses", described, draw, data, size=(4.6, 3.3))


def _tabulate_losses(case: Case) -> Table:
    """The largest loss from miscalibration of every model; of two, also how much more each loses than the other."""
    found = [(case.label(model), model.decision_loss) for model in case.models.values()]
    for model, other in permutations(case.models.values(), 2) if len(case.models) == 2 else ():
        found.append((f"{model.name}, more than {other.name}", model.murphy.decision_loss(other.murphy)))
    rows = [(name, one.value, one.threshold, one.bound, one.cdl, one.cdl_bound) for name, one in found]
    columns = [
        ("model", "model", "text"), ("value", "largest cost", "amount"), ("threshold", "at threshold", "digits"),
        ("bound", "at most, at any threshold", "amount"), ("cdl", "any decision", "amount"),
        ("cdl_bound", "any decision, at most", "amount"),
    ]  # fmt: skip
    note = (
        f"The bounds hold at all thresholds at once, at {write_percent(case.level)} confidence, if the event rate does "
        "not cross a threshold within cells of √n neighbouring scores. “Any decision” is the most that any decision "
        "with payoffs in [0, 1] loses, however many actions there are (Hu & Wu 2024)."
    )
    return make_table("decision-loss", "What miscalibration costs decisions", columns, rows, note)


def _make_benefit(case: Case, benefits: list[NetBenefit]) -> Figure:
    rows = []
    for curve in benefits:
        for t in _THRESHOLDS:
            i = int(np.argmin(np.abs(curve.thresholds - t)))
            interval = Range(float(curve.low[i]), float(curve.high[i]))
            rows.append(
                (
                    curve.name if len(benefits) > 1 else None,
                    float(curve.thresholds[i]),
                    float(curve.benefit[i]),
                    interval,
                    float(curve.act_on_all[i]),
                )
            )
    columns = [
        ("model", "model", "text"), ("threshold", "threshold", "short"), ("benefit", "net benefit", "number"),
        ("interval", f"{write_percent(case.level)} interval", "number"), ("all", "acting on everyone", "number"),
    ]  # fmt: skip
    data = make_table("net-benefit-data", "Net benefit", columns, rows, "Acting on no one has a net benefit of 0.")
    draw = draw_with(NetBenefitDisplay(benefits))
    described = "Net benefit against the decision threshold, compared with acting on everyone and on no one."
    title = "Net benefit of acting on the score"
    return figure("net-benefit", title, described, draw, data, size=(4.8, 3.4), lines=len(benefits))


def _make_roc(case: Case) -> Figure:
    curves = [model.roc for model in case.models.values()]
    rows = [
        (c.name if len(curves) > 1 else None, float(c.fpr[i]), float(c.tpr[i]))
        for c in curves
        for i in thin(c.fpr.size, 11)
    ]
    columns = [("model", "model", "text"), ("fpr", "false alarms", "short"), ("tpr", "hits", "short")]
    areas = ", ".join(f"{c.name} {c.auc:.3f}" for c in curves)
    data = make_table("roc-data", "ROC curve", columns, rows, f"Area: {areas}.")
    draw = draw_with(RocDisplay(curves))
    described = f"Share of events found against share of false alarms. Area under the curve: {areas}."
    title = "ROC curve: how well events are told from the rest"
    return figure("roc", title, described, draw, data, size=(4.1, 4.3), lines=len(curves))
