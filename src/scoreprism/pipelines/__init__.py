"""Uncertainty of whole pipelines: bootstraps that refit, repeated splits, paired comparisons (appendices C and D)."""

from __future__ import annotations

from scoreprism.pipelines._paired import PairedComparison, PairedLine, paired_comparison
from scoreprism.pipelines._splits import repeated_splits
from scoreprism.pipelines._splits_summary import SplitsSummary, splits_summary

__all__ = [
    "PairedComparison",
    "PairedLine",
    "SplitsSummary",
    "paired_comparison",
    "repeated_splits",
    "splits_summary",
]
