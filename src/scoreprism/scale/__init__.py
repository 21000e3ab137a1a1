"""The same decomposition where the data lives: one pass in the engine that holds it, sums back, laws fitted to sums."""

from __future__ import annotations

from scoreprism.scale._apply import apply
from scoreprism.scale._decompose_columns import decompose, summarize
from scoreprism.scale._drift import Drift
from scoreprism.scale._engines import ENGINES, scan
from scoreprism.scale._partial import Partial
from scoreprism.scale._scaled_result import ClassDecomposition, ScaledDecomposition
from scoreprism.scale._shift import Shifts

__all__ = [
    "ENGINES",
    "ClassDecomposition",
    "Drift",
    "Partial",
    "ScaledDecomposition",
    "Shifts",
    "apply",
    "decompose",
    "scan",
    "summarize",
]
