"""Ensembles: pools and stacking, what aggregation costs, and models that grow stage by stage (paper, section 5)."""

from __future__ import annotations

__all__: list[str] = []
