"""Gates: conditions on the results under which a run fails, for the CI of models."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scoreprism.cli._options import Asked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scoreprism.decomposition import Decomposition
    from scoreprism.report import Report


def failures(report: Report, asked: Asked) -> list[str]:
    """Gates that failed, in words."""
    given, found = asked.given, []
    if given["max_reliability"] is not None:
        for name, model in report.models.items():
            first = next(iter(model.decompositions.values()))
            line = too_unreliable(name, first, given["max_reliability"], given["gate_on"], given["level"])
            found += [line] if line else []
    if given["fail_if_miscalibrated"]:
        tests = {name: model.tests["calibration"].pvalue for name, model in report.models.items()}
        found += refuted(tests, given["alpha"])
    return found


def too_unreliable(model: str, found: Decomposition, limit: float, on: str, level: float) -> str | None:
    """Why a model fails the gate on its reliability; None if it passes."""
    what, value = _judged(found, on, level)
    if value <= limit:
        return None
    said = f"{what} of the reliability of {model} ({found.loss!s} loss) is"
    if on == "upper" and math.isinf(value) and math.isfinite(found.risk) and not holds_for_any_shape(found):
        remedy = "gate on another loss, for example brier or log, or on --gate-on lower"
        return f"{said} known for smooth calibration curves only, and a gate needs one for any shape: {remedy}"
    if math.isnan(value):
        return f"{said} not known"
    if math.isinf(value):
        remedy = " (--clip judges it at a distance from 0 and 1)" if math.isinf(found.risk) else ""
        return f"{said} infinite, above --max-reliability {limit:g}{remedy}"
    return f"{said} {value:.5g}, above --max-reliability {limit:g} by {value - limit:.5g}"


def _judged(found: Decomposition, on: str, level: float) -> tuple[str, float]:
    """
    What a limit is compared with; an upper bound that cannot exist is infinite: it rules nothing out.

    One that holds for smooth calibration curves only rules nothing out either.

    An infinite estimate is no matter of chance, an outcome came true that had probability 0: every bound is infinite.
    """
    from scoreprism.exceptions import UnavailableError

    name = found.names[0]
    if on == "estimate" or found.terms[name] == math.inf:
        return "the estimate", found.terms[name]
    percent = f"{100 * level:g} %"
    try:
        if on == "lower":
            return f"the lower {percent} bound", found.lower_bound(name, level).value
        least = 0.0 if holds_for_any_shape(found) else math.inf
        return f"the upper {percent} bound", max(found.upper_bound(name, level).value, least)
    except UnavailableError:
        return f"the {on} {percent} bound", -math.inf if on == "lower" else math.inf


def holds_for_any_shape(found: Decomposition) -> bool:
    """Whether the upper bound of the reliability holds whatever the shape of P(Y | S)."""
    return found._inference(found.names[0]).any_shape


def refuted(pvalues: Mapping[str, float], alpha: float) -> list[str]:
    """Models whose calibration is refuted, in words."""
    from scoreprism._kernels.holm import holm

    over = f" (Holm over {len(pvalues)} models)" if len(pvalues) > 1 else ""
    unknown = [name for name, p in pvalues.items() if math.isnan(p)]
    # a test without a result counts as one, and refutes nothing; but it does not pass either
    adjusted = zip(pvalues, holm([1.0 if math.isnan(p) else p for p in pvalues.values()]), strict=True)
    found = [
        f"the calibration of {name} is refuted: p = {p:.4g}{over}, at or below --alpha {alpha:g}"
        for name, p in adjusted
        if p <= alpha
    ]
    return found + [f"the calibration of {name} could not be tested: its p-value is not known" for name in unknown]
