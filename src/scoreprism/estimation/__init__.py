"""decompose(): estimated decompositions; the same by segment, and for several models."""

from __future__ import annotations

from scoreprism.estimation._compare import Comparison, compare
from scoreprism.estimation._decompose import decompose
from scoreprism.estimation._segments import SegmentDecompositions, decompose_by

__all__ = ["Comparison", "SegmentDecompositions", "compare", "decompose", "decompose_by"]
