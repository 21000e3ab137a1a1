"""Section 5: what the score is worth for decisions, threshold by threshold."""

from __future__ import annotations

from typing import Any

import numpy as np

from scoreprism.curves import NetBenefit, murphy_curve, net_benefit
from scoreprism.displays import (
    MurphyDecompositionDisplay,
    MurphyDisplay,
    NetBenefitDisplay,
    ReliabilityDisplay,
    RocDisplay,
    TriptychDisplay,
)
from scoreprism.report._model import Block, Figure, Section, Table, show
from scoreprism.report._pieces import ends, enumerated, figure, table, thinned
from scoreprism.report._report import SECTIONS
from scoreprism.report._subject import RowCase

#: Thresholds that tables give.
_THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def decisions(case: RowCase) -> Section | None:
    """The fifth section."""
    if not case.binary:
        return None
    benefits = [net_benefit(m.sample, level=case.level, name=m.name) for m in case.models.values()]
    blocks: list[Block] = [_murphy(case), _losses(case), _benefit(case, benefits), _roc(case), _triptych(case)]
    return Section("decisions", SECTIONS["decisions"], _meaning(case, benefits[0]), tuple(blocks))


def _meaning(case: RowCase, benefit: NetBenefit) -> str:
    """Where acting on the score is shown to pay, and where miscalibration costs, if there is any."""
    usual = np.maximum(benefit.act_on_all, 0.0)
    shown, estimated = benefit.low > usual, benefit.benefit > usual + 1e-12
    if shown.any():
        beats = f"The net benefit of acting on {benefit.name} lies above those of acting on all and on none"
        said = f"{beats}, with its {case.percent} interval, at thresholds {_between(benefit, shown)}"
    elif estimated.any():
        where = f"at thresholds {_between(benefit, estimated)}, but its interval at none"
        said = (
            f"The net benefit of acting on {benefit.name} is estimated above those of acting on all and on none {where}"
        )
    else:
        said = f"At no threshold is acting on {benefit.name} estimated to beat acting on all or on none"
    return f"{said}. {_miscalibration(case)}"


def _miscalibration(case: RowCase) -> str:
    """What miscalibration costs decisions at most, and where most if there is any."""
    found = case.first.decision_loss
    costs = "(a false alarm at threshold θ costs θ, a miss 1 − θ)"
    sure, bound = f"with {case.percent} confidence", show(found.bound, "digits")
    if not case.first.miscalibrated:
        return f"Whatever the threshold, miscalibration costs at most {bound} per decision, {sure} {costs}."
    most = f"Miscalibration costs most at thresholds around {found.threshold:.2g}"
    estimate = f"an estimated {show(found.value, 'digits')} per decision"
    return f"{most}: {estimate}, and at most {bound} at any threshold, {sure} {costs}."


def _between(benefit: NetBenefit, holds: Any) -> str:
    low, high = benefit.thresholds[list(longest_run(holds))]
    return f"between {low:.2g} and {high:.2g}"


def longest_run(holds: Any) -> tuple[int, int]:
    """First and last place of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(holds, dtype=int), [0]])))
    starts, stops = edges[::2], edges[1::2]
    best = int(np.argmax(stops - starts))
    return int(starts[best]), int(stops[best]) - 1


def _murphy(case: RowCase) -> Figure:
    curve = case.first.murphy
    places = [int(np.argmin(np.abs(curve.theta - t))) for t in _THRESHOLDS]
    columns = [("threshold", "threshold", "short"), *((name, name, "number") for name in curve.names)]
    rows = [(float(curve.theta[i]), *(float(v) for v in curve.values[i])) for i in places]
    data = table("murphy-data", "Terms of the elementary loss", columns, rows)

    def draw(ax: Any) -> None:
        MurphyDecompositionDisplay([curve]).plot(ax)

    described = (
        f"The terms of {curve.name} against the decision threshold: {', '.join(curve.names)}; every "
        "proper loss is a weighted mean of these curves."
    )
    muted = case.first.decompositions[case.loss].muted
    if muted:
        described += f" The border between {enumerated(muted)} is mostly noise here."
    return figure("murphy", f"At which decisions {curve.name} loses", described, draw, data, size=(4.6, 3.3))


def _losses(case: RowCase) -> Table:
    """The largest loss from miscalibration of every model, and how much more than the first the others lose."""
    first, *others = case.models.values()
    found = [(model.name, model.decision_loss) for model in case.models.values()]
    for model in others:
        found.append((f"{model.name} beyond {first.name}", model.murphy.decision_loss(first.murphy)))
        found.append((f"{first.name} beyond {model.name}", first.murphy.decision_loss(model.murphy)))
    rows = [(name, one.value, one.threshold, one.bound, one.cdl, one.cdl_bound) for name, one in found]
    columns = [
        ("model", "model", "text"), ("value", "largest loss", "loss"), ("threshold", "at threshold", "digits"),
        ("bound", "at most, at any", "loss"), ("cdl", "payoffs in [0, 1]: largest", "loss"),
        ("cdl_bound", "at most", "loss"),
    ]  # fmt: skip
    note = (
        f"The bounds hold at all thresholds at once, with {case.percent} confidence, if the event rate does not cross "
        "a threshold within cells of √n neighbouring scores. Payoffs in [0, 1]: the most that any decision with such "
        "payoffs loses, however many actions there are (Hu & Wu 2024)."
    )
    return table("decision-loss", "What miscalibration costs decisions at most", columns, rows, note)


def _benefit(case: RowCase, benefits: list[NetBenefit]) -> Figure:
    rows = []
    for curve in benefits:
        for t in _THRESHOLDS:
            i = int(np.argmin(np.abs(curve.thresholds - t)))
            interval = ends(float(curve.low[i]), float(curve.high[i]))
            rows.append(
                (curve.name, float(curve.thresholds[i]), float(curve.benefit[i]), interval, float(curve.act_on_all[i]))
            )
    columns = [
        ("model", "model", "text"), ("threshold", "threshold", "short"), ("benefit", "net benefit", "number"),
        ("interval", f"{case.percent} interval", "number"), ("all", "acting on all", "number"),
    ]  # fmt: skip
    data = table("net-benefit-data", "Net benefit", columns, rows, "Acting on none has the net benefit 0.")

    def draw(ax: Any) -> None:
        NetBenefitDisplay(benefits).plot(ax)

    described = "Net benefit against the decision threshold, beside acting on all and acting on none."
    return figure(
        "net-benefit",
        "Net benefit of acting on the score",
        described,
        draw,
        data,
        size=(4.8, 3.4 + 0.17 * max(len(benefits) - 3, 0)),
    )


def _roc(case: RowCase) -> Figure:
    curves = [model.roc for model in case.models.values()]
    rows = [(c.name, float(c.fpr[i]), float(c.tpr[i])) for c in curves for i in thinned(c.fpr.size, 11)]
    columns = [("model", "model", "text"), ("fpr", "false alarms", "short"), ("tpr", "hits", "short")]
    areas = ", ".join(f"{c.name} {c.auc:.3f}" for c in curves)
    data = table("roc-data", "ROC curve", columns, rows, f"Area: {areas}.")

    def draw(ax: Any) -> None:
        RocDisplay(curves).plot(ax)

    described = (
        f"Share of events found against share of false alarms, and the concave hull. Area under the curve: {areas}."
    )
    return figure(
        "roc",
        "ROC curve: what the score tells apart",
        described,
        draw,
        data,
        size=(4.1, 4.3 + 0.17 * max(len(curves) - 3, 0)),
    )


def _triptych(case: RowCase) -> Figure:
    models = case.models.values()
    columns = [("model", "model", "text"), ("auc", "AUC", "short"), ("brier", "Brier loss", "number")]
    rows = [(m.name, m.roc.auc, float(np.average((m.law - m.y) ** 2, weights=m.weight))) for m in models]
    data = table("triptych-data", "Triptych in numbers", columns, rows)
    curves = [murphy_curve(m.sample, name=m.name) for m in models]
    reliability, roc = [m.reliability for m in models], [m.roc for m in models]

    def draw(ax: Any) -> None:
        TriptychDisplay(MurphyDisplay(curves), ReliabilityDisplay(reliability), RocDisplay(roc)).plot(ax)

    described = (
        "Three views of the same scores: calibration (reliability diagram), discrimination (ROC curve), "
        "and overall value for decisions (Murphy curve)."
    )
    return figure(
        "triptych", "Triptych: performance, calibration, discrimination", described, draw, data, size=(7.4, 2.9)
    )
