"""Advice on an ensemble: recalibrate its aggregate, stack, keep the vector, or leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scoreprism.decomposition._advice import widest

if TYPE_CHECKING:
    from scoreprism.ensembles._aggregation import AggregationDecomposition


def advised(found: AggregationDecomposition) -> list[str]:
    """What to do with an ensemble, in sentences that follow from lower bounds."""
    whole, level = found.decomposition, found.level
    if not np.isfinite(whole.risk):
        return ["The loss is infinite: keep the members away from 0 and 1 first, or pass clip=."]
    if found._ensemble.doubts:
        return [f"Do not act on these terms: {note}." for note in found._ensemble.doubts]
    lines = []
    reliability = whole.lower_bound("reliability", level).value
    if reliability > 0.0:
        lines.append(
            f"Recalibrate {found.aggregate}: that gains at least {_share(reliability, whole.risk)} of the loss."
        )
    else:
        lines.append(_on_no_reliability(found))
    stacking = _on_stacking(found)
    lines += stacking
    doubts = dict(whole._doubts)
    if 2 in doubts:
        return [*lines, f"Nothing is said of what else the members know beyond {found.aggregate}: {doubts[2]}"]
    projection = whole.lower_bound("projection", level).value
    if projection > 0.0:
        lines += _on_projection(found, projection, stacked=bool(stacking))
    elif not stacking:
        lines.append(_on_no_projection(found))
    if "grouping" in found.names and 3 not in doubts:
        grouping = whole.lower_bound("grouping", level).value
        if grouping > 0.0:
            least = _share(grouping, whole.risk)
            lines.append(f"The features know more than all members together: a better model gains at least {least}.")
    return lines


def _on_no_reliability(found: AggregationDecomposition) -> str:
    """A test may see miscalibration of which it is not shown that removing it gains anything."""
    whole = found.decomposition
    p = whole.calibration_pvalue
    if p is None or p > 1.0 - found.level + 1e-12:
        return f"No miscalibration of {found.aggregate} is shown."
    return (
        f"{found.aggregate[0].upper()}{found.aggregate[1:]} is not calibrated (p = {p:.2g}), but that recalibration "
        f"lowers the loss is not shown: it gains between 0 and {widest(whole, found.level)}."
    )


def _on_stacking(found: AggregationDecomposition) -> list[str]:
    """What a logistic stacker gains, fitted to these very rows; no law of the members is needed to know it."""
    if "stack" not in found.actions.names:
        return []
    least = found.actions.least("stack", "recalibrate", found.level)
    gain = _share(least, found.decomposition.risk)
    return [f"Stack instead: that gains at least {gain} over recalibrating {found.aggregate}."] if least > 0.0 else []


def _on_no_projection(found: AggregationDecomposition) -> str:
    """A test may see what is too small to gain."""
    test = found.sufficiency
    if test is not None and test.pvalue < 1.0 - found.level:
        p = f"sufficiency is refuted, p = {test.pvalue:.2g}"
        return f"The members know more than {found.aggregate} ({p}), but that it would gain anything is not shown."
    return f"That the members know more than {found.aggregate} is not shown: one number may do."


def _on_projection(found: AggregationDecomposition, least: float, *, stacked: bool) -> list[str]:
    """Members know more than their aggregate: something richer than a stacker may use it."""
    actions, risk = found.actions, found.decomposition.risk
    over, what = ("stack", "stacking") if stacked else ("recalibrate", f"recalibrating {found.aggregate}")
    beyond = actions.least("keep the vector", over, found.level)
    if beyond > 0.0:
        gain = _share(beyond, risk)
        return [
            f"Keep the vector: a model of the members richer than a logistic one gains at least {gain} over {what}."
        ]
    if stacked:
        return []
    known = f"The members know more than {found.aggregate}, at least {_share(least, risk)}"
    return [f"{known}; that a fit to these rows would gain it is not shown."]


def _share(value: float, risk: float) -> str:
    return f"{value:.3g} ({100 * value / risk:.2g} %)" if risk > 0.0 else f"{value:.3g}"
