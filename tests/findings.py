"""What tests ask of findings."""

from __future__ import annotations

from collections.abc import Iterable

from scoreprism import Finding


def select(findings: Iterable[Finding], *kinds: str) -> list[Finding]:
    """Findings of these kinds."""
    return [one for one in findings if one.kind in kinds]
