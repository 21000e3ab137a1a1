"""Decompositions and what they are made of: levels, chains, terms, intervals; finite populations; CORP."""

from __future__ import annotations

from scoreprism._core.logits import Logits
from scoreprism._document.result import Contributions
from scoreprism._findings.finding import Finding
from scoreprism._kernels.term_intervals import Bound, Interval
from scoreprism._sample.level import Level
from scoreprism._sample.sample import Sample
from scoreprism.decomposition._chain import Chain
from scoreprism.decomposition._classical import corp_decomposition, resolution_decomposition
from scoreprism.decomposition._conclusions import Summary
from scoreprism.decomposition._decompositions import Comparison, SegmentDecompositions
from scoreprism.decomposition._finite import FiniteModel
from scoreprism.decomposition._result import Decomposition, PairedDifference

__all__ = [
    "Bound",
    "Chain",
    "Comparison",
    "Contributions",
    "Decomposition",
    "Finding",
    "FiniteModel",
    "Interval",
    "Level",
    "Logits",
    "PairedDifference",
    "Sample",
    "SegmentDecompositions",
    "Summary",
    "corp_decomposition",
    "resolution_decomposition",
]
