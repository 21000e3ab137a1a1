"""The gate of a test of calibration: which models fail it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from scoreprism._findings.finding import Finding
from scoreprism._kernels.holm import holm_by_name


def judge_calibration(
    pvalues: Mapping[str, float], alpha: float, immaterial: frozenset[str] = frozenset()
) -> list[Finding]:
    """
    Models whose calibration is refuted, Holm's method over all; those in `immaterial` gain too little to fail.

    A test without a result counts as one, and refutes nothing; but it does not pass either.
    """
    adjusted = holm_by_name({name: 1.0 if math.isnan(p) else p for name, p in pvalues.items()})
    findings = [
        Finding("gate_calibration", model=name, pvalue=p, n=len(pvalues), facts={"alpha": alpha})
        for name, p in adjusted.items()
        if p <= alpha and name not in immaterial
    ]
    return findings + [Finding("gate_unknown", model=name) for name, p in pvalues.items() if math.isnan(p)]
