"""decompose(): estimated decompositions; the same by segment, and for several models."""

from __future__ import annotations

from scoreprism.estimation._decompose import decompose

__all__ = ["decompose"]
