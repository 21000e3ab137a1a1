"""What tests ask of findings, and how their sentences write numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scoreprism import Finding


def select(findings: Iterable[Finding], *kinds: str) -> list[Finding]:
    """Findings of these kinds."""
    return [one for one in findings if one.kind in kinds]


def amount(value: float, digits: int = 3) -> str:
    """A number as sentences write it: so many significant digits, trailing zeros kept."""
    return np.format_float_positional(value, digits, unique=False, fractional=False, trim="k").rstrip(".")
