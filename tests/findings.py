"""What tests ask of findings, how their sentences write numbers, and the closed tables of kinds and sentences."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scoreprism import Finding
from scoreprism._findings.finding import KINDS
from scoreprism._findings.sentences import SENTENCES, STEPS, TOGETHER

__all__ = ["KINDS", "SENTENCES", "STEPS", "TOGETHER", "amount", "select"]


def select(findings: Iterable[Finding], *kinds: str) -> list[Finding]:
    """Findings of these kinds."""
    return [one for one in findings if one.kind in kinds]


def amount(value: float, digits: int = 3) -> str:
    """A number as sentences write it: so many significant digits, trailing zeros kept."""
    return np.format_float_positional(value, digits, unique=False, fractional=False, trim="k").rstrip(".")
